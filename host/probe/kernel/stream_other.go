//go:build !amd64 && !arm64

package kernel

// Sets is plain Go alone.
func Sets() [][]Stream { return [][]Stream{Portable()} }

func archStreams() []Stream { return Portable() }
