package share

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const gib topology.KiB = 1 << 20

func held(node topology.NodeID, kib topology.KiB) []workload.NodeMemory {
	return []workload.NodeMemory{{Node: node, KiB: kib}}
}

// TestMemory: the formula by figures.
func TestMemory(t *testing.T) {
	node := MemoryNode{ID: 0, Capacity: 64 * gib, Online: 20 * gib, System: 4 * gib}
	// 64 × (0.9 - 1/32) - 24 = 31.6 GiB
	for name, tt := range map[string]struct {
		in   MemoryInput
		want []topology.KiB
	}{
		"an equal part each":       {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 4*gib)}, {ID: "b", On: held(0, 8*gib)}}}, []topology.KiB{14131 * mebi, 18227 * mebi}},
		"grows by a tenth":         {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 4*gib), Now: 10 * gib}}}, []topology.KiB{11 * gib}},
		"stalled: nothing more":    {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 4*gib), Now: 10 * gib}}, Stalled: 0.2}, []topology.KiB{10 * gib}},
		"over: a tenth of its use": {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 60*gib), Now: 62 * gib}}}, []topology.KiB{54 * gib}},
		"over and stalled":         {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 50*gib), Now: 62 * gib}}, Stalled: 0.2}, []topology.KiB{49 * gib}},
		"a little over: its part":  {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 33*gib)}}}, []topology.KiB{32358 * mebi}},
		"no change for little":     {MemoryInput{Work: []Holder{{ID: "a", On: held(0, 30*gib), Now: 31 * gib}}}, []topology.KiB{31 * gib}},
		"the least":                {MemoryInput{Work: []Holder{{ID: "a", On: held(1, 10*mebi)}}, Nodes: []MemoryNode{{ID: 1, Capacity: gib, Online: gib}}}, []topology.KiB{leastMemory}},
	} {
		if tt.in.Target = 0.9; tt.in.Nodes == nil {
			tt.in.Nodes = []MemoryNode{node}
		}
		for i, got := range Memory(tt.in) {
			if d := got.High - tt.want[i]; d > 2*mebi || d < -2*mebi {
				t.Errorf("%s: %s may hold %d MiB, want %d", name, got.Workload, got.High/mebi, tt.want[i]/mebi)
			}
		}
	}
}

// TestMemoryProperties: within the budget when all hold less, never below nine tenths of what is
// held, never more than a tenth up, the same again when nothing changes.
func TestMemoryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := MemoryInput{Target: rapid.Float64Range(0.05, 1).Draw(t, "target"), Stalled: rapid.Float64Range(0, 1).Draw(t, "stalled")}
		kib := rapid.Int64Range(0, int64(512*gib))
		for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			in.Nodes = append(in.Nodes, MemoryNode{topology.NodeID(n), topology.KiB(kib.Draw(t, "capacity")), topology.KiB(kib.Draw(t, "online")), topology.KiB(kib.Draw(t, "system"))})
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "work") {
			w := Holder{ID: workload.ID(fmt.Sprint("w", i)), Now: topology.KiB(rapid.SampledFrom([]int64{0, 0, 64 << 10, 1 << 20, 100 << 20}).Draw(t, "now"))}
			for n := range in.Nodes {
				w.On = append(w.On, workload.NodeMemory{Node: topology.NodeID(n), KiB: topology.KiB(kib.Draw(t, "held"))})
			}
			in.Work = append(in.Work, w)
		}
		var budget, sum, slack topology.KiB
		for i := range in.Nodes {
			budget += MemoryBudget(&in.Nodes[i], in.Target)
		}
		out := Memory(in)
		within := true
		for i, got := range out {
			w, holds := in.Work[i], workload.Total(in.Work[i].On)
			if got.Workload != w.ID || got.High%mebi != 0 || got.High < leastMemory {
				t.Fatalf("%+v", got)
			}
			if floor := topology.KiB(float64(holds)*(1-memoryStep)) - topology.KiB(float64(w.Now)*memorySlack); w.Now == 0 && got.High < floor {
				t.Fatalf("%s holds %d and may hold %d", w.ID, holds, got.High)
			}
			if most := w.Now + max(leastMemory, w.Now/10) + mebi; w.Now > 0 && got.High > most {
				t.Fatalf("%s grew from %d to %d", w.ID, w.Now, got.High)
			}
			within = within && topology.KiB(float64(holds)*(1-stallStep)) <= 0
			sum += got.High
			slack += leastMemory + mebi + got.High/16
		}
		if within && sum > budget+slack {
			t.Fatalf("%d KiB are given of %d", sum, budget)
		}
		for i := range in.Work {
			in.Work[i].Now = out[i].High
		}
		for range 200 {
			next := Memory(in)
			for i := range next {
				in.Work[i].Now = next[i].High
			}
		}
		for i, got := range Memory(in) {
			if got.High != in.Work[i].Now {
				t.Fatalf("%s swings from %d to %d", got.Workload, in.Work[i].Now, got.High)
			}
		}
	})
}
