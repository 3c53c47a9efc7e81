package fasttier

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// above returns the workload that the setting of a cgroup above protected ones belongs to. Each cgroup is one of
// its own: what hinders one setting of a workload hinders all of the kind.
func above(cgroup string) workload.ID { return workload.ID("fast-memory:" + cgroup) }

// Mode is how far the concern acts.
type Mode string

// Modes.
const (
	Off    Mode = "off"
	Report Mode = "report" // explain shows what would be done
	Place  Mode = "place"
)

// Protection is the setting that protects important work.
type Protection string

// Protections.
const (
	Low Protection = "low" // memory.low: the kernel reclaims others first
	Min Protection = "min" // memory.min: the kernel never reclaims it, and kills work where nothing else is left
)

// Settings is the configuration.
type Settings struct {
	Mode    Mode       `json:"mode,omitempty"` // "" is off
	Protect Protection `json:"protect,omitempty"`
	Most    float64    `json:"most,omitempty"` // share of a node's memory that may be protected, 0 to 1
}

const (
	// pages is the kind of the desire that memory is in the fast tier; reclaimed that some is reclaimed. The journal
	// has no such entries.
	pages     plan.SettingKind = "pages in fast memory"
	reclaimed plan.SettingKind = "memory.reclaim"

	// step is the unit of protection: the memory of a process grows all the time.
	step topology.KiB = 64 << 10
	// aside is the part of what work uses that is protected beyond it, for page cache, page tables and stacks.
	aside = 8
	// fades is the time in which a figure of use falls to about a third. A figure is a lower bound, and one taken just
	// after the kernel has cleared its marks is far too low: with the LRU of generations (lru_gen) under pressure most
	// are. The largest of some minutes counts.
	fades = 7 * time.Minute
	// reserveShare of a node's memory, and at most reserveMost, stays free where important work is protected: the
	// kernel demotes when less is free than its high watermark, some thousandths of a node.
	reserveShare              = 32
	reserveMost  topology.KiB = 1 << 20
	// offShare and offLeast are how much used memory may lie in slower memory.
	offShare              = 0.005
	offLeast topology.KiB = 1024
	// mostReclaimed is what one step reclaims at most: a step has 30 s, and the kernel copies 100 MiB/s at least.
	mostReclaimed topology.KiB = 1 << 20
	// scanLongest bounds the time since the scan before that the pace counts for.
	scanLongest = 10 * time.Second
	// moveAgain is how long after a page move the next one of a workload begins at the earliest. It doubles up to
	// moveRests where at least half of the moved memory is in slower memory again within moveRests: the kernel and
	// homenode would move the same pages to and fro.
	moveAgain = 5 * time.Second
	moveRests = time.Minute
)

// Use is the known use of memory of one workload.
type Use struct {
	KiB   topology.KiB  // it uses at least, fading
	Moved time.Time     `json:",omitzero"` // when its memory last began to move up
	Up    topology.KiB  `json:",omitzero"` // that moved then
	Wait  time.Duration `json:",omitzero"` // before it may again
}

// Concern remembers what work uses.
type Concern struct {
	FastUse map[workload.ID]*Use `json:",omitempty"`
	// Tiered is the work whose use is read, by the observer's IDs; each scan makes another one.
	Tiered map[workload.ID]bool `json:",omitempty"`
	// FastScan is when the newest scan began.
	FastScan time.Time `json:",omitzero"`
}

// Bound is the concern with the configuration.
type Bound struct {
	*Concern
	Settings
	// Elsewhere: memory.low is the sharing concern's (share.protect_memory).
	Elsewhere bool
	// Pace is the bytes a second that page moves and reclaim may take each; 0 is not limited.
	Pace int64
}

// Name implements concern.Concern.
func (Bound) Name() string { return "fasttier" }

// Owns implements concern.Concern.
func (b Bound) Owns(e *plan.Entry) bool { return Owns(e.Kind, b.Elsewhere) }

// Owns reports whether settings of a kind are of this concern. memory.low is the sharing concern's where the
// configuration has share.protect_memory.
func Owns(kind plan.SettingKind, elsewhere bool) bool {
	return kind == plan.MemoryMin || (kind == plan.MemoryLow && !elsewhere)
}

// Ended implements concern.Concern.
func (Bound) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Forget forgets workloads that are gone.
func (c *Concern) Forget(gone func(workload.ID) bool) {
	maps.DeleteFunc(c.FastUse, func(id workload.ID, _ *Use) bool { return gone(id) })
}

// turn is one decision.
type turn struct {
	Bound
	*concern.Scene
	kind    plan.SettingKind // that protects
	nodes   []node           // with fast memory, rising by ID
	work    []*important     // the most important first
	elapsed time.Duration    // since the scan before
	out     concern.Desired
}

// node is a node of fast memory.
type node struct {
	id      topology.NodeID
	below   topology.NodeSet
	room    topology.KiB // that may still be protected
	free    topology.KiB
	reserve topology.KiB // that stays free
	wanted  topology.KiB // goal of free memory
}

// important is important work with a home.
type important struct {
	*place.Subject
	home   *workload.Placement
	use    *Use
	fast   topology.KiB // of its memory on the nodes of its home
	slow   topology.KiB // of its memory below them
	up     topology.KiB // of slow: used, and belongs in fast memory
	low    topology.KiB // that is protected
	wish   topology.KiB // that would be without the bound
	cgroup string
}

// Decide implements concern.Concern.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{Bound: b, Scene: sc, kind: plan.MemoryLow}
	t.out.Why = map[workload.ID]words.Reason{}
	if b.Mode == Off || b.Mode == "" || sc.Between {
		return t.out
	}
	if b.Protect == Min {
		t.kind = plan.MemoryMin
	}
	b.Tiered = nil
	t.elapsed = min(max(0, sc.Began.Sub(b.FastScan)), scanLongest)
	b.FastScan = sc.Began
	if !t.findNodes() {
		b.FastUse = nil
		return t.out
	}
	t.findWork()
	t.protect()
	t.room()
	for _, x := range t.work {
		t.moveUp(x)
	}
	for _, x := range t.work {
		t.explain(x)
	}
	return t.out
}

// places reports whether anything is changed.
func (t *turn) places() bool { return t.Mode == Place }

// findNodes finds the nodes of fast memory, and reports whether there are any from which the kernel demotes.
func (t *turn) findNodes() bool {
	h := t.Snapshot.Host
	if h == nil || h.Lower().Minus(h.GPUNodes()).Empty() {
		return false
	}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.Kind != topology.DRAM || n.Memory <= 0 {
			continue
		}
		below := h.Below(topology.Nodes(n.ID)).Minus(h.GPUNodes())
		if below.Empty() {
			continue
		}
		t.nodes = append(t.nodes, node{
			id: n.ID, below: below, free: max(0, n.Free),
			room:    topology.KiB(t.Most * float64(n.Memory)),
			reserve: min(n.Memory/reserveShare, reserveMost),
		})
	}
	return len(t.nodes) > 0
}

// of returns the fast nodes of a home.
func (t *turn) of(home topology.NodeSet) (out []*node) {
	for i := range t.nodes {
		if home.Has(t.nodes[i].id) {
			out = append(out, &t.nodes[i])
		}
	}
	return out
}

// findWork finds important work, and what it uses.
func (t *turn) findWork() {
	had := t.FastUse
	uses, tiered := map[workload.ID]*Use{}, map[workload.ID]bool{}
	left := 1 - t.elapsed.Seconds()/fades.Seconds()
	for x, home := range t.Placed() {
		o := &x.Observation
		if home.Class == workload.Batch || !x.Spec.Tier.Important(x.Spec.Class) || t.Held(o.ID) {
			continue
		}
		nodes := t.of(home.Home)
		if len(nodes) == 0 {
			continue
		}
		for _, id := range t.Observed(o.ID) {
			tiered[id] = true
		}
		use := Use{}
		if was := had[o.ID]; was != nil {
			use = *was // readers have the old one
		}
		use.KiB = max(o.Used, topology.KiB(left*float64(use.KiB)))
		use.KiB = min(use.KiB, workload.Total(o.Memory))
		uses[o.ID] = &use
		w := &important{Subject: x, home: home, use: &use, cgroup: t.OwnCgroup(o)}
		w.fast = workload.On(o.Memory, home.Home)
		for _, n := range nodes {
			w.slow = max(w.slow, workload.On(o.Memory, n.below))
		}
		t.work = append(t.work, w)
	}
	t.FastUse, t.Tiered = uses, tiered
	slices.SortStableFunc(t.work, func(a, b *important) int {
		return cmp.Compare(b.home.Importance, a.home.Importance)
	})
}

// protect gives important work the protection of what it uses, the most important first, within the bound.
func (t *turn) protect() {
	sums := map[string]topology.KiB{}
	for _, x := range t.work {
		x.wish = t.wish(x)
		nodes := t.of(x.home.Home)
		left := x.wish
		for _, n := range nodes {
			part := min(left, n.room)
			n.room -= part
			left -= part
		}
		x.low = x.wish - left
		if x.low == 0 || !t.sets(x) {
			continue
		}
		for at := path.Dir(x.cgroup); at != "/" && at != "."; at = path.Dir(at) {
			sums[at] += x.low
		}
		if x.use.KiB > 0 && t.ready(x.cgroup) {
			why := words.Because(words.FastProtected, string(t.kind), x.low, x.use.KiB)
			t.out.Settings = append(t.out.Settings, t.File(&x.Observation, x.cgroup, t.kind, bytesOf(x.low), why))
		} else {
			stays := concern.Desire{Kind: t.kind, Path: x.cgroup, Only: true}
			stays.Step.Workload = x.Observation.ID
			t.out.Settings = append(t.out.Settings, stays)
		}
	}
	for _, cgroup := range slices.Sorted(maps.Keys(sums)) {
		if !t.Held(above(cgroup)) {
			t.out.Settings = append(t.out.Settings, t.within(cgroup, sums[cgroup]))
		}
	}
}

// sets reports whether the protection of a workload is set by this concern.
func (t *turn) sets(x *important) bool {
	if !t.places() || x.cgroup == "" || !x.Alone.None() {
		return false
	}
	return t.kind == plan.MemoryMin || !t.Elsewhere
}

// bytesOf is memory as the files of a cgroup have it.
func bytesOf(kib topology.KiB) string { return strconv.FormatInt(int64(kib)<<10, 10) }

// wish returns the protection that a workload wants, in large steps. Present protection stays while it is about right,
// and while there is no evidence: a daemon that starts has read none yet.
func (t *turn) wish(x *important) topology.KiB {
	now := topology.KiB(0)
	e := t.Applied(t.kind, x.cgroup, concern.Inode(x.Observation.CgroupID))
	if e != nil {
		n, err := strconv.ParseInt(e.New, 10, 64)
		if err == nil {
			now = topology.KiB(n >> 10)
		}
	}
	if x.use.KiB == 0 {
		return now
	}
	want := x.use.KiB + max(x.use.KiB/aside, step/2)
	want = (want + step - 1) / step * step
	near := now >= x.use.KiB+x.use.KiB/aside/2 && now <= want+want/4
	if near {
		return now
	}
	return want
}

// aboveStep is the step that protects a cgroup above protected ones.
func (t *turn) aboveStep(cgroup, to string) plan.Step {
	s := plan.Step{
		Kind: plan.SetCgroup, Workload: above(cgroup), From: plan.CgroupFiles[t.kind], To: to, Optional: true,
		Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup, File: string(t.kind)},
		Reason: words.Because(words.FastWithin, string(t.kind)),
	}
	if e := t.Journal.Of(t.kind, cgroup); e != nil {
		s.From = e.New
	}
	return s
}

// within desires for a cgroup the sum of the protection below.
func (t *turn) within(cgroup string, sum topology.KiB) concern.Desire {
	return concern.Desire{Kind: t.kind, Path: cgroup, Step: t.aboveStep(cgroup, bytesOf(sum))}
}

// ready reports whether all cgroups above one are protected, by homenode or by another program.
func (t *turn) ready(cgroup string) bool {
	for at := path.Dir(cgroup); at != "/" && at != "."; at = path.Dir(at) {
		if t.Applied(t.kind, at, "") != nil {
			continue
		}
		s := t.aboveStep(at, "")
		r := t.RetryOf(work.KeyOf(&s))
		if r.Code != work.Foreign {
			return false
		}
	}
	return true
}

// room makes room in fast memory: for used memory of important work that lies in slower memory, and a reserve.
func (t *turn) room() {
	for _, x := range t.work {
		if x.low == 0 {
			continue
		}
		x.up = t.wantsUp(x)
		nodes := t.of(x.home.Home)
		for _, n := range nodes {
			n.wanted = max(n.wanted, n.reserve)
			n.wanted += x.up / topology.KiB(len(nodes))
		}
	}
	left := t.budget()
	for i := range t.nodes {
		n := &t.nodes[i]
		short := n.wanted - n.free
		if n.wanted == 0 || short <= 0 {
			continue
		}
		for _, x := range t.victims(n) {
			o := &x.Observation
			part := min(short, left, mostReclaimed, workload.On(o.Memory, topology.Nodes(n.id)))
			if part < offLeast {
				continue
			}
			left -= part
			short -= part
			t.reclaim(x, n, part)
		}
	}
}

// budget returns the memory that may be reclaimed in this scan.
func (t *turn) budget() topology.KiB {
	if t.Pace <= 0 {
		return mostReclaimed
	}
	return topology.KiB(float64(t.Pace>>10) * t.elapsed.Seconds())
}

// wantsUp returns the memory of a workload in slower memory that belongs in fast memory: it is used and protected.
func (t *turn) wantsUp(x *important) topology.KiB {
	up := min(x.use.KiB, x.low) - x.fast
	up = min(up, x.slow)
	if float64(up) <= max(offShare*float64(x.use.KiB), float64(offLeast)) {
		return 0
	}
	return up
}

// victims returns the batch work with memory on a node that may be reclaimed, the least important first and
// then the one with most there.
func (t *turn) victims(n *node) (out []*place.Subject) {
	on := topology.Nodes(n.id)
	for _, x := range t.Subjects {
		o := &x.Observation
		batch := x.Spec.Class == workload.Batch || x.Spec.Tier == workload.BatchTier
		if !batch || t.Held(o.ID) || !x.Alone.None() || t.OwnCgroup(o) == "" {
			continue
		}
		if workload.On(o.Memory, on) >= offLeast {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b *place.Subject) int {
		return cmp.Or(
			cmp.Compare(a.Spec.Importance, b.Spec.Importance),
			cmp.Compare(workload.On(b.Observation.Memory, on), workload.On(a.Observation.Memory, on)),
		)
	})
	return out
}

// reclaim desires that some memory of batch work is reclaimed.
func (t *turn) reclaim(x *place.Subject, n *node, part topology.KiB) {
	o := &x.Observation
	if !t.places() {
		t.out.Why[o.ID] = words.Because(words.FastWouldReclaim, part, n.id)
		return
	}
	why := words.Because(words.FastReclaim, part, n.id)
	t.out.Why[o.ID] = why
	cgroup := t.OwnCgroup(o)
	t.out.Settings = append(t.out.Settings, concern.Desire{
		Kind: reclaimed, Path: cgroup, Stands: concern.No,
		Step: plan.Step{
			Kind: plan.ReclaimMemory, Workload: o.ID, To: bytesOf(part), Optional: true, Reason: why,
			Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup, Object: concern.Inode(o.CgroupID)},
		},
	})
}

// moveUp desires that used memory of a workload moves up, where there is room and the kernel does not promote.
func (t *turn) moveUp(x *important) {
	o := &x.Observation
	if x.up == 0 || !t.places() || t.Snapshot.Host.Tiering.Promotion {
		return
	}
	var free topology.KiB
	for _, n := range t.of(x.home.Home) {
		free += max(0, n.free-n.reserve/2)
	}
	if free < min(x.slow, x.up+x.up/aside) || !t.mayMove(x) {
		return
	}
	wait := moveAgain
	soon := !x.use.Moved.IsZero() && t.Began.Sub(x.use.Moved) <= x.use.Wait+moveRests
	again := x.up >= x.use.Up/2
	if soon && again {
		wait = min(max(moveAgain, 2*x.use.Wait), moveRests)
	}
	x.use.Moved = t.Began
	x.use.Up = x.up
	x.use.Wait = wait
	why := words.Because(words.FastMoveUp, x.up, x.slow)
	s := plan.Step{
		Kind: plan.MovePages, Workload: o.ID, To: x.home.Home.String(), Up: true, Optional: true, Reason: why,
		Bytes: int64(x.slow) << 10,
	}
	s.Target = plan.Target{
		Kind: workload.InProcess, Processes: slices.Clone(o.Processes), Stays: t.Snapshot.Host.GPUNodes(),
	}
	s.Cost.Bytes = s.Bytes
	if t.Pace > 0 {
		s.Cost.Seconds = float64(s.Bytes) / float64(t.Pace)
	}
	d := concern.Desire{Kind: pages, Path: string(o.ID), Stands: concern.No, Step: s}
	t.out.Settings = append(t.out.Settings, d)
}

// mayMove reports whether nothing hinders a page move of a workload now.
func (t *turn) mayMove(x *important) bool {
	o := &x.Observation
	if o.HasPolicy() || o.Caps.MemoryStays || o.Unanswered || len(o.Processes) == 0 || !t.Acts {
		return false
	}
	if t.Busy(o.ID) || t.Undoes(o.ID) || !t.Settled(o.ID) {
		return false
	}
	for i := range t.Plan.Steps {
		s := &t.Plan.Steps[i]
		if s.Workload == o.ID && s.Slow() {
			return false
		}
	}
	return t.Began.Sub(x.use.Moved).Abs() >= x.use.Wait
}

// explain gives the decision on important work its sentence.
func (t *turn) explain(x *important) {
	id := x.Observation.ID
	all := workload.Total(x.Observation.Memory)
	switch {
	case x.use.KiB == 0:
		t.out.Why[id] = words.Because(words.FastNoUse, x.fast, all)
	case !t.places():
		t.out.Why[id] = words.Because(words.FastWould, x.fast, all, x.use.KiB, string(t.kind), x.low)
	case x.cgroup == "" || !x.Alone.None():
		t.out.Why[id] = words.Because(words.FastNoCgroup, x.fast, all, x.use.KiB)
	case t.kind == plan.MemoryLow && t.Elsewhere:
		t.out.Why[id] = words.Because(words.FastElsewhere, x.fast, all, x.use.KiB)
	case x.low < x.wish:
		t.out.Why[id] = words.Because(words.FastBounded, x.fast, all, x.use.KiB, string(t.kind), x.low, x.wish, t.Most)
	case t.kind == plan.MemoryMin:
		t.out.Why[id] = words.Because(words.FastMin, x.fast, all, x.use.KiB, x.low)
	default:
		t.out.Why[id] = words.Because(words.FastLow, x.fast, all, x.use.KiB, x.low)
	}
}
