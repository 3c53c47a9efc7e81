package switchback

import (
	"slices"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// kernelValues is values of settings of the kernel, by what they are journalled under.
type kernelValues map[workload.ID]string

// CachesID stands for the kernel's cache-aware scheduling where a trial has switched it.
const CachesID workload.ID = "cache-aware-scheduling"

// kernelArm is an arm that a setting of the kernel makes. A trial with this arm has the setting
// at 1 there, at 0 in the other arms without homenode, and as found in the arm on.
type kernelArm struct {
	arm     trial.Arm
	id      workload.ID // that the setting is journalled under
	file    string      // below the root
	name    string
	refused words.Code // why a trial ends when the kernel does not take a value
}

var kernelArms = []kernelArm{
	{trial.Balancing, threads.BalancingID, hostprep.NUMABalancing, "kernel.numa_balancing", words.TrialNotBalanced},
	{trial.Caches, CachesID, hostprep.CacheAware, "cache-aware scheduling", words.TrialNotCaches},
}

// setKernel sets the kernel's settings as the arm wants them, or as they were found.
// What is under way there ends first; it is asked again at each scan.
func (s *Trials) setKernel(h *Host) {
	t := s.Trial
	for _, k := range kernelArms {
		if !slices.Contains(t.Kernel, k.arm) || h.Work.Tasks[k.id] != nil || h.Work.Undoes(k.id) {
			continue
		}
		if t.Arm == trial.On {
			s.restoreKernel(h, &k)
			continue
		}
		want := "0"
		if t.Arm == k.arm {
			want = "1"
		}
		if want == t.Written[k.id] && want == t.Stands[k.id] {
			continue
		}
		t.Written[k.id] = want
		h.Work.Begin(k.id,
			&work.Task{Steps: []plan.Step{{Kind: plan.SetFile, Workload: k.id,
				Target: plan.Target{Kind: workload.InHost, Host: k.file}, To: want, Optional: true,
				Reason: words.Because(words.TrialArm, t.Name, string(t.Arm))}}, Scan: h.Scan})
	}
}

// restoreKernel restores what the trial has written, until it is restored. What homenode itself has
// set under the same ID stays: the trial has written nothing then.
func (s *Trials) restoreKernel(h *Host, k *kernelArm) {
	t := s.Trial
	e := h.Work.Journal.Of(plan.HostFile, k.file)
	switch {
	case t.Written[k.id] == "":
	case e == nil || e.Workload != k.id:
		delete(t.Written, k.id)
		delete(t.Stands, k.id)
	case h.Work.Again(work.Key{Workload: k.id, Kind: plan.SetFile}):
		h.Work.RestoreOnly(k.id, map[uint64]bool{e.Seq: true})
	}
}

// StepEnded notes what came of a write of a setting of the kernel. An arm that the kernel refuses
// would be measured as if it stood, so the trial ends.
func (s *Trials) StepEnded(h *Host, id workload.ID, to string, f *work.Failure) {
	i := slices.IndexFunc(kernelArms, func(k kernelArm) bool { return k.id == id })
	t := s.Trial
	if i < 0 || t == nil || t.Written[id] != to || t.Ending != nil {
		return
	}
	if f != nil && f.Code != work.Cancelled {
		s.end(h, words.Because(kernelArms[i].refused, f.Text))
		return
	}
	if f == nil {
		t.Stands[id] = to
		s.save(h)
	}
}

// setsKernel reports whether a setting of the kernel that trials switch is being written or restored.
func (s *Trials) setsKernel(h *Host) bool {
	return slices.ContainsFunc(kernelArms, func(k kernelArm) bool {
		return h.Work.Tasks[k.id] != nil ||
			h.Work.Undoes(k.id)
	})
}
