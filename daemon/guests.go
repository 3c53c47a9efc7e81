package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// GuestsToManage says which guests of libvirt the daemon places.
type GuestsToManage string

// Which guests. What is left alone is reported with the reason, and what it holds counts.
const (
	NoGuests     GuestsToManage = "none"   // libvirt is not asked at all
	MarkedGuests GuestsToManage = "marked" // those with homenode's mark: vm define and vm adopt write it. The default
	AllGuests    GuestsToManage = "all"    // those that nobody has bound, too, as shared guests
)

// Guests keeps up with the guests of libvirt. Changes go through the Driver for
// workload.InGuest.
type Guests interface {
	// Look brings what is known up to date. On an error what was known before stands.
	Look(ctx context.Context) error
	// Guests is what the last Look that did not fail has found, by name, and what is
	// not understood.
	Guests(h *topology.Host) ([]guest.Seen, []guest.Unread)
	// Processes is the hypervisors of the running guests.
	Processes() []workload.Process
	// Wake receives when something happened to guests.
	Wake() <-chan struct{}
}

// guests is what the daemon goes by for guests. The loop writes it; Daemon.mu guards it.
type guests struct {
	by     map[workload.ID]*guest.Seen
	seenAs map[workload.ID]workload.ID // a running guest, to the workload that the observer takes it for
	lost   string                      // why libvirt does not answer; "" when it does
	bound  map[workload.ID]bound       // where each was in the look before
	coming map[workload.ID]coming      // told a home, and not seen yet
}

// coming is a guest that libvirt's hook was told a home for.
type coming struct {
	home  plan.Placement
	until time.Time
}

// comesWithin is how long that home is kept for it: libvirt lists a guest as soon as its
// hook has ended, and one that does not come shall not hold CPUs for long.
const comesWithin = time.Minute

// expected is placements with those of the guests that are about to come. d.mu is held.
func (d *Daemon) expected(ledger []plan.Placement) []plan.Placement {
	var add []plan.Placement
	for id, c := range d.guests.coming {
		if g := d.guests.by[id]; g != nil && g.Running || !d.o.Clock.Now().Before(c.until) {
			delete(d.guests.coming, id)
			continue
		}
		add = append(add, c.home)
	}
	if len(add) == 0 {
		return ledger
	}
	return merge(ledger, add)
}

// bound is where a guest was seen to be bound.
type bound struct {
	cpus  topology.CPUSet
	nodes topology.NodeSet
}

// lookGuests asks libvirt. Its hypervisors are then seen by themselves.
func (d *Daemon) lookGuests(ctx context.Context) {
	if d.o.Guests == nil || d.o.Config.Libvirt.Manage == NoGuests {
		return
	}
	err := d.o.Guests.Look(ctx)
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests.lost = ""
	if err != nil {
		d.guests.lost = err.Error()
	}
}

// withGuests puts the guests of libvirt into a snapshot in the place of the cgroups or
// processes that they are seen as.
func (d *Daemon) withGuests(s workload.Snapshot) workload.Snapshot {
	if d.o.Guests == nil || d.o.Config.Libvirt.Manage == NoGuests {
		return s
	}
	all, unread := d.o.Guests.Guests(s.Host)
	d.mu.Lock()
	defer d.mu.Unlock()
	g := &d.guests
	known := g.by != nil
	g.by, g.seenAs = map[workload.ID]*guest.Seen{}, map[workload.ID]workload.ID{}
	at := positions(s.Observations)
	taken := map[int]bool{}
	var own []workload.Observation
	anyGuest := slices.ContainsFunc(s.Observations, func(o workload.Observation) bool { return ofLibvirt(o.ID) || ofLibvirt(workload.ID(o.Cgroup)) })
	for i := range all {
		x := &all[i]
		if !x.Running {
			g.by[x.Spec.ID] = x
			continue
		}
		k, found := at.of(x)
		if !found && g.lost != "" && x.Process.PID > 0 {
			continue // it ended while libvirt does not answer
		}
		g.by[x.Spec.ID] = x
		var o workload.Observation
		if found && !taken[k] {
			taken[k] = true
			o = s.Observations[k]
			g.seenAs[x.Spec.ID] = o.ID
		}
		own = append(own, asGuest(o, x, s.Host))
	}
	for i := range s.Observations {
		if !taken[i] {
			own = append(own, s.Observations[i])
		}
	}
	s.Observations = own
	slices.SortFunc(s.Observations, func(a, b workload.Observation) int { return cmp.Compare(a.ID, b.ID) })
	s.Problems = slices.Clone(s.Problems)
	// A host without libvirt is in order.
	if g.lost != "" && (known && len(g.by) > 0 || anyGuest || d.o.Config.Libvirt.Manage == AllGuests) {
		s.Problems = append(s.Problems, workload.Problem{Subject: "libvirt", Text: g.lost + "; guests stay as they are"})
	}
	for _, u := range unread {
		s.Problems = append(s.Problems, workload.Problem{Subject: "guest " + u.Name, Text: u.Text})
	}
	return s
}

// position finds the observations of hypervisors.
type position struct {
	byProcess map[workload.Process]int
	byName    map[string]int // by the name of the guest in that of the cgroup
}

func positions(all []workload.Observation) position {
	p := position{map[workload.Process]int{}, map[string]int{}}
	for i := len(all) - 1; i >= 0; i-- { // the first of several stays
		for _, x := range all[i].Processes {
			p.byProcess[x] = i
		}
		if name, ok := libvirtGuest(all[i].ID); ok {
			p.byName[name] = i
		}
	}
	return p
}

// of is where a guest's hypervisor is.
func (p position) of(g *guest.Seen) (i int, found bool) {
	if g.Process.PID > 0 {
		i, found = p.byProcess[g.Process]
	} else {
		i, found = p.byName[g.Name]
	}
	return i, found
}

// asGuest is an observation of a guest: what it may use is what libvirt says.
func asGuest(o workload.Observation, g *guest.Seen, h *topology.Host) workload.Observation {
	o.ID, o.Name, o.Kind = g.Spec.ID, g.Name, workload.InGuest
	o.Pinned, o.PinnedWhy = false, ""
	o.CPUs, o.Mems = g.BoundCPUs, g.BoundNodes
	if o.CPUs.Empty() || g.Loose {
		o.CPUs = h.Online
	}
	if o.Mems.Empty() {
		o.Mems = h.AllowedMems
	}
	if len(o.Processes) == 0 && g.Process.PID > 0 {
		o.Processes = []workload.Process{g.Process}
	}
	return o
}

// guestSubject is a guest with what is wished for it. d.mu is held.
func (d *Daemon) guestSubject(o workload.Observation) place.Subject {
	g := d.guests.by[o.ID]
	s := place.Subject{Spec: g.Spec, Observation: o, LeaveAlone: d.leaveGuest(g, &o)}
	if r := d.o.Config.rule(&o); r != nil && r.Importance != nil {
		s.Spec.Importance = *r.Importance
	}
	// What has CPUs of its own keeps them, and so does what cannot be asked about now.
	s.Fixed = g.Home.Placement.Class == workload.Dedicated || d.guests.lost != "" && g.Manual == ""
	return s
}

// leaveGuest says why the daemon does not place a guest, a sentence; "" when it does.
// d.mu is held.
func (d *Daemon) leaveGuest(g *guest.Seen, o *workload.Observation) string {
	if why := cmp.Or(d.rivals.owner(o.ID), d.o.Config.excluded(o)); why != "" {
		return why
	}
	switch {
	case d.guests.lost != "":
		return fmt.Sprintf("libvirt does not answer (%s).", d.guests.lost)
	case g.Manual != "":
		return fmt.Sprintf("It is %s.", strings.TrimPrefix(g.Manual, "it is "))
	case !g.Placed && !adopted(g) && d.o.Config.Libvirt.Manage != AllGuests:
		return fmt.Sprintf("homenode did not define it, and places only guests that bear its mark (libvirt.manage); homenode vm adopt %s gives it one.", g.Name)
	case g.Placed && g.Defined != nil && !g.Defined.Placed && d.o.Config.Libvirt.Manage != AllGuests:
		return "It was released (homenode vm release): what binds it now ends with this run."
	case g.Spec.Class == workload.Dedicated && g.Home.Placement.Class != workload.Dedicated:
		return "It is dedicated, and its vCPUs are not pinned to CPUs of their own; homenode vm move gives it some."
	case g.Spec.Class == workload.Dedicated:
		return ""
	case g.Mode != "" && g.Mode != "restrictive":
		return fmt.Sprintf("Its memory is bound in mode %s, which libvirt does not change while it runs.", g.Mode)
	case len(g.Drives) > 0:
		return fmt.Sprintf("It has devices of its own (%s), and with them its memory is pinned.", strings.Join(g.Drives, ", "))
	}
	return ""
}

// adopted reports whether a guest that runs as nobody's is homenode's by its definition.
func adopted(g *guest.Seen) bool {
	return !g.Placed && g.Manual == "" && g.Defined != nil && g.Defined.Placed && g.Defined.Manual == "" && g.Defined.Spec.Class == workload.Shared
}

// guestPlacements is a ledger with what guests hold. Where a guest is bound, and by
// whom, is written in libvirt: the ledger knows better only while the daemon itself
// is about to change it. d.mu is held.
func (d *Daemon) guestPlacements(ledger []plan.Placement, h *topology.Host) []plan.Placement {
	g := &d.guests
	if g.by == nil {
		return d.expected(ledger)
	}
	before := g.bound
	g.bound = map[workload.ID]bound{}
	byID := map[workload.ID]plan.Placement{}
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for id, x := range g.by {
		now := bound{x.BoundCPUs, x.BoundNodes}
		was, seen := before[id]
		g.bound[id] = now
		p, have := byID[id]
		switch {
		case x.Home.Placement.Class == workload.Dedicated: // from its definition on
			byID[id] = x.Home.Placement
			if x.Home.Spare != nil {
				byID[x.Home.Spare.Workload] = *x.Home.Spare
			}
		case !x.Running || x.Manual != "":
			delete(byID, id)
		case !x.Placed || h.Online.SubsetOf(x.BoundCPUs): // bound to nothing, or to everything: no home
		case !have,
			seen && d.moving[id] == nil && !now.between(was, bound{p.CPUs, memoryNodes(h, &p)}),
			!seen && !now.cpus.Equal(p.CPUs) && !now.nodes.Equal(memoryNodes(h, &p)):
			byID[id] = x.Home.Placement
		}
		if _, have := byID[id]; !have && x.Running && adopted(x) { // it goes where its definition puts it
			byID[id] = x.Defined.Home.Placement
		}
		if next := x.Defined; x.Running && next != nil && next.Home.Placement.Class == workload.Dedicated && !next.BoundCPUs.Equal(x.BoundCPUs) {
			p := next.Home.Placement
			p.Workload = guest.NextID(id)
			byID[p.Workload] = p
			if next.Home.Spare != nil {
				spare := *next.Home.Spare
				spare.Workload = guest.NextID(spare.Workload)
				byID[spare.Workload] = spare
			}
		}
	}
	out := make([]plan.Placement, 0, len(byID))
	for _, p := range byID {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b plan.Placement) int { return cmp.Compare(a.Workload, b.Workload) })
	return d.expected(out)
}

// between reports whether a guest is where it was, where it is to be, or on the way:
// else somebody other than the daemon has bound it anew.
func (b bound) between(was, to bound) bool {
	return (b.cpus.Equal(was.cpus) || b.cpus.Equal(to.cpus)) && b.nodes.SubsetOf(was.nodes.Union(to.nodes))
}

// observerID is what the observer calls a workload.
func (d *Daemon) observerID(id workload.ID) workload.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.guests.seenAs[id], id)
}

// smallGuest is how much memory of a guest goes with its nodes at once, neither paced nor
// beside the loop: the kernel does it within a quarter of a second. A guest that has just started
// has touched less.
const smallGuest = topology.KiB(256 << 10)

// atOnce reports whether a step is quick: CPU sets, and the nodes of a guest with little
// memory elsewhere.
func atOnce(s plan.Step, o *workload.Observation) bool {
	if s.Kind == plan.SetCPUs {
		return true
	}
	if s.Kind != plan.SetMems || s.Target.Kind != workload.InGuest || o == nil {
		return false
	}
	home, err := topology.ParseNodeSet(s.To)
	return err == nil && workload.Total(o.Memory)-workload.On(o.Memory, home) <= smallGuest
}

// paced has the pages of a guest moved before its nodes are narrowed to its home, where
// they are many: the kernel would move them at full speed. Until then they may lie on
// both.
func paced(steps []plan.Step) []plan.Step {
	s := steps[0]
	if s.Kind != plan.SetMems || s.Target.Kind != workload.InGuest || s.Bytes <= int64(smallGuest)<<10 || len(s.Target.Processes) == 0 {
		return steps
	}
	from, err := topology.ParseNodeSet(s.From)
	to, bad := topology.ParseNodeSet(s.To)
	if err != nil || bad != nil {
		return steps
	}
	var out []plan.Step
	if both := from.Union(to); !both.Equal(from) {
		widen := s
		widen.To, widen.Reason = both.String(), "Its memory may be on both while it moves."
		out = append(out, widen)
		s.From = widen.To
	}
	pages := s
	pages.Kind, pages.From, pages.Target.Kind = plan.MovePages, "", workload.InProcess
	return append(append(out, pages, s), steps[1:]...)
}

// tendDefinitions writes into definitions where their guests belong, so that the next
// start is there from its first page: those that run, once they have come to their
// homes, and those that are off.
func (d *Daemon) tendDefinitions(ctx context.Context, h *topology.Host) {
	d.mu.Lock()
	if d.guests.by == nil || d.guests.lost != "" {
		d.mu.Unlock()
		return
	}
	st := d.view.state
	st.Placements = d.view.plan.Placements
	var steps []plan.Step
	pending := map[workload.ID]bool{}
	for _, s := range d.view.plan.Steps {
		pending[s.Workload] = true
	}
	ledger := place.NewLedger(st)
	ids := make([]workload.ID, 0, len(d.guests.by))
	for id := range d.guests.by {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		x := d.guests.by[id]
		if x.Defined == nil || x.Defined.Manual != "" || d.held.has(id) || pending[id] || d.moving[id] != nil {
			continue
		}
		o := workload.Observation{ID: id, Name: x.Name}
		if why := d.leaveGuest(x, &o); why != "" || x.Spec.Class != workload.Shared || x.Defined.Spec.Class != workload.Shared {
			continue
		}
		p, why := placementOf(st.Placements, id), "It runs there."
		if !x.Running {
			p, why = restingHome(ledger, x.Defined)
		}
		if p == nil {
			continue
		}
		from := x.Defined.BoundCPUs.String() + "/" + x.Defined.BoundNodes.String()
		to := p.CPUs.String() + "/" + memoryNodes(h, p).String()
		if from != to || !x.Defined.Placed {
			steps = append(steps, plan.Step{Kind: plan.SetNext, Workload: id, Target: plan.Target{Kind: workload.InGuest}, From: from, To: to,
				Reason: "Its next start is there. " + why})
		}
	}
	d.mu.Unlock()
	for _, s := range steps {
		if ctx.Err() != nil {
			return
		}
		if !d.waiting(s) {
			_ = d.applyOne(ctx, s) // told of in the history
		}
	}
}

// restingHome is where a guest that is off belongs: where its definition says as long
// as that holds, else the best there is. It books nothing.
func restingHome(l *place.Ledger, s *guest.Standing) (*plan.Placement, string) {
	r := place.Request{Spec: s.Spec, Must: true}
	if s.Placed {
		nodes := s.Home.Placement.Home
		r.Spec.Nodes = nodes
		if res := l.Place(r); res.Placed() && res.Placement.Home.Equal(nodes) {
			return &res.Placement, "It is off, and its home holds it."
		}
		r.Spec.Nodes = s.Spec.Nodes
	}
	res := l.Place(r)
	if !res.Placed() {
		return nil, ""
	}
	return &res.Placement, "It is off, and that is the best home for it now."
}

// memoryNodes is the nodes that a guest's memory belongs on, as its steps have them.
func memoryNodes(h *topology.Host, p *plan.Placement) topology.NodeSet {
	var home topology.NodeSet
	for _, n := range h.Nodes {
		if p.Home.Has(n.ID) && n.Memory != 0 && h.AllowedMems.Has(n.ID) {
			home.Add(n.ID)
		}
	}
	if booked := p.MemoryNodes().Intersect(home); !booked.Empty() {
		return booked
	}
	return home
}
