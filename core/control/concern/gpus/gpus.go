package gpus

import (
	"maps"
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// pages is the kind of the desire that memory lies somewhere. The journal has no such entry.
	pages plan.SettingKind = "pages"

	// offShare and offLeast are how much memory of the workers of a node may lie elsewhere: as much
	// as of a whole workload (core/place, offHomeShare), for pages shared with others do not come.
	offShare = 0.005
	offLeast = topology.KiB(1024)
)

// Concern decides which memory of workers moves, and remembers how it was before.
type Concern struct {
	// Before has the measurements of workloads before their workers were given nodes.
	Before map[workload.ID]Measure
}

// New returns the concern of a daemon that starts.
func New() Concern { return Concern{Before: map[workload.ID]Measure{}} }

// Measure is a measurement of the workers of a workload.
type Measure struct {
	Memory   float64         // share of their memory on the nodes of their GPUs, 0 to 1
	Accesses float64         // share of the workload's accesses that are local, 0 to 1
	From     workload.Source // what counted the accesses; "" where nothing does
}

// Bound is the concern with its inputs from other concerns.
type Bound struct {
	*Concern
	// Workers returns the processes of a workload that each have GPUs of one node.
	Workers func(workload.ID) []inside.Worker
	Divide  bool // workers are kept on the nodes of their GPUs
	// Pace is how many bytes a page move takes in a second, for what a move costs; 0 unknown.
	Pace int64
}

// MeasureOf measures workers; it returns false while no memory of them has been read.
func MeasureOf(o *workload.Observation, workers []inside.Worker) (m Measure, ok bool) {
	var all, there topology.KiB
	for _, w := range workers {
		memory, known := memoryOf(o, w.Process.PID)
		if known {
			all += workload.Total(memory)
			there += workload.On(memory, topology.Nodes(w.Node))
		}
	}
	if all == 0 {
		return m, false
	}
	m.Memory = float64(there) / float64(all)
	m.Accesses, m.From = o.Accesses.Local, o.Accesses.From
	return m, true
}

// memoryOf returns where the memory of a process lies; false where that has not been read.
func memoryOf(o *workload.Observation, pid int) ([]workload.NodeMemory, bool) {
	k := slices.IndexFunc(o.PerProcess, func(x workload.ProcessMemory) bool { return x.Process == pid })
	if k < 0 {
		return nil, false
	}
	return o.PerProcess[k].Memory, true
}

// remember stores measurements of workloads whose workers have not been given nodes yet.
func (c Bound) remember(sc *concern.Scene) {
	given := map[workload.ID]bool{}
	for _, e := range threads.Divided(sc.Journal) {
		given[e.Workload] = true
	}
	for i := range sc.Snapshot.Observations {
		o := &sc.Snapshot.Observations[i]
		if len(o.PerProcess) == 0 || given[o.ID] {
			continue
		}
		m, ok := MeasureOf(o, c.Workers(o.ID))
		if ok {
			c.Before[o.ID] = m
		}
	}
}

// Forget forgets workloads that are gone.
func (c *Concern) Forget(gone func(workload.ID) bool) {
	maps.DeleteFunc(c.Before, func(id workload.ID, _ Measure) bool { return gone(id) })
}

// Name implements concern.Concern.
func (Bound) Name() string { return "gpus" }

// Owns implements concern.Concern.
func (Bound) Owns(*plan.Entry) bool { return false }

// Ended implements concern.Concern.
func (Bound) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Decide implements concern.Concern.
func (c Bound) Decide(sc *concern.Scene) (out concern.Desired) {
	if !c.Divide || !sc.Acts || sc.Between {
		return out
	}
	c.remember(sc)
	busy := map[workload.ID]bool{}
	for i := range sc.Plan.Steps {
		x := &sc.Plan.Steps[i]
		if !x.Routine() { // threads come and go all the time
			busy[x.Workload] = true
		}
	}
	for i := range sc.Snapshot.Observations {
		o := &sc.Snapshot.Observations[i]
		if len(o.PerProcess) == 0 || sc.Held(o.ID) {
			continue
		}
		if busy[o.ID] || sc.Busy(o.ID) || sc.Undoes(o.ID) || !sc.Settled(o.ID) {
			continue
		}
		if d, ok := c.move(sc, o); ok {
			out.Settings = append(out.Settings, d)
		}
	}
	return out
}

// off is the memory of the workers of one node that lies elsewhere.
type off struct {
	node    topology.NodeID
	workers []inside.Worker
	all     topology.KiB
	away    topology.KiB
}

// share is the part of the memory that lies elsewhere, 0 to 1.
func (x *off) share() float64 { return float64(x.away) / float64(x.all) }

// move returns the desire that the memory of the workers of one node is there: of the node whose
// workers have most elsewhere.
func (c Bound) move(sc *concern.Scene, o *workload.Observation) (d concern.Desire, ok bool) {
	p := place.Of(sc.Plan.Placements, o.ID)
	wide := p != nil && p.Class != workload.Batch && p.Home.Len() > 1
	if !wide || o.HasPolicy() || o.Caps.MemoryStays || o.Unanswered {
		return d, false
	}
	best := c.worst(sc, o, p)
	if best == nil {
		return d, false
	}
	to := topology.Nodes(best.node)
	var processes []workload.Process
	for _, w := range best.workers {
		processes = append(processes, w.Process)
	}
	there := workload.On(o.MovableMemory(), to)
	step := plan.Step{
		Kind:     plan.MovePages,
		Workload: o.ID,
		To:       to.String(),
		Target:   plan.Target{Kind: workload.InProcess, Processes: processes},
		Shares:   []workload.NodeMemory{{Node: best.node, KiB: there + best.away}},
		Bytes:    int64(best.away) << 10,
		Optional: true,
		Reason:   words.Because(words.WorkerMemoryOff, len(processes), best.away, best.all, best.share(), best.node),
	}
	step.Cost.Bytes = step.Bytes
	if c.Pace > 0 {
		step.Cost.Seconds = float64(step.Bytes) / float64(c.Pace)
	}
	return concern.Desire{
		Kind:   pages,
		Path:   string(o.ID) + "@" + strconv.Itoa(int(best.node)),
		Step:   step,
		Stands: concern.No,
	}, true
}

// worst returns the node of a home whose workers have most memory elsewhere; nil when all have
// theirs there. A worker whose threads have not been given the node would take new memory
// elsewhere meanwhile: it waits.
func (c Bound) worst(sc *concern.Scene, o *workload.Observation, p *workload.Placement) *off {
	var nodes []off
	for _, w := range c.Workers(o.ID) {
		memory, known := memoryOf(o, w.Process.PID)
		given := sc.Journal.Of(plan.ThreadCPUs, plan.ProcessPath(w.Process))
		kept := given != nil && given.State == plan.Applied
		if !known || !kept || !p.Home.Has(w.Node) {
			continue
		}
		at := slices.IndexFunc(nodes, func(x off) bool { return x.node == w.Node })
		if at < 0 {
			at = len(nodes)
			nodes = append(nodes, off{node: w.Node})
		}
		x := &nodes[at]
		x.workers = append(x.workers, w)
		x.all += workload.Total(memory)
		x.away += workload.Total(memory) - workload.On(memory, topology.Nodes(w.Node))
	}
	var best *off
	for i := range nodes {
		x := &nodes[i]
		if float64(x.away) <= max(offShare*float64(x.all), float64(offLeast)) {
			continue
		}
		if best == nil || x.away > best.away || (x.away == best.away && x.node < best.node) {
			best = x
		}
	}
	return best
}
