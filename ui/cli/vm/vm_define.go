package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"unicode"

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

// defineFlags is what the command line of vm define says.
type defineFlags struct {
	v      vmHost
	orders orderFlags
	arch   string

	dryRun, why, emulated, asJSON bool
}

func vmDefineCommand(e *cli.Env) *cobra.Command {
	var o defineFlags
	c := &cobra.Command{
		Use:   "define --flavor FLAVOR --name NAME",
		Short: "Write a guest for libvirt, placed on this host",
		Long: `Place a new guest and define it in libvirt: complete domain XML with its pins,
memory binding, topology and limits. The guest is not started.

--dry-run changes nothing and writes the XML to standard output; with it any
host can be meant, and --running names guests that are there already.

--disk PATH[,format=raw|qcow2][,size=SIZE] adds a virtio disk; size is that of
the volume, by which the flavor's disk limit grows. --nic bridge=NAME,
network=NAME or direct=NAME, each with ,mac=ADDRESS if wanted, adds a virtio
NIC.

Exit status 1 means that the guest does not fit; the line says why.`,
		Example: `  homenode vm define --flavor c1.xlarge --name web1 --dry-run --why \
    --reserve 0,1,40,41 \
    --synthetic "package:2 node:1(memory=96GiB) core:20 pu:2"
  homenode vm define --flavor g1.large --name app --nic bridge=br0 --dry-run \
    --disk /var/lib/libvirt/images/app.qcow2,size=40GiB \
    --synthetic "node:2 core:8 pu:2"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, e) },
	}
	o.v.flags(c, e)
	o.orders.flags(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "change nothing, write the XML to standard output")
	c.Flags().BoolVar(&o.why, "why", false, "say on standard error why it goes there")
	c.Flags().StringVar(&o.arch, "arch", "",
		"`ARCHITECTURE` of the guest: x86_64 or aarch64; this machine's when not given")
	c.Flags().BoolVar(&o.emulated, "emulated", false, "for a host without KVM: slow")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, the XML in it (schema homenode-vm-define/3)")
	return c
}

// run places a new guest and defines it, or writes what would be defined.
func (o *defineFlags) run(c *cobra.Command, e *cli.Env) (err error) {
	if o.v.elsewhere() && !o.dryRun {
		return cli.Usagef("a guest can be defined on this host only: add --dry-run to see the XML for another")
	}
	if !o.dryRun && len(o.v.running) > 0 {
		return cli.Usagef("--running is for --dry-run: without it homenode asks libvirt for the guests of this host")
	}
	catalogue, err := o.v.catalogue(e)
	if err != nil {
		return err
	}
	wanted, err := o.orders.order(catalogue)
	if err != nil {
		return err
	}
	s, err := o.v.read(c, e, !o.dryRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if !o.v.elsewhere() {
		for _, d := range wanted.Disks {
			if _, err := fs.Stat(e.Root, strings.TrimPrefix(d.Source, "/")); errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(e.Stderr, "homenode: --disk %s is not there; the guest needs it to start\n",
					words.Printable(d.Source))
			}
		}
	}
	s.locate(wanted.Flavor.Near)
	s.locate(wanted.Near)
	if !o.why || o.asJSON { // else its reasons say it
		s.absent(e, slices.Concat(wanted.Flavor.Near, wanted.Near))
	}
	home, d := s.room.Place(wanted)
	if d.Outcome != plan.Placed {
		return refusal(&d)
	}
	if o.arch == "" {
		o.arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	}
	xml, err := e.Libvirt.New(s.host, wanted, home, o.arch, o.emulated)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if o.asJSON {
		doc := defined{"homenode-vm-define/3", wanted.Name, wanted.Flavor.Name, !o.dryRun, api.Planned(&home.Placement),
			nil, d.Reasons, string(xml)}
		for _, p := range home.Beside() {
			doc.Beside = append(doc.Beside, api.Planned(&p))
		}
		if !o.dryRun {
			if err := define(c, e, s, wanted, &home, xml); err != nil {
				return err
			}
		}
		return cli.PrintJSON(e.Stdout, doc)
	}
	if o.why {
		for _, r := range d.Reasons {
			fmt.Fprintln(e.Stderr, r)
		}
	} else if i := slices.IndexFunc(d.Reasons,
		func(r words.Reason) bool { return r.Code == words.MemoryPromised }); i >= 0 {
		fmt.Fprintf(e.Stderr, "homenode: %s\n", d.Reasons[i])
	}
	if o.dryRun {
		_, err := bytes.NewReader(xml).WriteTo(view.XML(view.Raw(e.Stdout)))
		return err
	}
	if err := define(c, e, s, wanted, &home, xml); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Stdout, "%s is defined: %s, %s. Start it with: virsh start %s\n", wanted.Name,
		words.Nodes(home.Nodes()), words.CPUs(home.CPUs()), wanted.Name)
	return err
}

// define tells libvirt.
func define(c *cobra.Command, e *cli.Env, s *existing, o *guest.Order, home *guest.Home, xml []byte) error {
	back, err := clear(c, e, s, o.Name, home)
	if err != nil {
		return err
	}
	if err := s.hypervisor.Define(c.Context(), xml); err != nil {
		back()
		return err
	}
	return nil
}

// defined is a guest that was, or with --dry-run would be, made known to libvirt.
type defined struct {
	Schema    string            `json:"schema"`
	Name      string            `json:"name"`      // name of the guest
	Flavor    string            `json:"flavor"`    // name of the flavor
	Defined   bool              `json:"defined"`   // whether libvirt has it now; false with --dry-run
	Placement api.PlanPlacement `json:"placement"` // where the guest is placed
	// what is kept for it beside its home: CPUs of single vCPUs or of the emulator, memory in pages of another size
	Beside  []api.PlanPlacement `json:"beside,omitempty"`
	Reasons []words.Reason      `json:"reasons"` // reasons, the weightiest first
	XML     string              `json:"xml"`     // definition for libvirt (domain XML)
}

// clear makes floating guests leave the CPUs of a home before somebody comes to
// it. back lets them return when nobody comes; after an error they have returned.
func clear(c *cobra.Command, e *cli.Env, s *existing, name string, home *guest.Home) (back func(), err error) {
	type left struct {
		guest guest.Guest // where it is now
		was   guest.Home
	}
	var gone []left
	back = func() {
		ctx := context.WithoutCancel(c.Context()) // what was interrupted is not left half done
		for _, g := range gone {
			steps, _ := g.guest.Steps(g.was)
			if err := s.change(ctx, steps, fmt.Sprintf("%s does not come.", name)); err != nil {
				fmt.Fprintf(e.Stderr,
					"homenode: %s left CPUs of %s and does not come back: %s; homenode vm move %s gives it a home "+
						"again\n", g.guest.Name, name, cli.OneLine(err.Error()), g.guest.Name)
			}
		}
	}
	for _, p := range home.Others {
		i := slices.IndexFunc(s.guests, func(g guest.Guest) bool { return g.Spec.ID == p.Workload })
		if i < 0 {
			fmt.Fprintf(e.Stderr,
				"homenode: CPUs of %s overlap with %s for now; the daemon moves %s off them within one period\n", name,
				p.Workload, p.Workload)
			continue
		}
		g := &s.guests[i]
		if !g.Placed || g.Manual != "" {
			fmt.Fprintf(e.Stderr,
				"homenode: %s may run on CPUs of %s too: it is not homenode's to move (see homenode vm list, vm "+
					"adopt)\n", g.Name, name)
			continue
		}
		steps, now := g.Steps(guest.Home{Placement: p})
		if err := s.change(c.Context(), steps, fmt.Sprintf("%s comes to CPUs of it.", name)); err != nil {
			back()
			return nil, fmt.Errorf("has to leave CPUs of %s: %w", name, err)
		}
		was := g.Home
		if !now && g.Next != nil {
			was = *g.Next
		}
		moved := *g
		if now {
			moved.BoundCPUs, moved.BoundNodes = p.CPUs, p.MemoryNodes()
		}
		gone = append(gone, left{moved, was})
		if !now {
			fmt.Fprintf(e.Stderr, "homenode: %s leaves CPUs of %s at its next start only\n", g.Name, name)
		}
	}
	return back, nil
}

// refusal is the answer "no", with why, in one line.
func refusal(d *plan.Decision) error {
	return cli.Nof("%s is refused: %s", d.Workload, words.Join(d.Reasons))
}

// orderFlags is the flags that say what is ordered.
type orderFlags struct {
	flavor, name, uuid, nodes string
	only, cpu, graphics       string
	exact                     int
	disks, nics, near         []string
	maxNodes                  int
	exactGiven                func() bool
}

func (o *orderFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.flavor, "flavor", "", "flavor `NAME`; homenode vm flavors lists them")
	f.StringVar(&o.name, "name", "", "`NAME` of the guest")
	f.StringVar(&o.uuid, "uuid", "", "`UUID` of the guest; libvirt chooses one when not given")
	f.StringArrayVar(&o.disks, "disk", nil, "`DISK` of the guest: PATH[,format=raw|qcow2][,size=SIZE]; may be repeated")
	f.StringArrayVar(&o.nics, "nic", nil,
		"`NIC` of the guest: bridge=NAME[,mac=ADDRESS], network=NAME or direct=NAME; may be repeated")
	f.StringVar(&o.nodes, "nodes", "", "only these `NODES`, such as 0-1")
	f.IntVar(&o.maxNodes, "max-nodes", 0, "at most `N` nodes, in place of what the flavor says")
	f.StringVar(&o.only, "only-nodes", "",
		"the `NODES` it may use for good, also when it moves; the flavor's when not given")
	f.IntVar(&o.exact, "exact-nodes", 0, "be on exactly `N` nodes, in equal parts")
	o.exactGiven = func() bool { return f.Changed("exact-nodes") }
	cli.NearFlag(f, &o.near)
	f.StringVar(&o.cpu, "cpu-model", "",
		"CPU `MODEL` that the guest sees: host-model, maximum or a name; the host's own CPU when not given")
	f.StringVar(&o.graphics, "graphics", "", "`CONSOLE` on 127.0.0.1: vnc or spice; a serial one there is always")
	_ = c.MarkFlagRequired("flavor")
	_ = c.MarkFlagRequired("name")
}

func (o *orderFlags) order(catalogue guest.Catalogue) (*guest.Order, error) {
	out := &guest.Order{Name: o.name, UUID: o.uuid, MaxNodes: o.maxNodes}
	var err error
	if out.Flavor, err = catalogue.Find(o.flavor); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	if err := guest.CheckName(o.name); err != nil {
		return nil, cli.Usagef("--name: %w", err)
	}
	if strings.ContainsAny(o.name, cli.ForShells) {
		return nil, cli.Usagef("--name: name: %q; want none of %s: a shell or XML takes them for its own", o.name,
			cli.ForShells)
	}
	if out.UUID, err = guest.ParseUUID(o.uuid); err != nil {
		return nil, cli.Usagef("--uuid: %w", err)
	}
	if out.Nodes, err = topology.ParseNodeSet(o.nodes); err != nil {
		return nil, cli.Usagef("--nodes: %w", err)
	}
	if out.Only, err = topology.ParseNodeSet(o.only); err != nil {
		return nil, cli.Usagef("--only-nodes: %w", err)
	}
	if out.Near, err = cli.ParseNear(o.near); err != nil {
		return nil, err
	}
	switch f := &out.Flavor; {
	case len(out.Near) > 0 && f.Tier == workload.BatchTier:
		return nil, cli.Usagef("--near: a batch guest has no home to be near something")
	case o.exactGiven() && (o.exact < 1 || o.exact > f.VCPUs):
		return nil, cli.Usagef("--exact-nodes %d; want 1 to as many as there are vCPUs (%d)", o.exact, f.VCPUs)
	case o.exact > 0 && (o.maxNodes > 0 || f.Composed() != nil):
		return nil, cli.Usagef("--exact-nodes: want no --max-nodes with it, and no flavor with cells or of class mixed")
	case o.exact > 0:
		out.Exact, f.MaxNodes = o.exact, 0
	}
	if o.cpu != "" && strings.ContainsFunc(o.cpu, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}) {
		return nil,
			cli.Usagef("--cpu-model %q; want host-model, maximum or the name of a model, such as Skylake-Server "+
				"(virsh cpu-models lists them)", o.cpu)
	}
	if o.graphics != "" && o.graphics != "vnc" && o.graphics != "spice" {
		return nil, cli.Usagef("--graphics %q; want vnc or spice", o.graphics)
	}
	out.CPU, out.Graphics = o.cpu, o.graphics
	if o.maxNodes < 0 {
		return nil, cli.Usagef("--max-nodes %d; want 0 or more", o.maxNodes)
	}
	for _, text := range o.disks {
		d, err := guest.ParseDisk(text)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		if slices.ContainsFunc(out.Disks, func(o guest.Disk) bool { return o.Source == d.Source }) {
			return nil, cli.Usagef("disk %q: given twice; two disks on one file destroy it", d.Source)
		}
		out.Disks = append(out.Disks, d)
	}
	for _, text := range o.nics {
		n, err := guest.ParseNIC(text)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		out.NICs = append(out.NICs, n)
	}
	return out, nil
}
