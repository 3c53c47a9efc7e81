package machine

import (
	"bufio"
	"io"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func TopologyCommand(e *cli.Env) *cobra.Command {
	var from cli.TopologySource
	var asJSON bool
	var svg string
	c := &cobra.Command{
		Use:   "topology",
		Short: "Show the machine: NUMA nodes, CPUs, caches, memory, devices",
		Long: `Shows the machine: packages, NUMA nodes, last-level caches and CPUs, memory and
huge pages, distances between nodes, devices, and irregularities. The default
source is this machine.

0-7+32-39 means that CPU 0 shares a core with CPU 32, 1 with 33, and so on;
0-36:1/4 is every fourth CPU. 3:[12-15] is last-level cache 3 of a node with
several: a home there reads "1, cache 3". In a memory bar █ is in use, ▒ is cache that the
kernel can give back, ░ is free.`,
		Example: `  homenode topology
  homenode topology --synthetic "package:2 node:2 core:8 pu:2" --svg host.svg
  homenode gather host.tar.gz && homenode topology --root host.tar.gz
  homenode topology --json > host.json && homenode topology --host host.json
  lstopo --of xml - | homenode topology --hwloc -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := from.Read(e)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return h.WriteJSON(view.JSON(view.Raw(e.Stdout)))
			case svg == "-":
				return view.TopologySVG(view.XML(view.Raw(e.Stdout)), h)
			case svg != "":
				return cli.WriteFile(svg, func(w io.Writer) error { return view.TopologySVG(w, h) })
			}
			out := bufio.NewWriter(e.Stdout)
			view.TopologyText(out, e.Paint(), h)
			return out.Flush()
		},
	}
	f := c.Flags()
	f.StringVar(&from.Root, "root", "",
		"read sys/ and proc/ under `DIR`, or in a tar file that gather wrote (- is standard input)")
	f.StringVar(&from.Hwloc, "hwloc", "", "read `FILE`, written by lstopo --of xml (- is standard input)")
	f.StringVar(&from.Synthetic, "synthetic", "", "make up a `HOST`, such as \"package:2 node:2 core:8 pu:2\"")
	f.StringVar(&from.Host, "host", "", "read `JSONFILE`, written by topology --json (- is standard input)")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-host/1)")
	f.StringVar(&svg, "svg", "", "draw into `FILE` (- is standard output)")
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host")
	c.MarkFlagsMutuallyExclusive("json", "svg")
	return c
}
