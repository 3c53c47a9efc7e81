package llc

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// settled is a host on which all work was calm for long enough.
func (h *host) settled() {
	h.scan(0)
	for range 3 {
		h.scan(calmFor)
	}
}

// inPod makes workloads containers of a pod.
func (h *host) inPod(pod string, of ...int) {
	for _, i := range of {
		o := &h.scene.Subjects[i].Observation
		o.Cgroup = fmt.Sprintf("/kubepods.slice/kubepods-pod%s.slice/cri-containerd-%064d.scope", pod, i)
	}
}

// use gives all workloads one use and so many threads.
func (h *host) use(cpus float64, threads int) {
	for i := range h.scene.Subjects {
		h.uses(i, cpus, 0)
		h.scene.Subjects[i].Observation.Threads = threads
	}
}

// TestPodStaysTogether: the containers of a pod are kept in one cache where they fit together, and others in a
// cache of its own.
func TestPodStaysTogether(t *testing.T) {
	h := on(t, plan.CachesPlace, 1, 1, 1, 1, 1)
	h.use(0.5, 2)
	h.settled()
	if h.scene.Plan.Placements[0].Caches.Equal(h.scene.Plan.Placements[3].Caches) {
		t.Fatal("without a pod they share a cache though others have more room: this is no test")
	}
	h = on(t, plan.CachesPlace, 1, 1, 1, 1, 1)
	h.use(0.5, 2)
	h.inPod("aa11", 0, 3)
	h.inPod("bb22", 1, 4)
	h.settled()
	at := func(i int) topology.CacheSet { return h.scene.Plan.Placements[i].Caches }
	if at(0).Len() != 1 || !at(0).Equal(at(3)) || at(1).Len() != 1 || !at(1).Equal(at(4)) {
		t.Errorf("pods are in caches %v and %v, %v and %v", at(0), at(3), at(1), at(4))
	}
	if at(0).Equal(at(1)) {
		t.Errorf("both pods are in %v while caches are empty", at(0))
	}
}

// TestPodFindsRoom: the containers of a pod share the cache with most room; a container that comes later joins them.
func TestPodFindsRoom(t *testing.T) {
	h := on(t, plan.CachesPlace, 1, 1, 1)
	h.use(1, 2)
	h.inPod("aa11", 0, 1, 2)
	h.scene.Subjects[2].Observation.Threads = 0 // it is not known how many: they are many
	h.settled()
	at := func(i int) topology.CacheSet { return h.scene.Plan.Placements[i].Caches }
	if at(0).Empty() || !at(0).Equal(at(1)) {
		t.Errorf("in caches %v and %v", at(0), at(1))
	}
	late := on(t, plan.CachesPlace, 1, 1, 1)
	late.use(0.5, 1)
	late.inPod("aa11", 0, 2)
	late.uses(2, 1, 0)
	kept := late.scene.Subjects[2]
	late.scene.Subjects = late.scene.Subjects[:2]
	late.settled()
	late.scene.Subjects = append(late.scene.Subjects, kept)
	late.scan(time.Second)
	code(t, late.scan(calmFor), "c", words.CacheBeside)
	if !late.scene.Plan.Placements[2].Caches.Equal(late.scene.Plan.Placements[0].Caches) {
		t.Errorf("the late container is in %v, its pod in %v", late.scene.Plan.Placements[2].Caches, late.scene.Plan.Placements[0].Caches)
	}
}

// TestHelperStaysWithGuest: a helper is kept in the cache of the guest that it serves, whether that has CPUs of its own
// or not, and in another where that has no CPUs left.
func TestHelperStaysWithGuest(t *testing.T) {
	for _, c := range []struct {
		name    string
		guest   string // CPUs of its own; "" for a guest that floats
		in      string
		threads int
	}{
		{"a guest that floats", "", "", 1},
		{"a guest with CPUs of its own", "8-10", "2", 1},
		{"no CPU is left in the guest's cache", "8-11", "0", 1},
		{"the helper wants more than is left", "8-10", "0", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := on(t, plan.CachesPlace, 1, 1, 1)
			h.use(0.5, 1)
			helper, guest := h.scene.Subjects[2], &h.scene.Plan.Placements[1]
			helper.Spec.Near = []workload.Near{{Workload: "b", Serves: true, Learned: true}}
			h.uses(2, 0.9, 0)
			helper.Observation.Threads = c.threads
			if c.threads > 1 {
				h.uses(2, 1.5, 0)
			}
			if c.guest != "" {
				guest.Class = workload.Dedicated
				guest.CPUs, _ = topology.ParseCPUSet(c.guest)
				h.scene.Subjects[1].Spec.Class = workload.Dedicated
			}
			h.settled()
			at := h.scene.Plan.Placements[2].Caches
			if c.guest == "" && (at.Empty() || !at.Equal(guest.Caches)) {
				t.Errorf("the helper is in caches %v, the guest in %v", at, guest.Caches)
			}
			if c.guest != "" && c.in == "2" && at.String() != "2" {
				t.Errorf("the helper is in caches %v, want 2", at)
			}
			if c.in == "0" && (at.Empty() || at.Has(2)) {
				t.Errorf("the helper is in caches %v, where no CPU is left", at)
			}
		})
	}
}

// TestMatesOnce: two containers of a pod that each should be near the other are one mate of each other, and their load
// counts once.
func TestMatesOnce(t *testing.T) {
	h := on(t, plan.CachesPlace, 1, 1)
	h.use(0.5, 1)
	h.inPod("aa11", 0, 1)
	for i, id := range []workload.ID{"b", "a"} {
		h.scene.Subjects[i].Spec.Near = []workload.Near{{Workload: id}}
	}
	h.concern.CacheCalm = map[workload.ID]*Calm{}
	turn := &turn{Bound: Bound{Concern: &h.concern, Mode: h.mode}, Scene: h.scene}
	turn.findNodes()
	mine := turn.mine()
	turn.findMates(mine)
	for _, x := range mine {
		n := 0
		x.eachMate(func(*kept) { n++ })
		if n != 1 {
			t.Errorf("%s has %d mates, want 1", x.Observation.ID, n)
		}
	}
}

// TestMeasuredAgain: what bookings had put into one cache joins its mates once it was measured, and stays where
// it is without any.
func TestMeasuredAgain(t *testing.T) {
	h := on(t, plan.CachesPlace, 1, 1, 1)
	h.use(0.5, 2)
	h.inPod("aa11", 0, 1)
	for i := range 3 {
		h.scene.Plan.Placements[i].Caches = topology.SetOf(topology.CacheID(3 - i))
	}
	h.scan(0)
	h.in(0, "3")
	h.scan(calmFor)
	h.in(2, "1")
	if a, b := h.scene.Plan.Placements[0].Caches, h.scene.Plan.Placements[1].Caches; a.Len() != 1 || !a.Equal(b) {
		t.Errorf("the pod is in %v and %v", a, b)
	}
	for range 5 {
		out := h.scan(calmFor)
		if len(out.Settings) > 0 {
			t.Errorf("it moves again: %+v", out.Settings)
		}
	}
}

// TestNoPod: work of one user, and of one slice of the system, is no pod.
func TestNoPod(t *testing.T) {
	for _, cgroup := range []string{"/user.slice/user-1000.slice/session-1.scope", "/system.slice/db.service", ""} {
		if got := podOf(&workload.Observation{Cgroup: cgroup}); got != "" {
			t.Errorf("%q is in pod %q", cgroup, got)
		}
	}
}

// TestAllNear: work that belongs together is kept together where all work has partners, and each of several partners
// counts.
func TestAllNear(t *testing.T) {
	h := on(t, plan.CachesPlace, 1, 1, 1)
	h.use(0.5, 1)
	h.scene.Subjects[0].Spec.Near = []workload.Near{{Device: "eth0"}, {Workload: "b"}, {Workload: "c"}}
	h.scene.Subjects[1].Spec.Near = []workload.Near{{Workload: "a"}}
	h.scene.Subjects[2].Spec.Near = []workload.Near{{Workload: "a"}}
	h.settled()
	for i := range 3 {
		h.in(i, "0")
	}
	h = on(t, plan.CachesPlace, 1, 1, 1)
	h.use(0.5, 1)
	h.scene.Subjects[0].Spec.Near = []workload.Near{{Device: "eth0"}, {Workload: "b"}, {Workload: "c"}}
	h.settled()
	for i := range 3 {
		h.in(i, "0")
	}
}
