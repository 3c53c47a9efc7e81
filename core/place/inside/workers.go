package inside

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// clearOwn is the factor by which a process must have more descriptors open of the GPUs of one node than of
// those of any other, for that node to be its own. A runtime that only lists devices opens each once or
// twice; a process that works on one opens another descriptor for each piece of memory and each queue.
const clearOwn = 2

// Worker is a process of a workload and the node of the GPUs that it works on.
type Worker struct {
	Process workload.Process
	Node    topology.NodeID
	GPUs    []string // gpu0, by number
}

// Workers returns the processes of a workload that have GPUs open and whose GPUs, or most of the
// descriptors of them, are of one node; rising by PID. A process with as many on several nodes has no own node.
func Workers(h *topology.Host, links []workload.Link) []Worker {
	type held struct {
		process workload.Process
		files   map[topology.NodeID]int
		gpus    map[topology.NodeID][]string
	}
	var all []held
	for i := range links {
		l := &links[i]
		if l.Kind != workload.ByGPU {
			continue
		}
		d := h.Device(l.Device)
		if d == nil || h.Node(d.Node) == nil {
			continue
		}
		for _, p := range l.Holders {
			at := slices.IndexFunc(all, func(x held) bool { return x.process == p.Process })
			if at < 0 {
				at = len(all)
				all = append(all, held{p.Process, map[topology.NodeID]int{}, map[topology.NodeID][]string{}})
			}
			all[at].files[d.Node] += p.Files
			all[at].gpus[d.Node] = append(all[at].gpus[d.Node], d.GPU)
		}
	}
	var out []Worker
	for _, x := range all {
		node := ownNode(x.files)
		if node == topology.None {
			continue
		}
		out = append(out, Worker{x.process, node, x.gpus[node]})
	}
	slices.SortFunc(out, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Process.PID, b.Process.PID), cmp.Compare(a.Process.Start, b.Process.Start))
	})
	return out
}

// ownNode returns the node with clearly most descriptors, None without one.
func ownNode(files map[topology.NodeID]int) topology.NodeID {
	best := topology.NodeID(topology.None)
	for node, n := range files {
		more := best == topology.None || n > files[best] || (n == files[best] && node < best)
		if more {
			best = node
		}
	}
	for node, n := range files {
		if node != best && files[best] < clearOwn*n {
			return topology.None
		}
	}
	return best
}

// NodesOf returns the nodes of workers.
func NodesOf(workers []Worker) (nodes topology.NodeSet) {
	for i := range workers {
		nodes.Add(workers[i].Node)
	}
	return nodes
}

// Beside returns a spec for a workload whose workers have GPUs on several nodes: its home is made of
// these nodes, each of its workers is on one. It returns false where the nodes do not hold the work, a
// person or another program has chosen its nodes, or it is not shared work.
func Beside(h *topology.Host, spec workload.Spec, workers []Worker) (workload.Spec, bool) {
	nodes := NodesOf(workers)
	n := nodes.Len()
	limited := spec.MaxNodes > 0 && spec.MaxNodes < n
	if n < 2 || spec.Class != workload.Shared || !spec.Nodes.Empty() || spec.MinNodes > 1 || limited {
		return spec, false
	}
	cpus, memory := 0, topology.KiB(0)
	for id := range nodes.All() {
		node := h.Node(id)
		if node == nil || !node.CPUs.Intersects(h.Allowed) || !h.AllowedMems.Has(id) {
			return spec, false
		}
		cpus += node.CPUs.Intersect(h.Allowed).Len()
		memory += max(0, node.Memory)
	}
	if spec.CPUs > cpus || spec.Memory > memory {
		return spec, false
	}
	spec.Nodes = nodes
	spec.MinNodes = n
	spec.ForGPUs = true
	return spec, true
}
