package fasttier

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const gib, mib = plantest.GiB, topology.KiB(1 << 10)

// host is a host of two nodes of 16 GiB and one of slower memory, to which the kernel demotes.
type host struct {
	t *testing.T
	Bound
	sc   *concern.Scene
	loop *concerntest.Loop
	out  concern.Desired
}

func on(t *testing.T) *host {
	machine := plantest.Draw("0 0-3 16G 10 20 30\n1 4-7 16G 20 10 30\n2 - 64G 30 30 10 type=cxl\n")
	machine.Tiering.Demotion = true
	h := &host{t: t}
	h.sc, h.loop = concerntest.On(machine)
	settings := Settings{Mode: Place, Protect: Low, Most: 0.5}
	h.Bound = Bound{Concern: &Concern{FastScan: concerntest.Start.Add(-2 * time.Second)}, Settings: settings}
	return h
}

// add adds a workload at home on node 0, with memory on node 0 and on the slower node. It uses a part.
func (h *host) add(id workload.ID, tier workload.Tier, fast, slow, used topology.KiB) *place.Subject {
	o := concerntest.Service(id, topology.CPUs(0, 1, 2, 3))
	o.Memory = []workload.NodeMemory{{Node: 0, KiB: fast}, {Node: 2, KiB: slow}}
	o.Used, o.Processes = used, []workload.Process{{PID: 7, Start: 7}}
	x := place.Subject{Spec: workload.Spec{Class: workload.Shared, Tier: tier, Importance: 50}, Observation: o}
	home := &workload.Placement{Class: workload.Shared, Importance: 50, Home: topology.Nodes(0)}
	return concerntest.Add(h.sc, x, home)
}

// scan decides, two seconds after the scan before.
func (h *host) scan() string {
	h.out = h.Decide(h.sc)
	concerntest.Pass(h.sc, 2*time.Second)
	return concerntest.Lines(h.out.Settings)
}

func (h *host) why(what string, id workload.ID, want words.Code) {
	h.t.Helper()
	if got := h.out.Why[id].Code; got != want {
		h.t.Errorf("%s: %s: %s, want %s", what, id, got, want)
	}
}

// TestActs: where there is a node that the kernel demotes from, and the configuration says so.
func TestActs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   bool
	}{
		{"place", func(*host) {}, true},
		{"report", func(h *host) { h.Mode = Report }, true},
		{"off", func(h *host) { h.Mode = Off }, false},
		{"not configured", func(h *host) { h.Mode = "" }, false},
		{"between two scans", func(h *host) { h.sc.Between = true }, false},
		{"no host was read", func(h *host) { h.sc.Snapshot.Host = nil }, false},
		{"no demotion", func(h *host) { h.sc.Snapshot.Host.Tiering.Demotion = false }, false},
		{"slower memory of a GPU alone", func(h *host) { h.sc.Snapshot.Host.Nodes[2].Type = topology.TypeGPU }, false},
		{"node of unknown memory", func(h *host) { h.sc.Snapshot.Host.Nodes[0].Memory = topology.None }, false},
		{"node without memory", func(h *host) { h.sc.Snapshot.Host.Nodes[0].Memory = 0 }, false},
		{"no memory without CPUs", func(h *host) {
			for i := range h.sc.Snapshot.Host.Nodes {
				h.sc.Snapshot.Host.Nodes[i].Kind = topology.Special
			}
		}, false},
	} {
		h := on(t)
		h.add("/x", workload.Online, gib, gib, gib)
		h.Tiered = map[workload.ID]bool{"/old": true}
		c.change(h)
		h.scan()
		if got := h.FastUse["/x"] != nil; got != c.want {
			t.Errorf("%s: %v", c.name, h.FastUse)
		}
		if c.want && fmt.Sprint(h.Tiered) != "map[/x:true]" {
			t.Errorf("%s: the use of %v is read", c.name, h.Tiered)
		}
	}
}

// TestOwns: memory.min, and memory.low where the concern of sharing does not set that.
func TestOwns(t *testing.T) {
	for kind, want := range map[plan.SettingKind][2]bool{
		plan.MemoryMin: {true, true}, plan.MemoryLow: {true, false}, plan.MemoryHigh: {},
	} {
		got := [2]bool{Bound{}.Owns(&plan.Entry{Kind: kind}), Bound{Elsewhere: true}.Owns(&plan.Entry{Kind: kind})}
		if got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if (Bound{}).Ended(nil, nil, nil) {
		t.Error("a step changes its desires")
	}
}

// TestForgets: work that is gone, and all work where there is no slower memory.
func TestForgets(t *testing.T) {
	h := on(t)
	h.FastUse = map[workload.ID]*Use{"/x": {}, "/y": {}}
	h.Forget(func(id workload.ID) bool { return id == "/x" })
	if len(h.FastUse) != 1 || h.FastUse["/y"] == nil {
		t.Errorf("%v", h.FastUse)
	}
	h.sc.Snapshot.Host.Tiering.Demotion = false
	h.scan()
	if h.FastUse != nil {
		t.Errorf("%v", h.FastUse)
	}
}

// TestOneNode: one node of fast memory is enough to divide; without any, no use is read.
func TestOneNode(t *testing.T) {
	h := on(t)
	h.add("/x", workload.Online, gib, gib, gib)
	h.sc.Snapshot.Host.Nodes[1].Kind = topology.Special
	h.scan()
	if !h.Tiered["/x"] {
		t.Error("one node is not divided")
	}
	h.sc.Snapshot.Host.Nodes[0].Memory = topology.None
	h.scan()
	if h.Tiered != nil || h.FastUse != nil {
		t.Errorf("the use of %v is read, %v is known", h.Tiered, h.FastUse)
	}
}

// TestImportant: whose use is read.
func TestImportant(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host, *place.Subject)
		want   bool
	}{
		{"online", func(*host, *place.Subject) {}, true},
		{"normal", func(_ *host, x *place.Subject) { x.Spec.Tier = workload.Normal }, false},
		{"batch class", func(h *host, _ *place.Subject) { h.sc.Plan.Placements[0].Class = workload.Batch }, false},
		{"held", func(h *host, _ *place.Subject) { h.loop.Is("held /x") }, false},
		{"at home on slower memory", func(h *host, _ *place.Subject) {
			h.sc.Plan.Placements[0].Home = topology.Nodes(2)
		}, false},
		{"without a home", func(h *host, _ *place.Subject) { h.sc.Plan.Placements = nil }, false},
	} {
		h := on(t)
		c.change(h, h.add("/x", workload.Online, gib, gib, gib))
		h.scan()
		if got := h.Tiered["/x"]; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestUseFades: the largest use of some minutes counts, at most all memory; a scan that comes late fades it no more
// than ten seconds do.
func TestUseFades(t *testing.T) {
	for _, c := range []struct {
		name             string
		was, used, holds topology.KiB
		pass             time.Duration
		want             topology.KiB
	}{
		{"more", 1 * gib, 2 * gib, 4 * gib, time.Second, 2 * gib},
		{"two seconds", 420 * mib, 0, 4 * gib, 2 * time.Second, 418 * mib},
		{"an hour", 420 * mib, 0, 4 * gib, time.Hour, 410 * mib},
		{"the clock was set back", 420 * mib, 0, 4 * gib, -time.Hour, 420 * mib},
		{"less memory", 4 * gib, 0, 1 * gib, time.Second, 1 * gib},
	} {
		h := on(t)
		h.add("/x", workload.Online, c.holds, 0, c.used)
		had := &Use{KiB: c.was, Up: 5}
		h.FastUse = map[workload.ID]*Use{"/x": had, "/gone": {}}
		h.FastScan = h.sc.Began.Add(-c.pass)
		h.scan()
		if got := h.FastUse["/x"]; got.KiB < c.want-1 || got.KiB > c.want || got.Up != 5 || len(h.FastUse) != 1 {
			t.Errorf("%s: %+v, want %d KiB", c.name, got, c.want)
		}
		if had.KiB != c.was {
			t.Errorf("%s: what readers have has changed", c.name)
		}
	}
}

// TestProtection: a cgroup is protected once all cgroups above it are, with the sum of the protection below each.
func TestProtection(t *testing.T) {
	h := on(t)
	h.add("/a/x", workload.Online, 4*gib, 0, gib)
	h.add("/a/y", workload.Online, 4*gib, 0, gib)
	const one, two = "1207959552", "2415919104" // 1 GiB and an eighth more
	const sum = "memory.low /a of fast-memory:/a: set-cgroup 0 > " + two + " fast-within"
	concerntest.Expect(t, "first", h.scan(), `
		memory.low /a/x of /a/x: stays
		memory.low /a/y of /a/y: stays
		`+sum)
	h.why("first", "/a/x", words.FastLow)
	above := concerntest.Set(h.sc, "fast-memory:/a", plan.MemoryLow, "/a", two)
	own := "\n" + `
		memory.low /a/x of /a/x: set-cgroup 0 > ` + one + ` fast-protected
		memory.low /a/y of /a/y: set-cgroup 0 > ` + one + ` fast-protected
		memory.low /a of fast-memory:/a: set-cgroup ` + two + ` > ` + two + ` fast-within`
	concerntest.Expect(t, "then", h.scan(), own)
	above.State = plan.Intended
	concerntest.Expect(t, "not applied yet", h.scan(), `
		memory.low /a/x of /a/x: stays
		memory.low /a/y of /a/y: stays
		memory.low /a of fast-memory:/a: set-cgroup `+two+` > `+two+` fast-within`)
	key := work.Key{Workload: "fast-memory:/a", Kind: plan.SetCgroup, Device: "memory.low"}
	h.loop.Tries[key] = work.Retry{Code: work.Foreign}
	concerntest.Expect(t, "another program protects it", h.scan(), own)
	delete(h.loop.Tries, key)
	h.loop.Facts["held fast-memory:/a"] = true
	concerntest.Expect(t, "the user has undone it", h.scan(), `
		memory.low /a/x of /a/x: stays
		memory.low /a/y of /a/y: stays`)
}

// TestProtectionKind: memory.min is set in place of memory.low where the configuration says so; where sharing sets
// memory.low, this concern sets memory.min alone.
func TestProtectionKind(t *testing.T) {
	const desire = "%s /x of /x: set-cgroup 0 > 1207959552 fast-protected"
	for _, c := range []struct {
		name      string
		protect   Protection
		elsewhere bool
		want      string
		why       words.Code
	}{
		{"low", Low, false, fmt.Sprintf(desire, "memory.low"), words.FastLow},
		{"min", Min, false, fmt.Sprintf(desire, "memory.min"), words.FastMin},
		{"low, elsewhere", Low, true, "", words.FastElsewhere},
		{"min, low elsewhere", Min, true, fmt.Sprintf(desire, "memory.min"), words.FastMin},
	} {
		h := on(t)
		h.add("/x", workload.Online, 4*gib, 0, gib)
		h.Protect, h.Elsewhere = c.protect, c.elsewhere
		concerntest.Expect(t, c.name, h.scan(), c.want)
		h.why(c.name, "/x", c.why)
	}
}

// TestExplains: the sentence of each important workload.
func TestExplains(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host, *place.Subject)
		want   words.Code
		sets   bool
	}{
		{"no evidence of use", func(_ *host, x *place.Subject) { x.Observation.Used = 0 }, words.FastNoUse, false},
		{"report", func(h *host, _ *place.Subject) { h.Mode = Report }, words.FastWould, false},
		{"no cgroup of its own", func(h *host, _ *place.Subject) { h.loop.Is("managed /x") }, words.FastNoCgroup, false},
		{"left alone", func(_ *host, x *place.Subject) {
			x.Alone = words.Because(words.NotIncluded)
		}, words.FastNoCgroup, false},
		{"bounded", func(h *host, _ *place.Subject) { h.Most = 0.001 }, words.FastBounded, true},
		{"protected", func(*host, *place.Subject) {}, words.FastLow, true},
	} {
		h := on(t)
		c.change(h, h.add("/x", workload.Online, 4*gib, 0, gib))
		got := h.scan()
		h.why(c.name, "/x", c.want)
		if (got != "") != c.sets {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestBoundOfANode: the most important work is protected first, within the bound of the nodes of its home.
func TestBoundOfANode(t *testing.T) {
	h := on(t)
	h.Most = 0.1 // 1.6 GiB a node
	h.add("/x", workload.Online, 4*gib, 0, gib)
	h.add("/y", workload.Online, 4*gib, 0, gib)
	h.add("/z", workload.Online, 4*gib, 0, gib)
	h.sc.Plan.Placements[1].Importance = 90
	h.sc.Plan.Placements[2].Home = topology.Nodes(0, 1)
	concerntest.Expect(t, "desires", h.scan(), fmt.Sprintf(`
		memory.low /y of /y: set-cgroup 0 > 1207959552 fast-protected
		memory.low /x of /x: set-cgroup 0 > %d fast-protected
		memory.low /z of /z: set-cgroup 0 > 1207959552 fast-protected`, 1717986304-1207959552))
	h.why("bound", "/x", words.FastBounded)
	h.why("two nodes", "/z", words.FastLow)
}

// TestWish: protection in large steps, which stays while it is about right and while there is no evidence.
func TestWish(t *testing.T) {
	for _, c := range []struct{ use, now, want topology.KiB }{
		{0, 0, 0}, {0, 512 * mib, 512 * mib},
		{1 * mib, 0, 64 * mib}, {32 * mib, 0, 64 * mib}, {33 * mib, 0, 128 * mib},
		{512 * mib, 0, 576 * mib}, {512*mib + 1, 0, 640 * mib}, {1024 * mib, 0, 1152 * mib},
		{1024 * mib, 1088 * mib, 1088 * mib}, {1024 * mib, 1087 * mib, 1152 * mib},
		{1024 * mib, 1440 * mib, 1440 * mib}, {1024 * mib, 1441 * mib, 1152 * mib},
	} {
		h := on(t)
		x := h.add("/x", workload.Online, 4*gib, 0, 0)
		if c.now > 0 {
			concerntest.Set(h.sc, "/x", plan.MemoryLow, "/x", bytesOf(c.now))
		}
		tr := &turn{Bound: h.Bound, Scene: h.sc, kind: plan.MemoryLow}
		w := &important{Subject: x, use: &Use{KiB: c.use}, cgroup: "/x"}
		if got := tr.wish(w); got != c.want {
			t.Errorf("uses %d KiB, protected %d: %d, want %d", c.use, c.now, got, c.want)
		}
	}
	h := on(t)
	x := h.add("/x", workload.Online, 4*gib, 0, 0)
	concerntest.Set(h.sc, "/x", plan.MemoryLow, "/x", "max")
	tr := &turn{Bound: h.Bound, Scene: h.sc, kind: plan.MemoryLow}
	if got := tr.wish(&important{Subject: x, use: &Use{}, cgroup: "/x"}); got != 0 {
		t.Errorf("protection without a number counts %d KiB", got)
	}
}

// TestStaysWithoutEvidence: a daemon that starts has read no use yet, and leaves the protection as it is.
func TestStaysWithoutEvidence(t *testing.T) {
	h := on(t)
	h.add("/x", workload.Online, 4*gib, 0, 0)
	concerntest.Set(h.sc, "/x", plan.MemoryLow, "/x", bytesOf(gib))
	concerntest.Expect(t, "desires", h.scan(), "memory.low /x of /x: stays")
	h.why("no use", "/x", words.FastNoUse)
}
