package nearness

import (
	"math"

	"github.com/homenode/homenode/core/workload"
)

const (
	// StepCost is the cost for a vCPU of one step of access cost to a near thing of weight 1: half the cost of one
	// step to its own memory, because a device or a partner takes part in fewer accesses.
	StepCost = 0.5

	// givenWeight is the weight of all GPUs together that a runtime gives to work. The work feeds them, so one step
	// to them costs as much as one step to its memory.
	givenWeight = 1 / StepCost

	// uncountedWeight is the weight of a link whose traffic no counter has (VFIO, a poll thread behind a socket): a
	// remote node at twice the local cost then pulls with a tenth of a vCPU. The CPU use of a poll thread does not
	// depend on its traffic.
	uncountedWeight = 0.2

	// leastLink is the traffic of a link, MiB/s, below which it is idle.
	leastLink = 1

	// BusyTraffic is the memory traffic of a busy CPU, MiB/s, where no counter measures it. It puts a host two thirds
	// busy at some 15 % of its bandwidth (Kanev et al., "Profiling a warehouse-scale computer", ISCA 2015).
	BusyTraffic = 1024

	// vhostTraffic is the link's part of the traffic of a busy vhost thread. Such a thread copies between the guest
	// and the host: it moves each byte on one side for the guest, on the other for the link.
	vhostTraffic = BusyTraffic / 2
)

// Weighs returns the traffic, MiB/s, by which a link is weighed: its counted rate, or the traffic of the vhost threads
// that serve it. vhost is the CPUs that those keep busy. They do nothing else, so their CPU use is traffic of the link
// as CPU use is traffic of the workload: where nothing counts the workload's, both go by BusyTraffic, and the traffic
// of a busy CPU cancels out of the weight. It exceeds the bytes where packets are small, because descriptors and
// headers are touched for each.
func Weighs(o *workload.Observation, rate, vhost float64) float64 {
	if rate < leastLink || o.Bandwidth > 0 {
		return rate
	}
	return max(rate, vhost*vhostTraffic)
}

// Learned returns how near a workload should be to the other end of a link that was found, and whether the link counts.
// rate is the traffic of the link, MiB/s, below 0 when nothing counts it. Memory near a device is read or written once
// for each byte of its traffic, so the traffic of the link is weighed against the workload's own memory traffic.
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
		// Two digits: a weight that changes at every scan would change decisions.
		n.Weight = math.Round(100*min(1, rate/own/StepCost)) / 100
	}
	return n, n.Weight > 0 && (n.Device != "" || !n.Nodes.Empty())
}

// Given returns how near a workload should be to one of so many GPUs that its runtime gives it.
func Given(device string, of int) workload.Near {
	return workload.Near{Device: device, Learned: true, Given: true, Weight: givenWeight / float64(of)}
}
