package hostprep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// ID names the host where workloads are named: in steps, the journal, and undo.
const ID workload.ID = "host"

// Want is what the host is to be like.
type Want struct {
	Reserve    topology.CPUSet
	Interrupts bool    // move them; false leaves them to who else places them
	HugePages  []Pages // only these are set
	THP        string  // always, madvise or never; "" leaves it
	KSM        string  // "0" or "1"; "" leaves it
}

// Pages is a pool of huge pages on one node.
type Pages struct {
	Node  topology.NodeID
	Size  topology.KiB // of one page
	Count int64
}

// ParsePages reads NODE:SIZE:COUNT, such as 0:2MiB:4096, for h: the pool must be there.
func ParsePages(h *topology.Host, text string) (Pages, error) {
	parts := strings.Split(text, ":")
	bad := fmt.Errorf("%q: want NODE:SIZE:COUNT, such as 0:2MiB:4096", text)
	if len(parts) != 3 {
		return Pages{}, bad
	}
	node, err1 := strconv.Atoi(parts[0])
	size, err2 := workload.ParseSize(parts[1])
	count, err3 := strconv.ParseInt(parts[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || count < 0 {
		return Pages{}, bad
	}
	p := Pages{topology.NodeID(node), size, count}
	n, pool := poolOf(h, p)
	switch {
	case n == nil:
		return p, fmt.Errorf("%q: this host has no node %d", text, node)
	case pool == nil:
		return p, fmt.Errorf("%q: node %d has no pool of pages of %s", text, node, parts[1])
	case n.Memory > 0 && topology.KiB(count) > n.Memory/size:
		return p, fmt.Errorf("%q: node %d has %s of memory", text, node, words.Size(n.Memory))
	}
	return p, nil
}

func poolOf(h *topology.Host, p Pages) (*topology.Node, *topology.HugePool) {
	n := h.Node(p.Node)
	if n == nil {
		return nil, nil
	}
	for k := range n.HugePages {
		if n.HugePages[k].Size == p.Size {
			return n, &n.HugePages[k]
		}
	}
	return n, nil
}

// Steps plans what is not yet as wanted, with notes on what is left as it is.
// devices is the NICs and drives whose interrupts are dealt out queue by queue
// (core/irq); all others are given the reserve of their node.
func Steps(h *topology.Host, f *Facts, w *Want, devices []irq.Device) (steps []plan.Step, notes []words.Reason) {
	p := planner{h: h, f: f, w: w}
	for _, n := range h.Nodes {
		if on := n.CPUs.Intersect(h.Online); !on.Empty() && on.SubsetOf(w.Reserve) {
			p.note(words.NodeAllReserved, n.ID)
		}
	}
	p.slices()
	p.agents()
	p.mask(Workqueue, f.Workqueue, words.Because(words.UnboundWork))
	p.mask(Writeback, f.Writeback, words.Because(words.WritebackWork))
	if w.Interrupts {
		p.mask(DefaultIRQ, f.Default, words.Because(words.NewInterrupts))
		p.interrupts(devices)
	}
	p.memory()
	return p.steps, p.notes
}

type planner struct {
	h     *topology.Host
	f     *Facts
	w     *Want
	steps []plan.Step
	notes []words.Reason
}

func (p *planner) note(code words.Code, args ...any) {
	p.notes = append(p.notes, words.Because(code, args...))
}

func (p *planner) step(kind plan.StepKind, target plan.Target, from, to string, reason words.Reason) {
	p.steps = append(p.steps, plan.Step{Kind: kind, Workload: ID, Target: target, From: from, To: to, Reason: reason})
}

// slices gives the host's cgroups the reserve: through systemd where that runs, for
// it writes cpuset.cpus of its units itself.
func (p *planner) slices() {
	if len(p.f.Slices) > 0 && !p.f.CgroupV2 {
		p.note(words.NoCgroupV2)
		return
	}
	for _, s := range p.f.Slices {
		have, err := topology.ParseCPUSet(s.CPUs)
		if err == nil && have.Equal(p.w.Reserve) {
			continue
		}
		reason := words.Because(words.HostPrograms, s.Name, s.Effective)
		if s.Effective.Empty() {
			reason = words.Because(words.HostProgramsAny, s.Name)
		}
		if p.f.Systemd && !IsPath(s.Name) {
			p.step(plan.SetUnit, plan.Target{Kind: workload.InHost, Host: s.Name}, s.CPUs, p.w.Reserve.String(), reason)
			continue
		}
		p.step(plan.SetCPUs, plan.Target{Kind: workload.InCgroup, Cgroup: s.Cgroup}, s.CPUs, p.w.Reserve.String(),
			reason)
	}
}

func (p *planner) agents() {
	for _, a := range p.f.Agents {
		if slices.ContainsFunc(p.f.Slices, func(s Slice) bool {
			return p.f.CgroupV2 && (a.Cgroup == s.Cgroup || strings.HasPrefix(a.Cgroup, s.Cgroup+"/"))
		}) {
			continue // goes with its slice
		}
		if !a.CPUs.SubsetOf(p.w.Reserve) {
			p.step(plan.SetCPUs, plan.Target{Kind: workload.InProcess, Processes: []workload.Process{a.Process}},
				a.CPUs.String(), p.w.Reserve.String(),
				words.Because(words.HostAgent, a.Name, a.Process.PID))
		}
	}
}

// mask narrows a mask of the kernel's.
func (p *planner) mask(file string, have *topology.CPUSet, reason words.Reason) {
	if have != nil && !have.Intersect(p.h.Online).Equal(p.w.Reserve) {
		p.step(plan.SetFile, plan.Target{Kind: workload.InHost, Host: file}, have.String(), p.w.Reserve.String(),
			reason)
	}
}

// interrupts moves those of devices to the reserve of the device's node, each queue
// to a CPU, and all others to the reserve of their node or, without one, to all of it.
func (p *planner) interrupts(devices []irq.Device) {
	d := irq.Decide(p.h, p.h.Online.Minus(p.w.Reserve), devices, irq.KeepQueues)
	for _, s := range d.Steps {
		s.Workload = ID
		p.steps = append(p.steps, s)
	}
	for _, r := range d.Reports {
		if !r.Why.None() {
			p.note(words.DeviceLeft, r.Device, r.Why)
		}
	}
	for _, x := range p.f.Interrupts {
		if irq.HasNumber(devices, x.Number) {
			continue
		}
		to := p.w.Reserve
		if near := irq.Allowed(p.h, p.h.Online.Minus(to), x.Node); !near.Empty() {
			to = near
		}
		if !x.CPUs.Intersect(p.h.Online).SubsetOf(to) {
			p.step(plan.SetIRQ, plan.Target{Kind: workload.InHost, Host: fmt.Sprintf("%d/%s", x.Number, x.Name)},
				x.CPUs.String(), to.String(),
				words.Because(words.GuestInterrupt, x.Number, x.Name))
		}
	}
}

// PoolFile is where the number of huge pages of a node is set.
func PoolFile(p Pages) string {
	return fmt.Sprintf("sys/devices/system/node/node%d/hugepages/hugepages-%dkB/nr_hugepages", p.Node, p.Size)
}

func (p *planner) memory() {
	for _, want := range p.w.HugePages {
		if _, pool := poolOf(p.h, want); pool != nil && pool.Total != want.Count {
			p.step(plan.SetFile, plan.Target{Kind: workload.InHost, Host: PoolFile(want)},
				strconv.FormatInt(pool.Total, 10), strconv.FormatInt(want.Count, 10),
				words.Because(words.PoolWanted, want.Node, want.Count, want.Size))
		}
	}
	if w := p.w.THP; w != "" && w != p.f.THP {
		p.step(plan.SetFile, plan.Target{Kind: workload.InHost, Host: THP}, p.f.THP, w, words.Because(words.THPWanted))
	}
	if w := p.w.KSM; w != "" && p.f.KSM != nil && w != strconv.Itoa(*p.f.KSM) {
		p.step(plan.SetFile, plan.Target{Kind: workload.InHost, Host: KSM}, strconv.Itoa(*p.f.KSM), w,
			words.Because(words.KSMWanted))
	}
}
