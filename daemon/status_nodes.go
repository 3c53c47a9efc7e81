package daemon

import (
	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func (v *View) nodes() []api.Node {
	nodes := []api.Node{}
	if v.Snapshot.Host == nil {
		return nodes
	}
	for i := range v.Snapshot.Host.Nodes {
		n := &v.Snapshot.Host.Nodes[i]
		out := api.Node{ID: n.ID, CPUs: n.CPUs.String(), MemoryKiB: int64(n.Memory), FreeKiB: int64(n.Free)}
		use(&out, n, v.Snapshot.Nodes)
		home := topology.Nodes(n.ID)
		for k := range v.Plan.Placements {
			p := &v.Plan.Placements[k]
			out.BookedKiB += int64(workload.On(p.Memory, home))
			if p.Home.Has(n.ID) {
				out.VCPUs += float64(p.VCPUs) / float64(p.Home.Len())
			}
		}
		nodes = append(nodes, out)
	}
	return nodes
}

// use fills in what is used of a node now.
func use(out *api.Node, n *topology.Node, all []workload.NodeUse) {
	known := func(v int64) *int64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	out.ReclaimableKiB, out.HugePages = known(int64(n.Reclaimable)), []api.HugePool{}
	for _, p := range n.HugePages {
		out.HugePages = append(out.HugePages, api.HugePool{SizeKiB: int64(p.Size), Total: p.Total, Free: known(p.Free)})
	}
	for _, u := range all {
		if u.Node != n.ID {
			continue
		}
		if cpus := u.CPUUse; cpus >= 0 {
			out.CPUUse = &cpus
		}
		out.Bandwidth, out.BandwidthFrom = known(u.Bandwidth), u.BandwidthFrom
	}
}
