package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// job is a workload on the machine.
type job struct {
	id      workload.ID
	name    string
	kind    workload.Kind
	process workload.Process
	demand  Demand

	cpus  topology.CPUSet // CPUs it may use
	mems  topology.NodeSet
	asWas setting // CPUs and nodes before anybody changed them

	prefer    topology.NodeSet // nodes its memory falls on as long as they have room; empty: where it runs
	bound     bool             // … and nowhere else
	scattered bool             // its memory is interleaved over all nodes
	exclusive bool             // nobody else runs on its CPUs

	files map[plan.SettingKind]string // of its cgroup that were written

	may     []int32        // CPUs it may use, by node
	threads []int32        // by node; sums to its vCPUs
	mem     []topology.KiB // by node
	short   topology.KiB   // what found no room yet
	booked  topology.KiB   // what a policy that confines nobody counts for it

	at      []int32 // threads by cache, where caches are simulated
	crossed float64 // share of pairs of its threads that are in different caches

	served float64       // part of the CPU time it wants that it got in the last period
	got    []float64     // the same by node, where nodes differ much; nil: by threads
	ran    time.Duration // CPU time since it began
	began  time.Duration
}

type setting struct {
	cpus topology.CPUSet
	mems topology.NodeSet
}

func (j *job) resident() topology.KiB {
	var sum topology.KiB
	for _, m := range j.mem {
		sum += m
	}
	return sum
}

// file is what one of plan.CgroupFiles of its cgroup says.
func (j *job) file(kind plan.SettingKind) string {
	if v, ok := j.files[kind]; ok {
		return v
	}
	return plan.CgroupFiles[kind]
}

func (j *job) write(kind plan.SettingKind, value string) {
	if j.files == nil {
		j.files = map[plan.SettingKind]string{}
	}
	j.files[kind] = value
}

// idle reports whether it runs only when nothing else wants a CPU (cpu.idle).
func (j *job) idle() bool { return j.file(plan.CgroupIdle) == "1" }

// limit is the CPUs that cpu.max and cgroup.freeze let it use. Nothing else that is written
// into its files has an effect here but cpu.idle.
func (j *job) limit() float64 {
	var quota, period float64
	switch _, err := fmt.Sscan(j.file(plan.CgroupMax), &quota, &period); {
	case j.file(plan.CgroupFreeze) == "1":
		return 0
	case err != nil || period <= 0: // "max"
		return math.Inf(1)
	}
	return quota / period
}

// affinity is the path of a process's setting in the journal.
func (j *job) affinity() string { return fmt.Sprintf("%d@%d", j.process.PID, j.process.Start) }

// inode is that of its cgroup, where that may be made anew under the same path; else "".
func (j *job) inode() string {
	if j.demand.Cgroup == "" {
		return ""
	}
	return strconv.FormatUint(j.process.Start, 10)
}

// ranOn is the part of its CPU time that it had on a node.
func (j *job) ranOn(i int) float64 {
	if j.got != nil && j.served > 0 {
		return min(1, j.got[i]/j.served)
	}
	return float64(j.threads[i]) / float64(j.demand.VCPUs)
}

// observation is what the daemon sees of it.
func (m *machine) observation(j *job, window time.Duration) workload.Observation {
	name, _, _ := strings.Cut(j.name, "#") // of several processes
	o := workload.Observation{
		ID: j.id, Name: name, Kind: j.kind, Processes: []workload.Process{j.process}, Threads: j.demand.VCPUs,
		Window: min(window, m.now-j.began), CPUTime: j.ran, CPUUse: j.served * j.demand.Busy * float64(j.demand.VCPUs),
		RanOnFrom: workload.PerThread, CPUs: j.cpus, Mems: j.mems, Pinned: j.demand.Pinned,
		// The least that PSI can tell: of several threads one may wait while another runs.
		Waited: math.Round(100*(1-j.served)) / 100, WaitedFrom: workload.PSI,
	}
	if j.kind == workload.InCgroup {
		o.Cgroup = string(j.id)
		o.CgroupID, _ = strconv.ParseUint(j.inode(), 10, 64)
	} else {
		o.Cgroup = "/user.slice"
	}
	o.OwnPolicy = j.demand.Policy
	if j.demand.Pinned {
		o.PinnedWhy = "all threads"
	}
	for i := range j.threads {
		if share := j.ranOn(i); share > 0 {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: m.host.Nodes[i].ID, Share: share})
		}
	}
	for i, kib := range j.mem {
		if kib > 0 {
			o.Memory = append(o.Memory, workload.NodeMemory{Node: m.host.Nodes[i].ID, KiB: kib})
		}
	}
	o.Anon = o.Memory
	if j.demand.Brief { // a thread runs for a quarter of a millisecond each time
		const slice = 250 * time.Microsecond
		o.Slices = workload.Slices{PerSecond: o.CPUUse / slice.Seconds(), Mean: slice, Asleep: 1 - j.demand.Busy,
			Waited: 1 - j.served}
	}
	return o
}
