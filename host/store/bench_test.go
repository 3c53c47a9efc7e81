package store

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/plan"
)

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
