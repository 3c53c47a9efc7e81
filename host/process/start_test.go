package process

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// asTold is a thread in a kernel that knows no mode from newest on, in a cpuset.
type asTold struct {
	newest, mode  numa.Mode
	nodes         topology.NodeSet
	cpuset, cpus  topology.CPUSet
	setAffinities int
}

func (k *asTold) Affinity(int) (topology.CPUSet, error) { return k.cpus, nil }
func (k *asTold) SetAffinity(_ int, cpus topology.CPUSet) error {
	k.setAffinities++
	k.cpus = cpus.Intersect(k.cpuset)
	return nil
}
func (k *asTold) SetPolicy(mode numa.Mode, nodes topology.NodeSet) error {
	if mode >= k.newest {
		return unix.EINVAL
	}
	k.mode, k.nodes = mode, nodes
	return nil
}
func (k *asTold) Policy() (numa.Mode, topology.NodeSet, error) { return k.mode, k.nodes, nil }

func TestPolicyAsTold(t *testing.T) {
	for _, x := range []struct {
		policy    MemPolicy
		balancing bool
		newest    numa.Mode
		want      string // as numa_maps has it; "" where the kernel is too old
	}{
		{MemBind, false, 5, "bind"},
		{MemBind, true, 1 << 14, "bind=balancing"},
		{MemBind, true, 7, ""},
		{MemPreferredOne, false, 5, "prefer"},
		{MemPreferred, false, 7, "prefer (many)"},
		{MemPreferred, false, 5, ""},
		{MemInterleave, false, 5, "interleave"},
		{MemWeightedInterleave, false, 7, "weighted interleave"},
		{MemWeightedInterleave, false, 6, ""},
		{MemLocal, false, 5, "local"},
	} {
		k := &asTold{newest: x.newest}
		err := setAsTold(k, x.policy, topology.Nodes(0), x.balancing)
		switch {
		case x.want == "" && !errors.As(err, new(*plan.UnsupportedError)):
			t.Errorf("%s in an old kernel: %v", x.policy, err)
		case x.want != "" && (err != nil || k.mode.String() != x.want):
			t.Errorf("%s: %s, %v; want %s", x.policy, k.mode, err, x.want)
		}
	}
	if err := setAsTold(&asTold{newest: 7}, "odd", topology.Nodes(0), false); err == nil {
		t.Error("a policy that is none")
	}
}

// TestCPUsAllowed: what is narrower than the cpuset is found out, and is as it was after.
func TestCPUsAllowed(t *testing.T) {
	k := &asTold{cpuset: topology.CPUs(4, 5, 6, 7), cpus: topology.CPUs(5)}
	may, err := allowed(k)
	if err != nil || may.String() != "4-7" || k.cpus.String() != "5" {
		t.Errorf("%s, now %s, %v", may, k.cpus, err)
	}
	runtime.LockOSThread()
	was, err := AffinityOf(0)
	if err != nil {
		t.Fatal(err)
	}
	may, err = CPUsAllowed()
	now, _ := AffinityOf(0)
	if err != nil || !was.SubsetOf(may) || !now.Equal(was) {
		t.Errorf("allowed %s, before %s, after %s, %v", may, was, now, err)
	}
}
