package hostprep

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// Capture takes from a live root what Read reads and neither topology.Capture nor
// doctor.Capture takes. Interrupts and processes are left out: their names could be
// given by people.
func Capture(fsys fs.FS) []topology.Leaf {
	var out []topology.Leaf
	take := func(name string) {
		if t, ok := text(fsys, name); ok {
			out = append(out, topology.Leaf{Name: name, Data: []byte(t + "\n")})
		}
	}
	for _, name := range []string{
		Workqueue, Writeback, DefaultIRQ, KSM, "sys/kernel/mm/ksm/merge_across_nodes", "proc/sys/vm/swappiness",
		"proc/sys/vm/overcommit_memory",
		"sys/module/intel_idle/parameters/max_cstate", "sys/module/kvm_intel/parameters/nested",
		"sys/module/kvm_amd/parameters/nested",
		"sys/fs/cgroup/cgroup.controllers", "sys/fs/cgroup/cpuset.cpus.effective",
	} {
		take(name)
	}
	for _, unit := range HostSlices {
		dir := "sys/fs/cgroup" + CgroupOf(unit) + "/"
		if _, err := fs.Stat(fsys, dir+"cgroup.procs"); err == nil {
			out = append(out, topology.Leaf{Name: dir + "cgroup.procs"}) // that it is there, not who is in it
			take(dir + "cpuset.cpus")
			take(dir + "cpuset.cpus.effective")
		}
	}
	entries, _ := fs.ReadDir(fsys, "sys/devices/system/cpu")
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "cpu"); ok {
			if _, err := strconv.Atoi(number); err == nil {
				take("sys/devices/system/cpu/" + e.Name() + "/cpufreq/scaling_governor")
				take("sys/devices/system/cpu/" + e.Name() + "/cpufreq/scaling_driver")
			}
		}
	}
	return out
}
