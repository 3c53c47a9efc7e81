package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func runCommand(e *Env) *cobra.Command {
	var class, tier, memory string
	var dryRun, asJSON, quiet, orAnyway, showing, hardware bool
	var at where
	var near []string
	want := api.Want{}
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Start a command in a home: CPUs and memory of the same node",
		Long: `Finds the node, or the few near nodes, with room for the command, confines it to
their CPUs and memory, prints the place and the reason, and becomes the command.
A running daemon books the home. If no daemon runs, or it does not answer within
a second, or the user may not change it, this command scans the machine itself.
Needs no privilege.

--cpus-list, --cpunodebind or a memory policy name the place exactly, in the
syntax of numactl(8). Homenode then neither searches nor refuses for lack of
room, and informs the daemon. With --nodes, --cpus, --near or --class homenode
finds the CPUs, and the memory policy applies too. Lists are as in numactl:
0-3,8, all, +0-1 (the first two that are allowed), !2 (all allowed except 2).

--class batch uses a cgroup that runs only when nothing else wants the CPU: with
systemd a scope in homenode-batch.slice, which has CPUWeight=idle; otherwise, as
root, a cgroup below homenode-batch. If that is not permitted, the command starts
anyway and prints a warning; --strict makes it an error.

--scope uses a systemd scope with the CPUs of the home. It accounts the memory of
the command and its children, and ends with them.

Exit status: that of the command; 1 no home found, 2 bad usage, 3 not permitted
or not possible here, 126 the command cannot be run, 127 not found.`,
		Example: `  homenode run --cpus 2 --memory 100MiB -- sleep 1
  homenode run --dry-run --cpus 4 --memory 2GiB -- make
  homenode run --cpus-list 0-3 --membind 0 -- redis-server
  homenode run --interleave all -- postgres -D /srv/db
  homenode run --show`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case hardware:
				return hardwareNow(e, args)
			case showing:
				return show(c, e, args, asJSON)
			case len(args) == 0:
				return misused(c, "name the command to run")
			case asJSON && !dryRun:
				return usageErrorf("--json goes with --dry-run or --show")
			}
			if !c.Flags().Changed("class") && tier != "" {
				class = ""
			}
			wishes, err := parseNear(near)
			if err != nil {
				return err
			}
			for i := range wishes {
				want.Near = append(want.Near, wishes[i].String())
			}
			if err := fill(&want, class, tier, memory, args[0]); err != nil {
				return err
			}
			if want.Nodes, err = at.read(c, e); err != nil {
				return err
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return notRun(args[0], err)
			}
			if at.start.Scope && e.ScopeHere != nil { // before anything is booked or said
				if err := e.ScopeHere(); err != nil {
					return Forbidden(err)
				}
			}
			if at.start.Nice != nil && e.TryNice != nil {
				if err := e.TryNice(*at.start.Nice); err != nil {
					return Forbidden(err)
				}
			}
			if !dryRun {
				if want.Process, err = e.Self(); err != nil {
					return err
				}
			}
			home, err := at.home(c, e, &want)
			if n := missing(home); n != "" {
				return usageErrorf("--near %s: this host has no such device; `homenode topology` lists them", n)
			}
			line := ""
			switch {
			case err != nil && !orAnyway:
				if refused := (*api.Error)(nil); errors.As(err, &refused) && refused.Code == api.NoRoom {
					return fmt.Errorf("%w With --or-anyway it starts without a home.", err)
				}
				return err
			case err != nil:
				if code, why := status(err); code == exitUsage {
					return err
				} else {
					line = fmt.Sprintf("%s anywhere: %s", runsOr(dryRun), oneLine(why))
				}
			default:
				line = at.line(home, runsOr(dryRun))
			}
			if dryRun && asJSON {
				return printJSON(e.Stdout, dryStart{home, at.start.memoryLine()})
			}
			if dryRun {
				_, err = fmt.Fprintln(e.Stdout, line)
				return err
			}
			why := unkept(home)
			if why != "" && at.strict {
				return forbiddenErrorf("--strict: %s", why)
			}
			for _, line := range []string{line, why} {
				if line != "" && !quiet {
					fmt.Fprintln(e.Stderr, "homenode: "+words.Printable(line))
				}
			}
			if want.Class == workload.Batch && e.Batch != nil {
				switch err := e.Batch(contextOf(c), at.start, args); {
				case err == nil:
					at.start.Scope = false // it is in one
				case at.strict:
					return forbiddenErrorf("--strict: %w", err)
				case at.start.Scope:
					return Forbidden(err)
				case !quiet:
					fmt.Fprintln(e.Stderr, "homenode: "+words.Printable(oneLine(err.Error())))
				}
			}
			if contextOf(c).Err() != nil { // a signal that came meanwhile is not swallowed
				return forbiddenErrorf("interrupted")
			}
			return notRun(args[0], e.Exec(at.start, path, args))
		},
	}
	f := c.Flags()
	f.StringVar(&class, "class", string(workload.Shared), "dedicated, shared or batch")
	f.StringVar(&tier, "tier", "", "its `TIER`, which says who gives way on one CPU: online-strict, online, normal or batch, or 2 to -2 (default: by its class)")
	f.IntVar(&want.CPUs, "cpus", 1, "CPUs it wants to keep busy at once, at least 1")
	f.StringVar(&memory, "memory", "", "memory it will hold, such as 2GiB; empty when unknown")
	nearFlag(f, &near)
	f.StringVar(&want.Name, "name", "", "name in the status table (default: the command)")
	f.BoolVar(&at.strict, "strict", false, "fail rather than start unless a daemon has answered, it is written down, and batch work has its cgroup")
	f.BoolVar(&dryRun, "dry-run", false, "say where and why, and start nothing")
	f.BoolVar(&asJSON, "json", false, "with --dry-run or --show: print JSON (schemas homenode-home/3, homenode-show/1)")
	f.BoolVar(&quiet, "quiet", false, "print no line on standard error")
	f.BoolVar(&orAnyway, "or-anyway", false, "where there is no home, start without one")
	f.BoolVarP(&showing, "show", "s", false, "show the memory policy, CPUs and nodes that hold now, and start nothing")
	f.BoolVarP(&hardware, "hardware", "H", false, "show the nodes with their CPUs, memory and distances, and start nothing")
	at.flags(f)
	socketFlag(c, e)
	f.SetInterspersed(false)
	return c
}

func fill(want *api.Want, class, tier, memory, command string) (err error) {
	if want.Tier, err = workload.ParseTier(tier); err != nil {
		return usageErrorf("--%v", err)
	}
	if class != "" {
		if want.Class, err = workload.ParseClass(class); err != nil {
			return usageErrorf("--%v", err)
		}
	}
	if want.Class, _, err = want.Tier.With(want.Class); err != nil {
		return usageErrorf("--%v", err)
	}
	want.Class = cmp.Or(want.Class, workload.Shared)
	if want.CPUs < 1 || want.CPUs > topology.MaxID {
		return usageErrorf("--cpus %d: want 1 to %d", want.CPUs, topology.MaxID)
	}
	if memory != "" {
		n, err := humanize.ParseBytes(memory)
		if _, bare := strconv.ParseFloat(memory, 64); bare == nil && n > 0 {
			err = errors.New("no unit")
		}
		switch {
		case strings.HasPrefix(memory, "-"):
			return usageErrorf("--memory %q: want 0 or more", memory)
		case err == nil && n > 1<<60 || err != nil && strings.HasPrefix(err.Error(), "too large"):
			return usageErrorf("--memory %q: want 1 EiB at most", memory)
		case err != nil:
			return usageErrorf("--memory %q: want a number with a unit, such as 2GiB", memory)
		}
		want.MemoryKiB = int64((n + 1023) / 1024)
	}
	if want.Name == "" {
		want.Name = filepath.Base(command)
	}
	return nil
}

// dryStart is where run would start the command.
type dryStart struct {
	api.Home
	Policy string `json:"memory_policy,omitempty"` // memory policy, in words; absent where it is left as it is
}

// missing is a device of --near that this host does not have; "" is none. The command starts now, so
// the device cannot come later, as that of a rule can.
func missing(h api.Home) string {
	for _, r := range h.Decision.Reasons {
		if r.Code == words.UnknownDevice {
			return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(r.Args[0]), "[]")), ", ") // also as JSON has it
		}
	}
	return ""
}

// unkept is what follows from that a run could not be written down, and why it could not.
func unkept(h api.Home) string {
	switch {
	case h.Unkept == nil:
		return ""
	case h.Ledger:
		return "this run could not be written down; runs without the daemon will not see it: " + oneLine(h.Unkept.Error())
	}
	return "this run could not be written down; later runs will not see it, and undo will not find it: " + oneLine(h.Unkept.Error())
}

func runsOr(dryRun bool) string {
	if dryRun {
		return "would run"
	}
	return "runs"
}

// notRun is why a command could not be run, with the exit status that env(1) and nice(1)
// have for it.
func notRun(name string, err error) error {
	var exit *exitError
	switch {
	case err == nil || errors.As(err, &exit):
		return err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, fmt.Errorf("command %q: not found", name)}
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return &exitError{exitNotRun, fmt.Errorf("command %q: %w", name, err)}
}

// home is where the command goes: where it was told, or what is found for it.
func (w *where) home(c *cobra.Command, e *Env, want *api.Want) (api.Home, error) {
	if w.exact {
		want.Exact = &api.Exact{CPUs: w.start.CPUs, Nodes: w.start.Nodes}
		if !w.start.CPUs.Empty() {
			want.CPUs = w.start.CPUs.Len()
		}
		home, err := homeFor(c, e, *want, w.strict)
		var refused *api.Error
		if err != nil && !w.strict && !(errors.As(err, &refused) && refused.Code == api.BadRequest) { // it goes there all the same
			return api.Home{Schema: "homenode-home/3", Nodes: w.start.Nodes, CPUs: w.start.CPUs, Why: "The daemon was not informed: " + oneLine(err.Error()) + "."}, nil
		}
		return home, err
	}
	home, err := homeFor(c, e, *want, w.strict)
	if err != nil {
		return home, err
	}
	w.start.CPUs = home.CPUs
	switch {
	case w.memory != "":
	case home.Bound:
		w.start.Memory, w.start.Nodes = MemoryHomeBound, home.Nodes
	default:
		w.start.Memory, w.start.Nodes = MemoryHome, home.Nodes
	}
	return home, nil
}

// line says where a command goes and why.
func (w *where) line(h api.Home, verb string) string {
	h = view.PlainAll(h)
	told := ""
	switch {
	case h.Unasked != "":
		told = fmt.Sprintf(" (No daemon has booked it: %s.)", h.Unasked)
	case !h.Ledger && verb == "runs":
		told = " (No daemon has booked it.)"
	}
	if w.exact {
		line := verb + " " + w.start.line() + "."
		if h.Why != words.Because(words.ExactNamed).String() { // the user knows what the user asked for
			line += " " + h.Why
		}
		if h.Unasked != "" {
			line += told
		}
		return line
	}
	line := fmt.Sprintf("%s on %s, %s, %s. %s", verb, words.Nodes(h.Nodes), words.CPUs(h.CPUs), w.start.memoryLine(), h.Why)
	for _, r := range h.Decision.Reasons {
		if (r.Code == words.UnknownNodes || r.Code == words.HomeCrowded) && r.String() != h.Why {
			line += " " + r.String()
		}
	}
	return line + told
}
