package acpi

import (
	"fmt"
	"math"
)

// HMAT is the Heterogeneous Memory Attribute Table. The kernel shows only the
// values of a node's nearest initiators; the table may hold all pairs.
type HMAT struct{ Tables []Locality }

// Data is what a Locality tells.
type Data uint8

// Kinds of Locality.
const (
	AccessLatency Data = iota
	ReadLatency
	WriteLatency
	AccessBandwidth
	ReadBandwidth
	WriteBandwidth
)

// Locality is latency (ns) or bandwidth (MB/s) by initiator and target.
type Locality struct {
	Cache      uint8 // 0 the memory itself, else the level of its memory-side cache
	Data       Data
	Initiators []Domain
	Targets    []Domain
	Values     [][]float64 // NaN where the firmware gives none; +Inf latency and 0 bandwidth where unreachable
}

// Kinds of structures and their least lengths.
const (
	hmatDomains  = 0 // Memory Proximity Domain Attributes
	hmatLocality = 1 // System Locality Latency and Bandwidth Information
	hmatCaches   = 2 // Memory Side Cache Information
)

var hmatLengths = map[uint16]int{hmatDomains: 40, hmatLocality: 32, hmatCaches: 32}

// ParseHMAT reads a whole table for its localities. Other structures are skipped.
func ParseHMAT(data []byte) (*HMAT, error) {
	t, revision, err := header(data, "HMAT")
	if err != nil {
		return nil, err
	}
	const structures = headerLen + 4
	if len(t) < structures {
		return nil, fmt.Errorf("read HMAT: %d bytes: %w", len(t), ErrShort)
	}
	h := &HMAT{}
	for at := structures; at < len(t); {
		if at+8 > len(t) {
			return nil, fmt.Errorf("read HMAT: structure at byte %d: %w", at, ErrShort)
		}
		n := int64(u32(t, at+4))
		if n < 8 || int64(at)+n > int64(len(t)) {
			return nil, fmt.Errorf("read HMAT: structure at byte %d says %d bytes: %w", at, n, ErrShort)
		}
		if err := h.add(u16(t, at), t[at:at+int(n)], revision); err != nil {
			return nil, fmt.Errorf("read HMAT: structure at byte %d: %w", at, err)
		}
		at += int(n)
	}
	return h, nil
}

func (h *HMAT) add(kind uint16, s []byte, revision byte) error {
	if len(s) < hmatLengths[kind] {
		return ErrShort
	}
	if kind != hmatLocality {
		return nil
	}
	l, err := parseLocality(s, revision)
	if err == nil {
		h.Tables = append(h.Tables, l)
	}
	return err
}

func parseLocality(s []byte, revision byte) (Locality, error) {
	const lists = 32
	l := Locality{Cache: s[8] & 0xf, Data: Data(s[9])}
	if l.Data > WriteBandwidth {
		return Locality{}, fmt.Errorf("data of kind %d is not known", s[9])
	}
	from := uint64(u32(s, 12))
	to := uint64(u32(s, 16))
	unit := u64(s, 24)
	room := uint64(len(s) - lists)
	if from > room/4 || to > room/4 || 4*from+4*to > room || (to > 0 && from > (room-4*from-4*to)/2/to) {
		return Locality{}, fmt.Errorf("%d initiators and %d targets in %d bytes: %w", from, to, len(s), ErrShort)
	}
	at := lists
	for range from {
		l.Initiators = append(l.Initiators, Domain(u32(s, at)))
		at += 4
	}
	for range to {
		l.Targets = append(l.Targets, Domain(u32(s, at)))
		at += 4
	}
	for range from {
		row := make([]float64, to)
		for j := range row {
			row[j] = l.value(u16(s, at), unit, revision)
			at += 2
		}
		l.Values = append(l.Values, row)
	}
	return l, nil
}

// value brings an entry to ns or MB/s as drivers/acpi/numa/hmat.c does: 0 is
// "not given", 0xffff "cannot be reached"; the first revision counts in tenths,
// later ones count latency in picoseconds.
func (l *Locality) value(entry uint16, unit uint64, revision byte) float64 {
	latency := l.Data <= WriteLatency
	switch {
	case entry == 0:
		return math.NaN()
	case entry == 0xffff && latency:
		return math.Inf(1)
	case entry == 0xffff:
		return 0
	}
	v := float64(entry) * float64(unit)
	switch {
	case revision <= 1:
		v /= 10
	case latency:
		v /= 1000
	}
	return v
}

// Read is the read latency (ns) or read bandwidth (MB/s) of plain memory from
// one domain to another: of the read table, else of the access table; NaN when
// the table does not say.
func (h *HMAT) Read(latency bool, from, to Domain) float64 {
	kinds := []Data{ReadBandwidth, AccessBandwidth}
	if latency {
		kinds = []Data{ReadLatency, AccessLatency}
	}
	for _, kind := range kinds {
		for _, l := range h.Tables {
			if l.Data != kind || l.Cache != 0 {
				continue
			}
			for i, f := range l.Initiators {
				for j, t := range l.Targets {
					if f == from && t == to && !math.IsNaN(l.Values[i][j]) {
						return l.Values[i][j]
					}
				}
			}
		}
	}
	return math.NaN()
}
