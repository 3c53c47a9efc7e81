package acpi

import "fmt"

// SLIT is the System Locality Information Table: relative distances, row from,
// column to, local 10. Rows go by proximity domain, 0 and up.
type SLIT struct{ Distances [][]uint8 }

// ParseSLIT reads a whole table. It judges no value; doctor does.
func ParseSLIT(data []byte) (*SLIT, error) {
	t, _, err := header(data, "SLIT")
	if err != nil {
		return nil, err
	}
	const entries = headerLen + 8
	if len(t) < entries {
		return nil, fmt.Errorf("read SLIT: %d bytes: %w", len(t), ErrShort)
	}
	n := u64(t, headerLen)
	// n ≤ 2^16 keeps n × n inside 64 bits.
	if n > 1<<16 || n*n > uint64(len(t)-entries) {
		return nil, fmt.Errorf("read SLIT: %d localities in %d bytes: %w", n, len(t), ErrShort)
	}
	s := &SLIT{Distances: make([][]uint8, n)}
	for i := range s.Distances {
		at := entries + i*int(n)
		s.Distances[i] = append([]uint8(nil), t[at:at+int(n)]...)
	}
	return s, nil
}
