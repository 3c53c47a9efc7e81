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
	"github.com/homenode/homenode/core/words"
)

// Finding is one thing about the host that matters to its guests.
type Finding struct {
	Subject  string           `json:"subject"`          // what it is about, such as a file or a unit
	Where    string           `json:"where"`            // where it is: a file, CPUs, nodes or a program
	Severity measure.Severity `json:"severity"`         // how bad it is
	Code     words.Code       `json:"code"`             // code of the finding; does not change between versions
	Says     string           `json:"says"`             // the finding, in a sentence
	Advice   string           `json:"advice,omitempty"` // how to mend it; absent when there is nothing to do
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
	return slices.Index([]measure.Severity{measure.Healthy, measure.Info, measure.Warning, measure.Undecided,
		measure.Defect}, s)
}

// ExitStatus is 1 when something is off, else 0.
func ExitStatus(all []Finding) int {
	for _, f := range all {
		if f.Severity == measure.Warning || f.Severity == measure.Defect {
			return 1
		}
	}
	return 0
}

type judge struct {
	h      *topology.Host
	f      *Facts
	w      Want
	many   bool
	guests topology.CPUSet
	out    []Finding
}

func (j *judge) say(severity measure.Severity, subject, where, advice string, code words.Code, args ...any) {
	j.out = append(j.out, Finding{subject, where, severity, code, words.Because(code, args...).String(), advice})
}

func (j *judge) reserve() {
	const subject = "reserved CPUs"
	if j.w.Reserve.Empty() {
		if j.w.Reserve = Reserve(j.h, 1); j.w.Reserve.Empty() {
			j.say(measure.Info, subject, "reserve.cpus", "", words.ReserveNoCore)
			return
		}
		j.say(measure.Warning, subject, "reserve.cpus", fmt.Sprintf("reserve.cpus: %q in the configuration, and %s",
			j.w.Reserve, ByPrepare),
			words.ReserveNone, j.w.Reserve)
		return
	}
	at := "CPUs " + j.w.Reserve.String()
	if err := CheckReserve(j.h, j.w.Reserve); err != nil {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", Reserve(j.h, 1)), words.ReserveBad, err)
		return
	}
	if half := halves(j.h, j.w.Reserve); !half.Empty() {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", j.w.Reserve.Union(half)),
			words.ReserveHalf, half)
	}
	if n := bare(j.h, j.w.Reserve); !n.Empty() {
		j.say(measure.Warning, subject, at, fmt.Sprintf("reserve.cpus: %q", j.w.Reserve.Union(Reserve(j.h, 1))),
			words.ReserveBare, n)
	}
	if len(j.out) == 0 {
		j.say(measure.Healthy, subject, at, "", words.ReserveGood)
	}
}

func (j *judge) slices() {
	if !j.f.CgroupV2 {
		j.say(measure.Info, "services", "/sys/fs/cgroup", "", words.SlicesUnknown)
		return
	}
	for _, s := range j.f.Slices {
		at := "/sys/fs/cgroup" + s.Cgroup
		over := s.Effective.Intersect(j.guests)
		switch {
		case s.Effective.Empty():
			j.say(measure.Info, s.Name, at, "", words.SliceUnknown)
		case over.Empty():
			j.say(measure.Healthy, s.Name, at, "", words.KeptOn, s.Effective)
		default:
			j.say(measure.Warning, s.Name, at, ByPrepare, words.SliceOnGuests, over.Len(), j.guests.Len(), over)
		}
	}
	for _, a := range j.f.Agents {
		if over := a.CPUs.Intersect(j.guests); !over.Empty() {
			j.say(measure.Warning, "agent "+a.Name, fmt.Sprintf("PID %d", a.Process.PID), ByPrepare+" --agents "+a.Name,
				words.AgentOnGuests, over)
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
			j.say(measure.Warning, x.subject, "/"+x.file, ByPrepare, words.KernelOnGuests, over)
		} else {
			j.say(measure.Healthy, x.subject, "/"+x.file, "", words.KeptOn, *x.mask)
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
		j.say(measure.Info, "interrupts", "/proc/irq", "", words.IRQsUnknown)
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
		j.say(measure.Warning, "interrupts", "/proc/irq", ByPrepare, words.IRQsOnGuests, len(over), len(j.f.Interrupts),
			named)
	} else {
		j.say(measure.Healthy, "interrupts", "/proc/irq", "", words.IRQsKept, len(j.f.Interrupts)-queues)
	}
	if queues > 0 {
		j.say(measure.Info, "interrupts of NVMe queues", "/proc/irq", "", words.IRQsManaged, queues)
	}
	if d := j.f.Default; d != nil && d.Intersects(j.guests) {
		j.say(measure.Info, "interrupts to come", "/"+DefaultIRQ, ByPrepare, words.IRQsNew)
	}
}

func (j *judge) hugePages() {
	for _, want := range j.w.HugePages {
		n, pool := poolOf(j.h, want)
		at := "/" + PoolFile(want)
		switch {
		case n == nil || pool == nil:
			j.say(measure.Warning, "huge pages", fmt.Sprintf("node %d", want.Node), "", words.PoolMissing, want.Size)
		case pool.Total < want.Count:
			advice := fmt.Sprintf("%s --huge-pages %d:%dKiB:%d, or at boot hugepagesz=%dK hugepages=%d:%d", ByPrepare,
				want.Node, want.Size, want.Count, want.Size, want.Node, want.Count)
			j.say(measure.Warning, "huge pages", at, advice, words.PoolShort, pool.Total, want.Count)
		default:
			j.say(measure.Healthy, "huge pages", at, "", words.PoolEnough, pool.Total, want.Count)
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
		var by []string
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
			by = append(by, fmt.Sprintf("node %d %d", n.ID, total))
		}
		if least*2 < largest {
			j.say(measure.Warning, "huge pages", fmt.Sprintf("pages of %d KiB", size),
				ByPrepare+" --huge-pages NODE:SIZE:COUNT", words.PoolUneven, by)
		}
	}
}

// cmdline judges the kernel's command line; what is to change there needs a boot.
func (j *judge) cmdline() {
	const at, boot = "/proc/cmdline", "change the kernel's command line and boot"
	if j.f.Cmdline == nil {
		j.say(measure.Info, "kernel arguments", at, "", words.CmdlineUnknown)
		return
	}
	args := map[string]string{} // the last one counts
	for _, word := range j.f.Cmdline {
		key, value, _ := strings.Cut(word, "=")
		args[strings.ReplaceAll(key, "-", "_")] = value
	}
	if args["numa"] == "off" {
		j.say(measure.Defect, "numa=off", at, "take it off: "+boot, words.NUMAOff)
	}
	if args["acpi"] == "off" {
		j.say(measure.Defect, "acpi=off", at, "take it off: "+boot, words.ACPIOff)
	}
	if list, ok := args["isolcpus"]; ok {
		cpus := listOf(list)
		switch {
		case cpus.Intersects(j.w.Reserve):
			j.say(measure.Warning, "isolcpus", at, "take reserved CPUs out: "+boot, words.IsolatedReserve,
				cpus.Intersect(j.w.Reserve))
		case (cpus.Intersects(j.guests) && !strings.Contains(list, "managed_irq")) || strings.Contains(list, "domain"):
			j.say(measure.Warning, "isolcpus", at, "take it off unless all guests are dedicated: "+boot,
				words.IsolatedGuests, cpus)
		}
	}
	tickless := j.named(args["nohz_full"])
	for _, key := range []string{"nohz_full", "rcu_nocbs"} {
		list, given := args[key]
		if key == "rcu_nocbs" && !given && j.guests.SubsetOf(tickless) {
			continue // nohz_full= has it for these CPUs (rcu_init_nohz, kernel/rcu/tree_nocb.h)
		}
		cpus := j.named(list)
		switch {
		case given && list != "" && cpus.Intersects(j.w.Reserve):
			j.say(measure.Info, key, at, fmt.Sprintf("%s=%v: %s", key, j.guests, boot), words.NohzReserve,
				cpus.Intersect(j.w.Reserve))
		case !given || (list != "" && !j.guests.SubsetOf(cpus)):
			j.say(measure.Info, key, at, fmt.Sprintf("for dedicated guests that mind: %s=%v; %s", key, j.guests, boot),
				words.NohzGuests, j.guests.Minus(cpus))
		}
	}
	if len(j.w.HugePages) > 0 && args["hugepages"] == "" {
		j.say(measure.Info, "hugepages", at, "hugepages=NODE:COUNT,… with default_hugepagesz=; "+boot,
			words.HugePagesLate)
	}
	if args["mitigations"] == "off" {
		j.say(measure.Warning, "mitigations=off", at, "take it off where tenants do not trust one another: "+boot,
			words.MitigationsOff)
	}
	for _, key := range []string{"intel_idle.max_cstate", "processor.max_cstate"} {
		if v, ok := args[key]; ok {
			j.say(measure.Info, key, at, "", words.CStatesLimited, v)
		}
	}
	if v, ok := args["numa_balancing"]; ok {
		j.say(measure.Info, "numa_balancing", at, "", words.SetAtBoot, v)
	}
	if j.f.IOMMU != nil && !*j.f.IOMMU {
		j.say(measure.Info, "IOMMU", "/sys/kernel/iommu_groups",
			"switch it on in the firmware; on Intel intel_iommu=on; "+boot, words.IOMMUOff)
	}
}

// named returns the CPUs of an argument of the kernel: a list, or all.
func (j *judge) named(list string) topology.CPUSet {
	if list == "all" {
		return j.h.Online
	}
	return listOf(list)
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
		j.say(measure.Info, "transparent huge pages", "/"+THP, ByPrepare+" --thp madvise", words.THPNever)
	}
	if k := j.f.KSM; k != nil && *k == 1 {
		if across := j.f.KSMAcross; j.many && across != nil && *across == 1 {
			j.say(measure.Warning, "KSM", "/"+KSM,
				ByPrepare+" --ksm 0, or echo 0 > /sys/kernel/mm/ksm/merge_across_nodes", words.KSMAcross)
		} else {
			j.say(measure.Info, "KSM", "/"+KSM, "", words.KSMOn)
		}
	}
	if z := j.f.ZoneReclaim; z != nil && *z != 0 && j.many {
		j.say(measure.Warning, "zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode", "sysctl vm.zone_reclaim_mode=0",
			words.ZoneReclaim, *z)
	}
	if s := j.f.Swappiness; s != nil && *s > 10 {
		j.say(measure.Info, "swappiness", "/proc/sys/vm/swappiness", "sysctl vm.swappiness=1 on a host of guests",
			words.Swappy, *s)
	}
	if o := j.f.Overcommit; o != nil && *o == 2 {
		j.say(measure.Warning, "overcommit_memory", "/proc/sys/vm/overcommit_memory", "sysctl vm.overcommit_memory=0",
			words.OvercommitStrict)
	}
	if b := j.f.Balancing; b != nil && *b&1 != 0 && j.many {
		j.say(measure.Info, doctor.KernelBalance, "/proc/sys/kernel/numa_balancing",
			"sysctl kernel.numa_balancing=0 where homenode places all guests", words.NUMABalancingOn)
	}
}

func (j *judge) power() {
	for _, g := range slices.Sorted(maps.Keys(j.f.Governors)) {
		cpus := j.f.Governors[g]
		// intel_pstate and amd-pstate of today choose themselves under powersave too.
		if g == "performance" || (strings.Contains(j.f.Driver, "pstate") && g == "powersave") {
			continue
		}
		j.say(measure.Info, "frequency governor", "CPUs "+cpus.String(), "cpupower frequency-set -g performance",
			words.GovernorSlow, g)
	}
	if m := j.f.IdleMost; m != nil && *m == 0 {
		j.say(measure.Info, "idle states", "/sys/module/intel_idle/parameters/max_cstate", "", words.IdleFirmware)
	}
}

func (j *judge) others() {
	for _, m := range j.f.Managers {
		switch m.Name {
		case doctor.Irqbalance:
			j.say(measure.Warning, m.Name, "process",
				fmt.Sprintf("stop it, or IRQBALANCE_BANNED_CPULIST=%v in its configuration", j.guests),
				words.IrqbalanceRuns)
		case doctor.Numad:
			j.say(measure.Warning, m.Name, "process", "stop it", words.ManagerRuns, m.Does)
		case doctor.Tuned:
			severity := measure.Info
			if m.CPUs.Intersects(j.w.Reserve) {
				severity = measure.Warning
			}
			j.say(severity, m.Name, "process", "", words.ManagerRuns, m.Does)
		case doctor.Kubelet:
			j.say(measure.Info, m.Name, "/var/lib/kubelet", "", words.ManagerDoes, m.Does)
		}
	}
	switch j.f.Nested {
	case "Y", "1":
		j.say(measure.Info, "nested virtualization", "/sys/module/kvm_*/parameters/nested", "", words.NestedOn)
	}
	if f := j.f.Firmware; f != nil && f.SRAT && len(f.Domains) > len(j.h.Nodes) {
		j.say(measure.Defect, "nodes", "/sys/firmware/acpi/tables/SRAT", "homenode doctor says why", words.NodesHidden,
			len(f.Domains), len(j.h.Nodes))
	} else if len(j.h.Nodes) == 1 && len(j.h.Packages) > 1 {
		j.say(measure.Warning, "nodes", strconv.Itoa(len(j.h.Packages))+" packages",
			"homenode doctor says why; often node interleaving in the firmware", words.NodesInterleaved)
	}
}
