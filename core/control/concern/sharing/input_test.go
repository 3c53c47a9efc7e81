package sharing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// shown writes an input, a node and a batch workload a line.
func shown(in share.Input) string {
	var lines []string
	for i := range in.Nodes {
		n := &in.Nodes[i]
		line := fmt.Sprintf("node %d: %s in", n.ID, n.Pool)
		for _, c := range n.Cores {
			line += " " + c.String()
		}
		line += fmt.Sprintf(", online %.2f, system %.2f, known %v", n.Online, n.System, n.Known)
		if n.Waiting != "" {
			line += fmt.Sprintf(", %s waits %.2f", n.Waiting, n.Wait)
		}
		lines = append(lines, line)
	}
	for i := range in.Work {
		w := &in.Work[i]
		line := fmt.Sprintf("%s: %d of %s, uses %.2f of %s, %d MiB/s, ran on %v",
			w.ID, w.Importance, w.CPUs, w.Use, w.Now, w.Traffic, w.RanOn)
		line += fmt.Sprintf(", freezes %v, limits %v %.2f, asks %v, proven %v", w.Freezes, w.Limits, w.Max, w.Asks, w.Proven)
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// uses has a workload use CPUs on nodes in equal parts.
func uses(cpus float64, nodes ...topology.NodeID) func(*place.Subject) {
	return func(x *place.Subject) {
		x.Observation.CPUUse = cpus
		for _, n := range nodes {
			x.Observation.RanOn = append(x.Observation.RanOn, workload.NodeShare{Node: n, Share: 1 / float64(len(nodes))})
		}
	}
}

func (h *host) known(use ...float64) {
	h.Snapshot.Nodes = nil
	for i, cpus := range use {
		h.Snapshot.Nodes = append(h.Snapshot.Nodes, workload.NodeUse{Node: topology.NodeID(i), CPUUse: cpus})
	}
}

// TestInput: who keeps the CPUs of each node busy that batch work may use, too.
func TestInput(t *testing.T) {
	const free = "/b: 50 of 0-7, uses 0.50 of 0-7, 0 MiB/s, ran on [{0 0.5} {1 0.5}], freezes true, limits true 0.00, " +
		"asks false, proven false"
	for _, c := range []struct {
		name   string
		change func(*host)
		want   string
	}{
		{"batch work alone", func(*host) {}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.00, system 0.75, known true`},
		{"online work", func(h *host) { h.add("/x", workload.Shared, "", uses(0.5, 1)) }, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.50, system 0.25, known true`},
		{"online work without a home", func(h *host) {
			x := place.Subject{Observation: concerntest.Service("/a", all)}
			uses(0.5, 1)(&x)
			concerntest.Add(h.Scene, x, nil)
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.50, system 0.25, known true`},
		{"online work first seen", func(h *host) {
			h.add("/x", workload.Shared, "", uses(0.5, 1)).Observation.FirstSeen = true
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.00, system 0.75, known true`},
		{"dedicated work", func(h *host) {
			h.add("/x", workload.Dedicated, "", uses(0.5, 1))
			p := &h.Plan.Placements[1]
			p.CPUs, p.Idle = topology.CPUs(4), topology.CPUs(5)
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 6-7 in 6 7, online 0.00, system 0.25, known true`},
		{"dedicated work first seen", func(h *host) {
			h.add("/x", workload.Dedicated, "", uses(0.5, 1)).Observation.FirstSeen = true
			h.Plan.Placements[1].CPUs = topology.CPUs(4)
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 5-7 in 5 6 7, online 0.00, system 0.25, known true`},
		{"reserved CPUs", func(h *host) { h.Policy.Reserved = topology.CPUs(4) }, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 5-7 in 5 6 7, online 0.00, system 0.00, known true`},
		{"forbidden CPUs", func(h *host) { h.Snapshot.Host.Allowed.Remove(4) }, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 5-7 in 5 6 7, online 0.00, system 0.75, known true`},
		{"half a core offline", func(h *host) {
			h.Snapshot.Host.Cores[4].CPUs.Add(9)
			h.Snapshot.Host.Cores[5].CPUs = topology.CPUs(10)
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 6 7, online 0.00, system 0.75, known true`},
		{"a node that was not read", func(h *host) { h.known(1, -1) }, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.00, system 0.00, known false`},
		{"a node that idles", func(h *host) { h.known(0) }, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.00, known true
			node 1: 4-7 in 4 5 6 7, online 0.00, system 0.00, known false`},
		{"a node that is not there", func(h *host) {
			h.known(1, 1, 7)
			h.add("/x", workload.Shared, "", uses(3, 2))
		}, `
			node 0: 0-3 in 0 1 2 3, online 0.00, system 0.75, known true
			node 1: 4-7 in 4 5 6 7, online 0.00, system 0.75, known true`},
	} {
		h := on(t)
		h.known(1, 1)
		h.batch("/b", uses(0.5, 0, 1))
		c.change(h)
		concerntest.Expect(t, c.name, shown(h.input()), c.want+"\n"+free)
	}
}

// TestInputWaits: the important workload that waits most on a node; batch work and other work do not count.
func TestInputWaits(t *testing.T) {
	waits := func(share float64, nodes ...topology.NodeID) func(*place.Subject) {
		return func(x *place.Subject) {
			uses(0.1, nodes...)(x)
			x.Observation.Waited = share
		}
	}
	h := on(t)
	h.batch("/b", waits(0.9, 0))
	h.add("/c", workload.Shared, workload.Online, waits(0.1, 0, 1))
	h.add("/d", workload.Shared, workload.Online, waits(0.2, 0))
	h.add("/e", workload.Shared, workload.Online, waits(0.1, 0, 1))
	h.add("/f", workload.Shared, workload.Normal, waits(0.9, 0))
	h.add("/g", workload.Dedicated, "", waits(0.15, 0, 1))
	in := h.input()
	for i, want := range []string{"/d 0.2", "/g 0.15"} {
		if got := fmt.Sprint(in.Nodes[i].Waiting, " ", in.Nodes[i].Wait); got != want {
			t.Errorf("node %d: %s waits, want %s", i, got, want)
		}
	}
}

// TestWaited: work that keeps its CPUs busy waits for its own threads.
func TestWaited(t *testing.T) {
	for _, c := range []struct {
		cpus topology.CPUSet
		use  float64
		want float64
	}{
		{topology.CPUs(0, 1), 1.8, 0.3}, {topology.CPUs(0, 1), 0.95 * 2, 0}, {topology.CPUs(0, 1), 2, 0},
		{topology.CPUSet{}, 2, 0.3}, {topology.CPUs(0), 0.94, 0.3},
	} {
		if got := Waited(&workload.Observation{CPUs: c.cpus, CPUUse: c.use, Waited: 0.3}); got != c.want {
			t.Errorf("%.2f of %v: %.2f, want %.2f", c.use, c.cpus, got, c.want)
		}
	}
}

// TestRanOn: work ran where that was seen, else where it may run.
func TestRanOn(t *testing.T) {
	h := on(t)
	for _, c := range []struct {
		o    workload.Observation
		want string
	}{
		{workload.Observation{CPUs: topology.CPUs(0, 4, 5, 6)}, "[{0 0.25} {1 0.75}]"},
		{workload.Observation{CPUs: topology.CPUs(4)}, "[{1 1}]"},
		{workload.Observation{CPUs: all, RanOn: []workload.NodeShare{{Node: 1, Share: 1}}}, "[{1 1}]"},
		{workload.Observation{}, "[]"},
	} {
		if got := fmt.Sprint(h.ranOn(&c.o)); got != c.want {
			t.Errorf("%v: %s, want %s", c.o.CPUs, got, c.want)
		}
	}
}

// TestBatchInput: the figures of each batch workload.
func TestBatchInput(t *testing.T) {
	h := on(t)
	h.settings.Share.Stop = true
	h.batch("/a", func(x *place.Subject) { x.Observation.Bandwidth = 7 })
	h.batch("/system.slice/b.service", nil)
	h.batch("/z", func(x *place.Subject) { x.Observation.Caps.Evicts = true })
	h.loop.Is("managed /z")
	h.Plan.Placements[1].Importance, h.Plan.Placements[1].CPUs = 20, topology.CPUs(1)
	h.Interference.Blames = []share.Blame{{Offender: "/a", Victim: "/x", Proven: true, Until: h.At.Add(time.Hour)}}
	const ran = "uses 0.00 of 0-7, %d MiB/s, ran on [{0 0.5} {1 0.5}], "
	concerntest.Expect(t, "batch work", strings.Join(strings.Split(shown(h.input()), "\n")[2:], "\n"), `
		/a: 50 of 0-7, `+fmt.Sprintf(ran, 7)+`freezes true, limits true 0.00, asks false, proven true
		/system.slice/b.service: 20 of 1, `+fmt.Sprintf(ran, 0)+`freezes true, limits true 0.00, asks true, proven false
		/z: 50 of 0-7, `+fmt.Sprintf(ran, 0)+`freezes false, limits false 0.00, asks true, proven false`)
}

// TestLimitOf: the limit that homenode has set of the CPUs that a workload keeps busy.
func TestLimitOf(t *testing.T) {
	failed := work.Key{Workload: "/b", Kind: plan.SetCgroup, Device: string(plan.CgroupMax)}
	for _, c := range []struct {
		name   string
		change func(*host)
		may    bool
		cpus   float64
	}{
		{"none", func(*host) {}, true, 0},
		{"one and a half", func(h *host) {
			concerntest.Set(h.Scene, "/b", plan.CgroupMax, "/b", "150000 100000")
		}, true, 1.5},
		{"no limit", func(h *host) { concerntest.Set(h.Scene, "/b", plan.CgroupMax, "/b", "max 100000") }, true, 0},
		{"of an earlier cgroup", func(h *host) {
			concerntest.Set(h.Scene, "/b", plan.CgroupMax, "/b", "150000 100000").Object = "6"
		}, true, 0},
		{"it failed", func(h *host) { h.loop.Tries[failed] = work.Retry{Failures: 1} }, false, 0},
		{"no cgroup of its own", func(h *host) { h.loop.Is("managed /b") }, false, 0},
	} {
		h := on(t)
		x := h.batch("/b", nil)
		c.change(h)
		may, cpus := h.limitOf(x)
		if may != c.may || cpus != c.cpus {
			t.Errorf("%s: %v %v", c.name, may, cpus)
		}
	}
}

// TestFrozenLong: history has each workload that is frozen for ten minutes.
func TestFrozenLong(t *testing.T) {
	h := on(t)
	h.Shared.Work = []share.Grant{
		{Workload: "/a", Since: h.Began.Add(-time.Hour)},
		{Workload: "/b", Frozen: true, Since: h.Began.Add(-frozenLong + 1)},
		{Workload: "/c", Frozen: true, Since: h.Began.Add(-frozenLong), For: "/x"},
	}
	h.tellFrozen()
	h.logged("history", `
		over [frozen /a]
		over [frozen /b]
		once [frozen /c] /c share-frozen-long 10m0s /x error`)
}

// TestUnits: the units of the system that may be stopped.
func TestUnits(t *testing.T) {
	for cgroup, want := range map[string]string{
		"/system.slice/b.service":                                 "b.service",
		"/machine.slice/machine-x.slice/b.scope":                  "b.scope",
		"/b.service":                                              "b.service",
		"/system.slice/b.slice":                                   "",
		"/system.slice/a.service/b.service":                       "",
		"/user.slice/user-1000.slice/user@1000.service/b.service": "",
		"/user.slice/user-1000.slice/session-1.scope":             "",
		"/system.slice/docker":                                    "",
	} {
		h := on(t)
		x := h.batch(workload.ID(cgroup), nil)
		if got := h.unitOf(x); got != "" {
			t.Errorf("%s: %s is stopped though the configuration says nothing", cgroup, got)
		}
		h.settings.Share.Stop = true
		if got := h.unitOf(x); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
}

// TestAsked: history says whose manager is asked, and it is asked once more after a while.
func TestAsked(t *testing.T) {
	h := on(t)
	h.Stopped = map[workload.ID]string{"/a": "a", "/b": "b", "/c": "c", "/d": "d"}
	why := words.Because(words.ShareNone)
	h.Shared.Work = []share.Grant{
		{Workload: "/a", Why: why}, {Workload: "/b", Asked: h.Began, Why: why},
		{Workload: "/c", Asked: h.Began.Add(-1), Why: why},
	}
	h.tellAsked()
	h.logged("history", "event /b share-none error")
	if got := fmt.Sprint(h.Stopped); got != "map[/c:c /d:d]" {
		t.Errorf("stopped: %s", got)
	}
}
