package links

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// pollers is programs that serve others by unix socket with threads that poll, by
// their name in /proc/PID/comm, which has 15 bytes.
var pollers = []string{
	"ovs-vswitchd", "dpdk-testpmd", "testpmd", "dpdk-vhost", "vpp_main", "vpp", "snabb", // network
	"spdk_tgt", "reactor_0", "vhost", "nvmf_tgt", "qemu-storage-da", "virtiofsd", // storage
}

// helperUse is the CPU below which nothing polls.
const helperUse = 0.5

// helper is a process that polls for others.
type helper struct {
	process workload.Process
	name    string
	nodes   topology.NodeSet // where it runs
}

// socket makes a link when the other end of a unix socket is a helper's.
func (r *round) socket(g *gathered, pid int, inode uint64) {
	if r.helpers == nil {
		r.findHelpers()
	}
	if len(r.helpers) == 0 {
		return
	}
	own := r.peers[inode]
	h := r.helpers[own.peer]
	at := cmp.Or(own.path, r.peers[own.peer].path)
	if h == nil || h.process.PID == pid || r.helpers[inode] != nil || isControl(at) {
		return
	}
	r.works(g, h, "unix socket "+cmp.Or(at, "without a name"))
}

func (r *round) works(g *gathered, h *helper, by string) {
	g.add(workload.Link{Kind: workload.ByVhostUser, Helper: h.process, Name: h.name, Nodes: h.nodes,
		Evidence: fmt.Sprintf("%s to %s, PID %d", by, h.name, h.process.PID)})
}

// isControl tells the sockets by which helpers are told what to do from those they
// work for: OVS's database and control, SPDK's and VPP's.
func isControl(path string) bool {
	for _, end := range []string{"db.sock", ".ctl", ".mgmt", "cli.sock", "api.sock", "stats.sock", "spdk.sock"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// findHelpers looks through the workloads for helpers: what polls is never small.
func (r *round) findHelpers() {
	r.helpers = map[uint64]*helper{}
	for i := range r.all {
		o := &r.all[i]
		if o.CPUUse < helperUse {
			continue
		}
		for _, p := range o.Processes[:min(len(o.Processes), mostProcesses)] {
			name, err := r.files.read(fmt.Sprintf("proc/%d/comm", p.PID))
			if err != nil || !slices.Contains(pollers, name) {
				continue
			}
			h := &helper{process: p, name: name, nodes: workload.RunsOn(o.RanOn)}
			own, _ := r.sockets(p.PID, mostEntries)
			for inode := range own {
				r.helpers[inode] = h
			}
		}
	}
	if len(r.helpers) > 0 {
		r.listPeers()
	}
}
