package differ

import (
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Differ makes steps and restores of what concerns desire.
type Differ struct {
	Work     *work.Work
	Concerns func() []concern.Concern          // in the order in which they decide
	Scene    func(between bool) *concern.Scene // the host; between is true where no scan has just ended
	Scan     uint64                            // the newest that has ended
}

// putBack is the retry of restoring what a concern no longer desires of a workload.
const putBack = "put back"

func putBackKey(id workload.ID, c concern.Concern) work.Key {
	return work.Key{Workload: id, Kind: plan.SetCgroup, To: putBack, Device: c.Name()}
}

// settingKey names a setting.
type settingKey struct {
	kind plan.SettingKind
	path string
}

// wanted is what one concern desires, for finding entries that it desires no longer.
type wanted struct {
	settings map[settingKey]bool
	policies map[workload.ID]bool // workloads whose threads have a scheduling policy
	leave    map[workload.ID]bool
}

func wantedOf(d *concern.Desired) wanted {
	w := wanted{settings: make(map[settingKey]bool, len(d.Settings)), policies: map[workload.ID]bool{}, leave: d.Leave}
	for i := range d.Settings {
		x := &d.Settings[i]
		w.settings[settingKey{x.Kind, x.Path}] = true
		if x.Kind == plan.TaskPolicy {
			w.policies[x.Step.Workload] = true
		}
	}
	return w
}

// has reports whether an entry is of something desired. Entries of single threads go with
// the setting of their workload.
func (w *wanted) has(e *plan.Entry) bool {
	if w.leave[e.Workload] || w.settings[settingKey{e.Kind, e.Path}] {
		return true
	}
	ofThread := e.Kind == plan.TaskPolicy && !strings.HasPrefix(e.Path, "/")
	return ofThread && w.policies[e.Workload]
}

// Reconcile asks every concern what should stand, adds the steps to it to the plan, and restores
// what no concern desires any longer.
func (df *Differ) Reconcile() {
	all := df.Concerns()
	desired := make([]wanted, len(all))
	sc := df.Scene(false)
	for i, c := range all {
		d := c.Decide(sc)
		desired[i] = wantedOf(&d)
		df.plan(sc, d.Settings)
		if len(d.Stay) > 0 {
			moves := func(x plan.Step) bool {
				memory := x.Kind.MovesPages() || x.Kind.PullsMemory()
				return memory && d.Stay[x.Workload]
			}
			sc.Plan.Steps = slices.DeleteFunc(df.Work.OwnSteps(), moves)
		}
		d.Amend(sc.Plan)
	}
	if sc.Acts {
		df.restoreUndesired(all, desired)
		df.restoreControllers()
	}
}

// restoreControllers turns controllers off that were turned on for files of cgroups, once the journal
// has no such file below: the cgroups have ended, or homenode ended while it restored them.
func (df *Differ) restoreControllers() {
	controllers := df.Work.Journal.Group("controllers", plan.SettingKind.IsController)
	for i := range controllers {
		e := &controllers[i]
		if e.Kind == plan.CgroupControllers { // homes need that one, too
			continue
		}
		needed := slices.ContainsFunc(df.Work.Journal.All(), func(x plan.Entry) bool {
			needs := x.Kind.IsCgroupFile() || x.Kind == e.Kind
			return needs && work.Inside(x.Path, e.Path)
		})
		id := e.Workload
		if needed || df.Work.Undoes(id) || df.Work.Tasks[id] != nil {
			continue
		}
		if df.Work.Again(work.Key{Workload: id, Kind: plan.SetCgroup, To: putBack, Device: e.Path}) {
			df.Work.RestoreOnly(id, map[uint64]bool{e.Seq: true})
		}
	}
}

// Again acts on what a concern desires between two scans.
func (df *Differ) Again(c concern.Concern) {
	sc := df.Scene(true)
	d := c.Decide(sc)
	if !sc.Acts {
		return
	}
	var steps []plan.Step
	for i := range d.Settings {
		if x := &d.Settings[i]; x.Now && df.due(x) {
			steps = append(steps, x.Step)
		}
	}
	for _, group := range work.Grouped(steps) {
		id := group[0].Workload
		if df.Work.Tasks[id] == nil && !df.Work.Undoes(id) && !sc.Held(id) {
			df.Work.Begin(id, &work.Task{Steps: group, Scan: df.Scan})
		}
	}
	if df.Scan > 0 { // before, a concern knows nothing that it could desire
		df.restoreUndesired([]concern.Concern{c}, []wanted{wantedOf(&d)})
	}
}

// RestoreAtOnce restores what a concern no longer desires, whatever was tried lately: the user asked for it.
func (df *Differ) RestoreAtOnce(c concern.Concern) {
	maps.DeleteFunc(df.Work.Retries,
		func(key work.Key, _ work.Retry) bool { return key == putBackKey(key.Workload, c) })
	df.Again(c)
}

// plan adds the steps that make desires stand.
func (df *Differ) plan(sc *concern.Scene, desires []concern.Desire) {
	givesCPUs := map[workload.ID]bool{}
	var steps []plan.Step
	for i := range desires {
		d := &desires[i]
		if d.Step.Kind == plan.SetCPUs {
			givesCPUs[d.Step.Workload] = true
		}
		if !df.due(d) {
			continue
		}
		if o := sc.Observation(d.Step.Workload); o != nil { // memory stays where it is
			now, _, _ := o.LocalShare()
			d.Step.Gain = plan.Gain{LocalityBefore: now, LocalityAfter: now}
		}
		steps = append(steps, d.Step)
	}
	if len(givesCPUs) > 0 {
		sc.Plan.Steps = slices.DeleteFunc(df.Work.OwnSteps(),
			func(x plan.Step) bool { return x.Kind == plan.SetCPUs && givesCPUs[x.Workload] })
	}
	if len(steps) > 0 {
		sc.Plan.Steps = withSteps(df.Work.OwnSteps(), steps)
	}
}

// withSteps returns steps with more of them: last, but those that give threads their CPUs before the memory of their
// workload moves, which takes long.
func withSteps(all, more []plan.Step) []plan.Step {
	for i := range more {
		x := &more[i]
		at := len(all)
		if x.Kind.PerProcess() {
			slow := func(y plan.Step) bool { return y.Workload == x.Workload && y.Slow() }
			if k := slices.IndexFunc(all, slow); k >= 0 {
				at = k
			}
		}
		all = slices.Insert(all, at, *x)
	}
	return all
}

// due reports whether a desire does not stand.
func (df *Differ) due(d *concern.Desire) bool {
	switch {
	case d.Only, d.Stands == concern.Yes:
		return false
	case d.Stands == concern.No:
		return true
	}
	e := df.Work.Journal.Of(d.Kind, d.Path)
	if e == nil || !concern.Same(e, d.Object) {
		unset, known := plan.CgroupFiles[d.Kind]
		return !known || d.Step.To != unset
	}
	return e.State != plan.Applied || e.New != d.Step.To
}

// MayOwn reports whether a concern may own settings of a kind: all but those that give a workload its home.
func MayOwn(k plan.SettingKind) bool {
	return k != plan.CgroupCPUs && k != plan.CgroupMems && k != plan.Affinity
}

// restoreUndesired restores what concerns own, the journal has and they do not desire. What one
// concern had restored lately does not put off the others.
func (df *Differ) restoreUndesired(all []concern.Concern, desired []wanted) {
	var order []workload.ID
	of := map[workload.ID]map[uint64]bool{}
	may := map[work.Key]bool{}
	entries := df.Work.Journal.Group("concerns", MayOwn) // of thousands of entries nearly all are of homes
	for i := range entries {
		e := &entries[i]
		k := slices.IndexFunc(all, func(c concern.Concern) bool { return c.Owns(e) })
		if k < 0 || desired[k].has(e) {
			continue
		}
		id := e.Workload
		if df.Work.Undoes(id) || df.Work.Tasks[id] != nil || df.Work.InUseElsewhere(e.Path, id) {
			continue
		}
		key := putBackKey(id, all[k])
		now, asked := may[key]
		if !asked {
			now = df.Work.Again(key)
			may[key] = now
		}
		if !now {
			continue
		}
		if of[id] == nil {
			of[id] = map[uint64]bool{}
			order = append(order, id)
		}
		of[id][e.Seq] = true
	}
	for _, id := range order {
		df.Work.RestoreOnly(id, of[id])
	}
}

// StepEnded has the concerns take up how a step went; nil is success.
func (df *Differ) StepEnded(step *plan.Step, f *work.Failure) {
	sc := df.Scene(true)
	for _, c := range df.Concerns() {
		if c.Ended(sc, step, f) {
			df.Again(c)
		}
	}
}

// Restored reports an entry that is out of the journal to the concerns.
func (df *Differ) Restored(e *plan.Entry) {
	for _, c := range df.Concerns() {
		if r, ok := c.(concern.Restorer); ok {
			r.Restored(df.Scene(true), e)
		}
	}
}

// Looked passes the result of an effect to the concern that asked for it.
func (df *Differ) Looked(r *work.Result) bool {
	sc := df.Scene(true)
	for _, c := range df.Concerns() {
		if l, ok := c.(concern.Looker); ok && l.Looked(sc, r) {
			df.Again(c)
			return true
		}
	}
	return false
}

// Verify has settings read again that scans do not see.
func (df *Differ) Verify() {
	checking := df.Work.Checking()
	of := map[workload.ID][]plan.Entry{}
	sc := df.Scene(false)
	for _, c := range df.Concerns() {
		v, ok := c.(concern.Verifier)
		if !ok {
			continue
		}
		for _, e := range v.Verify(sc) {
			id := e.Workload
			free := !checking[id] && df.Work.Tasks[id] == nil && !df.Work.Undoes(id)
			if e.State == plan.Applied && free && !df.Work.InUseElsewhere(e.Path, id) {
				of[id] = append(of[id], e)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		df.Work.Check(id, of[id])
	}
}
