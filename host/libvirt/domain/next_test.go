package domain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What Next tells is all that PlaceNext needs to write the same again.
func TestNextIsWholeAndWritesTheSame(t *testing.T) {
	h := eight()
	for name, text := range guests(t) {
		most, _, _ := parse(t, text).VCPUs()
		for _, home := range []guest.Home{dedicatedHome("x", most), sharedHome("x", most)} {
			if home.Placement.Class == workload.Dedicated && len(topology.CPUs(home.Placement.Pins...).Slice()) != most {
				continue
			}
			d := parse(t, text)
			mark := Mark{Flavor: "a b", SLO: "most=5%,window=30s", Tier: workload.Online, SMT: workload.SMTIsolate, Emulator: guest.Isolate}
			d.Place(h, home, mark)
			want := d.String()
			next, err := d.Next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			n, err := guest.ParseNext(next)
			if err != nil || n.String() != next {
				t.Fatalf("%s: %q is read as %q, %v", name, next, n.String(), err)
			}
			m, err := ParseAbout(d.About())
			if err != nil || m.Flavor != mark.Flavor || m.SLO != mark.SLO || m.Tier != mark.Tier || m.SMT != mark.SMT || m.Emulator != mark.Emulator || m.Class != home.Placement.Class {
				t.Fatalf("%s: %q is read as %+v, %v", name, d.About(), m, err)
			}
			d = parse(t, want)
			d.Place(h, sharedHome("x", most), m)
			d = parse(t, d.String())
			if err := d.PlaceNext(h, n, m); err != nil || !sameXML(t, d.String(), want) {
				t.Errorf("%s: placed elsewhere and again: %v\n%s", name, err, cmp.Diff(want, d.String()))
			}
			d.Release()
			if text := d.String(); parse(t, text).Manual() == "" {
				if err := d.PlaceNext(h, n, m); err != nil || !sameXML(t, d.String(), want) {
					t.Errorf("%s: released and placed again: %v\n%s", name, err, cmp.Diff(want, d.String()))
				}
			}
		}
	}
}

// sameXML compares what counts: where elements stand and how lines are indented does not.
func sameXML(t *testing.T, a, b string) bool {
	t.Helper()
	lines := func(text string) []string {
		var out []string
		for line := range strings.Lines(strings.ReplaceAll(strings.ReplaceAll(text, "\"", "'"), ">", ">\n")) {
			if line = strings.ReplaceAll(strings.TrimSpace(line), " ", ""); line != "" {
				out = append(out, line)
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(lines(a), lines(b))
}

func TestNextOfOthers(t *testing.T) {
	tests := []struct{ inside, want string }{
		{"<vcpu>2</vcpu>", ""},
		{"<vcpu cpuset='1'>2</vcpu>", "1/ (bound by hand (vcpu cpuset))"},
		{"<vcpu placement='auto'>2</vcpu>", "/ (libvirt asks numad where it goes at every start (placement='auto'))"},
	}
	for _, tt := range tests {
		d := parse(t, "<domain><name>a</name>"+tt.inside+"</domain>")
		if got, err := d.Next(); err != nil || got != tt.want || d.About() != "" {
			t.Errorf("%s: %q, %v", tt.inside, got, err)
		}
		if _, err := guest.ParseNext(tt.want); err == nil {
			t.Errorf("%q could be homenode's", tt.want)
		}
	}
}
