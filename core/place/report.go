package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// explain is the decision for a workload that got a placement.
func (l *Ledger) explain(w *want, s *search, p *plan.Placement) plan.Decision {
	best := &s.top[0]
	d := plan.Decision{Workload: w.ID, Outcome: plan.Placed, Home: p.Home, Distances: l.distances(p.Home)}
	if len(best.shares) == 1 {
		d.Reasons = append(d.Reasons, l.whySingle(w, s))
	} else {
		d.Reasons = append(d.Reasons, l.whySplit(w, s)...)
	}
	if w.Class == workload.Dedicated {
		d.Reasons = append(d.Reasons, l.whyPins(p))
	} else {
		d.Reasons = append(d.Reasons, fmt.Sprintf("It floats over CPUs %v.", p.CPUs))
	}
	if len(w.lost) > 0 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("It is to be near %s, which is not on this host; that counts for nothing.", list(w.lost)))
	}
	if s.gaveUp {
		d.Reasons = append(d.Reasons, fmt.Sprintf("The search for the best node set was cut off after %d steps; a better one may exist.", mostBranches))
	}
	d.Candidates = l.candidates(w, s)
	return d
}

// explainOthers adds what the placement means for those that float there.
func (l *Ledger) explainOthers(r *Result) {
	if n := len(r.Others); n > 0 {
		r.Decision.Reasons = append(r.Decision.Reasons, fmt.Sprintf("The CPUs on which %s %s change with it.",
			count(n, "other workload"), verb(n, "floats", "float")))
	}
}

func (l *Ledger) explainOffline(p *plan.Placement) plan.Decision {
	reason := fmt.Sprintf("Offline work runs on what dedicated work does not hold: CPUs %v.", p.CPUs)
	if len(p.Memory) > 0 {
		reason += fmt.Sprintf(" Its memory goes where most is free: %s.", l.memoryWords(p.Memory))
	}
	return plan.Decision{Workload: p.Workload, Outcome: plan.Placed, Home: p.Home, Reasons: []string{reason}}
}

// whySingle says why this node and not another.
func (l *Ledger) whySingle(w *want, s *search) string {
	best := &s.top[0]
	n := &l.nodes[best.shares[0].node]
	singles := 0
	for i := range l.nodes {
		if s.room[i] >= w.vcpus && s.mem[i] >= w.memory {
			singles++
		}
	}
	if len(l.nodes) == 1 {
		return fmt.Sprintf("Node %d is the host's only node and has room for it.", n.id)
	}
	if singles == 1 {
		if lacks := l.lackWords(w, s); lacks != "" {
			return fmt.Sprintf("Node %d is the only node with %s: %s.", n.id, w.words(), lacks)
		}
		return fmt.Sprintf("Node %d is the only node it may use, and has room for it.", n.id)
	}
	return fmt.Sprintf("Node %d is the best of %d nodes that hold it whole: %s.", n.id, singles, l.edge(w, s))
}

// whySplit says why not one node, and why these.
func (l *Ledger) whySplit(w *want, s *search) []string {
	best := &s.top[0]
	var first string
	switch lacks := l.lackWords(w, s); {
	case w.wide:
		first = fmt.Sprintf("No node of this host could ever hold %s, so it is split.", w.words())
	case lacks == "":
		first = fmt.Sprintf("Every single node would crowd it (%s); it is split.", w.words())
	default:
		first = fmt.Sprintf("No single node has %s: %s.", w.words(), lacks)
	}
	second := fmt.Sprintf("Split as %s, an access costs %.2f times a local one in the mean", l.shareWords(best), best.access)
	if len(s.top) > 1 {
		second += fmt.Sprintf("; the next best, %s, comes to %.2f", nodesWords(l.nodeSet(&s.top[1])), s.top[1].access)
	}
	return []string{first, second + "."}
}

func (l *Ledger) whyPins(p *plan.Placement) string {
	cores, halves := 0, 0
	mine := p.CPUs.Union(p.Idle)
	last := -1
	caches := map[int32]bool{}
	for _, cpu := range p.Pins {
		i := int(l.coreAt[cpu])
		caches[l.cores[i].cache] = true
		if i == last {
			continue
		}
		last = i
		c := &l.cores[i]
		full := c.threads == len(c.cpus)
		for _, sib := range c.cpus {
			full = full && mine.Has(sib)
		}
		if full {
			cores++
		} else {
			halves++
		}
	}
	text := fmt.Sprintf("Its vCPUs get CPUs %v: %s", p.CPUs, count(cores, "whole core"))
	if halves > 0 {
		text += fmt.Sprintf(" and a part of %s", count(halves, "more"))
		if cores == 0 {
			text = fmt.Sprintf("Its vCPUs get CPUs %v: parts of %s", p.CPUs, count(halves, "core"))
		}
	}
	text += fmt.Sprintf(" under %s", count(len(caches), "last-level cache"))
	if !p.Idle.Empty() {
		text += fmt.Sprintf("; CPUs %v stay idle beside them", p.Idle)
	}
	return text + "."
}

// edge is what most speaks for the best candidate against the next.
func (l *Ledger) edge(w *want, s *search) string {
	best, next := &s.top[0], (*candidate)(nil)
	for k := 1; k < len(s.top) && next == nil; k++ {
		if len(s.top[k].shares) == 1 {
			next = &s.top[k]
		}
	}
	if next == nil {
		return "nothing speaks for another"
	}
	other := l.nodes[next.shares[0].node].id
	if next.score-best.score < tiny {
		return fmt.Sprintf("it equals node %d in all that counts, and comes first", other)
	}
	most := 0
	for t := range numTerms {
		if next.terms[t]-best.terms[t] > next.terms[most]-best.terms[most] {
			most = t
		}
	}
	n := &l.nodes[best.shares[0].node]
	m := &l.nodes[next.shares[0].node]
	switch most {
	case contention:
		return fmt.Sprintf("%.1f shared vCPUs on %d CPUs there, %.1f on %d on node %d", n.sharedVCPUs(), n.open(), m.sharedVCPUs(), m.open(), other)
	case siblings:
		return fmt.Sprintf("it needs no core that another tenant uses; node %d has only %s", other, count(m.whole, "whole free core"))
	case bandwidth:
		return fmt.Sprintf("%d MiB/s of memory bandwidth are booked there, %d on node %d", n.bandwidth, m.bandwidth, other)
	case near:
		return fmt.Sprintf("it is nearer to %s than node %d", w.nearWords(), other)
	case move:
		return fmt.Sprintf("%.0f %% of its memory is there already, %.0f %% on node %d", 100*w.lies[best.shares[0].node], 100*w.lies[next.shares[0].node], other)
	case devices:
		return fmt.Sprintf("node %d has devices, and is kept for those who ask for them", other)
	case balance:
		return fmt.Sprintf("it has the lower load, %.1f shared vCPUs on %.0f cores before it comes", n.sharedVCPUs(), n.coresIn(float64(n.open())))
	case holes:
		if l.policy.Packing == plan.Spread {
			return fmt.Sprintf("it has more room, %d free CPUs, and the policy is to spread", n.free)
		}
		return fmt.Sprintf("the fit is tightest there (%d free CPUs, %s free), so larger holes stay on other nodes", n.free, size(n.memoryFree))
	}
	return fmt.Sprintf("its score is %.3f, that of node %d %.3f", best.score, other, next.score)
}

// lackWords says what each node lacks for the whole workload, least first.
func (l *Ledger) lackWords(w *want, s *search) string {
	type lack struct {
		text string
		part float64
	}
	var lacks []lack
	for i := range l.nodes {
		var words []string
		part := 0.0
		if !l.eligible(w, i) {
			continue
		}
		if short := w.vcpus - s.room[i]; short > 0 {
			words = append(words, count(short, w.cpuWord()))
			part = float64(short) / float64(w.vcpus)
		}
		if short := w.memory - s.mem[i]; short > 0 {
			words = append(words, l.memoryLack(w, short))
			part += float64(short) / float64(w.memory)
		}
		if words != nil {
			lacks = append(lacks, lack{fmt.Sprintf("node %d lacks %s", l.nodes[i].id, strings.Join(words, " and ")), part})
		}
	}
	slices.SortStableFunc(lacks, func(a, b lack) int {
		switch {
		case a.part < b.part:
			return -1
		case a.part > b.part:
			return 1
		}
		return 0
	})
	const shown = 4
	var out []string
	for _, k := range lacks[:min(shown, len(lacks))] {
		out = append(out, k.text)
	}
	if more := len(lacks) - shown; more > 0 {
		out = append(out, fmt.Sprintf("%s more", count(more, "node")))
	}
	return strings.Join(out, ", ")
}

func (l *Ledger) memoryLack(w *want, short topology.KiB) string {
	if w.HugePage > 0 {
		return count(int(short/w.HugePage), size(w.HugePage)+" page")
	}
	return size(short)
}

// refuse is the decision when no node set holds the workload.
func (l *Ledger) refuse(w *want, s *search) plan.Decision {
	d := plan.Decision{Workload: w.ID, Outcome: plan.Refused}
	room, cores, mem := 0, 0, topology.KiB(0)
	nodes := 0
	for i := range l.nodes {
		if !l.eligible(w, i) {
			continue
		}
		nodes++
		room += s.room[i]
		cores += l.nodes[i].whole
		mem += s.mem[i]
		d.Shortages = append(d.Shortages, l.shortages(w, s, i)...)
	}
	where := "The host"
	if !w.Nodes.Empty() {
		where = fmt.Sprintf("The allowed %s", nodesWords(w.Nodes))
	}
	switch {
	case nodes == 0:
		d.Reasons = append(d.Reasons, fmt.Sprintf("It may use only %s, and the host has none of them.", nodesWords(w.Nodes)))
		l.dropWish(w, &d)
		return d
	case room < w.vcpus && w.Class != workload.Offline:
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s can give %s in all, and it wants %d.", where, count(room, w.cpuWord()), w.vcpus))
	case mem < w.memory:
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s can give %s in all, and it wants %s.", where, l.memoryLack(w, mem), l.memoryLack(w, w.memory)))
	case w.MaxNodes > 0:
		d.Reasons = append(d.Reasons, fmt.Sprintf("It may be split over at most %s, and no such set holds %s.", count(w.MaxNodes, "node"), w.words()))
	default:
		d.Reasons = append(d.Reasons, fmt.Sprintf("No set of nodes holds %s.", w.words()))
	}
	if lacks := l.lackWords(w, s); lacks != "" {
		d.Reasons = append(d.Reasons, "By node: "+lacks+".")
	}
	l.nearestChange(w, s, &d)
	return d
}

// shortages is what node i lacks for all of the workload.
func (l *Ledger) shortages(w *want, s *search, i int) []plan.Shortage {
	return l.lacks(w, topology.Nodes(l.nodes[i].id), s.room[i], s.mem[i])
}

// lacks is what a node set with some room lacks for all of the workload.
func (l *Ledger) lacks(w *want, nodes topology.NodeSet, room int, mem topology.KiB) []plan.Shortage {
	var out []plan.Shortage
	if w.Class != workload.Offline && room < w.vcpus {
		kind := plan.CPU
		if w.SMT == workload.SMTIsolate && w.Class == workload.Dedicated {
			kind = plan.Core
		}
		out = append(out, plan.Shortage{Nodes: nodes, Resource: kind, Want: int64(w.vcpus), Have: int64(room)})
	}
	if mem < w.memory {
		sh := plan.Shortage{Nodes: nodes, Resource: plan.Memory, Want: int64(w.memory), Have: int64(mem)}
		if w.HugePage > 0 {
			sh = plan.Shortage{Nodes: nodes, Resource: plan.HugePage, Want: int64(w.memory / w.HugePage), Have: int64(mem / w.HugePage)}
		}
		out = append(out, sh)
	}
	return out
}

// refuseSplit is the decision when the workload fits only in parts too far apart.
func (l *Ledger) refuseSplit(w *want, s *search) plan.Decision {
	best := &s.declined
	d := plan.Decision{Workload: w.ID, Outcome: plan.Refused}
	d.Candidates = []plan.Candidate{l.candidate(w, best)}
	d.Candidates[0].Rejected = fmt.Sprintf("does not pay: an access would cost %.2f times a local one", best.access)
	for i := range l.nodes {
		if l.eligible(w, i) {
			d.Shortages = append(d.Shortages, l.shortages(w, s, i)...)
		}
	}
	d.Reasons = []string{fmt.Sprintf("It fits only in parts, as %s, where an access costs %.2f times a local one; a split pays up to %.2f.",
		l.shareWords(best), best.access, s.ceiling)}
	if lacks := l.lackWords(w, s); lacks != "" {
		d.Reasons = append(d.Reasons, "By node: "+lacks+".")
	}
	allow := fmt.Sprintf("To have it split all the same, allow it %s.", count(len(best.shares), "node"))
	l.nearestChange(w, s, &d)
	d.Reasons = append(d.Reasons, allow)
	return d
}

func (l *Ledger) refuseStarving(w *want, p *plan.Placement, id workload.ID) plan.Decision {
	lack := plan.Shortage{Resource: plan.CPU, Want: int64(len(p.Pins) + p.Idle.Len() + 1)}
	for i := range l.nodes {
		if l.eligible(w, i) && l.nodes[i].free > 0 {
			lack.Nodes.Add(l.nodes[i].id)
			lack.Have += int64(l.nodes[i].free)
		}
	}
	return plan.Decision{Workload: w.ID, Outcome: plan.Refused, Shortages: []plan.Shortage{lack}, Nearest: []plan.Shortage{lack}, Reasons: []string{
		fmt.Sprintf("It would leave %s, which is offline work, not a single CPU.", id),
		fmt.Sprintf("It would be admitted as soon as one more CPU is free on %s.", nodesWords(lack.Nodes)),
	}}
}

// candidates lists what was weighed, best first.
func (l *Ledger) candidates(w *want, s *search) []plan.Candidate {
	out := make([]plan.Candidate, len(s.top))
	for k := range s.top {
		out[k] = l.candidate(w, &s.top[k])
		if k > 0 {
			out[k].Rejected = fmt.Sprintf("scores %.3f more", out[k].Score-out[0].Score)
		}
	}
	return out
}

func (l *Ledger) candidate(w *want, c *candidate) plan.Candidate {
	used := 0
	for _, x := range c.terms {
		if x != 0 {
			used++
		}
	}
	out := plan.Candidate{Nodes: l.nodeSet(c), Score: c.score, Terms: make([]plan.Term, 0, used)}
	for t, x := range c.terms {
		if x != 0 {
			out.Terms = append(out.Terms, plan.Term{Name: termNames[t], Value: x, Why: l.termWords(w, c, t)})
		}
	}
	return out
}

// termWords is the numbers behind one term of a candidate.
func (l *Ledger) termWords(w *want, c *candidate, t int) string {
	n := &l.nodes[c.shares[0].node]
	one := len(c.shares) == 1
	switch t {
	case distance:
		return fmt.Sprintf("mean access %.2f × local", c.access)
	case near:
		return w.nearWords()
	case bandwidth:
		if one {
			return fmt.Sprintf("%d of %d MiB/s booked", n.bandwidth, n.bandwidthCap)
		}
	case holes:
		if one {
			return fmt.Sprintf("%d of %d CPUs free", n.free, n.usable)
		}
	case balance, contention:
		if one {
			return fmt.Sprintf("%.1f shared vCPUs on %d CPUs", n.sharedVCPUs(), n.open())
		}
	case siblings:
		if one {
			return count(n.whole, "whole free core")
		}
	}
	return ""
}

func (l *Ledger) nodeSet(c *candidate) topology.NodeSet {
	var s topology.NodeSet
	for _, sh := range slices.Backward(c.shares) {
		s.Add(l.nodes[sh.node].id)
	}
	return s
}

// words is the workload's size: "8 free CPUs and 16 GiB".
func (w *want) words() string {
	text := count(w.vcpus, w.cpuWord())
	if w.memory > 0 && w.HugePage > 0 {
		return fmt.Sprintf("%s and %s", text, count(int(w.memory/w.HugePage), size(w.HugePage)+" page"))
	}
	if w.memory > 0 {
		return fmt.Sprintf("%s and %s", text, size(w.memory))
	}
	return text
}

// cpuWord is what the workload is counted in.
func (w *want) cpuWord() string {
	switch {
	case w.Class == workload.Shared:
		return "shared vCPU"
	case w.SMT == workload.SMTIsolate:
		return "free whole core"
	case w.SMT == workload.SMTRequire:
		return "CPU on free whole cores"
	}
	return "free CPU"
}

func (w *want) nearWords() string {
	var names []string
	for _, x := range w.Near {
		if x.Device != "" {
			names = append(names, x.Device)
		} else if x.Workload != "" {
			names = append(names, string(x.Workload))
		}
	}
	return strings.Join(names, " and ")
}

// shareWords is how a candidate divides: "node 0 (24 vCPUs, 48 GiB) and node 1 (12 vCPUs)".
func (l *Ledger) shareWords(c *candidate) string {
	parts := make([]string, len(c.shares))
	for k, s := range c.shares {
		var words []string
		if s.vcpus > 0 {
			words = append(words, vcpuWords(s.vcpus))
		}
		if s.memory > 0 {
			words = append(words, size(s.memory))
		}
		parts[k] = fmt.Sprintf("node %d (%s)", l.nodes[s.node].id, strings.Join(words, ", "))
	}
	return list(parts)
}

func vcpuWords(v float64) string {
	if v == 1 {
		return "1 vCPU"
	}
	return fmt.Sprintf("%.4g vCPUs", v)
}

func (l *Ledger) memoryWords(mem []workload.NodeMemory) string {
	parts := make([]string, len(mem))
	for k, m := range mem {
		parts[k] = fmt.Sprintf("node %d (%s)", m.Node, size(m.KiB))
	}
	return list(parts)
}

func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func nodesWords(s topology.NodeSet) string {
	if s.Len() == 1 {
		return "node " + s.String()
	}
	return "nodes " + s.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	// "CPU on free whole cores" counts CPUs.
	if head, tail, ok := strings.Cut(what, " on "); ok {
		return fmt.Sprintf("%d %ss on %s", n, head, tail)
	}
	if what == "more" {
		return fmt.Sprintf("%d more", n)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// size is memory in the largest binary unit that leaves no more than one decimal.
func size(k topology.KiB) string {
	switch {
	case k >= unlimited/2:
		return "unknown much memory"
	case k >= 1<<30:
		return fmt.Sprintf("%s TiB", decimal(float64(k)/(1<<30)))
	case k >= 1<<20:
		return fmt.Sprintf("%s GiB", decimal(float64(k)/(1<<20)))
	case k >= 1<<10:
		return fmt.Sprintf("%s MiB", decimal(float64(k)/(1<<10)))
	}
	return fmt.Sprintf("%d KiB", k)
}

func decimal(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}
