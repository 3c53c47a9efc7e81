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
	"github.com/homenode/homenode/core/place/demand"
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
	// waitsFrom is the share of its time that work waits for a CPU beyond what is usual before it is widened: tasks of
	// unconfined work on a machine at rest show below one percent (PSI).
	waitsFrom = 0.05
	// straysBy is the mean deviations from what is usual that are usual, too: of normally distributed waits one in
	// a hundred is further above. It matters on machines whose CPUs are taken away from them, such as guests.
	straysBy = 3
	// usualShare is the part that the newest scan has in what is usual: at a scan every 2 s the mean of
	// about half a minute.
	usualShare = 0.07
	// idleFrom is the CPUs that must idle elsewhere on the node for widening to help.
	idleFrom = 0.5
	// crowdedFrom is the CPUs that the work of a cache must want beyond those that it has before some of it leaves: it
	// is kept there until it wants that much more than when it was put there.
	crowdedFrom = 0.2
	// fades is the part of a peak that is left after a scan.
	fades = 0.95
)

// Calm is the memory of one workload.
type Calm struct {
	Since   time.Time         // since when it has not waited
	Peak    float64           // CPUs that it kept busy at most, fading
	Usual   float64           `json:",omitzero"`  // mean share of its time that it waits with all of its node to run on
	Strays  float64           `json:",omitzero"`  // mean deviation from that
	Scans   int               `json:",omitzero"`  // that this is known from
	Widened []time.Time       `json:",omitempty"` // when it was widened, in the last hour
	Would   topology.CacheSet `json:",omitzero"`  // where it would be kept, in mode report
	Home    topology.NodeSet  `json:",omitzero"`  // that this is about
	// Chosen: its caches were chosen by what was measured of it, not by what it has booked.
	Chosen bool `json:",omitzero"`

	cgroup string         // that pod was found for
	pod    workload.Owner // "" for none
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
	load demand.Load     // of shared work on them
	kept int             // workloads that are kept there
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
		t.learnUsual(x)
	}
	t.findMates(mine)
	for _, x := range mine {
		t.widen(x)
	}
	for _, x := range slices.Backward(mine) { // the smallest leave first
		t.leave(x)
	}
	for _, x := range mine {
		x.ready = t.ready(x)
		if x.ready { // those that are to move do not stand in each other's way
			x.node.take(x)
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
	moved bool              // that is another decision than before
	ready bool              // it was calm for long enough to be kept in few caches
	again bool              // caches are chosen at once for what its bookings had chosen them
	was   topology.CacheSet // the caches that its bookings had chosen

	pod    *group            // the work of its pod, itself too
	mates  []*kept           // other work that belongs into the same caches
	guests topology.CacheSet // of mates with CPUs of their own
}

// loadOf is what work wants now of the CPUs that it may use.
func loadOf(x *place.Subject) demand.Load { return demand.LoadOf(x.Observation.CPUUse, threads(x)) }

// most is what it wanted at most. It may have had more threads then.
func (x *kept) most() demand.Load {
	n := threads(x.Subject)
	if loadOf(x.Subject).Most == float64(n) { // they tell what it wants
		n = max(n, int(math.Ceil(x.calm.Peak)))
	}
	return demand.LoadOf(x.calm.Peak, n)
}

// threads returns how many threads of work can want to run at once; 0 where it is not known. A guest's are its vCPUs.
func threads(x *place.Subject) int {
	n := x.Observation.Threads
	if x.Spec.Given && x.Spec.CPUs > 0 && (n == 0 || x.Spec.CPUs < n) {
		return x.Spec.CPUs
	}
	return n
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
		n.put(p.Caches, loadOf(x))
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

// put adds work to caches by their open CPUs. Work that may use all of the node goes where a CPU idles, so that it
// counts with its mean alone.
func (n *node) put(in topology.CacheSet, load demand.Load) {
	n.eachPart(in, load, func(c *cache, part demand.Load) { c.load = c.load.Plus(part) })
	n.count(in, 1)
}

// take takes work out of its caches.
func (n *node) take(x *kept) {
	n.eachPart(x.now, loadOf(x.Subject), func(c *cache, part demand.Load) { c.load = c.load.Minus(part) })
	n.count(x.now, -1)
}

// count adds to the workloads that are kept in caches.
func (n *node) count(in topology.CacheSet, sign int) {
	for k := range n.caches {
		if in.Has(n.caches[k].id) {
			n.caches[k].kept += sign
		}
	}
}

// eachPart calls yield for each of some caches, all of the node where none are named, with the part of a load that
// falls to it.
func (n *node) eachPart(in topology.CacheSet, load demand.Load, yield func(*cache, demand.Load)) {
	total := n.open(in)
	if total == 0 {
		return
	}
	if in.Empty() {
		load = demand.AtMost(load.Busy)
	}
	for k := range n.caches {
		c := &n.caches[k]
		if in.Empty() || in.Has(c.id) {
			yield(c, load.Part(float64(c.open.Len())/float64(total)))
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
			cpus += max(0, float64(c.open.Len())-c.load.Busy)
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
	old := func(at time.Time) bool { return t.Began.Sub(at).Abs() > remembered }
	c.Widened = slices.DeleteFunc(slices.Clone(c.Widened), old)
	return c
}

// learnUsual learns what work waits with all of its node to run on, while a CPU of it idles: where none does, work
// waits for others, and fewer caches would tell nothing.
func (t *turn) learnUsual(x *kept) {
	o := &x.Observation
	wide := x.home.Caches.Empty() && o.WaitedFrom != ""
	if wide && x.node.idle(topology.CacheSet{}) >= 1 {
		x.calm.learn(o.Waited)
	}
}

// learn adds a scan to what is usual.
func (c *Calm) learn(waited float64) {
	c.Scans++
	share := max(usualShare, 1/float64(c.Scans))
	off := math.Abs(waited - c.Usual)
	c.Usual += share * (waited - c.Usual)
	if c.Scans > 1 { // the first is off by all of itself
		c.Strays += max(usualShare, 1/float64(c.Scans-1)) * (off - c.Strays)
	}
}

// MayWait returns the share of its time, 0 to 1, from which work waits longer than is usual for it with all of its
// node to run on. What it waits there no other CPUs would spare it.
func (c *Calm) MayWait() float64 { return c.Usual + max(waitsFrom, straysBy*c.Strays) }

// waits reports whether work gets less CPU time than it wants in so many CPUs: it fills them and has threads for more,
// or it waits longer than usual.
func (x *kept) waits(cpus int) bool {
	o := &x.Observation
	if o.CPUUse >= demand.Fills*float64(cpus) && demand.LoadOf(o.CPUUse, o.Threads).Most > float64(cpus) {
		return true
	}
	return o.WaitedFrom != "" && o.Waited >= x.calm.MayWait()
}

// widen lets work that waits in its caches use all of its node, where CPUs idle there.
func (t *turn) widen(x *kept) {
	o := &x.Observation
	if x.now.Empty() {
		if x.waits(x.node.open(x.now)) {
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
	if cpus >= x.home.VCPUs && !x.waits(cpus) {
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

// leave lets work use all of its node where the work of its cache wants more CPUs than that has at times, though it
// has not waited yet. Caches that were chosen by bookings are chosen again once the work has been calm for a while, by
// what it was measured to want.
func (t *turn) leave(x *kept) {
	if x.now.Empty() || x.moved {
		return
	}
	measured := !x.calm.Chosen && t.Began.Sub(x.calm.Since).Abs() >= calmFor
	crowded, wants := x.node.crowded(x.now)
	switch {
	case crowded != nil && x.node.idle(x.now) >= idleFrom:
		x.why = words.Because(words.CacheCrowded, x.now, wants, crowded.open.Len())
		measured = !x.calm.Chosen
		if !measured {
			x.calm.Since = t.Began
			x.calm.Widened = append(x.calm.Widened, t.Began)
		}
	case !measured:
		return
	}
	x.again, x.was = measured, x.now
	x.toWholeNode()
}

// crowded returns the first of some caches whose work wants more CPUs at times than the cache has, and how many; nil
// where none is.
func (n *node) crowded(in topology.CacheSet) (c *cache, wants float64) {
	for k := range n.caches {
		c = &n.caches[k]
		wants = c.load.Wants()
		if in.Has(c.id) && c.kept > 1 && wants > float64(c.open.Len())+crowdedFrom {
			return c, wants
		}
	}
	return nil, 0
}

// toWholeNode lets work use all of its node from now on.
func (x *kept) toWholeNode() {
	x.node.take(x)
	x.now, x.moved = topology.CacheSet{}, true
	x.node.put(x.now, loadOf(x.Subject))
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
	need := max(float64(x.home.VCPUs), x.most().Wants())
	for k := range x.node.caches {
		if float64(x.node.caches[k].open.Len()) >= need {
			return true
		}
	}
	return false
}

// ready reports whether wide work was calm for long enough to be kept in few caches.
func (t *turn) ready(x *kept) bool {
	if x.again {
		return true
	}
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
	if t.Began.Sub(x.calm.Since).Abs() < quiet {
		if t.Mode == plan.CachesPlace { // else its first decision says where it would be kept
			x.why = words.Because(words.CacheSoon, quiet)
		}
		return false
	}
	return true
}

// narrow keeps work in the fewest caches that have room for it. It is in no cache so far.
func (t *turn) narrow(x *kept) {
	most := x.most()
	need := max(x.home.VCPUs, int(math.Ceil(most.Wants())))
	beside := t.beside(x)
	in := t.choose(x, most)
	x.node.put(in, loadOf(x.Subject))
	switch {
	case in.Empty():
		x.why = words.Because(words.CacheNoRoom, need)
	case t.reports():
		x.calm.Would = in
		x.why = words.Because(words.CacheWould, in, x.node.open(in), need)
	default:
		x.now, x.moved = in, true
		x.calm.Chosen = true
		x.why = words.Because(words.CacheChosen, in, x.node.open(in), need)
		if in.SubsetOf(beside) {
			x.why = words.Because(words.CacheBeside, in, x.node.open(in))
		}
	}
}

// choose returns the caches with room for the work; none where that takes the whole node. It goes where its mates are,
// else stays where it was, and a reported choice stays while it has room.
func (t *turn) choose(x *kept, load demand.Load) topology.CacheSet {
	vcpus := x.home.VCPUs
	first := []topology.CacheSet{t.beside(x), x.was}
	if t.reports() {
		first = append(first, x.calm.Would)
	}
	for _, among := range first {
		in := x.node.choose(among, vcpus, load)
		if !in.Empty() {
			return in
		}
	}
	return x.node.choose(x.node.all, vcpus, load)
}

// choose returns the fewest of some caches with room for a load on so many CPUs; none where that takes the whole node.
func (n *node) choose(among topology.CacheSet, vcpus int, load demand.Load) topology.CacheSet {
	var rooms []demand.CacheRoom
	for k := range n.caches {
		c := &n.caches[k]
		if among.Has(c.id) && !c.open.Empty() {
			rooms = append(rooms, demand.CacheRoom{ID: c.id, CPUs: c.open.Len(), Load: c.load, Free: c.kept == 0})
		}
	}
	in := demand.ChooseCaches(rooms, vcpus, load)
	if in.Equal(n.all) {
		return topology.CacheSet{}
	}
	return in
}

// reports reports whether decisions are only shown.
func (t *turn) reports() bool { return t.Mode != plan.CachesPlace }

// give desires the decision on a workload.
func (t *turn) give(x *kept) {
	if !x.why.None() {
		t.out.Why[x.home.Workload] = x.why
	}
	if !x.moved || t.reports() {
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
