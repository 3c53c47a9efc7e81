package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	switchback "github.com/homenode/homenode/ui/trial"
	"github.com/homenode/homenode/ui/view"
)

// Exit statuses; scripts rely on them.
const (
	exitNo        = 1 // the answer is no; of probe, doctor and host report: something is off or worse
	exitUsage     = 2 // bad usage or bad input
	exitForbidden = 3 // not permitted or not possible here
	// Of run, as env(1) and nice(1) have them.
	exitNotRun   = 126 // the command was found and cannot be run
	exitNotFound = 127
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
	// Journal reports whether a state folder ("" is the one of the configuration) holds a journal that may be read: nil,
	// or an error that wraps fs.ErrNotExist or fs.ErrPermission, or one for the user. It
	// creates nothing.
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
	// restricted them to, before all else is put back; nil does nothing.
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

	ctx context.Context // of Main; nil in tests of a part
}

// Reading ends this process when ctx does, until done is called. It is for the time in which
// a command does no more than read what a person named: a pipe, or a terminal, may have
// nothing to say for ever.
func Reading(ctx context.Context, stderr io.Writer) (done func() bool) {
	return context.AfterFunc(ctx, func() {
		fmt.Fprintln(stderr, "homenode: interrupted")
		os.Exit(exitForbidden)
	})
}

func (e *Env) reading() (done func() bool) {
	if e.ctx == nil {
		return func() bool { return true }
	}
	return Reading(e.ctx, e.Stderr)
}

func (e *Env) program() string { return words.Printable(cmp.Or(e.Program, "homenode")) }

// exitError carries an exit status along with what to print.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is bad usage or bad input: status 2.
func usageErrorf(format string, a ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, a...)}
}

// forbiddenErrorf is something not permitted or not possible here: status 3.
func forbiddenErrorf(format string, a ...any) error {
	return &exitError{exitForbidden, fmt.Errorf(format, a...)}
}

// Usage marks an error as bad usage or bad input.
func Usage(err error) error { return &exitError{exitUsage, err} }

// Forbidden marks an error as not permitted or not possible here.
func Forbidden(err error) error { return &exitError{exitForbidden, err} }

// errNo makes the exit status 1 and prints nothing more.
var errNo = &exitError{exitNo, errors.New("")}

// Main runs one command line and returns the exit status.
func Main(ctx context.Context, e *Env, args []string) int {
	out, errs := view.NewOutput(e.Stdout, e.Getenv), view.NewOutput(e.Stderr, e.Getenv)
	defer errs.Close()
	own := *e
	own.Stdout, own.Stderr, own.ctx = out, errs, ctx
	name := "homenode"
	if called := filepath.Base(e.Program); slices.Contains(programs, called) {
		name, args = called, append([]string{called}, args...)
	}
	root := rootCommand(&own, args...)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if exit := (*exitError)(nil); err != nil && !errors.As(err, &exit) {
		if words, ok := badUsage(ran, err.Error()); ok {
			err = misused(ran, words)
		}
	}
	out.Close()
	if failed := out.Err(); failed != nil && (err == nil || errors.Is(err, errNo) || errors.Is(err, failed)) {
		err = forbiddenErrorf("write standard output: %w", failed)
	}
	if err == nil {
		return 0
	}
	code, text := status(err)
	if text != "" {
		fmt.Fprintf(errs, "%s: %s\n", name, words.Printable(oneLine(text)))
	}
	return code
}

// paint is that of standard output.
func (e *Env) paint() view.Paint { return view.PaintOf(e.Stdout, e.Getenv) }

// text is what write writes, as standard output would have it on a screen as wide as p.
func (e *Env) text(p view.Paint, write func(io.Writer, view.Paint)) string {
	var b strings.Builder
	out := view.NewOutput(&b, e.Getenv).Within(p.Width)
	write(out, p)
	out.Close()
	return b.String()
}

// status maps an error to its exit status and the line to print.
func status(err error) (int, string) {
	var exit *exitError
	var refused *api.Error
	switch {
	case errors.As(err, &exit) && exit.code >= exitNotRun:
		return exit.code, err.Error()
	case errors.Is(err, fs.ErrPermission): // also of a file that the user named
		return exitForbidden, err.Error()
	case errors.As(err, &exit):
		return exit.code, err.Error()
	case errors.As(err, &refused):
		switch refused.Code {
		case api.BadRequest:
			return exitUsage, err.Error()
		case api.NotFound, api.NoRoom:
			return exitNo, err.Error()
		}
		return exitForbidden, err.Error()
	}
	return exitForbidden, err.Error()
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// rootCommand is the command tree. Of args that start a command it has that one alone: a
// command starts in milliseconds, and all the others would be most of them.
func rootCommand(e *Env, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "homenode",
		Short: "Give every workload a home: the NUMA nodes that hold both its CPUs and its memory",
		Long: `Homenode gives every virtual machine, container and process on this server a
home: the NUMA node, or the few near nodes, that hold both its CPUs and its
memory. It changes nothing until you start it in enforce mode (daemon --mode
enforce), gives a reason for every action, and can undo everything.

Exit status of every command: 0 done, 1 the answer is no, 2 bad input, 3 not
permitted or not possible here. On a terminal a table leaves out columns that
do not fit, and names them; in a pipe it has all columns.`,
		Example: `  homenode status
  homenode doctor
  homenode run --cpus 4 --memory 8GiB -- redis-server`,
		Version:       e.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return noEmptyFlag(c) },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetHelpCommand(helpCommand())
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetIn(e.Stdin)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		words, _ := badUsage(c, err.Error())
		if !c.HasParent() && len(args) > 0 && args[0] != "" && args[0][0] != '-' { // the command is wrong before its flags are
			words = fmt.Sprintf("unknown command %q%s", args[0], meant(c, args[0]))
		}
		return misused(c, words)
	})
	if len(args) > 0 && slices.Contains(programs, args[0]) {
		root.AddCommand(programCommand(e, args[0]))
		setHelp(e, root)
		finish(root)
		return root
	}
	if len(args) > 0 && args[0] == "run" {
		root.AddCommand(runCommand(e))
		setHelp(e, root)
		finish(root)
		return root
	}
	root.AddCommand(
		daemonCommand(e), statusCommand(e), topCommand(e), statCommand(e), explainCommand(e), historyCommand(e), reportCommand(e), fleetCommand(e),
		undoCommand(e), resumeCommand(e), runCommand(e), moveCommand(e), metricsCommand(e), versionCommand(e), configCommand(e),
		topologyCommand(e), gatherCommand(e), planCommand(e), probeCommand(e), doctorCommand(e), simCommand(e), demoCommand(e), replayCommand(e), vmCommand(e), hostCommand(e), openstackCommand(e), shareCommand(e), trialCommand(e),
	)
	for _, name := range programs {
		root.AddCommand(programCommand(e, name))
	}
	root.InitDefaultHelpCmd()
	root.SetOut(view.Raw(e.Stdout)) // kept by the commands for scripts, which are not text for a terminal
	root.InitDefaultCompletionCmd()
	root.SetOut(e.Stdout)
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		describeCompletion(completion)
	}
	setHelp(e, root)
	finish(root)
	complete(e, root)
	return root
}

// describeCompletion says in words of this system what the library's command does.
func describeCompletion(c *cobra.Command) {
	c.Short = "Write the completion script for a shell"
	c.Long = "Write the script with which a shell completes homenode's commands, options and\ntheir values. In bash it needs the package bash-completion."
	c.Example = "  source <(homenode completion bash)"
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return misused(c, fmt.Sprintf("no shell %q", args[0]))
		}
		return nil
	}
	c.RunE = sayWhat
	for _, shell := range c.Commands() {
		name := shell.Name()
		into := map[string]string{"bash": "/usr/share/bash-completion/completions/homenode", "zsh": "/usr/share/zsh/site-functions/_homenode",
			"fish": "/usr/share/fish/vendor_completions.d/homenode.fish"}[name]
		shell.Short = "Write the script for " + name
		shell.Long = ""
		shell.Example = "  homenode completion " + name
		if into != "" {
			shell.Example += " > " + into
		}
	}
}

// misused is the error of a command line that a command does not take.
func misused(c *cobra.Command, why string) error {
	if strings.HasSuffix(why, "?") {
		return usageErrorf("%s See `%s --help`", why, c.CommandPath())
	}
	return usageErrorf("%s; see `%s --help`", why, c.CommandPath())
}

// sayWhat is the answer of a group of commands that is called without one of them.
func sayWhat(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return misused(c, "say what: "+anyOf(names))
}

// anyOf is "a, b or c".
func anyOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// noEmptyFlag refuses a flag that is given with nothing: in a script that is a variable that
// is not set.
func noEmptyFlag(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if v := f.Value.String(); err == nil && slices.Contains([]string{"", "[]", `[""]`}, v) {
			err = misused(c, "--"+f.Name+" is empty")
		}
	})
	return err
}

// checkSocket refuses a path that no socket can have.
func checkSocket(path string) error {
	if most := 107; len(path) > most { // sun_path of unix(7), with its NUL
		return usageErrorf("--socket: a path of %d bytes; the kernel takes %d at most", len(path), most)
	}
	return nil
}

// versionAnswer is the version of this program.
type versionAnswer struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // release such as 1.2.3, or the commit where it is none
}

func versionCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  homenode version",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(e.Stdout, versionAnswer{"homenode-version/1", e.Version})
			}
			_, err := fmt.Fprintln(e.Stdout, e.Version)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-version/1)")
	return c
}

// connect returns the running daemon or, when none runs, the local answer: unless it is the daemon of
// a socket that the user names, and no folder to read instead.
func connect(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	client, err := dial(c, e)
	if err == nil {
		return client, client.Close, nil
	}
	if !errors.Is(err, api.ErrNoDaemon) || c.Flags().Changed("socket") && journalDir(c) == "" {
		return nil, nil, err
	}
	return e.Local(c.Context(), journalDir(c))
}

// journalDir is the folder that --state-dir names; "" leaves it to the configuration.
func journalDir(c *cobra.Command) string {
	if f := c.Flags().Lookup("state-dir"); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

// dial returns the running daemon, if it is one to be trusted.
func dial(c *cobra.Command, e *Env) (*api.Client, error) {
	socket := e.DefaultSocket
	if f := c.Flags().Lookup("socket"); f != nil {
		socket = f.Value.String()
	}
	if err := checkSocket(socket); err != nil {
		return nil, err
	}
	client, err := api.Dial(socket)
	if err == nil {
		client.Waiting = func() func() { return waiting(e, "waiting for the daemon to answer") }
		// A folder for all, such as /tmp, may hold a socket of anybody; one that the
		// user names is the user's choice.
		if by, me := client.Owner(), os.Geteuid(); by != 0 && by != me && !c.Flags().Changed("socket") {
			client.Close()
			return nil, forbiddenErrorf("socket %s belongs to user %d, who is neither root nor you; name it with --socket if you trust it", socket, by)
		}
	}
	return client, err
}

// connectJournal is connect for who asks about the journal itself: without a
// daemon it must be there, if the user named its folder, and may be read.
func connectJournal(c *cobra.Command, e *Env) (api.Backend, func() error, error) {
	b, done, err := connect(c, e)
	if _, asked := b.(*api.Client); err != nil || asked {
		return b, done, err
	}
	state, told := c.Flags().Lookup("state-dir"), (*exitError)(nil)
	switch err := e.Journal(journalDir(c)); {
	case errors.As(err, &told):
		done()
		return nil, nil, err
	case errors.Is(err, fs.ErrPermission):
		done()
		return nil, nil, forbiddenErrorf("journal in %s: %w", state.Value, fs.ErrPermission)
	case errors.Is(err, fs.ErrNotExist) && state.Changed:
		done()
		return nil, nil, &exitError{exitNo, fmt.Errorf("no journal in %s", state.Value)}
	}
	return b, done, nil
}

// waiting says what a command waits for, if it does for longer than a moment; what it
// returns ends that.
func waiting(e *Env, what string) (done func()) {
	var mu sync.Mutex
	after := e.After
	if after == nil {
		after = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	}
	stop := after(moment, func() {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(e.Stderr, "homenode: %s\n", what)
	})
	return func() {
		stop()
		mu.Lock() // until a note that is being written is whole
		defer mu.Unlock()
	}
}

// moment is how long nobody wonders why nothing happens.
const moment = time.Second

// printJSON writes one indented JSON document. What a terminal would take for a command
// is escaped as JSON does; that is the same document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(view.JSON(view.Raw(w)))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
