package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// explain is the decision for a workload that got a placement.
func (s *search) explain(p *plan.Placement) plan.Decision {
	best := &s.top[0]
	d := plan.Decision{Workload: s.w.ID, Outcome: plan.Placed, Home: p.Home, Distances: distances(s.l, p.Home)}
	add := func(code words.Code, args ...any) { d.Reasons = append(d.Reasons, words.Because(code, args...)) }
	if len(best.shares) == 1 {
		d.Reasons = append(d.Reasons, s.whySingle())
	} else {
		d.Reasons = append(d.Reasons, s.whySplit()...)
	}
	if s.w.Class == workload.Dedicated {
		d.Reasons = append(d.Reasons, s.whyPins(p)...)
	} else {
		add(words.Floats, p.CPUs)
		d.Reasons = append(d.Reasons, s.whyCaches(p)...)
	}
	d.Reasons = append(append(d.Reasons, s.w.whyRequired()...), whyNotNear(s.w)...)
	if absent := s.l.without(s.w.Nodes); !absent.Empty() {
		add(words.UnknownNodes, absent)
	}
	d.Reasons = append(d.Reasons, s.w.whySlow(s.l, p.Home)...)
	if s.gaveUp {
		add(words.SearchCut, mostBranches)
	}
	d.Candidates = s.candidates()
	return d
}

// without is those of the nodes that the host does not have.
func (l *Ledger) without(nodes topology.NodeSet) topology.NodeSet {
	if nodes.Empty() {
		return nodes
	}
	absent := nodes.Clone()
	for i := range l.nodes {
		absent.Remove(l.nodes[i].id)
	}
	return absent
}

// whySlow says why nodes without CPUs are in a home.
func (w *want) whySlow(l *Ledger, home topology.NodeSet) (out []words.Reason) {
	var named, short topology.NodeSet
	var namedTypes, shortTypes []string
	for i := range l.host.Nodes {
		n := &l.host.Nodes[i]
		switch {
		case !n.Apart() || !home.Has(n.ID):
		case w.asked.Has(n.ID):
			named.Add(n.ID)
			namedTypes = addOnce(namedTypes, memoryName(n))
		default:
			short.Add(n.ID)
			shortTypes = addOnce(shortTypes, memoryName(n))
		}
	}
	if !named.Empty() {
		out = append(out, words.Because(words.SlowNamed, named, namedTypes))
	}
	if !short.Empty() {
		out = append(out, words.Because(words.SlowShort, short, shortTypes))
	}
	return out
}

func addOnce(all []string, x string) []string {
	if slices.Contains(all, x) {
		return all
	}
	return append(all, x)
}

// memoryName names the memory of a node without CPUs.
func memoryName(n *topology.Node) string {
	switch n.Type {
	case topology.TypePMEM:
		return "persistent"
	case topology.TypeGPU:
		return "a GPU's"
	}
	return strings.ToUpper(string(n.Type))
}

// whyNotNear names what the workload is to be near to and the host does not have.
func whyNotNear(w *want) []words.Reason {
	var devices, partners []string
	for _, x := range w.absent {
		if x.Device != "" {
			devices = append(devices, x.Device)
		} else {
			partners = append(partners, x.Name())
		}
	}
	var out []words.Reason
	if devices != nil {
		out = append(out, words.Because(words.UnknownDevice, devices))
	}
	if partners != nil {
		out = append(out, words.Because(words.UnknownPartner, partners))
	}
	return out
}

func explainBatch(p *plan.Placement) plan.Decision {
	d := plan.Decision{Workload: p.Workload, Outcome: plan.Placed, Home: p.Home,
		Reasons: words.Reasons(words.Because(words.BatchCPUs, p.CPUs))}
	if len(p.Memory) > 0 {
		var on []words.Reason
		for _, m := range p.Memory {
			on = append(on, words.Because(words.NodeShare, m.Node, words.Reasons(words.Because(words.Memory, m.KiB))))
		}
		d.Reasons = append(d.Reasons, words.Because(words.BatchMemory, on))
	}
	return d
}

// whySingle says why this node and not another.
func (s *search) whySingle() words.Reason {
	best := &s.top[0]
	n := &s.l.nodes[best.shares[0].node]
	singles := 0
	for i := range s.l.nodes {
		if s.room[i] >= s.w.vcpus && s.mem[i] >= s.w.memory {
			singles++
		}
	}
	if len(s.l.nodes) == 1 {
		return words.Because(words.OnlyNode, n.id)
	}
	if singles == 1 {
		if lacks := s.whatLacks(); lacks != nil {
			return words.Because(words.OnlyNodeFits, n.id, s.w.size(), lacks)
		}
		return words.Because(words.OnlyNodeAllowed, n.id)
	}
	return words.Because(words.BestNode, n.id, singles, s.edge())
}

// whySplit says why not one node, and why these.
func (s *search) whySplit() []words.Reason {
	best := &s.top[0]
	var first words.Reason
	switch lacks := s.whatLacks(); {
	case s.w.ForGPUs:
		first = words.Because(words.SplitForGPUs, s.w.Nodes)
	case s.w.MinNodes > 1:
		first = words.Because(words.SplitOrdered, s.w.MinNodes)
	case s.w.tooLarge:
		first = words.Because(words.SplitTooLarge, s.w.size())
	case s.w.waited > 0 && s.w.fitsNode(s.l):
		first = words.Because(words.SplitWaits, best.nodes(s.l), s.w.waited, topology.Nodes(s.w.waitsOn), s.w.vcpus)
	case s.w.Class == workload.Shared && s.w.vcpus > s.mostOpen():
		first = words.Because(words.SplitWider, best.nodes(s.l), s.w.vcpus, s.mostOpen())
	case s.w.Class == workload.Shared && s.mem[s.mostMemory()] < s.w.memory:
		most := s.mostMemory()
		first = words.Because(words.SplitMemory, best.nodes(s.l), s.w.memory, s.l.nodes[most].id, s.mem[most])
	default:
		first = words.Because(words.SplitNoNode, s.w.size(), lacks)
	}
	if len(s.top) == 1 {
		return words.Reasons(first, words.Because(words.SplitAs, s.sharesOfSplit(best), best.access))
	}
	next := &s.top[1]
	return words.Reasons(first, words.Because(words.SplitAsAndNext, s.sharesOfSplit(best), best.access, next.nodes(s.l),
		next.access))
}

// mostOpen is the CPUs for shared work of the node that has most of those that it may use.
func (s *search) mostOpen() int {
	most := 0
	for i := range s.l.nodes {
		if s.w.eligible(s.l, i) {
			most = max(most, s.l.nodes[i].Open())
		}
	}
	return most
}

// mostMemory is the node with most room for its memory.
func (s *search) mostMemory() int {
	most := 0
	for i := range s.mem {
		if s.mem[i] > s.mem[most] {
			most = i
		}
	}
	return most
}

func (s *search) whyPins(p *plan.Placement) []words.Reason {
	whole, halves, caches := s.l.cpus.Layout(p)
	var out []words.Reason
	switch {
	case halves == 0:
		out = words.Reasons(words.Because(words.PinnedCores, p.CPUs, whole, caches))
	case whole == 0:
		out = words.Reasons(words.Because(words.PinnedParts, p.CPUs, halves, caches))
	default:
		out = words.Reasons(words.Because(words.PinnedMixed, p.CPUs, whole, halves, caches))
	}
	if !p.Idle.Empty() {
		out = append(out, words.Because(words.IdleSiblings, p.Idle))
	}
	return out
}

// whyCaches says in which last-level caches shared work is kept, or would be.
func (s *search) whyCaches(p *plan.Placement) []words.Reason {
	l := s.l
	switch {
	case !l.cpus.Divided || l.policy.Caches == plan.CachesOff:
	case !p.Caches.Empty():
		return words.Reasons(words.Because(words.CacheFewest, p.Caches, p.VCPUs))
	case l.policy.Caches != plan.CachesPlace:
		home := l.indices(p.Home)
		if in := s.w.cachesFor(l, home); !in.Empty() {
			return words.Reasons(words.Because(words.CacheWould, in, l.cpus.ForShared(home, in).Len(), p.VCPUs))
		}
	}
	return nil
}

// edge is the strongest reason for the best candidate against the next.
func (s *search) edge() words.Reason {
	best, next := &s.top[0], (*candidate)(nil)
	for k := 1; k < len(s.top) && next == nil; k++ {
		if len(s.top[k].shares) == 1 {
			next = &s.top[k]
		}
	}
	if next == nil {
		return words.Because(words.BestUnrivalled)
	}
	other := s.l.nodes[next.shares[0].node].id
	if next.score-best.score < tiny {
		return words.Because(words.BestEqual, other)
	}
	most := 0
	for t := range numTerms {
		if next.terms[t]-best.terms[t] > next.terms[most]-best.terms[most] {
			most = t
		}
	}
	n := &s.l.nodes[best.shares[0].node]
	m := &s.l.nodes[next.shares[0].node]
	switch most {
	case contention:
		return words.Because(words.BestContention, n.sharedVCPUs(), n.Open(), other, m.sharedVCPUs(), m.Open())
	case siblings:
		return words.Because(words.BestSiblings, other, m.Whole)
	case bandwidth:
		return words.Because(words.BestBandwidth, n.bandwidth, other, m.bandwidth)
	case near:
		return words.Because(words.BestNear, s.w.nearNames(), other)
	case move:
		return words.Because(words.BestMove, s.w.residence[best.shares[0].node], other,
			s.w.residence[next.shares[0].node])
	case devices:
		return words.Because(words.BestDevices, other)
	case balance:
		return words.Because(words.BestBalance,
			n.sharedVCPUs(), n.CoresIn(float64(n.Open())),
			other, m.sharedVCPUs(), m.CoresIn(float64(m.Open())))
	case holes:
		if s.l.policy.Packing == plan.Spread {
			return words.Because(words.BestSpread, n.Free)
		}
		return words.Because(words.BestFit, n.Free, n.memoryFree)
	}
	return words.Because(words.BestScore, best.score, other, next.score)
}

// whatLacks says what each node lacks for the whole workload, least first; nil for
// nothing.
func (s *search) whatLacks() []words.Reason {
	w := s.w
	type lack struct {
		node   int
		cpus   int
		memory topology.KiB
		part   float64
	}
	lacks := make([]lack, 0, len(s.l.nodes))
	for i := range s.l.nodes {
		if !w.eligible(s.l, i) {
			continue
		}
		x := lack{node: i, cpus: max(0, w.vcpus-s.room[i]), memory: max(0, w.memory-s.mem[i])}
		if x.cpus > 0 {
			x.part = float64(x.cpus) / float64(w.vcpus)
		}
		if x.memory > 0 {
			x.part += float64(x.memory) / float64(w.memory)
		}
		if x.cpus > 0 || x.memory > 0 {
			lacks = append(lacks, x)
		}
	}
	slices.SortStableFunc(lacks, func(a, b lack) int { return cmp.Compare(a.part, b.part) })
	const shown = 4
	var out []words.Reason
	for _, x := range lacks[:min(shown, len(lacks))] {
		var what []words.Reason
		if x.cpus > 0 {
			what = append(what, w.cpus(x.cpus))
		}
		if x.memory > 0 {
			what = append(what, w.memoryOf(x.memory))
		}
		out = append(out, words.Because(words.NodeLacks, s.l.nodes[x.node].id, what))
	}
	if more := len(lacks) - shown; more > 0 {
		out = append(out, words.Because(words.MoreNodes, more))
	}
	return out
}

// reserved is the CPUs of the nodes that come into question which no workload has.
func (s *search) reserved() (held topology.CPUSet) {
	for i := range s.l.nodes {
		if s.w.eligible(s.l, i) {
			held = held.Union(s.l.host.Nodes[i].CPUs.Intersect(s.l.policy.Reserved))
		}
	}
	return held
}

// refuse is the decision when no node set holds the workload.
func (s *search) refuse() plan.Decision {
	w := s.w
	d := plan.Decision{Workload: w.ID, Outcome: plan.Refused}
	add := func(code words.Code, args ...any) { d.Reasons = append(d.Reasons, words.Because(code, args...)) }
	room, mem := 0, topology.KiB(0)
	nodes := 0
	for i := range s.l.nodes {
		if !w.eligible(s.l, i) {
			continue
		}
		nodes++
		room += s.room[i]
		mem += s.mem[i]
		d.Shortages = append(d.Shortages, s.shortages(i)...)
	}
	needs := func(need, have words.Reason) {
		if w.Nodes.Empty() {
			add(words.HostTooSmall, need, have)
		} else {
			add(words.NodesTooSmall, need, w.Nodes, have)
		}
	}
	switch {
	case nodes == 0:
		add(words.NodesAbsent, w.Nodes)
		s.dropWish(&d)
		return d
	case room < w.vcpus && w.Class != workload.Batch:
		needs(w.cpus(w.vcpus), countOf(room))
	case mem < w.memory:
		needs(w.memoryOf(w.memory), w.have(mem))
	case w.MinNodes > 1 && w.MinNodes == w.MaxNodes:
		add(words.MustFitExactly, w.MinNodes, w.size())
	case w.MaxNodes == 1:
		add(words.MustFitOne, w.size())
	case w.MaxNodes > 0:
		add(words.MustFitSet, w.MaxNodes, w.size())
	default:
		add(words.NoNodeSet, w.size())
	}
	if lacks := s.whatLacks(); lacks != nil {
		add(words.ByNode, lacks)
	}
	if held := s.reserved(); !held.Empty() && len(w.required) > 0 && w.Class != workload.Batch {
		add(words.ReserveThere, held)
	}
	d.Reasons = append(w.whyRequired(), d.Reasons...)
	if w.MinNodes > 1 { // room on one node is no change
		s.dropWish(&d)
	} else {
		s.nearestChange(&d)
	}
	return d
}

// shortages is what node i lacks for all of the workload.
func (s *search) shortages(i int) []plan.Shortage {
	return s.w.lacks(topology.Nodes(s.l.nodes[i].id), s.room[i], s.mem[i])
}

// lacks is what a node set with some room lacks for all of the workload.
func (w *want) lacks(nodes topology.NodeSet, room int, mem topology.KiB) []plan.Shortage {
	var out []plan.Shortage
	if w.Class != workload.Batch && room < w.vcpus {
		kind := plan.CPU
		if w.SMT == workload.SMTIsolate && w.Class == workload.Dedicated {
			kind = plan.Core
		}
		out = append(out, plan.Shortage{Nodes: nodes, Resource: kind, Want: int64(w.vcpus), Have: int64(room)})
	}
	if mem < w.memory {
		sh := plan.Shortage{Nodes: nodes, Resource: plan.Memory, Want: int64(w.memory), Have: int64(mem)}
		if w.HugePage > 0 {
			sh = plan.Shortage{Nodes: nodes, Resource: plan.HugePage, Want: int64(w.memory / w.HugePage),
				Have: int64(mem / w.HugePage)}
		}
		out = append(out, sh)
	}
	return out
}

// refuseSplit is the decision when the workload fits only in parts too far apart.
func (s *search) refuseSplit() plan.Decision {
	best := &s.declined
	d := plan.Decision{Workload: s.w.ID, Outcome: plan.Refused}
	d.Candidates = []plan.Candidate{s.candidate(best)}
	d.Candidates[0].Rejected = words.Because(words.SplitTooFar, best.access)
	for i := range s.l.nodes {
		if s.w.eligible(s.l, i) {
			d.Shortages = append(d.Shortages, s.shortages(i)...)
		}
	}
	d.Reasons = words.Reasons(words.Because(words.OnlySplit, s.sharesOfSplit(best), best.access, s.ceiling))
	if lacks := s.whatLacks(); lacks != nil {
		d.Reasons = append(d.Reasons, words.Because(words.ByNode, lacks))
	}
	allow := words.Because(words.AllowSplit, len(best.shares))
	s.nearestChange(&d)
	d.Reasons = append(d.Reasons, allow)
	return d
}

func (s *search) refuseStarving(p *plan.Placement, id workload.ID) plan.Decision {
	lack := plan.Shortage{Resource: plan.CPU, Want: int64(len(p.Pins) + p.Idle.Len() + 1)}
	for i := range s.l.nodes {
		if s.w.eligible(s.l, i) && s.l.nodes[i].Free > 0 {
			lack.Nodes.Add(s.l.nodes[i].id)
			lack.Have += int64(s.l.nodes[i].Free)
		}
	}
	return plan.Decision{Workload: s.w.ID, Outcome: plan.Refused, Shortages: []plan.Shortage{lack},
		Nearest: []plan.Shortage{lack},
		Reasons: words.Reasons(words.Because(words.StarvesBatch, id), words.Because(words.OneCPUMore, lack.Nodes))}
}

// candidates lists the weighed homes, best first.
func (s *search) candidates() []plan.Candidate {
	out := make([]plan.Candidate, len(s.top))
	for k := range s.top {
		out[k] = s.candidate(&s.top[k])
		if more := out[k].Score - out[0].Score; k > 0 && more < tiny {
			out[k].Rejected = words.Because(words.ScoresEqual)
		} else if k > 0 {
			out[k].Rejected = words.Because(words.ScoresMore, more)
		}
	}
	return out
}

func (s *search) candidate(c *candidate) plan.Candidate {
	used := 0
	for _, x := range c.terms {
		if x != 0 {
			used++
		}
	}
	out := plan.Candidate{Nodes: c.nodes(s.l), Score: c.score, Terms: make([]plan.Term, 0, used)}
	for t, x := range c.terms {
		if x != 0 {
			out.Terms = append(out.Terms, plan.Term{Name: termNames[t], Value: x, Why: s.termNumbers(c, t)})
		}
	}
	return out
}

// termNumbers is the numbers behind one term of a candidate.
func (s *search) termNumbers(c *candidate, t int) words.Reason {
	n := &s.l.nodes[c.shares[0].node]
	switch {
	case t == distance:
		return words.Because(words.TermDistance, c.access)
	case t == near:
		return words.Because(words.TermNear, s.w.nearNames())
	case len(c.shares) > 1:
	case t == bandwidth:
		return words.Because(words.TermBandwidth, n.bandwidth, n.bandwidthCap)
	case t == holes:
		return words.Because(words.TermHoles, n.Free, n.Usable)
	case t == balance || t == contention:
		return words.Because(words.TermLoad, n.sharedVCPUs(), n.Open())
	case t == siblings:
		return words.Because(words.FreeCores, n.Whole)
	}
	return words.Reason{}
}

func (c *candidate) nodes(l *Ledger) topology.NodeSet {
	if len(c.shares) == 1 {
		return l.nodes[c.shares[0].node].alone
	}
	var set topology.NodeSet
	for _, s := range slices.Backward(c.shares) {
		set.Add(l.nodes[s.node].id)
	}
	return set
}

// size is what the workload needs: "8 free CPUs and 16 GiB".
func (w *want) size() words.Reason {
	parts := words.Reasons(w.cpus(w.vcpus))
	if w.memory > 0 {
		parts = append(parts, w.memoryOf(w.memory))
	}
	return words.Because(words.Amounts, parts)
}

// cpus is an amount of what the workload counts CPUs in.
func (w *want) cpus(n int) words.Reason {
	code, _ := w.cpuCodes()
	return words.Because(code, n)
}

// cpuCodes are of an amount of CPUs, and of one that is missing.
func (w *want) cpuCodes() (amount, missing words.Code) {
	switch {
	case w.Class == workload.Shared:
		return words.SharedVCPUs, words.MoreSharedVCPUs
	case w.SMT == workload.SMTIsolate:
		return words.FreeCores, words.MoreFreeCores
	case w.SMT == workload.SMTRequire:
		return words.CPUsOnFreeCores, words.MoreCPUsOnFreeCores
	}
	return words.FreeCPUs, words.MoreFreeCPUs
}

// memoryOf is an amount of memory, or of huge pages where it asks for these.
func (w *want) memoryOf(k topology.KiB) words.Reason {
	if w.HugePage > 0 {
		return words.Because(words.HugePages, int64(k/w.HugePage), w.HugePage)
	}
	return words.Because(words.Memory, k)
}

// have is how much of the memory that it needs is there.
func (w *want) have(k topology.KiB) words.Reason {
	switch {
	case k <= 0:
		return words.Because(words.NoneFree)
	case w.HugePage > 0:
		return countOf(int(k / w.HugePage))
	}
	return words.Because(words.Memory, k)
}

func countOf(n int) words.Reason {
	if n <= 0 {
		return words.Because(words.NoneFree)
	}
	return words.Because(words.Number, n)
}

// nearNames names what the workload is to be near to.
func (w *want) nearNames() []string {
	var names []string
	for _, x := range w.Near {
		if name := x.Name(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// sharesOfSplit is how a candidate divides: "node 0 (24 vCPUs, 48 GiB)", "node 1 (12 vCPUs)".
func (s *search) sharesOfSplit(c *candidate) []words.Reason {
	parts := make([]words.Reason, len(c.shares))
	for k, x := range c.shares {
		var what []words.Reason
		if x.vcpus > 0 {
			what = append(what, words.Because(words.VCPUs, x.vcpus))
		}
		if x.memory > 0 {
			what = append(what, words.Because(words.Memory, x.memory))
		}
		parts[k] = words.Because(words.NodeShare, s.l.nodes[x.node].id, what)
	}
	return parts
}
