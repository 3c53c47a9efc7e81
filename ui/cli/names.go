package cli

import (
	"cmp"
	"context"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// NamesText says how a workload is named on the command line (workload.Find).
const NamesText = "NAME is an ID that `homenode status` prints, a PID (of any process or thread of\n" +
	`the workload), a cgroup (with or without /sys/fs/cgroup), a systemd unit, the ID
of a container or its first characters, the name or UUID of a guest, or the name
of a program. Where several workloads fit, all are listed and nothing is done.`

// OneWorkload takes the name of one workload. Who gives none is told some that there are.
func OneWorkload(e *Env) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return cmp.Or(cobra.ExactArgs(1)(c, args), CheckName(args[0]))
		}
		names := "`homenode status` lists them"
		if some := Soon(c, Moment, func(ctx context.Context) []string { return someNames(ctx, c, e) }); len(some) > 0 {
			names = "such as " + strings.Join(some, " or ") + "; " + names
		}
		return Misused(c, "say which workload, "+names)
	}
}

// someNames is up to three workloads by names that can be typed, those first that have a name
// of their own.
func someNames(ctx context.Context, c *cobra.Command, e *Env) []string {
	b, done, err := Connect(c, e)
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
	for name := range ToType(s.Workloads, "") {
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

// CheckName refuses what no workload can be called.
func CheckName(name string) error {
	switch {
	case name == "":
		return Usagef("the name of the workload is empty")
	case len(name) > longestName:
		return Usagef("a name of %d bytes; no workload has one of more than %d", len(name), longestName)
	}
	return nil
}

// Soon is what a call that may hang has to say in time; nothing otherwise.
func Soon(c *cobra.Command, within time.Duration, call func(context.Context) []string) []string {
	ctx, cancel := context.WithTimeout(ContextOf(c), within)
	defer cancel()
	answer := make(chan []string, 1)
	go func() { answer <- call(ctx) }()
	select {
	case out := <-answer:
		return out
	case <-ctx.Done():
		return nil
	}
}

// ToType is workloads by names that can be typed: cgroups by their units where those are
// unique, and what was begun is no path.
func ToType(all []api.Workload, begun string) iter.Seq2[string, *api.Workload] {
	return func(yield func(string, *api.Workload) bool) {
		units := map[string]int{}
		for i := range all {
			units[path.Base(string(all[i].ID))]++
		}
		for i := range all {
			name := string(all[i].ID)
			if unit := path.Base(name); strings.HasPrefix(name, "/") && units[unit] == 1 &&
				!strings.HasPrefix(begun, "/") {
				name = unit
			}
			if PlainToType(name) && !yield(name, &all[i]) {
				return
			}
		}
	}
}

// ForShells is what a shell takes for more than text.
const ForShells = "\"'`$&|;<>()*?[]{}!#~^%"

// PlainToType reports whether a name may go onto a command line as it is. What several names begin
// with is put there by bash without quotes, and the next key evaluates the line: users choose
// the names of their cgroups.
func PlainToType(name string) bool {
	return !strings.HasPrefix(name, "-") && words.Printable(name) == name && !strings.ContainsAny(name, " "+ForShells)
}

// NearFlag says what something is to be near to.
func NearFlag(f *pflag.FlagSet, near *[]string) {
	f.StringArrayVar(near, "near", nil,
		"what to be near: a `DEVICE` by kernel name or PCI address, process=NAME or service=NAME; ,policy=required "+
			"refuses any other home, ,policy=socket one on another socket; may be repeated")
}

func ParseNear(texts []string) ([]workload.Near, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if slices.Contains(texts, "none") {
		return nil,
			Usagef("--near none: only homenode vm place takes it, and with no other --near; a device of that name is " +
				"device=none")
	}
	near, err := workload.ParseNear(strings.Join(texts, " "))
	if err != nil {
		return nil, Usagef("--near: %w", err)
	}
	return near, nil
}
