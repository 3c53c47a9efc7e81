package sharing

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// host is a host of two nodes with four CPUs each that shares CPUs with batch work, and one decision on it.
type host struct {
	*turn
	t    *testing.T
	loop *concerntest.Loop
}

func on(t *testing.T) *host {
	sc, loop := concerntest.On(plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10\n"))
	c := New(Settings{Share: share.Settings{On: true, Target: 0.65, MaxWait: 0.05}}, Saved{})
	return &host{&turn{Concern: &c, Scene: sc}, t, loop}
}

var all = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)

// add adds a workload in a cgroup of its own with a home of its class.
func (h *host) add(
	id workload.ID, class workload.Class, tier workload.Tier, change func(*place.Subject),
) *place.Subject {
	x := place.Subject{Spec: workload.Spec{Class: class, Tier: tier}, Observation: concerntest.Service(id, all)}
	if change != nil {
		change(&x)
	}
	home := &workload.Placement{Class: class, CPUs: all, Importance: 50, Home: topology.Nodes(0)}
	return concerntest.Add(h.Scene, x, home)
}

func (h *host) batch(id workload.ID, change func(*place.Subject)) *place.Subject {
	x := h.add(id, workload.Batch, "", change)
	h.mine = append(h.mine, x)
	return x
}

func (h *host) logged(what, want string) {
	h.t.Helper()
	concerntest.Expect(h.t, what, h.loop.Logged(), want)
}

// TestNew: the newer of configuration and last order holds.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		config, saved, then, want bool
	}{
		{true, false, true, false}, {true, false, false, true}, {false, true, false, true}, {false, true, true, false},
	} {
		got := New(Settings{Share: share.Settings{On: c.config}}, Saved{On: c.saved, Configured: c.then})
		if got.ShareOn != c.want {
			t.Errorf("configured %v, ordered %v when that was %v: %v", c.config, c.saved, c.then, got.ShareOn)
		}
	}
}

// TestTurn: an order is on disk and in history, holds at once, and is nothing new the second time.
func TestTurn(t *testing.T) {
	h := on(t)
	h.Shared = View{On: true, Rest: words.Because(words.ShareNone)}
	if got := h.Now(); got.Rest.Code != words.ShareNone {
		t.Errorf("before: %+v", got)
	}
	if h.Turn(h.Scene, true) || len(h.loop.Saved) > 0 {
		t.Error("it was on already")
	}
	if !h.Turn(h.Scene, false) {
		t.Error("what is no longer desired is not restored at once")
	}
	h.logged("off", "order share-ordered off")
	if !reflect.DeepEqual(h.loop.Saved[Key], Saved{Configured: true}) {
		t.Errorf("on disk: %+v", h.loop.Saved)
	}
	if got := h.Now(); got.On || got.Rest.Code != words.ShareOff {
		t.Errorf("off: %+v", got)
	}
	h.Shared = View{}
	if h.Turn(h.Scene, true) {
		t.Error("there is something to restore")
	}
	h.logged("on", "order share-ordered on")
	if got := h.Now(); !got.On || got.Rest.Code != words.ShareSoon {
		t.Errorf("on: %+v", got)
	}
}

// TestOwns: the files of cgroups, but for those that other concerns set.
func TestOwns(t *testing.T) {
	c := New(Settings{}, Saved{})
	protects := New(Settings{Base: share.Base{Protect: true}}, Saved{})
	for kind, want := range map[plan.SettingKind][2]bool{
		plan.CgroupIdle: {true, true}, plan.IOMax: {true, true}, plan.MemoryLow: {false, true},
		plan.SwapMax: {}, plan.MemoryMin: {}, plan.CgroupPartition: {}, plan.CgroupExclusive: {}, plan.CgroupCPUs: {},
	} {
		e := &plan.Entry{Kind: kind}
		if got := [2]bool{c.Owns(e), protects.Owns(e)}; got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}

// TestVerifies: the files of cgroups are read again twice a minute, and when the clock was set.
func TestVerifies(t *testing.T) {
	h := on(t)
	concerntest.Set(h.Scene, "/b", plan.CgroupIdle, "/b", "1")
	concerntest.Set(h.Scene, "/b", plan.CgroupCPUs, "/b", "1")
	for i, c := range []struct {
		pass time.Duration
		want int
	}{{0, 1}, {0, 0}, {checked - 1, 0}, {1, 1}, {checked, 1}, {-checked, 1}, {-time.Second, 0}} {
		concerntest.Pass(h.Scene, c.pass)
		if got := h.Verify(h.Scene); len(got) != c.want {
			t.Errorf("%d: %v, want %d", i, got, c.want)
		}
	}
}

// TestStopped: it remembers the units that systemd was asked to stop.
func TestStopped(t *testing.T) {
	c := New(Settings{}, Saved{})
	step := &plan.Step{Kind: plan.StopUnit, Workload: "/b", Target: plan.Target{Host: "b.service"}}
	for _, f := range []func() bool{
		func() bool { return c.Ended(nil, step, &work.Failure{}) },
		func() bool { return c.Ended(nil, &plan.Step{Kind: plan.SetCPUs, Workload: "/b"}, nil) },
	} {
		if f() || len(c.Stopped) > 0 {
			t.Errorf("it was not asked: %v", c.Stopped)
		}
	}
	for _, id := range []workload.ID{"/b", "/c"} {
		step.Workload = id
		if c.Ended(nil, step, nil) || c.Stopped[id] != "b.service" {
			t.Errorf("it was asked: %v", c.Stopped)
		}
	}
	if len(c.Stopped) != 2 {
		t.Errorf("it forgot one: %v", c.Stopped)
	}
}

// TestView: lookups of one workload.
func TestView(t *testing.T) {
	v := View{Left: []LeftAlone{{Workload: "/l"}}}
	v.Work = []share.Grant{{Workload: "/a"}, {Workload: "/c"}}
	if !v.Leaves("/l") || v.Leaves("/a") || v.Of("/b") != nil || v.Of("/c") != &v.Work[1] {
		t.Errorf("%+v", v)
	}
	h := on(t)
	for _, id := range []workload.ID{"/a", "/b", "/c", "/d"} {
		h.batch(id, nil)
	}
	h.Shared = v
	var ids []string
	for _, x := range h.Mine(h.Scene) {
		ids = append(ids, string(x.Observation.ID))
	}
	if got := strings.Join(ids, " "); got != "/a /c" {
		t.Errorf("squeezed: %s", got)
	}
}

// TestSorts: which batch work is squeezed, and why other batch work is left alone.
func TestSorts(t *testing.T) {
	h := on(t)
	h.add("/batch", workload.Batch, "", nil)
	h.add("/tier", workload.Shared, workload.BatchTier, nil)
	h.add("/own", workload.Dedicated, workload.BatchTier, nil)
	h.add("/shared", workload.Shared, "", nil)
	h.add("/fixed", workload.Batch, "", func(x *place.Subject) { x.Fixed = true })
	h.add("/alone", workload.Batch, "", func(x *place.Subject) { x.Alone = words.Because(words.NotIncluded) })
	h.add("/held", workload.Batch, "", func(x *place.Subject) { x.Alone = words.Because(words.NotIncluded) })
	h.loop.Is("held /held")
	h.add("/became", workload.Batch, "", nil).Spec.Class = workload.Shared
	concerntest.Add(h.Scene, place.Subject{
		Spec: workload.Spec{Class: workload.Batch}, Observation: workload.Observation{ID: "/homeless"},
	}, nil)
	h.Plan.Report.Decisions = []plan.Decision{
		{Workload: "/fixed", Reasons: words.Reasons(words.Because(words.NamedByHand))},
	}
	h.sort()
	var got []string
	for _, x := range h.mine {
		got = append(got, string(x.Observation.ID)+" squeezed")
	}
	for _, l := range h.Shared.Left {
		line := string(l.Workload)
		for _, why := range l.Why {
			line += " " + string(why.Code)
		}
		got = append(got, line)
	}
	concerntest.Expect(t, "batch work", strings.Join(got, "\n"), `
		/batch squeezed
		/became squeezed
		/tier squeezed
		/alone not-included
		/fixed named-by-hand
		/held held-by-hand
		/homeless`)
}

// TestNothingToShare: the reasons for sharing nothing; the concern then forgets its state.
func TestNothingToShare(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   words.Code
		nodes  int
	}{
		{"off", func(h *host) { h.ShareOn = false; h.add("/b", workload.Batch, "", nil) }, words.ShareOff, 0},
		{"no batch work", func(h *host) { h.add("/x", workload.Shared, "", nil) }, words.ShareNone, 2},
		{"all left alone", func(h *host) {
			h.add("/b", workload.Batch, "", func(x *place.Subject) { x.Fixed = true })
		}, words.ShareAllLeft, 2},
	} {
		h := on(t)
		c.change(h)
		h.Stopped = map[workload.ID]string{"/z": "z"}
		h.Interference.At, h.Sharing.Changed = h.At, h.At
		out := h.Decide(h.Scene)
		right := h.Shared.Rest.Code == c.want && len(h.Shared.Nodes) == c.nodes && h.Shared.On == h.ShareOn
		if len(out.Settings) > 0 || !right {
			t.Errorf("%s: %v, %+v", c.name, out.Settings, h.Shared)
		}
		if h.Stopped != nil || !h.Interference.At.IsZero() || !h.Sharing.Changed.IsZero() {
			t.Errorf("%s: it remembers %v", c.name, h.Concern)
		}
	}
}

// TestLacks: where no workload has a cgroup, sharing sets CPU sets alone.
func TestLacks(t *testing.T) {
	h := on(t)
	if !h.lacks().None() {
		t.Error("there is no batch work")
	}
	h.batch("/b", nil)
	if !h.lacks().None() {
		t.Error("it has a cgroup")
	}
	h.Snapshot.Observations[0].Kind = workload.InProcess
	if h.lacks().Code != words.ShareProcesses {
		t.Error("all are processes")
	}
	h.add("/x", workload.Shared, "", nil)
	if !h.lacks().None() {
		t.Error("another has a cgroup")
	}
}

// TestSqueezes: all that is set of batch work in a scan.
func TestSqueezes(t *testing.T) {
	h := on(t)
	h.add("/b", workload.Batch, "", nil)
	h.add("/x", workload.Shared, workload.Online, nil)
	h.settings.Base.Burst = true
	h.Snapshot.Nodes = []workload.NodeUse{{Node: 0, CPUUse: 1}, {Node: 1, CPUUse: 1}}
	out := h.Decide(h.Scene)
	g := h.Shared.Of("/b")
	concerntest.Expect(t, "desires", concerntest.Lines(out.Settings), `
		cpuset.cpus  of /b: set-cpus 0-7 > `+g.CPUs.String()+` `+string(g.Why.Code)+` is otherwise
		cpu.idle /b of /b: set-cgroup 0 > 1 share-idle
		cpu.max /b of /b: set-cgroup max 100000 > max 100000 share-no-max
		cgroup.freeze /b of /b: set-cgroup 0 > 0 share-thaw
		memory.high /b of /b: set-cgroup max > max
		io.weight /b of /b: set-cgroup 100 > 100 share-io-weight
		io.max /b of /b: set-cgroup  >  share-io-max
		cpu.max.burst /x of /x: set-cgroup 0 > 0 share-no-burst`)
	h.logged("history", "over [frozen /b]")
	if !h.Shared.Rest.None() || h.Name() != "sharing" {
		t.Errorf("%v", h.Shared.Rest)
	}
}

// TestGrants: what one batch workload gets by its grant.
func TestGrants(t *testing.T) {
	grant := share.Grant{CPUs: topology.CPUs(4, 5), Why: words.Because(words.ShareNone)}
	for _, c := range []struct {
		name   string
		change func(*host, *workload.Observation, *share.Grant)
		want   string
	}{
		{"as it is", func(_ *host, o *workload.Observation, _ *share.Grant) { o.CPUs = topology.CPUs(4, 5) }, "yes 0 0"},
		{"other CPUs", func(*host, *workload.Observation, *share.Grant) {}, "no 0 0"},
		{"uneven", func(_ *host, o *workload.Observation, _ *share.Grant) {
			o.CPUs, o.UnevenCPUs = topology.CPUs(4, 5), true
		}, "no 0 0"},
		{"limited", func(_ *host, _ *workload.Observation, g *share.Grant) { g.Max = 1.5 }, "no 150000 100000 0"},
		{"limited to half a CPU", func(_ *host, _ *workload.Observation, g *share.Grant) {
			g.Max = 0.5
		}, "no 50000 100000 0"},
		{"frozen", func(_ *host, _ *workload.Observation, g *share.Grant) { g.Frozen = true }, "no 0 1"},
		{"asked", func(h *host, _ *workload.Observation, g *share.Grant) { g.Asked = h.At }, "no 0 0 b.service"},
		{"asked already", func(h *host, _ *workload.Observation, g *share.Grant) {
			g.Asked = h.At
			h.Stopped = map[workload.ID]string{"/system.slice/b.service": "b.service"}
		}, "no 0 0"},
		{"asked, no unit", func(h *host, _ *workload.Observation, g *share.Grant) {
			g.Asked = h.At
			h.settings.Share.Stop = false
		}, "no 0 0"},
		{"no cgroup of its own", func(h *host, _ *workload.Observation, _ *share.Grant) {
			h.loop.Is("managed /system.slice/b.service")
		}, "no"},
	} {
		h := on(t)
		h.settings.Share.Stop = true
		x := h.batch("/system.slice/b.service", nil)
		g := grant
		c.change(h, &x.Observation, &g)
		var got []string
		for _, d := range h.squeeze(x, &g) {
			switch d.Kind {
			case plan.CgroupCPUs:
				got = append(got, map[concern.Stands]string{concern.Yes: "yes", concern.No: "no"}[d.Stands])
			case plan.CgroupMax:
				got = append(got, strings.TrimSuffix(strings.Replace(d.Step.To, "max 100000", "0", 1), " "))
			case plan.CgroupFreeze, "unit":
				got = append(got, strings.Replace(d.Step.To, "stopped", d.Path, 1))
			}
		}
		if fmt.Sprint(strings.Join(got, " ")) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestDecidesWithAll: a decision goes by who hurts whom and by the goals, and history says whose manager is asked.
func TestDecidesWithAll(t *testing.T) {
	for _, acts := range []bool{true, false} {
		h := on(t)
		h.Acts = acts
		h.add("/b", workload.Batch, "", uses(2, 0))
		h.add("/x", workload.Shared, workload.Online, wants([]topology.NodeID{0}, kernel))
		h.Subjects[1].Observation.WaitedFrom = workload.PSI
		h.known(3, 1)
		h.Stopped = map[workload.ID]string{"/b": "b.service"}
		h.Interference.At = h.Began
		h.Interference.Blames = []share.Blame{{Offender: "/b", Victim: "/x", Since: h.Began, Until: h.Began.Add(time.Hour)}}
		h.Decide(h.Scene)
		if g := h.Shared.Of("/b"); !g.Cut || g.For != "/x" {
			t.Errorf("it hurts /x and gets %+v", g)
		}
		if len(h.Shared.Watched) != 1 || h.Shared.Steering.Of(0) == nil {
			t.Errorf("watched %v, steering %+v", h.Shared.Watched, h.Shared.Steering)
		}
		if _, asked := h.Stopped["/b"]; asked == acts {
			t.Errorf("changes are made: %v; asked: %v", acts, h.Stopped)
		}
		if !h.Settings().Share.On {
			t.Error("the configuration is another one")
		}
	}
}
