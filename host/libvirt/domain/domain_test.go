package domain

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// eight is two nodes of four cores with two threads.
func eight() *topology.Host {
	return plantest.Draw(`
		0 0-3|4-7   16G 10 21 huge=2Mx4096 dev=eth0
		1 8-11|12-15 16G 21 10 huge=2Mx4096`)
}

func guests(t testing.TB) map[string]string {
	t.Helper()
	files, _ := filepath.Glob("testdata/guests/*.xml")
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(text)
	}
	if len(out) < 5 {
		t.Fatalf("only %d guests in testdata", len(out))
	}
	return out
}

func parse(t testing.TB, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadingChangesNothing(t *testing.T) {
	for name, text := range guests(t) {
		if got := parse(t, text).String(); got != text {
			t.Errorf("%s:\n%s", name, cmp.Diff(text, got))
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "the root is not <domain>"},
		{"<network/>", "the root is not <domain>"},
		{"<domain>", "unexpected EOF"},
		{"<domain></domaine>", "closed by </domaine>"},
		{"<domain/><domain/>", "more than one root"},
		{"<domain/>junk", "text outside of <domain>"},
		{"<domain a=b/>", "unquoted"},
		{"<domain>&nbsp;</domain>", "invalid character entity"},
		{"<?xml version='1.0' encoding='latin1'?><domain/>", `encoding "latin1"; want UTF-8`},
		{"<domain>\xff</domain>", "invalid UTF-8"},
		{strings.Repeat(" ", maxText+1), "larger than"},
		{"<domain>" + strings.Repeat("<a>", 300) + strings.Repeat("</a>", 300) + "</domain>", "depth"},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%.60q: %v; want %s", tt.text, err, tt.want)
		}
	}
}

// dedicatedHome has two vCPUs on each node, siblings together.
func dedicatedHome(id string, vcpus int) guest.Home {
	pins := []topology.CPUID{0, 4, 1, 5, 8, 12, 9, 13}
	var p []topology.CPUID
	for i := range vcpus {
		p = append(p, pins[(i%2)+2*(i/2%4)])
	}
	if vcpus == 4 {
		p = []topology.CPUID{1, 5, 8, 12}
	}
	home := topology.Nodes(0, 1)
	mem := []workload.NodeMemory{{Node: 0, KiB: 4 << 20}, {Node: 1, KiB: 4 << 20}}
	return guest.Home{
		Placement: plan.Placement{Workload: guest.ID(id), Class: workload.Dedicated, Importance: 50, VCPUs: vcpus, Home: home,
			CPUs: topology.CPUs(p...), Pins: p, Memory: mem, Asked: 8 << 20, Bound: true},
		Emulator: topology.CPUs(3, 7),
	}
}

func sharedHome(id string, vcpus int) guest.Home {
	return guest.Home{Placement: plan.Placement{Workload: guest.ID(id), Class: workload.Shared, Importance: 80, VCPUs: vcpus, Home: topology.Nodes(1),
		CPUs: topology.CPUs(8, 9, 10, 11, 12), Memory: []workload.NodeMemory{{Node: 1, KiB: 1 << 20}}, Asked: 1 << 20}}
}

// ours is what Place may change, with the blanks before it.
var ours = regexp.MustCompile(`(?s)\s*<vcpupin[^>]*/>|\s*<emulatorpin[^>]*/>|\s*<iothreadpin[^>]*/>|\s*<numatune>.*?</numatune>|<vcpu(?:\s[^>]*)?>|\s*<homenode:guest[^>]*/>|\s*<cputune>\s*</cputune>|\s*<metadata>\s*</metadata>`)

// cut takes out what Place may change, again and again, for what held only that.
func cut(text string) string {
	for {
		next := ours.ReplaceAllString(text, "")
		if next == text {
			return text
		}
		text = next
	}
}

func TestPlacingTouchesNothingElse(t *testing.T) {
	h := eight()
	for name, text := range guests(t) {
		d := parse(t, text)
		most, _, err := d.vcpus()
		if err != nil {
			t.Fatal(err)
		}
		for _, home := range []guest.Home{dedicatedHome("x", most), sharedHome("x", most)} {
			d := parse(t, text)
			d.Place(h, home, Mark{})
			got := d.String()
			rest := got
			if m, _ := d.Mark(); m.Shares != "" { // it had none
				rest = regexp.MustCompile(`\s*<shares>`+m.Shares+`</shares>`).ReplaceAllString(got, "")
			}
			if diff := cmp.Diff(cut(text), cut(rest)); diff != "" {
				t.Errorf("%s as %s, outside of what is placed (-was +is):\n%s\n%s", name, home.Placement.Class, diff, got)
			}
			again := parse(t, got)
			again.Place(h, home, Mark{})
			if diff := cmp.Diff(got, again.String()); diff != "" {
				t.Errorf("%s as %s, placed once more:\n%s", name, home.Placement.Class, diff)
			}
			// And there and back: what was written is read.
			s, err := again.Guest(h)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p := home.Placement
			if s.Manual != "" || s.Spec.Class != p.Class || !s.Home.Placement.CPUs.Equal(p.CPUs) || !s.Home.Placement.Home.Equal(p.Home) {
				t.Errorf("%s as %s: stands %+v, was placed %+v; held by %q", name, p.Class, s.Home.Placement, p, s.Manual)
			}
		}
	}
}

func TestPlaceGolden(t *testing.T) {
	h := eight()
	for name, home := range map[string]guest.Home{"cloud.xml": dedicatedHome("x", 4), "handwritten.xml": sharedHome("x", 4), "dumped.xml": dedicatedHome("x", 8), "crlf.xml": sharedHome("x", 2)} {
		d := parse(t, guests(t)[name])
		d.Place(h, home, Mark{Flavor: "c1.large", SMT: workload.SMTPrefer, Emulator: guest.Housekeeping})
		isGolden(t, "testdata/placed/"+name, d)
	}
}

// isGolden compares a document with a file; UPDATE=1 writes that anew.
func isGolden(t *testing.T, file string, d *Document) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, d.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), d.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestStanding(t *testing.T) {
	h := eight()
	h.Devices = append(h.Devices, topology.Device{Name: "eth9", Kind: topology.NIC, PCI: "0000:81:10.6", Node: 1})
	all := guests(t)
	stand := func(name string) guest.Guest {
		s, err := parse(t, all[name]).Guest(h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return s
	}

	s := stand("cloud.xml")
	p := s.Home.Placement
	if s.Spec.Class != workload.Dedicated || s.Spec.CPUs != 4 || s.Spec.HugePage != 2048 || s.Spec.Memory != 8<<20 {
		t.Errorf("cloud: %+v", s.Spec)
	}
	if diff := cmp.Diff([]topology.CPUID{2, 6, 11, 15}, p.Pins); diff != "" || !p.Bound || p.Home.String() != "0-1" {
		t.Errorf("cloud: %+v", p)
	}
	if diff := cmp.Diff([]workload.NodeMemory{{Node: 0, KiB: 4 << 20}, {Node: 1, KiB: 4 << 20}}, p.Memory); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]workload.Near{{Device: "0000:81:10.6"}}, s.Spec.Near); diff != "" {
		t.Error(diff)
	}
	if s.Manual != "bound by hand (vcpupin, emulatorpin, iothreadpin, numatune)" {
		t.Errorf("cloud: held by %q", s.Manual)
	}

	s = stand("dumped.xml") // two of eight vCPUs pinned: shared, four of them there
	if s.Spec.Class != workload.Shared || s.Spec.CPUs != 4 || s.Spec.Memory != 16<<20 || s.Manual == "" {
		t.Errorf("dumped: %+v, held by %q", s.Spec, s.Manual)
	}
	if diff := cmp.Diff([]string{"0000:3b:00.1"}, s.Drives); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]workload.Near{{Device: "0000:3b:00.1"}, {Device: "eth0"}}, s.Spec.Near); diff != "" {
		t.Error(diff)
	}

	if !s.Running || stand("handwritten.xml").Running {
		t.Error("a dump of a running guest has an ID, a definition has none")
	}

	s = stand("one-line.xml")
	if p := s.Home.Placement; p.CPUs.String() != "0-1,3" || p.Home.String() != "0-1" || p.Bound || s.Spec.Memory != 64<<10 {
		t.Errorf("one-line: %+v", p)
	}

	s = stand("handwritten.xml") // says nothing: anywhere
	if p := s.Home.Placement; s.Manual != "" || !p.CPUs.Equal(h.Online) || p.Home.String() != "0-1" || workload.Total(p.Memory) != 4<<20 {
		t.Errorf("handwritten: %+v, held by %q", p, s.Manual)
	}

	if s = stand("crlf.xml"); !strings.Contains(s.Manual, "numad") {
		t.Errorf("crlf: held by %q", s.Manual)
	}
	for name := range all {
		s := stand(name)
		st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
		if bad := plan.Check(st, []plan.Placement{s.Home.Placement}); len(bad) > 0 {
			t.Errorf("%s: plan.Check: %v", name, bad)
		}
	}
}

func TestStandingNoticesOtherHands(t *testing.T) {
	h := eight()
	d := parse(t, guests(t)["cloud.xml"])
	d.Place(h, dedicatedHome("x", 4), Mark{})
	for _, edit := range [][2]string{{"vcpu='0' cpuset='1'", "vcpu='0' cpuset='2'"}, {"<memory mode='strict' nodeset='0-1'/>", "<memory mode='strict' nodeset='0'/>"}} {
		text := strings.Replace(d.String(), edit[0], edit[1], 1)
		if text == d.String() {
			t.Fatalf("nothing to edit: %s", edit[0])
		}
		if s, err := parse(t, text).Guest(h); err != nil || !strings.Contains(s.Manual, "not what homenode wrote") {
			t.Errorf("%s: held by %q, %v", edit[1], s.Manual, err)
		}
	}
	// Without pins the guest that should be dedicated has no CPUs of its own.
	text := regexp.MustCompile(`\s*<vcpupin[^>]*/>`).ReplaceAllString(d.String(), "")
	s, err := parse(t, text).Guest(h)
	if err != nil || s.Home.Placement.Class != workload.Shared || s.Spec.Class != workload.Dedicated || s.Manual == "" {
		t.Errorf("pins taken away: %+v, held by %q, %v", s.Home.Placement, s.Manual, err)
	}
}

// A guest that was adopted and released is what it was, byte by byte.
func TestReleaseUndoesAdoption(t *testing.T) {
	h := eight()
	adopted := 0
	texts := guests(t)
	texts["weighed"] = "<domain>\n  <name>w</name>\n  <metadata>\n    <x:a xmlns:x='x'/>\n  </metadata>\n  <vcpu>2</vcpu>\n  <cputune>\n    <shares>7</shares>\n  </cputune>\n  <numatune>\n  </numatune>\n</domain>\n"
	for name, text := range texts {
		d := parse(t, text)
		if s, err := d.Guest(h); err != nil || s.Manual != "" {
			continue
		}
		adopted++
		d.Place(h, sharedHome("x", 4), Mark{SMT: workload.SMTPrefer})
		again := parse(t, d.String())
		again.Release()
		if _, marked := again.Mark(); marked {
			t.Errorf("%s: still marked", name)
		}
		want := strings.Replace(text, "\n  <numatune>\n  </numatune>", "", 1)                         // empty ones go
		want = strings.Replace(want, `<vcpu   placement = "static">`, `<vcpu placement="static">`, 1) // the quotes stay
		if diff := cmp.Diff(want, again.String()); diff != "" {
			t.Errorf("%s (-was +is):\n%s", name, diff)
		}
	}
	if adopted < 2 {
		t.Fatalf("only %d guests could be adopted", adopted)
	}
	// Of a dedicated guest the pins go, and what was there besides stays.
	d := parse(t, guests(t)["cloud.xml"])
	d.Place(h, dedicatedHome("x", 4), Mark{})
	d.Release()
	if got := d.String(); strings.Contains(got, "pin ") || strings.Contains(got, "numatune") || !strings.Contains(got, "<cachetune") || !strings.Contains(got, "<cloud:name>") {
		t.Errorf("released:\n%s", got)
	}
}

func TestStandingErrors(t *testing.T) {
	tests := []struct{ inside, want string }{
		{"", `name: empty`},
		{"<name>a/b</name>", "without /"},
		{"<name>a</name><vcpu>0</vcpu>", `vcpu: "0"`},
		{"<name>a</name><vcpu>many</vcpu>", `vcpu: "many"`},
		{"<name>a</name><vcpu current='9'>4</vcpu>", `vcpu current: "9"`},
		{"<name>a</name><memory unit='acre'>4</memory>", `memory: "4" "acre"`},
		{"<name>a</name><memory>-4</memory>", `memory: "-4"`},
		{"<name>a</name><memory unit='PiB'>99999999</memory>", "2^60"},
		{"<name>a</name><vcpu cpuset='x'>2</vcpu>", `vcpu: cpuset "x"`},
		{"<name>a</name><cputune><vcpupin vcpu='x' cpuset='1'/></cputune>", `vcpupin: vcpu "x"`},
		{"<name>a</name><cpu><numa><cell id='3' memory='1'/></numa></cpu>", `cell id "3" of 1 cells`},
		{"<name>a</name><cpu><numa><cell id='0' memory='1'/></numa></cpu><numatune><memnode cellid='4' nodeset='0'/></numatune>", `cellid "4" of 1 cells`},
		{"<name>a</name><memoryBacking><hugepages><page size='0'/></hugepages></memoryBacking>", "page size"},
	}
	for _, tt := range tests {
		d := parse(t, "<domain>"+tt.inside+"</domain>")
		_, err := d.Guest(eight())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", tt.inside, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range guests(f) {
		f.Add(text)
	}
	f.Add("<domain><name>a</name><vcpu>2<!-- c --></vcpu><cputune a='1'>t<vcpupin vcpu='0'>x</vcpupin></cputune></domain>")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		if got := d.String(); got != text {
			t.Fatalf("reading changed it:\n%s", cmp.Diff(text, got))
		}
		h := eight()
		if _, err := d.Guest(h); err != nil {
			return
		}
		most, _, _ := d.vcpus()
		home := sharedHome("x", min(most, 8))
		d.Place(h, home, Mark{})
		again, err := Parse(d.Bytes())
		if err != nil {
			t.Fatalf("placing broke it: %v\n%s", err, d)
		}
		if s, err := again.Guest(h); err != nil || s.Manual != "" || !s.Home.Placement.CPUs.Equal(home.Placement.CPUs) {
			t.Fatalf("stands %v (held by %q, %v), was placed on %v\n%s", s.Home.Placement.CPUs, s.Manual, err, home.Placement.CPUs, d)
		}
	})
}

// The emulator is pinned where a dedicated guest has CPUs for it; no pin of before stays
// where it has none, or where a guest floats.
func TestEmulatorPin(t *testing.T) {
	none, floats := dedicatedHome("x", 2), sharedHome("x", 2)
	none.Emulator, floats.Emulator = topology.CPUSet{}, topology.CPUs(3, 7)
	for want, home := range map[string]guest.Home{"3,7": dedicatedHome("x", 2), "none": none, "none of one that floats": floats} {
		for _, before := range []string{"", "<cputune><emulatorpin cpuset='5'/></cputune>"} {
			d := parse(t, "<domain><name>x</name><memory>1048576</memory><vcpu>2</vcpu>"+before+"</domain>")
			d.Place(eight(), home, Mark{})
			if pins := strings.Count(d.String(), "<emulatorpin"); want == "3,7" && !strings.Contains(d.String(), "<emulatorpin cpuset='3,7'/>") || pins > 1 || want != "3,7" && pins > 0 {
				t.Errorf("want %s, before %q:\n%s", want, before, d)
			}
		}
	}
}

// A shared guest that is taken over gets the CPU weight of its size, which goes with the
// mark; one that somebody gave it stays.
func TestWeight(t *testing.T) {
	const plain = "<domain>\n  <name>a</name>\n  <memory>1048576</memory>\n  <vcpu current='2'>4</vcpu>\n</domain>"
	shared := guest.Home{Placement: plan.Placement{Class: workload.Shared, Importance: 75, CPUs: topology.CPUs(0, 1), Home: topology.Nodes(0)}}
	d := parse(t, plain)
	d.Place(nil, shared, Mark{})
	if !strings.Contains(d.String(), "<shares>300</shares>") {
		t.Fatalf("no weight:\n%s", d)
	}
	d = parse(t, strings.Replace(d.String(), "current='2'", "current='3'", 1))
	m, _ := d.Mark()
	d.Place(nil, shared, m)
	if !strings.Contains(d.String(), "<shares>450</shares>") {
		t.Errorf("with one vCPU more:\n%s", d)
	}
	own := parse(t, strings.Replace(d.String(), ">450<", ">77<", 1))
	m, _ = own.Mark()
	own.Place(nil, shared, m)
	if own.Release(); !strings.Contains(own.String(), "<shares>77</shares>") {
		t.Errorf("somebody's own:\n%s", own)
	}
	if d.Release(); d.String() != strings.Replace(plain, "'2'", "'3'", 1) {
		t.Errorf("released:\n%s", d)
	}
}

// A start tag that is changed keeps the quotes it had, also when the text is read in between.
func TestQuotesStay(t *testing.T) {
	for _, text := range []string{
		`<domain type="kvm"><name>a</name><memory>1024</memory><vcpu placement="static">2</vcpu></domain>`,
		`<domain type='kvm'><name>a</name><memory>1024</memory><vcpu placement='static'>2</vcpu></domain>`,
	} {
		d := parse(t, text)
		d.Place(eight(), sharedHome("a", 2), Mark{})
		d = parse(t, d.String())
		if d.Release(); d.String() != text {
			t.Errorf("%s\ncomes back as\n%s", text, d)
		}
	}
}
