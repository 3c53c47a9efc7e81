package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/acpi"
)

// Capture takes from a live root what the doctor reads and topology.Capture does
// not take, so that the machine can be judged elsewhere. Nothing is taken whole
// that could name the machine or its owner: of the kernel's command line the
// words on NUMA and CPUs, of /proc/cpuinfo the model and whether it is virtual, of the
// kernel's release its number, and the firmware's tables without the names of
// their makers. The DIMM map holds serial numbers and is left out.
func Capture(fsys fs.FS) []topology.Leaf {
	var out []topology.Leaf
	add := func(name, text string) { out = append(out, topology.Leaf{Name: name, Data: []byte(text)}) }
	if words := measure.Cmdline(fsys); words != nil {
		words = append(words, measure.Arguments(fsys, hostArguments...)...)
		add("proc/cmdline", strings.Join(words, " ")+"\n")
	}
	if t, ok := text(fsys, "proc/cpuinfo"); ok {
		add("proc/cpuinfo", cpuKind(t))
	}
	if t, ok := text(fsys, "proc/sys/kernel/osrelease"); ok {
		add("proc/sys/kernel/osrelease", kernelNumber(t)+"\n")
	}
	for _, name := range []string{"proc/sys/kernel/numa_balancing", "proc/sys/kernel/perf_event_paranoid",
		"proc/sys/vm/zone_reclaim_mode"} {
		if n := number(fsys, name); n != nil {
			add(name, fmt.Sprintln(*n))
		}
	}
	if t, ok := text(fsys, "proc/sys/kernel/arch"); ok {
		add("proc/sys/kernel/arch", t+"\n")
	}
	if t, ok := text(fsys, "sys/kernel/mm/transparent_hugepage/enabled"); ok {
		add("sys/kernel/mm/transparent_hugepage/enabled", t+"\n")
	}
	for _, name := range []string{schedExt + "state", schedExt + "root/ops"} {
		if t, ok := text(fsys, name); ok {
			add(name, t+"\n")
		}
	}
	captureCacheAware(fsys, add)
	devices, _ := fs.ReadDir(fsys, pmus)
	for _, e := range devices {
		for _, name := range []string{"type", "events/cas_count_read"} {
			if t, ok := text(fsys, pmus+"/"+e.Name()+"/"+name); ok {
				add(pmus+"/"+e.Name()+"/"+name, t+"\n")
			}
		}
	}
	if t, ok := text(fsys, "sys/fs/resctrl/info/L3_MON/mon_features"); ok {
		add("sys/fs/resctrl/info/L3_MON/mon_features", t+"\n")
	}
	// DMI, which tells it on the machine itself, is full of names.
	if v := measure.Virt(fsys); v != "" && v != "none" {
		add("sys/hypervisor/type", v+"\n")
	}
	entries, _ := fs.ReadDir(fsys, path.Clean(tables))
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "SRAT" }) {
		add(tables+"absent", "SRAT\n") // the folder must not be empty: that it lacks the table is a fact
	}
	for _, name := range []string{"SRAT", "SLIT", "HMAT"} {
		if data, err := fs.ReadFile(fsys, tables+name); err == nil {
			if clean, err := acpi.Anonymous(data, name); err == nil {
				out = append(out, topology.Leaf{Name: tables + name, Data: clean})
			}
		}
	}
	return out
}

// captureCacheAware takes the state of the kernel's cache-aware scheduling: its switch, or the option that
// the kernel was built with.
func captureCacheAware(fsys fs.FS, add func(name, text string)) {
	release, _ := text(fsys, "proc/sys/kernel/osrelease")
	config := "boot/config-" + kernelNumber(release)
	switch state := topology.ReadCacheAware(fsys).State; {
	case state == topology.CacheAwareOn:
		add(topology.CacheAwareFile, "1\n")
	case state == topology.CacheAwareOff:
		add(topology.CacheAwareFile, "0\n")
	case kernelNumber(release) == "":
	case state == topology.CacheAwareBuiltIn:
		add(config, "CONFIG_SMP=y\nCONFIG_SCHED_CACHE=y\n")
	case state == topology.CacheAwareNone:
		add(config, "CONFIG_SMP=y\n# CONFIG_SCHED_CACHE is not set\n")
	}
}

// hostArguments are the words that `homenode host report` judges. No value of theirs
// names a machine or its owner.
var hostArguments = []string{
	"isolcpus", "nohz_full", "rcu_nocbs", "hugepages", "hugepagesz", "default_hugepagesz", "transparent_hugepage",
	"mitigations", "iommu", "intel_iommu", "amd_iommu", "intel_idle.max_cstate", "processor.max_cstate",
}

// cpuKind keeps of /proc/cpuinfo what Virt and the name of the CPU come from,
// for its first CPU.
func cpuKind(t string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(t) {
		key, value, _ := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if seen[key] {
			continue
		}
		seen[key] = true
		switch key {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "CPU implementer", "CPU part":
			fmt.Fprintf(&b, "%s\t: %s\n", key, value)
		case "flags":
			if !slices.Contains(strings.Fields(value), "hypervisor") {
				value = ""
			} else {
				value = "hypervisor"
			}
			fmt.Fprintf(&b, "flags\t: %s\n", value)
		}
	}
	return b.String()
}

var digits = regexp.MustCompile(`^\d+(\.\d+)*`)

// kernelNumber is the number of a release without what its builder added.
func kernelNumber(release string) string { return digits.FindString(release) }

// ownFile is a path that may hold a user's or a project's name.
var ownFile = regexp.MustCompile(`/[^\s:;,()]+`)

// Anonymous is a document without what could name the machine or its owner:
// its fingerprint, the kernel builder's addition to the release, device names
// and files. Vendor and model of machine and CPU stay.
func Anonymous(d *measure.Document) *measure.Document {
	out := *d
	out.Host.Fingerprint = ""
	out.Host.Kernel = kernelNumber(d.Host.Kernel)
	if d.Settings != nil {
		s := *d.Settings
		s.Queues = slices.Clone(s.Queues)
		for i := range s.Queues {
			s.Queues[i].Device = fmt.Sprintf("%s%d", s.Queues[i].Kind, i)
		}
		if s.CacheAware != nil && d.Host.Kernel != "" {
			kernel := *s.CacheAware
			kernel.From = strings.ReplaceAll(kernel.From, d.Host.Kernel, out.Host.Kernel)
			s.CacheAware = &kernel
		}
		out.Settings = &s
	}
	if d.Run != nil {
		r := *d.Run
		r.Notes = slices.Clone(r.Notes)
		for i, n := range r.Notes {
			r.Notes[i] = ownFile.ReplaceAllStringFunc(n, func(file string) string {
				for _, of := range []string{"/dev/", "/proc/", "/sys/"} {
					if strings.HasPrefix(file, of) {
						return file
					}
				}
				return "(a file)"
			})
		}
		out.Run = &r
	}
	return &out
}
