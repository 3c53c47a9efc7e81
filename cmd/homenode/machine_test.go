package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/homenode/homenode/host/process"
)

// writeMachine makes a small machine below dir: one node with the CPUs that tests may
// run on, as `homenode run` and probe really run there, a large service, a small one and a kernel thread.
func writeMachine(dir string) error {
	cpus, err := process.AffinityOf(0)
	if err != nil {
		return err
	}
	const node, cgroup = "sys/devices/system/node/", "sys/fs/cgroup/"
	files := map[string]string{
		"sys/devices/system/cpu/online":   cpus.String(),
		"sys/devices/system/cpu/possible": cpus.String(),
		"sys/devices/system/cpu/present":  cpus.String(),
		node + "online":                   "0",
		node + "node0/cpulist":            cpus.String(),
		node + "node0/distance":           "10",
		node + "node0/meminfo":            "Node 0 MemTotal: 16777216 kB\nNode 0 MemFree: 12582912 kB",
		"proc/meminfo":                    "MemTotal: 16777216 kB\nMemFree: 12582912 kB\nMemAvailable: 12582912 kB",
		"proc/loadavg":                    "0.10 0.10 0.10 1/100 901",
		"proc/uptime":                     "1000.00 1.00",
		"proc/stat":                       "cpu  100 0 100 1000 0 0 0 0 0 0\nbtime 1700000000",
		"proc/cmdline":                    "quiet",
		"proc/cpuinfo":                    "processor\t: 0\nvendor_id\t: None\nmodel name\t: Made up",
		"proc/self/mountinfo":             "22 1 0:20 / /proc rw - proc proc rw\n31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
		"proc/self/status":                "Name:\thomenode\nCpus_allowed_list:\t" + cpus.String() + "\nMems_allowed_list:\t0",
		cgroup + "cgroup.controllers":     "cpuset cpu io memory pids",
	}
	for _, cpu := range cpus.Slice() {
		topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		files[topology+"thread_siblings_list"], files[topology+"core_cpus_list"] = fmt.Sprint(cpu), fmt.Sprint(cpu)
		files[topology+"physical_package_id"] = "0"
	}
	for path, pids := range map[string]string{"": "2", "init.scope/": "1", "system.slice/": "", "system.slice/db.service/": "900", "system.slice/cron.service/": "901", "user.slice/": ""} {
		group := cgroup + path
		files[group+"cgroup.procs"] = pids
		files[group+"cpu.stat"] = "usage_usec 1000\nuser_usec 500\nsystem_usec 500"
		memory := 256 << 20
		if pids == "901" {
			memory = 4 << 20
		}
		files[group+"memory.numa_stat"] = fmt.Sprintf("anon N0=%d\nfile N0=0\nfile_mapped N0=0\nshmem N0=0", memory)
		files[group+"cpuset.cpus.effective"], files[group+"cpuset.mems.effective"] = cpus.String(), "0"
	}
	process := func(pid, parent int, comm, group string, flags, pages int) {
		proc := fmt.Sprintf("proc/%d/", pid)
		stat := fmt.Sprintf("%d (%s) S %d 1 1 0 -1 %d 0 0 0 0 1 1 0 0 20 0 1 0 %d 1000 %d 1 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0", pid, comm, parent, flags, pid, pages)
		status := fmt.Sprintf("Name:\t%s\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t%s\nMems_allowed_list:\t0", comm, cpus)
		for _, at := range []string{proc, fmt.Sprintf("%stask/%d/", proc, pid)} {
			files[at+"stat"], files[at+"status"] = stat, status
		}
		files[proc+"comm"], files[proc+"cmdline"] = comm, comm
		files[proc+"cgroup"] = "0::" + group
		files[proc+"numa_maps"] = fmt.Sprintf("7f0000000000 default anon=%d dirty=%d N0=%d kernelpagesize_kB=4", pages, pages, pages)
	}
	const kernelThread = 0x00200000 // PF_KTHREAD
	process(1, 0, "systemd", "/init.scope", 0, 1<<10)
	process(2, 0, "kthreadd", "/", kernelThread, 0)
	process(900, 1, "db", "/system.slice/db.service", 0, 64<<10)
	process(901, 1, "cron", "/system.slice/cron.service", 0, 1<<10)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, systemState), 0o755), os.Chmod(filepath.Join(dir, systemState), 0o700)); err != nil {
		return err
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if text != "" {
			text = strings.TrimRight(text, "\n") + "\n"
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
