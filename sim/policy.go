package sim

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Policies names what a simulation may run, the real daemon first.
var Policies = []string{"homenode", "first-fit", "spread", "interleave", "random", "numad", "kernel-balancing", "none"}

// Variants of the daemon that are run only when named: homes-kept does not balance.
var Variants = []string{"homes-kept"}

// order is the nodes in the order in which a policy tries them for a job.
type order func(r *reference, d *Demand) []int

// firstFit is libvirt without hints and OpenStack's default: the lowest node that holds it.
func firstFit(r *reference, _ *Demand) []int { return r.all() }

// spread is the emptiest node first.
func spread(r *reference, _ *Demand) []int {
	nodes := r.all()
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(r.use(a), r.use(b)) })
	return nodes
}

// anyNode is chance.
func anyNode(r *reference, _ *Demand) []int {
	nodes := r.all()
	r.random.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
	return nodes
}

// reference is a manager that gives every job that asks the first node that holds
// it, in an order of its own, or as few nodes in that order as will do, and never
// changes its mind. It knows no distances. Jobs that do not ask run where the
// kernel puts them: nobody told it, and it does not look. interleave and none
// confine nobody; they let in what the whole host holds.
type reference struct {
	nobody    // nothing wakes it
	m         *machine
	policy    plan.Policy
	random    *rand.Rand
	order     order // nil: jobs are not confined
	scattered bool  // their memory is interleaved

	usable []topology.CPUSet // CPUs that may be given, by node
	free   []topology.CPUSet // … and that no dedicated job holds
	shared []float64         // vCPUs of shared jobs, by node
	room   []topology.KiB    // memory not booked, by node
	held   []plan.Placement  // rising by workload
	batch  int               // how many of them are batch work
	byID   map[workload.ID]*job
	saved  bool
}

func newReference(m *machine, policy plan.Policy, seed uint64, by order, scattered bool) *reference {
	r := &reference{m: m, policy: policy, random: rand.New(rand.NewPCG(seed, 0x706f6c696379)), order: by,
		scattered: scattered,
		shared:    make([]float64, len(m.room)), byID: map[workload.ID]*job{}}
	caps := plan.Capacity(plan.State{Host: m.host, Policy: policy})
	for i := range m.host.Nodes {
		r.usable = append(r.usable, m.host.Nodes[i].CPUs.Intersect(m.host.Allowed).Minus(policy.Reserved))
		if caps[i] < 0 {
			caps[i] = m.room[i]
		}
	}
	r.free, r.room = slices.Clone(r.usable), caps
	return r
}

func (r *reference) all() []int {
	nodes := make([]int, len(r.room))
	for i := range nodes {
		nodes[i] = i
	}
	return nodes
}

// use is the part of a node's CPUs that is given away.
func (r *reference) use(i int) float64 {
	n := r.usable[i].Len()
	if n == 0 {
		return math.Inf(1)
	}
	return (float64(n-r.free[i].Len()) + r.shared[i]/r.overcommit()) / float64(n)
}

func (r *reference) overcommit() float64 { return max(1, r.policy.Overcommit) }

// fits is how many vCPUs of a job node i can take.
func (r *reference) fits(d *Demand, i int) int {
	if d.Class == workload.Dedicated {
		keep := 0
		if r.shared[i] > 0 {
			keep = max(1, int(math.Ceil(r.shared[i]/r.overcommit()-1e-9)))
		}
		return max(0, r.free[i].Len()-keep)
	}
	return int(r.overcommit()*float64(r.free[i].Len()) - r.shared[i] + 1e-9)
}

// choose is how many vCPUs and how much memory go to each node; nil is no room.
func (r *reference) choose(d *Demand) (vcpus []int, mem []topology.KiB) {
	if d.Class == workload.Dedicated && r.batch > 0 && r.floating() <= d.VCPUs {
		return nil, nil // batch work would have no CPU left
	}
	nodes := r.order(r, d)
	vcpus, mem = make([]int, len(r.room)), make([]topology.KiB, len(r.room))
	for _, i := range nodes {
		if r.fits(d, i) >= d.VCPUs && r.room[i] >= d.asked() {
			vcpus[i], mem[i] = d.VCPUs, d.asked()
			return vcpus, mem
		}
	}
	cpusLeft, memLeft := d.VCPUs, d.asked()
	for _, i := range nodes {
		k := min(cpusLeft, r.fits(d, i))
		if k <= 0 {
			continue
		}
		vcpus[i], mem[i] = k, max(0, min(memLeft, r.room[i]))
		cpusLeft -= k
		memLeft -= mem[i]
	}
	if cpusLeft > 0 || memLeft > 0 {
		return nil, nil
	}
	return vcpus, mem
}

// floating is how many CPUs no dedicated job holds.
func (r *reference) floating() int {
	n := 0
	for i := range r.free {
		n += r.free[i].Len()
	}
	return n
}

func (r *reference) preplace(j *job) error {
	p := placementFor(r.m, j)
	if r.order != nil {
		r.hold(p, j)
	} else {
		j.booked = p.Asked
		r.count(&p, 1)
		r.byID[j.id] = j
	}
	return nil
}

func (r *reference) arrive(_ context.Context, j *job) (bool, error) {
	d := &j.demand
	if !d.Asks {
		return true, nil
	}
	if r.order == nil {
		if !r.hostHolds(d) {
			return false, nil
		}
		j.scattered, j.booked = r.scattered, d.asked()
		p := plan.Placement{Workload: j.id, Class: d.Class, VCPUs: d.VCPUs, Asked: d.asked()}
		r.count(&p, 1)
		r.byID[j.id] = j
		return true, nil
	}
	if d.Class == workload.Batch {
		if r.floating() == 0 {
			return false, nil
		}
		r.hold(plan.Placement{Workload: j.id, Class: d.Class, Importance: d.Importance, VCPUs: d.VCPUs}, j)
		return true, nil
	}
	vcpus, mem := r.choose(d)
	if vcpus == nil {
		return false, nil
	}
	p := plan.Placement{Workload: j.id, Class: d.Class, Importance: d.Importance, VCPUs: d.VCPUs, Asked: d.asked(),
		Bound: d.Class == workload.Dedicated, Bandwidth: d.Bandwidth}
	for i := range vcpus {
		id := r.m.host.Nodes[i].ID
		if vcpus[i] > 0 {
			p.Home.Add(id)
		}
		if mem[i] > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: id, KiB: mem[i]})
		}
		if d.Class != workload.Dedicated {
			continue
		}
		for cpu := range r.free[i].All() {
			if vcpus[i] == 0 {
				break
			}
			p.Pins = append(p.Pins, cpu)
			p.CPUs.Add(cpu)
			vcpus[i]--
		}
	}
	j.prefer, j.bound = p.Home, p.Bound
	r.hold(p, j)
	return true, nil
}

// hostHolds reports whether a job fits the host as a whole; where it would run
// is the kernel's business.
func (r *reference) hostHolds(d *Demand) bool {
	free := topology.KiB(0)
	cpus := 0
	shared := 0.0
	for i := range r.room {
		free += r.room[i]
		cpus += r.usable[i].Len()
		shared += r.shared[i]
	}
	load := shared
	if d.Class == workload.Dedicated {
		load += float64(d.VCPUs) * r.overcommit()
	} else if d.Class == workload.Shared {
		load += float64(d.VCPUs)
	}
	return free >= d.asked() && load <= float64(cpus)*r.overcommit()+1e-9
}

// hold puts a placement into the ledger, and brings the CPU sets of those up to
// date that float.
func (r *reference) hold(p plan.Placement, j *job) {
	r.byID[j.id] = j
	k, _ := slices.BinarySearchFunc(r.held, p.Workload,
		func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
	r.held = slices.Insert(r.held, k, p)
	r.count(&r.held[k], 1)
	r.float()
	q := &r.held[k]
	j.exclusive = q.Class == workload.Dedicated
	j.cpus = q.CPUs
}

func (r *reference) depart(j *job) {
	if r.order == nil {
		if r.byID[j.id] == nil {
			return
		}
		p := plan.Placement{Workload: j.id, Class: j.demand.Class, VCPUs: j.demand.VCPUs, Asked: j.booked}
		r.count(&p, -1)
		delete(r.byID, j.id)
		return
	}
	k := slices.IndexFunc(r.held, func(p plan.Placement) bool { return p.Workload == j.id })
	if k < 0 {
		return
	}
	r.count(&r.held[k], -1)
	r.held = slices.Delete(r.held, k, k+1)
	delete(r.byID, j.id)
	r.float()
}

// count books a placement (sign 1) or gives it back (sign -1).
func (r *reference) count(p *plan.Placement, sign int) {
	if r.order == nil { // what is not confined has no nodes: it is booked on the host
		load := float64(p.VCPUs)
		if p.Class == workload.Dedicated {
			load *= r.overcommit()
		} else if p.Class == workload.Batch {
			load = 0
		}
		r.shared[0] += float64(sign) * load
		r.room[0] -= topology.KiB(sign) * p.Asked
		return
	}
	if p.Class == workload.Batch {
		r.batch += sign
	}
	for _, x := range p.Memory {
		r.room[r.m.index[x.Node]] -= topology.KiB(sign) * x.KiB
	}
	total := 0
	for i := range r.usable {
		if p.Home.Has(r.m.host.Nodes[i].ID) {
			total += r.usable[i].Len()
		}
	}
	for i := range r.usable {
		switch {
		case !p.Home.Has(r.m.host.Nodes[i].ID):
		case p.Class == workload.Dedicated && sign > 0:
			r.free[i] = r.free[i].Minus(p.CPUs)
		case p.Class == workload.Dedicated:
			r.free[i] = r.free[i].Union(p.CPUs.Intersect(r.usable[i]))
		case p.Class == workload.Shared:
			r.shared[i] += float64(sign) * float64(p.VCPUs) * float64(r.usable[i].Len()) / float64(max(1, total))
		}
	}
	r.saved = true
}

// float gives shared and batch jobs the CPUs that are free for them now.
func (r *reference) float() {
	for k := range r.held {
		p := &r.held[k]
		if p.Class == workload.Dedicated {
			continue
		}
		var cpus topology.CPUSet
		var home topology.NodeSet
		for i := range r.free {
			id := r.m.host.Nodes[i].ID
			if (p.Class == workload.Batch || p.Home.Has(id)) && !r.free[i].Empty() {
				cpus = cpus.Union(r.free[i])
				home.Add(id)
			}
		}
		if p.Class == workload.Batch {
			p.Home = home
		}
		if cpus.Equal(p.CPUs) {
			continue
		}
		p.CPUs = cpus
		if j := r.m.byID[p.Workload]; j != nil {
			r.m.setCPUs(j, cpus, false)
		}
	}
}

func (r *reference) leaks(context.Context) []string {
	var out []string
	for _, p := range r.held {
		out = append(out, string(p.Workload)+" has departed and still has a placement")
	}
	caps := plan.Capacity(plan.State{Host: r.m.host, Policy: r.policy})
	return append(out, leaked(r.m.host,
		func(i int) float64 { return r.shared[i] + float64(r.usable[i].Len()-r.free[i].Len()) },
		func(i int) topology.KiB {
			if caps[i] < 0 {
				return r.m.room[i] - r.room[i]
			}
			return caps[i] - r.room[i]
		})...)
}

func (r *reference) ledger() ([]plan.Placement, bool) {
	changed := r.saved
	r.saved = false
	return r.held, changed
}

// placementFor is the placement of a job that has its CPUs and memory already.
func placementFor(m *machine, j *job) plan.Placement {
	p := plan.Placement{Workload: j.id, Class: j.demand.Class, Importance: j.demand.Importance, VCPUs: j.demand.VCPUs,
		Home: m.host.NodesOf(j.cpus), CPUs: j.cpus, Pins: j.cpus.Slice(), Bound: true, Start: j.process.Start}
	for i := range m.host.Nodes {
		id := m.host.Nodes[i].ID
		if j.mem[i] > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: id, KiB: j.mem[i]})
			p.Asked += j.mem[i]
			p.Home.Add(id)
		}
	}
	return p
}

func sortPlacements(ps []plan.Placement) {
	slices.SortFunc(ps, func(a, b plan.Placement) int { return cmp.Compare(a.Workload, b.Workload) })
}
