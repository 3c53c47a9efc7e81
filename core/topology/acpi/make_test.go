package acpi

import (
	"encoding/binary"
	"slices"
)

// table makes a table of body with a header and a right checksum.
func table(signature string, revision byte, body []byte) []byte {
	t := make([]byte, headerLen, headerLen+len(body))
	copy(t, signature)
	t[8] = revision
	copy(t[10:], "HOMEND")
	t = append(t, body...)
	binary.LittleEndian.PutUint32(t[4:], uint32(len(t)))
	return seal(t)
}

// seal puts the checksum right.
func seal(t []byte) []byte {
	if len(t) <= 9 {
		return t
	}
	t[9] = 0
	var sum byte
	for _, b := range t {
		sum += b
	}
	t[9] = -sum
	return t
}

func le(values ...any) []byte {
	var b []byte
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}

func apic(domain, id uint32, flags uint32) []byte {
	return le(uint8(0), uint8(16), uint8(domain), uint8(id), flags, uint8(0), uint8(domain>>8), uint8(domain>>16), uint8(domain>>24), uint32(0))
}

func memory(domain uint32, base, length uint64, flags uint32) []byte {
	return le(uint8(1), uint8(40), domain, uint16(0), base, length, uint32(0), flags, uint64(0))
}

func x2apic(domain, id, flags uint32) []byte {
	return le(uint8(2), uint8(24), uint16(0), domain, id, flags, uint32(0), uint32(0))
}

func gicc(domain, id, flags uint32) []byte {
	return le(uint8(3), uint8(18), domain, id, flags, uint32(0))
}

func initiator(domain, flags uint32) []byte {
	return slices.Concat(le(uint8(5), uint8(32), uint8(0), uint8(0), domain), make([]byte, 16), le(flags, uint32(0)))
}

func srat(revision byte, entries ...[]byte) []byte {
	return table("SRAT", revision, slices.Concat(append([][]byte{make([]byte, 12)}, entries...)...))
}

func slit(rows ...[]byte) []byte {
	return table("SLIT", 1, slices.Concat(le(uint64(len(rows))), slices.Concat(rows...)))
}

func hmat(revision byte, structures ...[]byte) []byte {
	return table("HMAT", revision, slices.Concat(append([][]byte{make([]byte, 4)}, structures...)...))
}

func attached(from, to uint32) []byte {
	return slices.Concat(le(uint16(0), uint16(0), uint32(40), uint16(1), uint16(0), from, to), make([]byte, 20))
}

func locality(data Data, unit uint64, from, to []uint32, values ...uint16) []byte {
	body := le(uint8(0), uint8(data), uint8(0), uint8(0), uint32(len(from)), uint32(len(to)), uint32(0), unit, from, to, values)
	return slices.Concat(le(uint16(1), uint16(0), uint32(len(body)+8)), body)
}

func sideCache(domain uint32, size uint64, level uint32) []byte {
	return le(uint16(2), uint16(0), uint32(32), domain, uint32(0), size, level<<4, uint16(0), uint16(0))
}
