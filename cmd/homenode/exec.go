package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scope"
	"github.com/homenode/homenode/ui/cli"
)

// atHome is the policies of a home that homenode has chosen. Of others the policy is left as it is.
var atHome = map[cli.Memory]process.MemPolicy{
	cli.MemoryHome: process.MemPreferred, cli.MemoryByThread: process.MemByThread, cli.MemoryHomeBound: process.MemBind,
}

// told is the policies that a person names.
var told = map[cli.Memory]process.MemPolicy{
	cli.MemoryBind: process.MemBind, cli.MemoryPreferred: process.MemPreferredOne, cli.MemoryMany: process.MemPreferred,
	cli.MemoryInterleave: process.MemInterleave, cli.MemoryWeighted: process.MemWeightedInterleave,
	cli.MemoryLocal: process.MemLocal,
}

// execAt confines the calling thread and becomes the command: affinity, memory policy and
// nice value are the thread's (sched(7), set_mempolicy(2)), and execve keeps those of the
// thread that calls it.
func execAt(s cli.Start, path string, argv []string) error {
	runtime.LockOSThread()
	if s.Scope { // first: who enters a cgroup gets its CPUs
		o := scope.Options{Unit: s.Unit, Description: strings.Join(argv, " "), CPUs: s.CPUs}
		if s.Memory == cli.MemoryHomeBound || s.Memory == cli.MemoryBind {
			o.Mems = s.Nodes
		}
		if err := keepScope(runs.Scope{Unit: scope.Name(o.Unit), CPUs: o.CPUs, Mems: o.Mems}); err != nil {
			return cli.Forbidden(fmt.Errorf("--scope: undo could not restore what it sets: %w", err))
		}
		if _, err := scope.Enter(context.Background(), o); err != nil {
			return cli.Forbidden(err)
		}
	}
	if err := confine(s); err != nil {
		return cli.Forbidden(err)
	}
	return syscall.Exec(path, argv, os.Environ())
}

func confine(s cli.Start) error {
	if s.Nice != nil {
		if err := process.SetNice(*s.Nice); err != nil {
			return err
		}
	}
	if err := process.ConfineSelf(s.CPUs, s.Nodes, atHome[s.Memory]); err != nil {
		return fmt.Errorf("confine to CPUs %s, node %s: %w", s.CPUs, s.Nodes, err)
	}
	if policy, ok := told[s.Memory]; ok {
		return process.SetPolicyAsTold(policy, s.Nodes, s.Balancing)
	}
	return nil
}

// whereNow is what this process may have and what it has.
func whereNow() (w cli.Whereabouts, err error) {
	if w.CPUs, err = process.CPUsAllowed(); err != nil {
		return w, err
	}
	if w.Now, err = process.AffinityOf(0); err != nil {
		return w, err
	}
	if w.Policy, w.OfNodes, err = process.PolicySelf(); err != nil {
		w.Policy, w.OfNodes = "default", topology.NodeSet{} // a kernel without any other
	}
	// The system call answers 20 less the nice value (getpriority(2), C library/kernel differences).
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		w.Nice = 20 - n
	}
	return w, nil
}

// self is this process by PID and start time.
func self() (workload.Process, error) {
	return process.Identify(os.Getpid())
}
