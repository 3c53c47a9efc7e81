package process

import (
	"os"
	"syscall"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// Identify is a running process by PID and start time.
func Identify(pid int) (workload.Process, error) {
	s, err := live.stat(pid)
	return s.Process, err
}

var live = proc{os.DirFS("/")}

// Live is the processes of this machine. It reads /proc/PID/stat and asks with kill(2) and
// sched_getaffinity(2): none of these takes the lock of an address space, so no process
// makes who asks wait.
type Live struct{}

// Ended is those that are no more: the PID is free, or another process has it.
func (Live) Ended(all []workload.Process) []workload.Process {
	var out []workload.Process
	for _, p := range all {
		if syscall.Kill(p.PID, 0) == syscall.ESRCH || isGone(live.check(p)) {
			out = append(out, p)
		}
	}
	return out
}

// Affinity is the CPUs that the main thread of a process may use; empty when it is not
// there any more.
func (Live) Affinity(p workload.Process) topology.CPUSet {
	cpus, err := AffinityOf(p.PID)
	if err != nil || live.check(p) != nil {
		return topology.CPUSet{}
	}
	return cpus
}

// Resident is the memory of a process, as /proc/PID/stat has it; 0 when it has ended.
func Resident(p workload.Process) topology.KiB {
	text, err := live.read(p.PID, "stat")
	if err != nil {
		return 0
	}
	s, err := procfs.ParseStat(text)
	if err != nil || s.Start != p.Start {
		return 0
	}
	return topology.KiB(s.RSS) * topology.KiB(os.Getpagesize()) / 1024
}
