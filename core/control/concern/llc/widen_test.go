package llc

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// put has workloads kept in caches, by the choice of an earlier scan.
func (h *host) put(caches ...topology.CacheID) {
	h.scan(0)
	for i, c := range caches {
		h.scene.Plan.Placements[i].Caches = topology.SetOf(c)
		h.concern.CacheCalm[h.scene.Plan.Placements[i].Workload].Chosen = true
	}
}

// TestWaits: work waits from exactly where it fills its CPUs and has threads for more, and from the share of its time
// that it may wait.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		use, waited float64
		threads     int
		from        workload.Source
		want        bool
	}{
		{demand.Fills * 4, 0, 0, workload.PSI, true},
		{demand.Fills*4 - 0.01, 0, 0, workload.PSI, false},
		{4, 0, 4, workload.PSI, false}, // each thread has a CPU
		{4, 0, 5, workload.PSI, true},
		{4, 0, 3, workload.PSI, true}, // it starts and ends threads
		{4, waitsFrom, 4, workload.PSI, true},
		{1, waitsFrom, 0, workload.PSI, true},
		{1, waitsFrom - 0.001, 0, workload.PSI, false},
		{1, 1, 0, "", false}, // nothing counts it
	} {
		o := workload.Observation{CPUUse: c.use, Waited: c.waited, WaitedFrom: c.from, Threads: c.threads}
		x := &kept{Subject: &place.Subject{Observation: o}, calm: new(Calm)}
		if got := x.waits(4); got != c.want {
			t.Errorf("uses %.2f of 4 CPUs with %d threads, waits %.3f: %v, want %v", c.use, c.threads, c.waited, got, c.want)
		}
	}
}

// TestThreadForEachCPU: work with a busy thread for each CPU of a cache stays there; with one more it leaves.
func TestThreadForEachCPU(t *testing.T) {
	h := on(t, plan.CachesPlace, 4)
	h.uses(0, 4, 0)
	h.scene.Subjects[0].Observation.Threads = 4
	h.scan(0)
	code(t, h.scan(calmFor), "a", words.CacheChosen)
	for range 20 {
		code(t, h.scan(2*time.Second), "a", words.CacheKept)
	}
	h.in(0, "0")
	h.scene.Subjects[0].Observation.Threads = 5
	code(t, h.scan(2*time.Second), "a", words.CacheWidened)
}

// TestWidensWithoutCPUs: work whose cache has no CPU left gets all of its node though no CPU idles there; work whose
// cache has one does not.
func TestWidensWithoutCPUs(t *testing.T) {
	for _, c := range []struct {
		name string
		took topology.CPUSet
		idle float64 // CPUs of the other caches
		want words.Code
	}{
		{"no CPU left", topology.CPUs(0, 1, 2, 3), 0, words.CacheWidened},
		{"one CPU left", topology.CPUs(0, 1, 2), 0, words.CacheNodeBusy},
		{"one CPU left, others idle", topology.CPUs(0, 1, 2), 0.5, words.CacheWidened},
		{"one CPU left, others idle a little", topology.CPUs(0, 1, 2), 0.25, words.CacheNodeBusy},
	} {
		h := on(t, plan.CachesPlace, 1, 4, 4, 4)
		h.put(0, 1, 2, 3)
		h.uses(0, 1, 0.5)
		for i := 1; i < 4; i++ {
			h.uses(i, 4, 0)
		}
		h.uses(3, 4-c.idle, 0)
		h.scene.Plan.Placements = append(h.scene.Plan.Placements, plan.Placement{
			Workload: "z", Class: workload.Dedicated, Home: topology.Nodes(0), CPUs: c.took,
		})
		out := h.scan(time.Second)
		t.Run(c.name, func(t *testing.T) { code(t, out, "a", c.want) })
	}
}

// TestWidenedCountsElsewhere: widened work runs on all of its node from then on, so that fewer CPUs idle for the next
// workload.
func TestWidenedCountsElsewhere(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 4)
	h.put(0, 1)
	h.uses(0, 4, 0.2)
	h.uses(1, 4, 0.2)
	out := h.scan(time.Second)
	for i, want := range map[workload.ID]float64{"a": 12 - 4, "b": 12 - 3} {
		code(t, out, i, words.CacheWidened)
		args := out.Why[i].Args
		if got := args[len(args)-1]; got != want {
			t.Errorf("%s: %v CPUs idle elsewhere, want %v", i, got, want)
		}
	}
}

// TestAloneIsNotCrowded: work that is alone in a cache, or was left alone there in the same scan, stays.
func TestAloneIsNotCrowded(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 4)
	h.put(0, 0)
	h.uses(0, 1, 0.9) // widened
	h.uses(1, 2.4, 0)
	h.scene.Subjects[1].Observation.Threads = 30 // wants nearly five at times
	out := h.scan(time.Second)
	code(t, out, "a", words.CacheWidened)
	code(t, out, "b", words.CacheKept)
	h.in(1, "0")
}

// TestCrowdedSays: the reason to leave a cache has what its work wants, which is more than its CPUs.
func TestCrowdedSays(t *testing.T) {
	h := on(t, plan.CachesPlace, 2, 2, 2)
	h.put(0, 0, 0)
	for i := range 3 {
		h.uses(i, 1.5, 0)
		h.scene.Subjects[i].Observation.Threads = 4
	}
	out := h.scan(time.Second)
	code(t, out, "c", words.CacheCrowded)
	wants, cpus := out.Why["c"].Args[1], out.Why["c"].Args[2]
	if w, ok := wants.(float64); !ok || w < 5 || w > 8 || cpus != 4 {
		t.Errorf("the work of the cache wants %v of %v CPUs", wants, cpus)
	}
}

// TestBookedStaysAtFirst: what its bookings put into a cache is measured before caches are chosen again.
func TestBookedStaysAtFirst(t *testing.T) {
	h := on(t, plan.CachesPlace, 2)
	h.uses(0, 1, 0)
	h.scene.Plan.Placements[0].Caches = topology.SetOf(topology.CacheID(3))
	code(t, h.scan(0), "a", words.CacheKept)
	code(t, h.scan(calmFor-time.Second), "a", words.CacheKept)
	code(t, h.scan(time.Second), "a", words.CacheChosen)
	code(t, h.scan(time.Hour), "a", words.CacheKept)
}

// TestKernelKeepsFromTheStart: work that the kernel keeps in one cache is never kept by homenode, also where it is
// as large as a cache.
func TestKernelKeepsFromTheStart(t *testing.T) {
	for vcpus, want := range map[int]words.Code{2: words.CacheKernel, 4: words.CacheKernel, 5: words.CacheChosen} {
		h := on(t, plan.CachesPlace, vcpus)
		h.scene.Snapshot.CacheAware = topology.CacheAware{State: topology.CacheAwareOn}
		o := &h.scene.Subjects[0].Observation
		o.Kind, o.Processes = workload.InCgroup, []workload.Process{{PID: 7}}
		h.uses(0, 0.5, 0)
		h.scan(0)
		code(t, h.scan(2*calmFor), "a", want)
	}
}
