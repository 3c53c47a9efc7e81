package nri

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Claims is what is known of pods and their containers.
func (p *Plugin) Claims(h *topology.Host) (out []workload.Claim, problems []workload.Problem) {
	now := p.now()
	wrote := entriesOf(now.Journal)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host = h
	known := map[workload.ID]bool{}
	var sandboxes []string
	for _, in := range p.pods {
		if len(in.id) >= 12 {
			sandboxes = append(sandboxes, "*"+in.id+"*")
		}
		for _, c := range in.containers { // told in vain, or by an earlier daemon
			c.owed = c.owed || c.update(c.written(wrote)) != nil
		}
		var told []trouble
		for _, g := range p.groups(in) {
			known[g.id] = true
			p.begun(&g)
			// its home is held; nothing can be done to it yet
			if _, placed := now.Home(g.id); len(g.containers) == 0 && (g.own || !placed) {
				continue
			}
			c, trouble := p.claim(&g, &now, wrote)
			out = append(out, c)
			told = append(told, trouble)
		}
		if text := in.troubles(told); text != "" && len(told) > 0 {
			problems = append(problems, workload.Problem{Subject: string(told[0].id), Text: text})
		}
	}
	maps.DeleteFunc(p.waiting, func(id workload.ID, _ workload.Placement) bool {
		if !known[id] {
			return true
		}
		_, placed := now.Home(id)
		return placed
	})
	maps.DeleteFunc(p.asked, func(cgroup string, _ []string) bool {
		return !slices.ContainsFunc(out, func(c workload.Claim) bool { return slices.Contains(c.Cgroups, cgroup) })
	})
	slices.SortFunc(out, func(a, b workload.Claim) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(problems, func(a, b workload.Problem) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Text, b.Text))
	})
	if len(sandboxes) > 0 {
		slices.Sort(sandboxes)
		out = append(out, workload.Claim{Cgroups: sandboxes, Alone: words.Because(words.ContainerSandbox)})
	}
	if p.o.Mount == "" && len(known) > 0 {
		problems = append(problems,
			workload.Problem{Subject: p.Name(), Text: words.Because(words.ContainerCgroupV1).String()})
	}
	// What its runtime has not told of: a sandbox that is being made, a container that has not
	// started. A runtime that has no pods may not be the one that has these.
	if (!p.synced && p.expected()) || len(p.pods) > 0 {
		out = append(out, workload.Claim{Cgroups: []string{"kubepods*", "kubelet-kubepods*", "cri-containerd-*",
			"crio-*"}, Alone: words.Because(words.ContainerUnknown)})
	}
	return out, problems
}

// begun leaves the containers of a group that have started by now. What runs in the cgroup of one
// that has not is its runtime.
func (p *Plugin) begun(g *group) {
	if p.o.Mount == "" {
		return
	}
	g.containers = slices.DeleteFunc(slices.Clone(g.containers), func(c *container) bool {
		return !c.seen || (c.cgroup != "" && p.files.object(c.cgroup) == "")
	})
}

// expected reports whether a runtime is there, by its socket.
func (p *Plugin) expected() bool {
	_, err := os.Stat(p.o.Socket)
	return err == nil
}

// groups is the workloads of a pod. Where cgroups are not seen as such each container is one,
// found by its process.
func (p *Plugin) groups(in *pod) []group {
	if p.o.Mount != "" {
		return in.groups()
	}
	var out []group
	for _, c := range in.containers {
		if !c.stopped {
			out = append(out, group{pod: in, id: workload.ID(in.name + "/" + c.name), containers: []*container{c},
				own: true})
		}
	}
	return out
}

func (p *Plugin) claim(g *group, now *control.Attention, wrote map[setting]plan.Entry) (workload.Claim, trouble) {
	w := p.o.spec(g)
	spec, t := w.Spec, trouble{id: g.id, class: w.Class, bad: w.bad, refused: w.refused}
	c := workload.Claim{Owner: g.pod.owner(), Asked: w.asked, Note: refusal(w.refused, w.Class),
		ID: g.id, Name: g.name(), Running: true, Ruled: true, Crowd: true, Alone: p.alone(g, now),
		Caps: workload.Caps{Evicts: !g.own && len(g.pod.groups()) == 1, // nobody else is in the pod
			GPUs: len(nearGPUs(nil, g.containers)) > 1}}
	if home, ok := now.Home(g.id); ok && len(g.containers) == 0 { // between two containers there is nothing to change
		if c.CPUs = home.CPUs; home.Bound {
			c.Mems = home.MemoryNodes()
		}
	}
	for _, one := range g.containers {
		c.Also = append(c.Also, one.id)
		if full := g.pod.name + "/" + one.name; full != string(g.id) && full != c.Name {
			c.Also = append(c.Also, full)
		}
		if one.process.PID > 0 && p.o.Mount == "" {
			c.Process = one.process
		}
		if one.turn != "" && c.Note.None() {
			c.Note = words.Because(words.PodInTurn, one.turn)
		}
		if one.cgroup != "" {
			c.Cgroups = append(c.Cgroups, one.cgroup)
		}
		if b := p.began(one, wrote); b.CPUs != "" || b.Mems != "" {
			c.Began = append(c.Began, b)
		}
		if nodes, err := topology.ParseNodeSet(one.mems); err == nil && !nodes.Empty() {
			spec.Nodes = nodes
		}
		if text := g.pod.distrusted(one); text != "" {
			t.bad = append(t.bad, text)
		}
	}
	if booked, missing, ok := bookedOf(g, now); ok {
		c.Booked, spec.Class = true, booked.Class
		if !p.has(g.containers[0], booked.CPUs) {
			why := "when it began homenode did not answer in time, or was not in enforce mode; it has them once it " +
				"is started again"
			if !c.Alone.None() {
				why = c.Alone.String()
			}
			t.bad = append(t.bad, fmt.Sprintf("it has not the CPUs %s of its resource claim: %s", booked.CPUs, why))
		}
		if c.Alone.None() {
			c.Alone = words.Because(words.ContainerClaimed)
		}
	} else if missing != "" {
		t.bad = append(t.bad, "its resource claim is not booked: it runs as without one")
	}
	c.Spec = &spec
	return c, t
}

func bookedOf(g *group, now *control.Attention) (all workload.Placement, missing workload.ID, ok bool) {
	if len(g.containers) != 1 {
		return all, "", false
	}
	return booked(g.containers[0], g.pod.owner(), now)
}

// has reports whether the CPU set of a container is this one. One that cannot be read may be.
func (p *Plugin) has(c *container, cpus topology.CPUSet) bool {
	if p.o.Mount == "" {
		return true
	}
	text, err := p.files.read(c.cgroup, string(plan.CgroupCPUs))
	now, bad := topology.ParseCPUSet(text)
	return err != nil || bad != nil || now.Equal(cpus)
}

// began is the sets that homenode gave a container before it started, where they still stand
// and the journal has them not.
func (p *Plugin) began(c *container, wrote map[setting]plan.Entry) (b workload.Began) {
	if c.cgroup == "" || p.o.Mount == "" {
		return b
	}
	b.Cgroup = c.cgroup
	stands := func(kind plan.SettingKind, given string) string {
		if given == "" || wrote[setting{kind, c.cgroup}].New != "" {
			return ""
		}
		text, err := p.files.read(c.cgroup, string(kind))
		now, err1 := topology.ParseCPUSet(text) // nodes have the same format
		set, err2 := topology.ParseCPUSet(given)
		if err != nil || err1 != nil || err2 != nil || !now.Equal(set) {
			return ""
		}
		return set.String()
	}
	if b.CPUs, b.Mems = stands(plan.CgroupCPUs, c.given.cpus), stands(plan.CgroupMems, c.given.mems); b.CPUs != "" ||
		b.Mems != "" {
		b.Object = p.files.object(c.cgroup)
	}
	return b
}

// alone returns why a workload is left alone.
func (p *Plugin) alone(g *group, now *control.Attention) words.Reason {
	if p.o.Manage != All {
		return words.Because(words.ContainerObserved)
	}
	why := now.Leaves(&workload.Spec{ID: g.id, Name: g.name()}, g.names())
	if !why.None() {
		return why
	}
	for _, c := range g.containers {
		if cpus, err := topology.ParseCPUSet(c.cpus); err == nil && !cpus.Empty() {
			return words.Because(words.ContainerPinned, cpus)
		}
	}
	return words.Reason{}
}

// Processes is the first process of each container, which is observed however small it is,
// where there are no cgroups to see it by.
func (p *Plugin) Processes() (out []workload.Process) {
	if p.o.Mount != "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.pods {
		for _, c := range in.containers {
			if c.process.PID > 0 && !c.stopped {
				out = append(out, c.process)
			}
		}
	}
	slices.SortFunc(out, func(a, b workload.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// learnProcess is what the process of a container tells: its start, and its cgroup where
// nothing else does.
func (p *Plugin) learnProcess(c *container, pid uint32) {
	if pid == 0 || p.o.Identify == nil {
		return
	}
	if found, err := p.o.Identify(int(pid)); err == nil {
		c.process = found
	}
	if c.cgroup != "" || p.o.Mount == "" {
		return
	}
	text, _ := os.ReadFile(filepath.Join(p.o.Proc, strconv.Itoa(int(pid)), "cgroup"))
	for line := range strings.SplitSeq(string(text), "\n") {
		if at, ok := strings.CutPrefix(line, "0::"); ok && strings.HasPrefix(at, "/") && at != "/" {
			c.cgroup = at
		}
	}
}
