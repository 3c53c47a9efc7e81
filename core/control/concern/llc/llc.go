package llc

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// calmFor is how long work must have been calm before it is kept in few caches; it doubles with
	// every time that it was widened in the last hour.
	calmFor = 30 * time.Second
	// oftenIs is so many times in an hour that work is widened before it stays wide.
	oftenIs = 3
	// remembered is how long that counts.
	remembered = time.Hour
	// waitsFrom is the share of its time in which work waits for a CPU before it is widened: tasks of
	// unconfined work on a machine at rest show below one percent (PSI).
	waitsFrom = 0.05
	// usualShare is the part that the newest scan has in what is usual: at a scan every 2 s the mean of
	// about half a minute.
	usualShare = 0.07
	// idleFrom is the CPUs that must idle elsewhere on the node for widening to help.
	idleFrom = 0.5
	// headroom is the room beyond its peak that work has in its caches.
	headroom = 1.25
	// fades is the part of a peak that is left after a scan.
	fades = 0.95
)

// Calm is the memory of one workload.
type Calm struct {
	Since   time.Time         // since when it has not waited
	Peak    float64           // CPUs that it kept busy at most, fading
	Usual   float64           `json:",omitzero"`  // mean share of its time that it waits with all of its node to run on
	Widened []time.Time       `json:",omitempty"` // when it was widened, in the last hour
	Would   topology.CacheSet `json:",omitzero"`  // where it would be kept, in mode report
	Home    topology.NodeSet  `json:",omitzero"`  // that this is about
}

// Concern remembers how calm work is.
type Concern struct {
	CacheCalm map[workload.ID]*Calm
	// Cached is the shared work that caches may hold, by what the observer calls it; nil in other modes than place.
	// Each scan makes another one.
	Cached map[workload.ID]bool `json:",omitempty"`
}

// Bound is the concern with the configuration.
type Bound struct {
	*Concern
	Mode plan.CacheMode
}

// Name implements concern.Concern.
func (Bound) Name() string { return "llc" }

// Owns implements concern.Concern: CPU sets are the homes'.
func (Bound) Owns(*plan.Entry) bool { return false }

// Ended implements concern.Concern.
func (Bound) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Forget forgets workloads that are gone.
func (c *Concern) Forget(gone func(workload.ID) bool) {
	maps.DeleteFunc(c.CacheCalm, func(id workload.ID, _ *Calm) bool { return gone(id) })
}

// turn is one decision.
type turn struct {
	Bound
	*concern.Scene
	nodes map[topology.NodeID]*node // that caches divide
	out   concern.Desired
}

// node is a node that caches divide.
type node struct {
	id     topology.NodeID
	all    topology.CacheSet
	caches []cache // rising by ID
}

// cache is a last-level cache of a node.
type cache struct {
	id   topology.CacheID
	open topology.CPUSet // its CPUs for shared work
	busy float64         // of these, kept busy by shared work
}

// Decide implements concern.Concern.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{Bound: b, Scene: sc}
	t.out.Caches, t.out.Why = map[workload.ID]concern.Kept{}, map[workload.ID]words.Reason{}
	if b.Mode == plan.CachesOff || sc.Between {
		return t.out
	}
	b.Cached = nil
	if !t.findNodes() {
		b.CacheCalm = nil
		return t.out
	}
	if b.CacheCalm == nil {
		b.CacheCalm = map[workload.ID]*Calm{}
	}
	mine := t.mine()
	for _, x := range mine {
		t.widen(x)
	}
	for _, x := range mine {
		if x.ready = t.ready(x); x.ready { // those that are to move do not stand in each other's way
			x.node.spread(x.now, -x.Observation.CPUUse)
		}
	}
	for _, x := range mine {
		if x.ready {
			t.narrow(x)
		}
	}
	for _, x := range mine {
		t.give(x)
	}
	if b.Mode == plan.CachesPlace {
		b.Cached = t.cached()
	}
	return t.out
}

// cached returns what the observer calls the work that caches may hold.
func (t *turn) cached() map[workload.ID]bool {
	all := make(map[workload.ID]bool, len(t.CacheCalm))
	for id := range t.CacheCalm {
		for _, part := range t.Observed(id) {
			all[part] = true
		}
	}
	return all
}

// kept is one workload that may be kept in caches.
type kept struct {
	*place.Subject
	home  *workload.Placement
	node  *node
	calm  *Calm
	now   topology.CacheSet // decided; none for all of the node
	why   words.Reason
	moved bool // that is another decision than before
	ready bool // it was calm for long enough to be kept in few caches
}

// findNodes finds the nodes that caches divide, and the CPUs of each cache for shared work.
func (t *turn) findNodes() bool {
	h := t.Snapshot.Host
	t.nodes = map[topology.NodeID]*node{}
	barred := t.Policy.Barred(h, workload.Shared)
	for i := range t.Plan.Placements {
		if p := &t.Plan.Placements[i]; p.Class == workload.Dedicated {
			barred = barred.Union(p.CPUs).Union(p.Idle)
		}
	}
	open := h.Online.Intersect(h.Allowed).Minus(barred)
	for i := range h.Nodes {
		id := h.Nodes[i].ID
		all := h.CachesOn(topology.Nodes(id))
		if all.Empty() {
			continue
		}
		n := &node{id: id, all: all}
		for k := range h.LLCs {
			if l := &h.LLCs[k]; all.Has(l.ID) {
				n.caches = append(n.caches, cache{id: l.ID, open: l.CPUs.Intersect(h.Nodes[i].CPUs).Intersect(open)})
			}
		}
		t.nodes[id] = n
	}
	return len(t.nodes) > 0
}

// mine finds the shared work whose home is one divided node, and counts the use of all shared work.
func (t *turn) mine() (out []*kept) {
	for x, p := range t.Placed() {
		n := t.nodes[p.Home.Min()]
		if p.Class != workload.Shared || p.Home.Len() != 1 || n == nil {
			continue
		}
		n.spread(p.Caches, x.Observation.CPUUse)
		others := x.Fixed || !x.Alone.None() || t.Held(x.Observation.ID) || x.Spec.Tier == workload.BatchTier
		if others {
			continue
		}
		out = append(out, &kept{Subject: x, home: p, node: n, calm: t.calm(x, p), now: p.Caches})
	}
	slices.SortStableFunc(out, func(a, b *kept) int { // large ones fit worst later
		return cmp.Or(cmp.Compare(b.home.VCPUs, a.home.VCPUs), cmp.Compare(a.home.Workload, b.home.Workload))
	})
	return out
}

// spread adds busy CPUs to caches, all of the node where none are named, by their open CPUs.
func (n *node) spread(in topology.CacheSet, busy float64) {
	if total := n.open(in); total > 0 {
		for k := range n.caches {
			if c := &n.caches[k]; in.Empty() || in.Has(c.id) {
				c.busy += busy * float64(c.open.Len()) / float64(total)
			}
		}
	}
}

// open is the CPUs of caches that shared work may use.
func (n *node) open(in topology.CacheSet) (cpus int) {
	for k := range n.caches {
		if c := &n.caches[k]; in.Empty() || in.Has(c.id) {
			cpus += c.open.Len()
		}
	}
	return cpus
}

// idle returns the idle CPUs of the node outside of some caches.
func (n *node) idle(except topology.CacheSet) (cpus float64) {
	for k := range n.caches {
		if c := &n.caches[k]; !except.Has(c.id) {
			cpus += max(0, float64(c.open.Len())-c.busy)
		}
	}
	return cpus
}

// calm returns the memory of a workload. It begins anew with another home.
func (t *turn) calm(x *place.Subject, p *workload.Placement) *Calm {
	o := &x.Observation
	c := t.CacheCalm[o.ID]
	if c == nil || !c.Home.Equal(p.Home) {
		c = &Calm{Since: t.Began, Home: p.Home}
		t.CacheCalm[o.ID] = c
	}
	c.Peak = max(o.CPUUse, c.Peak*fades)
	old := func(at time.Time) bool { return t.Began.Sub(at) > remembered }
	if p.Caches.Empty() && o.WaitedFrom != "" {
		c.Usual += usualShare * (o.Waited - c.Usual)
	}
	c.Widened = slices.DeleteFunc(slices.Clone(c.Widened), old)
	return c
}

// waits reports whether work gets less CPU time than it wants in so many CPUs: it fills them, or it waits longer
// than is usual for it with all of its node to run on. What it waits there no other CPUs would spare it.
func (c *Calm) waits(o *workload.Observation, cpus int) bool {
	if o.CPUUse >= place.Fills*float64(cpus) {
		return true
	}
	return o.WaitedFrom != "" && o.Waited >= c.Usual+waitsFrom
}

// widen lets work that waits in its caches use all of its node, where CPUs idle there.
func (t *turn) widen(x *kept) {
	o := &x.Observation
	if x.now.Empty() {
		if x.calm.waits(o, x.node.open(x.now)) {
			x.calm.Since = t.Began
		}
		return
	}
	if t.leftToKernel(x) {
		x.why = words.Because(words.CacheKernel, t.Snapshot.CacheAware.From)
		x.toWholeNode()
		return
	}
	cpus := x.node.open(x.now)
	idle := x.node.idle(x.now)
	if cpus >= x.home.VCPUs && !x.calm.waits(o, cpus) {
		x.why = words.Because(words.CacheKept, x.now, cpus)
		return
	}
	x.calm.Since = t.Began
	if idle < idleFrom && cpus > 0 {
		x.why = words.Because(words.CacheNodeBusy, x.now, o.Waited, idle)
		return
	}
	x.why = words.Because(words.CacheWidened, x.now, o.Waited, o.CPUUse, cpus, idle)
	x.calm.Widened = append(x.calm.Widened, t.Began)
	x.toWholeNode()
}

// toWholeNode lets work use all of its node from now on.
func (x *kept) toWholeNode() {
	x.node.spread(x.now, -x.Observation.CPUUse)
	x.now, x.moved = topology.CacheSet{}, true
	x.node.spread(x.now, x.Observation.CPUUse)
}

// leftToKernel reports whether the kernel keeps the work in one cache itself (topology.CacheAware): it has one
// process, no threads of the kernel serve it, and some cache of its node has as many CPUs as it needs. A
// guest has such threads, and helpers of its own.
func (t *turn) leftToKernel(x *kept) bool {
	o := &x.Observation
	if !t.Snapshot.CacheAware.Works() || len(o.Processes) != 1 || o.Vhost.Threads > 0 {
		return false
	}
	if o.Kind != workload.InCgroup && o.Kind != workload.InProcess {
		return false
	}
	need := max(float64(x.home.VCPUs), x.calm.Peak*headroom)
	for k := range x.node.caches {
		if float64(x.node.caches[k].open.Len()) >= need {
			return true
		}
	}
	return false
}

// ready reports whether wide work was calm for long enough to be kept in few caches.
func (t *turn) ready(x *kept) bool {
	if !x.now.Empty() || x.moved {
		return false
	}
	if t.leftToKernel(x) {
		x.why = words.Because(words.CacheKernel, t.Snapshot.CacheAware.From)
		return false
	}
	if times := len(x.calm.Widened); times >= oftenIs {
		x.why = words.Because(words.CacheBursts, times, remembered)
		return false
	}
	quiet := calmFor << len(x.calm.Widened)
	if t.Began.Sub(x.calm.Since) < quiet {
		if t.Mode == plan.CachesPlace { // else its first decision says where it would be kept
			x.why = words.Because(words.CacheSoon, quiet)
		}
		return false
	}
	return true
}

// narrow keeps work in the fewest caches that have room for it. What it uses is in no cache so far.
func (t *turn) narrow(x *kept) {
	busy := x.calm.Peak * headroom
	need := max(x.home.VCPUs, int(math.Ceil(busy)))
	in := t.choose(x, need, busy)
	x.node.spread(in, x.Observation.CPUUse)
	switch {
	case in.Empty():
		x.why = words.Because(words.CacheNoRoom, need)
	case t.Mode != plan.CachesPlace:
		x.calm.Would = in
		x.why = words.Because(words.CacheWould, in, x.node.open(in), need)
	default:
		x.now, x.moved = in, true
		x.why = words.Because(words.CacheChosen, in, x.node.open(in), need)
	}
}

// choose returns the caches with room for need CPUs, of which the work keeps busy CPUs busy; none where that
// takes the whole node. A reported choice stays while it has room.
func (t *turn) choose(x *kept, need int, busy float64) topology.CacheSet {
	var rooms, same []place.CacheRoom
	for k := range x.node.caches {
		c := &x.node.caches[k]
		n := c.open.Len()
		r := place.CacheRoom{ID: c.id, CPUs: n, Room: place.Fills*float64(n) - c.busy}
		rooms = append(rooms, r)
		if x.calm.Would.Has(c.id) {
			same = append(same, r)
		}
	}
	if t.Mode != plan.CachesPlace && len(same) > 0 {
		if in := place.ChooseCaches(same, need, busy); in.Equal(x.calm.Would) {
			return in
		}
	}
	in := place.ChooseCaches(rooms, need, busy)
	if in.Equal(x.node.all) {
		return topology.CacheSet{}
	}
	return in
}

// give desires the decision on a workload.
func (t *turn) give(x *kept) {
	if !x.why.None() {
		t.out.Why[x.home.Workload] = x.why
	}
	if !x.moved || t.Mode != plan.CachesPlace {
		return
	}
	var cpus topology.CPUSet
	for k := range x.node.caches {
		if c := &x.node.caches[k]; x.now.Empty() || x.now.Has(c.id) {
			cpus = cpus.Union(c.open)
		}
	}
	if cpus.Empty() {
		return
	}
	o := &x.Observation
	t.out.Caches[o.ID] = concern.Kept{Caches: x.now, CPUs: cpus}
	d := concern.Desire{Kind: plan.CgroupCPUs, Stands: concern.Yes, Step: plan.Step{
		Kind: plan.SetCPUs, Workload: o.ID, From: o.CPUs.String(), To: cpus.String(), Optional: true, Reason: x.why,
		Target: plan.Target{Kind: o.Kind, Cgroup: o.Cgroup, Processes: slices.Clone(o.Processes)},
	}}
	if o.UnevenCPUs || !cpus.Equal(o.CPUs) {
		d.Stands = concern.No
	}
	t.out.Settings = append(t.out.Settings, d)
}
