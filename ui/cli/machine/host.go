package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/change"
	"github.com/homenode/homenode/ui/cli/vm"
)

func HostCommand(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "host",
		Short: "Prepare this host for guests: report, host CPUs, partition",
		Long: `Commands for the host itself: problems for guests, and the division of CPUs.
homenode undo host restores everything that prepare changed.`,
		Args:    cobra.NoArgs,
		Example: "  homenode host report\n  homenode host prepare --dry-run",
		RunE:    cli.SayWhat,
	}
	c.AddCommand(hostReportCommand(e), hostPrepareCommand(e), hostPartitionCommand(e))
	return c
}

// hostWant is the flags that both commands have.
type hostWant struct {
	reserve        string
	perNode        int
	slices, agents []string
	pages          []string
}

// unknown tells of agents of which no process runs: a name is easily mistyped.
func (w *hostWant) unknown(e *cli.Env, facts *hostprep.Facts) {
	for _, name := range w.agents {
		if !slices.ContainsFunc(facts.Agents, func(a hostprep.Agent) bool { return a.Name == hostprep.Comm(name) }) {
			fmt.Fprintf(e.Stderr, "homenode: --agents: no process %q runs\n", name)
		}
	}
}

func (w *hostWant) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.reserve, "reserve", "",
		"`CPUS` kept for the host, such as 0,1,40,41; the configuration file's when not given")
	f.IntVar(&w.perNode, "reserve-per-node", 0, "keep `N` whole cores of each node for the host")
	f.StringSliceVar(&w.slices, "slices", hostprep.HostSlices,
		"`UNITS` of the host's own programs, slices and scopes, or paths of cgroups such as /docker")
	f.StringSliceVar(&w.agents, "agents", nil, "`NAMES` of processes that belong to the host wherever they run")
	f.StringArrayVar(&w.pages, "huge-pages", nil,
		"`NODE:SIZE:COUNT` huge pages wanted, such as 0:2MiB:4096; may be repeated")
	c.MarkFlagsMutuallyExclusive("reserve", "reserve-per-node")
}

// read makes of the flags what is wanted of h. configured is the reserve of the
// configuration file.
func (w *hostWant) read(c *cobra.Command, h *topology.Host,
	configured topology.CPUSet) (want hostprep.Want, err error) {
	want.Reserve = configured
	switch {
	case c.Flags().Changed("reserve"):
		if want.Reserve, err = topology.ParseCPUSet(w.reserve); err != nil {
			return want, cli.Usagef("--reserve: %w", err)
		}
	case c.Flags().Changed("reserve-per-node"):
		if w.perNode < 1 {
			return want, cli.Usagef("--reserve-per-node %d; want 1 or more cores", w.perNode)
		}
		want.Reserve = hostprep.Reserve(h, w.perNode)
		if want.Reserve.Equal(hostprep.Reserve(h, w.perNode-1)) {
			return want, cli.Usagef("--reserve-per-node %d: no node has so many cores and one more for guests",
				w.perNode)
		}
	}
	for _, s := range w.slices {
		if hostprep.CgroupOf(s) == "" && !hostprep.IsPath(s) {
			return want, cli.Usagef("--slices: %q; want names such as system.slice or init.scope", s)
		}
	}
	for _, text := range w.pages {
		p, err := hostprep.ParsePages(h, text)
		if err != nil {
			return want, cli.Usagef("--huge-pages %w", err)
		}
		if slices.ContainsFunc(want.HugePages,
			func(q hostprep.Pages) bool { return q.Node == p.Node && q.Size == p.Size }) {
			return want, cli.Usagef("--huge-pages %q: these pages of node %d were given before", text, p.Node)
		}
		want.HugePages = append(want.HugePages, p)
	}
	return want, nil
}

// noTree is the tree of a host of which only the topology is known.
type noTree struct{}

func (noTree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func hostReportCommand(e *cli.Env) *cobra.Command {
	var w hostWant
	var from cli.TopologySource
	var asJSON bool
	c := &cobra.Command{
		Use:   "report",
		Short: "List problems for guests on this host, with advice",
		Long: `Lists problems for guests on this host: reserved CPUs, other work on guest CPUs,
interrupts, huge pages, kernel arguments, settings of memory and power, other programs
that place work. Nothing is changed.

Exit status: 0 no problem, 1 problems found.`,
		Example: `  homenode host report
  homenode host report --reserve 0,1,40,41 --huge-pages 0:2MiB:32768
  homenode gather captured/ && homenode host report --root captured/ --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := from.Read(e)
			if err != nil {
				return err
			}
			var tree fs.FS = noTree{}
			var configured topology.CPUSet
			switch {
			case from.Root != "":
				if tree, err = cli.OpenRoot(e, from.Root); err != nil {
					return cli.Usagef("%w", err)
				}
			case from == cli.TopologySource{}:
				tree = e.Root
				p, err := e.Policy(h)
				if err != nil {
					return err
				}
				configured = p.Reserved
			}
			want, err := w.read(c, h, configured)
			if err != nil {
				return err
			}
			facts := hostprep.Read(tree, h, w.slices, w.agents)
			w.unknown(e, &facts)
			found := hostprep.Judge(h, &facts, &want)
			if asJSON {
				err = cli.PrintJSON(e.Stdout, hostReport{"homenode-host-report/1", want.Reserve, found})
			} else {
				err = printReport(e, found)
			}
			if code := hostprep.ExitStatus(found); err == nil && code != 0 {
				return cli.ExitWith(code)
			}
			return err
		},
	}
	w.flags(c)
	f := c.Flags()
	f.StringVar(&from.Root, "root", "", "the host under `DIR`, or in a tar file that gather wrote")
	f.StringVar(&from.Hwloc, "hwloc", "", "the host in `FILE`, written by lstopo --of xml")
	f.StringVar(&from.Synthetic, "synthetic", "", "a made-up `HOST`, such as \"package:2 core:20 pu:2\"")
	f.StringVar(&from.Host, "host", "", "the host in `JSONFILE`, written by topology --json")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-host-report/1)")
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host")
	return c
}

// hostReport is what on the host stands in the way of its guests.
type hostReport struct {
	Schema string `json:"schema"`
	// CPUs kept for the host, as configured or asked for; empty when none are
	Reserve  topology.CPUSet    `json:"reserve"`
	Findings []hostprep.Finding `json:"findings"` // findings, the worst first
}

func printReport(e *cli.Env, found []hostprep.Finding) error {
	var b strings.Builder
	p := e.Paint()
	for _, f := range found {
		p.Wrap(&b, fmt.Sprintf("%s  %s (%s): %s", severity(p, f.Severity), p.Bold(f.Subject), f.Where, f.Says), "")
		if f.Advice != "" {
			p.Wrap(&b, "→ "+f.Advice, "    ")
		}
	}
	_, err := strings.NewReader(b.String()).WriteTo(e.Stdout)
	return err
}

func hostPrepareCommand(e *cli.Env) *cobra.Command {
	var w hostWant
	var dryRun, undo, asJSON, keepIRQ bool
	var thp, ksm string
	var more []string
	c := &cobra.Command{
		Use:   "prepare",
		Short: "Keep services, agents and interrupts on CPUs of the host",
		Long: `Keeps work of the host off the CPUs of guests: services and sessions
(system.slice, user.slice, init.scope), agents, interrupts, unbound work of the
kernel. By default the host gets a whole core of each node; --reserve or the
configuration choose others. Huge pages, THP and KSM change only with their
options. Settings that need a boot are only reported (homenode host report).

Every old value is in the journal before the change; homenode undo host, or
--undo here, restores them. A second run changes nothing. The settings last until
the machine restarts: run this at each start.

Exit status: 1 when some steps failed or are refused.`,
		Example: `  homenode host prepare --dry-run
  homenode host prepare --reserve 0,1,40,41 --agents node_exporter
  homenode host prepare --huge-pages 0:2MiB:32768 --huge-pages 1:2MiB:32768
  homenode host prepare --undo`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if undo {
				return undoHost(c, e, dryRun)
			}
			for _, s := range more {
				if hostprep.CgroupOf(s) == "" && !hostprep.IsPath(s) {
					return cli.Usagef("--agents-slice: %q; want a name such as agents.slice", s)
				}
			}
			w.slices = append(w.slices, more...)
			h, err := cli.TopologySource{}.Read(e)
			if err != nil {
				return err
			}
			policy, err := e.Policy(h)
			if err != nil {
				return err
			}
			want, err := w.read(c, h, policy.Reserved)
			if err != nil {
				return err
			}
			if want.Reserve.Empty() && !c.Flags().Changed("reserve") {
				want.Reserve = hostprep.Reserve(h, 1)
			}
			if err := hostprep.CheckReserve(h, want.Reserve); err != nil {
				return cli.Usagef("reserve: %w", err)
			}
			if want.THP, want.KSM = thp, ksm; thp != "" && thp != "always" && thp != "madvise" && thp != "never" {
				return cli.Usagef("--thp %q; want always, madvise or never", thp)
			} else if ksm != "" && ksm != "0" && ksm != "1" {
				return cli.Usagef("--ksm %q; want 0 or 1", ksm)
			}
			return prepareHost(c, e, h, &w, &want, dryRun, asJSON, keepIRQ)
		},
	}
	w.flags(c)
	f := c.Flags()
	f.BoolVar(&dryRun, "dry-run", false, "print every step, change nothing")
	f.StringArrayVar(&more, "agents-slice", nil,
		"a `SLICE` that agents run in, or the path of a cgroup such as /docker, kept on the reserve too; may be "+
			"repeated")
	f.BoolVar(&keepIRQ, "keep-interrupts", false, "leave interrupts where they are")
	f.StringVar(&thp, "thp", "", "transparent huge pages: always, madvise or never")
	f.StringVar(&ksm, "ksm", "", "merging of equal pages: 0 or 1")
	f.BoolVar(&undo, "undo", false, "put everything back that prepare changed")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-host-prepare/2)")
	cli.StateDirFlag(c, e)
	return c
}

func undoHost(c *cobra.Command, e *cli.Env, dryRun bool) error {
	b, done, err := cli.ConnectUndo(c, e)
	if err != nil {
		return err
	}
	defer done()
	_, err = change.Undone(c, e, b, &api.Which{ID: hostprep.ID, DryRun: dryRun}, false)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.NotFound {
		fmt.Fprintln(e.Stdout, "nothing to undo")
		return nil
	}
	return err
}

// prepareHost plans, and carries out unless it is a dry run.
func prepareHost(c *cobra.Command, e *cli.Env, h *topology.Host, w *hostWant, want *hostprep.Want, dryRun, asJSON,
	keepIRQ bool) error {
	ctx := cli.ContextOf(c)
	facts := hostprep.Read(e.Root, h, w.slices, w.agents)
	if c.Flags().Changed("slices") || c.Flags().Changed("agents-slice") {
		for _, m := range facts.Missing {
			fmt.Fprintf(e.Stderr, "homenode: %s is not there\n", m)
		}
	}
	w.unknown(e, &facts)
	if err := inTheWay(c, e, h, w, want); err != nil {
		return err
	}
	doc := preparation{Schema: "homenode-host-prepare/2", Reserve: want.Reserve, Steps: []preparedStep{},
		Notes: []string{}}
	var devices []irq.Device
	placed, err := e.Host.PlacesInterrupts()
	if err != nil {
		return err
	}
	switch {
	case keepIRQ:
	case placed:
		doc.Notes = append(doc.Notes, "interrupts are left to the daemon, which places them (irq: place)")
	case facts.Runs(doctor.Irqbalance):
		doc.Notes = append(doc.Notes,
			fmt.Sprintf("interrupts are left to irqbalance, which runs: stop it, or set IRQBALANCE_BANNED_CPULIST=%v",
				h.Online.Minus(want.Reserve)))
	default:
		want.Interrupts = true
		if devices, err = e.Host.Devices(ctx, h); err != nil {
			return cli.Forbiddenf("look at interrupts: %w", err)
		}
	}
	steps, notes := hostprep.Steps(h, &facts, want, devices)
	doc.Notes = append(doc.Notes, words.Sentences(notes)...)
	var errs []error
	if !dryRun && len(steps) > 0 {
		if errs, err = prepare(c, e, steps); err != nil {
			return err
		}
	}
	for i, s := range steps {
		p := preparedStep{Kind: string(s.Kind), Target: s.Target.Name(), From: s.From, To: s.To, Reason: s.Reason,
			State: "planned"}
		switch {
		case dryRun:
		case errs[i] == nil:
			p.State = "done"
			doc.Done++
		case errors.Is(errs[i], plan.ErrFixed):
			p.State, p.Error = "kept by the kernel", errs[i].Error()
			doc.Fixed++
		default:
			p.State, p.Error = "failed", errs[i].Error()
			doc.Failed++
		}
		doc.Steps = append(doc.Steps, p)
	}
	if asJSON {
		err = cli.PrintJSON(e.Stdout, doc)
	} else {
		err = doc.print(e, dryRun)
	}
	if err == nil && doc.Failed > 0 {
		return cli.ErrNo
	}
	return err
}

// prepare carries out steps, by the daemon where one runs.
func prepare(c *cobra.Command, e *cli.Env, steps []plan.Step) ([]error, error) {
	b, done, err := cli.Connect(c, e)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, asked := b.(*api.Client); !asked {
		if err := e.Host.MayPrepare(); err != nil {
			return nil, err
		}
	}
	return b.Change(cli.ContextOf(c), api.Change{Steps: steps})
}

// inTheWay refuses a reserve that is somebody's.
func inTheWay(c *cobra.Command, e *cli.Env, h *topology.Host, w *hostWant, want *hostprep.Want) error {
	st := plan.State{Host: h}
	if _, err := vm.DaemonPlaced(c, e, &st, false); err != nil {
		return err
	}
	placed, err := e.Host.Placed(stateDir(c))
	if err != nil {
		return err
	}
	st.Placements = append(st.Placements, placed...)
	hypervisor, err := e.Libvirt.Connect(cli.ContextOf(c), false)
	if err == nil {
		guests, unread, listed := hypervisor.Guests(cli.ContextOf(c), h)
		if err = errors.Join(listed, hypervisor.Close()); err != nil {
			return err
		}
		for _, g := range guests {
			st.Placements = append(st.Placements, g.Holds()...)
		}
		for _, g := range unread {
			if g.Running {
				return cli.Forbiddenf("%s; it runs, and what it holds is not known: nothing is changed", g.Text)
			}
		}
	} else if guests, _ := fs.Glob(e.Root, "run/libvirt/qemu/*.xml"); len(guests) > 0 {
		return fmt.Errorf("guests run (%s), and where is not known: %w",
			strings.TrimSuffix(path.Base(guests[0]), ".xml"), err)
	}
	var cgroups []string
	for _, s := range w.slices {
		if hostprep.IsPath(s) {
			cgroups = append(cgroups, hostprep.Cgroups(e.Root, s)...)
		} else {
			cgroups = append(cgroups, hostprep.CgroupOf(s))
		}
	}
	for _, cgroup := range cgroups {
		if guest := hostprep.GuestBelow(e.Root, cgroup); guest != "" {
			return cli.Nof("nothing is changed: %s", words.Because(words.GuestInSlice, strings.TrimPrefix(cgroup, "/"),
				guest, want.Reserve))
		}
	}
	if why := hostprep.InTheWay(st.Placements, want.Reserve, cgroups); !why.None() {
		return cli.Nof("nothing is changed: %s", why)
	}
	return nil
}

// preparation is what host prepare did, or with --dry-run would do.
type preparation struct {
	Schema  string          `json:"schema"`
	Reserve topology.CPUSet `json:"reserve"`        // CPUs kept for the host
	Steps   []preparedStep  `json:"steps"`          // steps, in order
	Notes   []string        `json:"notes"`          // what is left to do by hand, a sentence each
	Done    int             `json:"done"`           // number of settings that were written
	Fixed   int             `json:"kept_by_kernel"` // number of settings that the kernel does not let anybody change
	Failed  int             `json:"failed"`         // number of settings that could not be written
}

type preparedStep struct {
	Kind   string       `json:"kind"`            // kind of setting
	Target string       `json:"target"`          // name of the unit, interrupt or file
	From   string       `json:"from"`            // value before
	To     string       `json:"to"`              // value afterwards
	Reason words.Reason `json:"reason"`          // why, in a sentence
	State  string       `json:"state"`           // how far it has come: planned, done, kept by the kernel or failed
	Error  string       `json:"error,omitempty"` // why it failed; absent when it did not
}

func (d *preparation) print(e *cli.Env, dryRun bool) error {
	out := bufio.NewWriter(e.Stdout)
	p := e.Paint()
	for _, s := range d.Steps {
		fmt.Fprintf(out, "%s  %s %s: %s → %s. %s\n", s.State, s.Kind, s.Target, words.OrAll(s.From), s.To, s.Reason)
		if s.Error != "" {
			fmt.Fprintf(out, "    %s\n", p.Warn(cli.OneLine(s.Error)))
		}
	}
	for _, n := range d.Notes {
		fmt.Fprintf(out, "note  %s\n", n)
	}
	switch {
	case len(d.Steps) == 0:
		fmt.Fprintf(out, "nothing to do: everything is as asked, with CPUs %v for the host\n", d.Reserve)
	case dryRun:
		fmt.Fprintf(out, "%s; nothing was changed\n", words.Count(len(d.Steps), "step"))
	default:
		fmt.Fprintf(out, "%d done, %d kept by the kernel, %d failed; homenode undo host puts all back\n", d.Done,
			d.Fixed, d.Failed)
	}
	fmt.Fprintf(out, "for homenode's configuration:\nreserve:\n  cpus: %q\n", d.Reserve)
	return out.Flush()
}
