package observe

import (
	"bytes"
	"fmt"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// cpuTicks is the time of one CPU since boot.
type cpuTicks struct{ busy, all uint64 }

// nodeUse is what was done on each node since the last look; nil on the first.
func (o *Observer) nodeUse() []workload.NodeUse {
	before := o.cpuTicks
	if b, err := o.files.Read("proc/stat", o.buf); err == nil {
		o.cpuTicks = parseCPUTicks(b, len(o.nodeOf))
	} else if o.cpuTicks = nil; !files.Gone(err) {
		o.problems.add("proc/stat", "CPU use of nodes unknown", err)
	}
	traffic, from := o.readTraffic()
	if o.last.IsZero() {
		return nil
	}
	out := make([]workload.NodeUse, len(o.host.Nodes))
	for i, n := range o.host.Nodes {
		u := workload.NodeUse{Node: n.ID, CPUUse: topology.None, Bandwidth: topology.None}
		if len(before) == len(o.cpuTicks) && len(before) > 0 {
			u.CPUUse = 0
			for cpu := range n.CPUs.All() {
				u.CPUUse += o.cpuTicks[cpu].since(before[cpu])
			}
		}
		if mib, ok := traffic[int(n.ID)]; ok {
			u.Bandwidth, u.BandwidthFrom = int64(mib), from
		}
		out[i] = u
	}
	return out
}

// since is the share of the time that the CPU was busy. Ticks of a CPU that is idle
// may go back by one (Documentation/filesystems/proc.rst, iowait).
func (t cpuTicks) since(before cpuTicks) float64 {
	if t.all <= before.all || t.busy <= before.busy {
		return 0
	}
	return min(1, float64(t.busy-before.busy)/float64(t.all-before.all))
}

// parseCPUTicks reads the lines "cpu3 user nice system idle iowait irq softirq steal
// guest guest_nice" of /proc/stat. Guest time is in user time already; what the
// hypervisor took is no use of this machine's.
func parseCPUTicks(b []byte, cpus int) []cpuTicks {
	out := make([]cpuTicks, cpus)
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // they come first
		}
		fields := bytes.Fields(rest)
		if len(fields) < 8 || len(rest) == 0 || rest[0] == ' ' { // the sum over all
			continue
		}
		cpu, ok := proc.Number(fields[0])
		if !ok || cpu >= uint64(cpus) {
			continue
		}
		t := &out[cpu]
		for i, f := range fields[1:min(len(fields), 9)] {
			n, ok := proc.Number(f)
			if !ok || n > 1<<50 {
				break
			}
			t.all += n
			if i != 3 && i != 4 && i != 7 { // idle, iowait, steal
				t.busy += n
			}
		}
	}
	return out
}

// pressure is PSI of the whole host; nil where the kernel has none.
func (o *Observer) pressure() []workload.Pressure {
	var out []workload.Pressure
	for _, resource := range []string{"cpu", "memory", "io"} {
		if b, err := o.files.Read("proc/pressure/"+resource, o.buf); err == nil {
			some, full, _ := proc.Pressure(b)
			out = append(out, workload.Pressure{Resource: resource, Some: some, Full: full})
		}
	}
	return out
}

// sources says which sources there are here, best first.
func (o *Observer) sources() []workload.SourceStatus {
	c := &o.counters
	h := &o.hinting
	t := &o.traffic
	say := func(s workload.Source, used bool, text, why string) workload.SourceStatus {
		if !used {
			text = why
		}
		return workload.SourceStatus{Source: s, Used: used, Text: text}
	}
	counted := ""
	if c.usable {
		counted = fmt.Sprintf("%s of cgroups that use %.1f CPUs or more, %d descriptors open", c.pairs[0].Name,
			countBusy, c.files)
	}
	why := c.why
	if c.opener == nil {
		why = "not asked for"
	}
	sampled := "faults of threads by node (NUMA balancing)"
	if h.share >= 0 {
		sampled += fmt.Sprintf("; of all on this machine lately %.0f %% were local", 100*h.share)
	}
	own := 0
	for _, w := range o.works {
		if w.look == o.look && w.grouped.traffic(o.now) > 0 {
			own++
		}
	}
	out := []workload.SourceStatus{
		say(workload.Counters, c.usable, counted, why),
		say(workload.Hints, h.on, sampled, h.why),
		{Source: workload.Residence, Used: true, Text: "CPU time by node × memory by node"},
		say(workload.IMC, len(t.imc) > 0, fmt.Sprintf("reads and writes of %d memory controller events", len(t.imc)),
			t.whyIMC),
		say(workload.MBM, t.mbm != nil || own > 0,
			fmt.Sprintf("resctrl, %d monitoring files; %d workloads by groups of their own", len(t.mbm), own),
			t.whyMBM),
	}
	return out
}
