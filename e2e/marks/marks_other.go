//go:build !amd64

package marks

const amd64Only = "access counting needs amd64"

// Write has no instruction to say it with here; the rig's guests are amd64.
func Write(tag uint32) { panic(amd64Only) }

// From has none either.
func From(start uint32) { panic(amd64Only) }

// To has none either.
func To(end uint32) { panic(amd64Only) }

// Here has none either.
func Here(cpu uint32) { panic(amd64Only) }
