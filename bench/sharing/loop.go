package sharing

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// epoch is the date when a simulation begins: any, but always the same.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// period is the time between two looks of the daemon, as by default.
const period = 2 * time.Second

type cell struct {
	kind plan.SettingKind
	path string
}

// homenode is control.Next on the host, with every effect done at once.
type homenode struct {
	h      *host
	state  *control.State
	cells  map[cell]string
	inputs []control.Input
	todo   []control.Effect
	scans  uint64
	writes int
	wrong  []string
	change func(*share.Settings)
	// steered: the services of the host have goals.
	steered bool
	// early: the daemon has triggers on the CPU pressure of online work (host/pressure), and scans when one fires.
	early  bool
	newest []workload.MetricReading
}

func (p *homenode) begin(h *host, s *Scenario) {
	p.h, p.cells = h, map[cell]string{}
	sharing := share.DefaultSettings()
	sharing.On, sharing.Target = true, s.Target
	if p.change != nil {
		p.change(&sharing)
	}
	settings := control.Settings{Enforce: true, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings(),
		Share: sharing, Interrupts: control.InterruptsOff,
		Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20},
		Rules: []workload.Rule{{Match: "/batch/**", Class: workload.Batch},
			{Match: "/online/**", Class: workload.Shared, Tier: workload.Online}}}
	if p.steered {
		for _, x := range h.goals {
			rule := workload.Rule{Match: string(x.w.id), Class: workload.Shared, Tier: workload.Online}
			rule.Goals = []workload.Goal{x.goal()}
			settings.Rules = append([]workload.Rule{rule}, settings.Rules...)
		}
	}
	for _, w := range h.all {
		switch {
		case w.class == workload.Dedicated:
			settings.Rules = append(settings.Rules, workload.Rule{Match: string(w.id), Class: workload.Dedicated,
				CPUs: w.own})
		case w.aside:
			settings.Exclude = append(settings.Exclude, string(w.id))
		}
	}
	settings.Balance.Enabled = false
	p.state = control.New(settings, control.Saved{})
	p.turn(control.Input{Started: &control.Started{Version: "simulated", Period: period}})
	p.scan()
}

func (p *homenode) tick() {
	if p.early && p.h.waits() {
		p.h.newest = true
	}
	if p.h.now%period == 0 || p.h.newest {
		p.scan()
	}
	p.h.newest = false
}

// waits reports whether a trigger fires in this tick: on some node online work took at least one CPU from batch
// work, because none was idle. The kernel fires a trigger 50 ms after the waiting began at the soonest, and once in
// 500 ms at most. The daemon scans then, and again soon (daemon.again), so that the second scan has the use since
// the waiting began alone. Both are within a tick: here they are one scan of the newest tick, at its end.
func (h *host) waits() bool {
	for _, n := range h.nodes {
		if n.taken >= 1 {
			return true
		}
	}
	return false
}

func (p *homenode) counted() int { return p.writes }

func (p *homenode) given() []float64 {
	out := make([]float64, len(p.h.nodes))
	for i := range p.state.Shared.Nodes {
		out[i] = p.state.Shared.Nodes[i].CPUs
	}
	return out
}

func (p *homenode) scan() {
	p.scans++
	p.turn(control.Input{Begun: &control.Begun{Number: p.scans}})
	snapshot := p.h.snapshot()
	if p.steered {
		if p.h.now%period == 0 { // an early scan reads no metric
			p.newest = p.metrics()
		}
		snapshot.Metrics = p.newest
	}
	p.turn(control.Input{Scan: &control.Scan{Number: p.scans, Began: epoch.Add(p.h.now), Snapshot: snapshot}})
}

// snapshot is what an observer sees; it begins the next window.
func (h *host) snapshot() workload.Snapshot {
	s := workload.Snapshot{Host: h.top}
	long := h.now - h.looked
	if h.newest {
		long = tick
	}
	h.looked = h.now
	for _, w := range h.active {
		window := min(long, h.now-w.from)
		o := workload.Observation{ID: w.id, Name: string(w.id), Kind: workload.InCgroup, Cgroup: string(w.id),
			CgroupID: w.inode, Threads: 1 + int(w.now),
			Processes: []workload.Process{{PID: 100 + int(w.inode), Start: 1000 + w.inode}}, Window: window,
			CPUTime:   time.Duration(w.total * float64(time.Second)),
			RanOnFrom: workload.PerThread, CPUs: w.cpus, Mems: h.top.AllowedMems}
		sum := 0.0
		ran := w.ran
		if h.newest {
			ran = w.lately
		}
		for _, x := range ran {
			sum += x
		}
		if window > 0 {
			o.CPUUse = sum / window.Seconds()
		}
		for i := range ran {
			id := h.top.Nodes[i].ID
			if sum > 0 && ran[i] > 0 {
				o.RanOn = append(o.RanOn, workload.NodeShare{Node: id, Share: ran[i] / sum})
			}
			if kib := topology.KiB(w.on[i] * (1 << 20)); kib > 0 {
				o.Memory = append(o.Memory, workload.NodeMemory{Node: id, KiB: kib})
			}
		}
		clear(w.ran)
		o.Anon = o.Memory
		s.Observations = append(s.Observations, o)
	}
	for i, n := range h.nodes {
		busy := n.busy
		if h.newest {
			busy = n.lately
		}
		if h.now > 0 {
			s.Nodes = append(s.Nodes, workload.NodeUse{Node: h.top.Nodes[i].ID, CPUUse: busy / long.Seconds(),
				Bandwidth: topology.None})
		}
		n.busy = 0
	}
	return s
}

// turn gives an input to control.Next and does what follows.
func (p *homenode) turn(in control.Input) {
	p.inputs = append(p.inputs, in)
	for len(p.inputs) > 0 || len(p.todo) > 0 {
		if len(p.inputs) == 0 {
			e := p.todo[0]
			p.todo = p.todo[1:]
			if r := p.perform(&e); r != nil {
				r.ID = e.ID
				p.inputs = append(p.inputs, control.Input{Result: r})
			}
			continue
		}
		in, p.inputs = p.inputs[0], p.inputs[1:]
		in.At = epoch.Add(p.h.now)
		var out control.Output
		p.state, out = control.Next(p.state, in)
		for _, e := range out.Save.Events {
			if e.Error && e.Kind != plan.EventPlan {
				p.wrong = append(p.wrong, e.Text)
			}
		}
		p.todo = append(p.todo, out.Effects...)
	}
}

func (p *homenode) perform(e *control.Effect) *control.Result {
	r := &control.Result{}
	switch e.Kind {
	case control.EffectRead:
		for _, x := range cellsOf(e.Step) {
			r.Changes = append(r.Changes, plan.Change{Setting: p.setting(x), Will: willOf(x, e.Step)})
		}
	case control.EffectApply:
		for _, x := range cellsOf(e.Step) {
			if p.state.Journal.Of(x.kind, x.path) == nil {
				p.wrong = append(p.wrong, fmt.Sprintf("%s of %s is changed without a journal entry", x.kind, x.path))
			}
			p.set(x, willOf(x, e.Step))
		}
	case control.EffectRestore, control.EffectCheck, control.EffectPresent:
		for i := range e.Entries {
			x := cell{e.Entries[i].Kind, e.Entries[i].Path}
			if e.Kind == control.EffectCheck {
				r.Settings = append(r.Settings, p.setting(x))
			}
			if e.Kind == control.EffectRestore {
				p.set(x, e.Entries[i].Old)
			}
			r.Each = append(r.Each, nil)
		}
	case control.EffectInherited:
	default:
		return nil
	}
	return r
}

// cellsOf is the settings that a step changes.
func cellsOf(s *plan.Step) []cell {
	switch {
	case s.Kind == plan.SetCPUs:
		return []cell{{plan.CgroupCPUs, s.Target.Cgroup}}
	case s.Kind == plan.SetMems:
		return []cell{{plan.CgroupMems, s.Target.Cgroup}}
	case s.Kind == plan.SetCgroup && s.Target.File == string(plan.CgroupIdle) && s.To == "1":
		return []cell{{plan.CgroupWeight, s.Target.Cgroup}, {plan.CgroupIdle, s.Target.Cgroup}}
	case s.Kind == plan.SetCgroup:
		return []cell{{plan.SettingKind(s.Target.File), s.Target.Cgroup}}
	}
	return nil
}

func willOf(x cell, s *plan.Step) string {
	if x.kind == plan.CgroupWeight && s.Target.File == string(plan.CgroupIdle) {
		return "idle"
	}
	return s.To
}

func (p *homenode) setting(x cell) plan.Setting {
	out := plan.Setting{Kind: x.kind, Path: x.path, Value: plan.CgroupFiles[x.kind]}
	if v, ok := p.cells[x]; ok {
		out.Value = v
	}
	if w := p.h.find(x.path); w != nil {
		out.Object = strconv.FormatUint(w.inode, 10)
	}
	return out
}

// set writes a value and does what the kernel does of it.
func (p *homenode) set(x cell, value string) {
	p.cells[x] = value
	p.writes++
	w := p.h.find(x.path)
	if w == nil {
		return
	}
	switch x.kind {
	case plan.CgroupCPUs:
		set, err := topology.ParseCPUSet(value)
		if err != nil || set.Empty() {
			set = p.h.top.Online
		}
		w.cpus = set
	case plan.CgroupFreeze:
		w.frozen = value == "1"
	case plan.CgroupMax:
		quota, per, _ := strings.Cut(value, " ")
		q, _ := strconv.ParseFloat(quota, 64)
		n, _ := strconv.ParseFloat(per, 64)
		if w.max = 0; q > 0 && n > 0 {
			w.max = q / n
		}
	}
	if w.class != workload.Batch && x.kind != plan.CgroupCPUs && x.kind != plan.CgroupMems {
		p.wrong = append(p.wrong, fmt.Sprintf("%s of online work %s is set to %s", x.kind, x.path, value))
	}
}
