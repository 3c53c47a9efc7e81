package gpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const mib = topology.KiB(1 << 10)

// host is a host of two nodes with a workload on both, /w, whose processes 10 and 20 have GPUs of nodes 0 and 1.
type host struct {
	t *testing.T
	Bound
	sc  *concern.Scene
	out concern.Desired
	all []inside.Worker
}

func worker(pid int, node topology.NodeID) inside.Worker {
	return inside.Worker{Process: workload.Process{PID: pid, Start: uint64(pid)}, Node: node}
}

func on(t *testing.T) (*host, *concerntest.Loop) {
	h := &host{t: t, all: []inside.Worker{worker(10, 0), worker(20, 1)}}
	sc, loop := concerntest.On(plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10\n"))
	h.sc = sc
	c := New()
	h.Bound = Bound{Concern: &c, Divide: true, Workers: func(workload.ID) []inside.Worker { return h.all }}
	o := concerntest.Service("/w", topology.CPUs(0, 4))
	home := &workload.Placement{Class: workload.Shared, Home: topology.Nodes(0, 1)}
	concerntest.Add(h.sc, place.Subject{Observation: o}, home)
	h.memory(10, 100*mib, 300*mib)
	h.memory(20, 50*mib, 100*mib)
	h.given(10, 20)
	return h, loop
}

func (h *host) w() *workload.Observation { return &h.sc.Snapshot.Observations[0] }

// memory has a process hold memory on nodes 0 and 1.
func (h *host) memory(pid int, on0, on1 topology.KiB) {
	all := []workload.NodeMemory{{Node: 0, KiB: on0}, {Node: 1, KiB: on1}}
	for i := range h.w().PerProcess {
		if h.w().PerProcess[i].Process == pid {
			h.w().PerProcess[i].Memory = all
			return
		}
	}
	h.w().PerProcess = append(h.w().PerProcess, workload.ProcessMemory{Process: pid, Memory: all})
}

// given has the threads of processes on their nodes.
func (h *host) given(pids ...int) {
	for _, pid := range pids {
		path := plan.ProcessPath(workload.Process{PID: pid, Start: uint64(pid)})
		concerntest.Set(h.sc, "/w", plan.ThreadCPUs, path, "0-3;4-7")
	}
}

// scan decides, and returns what moves, with its processes and MiB.
func (h *host) scan() string {
	h.out = h.Decide(h.sc)
	var lines []string
	for i := range h.out.Settings {
		s := &h.out.Settings[i].Step
		line := fmt.Sprintf("%s to %s: %d MiB of", h.out.Settings[i].Path, s.To, s.Bytes>>20)
		for _, p := range s.Target.Processes {
			line += fmt.Sprint(" ", p.PID)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestMoves: the memory of the workers that have most elsewhere moves to the node of their GPUs.
func TestMoves(t *testing.T) {
	h, _ := on(t)
	h.w().Memory = []workload.NodeMemory{{Node: 0, KiB: 200 * mib}, {Node: 1, KiB: 500 * mib}}
	concerntest.Expect(t, "node 0", h.scan(), "/w@0 to 0: 300 MiB of 10")
	d := h.out.Settings[0]
	want := words.Because(words.WorkerMemoryOff, 1, 300*mib, 400*mib, 0.75, 0)
	if !d.Step.Reason.Equal(want) || d.Stands != concern.No || !d.Step.Optional || d.Step.Kind != plan.MovePages {
		t.Errorf("%+v", d)
	}
	if got := fmt.Sprint(d.Step.Shares); got != fmt.Sprint([]workload.NodeMemory{{Node: 0, KiB: 500 * mib}}) {
		t.Errorf("node 0 is to hold %s", got)
	}
	if d.Step.Cost.Bytes != d.Step.Bytes || d.Step.Cost.Seconds != 0 {
		t.Errorf("cost %+v", d.Step.Cost)
	}
	h.Pace = 100 << 20
	h.scan()
	if got := h.out.Settings[0].Step.Cost.Seconds; got != 3 {
		t.Errorf("it takes %v s", got)
	}
	h.memory(10, 400*mib, 0)
	concerntest.Expect(t, "then node 1", h.scan(), "/w@1 to 1: 50 MiB of 20")
	h.memory(20, 0, 150*mib)
	concerntest.Expect(t, "all is there", h.scan(), "")
}

// TestWorst: all workers of a node move together; of equal nodes the lowest is first.
func TestWorst(t *testing.T) {
	h, _ := on(t)
	h.all = append(h.all, worker(30, 1))
	h.given(30)
	h.memory(30, 300*mib, 0)
	concerntest.Expect(t, "two workers", h.scan(), "/w@1 to 1: 350 MiB of 20 30")
	h.memory(20, 0, 100*mib)
	concerntest.Expect(t, "as much", h.scan(), "/w@0 to 0: 300 MiB of 10")
	h.all = []inside.Worker{worker(10, 0), worker(20, 1), worker(30, 0)}
	h.memory(30, 0, 10*mib)
	concerntest.Expect(t, "two of the first node", h.scan(), "/w@0 to 0: 310 MiB of 10 30")
	h.memory(30, 300*mib, 0)
	h.all = []inside.Worker{worker(30, 1), worker(10, 0)}
	concerntest.Expect(t, "another order", h.scan(), "/w@0 to 0: 300 MiB of 10")
}

// TestLittleStays: memory that lies elsewhere stays there where it is little, as a share or as such.
func TestLittleStays(t *testing.T) {
	for _, c := range []struct {
		here, away topology.KiB
		moves      bool
	}{
		{0, mib, false}, {0, mib + 1, true}, {995 * mib, 5 * mib, false}, {995 * mib, 5*mib + 100, true},
	} {
		h, _ := on(t)
		h.memory(20, 0, 0)
		h.memory(10, c.here, c.away)
		if got := h.scan() != ""; got != c.moves {
			t.Errorf("%d KiB of %d: %v", c.away, c.here+c.away, got)
		}
	}
}

// TestWhatMoves: whose memory moves, and when.
func TestWhatMoves(t *testing.T) {
	entry := func(h *host) *plan.Entry { return h.sc.Journal.Of(plan.ThreadCPUs, "10@10") }
	fact := func(facts string) func(*host) {
		return func(h *host) { h.sc.Loop.(*concerntest.Loop).Is(facts) }
	}
	step := func(s plan.Step) func(*host) { return func(h *host) { h.sc.Plan.Steps = []plan.Step{s} } }
	const both, second = "/w@0 to 0: 300 MiB of 10", "/w@1 to 1: 50 MiB of 20"
	for _, c := range []struct {
		name   string
		change func(*host)
		want   string
	}{
		{"workers on their nodes", func(*host) {}, both},
		{"not configured", func(h *host) { h.Divide = false }, ""},
		{"nothing is changed", func(h *host) { h.sc.Acts = false }, ""},
		{"between two scans", func(h *host) { h.sc.Between = true }, ""},
		{"no memory was read", func(h *host) { h.w().PerProcess = nil }, ""},
		{"that of one was not", func(h *host) { h.w().PerProcess = h.w().PerProcess[1:] }, second},
		{"its threads are not on the node yet", func(h *host) { entry(h).State = plan.Intended }, second},
		{"a GPU of a node outside of the home", func(h *host) { h.all[0].Node = 2 }, second},
		{"held", fact("held /w"), ""},
		{"busy", fact("busy /w"), ""},
		{"being restored", fact("undoes /w"), ""},
		{"not settled", fact("unsettled /w"), ""},
		{"it has a step", step(plan.Step{Workload: "/w", Kind: plan.SetCPUs}), ""},
		{"it has a step of routine", step(plan.Step{Workload: "/w", Kind: plan.ReclaimMemory}), both},
		{"other work has a step", step(plan.Step{Workload: "/v", Kind: plan.SetCPUs}), both},
		{"no home", func(h *host) { h.sc.Plan.Placements = nil }, ""},
		{"batch class", func(h *host) { h.sc.Plan.Placements[0].Class = workload.Batch }, ""},
		{"home of one node", func(h *host) { h.sc.Plan.Placements[0].Home = topology.Nodes(0) }, ""},
		{"it has a policy", func(h *host) { h.w().OwnPolicy = "bind:0" }, ""},
		{"its memory stays", func(h *host) { h.w().Caps.MemoryStays = true }, ""},
		{"it does not answer", func(h *host) { h.w().Unanswered = true }, ""},
	} {
		h, _ := on(t)
		c.change(h)
		concerntest.Expect(t, c.name, h.scan(), c.want)
	}
}

// TestRemembers: how it was before threads were given nodes.
func TestRemembers(t *testing.T) {
	h, _ := on(t)
	h.w().Accesses = workload.Accesses{Local: 0.4, From: workload.Hints}
	h.scan()
	if len(h.Before) > 0 {
		t.Errorf("they have their nodes: %v", h.Before)
	}
	for _, pid := range []string{"10@10", "20@20"} {
		e := *h.sc.Journal.Of(plan.ThreadCPUs, pid)
		e.State = plan.Restored
		h.sc.Journal.Put(e)
	}
	h.scan()
	want := Measure{Memory: 200.0 / 550, Accesses: 0.4, From: workload.Hints}
	if got := h.Before["/w"]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	h.memory(10, 0, 0)
	h.memory(20, 0, 0)
	h.scan()
	if got := h.Before["/w"]; got != want {
		t.Errorf("without any memory: %+v", got)
	}
	h.w().PerProcess = nil
	h.scan()
	if got := h.Before["/w"]; got != want {
		t.Errorf("without a reading: %+v", got)
	}
	h.Before["/v"] = Measure{}
	h.Forget(func(id workload.ID) bool { return id == "/w" })
	if _, ok := h.Before["/v"]; !ok || len(h.Before) != 1 {
		t.Errorf("%v", h.Before)
	}
}

// TestMeasure: a process whose memory has not been read counts for nothing.
func TestMeasure(t *testing.T) {
	h, _ := on(t)
	m, ok := MeasureOf(h.w(), []inside.Worker{worker(10, 1), worker(30, 0)})
	if !ok || m.Memory != 0.75 {
		t.Errorf("%+v", m)
	}
	if _, ok := MeasureOf(h.w(), []inside.Worker{worker(30, 0)}); ok {
		t.Error("nothing has been read")
	}
}

// TestOwnsNothing: where pages lie is no setting.
func TestOwnsNothing(t *testing.T) {
	if (Bound{}).Owns(&plan.Entry{Kind: plan.ThreadCPUs}) || (Bound{}).Ended(nil, nil, nil) {
		t.Error("it owns settings")
	}
}
