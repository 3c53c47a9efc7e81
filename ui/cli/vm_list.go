package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func vmListCommand(e *Env) *cobra.Command {
	var v vmHost
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List guests and where they are",
		Long: `List the guests that libvirt knows on this host, or those that --running names
on another, and where their definitions put them. HELD BY says who else than
homenode decides where a guest runs: such a guest is left alone.`,
		Example: `  homenode vm list
  homenode vm define --dry-run --flavor g1.large --name app \
    --synthetic "node:2 core:8 pu:2" > app.xml
  homenode vm list --running app.xml --synthetic "node:2 core:8 pu:2"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			s, err := v.read(c, e, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			if asJSON {
				doc := guestsDocument{Schema: "homenode-vm-list/1", Guests: []guestRow{}}
				for i := range s.guests {
					g := &s.guests[i]
					doc.Guests = append(doc.Guests, guestRow{
						g.Name, g.UUID, g.Flavor, g.Spec.Class, g.Spec.CPUs, g.Memory(), g.Home.Placement.Home, g.Home.Placement.CPUs,
						g.Home.Placement.Pins, g.Home.Emulator, g.Running, g.Placed, nil, g.Manual,
					})
					if g.Next != nil {
						doc.Guests[i].Next = &guestHome{g.Next.Placement.Home, g.Next.Placement.CPUs}
					}
				}
				return printJSON(e.Stdout, doc)
			}
			t := view.NewTable("GUEST", "FLAVOR", "CLASS", ">VCPUS", ">MEMORY", "NODES", "CPUS", "STATE", "HELD BY").Drops("FLAVOR", "CLASS", "MEMORY", "VCPUS")
			for i := range s.guests {
				g := &s.guests[i]
				t.Row(g.Name, g.Flavor, string(g.Spec.Class), fmt.Sprint(g.Spec.CPUs), words.Size(g.Memory()),
					g.Home.Placement.Home.String(), g.Home.Placement.CPUs.String(), guestState(g), g.Manual)
			}
			t.Print(e.Stdout, e.paint())
			return nil
		},
	}
	v.flags(c, e)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-vm-list/1)")
	return c
}

type guestsDocument struct {
	Schema string     `json:"schema"`
	Guests []guestRow `json:"guests"` // by rising name
}

type guestRow struct {
	Name     string           `json:"name"`              // in libvirt
	UUID     string           `json:"uuid,omitempty"`    // in libvirt
	Flavor   string           `json:"flavor,omitempty"`  // that it was made of
	Class    workload.Class   `json:"class"`             // what it is promised
	VCPUs    int              `json:"vcpus"`             // of the guest
	Memory   topology.KiB     `json:"memory_kib"`        // KiB of the guest
	Nodes    topology.NodeSet `json:"nodes"`             // of its home
	CPUs     topology.CPUSet  `json:"cpus"`              // that its vCPUs may use
	Pins     []topology.CPUID `json:"pins,omitempty"`    // the CPU of each vCPU of a dedicated guest
	Emulator topology.CPUSet  `json:"emulator_cpus"`     // CPUs of QEMU's own threads
	Running  bool             `json:"running"`           // it runs now
	Placed   bool             `json:"placed"`            // homenode's mark is on it
	Next     *guestHome       `json:"next,omitempty"`    // where it goes at its next start, when that is elsewhere
	Manual   string           `json:"held_by,omitempty"` // who else decides where it runs
}

type guestHome struct {
	Nodes topology.NodeSet `json:"nodes"` // of the home
	CPUs  topology.CPUSet  `json:"cpus"`  // of the home
}

func guestState(g *guest.Guest) string {
	switch {
	case g.Next != nil:
		return fmt.Sprintf("runs; %s, %s at its next start", words.Nodes(g.Next.Placement.Home), words.CPUs(g.Next.Placement.CPUs))
	case g.Running:
		return "runs"
	}
	return "defined"
}
