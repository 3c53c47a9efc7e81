package house

import (
	"cmp"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// flowsOf is the accesses of online work that leave their node though its home is elsewhere, or it
// has none: trouble. Work that spans nodes by plan, is left alone, or is batch is none. It is of each workload the
// share that is not local, divided as its CPU time and its memory lie.
func flowsOf(s *api.Status) []api.Flow {
	type key struct{ from, to topology.NodeID }
	type part struct {
		name string
		cpus float64
	}
	sums := map[key]*api.Flow{}
	parts := map[key][]part{}
	counted := map[key]bool{}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		total := 0.0
		for _, m := range w.MemoryByNode {
			total += float64(m.KiB)
		}
		if total <= 0 || w.CPUUse < 0.01 || len(w.RanOn) == 0 || w.Class == workload.Batch || api.AtRest(w.State) {
			continue
		}
		remote := 0.0
		for _, r := range w.RanOn {
			for _, m := range w.MemoryByNode {
				if m.Node != r.Node {
					remote += r.Share * float64(m.KiB) / total
				}
			}
		}
		if remote < 0.005 {
			continue
		}
		scale := 1.0
		if w.Locality != nil {
			scale = (1 - *w.Locality) / remote // what was counted, divided as memory lies
		}
		traffic, known := trafficOf(w)
		for _, r := range w.RanOn {
			for _, m := range w.MemoryByNode {
				share := r.Share * float64(m.KiB) / total * scale
				if m.Node == r.Node || share < 0.005 {
					continue
				}
				k := key{r.Node, m.Node}
				if sums[k] == nil {
					sums[k] = &api.Flow{From: k.from, To: k.to, MiBs: new(float64), By: []string{}}
					counted[k] = true
				}
				sums[k].CPUs += w.CPUUse * share
				*sums[k].MiBs += traffic * share
				counted[k] = counted[k] && known
				parts[k] = append(parts[k], part{short(w.Name), w.CPUUse * share})
			}
		}
	}
	out := make([]api.Flow, 0, len(sums))
	for k, f := range sums {
		if f.CPUs < 0.02 {
			continue
		}
		f.CPUs, *f.MiBs = rounded(f.CPUs, 2), rounded(*f.MiBs, 2)
		if !counted[k] {
			f.MiBs = nil
		}
		slices.SortFunc(parts[k],
			func(a, b part) int { return cmp.Or(cmp.Compare(b.cpus, a.cpus), strings.Compare(a.name, b.name)) })
		for _, p := range parts[k][:min(3, len(parts[k]))] {
			f.By = append(f.By, p.name)
		}
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b api.Flow) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out[:min(len(out), mostFlows)]
}

// trafficOf is the traffic of a workload's memory in MiB/s, and whether it was counted.
func trafficOf(w *api.Workload) (mibs float64, known bool) {
	const line = 64 // bytes of a cache line, which one read fetches
	switch {
	case w.Bandwidth != nil:
		return float64(*w.Bandwidth), true
	case w.Accesses != nil:
		return *w.Accesses * line / (1 << 20), true
	}
	return 0, false
}
