package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/ui/cli"
)

// execAt confines the calling thread and becomes the command: affinity and
// memory policy are the thread's (sched(7), set_mempolicy(2)), and execve keeps
// those of the thread that calls it.
func execAt(home api.Home, path string, argv []string) error {
	runtime.LockOSThread()
	policy := process.MemPreferred
	if home.Bound {
		policy = process.MemBind
	}
	if err := process.ConfineSelf(home.CPUs, home.Nodes, policy); err != nil {
		return cli.Forbidden(fmt.Errorf("confine to node %s: %w", home.Nodes, err))
	}
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return cli.Forbidden(fmt.Errorf("run %s: %w", path, err))
	}
	return nil
}

// self is this process by PID and start time.
func self() (workload.Process, error) {
	return process.Identify(os.Getpid())
}
