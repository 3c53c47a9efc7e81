package plantest

import (
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// State draws a host with nothing placed: sparse node and CPU IDs, nodes
// without CPUs, memory or both, SMT of one to four threads also mixed, several
// caches, CPUs offline, reserved or forbidden, distances unknown, asymmetric or
// absurd, huge pages, devices, a policy.
func State(maxNodes int) *rapid.Generator[plan.State] {
	return rapid.Custom(func(t *rapid.T) plan.State {
		h := &topology.Host{}
		n := rapid.IntRange(1, maxNodes).Draw(t, "nodes")
		node, cpu := topology.NodeID(0), topology.CPUID(0)
		sparse := rapid.Bool().Draw(t, "sparse")
		threads := rapid.IntRange(1, 4).Draw(t, "threads")
		for range n {
			if sparse {
				node += topology.NodeID(rapid.IntRange(0, 3).Draw(t, "node gap"))
				cpu += topology.CPUID(rapid.IntRange(0, 70).Draw(t, "CPU gap"))
			}
			cpu = drawRandomNode(t, h, node, cpu, threads)
			node++
		}
		h.NumberLLCs()
		h.Distances = drawDistances(t, n)
		h.Allowed = h.Online.Clone()
		if rapid.IntRange(0, 4).Draw(t, "confined") == 0 {
			for c := range h.Online.All() {
				if rapid.IntRange(0, 3).Draw(t, "forbidden") == 0 {
					h.Allowed.Remove(c)
				}
			}
			for m := range h.AllowedMems.Clone().All() {
				if rapid.IntRange(0, 3).Draw(t, "memory forbidden") == 0 {
					h.AllowedMems.Remove(m)
				}
			}
		}
		st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
		st.Policy.Overcommit = rapid.SampledFrom([]float64{0, 1, 1.5, 3}).Draw(t, "overcommit")
		st.Policy.Packing = rapid.SampledFrom([]plan.Packing{"", plan.Adaptive, plan.Pack, plan.Spread}).Draw(t,
			"packing")
		if rapid.Bool().Draw(t, "reserve") {
			for c := range h.Online.All() {
				if rapid.IntRange(0, 7).Draw(t, "reserved") == 0 {
					st.Policy.Reserved.Add(c)
				}
			}
			st.Policy.ReservedMemory = topology.KiB(rapid.IntRange(0, 1<<20).Draw(t, "reserved memory"))
		}
		if st.Policy.Split = rapid.IntRange(0, 4).Draw(t, "partition") == 0; st.Policy.Split {
			for _, c := range h.Cores { // mostly whole cores; now and then through one
				for cpu := range c.CPUs.All() {
					if whole := rapid.IntRange(0, 9).Draw(t, "whole core") > 0; (whole && c.CPUs.Min()%2 == 0) ||
						(!whole && cpu%2 == 0) {
						st.Policy.Dedicated.Add(cpu)
					}
				}
			}
		}
		return st
	})
}

func drawRandomNode(t *rapid.T, h *topology.Host, id topology.NodeID, cpu topology.CPUID, threads int) topology.CPUID {
	n := topology.Node{ID: id, Package: topology.None, Kind: topology.DRAM}
	cores := rapid.IntRange(0, 8).Draw(t, "cores")
	llc := rapid.IntRange(1, 8).Draw(t, "cores a cache")
	for c := range cores {
		core := topology.Core{Node: id, Package: topology.None, Capacity: topology.None}
		k := threads
		if rapid.IntRange(0, 9).Draw(t, "small core") == 0 {
			k = 1
		}
		for range k {
			if rapid.IntRange(0, 19).Draw(t, "offline") == 0 {
				h.Offline.Add(cpu)
			} else {
				core.CPUs.Add(cpu)
			}
			cpu++
		}
		if !core.CPUs.Empty() {
			h.Cores = append(h.Cores, core)
			n.CPUs = n.CPUs.Union(core.CPUs)
		}
		if c%llc == 0 {
			h.LLCs = append(h.LLCs, topology.LLC{Level: 3})
		}
		last := &h.LLCs[len(h.LLCs)-1]
		last.CPUs = last.CPUs.Union(core.CPUs)
	}
	h.Online = h.Online.Union(n.CPUs)
	switch rapid.IntRange(0, 9).Draw(t, "memory kind") {
	case 0:
		n.Kind = topology.NoMem
	case 1:
		n.Memory = topology.None
	default:
		n.Memory = topology.KiB(rapid.IntRange(1, 64).Draw(t, "GiB")) * GiB
	}
	n.Free = n.Memory
	if n.Memory > 4*GiB && rapid.IntRange(0, 2).Draw(t, "huge pages") == 0 {
		p := rapid.Int64Range(0, 1024).Draw(t, "pages")
		n.HugePages = []topology.HugePool{{Size: 2 << 10, Total: p,
			Free: rapid.SampledFrom([]int64{topology.None, p}).Draw(t, "free pages")}}
	}
	if n.Memory != 0 {
		h.AllowedMems.Add(id)
	}
	if rapid.IntRange(0, 3).Draw(t, "device") == 0 {
		h.Devices = append(h.Devices, topology.Device{Name: "eth0", Kind: topology.NIC, Node: id})
	}
	h.Nodes = append(h.Nodes, n)
	return cpu
}

func drawDistances(t *rapid.T, n int) topology.Matrix {
	kind := rapid.IntRange(0, 3).Draw(t, "distances")
	if kind == 0 {
		return nil
	}
	m := make(topology.Matrix, n)
	for i := range n {
		m[i] = make([]int, n)
		for j := range n {
			switch {
			case i == j:
				m[i][j] = 10
			case kind == 1:
				m[i][j] = 21
			case kind == 2 && j < i:
				m[i][j] = m[j][i]
			default:
				m[i][j] = rapid.SampledFrom([]int{11, 12, 16, 21, 28, 32, 255, topology.None}).Draw(t, "distance")
			}
		}
	}
	return m
}

// Spec draws what a workload wants, mostly of a size that fits somewhere.
func Spec(id workload.ID) *rapid.Generator[workload.Spec] {
	return rapid.Custom(func(t *rapid.T) workload.Spec {
		s := workload.Spec{
			ID:         id,
			Class:      rapid.SampledFrom(workload.Classes).Draw(t, "class"),
			Importance: rapid.IntRange(0, 100).Draw(t, "importance"),
			CPUs:       rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 4, 5, 8, 12, 20, 500}).Draw(t, "CPUs"),
			Memory: topology.KiB(rapid.SampledFrom([]int{-5, 0, 1, 1 << 20, 3<<20 + 7, 8 << 20, 20 << 20,
				50 << 20}).Draw(t, "memory")),
			SMT: rapid.SampledFrom([]workload.SMTPolicy{"", workload.SMTPrefer, workload.SMTIsolate,
				workload.SMTRequire}).Draw(t, "SMT"),
			MaxNodes:  rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "most nodes"),
			Even:      rapid.IntRange(0, 5).Draw(t, "even") == 0,
			Bandwidth: int64(rapid.SampledFrom([]int{0, 0, 1000, 100_000}).Draw(t, "bandwidth")),
		}
		if rapid.IntRange(0, 9).Draw(t, "huge") == 0 {
			s.HugePage = 2 << 10
		}
		if rapid.IntRange(0, 4).Draw(t, "near") == 0 {
			s.Near = []workload.Near{{Device: "eth0", Weight: rapid.SampledFrom([]float64{0, 1, 5}).Draw(t, "weight")},
				{Workload: "w0"}}
		}
		if rapid.IntRange(0, 4).Draw(t, "confined") == 0 {
			for range rapid.IntRange(1, 4).Draw(t, "nodes named") {
				s.Nodes.Add(topology.NodeID(rapid.IntRange(0, 7).Draw(t, "node")))
			}
		}
		return s
	})
}
