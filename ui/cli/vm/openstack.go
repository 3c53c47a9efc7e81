package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/openstack"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
)

func OpenStackCommand(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "openstack",
		Short: "OpenStack Nova: settings, traits and flavors for it",
		Long: `Facts of this host and homenode's flavors in the format of OpenStack Nova.
docs/openstack.md has all steps.`,
		Example: "  homenode openstack export",
		Args:    cobra.NoArgs,
		RunE:    cli.SayWhat,
	}
	c.AddCommand(openstackExportCommand(e))
	return c
}

// The files of an export.
const (
	novaConf     = "nova-compute.conf"
	novaProvider = "provider.yaml"
	novaFlavors  = "flavors.sh"
)

func openstackExportCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var pages []string
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write Nova's settings, traits and flavors for this host",
		Long: `Writes settings of this host for OpenStack Nova, from its partition, its reserve
(or the CPUs of host prepare) and homenode's flavors:

  nova-compute.conf   cpu_dedicated_set, cpu_shared_set, the allocation ratios,
                      reserved_huge_pages: settings of nova-compute
  provider.yaml       traits: CUSTOM_HOMENODE_NODES_n (NUMA nodes with CPUs),
                      CUSTOM_HOMENODE_FARTHEST_n (largest SLIT distance of two),
                      CUSTOM_HOMENODE_BANDWIDTH_n (GiB/s at least, of every node
                      to its own memory, where homenode probe has measured)
  flavors.sh          makes the flavors, with OpenStack's command-line client

They are printed one after the other, or written into the folder --out. Nothing
else is changed. Huge pages that are in use now and not by a guest are reserved;
--reserve-huge-pages says instead which are.`,
		Example: `  homenode openstack export
  homenode openstack export --out /root/nova
  homenode openstack export --partition 4-39,44-79 --reserve 0-3,40-43 \
    --synthetic "package:2 node:1(memory=192GiB) core:20 pu:2"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if dir != "" && asJSON {
				return cli.Usagef("--out and --json: want one")
			}
			catalogue, err := v.catalogue(e)
			if err != nil {
				return err
			}
			s, err := v.read(c, e, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			policy := s.policy
			if !v.elsewhere() && policy.Reserved.Empty() && !c.Flags().Changed("reserve") {
				policy = prepared(e, s.host, policy)
			}
			used := usedPages(s)
			if c.Flags().Changed("reserve-huge-pages") {
				used = nil
				for _, text := range pages {
					p, err := hostprep.ParsePages(s.host, text)
					if err != nil {
						return cli.Usagef("--reserve-huge-pages %w", err)
					}
					used = append(used, openstack.Pages{Node: p.Node, Size: p.Size, Count: p.Count})
				}
			}
			host := openstack.Of(s.host, &policy, used)
			flavors := host.Flavors(s.host, catalogue)
			if asJSON {
				return cli.PrintJSON(e.Stdout, exported{"homenode-openstack/1", host.Dedicated, host.Shared,
					host.Overcommit, host.Memory, orNone(host.Pages), host.Traits, flavors})
			}
			if host.Dedicated.Empty() {
				fmt.Fprintln(e.Stderr,
					"homenode: no CPU is for dedicated guests: Nova needs a partition for both kinds, such as "+
						"homenode host partition 50%")
			}
			files := []struct{ name, text string }{{novaConf, host.Conf()}, {novaProvider, host.Providers()},
				{novaFlavors, openstack.Script(flavors)}}
			if dir == "" {
				for i, f := range files {
					if i > 0 {
						fmt.Fprintln(e.Stdout)
					}
					if _, err := io.WriteString(e.Stdout, "### "+f.name+"\n"+f.text); err != nil {
						return err
					}
				}
				return nil
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return cli.Forbiddenf("%w", err)
			}
			for _, f := range files {
				if err := cli.WriteText(filepath.Join(dir, f.name), f.text); err != nil {
					return err
				}
				fmt.Fprintln(e.Stdout, "wrote", words.Printable(filepath.Join(dir, f.name)))
			}
			return nil
		},
	}
	v.flags(c, e)
	c.Flags().StringArrayVar(&pages, "reserve-huge-pages", nil,
		"`NODE:SIZE:COUNT` huge pages that Nova keeps off, such as 0:2MiB:1024; may be repeated")
	c.Flags().StringVar(&dir, "out", "", "write the files into `FOLDER`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-openstack/1)")
	return c
}

// exported is what OpenStack Nova is to know of a host.
type exported struct {
	Schema string `json:"schema"`
	// CPUs for guests with CPUs of their own; empty when there are none
	Dedicated  topology.CPUSet    `json:"cpu_dedicated_set"`
	Shared     topology.CPUSet    `json:"cpu_shared_set"`       // CPUs for guests that float; empty when there are none
	Overcommit float64            `json:"cpu_allocation_ratio"` // vCPUs of those that one CPU may carry
	Memory     float64            `json:"ram_allocation_ratio"` // times that memory is promised
	Pages      []openstack.Pages  `json:"reserved_huge_pages"`  // huge pages that others than guests use
	Traits     []string           `json:"traits"`               // traits of the host
	Flavors    []openstack.Flavor `json:"flavors"`              // flavors, in the order of the catalogue
}

func orNone(pages []openstack.Pages) []openstack.Pages {
	if pages == nil {
		return []openstack.Pages{}
	}
	return pages
}

// prepared is a policy with the reserve that host prepare left: the CPUs of system.slice.
func prepared(e *cli.Env, h *topology.Host, p plan.Policy) plan.Policy {
	facts := hostprep.Read(e.Root, h, []string{"system.slice"}, nil)
	if len(facts.Slices) == 0 || facts.Slices[0].CPUs == "" {
		return p
	}
	cpus, err := topology.ParseCPUSet(facts.Slices[0].CPUs)
	if err != nil || hostprep.CheckReserve(h, cpus) != nil {
		return p
	}
	p.Reserved = cpus
	fmt.Fprintf(e.Stderr,
		"homenode: reserved are CPUs %s, those of system.slice; reserve: in the configuration names none\n", cpus)
	return p
}

// usedPages is the huge pages in use by others than the guests that run.
func usedPages(s *existing) []openstack.Pages {
	var out []openstack.Pages
	for _, n := range s.host.Nodes {
		for _, pool := range n.HugePages {
			used := pool.Total - pool.Free
			if pool.Free < 0 {
				continue
			}
			for i := range s.guests {
				if !s.guests[i].Running {
					continue
				}
				for _, p := range s.guests[i].Holds() {
					for _, m := range p.Memory {
						if m.Node == n.ID && p.HugePage == pool.Size {
							used -= int64(m.KiB / pool.Size)
						}
					}
				}
			}
			if used > 0 {
				out = append(out, openstack.Pages{Node: n.ID, Size: pool.Size, Count: used})
			}
		}
	}
	return out
}
