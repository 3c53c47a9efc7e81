package run

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// bandwidth is the only --policy.
const bandwidth = workload.PolicyBandwidth

// checkPolicy checks --policy against the flags that name a memory policy themselves.
func (w *where) checkPolicy() error {
	switch {
	case w.policy == "":
		return nil
	case w.policy != bandwidth:
		return cli.Usagef("--policy %s: want %s", w.policy, bandwidth)
	case w.memory != "":
		return cli.Usagef("--policy %s and --%s are two memory policies; a command has one", w.policy, w.memory)
	}
	return nil
}

// spread gives the command the memory of its home and the slower memory next to it in turn, by the kernel's weights.
// It returns a line for people with the weights. Where there is no slower memory the policy stays.
func (w *where) spread(e *cli.Env, home topology.NodeSet) (line string, err error) {
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return "", cli.Forbiddenf("--policy %s: %w", bandwidth, err)
	}
	topology.SettleTypes(h)
	nodes := h.BandwidthNodes(home)
	if nodes.Len() < 2 {
		const nothing = "--policy %s changes nothing: %s has no further memory near it"
		return fmt.Sprintf(nothing, bandwidth, words.Nodes(home)), nil
	}
	w.start.Memory, w.start.Nodes = cli.MemoryWeighted, nodes
	return "weights of the kernel: " + weightsNow(e.Root, nodes), nil
}

// weightsNow is the kernel's weights of nodes, for people.
func weightsNow(root fs.FS, nodes topology.NodeSet) string {
	var parts []string
	for n := range nodes.All() {
		text, err := fs.ReadFile(root, hostprep.InterleaveWeight(n))
		if err != nil {
			return "not shown (Linux 6.9)"
		}
		parts = append(parts, fmt.Sprintf("node %d: %s", n, strings.TrimSpace(string(text))))
	}
	return strings.Join(parts, ", ")
}
