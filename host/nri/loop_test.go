package nri

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// node is a host with a runtime, a plugin and what decides, without time or sockets: what one
// does the next sees.
type node struct {
	t       fataler
	h       *topology.Host
	s       *control.State
	p       *Plugin
	d       *Driver
	now     time.Time
	asked   uint64
	reply   map[uint64]control.Reply
	disk    disk
	mount   string
	files   cgroups
	pods    map[string]*api.PodSandbox
	live    map[string]*api.Container
	pages   map[string]topology.NodeID // where a container's memory lies
	number  int
	view    control.View // as it is published after each input
	forgets bool         // nothing goes to the disk
	refuse  bool         // nothing is answered, as while the daemon is away
	unasked bool         // the runtime is told what it has not asked for
	grants  []workload.Grant
	key     []byte // of the host
	events  []plan.Event
}

// disk is what would be in the store.
type disk struct {
	seq     uint64
	entries map[uint64]plan.Entry
	homes   []workload.Placement
	values  map[string]json.RawMessage
}

// cgroups is a driver of cgroups without a kernel.
type cgroups struct {
	sets  map[string]*[2]string // cpus, mems
	inode map[string]int
	made  int
	cpus  string // all there are
	mems  string
}

func (c *cgroups) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems}
}
func (c *cgroups) SurvivesBoot(plan.SettingKind) bool { return false }

func which(kind plan.SettingKind) int {
	if kind == plan.CgroupMems {
		return 1
	}
	return 0
}

func (c *cgroups) read(kind plan.SettingKind, path string) (plan.Setting, error) {
	set := c.sets[path]
	if set == nil {
		return plan.Setting{}, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return plan.Setting{Kind: kind, Path: path, Value: set[which(kind)], Object: strconv.Itoa(c.inode[path])}, nil
}

func (c *cgroups) Changes(_ context.Context, step plan.Step) ([]plan.Change, error) {
	if step.Kind == plan.MovePages {
		return nil, nil
	}
	kind := plan.CgroupCPUs
	if step.Kind == plan.SetMems {
		kind = plan.CgroupMems
	}
	s, err := c.read(kind, step.Target.Cgroup)
	return []plan.Change{{Setting: s, Will: step.To}}, err
}

func (c *cgroups) Apply(_ context.Context, step plan.Step, _ func(plan.Move)) error {
	if step.Kind == plan.MovePages {
		return nil
	}
	set := c.sets[step.Target.Cgroup]
	if set == nil {
		return fmt.Errorf("%s: %w", step.Target.Cgroup, fs.ErrNotExist)
	}
	k := 0
	if step.Kind == plan.SetMems {
		k = 1
	}
	set[k] = step.To
	return nil
}

func (c *cgroups) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	s, err := c.read(e.Kind, e.Path)
	if e.Old == "" && (s.Value == c.cpus && e.Kind == plan.CgroupCPUs || s.Value == c.mems && e.Kind == plan.CgroupMems) {
		s.Value = ""
	}
	return s, err
}

func (c *cgroups) Restore(_ context.Context, entries []plan.Entry) []error {
	errs := make([]error, len(entries))
	for i, e := range entries {
		if c.sets[e.Path] == nil {
			errs[i] = fs.ErrNotExist
			continue
		}
		c.sets[e.Path][which(e.Kind)] = e.Old
	}
	return errs
}

func (c *cgroups) Present(e plan.Entry) error {
	if c.sets[e.Path] == nil || e.Object != strconv.Itoa(c.inode[e.Path]) {
		return fs.ErrNotExist
	}
	return nil
}

// fataler is a test or a drawn case of one.
type fataler interface{ Fatal(args ...any) }

func newNode(t fataler, h *topology.Host, mount string) *node {
	n := &node{t: t, h: h, key: hostKey, now: time.Unix(1e9, 0).UTC(), reply: map[uint64]control.Reply{}, mount: mount, pods: map[string]*api.PodSandbox{}, live: map[string]*api.Container{}, pages: map[string]topology.NodeID{}}
	n.disk = disk{entries: map[uint64]plan.Entry{}, values: map[string]json.RawMessage{}}
	n.files = cgroups{sets: map[string]*[2]string{}, inode: map[string]int{}, cpus: h.Online.String(), mems: h.AllowedMems.String()}
	n.start()
	return n
}

// start is a daemon on what is on disk, as after a kill.
func (n *node) start() {
	saved := control.Saved{Seq: n.disk.seq, Placements: slices.Clone(n.disk.homes)}
	for _, seq := range slices.Sorted(maps.Keys(n.disk.entries)) {
		saved.Journal = append(saved.Journal, n.disk.entries[seq])
	}
	for key, into := range map[string]any{control.KeyHolds: &saved.Holds, control.KeyChosen: &saved.Chosen, control.KeyPast: &saved.Past, control.KeyAdmissions: &saved.Admissions, control.KeyTheirs: &saved.Theirs} {
		if text := n.disk.values[key]; text != nil {
			if err := json.Unmarshal(text, into); err != nil {
				n.t.Fatal(err)
			}
		}
	}
	policy := plan.DefaultPolicy()
	n.s = control.New(control.Settings{Enforce: true, Policy: policy, Balance: balance.DefaultSettings(), Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20}}, saved)
	n.p = New(Options{Manage: All, Enforce: true, Mount: n.mount, Within: time.Minute,
		Key: n.key, Grants: n.grants,
	})
	n.p.Join(n)
	n.p.runtime, n.p.unasked = &link{runtime: n}, n.unasked
	n.p.files = fakeFiles{&n.files}
	n.d = n.p.Driver(&n.files)
	n.turn(control.Input{Started: &control.Started{Version: "test", Period: 2 * time.Second}})
	var pods []*api.PodSandbox
	for _, id := range slices.Sorted(maps.Keys(n.pods)) {
		pods = append(pods, n.pods[id])
	}
	var containers []*api.Container
	for _, id := range slices.Sorted(maps.Keys(n.live)) {
		containers = append(containers, n.live[id])
	}
	updates, _ := n.p.Synchronize(context.Background(), pods, containers)
	n.UpdateContainers(context.Background(), &api.UpdateContainersRequest{Update: updates})
}

// Attention implements control.Standing.
func (n *node) Attention() control.Attention { return n.view.Attention() }

// Admit implements control.Standing.
func (n *node) Admit(_ context.Context, asked control.PlaceRequest) (workload.Placement, error) {
	if n.refuse {
		return workload.Placement{}, context.DeadlineExceeded
	}
	asked.Starts = true
	r := n.ask(control.Request{Place: &asked})
	if r.Failed != nil {
		return workload.Placement{}, r.Failed
	}
	return r.Place.Placement, nil
}

// fakeFiles is the files of cgroups.
type fakeFiles struct{ all *cgroups }

func (f fakeFiles) object(cgroup string) string {
	if f.all.sets[cgroup] == nil {
		return ""
	}
	return strconv.Itoa(f.all.inode[cgroup])
}

func (f fakeFiles) read(cgroup, file string) (string, error) {
	switch {
	case cgroup == "/" && file == "cpuset.cpus.effective":
		return f.all.cpus, nil
	case cgroup == "/":
		return f.all.mems, nil
	}
	set := f.all.sets[cgroup]
	if set == nil {
		return "", fs.ErrNotExist
	}
	return set[which(plan.SettingKind(file))], nil
}

// UpdateContainers and RegisterPlugin make the node a runtime.
func (n *node) UpdateContainers(_ context.Context, r *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	for _, u := range r.GetUpdate() {
		c := n.live[u.GetContainerId()]
		if c == nil {
			continue
		}
		cpu := u.GetLinux().GetResources().GetCpu()
		if set := n.files.sets[c.Linux.CgroupsPath]; set != nil {
			if cpu.GetCpus() != "" {
				c.Linux.Resources.Cpu.Cpus, set[0] = cpu.GetCpus(), cpu.GetCpus()
			}
			if mems := cmp.Or(cpu.GetMems(), c.Linux.Resources.Cpu.Mems); mems != "" { // as in runtime.apply
				if stands := cmp.Or(set[1], n.files.mems); stands != mems {
					n.t.Fatal(fmt.Sprintf("the runtime changes the memory nodes of %s from %s to %s while its processes run", c.Id, stands, mems))
				}
				c.Linux.Resources.Cpu.Mems, set[1] = mems, mems
			}
		}
	}
	return &api.UpdateContainersResponse{}, nil
}

func (n *node) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	return &api.Empty{}, nil
}

func (n *node) ask(r control.Request) control.Reply {
	n.asked++
	r.ID = n.asked
	n.turn(control.Input{Request: &r})
	return n.reply[r.ID]
}

// turn decides on an input and does what follows.
func (n *node) turn(in control.Input) {
	in.At = n.now
	var out control.Output
	n.s, out = control.Next(n.s, in)
	for _, e := range out.Save.Entries {
		n.disk.seq = max(n.disk.seq, e.Seq)
		if n.disk.entries[e.Seq] = e; e.State == plan.Restored || e.State == plan.Gone {
			delete(n.disk.entries, e.Seq)
		}
	}
	if out.Save.Placements != nil {
		n.disk.homes = slices.Clone(out.Save.Placements.All())
	}
	for key, v := range out.Save.Values {
		if n.forgets {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			n.t.Fatal(err)
		}
		n.disk.values[key] = text
	}
	n.events = append(n.events, out.Save.Events...)
	n.view = n.s.View()
	for _, r := range out.Replies {
		n.reply[r.ID] = r
	}
	for _, e := range out.Effects {
		n.do(e)
	}
}

func failure(err error) *control.Failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &control.Failure{Code: control.Gone, Text: err.Error()}
	}
	return &control.Failure{Code: control.Failed, Text: err.Error()}
}

func (n *node) do(e control.Effect) {
	ctx, r := context.Background(), control.Result{ID: e.ID}
	var err error
	switch e.Kind {
	case control.EffectRead:
		r.Changes, err = n.d.Changes(ctx, *e.Step)
		r.Failed = failure(err)
	case control.EffectApply:
		if e.Step.Kind == plan.MovePages {
			home, _ := topology.ParseNodeSet(e.Step.To)
			for _, id := range n.containersOf(e.Workload) {
				n.pages[id] = home.Min()
			}
		} else {
			r.Failed = failure(n.d.Apply(ctx, *e.Step, func(plan.Move) {}))
		}
	case control.EffectRestore:
		for _, err := range n.d.Restore(ctx, e.Entries) {
			r.Each = append(r.Each, failure(err))
		}
	case control.EffectCheck:
		for _, entry := range e.Entries {
			s, err := n.d.Read(ctx, entry)
			r.Settings, r.Each = append(r.Settings, s), append(r.Each, failure(err))
		}
	case control.EffectPresent:
		for _, entry := range e.Entries {
			r.Each = append(r.Each, failure(n.d.Present(entry)))
		}
	case control.EffectInherited:
	case control.EffectSurvey:
		n.turn(control.Input{Survey: &control.Survey{Kind: e.Survey}})
		return
	default:
		return
	}
	n.turn(control.Input{Result: &r})
}

func (n *node) containersOf(id workload.ID) (out []string) {
	for _, c := range n.claims() {
		if c.ID == id {
			for _, path := range c.Cgroups {
				out = append(out, path[len("/k8s.io/"):])
			}
		}
	}
	return out
}

func (n *node) claims() []workload.Claim { all, _ := n.p.Claims(n.h); return all }

// scan looks at everything.
func (n *node) scan() {
	n.now = n.now.Add(2 * time.Second)
	number := n.s.Scans + 1
	n.turn(control.Input{Begun: &control.Begun{Number: number}})
	scan := &control.Scan{Number: number, Began: n.now, Snapshot: workload.Snapshot{Host: n.h}}
	for _, id := range slices.Sorted(maps.Keys(n.live)) {
		c := n.live[id]
		path := c.Linux.CgroupsPath
		kib := topology.KiB(c.Linux.Resources.Memory.GetLimit().GetValue()/1024) / 2
		if kib == 0 {
			kib = 100 << 10
		}
		o := workload.Observation{ID: workload.ID(path), Kind: workload.InCgroup, Cgroup: path, CgroupID: uint64(n.files.inode[path]), CPUUse: 0.5, Threads: 8, Window: 2 * time.Second,
			Processes: []workload.Process{{PID: 1000 + n.files.inode[path], Start: 1}}, Memory: []workload.NodeMemory{{Node: n.pages[id], KiB: kib}}, CPUs: n.h.Online, Mems: n.h.AllowedMems}
		if set := n.files.sets[path]; set[0] != "" {
			o.CPUs, _ = topology.ParseCPUSet(set[0])
		}
		if set := n.files.sets[path]; set[1] != "" {
			o.Mems, _ = topology.ParseNodeSet(set[1])
		}
		scan.Snapshot.Observations = append(scan.Snapshot.Observations, o)
	}
	n.p.Refresh(context.Background())
	claims, problems := n.p.Claims(n.h)
	scan.Claims = []control.Claimed{{Source: n.p.Name(), Claims: claims, Problems: problems}}
	n.turn(control.Input{Scan: scan})
}

func (n *node) addPod(annotations map[string]string) *api.PodSandbox {
	n.number++
	id := fmt.Sprintf("p%d", n.number)
	p := &api.PodSandbox{Id: id, Namespace: "ns", Name: id, Annotations: annotations, Linux: &api.LinuxPodSandbox{}}
	n.pods[id] = p
	n.p.RunPodSandbox(context.Background(), p)
	return p
}

func (n *node) addContainer(p *api.PodSandbox, name string, cpus uint64, memory int64) *api.Container {
	n.number++
	id := fmt.Sprintf("c%d", n.number)
	c := &api.Container{Id: id, PodSandboxId: p.Id, Name: name, CreatedAt: int64(n.number), Linux: &api.LinuxContainer{CgroupsPath: "/k8s.io/" + id,
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}, Memory: &api.LinuxMemory{}}}}
	request(c, cpus, memory)
	return n.startContainer(p, c)
}

// startContainer has the runtime create and start a container.
func (n *node) startContainer(p *api.PodSandbox, c *api.Container) *api.Container {
	id := c.Id
	a, _, err := n.p.CreateContainer(context.Background(), p, c)
	if err != nil {
		n.t.Fatal(err)
	}
	c.Linux.Resources.Cpu.Cpus, c.Linux.Resources.Cpu.Mems = a.GetLinux().GetResources().GetCpu().GetCpus(), a.GetLinux().GetResources().GetCpu().GetMems()
	c.Annotations = a.GetAnnotations()
	n.files.made++
	n.files.inode[c.Linux.CgroupsPath] = n.files.made
	n.files.sets[c.Linux.CgroupsPath] = &[2]string{c.Linux.Resources.Cpu.Cpus, c.Linux.Resources.Cpu.Mems}
	n.live[id] = c
	if cpus, err := topology.ParseCPUSet(c.Linux.Resources.Cpu.Cpus); err == nil && !cpus.Empty() {
		for _, x := range n.h.Nodes {
			if x.CPUs.Has(cpus.Min()) {
				n.pages[id] = x.ID
			}
		}
	}
	n.p.PostStartContainer(context.Background(), p, c)
	return c
}

func (n *node) endContainer(id string) {
	c := n.live[id]
	answer, _ := n.p.StopContainer(context.Background(), n.pods[c.PodSandboxId], c)
	n.UpdateContainers(context.Background(), &api.UpdateContainersRequest{Update: answer})
	n.p.RemoveContainer(context.Background(), n.pods[c.PodSandboxId], c)
	delete(n.files.sets, c.Linux.CgroupsPath)
	delete(n.live, id)
	delete(n.pages, id)
}

func (n *node) endPod(id string) {
	for _, c := range slices.Sorted(maps.Keys(n.live)) {
		if n.live[c].PodSandboxId == id {
			n.endContainer(c)
		}
	}
	n.p.StopPodSandbox(context.Background(), n.pods[id])
	delete(n.pods, id)
}

// check is what must hold whenever a scan was decided on.
func (n *node) check(t *rapid.T) {
	v := n.s.View()
	if !v.Halted.None() {
		t.Fatalf("halted: %s", v.Halted)
	}
	if bad := plan.Check(n.s.Facts, v.Plan.Placements); len(bad) > 0 {
		t.Fatalf("%v", bad)
	}
	var own topology.CPUSet
	for _, p := range v.Plan.Placements {
		if p.Class == workload.Dedicated {
			if p.CPUs.Intersects(own) {
				t.Fatalf("CPUs %s twice: %+v", p.CPUs.Intersect(own), v.Plan.Placements)
			}
			own = own.Union(p.CPUs)
		}
	}
}

// settled is what must hold in the files once steps have been taken.
func (n *node) settled(t *rapid.T) {
	v := n.s.View()
	if v.Holds.All || len(v.Holds.IDs) > 0 {
		return
	}
	for _, c := range n.claims() {
		p := place.Of(v.Plan.Placements, c.ID)
		for _, path := range c.Cgroups {
			set := n.files.sets[path]
			if p == nil || set == nil || set[0] == "" && p.CPUs.Equal(n.h.Online) {
				continue
			}
			if set[0] != p.CPUs.String() {
				t.Fatalf("%s of %s has CPUs %q, its home %s; retries %+v theirs %+v steps %+v over %+v tasks %v", path, c.ID, set[0], p.CPUs, v.Retries, n.s.Theirs, v.Plan.Steps, n.s.Overwrites, v.Tasks)
			}
			_, one := find(n.p.pods, path[len("/k8s.io/"):])
			if told := n.live[one.id].Linux.Resources.Cpu.Cpus; told != set[0] && (n.unasked || !one.owed) {
				t.Fatalf("%s: the runtime thinks %q, the file has %q", path, told, set[0])
			}
			if e := n.s.Journal.Of(plan.CgroupCPUs, path); e == nil || e.Old != "" {
				t.Fatalf("%s: in the journal as %+v", path, e)
			}
		}
	}
}

// Whatever comes and goes, no CPU is two containers' own, no node holds more than it has, the
// runtime and the files agree, undo gives every container its old sets, and when all pods are
// gone nothing is left.
func TestPodsComeAndGo(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, h, "/nowhere")
		n.grants = everything
		n.unasked = rapid.Bool().Draw(t, "unasked")
		n.start()
		n.scan()
		some := func(keys []string) string { slices.Sort(keys); return rapid.SampledFrom(keys).Draw(t, "which") }
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			n.refuse = rapid.IntRange(0, 9).Draw(t, "away") == 0
			switch kind := rapid.IntRange(0, 9).Draw(t, "event"); {
			case kind < 4 || len(n.pods) == 0:
				a := map[string]string{}
				if class := rapid.SampledFrom([]string{"", "", "dedicated", "batch", "nonsense"}).Draw(t, "class"); class != "" {
					a["homenode.io/class"] = class
				}
				if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
					a["homenode.io/class.container/b"] = "dedicated"
				}
				p := n.addPod(a)
				for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
					n.addContainer(p, string(rune('a'+i)), uint64(rapid.IntRange(0, 5).Draw(t, "cpus")), int64(rapid.IntRange(0, 6).Draw(t, "GiB"))<<30)
				}
			case kind == 4:
				n.endPod(some(slices.Collect(maps.Keys(n.pods))))
			case kind == 5 && len(n.live) > 0: // it crashes, and is started again
				c := n.live[some(slices.Collect(maps.Keys(n.live)))]
				n.endContainer(c.Id)
				n.addContainer(n.pods[c.PodSandboxId], c.Name, c.Linux.Resources.Cpu.GetShares().GetValue()/1024, c.Linux.Resources.Memory.GetLimit().GetValue())
			case kind == 6 && len(n.live) > 0:
				c := n.live[some(slices.Collect(maps.Keys(n.live)))]
				r := &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(rapid.IntRange(1, 6).Draw(t, "cpus")) * 1024)}, Memory: &api.LinuxMemory{Limit: api.Int64(int64(1 << 30))}}
				answer, _ := n.p.UpdateContainer(context.Background(), n.pods[c.PodSandboxId], c, r)
				if set := n.files.sets[c.Linux.CgroupsPath]; c.Linux.Resources.Cpu.Cpus != "" && n.unasked { // it writes what it knows
					set[0] = c.Linux.Resources.Cpu.Cpus
				}
				n.UpdateContainers(context.Background(), &api.UpdateContainersRequest{Update: answer})
			case kind == 7:
				n.start() // killed, and started again
			case kind == 8:
				n.scan()
			case kind == 9:
				n.scan()
				n.scan()
				n.check(t)
			}
		}
		n.refuse = false
		for range 8 {
			n.scan()
			n.check(t)
		}
		n.settled(t)
		if rapid.Bool().Draw(t, "undo") {
			n.ask(control.Request{Undo: &control.Which{All: true}})
			n.scan()
			for path, set := range n.files.sets {
				if set[0] != "" && set[0] != h.Online.String() || set[1] != "" && set[1] != h.AllowedMems.String() {
					t.Fatalf("after undo %s has %q", path, *set)
				}
			}
			if n.ask(control.Request{Resume: &control.Which{All: true}}); n.s.Holds.All {
				t.Fatal("still held")
			}
		}
		for _, id := range slices.Sorted(maps.Keys(n.pods)) {
			n.endPod(id)
		}
		for range 3 {
			n.scan()
		}
		n.now = n.now.Add(10 * time.Minute)
		for range 3 {
			n.scan()
		}
		v := n.s.View()
		if len(v.Plan.Placements)+len(n.s.Admissions)+len(v.Journal)+len(n.p.waiting)+len(n.p.asked)+len(v.Claims) > 0 {
			t.Fatalf("left: homes %v, admissions %v, journal %v, waiting %v, asked %v", v.Plan.Placements, n.s.Admissions, v.Journal, n.p.waiting, n.p.asked)
		}
	})
}
