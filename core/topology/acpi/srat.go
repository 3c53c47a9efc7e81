package acpi

import (
	"fmt"
	"slices"
)

// SRAT is the System Resource Affinity Table. Only entries that are enabled count.
type SRAT struct {
	CPUs   []Domain // of each logical CPU
	Memory []Memory
}

// Memory is one range of physical addresses.
type Memory struct {
	Domain  Domain
	HotPlug bool // may be empty now
}

// Kinds of SRAT entries and their lengths.
const (
	sratAPIC      = 0
	sratMemory    = 1
	sratX2APIC    = 2
	sratGICC      = 3
	sratInitiator = 5 // a device that reads memory
)

var sratLengths = map[byte]int{sratAPIC: 16, sratMemory: 40, sratX2APIC: 24, sratGICC: 18, sratInitiator: 32}

// ParseSRAT reads a whole table. Entries of unknown kind are skipped.
func ParseSRAT(data []byte) (*SRAT, error) {
	t, revision, err := header(data, "SRAT")
	if err != nil {
		return nil, err
	}
	const entries = headerLen + 12
	if len(t) < entries {
		return nil, fmt.Errorf("read SRAT: %d bytes: %w", len(t), ErrShort)
	}
	// The first revision had eight bits for the domain; the rest may hold
	// anything (drivers/acpi/numa/srat.c).
	mask := uint32(0xffffffff)
	if revision <= 1 {
		mask = 0xff
	}
	s := &SRAT{}
	for at := entries; at < len(t); {
		if at+2 > len(t) || int(t[at+1]) < 2 || at+int(t[at+1]) > len(t) {
			return nil, fmt.Errorf("read SRAT: entry at byte %d: %w", at, ErrShort)
		}
		kind, e := t[at], t[at:at+int(t[at+1])]
		if want, known := sratLengths[kind]; known && len(e) < want {
			return nil, fmt.Errorf("read SRAT: entry of kind %d at byte %d has %d bytes, want %d: %w", kind, at, len(e),
				want, ErrShort)
		}
		s.add(kind, e, mask)
		at += len(e)
	}
	return s, nil
}

func (s *SRAT) add(kind byte, e []byte, mask uint32) {
	const (
		enabled = 1
		hotPlug = 2
	)
	switch kind {
	case sratAPIC:
		domain := uint32(e[2]) | (uint32(e[9])|uint32(e[10])<<8|uint32(e[11])<<16)<<8
		if u32(e, 4)&enabled != 0 {
			s.CPUs = append(s.CPUs, Domain(domain&mask))
		}
	case sratX2APIC:
		if u32(e, 12)&enabled != 0 {
			s.CPUs = append(s.CPUs, Domain(u32(e, 4)))
		}
	case sratGICC:
		if u32(e, 10)&enabled != 0 {
			s.CPUs = append(s.CPUs, Domain(u32(e, 2)))
		}
	case sratMemory:
		flags := u32(e, 28)
		if flags&enabled != 0 && u64(e, 16) > 0 {
			s.Memory = append(s.Memory, Memory{Domain(u32(e, 2) & mask), flags&hotPlug != 0})
		}
	}
}

// Domains are those with CPUs or memory, rising.
func (s *SRAT) Domains() []Domain {
	return sorted(slices.Concat(s.CPUs, s.MemoryDomains()))
}

// MemoryDomains are those that hold memory at boot, rising. Ranges that are
// only there for hot-plug do not count: firmware of virtual machines gives one
// to the last domain even when nothing is plugged in.
func (s *SRAT) MemoryDomains() []Domain {
	var all []Domain
	for _, m := range s.Memory {
		if !m.HotPlug {
			all = append(all, m.Domain)
		}
	}
	return sorted(all)
}

func sorted(all []Domain) []Domain {
	slices.Sort(all)
	return slices.Compact(all)
}
