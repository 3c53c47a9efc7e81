package fasttier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// short is a host whose node 0 has 100 MiB free, with important work that uses 1 GiB in slower memory and batch work.
func short(t *testing.T) *host {
	h := on(t)
	h.sc.Snapshot.Host.Nodes[0].Free = 100 * mib
	h.add("/x", workload.Online, 4*gib, gib, 5*gib)
	h.batch("/b", 10, 2*gib)
	return h
}

func (h *host) batch(id workload.ID, importance int, fast topology.KiB) *place.Subject {
	x := h.add(id, workload.BatchTier, fast, 0, 0)
	x.Spec.Importance = importance
	return x
}

// reclaims returns the workloads whose memory is reclaimed, with the MiB.
func (h *host) reclaims() string {
	var out []string
	for _, d := range h.out.Settings {
		if d.Step.Kind == plan.ReclaimMemory {
			var bytes int64
			fmt.Sscan(d.Step.To, &bytes)
			out = append(out, fmt.Sprintf("%s %d", d.Step.Workload, bytes>>20))
		}
	}
	return strings.Join(out, ", ")
}

// TestMakesRoom: batch work gives the room that used memory of important work wants, and a reserve.
func TestMakesRoom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   string
	}{
		// 1 GiB wants to move up, and 512 MiB of 16 GiB stay free; 100 MiB are free now.
		{"one step", func(*host) {}, "/b 1024"},
		{"less is short", func(h *host) { h.sc.Snapshot.Host.Nodes[0].Free = gib }, "/b 512"},
		{"nothing is short", func(h *host) { h.sc.Snapshot.Host.Nodes[0].Free = 1536 * mib }, ""},
		{"unknown free memory", func(h *host) { h.sc.Snapshot.Host.Nodes[0].Free = topology.None }, "/b 1024"},
		{"a reserve alone", func(h *host) { h.sc.Subjects[1].Observation.Memory[1].KiB = 0 }, "/b 412"},
		{"a larger node", func(h *host) {
			h.sc.Subjects[1].Observation.Memory[1].KiB = 0
			h.sc.Snapshot.Host.Nodes[0].Memory = 640 * gib
		}, "/b 924"},
		{"nothing is protected", func(h *host) { h.sc.Subjects[1].Observation.Used = 0 }, ""},
		{"a home of two nodes", func(h *host) {
			h.sc.Plan.Placements[1].Home = topology.Nodes(0, 1)
			h.sc.Snapshot.Host.Nodes[0].Free = 900 * mib
		}, "/b 124"},
		{"the pace", func(h *host) { h.Pace = 100 << 20 }, "/b 200"},
		{"the pace, late", func(h *host) {
			h.Pace = 10 << 20
			h.FastScan = h.sc.Began.Add(-time.Minute)
		}, "/b 100"},
		{"less memory than is short", func(h *host) { h.sc.Subjects[0].Observation.Memory[0].KiB = 300 * mib }, "/b 300"},
		{"the least", func(h *host) { h.sc.Subjects[0].Observation.Memory[0].KiB = offLeast }, "/b 1"},
		{"too little", func(h *host) { h.sc.Subjects[0].Observation.Memory[0].KiB = offLeast - 1 }, ""},
		{"a class of batch", func(h *host) {
			h.sc.Subjects[0].Spec.Tier, h.sc.Subjects[0].Spec.Class = "", workload.Batch
		}, "/b 1024"},
		{"no batch work", func(h *host) { h.sc.Subjects[0].Spec.Tier = "" }, ""},
		{"held", func(h *host) { h.loop.Is("held /b") }, ""},
		{"left alone", func(h *host) { h.sc.Subjects[0].Alone = words.Because(words.NotIncluded) }, ""},
		{"no cgroup of its own", func(h *host) { h.loop.Is("managed /b") }, ""},
	} {
		h := short(t)
		c.change(h)
		h.scan()
		if got := h.reclaims(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.want != "" {
			h.why(c.name, "/b", words.FastReclaim)
		}
	}
}

// TestVictims: the least important batch work first, then the one with most on the node, within one pace.
func TestVictims(t *testing.T) {
	h := short(t)
	h.batch("/c", 5, 100*mib)
	h.batch("/d", 5, 200*mib)
	h.batch("/e", 5, offLeast-1)
	h.scan()
	if got := h.reclaims(); got != "/d 200, /c 100, /b 724" {
		t.Errorf("%s", got)
	}
	h.sc.Snapshot.Host.Nodes[0].Free = 1386 * mib // 150 are short
	h.scan()
	if got := h.reclaims(); got != "/d 150" {
		t.Errorf("%s", got)
	}
	h.Mode = Report
	h.scan()
	if got := h.reclaims(); got != "" {
		t.Errorf("it reclaims %s", got)
	}
	h.why("report", "/d", words.FastWouldReclaim)
}

// TestReclaimStep: the step is of the cgroup that was seen, and is never done already.
func TestReclaimStep(t *testing.T) {
	h := short(t)
	h.scan()
	for _, d := range h.out.Settings {
		if d.Step.Kind != plan.ReclaimMemory {
			continue
		}
		at := d.Step.Target
		if d.Stands != concern.No || d.Path != "/b" || at.Cgroup != "/b" || at.Object != "7" || !d.Step.Optional {
			t.Errorf("%+v", d)
		}
	}
}

// TestWantsUp: used and protected memory that fast memory has not, unless it is little.
func TestWantsUp(t *testing.T) {
	for _, c := range []struct{ use, low, fast, slow, want topology.KiB }{
		{4 * gib, 5 * gib, 3 * gib, 2 * gib, gib},
		{4 * gib, 5 * gib, 3 * gib, 512 * mib, 512 * mib},
		{4 * gib, 3*gib + 256*mib, 3 * gib, 2 * gib, 256 * mib},
		{4 * gib, 5 * gib, 4 * gib, 2 * gib, 0},
		{4 * gib, 5 * gib, 5 * gib, 2 * gib, 0},
		{100 * mib, gib, 99 * mib, gib, 0}, {100 * mib, gib, 99*mib - 1, gib, mib + 1},
		{1000 * mib, gib, 995 * mib, gib, 0}, {1000 * mib, gib, 995*mib - 1, gib, 5*mib + 1},
	} {
		x := &important{use: &Use{KiB: c.use}, low: c.low, fast: c.fast, slow: c.slow}
		if got := (&turn{}).wantsUp(x); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// roomy is a host with room for the 1 GiB of important work in slower memory.
func roomy(t *testing.T) *host {
	h := on(t)
	h.sc.Snapshot.Host.Nodes[0].Free = 8 * gib
	h.add("/x", workload.Online, 4*gib, gib, 5*gib)
	return h
}

// moved returns the step that moves memory up, or nil.
func (h *host) moved() *plan.Step {
	for i := range h.out.Settings {
		if h.out.Settings[i].Step.Kind == plan.MovePages {
			return &h.out.Settings[i].Step
		}
	}
	return nil
}

// TestMovesUp: when used memory moves up.
func TestMovesUp(t *testing.T) {
	step := func(kind plan.StepKind, id workload.ID) func(*host) {
		return func(h *host) { h.sc.Plan.Steps = []plan.Step{{Workload: id, Kind: kind}} }
	}
	o := func(change func(*workload.Observation)) func(*host) {
		return func(h *host) { change(&h.sc.Subjects[0].Observation) }
	}
	free := func(kib topology.KiB) func(*host) {
		return func(h *host) { h.sc.Snapshot.Host.Nodes[0].Free = kib }
	}
	for _, c := range []struct {
		name   string
		change func(*host)
		want   bool
	}{
		{"there is room", func(*host) {}, true},
		{"just enough", free(1024*mib + 256*mib), true},
		{"not enough", free(1024*mib + 256*mib - 1), false},
		{"less than half the reserve", free(mib), false},
		{"a second node has it", func(h *host) {
			h.sc.Plan.Placements[0].Home = topology.Nodes(0, 1)
			free(0)(h)
		}, true},
		{"unused memory there", func(h *host) {
			h.sc.Subjects[0].Observation.Memory[1].KiB = 8 * gib // a ninth more than what moves must have room
			free(1152*mib + 256*mib)(h)
		}, true},
		{"unused memory there, not enough room", func(h *host) {
			h.sc.Subjects[0].Observation.Memory[1].KiB = 8 * gib
			free(1152*mib + 256*mib - 1)(h)
		}, false},
		{"nothing is to move", o(func(o *workload.Observation) { o.Used = 4 * gib }), false},
		{"report", func(h *host) { h.Mode = Report }, false},
		{"the kernel promotes", func(h *host) { h.sc.Snapshot.Host.Tiering.Promotion = true }, false},
		{"nothing is changed", func(h *host) { h.sc.Acts = false }, false},
		{"it has a policy of its own", o(func(o *workload.Observation) { o.OwnPolicy = "bind:0" }), false},
		{"its memory stays", o(func(o *workload.Observation) { o.Caps.MemoryStays = true }), false},
		{"it does not answer", o(func(o *workload.Observation) { o.Unanswered = true }), false},
		{"no process", o(func(o *workload.Observation) { o.Processes = nil }), false},
		{"busy", func(h *host) { h.loop.Is("busy /x") }, false},
		{"being restored", func(h *host) { h.loop.Is("undoes /x") }, false},
		{"not settled", func(h *host) { h.loop.Is("unsettled /x") }, false},
		{"a page move in the plan", step(plan.MovePages, "/x"), false},
		{"a page move of other work", step(plan.MovePages, "/y"), true},
		{"a quick step in the plan", step(plan.SetCPUs, "/x"), true},
		{"it moved just now", func(h *host) {
			h.FastUse = map[workload.ID]*Use{"/x": {Moved: h.sc.Began.Add(-moveAgain + 1), Wait: moveAgain}}
		}, false},
		{"it moved a while ago", func(h *host) {
			h.FastUse = map[workload.ID]*Use{"/x": {Moved: h.sc.Began.Add(-moveAgain), Wait: moveAgain}}
		}, true},
	} {
		h := roomy(t)
		c.change(h)
		h.scan()
		if got := h.moved() != nil; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestMoveUpStep: a move counts all memory below the home, at the pace.
func TestMoveUpStep(t *testing.T) {
	for pace, want := range map[int64]float64{0: 0, 512 << 20: 4} {
		h := roomy(t)
		h.Pace = pace
		h.sc.Subjects[0].Observation.Memory[1].KiB = 2 * gib
		h.scan()
		s := h.moved()
		bytes := int64(2*gib) << 10
		if s == nil || s.To != "0" || !s.Up || s.Bytes != bytes || s.Cost.Bytes != bytes || s.Cost.Seconds != want {
			t.Errorf("%+v", s)
		}
		if use := h.FastUse["/x"]; use.Up != gib || use.Wait != moveAgain || !use.Moved.Equal(concerntest.Start) {
			t.Errorf("%+v", use)
		}
	}
}

// TestMovesLessOften: memory that comes back to the slower node within a minute moves up less and less often.
func TestMovesLessOften(t *testing.T) {
	ago := func(d time.Duration) time.Time { return concerntest.Start.Add(-d) }
	for _, c := range []struct {
		name string
		was  Use
		want time.Duration
	}{
		{"for the first time", Use{}, moveAgain},
		{"at once again", Use{Moved: ago(10 * time.Second), Up: gib, Wait: 10 * time.Second}, 20 * time.Second},
		{"at once after none", Use{Moved: ago(time.Second), Up: gib}, moveAgain},
		{"half of it", Use{Moved: ago(10 * time.Second), Up: 2 * gib, Wait: 10 * time.Second}, 20 * time.Second},
		{"less than half", Use{Moved: ago(10 * time.Second), Up: 2*gib + 2, Wait: 10 * time.Second}, moveAgain},
		{"just within a minute", Use{Moved: ago(70 * time.Second), Up: gib, Wait: 10 * time.Second}, 20 * time.Second},
		{"after a minute", Use{Moved: ago(70*time.Second + 1), Up: gib, Wait: 10 * time.Second}, moveAgain},
		{"at most", Use{Moved: ago(time.Minute), Up: gib, Wait: 50 * time.Second}, moveRests},
	} {
		h := roomy(t)
		was := c.was
		h.FastUse = map[workload.ID]*Use{"/x": &was}
		h.scan()
		if use := h.FastUse["/x"]; use.Wait != c.want || h.moved() == nil {
			t.Errorf("%s: waits %s, want %s", c.name, use.Wait, c.want)
		}
	}
}
