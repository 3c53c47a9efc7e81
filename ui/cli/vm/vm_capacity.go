package vm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func vmCapacityCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var asJSON, repack bool
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Count how many more guests of each flavor fit",
		Long: `Counts how many more guests of each flavor fit, each flavor by itself, and gives
the reason against one more. NEXT AT is the home of the next one, shown on hosts
whose nodes have several last-level caches. Existing guests count: those of libvirt on this
host, and those named with --running.

--repack also counts how many would fit if homenode moved the guests that it
placed (homenode vm move); dedicated guests move at their next start only.`,
		Example: `  homenode vm capacity --reserve 0,1,40,41 --synthetic \
    "package:2 node:1(memory=192GiB hugepages=2MiB:32768) core:20 pu:2"
  homenode vm flavors --yaml > flavors.yaml
  homenode vm capacity --flavors flavors.yaml --json \
    --synthetic "node:4(memory=128GiB) core:16 pu:2"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			catalogue, err := v.catalogue(e)
			if err != nil {
				return err
			}
			s, err := v.read(c, e, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			counts := s.room.Capacity(catalogue, repack)
			if ratio := s.room.MemoryRatio(); ratio > 1 {
				fmt.Fprintf(e.Stderr, "homenode: %s\n", words.Because(words.MemoryCounted, ratio))
			}
			if asJSON {
				doc := capacityDocument{Schema: "homenode-vm-capacity/3", Flavors: []capacityFlavor{}}
				for _, n := range counts {
					row := capacityFlavor{n.Flavor.Name, n.Now, nil, n.Home, n.Caches, n.Why}
					if repack {
						row.Repacked = &n.Repacked
					}
					doc.Flavors = append(doc.Flavors, row)
				}
				return cli.PrintJSON(e.Stdout, doc)
			}
			headings := []string{"FLAVOR", "CLASS", ">VCPUS", ">MEMORY", ">FIT NOW", "THE NEXT ONE"}
			if repack {
				headings = slices.Insert(headings, 5, ">REPACKED")
			}
			divided := s.host.SplitCaches()
			if divided {
				headings = slices.Insert(headings, len(headings)-1, "NEXT AT")
			}
			t := view.NewTable(headings...).Drops("CLASS", "MEMORY", "VCPUS")
			p := e.Paint()
			said := map[string]string{}
			for _, n := range counts {
				why := n.Why.String()
				if first := said[why]; first != "" && p.Width > 0 { // a pipe has each row whole
					why = "As " + first + "."
				} else {
					said[why] = n.Flavor.Name
				}
				row := []string{n.Flavor.Name, string(n.Flavor.Class), fmt.Sprint(n.Flavor.VCPUs),
					words.Size(n.Flavor.Memory), fits(p, n.Now), why}
				if repack {
					row = slices.Insert(row, 5, fits(p, n.Repacked))
				}
				if divided {
					row = slices.Insert(row, len(row)-1, cli.OrDash(words.Home(n.Home, n.Caches)))
				}
				t.Row(row...)
			}
			t.Print(e.Stdout, p)
			return nil
		},
	}
	v.flags(c, e)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-vm-capacity/3)")
	c.Flags().BoolVar(&repack, "repack", false, "also say how many fit once guests are moved")
	return c
}

// fits is how many guests fit, marked where none does.
func fits(p view.Paint, n int) string {
	if n == 0 {
		return p.Warn("0")
	}
	return p.Bold(fmt.Sprint(n))
}

type capacityDocument struct {
	Schema  string           `json:"schema"`
	Flavors []capacityFlavor `json:"flavors"` // flavors, in the order of the catalogue
}

type capacityFlavor struct {
	Flavor string `json:"flavor"`  // name of the flavor
	Now    int    `json:"fit_now"` // guests of this flavor that fit now
	// guests of this flavor that fit when others may be moved; with --repack
	Repacked *int `json:"fit_repacked,omitempty"`
	// nodes of the next guest of this flavor, in list format; absent where none fits now
	Home string `json:"next_home,omitempty"`
	// last-level caches of that home, in list format; absent means all
	Caches string       `json:"next_caches,omitempty"`
	Why    words.Reason `json:"refused_because"` // why no more fit
}
