package place

import (
	"math"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// share is what one node holds of a candidate.
type share struct {
	node   int
	vcpus  float64 // whole numbers for dedicated work
	memory topology.KiB
}

// terms are the parts of a score, lower being better. The unit is one vCPU
// whose every access costs one local access more.
type terms [numTerms]float64

const (
	distance   = iota // its CPUs to its memory
	contention        // CPUs that it and others want at once
	siblings          // vCPUs on cores that others use too
	bandwidth         // memory bandwidth booked on its nodes
	near              // its CPUs to devices and peers it talks to
	move              // memory that would have to move
	holes             // room it leaves too small to be of use
	devices           // nodes with devices it does not ask for
	balance           // load
	caches            // last-level caches that it crosses, and breaks
	numTerms
)

var termNames = [numTerms]string{
	"distance", "contention", "siblings", "bandwidth", "near", "move", "holes", "devices", "balance", "caches",
}

func (t *terms) sum() float64 {
	s := 0.0
	for _, x := range t {
		s += x
	}
	return s
}

// The weights. Distance has weight 1 by the choice of unit: the others say how
// much of it they are worth.
const (
	// overCPU is a vCPU that has no CPU to run on and so waits for all its time;
	// that is as bad as memory at twice the local cost.
	overCPU = 1.0
	// overCore is a vCPU that shares a core: two threads of a core do about 1.25 to
	// 1.3 times the work of one, so each of the two loses over a third.
	overCore = 0.35
	// siblingWeight is a vCPU on a core that another tenant uses; joinWeight the same
	// for the odd vCPU of a workload that could have a core to itself elsewhere.
	// Both lose the more the busier the other is. That the second is the larger is
	// found by trying (bench/placement): odd sizes then gather where cores are
	// plenty, even sizes fill up the rest, and fewer cores are shared in the end.
	siblingWeight = 0.15
	joinWeight    = 0.25
	// bandwidthWeight is per vCPU, at a booked bandwidth equal to what the node has.
	bandwidthWeight = 0.5
	// moveWeight is per vCPU, all memory being elsewhere. Moving is paid once and
	// distance for a lifetime, hence below the nearest remote step usual (1.2 to 2.1).
	moveWeight = 0.15
	// cheapMove is memory that moves within a second at the usual pace (256 MiB a second). Of less, the move
	// counts in proportion.
	cheapMove = 256 << 10 // KiB
	// holeWeight is per CPU left over in the node, relative to the largest node.
	holeWeight = 0.1
	// lopsidedWeight is per vCPU, for a node that comes to have all its CPUs free and
	// no memory, or the other way round. It may be negative: a workload that evens a
	// node out is welcome there.
	lopsidedWeight = 0.2
	// nearHoleWeight is per vCPU, all of the near nodes being free. It decides between
	// nodes that fit about alike.
	nearHoleWeight = 0.05
	// splitHoleWeight is per CPU left over on the nodes of a split, also on those that
	// give memory only: CPUs whose memory is taken are of as little use.
	splitHoleWeight = 0.1
	// deviceWeight keeps a device's node for those who ask for it, all else equal.
	deviceWeight = 0.02
	// balanceWeight is per vCPU at a load of one vCPU a core.
	balanceWeight = 0.05
)

// candidate is a node set that was weighed, with how the workload would divide.
type candidate struct {
	shares []share // rising by node
	access float64 // mean cost of an access, local being 1
	terms  terms
	score  float64
}

// weigh fills in the access cost, the terms and the score of a candidate.
func (w *want) weigh(l *Ledger, c *candidate) {
	c.access = l.accessOf(c.shares, w.memory)
	v := float64(w.vcpus)
	t := terms{distance: v * (c.access - 1)}
	stays := 0.0
	for _, s := range c.shares {
		n := &l.nodes[s.node]
		if w.residence != nil {
			stays += w.residence[s.node]
		}
		if w.pull != nil {
			t[near] += s.vcpus * w.pull[s.node]
		}
		if w.Bandwidth > 0 {
			part := s.vcpus / v
			t[bandwidth] += bandwidthWeight * s.vcpus * (float64(n.bandwidth) +
				part*float64(w.Bandwidth)) / float64(n.bandwidthCap)
		}
		if n.devices > 0 && w.pull == nil {
			t[devices] += deviceWeight * s.vcpus
		}
		w.weighCPUs(l, n, s.vcpus, len(c.shares) > 1, &t)
		if n.Divided && w.Class == workload.Dedicated {
			w.weighCaches(l, s.node, int(s.vcpus), &t)
		}
		if len(c.shares) == 1 {
			t[holes] = w.hole(l, s.node)
		}
	}
	if w.residence != nil {
		t[move] = w.moving * max(0, 1-stays)
	}
	for k := range t {
		if -1e-12 < t[k] && t[k] < 1e-12 { // what is left of subtracting
			t[k] = 0
		}
	}
	c.terms = t
	c.score = t.sum()
}

// weighCPUs adds what taking vcpus on node n does to CPUs there.
func (w *want) weighCPUs(l *Ledger, n *node, vcpus float64, split bool, t *terms) {
	free := float64(n.Free)
	if w.Class == workload.Shared {
		free = float64(n.Open())
	}
	if split && w.Class == workload.Dedicated {
		t[holes] += splitHoleWeight * max(0, free-vcpus)
	}
	if vcpus <= 0 {
		return
	}
	if w.Class == workload.Shared {
		others := n.load()
		vcpus += vcpus * float64(Reserve(w.Importance)) / 100
		t[contention] += n.crowding(free, others+vcpus) - n.crowding(free, others)
		t[balance] += balanceWeight * vcpus * (n.booked() + vcpus) / max(1, n.CoresIn(free))
		return
	}
	taken := vcpus
	if w.SMT == workload.SMTIsolate {
		taken *= n.PerCore()
	}
	if others := n.load(); others > 0 && !l.policy.Split {
		t[contention] += n.crowding(free-taken, others) - n.crowding(free, others)
	}
	if others := n.booked(); others > 0 && !l.policy.Split {
		t[balance] += balanceWeight * others * (others/max(1, n.CoresIn(free-taken)) - others/max(1, n.CoresIn(free)))
	}
	switch over := vcpus - float64(n.WholeCPUs); {
	case over > 0:
		t[siblings] += siblingWeight * over
	case n.Joins(int(vcpus)):
		t[siblings] += joinWeight
	}
}

// nextCosts is what contention and load cost shared work for each vCPU, at least: the first
// costs least.
func (w *want) nextCosts(n *node) float64 {
	others, open := n.load(), float64(n.Open())
	cores, slope := n.CoresIn(open), 0.0
	switch { // see Crowding
	case others >= open:
		slope = overCPU
	case others >= cores:
		slope = overCore
	}
	return (1 + float64(Reserve(w.Importance))/100) * (slope + balanceWeight*n.booked()/max(1, cores))
}

// crowding is Crowding with the given number of the node's CPUs to float on.
func (n *node) crowding(cpus, vcpus float64) float64 {
	return Crowding(cpus, n.CoresIn(cpus), vcpus)
}

// hole is what a workload that fits a node whole costs those that come later:
// the tighter the fit, the larger the holes that stay elsewhere. Of CPUs and
// memory the scarcer counts, for the other is of no use without it; and what
// makes a node more lopsided than it was counts too, for that is how CPUs end
// without memory.
func (w *want) hole(l *Ledger, i int) float64 {
	if w.Class != workload.Dedicated {
		return 0
	}
	n := &l.nodes[i]
	most := float64(max(1, l.largest))
	before, left := float64(n.Free)/most, float64(n.Free-w.vcpus)/most
	lopsided := 0.0
	if n.memory > 0 && n.memory < unlimited && w.HugePage == 0 && l.mostMemory > 0 {
		most := float64(l.mostMemory)
		had, has := float64(n.memoryFree)/most, float64(n.memoryFree-w.memory)/most
		lopsided = math.Abs(left-has) - math.Abs(before-had)
		left = min(left, has)
	}
	left = max(left, 0)
	if l.policy.Packing == plan.Spread {
		return holeWeight * float64(w.vcpus) * (1 - left)
	}
	return float64(w.vcpus) * (holeWeight*left + lopsidedWeight*lopsided + nearHoleWeight*nearHole(l, i))
}

// nearHole is how much is free on the nodes near to node i, 0 to 1: what a
// workload wider than a node would be split over. A neighbour counts as much as
// a split onto it would be worth. Filling up where the neighbours are full as
// well leaves the nodes that are free together for those who need them together.
func nearHole(l *Ledger, i int) float64 {
	sum, weights := 0.0, 0.0
	for j := range l.cpus.Nodes {
		if worth := 2 - l.access[j*len(l.nodes)+i]; worth > 0 && j != i {
			sum += worth * float64(l.cpus.Nodes[j].Free)
			weights += worth
		}
	}
	return sum / (max(1, weights) * float64(max(1, l.largest)))
}
