package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/host/cgroup"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/host/process"
)

// frozenNotes is where homenode notes which cgroups it has frozen at this moment.
func frozenNotes() string { return filepath.Join(machine, "run/homenode/frozen") }

func cgroupMount() string { return filepath.Join(machine, "sys/fs/cgroup") }

// cgroupDriver is the driver of cgroups, after it has thawed what a homenode that was killed
// left frozen.
func cgroupDriver(mover *process.Mover) *cgroup.Driver {
	o := cgroup.Options{Mount: cgroupMount(), Root: os.DirFS(machine), Mover: mover, Answers: mover.Answers}
	if os.Geteuid() == 0 {
		o.Run, o.Guardian = frozenNotes(), cgroup.Guard(cgroupMount())
	}
	d := cgroup.New(o)
	if err := d.Thaw(); err != nil {
		fmt.Fprintf(os.Stderr, "homenode: a cgroup that homenode had frozen is not thawed: %v\n", err)
	}
	return d
}

// freeNodes gives a scope, which a process runs in, all memory nodes before systemd does: systemd, as PID 1,
// would write them while the processes run. What it writes then changes nothing in effect.
func freeNodes(ctx context.Context, unit string, pid int) error {
	cgroup := observe.LineageOf(files.Root(machine), pid).Cgroup
	// what an ordinary user's own manager writes concerns homenode as little as what that user does
	if os.Geteuid() != 0 || cgroup == "" || cgroup == "/" {
		return nil
	}
	at := scopeOf(cgroup, unit)
	if at == "" {
		return fmt.Errorf("scope %s: its memory nodes are not changed: process %d has left it for %s; end what still "+
			"runs in the scope", unit, pid, cgroup)
	}
	d := cgroupDriver(process.NewMover(process.MoverOptions{Root: os.DirFS(machine)}))
	return d.Restore(ctx, []plan.Entry{{Kind: plan.CgroupMems, Path: at}})[0]
}

// scopeOf returns the cgroup of a scope, of the cgroup of a process in it; "" where that is in no such scope.
func scopeOf(cgroup, unit string) string {
	i := strings.Index(cgroup+"/", "/"+unit+"/")
	if i < 0 {
		return ""
	}
	return cgroup[:i+1+len(unit)]
}

// guardian runs in place of a command when this is homenode's own process that thaws cgroups.
func guardian(args []string) (ran bool, code int) {
	if len(args) == 0 || args[0] != cgroup.ThawCommand {
		return false, 0
	}
	if err := cgroup.Guardian(cgroupMount(), frozenNotes(), args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "homenode: %v\n", err)
		return true, 1
	}
	return true, 0
}
