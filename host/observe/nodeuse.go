package observe

import (
	"bytes"
	"fmt"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// cpuTicks is how long a CPU did no work since boot, in ticks of USER_HZ: it was idle, it waited for a device
// while idle, or the hypervisor had it.
type cpuTicks struct {
	off   uint64
	known bool // the kernel has a line of this CPU
}

// cpuLook is when all CPUs were looked at, and what was found.
type cpuLook struct {
	at    time.Time
	ticks []cpuTicks // by CPU; nil where nothing could be read
}

// nodeUse is what was done on each node since the last look; nil on the first.
func (o *Observer) nodeUse() []workload.NodeUse {
	use := o.lookAtCPUs()
	traffic, from := o.readTraffic()
	if o.last.IsZero() {
		return nil
	}
	out := make([]workload.NodeUse, len(o.host.Nodes))
	for i, n := range o.host.Nodes {
		u := workload.NodeUse{Node: n.ID, CPUUse: topology.None, Bandwidth: topology.None}
		if len(use) > 0 {
			sum := 0.0
			for cpu := range n.CPUs.All() {
				sum += use[cpu]
			}
			u.CPUUse = max(0, sum)
		}
		if mib, ok := traffic[int(n.ID)]; ok {
			u.Bandwidth, u.BandwidthFrom = int64(mib), from
		}
		out[i] = u
	}
	return out
}

// lookAtCPUs returns how busy each CPU was since the last look; nil where the kernel does not say.
func (o *Observer) lookAtCPUs() []float64 {
	before := o.cpuLook
	o.cpuLook = cpuLook{at: o.opts.Now()}
	b, err := o.files.Read("proc/stat", o.buf)
	if err != nil {
		if !files.Gone(err) {
			o.problems.add("proc/stat", "CPU use of nodes unknown", err)
		}
		return nil
	}
	now := &o.cpuLook
	now.at = now.at.Add(o.opts.Now().Sub(now.at) / 2) // reading takes time
	now.ticks = parseCPUTicks(b, len(o.nodeOf))
	if len(before.ticks) != len(now.ticks) {
		return nil
	}
	use := make([]float64, len(now.ticks))
	for cpu, t := range now.ticks {
		use[cpu] = t.since(before.ticks[cpu], now.at.Sub(before.at))
	}
	return use
}

// since is the share of a time in which the CPU was busy: what is left of the time. It may be below 0 by a few ticks,
// which even out over the CPUs of a node. Where an idle CPU has no tick, as is usual, the kernel measures how long it
// is idle, but finds what it runs by looking once a tick: work that wakes with each tick, and sleeps before the next,
// is found each time or never (kernel/sched/cputime.c, kernel/time/tick-sched.c). Ticks of a CPU that is idle may go
// back by one (Documentation/filesystems/proc.rst, iowait); a CPU that was off begins anew, and nothing is known.
func (t cpuTicks) since(before cpuTicks, elapsed time.Duration) float64 {
	if !t.known || !before.known || elapsed <= 0 || t.off+2 < before.off {
		return 0
	}
	off := ticksDuration(max(t.off, before.off) - before.off)
	return 1 - float64(off)/float64(elapsed)
}

// parseCPUTicks reads the lines "cpu3 user nice system idle iowait irq softirq steal
// guest guest_nice" of /proc/stat.
func parseCPUTicks(b []byte, cpus int) []cpuTicks {
	out := make([]cpuTicks, cpus)
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // they come first
		}
		fields := bytes.Fields(rest)
		if len(fields) < 9 || rest[0] == ' ' { // the sum over all
			continue
		}
		cpu, ok := proc.Number(fields[0])
		if !ok || cpu >= uint64(cpus) {
			continue
		}
		t := cpuTicks{known: true}
		for _, i := range []int{4, 5, 8} { // idle, iowait, steal
			n, ok := proc.Number(fields[i])
			if t.off += n; !ok || n > 1<<50 {
				t.known = false
			}
		}
		out[cpu] = t
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
