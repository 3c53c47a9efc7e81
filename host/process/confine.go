package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// MemPolicy is a memory policy for ConfineSelf.
type MemPolicy string

// Memory policies.
const (
	MemAsIs               MemPolicy = ""                    // leave the policy as it is
	MemByThread           MemPolicy = "by thread"           // none: the kernel takes the node that a thread runs on
	MemBind               MemPolicy = "bind"                // these nodes only
	MemPreferred          MemPolicy = "preferred"           // these nodes while they have room
	MemInterleave         MemPolicy = "interleave"          // pages in turn
	MemWeightedInterleave MemPolicy = "weighted interleave" // in turn, by the weights of /sys/kernel/mm/mempolicy
)

// policies is the calling thread's side of the kernel.
type policies interface {
	Affinity(tid int) (topology.CPUSet, error)
	SetAffinity(tid int, cpus topology.CPUSet) error
	SetPolicy(mode numa.Mode, nodes topology.NodeSet) error
	Policy() (numa.Mode, topology.NodeSet, error)
}

// ConfineSelf gives the calling thread CPUs and a memory policy, and reads back
// that they hold. Empty cpus are left as they are.
//
// Both belong to a thread, not to a process, and a Go program has many threads:
// call it between runtime.LockOSThread and syscall.Exec, on the goroutine that
// execs. The new program then has both, for execve(2) keeps the affinity and the
// policy of the thread that calls it and ends all others. Never unlock the
// thread afterwards.
func ConfineSelf(cpus topology.CPUSet, nodes topology.NodeSet, policy MemPolicy) error {
	return confine(numa.Kernel{}, cpus, nodes, policy)
}

func confine(k policies, cpus topology.CPUSet, nodes topology.NodeSet, policy MemPolicy) error {
	if !cpus.Empty() {
		if err := k.SetAffinity(0, cpus); err != nil {
			return err
		}
		has, err := k.Affinity(0)
		if err != nil {
			return err
		}
		if !has.Equal(cpus) {
			return &MismatchError{Want: cpus, Have: has, Why: fmt.Sprintf("CPU %s is offline or outside the cgroup",
				cpus.Minus(has))}
		}
	}
	switch policy {
	case MemAsIs:
		return nil
	case MemByThread:
		return k.SetPolicy(numa.Default, topology.NodeSet{})
	}
	if nodes.Empty() {
		return fmt.Errorf("memory policy %s: no nodes", policy)
	}
	mode, err := setPolicy(k, policy, nodes)
	if err != nil {
		return err
	}
	hasMode, hasNodes, err := k.Policy()
	if err != nil {
		return err
	}
	want := nodes
	if mode == numa.Preferred|numa.StaticNodes {
		want = topology.Nodes(nodes.Min())
	}
	if hasMode != mode || !hasNodes.Equal(want) {
		return fmt.Errorf("memory policy %s on node %s: the kernel has mode %#x on node %s instead", policy, nodes,
			int(hasMode), hasNodes)
	}
	return nil
}

// setPolicy sets the policy and returns the mode that it became. EINVAL has two
// meanings, a mode that the kernel does not know and nodes that it will not
// give: the second try, with a mode that every kernel knows, tells them apart.
func setPolicy(k policies, policy MemPolicy, nodes topology.NodeSet) (numa.Mode, error) {
	mode, older := numa.Mode(0), numa.Mode(0)
	switch policy {
	case MemBind:
		mode, older = numa.Bind, numa.Bind
	case MemPreferred:
		mode, older = numa.PreferredMany, numa.Preferred
	case MemInterleave:
		mode, older = numa.Interleave, numa.Interleave
	case MemWeightedInterleave:
		mode, older = numa.WeightedInterleave, numa.Interleave
	default:
		return 0, fmt.Errorf("memory policy %q is not known", policy)
	}
	mode, older = mode|numa.StaticNodes, older|numa.StaticNodes
	err := k.SetPolicy(mode, nodes)
	if err == nil {
		return mode, nil
	}
	if errors.Is(err, unix.ENOSYS) {
		return 0, plan.Unsupported("memory policies", "a kernel with CONFIG_NUMA")
	}
	if !errors.Is(err, unix.EINVAL) {
		return 0, err
	}
	bad := fmt.Errorf("memory policy %s on node %s: %w; a node has no memory or is outside cpuset.mems", policy, nodes,
		err)
	if older == mode {
		return 0, bad
	}
	try := nodes
	if policy == MemPreferred {
		try = topology.Nodes(nodes.Min())
	}
	if k.SetPolicy(older, try) != nil {
		return 0, bad
	}
	if policy == MemPreferred {
		return older, nil
	}
	if err := k.SetPolicy(numa.Default, topology.NodeSet{}); err != nil {
		return 0, err
	}
	return 0, plan.Unsupported("weighted interleave", "Linux 6.9")
}
