package control

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// putBack is the retry of restoring what a concern no longer desires of a workload.
const putBack = "put back"

func putBackKey(id workload.ID, c concern.Concern) stepKey {
	return stepKey{Workload: id, Kind: plan.SetCgroup, To: putBack, Device: c.Name()}
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

// reconcile asks every concern what should stand, adds the steps to it to the plan, and restores
// what no concern desires any longer.
func (s *State) reconcile() {
	all := s.concerns()
	desired := make([]wanted, len(all))
	sc := s.scene(false)
	for i, c := range all {
		d := c.Decide(sc)
		desired[i] = wantedOf(&d)
		s.plan(d.Settings)
		d.Amend(&s.Plan)
	}
	if s.acts() {
		s.restoreUndesired(all, desired)
		s.restoreControllers()
	}
}

// restoreControllers turns controllers off that were turned on for files of cgroups, once the journal
// has no such file below: the cgroups have ended, or homenode ended while it restored them.
func (s *State) restoreControllers() {
	all := s.Journal.All()
	for i := range all {
		e := &all[i]
		if !e.Kind.IsController() || e.Kind == plan.CgroupControllers { // homes need that one, too
			continue
		}
		needed := slices.ContainsFunc(all, func(x plan.Entry) bool {
			needs := x.Kind.IsCgroupFile() || x.Kind == e.Kind
			return needs && work.Inside(x.Path, e.Path)
		})
		id := e.Workload
		if needed || s.Undoes(id) || s.Tasks[id] != nil {
			continue
		}
		if s.Again(stepKey{Workload: id, Kind: plan.SetCgroup, To: putBack, Device: e.Path}) {
			s.RestoreOnly(id, map[uint64]bool{e.Seq: true})
		}
	}
}

// decideAgain acts on what a concern desires between two scans.
func (s *State) decideAgain(c concern.Concern) {
	d := c.Decide(s.scene(true))
	if !s.acts() {
		return
	}
	var steps []plan.Step
	for i := range d.Settings {
		if x := &d.Settings[i]; x.Now && s.due(x) {
			steps = append(steps, x.Step)
		}
	}
	for _, group := range work.Grouped(steps) {
		id := group[0].Workload
		if s.Tasks[id] == nil && !s.Undoes(id) && !s.Holds.Has(id) {
			s.Begin(id, &Task{Steps: group, Scan: s.Seen})
		}
	}
	if s.Seen > 0 { // before, a concern knows nothing that it could desire
		s.restoreUndesired([]concern.Concern{c}, []wanted{wantedOf(&d)})
	}
}

// restoreAtOnce restores what a concern no longer desires, whatever was tried lately: the user asked for it.
func (s *State) restoreAtOnce(c concern.Concern) {
	maps.DeleteFunc(s.Retries, func(key stepKey, _ retry) bool { return key == putBackKey(key.Workload, c) })
	s.decideAgain(c)
}

// plan adds the steps that make desires stand.
func (s *State) plan(desires []concern.Desire) {
	givesCPUs := map[workload.ID]bool{}
	var steps []plan.Step
	for i := range desires {
		d := &desires[i]
		if d.Step.Kind == plan.SetCPUs {
			givesCPUs[d.Step.Workload] = true
		}
		if !s.due(d) {
			continue
		}
		if o := s.Observation(d.Step.Workload); o != nil { // memory stays where it is
			now, _, _ := o.LocalShare()
			d.Step.Gain = plan.Gain{LocalityBefore: now, LocalityAfter: now}
		}
		steps = append(steps, d.Step)
	}
	if len(givesCPUs) > 0 {
		s.Plan.Steps = slices.DeleteFunc(s.OwnSteps(), func(x plan.Step) bool { return x.Kind == plan.SetCPUs && givesCPUs[x.Workload] })
	}
	if len(steps) > 0 {
		s.Plan.Steps = append(s.OwnSteps(), steps...)
	}
}

// due reports whether a desire does not stand.
func (s *State) due(d *concern.Desire) bool {
	switch {
	case d.Only, d.Stands == concern.Yes:
		return false
	case d.Stands == concern.No:
		return true
	}
	e := s.Journal.Of(d.Kind, d.Path)
	if e == nil || !concern.Same(e, d.Object) {
		unset, known := plan.CgroupFiles[d.Kind]
		return !known || d.Step.To != unset
	}
	return e.State != plan.Applied || e.New != d.Step.To
}

// restoreUndesired restores what concerns own, the journal has and they do not desire. What one
// concern had restored lately does not put off the others.
func (s *State) restoreUndesired(all []concern.Concern, desired []wanted) {
	var order []workload.ID
	of := map[workload.ID]map[uint64]bool{}
	may := map[stepKey]bool{}
	entries := s.Journal.All()
	for i := range entries {
		e := &entries[i]
		k := slices.IndexFunc(all, func(c concern.Concern) bool { return c.Owns(e) })
		if k < 0 || desired[k].has(e) {
			continue
		}
		id := e.Workload
		if s.Undoes(id) || s.Tasks[id] != nil || s.InUseElsewhere(e.Path, id) {
			continue
		}
		key := putBackKey(id, all[k])
		now, asked := may[key]
		if !asked {
			now = s.Again(key)
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
		s.RestoreOnly(id, of[id])
	}
}

// stepEnded has the concerns take up how a step went; nil is success.
func (s *State) stepEnded(step *plan.Step, f *Failure) {
	sc := s.scene(true)
	for _, c := range s.concerns() {
		if c.Ended(sc, step, f) {
			s.decideAgain(c)
		}
	}
	s.Trials.StepEnded(s.trials(), step.Workload, step.To, f)
}

// wasRestored tells the concerns of an entry that is out of the journal.
func (s *State) wasRestored(e *plan.Entry) {
	for _, c := range s.concerns() {
		if r, ok := c.(concern.Restorer); ok {
			r.Restored(s.scene(true), e)
		}
	}
}

// looked passes the result of an effect to the concern that asked for it.
func (s *State) looked(r *Result) bool {
	sc := s.scene(true)
	for _, c := range s.concerns() {
		if l, ok := c.(concern.Looker); ok && l.Looked(sc, r) {
			s.decideAgain(c)
			return true
		}
	}
	return false
}

// verify has settings read again that scans do not see.
func (s *State) verify() {
	checking := s.Checking()
	of := map[workload.ID][]plan.Entry{}
	sc := s.scene(false)
	for _, c := range s.concerns() {
		v, ok := c.(concern.Verifier)
		if !ok {
			continue
		}
		for _, e := range v.Verify(sc) {
			id := e.Workload
			free := !checking[id] && s.Tasks[id] == nil && !s.Undoes(id)
			if e.State == plan.Applied && free && !s.InUseElsewhere(e.Path, id) {
				of[id] = append(of[id], e)
			}
		}
	}
	for _, id := range sortedKeys(of) {
		s.Check(id, of[id])
	}
}

// scene returns the host as concerns see it. between is true where no scan has just ended.
func (s *State) scene(between bool) *concern.Scene {
	return &concern.Scene{
		At:       s.At,
		Began:    s.Began,
		Snapshot: &s.Snapshot,
		Subjects: s.Subjects,
		Plan:     &s.Plan,
		Policy:   &s.Facts.Policy,
		Facts:    &s.Facts,
		Claims:   s.Claims,
		Journal:  &s.Journal,
		Enforce:  s.Settings.Enforce,
		Acts:     s.acts(),
		Stopping: s.Stopping,
		Between:  between,
		Loop:     loop{s},
	}
}

// loop implements concern.Loop.
type loop struct{ s *State }

func (l loop) Observation(id workload.ID) *workload.Observation { return l.s.Observation(id) }
func (l loop) Observed(id workload.ID) []workload.ID            { return l.s.Observed(id) }
func (l loop) Start(o *workload.Observation) uint64             { return scene.StartOf(o) }
func (l loop) Homes() []workload.Placement                      { return l.s.Placements() }
func (l loop) Held(id workload.ID) bool                         { return l.s.Holds.Has(id) }
func (l loop) AllHeld() bool                                    { return l.s.Holds.All }
func (l loop) Busy(id workload.ID) bool                         { return l.s.Tasks[id] != nil }
func (l loop) Undoes(id workload.ID) bool                       { return l.s.Undoes(id) }
func (l loop) Halted() words.Reason                             { return l.s.Halted }
func (l loop) RetryOf(key work.Key) work.Retry                  { return l.s.Retries[key] }
func (l loop) Later(at time.Time) bool                          { return l.s.Later(at) }
func (l loop) Again(key work.Key) bool                          { return l.s.Again(key) }
func (l loop) Over(key string)                                  { l.s.over(key) }
func (l loop) Save(key string, value any)                       { l.s.save(key, value) }
func (l loop) Ask(e work.Effect) uint64                         { return l.s.Effect(e) }
func (l loop) SurveyAgain(kind work.SurveyKind)                 { l.s.surveyAgain(kind) }
func (l loop) Asked() uint64                                    { return l.s.Effects }

func (l loop) OwnCgroup(o *workload.Observation) string { return l.s.OwnCgroup(o) }

func (l loop) Changing(id workload.ID) bool { return l.s.Work.Changing(id) }

func (l loop) LeftAlone(o *workload.Observation, names []string) words.Reason {
	return l.s.leave(o, names)
}

func (l loop) Redefines(whole workload.ID) bool {
	for id, t := range l.s.Tasks {
		if id.Is(whole) && (t.Request != 0 || t.Step().Kind == plan.SetNext) {
			return true
		}
	}
	return l.s.Work.Changing(whole)
}

func (l loop) Settled(id workload.ID) bool { return !l.s.Work.Changing(id) && l.s.Fresh(id) }

func (l loop) Retries(f func(work.Key, work.Retry)) {
	for key, r := range l.s.Retries {
		f(key, r)
	}
}

func (l loop) Event(e plan.Event, code words.Code, args ...any) { l.s.event(e, code, args...) }

func (l loop) Order(id workload.ID, code words.Code, args ...any) { l.s.order(id, code, args...) }

func (l loop) Once(key string, e plan.Event, code words.Code, args ...any) {
	l.s.once(key, e, code, args...)
}

func (l loop) Reply(id uint64, f *work.Failure, answer any) {
	r := Reply{ID: id, Failed: f}
	answered(&r, answer)
	l.s.reply(r)
}

func (l loop) Adopt(id workload.ID, kind plan.SettingKind, path, value string) {
	s := l.s
	if e := s.Journal.Of(kind, path); e != nil {
		s.Mark(e, plan.Applied)
		return
	}
	s.Seq++
	s.Put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: id, Kind: kind, Path: path, New: value, State: plan.Applied})
}
