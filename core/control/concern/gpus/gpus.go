package gpus

import (
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
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

// Concern decides which memory of workers moves. It remembers nothing.
type Concern struct {
	// Workers returns the processes of a workload that each have GPUs of one node.
	Workers func(workload.ID) []place.Worker
	Divide  bool // workers are kept on the nodes of their GPUs
	// Pace is how many bytes a page move takes in a second, for what a move costs; 0 unknown.
	Pace int64
}

// Name implements concern.Concern.
func (Concern) Name() string { return "gpus" }

// Owns implements concern.Concern.
func (Concern) Owns(*plan.Entry) bool { return false }

// Ended implements concern.Concern.
func (Concern) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Decide implements concern.Concern.
func (c Concern) Decide(sc *concern.Scene) (out concern.Desired) {
	if !c.Divide || !sc.Acts || sc.Between {
		return out
	}
	busy := map[workload.ID]bool{}
	for i := range sc.Plan.Steps {
		x := &sc.Plan.Steps[i]
		if !x.Routine() { // threads come and go all the time
			busy[x.Workload] = true
		}
	}
	for i := range sc.Snapshot.Observations {
		o := &sc.Snapshot.Observations[i]
		if len(o.PerProcess) == 0 || busy[o.ID] || sc.Busy(o.ID) || sc.Held(o.ID) || sc.Undoes(o.ID) || !sc.Settled(o.ID) {
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
	workers []place.Worker
	all     topology.KiB
	away    topology.KiB
}

// move returns the desire that the memory of the workers of one node is there: of the node whose
// workers have most elsewhere.
func (c Concern) move(sc *concern.Scene, o *workload.Observation) (d concern.Desire, ok bool) {
	p := place.Of(sc.Plan.Placements, o.ID)
	ownPolicy := o.OwnPolicy != "" && o.OwnPolicy != workload.PolicyUnknown
	if p == nil || p.Class == workload.Batch || p.Home.Len() < 2 || ownPolicy || o.Caps.MemoryStays || o.Unanswered {
		return d, false
	}
	best := c.worst(o, p)
	if best == nil {
		return d, false
	}
	to := topology.Nodes(best.node)
	var processes []workload.Process
	for _, w := range best.workers {
		processes = append(processes, w.Process)
	}
	there := workload.On(o.Memory, to)
	if o.Movable != nil {
		there = workload.On(o.Movable, to)
	}
	step := plan.Step{
		Kind:     plan.MovePages,
		Workload: o.ID,
		To:       to.String(),
		Target:   plan.Target{Kind: workload.InProcess, Processes: processes},
		Shares:   []workload.NodeMemory{{Node: best.node, KiB: there + best.away}},
		Bytes:    int64(best.away) << 10,
		Optional: true,
		Reason:   words.Because(words.WorkerMemoryOff, len(processes), best.away, best.all, float64(best.away)/float64(best.all), best.node),
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
// theirs there.
func (c Concern) worst(o *workload.Observation, p *workload.Placement) *off {
	var nodes []off
	for _, w := range c.Workers(o.ID) {
		k := slices.IndexFunc(o.PerProcess, func(x workload.ProcessMemory) bool { return x.Process == w.Process.PID })
		if k < 0 || !p.Home.Has(w.Node) {
			continue
		}
		at := slices.IndexFunc(nodes, func(x off) bool { return x.node == w.Node })
		if at < 0 {
			at = len(nodes)
			nodes = append(nodes, off{node: w.Node})
		}
		x := &nodes[at]
		memory := o.PerProcess[k].Memory
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
