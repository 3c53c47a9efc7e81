package control

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/caches"
	"github.com/homenode/homenode/core/control/concern/fasttier"
	"github.com/homenode/homenode/core/control/concern/gpus"
	"github.com/homenode/homenode/core/control/concern/interleave"
	"github.com/homenode/homenode/core/control/concern/interrupts"
	"github.com/homenode/homenode/core/control/concern/isolate"
	"github.com/homenode/homenode/core/control/concern/llc"
	"github.com/homenode/homenode/core/control/concern/nextstart"
	"github.com/homenode/homenode/core/control/concern/scheduler"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/concern/swap"
	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/view"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Only this page of control knows single concerns: their memory, their order and their requests.

type (
	sharingConcern    = sharing.Concern
	cachesConcern     = caches.Concern
	schedulerConcern  = scheduler.Concern
	threadsConcern    = threads.Concern
	interruptsConcern = interrupts.Concern
	gpusConcern       = gpus.Concern
	isolateConcern    = isolate.Concern
	llcConcern        = llc.Concern
	fastConcern       = fasttier.Concern
)

// Concerns is what the concerns remember. A checkpoint has their fields among those of State.
type Concerns struct {
	sharingConcern
	cachesConcern
	schedulerConcern
	threadsConcern
	interruptsConcern
	gpusConcern
	isolateConcern
	llcConcern
	fastConcern
}

// concerns returns all of them in the order in which they decide. A later one sees what earlier ones
// have decided, and its steps replace theirs where both give a workload CPUs.
func (s *State) concerns() []concern.Concern {
	c := &s.Concerns
	batch := &c.sharingConcern
	return []concern.Concern{
		batch,
		s.scheduler(),
		caches.Bound{Concern: &c.cachesConcern, Batch: batch},
		nextstart.Concern{},
		llc.Bound{Concern: &c.llcConcern, Mode: s.Settings.Policy.Caches},
		s.threads(),
		gpus.Bound{Concern: &c.gpusConcern, Workers: s.Workers, Divide: s.Settings.Divide,
			Pace: s.Settings.Arrange.MoveBandwidth},
		s.interrupts(),
		swap.Concern{Never: s.Settings.NeverSwap},
		s.fastTier(),
		interleave.Concern{Set: s.Settings.Weights},
		s.isolate(),
	}
}

func (s *State) scheduler() scheduler.Bound {
	return scheduler.Bound{Concern: &s.schedulerConcern, Batch: &s.sharingConcern}
}

func (s *State) threads() threads.Bound {
	return threads.Bound{
		Concern:  &s.threadsConcern,
		Settings: threads.Settings{Divide: s.Settings.Divide, Sample: s.Settings.Sample},
		Batch:    &s.sharingConcern,
		Switched: s.Balances(),
		Links:    s.Links,
		Workers:  s.Workers,
	}
}

func (s *State) interrupts() interrupts.Bound {
	return interrupts.Bound{Concern: &s.interruptsConcern, Mode: s.Settings.Interrupts, Queues: s.Settings.Queues,
		Managers: s.Managers}
}

func (s *State) fastTier() fasttier.Bound {
	return fasttier.Bound{
		Concern:   &s.fastConcern,
		Settings:  s.Settings.Tiers,
		Elsewhere: s.Settings.Base.Protect,
		Pace:      s.Settings.Arrange.MoveBandwidth,
	}
}

func (s *State) isolate() isolate.Bound {
	left := func(number int) bool { return s.interrupts().Moves(number) }
	return isolate.Bound{Concern: &s.isolateConcern, Left: left}
}

// allowIsolated has the host of the newest scan with the CPUs of partitions that homenode made.
func (s *State) allowIsolated() {
	s.Isolated = isolate.CPUs(&s.Journal)
	h := s.Snapshot.Host
	if h == nil || s.Isolated.Empty() {
		return
	}
	with := *h
	with.Allowed = h.Allowed.Union(s.Isolated.Intersect(h.Online))
	s.Snapshot.Host = &with
}

// surveyWanted reports whether a survey has anything to find: isolation costs a file for each interrupt.
func (s *State) surveyWanted(kind SurveyKind) bool {
	if kind != Isolation {
		return true
	}
	return slices.ContainsFunc(s.Subjects, func(x *place.Subject) bool { return x.Spec.Isolated })
}

// surveyConcerns hands a survey to the concern that it is for.
func (s *State) surveyConcerns(in *Survey) {
	switch in.Kind {
	case Interrupts:
		s.interruptsConcern.Found(in.Devices)
		s.differ().Again(s.interrupts())
	case Isolation:
		s.isolateConcern.Found(in.Noise)
	}
}

// newConcerns returns what the concerns remember of what an earlier daemon left.
func newConcerns(settings *Settings, saved *Saved) Concerns {
	return Concerns{
		sharingConcern:    sharing.New(settings.Sharing(), saved.Sharing),
		schedulerConcern:  schedulerConcern{Scheduler: scheduler.Scheduler{SchedulerState: saved.Scheduler}},
		threadsConcern:    threads.New(),
		gpusConcern:       gpus.New(),
		interruptsConcern: interruptsConcern{Fixed: map[string]bool{}},
		isolateConcern:    isolate.New(),
	}
}

// resumeConcerns gives the concerns of a checkpoint their settings again.
func (s *State) resumeConcerns() { s.sharingConcern.Configure(s.Settings.Sharing()) }

// orderConcerns hands a request to the concern that it is for, and reports whether there is one.
func (s *State) orderConcerns(r *Request) bool {
	sc := s.scene(true)
	switch {
	case r.Share != nil:
		off := !r.DryRun && s.sharingConcern.Turn(sc, r.Share.On)
		s.reply(Reply{ID: r.ID, Share: &ShareOrder{On: r.Share.On}})
		if off {
			s.differ().RestoreAtOnce(s.scheduler())
		}
	case r.Upgrade != nil:
		s.scheduler().Upgrade(sc, r.ID, *r.Upgrade, r.DryRun)
		s.differ().Again(s.scheduler())
	default:
		return false
	}
	return true
}

// holdConcerns reports to concerns what is held from now on.
func (s *State) holdConcerns(which Which) {
	if which.Has(share.SchedulerID) {
		s.scheduler().Hold(s.scene(true))
	}
}

// answered puts the answer of a concern into a reply.
func answered(r *Reply, answer any) {
	if upgraded, ok := answer.(*Upgraded); ok {
		r.Upgrade = upgraded
	}
}

// SavedConcerns is what an earlier daemon left on disk of the concerns.
type SavedConcerns struct {
	Sharing   SavedSharing
	Scheduler share.SchedulerState
}

// afterBoot returns the part that survives a restart of the machine, and puts changed values into values.
func (c SavedConcerns) afterBoot(values map[string]any) SavedConcerns {
	was := &c.Scheduler
	if was.Runs == "" && was.Failures == 0 && len(was.Loads) == 0 {
		return c
	}
	c.Scheduler = share.SchedulerState{Chosen: was.Chosen, Beside: was.Beside}
	values[KeyScheduler] = c.Scheduler
	return c
}

func (s *State) showConcerns() view.ConcernViews {
	v := view.ConcernViews{
		Sharing:       s.sharingConcern.Now(),
		Scheduler:     s.Scheduler,
		Devices:       s.Devices,
		WorkersBefore: maps.Clone(s.gpusConcern.Before),
		Cached:        s.Cached,
		Tiered:        s.Tiered,
	}
	for _, e := range threads.Divided(&s.Journal) {
		for _, part := range s.Observed(e.Workload) {
			if v.Divided == nil {
				v.Divided = map[workload.ID][]topology.CPUSet{}
			}
			if v.Divided[part] == nil {
				_, v.Divided[part] = threads.DividedOf(&s.Journal, e.Workload)
			}
		}
	}
	return v
}

// toldOf has the prefixes of lines that history has once for each living workload.
var toldOf = []string{sharing.ToldFrozen, sharing.ToldGoal}

// forgetGone has the concerns forget workloads that are gone.
func (s *State) forgetGone(gone func(workload.ID) bool) {
	s.threadsConcern.Forget(gone)
	s.gpusConcern.Forget(gone)
	s.llcConcern.Forget(gone)
	s.fastConcern.Forget(gone)
}

// Names that callers of control use for what concerns have.
type (
	SavedSharing  = sharing.Saved
	ShareOrder    = sharing.Order
	CacheUse      = sharing.CacheUse
	UpgradeOrder  = scheduler.Order
	Upgraded      = scheduler.Upgraded
	InterruptMode = interrupts.Mode
	TierSettings  = fasttier.Settings
	TierMode      = fasttier.Mode
	Protection    = fasttier.Protection

	WorkersMeasure = gpus.Measure
)

// MeasureWorkers returns what is measured of the workers of a workload; false while their memory has not been read.
func MeasureWorkers(o *workload.Observation, workers []inside.Worker) (WorkersMeasure, bool) {
	return gpus.MeasureOf(o, workers)
}

// Keys of what concerns have on disk, and the workload that stands for NUMA balancing.
const (
	KeySharing       = sharing.Key
	KeyGoals         = sharing.GoalsKey
	KeyScheduler     = scheduler.Key
	BalancingID      = threads.BalancingID
	IsolationID      = isolate.ID
	InterruptsOff    = interrupts.Off
	InterruptsReport = interrupts.Report
	InterruptsPlace  = interrupts.Place
	TiersOff         = fasttier.Off
	TiersReport      = fasttier.Report
	TiersPlace       = fasttier.Place
	ProtectLow       = fasttier.Low
	ProtectMin       = fasttier.Min
)
