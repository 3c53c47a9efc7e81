package vm

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func vmListCommand(e *cli.Env) *cobra.Command {
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
				doc := guestsDocument{Schema: "homenode-vm-list/2", Guests: []guestRow{}}
				for i := range s.guests {
					g := &s.guests[i]
					doc.Guests = append(doc.Guests, guestRow{
						g.Name, g.UUID, g.Flavor, g.Class(), g.VCPUs(), g.Memory(), g.Home.Nodes(), g.Home.CPUs(),
						g.Home.Placement.Pins, g.Home.Emulator, g.Running, g.Placed, nil, g.Manual,
					})
					if g.Next != nil {
						doc.Guests[i].Next = &guestHome{g.Next.Nodes(), g.Next.CPUs()}
					}
				}
				return cli.PrintJSON(e.Stdout, doc)
			}
			t := view.NewTable("GUEST", "FLAVOR", "CLASS", ">VCPUS", ">MEMORY", "NODES", "CPUS", "STATE",
				"HELD BY").Drops("FLAVOR", "CLASS", "MEMORY", "VCPUS")
			for i := range s.guests {
				g := &s.guests[i]
				t.Row(g.Name, g.Flavor, string(g.Class()), fmt.Sprint(g.VCPUs()), words.Size(g.Memory()),
					words.Home(g.Home.Nodes(), g.Home.Placement.CachesOn(s.host)), g.Home.CPUs().String(),
					GuestState(g), g.Manual)
			}
			t.Print(e.Stdout, e.Paint())
			return nil
		},
	}
	v.flags(c, e)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-vm-list/2)")
	return c
}

type guestsDocument struct {
	Schema string     `json:"schema"`
	Guests []guestRow `json:"guests"` // guests, by rising name
}

type guestRow struct {
	Name   string           `json:"name"`             // name in libvirt
	UUID   string           `json:"uuid,omitempty"`   // UUID in libvirt
	Flavor string           `json:"flavor,omitempty"` // name of the flavor that it was made of; absent without one
	Class  guest.Class      `json:"class"`            // class: what it is promised
	VCPUs  int              `json:"vcpus"`            // vCPUs of the guest
	Memory topology.KiB     `json:"memory_kib"`       // memory of the guest, KiB
	Nodes  topology.NodeSet `json:"nodes"`            // home nodes
	CPUs   topology.CPUSet  `json:"cpus"`             // CPUs that its vCPUs may use
	// CPU of each vCPU, in the order of the vCPUs; dedicated guests only
	Pins     []topology.CPUID `json:"pins,omitempty"`
	Emulator topology.CPUSet  `json:"emulator_cpus"`     // CPUs of QEMU's own threads
	Running  bool             `json:"running"`           // whether it runs now
	Placed   bool             `json:"placed"`            // whether homenode placed it
	Next     *guestHome       `json:"next,omitempty"`    // where it starts next time, when that is elsewhere
	Manual   string           `json:"held_by,omitempty"` // who else decides where it runs; absent when nobody does
}

type guestHome struct {
	Nodes topology.NodeSet `json:"nodes"` // home nodes
	CPUs  topology.CPUSet  `json:"cpus"`  // CPUs of the home
}

func GuestState(g *guest.Guest) string {
	switch {
	case g.Next != nil:
		return fmt.Sprintf("runs; %s, %s at its next start", words.Nodes(g.Next.Nodes()), words.CPUs(g.Next.CPUs()))
	case g.Running:
		return "runs"
	}
	return "defined"
}
