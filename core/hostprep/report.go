package hostprep

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// Finding is one thing about the host that matters to its guests.
type Finding struct {
	Subject  string           `json:"subject"`
	Where    string           `json:"where"` // file, CPUs, nodes or program
	Severity measure.Severity `json:"severity"`
	Says     string           `json:"says"`
	Advice   string           `json:"advice,omitempty"` // how to mend it
}

// ByPrepare is the advice where Steps mends it.
const ByPrepare = "homenode host prepare"

// Judge tells what is off on h, the worst first. With no reserve in w, what
// Reserve gives is taken for it and that there is none is a finding. HugePages of w
// are what is wanted of each node.
func Judge(h *topology.Host, f *Facts, w *Want) []Finding {
	j := judge{h: h, f: f, w: *w, many: len(h.Nodes) > 1}
	j.reserve()
	j.guests = h.Online.Minus(j.w.Reserve)
	j.slices()
	j.kernelWork()
	j.interrupts()
	j.hugePages()
	j.cmdline()
	j.memory()
	j.power()
	j.others()
	slices.SortStableFunc(j.out, func(a, b Finding) int { return rank(b.Severity) - rank(a.Severity) })
	return j.out
}

// rank orders severities by what a reader must hear first.
func rank(s measure.Severity) int {
	return slices.Index([]measure.Severity{measure.Healthy, measure.Info, measure.Warning, measure.Undecided, measure.Defect}, s)
}

// ExitStatus is the doctor's: 0 nothing off, 1 warning, 2 defect.
func ExitStatus(all []Finding) int {
	worst := 0
	for _, f := range all {
		switch f.Severity {
		case measure.Warning:
			worst = max(worst, 1)
		case measure.Defect:
			worst = 2
		}
	}
	return worst
}

type judge struct {
	h      *topology.Host
	f      *Facts
	w      Want
	many   bool
	guests topology.CPUSet
	out    []Finding
}

func (j *judge) say(severity measure.Severity, subject, where, advice, format string, args ...any) {
	j.out = append(j.out, Finding{subject, where, severity, fmt.Sprintf(format, args...), advice})
}

func (j *judge) reserve() {
	const subject = "reserved CPUs"
	if j.w.Reserve.Empty() {
		if j.w.Reserve = Reserve(j.h, 1); j.w.Reserve.Empty() {
			j.say(measure.Info, subject, "reserve.cpus", "", "none, and no node has a core to spare")
			return
		}
		j.say(measure.Warning, subject, "reserve.cpus", fmt.Sprintf("reserve.cpus: %q in the configuration, and %s", j.w.Reserve, ByPrepare),
			"none: services, interrupts and emulators share the CPUs of guests; what follows takes %s for them, a whole core of each node", j.w.Reserve)
		return
	}
	at := "CPUs " + j.w.Reserve.String()
	if err := CheckReserve(j.h, j.w.Reserve); err != nil {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", Reserve(j.h, 1)), "%v", err)
		return
	}
	if half := halves(j.h, j.w.Reserve); !half.Empty() {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", j.w.Reserve.Union(half)),
			"CPUs %v share a core with reserved ones and are left to guests: what the host does there slows them", half)
	}
	if n := bare(j.h, j.w.Reserve); !n.Empty() {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", j.w.Reserve.Union(Reserve(j.h, 1))),
			"none on node %v: emulators and interrupts of its guests and devices run on guest CPUs or cross to another node", n)
	}
	if len(j.out) == 0 {
		j.say(measure.Healthy, subject, at, "", "whole cores on every node")
	}
}

func (j *judge) slices() {
	if !j.f.CgroupV2 {
		j.say(measure.Info, "services", "/sys/fs/cgroup", "", "not known: cgroup v2 is not there")
		return
	}
	for _, s := range j.f.Slices {
		at := "/sys/fs/cgroup" + s.Cgroup
		over := s.Effective.Intersect(j.guests)
		switch {
		case s.Effective.Empty():
			j.say(measure.Info, s.Name, at, "", "which CPUs it may use is not known: the cpuset controller is off")
		case over.Empty():
			j.say(measure.Healthy, s.Name, at, "", "on CPUs %v", s.Effective)
		default:
			j.say(measure.Warning, s.Name, at, ByPrepare, "the host's own programs may run on %d of %d guest CPUs (%v)", over.Len(), j.guests.Len(), over)
		}
	}
	for _, a := range j.f.Agents {
		if over := a.CPUs.Intersect(j.guests); !over.Empty() {
			j.say(measure.Warning, "agent "+a.Name, fmt.Sprintf("PID %d", a.Process.PID), ByPrepare+" --agents "+a.Name, "may run on guest CPUs %v", over)
		}
	}
}

func (j *judge) kernelWork() {
	for _, x := range []struct {
		subject, file string
		mask          *topology.CPUSet
	}{{"unbound workqueues", Workqueue, j.f.Workqueue}, {"writeback", Writeback, j.f.Writeback}} {
		if x.mask == nil {
			continue
		}
		if over := x.mask.Intersect(j.guests); !over.Empty() {
			j.say(measure.Warning, x.subject, "/"+x.file, ByPrepare, "work of the kernel may run on guest CPUs %v", over)
		} else {
			j.say(measure.Healthy, x.subject, "/"+x.file, "", "on CPUs %v", *x.mask)
		}
	}
}

// managed reports whether an interrupt looks like one of those that a driver lets the
// kernel spread, a queue for each CPU, and that nobody may move: an NVMe queue.
func managed(name string) bool {
	rest, ok := strings.CutPrefix(name, "nvme")
	at := strings.IndexByte(rest, 'q')
	return ok && at >= 0 && rest[at:] != "q0"
}

func (j *judge) interrupts() {
	if !j.f.InterruptsKnown {
		j.say(measure.Info, "interrupts", "/proc/irq", "", "where they go is not known")
		return
	}
	var over []string
	queues := 0
	for _, x := range j.f.Interrupts {
		switch {
		case !x.CPUs.Intersects(j.guests):
		case managed(x.Name):
			queues++
		default:
			over = append(over, fmt.Sprintf("%d %s", x.Number, x.Name))
		}
	}
	if len(over) > 0 {
		named := strings.Join(over[:min(3, len(over))], ", ")
		if len(over) > 3 {
			named += ", …"
		}
		j.say(measure.Warning, "interrupts", "/proc/irq", ByPrepare, "%d of %d may be delivered to guest CPUs: %s", len(over), len(j.f.Interrupts), named)
	} else {
		j.say(measure.Healthy, "interrupts", "/proc/irq", "", "%d that can be moved are kept off guest CPUs", len(j.f.Interrupts)-queues)
	}
	if queues > 0 {
		j.say(measure.Info, "interrupts of NVMe queues", "/proc/irq", "", "%d go to the CPU that asked, guest CPUs too: the kernel manages them", queues)
	}
	if d := j.f.Default; d != nil && d.Intersects(j.guests) {
		j.say(measure.Info, "interrupts to come", "/"+DefaultIRQ, ByPrepare, "new ones may be delivered to guest CPUs")
	}
}

func (j *judge) hugePages() {
	for _, want := range j.w.HugePages {
		n, pool := poolOf(j.h, want)
		at := "/" + PoolFile(want)
		switch {
		case n == nil || pool == nil:
			j.say(measure.Warning, "huge pages", fmt.Sprintf("node %d", want.Node), "", "no pool of pages of %d KiB", want.Size)
		case pool.Total < want.Count:
			advice := fmt.Sprintf("%s --huge-pages %d:%dKiB:%d, or at boot hugepagesz=%dK hugepages=%d:%d", ByPrepare, want.Node, want.Size, want.Count, want.Size, want.Node, want.Count)
			j.say(measure.Warning, "huge pages", at, advice, "%d of %d wanted", pool.Total, want.Count)
		default:
			j.say(measure.Healthy, "huge pages", at, "", "%d, %d wanted", pool.Total, want.Count)
		}
	}
	var sizes []topology.KiB
	for _, n := range j.h.Nodes {
		for _, p := range n.HugePages {
			if p.Total > 0 {
				sizes = append(sizes, p.Size)
			}
		}
	}
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		var words []string
		least, largest := int64(-1), int64(0)
		for _, n := range j.h.Nodes {
			if n.CPUs.Empty() {
				continue
			}
			var total int64
			for _, p := range n.HugePages {
				if p.Size == size {
					total = p.Total
				}
			}
			if least < 0 || total < least {
				least = total
			}
			largest = max(largest, total)
			words = append(words, fmt.Sprintf("node %d %d", n.ID, total))
		}
		if least*2 < largest {
			j.say(measure.Warning, "huge pages", fmt.Sprintf("pages of %d KiB", size), ByPrepare+" --huge-pages NODE:SIZE:COUNT", "unevenly spread (%s): guests that ask for them fit on some nodes only", strings.Join(words, ", "))
		}
	}
}

// cmdline judges the kernel's command line; what is to change there needs a boot.
func (j *judge) cmdline() {
	const at, boot = "/proc/cmdline", "change the kernel's command line and boot"
	if j.f.Cmdline == nil {
		j.say(measure.Info, "kernel arguments", at, "", "not known")
		return
	}
	args := map[string]string{} // the last one counts
	for _, word := range j.f.Cmdline {
		key, value, _ := strings.Cut(word, "=")
		args[strings.ReplaceAll(key, "-", "_")] = value
	}
	if args["numa"] == "off" {
		j.say(measure.Defect, "numa=off", at, "take it off: "+boot, "the kernel shows one node whatever the machine has")
	}
	if args["acpi"] == "off" {
		j.say(measure.Defect, "acpi=off", at, "take it off: "+boot, "the kernel does not read the firmware's nodes")
	}
	if list, ok := args["isolcpus"]; ok {
		cpus := listOf(list)
		switch {
		case cpus.Intersects(j.w.Reserve):
			j.say(measure.Warning, "isolcpus", at, "take reserved CPUs out: "+boot, "reserved CPUs %v are isolated: the host's own programs are not spread over them", cpus.Intersect(j.w.Reserve))
		case cpus.Intersects(j.guests) && !strings.Contains(list, "managed_irq") || strings.Contains(list, "domain"):
			j.say(measure.Warning, "isolcpus", at, "take it off unless all guests are dedicated: "+boot,
				"the scheduler spreads nothing over CPUs %v: shared guests pile up on one of them", cpus)
		}
	}
	for _, key := range []string{"nohz_full", "rcu_nocbs"} {
		list, given := args[key]
		cpus := listOf(list)
		if list == "all" {
			cpus = j.h.Online
		}
		switch {
		case given && list != "" && cpus.Intersects(j.w.Reserve):
			j.say(measure.Info, key, at, fmt.Sprintf("%s=%v: %s", key, j.guests, boot), "covers reserved CPUs %v, which the kernel's housekeeping needs", cpus.Intersect(j.w.Reserve))
		case !given || list != "" && !j.guests.SubsetOf(cpus):
			j.say(measure.Info, key, at, fmt.Sprintf("for dedicated guests that mind: %s=%v; %s", key, j.guests, boot), "guest CPUs %v are interrupted by the kernel's own upkeep", j.guests.Minus(cpus))
		}
	}
	if len(j.w.HugePages) > 0 && args["hugepages"] == "" {
		j.say(measure.Info, "hugepages", at, "hugepages=NODE:COUNT,… with default_hugepagesz=; "+boot, "no huge pages are taken at boot: those taken later may not be found in one piece")
	}
	if args["mitigations"] == "off" {
		j.say(measure.Warning, "mitigations=off", at, "take it off where tenants do not trust one another: "+boot, "guests may read each other's data through the CPU")
	}
	for _, key := range []string{"intel_idle.max_cstate", "processor.max_cstate"} {
		if v, ok := args[key]; ok {
			j.say(measure.Info, key, at, "", "%s: idle CPUs wake faster, and leave less power for those at work", v)
		}
	}
	if v, ok := args["numa_balancing"]; ok {
		j.say(measure.Info, "numa_balancing", at, "", "%s at boot", v)
	}
	if j.f.IOMMU != nil && !*j.f.IOMMU {
		j.say(measure.Info, "IOMMU", "/sys/kernel/iommu_groups", "switch it on in the firmware; on Intel intel_iommu=on; "+boot, "off: no drive or NIC can be handed through to a guest")
	}
}

// listOf reads a CPU list behind flags: "managed_irq,domain,2-39".
func listOf(text string) topology.CPUSet {
	var all topology.CPUSet
	for part := range strings.SplitSeq(text, ",") {
		if cpus, err := topology.ParseCPUSet(part); err == nil {
			all = all.Union(cpus)
		}
	}
	return all
}

func (j *judge) memory() {
	if j.f.THP == "never" {
		j.say(measure.Info, "transparent huge pages", "/"+THP, ByPrepare+" --thp madvise", "never: guests without huge pages of their own pay for more page table walks")
	}
	if k := j.f.KSM; k != nil && *k == 1 {
		if across := j.f.KSMAcross; j.many && across != nil && *across == 1 {
			j.say(measure.Warning, "KSM", "/"+KSM, ByPrepare+" --ksm 0, or echo 0 > /sys/kernel/mm/ksm/merge_across_nodes", "equal pages of guests are merged across nodes: local memory becomes remote")
		} else {
			j.say(measure.Info, "KSM", "/"+KSM, "", "on: equal pages of shared guests are merged, at the price of a CPU's time")
		}
	}
	if z := j.f.ZoneReclaim; z != nil && *z != 0 && j.many {
		j.say(measure.Warning, "zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode", "sysctl vm.zone_reclaim_mode=0", "%d: a full node drops its page cache before memory of another is taken, and guests stall", *z)
	}
	if s := j.f.Swappiness; s != nil && *s > 10 {
		j.say(measure.Info, "swappiness", "/proc/sys/vm/swappiness", "sysctl vm.swappiness=1 on a host of guests", "%d: memory of idle guests is swapped out for page cache", *s)
	}
	if o := j.f.Overcommit; o != nil && *o == 2 {
		j.say(measure.Warning, "overcommit_memory", "/proc/sys/vm/overcommit_memory", "sysctl vm.overcommit_memory=0", "2: a guest may not start although its memory is there")
	}
	if b := j.f.Balancing; b != nil && *b&1 != 0 && j.many {
		j.say(measure.Info, doctor.KernelBalance, "/proc/sys/kernel/numa_balancing", "sysctl kernel.numa_balancing=0 where homenode places all guests", "on: it takes page faults of guests to find out what it moves")
	}
}

func (j *judge) power() {
	for _, g := range slices.Sorted(maps.Keys(j.f.Governors)) {
		cpus := j.f.Governors[g]
		// intel_pstate and amd-pstate of today choose themselves under powersave too.
		if g == "performance" || strings.Contains(j.f.Driver, "pstate") && g == "powersave" {
			continue
		}
		j.say(measure.Info, "frequency governor", "CPUs "+cpus.String(), "cpupower frequency-set -g performance", "%s: a guest that wakes waits for the clock to rise", g)
	}
	if m := j.f.IdleMost; m != nil && *m == 0 {
		j.say(measure.Info, "idle states", "/sys/module/intel_idle/parameters/max_cstate", "", "intel_idle is off: idle states are the firmware's")
	}
}

func (j *judge) others() {
	for _, m := range j.f.Managers {
		switch m.Name {
		case doctor.Irqbalance:
			j.say(measure.Warning, m.Name, "process", fmt.Sprintf("stop it, or IRQBALANCE_BANNED_CPULIST=%v in its configuration", j.guests), "runs: it spreads interrupts over guest CPUs")
		case doctor.Numad:
			j.say(measure.Warning, m.Name, "process", "stop it", "runs: it %s", m.Does)
		case doctor.Tuned:
			severity := measure.Info
			if m.CPUs.Intersects(j.w.Reserve) {
				severity = measure.Warning
			}
			j.say(severity, m.Name, "process", "", "runs: it %s", m.Does)
		case doctor.Kubelet:
			j.say(measure.Info, m.Name, "/var/lib/kubelet", "", "%s", m.Does)
		}
	}
	switch j.f.Nested {
	case "Y", "1":
		j.say(measure.Info, "nested virtualization", "/sys/module/kvm_*/parameters/nested", "", "on: guests may run guests")
	}
	if f := j.f.Firmware; f != nil && f.SRAT && len(f.Domains) > len(j.h.Nodes) {
		j.say(measure.Defect, "nodes", "/sys/firmware/acpi/tables/SRAT", "homenode doctor says why", "the firmware tells of %d nodes, the kernel shows %d", len(f.Domains), len(j.h.Nodes))
	} else if len(j.h.Nodes) == 1 && len(j.h.Packages) > 1 {
		j.say(measure.Warning, "nodes", strconv.Itoa(len(j.h.Packages))+" packages", "homenode doctor says why; often node interleaving in the firmware", "several packages and one node: where memory lies cannot be seen or chosen")
	}
}
