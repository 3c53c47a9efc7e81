package upkeep

import (
	"slices"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Check asks after settings that do not read in a scan as homenode set them: did another
// program set them, or are CPUs missing that homenode set?
func (h *Host) Check() {
	checking := h.Work.Checking()
	var texts setTexts
	// What read as it should still does while neither it nor the journal has changed.
	readings := h.Scene.Readings()
	reads, same := readings.Right, readings.Changes == h.Work.Journal.Changes()
	for i := range h.Scene.Snapshot.Observations {
		if reads[i] && same {
			continue
		}
		o := &h.Scene.Snapshot.Observations[i]
		// Of several cgroups, what they may use together says nothing of one: who has set
		// theirs is found when a step reads them.
		reads[i] = o.Kind != workload.InCgroup || len(h.Scene.SeenAs[o.ID]) > 1
		busy := checking[o.ID] || h.Work.Tasks[o.ID] != nil
		if reads[i] || busy || !h.Work.Fresh(o.ID) {
			continue
		}
		if h.Work.InUseElsewhere(scene.CgroupPath(o), o.ID) {
			continue
		}
		reads[i] = h.checkSetting(o, &texts)
	}
	readings.Changes = h.Work.Journal.Changes()
}

// checkSetting asks after the CPU set of a cgroup if that does not read as homenode set it, and reports
// whether it does.
func (h *Host) checkSetting(o *workload.Observation, texts *setTexts) bool {
	e := h.Work.Journal.Of(plan.CgroupCPUs, scene.CgroupPath(o))
	if e != nil && !o.SameCgroup(e.Object) {
		h.Work.Mark(e, plan.Gone)
		return false
	}
	ours := e != nil && e.State == plan.Applied && e.Workload == o.ID
	if !ours || texts.of(o.CPUs) == e.New {
		delete(h.Work.Narrowed, o.ID)
		return true
	}
	left, ok := h.Work.Narrowed[o.ID]
	if ok && left.Equal(o.CPUs) {
		h.Work.TellNarrowed(o, e)
		return false
	}
	h.Work.Check(o.ID, []plan.Entry{*e})
	return false
}

// setTexts is the texts of the CPU sets met last: thousands of workloads have one of a few.
type setTexts struct {
	sets  []topology.CPUSet
	texts []string
}

func (t *setTexts) of(cpus topology.CPUSet) string {
	k := slices.IndexFunc(t.sets, cpus.Equal)
	if k >= 0 {
		return t.texts[k]
	}
	if len(t.sets) == 16 {
		t.sets, t.texts = t.sets[:0], t.texts[:0]
	}
	t.sets, t.texts = append(t.sets, cpus), append(t.texts, cpus.String())
	return t.texts[len(t.texts)-1]
}
