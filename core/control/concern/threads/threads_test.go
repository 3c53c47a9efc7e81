package threads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

var (
	whole        = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	part0, part1 = topology.CPUs(0, 1, 2, 3), topology.CPUs(4, 5, 6, 7)
)

const sets = "0-3;4-7"

// host is a host of two nodes with a workload on both, /w, of processes 10 and 20.
type host struct {
	t *testing.T
	Bound
	sc   *concern.Scene
	loop *concerntest.Loop
	out  concern.Desired
}

func on(t *testing.T) *host {
	h := &host{t: t}
	h.sc, h.loop = concerntest.On(plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10\n"))
	c := New()
	h.Bound = Bound{Concern: &c, Settings: Settings{Divide: true}, Batch: &sharing.Concern{}}
	h.add("/w")
	return h
}

func (h *host) add(id workload.ID) *workload.Observation {
	o := concerntest.Service(id, whole)
	o.Processes = []workload.Process{{PID: 10, Start: 1}, {PID: 20, Start: 2}}
	for tid := 11; tid < 15; tid++ {
		o.PerThread = append(o.PerThread, workload.Thread{Process: 10, TID: tid, CPUs: whole, Use: 1})
	}
	o.PerThread = append(o.PerThread, workload.Thread{Process: 20, TID: 21, CPUs: whole, Use: 1})
	o.Threads = len(o.PerThread)
	home := &workload.Placement{Class: workload.Shared, Home: topology.Nodes(0, 1), CPUs: whole}
	concerntest.Add(h.sc, place.Subject{Observation: o}, home)
	return h.loop.Observation(id)
}

// w is what the scan sees of the workload.
func (h *host) w() *workload.Observation { return h.loop.Observation("/w") }

// divided has the threads of process 10 as homenode divided them, and those of process 20 as they are.
func (h *host) divided() *plan.Entry {
	for i := range h.w().PerThread[:4] {
		h.w().PerThread[i].CPUs = []topology.CPUSet{part0, part1}[i%2]
	}
	return concerntest.Set(h.sc, "/w", plan.ThreadCPUs, "10@1", sets)
}

func (h *host) scan() string {
	h.out = h.Decide(h.sc)
	return concerntest.Lines(h.out.Settings)
}

// given is what threads are given, in the order of the desires.
func (h *host) given() string {
	var all []string
	for _, d := range h.out.Settings {
		for _, x := range d.Step.Threads {
			all = append(all, fmt.Sprintf("%d:%s", x.TID, x.CPUs))
		}
	}
	return strings.Join(all, " ")
}

const desired = "affinity.threads 10@1 of /w: divide-threads  > " + sets + " threads-divided is otherwise"

// TestDivides: the threads of a process that has several each get a node, equally many; a single thread keeps its.
func TestDivides(t *testing.T) {
	h := on(t)
	concerntest.Expect(t, "desires", h.scan(), desired)
	if got := h.given(); got != "11:0-3 12:4-7 13:0-3 14:4-7" {
		t.Errorf("threads get %s", got)
	}
	each := []words.Reason{words.Because(words.ThreadsOnNode, 2, 0), words.Because(words.ThreadsOnNode, 2, 1)}
	want := words.Because(words.ThreadsDivided, each)
	if got := h.out.Settings[0].Step.Reason; !got.Equal(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(h.out.Leave) > 0 {
		t.Errorf("left alone: %v", h.out.Leave)
	}
}

// TestDividesOnce: what homenode gave stands; threads that have come since get a node.
func TestDividesOnce(t *testing.T) {
	h := on(t)
	h.divided()
	const again = "affinity.threads 10@1 of /w: divide-threads " + sets + " > " + sets + " threads-divided"
	concerntest.Expect(t, "divided", h.scan(), again+" stands")
	if !h.out.Leave["/w"] {
		t.Error("the entries of other processes are restored")
	}
	h.w().PerThread[3].CPUs = whole
	concerntest.Expect(t, "one more", h.scan(), again+" is otherwise")
	if got := h.given(); got != "11:0-3 12:4-7 13:0-3 14:4-7" {
		t.Errorf("threads get %s", got)
	}
	h.w().PerThread[4].CPUs = part1 // made by a thread that was on node 1
	concerntest.Expect(t, "a process made by one of its threads", h.scan(), again+` is otherwise
		affinity.threads 20@2 of /w: divide-threads  > `+sets+` threads-divided is otherwise`)
}

// TestThreadsOfTheirOwn: threads whose CPUs another program chose keep them.
func TestThreadsOfTheirOwn(t *testing.T) {
	h := on(t)
	h.w().PerThread[0].CPUs = topology.CPUs(0)
	h.scan()
	if got := h.given(); strings.Contains(got, "11:") || strings.Count(got, ":") != 3 {
		t.Errorf("threads get %s", got)
	}
	for i := range h.w().PerThread[:3] {
		h.w().PerThread[i].CPUs = topology.CPUs(0)
	}
	concerntest.Expect(t, "one of them is left", h.scan(), "")
	h.w().PerThread[2].CPUs = whole
	concerntest.Expect(t, "two are left", h.scan(), desired)
}

// TestWhoIsDivided: work that is wider than a node, whose threads are homenode's to give CPUs.
func TestWhoIsDivided(t *testing.T) {
	home := func(change func(*plan.Placement)) func(*host) {
		return func(h *host) { change(&h.sc.Plan.Placements[0]) }
	}
	o := func(change func(*workload.Observation)) func(*host) { return func(h *host) { change(h.w()) } }
	fact := func(facts string) func(*host) { return func(h *host) { h.loop.Is(facts) } }
	for _, c := range []struct {
		name   string
		change func(*host)
		want   bool
		leave  bool // where it was divided before, that stays
	}{
		{"wide work", func(*host) {}, true, true},
		{"a process tree", o(func(o *workload.Observation) { o.Kind = workload.InProcess }), true, true},
		{"not configured", func(h *host) { h.Settings.Divide = false }, false, false},
		{"no home", func(h *host) { h.sc.Plan.Placements = nil }, false, false},
		{"batch class", home(func(p *plan.Placement) { p.Class = workload.Batch }), false, false},
		{"home of one node", home(func(p *plan.Placement) { p.Home = topology.Nodes(0) }), false, false},
		{"CPUs on one node", home(func(p *plan.Placement) { p.CPUs = part0 }), false, false},
		{"squeezed", func(h *host) { h.Batch.Shared.Work = []share.Grant{{Workload: "/w"}} }, false, false},
		{"too many threads", o(func(o *workload.Observation) { o.Threads = workload.MostPerThread + 1 }), false, false},
		{"a guest", o(func(o *workload.Observation) { o.Kind = "guest" }), false, false},
		{"its memory stays", o(func(o *workload.Observation) { o.Caps.MemoryStays = true }), false, false},
		{"it has a policy", o(func(o *workload.Observation) { o.OwnPolicy = "bind:0" }), false, false},
		{"its memory nodes change", func(h *host) {
			h.sc.Plan.Steps = []plan.Step{{Workload: "/w", Kind: plan.SetMems}}
		}, false, true},
		{"its memory moves", func(h *host) {
			h.sc.Plan.Steps = []plan.Step{{Workload: "/w", Kind: plan.MovePages}}
		}, true, true},
		{"the CPUs of other work change", func(h *host) {
			h.sc.Plan.Steps = []plan.Step{{Workload: "/v", Kind: plan.SetCPUs}}
		}, true, true},
		{"held", fact("held /w"), false, true},
		{"pinned", o(func(o *workload.Observation) { o.Pinned = true }), false, true},
		{"being restored", fact("undoes /w"), false, true},
		{"busy", fact("busy /w"), false, true},
		{"not settled", fact("unsettled /w"), false, true},
	} {
		h := on(t)
		c.change(h)
		if got := h.scan() != ""; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		h = on(t)
		h.divided()
		c.change(h)
		got := h.scan() != ""
		if got != c.want || h.out.Leave["/w"] != c.leave {
			t.Errorf("%s, divided before: divided %v, what stands is left alone: %v", c.name, got, h.out.Leave["/w"])
		}
	}
}

// TestDividesWithItsHome: threads get nodes in the same plan that gives their work a home; those of a home before
// get what they had first.
func TestDividesWithItsHome(t *testing.T) {
	h := on(t)
	h.sc.Plan.Steps = []plan.Step{{Workload: "/w", Kind: plan.SetCPUs}, {Workload: "/w", Kind: plan.MovePages}}
	concerntest.Expect(t, "a first home", h.scan(), desired)
	h.divided()
	if h.scan() != "" || h.out.Leave["/w"] {
		t.Errorf("divided before: %v", h.out)
	}
}

// TestMemoryStays: the memory of work whose threads are to get nodes does not move before.
func TestMemoryStays(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts string
		stays bool
	}{
		{"nothing hinders", "", false},
		{"its home is being set", "busy /w", true},
		{"not settled", "unsettled /w", true},
		{"held", "held /w", false},
	} {
		h := on(t)
		if c.facts != "" {
			h.loop.Is(c.facts)
		}
		h.scan()
		if h.out.Stay["/w"] != c.stays {
			t.Errorf("%s: %v", c.name, h.out.Stay)
		}
		h.divided()
		h.scan()
		if h.out.Stay["/w"] {
			t.Errorf("%s, divided before: %v", c.name, h.out.Stay)
		}
	}
}

// TestBorn: a thread that began on the node of the thread that made it stays there only if the node has room, and it
// is asked once.
func TestBorn(t *testing.T) {
	h := on(t)
	h.divided()
	h.KeptThreads["/w"] = map[int]bool{11: true, 12: true, 13: true, 14: true}
	for tid := 15; tid < 19; tid++ {
		x := workload.Thread{Process: 10, TID: tid, CPUs: part0, Use: 0.8, On: topology.Nodes(0)}
		h.w().PerThread = slices.Insert(h.w().PerThread, tid-11, x)
	}
	const again = "affinity.threads 10@1 of /w: divide-threads " + sets + " > " + sets + " threads-divided"
	concerntest.Expect(t, "four more", h.scan(), again+" is otherwise")
	if got := h.given(); got != "11:0-3 12:4-7 13:0-3 14:4-7 15:0-3 16:0-3 17:4-7 18:4-7" {
		t.Errorf("threads get %s", got)
	}
	step := h.out.Settings[0].Step
	h.Ended(h.sc, &step, nil)
	for i := range step.Threads {
		h.w().PerThread[i].CPUs = step.Threads[i].CPUs
	}
	concerntest.Expect(t, "later", h.scan(), again+" stands")

	x := workload.Thread{Process: 10, TID: 19, CPUs: part0, On: topology.Nodes(0)}
	h.w().PerThread = slices.Insert(h.w().PerThread, 8, x)
	concerntest.Expect(t, "one that has room", h.scan(), again+" stands")
	if given, known := h.KeptThreads["/w"][19]; given || !known {
		t.Errorf("%v", h.KeptThreads)
	}
	h.w().PerThread[8].CPUs = topology.CPUs(1)
	concerntest.Expect(t, "it pins itself", h.scan(), again+" stands")
}

// TestManyThreads: work with many threads is not divided; divided work stays divided.
func TestManyThreads(t *testing.T) {
	h := on(t)
	h.w().Threads = workload.MostPerThread
	concerntest.Expect(t, "not divided", h.scan(), "")
	h.divided()
	if h.scan() == "" {
		t.Error("its threads no longer have nodes")
	}
}

// TestOtherParts: where what threads were given no longer fits, all is restored first.
func TestOtherParts(t *testing.T) {
	h := on(t)
	h.divided().New = "0-1;4-7"
	if h.scan() != "" || h.out.Leave["/w"] {
		t.Errorf("%v", h.out)
	}
	h = on(t)
	h.divided()
	h.w().PerThread = nil // they were not read in this scan
	if h.scan() != "" || !h.out.Leave["/w"] {
		t.Errorf("%v", h.out)
	}
}

// TestDecidesLater: between two scans, and where nothing is changed, all stays.
func TestDecidesLater(t *testing.T) {
	for _, change := range []func(*concern.Scene){
		func(sc *concern.Scene) { sc.Between = true }, func(sc *concern.Scene) { sc.Acts = false },
	} {
		h := on(t)
		h.divided()
		concerntest.Set(h.sc, BalancingID, plan.HostFile, hostprep.NUMABalancing, "1")
		concerntest.Set(h.sc, "/other", plan.CgroupCPUs, "/other", "1")
		change(h.sc)
		h.scan()
		if got := fmt.Sprint(h.out.Leave); got != "map[/w:true numa-balancing:true]" || len(h.out.Settings) > 0 {
			t.Errorf("%s left alone, %v", got, h.out.Settings)
		}
	}
}

// TestOwns: the CPU sets of threads, and NUMA balancing that homenode switched on.
func TestOwns(t *testing.T) {
	for e, want := range map[*plan.Entry]bool{
		{Kind: plan.ThreadCPUs, Workload: "/w"}: true, {Kind: plan.HostFile, Workload: BalancingID}: true,
		{Kind: plan.HostFile, Workload: "host"}: false, {Kind: plan.CgroupCPUs, Workload: BalancingID}: false,
	} {
		if got := (Bound{}).Owns(e); got != want {
			t.Errorf("%+v: %v", e, got)
		}
	}
}

// TestTakesBack: another program gave a thread other CPUs: homenode stops for a while, and history says so once.
func TestTakesBack(t *testing.T) {
	h := on(t)
	e := h.divided()
	e.Past = []string{"0-1;2-3", "not a set"}
	step := plan.Step{Kind: plan.DivideThreads, Workload: "/w", Threads: []plan.ThreadSet{{TID: 11}, {TID: 12}, {TID: 99}}}
	if h.Ended(h.sc, &step, nil) {
		t.Error("its own step changes its desires")
	}
	h.scan()
	if got := fmt.Sprint(h.KeptThreads["/w"]); got != "map[11:true 12:true 13:false 14:false]" {
		t.Errorf("threads that have their CPUs: %s", got)
	}
	h.w().PerThread[0].CPUs = topology.CPUs(0, 1) // given before
	h.w().PerThread[2].CPUs = topology.CPUs(0)    // never homenode's
	if h.scan() == "" || h.loop.Logged() != "" {
		t.Error("CPUs that homenode gave before are another program's")
	}
	h.w().PerThread[1].CPUs = topology.CPUs(7)
	concerntest.Expect(t, "taken back", h.scan(), "")
	concerntest.Expect(t, "history", h.loop.Logged(), "event /w threads-taken 12 7 10s 10m0s")
	if got := fmt.Sprint(h.KeptThreads["/w"]); got != "map[11:true 14:false]" {
		t.Errorf("threads that have their CPUs: %s", got)
	}
	concerntest.Expect(t, "it waits", h.scan(), "")
	h.loop.Logged()
	concerntest.Pass(h.sc, work.RetryFirst)
	h.KeptThreads["/w"][12] = true
	concerntest.Expect(t, "once more", h.scan(), "")
	concerntest.Expect(t, "history once", h.loop.Logged(), "")
	concerntest.Pass(h.sc, work.RetryFirst)
	if h.scan() == "" {
		t.Error("it has stopped for ever")
	}
}

// TestRestoredByHomenode: threads that homenode itself gave back their CPUs were not taken back.
func TestRestoredByHomenode(t *testing.T) {
	h := on(t)
	h.KeptThreads["/w"] = map[int]bool{11: true}
	concerntest.Expect(t, "desires", h.scan(), desired)
	if h.KeptThreads["/w"] != nil {
		t.Errorf("%v", h.KeptThreads)
	}
}

// TestEnded: only a division that took counts.
func TestEnded(t *testing.T) {
	h := on(t)
	step := plan.Step{Kind: plan.DivideThreads, Workload: "/w", Threads: []plan.ThreadSet{{TID: 11}}}
	other := step
	other.Kind = plan.SetCPUs
	acts := h.Ended(h.sc, &step, &work.Failure{}) || h.Ended(h.sc, &other, nil)
	if acts || len(h.DividedAt) > 0 || len(h.KeptThreads) > 0 {
		t.Errorf("%v", h.Concern)
	}
	h.Ended(h.sc, &step, nil)
	step.Threads[0].TID = 12
	h.Ended(h.sc, &step, nil)
	if !h.DividedAt["/w"].Equal(h.sc.At) || len(h.KeptThreads["/w"]) != 2 {
		t.Errorf("%v", h.Concern)
	}
}

// TestForgets: workloads that are gone are forgotten entirely, and no others are.
func TestForgets(t *testing.T) {
	c := New()
	for _, id := range []workload.ID{"/gone", "/w"} {
		c.DividedAt[id], c.Sampled[id] = time.Time{}, time.Time{}
		c.KeptThreads[id], c.Passes[id] = nil, 1
	}
	c.Forget(func(id workload.ID) bool { return id == "/gone" })
	if got := fmt.Sprint(len(c.DividedAt), len(c.Sampled), len(c.KeptThreads), len(c.Passes)); got != "1 1 1 1" {
		t.Errorf("left: %s", got)
	}
	if _, ok := c.Passes["/w"]; !ok {
		t.Error("it forgot the other")
	}
}

// TestWorkers: the threads of a process that has GPUs of one node go there, also a single one.
func TestWorkers(t *testing.T) {
	h := on(t)
	h.Workers = func(id workload.ID) []inside.Worker {
		if id != "/w" {
			return nil
		}
		return []inside.Worker{
			{Process: workload.Process{PID: 20, Start: 2}, Node: 1, GPUs: []string{"gpu2", "gpu3"}},
			{Process: workload.Process{PID: 10, Start: 1}, Node: 7, GPUs: []string{"gpu0"}}, // not in the home
			{Process: workload.Process{PID: 30, Start: 3}, Node: 0, GPUs: []string{"gpu1"}},
		}
	}
	h.w().Processes = append(h.w().Processes, workload.Process{PID: 30, Start: 3})
	h.w().PerThread = append(h.w().PerThread, workload.Thread{Process: 30, TID: 31, CPUs: whole})
	concerntest.Expect(t, "desires", h.scan(), desired+`
		affinity.threads 20@2 of /w: divide-threads  > `+sets+` worker-at-gpu is otherwise
		affinity.threads 30@3 of /w: divide-threads  > `+sets+` worker-at-gpu is otherwise`)
	if got := h.given(); !strings.HasSuffix(got, "21:4-7 31:0-3") {
		t.Errorf("threads get %s", got)
	}
	want := words.Because(words.WorkerAtGPU, 20, "gpu2, gpu3", 1).String()
	if got := h.out.Settings[1].Step.Reason.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestThreadsOf: the threads of one process, also where the next process ID is another's.
func TestThreadsOf(t *testing.T) {
	o := &workload.Observation{PerThread: []workload.Thread{
		{Process: 9, TID: 1}, {Process: 10, TID: 2}, {Process: 10, TID: 3}, {Process: 11, TID: 4},
	}}
	for pid, want := range map[int]int{8: 0, 9: 1, 10: 2, 11: 1, 12: 0} {
		if got := threadsOf(o, pid); len(got) != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
}
