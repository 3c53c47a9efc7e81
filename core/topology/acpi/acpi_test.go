package acpi

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSRAT(t *testing.T) {
	s, err := ParseSRAT(srat(3,
		apic(0, 0, 1), apic(0, 1, 0), x2apic(0x10001, 300, 1), gicc(2, 7, 1), initiator(9, 1), initiator(8, 0),
		memory(0, 0, 1<<30, 1), memory(1, 1<<32, 1<<30, 0), memory(0x10001, 1<<33, 1<<30, 1|4), memory(3, 1<<34, 1<<30, 1|2), memory(4, 0, 0, 1),
		[]byte{77, 4, 0, 0}))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Domain{0, 0x10001, 2}; !slices.Equal(s.CPUs, want) {
		t.Errorf("CPUs %v, want %v", s.CPUs, want)
	}
	if want := []Domain{0, 2, 0x10001}; !slices.Equal(s.Domains(), want) {
		t.Errorf("domains %v, want %v (disabled, empty and hot-plug ones do not count)", s.Domains(), want)
	}
	if want := []Domain{0, 0x10001}; !slices.Equal(s.MemoryDomains(), want) {
		t.Errorf("memory domains %v, want %v", s.MemoryDomains(), want)
	}
}

// In the first revision the upper three bytes of a domain hold anything.
func TestSRATFirstRevision(t *testing.T) {
	s, err := ParseSRAT(srat(1, apic(0xabcdef02, 0, 1), memory(0xffffff02, 0, 4096, 1)))
	if err != nil || !slices.Equal(s.Domains(), []Domain{2}) {
		t.Errorf("%v, %v", s, err)
	}
}

func TestSLIT(t *testing.T) {
	s, err := ParseSLIT(slit([]byte{10, 21}, []byte{22, 10}))
	if err != nil || len(s.Distances) != 2 || s.Distances[0][1] != 21 || s.Distances[1][0] != 22 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestHMAT(t *testing.T) {
	h, err := ParseHMAT(hmat(2, attached(0, 2),
		locality(AccessLatency, 1000, []uint32{0, 1}, []uint32{0, 1, 2}, 80, 140, 250, 140, 80, 0xffff),
		locality(ReadLatency, 1000, []uint32{0}, []uint32{0}, 75),
		locality(AccessBandwidth, 100, []uint32{0, 1}, []uint32{0, 2}, 1000, 0, 500, 0xffff),
		sideCache(2, 16<<30, 1), le(uint16(9), uint16(0), uint32(8))))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		latency  bool
		from, to Domain
		want     float64
	}{
		{true, 0, 0, 75}, {true, 0, 2, 250}, {true, 1, 2, math.Inf(1)}, {false, 0, 0, 100_000}, {false, 1, 2, 0},
	} {
		if got := h.Read(c.latency, c.from, c.to); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if v := h.Read(false, 0, 2); !math.IsNaN(v) {
		t.Errorf("a 0 is not given, have %v", v)
	}
	if first, _ := ParseHMAT(hmat(1, locality(ReadLatency, 100, []uint32{0}, []uint32{0}, 8))); first.Read(true, 0, 0) != 80 {
		t.Errorf("first revision: %v", first.Read(true, 0, 0))
	}
}

func TestBrokenTables(t *testing.T) {
	good := srat(3, apic(0, 0, 1))
	cut := seal(append([]byte(nil), good[:60]...))
	long := append([]byte(nil), good...)
	long[4] = 200
	flipped := append([]byte(nil), good...)
	flipped[50] ^= 1
	zero := srat(3, []byte{0, 0})
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty": {nil, ErrShort}, "other": {slit(), ErrSignature}, "cut": {cut, ErrShort}, "long": {seal(long), ErrShort},
		"bit": {flipped, ErrChecksum}, "entry of no length": {zero, ErrShort}, "short entry": {srat(3, []byte{1, 4, 0, 0}), ErrShort},
		"no room for entries": {table("SRAT", 3, nil), ErrShort},
	} {
		if _, err := ParseSRAT(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	huge := table("SLIT", 1, le(uint64(1<<63)))
	if _, err := ParseSLIT(huge); !errors.Is(err, ErrShort) {
		t.Errorf("SLIT of 2^63: %v", err)
	}
	for _, s := range [][]byte{
		locality(ReadLatency, 1, []uint32{0}, []uint32{0, 1}, 1), attached(0, 0)[:20], sideCache(0, 0, 0)[:16],
	} {
		s = append([]byte(nil), s...)
		s[4] = byte(len(s))
		if _, err := ParseHMAT(hmat(2, s)); !errors.Is(err, ErrShort) {
			t.Errorf("%x: %v", s, err)
		}
	}
}

// Tables taken from the guests of the rig (testdata/README).
func TestGuestTables(t *testing.T) {
	for _, c := range []struct {
		dir             string
		domains, memory int
		slit            [][]uint8
		latency         float64 // of the memory-only domain 2 from 0
	}{
		{"n4", 4, 4, [][]uint8{{10, 16, 31, 31}, {16, 10, 31, 31}, {31, 31, 10, 16}, {31, 31, 16, 10}}, 0},
		{"off", 4, 4, [][]uint8{{10, 16, 31, 31}, {16, 10, 31, 31}, {31, 31, 10, 16}, {31, 31, 16, 10}}, 0},
		{"hmat", 3, 3, [][]uint8{{10, 21, 30}, {21, 10, 40}, {30, 40, 10}}, 400},
	} {
		dir := filepath.Join("testdata", c.dir)
		data, err := os.ReadFile(filepath.Join(dir, "SRAT"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSRAT(data)
		if err != nil || len(s.Domains()) != c.domains || len(s.MemoryDomains()) != c.memory {
			t.Errorf("%s: %+v, %v", c.dir, s, err)
		}
		if c.slit != nil {
			data, err := os.ReadFile(filepath.Join(dir, "SLIT"))
			if err != nil {
				t.Fatal(err)
			}
			if l, err := ParseSLIT(data); err != nil || !slices.EqualFunc(l.Distances, c.slit, slices.Equal) {
				t.Errorf("%s: %v, %v", c.dir, l, err)
			}
		}
		if c.latency != 0 {
			data, err := os.ReadFile(filepath.Join(dir, "HMAT"))
			if err != nil {
				t.Fatal(err)
			}
			if h, err := ParseHMAT(data); err != nil || h.Read(true, 0, 2) != c.latency {
				t.Errorf("%s: %+v, %v", c.dir, h, err)
			}
		}
	}
}

func seeds(f *testing.F) {
	f.Add(srat(3, apic(0, 0, 1), x2apic(1, 2, 1), gicc(1, 2, 1), memory(0, 0, 1<<30, 1), initiator(1, 1)))
	f.Add(slit([]byte{10, 21}, []byte{21, 10}))
	f.Add(hmat(2, attached(0, 1), locality(ReadLatency, 1000, []uint32{0}, []uint32{0, 1}, 80, 140), sideCache(1, 1, 1)))
	tables, _ := filepath.Glob("testdata/*/[A-Z]*")
	for _, name := range tables {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
}

// fuzz also tries input whose checksum and length are right, or nearly all of it
// would end there.
func fuzz[T any](f *testing.F, signature string, parse func([]byte) (*T, error), use func(*T)) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parse(data); err == nil && len(data) < headerLen {
			t.Fatal("taken without a header")
		}
		if len(data) < headerLen {
			return
		}
		whole := table(signature, data[8], data[headerLen:])
		v, err := parse(whole)
		clean, cleanErr := Anonymous(whole, signature)
		if cleanErr != nil || !bytes.Equal(clean[headerLen:], whole[headerLen:]) || clean[8] != whole[8] {
			t.Fatalf("anonymous: %v", cleanErr)
		}
		if _, again := parse(clean); (again == nil) != (err == nil) {
			t.Fatalf("anonymous: %v, before %v", again, err)
		}
		if (v == nil) == (err == nil) {
			t.Fatal(v, err)
		}
		if err == nil {
			use(v)
		}
	})
}

func FuzzSRAT(f *testing.F) {
	fuzz(f, "SRAT", ParseSRAT, func(s *SRAT) {
		if !slices.IsSorted(s.Domains()) {
			f.Fatal(s)
		}
	})
}

func FuzzSLIT(f *testing.F) {
	fuzz(f, "SLIT", ParseSLIT, func(s *SLIT) {
		for _, row := range s.Distances {
			if len(row) != len(s.Distances) {
				f.Fatal(s)
			}
		}
	})
}

func FuzzHMAT(f *testing.F) {
	fuzz(f, "HMAT", ParseHMAT, func(h *HMAT) {
		for _, l := range h.Tables {
			if len(l.Values) != len(l.Initiators) {
				f.Fatal(l)
			}
		}
		h.Read(true, 0, 1)
	})
}
