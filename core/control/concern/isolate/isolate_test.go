package isolate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// host is a host of eight CPUs with isolated work, /a/x, on CPUs 2 and 3.
type host struct {
	t *testing.T
	Bound
	sc   *concern.Scene
	loop *concerntest.Loop
	out  concern.Desired
}

func on(t *testing.T) *host {
	h := &host{t: t}
	h.sc, h.loop = concerntest.On(plantest.Draw("0 0-7 16G 10\n"))
	c := New()
	c.Heard = true
	c.Noise.Tickless = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	h.Bound = Bound{Concern: &c, Left: func(number int) bool { return number == 99 }}
	h.add("/a/x", topology.CPUs(2, 3), topology.CPUSet{})
	return h
}

func (h *host) add(id workload.ID, cpus, idle topology.CPUSet) *place.Subject {
	x := place.Subject{Spec: workload.Spec{Isolated: true}, Observation: concerntest.Service(id, cpus)}
	return concerntest.Add(h.sc, x, &workload.Placement{Class: workload.Dedicated, CPUs: cpus, Idle: idle})
}

func (h *host) scan() string {
	h.out = h.Decide(h.sc)
	return concerntest.Lines(h.out.Settings)
}

const (
	within = "cpuset.cpus.exclusive /a of isolation: set-cgroup  > 2-3 isolated-within\n"
	own    = "cpuset.cpus.exclusive /a/x of /a/x: set-cgroup  > 2-3 isolated-exclusive"
)

// TestPartition: first the cgroups above get the CPUs, and the cgroup of the work; once all have them, it becomes a
// partition.
func TestPartition(t *testing.T) {
	h := on(t)
	concerntest.Expect(t, "first", h.scan(), within+own)
	above := concerntest.Set(h.sc, ID, plan.CgroupExclusive, "/a", "2-3")
	mine := concerntest.Set(h.sc, "/a/x", plan.CgroupExclusive, "/a/x", "2-3")
	const made = "\ncpuset.cpus.partition /a/x of /a/x: set-cgroup member > isolated isolated-partition"
	stand := strings.ReplaceAll(within+own, "set-cgroup  >", "set-cgroup 2-3 >")
	concerntest.Expect(t, "then", h.scan(), stand+made)
	for name, change := range map[string]func(){
		"not applied above": func() { above.State = plan.Intended },
		"fewer CPUs above":  func() { above.State, above.New = plan.Applied, "2" },
		"no CPUs above":     func() { above.New = "x" },
		"not applied":       func() { above.New, mine.State = "2-3", plan.Intended },
	} {
		above.State, above.New, mine.State = plan.Applied, "2-3", plan.Applied
		change()
		if strings.Contains(h.scan(), "isolated-partition") {
			t.Errorf("%s: it becomes a partition", name)
		}
	}
}

// TestWithin: a cgroup above several partitions has the CPUs of all.
func TestWithin(t *testing.T) {
	h := on(t)
	h.add("/a/b/y", topology.CPUs(5), topology.CPUSet{})
	h.add("vm", topology.CPUs(6), topology.CPUSet{})
	h.loop.Is("managed vm")
	concerntest.Expect(t, "desires", h.scan(), `
		cpuset.cpus.exclusive /a of isolation: set-cgroup  > 2-3,5 isolated-within
		cpuset.cpus.exclusive /a/b of isolation: set-cgroup  > 5 isolated-within
		cpuset.cpus.exclusive /a/b/y of /a/b/y: set-cgroup  > 5 isolated-exclusive
		`+own)
}

// TestWhoIsIsolated: dedicated work that wants it, unless it is held.
func TestWhoIsIsolated(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   bool
	}{
		{"dedicated", func(*host) {}, true},
		{"it does not want it", func(h *host) { h.sc.Subjects[0].Spec.Isolated = false }, false},
		{"held", func(h *host) { h.loop.Is("held /a/x") }, false},
		{"all held", func(h *host) { h.loop.Is("all held") }, false},
		{"shared", func(h *host) { h.sc.Plan.Placements[0].Class = workload.Shared }, false},
		{"no home", func(h *host) { h.sc.Plan.Placements = nil }, false},
	} {
		h := on(t)
		c.change(h)
		h.Noise.Tickless = topology.CPUSet{}
		if got := h.scan() != "" && len(h.out.Why) == 1; got != c.want {
			t.Errorf("%s: %v", c.name, h.out)
		}
	}
}

// TestCPUs: settings of each isolated CPU that the kernel has.
func TestCPUs(t *testing.T) {
	h := on(t)
	h.sc.Plan.Placements[0].Idle = topology.CPUs(7)
	h.Noise.Latency = topology.CPUs(2, 4, 7)
	h.Noise.Preference = topology.CPUs(3)
	h.Noise.Governor = topology.CPUs(2, 3)
	concerntest.Expect(t, "desires", h.scan(), within+own+fmt.Sprintf(`
		file %s of /a/x: set-file  > 2 isolated-idle
		file %s of /a/x: set-file  > performance isolated-speed
		file %s of /a/x: set-file  > performance isolated-speed`,
		hostprep.IdleLatency(2), hostprep.Governor(2), hostprep.EnergyPreference(3)))
}

// TestMasks: workqueues and new interrupts keep off isolated CPUs and their idle siblings, from the CPUs that they
// had before homenode changed them.
func TestMasks(t *testing.T) {
	const unbound = "file " + hostprep.Workqueue + " of isolation: set-file %s > %s isolated-workqueues"
	all := topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	for _, c := range []struct {
		name   string
		change func(*host)
		want   string
	}{
		{"all CPUs", func(h *host) { h.Noise.Unbound = all }, fmt.Sprintf(unbound, "0-7", "0-1,4-6")},
		{"not isolated ones", func(h *host) { h.Noise.Unbound = topology.CPUs(0, 1) }, ""},
		{"isolated ones alone", func(h *host) { h.Noise.Unbound = topology.CPUs(2) }, fmt.Sprintf(unbound, "2", "0-1,4-6")},
		{"a CPU offline", func(h *host) {
			h.Noise.Unbound = all
			h.sc.Snapshot.Host.Online.Remove(6)
		}, fmt.Sprintf(unbound, "0-7", "0-1,4-5")},
		{"all CPUs are isolated", func(h *host) {
			h.Noise.Unbound = all
			h.sc.Plan.Placements[0].CPUs = all
		}, ""},
		{"changed before", func(h *host) {
			h.Noise.Unbound = topology.CPUs(0)
			e := concerntest.Set(h.sc, ID, plan.HostFile, hostprep.Workqueue, "1")
			e.Old = "0f"
		}, fmt.Sprintf(unbound, "1", "0-1")},
		{"no mask before", func(h *host) {
			h.Noise.Unbound = all
			concerntest.Set(h.sc, ID, plan.HostFile, hostprep.Workqueue, "1").Old = "x"
		}, ""},
		{"the host was prepared", func(h *host) {
			h.Noise.Unbound = all
			concerntest.Set(h.sc, hostprep.ID, plan.HostFile, hostprep.Workqueue, "1").Old = "ff"
		}, ""},
		{"the user has undone it", func(h *host) {
			h.Noise.Unbound = all
			h.loop.Is("held isolation")
		}, ""},
		{"new interrupts", func(h *host) { h.Noise.Default = all },
			"file " + hostprep.DefaultIRQ + " of isolation: set-file 0-7 > 0-1,4-6 isolated-new-irqs"},
	} {
		h := on(t)
		h.sc.Plan.Placements[0].Idle = topology.CPUs(7)
		c.change(h)
		got := h.scan()
		_, rest, _ := strings.Cut(got, "isolated-exclusive")
		concerntest.Expect(t, c.name, rest, c.want)
	}
	h := on(t)
	h.Noise.Unbound = all
	h.sc.Plan.Placements = nil
	concerntest.Expect(t, "nothing is isolated", h.scan(), "")
}

// TestInterrupts: interrupts leave isolated CPUs, unless the kernel keeps them or another concern moves them.
func TestInterrupts(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      hostprep.Interrupt
		change func(*host)
		want   string
	}{
		{"on an isolated CPU", hostprep.Interrupt{Number: 5, Name: "nvme", CPUs: topology.CPUs(1, 2)}, func(*host) {},
			"host-irq 5/nvme of isolation: set-irq 1-2 > 1 isolated-interrupt"},
		{"on another CPU", hostprep.Interrupt{Number: 5, Name: "nvme", CPUs: topology.CPUs(1)}, func(*host) {}, ""},
		{"another concern's", hostprep.Interrupt{Number: 99, Name: "eth", CPUs: topology.CPUs(2)}, func(*host) {}, ""},
		{"the kernel keeps it", hostprep.Interrupt{Number: 5, Name: "nvme", CPUs: topology.CPUs(2)},
			func(h *host) { h.KeptIRQ["5/nvme"] = true }, ""},
		{"changed before", hostprep.Interrupt{Number: 5, Name: "nvme", CPUs: topology.CPUs(1)},
			func(h *host) { concerntest.Set(h.sc, ID, plan.HostIRQ, "5/nvme", "1").Old = "0-2" },
			"host-irq 5/nvme of isolation: set-irq 1 > 0-1 isolated-interrupt"},
	} {
		h := on(t)
		h.Noise.Interrupts = []hostprep.Interrupt{c.x}
		c.change(h)
		_, rest, _ := strings.Cut(h.scan(), "isolated-exclusive")
		concerntest.Expect(t, c.name, rest, c.want)
	}
}

// TestNotHeard: until the host was read, what an earlier daemon has set stays.
func TestNotHeard(t *testing.T) {
	h := on(t)
	h.Concern.Heard = false
	h.Noise.Unbound = topology.CPUs(2)
	concerntest.Expect(t, "desires", h.scan(), within+own)
	if got := fmt.Sprint(h.out.Leave); got != "map[/a/x:true isolation:true]" || len(h.out.Why) > 0 {
		t.Errorf("left alone: %s, why %v", got, h.out.Why)
	}
	h.Found(hostprep.Noise{Unbound: topology.CPUs(2, 4)})
	if !strings.Contains(h.scan(), "isolated-workqueues") || len(h.out.Leave) > 0 {
		t.Errorf("after the survey: %+v", h.out)
	}
}

// TestTicks: the CPUs whose tick no setting stops are named.
func TestTicks(t *testing.T) {
	h := on(t)
	h.scan()
	if len(h.out.Why) > 0 {
		t.Errorf("%v", h.out.Why)
	}
	h.Noise.Tickless = topology.CPUs(2)
	h.scan()
	if got, want := h.out.Why["/a/x"], words.Because(words.IsolatedTick, topology.CPUs(3)); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestOwns: partitions, settings of single CPUs, and the settings that isolated work shares.
func TestOwns(t *testing.T) {
	for e, want := range map[*plan.Entry]bool{
		{Kind: plan.CgroupPartition}:                         true,
		{Kind: plan.CgroupExclusive}:                         true,
		{Kind: plan.CgroupCPUs, Workload: ID}:                false,
		{Kind: plan.HostFile, Workload: ID, Path: "x"}:       true,
		{Kind: plan.HostFile, Path: "x"}:                     false,
		{Kind: plan.HostFile, Path: hostprep.IdleLatency(2)}: true,
		{Kind: plan.HostFile, Path: hostprep.Governor(2)}:    true,
		{Kind: plan.HostIRQ, Workload: ID}:                   true,
		{Kind: plan.HostIRQ}:                                 false,
	} {
		if got := (Bound{}).Owns(e); got != want {
			t.Errorf("%+v: %v", e, got)
		}
	}
}

// TestKeptInterrupts: it remembers the interrupts that the kernel does not let move.
func TestKeptInterrupts(t *testing.T) {
	for _, c := range []struct {
		id   workload.ID
		f    *work.Failure
		want int
	}{
		{ID, nil, 0}, {ID, &work.Failure{Code: work.Failed}, 0}, {"/a/x", &work.Failure{Code: work.Fixed}, 0},
		{ID, &work.Failure{Code: work.Fixed}, 1},
	} {
		h := on(t)
		step := plan.Step{Workload: c.id, Target: plan.Target{Host: "5/nvme"}}
		if h.Ended(h.sc, &step, c.f) || len(h.KeptIRQ) != c.want {
			t.Errorf("%+v: %v", c, h.KeptIRQ)
		}
	}
}

// TestCPUsOfPartitions: the CPUs of partitions that homenode has made.
func TestCPUsOfPartitions(t *testing.T) {
	h := on(t)
	for path, cpus := range map[string]string{"/a": "2-3", "/b": "5", "/c": "x", "/d": ""} {
		concerntest.Set(h.sc, ID, plan.CgroupPartition, path, "isolated")
		if cpus != "" {
			concerntest.Set(h.sc, ID, plan.CgroupExclusive, path, cpus)
		}
	}
	concerntest.Set(h.sc, ID, plan.CgroupExclusive, "/above", "0-7")
	if got := CPUs(h.sc.Journal).String(); got != "2-3,5" {
		t.Errorf("%s", got)
	}
}
