package vm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

func vmLimitCommand(e *cli.Env) *cobra.Command {
	var catalogue vmHost
	var flavor, network, rate string
	var iops int64
	var dryRun bool
	c := &cobra.Command{
		Use:   "limit NAME",
		Short: "Limit the bandwidth of a guest's NICs and disks",
		Long: `Sets limits of each NIC and each disk of a guest, while it runs and in its
definition: the limits of a flavor (--flavor), whose disk limit depends on the
size of the volume, or single ones. 0 is no limit; other limits stay. Homenode
sets all or none, and homenode undo vm:NAME restores the old limits.`,
		Example: `  homenode vm limit web1 --flavor c1.xlarge
  homenode vm limit web1 --network 100MiB --dry-run
  homenode vm limit web1 --iops 2000 --rate 200MiB`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			limits, err := limitsOf(c, e, &catalogue, flavor, network, rate, iops)
			if err != nil {
				return err
			}
			h, err := e.Libvirt.Connect(c.Context(), !dryRun)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			name, err := guestName(c, e, h, args[0])
			if err != nil {
				return err
			}
			lines, err := h.Limits(c.Context(), name, limits)
			if err != nil {
				return err
			}
			if len(lines) == 0 {
				_, err = fmt.Fprintf(e.Stdout, "%s has nothing that could be limited so.\n", name)
				return err
			}
			if dryRun {
				_, err = fmt.Fprintln(e.Stdout, strings.Join(lines, "\n")+"\nNothing was changed.")
				return err
			}
			s := &existing{hypervisor: h,
				connect: func() (api.Backend, func() error, error) { return cli.Connect(c, e) }}
			step := plan.Step{Kind: plan.SetLimits, Workload: guest.ID(name), Target: plan.Target{Kind: guest.Kind},
				To: limits.String()}
			if err := s.change(c.Context(), []plan.Step{step}, "homenode vm limit."); err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Stdout, strings.Join(lines, "\n"))
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&flavor, "flavor", "", "the limits of `FLAVOR`")
	f.StringVar(&catalogue.flavors, "flavors", "",
		"the catalogue in `FILE` instead of the one that ships (- is standard input)")
	f.StringVar(&network, "network", "", "`SIZE` a second for each NIC, each way; 0 is no limit")
	f.StringVar(&rate, "rate", "", "`SIZE` a second for each disk")
	f.Int64Var(&iops, "iops", 0, "operations a second for each disk")
	f.BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be set")
	cli.SocketFlag(c, e)
	return c
}

// guestName is the name of the guest that is meant; one that nobody knows is libvirt's to refuse.
func guestName(c *cobra.Command, e *cli.Env, h cli.Hypervisor, asked string) (string, error) {
	host, err := (&cli.TopologySource{}).Read(e)
	if err != nil {
		return "", err
	}
	all, _, err := h.Guests(c.Context(), host)
	if err != nil {
		return "", err
	}
	if g, err := (&existing{guests: all}).find(asked); err == nil {
		return g.Name, nil
	}
	return asked, nil
}

// limitsOf reads the flags; single ones go over those of the flavor.
func limitsOf(c *cobra.Command, e *cli.Env, v *vmHost, flavor, network, rate string,
	iops int64) (l guest.Limits, err error) {
	if flavor != "" {
		all, err := v.catalogue(e)
		if err != nil {
			return l, err
		}
		f, err := all.Find(flavor)
		if err != nil {
			return l, cli.Usagef("%w", err)
		}
		l.Network = &f.Network
		l.Burst = f.NetworkBurst
		l.Disk = &f.Disk
	}
	size := func(flag, text string) (topology.KiB, error) {
		if text == "0" {
			return 0, nil
		}
		n, err := workload.ParseSize(text)
		if err != nil || n < 1 || n > 1<<32-1 {
			return 0, cli.Usagef("--%s %q; want a size up to 4TiB, such as 100MiB, or 0 for no limit", flag, text)
		}
		return n, nil
	}
	if c.Flags().Changed("network") {
		n, err := size("network", network)
		if err != nil {
			return l, err
		}
		l.Network, l.Burst = &n, guest.Burst{}
	}
	if c.Flags().Changed("rate") || c.Flags().Changed("iops") {
		d := guest.DiskLimit{}
		if l.Disk != nil {
			d = *l.Disk
		}
		if c.Flags().Changed("rate") {
			if d.Rate, err = size("rate", rate); err != nil {
				return l, err
			}
			d.RatePerGiB = 0
			d.MostRate = 0
			d.BurstRate = 0
		}
		if c.Flags().Changed("iops") {
			if iops < 0 || iops > 1<<40 {
				return l, cli.Usagef("--iops %d; want 0 (no limit) or more", iops)
			}
			d.IOPS = iops
			d.IOPSPerGiB = 0
			d.MostIOPS = 0
			d.BurstIOPS = 0
		}
		l.Disk = &d
	}
	if l.Network == nil && l.Disk == nil {
		return l, cli.Usagef("say what to limit: --flavor, --network, --rate or --iops")
	}
	return l, nil
}
