package balance

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	second = 1e9 // ns

	// unknownLocalNs is the idle latency of local memory where nobody measured it:
	// mlc on two Xeon Platinum 8163 says 81.6 ns (docs/design/simulator.md).
	unknownLocalNs = 82

	// lineBytes is what one access brings: a cache line.
	lineBytes = 64

	// overlap is how many accesses a thread has under way at once. A core waits for
	// the slowest, not for the sum: ten to twelve line fill buffers bound it from
	// above, a pointer chase has one.
	overlap = 4

	// leastTraffic and mostTraffic bound what is made of counted traffic: a busy CPU that
	// never leaves its caches, and the most that one core streams.
	leastTraffic, mostTraffic = 16, 16384

	// idles is the part of a node's CPUs below which it has idle time: whoever runs
	// there used what it wanted.
	idles = 0.98

	// queueShare and mostBusy: the wait of an access at utilisation u is queueShare ×
	// local latency × u / (2 (1 − u)), an M/D/1 queue whose server takes a quarter of
	// an access. It is flat until the knee and ends at 3.4 times idle, as measured
	// curves do (docs/design/simulator.md).
	queueShare = 0.25
	mostBusy   = 0.95

	// lowFree is the part of a node's memory below which it is short. The kernel
	// wakes its reclaimer at about 1 % and lets allocations reclaim for themselves
	// below that (mm/page_alloc.c, watermarks); shortWait is the part of their time that
	// threads whose memory is there lose when nothing is free.
	lowFree   = 0.04
	shortWait = 0.5

	// leastWeight is what the time of work of importance 0 counts.
	leastWeight = 0.1
)

// part is a share, 0 to 1, that falls to one node, by index.
type part struct {
	node  int
	share float64
}

// work is one workload in the model's terms.
type work struct {
	// From the workload, its placement and the machine: see recall.
	*place.Subject
	id       workload.ID
	placed   *plan.Placement // nil for work without a home
	kib      float64         // resident
	fixed    []part          // of its memory that no page move takes along
	weight   float64         // of its time
	run, mem []part
	online   []part  // where it ran; nil for batch work
	beside   float64 // see reserve
	lasts    bool    // these depend on nothing else: no page move, no wish to be near something

	// From the samples.
	steady   steadiness
	flight   *Flight
	demand   float64 // CPUs it wants and is entitled to; 0 for work that takes none from others
	kept     float64 // idle CPUs beside it
	traffic  float64 // MiB/s
	measured bool    // traffic is
	seen     int32   // looks in which it was seen
	accesses float64 // a second that threads wait for
	counted  float64 // looks in which its accesses were counted
	age      float64 // seconds for which it has used about as much as now
	pull     []float64
	required []place.Requirement
	follows  bool // it works for others, and goes where they are
}

// model is the host as homes are, and what is lost on it.
type model struct {
	host      *topology.Host
	stays     topology.NodeSet // nodes whose memory no home fetches
	lower     [][]int          // by node, those to which the kernel moves its cold pages; nil for none
	rooms     []place.Room
	access    []float64
	local     []float64     // ns, by node
	least     float64       // ns, of the node where that is least
	horizon   time.Duration // for which it is believed what work used when it could
	workloads []work        // rising by ID
	nodeAt    nodeIndex
	cut       []part // memory for parts to come

	load     []float64 // CPUs, by node
	kept     []float64
	heavy    []float64 // load × weight
	traffic  []float64 // with the reserve of important work
	plain    []float64 // without
	measured []float64 // part of plain
	hits     []float64 // accesses/s × weight
	users    []float64 // CPUs whose memory is here × weight
	free     []float64 // KiB; negative when unknown
	far      float64   // ns/s lost by distance
	perCPU   float64   // MiB/s of a busy CPU whose traffic nothing tells
	wanted   []demands // by look
	goesOn   bool      // all samples but the newest were in the model before
	counted  []float64 // MiB/s counted at each node, mean of the looks; negative when not in all
	sums     []float64 // all of the above, for copying
}

func newModel(in *Input, placements []plan.Placement, ledger *place.Ledger, looks []Sample) *model {
	return new(recall).model(in, placements, ledger, looks)
}

func (known *recall) model(in *Input, placements []plan.Placement, ledger *place.Ledger, looks []Sample) *model {
	h := in.State.Host
	n := len(h.Nodes)
	m := &model{host: h, nodeAt: indexByID(h), rooms: ledger.Rooms(), access: place.AccessCosts(h),
		local: make([]float64, n)}
	m.stays = h.Lower().Union(h.GPUNodes())
	m.lower = lowerOf(h)
	m.sums = make([]float64, 9*n)
	sums := m.sums
	for _, s := range []*[]float64{&m.load, &m.kept, &m.heavy, &m.traffic, &m.plain, &m.measured, &m.hits, &m.users,
		&m.free} {
		*s, sums = sums[:n:n], sums[n:]
	}
	for i := range n {
		m.local[i] = localNs(h, i)
		m.free[i] = float64(freeOf(&h.Nodes[i]))
	}
	if n > 0 {
		m.least = slices.Min(m.local)
	}
	m.workloads, m.cut = known.of(h, len(in.Subjects)), known.cut
	uses := looks[len(looks)-1].Uses
	k := 0
	rising := true
	for i, s := range in.Subjects {
		w := &m.workloads[i]
		if k+1 < len(placements) && w.placed == &placements[k+1] {
			k++
		}
		if w.lasts && w.Subject == s && len(in.Flights) == 0 && k < len(placements) && w.placed == &placements[k] {
			rising = rising && (i == 0 || m.workloads[i-1].id <= w.id)
			w.restart() // as nearly all do
			continue
		}
		id := s.Observation.ID
		if i < len(uses) && uses[i].Workload == id {
			id = uses[i].Workload // see follow
		}
		rising = rising && (i == 0 || m.workloads[i-1].id <= id)
		for k < len(placements) && placements[k].Workload < id {
			k++
		}
		var placed *plan.Placement
		if k < len(placements) && placements[k].Workload == id {
			placed = &placements[k]
		} else if !rising { // subjects need not rise
			placed = place.Of(placements, id)
		}
		flight := in.flightOf(id)
		if flight == nil && w.isStill(s, placed) {
			w.restart()
		} else {
			*w = work{Subject: s, id: id, placed: placed, flight: flight, steady: w.steadyAs(id)}
			m.readWork(w, ledger)
		}
	}
	known.rising = rising
	if !rising {
		slices.SortFunc(m.workloads, func(x, y work) int { return cmp.Compare(x.id, y.id) })
	}
	m.know(&looks[len(looks)-1], in.Settings.Horizon)
	m.goesOn, known.cut = known.goesOn(looks), m.cut
	m.size(looks, in.Settings.Horizon)
	slowest := 0.0
	if n > 0 {
		slowest = slices.Max(m.local)
	}
	for i := range m.workloads {
		w := &m.workloads[i]
		if !w.lasts && len(w.Spec.Near) > 0 {
			w.pull = ledger.Pull(w.Spec.Near, w.accesses*slowest/second)
		}
		m.count(w, w.run, w.mem, 1)
	}
	return m
}

// localNs is the idle latency of a node's own memory.
func localNs(h *topology.Host, i int) float64 {
	if m := h.Measured; m != nil && i < len(m.LatencyNs) && i < len(m.LatencyNs[i]) && m.LatencyNs[i][i] > 0 {
		return m.LatencyNs[i][i]
	}
	if i < len(h.HMAT) && i < len(h.HMAT[i]) && h.HMAT[i][i] > 0 {
		return h.HMAT[i][i]
	}
	return unknownLocalNs
}

// freeOf is memory that can be had without taking it from anybody.
func freeOf(n *topology.Node) topology.KiB {
	if n.Memory <= 0 || n.Free < 0 {
		return topology.None
	}
	return n.Free + max(0, n.Reclaimable)
}

// readWork fills in what was seen of a workload.
func (m *model) readWork(w *work, ledger *place.Ledger) {
	s, o := w.Subject, &w.Observation
	memory := m.placed(o.Memory)
	w.kib, w.weight = float64(workload.Total(memory)),
		max(leastWeight, float64(s.Spec.Importance)/workload.DefaultImportance)
	w.beside = w.reserve()
	w.lasts = w.flight == nil && len(s.Spec.Near) == 0
	w.mem = m.parts(memory)
	if moves := m.placed(o.Movable); s.Spec.Serves() && workload.Total(moves) > 0 {
		// What stays of one that works for others is program text, which caches hold, or memory of those others.
		w.kib, w.mem = float64(workload.Total(moves)), m.parts(moves)
	} else if o.Movable != nil && w.kib > 0 {
		for _, x := range memory {
			if i := m.index(x.Node); i >= 0 {
				if left := x.KiB - workload.On(o.Movable, topology.Nodes(x.Node)); left > 0 {
					w.fixed = append(w.fixed, part{i, float64(left) / w.kib})
				}
			}
		}
	}
	w.required, _ = ledger.Requirements(s.Spec.Near)
	ran := m.shares(o.RanOn)
	if s.Spec.Class != workload.Batch {
		w.online = ran
	}
	if w.placed == nil || w.placed.Class == workload.Batch {
		w.run = ran
		return
	}
	w.run = m.running(w.placed.Home, w.placed.CPUs, ran)
	if w.flight != nil && w.flight.PutOff.None() {
		home := m.spread(w.flight.To)
		before := w.mem
		w.mem = w.along(home)
		for _, p := range before {
			m.free[p.node] = shiftFree(m.free[p.node], p.share*w.kib)
		}
		for _, p := range w.mem {
			m.free[p.node] = shiftFree(m.free[p.node], -p.share*w.kib)
		}
	}
}

// flightOf returns the page move of a workload, nil for none.
func (in *Input) flightOf(id workload.ID) *Flight {
	if len(in.Flights) == 0 {
		return nil
	}
	byID := func(f Flight, id workload.ID) int { return cmp.Compare(f.Workload, id) }
	k, ok := slices.BinarySearchFunc(in.Flights, id, byID)
	if !ok {
		return nil
	}
	return &in.Flights[k]
}

// each calls yield for every use of a workload that there is. Both rise by ID.
func (m *model) each(uses []Use, yield func(w *work, u *Use)) {
	k := 0
	for i := range uses {
		u := &uses[i]
		if k < len(m.workloads) && m.workloads[k].id != u.Workload {
			for k < len(m.workloads) && m.workloads[k].id < u.Workload {
				k++
			}
		}
		if k < len(m.workloads) && m.workloads[k].id == u.Workload {
			yield(&m.workloads[k], u)
			k++
		}
	}
}

// newParts is room for n parts.
func (m *model) newParts(n int) []part {
	if len(m.cut) < n {
		m.cut = make([]part, max(n, 256))
	}
	out := m.cut[:0:n]
	m.cut = m.cut[n:]
	return out
}

func (m *model) index(id topology.NodeID) int { return m.nodeAt.of(id) }

// nodeIndex is the index of each node by its ID, -1 for none.
type nodeIndex []int32

func indexByID(h *topology.Host) nodeIndex {
	var at nodeIndex
	for i := range h.Nodes {
		for len(at) <= int(h.Nodes[i].ID) {
			at = append(at, -1)
		}
		at[h.Nodes[i].ID] = int32(i)
	}
	return at
}

// of is -1 for a node that the host does not have.
func (at nodeIndex) of(id topology.NodeID) int {
	if id < 0 || int(id) >= len(at) {
		return -1
	}
	return int(at[id])
}

func (m *model) parts(mem []workload.NodeMemory) []part {
	if len(mem) == 0 {
		return nil
	}
	total := float64(workload.Total(mem))
	out := m.newParts(len(mem))
	for _, x := range mem {
		if i := m.index(x.Node); i >= 0 && x.KiB > 0 {
			out = append(out, part{i, float64(x.KiB) / total})
		}
	}
	return out
}

func (m *model) shares(ran []workload.NodeShare) []part {
	if len(ran) == 0 {
		return nil
	}
	out := m.newParts(len(ran))
	for _, x := range ran {
		if i := m.index(x.Node); i >= 0 && x.Share > 0 {
			out = append(out, part{i, x.Share})
		}
	}
	return out
}

// running is where work with a home runs: as seen when all of that is at home, as
// the CPUs of its home are otherwise.
func (m *model) running(home topology.NodeSet, cpus topology.CPUSet, ran []part) []part {
	inside := 0.0
	for _, p := range ran {
		if home.Has(m.host.Nodes[p.node].ID) {
			inside += p.share
		}
	}
	if inside > 0.99 {
		return ran
	}
	var out []part
	all := 0
	for i := range m.host.Nodes {
		if k := m.host.Nodes[i].CPUs.Overlap(cpus); k > 0 {
			out = append(out, part{i, float64(k)})
			all += k
		}
	}
	for k := range out {
		out[k].share /= float64(all)
	}
	return out
}

// spread is memory over the nodes of a home that have some, as their CPUs are.
func (m *model) spread(home topology.NodeSet) []part {
	var out []part
	sum := 0.0
	for i := range m.host.Nodes {
		if n := &m.host.Nodes[i]; home.Has(n.ID) && n.Memory != 0 {
			out = append(out, part{i, float64(max(1, n.CPUs.Len()))})
			sum += out[len(out)-1].share
		}
	}
	for k := range out {
		out[k].share /= sum
	}
	return out
}

// along is the memory of w after a move home: what no move takes along stays, and
// so does what lies on the home already (docs/design/moving.md).
func (w *work) along(home []part) []part {
	if len(home) == 0 {
		return w.mem
	}
	out := make([]part, 0, len(home)+len(w.fixed))
	comes := 0.0
	for _, p := range w.mem {
		stays := p.share
		if !slices.ContainsFunc(home, func(x part) bool { return x.node == p.node }) {
			stays = 0
			for _, f := range w.fixed {
				if f.node == p.node {
					stays = min(f.share, p.share)
				}
			}
		}
		comes += p.share - stays
		if stays > 0 {
			out = append(out, part{p.node, stays})
		}
	}
	for _, p := range home {
		if k := slices.IndexFunc(out, func(x part) bool { return x.node == p.node }); k >= 0 {
			out[k].share += p.share * comes
		} else if comes > 0 {
			out = append(out, part{p.node, p.share * comes})
		}
	}
	slices.SortFunc(out, func(x, y part) int { return cmp.Compare(x.node, y.node) })
	return out
}

// count puts w in (sign 1) or takes it out (sign -1), running and lying so.
func (m *model) count(w *work, run, mem []part, sign float64) {
	busy := max(w.demand, w.accesses*unknownLocalNs/second)
	for _, p := range run {
		m.load[p.node] += sign * p.share * w.demand
		m.kept[p.node] += sign * p.share * w.kept
		m.heavy[p.node] += sign * p.share * w.demand * w.weight
		if w.pull != nil {
			m.far += sign * p.share * w.accesses * w.weight * m.local[p.node] * w.pull[p.node]
		}
		for _, q := range mem {
			m.far += sign * p.share * q.share * w.accesses * w.weight * (m.local[p.node]*m.access[p.node*len(m.rooms)+
				q.node] - m.least)
		}
	}
	for _, q := range mem {
		t := sign * q.share * w.traffic
		m.plain[q.node] += t
		if w.measured {
			m.measured[q.node] += t
		}
		m.traffic[q.node] += t * (1 + w.reserve())
		m.hits[q.node] += sign * q.share * w.accesses * w.weight
		m.users[q.node] += sign * q.share * busy * w.weight
	}
}

// shift makes w run and lie otherwise.
func (m *model) shift(w *work, fromRun, fromMem, run, mem []part) {
	m.count(w, fromRun, fromMem, -1)
	m.count(w, run, mem, 1)
	for _, p := range fromMem {
		m.free[p.node] = shiftFree(m.free[p.node], p.share*w.kib)
	}
	for _, p := range mem {
		m.free[p.node] = shiftFree(m.free[p.node], -p.share*w.kib)
	}
}

// shiftFree keeps apart what is unknown (below zero from the start) and what is
// overdrawn for a moment while homes are tried.
func shiftFree(free, kib float64) float64 {
	if free == topology.None {
		return free
	}
	return free + kib
}
