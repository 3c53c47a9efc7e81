package main

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Limit is what no placement can be expected to beat, moves or not: the host is taken
// as one node, so that nothing is ever in the wrong place and every workload gets
// the best division of an empty host.
type Limit struct {
	Greedy  float64 // utility when everything is admitted that fits
	Optimal float64 // the same of the policy that is best in expectation, with memory without end
	Mean    float64 // expected utility of that policy over traces like this one
}

// size is one size of workload in a trace.
type size struct {
	vcpus int
	part  float64 // of the arrivals
	value float64 // utility of one on the empty host
}

// limit computes the limit of a trace by dynamic programming. The policy knows how
// often each size comes, how long workloads stay in the mean, and how many are
// yet to come, all taken from the trace itself: more than any policy on-line can know. What
// it does not know is which workload leaves when.
//
// Stays without memory (exponential) are assumed, as the shared traces have them: how
// long a workload has been there says nothing of how long it stays. The state is then the
// number of each size there; with k arrivals to come
//
//	W(k, x) = (Σ part × max(W(k-1, x), value + W(k-1, x + 1)) + Σ x/stay × W(k, x - 1)) / (1 + Σ x/stay)
func limit(c *replay.Case) Limit {
	d := newProgram(c)
	d.solve()
	return Limit{Greedy: d.replay(c, false), Optimal: d.replay(c, true), Mean: d.value(d.n, 0) / d.offered}
}

type program struct {
	sizes   []size
	stay    float64 // mean, in arrivals
	cpus    int
	n       int // arrivals
	offered float64
	states  [][]int // counts by size, rising by their sum
	leave   [][]int // by state, by size: the state with one less, -1 for none
	join    [][]int // with one more
	w       [][]float64
}

func newProgram(c *replay.Case) *program {
	d := &program{}
	l := place.NewLedger(plan.State{Host: c.Host, Policy: c.Policy})
	for i := range c.Host.Nodes {
		d.cpus += c.Host.Nodes[i].CPUs.Minus(c.Policy.Reserved).Len()
	}
	came := map[int]int{}
	left := 0
	there := 0
	exposure := 0
	arrived := map[workload.ID]bool{}
	for i := range c.Events {
		switch e := &c.Events[i]; e.Op {
		case replay.Arrive:
			exposure += there
			there++
			d.n++
			arrived[e.VM] = true
			d.offered += float64(e.Spec.CPUs)
			came[e.Spec.CPUs]++
		case replay.Depart:
			if arrived[e.VM] {
				there--
				left++
			}
		}
	}
	d.stay = float64(exposure) / float64(max(1, left))
	for v, k := range came {
		s := size{vcpus: v, part: float64(k) / float64(d.n)}
		spec := workload.Spec{ID: "alone", Class: workload.Dedicated, CPUs: v, Memory: 1 << 10}
		if r := l.Place(place.Request{Spec: spec, Must: true}); r.Placed() {
			s.value = float64(v) * max(0.05, 2-l.Access(&r.Placement))
		}
		d.sizes = append(d.sizes, s)
	}
	slices.SortFunc(d.sizes, func(a, b size) int { return cmp.Compare(a.vcpus, b.vcpus) })
	d.enumerate()
	return d
}

// enumerate lists the states and how they hang together.
func (d *program) enumerate() {
	count := make([]int, len(d.sizes))
	var walk func(k, free int)
	walk = func(k, free int) {
		if k == len(count) {
			d.states = append(d.states, slices.Clone(count))
			return
		}
		for count[k] = 0; count[k]*d.sizes[k].vcpus <= free; count[k]++ {
			walk(k+1, free-count[k]*d.sizes[k].vcpus)
		}
		count[k] = 0
	}
	walk(0, d.cpus)
	sum := func(x []int) int {
		s := 0
		for _, v := range x {
			s += v
		}
		return s
	}
	slices.SortStableFunc(d.states, func(a, b []int) int { return cmp.Compare(sum(a), sum(b)) })
	at := make(map[string]int, len(d.states))
	for i, x := range d.states {
		at[key(x)] = i
	}
	d.leave, d.join = make([][]int, len(d.states)), make([][]int, len(d.states))
	for i, x := range d.states {
		d.leave[i], d.join[i] = make([]int, len(x)), make([]int, len(x))
		for k := range x {
			for step, to := range map[int][]int{-1: d.leave[i], 1: d.join[i]} {
				x[k] += step
				to[k] = -1
				if j, ok := at[key(x)]; ok && x[k] >= 0 {
					to[k] = j
				}
				x[k] -= step
			}
		}
	}
}

func key(x []int) string {
	b := make([]byte, 0, 2*len(x))
	for _, v := range x {
		b = append(b, byte(v), byte(v>>8))
	}
	return string(b)
}

func (d *program) value(k, state int) float64 { return d.w[k][state] }

func (d *program) solve() {
	d.w = make([][]float64, d.n+1)
	d.w[0] = make([]float64, len(d.states))
	for k := 1; k <= d.n; k++ {
		d.w[k] = make([]float64, len(d.states))
		for i, x := range d.states {
			gain, rate := 0.0, 1.0
			for s := range d.sizes {
				gain += d.sizes[s].part * d.best(k, i, s)
				if x[s] > 0 {
					out := float64(x[s]) / d.stay
					rate += out
					gain += out * d.w[k][d.leave[i][s]]
				}
			}
			d.w[k][i] = gain / rate
		}
	}
}

// best is the value of an arrival of size s when k arrivals, this one included, are to come.
func (d *program) best(k, state, s int) float64 {
	refuse := d.w[k-1][state]
	if to := d.join[state][s]; to >= 0 {
		return max(refuse, d.sizes[s].value+d.w[k-1][to])
	}
	return refuse
}

// replay runs the trace under the policy, or admitting all that fits, memory too.
func (d *program) replay(c *replay.Case, optimal bool) float64 {
	at := 0
	k := d.n
	sum := 0.0
	memory := topology.KiB(0)
	for i := range c.Host.Nodes {
		memory += c.Host.Nodes[i].Memory
	}
	admitted := map[workload.ID]int{}
	holds := map[workload.ID]topology.KiB{}
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Op {
		case replay.Arrive:
			s := slices.IndexFunc(d.sizes, func(x size) bool { return x.vcpus == e.Spec.CPUs })
			to := d.join[at][s]
			admit := to >= 0 && memory >= e.Spec.Memory
			if optimal {
				admit = to >= 0 && d.sizes[s].value+d.w[k-1][to] >= d.w[k-1][at]
			}
			if admit {
				at = to
				memory -= e.Spec.Memory
				holds[e.VM] = e.Spec.Memory
				sum += d.sizes[s].value
				admitted[e.VM] = s
			}
			k--
		case replay.Depart:
			if s, ok := admitted[e.VM]; ok {
				at = d.leave[at][s]
				memory += holds[e.VM]
				delete(admitted, e.VM)
			}
		}
	}
	return sum / d.offered
}
