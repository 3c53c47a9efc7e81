package process

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// Pressure says when page moves rest because memory is short: moving needs free
// pages on the target and has the kernel reclaim, which those who wait for memory
// already feel. It reads PSI (Documentation/accounting/psi.rst): the share of the
// last ten seconds in which some task waited for memory. Where the kernel has no
// PSI it never says so. Important work that moves up from slower memory relieves the pressure that batch work causes:
// it rests for the machine only while its target is short of free pages.
type Pressure struct {
	Root fs.FS // the machine's file tree; nil is "/"
	// Host and Workload are percent of time, of all tasks and of the workload's cgroup,
	// from which a move rests; 0 never. It goes on below half of that, so that it does
	// not go on and off.
	Host     float64
	Workload float64
}

// Pause is for MoverOptions.
func (p *Pressure) Pause(step plan.Step, paused bool) (why string, pause bool) {
	high := func(name string, limit float64) (float64, bool) {
		if limit <= 0 {
			return 0, false
		}
		if paused {
			limit /= 2
		}
		some, ok := p.some(name)
		return some, ok && some >= limit
	}
	if some, is := high("proc/pressure/memory", p.Host); is && !(step.Up && p.room(step.To)) {
		return fmt.Sprintf("tasks of this machine wait for memory %.0f %% of the time; it goes on below %.3g %%", some,
			p.Host/2), true
	}
	if step.Target.Cgroup == "" || step.Target.Cgroup == "/" {
		return "", false
	}
	// as systemd mounts it; the second in hybrid mode
	for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
		name := mount + "/" + strings.Trim(step.Target.Cgroup, "/") + "/memory.pressure"
		if some, is := high(name, p.Workload); is {
			return fmt.Sprintf("%s waits for memory %.0f %% of the time; it goes on below %.3g %%", step.Target.Cgroup,
				some, p.Workload/2), true
		}
	}
	return "", false
}

// freeShare of a node's memory is free where there is room: the kernel begins to reclaim at some thousandths.
const freeShare = 128

// room reports whether each of some nodes has free pages.
func (p *Pressure) room(nodes string) bool {
	all, err := topology.ParseNodeSet(nodes)
	if err != nil {
		return false
	}
	for n := range all.All() {
		total, free, err := topology.ReadNodeMemory(p.root(), n)
		if err != nil || total <= 0 || free < total/freeShare {
			return false
		}
	}
	return true
}

func (p *Pressure) root() fs.FS {
	if p.Root == nil {
		return os.DirFS("/")
	}
	return p.Root
}

// some reads avg10 of the line "some avg10=1.23 avg60=… avg300=… total=…".
func (p *Pressure) some(name string) (percent float64, ok bool) {
	text, err := fs.ReadFile(p.root(), name)
	if err != nil {
		return 0, false
	}
	percent, _, ok = procfs.Pressure(text)
	return percent, ok
}
