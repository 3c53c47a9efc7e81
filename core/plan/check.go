package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Code names a rule that a plan broke; it is stable, for programs.
type Code string

// The rules.
const (
	DuplicateWorkload  Code = "duplicate-workload"
	UnknownCPU         Code = "unknown-cpu"
	OfflineCPU         Code = "offline-cpu"
	ReservedCPU        Code = "reserved-cpu"
	WrongSide          Code = "wrong-side-of-partition"
	ForbiddenCPU       Code = "cpu-not-allowed"
	CPUUsedTwice       Code = "cpu-used-twice"
	CPUOutsideHome     Code = "cpu-outside-home"
	NoCPU              Code = "no-cpu"
	NoHome             Code = "no-home"
	UnknownNode        Code = "unknown-node"
	ForbiddenNode      Code = "node-not-allowed"
	PinMismatch        Code = "pin-mismatch"
	BookingMismatch    Code = "booking-mismatch"
	BookingOutsideHome Code = "booking-outside-home"
	MemoryOver         Code = "memory-over-capacity"
	HugePagesOver      Code = "huge-pages-over-pool"
	StepMismatch       Code = "step-mismatch"
)

// Violation is one broken rule.
type Violation struct {
	Code      Code          `json:"code"`
	Workloads []workload.ID `json:"workloads"`
	Text      string        `json:"text"` // a sentence with the numbers
}

func (v Violation) String() string { return v.Text }

// Check re-checks placements, whatever made them, against the machine and the
// policy. It returns nothing for placements that can all hold at once; the
// order of violations depends on the arguments alone.
func Check(st State, placements []Placement) []Violation {
	c := newChecker(st)
	c.duplicates(placements)
	for i := range placements {
		c.cpus(&placements[i])
		c.home(&placements[i])
		c.pins(&placements[i])
		c.booking(&placements[i])
	}
	c.usedTwice(placements)
	c.memory(placements)
	return c.found
}

// CheckPlan checks the placements of a plan, and that its steps lead there.
func CheckPlan(st State, p Plan) []Violation {
	c := newChecker(st)
	c.found = Check(st, p.Placements)
	c.steps(p)
	return c.found
}

type checker struct {
	st    State
	nodes topology.NodeSet // of the host
	sound []floating       // that broke no rule
	found []Violation
}

// floating is what thousands share: the CPUs of a home.
type floating struct {
	class workload.Class
	home  topology.NodeSet
	cpus  topology.CPUSet
}

// mostSound bounds what is gone through for each placement.
const mostSound = 64

func newChecker(st State) checker {
	c := checker{st: st}
	for i := range st.Host.Nodes {
		c.nodes.Add(st.Host.Nodes[i].ID)
	}
	return c
}

func (c *checker) say(code Code, ids []workload.ID, format string, args ...any) {
	c.found = append(c.found, Violation{code, ids, fmt.Sprintf(format, args...)})
}

// of is the workload of a placement, for what is said of it.
func of(p *Placement) []workload.ID { return []workload.ID{p.Workload} }

func (c *checker) duplicates(ps []Placement) {
	rising := true
	for i := 1; i < len(ps) && rising; i++ {
		rising = ps[i-1].Workload < ps[i].Workload
	}
	if rising {
		return
	}
	seen := make(map[workload.ID]int, len(ps))
	for _, p := range ps {
		seen[p.Workload]++
		if seen[p.Workload] == 2 {
			c.say(DuplicateWorkload, []workload.ID{p.Workload}, "%s has more than one placement", p.Workload)
		}
	}
}

// cpus checks that every CPU of a placement exists, runs, and is ours to give.
func (c *checker) cpus(p *Placement) {
	if p.Class == workload.Dedicated || p.CPUs.Empty() || !p.Idle.Empty() {
		c.ownCPUs(p)
		return
	}
	for i := range c.sound {
		if x := &c.sound[i]; x.class == p.Class && x.cpus.Equal(p.CPUs) && x.home.Equal(p.Home) {
			return
		}
	}
	before := len(c.found)
	c.ownCPUs(p)
	if len(c.found) == before && len(c.sound) < mostSound {
		c.sound = append(c.sound, floating{p.Class, p.Home, p.CPUs})
	}
}

func (c *checker) ownCPUs(p *Placement) {
	h := c.st.Host
	if p.CPUs.Empty() && (p.VCPUs > 0 || len(p.Memory) == 0) { // what books memory alone has none
		c.say(NoCPU, of(p), "%s has an empty CPU set", p.Workload)
	}
	// Every plan is checked at every look: first ask what allocates nothing.
	all := p.CPUs
	if !p.Idle.Empty() {
		all = all.Union(p.Idle)
	}
	if !all.SubsetOf(h.Online) {
		if bad := all.Minus(h.Online).Minus(h.Offline); !bad.Empty() {
			c.say(UnknownCPU, of(p), "%s is given CPUs %v, which this host does not have", p.Workload, bad)
		}
	}
	if all.Intersects(h.Offline) {
		c.say(OfflineCPU, of(p), "%s is given CPUs %v, which are offline", p.Workload, all.Intersect(h.Offline))
	}
	if p.CPUs.Intersects(c.st.Policy.Reserved) {
		c.say(ReservedCPU, of(p), "%s is given CPUs %v, which are reserved for the host", p.Workload,
			p.CPUs.Intersect(c.st.Policy.Reserved))
	}
	if c.st.Policy.Split {
		if bad := all.Intersect(h.Online).Intersect(c.st.Policy.Barred(h,
			p.Class)).Minus(c.st.Policy.Reserved); !bad.Empty() {
			c.say(WrongSide, of(p), "%s is %s and is given CPUs %v beyond the partition (dedicated: %v)", p.Workload,
				p.Class, bad, c.st.Policy.Dedicated)
		}
	}
	if !p.CPUs.SubsetOf(h.Allowed) {
		if bad := p.CPUs.Intersect(h.Online).Minus(h.Allowed); !bad.Empty() {
			c.say(ForbiddenCPU, of(p), "%s is given CPUs %v, which homenode may not use (allowed: %v)", p.Workload, bad,
				h.Allowed)
		}
	}
	var off topology.CPUSet
	for i := range h.Nodes {
		if n := &h.Nodes[i]; !p.Home.Has(n.ID) && p.CPUs.Intersects(n.CPUs) {
			off = off.Union(p.CPUs.Intersect(n.CPUs))
		}
	}
	if !off.Empty() {
		c.say(CPUOutsideHome, of(p), "%s is given CPUs %v outside its home %v", p.Workload, off, p.Home)
	}
}

// home checks that the home exists and that memory may be taken there.
func (c *checker) home(p *Placement) {
	if p.Home.Empty() {
		c.say(NoHome, of(p), "%s has no home node", p.Workload)
	}
	if !p.Home.SubsetOf(c.nodes) {
		for n := range p.Home.Minus(c.nodes).All() {
			c.say(UnknownNode, of(p), "%s has its home on node %d, which this host does not have", p.Workload, n)
		}
	}
	for _, m := range p.Memory {
		if m.KiB > 0 && !c.st.Host.AllowedMems.Has(m.Node) {
			c.say(ForbiddenNode, of(p), "%s books %d KiB on node %d, where homenode may take no memory (allowed: %v)",
				p.Workload, m.KiB, m.Node, c.st.Host.AllowedMems)
		}
	}
}

func (c *checker) pins(p *Placement) {
	if p.Class != workload.Dedicated {
		if len(p.Pins) > 0 {
			c.say(PinMismatch, of(p), "%s is %s and has %d pins: only dedicated work is pinned", p.Workload, p.Class,
				len(p.Pins))
		}
		if !p.Idle.Empty() {
			c.say(PinMismatch, of(p), "%s is %s and holds CPUs %v idle: only dedicated work may", p.Workload, p.Class,
				p.Idle)
		}
		return
	}
	if len(p.Pins) != p.VCPUs {
		c.say(PinMismatch, of(p), "%s has %d pins for %d vCPUs", p.Workload, len(p.Pins), p.VCPUs)
	}
	if set := topology.CPUs(p.Pins...); set.Len() != len(p.Pins) {
		c.say(PinMismatch, of(p), "%s pins %d vCPUs to only %d CPUs (%v)", p.Workload, len(p.Pins), set.Len(), set)
	} else if !set.Equal(p.CPUs) {
		c.say(PinMismatch, of(p), "%s pins CPUs %v but has the CPU set %v", p.Workload, set, p.CPUs)
	}
	if both := p.Idle.Intersect(p.CPUs); !both.Empty() {
		c.say(PinMismatch, of(p), "%s both uses CPUs %v and holds them idle", p.Workload, both)
	}
}

// booking checks one placement's memory booking in itself.
func (c *checker) booking(p *Placement) {
	for i, m := range p.Memory {
		switch {
		case m.KiB < 0:
			c.say(BookingMismatch, of(p), "%s books %d KiB on node %d", p.Workload, m.KiB, m.Node)
		case i > 0 && p.Memory[i-1].Node >= m.Node:
			c.say(BookingMismatch, of(p), "%s books node %d after node %d: bookings rise by node", p.Workload, m.Node,
				p.Memory[i-1].Node)
		case m.KiB > 0 && !p.Home.Has(m.Node):
			c.say(BookingOutsideHome, of(p), "%s books %d KiB on node %d outside its home %v", p.Workload, m.KiB,
				m.Node, p.Home)
		case p.HugePage > 0 && m.KiB%p.HugePage != 0:
			c.say(BookingMismatch, of(p), "%s books %d KiB on node %d, which is no whole number of %d KiB pages",
				p.Workload, m.KiB, m.Node, p.HugePage)
		}
	}
	got := workload.Total(p.Memory)
	want := RoundUp(p.Asked, p.HugePage)
	if p.Asked > 0 && got != want {
		c.say(BookingMismatch, of(p), "%s wants %d KiB and its bookings sum to %d KiB", p.Workload, want, got)
	}
}

// RoundUp is size as a whole number of pages; a page of 0 leaves it as it is.
func RoundUp(size, page topology.KiB) topology.KiB {
	if page <= 0 {
		return size
	}
	return (size + page - 1) / page * page
}

// usedTwice checks that nobody else runs where dedicated work does.
func (c *checker) usedTwice(ps []Placement) {
	type pair struct{ a, b int }
	clash := make(map[pair]topology.CPUSet)
	owner := make(map[topology.CPUID]int)
	var dedicated topology.CPUSet
	for i := range ps {
		p := &ps[i]
		if p.Class != workload.Dedicated {
			continue
		}
		dedicated = dedicated.Union(p.CPUs).Union(p.Idle)
		for cpu := range p.CPUs.Union(p.Idle).All() {
			if first, taken := owner[cpu]; taken {
				addTo(clash, pair{first, i}, cpu)
			} else {
				owner[cpu] = i
			}
		}
	}
	for i := range ps {
		p := &ps[i]
		if p.Class == workload.Dedicated || !p.CPUs.Intersects(dedicated) {
			continue
		}
		for cpu := range p.CPUs.All() {
			if first, taken := owner[cpu]; taken {
				addTo(clash, pair{first, i}, cpu)
			}
		}
	}
	pairs := make([]pair, 0, len(clash))
	for k := range clash {
		pairs = append(pairs, k)
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
	for _, k := range pairs {
		a, b := &ps[k.a], &ps[k.b]
		c.say(CPUUsedTwice, []workload.ID{a.Workload, b.Workload},
			"CPUs %v belong to %s, which is dedicated, and are also given to %s (%s)",
			clash[k], a.Workload, b.Workload, b.Class)
	}
}

func addTo[K comparable](m map[K]topology.CPUSet, k K, cpu topology.CPUID) {
	s := m[k]
	s.Add(cpu)
	m[k] = s
}

// memory checks that the bookings of all placements fit at once, for ordinary
// pages and for every huge page size.
func (c *checker) memory(ps []Placement) {
	sizes := []topology.KiB{0}
	for i := range ps {
		if p := &ps[i]; p.HugePage > 0 && !slices.Contains(sizes, p.HugePage) {
			sizes = append(sizes, p.HugePage)
		}
	}
	slices.Sort(sizes)
	for _, size := range sizes {
		caps := Capacity(c.st)
		if size > 0 {
			caps = pagePool(c.st.Host, size)
		}
		c.booked(ps, size, caps)
	}
}

func (c *checker) booked(ps []Placement, size topology.KiB, caps []topology.KiB) {
	if !c.fits(ps, size, caps) {
		c.settles(ps, size, caps)
	}
}

// settles checks that the bookings can be spread so that they fit.
func (c *checker) settles(ps []Placement, size topology.KiB, caps []topology.KiB) {
	var bookings []Booking
	var want [][]topology.KiB
	var owners []workload.ID
	for _, p := range ps {
		total := workload.Total(p.Memory)
		if p.HugePage != size || total <= 0 {
			continue
		}
		var b Booking
		var w []topology.KiB
		for i, n := range c.st.Host.Nodes {
			if p.Home.Has(n.ID) && caps[i] != 0 {
				b.Nodes = append(b.Nodes, i)
				w = append(w, workload.On(p.Memory, topology.Nodes(n.ID)))
			}
		}
		b.KiB = total
		bookings = append(bookings, b)
		want = append(want, w)
		owners = append(owners, p.Workload)
	}
	_, full := Settle(caps, bookings, want)
	if full == nil {
		return
	}
	c.sayFull(size, caps, bookings, owners, full)
}

// fits reports whether the bookings fit just as they are, which is all there is to it at
// nearly every scan.
func (c *checker) fits(ps []Placement, size topology.KiB, caps []topology.KiB) bool {
	room := make([]topology.KiB, c.nodes.Max()+1) // by ID
	for i, kib := range caps {
		if kib < 0 {
			kib = unlimited
		}
		room[c.st.Host.Nodes[i].ID] = kib
	}
	for k := range ps {
		p := &ps[k]
		if p.HugePage != size {
			continue
		}
		for _, m := range p.Memory {
			if !c.nodes.Has(m.Node) || m.KiB < 0 || !p.Home.Has(m.Node) || m.KiB > room[m.Node] {
				return false
			}
			room[m.Node] -= m.KiB
		}
	}
	return true
}

func (c *checker) sayFull(size topology.KiB, caps []topology.KiB, bookings []Booking, owners []workload.ID,
	full []int) {
	var nodes topology.NodeSet
	var have, booked topology.KiB
	for _, i := range full {
		nodes.Add(c.st.Host.Nodes[i].ID)
		have += caps[i]
	}
	var inside []workload.ID
	for i, b := range bookings {
		if !slices.ContainsFunc(b.Nodes, func(n int) bool { return !slices.Contains(full, n) }) {
			booked += b.KiB
			inside = append(inside, owners[i])
		}
	}
	where := "nodes " + nodes.String()
	if nodes.Len() == 1 {
		where = "node " + nodes.String()
	}
	switch {
	case nodes.Empty() && size > 0:
		c.say(HugePagesOver, inside, "%d KiB of %d KiB pages are booked where there is no such page", booked, size)
	case nodes.Empty():
		c.say(MemoryOver, inside, "%d KiB are booked on homes without memory", booked)
	case size > 0:
		c.say(HugePagesOver, inside, "%d pages of %d KiB are booked on %s, which has %d", booked/size, size, where,
			have/size)
	default:
		c.say(MemoryOver, inside, "%d KiB are booked on %s, which has %d KiB to give", booked, where, have)
	}
}

// steps checks that each step belongs to a placement and leads to it.
func (c *checker) steps(p Plan) {
	if len(p.Steps) == 0 {
		return
	}
	byID := make(map[workload.ID]*Placement, len(p.Placements))
	for i := range p.Placements {
		byID[p.Placements[i].Workload] = &p.Placements[i]
	}
	type list struct {
		cpus topology.CPUSet
		err  error
	}
	lists := map[string]list{} // thousands of steps lead to a few sets
	for i := range p.Steps {
		s := &p.Steps[i]
		id := []workload.ID{s.Workload}
		pl := byID[s.Workload]
		if pl == nil {
			c.say(StepMismatch, id, "a %s step is for %s, which has no placement", s.Kind, s.Workload)
			continue
		}
		switch s.Kind {
		case SetCPUs:
			to, known := lists[s.To]
			if !known {
				to.cpus, to.err = topology.ParseCPUSet(s.To)
				lists[s.To] = to
			}
			if to.err != nil || !to.cpus.Equal(pl.CPUs) {
				c.say(StepMismatch, id, "a %s step leads %s to CPUs %q, its placement has %v", s.Kind, s.Workload, s.To,
					pl.CPUs)
			}
		case SetMems, MovePages:
			to, err := topology.ParseNodeSet(s.To)
			beyond := to.Minus(pl.Home)
			if s.Kind == SetMems { // what the kernel demoted may stay
				beyond = beyond.Minus(c.st.Host.Below(pl.Home))
			}
			if s.Kind == SetMems && err == nil { // the home may be added to what it has, before its pages move
				if from, bad := topology.ParseNodeSet(s.From); bad == nil && from.SubsetOf(to) {
					beyond = beyond.Minus(from)
				}
			}
			if err != nil || to.Empty() || !beyond.Empty() {
				c.say(StepMismatch, id, "a %s step leads %s to nodes %q, its home is %v", s.Kind, s.Workload, s.To,
					pl.Home)
			}
		default:
			c.say(StepMismatch, id, "%s has a step of unknown kind %q", s.Workload, s.Kind)
		}
	}
}
