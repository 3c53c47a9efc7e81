package plan_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// A ledger with homes put over it is the list that it would be had each been put in its
// place, and one that another was made from stays as it was.
func TestHomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := map[workload.ID]plan.Placement{}
		text := func() string { // maps are written rising by key
			list := []plan.Placement{}
			for _, id := range []workload.ID{"a", "b", "c", "d", "e", "f"} {
				if p, ok := all[id]; ok {
					list = append(list, p)
				}
			}
			out, _ := json.Marshal(list)
			return string(out)
		}
		list := []plan.Placement{}
		for _, id := range []workload.ID{"b", "d", "e"} {
			if rapid.Bool().Draw(t, "there") {
				all[id] = plan.Placement{Workload: id}
				list = append(list, all[id])
			}
		}
		h := plan.HomesOf(list)
		was := map[*plan.Homes]string{h: text()}
		for range rapid.IntRange(0, 8).Draw(t, "times") {
			var more []plan.Placement
			for range rapid.IntRange(1, 3).Draw(t, "more") {
				p := plan.Placement{Workload: workload.ID(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "of")), VCPUs: rapid.IntRange(1, 9).Draw(t, "CPUs")}
				all[p.Workload], more = p, append(more, p)
			}
			h = h.With(more...)
			was[h] = text()
		}
		for h, want := range was {
			got, err := json.Marshal(h)
			if err != nil || string(got) != want {
				t.Fatalf("%s, want %s, %v", got, want, err)
			}
			var read plan.Homes
			if err := json.Unmarshal(got, &read); err != nil {
				t.Fatal(err)
			}
			if again, _ := json.Marshal(&read); string(again) != want {
				t.Fatalf("read as %s", again)
			}
		}
	})
}
