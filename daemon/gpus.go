package daemon

import (
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// mostWorkers is how many workers an explanation shows; a server has 8 or 16 GPUs.
const mostWorkers = 16

// withWorkers returns a line for each worker that homenode has brought to the node of its GPU, and
// what was measured before and after. sets is the CPU sets that homenode has given threads.
func (v *View) withWorkers(o *workload.Observation, sets []topology.CPUSet) []words.Reason {
	workers := v.Workers(o.ID)
	if inside.NodesOf(workers).Len() < 2 {
		return nil
	}
	var out []words.Reason
	for _, w := range workers[:min(len(workers), mostWorkers)] {
		out = append(out, v.worker(o, &w, sets))
	}
	if more := len(workers) - mostWorkers; more > 0 {
		out = append(out, words.Because(words.WorkersMore, more))
	}
	now, ok := control.MeasureWorkers(o, workers)
	if !ok {
		return out
	}
	before, known := v.WorkersBefore[o.ID]
	var accesses []words.Reason
	switch {
	case now.From == "":
	case known && before.From == now.From:
		accesses = []words.Reason{words.Because(words.WorkersLocal, before.Accesses, now.Accesses, string(now.From))}
	default:
		accesses = []words.Reason{words.Because(words.WorkersLocalNow, now.Accesses, string(now.From))}
	}
	if known {
		return append(out, words.Because(words.WorkersChanged, before.Memory, now.Memory, accesses))
	}
	return append(out, words.Because(words.WorkersMeasured, now.Memory, accesses))
}

// worker returns where one worker is.
func (v *View) worker(o *workload.Observation, w *inside.Worker, sets []topology.CPUSet) words.Reason {
	kept := 0
	node := v.Snapshot.Host.Node(w.Node)
	for _, t := range o.PerThread {
		if t.Process == w.Process.PID && node != nil && t.CPUs.SubsetOf(node.CPUs) &&
			slices.ContainsFunc(sets, t.CPUs.Equal) {
			kept++
		}
	}
	gpus := strings.Join(w.GPUs, ", ")
	k := slices.IndexFunc(o.PerProcess, func(x workload.ProcessMemory) bool { return x.Process == w.Process.PID })
	if k < 0 {
		return words.Because(words.WorkerNoMemory, w.Process.PID, gpus, w.Node, kept)
	}
	all := workload.Total(o.PerProcess[k].Memory)
	there := workload.On(o.PerProcess[k].Memory, topology.Nodes(w.Node))
	return words.Because(words.WorkerNow, w.Process.PID, gpus, w.Node, kept, all, float64(there)/float64(max(1, all)))
}

// mostNICs is how many NICs near a GPU are shown.
const mostNICs = 4

// nearestNICs returns the NICs nearest to a GPU: below its switch, then of its node, then of its socket.
func (v *View) nearestNICs(gpu string) []string {
	if v.Snapshot.Host == nil {
		return nil
	}
	d := v.Snapshot.Host.Device(gpu)
	if d == nil {
		return nil
	}
	var out []string
	for _, p := range v.Snapshot.Host.Peers(d, topology.NIC) {
		if len(out) == mostNICs {
			break
		}
		out = append(out, words.Printable(p.Device.Name)+" ("+string(p.Relation)+")")
	}
	return out
}
