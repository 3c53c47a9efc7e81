package balance

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// know notes what work used on nodes that had idle time: the most of late, what is
// old counting less, to nothing within the horizon.
func (m *model) know(l *Sample, horizon time.Duration) {
	idles := m.saturated([]Sample{*l}, idles)[0]
	m.each(l.Uses, func(w *work, u *Use) {
		if w.crowdedShare(idles) > 0 {
			return
		}
		left := 1 - l.At.Sub(u.Known).Seconds()/horizon.Seconds()
		u.Free, u.Known = max(u.CPUs, round3(u.Free*max(0, left))), l.At
	})
}

// demands is what was wanted in one look, by node.
type demands struct{ load, traffic, plain []float64 }

// size averages what every workload wanted over the looks, and adds up what all of them
// wanted in each.
func (m *model) size(looks []Sample, horizon time.Duration) {
	m.horizon = horizon
	m.counted, m.perCPU = counted(looks, len(m.rooms)), nearness.BusyTraffic
	m.calibrate(looks)
	m.wanted = make([]demands, len(looks))
	for k := range m.wanted {
		n := len(m.rooms)
		sums := make([]float64, 3*n)
		m.wanted[k] = demands{sums[:n:n], sums[n : 2*n : 2*n], sums[2*n:]}
	}
	fills := m.saturated(looks, demand.Fills)
	crowded := slices.ContainsFunc(fills, func(f []float64) bool { return f != nil })
	at := make([]int, len(looks)) // all rise by workload
	newest := &looks[len(looks)-1]
	for i := range m.workloads {
		w := &m.workloads[i]
		u := newest.use(i, w.id)
		w.takeUse(u, m.goesOn)
		if !crowded && w.steady.looks >= len(looks) {
			m.sizeSteady(w, newest, u)
		} else {
			m.sizeEach(w, i, looks, fills, at)
		}
		w.kept = w.demand * w.reserve()
		if w.counted > 0 { // the lines that were waited for; traffic has prefetched ones too
			w.accesses /= w.counted * overlap
		} else {
			w.accesses = w.traffic * (1 << 20) / lineBytes / overlap
		}
	}
}

// use returns use i if it belongs to the workload, or nil.
func (l *Sample) use(i int, id workload.ID) *Use {
	if i < len(l.Uses) && l.Uses[i].Workload == id {
		return &l.Uses[i]
	}
	return nil
}

// sizeEach sizes workload i by its use in each sample. at has the position in each sample.
func (m *model) sizeEach(w *work, i int, looks []Sample, fills [][]float64, at []int) {
	for k := range looks {
		l := &looks[k]
		if l.use(i, w.id) != nil {
			at[k] = i
		}
		for at[k] < len(l.Uses) && l.Uses[at[k]].Workload != w.id && l.Uses[at[k]].Workload < w.id {
			at[k]++
		}
		if at[k] == len(l.Uses) || l.Uses[at[k]].Workload != w.id {
			continue
		}
		u := &l.Uses[at[k]]
		demand, traffic, measured := m.want(w, l, u, fills[k])
		m.add(w, k, u, demand, traffic)
		w.measured = measured
		if k == len(looks)-1 {
			w.age = l.At.Sub(u.Since).Seconds()
		}
	}
}

// sizeSteady sizes a workload with the same use in all samples while no node was saturated: its demand is the same,
// too.
func (m *model) sizeSteady(w *work, newest *Sample, u *Use) {
	demand, traffic, measured := m.want(w, newest, u, nil)
	for k := range m.wanted {
		m.add(w, k, u, demand, traffic)
	}
	w.measured = measured
	w.age = newest.At.Sub(u.Since).Seconds()
}

// add adds the demand of a workload in sample k.
func (m *model) add(w *work, k int, u *Use, demand, traffic float64) {
	all := &m.wanted[k]
	reserve := w.reserve()
	w.seen++
	w.demand += demand / float64(len(m.wanted))
	w.traffic += traffic / float64(len(m.wanted))
	for _, p := range w.run {
		all.load[p.node] += p.share * demand * (1 + reserve)
	}
	for _, p := range w.mem {
		all.traffic[p.node] += p.share * traffic * (1 + reserve)
		all.plain[p.node] += p.share * traffic
	}
	if u.Accesses > 0 {
		w.accesses += u.Accesses
		w.counted++
	}
}

// reserve is the part of what it uses that important work keeps idle beside it.
func (w *work) reserve() float64 {
	if w.lasts {
		return w.beside
	}
	return float64(place.Reserve(w.Spec.Importance)) / 100
}

// want is what a workload wanted in one look: the CPU it is entitled to and wants (shared
// work; dedicated work has its own CPUs, batch work takes what is idle) and its memory
// traffic, MiB/s.
func (m *model) want(w *work, l *Sample, u *Use, fills []float64) (cpus, traffic float64, measured bool) {
	traffic, measured = float64(u.Bandwidth), u.Bandwidth > 0
	if !measured {
		traffic = max(u.CPUs*m.perCPU, u.Accesses*lineBytes/(1<<20))
	}
	if w.placed == nil || w.placed.Class == workload.Shared {
		crowded := w.crowdedShare(fills)
		// it is known what it uses when it can
		cpus = demand.Entitled(&w.Spec, &w.Observation, u.CPUs, crowded)
		if crowded > 0 && u.CPUs <= u.Free && l.At.Sub(u.Known) < m.horizon {
			cpus = min(cpus, u.Free)
		}
	}
	return cpus, traffic, measured
}

// counted is the mean traffic that was counted at each node, negative where a look
// lacks it.
func counted(looks []Sample, nodes int) []float64 {
	out := make([]float64, nodes)
	for k := range looks {
		for i := range out {
			if t := looks[k].Traffic; out[i] < 0 || i >= len(t) || t[i] < 0 {
				out[i] = topology.None
			} else {
				out[i] += float64(t[i]) / float64(len(looks))
			}
		}
	}
	return out
}

// calibrate takes what a busy CPU brings from what was counted, where that is known
// of every node: all of it, less what workloads are known to bring themselves.
func (m *model) calibrate(looks []Sample) {
	rest, cpus := 0.0, 0.0
	for _, mibs := range m.counted {
		if mibs < 0 {
			return
		}
		rest += mibs
	}
	for k := range looks {
		for i := range looks[k].Uses {
			if u := &looks[k].Uses[i]; u.Bandwidth > 0 {
				rest -= float64(u.Bandwidth) / float64(len(looks))
			} else {
				cpus += u.CPUs / float64(len(looks))
			}
		}
	}
	if cpus > 0.5 { // less says nothing of others
		m.perCPU = min(max(rest/cpus, leastTraffic), mostTraffic)
	}
}

// saturated is how saturated each node was in each look, 0 to 1, from a part of the CPUs on;
// nil for a look in which none was.
func (m *model) saturated(looks []Sample, from float64) [][]float64 {
	out := make([][]float64, len(looks))
	for k := range looks {
		for i, busy := range looks[k].Busy[:min(len(m.rooms), len(looks[k].Busy))] {
			s := demand.Saturated(busy, float64(m.rooms[i].CPUs), from)
			if s == 0 {
				continue
			}
			if out[k] == nil {
				out[k] = make([]float64, len(m.rooms))
			}
			out[k][i] = s
		}
	}
	return out
}

// crowdedShare is how saturated it is where w runs.
func (w *work) crowdedShare(saturated []float64) float64 {
	if saturated == nil {
		return 0
	}
	sum := 0.0
	for _, p := range w.run {
		sum += p.share * saturated[p.node]
	}
	return sum
}
