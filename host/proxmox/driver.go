package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Cgroups is a driver of cgroups: host/cgroup.
type Cgroups = plan.Driver

// Processes is the driver of affinities: host/process. It reads and restores those in the journal.
type Processes interface {
	Changes(ctx context.Context, step plan.Step) ([]plan.Change, error)
	// Pin gives each thread of a process the CPUs that the value of an affinity says.
	Pin(ctx context.Context, p workload.Process, value string) error
}

// Driver changes cgroups. With the CPUs of a guest it sets those of its vCPU threads: each has
// one of its own where the guest is dedicated, and all that its QEMU has where it is not.
type Driver struct {
	Cgroups
	processes Processes
	s         *Source
}

// Driver is a driver of cgroups that knows which are guests'.
func (s *Source) Driver(cgroups Cgroups, processes Processes) *Driver {
	return &Driver{cgroups, processes, s}
}

// Changes is those of the cgroup, and of the affinities in its QEMU.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	out, err := d.Cgroups.Changes(ctx, step)
	g := d.s.of(step)
	if err != nil || g == nil {
		return out, err
	}
	to, pins, err := d.wanted(step, g)
	if err != nil {
		return nil, err
	}
	step.Kind, step.Target = plan.SetCPUs,
		plan.Target{Kind: workload.InProcess, Processes: []workload.Process{g.process}}
	threads, err := d.processes.Changes(ctx, step)
	if err != nil {
		return nil, err
	}
	for _, c := range threads {
		// Of a guest whose threads have never had CPUs of their own nothing is set beside the cgroup.
		if c.Path == plan.ProcessPath(g.process) && (len(pins) > 0 || strings.Contains(c.Value, ";") || d.s.given(g)) {
			c.Will = affinity(to, pins)
			out = append(out, c)
		}
	}
	return out, nil
}

// given reports whether homenode has given the threads of a guest CPUs: they have no others then,
// whatever their cgroup gets (user_cpus_ptr, kernel/sched/core.c).
func (s *Source) given(g *guest) bool {
	now, _ := s.standing()
	return slices.ContainsFunc(now.Journal, func(e plan.Entry) bool {
		return e.Kind == plan.Affinity && e.Path == plan.ProcessPath(g.process)
	})
}

// of is the guest whose CPUs a step sets, as it runs now; nil for others.
func (s *Source) of(step plan.Step) *guest {
	if step.Kind != plan.SetCPUs {
		return nil
	}
	for _, g := range s.known() {
		if step.Target.Cgroup == cgroupOf(g.vmid) && g.process.PID > 0 && g.process == s.qemu(g.vmid) {
			return g
		}
	}
	return nil
}

// wanted is the CPUs of a guest, and the one of each vCPU thread where they have their own.
func (d *Driver) wanted(step plan.Step, g *guest) (to topology.CPUSet, pins map[int]topology.CPUID, err error) {
	if to, err = topology.ParseCPUSet(step.To); err != nil {
		return to, nil, err
	}
	if step.Reason.Code != words.DedicatedCPUs {
		return to, nil, nil
	}
	own := to.Slice()
	now, _ := d.s.standing()
	home, ok := now.Home(id(g.vmid)) // which vCPU has which, as status shows it
	if ok && home.CPUs.Equal(to) && len(home.Pins) == len(own) {
		own = home.Pins
	}
	named, tasks := d.s.vcpus(g.process.PID) // what QMP said may be older
	for vcpu, tid := range g.run.vcpus {
		if tasks[tid] {
			named[vcpu] = tid
		}
	}
	if len(named) != len(own) {
		return to, nil, fmt.Errorf("%s: %d vCPU threads are known and %d CPUs are its own; it is tried again",
			id(g.vmid), len(named), len(own))
	}
	pins = map[int]topology.CPUID{}
	for i, vcpu := range slices.Sorted(maps.Keys(named)) {
		pins[named[vcpu]] = own[i]
	}
	return to, pins, nil
}

// affinity is what host/process writes affinities as: those of the first thread, then those of
// others that have their own.
func affinity(all topology.CPUSet, pins map[int]topology.CPUID) string {
	var b strings.Builder
	b.WriteString(all.String())
	for _, tid := range slices.Sorted(maps.Keys(pins)) {
		if one := topology.CPUs(pins[tid]); !one.Equal(all) {
			fmt.Fprintf(&b, ";%d=%s", tid, one)
		}
	}
	return b.String()
}

// Apply sets the CPUs of the cgroup first: a thread may use no others.
func (d *Driver) Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	g := d.s.of(step)
	if g == nil {
		return d.Cgroups.Apply(ctx, step, progress)
	}
	defer d.s.stale(g.vmid)
	to, pins, err := d.wanted(step, g)
	if err != nil {
		return err
	}
	before, err := d.Changes(ctx, step)
	if err == nil {
		err = d.Cgroups.Apply(ctx, step, progress)
	}
	if err != nil || !slices.ContainsFunc(before, func(c plan.Change) bool { return c.Kind == plan.Affinity }) {
		return err
	}
	if err = d.processes.Pin(ctx, g.process, affinity(to, pins)); err != nil {
		var back []plan.Entry
		for _, c := range slices.Backward(before) {
			if c.Kind != plan.Affinity {
				back = append(back, plan.Entry{Workload: step.Workload, Kind: c.Kind, Path: c.Path, Object: c.Object,
					Old: c.Value, New: c.Will})
			}
		}
		err = errors.Join(append([]error{err}, d.Cgroups.Restore(ctx, back)...)...)
	}
	return err
}
