package cores

import (
	"math/bits"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Wish is the CPUs that dedicated work asks for on one node.
type Wish struct {
	VCPUs      int // that get a CPU each
	Spare      int // most CPUs of the node that may be taken or held idle
	SMT        workload.SMTPolicy
	Importance int              // 0 to 100; below the default, slow cores come first
	Had        *topology.CPUSet // CPUs that the work has already, and keeps as far as it can; nil for none
}

// Choose appends the CPU of each vCPU on a node to pins: whole cores first, from as few caches as will do (fewest),
// siblings one after the other, so that vCPUs 2k and 2k+1 of a guest are siblings as well. idle is the CPUs of its
// cores that no work may use. Choose holds nothing.
func (b *Books) Choose(pins []topology.CPUID, node int, w Wish) (all, idle []topology.CPUID) {
	n := &b.Nodes[node]
	p := picker{b: b, n: n, pins: pins, want: w.VCPUs, spare: w.Spare}
	p.taken = make([]uint64, n.cores.len())
	if w.Had != nil && !w.Had.Empty() { // it keeps what it has, before it gets others
		p.had = w.Had
		p.choose(w.SMT)
		p.had = nil
		p.near = w.SMT == workload.SMTPrefer && len(p.pins) > len(pins)
	}
	for _, k := range b.kinds(n, &w, p.want) {
		if p.want > 0 {
			p.kind = k
			p.choose(w.SMT)
		}
	}
	return p.pins, p.idle
}

// picker takes CPUs of one node.
type picker struct {
	b     *Books
	n     *Node
	taken []uint64 // by core of the node: CPUs taken or held idle
	pins  []topology.CPUID
	idle  []topology.CPUID
	want  int // vCPUs that still have no CPU
	spare int // CPUs that may be taken or held idle
	kind  kind
	had   *topology.CPUSet // only these CPUs; nil for any
	near  bool             // siblings and caches of the CPUs taken so far come first
}

// choose takes CPUs by the SMT policy.
func (p *picker) choose(smt workload.SMTPolicy) {
	switch smt {
	case workload.SMTIsolate:
		p.takeWhole(true)
	case workload.SMTRequire:
		p.takeWhole(false)
	default:
		p.prefer()
	}
}

// joinBelow is the part of a node's CPUs, free on whole cores after a placement,
// below which an odd vCPU joins another tenant's core instead of opening a new
// one: on a node about to fill up the core opened now is shared soon anyway, and
// two halves left over make two shared cores where joining makes one.
const joinBelow = 0.2

// Joins reports whether a workload with so many vCPUs joins another tenant's core
// although whole cores are left.
func (n *Node) Joins(vcpus int) bool {
	return vcpus%n.threads != 0 && n.Free > n.WholeCPUs && float64(n.WholeCPUs-vcpus) < joinBelow*float64(n.Usable)
}

// prefer takes whole cores, cache by cache, and half cores when those run out: first
// halves next to another tenant, then halves next to the host, because work on reserved
// CPUs (interrupts, the hypervisor's threads) disturbs every guest.
func (p *picker) prefer() {
	if p.near { // it grows
		p.takeBy(func(c *core, free uint64) bool { return p.mine(c) != 0 })
	}
	whole := func(c *core, free uint64) bool { return c.whole() && free == c.all() }
	half := func(c *core, _ uint64) bool { return !c.whole() && c.threads == len(c.cpus) }
	if p.n.Joins(p.want) {
		odd := p.want % p.n.threads
		p.want -= odd
		p.takeBy(whole)
		rest := p.want
		p.want = odd
		p.takeBy(func(c *core, free uint64) bool { return half(c, free) && bits.OnesCount64(free) >= p.want })
		p.want += rest
	}
	p.takeBy(whole)
	p.takeBy(half)
	p.takeBy(func(*core, uint64) bool { return true })
}

// takeBy takes CPUs of the cores that pass, from as few caches as will do.
func (p *picker) takeBy(pass func(c *core, free uint64) bool) {
	for p.want > 0 {
		k := p.nextCache(func(c *core, free uint64) int {
			if !pass(c, free) {
				return 0
			}
			return bits.OnesCount64(free)
		})
		if k < 0 {
			return
		}
		s := p.b.caches[k].cores
		for i := s.lo; i < s.hi && p.want > 0; i++ {
			if free := p.free(i); free != 0 && pass(&p.b.cores[i], free) {
				p.take(i, p.want)
			}
		}
	}
}

// takeWhole takes whole cores, one vCPU a core or one a CPU; the rest of a core
// is held idle. When not all free whole cores may be taken, their sizes decide
// which, see wholeRoom; otherwise caches do.
func (p *picker) takeWhole(onePerCore bool) {
	perCore := 64
	if onePerCore {
		perCore = 1
	}
	if p.n.WholeCPUs > p.spare {
		largest := p.b.wholeBySize(p.n, p.spare, onePerCore, false) < p.want
		for k := 1; k <= p.n.threads; k++ {
			threads := k
			if largest {
				threads = p.n.threads + 1 - k
			}
			for i := p.n.cores.lo; i < p.n.cores.hi && p.want > 0; i++ {
				c := &p.b.cores[i]
				if c.whole() && p.free(i) == c.all() && len(c.cpus) == threads && threads <= p.spare {
					p.takeCore(i, perCore)
				}
			}
		}
		return
	}
	fits := func(c *core, free uint64) int {
		if !c.whole() || free != c.all() {
			return 0
		}
		return min(perCore, len(c.cpus))
	}
	for p.want > 0 {
		k := p.nextCache(fits)
		if k < 0 {
			return
		}
		s := p.b.caches[k].cores
		for i := s.lo; i < s.hi && p.want > 0; i++ {
			if fits(&p.b.cores[i], p.free(i)) > 0 {
				p.takeCore(i, perCore)
			}
		}
	}
}

// takeCore pins up to most vCPUs to core i and holds its other CPUs idle.
func (p *picker) takeCore(i, most int) {
	p.take(i, min(most, p.want))
	c := &p.b.cores[i]
	for m := p.free(i); m != 0; m &= m - 1 {
		p.idle = append(p.idle, c.cpus[bits.TrailingZeros64(m)])
		p.spare--
	}
	p.taken[i-p.n.cores.lo] = c.all()
}

// nextCache is the cache to go on with: the tightest that holds all that is
// still wanted, or else the one that holds most; -1 when none holds any.
func (p *picker) nextCache(holds func(c *core, free uint64) int) int {
	best, most := -1, 0
	own := false
	pieces := p.b.pieces[:0]
	for k := p.n.caches.lo; k < p.n.caches.hi; k++ {
		sum, mine := 0, false
		for i := p.b.caches[k].cores.lo; i < p.b.caches[k].cores.hi; i++ {
			if free := p.free(i); free != 0 {
				sum += holds(&p.b.cores[i], free)
			}
			mine = mine || (p.near && p.mine(&p.b.cores[i]) != 0)
		}
		if sum > 0 {
			pieces = append(pieces, piece{k, sum})
		}
		switch {
		case sum == 0, own && !mine:
		case best < 0, mine && !own,
			sum >= p.want && (most < p.want || sum < most),
			sum < p.want && sum > most:
			best, most = k, sum
			own = mine
		}
	}
	p.b.pieces = pieces
	if best < 0 || most >= p.want || own {
		return best
	}
	return fewest(pieces, p.want)[0].cache
}

// mine is the CPUs of a core that were taken already.
func (p *picker) mine(c *core) uint64 {
	return p.taken[int(p.b.coreAt[c.cpus[0]])-p.n.cores.lo]
}

// free returns the CPUs of core i that no work holds, that this picker may take and has not taken yet.
func (p *picker) free(i int) uint64 {
	c := &p.b.cores[i]
	free := c.free &^ p.taken[i-p.n.cores.lo]
	switch {
	case p.kind == fastOnly && c.slow, p.kind == slowOnly && !c.slow:
		return 0
	case p.had == nil:
		return free
	}
	for m := free; m != 0; m &= m - 1 {
		if k := bits.TrailingZeros64(m); !p.had.Has(c.cpus[k]) {
			free &^= 1 << k
		}
	}
	return free
}

// take pins up to most vCPUs to CPUs of core i.
func (p *picker) take(i, most int) {
	c := &p.b.cores[i]
	for m := p.free(i); m != 0 && most > 0; m &= m - 1 {
		bit := m & -m
		p.taken[i-p.n.cores.lo] |= bit
		p.pins = append(p.pins, c.cpus[bits.TrailingZeros64(bit)])
		p.want--
		p.spare--
		most--
	}
}
