package llc

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// host is a scene that scans follow one another on.
type host struct {
	t       *testing.T
	concern Concern
	mode    plan.CacheMode
	at      time.Time
	scene   *concern.Scene
}

// loop answers that nothing is held, and that the observer has the names that homenode has.
type loop struct{ concern.Loop }

func (loop) Held(workload.ID) bool                 { return false }
func (loop) Observed(id workload.ID) []workload.ID { return []workload.ID{id} }

// on is a host with shared work of so many vCPUs each, on node 0 with four caches of four CPUs.
func on(t *testing.T, mode plan.CacheMode, vcpus ...int) *host {
	h := &host{t: t, mode: mode, at: time.Unix(1_000_000, 0)}
	machine := plantest.Draw("0 0-15 8G 10 llc=4\n")
	h.scene = &concern.Scene{
		Snapshot: &workload.Snapshot{Host: machine}, Plan: &plan.Plan{}, Policy: &plan.Policy{Caches: mode}, Loop: loop{},
	}
	for i, n := range vcpus {
		id := workload.ID(rune('a' + i))
		h.scene.Plan.Placements = append(h.scene.Plan.Placements, plan.Placement{
			Workload: id, Class: workload.Shared, VCPUs: n, Home: topology.Nodes(0), CPUs: machine.Online,
		})
		h.scene.Subjects = append(h.scene.Subjects, &place.Subject{
			Spec: workload.Spec{ID: id, Class: workload.Shared}, Observation: workload.Observation{ID: id, CPUs: machine.Online},
		})
	}
	return h
}

// scan passes time and decides; the decisions hold from then on.
func (h *host) scan(pass time.Duration) concern.Desired {
	h.at = h.at.Add(pass)
	h.scene.Began = h.at
	out := Bound{Concern: &h.concern, Mode: h.mode}.Decide(h.scene)
	for i := range h.scene.Plan.Placements {
		p := &h.scene.Plan.Placements[i]
		if to, ok := out.Caches[p.Workload]; ok {
			p.Caches, p.CPUs = to.Caches, to.CPUs
		}
	}
	return out
}

func (h *host) uses(i int, cpus, waited float64) {
	o := &h.scene.Subjects[i].Observation
	o.CPUUse, o.Waited, o.WaitedFrom = cpus, waited, workload.PSI
}

func (h *host) in(i int, want string) {
	h.t.Helper()
	if got := h.scene.Plan.Placements[i].Caches.String(); got != want {
		h.t.Errorf("%s is in caches %q, want %q", h.scene.Plan.Placements[i].Workload, got, want)
	}
}

func code(t *testing.T, out concern.Desired, id workload.ID, want words.Code) {
	t.Helper()
	if got := out.Why[id].Code; got != want {
		t.Errorf("%s: %s, want %s", id, got, want)
	}
}

// TestNarrows: calm work gets the fewest caches with room, each its own while there are enough.
func TestNarrows(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 3, 6)
	for i := range 3 {
		h.uses(i, 1, 0)
	}
	code(t, h.scan(0), "a", words.CacheSoon)
	h.in(0, "")
	out := h.scan(calmFor)
	code(t, out, "a", words.CacheChosen)
	if len(out.Settings) != 3 || out.Settings[0].Step.Kind != plan.SetCPUs {
		t.Errorf("%d settings, want 3 CPU sets: %+v", len(out.Settings), out.Settings)
	}
	h.in(2, "0-1") // the widest first
	h.in(0, "2")
	h.in(1, "3")
	code(t, h.scan(time.Second), "a", words.CacheKept)
}

// TestReports: in mode report the decision names the caches, and nothing changes.
func TestReports(t *testing.T) {
	for _, mode := range []plan.CacheMode{plan.CachesReport, ""} {
		h := on(t, mode, 4)
		h.uses(0, 1, 0)
		h.scan(0)
		out := h.scan(calmFor)
		code(t, out, "a", words.CacheWould)
		if len(out.Settings) > 0 || len(out.Caches) > 0 {
			t.Errorf("mode %q changes %+v", mode, out)
		}
	}
	h := on(t, plan.CachesOff, 4)
	if out := h.scan(calmFor); len(out.Why) > 0 {
		t.Errorf("mode off has to say %v", out.Why)
	}
}

// TestWidens: work that waits, or fills its CPUs, gets all of its node at once while CPUs idle there,
// and its caches back only after it was calm for longer each time; then it stays wide.
func TestWidens(t *testing.T) {
	h := on(t, plan.CachesPlace, 4)
	h.uses(0, 1, 0)
	h.scan(0)
	h.scan(calmFor)
	h.in(0, "0")
	for times := 1; times <= oftenIs; times++ {
		if times%2 == 1 {
			h.uses(0, 2, 0.2)
		} else {
			h.uses(0, 3.9, 0)
		}
		out := h.scan(time.Second)
		code(t, out, "a", words.CacheWidened)
		if len(out.Settings) != 1 || out.Settings[0].Step.To != "0-15" {
			t.Errorf("widened by %+v", out.Settings)
		}
		h.in(0, "")
		h.uses(0, 1, 0)
		for range 60 { // its peak fades
			h.scan(0)
		}
		if times == oftenIs {
			break
		}
		h.scan(calmFor<<times - time.Second)
		h.in(0, "")
		h.scan(time.Second)
		h.in(0, "0")
	}
	code(t, h.scan(40*time.Minute), "a", words.CacheBursts)
	h.in(0, "")
	h.scan(remembered)
	h.in(0, "0")
}

// TestStaysWhereWideningHelpsNothing: no CPU idles elsewhere on the node.
func TestStaysWhereWideningHelpsNothing(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 4, 4, 4)
	for i := range 4 {
		h.uses(i, 1, 0)
	}
	h.scan(0)
	h.scan(calmFor)
	for i := range 4 {
		h.uses(i, 4, 0.3)
	}
	code(t, h.scan(time.Second), "a", words.CacheNodeBusy)
	h.in(0, "0")
}

// TestNoneOverfull: services on four caches, however they were placed before: in nineteen moments of twenty no cache
// has more threads that want to run than CPUs, by their exact distribution; and those that fit are kept in one.
func TestNoneOverfull(t *testing.T) {
	for _, c := range []struct {
		name     string
		threads  int
		use      float64
		services int
		before   []topology.CacheID // of each service, when the first scan sees it
		alone    int                // services that are kept in one cache, at least
	}{
		{"six, all calm before", 3, 1.2, 6, nil, 4},
		{"six, two were put into one cache", 3, 1.2, 6, []topology.CacheID{0, 0, 1, 1, 2, 3}, 4},
		{"six of four threads", 4, 1.4, 6, nil, 4},
		{"six of four threads, two were put into one cache", 4, 1.4, 6, []topology.CacheID{0, 0, 1, 1, 2, 3}, 4},
		{"two threads each: two services fit a cache", 2, 1.2, 8, nil, 8},
		{"many threads that seldom run", 40, 0.5, 6, nil, 6},
		{"busy all the time", 2, 1.9, 6, nil, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := on(t, plan.CachesPlace, slices.Repeat([]int{2}, c.services)...)
			for i := range c.services {
				h.uses(i, c.use, 0)
				h.scene.Subjects[i].Observation.Threads = c.threads
				if c.before != nil {
					h.scene.Plan.Placements[i].Caches = topology.SetOf(c.before[i])
				}
			}
			h.scan(0)
			for range 4 {
				h.scan(calmFor)
				h.noneOverfull()
			}
			kept := 0
			for i := range h.scene.Plan.Placements {
				if h.scene.Plan.Placements[i].Caches.Len() == 1 {
					kept++
				}
			}
			if kept < c.alone {
				t.Errorf("%d services are kept in one cache, want %d", kept, c.alone)
			}
		})
	}
}

// noneOverfull fails where a cache has more threads that want to run than CPUs in more than a moment of eighteen. Work
// that may run on all caches is left out: the kernel takes it elsewhere.
func (h *host) noneOverfull() {
	h.t.Helper()
	for k := range h.scene.Snapshot.Host.LLCs {
		l := &h.scene.Snapshot.Host.LLCs[k]
		runs := []float64{1} // probability of so many threads
		for i := range h.scene.Plan.Placements {
			o := &h.scene.Subjects[i].Observation
			if !h.scene.Plan.Placements[i].Caches.Has(l.ID) {
				continue
			}
			each := o.CPUUse / float64(o.Threads*h.scene.Plan.Placements[i].Caches.Len())
			for range o.Threads {
				next := make([]float64, len(runs)+1)
				for n, p := range runs {
					next[n] += p * (1 - each)
					next[n+1] += p * each
				}
				runs = next
			}
		}
		over := 0.0
		for n := l.CPUs.Len() + 1; n < len(runs); n++ {
			over += runs[n]
		}
		if over > 1.0/18 {
			h.t.Errorf("cache %d has more threads that want to run than CPUs for %.0f %% of the time", l.ID, 100*over)
		}
	}
}

// TestOneCacheANode: nothing is decided where caches do not divide the node.
func TestOneCacheANode(t *testing.T) {
	h := on(t, plan.CachesPlace, 2)
	h.scene.Snapshot.Host = plantest.Draw("0 0-15 8G 10\n")
	h.scan(0)
	out := h.scan(calmFor)
	if len(out.Why) > 0 || len(out.Settings) > 0 {
		t.Errorf("%+v", out)
	}
}

// TestKernelKeepsProcesses: where the kernel keeps a process in one cache, work of one process that a cache
// holds is left to it, also work that was kept before; what it cannot do is still done.
func TestKernelKeepsProcesses(t *testing.T) {
	on7 := topology.CacheAware{State: topology.CacheAwareOn, From: "here"}
	for _, c := range []struct {
		name   string
		kernel topology.CacheAware
		change func(*workload.Observation)
		vcpus  int
		in     string
	}{
		{"one process", on7, func(*workload.Observation) {}, 2, ""},
		{"built in", topology.CacheAware{State: topology.CacheAwareBuiltIn}, func(*workload.Observation) {}, 2, ""},
		{"switched off", topology.CacheAware{State: topology.CacheAwareOff}, func(*workload.Observation) {}, 2, "0"},
		{"not known", topology.CacheAware{State: topology.CacheAwareUnknown}, func(*workload.Observation) {}, 2, "0"},
		{"several processes", on7, func(o *workload.Observation) { o.Processes = append(o.Processes, workload.Process{PID: 9}) }, 2, "0"},
		{"a guest", on7, func(o *workload.Observation) { o.Kind = "guest" }, 2, "0"},
		{"vhost threads", on7, func(o *workload.Observation) { o.Vhost.Threads = 1 }, 2, "0"},
		{"larger than a cache", on7, func(*workload.Observation) {}, 6, "0-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := on(t, plan.CachesPlace, c.vcpus)
			o := &h.scene.Subjects[0].Observation
			o.Kind, o.Processes = workload.InCgroup, []workload.Process{{PID: 7}}
			c.change(o)
			h.uses(0, 0.5, 0)
			h.scan(0)
			h.scan(time.Minute)
			first := h.scene.Plan.Placements[0].Caches
			if first.Empty() && c.in != "" {
				t.Fatal("it is kept in no cache where the kernel keeps nothing")
			}
			h.scene.Snapshot.CacheAware = c.kernel
			out := h.scan(2 * time.Second)
			h.in(0, c.in)
			if c.in == "" {
				code(t, out, o.ID, words.CacheKernel)
				h.scan(time.Hour)
				h.in(0, "")
			}
		})
	}
}

// TestCachedInPlace: the waits of shared work are asked for where caches may hold it, and nowhere else; a View keeps
// those of its scan.
func TestCachedInPlace(t *testing.T) {
	for mode, want := range map[plan.CacheMode]int{plan.CachesPlace: 2, plan.CachesReport: 0, plan.CachesOff: 0} {
		h := on(t, mode, 2, 2)
		h.scan(time.Second)
		if n := len(h.concern.Cached); n != want {
			t.Errorf("%s: waits of %d workloads, want %d", mode, n, want)
		}
	}
	h := on(t, plan.CachesPlace, 2)
	h.scan(time.Second)
	kept := h.concern.Cached
	h.concern.Forget(func(workload.ID) bool { return true })
	h.scene.Subjects, h.scene.Plan.Placements = nil, nil
	h.scan(time.Second)
	if len(kept) != 1 || len(h.concern.Cached) != 0 {
		t.Errorf("kept %v, now %v", kept, h.concern.Cached)
	}
}

// TestUsualWaits: what work waits with all of its node to run on is no reason to give it more CPUs; what it waits
// beyond that in its caches is.
func TestUsualWaits(t *testing.T) {
	h := on(t, plan.CachesPlace, 4)
	h.uses(0, 1, 0.2)
	for range 60 {
		h.scan(time.Second)
	}
	h.scan(calmFor)
	h.in(0, "0")
	h.uses(0, 1, 0.22)
	code(t, h.scan(time.Second), "a", words.CacheKept)
	h.uses(0, 1, 0.3)
	code(t, h.scan(time.Second), "a", words.CacheWidened)
	h.in(0, "")
}

// TestNoisyWaits: on a machine that is taken CPUs away, waits go up and down by themselves. Work is kept in few caches
// there too, and widened once it waits more than it ever did with all of its node.
func TestNoisyWaits(t *testing.T) {
	h := on(t, plan.CachesPlace, 4)
	noise := func(i int) float64 { return []float64{0.3, 0.45, 0.35, 0.5}[i%4] }
	for i := range 40 {
		h.uses(0, 1, noise(i))
		h.scan(2 * time.Second)
	}
	h.in(0, "0")
	for i := range 40 {
		h.uses(0, 1, noise(i))
		code(t, h.scan(2*time.Second), "a", words.CacheKept)
	}
	h.uses(0, 1, 0.8)
	code(t, h.scan(2*time.Second), "a", words.CacheWidened)
	h.in(0, "")
}

// TestCrowdedLeaves: a service leaves a cache whose work came to want more CPUs than it has, before it waits, and is
// kept there again only after it was calm.
func TestCrowdedLeaves(t *testing.T) {
	h := on(t, plan.CachesPlace, 2, 2, 2, 2, 2)
	use := func(cpus float64) {
		for i := range 5 {
			h.uses(i, cpus, 0)
			h.scene.Subjects[i].Observation.Threads = 4
		}
	}
	use(0.5)
	h.scan(0)
	h.scan(calmFor)
	h.in(4, "0")
	use(1.4)
	code(t, h.scan(2*time.Second), "e", words.CacheCrowded)
	h.in(0, "0")
	h.in(4, "")
	use(0.5)
	h.scan(calmFor)
	h.in(4, "")
	for range 60 { // its peak fades
		h.scan(2 * time.Second)
	}
	h.in(4, "0")
}

// TestEntitlementFits: work whose vCPUs a cache has lives in one, also where it has many more threads, most of which
// seldom run; it joins no other work that it would crowd.
func TestEntitlementFits(t *testing.T) {
	h := on(t, plan.CachesPlace, 4, 4, 4, 4, 4)
	for i := range 5 {
		h.uses(i, 2.4, 0)
		h.scene.Subjects[i].Observation.Threads = 30
	}
	h.scan(0)
	for range 3 {
		h.scan(calmFor)
	}
	for i, want := range []string{"0", "1", "2", "3", ""} {
		h.in(i, want)
	}
}
