package store

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// BenchmarkHistory is what it costs to read of a full history: all of it, as every filter
// once did, the last screen of one workload, and what all of it is about.
func BenchmarkHistory(b *testing.B) {
	s := opened(b, b.TempDir())
	s.db.NoSync = true
	seq := uint64(0)
	for _, kind := range []plan.EventKind{plan.EventOrder, plan.EventStep, plan.EventPlan} {
		n := map[plan.EventKind]int{plan.EventOrder: keepOrders, plan.EventStep: keepSteps, plan.EventPlan: keepEvents}[kind]
		var batch plan.Batch
		for i := range n {
			seq++
			batch.Events = append(batch.Events, plan.Event{Seq: seq, Time: t0, Kind: kind, Workload: workload.ID(fmt.Sprintf("/kubepods.slice/pod%d", i%500)),
				Text: "set-cpus: 0-127 → 0-31,64-95. Its home is node 0: its threads run there, and new memory comes from there."})
		}
		commit(b, s, batch)
	}
	read := func(name string, want int, do func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := do(); err != nil || n != want {
					b.Fatalf("%d, %v; want %d", n, err, want)
				}
			}
		})
	}
	events := func(q plan.EventQuery) func() (int, error) {
		return func() (int, error) { all, err := s.History(q); return len(all), err }
	}
	read("all", keepOrders+keepSteps+keepEvents, events(plan.EventQuery{}))
	read("screen", 20, events(plan.EventQuery{Workload: "/kubepods.slice/pod7", Limit: 20}))
	read("workload", (keepOrders+keepSteps+keepEvents)/500, events(plan.EventQuery{Workload: "/kubepods.slice/pod7"}))
	read("never", 0, events(plan.EventQuery{Workload: "/kubepods.slice/pod", Limit: 20}))
	read("about", 500, func() (int, error) { ids, err := s.About(); return len(ids), err })
}

// BenchmarkCommit is a change of one setting and its event, without waiting for the
// disk, in journals of 10 to 10,000 entries (R7: it was quadratic).
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := opened(b, b.TempDir())
			s.db.NoSync = true
			entry := func(seq int) plan.Entry {
				return plan.Entry{Seq: uint64(seq), Time: t0, Kind: plan.CgroupCPUs, Path: fmt.Sprintf("/kubepods.slice/pod%032d/%064d", seq, seq), New: "0-31,64-95", State: plan.Intended}
			}
			var all plan.Batch
			for i := range n {
				all.Entries = append(all.Entries, entry(i+1))
				all.Events = append(all.Events, plan.Event{Seq: uint64(i + 1), Text: "set-cpus: 0-127 → 0-31,64-95. Its home is node 0."})
			}
			commit(b, s, all)
			i := 0
			for b.Loop() {
				e := entry(i%n + 1)
				e.State = plan.Applied
				commit(b, s, plan.Batch{Entries: []plan.Entry{e}, Events: all.Events[:1]})
				i++
			}
		})
	}
}
