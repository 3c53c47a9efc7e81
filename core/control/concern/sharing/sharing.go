package sharing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Key is where Saved is on disk.
const Key = "sharing"

// Saved is what `homenode share` set last, and what the configuration said then: the newer of the
// two holds.
type Saved struct {
	On         bool `json:"on"`
	Configured bool `json:"configured"`
	// Learned is kept under a key of its own.
	Learned Learned `json:"-"`
}

// Order turns sharing on or off.
type Order struct {
	On bool `json:"on"`
}

// View is whether CPUs are shared with batch work, and what that may have now.
type View struct {
	On bool
	share.Outcome
	Left   []LeftAlone   // batch work that sharing changes nothing of, rising by ID
	Helped []workload.ID // important work that has settings of sharing, rising
	Lacks  words.Reason  // what sharing cannot set on this host, and what helps; none where it can set all
	Rest   words.Reason  // why there is nothing to share; none when there is
	Cache  CacheUse
	Memory []workload.NodeMemory // that batch work may hold, rising by node; empty when that is not limited
	// Interference is who hurts whom, as of the newest sample.
	Interference share.Interference
	// Steering is the outcome of the latency goals; nil where no workload has one.
	Steering *Steering
	// Watched is the important work beside batch work, as the observer calls it: it samples that more closely.
	Watched map[workload.ID]bool
}

// CacheUse is what batch work has of caches and memory bandwidth.
type CacheUse struct {
	Schemata string           // in force; "" when nothing is
	Limit    share.CacheLimit // … in percent
	Why      []words.Reason
}

// Settings is the configuration of sharing.
type Settings struct {
	Share share.Settings
	Base  share.Base // memory and block devices
}

// Concern decides what batch work may have.
type Concern struct {
	ShareOn      bool // batch work is squeezed
	Sharing      share.State
	Interference share.Interference
	Goals        map[topology.NodeID]goal.State `json:",omitempty"`
	Learned      Learned                        `json:"Earlier"` // by this daemon and earlier ones
	Shared       View                           // what follows from them
	Stopped      map[workload.ID]string         `json:",omitempty"` // units that systemd was asked to stop

	SharingChecked time.Time // when the files of cgroups were last read

	settings Settings
}

// turn is one decision.
type turn struct {
	*Concern
	*concern.Scene
	mine []*place.Subject // batch work that is squeezed
}

// New returns the concern of a daemon that starts on what an earlier one left.
func New(settings Settings, saved Saved) Concern {
	c := Concern{ShareOn: settings.Share.On, Learned: saved.Learned, settings: settings}
	if saved.Configured == settings.Share.On {
		c.ShareOn = saved.On
	}
	return c
}

// Configure gives the concern its settings again after a checkpoint was read.
func (c *Concern) Configure(settings Settings) { c.settings = settings }

// Settings returns the configuration.
func (c *Concern) Settings() *Settings { return &c.settings }

// Mine returns the batch workloads that are squeezed since the newest scan, rising by ID.
func (c *Concern) Mine(sc *concern.Scene) (out []*place.Subject) {
	for _, x := range sc.Subjects {
		if len(out) == len(c.Shared.Work) {
			break
		}
		if c.Shared.Work[len(out)].Workload == x.Observation.ID { // both rise by ID
			out = append(out, x)
		}
	}
	return out
}

// Name implements concern.Concern.
func (c *Concern) Name() string { return "sharing" }

// Owns implements concern.Concern: the files of cgroups, but for those of the concerns of packages swap,
// isolate and fasttier.
func (c *Concern) Owns(e *plan.Entry) bool {
	switch e.Kind {
	case plan.SwapMax, plan.MemoryMin:
		return false
	case plan.MemoryLow:
		return c.settings.Base.Protect
	}
	return e.Kind.IsCgroupFile() && !e.Kind.IsPartition()
}

// Decide implements concern.Concern.
func (c *Concern) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{Concern: c, Scene: sc}
	return concern.Desired{Settings: t.decide()}
}

// checked is how often the files of cgroups are read again: the manager of a cgroup seldom writes.
const checked = 30 * time.Second

// Verify implements concern.Verifier.
func (c *Concern) Verify(sc *concern.Scene) []plan.Entry {
	if sc.At.Sub(c.SharingChecked).Abs() < checked {
		return nil
	}
	c.SharingChecked = sc.At
	return sc.Journal.Group(c.Name(), plan.SettingKind.IsCgroupFile)
}

// Ended implements concern.Concern.
func (c *Concern) Ended(_ *concern.Scene, step *plan.Step, f *work.Failure) bool {
	if step.Kind == plan.StopUnit && f == nil {
		if c.Stopped == nil {
			c.Stopped = map[workload.ID]string{}
		}
		c.Stopped[step.Workload] = step.Target.Host
	}
	return false
}

// LeftAlone is batch work that sharing changes nothing of.
type LeftAlone struct {
	Workload workload.ID
	Why      []words.Reason
}

// Leaves reports whether a workload is batch work and not squeezed.
func (v *View) Leaves(id workload.ID) bool {
	return slices.ContainsFunc(v.Left, func(l LeftAlone) bool { return l.Workload == id })
}

// Of is what one workload may have, or nil.
func (v *View) Of(id workload.ID) *share.Grant {
	k, ok := slices.BinarySearchFunc(v.Work, id,
		func(g share.Grant, id workload.ID) int { return cmp.Compare(g.Workload, id) })
	if !ok {
		return nil
	}
	return &v.Work[k]
}

// Turn turns sharing on or off. The next scan goes by it; when it goes off, what the concerns after
// this one no longer desire is restored at once: it returns true.
func (c *Concern) Turn(sc *concern.Scene, on bool) bool {
	if on == c.ShareOn {
		return false
	}
	c.ShareOn = on
	sc.Save(Key, Saved{On: on, Configured: c.settings.Share.On})
	word := "off"
	if on {
		word = "on"
	}
	sc.Order("", words.ShareOrdered, word)
	return !on
}

// Now returns what holds after the newest order, also before the next scan goes by it.
func (c *Concern) Now() View {
	switch {
	case c.Shared.On == c.ShareOn:
		return c.Shared
	case c.ShareOn:
		return View{On: true, Rest: words.Because(words.ShareSoon)}
	}
	return View{Rest: words.Because(words.ShareOff)}
}

// decide returns what batch work may have. Its CPU sets replace those that give it every CPU that no
// dedicated work holds.
func (t *turn) decide() []concern.Desire {
	t.Shared = View{On: t.ShareOn}
	if t.ShareOn {
		t.sort()
		t.Shared.Lacks = t.lacks()
	}
	switch {
	case !t.ShareOn:
		t.Shared.Rest = words.Because(words.ShareOff)
	case len(t.mine) > 0:
	case len(t.Shared.Left) > 0:
		t.Shared.Rest = words.Because(words.ShareAllLeft)
	default:
		t.Shared.Rest = words.Because(words.ShareNone)
	}
	if len(t.mine) == 0 {
		t.Sharing = share.State{}
		t.Interference = share.Interference{}
		t.Goals = nil
		t.Stopped = nil
		if t.ShareOn { // how much there would be
			t.Shared.Outcome, _ = share.Decide(t.input(), share.State{})
		}
		return nil
	}
	t.interferes()
	in := t.input()
	t.steer(&in)
	t.Shared.Outcome, t.Sharing = share.Decide(in, t.Sharing)
	t.Interference.Narrow(&in, &t.Shared.Outcome)
	t.tellFrozen()
	if t.Acts {
		t.tellAsked()
	}
	var out []concern.Desire
	for _, x := range t.mine {
		out = append(out, t.squeeze(x, t.Shared.Of(x.Observation.ID))...)
	}
	return slices.Concat(out, t.limits(), t.helps())
}

// lacks returns what sharing cannot set because no workload has a cgroup.
func (t *turn) lacks() words.Reason {
	if len(t.mine) == 0 {
		return words.Reason{}
	}
	for i := range t.Snapshot.Observations {
		if t.Snapshot.Observations[i].Kind != workload.InProcess {
			return words.Reason{}
		}
	}
	return words.Because(words.ShareProcesses)
}

// sort finds the batch work that sharing may squeeze, and why it leaves the rest alone.
func (t *turn) sort() {
	for _, x := range t.Subjects {
		at := place.Of(t.Plan.Placements, x.Observation.ID)
		class := x.Spec.Class
		if at != nil {
			class = at.Class
		}
		batch := class == workload.Batch || (class == workload.Shared && x.Spec.Tier == workload.BatchTier)
		switch {
		case !batch:
		case at != nil && t.squeezes(x):
			t.mine = append(t.mine, x)
		default:
			t.Shared.Left = append(t.Shared.Left, LeftAlone{x.Observation.ID, t.whyLeft(x)})
		}
	}
}

// tellFrozen writes into the history what is frozen for long.
func (t *turn) tellFrozen() {
	for i := range t.Shared.Work {
		g := &t.Shared.Work[i]
		if !g.Frozen || t.Began.Sub(g.Since) < frozenLong {
			t.Over(ToldFrozen + string(g.Workload))
			continue
		}
		t.Once(ToldFrozen+string(g.Workload), plan.Event{Kind: plan.EventHost, Workload: g.Workload, Error: true},
			words.ShareFrozenLong, frozenLong, string(g.For))
	}
}

// ToldFrozen begins the keys of what history was told of frozen work.
const ToldFrozen = "frozen "

// frozenLong is when it is told that what is frozen had better be somewhere else.
const frozenLong = 10 * time.Minute

// squeezes reports whether a batch workload is homenode's to squeeze.
func (t *turn) squeezes(x *place.Subject) bool {
	return x.Alone.None() && !x.Fixed && !t.Held(x.Observation.ID)
}

// whyLeft is why a batch workload is not squeezed.
func (t *turn) whyLeft(x *place.Subject) []words.Reason {
	id := x.Observation.ID
	if t.Held(id) {
		return words.Reasons(words.Because(words.HeldByHand))
	}
	if d := t.Decision(id); d != nil {
		return d.Reasons
	}
	return words.Reasons(x.Alone)
}

// input returns what is used of each node, and by whom.
func (t *turn) input() share.Input {
	h := t.Snapshot.Host
	policy := t.Policy
	p := t.Plan
	mine := t.mine
	in := share.Input{At: t.Began.Round(0).UTC(), Settings: t.settings.Share,
		Scheduled: t.scheduled()}
	var dedicated topology.CPUSet
	for i := range p.Placements {
		if x := &p.Placements[i]; x.Class == workload.Dedicated {
			dedicated = dedicated.Union(x.CPUs).Union(x.Idle)
		}
	}
	open := h.Online.Intersect(h.Allowed).Minus(policy.Reserved).Minus(dedicated)
	index := map[topology.NodeID]int{}
	for i := range h.Nodes {
		n := share.Node{ID: h.Nodes[i].ID, Pool: h.Nodes[i].CPUs.Intersect(open), System: topology.None}
		index[n.ID] = i
		in.Nodes = append(in.Nodes, n)
	}
	for i := range t.Snapshot.Nodes {
		if k, ok := index[t.Snapshot.Nodes[i].Node]; ok {
			in.Nodes[k].System = t.Snapshot.Nodes[i].CPUUse
			in.Nodes[k].Known = in.Nodes[k].System >= 0
		}
	}
	for i := range h.Cores {
		c := h.Cores[i].CPUs.Intersect(h.Online)
		for k := range in.Nodes {
			if !c.Empty() && c.SubsetOf(in.Nodes[k].Pool) {
				in.Nodes[k].Cores = append(in.Nodes[k].Cores, c)
			}
		}
	}
	k := 0
	for _, x := range t.Subjects { // both rise by ID
		o := &x.Observation
		at, ran := place.Of(p.Placements, o.ID), t.ranOn(o)
		batch := k < len(mine) && mine[k] == x
		if batch {
			k++
			w := share.Work{ID: o.ID, Importance: at.Importance, CPUs: at.CPUs, Now: o.CPUs, Use: o.CPUUse,
				Traffic: o.Bandwidth, RanOn: ran, Freezes: t.OwnCgroup(&x.Observation) != "",
				Asks: x.Observation.Caps.Evicts || t.unitOf(x) != "", Proven: t.Interference.Proven(o.ID)}
			w.Limits, w.Max = t.limitOf(x)
			in.Work = append(in.Work, w)
		}
		own := at != nil && at.Class == workload.Dedicated
		for _, r := range ran {
			n, ok := index[r.Node]
			if !ok {
				continue
			}
			use := o.CPUUse * r.Share
			if o.FirstSeen && !batch && !own {
				// First seen: its use is a mean over its life, which says nothing about now where its cgroup
				// is older than its processes. What it uses now is in System. That is outside the pool for
				// dedicated work, and would be taken from batch work.
				use = 0
			}
			in.Nodes[n].System -= use
			if !batch && !own {
				in.Nodes[n].Online += use
			}
			if w := Waited(o); !batch && w > in.Nodes[n].Wait && x.Spec.Tier.Important(x.Spec.Class) {
				in.Nodes[n].Wait, in.Nodes[n].Waiting = w, o.ID
			}
		}
	}
	for i := range in.Nodes { // what is the host's is taken to run on what is kept for it
		in.Nodes[i].System = max(0, in.Nodes[i].System-float64(h.Nodes[i].CPUs.Overlap(policy.Reserved)))
	}
	return in
}

// fills reports whether a workload keeps all CPUs busy that it may use, but for a twentieth: what
// waits there waits for its own threads, and batch work has next to nothing of these CPUs.
func fills(o *workload.Observation) bool {
	return !o.CPUs.Empty() && o.CPUUse >= 0.95*float64(o.CPUs.Len())
}

// Waited returns the share of time that a workload waited for CPUs that others use.
func Waited(o *workload.Observation) float64 {
	if fills(o) {
		return 0
	}
	return o.Waited
}

// ranOn is where a workload ran; where it may, when that was not seen.
func (t *turn) ranOn(o *workload.Observation) []workload.NodeShare {
	if len(o.RanOn) > 0 {
		return o.RanOn
	}
	var out []workload.NodeShare
	all := float64(max(1, o.CPUs.Len()))
	for i := range t.Snapshot.Host.Nodes {
		if n := &t.Snapshot.Host.Nodes[i]; n.CPUs.Intersects(o.CPUs) {
			out = append(out, workload.NodeShare{Node: n.ID, Share: float64(n.CPUs.Overlap(o.CPUs)) / all})
		}
	}
	return out
}

// cpuPeriod is the period of cpu.max, µs: the kernel's default.
const cpuPeriod = 100_000

// limitOf is whether homenode may limit how much of its CPUs a workload uses, and to how many
// CPUs it does.
func (t *turn) limitOf(x *place.Subject) (may bool, cpus float64) {
	cgroup := t.OwnCgroup(&x.Observation)
	if cgroup == "" || t.RetryOf(work.Key{Workload: x.Observation.ID, Kind: plan.SetCgroup,
		Device: string(plan.CgroupMax)}).Failures > 0 {
		return false, 0
	}
	e := t.Applied(plan.CgroupMax, cgroup, concern.Inode(x.Observation.CgroupID))
	if e == nil {
		return true, 0
	}
	quota, _, _ := strings.Cut(e.New, " ")
	n, err := strconv.ParseFloat(quota, 64)
	if err != nil { // "max"
		return true, 0
	}
	return true, n / cpuPeriod
}

// squeeze returns what one batch workload is to have. Each desire stands for itself.
func (t *turn) squeeze(x *place.Subject, g *share.Grant) []concern.Desire {
	o := &x.Observation
	target := plan.Target{Kind: o.Kind, Cgroup: o.Cgroup, Processes: slices.Clone(o.Processes)}
	cpus := concern.Desire{Kind: plan.CgroupCPUs, Stands: concern.Yes,
		Step: plan.Step{Kind: plan.SetCPUs, Workload: o.ID, Target: target, From: o.CPUs.String(), To: g.CPUs.String(),
			Optional: true, Reason: g.Why}}
	if o.UnevenCPUs || !g.CPUs.Equal(o.CPUs) {
		cpus.Stands = concern.No
	}
	out := []concern.Desire{cpus}
	cgroup := t.OwnCgroup(o)
	if cgroup == "" {
		return out
	}
	set := func(kind plan.SettingKind, to string, why words.Reason) {
		out = append(out, t.File(o, cgroup, kind, to, why))
	}
	set(plan.CgroupIdle, "1", words.Because(words.ShareIdle))
	if g.Max > 0 {
		set(plan.CgroupMax, fmt.Sprintf("%.0f %d", g.Max*cpuPeriod, cpuPeriod), words.Because(words.ShareMax, g.Max))
	} else {
		set(plan.CgroupMax, plan.CgroupFiles[plan.CgroupMax], words.Because(words.ShareNoMax))
	}
	if g.Frozen {
		set(plan.CgroupFreeze, "1", g.Why)
	} else {
		set(plan.CgroupFreeze, "0", words.Because(words.ShareThaw))
	}
	unit := t.unitOf(x)
	if !g.Asked.IsZero() && unit != "" && t.Stopped[o.ID] == "" {
		out = append(out, concern.Desire{Kind: "unit", Path: unit, Stands: concern.No,
			Step: plan.Step{Kind: plan.StopUnit, Workload: o.ID, Target: plan.Target{Kind: workload.InHost, Host: unit},
				From: "running", To: "stopped", Optional: true, Reason: g.Why}})
	}
	return out
}
