package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	switchback "github.com/homenode/homenode/ui/trial"
	"github.com/homenode/homenode/ui/view"
)

// Env is all that a command may touch. cmd/homenode fills it with the real
// thing, tests with fakes.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Root           fs.FS  // the file system of this machine
	Version        string // what `homenode version` prints
	Program        string // how this program was called; "" is homenode

	// DefaultSocket and DefaultState are where the daemon of this user listens
	// and keeps its state.
	DefaultSocket, DefaultState string

	// After calls do when so much time has passed, unless stop comes first; nil is time.AfterFunc.
	After func(d time.Duration, do func()) (stop func() bool)

	// Daemon runs the daemon until ctx ends.
	Daemon func(ctx context.Context, o DaemonOptions) error
	// Local answers without a daemon: it looks at the machine once, or opens the
	// state folder of a daemon that is not running; "" is the one of the configuration.
	Local func(ctx context.Context, stateDir string) (api.Backend, func() error, error)
	// Journal reports whether a state folder ("" is the one of the configuration) holds a journal that may be read:
	// nil, or an error that wraps fs.ErrNotExist or fs.ErrPermission, or one for the user. It creates nothing.
	Journal func(stateDir string) error
	// Exec puts this process where s says and replaces it by the command; it
	// returns only on error.
	Exec func(s Start, path string, argv []string) error
	// Batch puts this process into a cgroup that runs when nothing else wants the CPU, before
	// Exec; the error, a sentence, says why it could not. nil does nothing.
	Batch func(ctx context.Context, s Start, argv []string) error
	// TryNice is nil where this process may have a nice value; it changes nothing. nil does not ask.
	TryNice func(nice int) error
	// ScopeHere is nil where systemd can make a scope, else why it cannot; nil does not ask.
	ScopeHere func() error
	// Where is what this process may have and what it has.
	Where func() (Whereabouts, error)
	// Key waits so long for a key at the terminal; nil where standard input or output is none. Open runs
	// another command of this program there until it or ctx ends.
	Key  func(ctx context.Context, wait time.Duration) (key byte, pressed bool)
	Open func(ctx context.Context, args ...string) error
	// Probe measures the machine that h describes and keeps results in a state folder.
	Probe func(h *topology.Host, stateDir string) Prober
	// Keep writes down where a daemon has placed what is about to start, for when that daemon
	// is gone; nil does not. LockRuns comes before it, and keeps others from looking at what
	// is written down until unlock is called.
	Keep     func(want api.Want, home api.Home) error
	LockRuns func(alone bool) (unlock func(), err error)
	// UndoRuns gives living commands of `homenode run` back the CPUs that they had before:
	// those that no daemon has in its ledger or, without one, all. nil does nothing.
	UndoRuns func(ctx context.Context, which api.Which, daemon bool) (api.UndoResult, error)
	// UndoScopes takes from scopes of systemd what living commands of `homenode run --scope`
	// restricted them to, before all else is restored; nil does nothing.
	UndoScopes func(ctx context.Context, which api.Which) (api.UndoResult, error)
	// Self is this process; `homenode run` keeps its identity over exec.
	Self func() (workload.Process, error)
	// ByHand does what taskset(1) and the like do by one system call.
	ByHand ByHand
	// Cycles opens counters of what CPUs do, for the host or for some cgroups; nil where there are none.
	Cycles func(cgroups []string) (switchback.CycleCounter, error)
	// Memory reads what numastat(8) tells.
	Memory MemoryFigures
	// Sim runs a simulation, Demo the daemon on a simulated host.
	Sim  Simulate
	Demo Demo
	// Libvirt reaches guests.
	Libvirt Libvirt
	// Host prepares this machine for guests.
	Host HostPreparer
	// Policy is that of this host's configuration file, for h, which is this machine.
	Policy func(h *topology.Host) (plan.Policy, error)
	// Config reads and checks a configuration file with its drop-ins; "" is that of this host.
	Config func(file string) (Configuration, error)
	// Rule is the first rule of this host's configuration file that fits one of some names; nil for none.
	Rule func(names ...string) (*workload.Rule, error)
	// Flight opens what the flight recorder wrote: a file or a folder; "" is that of
	// this user's daemon.
	Flight func(path string) (Flight, error)
	// Records opens what the flight recorder wrote since a time into a state folder; "" is
	// the one of the configuration.
	Records func(stateDir string, since time.Time) (Records, error)

	// Remote runs a command on another machine, and has what it printed, also with an error.
	Remote func(ctx context.Context, r Remote) ([]byte, error)
	// HostFiles is where the hosts of a fleet are read from when none are named.
	HostFiles []string

	Ctx context.Context // of Main; nil in tests of a part
}

// Reading ends this process when ctx does, until done is called. It is for the time in which
// a command does no more than read what a person named: a pipe, or a terminal, may have
// nothing to say for ever.
func Reading(ctx context.Context, stderr io.Writer) (done func() bool) {
	return context.AfterFunc(ctx, func() {
		fmt.Fprintln(stderr, "homenode: interrupted")
		os.Exit(ExitForbidden)
	})
}

func (e *Env) Reading() (done func() bool) {
	if e.Ctx == nil {
		return func() bool { return true }
	}
	return Reading(e.Ctx, e.Stderr)
}

func (e *Env) Called() string { return words.Printable(cmp.Or(e.Program, "homenode")) }

// Paint is that of standard output.
func (e *Env) Paint() view.Paint { return view.PaintOf(e.Stdout, e.Getenv) }

// Text is what write writes, as standard output would have it on a screen as wide as p.
func (e *Env) Text(p view.Paint, write func(io.Writer, view.Paint)) string {
	var b strings.Builder
	out := view.NewOutput(&b, e.Getenv).Within(p.Width)
	write(out, p)
	out.Close()
	return b.String()
}
