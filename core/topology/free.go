package topology

import (
	"fmt"
	"io/fs"
)

// ReadFree returns host with its free memory, huge pages and tiers as they stand now.
// host itself stays as it is; the two share what does not change. When CPUs or
// nodes have come or gone since host was read, everything is read anew, and
// Measured is kept if the nodes are the same.
func ReadFree(fsys fs.FS, host *Host) (*Host, error) {
	t := &tree{fsys: fsys}
	same, err := t.sameCPUsAndNodes(host)
	if err != nil {
		return nil, err
	}
	if !same {
		return rereadAll(fsys, host)
	}
	fresh := *host
	fresh.Nodes = append([]Node(nil), host.Nodes...)
	fresh.Tiering = t.readTiering()
	for i := range fresh.Nodes {
		n := &fresh.Nodes[i]
		was := n.Memory
		file, pools := nodePath(n.ID, "meminfo"), nodePath(n.ID, "hugepages")
		ok, err := t.memory(n, file)
		if err == nil && !ok && len(fresh.Nodes) == 1 {
			pools = "sys/kernel/mm/hugepages"
			_, err = t.memory(n, "proc/meminfo")
		}
		if err != nil {
			return nil, fmt.Errorf("read %s memory: %w", nodeName(n.ID), err)
		}
		// Memory hotplug changes what the node is, and what may be allowed.
		if (n.Memory == 0) != (was == 0) {
			return rereadAll(fsys, host)
		}
		n.HugePages = t.refreshPools(nodeName(n.ID), pools, n.HugePages)
	}
	return &fresh, nil
}

// ReadNodeMemory returns the memory of a node and its free memory, as they stand now; None where unknown.
func ReadNodeMemory(fsys fs.FS, id NodeID) (total, free KiB, err error) {
	n := Node{ID: id}
	t := &tree{fsys: fsys}
	if _, err = t.memory(&n, nodePath(id, "meminfo")); err != nil {
		return None, None, fmt.Errorf("read %s memory: %w", nodeName(id), err)
	}
	return n.Memory, n.Free, nil
}

func rereadAll(fsys fs.FS, host *Host) (*Host, error) {
	fresh, err := FromSysfs(fsys)
	if err != nil {
		return nil, err
	}
	if host.Measured != nil && sameNodes(fresh.Nodes, host.Nodes) {
		fresh.Measured = host.Measured
		SettleTypes(fresh)
	}
	return fresh, nil
}

func sameNodes(a, b []Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			return false
		}
	}
	return true
}

// sameCPUsAndNodes compares cpu/online and node/online with host. Kernels
// without these files cannot take CPUs or nodes away at run time.
func (t *tree) sameCPUsAndNodes(host *Host) (bool, error) {
	online, ok, err := setFile[CPUID](t, cpuDir+"/online")
	if err != nil {
		return false, err
	}
	if ok && !online.Equal(host.Online) {
		return false, nil
	}
	nodes, ok, err := setFile[NodeID](t, nodeDir+"/online")
	if err != nil {
		return false, err
	}
	if !ok {
		return true, nil
	}
	return nodes.Equal(host.AllNodes()), nil
}

// refreshPools reads the pools that were there before: page sizes are fixed at boot.
func (t *tree) refreshPools(subject, dir string, before []HugePool) []HugePool {
	if len(before) == 0 {
		return nil
	}
	pools := append([]HugePool(nil), before...)
	for i := range pools {
		pool := fmt.Sprintf("%s/hugepages-%dkB/", dir, pools[i].Size)
		if n, ok := t.count(subject, pool+"nr_hugepages"); ok {
			pools[i].Total = n
		}
		if n, ok := t.count(subject, pool+"free_hugepages"); ok {
			pools[i].Free = n
		}
		pools[i].Free = min(pools[i].Free, pools[i].Total)
	}
	return pools
}
