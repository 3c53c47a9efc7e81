package nri

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// A container has its CPUs before it starts, the whole pod one home, a dedicated container
// memory nodes too.
func TestContainersBeginAtHome(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	p, _ := r.connect(h.options(r), h)
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

// TestPolicyBandwidth: pages of bandwidth-bound work go in turn to its home and to the slower memory next to it, never
// beyond what its starter allows, and not where the kernel has no weights: there the container would not start.
func TestPolicyBandwidth(t *testing.T) {
	const weights = "sys/kernel/mm/mempolicy/weighted_interleave/"
	file := &fstest.MapFile{Data: []byte("1\n")}
	machine := plantest.Draw(`
		0 0-7  16G 10 21 30 20
		1 8-15 16G 21 10 20 30
		2 -    32G 30 20 10 40 type=cxl
		3 -    32G 20 30 40 10 type=cxl
	`)
	annotated := map[string]string{"homenode.io/policy": "bandwidth"}
	for _, x := range []struct {
		why         string
		annotations map[string]string
		root        fs.FS
		mems        string
		want, says  string
	}{
		{"asked", annotated, fstest.MapFS{weights + "node1": file, weights + "node2": file}, "", "1-2", "Its pages go to nodes 1-2 in turn"},
		{"not asked", nil, fstest.MapFS{weights + "node1": file, weights + "node2": file}, "", "", ""},
		{"Linux 6.8", annotated, fstest.MapFS{}, "", "", ""},
		{"kept on its node", annotated, fstest.MapFS{weights + "node1": file, weights + "node2": file}, "0-1", "", ""},
		{"another word", map[string]string{"homenode.io/policy": "fast"}, fstest.MapFS{weights + "node1": file, weights + "node2": file}, "", "", ""},
		{"dedicated", map[string]string{"homenode.io/policy": "bandwidth", "homenode.io/class": "dedicated"},
			fstest.MapFS{weights + "node1": file, weights + "node2": file}, "", "", "the memory of dedicated work is bound to its home"},
	} {
		r, h := newRuntime(t), &homes{}
		r.start()
		o := h.options(r)
		o.Root = x.root
		p, stop := r.connect(o, h)
		p.Claims(machine)
		pod := r.pod("p1", "web", "stream", x.annotations)
		r.mems = x.mems
		r.create(pod, "c1", "x", 2, 1<<30)
		got := r.adjusted["c1"].GetLinux().GetMemoryPolicy()
		if got.GetNodes() != x.want || (x.want != "" && got.GetMode() != api.MpolMode_MPOL_WEIGHTED_INTERLEAVE) {
			t.Errorf("%s: %v", x.why, got)
		}
		c := cmp.Or(claim(p, "web/stream"), claim(p, "web/stream/x")) // dedicated work is the container alone
		if c == nil || !strings.Contains(c.Note.String(), x.says) || (x.says == "" && !c.Note.None()) {
			t.Errorf("%s: %+v", x.why, c)
		}
		stop()
		r.end()
	}
}

// A daemon that does not answer holds no container up longer than its deadline, and is still
// connected then.
func TestSlowAnswersHoldNothingUp(t *testing.T) {
	r, h := newRuntime(t), &homes{wait: make(chan struct{})}
	r.start()
	o := h.options(r)
	o.Within = 20 * time.Millisecond
	p, _ := r.connect(o, h)
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

// A start waits for a quarter of what the runtime waits, and never long.
func TestStartsWaitWithinWhatTheRuntimeWaits(t *testing.T) {
	for waits, want := range map[time.Duration]time.Duration{0: 500 * time.Millisecond, 2 * time.Second: 500 * time.Millisecond, 400 * time.Millisecond: 100 * time.Millisecond, time.Minute: 2 * time.Second} {
		p := New(Options{})
		answer, err := service{configured: make(chan struct{}, 1), p: p}.Configure(t.Context(), &api.ConfigureRequest{RequestTimeout: waits.Milliseconds()})
		if err != nil || answer.GetEvents() == 0 || p.within() != want {
			t.Errorf("it waits %v: %v, want %v, %v", waits, p.within(), want, err)
		}
	}
}

// A runtime that comes, goes and comes again is found each time, and what runs is adopted.
func TestReconnects(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	p, _ := func() (*Plugin, func()) { r.start(); return r.connect(h.options(r), h) }()
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
	_, stop := r.connect(h.options(r), h)
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
	h = &homes{}
	p, _ := r.connect(h.options(r), h)
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
	p, _ := r.connect(o, h)
	pod := r.pod("p1", "web", "db-0", nil)
	c, _ := r.create(pod, "c1", "pg", 2, 1<<30)
	if _, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: pod, Container: c, LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1"}}}); err != nil {
		t.Fatal(err)
	}
	if c := claim(p, "web/db-0"); c == nil || c.Alone.Code != words.ContainerPinned || len(c.Began) > 0 {
		t.Errorf("%+v", c)
	}
	h.mu.Lock()
	h.held = true
	h.mu.Unlock()
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
	p := joined(h.options(r), h)
	rest := func() (all []string) {
		claims, _ := p.Claims(host())
		for _, c := range claims {
			if c.ID == "" {
				all = append(all, c.Cgroups...)
			}
		}
		return all
	}
	if got := rest(); !slices.Contains(got, "kubepods*") || slices.Contains(got, "*"+id+"*") {
		t.Errorf("before it is connected: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	for range 100 { // the machine may be busy
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(rest(), "*"+id+"*") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	// Of what else is in pods its runtime has not told yet.
	if got := rest(); !slices.Equal(got, []string{"*" + id + "*", "kubepods*", "kubelet-kubepods*", "cri-containerd-*", "crio-*"}) {
		t.Errorf("connected: %v", got)
	}
	cancel()
	<-ended
}

// What runs in the cgroup of a container that has not started is its runtime's, and is not told
// of; nor is what started while the host was looked at.
func TestContainersAreToldOfOnceTheyHaveStarted(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	p, _ := r.connect(h.options(r), h)
	pod := r.pod("p1", "web", "db-0", nil)
	first, _ := r.made(pod, "c1", "pg", 2, 1<<30)
	if c := claim(p, "web/db-0"); c != nil {
		t.Errorf("before its first container starts: %+v", c)
	}
	r.begin(pod, first)
	if all, _ := p.Claims(host()); slices.ContainsFunc(all, func(c workload.Claim) bool { return c.ID != "" }) {
		t.Errorf("it started after the host was looked at: %+v", all)
	}
	r.made(pod, "c2", "exporter", 1, 1<<20)
	if c := claim(p, "web/db-0"); c == nil || !slices.Equal(c.Cgroups, []string{"/k8s.io/c1"}) || len(c.Began) != 1 {
		t.Errorf("while its second container is made: %+v", c)
	}
	// One that is made anew, as after a crash, finds its pod where it was.
	h.mu.Lock()
	h.home = map[workload.ID]workload.Placement{"web/db-0": {Workload: "web/db-0", Home: topology.Nodes(1), CPUs: topology.CPUs(8, 9)}}
	h.mu.Unlock()
	p.mu.Lock()
	for _, c := range p.pods["p1"].containers {
		c.started = false
	}
	p.mu.Unlock()
	if c := claim(p, "web/db-0"); c == nil || len(c.Cgroups) > 0 || c.CPUs.String() != "8-9" {
		t.Errorf("while all its containers are made anew: %+v", c)
	}
}

// A runtime that may stand still when it is told what it has not asked for is told with its
// answers; until then homenode writes itself.
func TestNothingIsToldUnasked(t *testing.T) {
	for _, name := range []string{"containerd", "cri-o"} {
		r, h := newRuntime(t), &homes{}
		r.name = name
		r.start()
		p, _ := r.connect(h.options(r), h)
		p.mu.Lock()
		p.unasked = name == "containerd" // a test binary has no versions of modules to tell
		p.mu.Unlock()
		pod, other := r.pod("p1", "web", "db-0", nil), r.pod("p2", "web", "short", nil)
		c, _ := r.create(pod, "c1", "pg", 2, 1<<30)
		files := &cgroups{sets: map[string]*[2]string{"/k8s.io/c1": {"8-11", ""}}, inode: map[string]int{"/k8s.io/c1": 1}}
		p.files = fakeFiles{files}
		d := p.Driver(files)
		moves := func(to string) {
			t.Helper()
			step := plan.Step{Kind: plan.SetCPUs, Workload: "web/db-0", Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/k8s.io/c1"}, To: to}
			if _, err := d.Changes(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			if err := d.Apply(t.Context(), step, nil); err != nil {
				t.Fatal(err)
			}
		}
		knows := func() string { r.mu.Lock(); defer r.mu.Unlock(); return c.Linux.Resources.Cpu.Cpus }
		moves("0-3")
		r.create(other, "c2", "short", 1, 1<<20)
		if asked, want := r.unasked > 0, name == "containerd"; asked != want || (knows() == "0-3") != want {
			t.Errorf("%s: told unasked %v, it knows %s", name, asked, knows())
		}
		r.remove(other)
		if knows() != "0-3" {
			t.Errorf("%s: after another one's end it knows %s", name, knows())
		}
		moves("4-7")
		answer, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: pod, Container: &api.Container{Id: "c1"}, LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(4096)}}})
		r.apply(answer.GetUpdate())
		if err != nil || knows() != "4-7" {
			t.Errorf("%s: after a resize it knows %s, %v", name, knows(), err)
		}
	}
	for version, want := range map[string]bool{"": false, "unknown": false, "(devel)": false, "v0.8.0": false, "v0.12.0": false, "v0.12.1": true, "v0.12.5": true, "v0.13.0": true, "v1.0.0": true} {
		if takesUnasked("containerd", version) != want {
			t.Errorf("containerd with NRI %q: %v", version, !want)
		}
	}
}

// The parts of a pod are near each other, whichever comes first.
func TestPartsOfAPodAreNear(t *testing.T) {
	o := Options{Grants: everything}
	p := o.grant(podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Annotations: map[string]string{"homenode.io/class.container.db": "dedicated"}}))
	for _, name := range []string{"db", "web"} {
		p.containers = append(p.containers, containerOf(&api.Container{Id: name, Name: name, Linux: &api.LinuxContainer{CgroupsPath: "/" + name}}, marks{}))
	}
	for i, near := range []workload.ID{"ns/p/db", "ns/p"} {
		g := p.groups()[i]
		if s := o.spec(&g); len(s.Near) != 1 || s.Near[0].Workload != near {
			t.Errorf("%s is near %+v", g.id, s.Near)
		}
	}
}

// Bookings of a resource claim are where its container begins; it books nothing itself. One that
// began elsewhere is told. A pod that names a booking of another namespace in its environment has none of the CPUs.
func TestResourceClaims(t *testing.T) {
	booked := control.Reserved{Owner: workload.NamespaceOwner("ns")}
	booked.CPUs, booked.Home = topology.CPUs(3, 4), topology.Nodes(1)
	theirs := booked
	theirs.Owner = workload.NamespaceOwner("prod")
	h := &homes{refuses: true, booked: map[workload.ID]control.Reserved{
		"claim:1": booked, "claim:2": booked, "claim:3": theirs, "prod/db": theirs,
	}}
	p := joined(Options{Manage: All, Enforce: true, Mount: "/nowhere"}, h)
	sets := map[string]*[2]string{"/x": {}}
	p.files = fakeFiles{&cgroups{sets: sets, inode: map[string]int{}}}
	pod := &api.PodSandbox{Id: "1", Name: "p", Namespace: "ns"}
	for id, want := range map[string]string{"claim:1 claim:2": "3-4", "claim:guessed": "", "claim:3": "", "prod/db": ""} {
		a, _, _ := p.CreateContainer(t.Context(), pod, &api.Container{Id: "c", Name: "c", PodSandboxId: "1", Env: []string{"HOMENODE_CLAIM_x=" + id},
			Linux: &api.LinuxContainer{CgroupsPath: "/x", Resources: &api.LinuxResources{}}})
		if got := a.GetLinux().GetResources().GetCpu().GetCpus(); got != want {
			t.Errorf("%s: CPUs %q, want %q", id, got, want)
		}
		sets["/x"][0] = want
		p.PostStartContainer(t.Context(), pod, &api.Container{Id: "c"})
		p.Refresh(t.Context())
		all, problems := p.Claims(host())
		if len(all) != 2 || all[0].ID == "" && all[1].ID == "" {
			t.Fatalf("%s: %+v", id, all)
		}
		all = slices.DeleteFunc(all, func(c workload.Claim) bool { return c.ID == "" })
		if all[0].Booked != (want != "") || (len(problems) > 0) == (want != "") {
			t.Errorf("%s: %+v, %v", id, all, problems)
		}
		sets["/x"][0] = ""
		if _, problems := p.Claims(host()); len(problems) != 1 {
			t.Errorf("%s, began without its CPUs: %v", id, problems)
		}
	}
}

// A pod that is resized in place has the sizes that its containers have by now, whether the
// runtime tells of the pod too or of its containers alone, and after a restart, when the sandbox
// still says what it was made with. A container that is still to come counts with what the
// kubelet has told.
func TestResizedInPlace(t *testing.T) {
	size := func(cpus uint64, memory int64) *api.LinuxResources {
		return &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(cpus * 1024)}, Memory: &api.LinuxMemory{Limit: api.Int64(memory << 30)}}
	}
	for _, tells := range []bool{false, true} {
		r, h := newRuntime(t), &homes{}
		r.start()
		p, stop := r.connect(h.options(r), h)
		wants := func(when string, cpus int, gib topology.KiB) {
			t.Helper()
			if c := claim(p, "web/db-0"); c == nil || c.Spec.CPUs != cpus || c.Spec.Memory != gib<<20 {
				t.Errorf("told %v, %s: %+v", tells, when, c.Spec)
			}
		}
		pod := &api.PodSandbox{Id: "p1", Name: "db-0", Namespace: "web", Uid: "u", Linux: &api.LinuxPodSandbox{PodResources: size(3, 3)}}
		r.pods["p1"] = pod
		if err := r.nri.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err != nil {
			t.Fatal(err)
		}
		pg, _ := r.create(pod, "c1", "pg", 2, 2<<30)
		wants("one of two containers", 3, 3)
		r.create(pod, "c2", "side", 1, 1<<30)
		wants("both", 3, 3)
		for _, to := range []uint64{6, 1} {
			if tells {
				if _, err := r.nri.UpdatePodSandbox(t.Context(), &api.UpdatePodSandboxRequest{Pod: pod, LinuxResources: size(to+1, int64(to)+1)}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: pod, Container: pg, LinuxResources: size(to, int64(to))}); err != nil {
				t.Fatal(err)
			}
			pg.Linux.Resources = size(to, int64(to))
			wants("resized", int(to)+1, topology.KiB(to)+1)
		}
		stop()
		p, _ = r.connect(h.options(r), h)
		wants("after a restart", 2, 2)
	}
}

// A runtime refuses a plugin that asks for events it does not know: one that does not say which
// NRI it has is asked for those of NRI 0.1.
func TestEventsThatARuntimeKnows(t *testing.T) {
	if old := events(""); old.IsSet(api.Event_UPDATE_POD_SANDBOX) || !old.IsSet(api.Event_UPDATE_CONTAINER) {
		t.Errorf("%b", old)
	}
	if now := events("v0.12.0"); !now.IsSet(api.Event_UPDATE_POD_SANDBOX) || now&^api.ValidEvents != 0 {
		t.Errorf("%b", now)
	}
}

// On a host with cgroup v1 a container is its first process, which is placed once it runs: nothing
// is set before its start, and status says so once.
func TestCgroupV1(t *testing.T) {
	r, h := newRuntime(t), &homes{}
	r.start()
	o := h.options(r)
	o.Mount = ""
	o.Identify = func(pid int) (workload.Process, error) { return workload.Process{PID: pid, Start: 7}, nil }
	p, _ := r.connect(o, h)
	if _, problems := p.Claims(host()); len(problems) != 0 {
		t.Errorf("without containers: %v", problems)
	}
	pod := r.pod("p1", "web", "db-0", nil)
	for _, name := range []string{"pg", "side"} {
		c, _ := r.create(pod, name, name, 2, 1<<30)
		if got := r.adjusted[name].GetLinux().GetResources().GetCpu().GetCpus(); got != "" {
			t.Errorf("%s was given CPUs %s", name, got)
		}
		c.Pid = 4000
		if err := r.nri.PostStartContainer(t.Context(), &api.PostStartContainerRequest{Pod: pod, Container: c}); err != nil {
			t.Fatal(err)
		}
	}
	claims, problems := p.Claims(host())
	if len(problems) != 1 || problems[0].Subject != "containers" || !strings.Contains(problems[0].Text, "cgroup v1") {
		t.Errorf("%v", problems)
	}
	for _, c := range claims {
		if c.ID != "" && (c.Process.PID != 4000 || !c.Alone.None()) {
			t.Errorf("%+v", c)
		}
	}
	if claim(p, "web/db-0/pg") == nil || claim(p, "web/db-0/side") == nil {
		t.Errorf("%+v", claims)
	}
}

// Two containers of one pod that are made at a time are both known.
func TestTwoContainersOfAPodAtATime(t *testing.T) {
	pod := &api.PodSandbox{Id: "1", Name: "p", Namespace: "ns"}
	make := func(p *Plugin, name string, pid uint32) {
		p.CreateContainer(t.Context(), pod, &api.Container{Id: name, Name: name, Pid: pid, PodSandboxId: "1", Linux: &api.LinuxContainer{CgroupsPath: "/" + name}})
	}
	var p *Plugin
	p = New(Options{Manage: All, Identify: func(int) (workload.Process, error) { // while the first is looked at
		make(p, "b", 0)
		return workload.Process{}, nil
	}})
	make(p, "a", 1)
	for _, id := range []string{"a", "b"} {
		if _, c := find(p.pods, id); c == nil {
			t.Errorf("%s is not known", id)
		}
	}
}

// A runtime that is connected anew while the host is looked at takes nothing from what was seen
// before: a dedicated container that was not told of for one scan would lose its CPUs.
func TestReconnectedDuringAScan(t *testing.T) {
	p := New(Options{Manage: All, Enforce: true, Mount: "/nowhere"})
	p.files = fakeFiles{&cgroups{sets: map[string]*[2]string{"/c": {}}, inode: map[string]int{"/c": 1}}}
	pods := []*api.PodSandbox{{Id: "1", Name: "p", Namespace: "ns", Annotations: map[string]string{"homenode.io/class.container.c": "dedicated"}}}
	containers := []*api.Container{{Id: "c", Name: "c", PodSandboxId: "1", State: api.ContainerState_CONTAINER_RUNNING, Linux: &api.LinuxContainer{CgroupsPath: "/c"}}}
	for range 2 {
		if _, err := p.Synchronize(t.Context(), pods, containers); err != nil {
			t.Fatal(err)
		}
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.Synchronize(t.Context(), pods, containers)
	all, _ := p.Claims(host())
	if k := slices.IndexFunc(all, func(c workload.Claim) bool { return c.ID == "ns/p/c" }); k < 0 || !slices.Equal(all[k].Cgroups, []string{"/c"}) {
		t.Errorf("%+v", all)
	}
}

// What a runtime tells because homenode has told it is nobody's choice, also to a daemon that has
// begun since; what was set by hand since is.
func TestToldByAnEarlierDaemon(t *testing.T) {
	for _, c := range []struct{ reads, tells, want string }{
		{"0-3", "0-3", ""},
		{"4-7", "0-3", ""}, // moved since it was told
		{"2-3", "2-3", "2-3"},
		{"", "0-15", ""}, // undone
		{"8-9", "8-9", "8-9"},
	} {
		h := &homes{}
		if c.reads != "" && c.reads != "8-9" {
			h.wrote = []plan.Entry{{Kind: plan.CgroupCPUs, Path: "/c", New: cmp.Or(map[string]string{"2-3": "0-3"}[c.reads], c.reads), State: plan.Applied}}
		}
		p := joined(Options{Manage: All, Mount: "/"}, h)
		p.files = fakeFiles{&cgroups{cpus: "0-15", mems: "0-3", sets: map[string]*[2]string{"/c": {c.reads, ""}}, inode: map[string]int{"/c": 1}}}
		pods := []*api.PodSandbox{{Id: "1", Name: "p", Namespace: "ns"}}
		_, err := p.Synchronize(t.Context(), pods, []*api.Container{{Id: "c", Name: "c", PodSandboxId: "1", State: api.ContainerState_CONTAINER_RUNNING,
			Linux: &api.LinuxContainer{CgroupsPath: "/c", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: c.tells}}}}})
		if _, one := find(p.pods, "c"); err != nil || one == nil || one.cpus != c.want || one.told.cpus != c.tells {
			t.Errorf("it has %q, the runtime tells %q: %+v, %v", c.reads, c.tells, one, err)
		}
	}
}

// A bug that is met in one request does not keep the next waiting.
func TestABugHoldsNothing(t *testing.T) {
	broken := true
	p := New(Options{Manage: All, Rule: func([]string, map[string]string) *workload.Rule {
		if broken {
			panic("a bug")
		}
		return nil
	}})
	pod, c := &api.PodSandbox{Id: "1", Name: "p", Namespace: "ns"}, &api.Container{Id: "c", Name: "c", PodSandboxId: "1"}
	if _, _, err := p.CreateContainer(t.Context(), pod, c); err != nil {
		t.Error(err)
	}
	if !p.mu.TryLock() {
		t.Fatal("it is still locked")
	}
	p.mu.Unlock()
	broken = false
	if err := p.PostStartContainer(t.Context(), pod, c); err != nil {
		t.Error(err)
	}
}
