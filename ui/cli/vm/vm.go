package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func Command(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "vm",
		Short: "Virtual machines: sizes, capacity, and definitions for libvirt",
		Long: `Virtual machines by flavor: a size with its class, vCPUs, memory and limits.
All of them also answer for another host (--host, --root, --hwloc, --synthetic).`,
		Example: "  homenode vm capacity\n  homenode vm define --flavor c1.large --name web --dry-run",
		Args:    cobra.NoArgs,
		RunE:    cli.SayWhat,
	}
	commands := []*cobra.Command{vmFlavorsCommand(e), vmCapacityCommand(e), vmDefineCommand(e), vmListCommand(e),
		vmMoveCommand(e), vmPlaceCommand(e), vmAdoptCommand(e), vmReleaseCommand(e), vmLimitCommand(e),
		vmHookCommand(e)}
	for _, sub := range commands {
		sub.RunE = goneIsNo(sub.RunE)
	}
	c.AddCommand(commands...)
	return c
}

// goneIsNo answers "no" where a guest has gone between two calls.
func goneIsNo(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var status *cli.Exit
		if isGone(err) && !errors.As(err, &status) {
			return cli.No(err)
		}
		return err
	}
}

// isGone reports whether a guest has gone, as libvirt or as the daemon says it.
func isGone(err error) bool {
	var refused *api.Error
	return errors.Is(err, guest.ErrGone) || (errors.As(err, &refused) && refused.Code == api.Gone)
}

// change carries out steps of one guest, by the daemon where one runs. When one fails, what
// those before it did to the guest as it runs is restored.
func (s *existing) change(ctx context.Context, steps []plan.Step, why string) error {
	if err := s.hypervisor.Unlock(); err != nil {
		return err
	}
	b, done, err := s.connect()
	if err != nil {
		return err
	}
	defer done()
	carryOut := func(ctx context.Context, steps []plan.Step, why string) (failed int, err error) {
		steps = slices.Clone(steps)
		for i := range steps {
			steps[i].Reason = words.Plain(why)
		}
		errs, err := b.Change(ctx, api.Change{Steps: steps, Together: true})
		for i, e := range errs {
			if err == nil && e != nil {
				return i, e
			}
		}
		return len(steps) - 1, err
	}
	failed, err := carryOut(ctx, steps, why)
	if err == nil {
		return nil
	}
	back := guest.Reverse(steps[:failed+1])
	if len(back) == 0 {
		return err
	}
	// What was interrupted is not left half done.
	if _, e := carryOut(context.WithoutCancel(ctx), back, "The change failed half way."); e != nil && !isGone(e) &&
		e.Error() != err.Error() {
		return errors.Join(err, fmt.Errorf("it could not be restored: %w", e))
	}
	return err
}

// vmHost is the flags that say what host is meant and what stands on it.
type vmHost struct {
	cli.TopologySource
	flavors    string
	running    []string
	reserve    string
	drives     []string
	overcommit float64
	memory     float64
	partition  string
}

func (v *vmHost) flags(c *cobra.Command, e *cli.Env) {
	cli.SocketFlag(c, e)
	f := c.Flags()
	f.StringVar(&v.flavors, "flavors", "",
		"the catalogue in `FILE` instead of the one that ships (- is standard input)")
	f.StringArrayVar(&v.running, "running", nil,
		"a guest that is there already, in `XMLFILE` (virsh dumpxml writes it); may be repeated")
	f.StringVar(&v.reserve, "reserve", "",
		"`CPUS` kept for the host, such as 0,1,40,41; for this host the configuration file's when not given")
	f.StringSliceVar(&v.drives, "nvme", nil,
		"NVMe `DRIVES` that guests may have whole, by name or PCI address; no others are ever given away")
	f.Float64Var(&v.overcommit, "overcommit", 0, "shared vCPUs that one CPU may carry, 1 to 100; 3 when not configured")
	f.Float64Var(&v.memory, "memory-overcommit", 0,
		"how often memory is promised, 1 to 10, with --partition shared; once when not configured")
	f.StringVar(&v.partition, "partition", "",
		"which CPUs are for dedicated guests alone; `PARTITION` is any, shared, dedicated, CPUs or a share, such as "+
			"40-79 or 50%; as configured when not given")
	f.StringVar(&v.Root, "root", "", "the host under `DIR`, or in a tar file that gather wrote (- is standard input)")
	f.StringVar(&v.Hwloc, "hwloc", "", "the host in `FILE`, written by lstopo --of xml")
	f.StringVar(&v.Synthetic, "synthetic", "", "a made-up `HOST`, such as \"package:2 core:20 pu:2\"")
	f.StringVar(&v.Host, "host", "", "the host in `JSONFILE`, written by topology --json")
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host")
}

// elsewhere reports whether another host than this one is meant.
func (v *vmHost) elsewhere() bool { return v.Root+v.Hwloc+v.Synthetic+v.Host != "" }

func (v *vmHost) catalogue(e *cli.Env) (guest.Catalogue, error) {
	text, name := guest.Example, "the catalogue that ships"
	if v.flavors != "" {
		b, err := cli.ReadInput(e, v.flavors, cli.MaxSpec)
		if err != nil {
			return nil, err
		}
		text, name = string(b), cli.InputName(v.flavors)
	}
	c, err := guest.ReadCatalogue(strings.NewReader(text), name)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return c, nil
}

// existing is a host with the guests on it.
type existing struct {
	host       *topology.Host
	policy     plan.Policy
	room       *guest.Room
	guests     []guest.Guest
	others     []api.Workload // what the daemon sees beside guests
	hypervisor cli.Hypervisor // nil for another host
	connect    func() (api.Backend, func() error, error)
}

func (s *existing) close() error {
	if s.hypervisor == nil {
		return nil
	}
	return s.hypervisor.Close()
}

// read gets the host, and its guests: from libvirt for this host, from --running
// for another.
func (v *vmHost) read(c *cobra.Command, e *cli.Env, change bool) (*existing, error) {
	h, err := v.TopologySource.Read(e)
	if err != nil {
		return nil, err
	}
	s := &existing{host: h, connect: func() (api.Backend, func() error, error) { return cli.Connect(c, e) }}
	st, err := cli.IdleState(h, v.reserve, "")
	if err != nil {
		return nil, err
	}
	if err := v.policy(c, e, h, &st.Policy); err != nil {
		return nil, err
	}
	for _, name := range v.running {
		text, err := cli.ReadInput(e, name, cli.MaxSpec)
		if err != nil {
			return nil, err
		}
		g, err := e.Libvirt.Guest(h, text)
		if err != nil {
			return nil, cli.Usagef("%s: %w", name, err)
		}
		if slices.ContainsFunc(s.guests, func(o guest.Guest) bool { return o.Spec.ID == g.Spec.ID }) {
			return nil, cli.Usagef("%s: a guest %q was given before", name, g.Name)
		}
		s.guests = append(s.guests, g)
	}
	if !v.elsewhere() {
		if err := cli.SocketAnswers(c, e); err != nil {
			return nil, err
		}
		if s.hypervisor, err = e.Libvirt.Connect(c.Context(), change); err != nil {
			return nil, err
		}
		found, unread, err := s.hypervisor.Guests(c.Context(), h)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		for _, g := range unread {
			if change && g.Running {
				return nil,
					errors.Join(cli.Forbiddenf("%s; it runs, and its CPUs and memory are unknown: homenode changes "+
						"nothing", g.Text), s.close())
			}
			fmt.Fprintf(e.Stderr, "homenode: %s; it does not count\n", cli.OneLine(g.Text))
		}
		s.guests = append(s.guests, found...)
		st.Unmanaged = without(st.Unmanaged, found)
		if s.others, err = DaemonPlaced(c, e, &st, change); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	for i := range s.guests {
		if err := s.wish(e, &s.guests[i]); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	s.policy = st.Policy
	if s.room, err = guest.NewRoom(st, s.guests, v.drives); err != nil {
		return nil, errors.Join(cli.Usagef("--nvme: %w", err), s.close())
	}
	return s, nil
}

// DaemonPlaced adds to a state what a running daemon has placed on this machine, and its partition,
// guests aside; one that only observes has placed nothing. It is what the daemon sees.
func DaemonPlaced(c *cobra.Command, e *cli.Env, st *plan.State, change bool) ([]api.Workload, error) {
	if c.Flags().Lookup("socket") == nil {
		return nil, nil
	}
	d, err := cli.Dial(c, e)
	if errors.Is(err, api.ErrNoDaemon) && !c.Flags().Changed("socket") {
		return nil, nil
	}
	var now api.Status
	if err == nil {
		defer d.Close()
		now, err = d.Status(cli.ContextOf(c))
	}
	if errors.Is(err, fs.ErrPermission) {
		if change {
			return nil, cli.Forbiddenf("the daemon's placements are unknown, so homenode changes nothing: %w", err)
		}
		fmt.Fprintf(e.Stderr, "homenode: what the daemon placed does not count: %s\n", cli.OneLine(err.Error()))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what the daemon placed: %w", err)
	}
	// Guests are known from libvirt.
	now.Workloads = slices.DeleteFunc(now.Workloads, func(w api.Workload) bool { return w.Kind == guest.Kind })
	if now.Mode == "enforce" {
		if _, err = cli.PlacedNow(now, st); err != nil {
			return nil, err
		}
	}
	if c.Flags().Changed("partition") {
		return now.Workloads, nil
	}
	// The daemon's partition may have been moved since it read its configuration.
	partition := plan.AnyClass
	if now.Partition != nil {
		partition = now.Partition.Partition
	}
	return now.Workloads, partition.Apply(st.Host, &st.Policy)
}

// policy is the host's own configuration, with what the command line says over it.
func (v *vmHost) policy(c *cobra.Command, e *cli.Env, h *topology.Host, p *plan.Policy) error {
	if !v.elsewhere() && e.Policy != nil {
		configured, err := e.Policy(h)
		if err != nil {
			return err
		}
		reserved := p.Reserved
		*p = configured
		if c.Flags().Changed("reserve") {
			p.Reserved = reserved
		}
	}
	if c.Flags().Changed("overcommit") {
		if !(v.overcommit >= 1 && v.overcommit <= 100) {
			return cli.Usagef("--overcommit %v; want 1 to 100", v.overcommit)
		}
		p.Overcommit = v.overcommit
	}
	if c.Flags().Changed("partition") {
		if err := plan.Partition(v.partition).Apply(h, p); err != nil {
			return cli.Usagef("--partition %w", err)
		}
	}
	if c.Flags().Changed("memory-overcommit") {
		if p.MemoryOvercommit = v.memory; !(v.memory >= 1 && v.memory <= 10) {
			return cli.Usagef("--memory-overcommit %v; want 1 to 10", v.memory)
		}
		if v.memory > 1 && p.MemoryRatio() == 1 {
			return cli.Usagef("--memory-overcommit %v: want --partition shared with it: the memory of dedicated "+
				"guests must exist", v.memory)
		}
	}
	return nil
}

// without takes what guests hold now out of the memory in use on each node:
// their bookings stand for it. How much of its memory a guest holds is known
// (Resident), where it lies is taken to be as booked.
func without(used []workload.NodeMemory, guests []guest.Guest) []workload.NodeMemory {
	var out []workload.NodeMemory
	for _, m := range used {
		for i := range guests {
			p := &guests[i].Home.Placement
			if total := workload.Total(p.Memory); p.HugePage == 0 && total > 0 {
				here := workload.On(p.Memory, topology.Nodes(m.Node))
				m.KiB -= topology.KiB(float64(guests[i].Resident) * float64(here) / float64(total))
			}
		}
		if m.KiB > 0 {
			out = append(out, m)
		}
	}
	return out
}

// flavorsOut lists flavors. What few of them have is a column only where one of them has it.
func flavorsOut(w io.Writer, p view.Paint, c guest.Catalogue) {
	type column struct {
		head string
		of   func(f *guest.Flavor) string
	}
	rare := []column{
		{"TIER", func(f *guest.Flavor) string {
			if f.Tier == workload.BatchTier { // its class says so
				return ""
			}
			return string(f.Tier)
		}},
		{"OWN CPUS", func(f *guest.Flavor) string { return f.Own.String() }},
		{"REALTIME", func(f *guest.Flavor) string { return f.Realtime.String() }},
		{"CELLS", func(f *guest.Flavor) string {
			var out []string
			for _, cell := range f.Cells {
				out = append(out, cell.VCPUs.String())
			}
			return strings.Join(out, " | ")
		}},
		{"NEAR", func(f *guest.Flavor) string { return workload.NearText(f.Near) }},
		{"SLO", func(f *guest.Flavor) string { return f.SLO }},
	}
	rare = slices.DeleteFunc(rare, func(x column) bool {
		return !slices.ContainsFunc(c, func(f guest.Flavor) bool { return x.of(&f) != "" })
	})
	heads := []string{"FLAVOR", "FAMILY", "CLASS", ">VCPUS", ">MEMORY", ">PAGES", "EMULATOR", ">QUEUES", ">NETWORK",
		">NVME", ">NODES"}
	for _, x := range rare {
		heads = append(heads, x.head)
	}
	t := view.NewTable(heads...).Drops("FAMILY", "QUEUES", "NODES", "NVME", "EMULATOR", "NETWORK")
	for i := range c {
		f := &c[i]
		class := string(f.Class)
		pages := ""
		network := ""
		drives := ""
		nodes := ""
		if f.Tier == workload.BatchTier {
			class = string(workload.Batch)
		}
		if f.HugePage > 0 {
			pages = words.Size(f.HugePage)
		}
		if f.Network > 0 {
			network = words.Size(f.Network) + "/s"
		}
		if f.NVMe > 0 {
			drives = fmt.Sprint(f.NVMe)
		}
		switch {
		case f.ExactNodes > 0:
			nodes = fmt.Sprintf("= %d", f.ExactNodes)
		case f.MaxNodes > 0:
			nodes = fmt.Sprintf("≤ %d", f.MaxNodes)
		}
		row := []string{f.Name, f.Family, class, fmt.Sprint(f.VCPUs), words.Size(f.Memory), pages, string(f.Emulator),
			fmt.Sprint(f.Queues), network, drives, nodes}
		for _, x := range rare {
			row = append(row, x.of(f))
		}
		t.Row(row...)
	}
	t.Print(w, p)
}

func vmFlavorsCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var asYAML, asJSON bool
	c := &cobra.Command{
		Use:   "flavors",
		Short: "List the flavors, the sizes of guests",
		Long: `Lists the flavors, the sizes of guests. --yaml writes the catalogue that ships, as a
start for one of your own; docs/vm.md explains the keys.`,
		Example: `  homenode vm flavors
  homenode vm flavors --yaml > flavors.yaml
  homenode vm flavors --flavors flavors.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asYAML {
				_, err := io.WriteString(view.Raw(e.Stdout), guest.Example)
				return err
			}
			c, err := v.catalogue(e)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, flavorsJSON(c))
			}
			flavorsOut(e.Stdout, e.Paint(), c)
			return nil
		},
	}
	c.Flags().StringVar(&v.flavors, "flavors", "",
		"the catalogue in `FILE` instead of the one that ships (- is standard input)")
	c.Flags().BoolVar(&asYAML, "yaml", false, "write the catalogue that ships")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-vm-flavors/2)")
	c.MarkFlagsMutuallyExclusive("flavors", "yaml")
	c.MarkFlagsMutuallyExclusive("json", "yaml")
	return c
}
