package process

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// older is a kernel that knows modes up to a number and nodes 0 and 1.
type older struct {
	most  numa.Mode
	mode  numa.Mode
	nodes topology.NodeSet
	cpus  topology.CPUSet
	fails error
}

func (k *older) Affinity(int) (topology.CPUSet, error) { return k.cpus, nil }
func (k *older) SetAffinity(_ int, cpus topology.CPUSet) error {
	k.cpus = cpus.Intersect(topology.CPUs(0, 1))
	return nil
}

func (k *older) SetPolicy(mode numa.Mode, nodes topology.NodeSet) error {
	if k.fails != nil {
		return k.fails
	}
	if mode&^numa.StaticNodes > k.most || !nodes.SubsetOf(topology.Nodes(0, 1)) {
		return unix.EINVAL
	}
	k.mode, k.nodes = mode, nodes
	return nil
}
func (k *older) Policy() (numa.Mode, topology.NodeSet, error) { return k.mode, k.nodes, nil }

func TestConfineOnOlderKernels(t *testing.T) {
	both := topology.Nodes(0, 1)
	t.Run("preferred before 5.15 takes the first node", func(t *testing.T) {
		k := &older{most: numa.Interleave}
		if err := confine(k, topology.CPUSet{}, both, MemPreferred); err != nil || k.mode != numa.Preferred|numa.StaticNodes || k.nodes.String() != "0" {
			t.Errorf("%v %x %s", err, k.mode, k.nodes)
		}
	})
	t.Run("weighted interleave before 6.9", func(t *testing.T) {
		k := &older{most: numa.PreferredMany}
		err := confine(k, topology.CPUSet{}, both, MemWeightedInterleave)
		var unsupported *plan.UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Need != "Linux 6.9" || k.mode != numa.Default {
			t.Errorf("%v %x", err, k.mode)
		}
	})
	t.Run("a node without memory is no missing feature", func(t *testing.T) {
		for _, p := range []MemPolicy{MemBind, MemPreferred, MemInterleave, MemWeightedInterleave} {
			k := &older{most: numa.PreferredMany}
			err := confine(k, topology.CPUSet{}, topology.Nodes(7), p)
			var unsupported *plan.UnsupportedError
			if err == nil || errors.As(err, &unsupported) {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
	t.Run("kernel without NUMA", func(t *testing.T) {
		var unsupported *plan.UnsupportedError
		if err := confine(&older{fails: unix.ENOSYS}, topology.CPUSet{}, both, MemBind); !errors.As(err, &unsupported) {
			t.Error(err)
		}
	})
	t.Run("by thread: what was inherited goes", func(t *testing.T) {
		k := &older{most: numa.Bind, mode: numa.Bind, nodes: topology.Nodes(1)}
		if err := confine(k, topology.CPUs(0), both, MemByThread); err != nil || k.mode != numa.Default || !k.nodes.Empty() {
			t.Errorf("%v %x %s", err, k.mode, k.nodes)
		}
	})
	t.Run("CPUs cut by the cgroup", func(t *testing.T) {
		var mismatch *MismatchError
		if err := confine(&older{}, topology.CPUs(1, 2), topology.NodeSet{}, MemAsIs); !errors.As(err, &mismatch) {
			t.Error(err)
		}
	})
}
