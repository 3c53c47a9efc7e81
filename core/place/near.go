package place

import (
	"cmp"

	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/workload"
)

const (
	// nearCeiling bounds the pull of all near things together that a person named.
	// ESXi's KB 439993 tells of hosts where all guests crowded on the node of one device.
	nearCeiling = 1.0

	// learnedCeiling bounds the pull of what was found by looking: a tenth of the
	// workload's vCPUs. That is less than what a core shared with others costs
	// (overCore), and less than moving its memory (moveWeight): a first home never
	// crowds a node, nor copies memory, for something learned.
	learnedCeiling = 0.1

	// learnedMost bounds it for all vCPUs together, below one vCPU that shares a core
	// (overCore): else many small pulls would add up to crowding after all.
	//
	// Of what runs, the CPUs that it loses are known (Pull), and they are bounded by this, or by
	// a tenth of what it waits for its memory if that is more: a link of 10 Gbit/s
	// costs a guest with two busy CPUs as much as one with ten, and a tenth of its
	// accesses is less than homes change for (core/balance, leastLost). Copying its
	// memory is weighed there against what is gained.
	learnedMost = 0.3

	// givenCeiling bounds the pull of GPUs that a runtime gives to work (nearness.Given): above a shared core, at any
	// importance of the work (overCore, Reserve), because other work leaves a core and a GPU stays where it is;
	// below a CPU that the work would wait for (overCPU).
	givenCeiling = 0.7

	// servesCeiling bounds what pulls a helper to those that it works for. All that it does is
	// done for them, so its memory goes along (more than moveWeight), but it crowds no
	// node (less than overCore).
	servesCeiling = 0.3
)

// firstCeiling bounds the pull of what was learned on each of so many vCPUs when a home is
// chosen: nobody knows yet what they will use.
func firstCeiling(vcpus int) float64 { return min(learnedCeiling, learnedMost/float64(vcpus)) }

// pull is what it costs a vCPU to be on each node, for being far from what the
// workload is near to, of what was learned at most ceiling; nil for nothing. absent is what a
// person named and the host does not have.
func (l *Ledger) pull(near []workload.Near, ceiling float64) (pull []float64, absent []workload.Near) {
	if len(near) == 0 {
		return nil, nil
	}
	n := len(l.nodes)
	named := make([]float64, n)
	learned := make([]float64, n)
	given := make([]float64, n)
	served := make([]float64, n)
	found := false
	for _, x := range near {
		weight := cmp.Or(x.Weight, 1)
		if !(weight > 0) {
			continue
		}
		into := named
		switch {
		case x.Serves:
			into = served
		case x.Given:
			into = given
		case x.Learned:
			into = learned
		}
		targets, known := l.targets(&x)
		for _, target := range targets {
			found = true
			for i := range n {
				into[i] += weight / float64(len(targets)) * nearness.StepCost * (l.access[i*n+target] - 1)
			}
		}
		if !known && !x.Learned && x.Device != workload.AnyGPU {
			absent = append(absent, x)
		}
	}
	if !found {
		return nil, absent
	}
	for i := range named {
		named[i] = min(named[i], nearCeiling) + min(given[i], givenCeiling) + min(learned[i], ceiling) +
			min(served[i], servesCeiling)
	}
	return named, absent
}

// targets is where a near thing is, by position of node.
func (l *Ledger) targets(x *workload.Near) (at []int, known bool) {
	for i := range l.host.Devices {
		d := &l.host.Devices[i]
		if !d.Is(x.Device) {
			continue
		}
		if target := l.index(d.Node); target >= 0 {
			return []int{target}, true
		}
		return nil, true
	}
	if k, ok := l.find(x.Workload); ok && x.Workload != "" && l.held[k].Class != workload.Batch {
		return l.held[k].home, true
	}
	at = l.indices(x.Nodes)
	return at, len(at) > 0
}
