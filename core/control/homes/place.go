package homes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Placing is a request for a home as it counts.
type Placing struct {
	*PlaceRequest
	As     workload.Spec   // Spec with an ID, with peers that are located, within the ceiling of its party
	From   workload.Origin // the party behind it
	Beyond words.Reason    // why it counts as what it uses; none where it does not
}

// Place finds a home for what is about to start. With a process it is written into the
// ledger and the process is a workload from the next scan on; with a time to hold it is
// kept so long for a workload that its source will show.
func (h *Homes) Place(now *Now, in *Placing) Result {
	if in.Exact != nil {
		return h.placeExact(now, in)
	}
	if in.As.CPUs == 0 {
		return h.placeMemory(now, in)
	}
	return h.placeCPUs(now, in)
}

func (h *Homes) placeCPUs(now *Now, in *Placing) Result {
	spec := &in.As
	// A command starts whatever others asked for; what a home is held for can wait.
	crowd := spec.ID == "" || in.Process.PID > 0 || in.Starts
	found := h.find(now, place.Request{Spec: *spec, Crowd: crowd}, in.Beside)
	out := Result{Placed: &Placed{Placement: found.Placement, Decision: found.Decision}}
	if !in.Beyond.None() {
		d := &out.Placed.Decision
		d.Reasons = append(slices.Clip(d.Reasons), words.Because(words.CountsAsUsed, in.Beyond))
	}
	if found.Decision.Outcome == plan.Refused {
		out.Refused = refuse(NoRoom, words.NoHome, words.Join(found.Decision.Reasons))
		if in.Process.PID > 0 {
			out.Event = decided(spec, &found.Decision)
		}
		return out
	}
	a := h.admission(now, in, found.Placement)
	switch {
	case in.Process.PID > 0:
		a.Placement.Start = in.Process.Start
		out.Placed.Placement, out.Placed.Ledger = a.Placement, true
		h.Book(now, append(found.Others, a.Placement)...)
		h.Give(spec.ID, a.Placement.CPUs)
		h.Choose(&found.Decision)
		out.Event = decided(spec, &found.Decision)
		out.Save.placements(h)
	case in.Hold > 0:
		h.Ledger(now).Commit(a.Placement)
	default: // asked, and nothing taken
		return out
	}
	out.Save.admission(h, spec.ID, a)
	return out
}

// find returns a home by the ledger, or beside pinned work that the ledger does not have.
func (h *Homes) find(now *Now, r place.Request, beside []place.Pinned) place.Result {
	if len(beside) == 0 {
		return h.Ledger(now).Place(r)
	}
	return place.PlaceBeside(h.state(now), beside, r)
}

// placeMemory holds memory without CPUs.
func (h *Homes) placeMemory(now *Now, in *Placing) Result {
	spec := &in.As
	p, free, ok := h.Ledger(now).PlaceMemory(*spec)
	if !ok {
		return refused(NoRoom, words.MemoryNotFree, int64(spec.Memory), spec.Nodes, int64(free))
	}
	h.Ledger(now).Commit(p)
	d := plan.Decision{Workload: spec.ID, Outcome: plan.Placed, Home: p.Home}
	out := Result{Placed: &Placed{Placement: p, Decision: d}}
	out.Save.admission(h, spec.ID, Admission{
		Spec:      *spec,
		From:      in.From,
		Placement: p,
		Scan:      now.Begun,
		Until:     now.At.Add(in.Hold),
	})
	return out
}

// placeExact notes where a person has put what is about to start. It is never refused
// for lack of room, and no plan has it: it is left there, and counts as in use.
func (h *Homes) placeExact(now *Now, in *Placing) Result {
	spec := &in.As
	p := ExactPlacement(h.Facts.Host, spec, in.PlaceRequest)
	why := words.Reasons(words.Because(words.ExactNamed))
	d := plan.Decision{Workload: spec.ID, Outcome: plan.Placed, Home: p.Home, Reasons: why}
	taken := h.ExactCPUs().Union(h.DedicatedCPUs(spec.ID)).Intersect(p.CPUs)
	if !taken.Empty() {
		d.Reasons = slices.Insert(d.Reasons, 0, words.Because(words.ExactTaken, taken))
	}
	out := Result{Placed: &Placed{Placement: p, Decision: d}}
	if in.Process.PID <= 0 {
		return out
	}
	out.Placed.Ledger = true
	a := h.admission(now, in, p)
	a.Exact = true
	out.Save.admission(h, spec.ID, a)
	if !p.CPUs.Empty() {
		h.Give(spec.ID, p.CPUs)
	}
	h.KeepClear(now.Claims)
	h.DropLedger() // others have less
	told := []any{spec.Name, string(spec.Class), spec.CPUs, p.CPUs, words.Nodes(p.Home)}
	out.Event = &Event{spec.ID, words.RequestExact, told}
	if p.CPUs.Empty() {
		out.Event.Code, out.Event.Values = words.RequestExactMemory, slices.Delete(out.Event.Values, 3, 4)
	}
	return out
}

// admission returns the admission of a placement.
func (h *Homes) admission(now *Now, in *Placing, p workload.Placement) Admission {
	a := Admission{Spec: in.As, From: in.From, Process: in.Process, Had: h.hadBefore(in), Placement: p, Scan: now.Begun}
	if in.Process.PID == 0 {
		a.Until = now.At.Add(in.Hold)
	}
	return a
}

// hadBefore returns the CPUs that a process could use before it first became a run: one
// within another, in the same process, is of the same command.
func (h *Homes) hadBefore(in *Placing) topology.CPUSet {
	was, ok := h.Admissions[scene.ProcessID(in.Process.PID)]
	if ok && was.Process == in.Process && !was.Had.Empty() {
		return was.Had
	}
	return in.Had
}

// Decided puts a decision into words: the outcome, the home and the first reason.
func Decided(d *plan.Decision) words.Reason {
	var why words.Reason
	if len(d.Reasons) > 0 {
		why = d.Reasons[0]
	}
	if d.Home.Empty() {
		return words.Because(words.DecidedNoHome, string(d.Outcome), why)
	}
	return words.Because(words.Decided, string(d.Outcome), d.Home, why)
}

// decided is the line of the history that says what became of a request. A refusal is an
// answer to the one that asked, no error: nothing runs without a home for it.
func decided(spec *workload.Spec, d *plan.Decision) *Event {
	return &Event{spec.ID, words.RequestDecided, []any{spec.Name, string(spec.Class), spec.CPUs, Decided(d)}}
}

// Extend extends a hold and returns what is held. What lost CPUs that went offline is placed
// anew, for the one that asks learns where; unless its work runs there already (runs), or
// there is no room: then it keeps the rest, and has the others again when they come online.
func (h *Homes) Extend(now *Now, a Admission, runs func(topology.CPUSet) bool) Result {
	lost := h.Offline(&a.Placement)
	if !lost.Empty() && !runs(a.Placement.CPUs) {
		l := h.Ledger(now)
		if r := l.Place(place.Request{Spec: a.Spec}); r.Placed() {
			a.Placement, lost = r.Placement, topology.CPUSet{}
		}
		l.Commit(a.Placement)
	}
	why := words.Reasons(words.Because(words.HeldStill))
	d := plan.Decision{Workload: a.Spec.ID, Outcome: plan.Kept, Home: a.Placement.Home, Reasons: why}
	out := Result{Placed: &Placed{Placement: a.Placement, Decision: d}}
	out.Save.admission(h, a.Spec.ID, a)
	if !lost.Empty() {
		p := &out.Placed.Placement
		p.CPUs, p.Idle = p.CPUs.Minus(lost), p.Idle.Minus(lost)
		p.Pins = slices.DeleteFunc(slices.Clone(p.Pins), lost.Has)
		p.VCPUs = len(p.Pins)
		out.Placed.Decision.Reasons = append(d.Reasons, words.Because(words.HeldLost, lost, p.CPUs))
	}
	return out
}

// Offline returns the CPUs of dedicated work that the newest scan did not find online.
func (h *Homes) Offline(p *workload.Placement) topology.CPUSet {
	if p.Class != workload.Dedicated {
		return topology.CPUSet{}
	}
	return p.CPUs.Union(p.Idle).Minus(h.Facts.Host.Online)
}

// Lost returns a problem for each hold that lost CPUs, for as long as they are offline.
func (h *Homes) Lost() []workload.Problem {
	var out []workload.Problem
	for _, id := range sortedKeys(h.Admissions) {
		a := h.Admissions[id]
		lost := h.Offline(&a.Placement)
		if a.Process.PID != 0 || a.Exact || lost.Empty() {
			continue
		}
		name := cmp.Or(a.Spec.Name, string(id))
		text := words.Because(words.HeldLost, lost, a.Placement.CPUs.Minus(lost)).String()
		out = append(out, workload.Problem{Subject: name, Text: text})
	}
	return out
}

// Release ends what is held for work that has not come.
func (h *Homes) Release(id workload.ID) Save {
	var save Save
	a, ok := h.Admissions[id]
	if !ok || a.Process.PID != 0 {
		return save
	}
	delete(h.Admissions, id)
	save.admissions(h)
	if place.Of(h.Placements(), id) != nil { // as of the newest scan
		h.remove(func(x workload.ID) bool { return x == id })
		save.placements(h)
	}
	if h.ledger != nil {
		h.ledger.Remove(id)
	}
	return save
}

// Adopt books what was given a home by another program than this daemon, since the daemon
// started or while it did not answer. What is held is left out.
func (h *Homes) Adopt(now *Now, all []Admission, held map[workload.ID]bool) Save {
	var save Save
	exact := false
	for _, a := range all {
		id := a.Placement.Workload
		was, ok := h.Admissions[id]
		known := ok && was.Process == a.Process
		if known || held[id] {
			continue
		}
		a.Scan = now.Begun
		save.admission(h, id, a)
		h.Give(id, a.Placement.CPUs)
		exact = exact || a.Exact
		if !a.Exact {
			h.Book(now, a.Placement)
			save.placements(h)
		}
	}
	if exact {
		h.KeepClear(now.Claims)
		h.DropLedger()
	}
	return save
}

// Exited takes processes that have exited out of what is booked: what has ended holds
// nothing, also before the next scan. policy returns the policy without the CPUs that a
// person named.
func (h *Homes) Exited(now *Now, all []workload.Process, policy func() plan.Policy) Save {
	var save Save
	gone := map[workload.ID]bool{}
	admitted := len(h.Admissions)
	exact := false
	for _, p := range all {
		id := scene.ProcessID(p.PID)
		if a, ok := h.Admissions[id]; ok && a.Process == p {
			delete(h.Admissions, id)
			delete(h.Given, id)
			exact = exact || a.Exact
		}
		if at := place.Of(h.Placements(), id); at != nil && at.Start == p.Start {
			gone[id] = true
		}
	}
	if len(h.Admissions) != admitted {
		save.admissions(h)
	}
	if exact && h.Facts.Host != nil { // its CPUs were reserved
		h.Facts.Policy = policy()
		h.DropLedger()
		h.KeepClear(now.Claims)
	}
	if len(gone) == 0 {
		return save
	}
	h.remove(func(id workload.ID) bool { return gone[id] })
	save.placements(h)
	if h.ledger != nil {
		for _, id := range sortedKeys(gone) { // sums of fractions depend on their order
			h.ledger.Remove(id)
		}
	}
	return save
}

// Booked returns the processes that hold something, each once: what `homenode run` placed,
// and those whose home a scan has booked.
func (h *Homes) Booked() []workload.Process {
	var out []workload.Process
	seen := map[workload.Process]bool{}
	add := func(p workload.Process) {
		if p.PID > 0 && p.Start != 0 && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, id := range sortedKeys(h.Admissions) {
		add(h.Admissions[id].Process)
	}
	homes := h.Placements()
	for i := range homes {
		if pid, ok := strings.CutPrefix(string(homes[i].Workload), "pid:"); ok {
			n, _ := strconv.Atoi(pid)
			add(workload.Process{PID: n, Start: homes[i].Start})
		}
	}
	return out
}
