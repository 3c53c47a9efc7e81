package control

import (
	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/caches"
	"github.com/homenode/homenode/core/control/concern/scheduler"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// This page is all that control knows of single concerns: what they remember, their order, and who
// is asked for what.

type (
	sharingConcern   = sharing.Concern
	cachesConcern    = caches.Concern
	schedulerConcern = scheduler.Concern
	threadsConcern   = threads.Concern
)

// Concerns is what the concerns remember. A checkpoint has their fields among those of State.
type Concerns struct {
	sharingConcern
	cachesConcern
	schedulerConcern
	threadsConcern
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
		threads.Bound{Concern: &c.threadsConcern, Settings: threads.Settings{Divide: s.Settings.Divide, Sample: s.Settings.Sample}, Batch: batch, Switched: s.trialBalances()},
	}
}

func (s *State) scheduler() scheduler.Bound {
	return scheduler.Bound{Concern: &s.schedulerConcern, Batch: &s.sharingConcern}
}

// newConcerns returns what the concerns remember of what an earlier daemon left.
func newConcerns(settings *Settings, saved *Saved) Concerns {
	return Concerns{
		sharingConcern:   sharing.New(settings.sharing(), saved.Sharing),
		schedulerConcern: schedulerConcern{Scheduler: scheduler.Scheduler{SchedulerState: saved.Scheduler}},
		threadsConcern:   threads.New(),
	}
}

func (s *Settings) sharing() sharing.Settings { return sharing.Settings{Share: s.Share, Base: s.Base} }

// resumeConcerns gives the concerns of a checkpoint their settings again.
func (s *State) resumeConcerns() { s.sharingConcern.Configure(s.Settings.sharing()) }

// orderConcerns hands a request to the concern that it is for, and reports whether there is one.
func (s *State) orderConcerns(r *Request) bool {
	sc := s.scene(true)
	switch {
	case r.Share != nil:
		off := !r.DryRun && s.sharingConcern.Turn(sc, r.Share.On)
		s.reply(Reply{ID: r.ID, Share: &ShareOrder{On: r.Share.On}})
		if off {
			s.decideAgain(s.scheduler())
		}
	case r.Upgrade != nil:
		s.scheduler().Upgrade(sc, r.ID, *r.Upgrade, r.DryRun)
		s.decideAgain(s.scheduler())
	default:
		return false
	}
	return true
}

// answered puts the answer of a concern into a reply.
func answered(r *Reply, answer any) {
	if upgraded, ok := answer.(*Upgraded); ok {
		r.Upgrade = upgraded
	}
}

// forgetGone has the concerns forget workloads that are gone.
func (s *State) forgetGone(gone func(workload.ID) bool) { s.threadsConcern.Forget(gone) }

// Names that callers of control use for what concerns have.
type (
	Sharing      = sharing.View
	SavedSharing = sharing.Saved
	ShareOrder   = sharing.Order
	LeftAlone    = sharing.LeftAlone
	CacheUse     = sharing.CacheUse
	Caching      = caches.Caching
	Scheduler    = scheduler.Scheduler
	UpgradeOrder = scheduler.Order
	Upgraded     = scheduler.Upgraded
)

// Keys of what concerns have on disk, and the workload that stands for NUMA balancing.
const (
	KeySharing   = sharing.Key
	KeyScheduler = scheduler.Key
	BalancingID  = threads.BalancingID
)

func (s *State) divided() []plan.Entry { return threads.Divided(&s.Journal) }
