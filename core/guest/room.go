package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Room is a host with the guests on it. It is for one goroutine.
type Room struct {
	state  plan.State
	ledger *place.Ledger
	known  map[workload.ID]bool // guests in it
	drives []topology.Device    // that may be handed through and that no guest has
	movers []place.Runner       // guests that may move to make room
}

// NewRoom takes a host and what is on it. drives names the NVMe drives (by
// kernel name or PCI address) that guests may have whole; one that the host does
// not have is an error. No other drive is ever given away: one of them holds the
// host's own system.
func NewRoom(st plan.State, guests []Guest, drives []string) (*Room, error) {
	r := &Room{state: st, known: map[workload.ID]bool{}}
	r.state.Placements = slices.Clone(st.Placements)
	var held []string
	for i := range guests {
		s := &guests[i]
		held = append(held, s.Drives...)
		r.known[s.Spec.ID] = true
		if s.movable() {
			r.movers = append(r.movers, place.Runner{Spec: s.Spec})
		}
		r.moverCells(s.cells(st.Host))
		r.state.Placements = append(r.state.Placements, s.Holds()...)
	}
	slices.SortFunc(r.state.Placements,
		func(a, b plan.Placement) int { return strings.Compare(string(a.Workload), string(b.Workload)) })
	for _, name := range drives {
		i := slices.IndexFunc(st.Host.Devices, func(d topology.Device) bool {
			return d.Kind == topology.NVMe && d.PCI != "" && (d.Name == name || d.PCI == name)
		})
		if i < 0 {
			return nil, fmt.Errorf("this host has no NVMe drive %q", name)
		}
		if d := st.Host.Devices[i]; !slices.Contains(held, d.PCI) && !slices.Contains(r.drives, d) {
			r.drives = append(r.drives, d)
		}
	}
	r.ledger = place.NewLedger(r.state)
	return r, nil
}

func (r *Room) moverCells(cells []workload.Spec) {
	for i := range cells {
		r.movers = append(r.movers, place.Runner{Spec: cells[i]})
	}
}

// clone is a room of its own with the same in it.
func (r *Room) clone() *Room {
	st := r.state
	st.Placements = r.ledger.Placements()
	return &Room{state: st, ledger: place.NewLedger(st), known: maps.Clone(r.known), drives: slices.Clone(r.drives),
		movers: slices.Clone(r.movers)}
}

// Placements is what is in the room, rising by workload ID.
func (r *Room) Placements() []plan.Placement { return r.ledger.Placements() }

// Place finds a home for an order. The home is zero unless the decision is Placed.
func (r *Room) Place(o *Order) (Home, plan.Decision) {
	spec := o.Spec()
	if r.known[spec.ID] {
		return Home{}, refused(&spec, words.Because(words.GuestExists, o.Name))
	}
	if spec.Nodes.Empty() && !(o.Nodes.Empty() && o.OnlyNodes().Empty()) {
		return Home{}, refused(&spec, words.Because(words.NodesApart, o.Nodes, o.OnlyNodes()))
	}
	if n := o.Flavor.NVMe; n > 0 {
		if spec.Nodes = r.withDrives(&spec, n); spec.Nodes.Empty() {
			return Home{}, refused(&spec, words.Because(words.NoFreeDrives, n, len(r.drives)))
		}
	}
	var h Home
	var d plan.Decision
	if c := o.Flavor.Composed(); c != nil {
		h, d = r.compose(spec, c, o.Flavor.Emulator)
	} else {
		h, d = r.place(place.Request{Spec: spec}, o.Flavor.Emulator)
		h, d = r.inCells(spec, h, d)
	}
	if d.Outcome == plan.Placed {
		d.Reasons = append(d.Reasons, r.promised(&h)...)
		h.NVMe = r.drivesAt(h.Placement.Home, o.Flavor.NVMe)
	}
	return h, d
}

// inCells gives a shared guest that is wider than a node a NUMA node of its own for each node of
// its home: the vCPUs of each float there, over its memory.
func (r *Room) inCells(spec workload.Spec, h Home, d plan.Decision) (Home, plan.Decision) {
	nodes := h.Placement.Home
	if d.Outcome != plan.Placed || spec.Class != workload.Shared || spec.Tier == workload.BatchTier || nodes.Len() < 2 {
		return h, d
	}
	c := Spread(spec.CPUs, spec.Memory, spec.HugePage, nodes.Len())
	if c == nil {
		d.Reasons = append(d.Reasons, words.Because(words.CellsTooFew, nodes))
		return h, d
	}
	spec.Nodes = nodes
	cells, why := r.compose(spec, c, Share)
	if why.Outcome != plan.Placed {
		d.Reasons = append(d.Reasons, words.Because(words.CellsUneven, nodes, why.Reasons[0]))
		return h, d
	}
	why.Reasons = append(append([]words.Reason{words.Because(words.CellsOfItself, len(c.Cells), nodes)},
		why.Reasons...), d.Reasons...)
	return cells, why
}

// promised warns where a home takes memory that is promised more than once.
func (r *Room) promised(h *Home) []words.Reason {
	all := append(r.ledger.Placements(), h.Beside()...)
	nodes, booked, have := plan.Overpromised(r.state, append(all, h.Placement))
	if !nodes.Intersects(h.Nodes()) {
		return nil
	}
	return []words.Reason{words.Because(words.MemoryPromised, booked, nodes, have)}
}

// MemoryRatio is how often the memory of a node is promised.
func (r *Room) MemoryRatio() float64 { return r.state.Policy.MemoryRatio() }

// Move finds a home, on the given nodes or on any when there are none, for a
// guest that is in the room. Kept means that it is the best where it is. The
// room itself stays as it is; Commit moves the guest.
func (r *Room) Move(s *Guest, nodes topology.NodeSet) (Home, plan.Decision) {
	req := place.Request{Spec: s.Spec, Must: true}
	req.Spec.Nodes = nodes
	if !s.OnlyNodes.Empty() {
		if req.Spec.Nodes = s.OnlyNodes; !nodes.Empty() {
			req.Spec.Nodes = nodes.Intersect(s.OnlyNodes)
		}
		if req.Spec.Nodes.Empty() {
			return Home{}, refused(&s.Spec, words.Because(words.NodesApart, nodes, s.OnlyNodes))
		}
	}
	if s.Placed {
		req.CPUs, req.Memory = s.Home.Placement.CPUs, s.Home.Placement.Memory
	}
	for _, p := range append(s.Home.Beside(), s.HoldsNext()...) {
		r.ledger.Remove(p.Workload)
		defer r.ledger.Commit(p)
	}
	if s.Composed != nil {
		for _, p := range append([]plan.Placement{s.Home.Placement}, s.Apart...) {
			r.ledger.Remove(p.Workload)
			defer r.ledger.Commit(p)
		}
		h, d := r.compose(req.Spec, s.Composed, s.Emulator)
		if d.Outcome == plan.Placed && slices.Equal(h.Cells, s.Home.Cells) {
			d.Outcome = plan.Kept
		}
		return h, d
	}
	return r.place(req, s.Emulator)
}

// MoveInCells is Move for a shared guest that sees no NUMA nodes and is to see those of its home
// from its next start, where that is wider than a node.
func (r *Room) MoveInCells(s *Guest, nodes topology.NodeSet) (Home, plan.Decision) {
	h, d := r.Move(s, nodes)
	if s.Composed != nil || s.SeesNodes || (d.Outcome != plan.Placed && d.Outcome != plan.Kept) {
		return h, d
	}
	spec := s.Spec
	spec.Nodes = h.Placement.Home
	was := d.Outcome
	d.Outcome = plan.Placed
	own := append([]plan.Placement{s.Home.Placement}, s.Apart...)
	for _, p := range own {
		r.ledger.Remove(p.Workload)
		defer r.ledger.Commit(p)
	}
	h, d = r.inCells(spec, h, d)
	if h.Cells == nil {
		d.Outcome = was
	}
	return h, d
}

// place finds a home for a guest and its emulator.
func (r *Room) place(req place.Request, policy Emulator) (Home, plan.Decision) {
	spec := &req.Spec
	if policy == Housekeeping && r.state.Policy.Reserved.Intersect(r.state.Host.Online).Empty() {
		return Home{}, refused(spec, words.Because(words.NothingReserved))
	}
	var full []words.Reason // homes that hold the guest and not its emulator
	for {
		res := r.ledger.Place(req)
		if !res.Placed() {
			res.Decision.Reasons = append(full, res.Decision.Reasons...)
			return Home{}, res.Decision
		}
		h := Home{Placement: res.Placement, Others: res.Others}
		if policy != Isolate {
			h.Emulator = r.emulator(policy, &h.Placement)
			return h, res.Decision
		}
		decision := r.spare(spec, &h)
		if h.Spare != nil {
			h.Emulator = h.Spare.CPUs
			return h, res.Decision
		}
		// Its home is full with it: go on where it is not.
		full = append(full, words.Because(words.EmulatorNoCPU, h.Placement.Home))
		if spec.Nodes.Empty() {
			spec.Nodes = r.state.Host.AllNodes()
		}
		if spec.Nodes = spec.Nodes.Minus(h.Placement.Home); spec.Nodes.Empty() {
			decision.Workload, decision.Reasons = spec.ID, append(full, decision.Reasons...)
			return Home{}, decision
		}
	}
}

// Commit puts the guest into the room.
func (r *Room) Commit(h Home) {
	r.known[h.Placement.Workload] = true
	r.ledger.Commit(h.Placement)
	r.ledger.Remove(NextID(h.Placement.Workload))
	for _, p := range h.Beside() {
		r.ledger.Commit(p)
		r.ledger.Remove(NextID(p.Workload))
	}
	r.drives = slices.DeleteFunc(r.drives, func(d topology.Device) bool { return slices.Contains(h.NVMe, d) })
}

func refused(s *workload.Spec, why words.Reason) plan.Decision {
	return plan.Decision{Workload: s.ID, Outcome: plan.Refused, Reasons: words.Reasons(why)}
}

// withDrives is the nodes the guest may use that have that many free drives.
func (r *Room) withDrives(s *workload.Spec, drives int) topology.NodeSet {
	return r.state.Host.NodesWith(func(n *topology.Node) bool {
		return (s.Nodes.Empty() || s.Nodes.Has(n.ID)) && len(r.drivesAt(topology.Nodes(n.ID), drives)) == drives
	})
}

// drivesAt is up to most free drives of the given nodes.
func (r *Room) drivesAt(home topology.NodeSet, most int) []topology.Device {
	var out []topology.Device
	for _, d := range r.drives {
		if len(out) < most && home.Has(d.Node) {
			out = append(out, d)
		}
	}
	return out
}

// emulator is the CPUs of the emulator of a guest that does not isolate it.
// Under housekeeping those of its home, or, where its home has none, all.
func (r *Room) emulator(e Emulator, p *plan.Placement) topology.CPUSet {
	if e == Share {
		return p.CPUs
	}
	all := r.state.Policy.Reserved.Intersect(r.state.Host.Online)
	var near topology.CPUSet
	for _, n := range r.state.Host.Nodes {
		if p.Home.Has(n.ID) {
			near = near.Union(all.Intersect(n.CPUs))
		}
	}
	if near.Empty() {
		return all
	}
	return near
}

// spare finds a CPU for the emulator on the home of its guest, and what changes
// for floating work by both together. The decision is about the emulator.
func (r *Room) spare(guest *workload.Spec, h *Home) plan.Decision {
	before := r.ledger.Placements()
	i := slices.IndexFunc(before, func(p plan.Placement) bool { return p.Workload == guest.ID })
	r.ledger.Commit(h.Placement)
	defer func() {
		r.ledger.Remove(guest.ID)
		if i >= 0 {
			r.ledger.Commit(before[i])
		}
	}()
	res := r.ledger.Place(place.Request{Spec: workload.Spec{
		ID: EmulatorID(guest.Name), Name: guest.Name + " (emulator)", Class: workload.Dedicated,
		Importance: guest.Importance,
		CPUs:       1, Nodes: h.Placement.Home, MaxNodes: 1, Given: true,
	}})
	if !res.Placed() {
		return res.Decision
	}
	h.Spare = &res.Placement
	r.ledger.Commit(*h.Spare)
	defer r.ledger.Remove(h.Spare.Workload)
	h.Others = nil
	for _, p := range r.ledger.Placements() {
		k := slices.IndexFunc(before, func(b plan.Placement) bool { return b.Workload == p.Workload })
		if k >= 0 && p.Workload != guest.ID && (!p.CPUs.Equal(before[k].CPUs) || !p.Home.Equal(before[k].Home)) {
			h.Others = append(h.Others, p)
		}
	}
	return res.Decision
}

// Count is how many more guests of a flavor fit.
type Count struct {
	Flavor   Flavor
	Now      int          // as things stand
	Why      words.Reason // what refuses the next one
	Repacked int          // when guests that homenode placed are moved for it; Now when that was not asked
	Home     string       // nodes of the next one, in list format; "" where none fits now
	Caches   string       // last-level caches of that home, in list format; "" for all
}

// repackSteps bounds the search for moves before each guest that does not fit: a
// tenth of a second on a host of 8 nodes (see place.DefaultSteps).
const repackSteps = 20_000

// Capacity counts, for each flavor by itself, how many more guests fit, and with
// repack how many after moves of those that may move.
func (r *Room) Capacity(c Catalogue, repack bool) []Count {
	out := make([]Count, 0, len(c))
	for _, f := range c {
		out = append(out, r.clone().count(f, repack))
	}
	return out
}

// count fills the room.
func (r *Room) count(f Flavor, repack bool) Count {
	n := Count{Flavor: f}
	for full := false; ; n.Repacked++ {
		// A name that no guest can have.
		o := Order{Flavor: f, Name: fmt.Sprintf("%d/capacity", n.Repacked)}
		h, d := r.Place(&o)
		if d.Outcome != plan.Placed && !full {
			n.Now = n.Repacked
			n.Why = d.Reasons[0]
			full = true
		}
		if d.Outcome != plan.Placed && repack && r.makeRoom(&o) {
			h, d = r.Place(&o)
		}
		if d.Outcome != plan.Placed {
			return n
		}
		if n.Repacked == 0 && !full {
			n.Home, n.Caches = h.Nodes().String(), h.Placement.CachesOn(r.state.Host).String()
		}
		r.Commit(h)
		if h.Spare == nil && len(h.NVMe) == 0 && h.Cells == nil {
			r.movers = append(r.movers, place.Runner{Spec: o.Spec()})
		}
	}
}

// makeRoom moves guests so that an order fits, if that can be done.
func (r *Room) makeRoom(o *Order) bool {
	if o.Flavor.Composed() != nil {
		return r.makeRoomForCells(o)
	}
	spec := o.Spec()
	if n := o.Flavor.NVMe; n > 0 {
		if spec.Nodes = r.withDrives(&spec, n); spec.Nodes.Empty() {
			return false
		}
	}
	found := r.ledger.Repack(place.Request{Spec: spec}, place.RepackOptions{Running: r.movers, Steps: repackSteps})
	if !found.Admitted() {
		return false
	}
	for _, m := range found.Moves {
		r.ledger.Commit(m.To)
	}
	return len(found.Moves) > 0
}

// makeRoomForCells moves guests so that each cell of an order finds a node: one cell after the
// other, the largest first, each on the node where that takes the fewest moves.
func (r *Room) makeRoomForCells(o *Order) bool {
	spec := o.Spec()
	c := o.Flavor.Composed()
	nodes := r.state.Host.Nodes
	cells := make([]int, len(c.Cells))
	for k := range cells {
		cells[k] = k
	}
	slices.SortStableFunc(cells, func(a, b int) int { return c.Cells[b].VCPUs.Len() - c.Cells[a].VCPUs.Len() })
	trial, moves := r, 0
	var used topology.NodeSet
	var seats []workload.Spec
	for _, k := range cells {
		var best *Room
		fewest, at := 0, topology.NodeID(0)
		var parts []workload.Spec
		for i := range nodes {
			n := nodes[i].ID
			if used.Has(n) || (!spec.Nodes.Empty() && !spec.Nodes.Has(n)) || (best != nil && fewest == 0) {
				continue
			}
			x := composition{r: trial.clone(), spec: &spec, c: c, emulator: o.Flavor.Emulator}
			all := x.parts(k, n)
			if m, ok := x.r.admit(all, repackSteps/len(nodes)); ok && (best == nil || m < fewest) {
				best = x.r
				fewest = m
				at = n
				parts = all
			}
		}
		if best == nil {
			return false
		}
		trial, moves = best, moves+fewest
		used.Add(at)
		seats = append(seats, parts...)
	}
	for i := range seats {
		trial.ledger.Remove(seats[i].ID)
	}
	r.ledger = trial.ledger
	return moves > 0
}

// admit books workloads, and moves guests for them.
func (r *Room) admit(specs []workload.Spec, steps int) (moves int, ok bool) {
	for i := range specs {
		found := r.ledger.Repack(place.Request{Spec: specs[i]}, place.RepackOptions{Running: r.movers, Steps: steps})
		if !found.Admitted() {
			return moves, false
		}
		for _, m := range found.Moves {
			r.ledger.Commit(m.To)
		}
		r.ledger.Commit(found.Result.Placement)
		moves += len(found.Moves)
	}
	return moves, true
}
