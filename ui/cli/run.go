package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func runCommand(e *Env) *cobra.Command {
	var class, memory string
	var dryRun, asJSON bool
	want := api.Want{}
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Start a command in a home: CPUs and memory of the same node",
		Long: `Finds the node, or the few near nodes, with room for the command, confines it to
their CPUs and memory, says in one line where and why, and becomes the command.
With a daemon the home is written into its ledger; without one, or without the
right to change it, the machine is looked at once. Needs no privilege.`,
		Example: `  homenode run --cpus 2 --memory 100MiB -- sleep 1
  homenode run --dry-run --cpus 4 --memory 2GiB -- make`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && !dryRun {
				return usageErrorf("--json goes with --dry-run")
			}
			if err := fill(&want, class, memory, args[0]); err != nil {
				return err
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return usageErrorf("command %q: %v", args[0], errors.Unwrap(err))
			}
			if !dryRun {
				if want.Process, err = e.Self(); err != nil {
					return err
				}
			}
			home, err := homeFor(c, e, want)
			if err != nil {
				return err
			}
			if dryRun && asJSON {
				return printJSON(e.Stdout, home)
			}
			if dryRun {
				_, err = fmt.Fprintln(e.Stdout, homeLine(home, "would run"))
				return err
			}
			fmt.Fprintln(e.Stderr, "homenode: "+homeLine(home, "runs"))
			return e.Exec(home, path, args)
		},
	}
	f := c.Flags()
	f.StringVar(&class, "class", string(workload.Shared), "dedicated, shared or offline")
	f.IntVar(&want.CPUs, "cpus", 1, "CPUs it wants to keep busy at once, at least 1")
	f.StringVar(&memory, "memory", "", "memory it will hold, such as 2GiB; empty when unknown")
	f.StringSliceVar(&want.Near, "near", nil, "`device` to be near, by kernel name or PCI address; may be repeated")
	f.StringVar(&want.Name, "name", "", "name in the status table (default: the command)")
	f.BoolVar(&dryRun, "dry-run", false, "say where and why, and start nothing")
	f.BoolVar(&asJSON, "json", false, "with --dry-run: print JSON (schema homenode-home/2)")
	f.SetInterspersed(false)
	return c
}

func fill(want *api.Want, class, memory, command string) error {
	var err error
	if want.Class, err = workload.ParseClass(class); err != nil {
		return usageErrorf("--class: %v", err)
	}
	if want.CPUs < 1 || want.CPUs > topology.MaxID {
		return usageErrorf("--cpus %d: want 1 to %d", want.CPUs, topology.MaxID)
	}
	if memory != "" {
		n, err := humanize.ParseBytes(memory)
		switch {
		case strings.HasPrefix(memory, "-"):
			return usageErrorf("--memory %q: want 0 or more", memory)
		case err == nil && n > 1<<60 || err != nil && strings.HasPrefix(err.Error(), "too large"):
			return usageErrorf("--memory %q: want 1 EiB at most", memory)
		case err != nil:
			return usageErrorf("--memory %q: want a number with a unit, such as 2GiB", memory)
		}
		want.MemoryKiB = int64((n + 1023) / 1024)
	}
	if want.Name == "" {
		want.Name = filepath.Base(command)
	}
	return nil
}

// homeFor asks the daemon; a caller that may not change the ledger still gets a
// home, from one look of its own.
func homeFor(c *cobra.Command, e *Env, want api.Want) (api.Home, error) {
	b, done, err := connect(c, e)
	if err == nil {
		defer done()
		home, err := b.Place(contextOf(c), want)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.Forbidden {
			return home, err
		}
	} else if !errors.Is(err, fs.ErrPermission) {
		return api.Home{}, err
	}
	b, done, err = e.Local(contextOf(c), "")
	if err != nil {
		return api.Home{}, err
	}
	defer done()
	return b.Place(contextOf(c), want)
}

func homeLine(h api.Home, verb string) string {
	h = view.PlainAll(h)
	policy := "memory preferred there"
	if h.Bound {
		policy = "memory bound there"
	}
	line := fmt.Sprintf("%s on %s, %s, %s. %s", verb, words.Nodes(h.Nodes), words.CPUs(h.CPUs), policy, h.Why)
	for _, r := range h.Decision.Reasons {
		if r.Code == words.UnknownDevice && r.String() != h.Why {
			line += " " + r.String()
		}
	}
	if !h.Ledger && verb == "runs" {
		line += " (Not in a daemon's ledger.)"
	}
	return line
}
