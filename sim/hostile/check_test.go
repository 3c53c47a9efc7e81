package hostile

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// check is what must hold after every event.
func (g *game) check() {
	g.originals()
	g.overlaps()
	g.caches()
	g.steered()
}

// caches: no work is confined more tightly than it runs. Work that waited in the newest scan, longer than with all of
// its node to run on, or filled its CPUs and had threads for more, is not kept in caches while a CPU idles elsewhere on its node, however the use of all other work
// there is divided. A scan answers orders after it has decided, and an order may free CPUs: then the next scan
// has to widen.
func (g *game) caches() {
	s := g.state
	if s.Seen == 0 || s.Seen == g.confined || !s.Halted.None() {
		return
	}
	g.confined = s.Seen
	before := g.tight
	g.tight = map[workload.ID]bool{}
	h := s.Snapshot.Host
	barred := s.Facts.Policy.Barred(h, workload.Shared) // what is reserved may idle, too
	for i := range s.Plan.Placements {
		p := &s.Plan.Placements[i]
		o := s.Observation(p.Workload)
		if p.Caches.Empty() || p.Class != workload.Shared || o == nil || s.Holds.Has(p.Workload) {
			continue
		}
		g.tally.Kept++
		leftAlone := func(d plan.Decision) bool { return d.Workload == p.Workload && d.Outcome == plan.LeftAlone }
		decided := func(x *place.Subject) bool { return x.Observation.ID == p.Workload }
		if !slices.ContainsFunc(s.Subjects, decided) || slices.ContainsFunc(s.Plan.Report.Decisions, leftAlone) {
			continue // the engine fails on it, or homenode leaves it alone
		}
		idle := float64(h.Node(p.Home.Min()).CPUs.Intersect(h.Online).Intersect(h.Allowed).Minus(barred).Minus(p.CPUs).Len())
		for k := range s.Plan.Placements {
			switch x := &s.Plan.Placements[k]; {
			case x.Class == workload.Dedicated:
				idle -= float64(x.CPUs.Union(x.Idle).Minus(barred).Overlap(h.Node(p.Home.Min()).CPUs))
			case x.Class == workload.Shared && x.Workload != p.Workload && x.Home.Intersects(p.Home):
				if y := s.Observation(x.Workload); y != nil {
					idle -= y.CPUUse
				}
			}
		}
		usual := 0.0
		if calm := s.CacheCalm[p.Workload]; calm != nil {
			usual = calm.MayWait()
		}
		full := o.CPUUse >= float64(p.CPUs.Len()) && (o.Threads > p.CPUs.Len() || demand.Fills*o.CPUUse > float64(o.Threads))
		waits := o.Waited >= max(0.1, usual) || full
		if !waits || idle < 1 {
			continue
		}
		g.tight[p.Workload] = true
		if before[p.Workload] {
			g.sayPlacements(s.Plan.Placements)
			fail("%.60q waits %.0f %% of its time and keeps %.1f CPUs busy in caches %s (CPUs %s), while %.1f CPUs idle on node %s", p.Workload, 100*o.Waited, o.CPUUse, p.Caches, p.CPUs, idle, p.Home)
		}
	}
}

// originals: whatever homenode changed and still stands has its original on disk.
func (g *game) originals() {
	bySetting := map[key]*plan.Entry{}
	byProcess := map[workload.Process]*plan.Entry{}
	for _, e := range g.store.entries {
		k := key{e.Kind, e.Path}
		if x := bySetting[k]; x != nil {
			fail("two entries on disk of %s %s", e.Kind, e.Path)
		}
		bySetting[k] = &e
		if e.Kind == plan.Affinity {
			p, _ := plan.ParseProcessPath(e.Path)
			byProcess[p] = &e
		}
	}
	for k, c := range g.host.cells {
		if !c.ours() {
			continue
		}
		e := bySetting[k]
		if e == nil && k.kind == plan.Affinity {
			p, _ := plan.ParseProcessPath(k.path)
			if from := inheritsFrom(g.host.all[p], byProcess); from != nil && gave(from, c.value) && p.Start >= from.Ticks {
				e = from
			}
		}
		switch {
		case e == nil:
			fail("%s %q reads %q by homenode, was %q, and no entry on disk says so", k.kind, k.path, c.value, c.theirs)
		case e.Old != c.theirs:
			fail("%s %q reads %q by homenode, was %q, and its entry says %q", k.kind, k.path, c.value, c.theirs, e.Old)
		case !e.Ours(plan.Setting{Value: c.value, Object: c.object}):
			fail("%s %q reads %q by homenode, and its entry has only %q, %q", k.kind, k.path, c.value, e.New, e.Past)
		}
	}
}

// overlaps: no CPU of dedicated work is anybody else's.
func (g *game) overlaps() {
	if !g.state.Halted.None() || g.state.Seen > 0 && g.state.Seen <= g.partition || g.state.Facts.Policy.Split && (g.state.Holds.All || len(g.state.Holds.IDs) > 0) {
		return // shared work goes over to its side with the next scan, what is held does not
	}
	all := slices.Clone(g.state.Placements())
	for id, a := range g.state.Admissions {
		switch i := slices.IndexFunc(all, func(p workload.Placement) bool { return p.Workload == id }); {
		case i >= 0 && a.Process.PID == 0: // it may have been held anew since the scan
			all[i] = a.Placement
		case i < 0 && (a.Process.PID == 0 || g.state.Seen > 0 && a.Scan >= g.state.Seen): // else it is as the plan says
			all = append(all, a.Placement)
		}
	}
	var taken, used topology.CPUSet // used: not only held for what is still to come
	for i := range all {
		if all[i].Class == workload.Dedicated {
			own := all[i].CPUs.Union(all[i].Idle)
			if taken.Intersects(own) {
				g.sayPlacements(all)
				fail("CPUs %s of %q are held twice", own.Intersect(taken), all[i].Workload)
			}
			taken = taken.Union(own)
			if a, ok := g.state.Admissions[all[i].Workload]; !ok || a.Process.PID > 0 {
				used = used.Union(own)
			}
		}
	}
	if g.state.Seen == 0 {
		return // shared work makes way with the first scan for who was placed just before the kill
	}
	alone := map[workload.ID]bool{} // nobody keeps those off
	for _, d := range g.state.Plan.Report.Decisions {
		alone[d.Workload] = d.Outcome == plan.LeftAlone
	}
	for i := range all {
		if all[i].Class != workload.Dedicated && !alone[all[i].Workload] && all[i].CPUs.Intersects(used) {
			g.sayPlacements(all)
			fail("%q may use CPUs %s of dedicated work", all[i].Workload, all[i].CPUs.Intersect(used))
		}
	}
}

func (g *game) sayPlacements(all []workload.Placement) {
	for _, p := range all {
		g.say("%.60q: %s, CPUs %s, held idle %s", p.Workload, p.Class, p.CPUs, p.Idle)
	}
}

// drain plays until nothing is under way.
func (g *game) drain() {
	for n := 0; len(g.calls)+len(g.results)+len(g.queue) > 0 || g.writing != nil; n++ {
		if n > 20000 {
			fail("it does not come to rest: %d calls, %d results", len(g.calls), len(g.results))
		}
		g.write()
		g.wrote(true)
		for _, c := range g.calls {
			g.calls = slices.DeleteFunc(slices.Clone(g.calls), func(x *call) bool { return x == c })
			g.perform(c)
		}
		for len(g.results) > 0 {
			in := g.results[0]
			g.results = g.results[1:]
			g.next(in)
		}
		g.check()
	}
	g.toDisk(nil) // the daemon tries again what it could not write, also when there is nothing new
	g.unsaved = nil
}

// calm lets everything come to rest, and looks at what is left; often after an undo.
func (g *game) calm() {
	g.say("calm")
	g.peaceful, g.host.sources.calm = true, true
	defer func() { g.peaceful, g.host.sources.calm = false, false }()
	g.unhangAll()
	for _, j := range g.host.jobs {
		j.locked = false
	}
	for range 8 {
		if g.scan != nil {
			g.seen()
		}
		g.look()
		g.seen()
		g.drain()
		g.now = g.now.Add(15 * time.Second)
	}
	g.allAnswered()
	g.triedAgain()
	g.bounded()
	if v := g.host.cells[theScheduler].value; v != "" && g.enforce && !g.state.ShareOn && g.state.Halted.None() {
		fail("sharing is off, and the scheduler %s is still loaded", v)
	}
	if c := g.host.cells[theCache]; c.ours() && g.enforce && !g.state.ShareOn && g.state.Halted.None() {
		fail("sharing is off, and the group of resctrl still has %s", c.value)
	}
	if g.random.IntN(2) > 0 {
		return
	}
	id := g.request("undo all", control.Request{Undo: &control.Which{All: true, Stop: g.random.IntN(4) == 0}})
	g.drain()
	u := g.undone[id]
	if u == nil {
		fail("undo is never done")
	}
	g.tally.Undone++
	if len(u.Failed) > 0 {
		fail("undo fails: %+v", u.Failed)
	}
	for k, c := range g.host.cells {
		if c.ours() && !(k.kind.IsController() && g.host.used(k)) {
			fail("after undo %s %q still reads %q and was %q", k.kind, k.path, c.value, c.theirs)
		}
	}
	g.giveBack()
	g.request("resume all", control.Request{Resume: &control.Which{All: true}})
	g.drain()
}

// bounded: what is kept is about what lives.
func (g *game) bounded() {
	s := g.state
	for _, e := range s.Journal.All() {
		if g.host.present(&e) != nil {
			fail("the journal keeps %s %q, which is gone", e.Kind, e.Path)
		}
	}
	if n := len(g.store.entries); n != s.Journal.Len() {
		fail("%d entries on disk, %d in memory", n, s.Journal.Len())
	}
	most := 4*len(g.host.jobs) + 40
	for name, n := range map[string]int{"Tasks": len(s.Tasks), "Admissions": len(s.Admissions), "Moves": len(s.Moves), "Given": len(s.Given), "Ended": len(s.Ended),
		"Chosen": len(s.Chosen), "Silent": len(s.Silent), "Narrowed": len(s.Narrowed), "Running": len(s.Running), "Checks": len(s.Checks),
		"Queued": len(s.Queued), "Waits": len(s.Waits), "Retries": len(s.Retries), "Overwrites": len(s.Overwrites), "Told": len(s.Told), "Holds": len(s.Holds.IDs)} {
		if n > most {
			fail("%s has %d entries with %d workloads", name, n, len(g.host.jobs))
		}
	}
}
