package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// target is the job that a step means, or an error that it is gone.
func (h *homenode) target(s *plan.Step) (*job, error) {
	j := h.m.byID[s.Workload]
	if j == nil {
		return nil, errLost(string(s.Workload))
	}
	for _, p := range s.Target.Processes {
		if p == j.process {
			return j, nil
		}
	}
	return nil, errLost(string(s.Workload))
}

// settingOf is what a step changes, with the value that stands.
func settingOf(j *job, kind plan.StepKind) (plan.Setting, bool) {
	switch {
	case kind == plan.SetMems:
		return plan.Setting{Kind: plan.CgroupMems, Path: string(j.id), Value: j.mems.String()}, true
	case kind == plan.SetCPUs && j.kind == workload.InCgroup:
		return plan.Setting{Kind: plan.CgroupCPUs, Path: string(j.id), Value: j.cpus.String()}, true
	case kind == plan.SetCPUs:
		return plan.Setting{Kind: plan.Affinity, Path: j.affinity(), Value: j.cpus.String()}, true
	}
	return plan.Setting{}, false
}

// Changes implements driver.
func (h *homenode) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	j, err := h.target(&s)
	if err != nil {
		return nil, err
	}
	if setting, ok := settingOf(j, s.Kind); ok {
		return []plan.Change{{Setting: setting, Will: s.To}}, nil
	}
	return nil, nil
}

// Apply implements driver.
func (h *homenode) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	j, err := h.target(&s)
	if err != nil {
		return err
	}
	if setting, ok := settingOf(j, s.Kind); ok {
		if h.state.Journal.Of(setting.Kind, setting.Path) == nil {
			h.wrong = append(h.wrong, fmt.Sprintf("%s of %s is changed from %q without a journal entry", setting.Kind, setting.Path, setting.Value))
		}
	}
	switch s.Kind {
	case plan.SetCPUs:
		cpus, err := topology.ParseCPUSet(s.To)
		if err != nil {
			return err
		}
		if cpus.Empty() || !cpus.SubsetOf(h.m.host.Online) {
			return fmt.Errorf("CPU set %q: not CPUs that are online", s.To)
		}
		h.m.setCPUs(j, cpus, j.demand.Class == workload.Dedicated)
		h.count.Steps++
		return nil
	case plan.SetMems:
		mems, err := topology.ParseNodeSet(s.To)
		if err != nil {
			return err
		}
		j.mems = mems
		h.count.Steps++
		return h.migrate(j)
	case plan.MovePages:
		return h.move(ctx, j, &s, progress)
	}
	return fmt.Errorf("unknown step %q", s.Kind)
}

// migrate is what the kernel does when cpuset.mems changes: it moves what lies
// outside at once, as far as there is room.
func (h *homenode) migrate(j *job) error {
	for i := range j.mem {
		if !j.mems.Has(h.m.host.Nodes[i].ID) {
			for to := range j.mem {
				if j.mems.Has(h.m.host.Nodes[to].ID) {
					h.carry(j, i, to, j.mem[i])
				}
			}
		}
	}
	return nil
}

// carry moves up to kib of a job's memory between nodes and says how much.
func (h *homenode) carry(j *job, from, to int, kib topology.KiB) topology.KiB {
	kib = h.m.carry(j, from, to, kib, h.period)
	h.count.MovedBytes += int64(kib) << 10
	return kib
}

// moveStep is how long a page move goes on between two looks at whether its job
// still lives. The real mover looks every 2 MiB; a second is short against the
// life of a job.
const moveStep = time.Second

// move brings home what lies elsewhere, at the paced bandwidth.
func (h *homenode) move(ctx context.Context, j *job, s *plan.Step, progress func(plan.Move)) error {
	home, err := topology.ParseNodeSet(s.To)
	if err != nil {
		return err
	}
	h.count.Moves++
	done := plan.Move{}
	for {
		kib := topology.KiB(h.pace>>10) * topology.KiB(moveStep/time.Second)
		if left := h.offHome(j, home); left < kib {
			kib = left
		}
		if kib == 0 {
			return nil
		}
		// Moves in flight share the bandwidth.
		if !h.current.sleep(time.Duration(float64(kib<<10) / float64(h.pace) * float64(len(h.tasks)) * float64(time.Second))) {
			return context.Canceled
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if h.m.byID[j.id] != j {
			return errLost(string(j.id))
		}
		moved := h.moveSome(j, home, s.Shares, kib)
		done.Moved += int64(moved) << 10
		progress(done)
		if moved == 0 && h.offHome(j, home) > 0 {
			return fmt.Errorf("node %s is full", home)
		}
	}
}

func (h *homenode) offHome(j *job, home topology.NodeSet) topology.KiB {
	var sum topology.KiB
	for i, kib := range j.mem {
		if !home.Has(h.m.host.Nodes[i].ID) {
			sum += kib
		}
	}
	return sum
}

// moveSome moves kib to the home nodes that are most short of their share.
func (h *homenode) moveSome(j *job, home topology.NodeSet, shares []workload.NodeMemory, kib topology.KiB) topology.KiB {
	var moved topology.KiB
	for from := range j.mem {
		if home.Has(h.m.host.Nodes[from].ID) {
			continue
		}
		for range j.mem {
			to, lacks := -1, topology.KiB(0)
			for _, s := range shares {
				i := h.m.index[s.Node]
				if lack := s.KiB - j.mem[i]; h.m.free[i] > 0 && (to < 0 || lack > lacks) {
					to, lacks = i, lack
				}
			}
			if to < 0 || moved == kib || j.mem[from] == 0 {
				break
			}
			part := kib - moved
			if lacks > 0 {
				part = min(part, lacks)
			}
			moved += h.carry(j, from, to, part)
		}
	}
	return moved
}

// Read implements driver.
func (h *homenode) Read(e plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: e.Kind, Path: e.Path}
	j := h.m.byID[e.Workload]
	if j == nil || e.Kind == plan.Affinity && e.Path != j.affinity() {
		return now, errLost(e.Path)
	}
	if now.Value = j.cpus.String(); e.Kind == plan.CgroupMems {
		now.Value = j.mems.String()
	}
	return now, nil
}

// Restore implements driver.
func (h *homenode) Restore(e plan.Entry) error {
	j := h.m.byID[e.Workload]
	if j == nil || e.Kind == plan.Affinity && e.Path != j.affinity() {
		return errLost(e.Path)
	}
	if e.Kind == plan.CgroupMems {
		mems, err := topology.ParseNodeSet(e.Old)
		j.mems = mems
		return err
	}
	cpus, err := topology.ParseCPUSet(e.Old)
	if err != nil {
		return err
	}
	h.m.setCPUs(j, cpus, false)
	return nil
}
