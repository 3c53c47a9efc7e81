package tree

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/docs"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/cli/vm"
)

// completeWithin is how long a shell waits for values at most: who asks for them is in the
// midst of a line.
const completeWithin = 300 * time.Millisecond

// completer gives what may stand where a line is completed: values, each with a tab and a
// description or without.
type completer = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// complete gives every command of the tree the values of its arguments and flags. Files are
// offered where a file belongs, and nowhere else.
func complete(e *cli.Env, root *cobra.Command) {
	values := flagValues()
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Parent() == root && (c.Name() == "completion" || strings.HasPrefix(c.Name(), "__")) {
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch name, takes := c.Name()+" --"+f.Name, Takes(f); {
			case takes == "":
			case values[name] != nil:
				c.RegisterFlagCompletionFunc(f.Name, values[name])
			case takes == "NODES", takes == "NODE":
				c.RegisterFlagCompletionFunc(f.Name, nodeIDs(e))
			case values["--"+f.Name] != nil:
				c.RegisterFlagCompletionFunc(f.Name, values["--"+f.Name])
			case f.Name == "state-dir":
				c.RegisterFlagCompletionFunc(f.Name,
					func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
						return nil, cobra.ShellCompDirectiveFilterDirs
					})
			case takes != "FILE" && takes != "FOLDER" && takes != "SOCKET" && takes != "HOST":
				c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
			}
		})
		switch c.CommandPath() {
		case "homenode explain", "homenode share explain", "homenode move", "homenode undo", "homenode resume",
			"homenode history", "homenode stat":
			c.ValidArgsFunction = onlyFirst(workloads(e))
		case "homenode status":
			c.ValidArgsFunction = workloads(e)
		case "homenode vm move", "homenode vm release", "homenode vm limit":
			c.ValidArgsFunction = onlyFirst(guests(e))
		case "homenode vm adopt":
			c.ValidArgsFunction = guests(e)
		case "homenode host partition":
			c.ValidArgsFunction = onlyFirst(fixed("any\tno line: all CPUs are for both",
				"shared\tno CPU is for dedicated work", "dedicated\tall CPUs are for dedicated work"))
		case "homenode help":
			c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string,
				cobra.ShellCompDirective) {
				of, _, err := c.Root().Find(args)
				if err != nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				var out []string
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() {
						out = append(out, sub.Name()+"\t"+sub.Short)
					}
				}
				if len(args) == 0 {
					out = append(out, topicsWord+"\tList the topics")
					for _, topic := range docs.Topics() {
						out = append(out, topic.Name+"\t"+topic.Title)
					}
				}
				return fixed(out...)(c, args, begun)
			}
		case "homenode run", "homenode gather", "homenode replay", "homenode probe diff": // programs and files
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
}

// flagValues is the values of flags, by "--flag" or "command --flag".
func flagValues() map[string]completer {
	class := fixed("dedicated\tCPUs and memory of its own", "shared\tthe shared CPUs of its home",
		"batch\twhat the others leave idle")
	kinds := make([]string, len(plan.EventKinds))
	for i, k := range plan.EventKinds {
		kinds[i] = string(k)
	}
	return map[string]completer{
		"--mode":          fixed("observe\tscan and recommend", "enforce\tact"),
		"--class":         severalOf(class),
		"run --class":     class,
		"--sort":          fixed(see.SortKeys...),
		"--state":         severalOf(fixed(see.States...)),
		"history --kind":  severalOf(fixed(kinds...)),
		"--since":         fixed("10m\tten minutes ago", "1h\tan hour ago", "1d\ta day ago", "1w\ta week ago"),
		"--until":         fixed("10m\tten minutes ago", "1h\tan hour ago", "1d\ta day ago"),
		"--watch":         fixed("1s", "2s", "5s", "10s"),
		"--flavor":        flavors,
		"--scenario":      fixed(slices.Concat(sim.Scenarios, sim.Other)...),
		"--generate":      fixed(sim.Kinds...),
		"sim --policy":    severalOf(fixed(sim.Policies...)),
		"replay --policy": fixed(balance.Policies...),
		"--what-if":       severalOf(fixed(balance.Policies...)),
		"--packing":       fixed("adaptive", "pack", "spread"),
		"--pages":         fixed("thp", "4k", "1g"),
		"--from":          fixed("cores", "nodes"),
		"--mix":           severalOf(fixed(measure.Mixes...)),
		"--line-on":       fixed("first", "node", "both"),
		"--format":        fixed("numactl", "hwloc", "csv"),
		"--partition":     fixed("any", "shared", "dedicated"),
	}
}

// fixed is these values, of which those are offered that go on as begun.
func fixed(values ...string) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, v := range values {
			if strings.HasPrefix(v, begun) {
				out = append(out, v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// severalOf is values separated by commas.
func severalOf(one completer) completer {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		i := strings.LastIndexByte(begun, ',') + 1
		out, directive := one(c, args, begun[i:])
		for k := range out {
			out[k] = begun[:i] + out[k]
		}
		return out, directive
	}
}

// onlyFirst is values for the first argument.
func onlyFirst(of completer) completer {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(c, args, begun)
	}
}

// workloads is those of the daemon: cgroups by their units where those are unique.
func workloads(e *cli.Env) completer {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return fixed(cli.Soon(c, completeWithin, func(ctx context.Context) []string {
			b, err := cli.Dial(c, e)
			if err != nil {
				return nil
			}
			defer b.Close()
			s, err := b.Status(ctx)
			if err != nil {
				return nil
			}
			var out []string
			for value, w := range cli.ToType(s.Workloads, begun) {
				about := fmt.Sprintf("%s, %s, %s", w.Class, cli.KiB(w.MemoryKiB), w.State)
				if strings.HasPrefix(value, "pid:") {
					about = w.Name + ", " + about
				}
				if !slices.Contains(args, value) {
					out = append(out, value+"\t"+words.Printable(about))
				}
			}
			return out
		})...)(c, args, begun)
	}
}

// guests is those that libvirt knows.
func guests(e *cli.Env) completer {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return fixed(cli.Soon(c, completeWithin, func(ctx context.Context) []string {
			host, err := (&cli.TopologySource{}).Read(e)
			if err != nil || e.Libvirt == nil {
				return nil
			}
			h, err := e.Libvirt.Connect(ctx, false)
			if err != nil {
				return nil
			}
			defer h.Close()
			all, _, err := h.Guests(ctx, host)
			if err != nil {
				return nil
			}
			var out []string
			for i := range all {
				g := &all[i]
				if cli.PlainToType(g.Name) && !slices.Contains(args, g.Name) {
					out = append(out, fmt.Sprintf("%s\t%s, %s, %s", g.Name, g.Spec.Class, words.Size(g.Memory()),
						vm.GuestState(g)))
				}
			}
			return out
		})...)(c, args, begun)
	}
}

// flavors is those that ship.
func flavors(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	all, err := guest.ReadCatalogue(strings.NewReader(guest.Example), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, f := range all {
		out = append(out, fmt.Sprintf("%s\t%s, %s, %s", f.Name, f.Class, words.Count(f.VCPUs, "vCPU"),
			words.Size(f.Memory)))
	}
	return fixed(out...)(c, args, begun)
}

// nodeIDs is the nodes of this machine.
func nodeIDs(e *cli.Env) completer {
	return severalOf(func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		var out []string
		if b, err := fs.ReadFile(e.Root, "sys/devices/system/node/online"); err == nil {
			if nodes, err := topology.ParseNodeSet(strings.TrimSpace(string(b))); err == nil {
				for _, n := range nodes.Slice() {
					out = append(out, fmt.Sprint(n))
				}
			}
		}
		return fixed(out...)(c, args, begun)
	})
}
