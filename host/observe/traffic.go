package observe

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
	"github.com/homenode/homenode/host/internal/proc"
)

// mbmFiles bounds the files of resctrl that are read a look: each interrupts a CPU of
// its cache (about 5 µs).
const mbmFiles = 256

const resctrl = "sys/fs/resctrl"

// traffic is the memory traffic of the nodes, from whatever tells it.
type traffic struct {
	tried  bool
	imc    []channel
	imcAt  time.Time
	whyIMC string

	mbm    map[string]uint64 // bytes, by file, of the last look
	mbmAt  time.Time
	whyMBM string
	llc    map[int]int // node ID by ID of the last-level cache
}

// channel is an open event of a memory controller.
type channel struct {
	perf.Counter
	nodes []int // of its package, with memory
	mib   float64
}

func (t *traffic) close() {
	for _, c := range t.imc {
		c.Close()
	}
	t.imc, t.tried = nil, false
}

// readTraffic is the MiB/s of each node's memory since the last look, where told.
func (o *Observer) readTraffic() (map[int]float64, workload.Source) {
	t := &o.traffic
	switch {
	case o.counters.opener == nil:
		t.whyIMC = "not asked for"
	case !t.tried:
		o.openControllers()
	}
	if len(t.imc) > 0 {
		if mib := o.readControllers(); mib != nil {
			return mib, workload.IMC
		}
	}
	if mib := o.readMBM(); mib != nil {
		return mib, workload.MBM
	}
	return nil, ""
}

// openControllers opens the events of all memory controllers, or none.
func (o *Observer) openControllers() {
	t := &o.traffic
	all := perf.Controllers(o.fsys)
	t.tried, t.whyIMC = !o.last.IsZero(), "one scan counts nothing"
	if len(all) == 0 {
		t.whyIMC = "the kernel shows no counters of memory controllers (uncore_imc)"
		return
	}
	if !t.tried {
		return
	}
	for _, c := range all {
		for cpu := range c.CPUs.All() {
			nodes := o.packageNodes(int(cpu))
			for i, e := range c.Events {
				k, err := o.counters.opener.On(int(cpu), e)
				if err != nil {
					t.close()
					t.tried, t.whyIMC = true, c.Name+": "+o.reason(err)
					return
				}
				t.imc = append(t.imc, channel{k, nodes, c.MiB[i]})
			}
		}
	}
	t.imcAt, t.whyIMC = o.now, ""
}

// packageNodes is the nodes with ordinary memory in the package of a CPU.
func (o *Observer) packageNodes(cpu int) []int {
	own := -1
	if cpu < len(o.nodeOf) {
		own = o.nodeOf[cpu]
	}
	pkg := topology.PackageID(topology.None)
	for _, n := range o.host.Nodes {
		if int(n.ID) == own {
			pkg = n.Package
		}
	}
	var out []int
	for _, n := range o.host.Nodes {
		if int(n.ID) == own || (pkg != topology.None && n.Package == pkg && n.Memory != 0) {
			out = append(out, int(n.ID))
		}
	}
	return out
}

func (o *Observer) readControllers() map[int]float64 {
	t := &o.traffic
	window := o.now.Sub(t.imcAt).Seconds()
	if window < shortWindow.Seconds() {
		return nil
	}
	t.imcAt = o.now
	out := map[int]float64{}
	for _, c := range t.imc {
		n, _, err := c.Read()
		if err != nil {
			t.close()
			t.tried, t.whyIMC = true, err.Error()
			return nil
		}
		// Which of a package's nodes a controller belongs to is not told.
		for _, node := range c.nodes {
			out[node] += n * c.mib / window / float64(len(c.nodes))
		}
	}
	return out
}

// readMBM reads what resctrl counts of every last-level cache
// (Documentation/filesystems/resctrl.rst). It counts where requests come from: what is
// not local is shared out over the other nodes.
func (o *Observer) readMBM() map[int]float64 {
	t := &o.traffic
	groups, _, err := o.files.Subdirs(resctrl, nil)
	if err != nil {
		t.mbm, t.whyMBM = nil, "resctrl is not mounted"
		return nil
	}
	before, window := t.mbm, o.now.Sub(t.mbmAt).Seconds()
	if before != nil && window < shortWindow.Seconds() {
		return nil
	}
	t.mbm, t.mbmAt = map[string]uint64{}, o.now
	local, total := map[int]float64{}, map[int]float64{}
	dirs := []string{resctrl + "/mon_data"} // of the default group; a group's own is the sum with its monitoring groups
	for _, g := range groups {
		if g != "info" && g != "mon_groups" && g != "mon_data" {
			dirs = append(dirs, resctrl+"/"+g+"/mon_data")
		}
	}
	for _, dir := range dirs {
		o.eachDomain(dir, func(node int, dir string) {
			l, hasLocal := o.mbmDelta(dir+"/mbm_local_bytes", before)
			all, hasAll := o.mbmDelta(dir+"/mbm_total_bytes", before)
			if !hasAll {
				all = l
			}
			if !hasLocal {
				l = all
			}
			if hasLocal || hasAll {
				local[node] += l
				total[node] += max(l, all)
			}
		})
	}
	if len(t.mbm) == 0 {
		t.mbm, t.whyMBM = nil, "resctrl does not count memory bandwidth on this processor"
		return nil
	}
	if t.whyMBM = ""; before == nil || window <= 0 {
		return nil
	}
	return o.byMemory(local, total, window)
}

// byMemory makes the traffic of each node's memory of what its CPUs asked for, bytes.
func (o *Observer) byMemory(local, total map[int]float64, window float64) map[int]float64 {
	var with []int
	for _, n := range o.host.Nodes {
		if n.Memory != 0 {
			with = append(with, int(n.ID))
		}
	}
	out := map[int]float64{}
	for _, node := range with {
		sum := local[node]
		for _, n := range o.host.Nodes {
			other := int(n.ID)
			if away := total[other] - local[other]; other != node && away > 0 {
				homes := len(with)
				if n.Memory != 0 {
					homes--
				}
				sum += away / float64(homes)
			}
		}
		out[node] = sum / (1 << 20) / window
	}
	return out
}

// eachDomain calls each with the folders that count for one node.
func (o *Observer) eachDomain(dir string, each func(node int, dir string)) {
	t := &o.traffic
	domains, _, err := o.files.Subdirs(dir, nil)
	if err != nil {
		return
	}
	for _, d := range domains {
		id, ok := strings.CutPrefix(d, "mon_L3_")
		cache, err := strconv.Atoi(id)
		if !ok || err != nil {
			continue
		}
		// With Sub-NUMA Clustering each node has a folder of its own, named by its ID.
		if subs, _, err := o.files.Subdirs(dir+"/"+d, nil); err == nil && len(subs) > 0 {
			for _, s := range subs {
				if id, ok := strings.CutPrefix(s, "mon_sub_L3_"); ok {
					if node, err := strconv.Atoi(id); err == nil {
						each(node, dir+"/"+d+"/"+s)
					}
				}
			}
			continue
		}
		if t.llc == nil {
			t.llc = o.cacheNodes()
		}
		if node, ok := t.llc[cache]; ok {
			each(node, dir+"/"+d)
		}
	}
}

// cacheNodes is the node of each last-level cache, by the ID that resctrl names it by.
func (o *Observer) cacheNodes() map[int]int {
	out := map[int]int{}
	for cpu, node := range o.nodeOf {
		b, err := o.files.Read(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3/id", cpu), o.buf)
		if id, ok := proc.Number(bytes.TrimSpace(b)); err == nil && ok && node >= 0 {
			if _, has := out[int(id)]; !has {
				out[int(id)] = node
			}
		}
	}
	return out
}

// mbmDelta is the bytes counted in a file since the last look. It is false when the
// file tells nothing ("Unavailable", "Unassigned").
func (o *Observer) mbmDelta(name string, before map[string]uint64) (float64, bool) {
	t := &o.traffic
	if len(t.mbm) >= mbmFiles {
		return 0, false
	}
	b, err := o.files.Read(name, o.buf)
	n, ok := proc.Number(bytes.TrimSpace(b))
	if err != nil || !ok {
		return 0, false
	}
	t.mbm[name] = n
	if was, had := before[name]; had && n > was {
		return float64(n - was), true
	}
	return 0, true
}
