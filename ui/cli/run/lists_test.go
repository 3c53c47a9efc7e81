package run

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
)

func cpus(t testing.TB, list string) topology.CPUSet {
	s, err := topology.ParseCPUSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhere(t *testing.T) {
	for _, x := range []struct{ text, allowed, want, problem string }{
		{"0-3,8", "0-15", "0-3,8", ""},
		{"+0-4,8-12", "4-31", "4-8,12-16", ""}, // numactl(8): CPUs 0-4 and 8-12 of the cpuset
		{"all", "4-7", "4-7", ""},
		{"!2", "0-3", "0-1,3", ""},
		{"!+0", "4-7", "5-7", ""},
		{"!all", "4-7", "", "names nothing"},
		{"+4", "4-7", "", "4 are allowed here (4-7)"},
		{"", "0-3", "", "names nothing"},
		{"+", "0-3", "", "names nothing"},
		{"x", "0-3", "", "want a list such as"},
		{"netdev:eth0", "0-3", "", "say --near eth0"},
		{"ip:10.0.0.1", "0-3", "", "say --near DEVICE"},
		{"9", "0-3", "9", ""}, // whoever asks compares with what is allowed
	} {
		got, err := parseWhere(x.text, cpus(t, x.allowed))
		switch {
		case x.problem == "" && (err != nil || got.String() != x.want):
			t.Errorf("%q of %s: %s, %v; want %s", x.text, x.allowed, got, err, x.want)
		case x.problem != "" && (err == nil || !strings.Contains(err.Error(), x.problem)):
			t.Errorf("%q of %s: %s, %v; want an error with %q", x.text, x.allowed, got, err, x.problem)
		}
	}
}

// TestWhereProperties: what is counted or left out is of what is allowed, in order; leaving
// out twice what is allowed is the same again.
func TestWhereProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) topology.CPUSet {
			return topology.SetOf(rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(0, 200), func(i int) topology.CPUID { return topology.CPUID(i) }), 1, 40, rapid.ID).Draw(t, name)...)
		}
		allowed, named := draw("allowed"), draw("named")
		plain, err := parseWhere(named.String(), allowed)
		if err != nil || !plain.Equal(named) {
			t.Fatalf("%s: %s, %v", named, plain, err)
		}
		counted, err := parseWhere("+"+named.String(), allowed)
		if fits := int(named.Max()) < allowed.Len(); fits != (err == nil) {
			t.Fatalf("+%s of %s: %v", named, allowed, err)
		}
		if err == nil && (counted.Len() != named.Len() || !counted.SubsetOf(allowed)) {
			t.Fatalf("+%s of %s: %s", named, allowed, counted)
		}
		rest, err := parseWhere("!"+named.String(), allowed)
		if err == nil && (rest.Intersects(named) || !rest.Union(named.Intersect(allowed)).Equal(allowed)) {
			t.Fatalf("!%s of %s: %s", named, allowed, rest)
		}
		if (err != nil) != allowed.SubsetOf(named) {
			t.Fatalf("!%s of %s: %v", named, allowed, err)
		}
	})
}

func FuzzWhere(f *testing.F) {
	for _, seed := range []string{"", "all", "!all", "+0-1", "!+3", "0-4000000000", "netdev:", "!!1", "+all", "1,,2"} {
		f.Add(seed, uint16(0xf0f0))
	}
	f.Fuzz(func(t *testing.T, text string, bits uint16) {
		var allowed topology.CPUSet
		for i := range 16 {
			if bits&(1<<i) != 0 {
				allowed.Add(topology.CPUID(i))
			}
		}
		set, err := parseWhere(text, allowed)
		if (err == nil) == set.Empty() {
			t.Errorf("%q of %s: %s, %v", text, allowed, set, err)
		}
		if err == nil && strings.ContainsAny(text, "!+") && !set.SubsetOf(allowed) {
			t.Errorf("%q of %s: %s", text, allowed, set)
		}
	})
}
