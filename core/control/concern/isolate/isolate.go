package isolate

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// ID stands for the settings of the host that isolated workloads share.
const ID workload.ID = "isolation"

// IdleLatency is the exit latency in µs that idle states of isolated CPUs may have. The first state that halts a
// core takes 1 or 2 µs (C1 of intel_idle.c, wfi of Arm), the next ones 10 µs to some hundreds.
const IdleLatency = 2

// Performance is the governor and the energy preference of isolated CPUs.
const Performance = "performance"

// Concern decides which kernel work leaves isolated CPUs.
type Concern struct {
	Noise   hostprep.Noise
	Heard   bool            // Noise was read
	KeptIRQ map[string]bool // interrupts that the kernel does not let move, by path
}

// New returns a concern that knows nothing yet.
func New() Concern { return Concern{KeptIRQ: map[string]bool{}} }

// Bound is the concern with its inputs from other concerns.
type Bound struct {
	*Concern
	// Left reports whether interrupt N is another program's to move, or that of the concern of interrupts.
	Left func(number int) bool
}

// Name implements concern.Concern.
func (Bound) Name() string { return "isolate" }

// Owns implements concern.Concern: partitions, settings of single CPUs, and shared settings.
func (Bound) Owns(e *plan.Entry) bool {
	switch e.Kind {
	case plan.CgroupPartition, plan.CgroupExclusive:
		return true
	case plan.HostFile:
		number, word := hostprep.OfCPU(e.Path)
		return e.Workload == ID || number || word
	}
	return e.Kind == plan.HostIRQ && e.Workload == ID
}

// Ended implements concern.Concern.
func (b Bound) Ended(_ *concern.Scene, step *plan.Step, f *work.Failure) bool {
	if f != nil && f.Code == work.Fixed && step.Workload == ID {
		b.KeptIRQ[step.Target.Host] = true
	}
	return false
}

// Found takes up a survey of the host.
func (c *Concern) Found(n hostprep.Noise) { c.Noise, c.Heard = n, true }

// CPUs returns those of the partitions that homenode has made, or was about to make.
func CPUs(j *journal.Journal) (all topology.CPUSet) {
	for _, e := range j.Group("partitions", plan.SettingKind.IsPartition) {
		if e.Kind != plan.CgroupPartition {
			continue
		}
		x := j.Of(plan.CgroupExclusive, e.Path)
		if x == nil {
			continue
		}
		cpus, err := topology.ParseCPUSet(x.New)
		if err == nil {
			all = all.Union(cpus)
		}
	}
	return all
}

// turn is one decision.
type turn struct {
	Bound
	*concern.Scene
	out    concern.Desired
	cpus   topology.CPUSet            // of all isolated work
	quiet  topology.CPUSet            // … with the SMT siblings that stay idle
	within map[string]topology.CPUSet // exclusive CPUs of the cgroups in a cgroup, by its path
}

// Decide implements concern.Concern.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{Bound: b, Scene: sc, within: map[string]topology.CPUSet{}}
	t.out.Leave = map[workload.ID]bool{}
	t.out.Why = map[workload.ID]words.Reason{}
	if sc.AllHeld() {
		return t.out
	}
	all := t.isolated()
	for _, x := range all {
		t.cpus = t.cpus.Union(x.cpus)
		t.quiet = t.quiet.Union(x.cpus).Union(x.idle)
		if x.cgroup == "" {
			continue
		}
		for at := path.Dir(x.cgroup); at != "/"; at = path.Dir(at) {
			t.within[at] = t.within[at].Union(x.cpus)
		}
	}
	t.above()
	for _, x := range all {
		t.one(&x)
	}
	if b.Heard {
		t.host()
		t.ticks(all)
		return t.out
	}
	for _, x := range all { // what an earlier daemon has set stays until the host was read
		t.out.Leave[x.o.ID] = true
		t.out.Leave[ID] = true
	}
	return t.out
}

// alone is one isolated workload.
type alone struct {
	o          *workload.Observation
	cgroup     string // that it has to itself; "" for none
	cpus, idle topology.CPUSet
}

// isolated returns the isolated workloads, rising by ID.
func (t *turn) isolated() (out []alone) {
	for _, x := range t.Subjects {
		o := &x.Observation
		if !x.Spec.Isolated || t.Held(o.ID) {
			continue
		}
		home := place.Of(t.Plan.Placements, o.ID)
		if home == nil || home.Class != workload.Dedicated {
			continue
		}
		out = append(out, alone{o, t.OwnCgroup(o), home.CPUs, home.Idle})
	}
	return out
}

// above gives the cgroups above partitions the CPUs that these take.
func (t *turn) above() {
	for _, cgroup := range slices.Sorted(maps.Keys(t.within)) {
		cpus := t.within[cgroup].String()
		t.shared(plan.CgroupExclusive, cgroup, plan.Step{Kind: plan.SetCgroup,
			Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup, File: string(plan.CgroupExclusive)},
			To:     cpus, Reason: words.Because(words.IsolatedWithin, t.within[cgroup])})
	}
}

// shared desires a setting of the host, unless the user has undone these.
func (t *turn) shared(kind plan.SettingKind, path string, step plan.Step) {
	if t.Held(ID) {
		return
	}
	step.Workload, step.Optional = ID, true
	if e := t.Journal.Of(kind, path); e != nil {
		step.From = e.New
	}
	t.out.Settings = append(t.out.Settings, concern.Desire{Kind: kind, Path: path, Step: step})
}

// one desires what one workload has of its own.
func (t *turn) one(x *alone) {
	add := func(d concern.Desire) { t.out.Settings = append(t.out.Settings, d) }
	if x.cgroup != "" {
		why := words.Because(words.IsolatedExclusive, x.cpus)
		add(t.File(x.o, x.cgroup, plan.CgroupExclusive, x.cpus.String(), why))
		if t.ready(x) {
			add(t.File(x.o, x.cgroup, plan.CgroupPartition, "isolated", words.Because(words.IsolatedPartition, x.cpus)))
		}
	}
	for cpu := range x.cpus.All() {
		if t.Noise.Latency.Has(cpu) {
			why := words.Because(words.IsolatedIdle, int(cpu), IdleLatency)
			add(t.ofCPU(x, hostprep.IdleLatency(cpu), strconv.Itoa(IdleLatency), why))
		}
		switch {
		case t.Noise.Preference.Has(cpu):
			add(t.ofCPU(x, hostprep.EnergyPreference(cpu), Performance, words.Because(words.IsolatedSpeed, int(cpu))))
		case t.Noise.Governor.Has(cpu):
			add(t.ofCPU(x, hostprep.Governor(cpu), Performance, words.Because(words.IsolatedSpeed, int(cpu))))
		}
	}
}

// ready reports whether the partition of a workload can be made: all cgroups from its own to the root let it have
// its CPUs.
func (t *turn) ready(x *alone) bool {
	for at := x.cgroup; at != "/"; at = path.Dir(at) {
		e := t.Applied(plan.CgroupExclusive, at, "")
		if e == nil {
			return false
		}
		has, err := topology.ParseCPUSet(e.New)
		if err != nil || !x.cpus.SubsetOf(has) {
			return false
		}
	}
	return true
}

// ofCPU desires a setting of one CPU of a workload.
func (t *turn) ofCPU(x *alone, file, to string, why words.Reason) concern.Desire {
	return concern.Desire{Kind: plan.HostFile, Path: file, Step: plan.Step{Kind: plan.SetFile, Workload: x.o.ID,
		Target: hostTarget(file), To: to, Optional: true, Reason: why}}
}

// host desires what moves off all isolated CPUs.
func (t *turn) host() {
	if t.quiet.Empty() {
		return
	}
	t.mask(hostprep.Workqueue, t.Noise.Unbound, words.Because(words.IsolatedWorkqueues, t.quiet))
	t.mask(hostprep.DefaultIRQ, t.Noise.Default, words.Because(words.IsolatedNewIRQs, t.quiet))
	for i := range t.Noise.Interrupts {
		t.interrupt(&t.Noise.Interrupts[i])
	}
}

// ticks names the CPUs whose timer tick no setting stops.
func (t *turn) ticks(all []alone) {
	for _, x := range all {
		cpus := x.cpus.Minus(t.Noise.Tickless)
		if !cpus.Empty() {
			t.out.Why[x.o.ID] = words.Because(words.IsolatedTick, cpus)
		}
	}
}

// hostTarget is a setting of the host.
func hostTarget(path string) plan.Target { return plan.Target{Kind: workload.InHost, Host: path} }

// mask takes the isolated CPUs off one mask of the kernel.
func (t *turn) mask(file string, now topology.CPUSet, why words.Reason) {
	to, moves := t.off(plan.HostFile, file, now)
	if moves {
		step := plan.Step{Kind: plan.SetFile, Target: hostTarget(file), Reason: why}
		step.From, step.To = now.String(), to.String()
		t.shared(plan.HostFile, file, step)
	}
}

// interrupt takes the isolated CPUs off those of one interrupt.
func (t *turn) interrupt(x *hostprep.Interrupt) {
	name := fmt.Sprintf("%d/%s", x.Number, x.Name)
	if t.KeptIRQ[name] {
		return
	}
	to, moves := t.off(plan.HostIRQ, name, x.CPUs)
	if moves && !t.Left(x.Number) {
		why := words.Because(words.IsolatedInterrupt, x.Number, x.Name, t.quiet)
		step := plan.Step{Kind: plan.SetIRQ, Target: hostTarget(name), Reason: why}
		step.From, step.To = x.CPUs.String(), to.String()
		t.shared(plan.HostIRQ, name, step)
	}
}

// off returns the CPUs of a setting without the isolated ones, from what it had before homenode changed it. Where
// none would be left it is all others that are online.
func (t *turn) off(kind plan.SettingKind, path string, now topology.CPUSet) (to topology.CPUSet, moves bool) {
	before := now
	if e := t.Journal.Of(kind, path); e != nil {
		if e.Workload != ID {
			return to, false // of `homenode host prepare`, which has reserved CPUs for it
		}
		was, err := parseAny(kind, e.Old)
		if err != nil {
			return to, false
		}
		before = was
	}
	if !before.Intersects(t.quiet) {
		return to, false
	}
	online := t.Snapshot.Host.Online
	to = before.Intersect(online).Minus(t.quiet)
	if to.Empty() {
		to = online.Minus(t.quiet)
	}
	return to, !to.Empty()
}

// parseAny reads a set as its file has it: a mask of the kernel, or a list.
func parseAny(kind plan.SettingKind, text string) (topology.CPUSet, error) {
	if kind == plan.HostFile {
		return topology.ParseMask(text)
	}
	return topology.ParseCPUSet(text)
}
