package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseSet(t *testing.T) {
	for _, tc := range []struct{ list, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8", "0-3,8"},
		{" 3,1-2 \n", "1-3"},
		{"0-31:2/4", "0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29"},
		{"0-10:1/4", "0,4,8"},
		{"5-5", "5"},
		{"0-63", "0-63"},
		{"62-64,66,127-200", "62-64,66,127-200"},
		{"65535", "65535"},
	} {
		got, err := ParseCPUSet(tc.list)
		if err != nil || got.String() != tc.want {
			t.Errorf("ParseCPUSet(%q) = %q, %v; want %q", tc.list, got, err, tc.want)
		}
	}
	for _, list := range []string{
		",", "1,", "a", "-1", "1-", "3-1", "1--2", "0-4000000000", "65536", "0x1", "1 2", "0-3:", "0-3:1", "0-3:0/2",
		"0-3:3/2", "0-3:1/0", "+1", "1\x00", "٣", strings.Repeat("9", 100),
	} {
		if got, err := ParseCPUSet(list); err == nil {
			t.Errorf("ParseCPUSet(%q) = %q, want an error", list, got)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 250 {
			t.Errorf("ParseCPUSet(%q): error is not one short line: %v", list, err)
		}
	}
}

func TestMask(t *testing.T) {
	for list, want := range map[string]string{"": "0", "0-3": "f", "31": "80000000", "32": "1,00000000", "0,64": "1,00000000,00000001"} {
		if s, err := ParseCPUSet(list); err != nil || Mask(s) != want {
			t.Errorf("Mask(%q) = %q, want %q", list, Mask(s), want)
		}
	}
}

func TestParseMask(t *testing.T) {
	for _, tc := range []struct{ mask, want string }{
		{"0", ""},
		{"f", "0-3"},
		{"00000000,0000ffff", "0-15"},
		{"0001,00000000,80000000", "31,64"},
		{"1,0", "32"},
	} {
		got, err := ParseMask(tc.mask)
		if err != nil || got.String() != tc.want {
			t.Errorf("ParseMask(%q) = %q, %v; want %q", tc.mask, got, err, tc.want)
		}
		if again, err := ParseMask(Mask(got)); err != nil || !again.Equal(got) {
			t.Errorf("Mask(%q) = %q, which reads as %q, %v", got, Mask(got), again, err)
		}
	}
	for _, mask := range []string{"", ",", "g", "0x1", "100000000", "-1", "1," + strings.Repeat("0,", 3000) + "0"} {
		if got, err := ParseMask(mask); err == nil {
			t.Errorf("ParseMask(%q) = %q, want an error", clip(mask), got)
		}
	}
}

// model is a set as a map, to compare with.
type model map[CPUID]bool

func (m model) set() CPUSet { return CPUs(slices.Collect(maps.Keys(m))...) }

func anySet(t *rapid.T, label string) model {
	m := model{}
	for _, id := range rapid.SliceOfN(rapid.IntRange(0, 300), 0, 40).Draw(t, label) {
		m[CPUID(id)] = true
	}
	return m
}

func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySet(t, "a"), anySet(t, "b")
		s, u := a.set(), b.set()
		before := s.String()
		both, either, only := model{}, maps.Clone(a), model{}
		maps.Copy(either, b)
		for id := range a {
			if b[id] {
				both[id] = true
			} else {
				only[id] = true
			}
		}
		check := func(what string, got CPUSet, want model) {
			ids := slices.Sorted(maps.Keys(want))
			if !slices.Equal(got.Slice(), ids) && len(ids) > 0 || got.Len() != len(ids) {
				t.Fatalf("%s = %s, want %v", what, got, ids)
			}
			if !got.Equal(want.set()) || got.Empty() != (len(ids) == 0) {
				t.Fatalf("%s: Equal or Empty is wrong for %s", what, got)
			}
		}
		check("Union", s.Union(u), either)
		check("Intersect", s.Intersect(u), both)
		check("Minus", s.Minus(u), only)
		if s.Overlap(u) != len(both) || s.Intersects(u) != (len(both) > 0) {
			t.Fatalf("Overlap = %d, Intersects = %v, want %d", s.Overlap(u), s.Intersects(u), len(both))
		}
		if s.SubsetOf(u) != (len(only) == 0) || s.Equal(u) != maps.Equal(a, b) {
			t.Fatalf("SubsetOf or Equal is wrong for %s and %s", s, u)
		}
		for id := CPUID(0); id < 310; id++ {
			if s.Has(id) != a[id] {
				t.Fatalf("Has(%d) = %v", id, s.Has(id))
			}
		}
		wantMin, wantMax := CPUID(-1), CPUID(-1)
		if len(a) > 0 {
			ids := slices.Sorted(maps.Keys(a))
			wantMin, wantMax = ids[0], ids[len(ids)-1]
		}
		if s.Min() != wantMin || s.Max() != wantMax {
			t.Fatalf("Min, Max = %d, %d, want %d, %d", s.Min(), s.Max(), wantMin, wantMax)
		}
		clone := s.Clone()
		clone.Add(301)
		for id := range a {
			clone.Remove(id)
		}
		if s.String() != before || clone.String() != "301" {
			t.Fatalf("a method changed its receiver: %q, was %q; clone %q", s, before, clone)
		}
		back, err := ParseCPUSet(before)
		if err != nil || !back.Equal(s) {
			t.Fatalf("ParseCPUSet(%q) = %q, %v", before, back, err)
		}
	})
}

func TestSetText(t *testing.T) {
	var s CPUSet
	if err := s.UnmarshalText([]byte("0-3,8")); err != nil {
		t.Fatal(err)
	}
	if text, err := s.MarshalText(); err != nil || string(text) != "0-3,8" {
		t.Errorf("MarshalText = %q, %v", text, err)
	}
	if err := s.UnmarshalText([]byte("x")); err == nil || s.String() != "0-3,8" {
		t.Errorf("after a bad text the set is %q, error %v", s, err)
	}
}

func TestAddPanicsOutsideTheRange(t *testing.T) {
	for _, id := range []CPUID{-1, MaxID + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Add(%d) did not panic", id)
				}
			}()
			var s CPUSet
			s.Add(id)
		}()
	}
}

func FuzzParseSet(f *testing.F) {
	for _, seed := range []string{"", "0-3,8", "0-31:2/4", "65535", "0-65535:1/65535", "1,,2", "3-1", " 1 \n", "0-4000000000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseCPUSet(list)
		if err != nil {
			return
		}
		again, err := ParseCPUSet(s.String())
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q → %q → %q, %v", list, s, again, err)
		}
	})
}
