package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	mostListed = 20   // rows of a table
	mostParts  = 12   // parts of the period that homes are told of
	far        = 0.95 // of accesses: what has more local ones is at home
)

// Done is the report, with so many of the worst workloads. Nothing may be added afterwards.
func (c *Collector) Done(host string, worst int) (Report, error) {
	if !c.lastAt.IsZero() { // the newest look is read whatever the step
		if err := c.read(c.last, false); err != nil {
			return Report{}, err
		}
	}
	if !c.at.IsZero() && !c.until.IsZero() && c.until.Sub(c.at) > c.patience() {
		c.gaps = append(c.gaps, Gap{c.at.UTC(), c.until.UTC()})
	}
	if c.lost {
		c.Note(words.Because(words.ReportNotAllWorkloads, mostWorkloads, "others"))
	}
	r := Report{
		Schema: Schema, Host: host, Version: c.version, Mode: c.mode, From: firstOf(c.first, c.firstEvent), To: c.at,
		Looks: c.count, Read: len(c.looks),
		Locality: c.locality(), Moves: c.moveTotals(), NotDone: c.notDone(), Homes: c.homes(), Failures: c.failed(),
		Changed: []Changed{},
		Orders:  append([]Order{}, newest(c.orders)...), Ordered: c.ordered, Worst: []Worst{}, Nodes: c.nodeRows(),
		Gaps: append([]Gap{}, c.gaps...), Notes: append([]string{}, c.notes...),
	}
	if c.lastEvent.After(r.To) {
		r.To = c.lastEvent
	}
	r.From, r.To = r.From.UTC(), r.To.UTC()
	for _, kind := range slices.Sorted(maps.Keys(c.changed)) {
		r.Changed = append(r.Changed, *c.changed[kind])
	}
	if h := c.host; h != nil {
		r.Machine = &Machine{
			CPU: h.CPU, Packages: len(h.Packages), Nodes: len(h.Nodes), CPUs: h.Online.Len(),
			MemoryKiB: int64(h.Memory()),
		}
	}
	astray := c.worst(&r, worst)
	r.Headline = c.headline(&r, astray)
	return r, nil
}

// firstOf is the earlier of two times that are known.
func firstOf(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// share is a part of a whole; nil when there is no whole.
func share(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	return new(part / whole)
}

// locality is the curve, and its ends.
func (c *Collector) locality() Locality {
	l := Locality{Weight: ByCPUUse, Points: []Point{}}
	for i := range c.looks {
		if c.looks[i].access > 0 {
			l.Weight = ByAccesses
		}
	}
	n := len(c.looks)
	if n == 0 {
		return l
	}
	busy := func(k *look) (local, all float64) {
		if l.Weight == ByAccesses {
			return k.accessLocal, k.access
		}
		return k.busyLocal, k.busy
	}
	for i := range c.looks {
		k := &c.looks[i]
		local, all := busy(k)
		l.Points = append(l.Points, Point{k.at.UTC(), share(k.memoryLocal, k.memory), share(local, all)})
	}
	over := func(looks []look) (memory, ofBusy *float64) {
		var ml, m, bl, b float64
		for i := range looks {
			local, all := busy(&looks[i])
			ml += looks[i].memoryLocal
			m += looks[i].memory
			bl += local
			b += all
		}
		return share(ml, m), share(bl, b)
	}
	tenth := c.looks[n-1].at.Sub(c.looks[0].at) / 10
	early := 1 + slices.IndexFunc(c.looks[1:], func(k look) bool { return k.at.After(c.looks[0].at.Add(tenth)) })
	if early == 0 {
		early = n
	}
	late := slices.IndexFunc(c.looks, func(k look) bool { return !k.at.Before(c.looks[n-1].at.Add(-tenth)) })
	l.Memory.Before, l.Busy.Before = over(c.looks[:early])
	l.Memory.After, l.Busy.After = over(c.looks[late:])
	l.Planned = c.planned()
	return l
}

// planned is what the locality of memory would be with the steps of the newest plan done.
func (c *Collector) planned() *float64 {
	s := c.newest
	if s == nil || s.Output.Plan == nil {
		return nil
	}
	after := map[workload.ID]float64{}
	for i := range s.Output.Plan.Steps {
		after[s.Output.Plan.Steps[i].Workload] = s.Output.Plan.Steps[i].Gain.LocalityAfter
	}
	var local, all float64
	for i := range s.Input.Scan.Snapshot.Observations {
		o := &s.Input.Scan.Snapshot.Observations[i]
		x, _, known := o.LocalShare()
		if a, ok := after[o.ID]; ok {
			x, known = a, true
		}
		if known && !s.batch(o.ID) {
			memory := float64(workload.Total(o.Memory))
			local, all = local+x*memory, all+memory
		}
	}
	return share(local, all)
}

func (c *Collector) moveTotals() Moves {
	m := Moves{Largest: []Moved{}}
	var expected, seen, weight float64
	for _, key := range slices.SortedFunc(maps.Keys(c.moves),
		func(a, b moveKey) int { return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.id, b.id)) }) {
		x := c.moves[key]
		if f := c.workloads[key.id]; f != nil {
			x.Name = f.name
		}
		m.Count++
		m.Bytes += x.Moved
		m.Stayed += x.Refused
		m.Seconds += x.Seconds
		for _, why := range x.RefusedBy {
			r := c.reason(NotMoved, words.Reason{Code: words.Code(why.Cause)}, key.id, 0)
			r.text = why.Why
			r.bytes += why.Bytes
		}
		if x.Expected != nil && x.LocalityBefore != nil && x.LocalityAfter != nil {
			w := max(1, float64(x.Moved))
			m.Judged++
			weight += w
			expected += w * (*x.Expected - *x.LocalityBefore)
			seen += w * (*x.LocalityAfter - *x.LocalityBefore)
		}
		m.Largest = append(m.Largest, *x)
	}
	m.Expected, m.Seen = share(expected, weight), share(seen, weight)
	slices.SortStableFunc(m.Largest, func(a, b Moved) int { return cmp.Compare(b.Moved, a.Moved) })
	m.Largest = m.Largest[:min(len(m.Largest), mostListed)]
	return m
}

// recorded is the seconds that the looks stand for.
func (c *Collector) recorded() (s float64) {
	for i := range c.looks {
		if x := 1.0; i == 0 || c.looks[i].gap {
			s += x
		} else {
			s += c.looks[i].at.Sub(c.looks[i-1].at).Seconds()
		}
	}
	return s
}

func (c *Collector) notDone() []NotDone {
	out := []NotDone{}
	all := c.recorded()
	for key, r := range c.reasons {
		x := NotDone{What: key.what, Code: key.code, Text: r.text, Workloads: len(r.workloads), Bytes: r.bytes}
		if key.what != NotMoved && all > 0 {
			x.Share = min(1, r.seconds/all)
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b NotDone) int {
		return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(b.Share, a.Share), cmp.Compare(a.What, b.What),
			cmp.Compare(a.Code, b.Code))
	})
	return out[:min(len(out), mostListed)]
}

// homes is who lived where, in equal parts of the period.
func (c *Collector) homes() []HomesAt {
	out := []HomesAt{}
	looks := slices.Clone(c.looks)
	looks = slices.DeleteFunc(looks, func(l look) bool { return l.nodes == nil })
	if len(looks) == 0 {
		return out
	}
	from := looks[0].at
	part := max(looks[len(looks)-1].at.Sub(from)/mostParts+1, time.Second)
	for k := 0; k < len(looks); {
		index := looks[k].at.Sub(from) / part
		x, n := HomesAt{From: from.Add(index * part).UTC()}, 0.0
		for ; k < len(looks) && looks[k].at.Sub(from)/part == index; k++ {
			for i, h := range looks[k].nodes {
				if i == len(x.Nodes) {
					x.Nodes = append(x.Nodes, NodeHomes{Node: h.Node})
				}
				if x.Nodes[i].Node == h.Node { // a node may come or go
					x.Nodes[i].Homes, x.Nodes[i].VCPUs = x.Nodes[i].Homes+h.Homes, x.Nodes[i].VCPUs+h.VCPUs
				}
			}
			n++
		}
		for i := range x.Nodes {
			x.Nodes[i].Homes, x.Nodes[i].VCPUs = tenths(x.Nodes[i].Homes/n), tenths(x.Nodes[i].VCPUs/n)
		}
		out = append(out, x)
	}
	return out
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

func (c *Collector) failed() []Failure {
	out := []Failure{}
	for _, code := range slices.Sorted(maps.Keys(c.failures)) {
		out = append(out, *c.failures[code])
	}
	slices.SortStableFunc(out, func(a, b Failure) int { return cmp.Compare(b.Count, a.Count) })
	return out[:min(len(out), mostListed)]
}

func (c *Collector) nodeRows() []Node {
	out := []Node{}
	if c.host == nil {
		return out
	}
	for i := range c.host.Nodes {
		n := &c.host.Nodes[i]
		x := Node{ID: n.ID, CPUs: n.CPUs, MemoryKiB: int64(n.Memory), FreeKiB: int64(n.Free)}
		for _, u := range c.nodes {
			if u.Node == n.ID && u.CPUUse >= 0 {
				x.Busy = &u.CPUUse
			}
		}
		if s := c.newest; s.Output.Plan != nil {
			for k := range s.Output.Plan.Placements {
				if p := &s.Output.Plan.Placements[k]; p.Home.Has(n.ID) {
					x.Homes++
					x.VCPUs += float64(p.VCPUs) / float64(p.Home.Len())
				}
			}
		}
		out = append(out, x)
	}
	return out
}

// worst fills in the workloads that lose most, and counts those that are far from home.
func (c *Collector) worst(r *Report, most int) (astray int) {
	s := c.newest
	if s == nil {
		return 0
	}
	type away struct {
		Worst
		o    *workload.Observation
		home topology.NodeSet
	}
	var all []away
	for i := range s.Input.Scan.Snapshot.Observations {
		o := &s.Input.Scan.Snapshot.Observations[i]
		f := c.workloads[o.ID]
		if f == nil || f.last == nil || *f.last >= far || s.batch(o.ID) { // it may have become batch work since
			continue
		}
		w := away{o: o, Worst: Worst{ID: o.ID, Name: o.Name, MemoryKiB: f.memory, CPUUse: f.use / f.seconds,
			Remote: f.remote / f.seconds, Before: f.first, After: f.last}}
		if p := s.placement(o.ID); p != nil {
			w.Class, w.home = p.Class, p.Home
			w.Home = w.home.String()
			w.Caches = p.CachesOn(c.host).String()
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b away) int {
		return cmp.Or(cmp.Compare(b.Remote, a.Remote), cmp.Compare(b.MemoryKiB, a.MemoryKiB))
	})
	for _, w := range all[:min(len(all), most)] {
		w.Advice = c.advice(w.o, w.home)
		r.Worst = append(r.Worst, w.Worst)
	}
	return len(all)
}

// onOneNode returns the sentence for a host of one NUMA node.
func onOneNode(h *topology.Host) words.Reason {
	if h.SplitCaches() {
		return words.Because(words.SplitNode, len(h.LLCs))
	}
	return words.Because(words.SingleNode)
}

func (c *Collector) headline(r *Report, astray int) string {
	var more []words.Reason
	if s := c.newest; s != nil {
		all := 0
		for i := range s.Input.Scan.Snapshot.Observations {
			if !s.batch(s.Input.Scan.Snapshot.Observations[i].ID) {
				all++
			}
		}
		if astray > 0 && len(r.Worst) > 0 {
			w := r.Worst[0]
			more = append(more, words.Because(words.ReportWorst, astray, all, cmp.Or(w.Name, string(w.ID))))
		} else if all > 0 {
			more = append(more, words.Because(words.ReportAllHome, all))
		}
	}
	if s := c.newest; s != nil && s.Input.Scan.Snapshot.Host != nil && len(s.Input.Scan.Snapshot.Host.Nodes) == 1 &&
		astray == 0 {
		return onOneNode(s.Input.Scan.Snapshot.Host).String()
	}
	m := r.Locality.Memory
	if m.Before == nil || m.After == nil {
		return words.Because(words.ReportUnknown, more).String()
	}
	if r.Mode == "observe" && r.Locality.Planned != nil {
		more = append([]words.Reason{words.Because(words.ReportWouldBe, *r.Locality.Planned)}, more...)
	}
	switch {
	case r.Moves.Count > 0:
		took := time.Duration(r.Moves.Seconds * float64(time.Second))
		return words.Because(words.ReportMoved, *m.After, *m.Before, r.Moves.Count, r.Moves.Bytes, words.Span(took),
			more).String()
	case r.Mode == "observe":
		return words.Because(words.ReportObserved, *m.After, *m.Before, more).String()
	}
	return words.Because(words.ReportStill, *m.After, *m.Before, more).String()
}

// advice is what to do about a workload that is far from its memory.
func (c *Collector) advice(o *workload.Observation, home topology.NodeSet) words.Reason {
	name := words.Shell(string(o.ID))
	var d *plan.Decision
	var steps []plan.Step
	if p := c.newest.Output.Plan; p != nil {
		for i := range p.Report.Decisions {
			if p.Report.Decisions[i].Workload == o.ID {
				d = &p.Report.Decisions[i]
			}
		}
		for i := range p.Steps {
			kind := p.Steps[i].Kind
			home := kind != plan.SetCgroup && kind != plan.ReclaimMemory // those bring nothing home
			if p.Steps[i].Workload == o.ID && home {
				steps = append(steps, p.Steps[i])
			}
		}
	}
	switch {
	case c.held.All:
		return words.Because(words.AdviceAllHeld)
	case c.held.IDs[o.ID]:
		return words.Because(words.AdviceHeld, name)
	case d == nil:
		return words.Because(words.AdviceExplain, name)
	case d.Outcome == plan.Refused:
		return words.Because(words.AdviceNoRoom)
	case d.Outcome == plan.LeftAlone && len(d.Reasons) > 0:
		why := d.Reasons[0]
		switch why.Code {
		case words.OwnAffinities:
			return words.Because(words.AdvicePinned)
		case words.OwnPolicy, words.PolicyKeeps:
			return words.Because(words.AdvicePolicy, o.OwnPolicy)
		case words.ManagerMovesAll, words.ManagerOwns:
			return words.Because(words.AdviceManager, why, name)
		case words.Excluded, words.NotIncluded:
			return words.Because(words.AdviceExclude)
		case words.UserShare:
			return words.Because(words.AdviceRun)
		case words.HeldByHand:
			return words.Because(words.AdviceHeld, name)
		}
		return words.Because(words.AdviceAlone, why, name)
	}
	if m := c.lastMove(o.ID); m != nil && m.Refused > 0 && m.Why != "" {
		return words.Because(words.AdviceStuck, m.Refused, m.Why)
	}
	switch {
	case len(steps) > 0 && c.mode == "observe":
		return words.Because(words.AdviceObserve, home, steps[0].Gain.LocalityAfter)
	case len(steps) > 0:
		return words.Because(words.AdviceMoves, home, steps[0].Gain.LocalityAfter, name)
	case home.Len() > 1:
		return words.Because(words.AdviceSpread, home)
	}
	return words.Because(words.AdviceExplain, name)
}

// lastMove is the newest move of a workload, or nil.
func (c *Collector) lastMove(id workload.ID) (last *Moved) {
	for key, m := range c.moves {
		if key.id == id && (last == nil || m.Started.After(last.Started)) {
			last = m
		}
	}
	return last
}
