package control

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// addSlow gives a host its node of slower memory, which the kernel demotes to.
func (f *fake) addSlow(h *topology.Host) {
	id := topology.NodeID(f.nodes)
	for i := range h.Distances {
		h.Distances[i] = append(h.Distances[i], 30)
	}
	far := make([]int, f.nodes+1)
	for i := range far {
		far[i] = 30
	}
	far[f.nodes] = 10
	h.Distances = append(h.Distances, far)
	slow := topology.Node{ID: id, Kind: topology.Special, Type: topology.TypeCXL, Memory: f.slow, Free: f.slow}
	h.Nodes = append(h.Nodes, slow)
	h.AllowedMems.Add(id)
	h.HMATBandwidth = f.bandwidth
	h.Tiering = topology.Tiering{
		Demotion: true, Promotion: f.promotes,
		Tiers: []topology.Tier{{ID: 4, Nodes: topology.Nodes(0, 1)}, {ID: 22, Nodes: topology.Nodes(id)}},
	}
}

// demote is what the kernel does on a machine whose only fast memory with batch work is node 0.
func (f *fake) demote(s *plan.Step) {
	n, err := strconv.ParseInt(s.To, 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	o := &f.works[s.Workload].obs
	kib := min(topology.KiB(n>>10), workload.On(o.Memory, topology.Nodes(0)))
	f.put(s.Workload, workload.On(o.Memory, topology.Nodes(0))-kib, workload.On(o.Memory, topology.Nodes(2))+kib)
	f.free[0] += kib
}

// put gives a workload memory on node 0 and in slower memory.
func (f *fake) put(id workload.ID, fast, slow topology.KiB) {
	o := &f.works[id].obs
	o.Memory = []workload.NodeMemory{{Node: 0, KiB: fast}, {Node: 2, KiB: slow}}
	o.Anon, o.Lower = o.Memory, topology.Nodes(2)
}

const gib = topology.KiB(1 << 20)

// tiered is a host whose fast memory is full of batch work, with a web whose memory is half in slower memory.
func tiered(t *testing.T, name string, used topology.KiB, change func(*Settings)) (f *fake, web, job workload.ID) {
	rules := ruled(
		workload.Rule{Match: "/**/web", Class: workload.Shared, Tier: workload.OnlineStrict},
		workload.Rule{Match: "/web", Class: workload.Shared, Tier: workload.OnlineStrict},
		workload.Rule{Match: "/job", Class: workload.Batch},
	)
	on := func(s *Settings) { s.Tiers = TierSettings{Mode: TiersPlace, Protect: ProtectLow, Most: 0.5} }
	f = newFake(t, 2, 8, rules, on, change)
	f.slow = 16 * gib
	f.free = map[topology.NodeID]topology.KiB{0: 16 << 10}
	web, job = f.add(name, 2, 2*gib, 0), f.add("job", 2, 6*gib, 0)
	f.put(web, gib, gib)
	f.put(job, 6*gib, 0)
	f.works[web].obs.Used = used
	for _, path := range []string{"/" + name, "/job", "/system.slice"} {
		for kind, unset := range plan.CgroupFiles {
			f.set(kind, path, unset)
		}
	}
	return f, web, job
}

func keep(*Settings) {}

// TestFastTier: important work is protected as far as it uses its memory, batch work makes room for its used pages
// in slower memory, and these move up. Undo restores every setting.
func TestFastTier(t *testing.T) {
	f, web, job := tiered(t, "web", 2*gib, keep)
	before := f.all()
	f.scan(12)
	if got := f.get(plan.MemoryLow, string(web)); got != "2415919104" {
		t.Errorf("memory.low is %s, want 2.25 GiB", got)
	}
	if got := f.get(plan.MemoryLow, string(job)); got != "0" {
		t.Errorf("memory.low of batch work is %s", got)
	}
	if steps := f.applies(plan.ReclaimMemory); len(steps) == 0 || steps[0].Workload != job {
		t.Fatalf("%d steps reclaim", len(steps))
	}
	slow := workload.On(f.works[web].obs.Memory, topology.Nodes(2))
	moves := f.applies(plan.MovePages)
	if len(moves) != 1 || moves[0].Workload != web || moves[0].To != "0" || slow > 0 {
		t.Errorf("%d moves, %d KiB in slower memory: %+v", len(moves), slow, moves)
	}
	if d := f.decision(web); !wordstest.Has(d.Reasons, words.Reason{Code: words.FastLow}) {
		t.Errorf("explain has %v", d.Reasons)
	}
	reclaimed := len(f.applies(plan.ReclaimMemory))
	f.scan(10)
	if n := len(f.applies(plan.ReclaimMemory)) - reclaimed; n > 0 {
		t.Errorf("%d steps reclaim though there is room", n)
	}
	f.undo("")
	if diff := cmp.Diff(before[string(plan.MemoryLow)+" /web"], f.get(plan.MemoryLow, "/web")); diff != "" {
		t.Errorf("undo left %s", diff)
	}
}

// TestFastTierReports: in mode report, explain shows what would be done, and nothing is changed.
func TestFastTierReports(t *testing.T) {
	f, web, job := tiered(t, "web", 2*gib, func(s *Settings) { s.Tiers.Mode = TiersReport })
	f.scan(8)
	if got := f.get(plan.MemoryLow, string(web)); got != "0" {
		t.Errorf("memory.low is %s", got)
	}
	if n := len(f.applies(plan.ReclaimMemory)) + len(f.applies(plan.MovePages)); n > 0 {
		t.Errorf("%d steps", n)
	}
	for id, code := range map[workload.ID]words.Code{web: words.FastWould, job: words.FastWouldReclaim} {
		if d := f.decision(id); !wordstest.Has(d.Reasons, words.Reason{Code: code}) {
			t.Errorf("%s: explain has %v", id, d.Reasons)
		}
	}
}

// TestNoEvidence: work without evidence of use takes nothing from other work.
func TestNoEvidence(t *testing.T) {
	f, web, _ := tiered(t, "web", 0, keep)
	f.scan(8)
	n, low := len(f.applies(plan.ReclaimMemory))+len(f.applies(plan.MovePages)), f.get(plan.MemoryLow, "/web")
	if n > 0 || low != "0" {
		t.Errorf("%d steps, memory.low %s", n, low)
	}
	if d := f.decision(web); !wordstest.Has(d.Reasons, words.Reason{Code: words.FastNoUse}) {
		t.Errorf("explain has %v", d.Reasons)
	}
	f, _, _ = tiered(t, "web", gib, keep) // as much as it has in fast memory
	f.scan(8)
	if n := len(f.applies(plan.MovePages)); n > 0 {
		t.Errorf("%d moves of memory that is not known to be used", n)
	}
}

// TestBound: not more than the operator's share of a node is protected.
func TestBound(t *testing.T) {
	f, web, _ := tiered(t, "web", 2*gib, func(s *Settings) { s.Tiers.Most = 0.125 })
	f.scan(8)
	if got := f.get(plan.MemoryLow, "/web"); got != "1073741824" {
		t.Errorf("memory.low is %s, want an eighth of 8 GiB", got)
	}
	if d := f.decision(web); !wordstest.Has(d.Reasons, words.Reason{Code: words.FastBounded}) {
		t.Errorf("explain has %v", d.Reasons)
	}
}

// TestFastTierWithin: a cgroup bounds those below, and so it has the same protection first.
func TestFastTierWithin(t *testing.T) {
	f, _, _ := tiered(t, "system.slice/web", 2*gib, keep)
	before := f.all()
	f.scan(10)
	a, b := f.get(plan.MemoryLow, "/system.slice"), f.get(plan.MemoryLow, "/system.slice/web")
	if a != "2415919104" || b != a {
		t.Errorf("memory.low is %s above %s", a, b)
	}
	f.start(func(s *Settings) { s.Tiers.Mode = TiersOff })
	f.scan(10)
	for _, path := range []string{"/system.slice", "/system.slice/web"} {
		if was, now := before[string(plan.MemoryLow)+" "+path], f.get(plan.MemoryLow, path); was != now {
			t.Errorf("switched off, memory.low of %s is %s, was %s", path, now, was)
		}
	}
}

// TestProtectMin: with protect: min it is memory.min, and memory.low stays.
func TestProtectMin(t *testing.T) {
	f, _, _ := tiered(t, "web", 2*gib, func(s *Settings) { s.Tiers.Protect = ProtectMin })
	f.scan(8)
	if low, least := f.get(plan.MemoryLow, "/web"), f.get(plan.MemoryMin, "/web"); low != "0" || least != "2415919104" {
		t.Errorf("memory.low %s, memory.min %s", low, least)
	}
	f.start(func(s *Settings) { s.Tiers.Protect = ProtectLow })
	f.scan(8)
	if low, least := f.get(plan.MemoryLow, "/web"), f.get(plan.MemoryMin, "/web"); low != "2415919104" || least != "0" {
		t.Errorf("switched to low: memory.low %s, memory.min %s", low, least)
	}
}

// TestKernelPromotes: where the kernel promotes, homenode makes room and moves nothing.
func TestKernelPromotes(t *testing.T) {
	f, _, _ := tiered(t, "web", 2*gib, keep)
	f.promotes = true
	f.scan(12)
	if len(f.applies(plan.ReclaimMemory)) == 0 || len(f.applies(plan.MovePages)) > 0 {
		t.Errorf("%d reclaim, %d moves", len(f.applies(plan.ReclaimMemory)), len(f.applies(plan.MovePages)))
	}
}

// TestToAndFro: where the kernel demotes again what moved up, the next move waits longer each time.
func TestToAndFro(t *testing.T) {
	f, web, _ := tiered(t, "web", 2*gib, keep)
	moves := func(scans int) (n int) {
		for range scans {
			before := len(f.applies(plan.MovePages))
			f.scan(1)
			if len(f.applies(plan.MovePages)) > before {
				n++
				f.put(web, gib, gib) // the kernel demotes as much again
			}
		}
		return n
	}
	first, then := moves(30), moves(90)
	if first < 2 || then > 4 {
		t.Errorf("%d moves in the first minute, %d in the next three", first, then)
	}
}

// TestFastTierRestarts: a daemon that starts has no evidence yet, and keeps the protection that an earlier one gave.
func TestFastTierRestarts(t *testing.T) {
	f, web, _ := tiered(t, "system.slice/web", 2*gib, keep)
	f.scan(10)
	f.works[web].obs.Used = 0
	f.start()
	for range 4 {
		f.scan(1)
		for _, path := range []string{"/system.slice", string(web)} {
			if got := f.get(plan.MemoryLow, path); got != "2415919104" {
				t.Fatalf("memory.low of %s is %s", path, got)
			}
		}
	}
	if n := len(f.applies(plan.SetCgroup)); n > 2 {
		t.Errorf("%d settings, want 2 of the earlier daemon", n)
	}
}

// TestClockSetBackTiers: after the clock was set back by a year, used memory still moves up.
func TestClockSetBackTiers(t *testing.T) {
	f, web, _ := tiered(t, "web", 2*gib, keep)
	f.scan(12)
	moves := len(f.applies(plan.MovePages))
	f.put(web, gib, gib)
	f.after(-365 * 24 * time.Hour)
	f.scan(12)
	if n := len(f.applies(plan.MovePages)); moves == 0 || n == moves {
		t.Errorf("%d moves, then %d", moves, n-moves)
	}
}
