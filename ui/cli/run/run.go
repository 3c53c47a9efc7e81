package run

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
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// runFlags is what the command line of run says.
type runFlags struct {
	class, tier, memory string

	dryRun, asJSON, quiet, orAnyway, showing, hardware bool

	at   where
	near []string
	want api.Want
}

func RunCommand(e *cli.Env) *cobra.Command {
	var o runFlags
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
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, e, args) },
	}
	f := c.Flags()
	f.StringVar(&o.class, "class", string(workload.Shared), "dedicated, shared or batch")
	f.StringVar(&o.tier, "tier", "",
		"its `TIER`, which says who gives way on one CPU: online-strict, online, normal or batch, or 2 to -2 "+
			"(default: by its class)")
	f.IntVar(&o.want.CPUs, "cpus", 1, "CPUs it wants to keep busy at once, at least 1")
	f.StringVar(&o.memory, "memory", "", "memory it will hold, such as 2GiB; empty when unknown")
	cli.NearFlag(f, &o.near)
	f.StringVar(&o.want.SLO, "slo", "", sloUsage)
	f.StringVar(&o.want.Name, "name", "", "name in the status table (default: the command)")
	f.BoolVar(&o.at.strict, "strict", false,
		"fail rather than start unless a daemon has answered, it is written down, and batch work has its cgroup")
	f.BoolVar(&o.dryRun, "dry-run", false, "say where and why, and start nothing")
	f.BoolVar(&o.asJSON, "json", false,
		"with --dry-run or --show: print JSON (schemas homenode-home/3, homenode-show/1)")
	f.BoolVar(&o.quiet, "quiet", false, "print no line on standard error")
	f.BoolVar(&o.orAnyway, "or-anyway", false, "where there is no home, start without one")
	f.BoolVarP(&o.showing, "show", "s", false,
		"show the memory policy, CPUs and nodes that hold now, and start nothing")
	f.BoolVarP(&o.hardware, "hardware", "H", false,
		"show the nodes with their CPUs, memory and distances, and start nothing")
	o.at.flags(f)
	cli.SocketFlag(c, e)
	f.SetInterspersed(false)
	return c
}

// run starts a command, or says where it would start.
func (o *runFlags) run(c *cobra.Command, e *cli.Env, args []string) error {
	switch {
	case o.hardware:
		return hardwareNow(e, args)
	case o.showing:
		return show(c, e, args, o.asJSON)
	case len(args) == 0:
		return cli.Misused(c, "name the command to run")
	case o.asJSON && !o.dryRun:
		return cli.Usagef("--json goes with --dry-run or --show")
	}
	if err := o.read(c, e, args[0]); err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return notRun(args[0], err)
	}
	if o.at.start.Scope && e.ScopeHere != nil { // before anything is booked or said
		if err := e.ScopeHere(); err != nil {
			return cli.Forbidden(err)
		}
	}
	if o.at.start.Nice != nil && e.TryNice != nil {
		if err := e.TryNice(*o.at.start.Nice); err != nil {
			return cli.Forbidden(err)
		}
	}
	if !o.dryRun {
		if o.want.Process, err = e.Self(); err != nil {
			return err
		}
	}
	home, err := o.at.home(c, e, &o.want)
	weights := ""
	if err == nil && o.at.policy == bandwidth {
		weights, err = o.at.spread(e, home.Nodes)
	}
	if n := missing(home); n != "" {
		return cli.Usagef("--near %s: this host has no such device; `homenode topology` lists them", n)
	}
	line := ""
	switch {
	case err != nil && !o.orAnyway:
		if refused := (*api.Error)(nil); errors.As(err, &refused) && refused.Code == api.NoRoom {
			return fmt.Errorf("%w With --or-anyway it starts without a home", err)
		}
		return err
	case err != nil:
		if code, why := cli.ExitStatus(err); code == cli.ExitUsage {
			return err
		} else {
			line = fmt.Sprintf("%s anywhere: %s", runsOr(o.dryRun), cli.OneLine(why))
		}
	default:
		line = o.at.line(home, runsOr(o.dryRun))
	}
	if o.dryRun && o.asJSON {
		return cli.PrintJSON(e.Stdout, dryStart{home, o.at.start.MemoryLine()})
	}
	if o.dryRun {
		_, err = fmt.Fprintln(e.Stdout, line)
		return err
	}
	why := unkept(home)
	if why != "" && o.at.strict {
		return cli.Forbiddenf("--strict: %s", why)
	}
	goal := o.goalless(home)
	if goal != "" && o.at.strict {
		return cli.Forbiddenf("--strict: %s", goal)
	}
	for _, line := range []string{line, weights, why, goal} {
		if line != "" && !o.quiet {
			fmt.Fprintln(e.Stderr, "homenode: "+words.Printable(line))
		}
	}
	if err := o.batch(c, e, args); err != nil {
		return err
	}
	if cli.ContextOf(c).Err() != nil { // a signal that came meanwhile is not swallowed
		return cli.Forbiddenf("interrupted")
	}
	return notRun(args[0], e.Exec(o.at.start, path, args))
}

// read fills what is asked of the daemon, for command, out of the flags.
func (o *runFlags) read(c *cobra.Command, e *cli.Env, command string) error {
	if !c.Flags().Changed("class") && o.tier != "" {
		o.class = ""
	}
	wishes, err := cli.ParseNear(o.near)
	if err != nil {
		return err
	}
	for i := range wishes {
		o.want.Near = append(o.want.Near, wishes[i].String())
	}
	if err := Fill(&o.want, o.class, o.tier, o.memory, command); err != nil {
		return err
	}
	o.want.Nodes, err = o.at.read(c, e)
	return err
}

// batch puts batch work into its cgroup. Where that fails, the command starts without one and a line says so;
// --strict and --scope refuse.
func (o *runFlags) batch(c *cobra.Command, e *cli.Env, args []string) error {
	if o.want.Class != workload.Batch || e.Batch == nil {
		return nil
	}
	switch err := e.Batch(cli.ContextOf(c), o.at.start, args); {
	case err == nil:
		o.at.start.Scope = false // it is in one
	case o.at.strict:
		return cli.Forbiddenf("--strict: %w", err)
	case o.at.start.Scope:
		return cli.Forbidden(err)
	case !o.quiet:
		fmt.Fprintln(e.Stderr, "homenode: "+words.Printable(cli.OneLine(err.Error())))
	}
	return nil
}

// sloUsage is the help of --slo.
const sloUsage = "latency `GOAL` that batch work gives way for: most=5% is the time that it may wait for a CPU, " +
	"of=baseline its usual time; ,window=30s may follow; needs root and a daemon"

// goalless says that a latency goal has no effect, where no daemon took the command.
func (o *runFlags) goalless(home api.Home) string {
	if o.want.SLO == "" || home.Ledger {
		return ""
	}
	return "--slo has no effect: only a daemon makes batch work give way, and none has taken this command"
}

func Fill(want *api.Want, class, tier, memory, command string) (err error) {
	if want.SLO != "" {
		if _, err := workload.ParseGoal(want.SLO); err != nil {
			return cli.Usagef("--slo: %w", err)
		}
	}
	if want.Tier, err = workload.ParseTier(tier); err != nil {
		return cli.Usagef("--%v", err)
	}
	if class != "" {
		if want.Class, err = workload.ParseClass(class); err != nil {
			return cli.Usagef("--%v", err)
		}
	}
	if want.Class, _, err = want.Tier.With(want.Class); err != nil {
		return cli.Usagef("--%v", err)
	}
	want.Class = cmp.Or(want.Class, workload.Shared)
	if want.CPUs < 1 || want.CPUs > topology.MaxID {
		return cli.Usagef("--cpus %d: want 1 to %d", want.CPUs, topology.MaxID)
	}
	if memory != "" {
		n, err := humanize.ParseBytes(memory)
		if _, bare := strconv.ParseFloat(memory, 64); bare == nil && n > 0 {
			err = errors.New("no unit")
		}
		switch {
		case strings.HasPrefix(memory, "-"):
			return cli.Usagef("--memory %q: want 0 or more", memory)
		case (err == nil && n > 1<<60) || (err != nil && strings.HasPrefix(err.Error(), "too large")):
			return cli.Usagef("--memory %q: want 1 EiB at most", memory)
		case err != nil:
			return cli.Usagef("--memory %q: want a number with a unit, such as 2GiB", memory)
		}
		want.MemoryKiB = int64((n + 1023) / 1024)
	}
	if !workload.OneLine(want.Name) {
		return cli.Usagef("--name %q: want at most %d bytes on one line", strict.Clip(want.Name), workload.MaxName)
	}
	want.Name = cmp.Or(want.Name, filepath.Base(command))
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
		return "this run could not be written down; runs without the daemon will not see it: " +
			cli.OneLine(h.Unkept.Error())
	}
	return "this run could not be written down; later runs will not see it, and undo will not find it: " +
		cli.OneLine(h.Unkept.Error())
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
	var exit *cli.Exit
	switch {
	case err == nil || errors.As(err, &exit):
		return err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return cli.WithStatus(cli.ExitNotFound, fmt.Errorf("command %q: not found", name))
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return cli.WithStatus(cli.ExitNotRun, fmt.Errorf("command %q: %w", name, err))
}

// home is where the command goes: where it was told, or what is found for it.
func (w *where) home(c *cobra.Command, e *cli.Env, want *api.Want) (api.Home, error) {
	if w.exact {
		want.Exact = &api.Exact{CPUs: w.start.CPUs, Nodes: w.start.Nodes}
		if !w.start.CPUs.Empty() {
			want.CPUs = w.start.CPUs.Len()
		}
		home, err := homeFor(c, e, *want, w.strict)
		var refused *api.Error
		// it goes there all the same
		if err != nil && !w.strict && !(errors.As(err, &refused) && refused.Code == api.BadRequest) {
			return api.Home{Schema: "homenode-home/3", Nodes: w.start.Nodes, CPUs: w.start.CPUs,
				Why: "The daemon was not informed: " + cli.OneLine(err.Error()) + "."}, nil
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
		w.start.Memory, w.start.Nodes = cli.MemoryHomeBound, home.Nodes
	case byThread(e.Root, home):
		w.start.Memory, w.start.Nodes = cli.MemoryByThread, home.Nodes
	default:
		w.start.Memory, w.start.Nodes = cli.MemoryHome, home.Nodes
	}
	return home, nil
}

// byThread reports whether memory goes to the node of each thread: in a home of several nodes that each have
// CPUs. With a policy of several nodes the daemon could not divide the threads among them, nor the kernel's NUMA
// balancing bring memory after its threads.
func byThread(root fs.FS, home api.Home) bool {
	for n := range home.Nodes.All() {
		cpus, err := readSet[topology.CPUID](root, fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n))
		if err != nil || cpus.Intersect(home.CPUs).Empty() {
			return false
		}
	}
	return home.Nodes.Len() > 1
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
		line := verb + " " + w.start.Line() + "."
		if h.Why != words.Because(words.ExactNamed).String() { // the user knows what the user asked for
			line += " " + h.Why
		}
		if h.Unasked != "" {
			line += told
		}
		return line
	}
	line := fmt.Sprintf("%s on %s, %s, %s. %s", verb, words.Nodes(h.Nodes), words.CPUs(h.CPUs), w.start.MemoryLine(),
		h.Why)
	for _, r := range h.Decision.Reasons {
		if (r.Code == words.UnknownNodes || r.Code == words.HomeCrowded) && r.String() != h.Why {
			line += " " + r.String()
		}
	}
	return line + told
}
