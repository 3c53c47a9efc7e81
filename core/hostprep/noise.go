package hostprep

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"github.com/homenode/homenode/core/topology"
)

// Noise is what may interrupt a CPU that should run one program alone, as far as the kernel lets it be moved.
type Noise struct {
	Unbound    topology.CPUSet `json:"unbound,omitzero"` // that unbound workqueues may use; empty where unknown
	Default    topology.CPUSet `json:"default,omitzero"` // of interrupts that are yet to come; empty where unknown
	Interrupts []Interrupt     `json:"interrupts,omitempty"`
	Latency    topology.CPUSet `json:"latency,omitzero"`    // whose idle states can be bounded by their exit latency
	Preference topology.CPUSet `json:"preference,omitzero"` // that have an energy preference
	Governor   topology.CPUSet `json:"governor,omitzero"`   // that have a governor and no energy preference
	Tickless   topology.CPUSet `json:"tickless,omitzero"`   // whose timer tick stops while they run one program
}

// ReadNoise takes it out of the tree of the machine or of a captured one.
func ReadNoise(fsys fs.FS, h *topology.Host) Noise {
	var n Noise
	if set := mask(fsys, WorkqueueRequested); set != nil {
		n.Unbound = *set
	} else if set := mask(fsys, Workqueue); set != nil {
		n.Unbound = *set
	}
	if set := mask(fsys, DefaultIRQ); set != nil {
		n.Default = *set
	}
	n.Tickless = tickless(fsys)
	var f Facts
	f.interrupts(fsys)
	n.Interrupts = f.Interrupts
	for cpu := range h.Online.All() {
		if exists(fsys, IdleLatency(cpu)) {
			n.Latency.Add(cpu)
		}
		switch {
		case exists(fsys, EnergyPreference(cpu)):
			n.Preference.Add(cpu)
		case exists(fsys, Governor(cpu)):
			n.Governor.Add(cpu)
		}
	}
	return n
}

// TicklessCPUs has the CPUs of nohz_full=, as a list. It is absent in a kernel without CONFIG_NO_HZ_FULL, and has
// "(null)" or nothing where the kernel was started without (print_cpus_nohz_full, drivers/base/cpu.c).
const TicklessCPUs = "sys/devices/system/cpu/nohz_full"

// tickless reads it.
func tickless(fsys fs.FS) topology.CPUSet {
	text, err := fs.ReadFile(fsys, TicklessCPUs)
	if err != nil {
		return topology.CPUSet{}
	}
	cpus, err := topology.ParseCPUSet(strings.TrimSpace(string(text)))
	if err != nil {
		return topology.CPUSet{}
	}
	return cpus
}

// exists reports whether there is a file. It is not read: for an energy preference the kernel asks the CPU itself, with
// an interrupt (intel_pstate_get_epp, drivers/cpufreq/intel_pstate.c).
func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// WorkqueueRequested is what was last written to Workqueue. The kernel takes the CPUs of isolated partitions off
// what Workqueue shows by itself (Linux 6.8, workqueue_unbound_exclude_cpumask in kernel/workqueue.c).
const WorkqueueRequested = "sys/devices/virtual/workqueue/cpumask_requested"

// IdleLatency is the longest time in µs that a CPU may take to leave an idle state: 0 for no bound
// (Documentation/ABI/testing/sysfs-devices-power). The kernel uses no deeper state.
func IdleLatency(cpu topology.CPUID) string {
	return fmt.Sprintf("sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu)
}

// EnergyPreference is what a CPU that chooses its own frequency prefers (Documentation/admin-guide/pm/intel_pstate.rst
// and amd-pstate.rst).
func EnergyPreference(cpu topology.CPUID) string {
	return fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/energy_performance_preference", cpu)
}

// Governor is what chooses the frequency of a CPU (Documentation/admin-guide/pm/cpufreq.rst).
func Governor(cpu topology.CPUID) string {
	return fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu)
}

// cpuFolder is that of one CPU.
const cpuFolder = `^sys/devices/system/cpu/cpu[0-9]{1,5}/`

var (
	latencyFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(cpuFolder + `power/pm_qos_resume_latency_us$`)
	})
	speedFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(cpuFolder + `cpufreq/(energy_performance_preference|scaling_governor)$`)
	})
)

// OfCPU reports whether a file is the setting of one CPU, a number (IdleLatency) or a word.
func OfCPU(path string) (number, word bool) {
	return latencyFile().MatchString(path), speedFile().MatchString(path)
}
