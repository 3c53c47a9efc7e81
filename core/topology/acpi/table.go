package acpi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// headerLen is the length of the header all tables begin with (ACPI 6.5, 5.2.6).
const headerLen = 36

// Errors that callers tell apart.
var (
	ErrShort     = errors.New("the table is cut off")
	ErrSignature = errors.New("not that table")
	ErrChecksum  = errors.New("the checksum is wrong")
)

// header checks what all tables share and returns the table's own bytes.
func header(data []byte, signature string) (table []byte, revision byte, err error) {
	if len(data) < headerLen {
		return nil, 0, fmt.Errorf("read %s: %d bytes: %w", signature, len(data), ErrShort)
	}
	if string(data[:4]) != signature {
		return nil, 0, fmt.Errorf("read %s: it begins with %q: %w", signature, data[:4], ErrSignature)
	}
	n := int64(binary.LittleEndian.Uint32(data[4:]))
	if n < headerLen || n > int64(len(data)) {
		return nil, 0, fmt.Errorf("read %s: length %d of %d bytes: %w", signature, n, len(data), ErrShort)
	}
	table = data[:n]
	var sum byte
	for _, b := range table {
		sum += b
	}
	if sum != 0 {
		return nil, 0, fmt.Errorf("read %s: %w", signature, ErrChecksum)
	}
	return table, table[8], nil
}

func u16(b []byte, at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
func u64(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// Domain is a proximity domain.
type Domain uint32

// Anonymous is a table with zeros for the names of the firmware's and the
// table's makers (bytes 10 to 35 of the header), and a checksum that fits.
func Anonymous(data []byte, signature string) ([]byte, error) {
	table, _, err := header(data, signature)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), table...)
	clear(out[10:headerLen])
	out[9] = 0
	var sum byte
	for _, b := range out {
		sum += b
	}
	out[9] = -sum
	return out, nil
}
