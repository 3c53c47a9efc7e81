// Homenode gives every workload on a Linux server a home: the NUMA nodes that
// hold both its CPUs and its memory. This file only wires the parts together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/homenode/homenode"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/scope"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/tree"
)

// version is set by the Makefile.
var version string

// What `go build` makes by itself is a development build.
func init() {
	if version == "" {
		version = homenode.Version() + "+dev"
	}
}

// leastFiles is how many open files any command needs; with fewer the Go runtime ends in a
// trace of its own.
const leastFiles = 16

// isDaemon reports whether a command line starts a daemon.
func isDaemon(args []string) bool { return len(args) > 0 && args[0] == "daemon" }

func main() {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < leastFiles {
		fmt.Fprintf(os.Stderr, "homenode: only %d files may be open here (ulimit -n); %d are needed\n", files.Cur,
			leastFiles)
		os.Exit(3)
	}
	if ran, code := guardian(os.Args[1:]); ran {
		os.Exit(code)
	}
	ends := ending
	// A hangup reloads a daemon (reload.go) and ends other commands, unless nohup has it ignored.
	if !isDaemon(os.Args[1:]) && !signal.Ignored(syscall.SIGHUP) {
		ends = append(slices.Clip(ends), syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	e := environment()
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		e.Key, e.Open = waitKey, openHere
	}
	code := tree.Main(ctx, e, os.Args[1:])
	stop()
	os.Exit(code)
}

// environment is the real thing behind every command.
func environment() *cli.Env {
	return &cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Root: files.Root(machine), Version: version, Program: os.Args[0],
		DefaultSocket: defaultSocket(), DefaultState: defaultState(),
		Daemon: runDaemon, Local: local, Journal: journal, Exec: execAt, Batch: enterBatch, TryNice: process.TryNice,
		Self: self, Keep: keep, LockRuns: func(alone bool) (func(), error) { return ownRuns().Lock(alone) },
		UndoRuns: undoRuns, UndoScopes: undoScopes, ScopeHere: func() error { return scope.Here("") }, Where: whereNow,
		Memory: memoryFigures{}, Sim: simulate, Demo: demo, Probe: proberFor,
		Libvirt: guests{}, Host: hostPreparer{}, Policy: policy, Rule: ruleOf, Flight: openFlight, Records: openRecords,
		Remote: remote, HostFiles: hostFiles(), Config: configuration, ByHand: byHand{}, Cycles: countCycles,
	}
}

// simulate is `homenode sim`. It makes much garbage and keeps little: with a heap of
// some megabytes the collector runs without a pause at Go's default of 100, and
// takes a third of the time.
func simulate(ctx context.Context, o sim.Options) (*sim.Result, error) {
	debug.SetGCPercent(800)
	return sim.Run(ctx, o)
}
