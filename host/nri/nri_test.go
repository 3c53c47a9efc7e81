package nri

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
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
	r.until(func() bool {
		return claim(p, "web/db-0") == nil && claim(p, "web/fast") == nil && claim(p, "web/fast/hot") == nil
	})
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

// A daemon that is killed in the middle of CreateContainer lets the container start at once, and
// the next one adopts it.
func TestKilledWhileAContainerStarts(t *testing.T) {
	r, h := newRuntime(t), &homes{wait: make(chan struct{})}
	r.start()
	_, stop := r.connect(h.options(r))
	pod := r.pod("p1", "web", "db-0", nil)
	go func() {
		r.until(func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.asked) > 0 })
		r.cut() // what the kernel does with the sockets of a process that is killed
	}()
	r.create(pod, "c1", "pg", 2, 1<<30) // an error of it fails the test
	if got := r.reads("c1", "cpuset.cpus"); got != "" {
		t.Errorf("it has %q", got)
	}
	stop()
	p, _ := r.connect((&homes{}).options(r))
	if c := claim(p, "web/db-0"); c == nil || !c.Alone.None() || len(c.Began) > 0 {
		t.Errorf("%+v", c)
	}
}

// What somebody else chose is theirs: CPUs in a container's own specification, or written by an
// update, as the kubelet's static manager does both. Nothing is changed in observe mode, and of
// what a person has undone.
func TestLeftAlone(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	o := h.options(r)
	held := false
	o.Held = func(workload.ID) bool { return held }
	p, _ := r.connect(o)
	pod := r.pod("p1", "web", "db-0", nil)
	c, _ := r.create(pod, "c1", "pg", 2, 1<<30)
	if _, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: pod, Container: c, LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1"}}}); err != nil {
		t.Fatal(err)
	}
	if c := claim(p, "web/db-0"); c == nil || c.Alone.Code != words.ContainerPinned || len(c.Began) > 0 {
		t.Errorf("%+v", c)
	}
	held = true
	other := r.pod("p2", "web", "db-1", nil)
	if r.create(other, "c2", "pg", 2, 1<<30); r.reads("c2", "cpuset.cpus") != "" {
		t.Errorf("held, it has %q", r.reads("c2", "cpuset.cpus"))
	}
	r.until(func() bool { all, _ := p.Claims(host()); return len(all) == 2 })
}

// The first scan knows what runs by its name, not by its cgroup: it waits for a runtime that is
// there, and leaves alone what might be a runtime's that does not answer. A pod's own process is
// nobody's workload.
func TestFirstScan(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	const id = "0123456789abcdef0123456789abcdef"
	r.pods[id] = &api.PodSandbox{Id: id, Name: "db-0", Namespace: "web", Linux: &api.LinuxPodSandbox{}}
	p := New(h.options(r))
	rest := func() (all []string) {
		claims, _ := p.Claims(host())
		for _, c := range claims {
			if c.ID == "" {
				all = append(all, c.Cgroups...)
			}
		}
		return all
	}
	if got := rest(); !slices.Contains(got, "kubepods*") {
		t.Errorf("before it is connected: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	for range 100 { // the machine may be busy
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := rest(); slices.Equal(got, []string{"*" + id + "*"}) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := rest(); !slices.Equal(got, []string{"*" + id + "*"}) {
		t.Errorf("connected: %v", got)
	}
	cancel()
	<-ended
}

// The parts of a pod are near each other, whichever comes first.
func TestPartsOfAPodAreNear(t *testing.T) {
	p := podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Annotations: map[string]string{"homenode.io/class.container.db": "dedicated"}})
	for _, name := range []string{"db", "web"} {
		p.containers = append(p.containers, containerOf(&api.Container{Id: name, Name: name, Linux: &api.LinuxContainer{CgroupsPath: "/" + name}}))
	}
	for i, near := range []workload.ID{"ns/p/db", "ns/p"} {
		g := p.groups()[i]
		if s, _ := (&Options{}).spec(&g); len(s.Near) != 1 || s.Near[0].Workload != near {
			t.Errorf("%s is near %+v", g.id, s.Near)
		}
	}
}

// Bookings of a resource claim are where its container begins; it books nothing itself.
func TestResourceClaims(t *testing.T) {
	none := func(context.Context, workload.Spec, time.Duration) (workload.Placement, error) {
		return workload.Placement{}, errors.New("no room")
	}
	p := New(Options{Manage: All, Enforce: true, Mount: "/nowhere", Admit: none, Booked: func(id workload.ID) (b workload.Placement, ok bool) {
		b.CPUs, b.Home = topology.CPUs(3, 4), topology.Nodes(1)
		return b, id == "claim:1" || id == "claim:2"
	}})
	p.files = fakeFiles{&cgroups{sets: map[string]*[2]string{"/x": {}}, inode: map[string]int{}}}
	pod := &api.PodSandbox{Id: "1", Name: "p", Namespace: "ns"}
	for id, want := range map[string]string{"claim:1 claim:2": "3-4", "claim:guessed": ""} {
		a, _, _ := p.CreateContainer(t.Context(), pod, &api.Container{Id: "c", Name: "c", PodSandboxId: "1", Env: []string{"HOMENODE_CLAIM_x=" + id},
			Linux: &api.LinuxContainer{CgroupsPath: "/x", Resources: &api.LinuxResources{}}})
		if got := a.GetLinux().GetResources().GetCpu().GetCpus(); got != want {
			t.Errorf("%s: CPUs %q, want %q", id, got, want)
		}
		all, problems := p.Claims(host())
		if len(all) != 1 || all[0].Booked != (want != "") || (len(problems) > 0) == (want != "") {
			t.Errorf("%s: %+v, %v", id, all, problems)
		}
	}
}
