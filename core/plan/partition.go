package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// Partition says which CPUs are for which class of work: "any" (or nothing) gives all to
// every class, "shared" and "dedicated" take work of that class alone, and otherwise
// it is the CPUs of dedicated work: "0-39", or "50%" of the whole cores of each node.
// Batch work runs wherever no dedicated work does.
type Partition string

// Partitions without CPUs.
const (
	AnyClass      Partition = "any"
	OnlyShared    Partition = "shared"
	OnlyDedicated Partition = "dedicated"
)

// Check says what is wrong with the text.
func (p Partition) Check() error {
	switch p {
	case "", AnyClass, OnlyShared, OnlyDedicated:
		return nil
	}
	if text, ok := strings.CutSuffix(string(p), "%"); ok {
		if share, err := strconv.ParseFloat(text, 64); err == nil && share > 0 && share < 100 {
			return nil
		}
	} else if cpus, err := topology.ParseCPUSet(string(p)); err == nil && !cpus.Empty() {
		return nil
	}
	return fmt.Errorf("%q; want any, shared, dedicated, CPUs such as 0-39, or a share such as 50%%", string(p))
}

// Apply writes the partition into a policy for h; with an error about CPUs that h lacks,
// what is left of it. A share is taken of the cores that are
// not reserved, in whole ones from the highest down, the last of each node rounded off.
func (p Partition) Apply(h *topology.Host, to *Policy) error {
	if err := p.Check(); err != nil {
		return err
	}
	to.Split, to.Dedicated = true, topology.CPUSet{}
	switch p {
	case "", AnyClass:
		to.Split = false
		return nil
	case OnlyShared:
		return nil
	case OnlyDedicated:
		to.Dedicated = h.Online.Minus(to.Reserved)
		return nil
	}
	if text, ok := strings.CutSuffix(string(p), "%"); ok {
		share, _ := strconv.ParseFloat(text, 64)
		to.Dedicated = shareOf(h, to.Reserved, share/100)
		return nil
	}
	cpus, _ := topology.ParseCPUSet(string(p))
	beyond := cpus.Minus(h.Online).Minus(h.Offline)
	to.Dedicated = cpus.Minus(beyond).Minus(to.Reserved)
	if !beyond.Empty() {
		return fmt.Errorf("%q: CPUs %v are not on this host", string(p), beyond)
	}
	return nil
}

func shareOf(h *topology.Host, reserved topology.CPUSet, share float64) topology.CPUSet {
	var all topology.CPUSet
	for _, n := range h.Nodes {
		var cores []topology.CPUSet
		for _, c := range h.Cores {
			if c.CPUs.Intersects(n.CPUs) && !c.CPUs.Intersects(reserved) {
				cores = append(cores, c.CPUs)
			}
		}
		slices.SortStableFunc(cores, func(a, b topology.CPUSet) int { return cmp.Compare(b.Min(), a.Min()) })
		for _, c := range cores[:int(share*float64(len(cores))+1e-9)] {
			all = all.Union(c)
		}
	}
	return all
}
