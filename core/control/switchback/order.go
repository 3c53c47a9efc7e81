package switchback

import (
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Obey begins, switches, renews or ends a trial.
func (s *Trials) Obey(h *Host, in *Order) *work.Failure {
	t := s.Trial
	back := t != nil && t.Name == in.Name && t.Ending != nil && t.Ending.Code == words.TrialLeft
	switch {
	case in.Name == "":
		return work.Refuse(work.BadRequest, words.BadValue, "name", "", "the name of the trial")
	case t != nil && t.Name != in.Name && t.Ending == nil:
		return work.Refuse(work.Forbidden, words.TrialRuns, t.Name)
	case in.End:
		if t != nil && t.Ending == nil {
			s.end(h, words.Because(words.TrialEndOrdered))
		}
		return nil
	case t != nil && t.Ending != nil && !back:
		return work.Refuse(work.Gone, words.TrialIsOver, t.Name, *t.Ending)
	case !h.Enforce:
		return work.Refuse(work.Forbidden, words.TrialObserves)
	}
	if _, err := trial.ParseArm(string(in.Arm)); err != nil {
		return &work.Failure{Code: work.BadRequest, Text: "arm: " + err.Error()}
	}
	if in.Lease < LeastLease || in.Lease > MostLease {
		return work.Refuse(work.BadRequest, words.BadValue, "lease_s", int64(in.Lease/time.Second), "5 to 3600")
	}
	if t == nil && !in.Begin {
		if over := s.TrialOver; over != nil && over.Name == in.Name {
			return work.Refuse(work.Gone, words.TrialIsOver, in.Name, over.Why)
		}
		return work.Refuse(work.NotFound, words.TrialNotRunning, in.Name)
	}
	if t == nil {
		if f := s.begin(h, in); f != nil {
			return f
		}
		t = s.Trial
	}
	t.Ending = nil // its program may be back before everything is restored
	if t.Arm != in.Arm {
		s.to(h, in.Arm)
	}
	t.Until = h.Work.At.Add(in.Lease).Round(0)
	t.Block = in.Block
	t.Blocks = in.Blocks
	s.save(h)
	return nil
}

// begin checks what a trial is about. Its first arm is on: nothing is changed yet.
func (s *Trials) begin(h *Host, in *Order) *work.Failure {
	if h.Holds.All {
		return work.Refuse(work.Forbidden, words.AllHeldFirst)
	}
	names := slices.Clone(in.Names)
	for i, name := range names {
		if strings.ContainsAny(name, "*?[{") {
			if len(h.Matching([]string{name})) == 0 {
				return work.Refuse(work.NotFound, words.TrialMatchesNone, name)
			}
			continue
		}
		id, f := h.Find(workload.ID(name))
		if f != nil {
			return f
		}
		if h.Holds.Has(id) {
			return work.Refuse(work.Forbidden, words.TrialHeld, string(id), string(id))
		}
		names[i] = string(id)
	}
	for _, k := range kernelArms {
		if e := h.Work.Journal.Of(plan.HostFile, k.file); slices.Contains(in.Kernel, k.arm) && e != nil &&
			e.Workload != k.id {
			return work.Refuse(work.Forbidden, words.TrialKernelTaken, k.name, string(e.Workload), string(e.Workload),
				string(k.arm))
		}
	}
	s.Trial = &Trial{Name: in.Name, Arm: trial.On, Names: names, Kernel: slices.Clone(in.Kernel),
		Began: h.Work.At.Round(0), Since: h.Work.At.Round(0), Scan: h.Work.Scans, By: h.By,
		Holds: work.Holds{IDs: map[workload.ID]bool{}}, Written: kernelValues{}, Stands: kernelValues{}}
	s.TrialOver = nil
	for _, k := range kernelArms {
		delete(h.Work.Retries, work.Key{Workload: k.id, Kind: plan.SetFile}) // of a write before the trial
	}
	if h.By != nil {
		h.Order("", words.TrialOrdered, in.Name)
	}
	return nil
}
