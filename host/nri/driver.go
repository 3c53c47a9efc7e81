package nri

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/plan"
)

// Cgroups is a driver of cgroups. host/cgroup has one.
type Cgroups = plan.Driver

// Driver changes cgroups: those of containers through their runtime.
type Driver struct {
	Cgroups
	p *Plugin
}

// Driver is a driver of cgroups that knows which are containers'.
func (p *Plugin) Driver(cgroups Cgroups) *Driver { return &Driver{cgroups, p} }

// tellWithin bounds telling the runtime: it may be busy starting containers.
const tellWithin = 3 * time.Second

// Changes is those of all containers of the workload.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	all := d.p.siblings(step)
	if len(all) == 0 {
		return d.Cgroups.Changes(ctx, step)
	}
	var out []plan.Change
	var paths []string
	for i, c := range all {
		one := step
		one.Target.Cgroup = c.cgroup
		changes, err := d.Cgroups.Changes(ctx, one)
		if i > 0 && errors.Is(err, fs.ErrNotExist) { // it has ended
			continue
		}
		if err != nil {
			return nil, err
		}
		paths = append(paths, c.cgroup)
		for _, x := range changes {
			if !slices.ContainsFunc(out, func(y plan.Change) bool { return y.Kind == x.Kind && y.Path == x.Path }) {
				out = append(out, x)
			}
		}
	}
	d.p.mu.Lock()
	d.p.asked[step.Target.Cgroup] = paths
	d.p.mu.Unlock()
	return out, nil
}

// siblings is the containers that a step is about, the one of its cgroup first; none where
// that is no container's.
func (p *Plugin) siblings(step plan.Step) (out []container) {
	if step.Kind != plan.SetCPUs && step.Kind != plan.SetMems {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.pods {
		for _, g := range in.groups() {
			i := slices.IndexFunc(g.containers, func(c *container) bool {
				return c.cgroup == step.Target.Cgroup &&
					c.cgroup != ""
			})
			if i < 0 {
				continue
			}
			out = append(out, *g.containers[i])
			for k, c := range g.containers {
				if k != i && c.cgroup != "" {
					out = append(out, *c)
				}
			}
			return out
		}
	}
	return nil
}

// Apply makes a step true of all containers that Changes was asked about, and tells their
// runtime. Memory nodes are written here first: a runtime, or systemd for it, writes them
// while the processes run, and one that holds the lock of its memory would hold up the host
// (host/cgroup/mems.go). A second write of the same value changes nothing in the kernel
// (update_nodemask, kernel/cgroup/cpuset.c). CPU sets are the runtime's to write first; where
// it did not, they are written here.
func (d *Driver) Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	if step.Kind != plan.SetCPUs && step.Kind != plan.SetMems {
		return d.Cgroups.Apply(ctx, step, progress)
	}
	d.p.mu.Lock()
	paths := d.p.asked[step.Target.Cgroup]
	d.p.mu.Unlock()
	if len(paths) == 0 {
		return d.Cgroups.Apply(ctx, step, progress)
	}
	var want []told
	for _, path := range paths {
		want = append(want, told{path, step.Kind == plan.SetMems, step.To})
	}
	if step.Kind == plan.SetCPUs {
		d.p.tell(ctx, want)
	}
	for i, path := range paths {
		one := step
		if one.Target.Cgroup = path; i > 0 {
			one.Target.Object = ""
		}
		err := d.Cgroups.Apply(ctx, one, progress)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			if step.Kind == plan.SetMems { // of those that took the runtime knows
				d.p.tell(ctx, want[:i])
			}
			return err
		}
	}
	if step.Kind == plan.SetMems {
		d.p.tell(ctx, want)
	}
	return nil
}

// Restore puts Old of entries back, and tells the runtime so: of memory nodes only once they
// stand, see Apply.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	d.p.tell(ctx, d.olds(entries, plan.CgroupCPUs, nil))
	errs := d.Cgroups.Restore(ctx, entries)
	if mems := d.olds(entries, plan.CgroupMems, errs); len(mems) > 0 {
		d.p.tell(ctx, mems)
		for i, e := range entries { // a runtime takes no empty set, and has written all nodes for it
			if e.Kind == plan.CgroupMems && errs[i] == nil && e.Old == "" {
				errs[i] = d.Cgroups.Restore(ctx, entries[i:i+1])[0]
			}
		}
	}
	return errs
}

// olds returns the values that the runtime gets for restored entries of one kind.
func (d *Driver) olds(entries []plan.Entry, kind plan.SettingKind, errs []error) (want []told) {
	for i, e := range entries {
		if e.Kind != kind || (errs != nil && errs[i] != nil) {
			continue
		}
		old := e.Old
		if old == "" { // a runtime takes no empty set: all that there is means the same
			text, err := d.p.files.read("/", string(e.Kind)+".effective")
			if err != nil {
				continue
			}
			old = text
		}
		want = append(want, told{e.Path, kind == plan.CgroupMems, old})
	}
	return want
}

// told is a set that a runtime is to write into a cgroup.
type told struct {
	cgroup string
	mems   bool
	to     string
}

// tell has the runtime write sets of its containers, where it takes what it has not asked for.
// What it was not told it learns with an answer, or when it is connected anew.
func (p *Plugin) tell(ctx context.Context, want []told) {
	byID := map[string]*api.ContainerUpdate{}
	var updates []*api.ContainerUpdate
	p.mu.Lock()
	runtime := p.runtime
	for _, w := range want {
		c := p.byCgroup(w.cgroup)
		if c == nil {
			continue
		}
		c.owed = true
		u := byID[c.id]
		if u == nil {
			u = &api.ContainerUpdate{ContainerId: c.id}
			byID[c.id], updates = u, append(updates, u)
		}
		if w.mems {
			u.SetLinuxCPUSetMems(w.to)
			continue
		}
		u.SetLinuxCPUSetCPUs(w.to)
		// With the CPUs a runtime writes the memory nodes that it knows: it may not have been told
		// of those that stand.
		if mems := p.stands(c, plan.CgroupMems, c.told.mems); mems != "" && mems != c.told.mems {
			u.SetLinuxCPUSetMems(mems)
		}
	}
	if !p.unasked {
		runtime = nil
	}
	p.mu.Unlock()
	if runtime == nil || len(updates) == 0 {
		return
	}
	slices.SortFunc(updates, func(a, b *api.ContainerUpdate) int {
		return strings.Compare(a.ContainerId,
			b.ContainerId)
	})
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	failed, err := runtime.update(ctx, updates)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mayKnow(updates)
	if err != nil {
		p.o.Log.Warn("the container runtime was not told", "err", err)
		return
	}
	p.knows(updates, failed)
}

// mayKnow notes the memory nodes that the runtime was sent, although it may not have taken them. If it did, it
// writes them with the next CPUs, while the processes run, unless that update names the nodes that stand
// then. p.mu is held.
func (p *Plugin) mayKnow(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		if _, c := find(p.pods, u.GetContainerId()); c != nil {
			c.told.mems = cmp.Or(u.GetLinux().GetResources().GetCpu().GetMems(), c.told.mems)
		}
	}
}

// knows notes what the runtime was told, but of those that failed. p.mu is held.
func (p *Plugin) knows(updates []*api.ContainerUpdate, failed []string) {
	for _, u := range updates {
		if _, c := find(p.pods, u.GetContainerId()); c != nil && !slices.Contains(failed, c.id) {
			cpu := u.GetLinux().GetResources().GetCpu()
			c.told, c.owed = sets{cmp.Or(cpu.GetCpus(), c.told.cpus), cmp.Or(cpu.GetMems(), c.told.mems)}, false
		}
	}
}

// answer is updates of up to so many of some containers that their runtime was not told of:
// what stands in their files. p.mu is held.
func (p *Plugin) answer(most int, which func(*container) bool) (updates []*api.ContainerUpdate) {
	for _, in := range p.pods {
		for _, c := range in.containers {
			if len(updates) == most || !c.owed || c.stopped || !which(c) {
				continue
			}
			if u := c.update(sets{p.stands(c, plan.CgroupCPUs, c.told.cpus),
				p.stands(c, plan.CgroupMems, c.told.mems)}); u != nil {
				updates = append(updates, u)
			}
		}
	}
	p.knows(updates, nil)
	return updates
}

// stands is what a runtime is to write where it would write told.
func (p *Plugin) stands(c *container, kind plan.SettingKind, told string) string {
	text, err := p.files.read(c.cgroup, string(kind))
	if err == nil && text == "" && told != "" {
		text, _ = p.files.read("/", string(kind)+".effective") // it takes no empty set
	}
	return text
}

// byCgroup is the container that has a cgroup, or nil. p.mu is held.
func (p *Plugin) byCgroup(cgroup string) *container {
	for _, in := range p.pods {
		for _, c := range in.containers {
			if c.cgroup == cgroup && !c.stopped {
				return c
			}
		}
	}
	return nil
}
