package place

import (
	"math"

	"github.com/homenode/homenode/core/workload"
)

const (
	// nearWeight is what one step of access cost to a near thing costs a vCPU: half of
	// what it costs to be one step from its own memory, for a device or a peer takes
	// part in fewer accesses.
	nearWeight = 0.5

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

	// givenWeight is the weight of all GPUs together that a runtime gives to work: that work feeds them, so that to
	// be one step away from them is like being one step away from its memory. givenCeiling bounds their
	// pull: above a shared core, whatever the importance of the work (overCore, Reserve), for others leave
	// a core and a GPU stays where it is; below a CPU that the work would wait for (overCPU).
	givenWeight  = 1 / nearWeight
	givenCeiling = 0.7

	// servesCeiling bounds what pulls a helper to those that it works for. All that it does is
	// done for them, so its memory goes along (more than moveWeight), but it crowds no
	// node (less than overCore).
	servesCeiling = 0.3

	// uncountedWeight is the weight of a link that no counter tells the traffic of (VFIO,
	// a poll thread behind a socket): a remote node at twice the local cost then pulls
	// with a tenth of a vCPU. How busy a poll thread is says nothing of what it does.
	uncountedWeight = 0.2

	// leastLink is the traffic of a link, MiB/s, below which it is idle.
	leastLink = 1

	// BusyTraffic is the memory traffic of a busy CPU, MiB/s, where no counter
	// measures it. It puts a host two thirds busy at some 15 % of its bandwidth (Kanev et
	// al., "Profiling a warehouse-scale computer", ISCA 2015).
	BusyTraffic = 1024

	// vhostTraffic is the part of it that is the link's when a vhost thread is busy. Such a
	// thread copies between the guest and the host: each byte is moved on one side for
	// the guest, on the other for the link.
	vhostTraffic = BusyTraffic / 2
)

// Weighs is the traffic, MiB/s, as which a link weighs: that which was counted, or what the vhost
// threads that serve it tell. Those do nothing else, so vhost, the CPUs that they keep busy, is
// traffic of the link as CPU use is traffic of the workload: where nothing counts
// that, both go by BusyTraffic, and what a busy CPU brings cancels out of the weight. It
// says more than the bytes where packets are small: descriptors and headers are touched for each.
func Weighs(o *workload.Observation, rate, vhost float64) float64 {
	if rate < leastLink || o.Bandwidth > 0 {
		return rate
	}
	return max(rate, vhost*vhostTraffic)
}

// Learned is how near a workload should be to what it was found to use. rate is the
// traffic of the link, MiB/s, below 0 when nothing counts it. What goes through a device is read
// and written in memory near it once: it weighs as so much memory traffic of the
// workload's own. false when it does not count.
func Learned(o *workload.Observation, l *workload.Link, rate float64) (workload.Near, bool) {
	n := workload.Near{Device: l.Device, Learned: true, Nodes: l.Nodes, Weight: uncountedWeight}
	if rate >= 0 {
		own := float64(o.Bandwidth)
		if own <= 0 {
			own = o.CPUUse * BusyTraffic
		}
		if rate < leastLink || own <= 0 {
			return n, false
		}
		// Two digits: what moves with every look is no ground for anything.
		n.Weight = math.Round(100*min(1, rate/own/nearWeight)) / 100
	}
	return n, n.Weight > 0 && (n.Device != "" || !n.Nodes.Empty())
}

// Given is how near a workload should be to one of so many GPUs that its runtime gives it.
func Given(device string, of int) workload.Near {
	return workload.Near{Device: device, Learned: true, Given: true, Weight: givenWeight / float64(of)}
}

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
		weight := x.Weight
		if weight == 0 {
			weight = 1
		}
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
				into[i] += weight / float64(len(targets)) * nearWeight * (l.access[i*n+target] - 1)
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
