package process

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// Memory policies that numactl(8) has beside those of ConfineSelf.
const (
	MemPreferredOne MemPolicy = "preferred one" // one node while it has room
	MemLocal        MemPolicy = "local"         // the node of the CPU that asks, whatever was set before
)

// SetPolicyAsTold gives the calling thread the memory policy that a person named, with the
// modes of set_mempolicy(2) that numactl(8) uses: the nodes are those of the machine, and
// the kernel renames them when cpuset.mems changes. balancing lets NUMA balancing move
// pages among the nodes of a bind policy (Linux 5.12) or of a preferred one (6.10). The
// rules of ConfineSelf on threads hold.
func SetPolicyAsTold(policy MemPolicy, nodes topology.NodeSet, balancing bool) error {
	return setAsTold(numa.Kernel{}, policy, nodes, balancing)
}

var toldModes = map[MemPolicy]numa.Mode{MemBind: numa.Bind, MemPreferred: numa.PreferredMany,
	MemPreferredOne: numa.Preferred, MemInterleave: numa.Interleave,
	MemWeightedInterleave: numa.WeightedInterleave, MemLocal: numa.Local}

func setAsTold(k policies, policy MemPolicy, nodes topology.NodeSet, balancing bool) error {
	mode, ok := toldModes[policy]
	if !ok {
		return fmt.Errorf("memory policy %q is not known", policy)
	}
	if balancing {
		mode |= numa.Balancing
	}
	err := k.SetPolicy(mode, nodes)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSYS):
		return plan.Unsupported("memory policies", "a kernel with CONFIG_NUMA")
	case !errors.Is(err, unix.EINVAL):
		return err
	case balancing:
		return plan.Unsupported(fmt.Sprintf("memory policy %s with NUMA balancing", policy),
			"Linux 5.12 to bind, 6.10 to prefer")
	case policy == MemPreferred:
		return plan.Unsupported("preferring several nodes", "Linux 5.15")
	case policy == MemWeightedInterleave:
		return plan.Unsupported("weighted interleave", "Linux 6.9")
	}
	return fmt.Errorf("memory policy %s on node %s: %w", policy, nodes, err)
}

// PolicySelf is the memory policy of the calling thread in the words of numa_maps (proc(5)),
// such as "default" or "bind", and its nodes.
func PolicySelf() (string, topology.NodeSet, error) {
	mode, nodes, err := numa.Kernel{}.Policy()
	if errors.Is(err, unix.ENOSYS) {
		return "", nodes, plan.Unsupported("memory policies", "a kernel with CONFIG_NUMA")
	}
	return mode.String(), nodes, err
}

// SetNice sets the nice value, -20 to 19, of the calling thread, which execve(2) keeps.
func SetNice(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("nice value %d: %w; below the present one it needs root or RLIMIT_NICE", nice, err)
	}
	return nil
}

// TryNice reports whether this process may have a nice value. It sets that of a thread that ends.
func TryNice(nice int) error {
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		tried <- SetNice(nice)
	}()
	return <-tried
}

// CPUsAllowed is the CPUs that this process can be put on: the online ones of its cpuset,
// whatever its affinity is now.
func CPUsAllowed() (topology.CPUSet, error) {
	return allowed(numa.Kernel{})
}

func allowed(k policies) (topology.CPUSet, error) {
	// The kernel cuts what is asked for to the cpuset, and says what it made of it
	// (__sched_setaffinity, kernel/sched/syscalls.c). No file says that for cgroup v1
	// and v2 alike.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := k.Affinity(0)
	if err != nil {
		return topology.CPUSet{}, err
	}
	var every topology.CPUSet
	for cpu := range topology.CPUID(8192) {
		every.Add(cpu)
	}
	if err := k.SetAffinity(0, every); err != nil {
		return topology.CPUSet{}, err
	}
	may, err := k.Affinity(0)
	if back := k.SetAffinity(0, was); err == nil && back != nil {
		err = back
	}
	return may, err
}
