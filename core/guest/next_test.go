package guest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestNextIsText(t *testing.T) {
	for text, want := range map[string]string{
		"0-3/0":                            "shared CPUs 0-3 nodes 0 pins [] memory []",
		"0,2/0-1":                          "shared CPUs 0,2 nodes 0-1 pins [] memory []",
		"0=2 1=0 emulator=2-3/0":           "dedicated CPUs 0,2 nodes 0 pins [2 0] memory [{0 1}]",
		"0=9 emulator=/0-1 cell0=1":        "dedicated CPUs 9 nodes 0-1 pins [9] memory [{0 1} {1 1}]",
		"0=9 emulator=9/0 cell0=0 cell1=1": "dedicated CPUs 9 nodes 0 pins [9] memory [{0 1}]",
		"0-3/0 near=device=eth1,policy=required near=process=/a.slice": "shared CPUs 0-3 nodes 0 pins [] memory []",
		"0=9 emulator=9/0 cell0=0 near=":                               "dedicated CPUs 9 nodes 0 pins [9] memory [{0 1}]",
	} {
		n, err := ParseNext(text)
		if err != nil || n.String() != text {
			t.Errorf("%q: %q, %v", text, n.String(), err)
			continue
		}
		p := n.Placement()
		if got := fmt.Sprintf("%s CPUs %s nodes %s pins %v memory %v", p.Class, p.CPUs, p.Home, p.Pins, p.Memory); got != want || p.VCPUs != len(n.Pins) || p.Bound != (len(n.Pins) > 0) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for _, bad := range []string{"", "/", "0-3", "0-3/", "/0", "x/0", "0/x", "1=2 emulator=2/0", "0=x emulator=2/0", "0=-1 emulator=2/0", "0=1 emulator=x/0", "emulator=1/0", "0/0 cell1=0", "0/0 cell0=x", "0/0 cell0=-1", "0/0 x", "0/0 near", "0/0 near=eth1,policy=x", "0/0 near=policy=required"} {
		if n, err := ParseNext(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, n)
		}
	}
	shared := Home{Placement: plan.Placement{Class: workload.Shared, CPUs: topology.CPUs(0, 1), Home: topology.Nodes(0, 1), Memory: []workload.NodeMemory{{Node: 1, KiB: 5}}}, Emulator: topology.CPUs(0)}
	if got := shared.Next(); got != "0-1/1" {
		t.Error(got)
	}
	own := Home{Placement: plan.Placement{Class: workload.Dedicated, CPUs: topology.CPUs(0, 1), Pins: []topology.CPUID{1, 0}, Home: topology.Nodes(0)}, Emulator: topology.CPUs(4)}
	if got := own.Next(); got != "0=1 1=0 emulator=4/0" {
		t.Error(got)
	}
}

func TestLimitsAreText(t *testing.T) {
	for _, text := range []string{"", "network=0", "network=7 iops=0 rate=0", "iops=1 iops/gib=2 iops-most=3 rate=4 rate/gib=5 rate-most=6", "network=7 network-peak=8 network-burst=9 iops=1 rate=4 iops-burst=5 rate-burst=6 burst-seconds=7"} {
		l, err := ParseLimits(text)
		if err != nil || l.String() != text {
			t.Errorf("%q: %q, %v", text, l.String(), err)
		}
	}
	l, _ := ParseLimits("iops=1 iops/gib=2 iops-most=3 rate=4 rate/gib=5 rate-most=6")
	if l.Network != nil || *l.Disk != (DiskLimit{IOPS: 1, IOPSPerGiB: 2, MostIOPS: 3, Rate: 4, RatePerGiB: 5, MostRate: 6}) {
		t.Errorf("%+v", l.Disk)
	}
	for _, bad := range []string{"network", "network=x", "network=-1", "speed=1", fmt.Sprintf("rate=%d", int64(maxLimit)+1)} {
		if l, err := ParseLimits(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, l)
		}
	}
}

func TestStepsOfAGuest(t *testing.T) {
	runs := Guest{Name: "a", Spec: workload.Spec{ID: ID("a")}, Running: true, Mode: "restrictive", BoundCPUs: topology.CPUs(0), BoundNodes: topology.Nodes(0)}
	to := Home{Placement: plan.Placement{Class: workload.Shared, CPUs: topology.CPUs(8), Home: topology.Nodes(1)}}
	here := Home{Placement: plan.Placement{Class: workload.Shared, CPUs: topology.CPUs(0), Home: topology.Nodes(0)}}
	own := Home{Placement: plan.Placement{Class: workload.Dedicated, CPUs: topology.CPUs(8), Pins: []topology.CPUID{8}, Home: topology.Nodes(1)}}
	with := func(change func(*Guest)) Guest { s := runs; change(&s); return s }
	tests := []struct {
		name string
		s    Guest
		home Home
		now  bool
		want string
	}{
		{"runs", runs, to, true, "set-cpus 0>8; set-mems 0>1; set-next >8/1"},
		{"is there", runs, here, true, "set-next >0/0"},
		{"a vCPU was plugged in", with(func(s *Guest) { s.Loose = true }), here, true, "set-cpus 0>0; set-next >0/0"},
		{"is off", with(func(s *Guest) { s.Running, s.Mode = false, "" }), to, true, "set-next >8/1"},
		{"is strict", with(func(s *Guest) { s.Mode = "strict" }), to, false, "set-next >8/1"},
		{"gets CPUs of its own", runs, own, false, "set-next >0=8 emulator=/1"},
		{"is transient", with(func(s *Guest) { s.Transient = true }), to, true, "set-cpus 0>8; set-mems 0>1"},
		{"is transient and bound nowhere", with(func(s *Guest) { s.Transient, s.Mode = true, "" }), to, false, ""},
	}
	text := func(steps []plan.Step) string {
		var out []string
		for _, s := range steps {
			if s.Workload != "vm:a" || s.Target.Kind != Kind {
				t.Errorf("%+v", s)
			}
			out = append(out, fmt.Sprintf("%s %s>%s", s.Kind, s.From, s.To))
		}
		return strings.Join(out, "; ")
	}
	for _, tt := range tests {
		steps, now := tt.s.Steps(tt.home)
		if got := text(steps); got != tt.want || now != tt.now {
			t.Errorf("%s: %s, now %t", tt.name, got, now)
		}
	}
	steps, _ := runs.Steps(to)
	if got := text(Reverse(steps)); got != "set-mems 1>0; set-cpus 8>0" {
		t.Errorf("back: %s", got)
	}
	if got := text(Reverse(steps[:1])); got != "set-cpus 8>0" {
		t.Errorf("back: %s", got)
	}
}

// What is kept for a guest: all of it, and its memory in pages of all sizes.
func TestWhatIsKept(t *testing.T) {
	place := func(id workload.ID) plan.Placement {
		return plan.Placement{Workload: id, Class: workload.Dedicated, Asked: 5}
	}
	spare, nextSpare := place(EmulatorID("a")), place(EmulatorID("a"))
	s := Guest{Name: "a", Spec: workload.Spec{Memory: 7}, Home: Home{Placement: place("vm:a"), Spare: &spare}, Apart: []plan.Placement{place(PinnedID("a")), place(PagesID("a", 2048))},
		Next: &Home{Placement: place("vm:a"), Spare: &nextSpare}}
	var ids []string
	for _, p := range s.Holds() {
		ids = append(ids, string(p.Workload))
	}
	if got := strings.Join(ids, " "); got != "vm:a vm:a/emulator vm:a/pinned vm:a/pages-2048 vm:a/next vm:a/emulator/next" {
		t.Error(got)
	}
	if s.Memory() != 17 {
		t.Errorf("%d KiB", s.Memory())
	}
	s.Placed = true
	if s.movable() {
		t.Error("it moves, and what is kept beside it does not")
	}
	s.Apart, s.Home.Spare, s.Next = nil, nil, nil
	if !s.movable() {
		t.Error("it may move")
	}
	for id, name := range map[workload.ID]string{"vm:a": "a", "vm:a/next": "", "a": "", "vm:a b": "a b"} {
		if NameOf(id) != name {
			t.Errorf("%s: %q", id, NameOf(id))
		}
	}
}
