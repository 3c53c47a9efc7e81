package nri

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// A container has its CPUs before it starts, the whole pod one home, a dedicated container
// memory nodes too.
func TestContainersBeginAtHome(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	p, _ := r.connect(h.options(r))
	pod := r.pod("p1", "web", "db-0", nil)
	r.create(pod, "c1", "pg", 2, 1<<30)
	r.create(pod, "c2", "exporter", 1, 1<<20)
	own := r.pod("p2", "web", "fast", map[string]string{"homenode.io/class.container/hot": "dedicated", "homenode.io/importance": "90"})
	r.create(own, "c3", "hot", 4, 1<<30)
	r.create(own, "c4", "log", 0, 0)
	for id, want := range map[string][2]string{"c1": {"8-11", ""}, "c2": {"8-11", ""}, "c3": {"8-11", "1"}, "c4": {"8-11", ""}} {
		if got := [2]string{r.reads(id, "cpuset.cpus"), r.reads(id, "cpuset.mems")}; got != want {
			t.Errorf("%s has %v, want %v", id, got, want)
		}
	}
	if len(h.asked) != 3 { // the second container of the first pod is at home where the first is
		t.Fatalf("asked %+v", h.asked)
	}
	if s := h.asked[0]; s.ID != "web/db-0" || s.Class != workload.Shared || s.CPUs != 2 || s.Memory != 1<<20 || s.Importance != 50 {
		t.Errorf("%+v", s)
	}
	if s := h.asked[1]; s.ID != "web/fast/hot" || s.Class != workload.Dedicated || s.CPUs != 4 || s.Importance != 90 {
		t.Errorf("%+v", s)
	}
	c := claim(p, "web/db-0")
	if c == nil || c.Name != "web/db-0/pg+exporter" || !slices.Equal(c.Cgroups, []string{"/k8s.io/c1", "/k8s.io/c2"}) || c.Spec.CPUs != 3 ||
		!slices.Contains(c.Also, "web/db-0/exporter") || len(c.Began) != 2 || c.Began[1].Cgroup != "/k8s.io/c2" || c.Began[1].CPUs != "8-11" || c.Began[1].Object == "" {
		t.Errorf("%+v", c)
	}
	r.remove(pod)
	r.remove(own)
	r.until(func() bool { all, _ := p.Claims(host()); return len(all) == 0 })
}

// A daemon that does not answer holds no container up longer than its deadline, and is still
// connected then.
func TestSlowAnswersHoldNothingUp(t *testing.T) {
	r, h := newRuntime(t), &homes{wait: make(chan struct{})}
	r.start()
	o := h.options(r)
	o.Within = 20 * time.Millisecond
	p, _ := r.connect(o)
	pod := r.pod("p1", "web", "db-0", nil)
	if r.create(pod, "c1", "pg", 2, 1<<30); r.reads("c1", "cpuset.cpus") != "" {
		t.Errorf("it has %q", r.reads("c1", "cpuset.cpus"))
	}
	close(h.wait)
	p.mu.Lock()
	p.o.Within = time.Minute
	p.mu.Unlock()
	if r.create(pod, "c2", "x", 1, 0); r.reads("c2", "cpuset.cpus") != "8-11" {
		t.Errorf("the next has %q", r.reads("c2", "cpuset.cpus"))
	}
	if c := claim(p, "web/db-0"); c == nil || !c.Alone.None() {
		t.Errorf("%+v", c)
	}
}

// A runtime that comes, goes and comes again is found each time, and what runs is adopted.
func TestReconnects(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	p, _ := func() (*Plugin, func()) { r.start(); return r.connect(h.options(r)) }()
	pod := r.pod("p1", "web", "db-0", nil)
	r.create(pod, "c1", "pg", 2, 1<<30)
	r.end()
	r.until(func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.runtime == nil })
	if c := claim(p, "web/db-0"); c == nil {
		t.Error("forgotten while the runtime is away")
	}
	r.start()
	r.until(func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.runtime != nil && p.synced })
	c := claim(p, "web/db-0")
	if c == nil || len(c.Began) != 1 || !c.Alone.None() { // its own annotation tells whose set that is
		t.Errorf("%+v", c)
	}
}
