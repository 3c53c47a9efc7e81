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
func (m *machine) target(s *plan.Step) (*job, error) {
	j := m.byID[s.Workload]
	if j == nil { // what a source claims has another name
		j = m.byID[workload.ID(s.Target.Cgroup)]
	}
	if j == nil {
		return nil, errLost(string(s.Workload))
	}
	if s.Kind == plan.SetCgroup {
		return j, nil
	}
	for _, p := range s.Target.Processes {
		if p == j.process {
			return j, nil
		}
	}
	return nil, errLost(string(s.Workload))
}

// settingOf is what a step changes, with the value that stands.
func settingOf(j *job, s *plan.Step) (plan.Setting, bool) {
	kind := s.Kind
	switch {
	case kind == plan.SetCgroup:
		file := plan.SettingKind(s.Target.File)
		return plan.Setting{Kind: file, Path: s.Target.Cgroup, Value: j.file(file), Object: j.inode()}, true
	case kind == plan.SetMems:
		return plan.Setting{Kind: plan.CgroupMems, Path: string(j.id), Value: j.mems.String(), Object: j.inode()}, true
	case kind == plan.SetCPUs && j.kind == workload.InCgroup:
		return plan.Setting{Kind: plan.CgroupCPUs, Path: string(j.id), Value: j.cpus.String(), Object: j.inode()}, true
	case kind == plan.SetCPUs:
		return plan.Setting{Kind: plan.Affinity, Path: j.affinity(), Value: j.cpus.String()}, true
	}
	return plan.Setting{}, false
}

// Changes implements driver.
func (h *homenode) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	j, err := h.m.target(&s)
	if err != nil {
		return nil, err
	}
	if setting, ok := settingOf(j, &s); ok {
		return []plan.Change{{Setting: setting, Will: s.To}}, nil
	}
	return nil, nil
}

// Apply implements driver.
func (h *homenode) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	j, err := h.m.target(&s)
	if err != nil {
		return err
	}
	if setting, ok := settingOf(j, &s); ok {
		if h.state.Journal.Of(setting.Kind, setting.Path) == nil {
			h.wrong = append(h.wrong, fmt.Sprintf("%s of %s is changed from %q without a journal entry", setting.Kind,
				setting.Path, setting.Value))
		}
	}
	if s.Kind == plan.MovePages {
		return h.move(ctx, j, &s, progress)
	}
	moved, err := h.m.set(j, &s, h.period)
	h.count.MovedBytes += int64(moved) << 10
	if err == nil {
		h.count.Steps++
	}
	return err
}

// set carries out a step that changes a setting, and says how much memory the kernel moved
// for it at once.
func (m *machine) set(j *job, s *plan.Step, period time.Duration) (moved topology.KiB, err error) {
	switch s.Kind {
	case plan.SetCPUs:
		cpus, err := topology.ParseCPUSet(s.To)
		if err != nil {
			return 0, err
		}
		if cpus.Empty() || !cpus.SubsetOf(m.host.Online) {
			return 0, fmt.Errorf("CPU set %q: not CPUs that are online", s.To)
		}
		m.setCPUs(j, cpus, j.demand.Class == workload.Dedicated)
		return 0, nil
	case plan.SetMems:
		mems, err := topology.ParseNodeSet(s.To)
		if err != nil {
			return 0, err
		}
		j.mems = mems
		return m.migrate(j, period), nil
	case plan.SetCgroup:
		j.write(plan.SettingKind(s.Target.File), s.To)
		return 0, nil
	}
	return 0, fmt.Errorf("unknown step %q", s.Kind)
}

// migrate is what the kernel does when cpuset.mems changes: it moves what lies
// outside at once, as far as there is room.
func (m *machine) migrate(j *job, period time.Duration) (moved topology.KiB) {
	for i := range j.mem {
		if !j.mems.Has(m.host.Nodes[i].ID) {
			for to := range j.mem {
				if j.mems.Has(m.host.Nodes[to].ID) {
					moved += m.carry(j, i, to, j.mem[i], period)
				}
			}
		}
	}
	return moved
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
		if left := h.m.offHome(j, home); left < kib {
			kib = left
		}
		if kib == 0 {
			return nil
		}
		// Moves in flight share the bandwidth.
		if !h.current.sleep(
			time.Duration(float64(kib<<10) / float64(h.pace) * float64(len(h.tasks)) * float64(time.Second))) {
			return context.Canceled
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if h.m.byID[j.id] != j {
			return errLost(string(j.id))
		}
		moved := h.m.moveSome(j, home, s.Shares, kib, h.period)
		h.count.MovedBytes += int64(moved) << 10
		done.Moved += int64(moved) << 10
		progress(done)
		if moved == 0 && h.m.offHome(j, home) > 0 {
			return fmt.Errorf("node %s is full", home)
		}
	}
}

func (m *machine) offHome(j *job, home topology.NodeSet) topology.KiB {
	var sum topology.KiB
	for i, kib := range j.mem {
		if !home.Has(m.host.Nodes[i].ID) {
			sum += kib
		}
	}
	return sum
}

// moveSome moves kib to the home nodes that are most short of their share.
func (m *machine) moveSome(j *job, home topology.NodeSet, shares []workload.NodeMemory, kib topology.KiB,
	period time.Duration) topology.KiB {
	var moved topology.KiB
	for from := range j.mem {
		if home.Has(m.host.Nodes[from].ID) {
			continue
		}
		for range j.mem {
			to, lacks := -1, topology.KiB(0)
			for _, s := range shares {
				i := m.index[s.Node]
				if lack := s.KiB - j.mem[i]; m.free[i] > 0 && (to < 0 || lack > lacks) {
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
			moved += m.carry(j, from, to, part, period)
		}
	}
	return moved
}

// Read implements driver.
func (h *homenode) Read(e plan.Entry) (plan.Setting, error) { return h.m.read(&e) }

// ofEntry is the job that an entry of the journal is about, or an error that it is gone.
func (m *machine) ofEntry(e *plan.Entry) (*job, error) {
	j := m.byID[e.Workload]
	if j == nil {
		j = m.byID[workload.ID(e.Path)]
	}
	if j == nil || (e.Kind == plan.Affinity && e.Path != j.affinity()) || (e.Object != "" && e.Object != j.inode()) {
		return nil, errLost(e.Path)
	}
	return j, nil
}

func (m *machine) read(e *plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: e.Kind, Path: e.Path}
	j, err := m.ofEntry(e)
	if err != nil {
		return now, err
	}
	switch now.Value = j.cpus.String(); {
	case e.Kind == plan.CgroupMems:
		now.Value = j.mems.String()
	case e.Kind.IsCgroupFile():
		now.Value = j.file(e.Kind)
	}
	if e.Kind != plan.Affinity {
		now.Object = j.inode()
	}
	return now, nil
}

// Restore implements driver.
func (h *homenode) Restore(e plan.Entry) error { return h.m.restore(&e) }

func (m *machine) restore(e *plan.Entry) error {
	j, err := m.ofEntry(e)
	if err != nil {
		return err
	}
	switch {
	case e.Kind == plan.CgroupMems:
		mems, err := topology.ParseNodeSet(e.Old)
		j.mems = mems
		return err
	case e.Kind.IsCgroupFile():
		j.write(e.Kind, e.Old)
		return nil
	}
	cpus, err := topology.ParseCPUSet(e.Old)
	if err != nil {
		return err
	}
	m.setCPUs(j, cpus, false)
	return nil
}
