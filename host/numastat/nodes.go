package numastat

import (
	"bufio"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// fromMeminfo is the rows that node*/meminfo has, by its names.
var fromMeminfo = []struct{ name, field string }{
	{"total", "MemTotal"}, {"free", "MemFree"}, {"used", "MemUsed"}, {"file", "FilePages"}, {"anonymous", "AnonPages"},
	{"shared memory", "Shmem"}, {"kernel slab", "Slab"}, {"reclaimable slab", "SReclaimable"},
}

// fromNumastat is those that node*/numastat has.
var fromNumastat = []struct{ name, field string }{
	{"hit", "numa_hit"}, {"miss", "numa_miss"}, {"foreign", "numa_foreign"}, {"interleave hit", "interleave_hit"},
	{"from this node's CPUs", "local_node"}, {"from other CPUs", "other_node"},
}

// Nodes is the memory of each node of the machine whose file tree is root, by use, and its
// allocations since the machine started.
func Nodes(root fs.FS) (workload.Figures, error) {
	const dir = "sys/devices/system/node"
	var out workload.Figures
	text, err := fs.ReadFile(root, dir+"/online")
	if err != nil {
		return out, fmt.Errorf("this kernel has no NUMA nodes: %w", err)
	}
	online, err := topology.ParseNodeSet(strings.TrimSpace(string(text)))
	if err != nil {
		return out, fmt.Errorf("%s/online: %w", dir, err)
	}
	out.Nodes = online.Slice()
	add := func(name, unit string, at int, value int64) {
		i := slices.IndexFunc(out.Rows, func(r workload.Figure) bool { return r.Name == name })
		if i < 0 {
			i = len(out.Rows)
			out.Rows = append(out.Rows,
				workload.Figure{Name: name, Unit: unit, ByNode: slices.Repeat([]int64{-1}, len(out.Nodes))})
		}
		out.Rows[i].ByNode[at] = value
	}
	var pools []topology.KiB
	for at, node := range out.Nodes {
		in := fmt.Sprintf("%s/node%d/", dir, node)
		memory, err := fields(root, in+"meminfo") // "Node 0 MemTotal:  16777216 kB"
		if err != nil {
			return out, err
		}
		for _, r := range fromMeminfo {
			if n, ok := memory[r.field]; ok {
				add(r.name, workload.InKiB, at, n)
			}
		}
		pools = append(pools, poolsOf(root, in)...)
	}
	slices.Sort(pools)
	for _, size := range slices.Compact(pools) {
		for _, r := range []struct{ name, file string }{{"", "nr_hugepages"}, {" free", "free_hugepages"}} {
			for at, node := range out.Nodes {
				n, err := fields(root, fmt.Sprintf("%s/node%d/hugepages/hugepages-%dkB/%s", dir, node, size, r.file))
				if count, ok := n[""]; err == nil && ok {
					add("huge pages of "+sizeOf(size)+r.name, workload.InKiB, at, count*int64(size))
				}
			}
		}
	}
	for at, node := range out.Nodes {
		counts, err := fields(root, fmt.Sprintf("%s/node%d/numastat", dir, node))
		if err != nil {
			continue // they are not there in every kernel
		}
		for _, r := range fromNumastat {
			if n, ok := counts[r.field]; ok {
				add(r.name, workload.InPages, at, n)
			}
		}
	}
	return out, nil
}

func sizeOf(kib topology.KiB) string {
	switch {
	case kib%(1<<20) == 0:
		return fmt.Sprintf("%d GiB", kib>>20)
	case kib%(1<<10) == 0:
		return fmt.Sprintf("%d MiB", kib>>10)
	}
	return fmt.Sprintf("%d KiB", kib)
}

func poolsOf(root fs.FS, node string) (sizes []topology.KiB) {
	all, _ := fs.ReadDir(root, node+"hugepages")
	for _, e := range all {
		kb, is := strings.CutPrefix(strings.TrimSuffix(e.Name(), "kB"), "hugepages-")
		if n, err := strconv.ParseInt(kb, 10, 32); is && err == nil && n > 0 {
			sizes = append(sizes, topology.KiB(n))
		}
	}
	return sizes
}

// fields reads lines that end in a name and a number, with or without a colon and a unit.
// A line of a number alone has the name "".
func fields(root fs.FS, name string) (map[string]int64, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]int64{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		words := strings.Fields(strings.TrimSuffix(s.Text(), " kB"))
		if len(words) == 0 {
			continue
		}
		n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
		if err != nil || n < 0 || n > 1<<52 {
			continue
		}
		key := ""
		if len(words) > 1 {
			key = strings.TrimSuffix(words[len(words)-2], ":")
		}
		out[key] = n
	}
	return out, s.Err()
}
