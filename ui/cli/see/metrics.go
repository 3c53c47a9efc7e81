package see

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/metrics"
	"github.com/homenode/homenode/ui/view"
)

func MetricsCommand(e *cli.Env) *cobra.Command {
	var textfile string
	c := &cobra.Command{
		Use:   "metrics",
		Short: "Print the daemon's figures for Prometheus",
		Long: `Prints the figures of the daemon once, in the text format of Prometheus: of each
NUMA node, each workload and the daemon itself. docs/metrics.md lists them.

With --textfile they are written into a file instead, whole or not at all, for the
textfile collector of node_exporter; its name ends in .prom. The daemon writes such
a file by itself where its configuration has metrics.textfile.`,
		Example: "  homenode metrics\n  homenode metrics --textfile /var/lib/prometheus/node-exporter/homenode.prom",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("textfile") && filepath.Ext(textfile) != ".prom" {
				return cli.Usagef("--textfile %q: node_exporter reads files that end in .prom", textfile)
			}
			client, err := cli.Dial(c, e)
			if err != nil {
				return err
			}
			defer client.Close()
			text, err := client.Metrics(cli.ContextOf(c))
			switch {
			case err != nil:
				return err
			case textfile == "":
				// for a program: not folded, and nothing in it steers a terminal
				_, err = view.JSON(view.Raw(e.Stdout)).Write(text)
				return err
			}
			if err := metrics.WriteWhole(textfile, text); err != nil {
				return cli.Forbiddenf("write %s: %w", textfile, err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&textfile, "textfile", "", "write `FILE` instead, whole or not at all")
	cli.SocketFlag(c, e)
	return c
}
