package hostprep

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Files of the kernel that steps write, below the root.
const (
	Workqueue  = "sys/devices/virtual/workqueue/cpumask"           // Documentation/core-api/workqueue.rst
	Writeback  = "sys/devices/virtual/workqueue/writeback/cpumask" //
	DefaultIRQ = "proc/irq/default_smp_affinity"                   // of interrupts that are yet to come
	THP        = "sys/kernel/mm/transparent_hugepage/enabled"
	KSM        = "sys/kernel/mm/ksm/run"
	// NUMABalancing is changed for work that is wider than a node (core/control, divide.go), not
	// to prepare a host.
	NUMABalancing = "proc/sys/kernel/numa_balancing"
	// CacheAware is the switch of the kernel's cache-aware scheduling, Linux 7.2 and later
	// (kernel/sched/debug.c). A trial changes it.
	CacheAware = topology.CacheAwareFile
)

// HostSlices are the cgroups of a host's own programs, by systemd's names.
var HostSlices = []string{"init.scope", "system.slice", "user.slice"}

// Facts is what a host tells about itself. What could not be read is unset: nil, or
// false in the field that says whether it is known.
type Facts struct {
	Systemd  bool // is what runs as PID 1
	CgroupV2 bool
	Slices   []Slice // those asked for that exist, in the order asked
	Missing  []string
	Agents   []Agent // processes of the names asked for, rising by PID

	InterruptsKnown bool
	Interrupts      []Interrupt // with a handler, rising by number
	Default         *topology.CPUSet
	Workqueue       *topology.CPUSet
	Writeback       *topology.CPUSet

	Cmdline     []string // words of the kernel's command line; nil when it cannot be read
	THP         string   // always, madvise, never; "" unknown
	KSM         *int
	KSMAcross   *int // merge_across_nodes
	Balancing   *int // kernel.numa_balancing
	ZoneReclaim *int
	Swappiness  *int
	Overcommit  *int                       // vm.overcommit_memory
	Governors   map[string]topology.CPUSet // cpufreq governor → CPUs
	Driver      string                     // cpufreq driver of the first CPU
	IdleMost    *int                       // intel_idle's max_cstate
	Nested      string                     // "Y", "N", "1", "0"; "" without KVM
	IOMMU       *bool                      // devices are behind one
	Managers    []measure.Manager
	Firmware    *measure.Firmware
}

// Slice is a cgroup of the host's own programs.
type Slice struct {
	Name      string // systemd's, such as system.slice
	Cgroup    string // path below the cgroup root
	CPUs      string // cpuset.cpus as it stands; "" when it has none of its own
	Effective topology.CPUSet
}

// Agent is a process that belongs on the reserve.
type Agent struct {
	Process workload.Process
	Name    string
	Cgroup  string          // path below the cgroup root
	CPUs    topology.CPUSet // that any of its threads may use
}

// Interrupt is one that has a handler.
type Interrupt struct {
	Number int
	Name   string // of its handlers, as the kernel lists them
	Node   topology.NodeID
	CPUs   topology.CPUSet // it may be delivered to
}

// Read takes facts of h out of the tree of the machine or of a captured one.
func Read(fsys fs.FS, h *topology.Host, units, agents []string) Facts {
	f := Facts{
		Default: mask(fsys, DefaultIRQ), Workqueue: mask(fsys, Workqueue), Writeback: mask(fsys, Writeback),
		KSM: number(fsys, KSM), KSMAcross: number(fsys, "sys/kernel/mm/ksm/merge_across_nodes"),
		Balancing:   number(fsys, "proc/sys/kernel/numa_balancing"),
		ZoneReclaim: number(fsys, "proc/sys/vm/zone_reclaim_mode"),
		Swappiness:  number(fsys, "proc/sys/vm/swappiness"), Overcommit: number(fsys, "proc/sys/vm/overcommit_memory"),
		IdleMost: number(fsys, "sys/module/intel_idle/parameters/max_cstate"),
		Managers: doctor.Managers(fsys, h), Firmware: doctor.Firmware(fsys),
	}
	_, err := fs.Stat(fsys, "run/systemd/system") // sd_booted(3)
	f.Systemd = err == nil
	_, err = fs.Stat(fsys, "sys/fs/cgroup/cgroup.controllers")
	f.CgroupV2 = err == nil
	if t, ok := text(fsys, "proc/cmdline"); ok {
		f.Cmdline = append([]string{}, strings.Fields(t)...)
	}
	if t, ok := text(fsys, THP); ok {
		f.THP = Choice(t)
	}
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if t, ok := text(fsys, "sys/module/"+module+"/parameters/nested"); ok {
			f.Nested = t
		}
	}
	if groups, err := fs.ReadDir(fsys, "sys/kernel/iommu_groups"); err == nil {
		f.IOMMU = new(len(groups) > 0)
	}
	for _, name := range units {
		if !strings.HasPrefix(name, "/") {
			f.slice(fsys, name, CgroupOf(name))
			continue
		}
		found := Cgroups(fsys, name)
		for _, cgroup := range found {
			f.slice(fsys, cgroup, cgroup)
		}
		if found == nil {
			f.Missing = append(f.Missing, name)
		}
	}
	f.agents(fsys, agents)
	f.interrupts(fsys)
	f.governors(fsys, h)
	return f
}

// Runs reports whether another program that places things runs (core/doctor).
func (f *Facts) Runs(manager string) bool {
	return slices.ContainsFunc(f.Managers, func(m measure.Manager) bool { return m.Name == manager })
}

// Choice is the word in brackets of a kernel file such as "always [madvise] never",
// or the whole text where none is.
func Choice(text string) string {
	if _, rest, found := strings.Cut(text, "["); found {
		text, _, _ = strings.Cut(rest, "]")
	}
	return strings.TrimSpace(text)
}

// CgroupOf is the path of a slice or scope by systemd's names: a-b.slice lies in
// a.slice (systemd.slice(5)). "" is no name of a unit that has CPUs.
func CgroupOf(unit string) string {
	base, isSlice := strings.CutSuffix(unit, ".slice")
	switch {
	case strings.ContainsAny(unit, "/\x00\n") || base == "" || base == "-" || strings.HasPrefix(base, "-"):
		return ""
	case !isSlice && strings.HasSuffix(unit, ".scope") && unit != ".scope":
		return "/" + unit
	case !isSlice:
		return ""
	}
	at := ""
	parts := strings.Split(base, "-")
	for i, p := range parts {
		if p == "" {
			return ""
		}
		at += "/" + strings.Join(parts[:i+1], "-") + ".slice"
	}
	return at
}

// IsPath tells the path of a cgroup below the cgroup root, in which * stands for any
// characters but a slash, from the name of a unit.
func IsPath(name string) bool {
	rest, ok := strings.CutPrefix(name, "/")
	_, err := path.Match(rest, "")
	return ok && err == nil && fs.ValidPath(rest) && rest != "." && !strings.ContainsAny(rest, "\x00\n")
}

// Cgroups is the cgroups that a path names: those of containers whose runtime makes them
// itself (Docker's /docker under its driver cgroupfs), or below a slice that others use too
// (Podman's /machine.slice/libpod-*).
func Cgroups(fsys fs.FS, name string) (out []string) {
	found, _ := fs.Glob(fsys, "sys/fs/cgroup"+name+"/cgroup.procs")
	for _, f := range found {
		out = append(out, strings.TrimPrefix(path.Dir(f), "sys/fs/cgroup"))
	}
	return out
}

// GuestBelow is the cgroup of a guest that runs in a cgroup, "" for none: of libvirt
// (virSystemdMakeMachineName, vir_cgroup.c) or of Proxmox VE.
func GuestBelow(fsys fs.FS, cgroup string) string {
	for at, depth := "sys/fs/cgroup"+cgroup, 0; depth < 3; at, depth = at+"/*", depth+1 {
		for _, name := range []string{`machine-qemu*`, "*.libvirt-qemu", "[1-9]*.scope"} {
			found, _ := fs.Glob(fsys, at+"/"+name)
			for _, f := range found {
				if name[0] != '[' || path.Base(path.Dir(f)) == "qemu.slice" {
					return strings.TrimPrefix(f, "sys/fs/cgroup")
				}
			}
		}
	}
	return ""
}

func (f *Facts) slice(fsys fs.FS, name, cgroup string) {
	s := Slice{Name: name, Cgroup: cgroup}
	dir := "sys/fs/cgroup" + s.Cgroup
	if _, err := fs.Stat(fsys, dir+"/cgroup.procs"); s.Cgroup == "" || err != nil {
		f.Missing = append(f.Missing, name)
		return
	}
	s.CPUs, _ = text(fsys, dir+"/cpuset.cpus")
	// Without the controller there the nearest cgroup above that has it counts.
	for at := s.Cgroup; ; at = path.Dir(at) {
		t, ok := text(fsys, path.Clean("sys/fs/cgroup"+at)+"/cpuset.cpus.effective")
		if cpus, err := topology.ParseCPUSet(t); ok && err == nil {
			s.Effective = cpus
			break
		}
		if at == "/" {
			break
		}
	}
	f.Slices = append(f.Slices, s)
}

// maxProcesses bounds the walk over /proc on hosts with very many tasks.
const maxProcesses = 20_000

// Comm is a process name as /proc/PID/comm has it: 15 bytes at most.
func Comm(name string) string { return name[:min(15, len(name))] }

// agents finds processes by name.
func (f *Facts) agents(fsys fs.FS, names []string) {
	if len(names) == 0 {
		return
	}
	entries, _ := fs.ReadDir(fsys, "proc")
	for i, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if i > maxProcesses || err != nil {
			continue
		}
		dir := "proc/" + e.Name()
		comm, _ := text(fsys, dir+"/comm")
		if !slices.ContainsFunc(names, func(n string) bool { return Comm(n) == comm }) {
			continue
		}
		stat, _ := text(fsys, dir+"/stat")
		// The name, in brackets, may hold anything; field 22 is the start (proc_pid_stat(5)).
		rest := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(rest) < 20 {
			continue
		}
		start, err := strconv.ParseUint(rest[19], 10, 64)
		if err != nil {
			continue
		}
		a := Agent{Process: workload.Process{PID: pid, Start: start}, Name: comm}
		cgroup, _ := text(fsys, dir+"/cgroup")
		for line := range strings.Lines(cgroup) {
			if at, ok := strings.CutPrefix(line, "0::"); ok {
				a.Cgroup = strings.TrimSpace(at)
			}
		}
		tasks, _ := fs.ReadDir(fsys, dir+"/task")
		for _, t := range tasks {
			a.CPUs = a.CPUs.Union(allowed(fsys, dir+"/task/"+t.Name()))
		}
		f.Agents = append(f.Agents, a)
	}
	slices.SortFunc(f.Agents, func(a, b Agent) int { return a.Process.PID - b.Process.PID })
}

func allowed(fsys fs.FS, dir string) topology.CPUSet {
	status, _ := text(fsys, dir+"/status")
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			cpus, _ := topology.ParseCPUSet(list)
			return cpus
		}
	}
	return topology.CPUSet{}
}

// interrupts reads all that have a handler, also those of no PCI device.
func (f *Facts) interrupts(fsys fs.FS) {
	entries, err := fs.ReadDir(fsys, "proc/irq")
	if err != nil {
		return
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := "proc/irq/" + e.Name()
		name, _ := text(fsys, "sys/kernel/irq/"+e.Name()+"/actions")
		list, ok := text(fsys, dir+"/smp_affinity_list")
		cpus, err := topology.ParseCPUSet(list)
		if name == "" || !ok || err != nil {
			continue
		}
		x := Interrupt{Number: n, Name: name, Node: topology.None, CPUs: cpus}
		if node := number(fsys, dir+"/node"); node != nil && *node >= 0 {
			x.Node = topology.NodeID(*node)
		}
		f.Interrupts = append(f.Interrupts, x)
		f.InterruptsKnown = true
	}
	slices.SortFunc(f.Interrupts, func(a, b Interrupt) int { return a.Number - b.Number })
}

func (f *Facts) governors(fsys fs.FS, h *topology.Host) {
	for cpu := range h.Online.All() {
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(int(cpu)) + "/cpufreq/"
		g, ok := text(fsys, dir+"scaling_governor")
		if !ok {
			continue
		}
		if f.Driver == "" {
			f.Driver, _ = text(fsys, dir+"scaling_driver")
		}
		if f.Governors == nil {
			f.Governors = map[string]topology.CPUSet{}
		}
		set := f.Governors[g]
		set.Add(cpu)
		f.Governors[g] = set
	}
}

// most bounds what is read of one file: the kernel's own are smaller.
const most = 1 << 16

func text(fsys fs.FS, name string) (string, bool) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil || len(b) > most {
		return "", false
	}
	return strings.Trim(string(b), " \t\r\n\x00"), true
}

func number(fsys fs.FS, name string) *int {
	t, ok := text(fsys, name)
	if n, err := strconv.Atoi(t); ok && err == nil {
		return &n
	}
	return nil
}

func mask(fsys fs.FS, name string) *topology.CPUSet {
	t, ok := text(fsys, name)
	if set, err := topology.ParseMask(t); ok && err == nil {
		return &set
	}
	return nil
}
