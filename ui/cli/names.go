package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
)

// namesText says how a workload is named on the command line (workload.Find).
const namesText = "NAME is an ID that `homenode status` prints, a PID (of any process or thread of\n" +
	`the workload), a cgroup (with or without /sys/fs/cgroup), a systemd unit, the ID
of a container or its first characters, the name or UUID of a guest, or the name
of a program. Where several workloads fit, all are listed and nothing is done.`

// oneWorkload takes the name of one workload. Who gives none is told some that there are.
func oneWorkload(e *Env) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cmp.Or(cobra.ExactArgs(1)(c, args), checkName(args[0]))
		}
		names := "`homenode status` lists them"
		if some := soon(c, moment, func(ctx context.Context) []string { return someNames(ctx, c, e) }); len(some) > 0 {
			names = "such as " + strings.Join(some, " or ") + "; " + names
		}
		return misused(c, "say which workload, "+names)
	}
}

// someNames is up to three workloads by names that can be typed, those first that have a name
// of their own.
func someNames(ctx context.Context, c *cobra.Command, e *Env) []string {
	b, done, err := connect(c, e)
	if err != nil {
		return nil
	}
	defer done()
	if client, ok := b.(*api.Client); ok {
		client.Waiting = nil // bad input is told in one line
	}
	s, err := b.Status(ctx)
	if err != nil {
		return nil
	}
	var named, pids []string
	for name := range toType(s.Workloads, "") {
		if strings.HasPrefix(name, "pid:") {
			pids = append(pids, name)
		} else {
			named = append(named, name)
		}
	}
	out := append(named, pids...)
	return out[:min(len(out), 3)]
}

// longestName is the longest path that the kernel takes (PATH_MAX); no ID is longer.
const longestName = 4096

// checkName refuses what no workload can be called.
func checkName(name string) error {
	switch {
	case name == "":
		return usageErrorf("the name of the workload is empty")
	case len(name) > longestName:
		return usageErrorf("a name of %d bytes; no workload has one of more than %d", len(name), longestName)
	}
	return nil
}
