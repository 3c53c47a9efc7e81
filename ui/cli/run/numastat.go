package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// numastat is a command line of numastat(8).
type numastat struct {
	compact, meminfo, original, verbose, skipZero bool
	sorted                                        bool
	by                                            string // node to sort by; "" is the total
	of                                            []string
}

// sortLetter is -s behind other letters, with the node to sort by in one word with it.
var sortLetter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-([cmnvzV]*)s([0-9]*)$`) })

func numastatCommand(e *cli.Env) *cobra.Command {
	return standIn("numastat [-cmnvzV] [-s[NODE]] [-p PID|PATTERN] [PID|PATTERN…]",
		"Do what numastat(8) does, in its words",
		`Takes the command line of numastat(8). Without one: how often memory was allocated on the
node that was asked for, in pages, line by line as numastat prints it. -m: what each node
has and how it is used. -n: the allocations in MiB. PIDs and patterns, with -p or without:
memory of these processes by node; a pattern is text of a command line. -c rounds
to MiB, -z leaves out rows and nodes with only zeros, -s sorts by the total or by a
node, -v shows each of several processes by kind. Exit status 1: nothing fits, or nothing
could be read.

Called as numastat, this program is it.`,
		"  homenode numastat\n  homenode numastat -m\n  homenode numastat -p qemu",
		func(c *cobra.Command, args []string) error {
			n := &numastat{}
			version := false
			set := func(b *bool) func(string) error { return func(string) error { *b = true; return nil } }
			// Patterns may stand before options; -s takes a node only in one word with it.
			var plain []string
			for i, a := range args {
				if a == "--" {
					plain = append(plain, args[i:]...)
					break
				}
				if m := sortLetter().FindStringSubmatch(a); m != nil { // -s, -s2, -mcs
					if n.sorted, n.by = true, m[2]; m[1] == "" {
						continue
					}
					a = "-" + m[1]
				}
				plain = append(plain, a)
			}
			f := flagsOf("numastat", []standInFlag{
				{"compact", "c", true, set(&n.compact)}, {"meminfo", "m", true, set(&n.meminfo)},
				{"numastat", "n", true, set(&n.original)},
				{"verbose", "v", true, set(&n.verbose)}, {"zero", "z", true, set(&n.skipZero)},
				{"version", "V", true, set(&version)},
				{"process", "p", false, func(text string) error { n.of = append(n.of, text); return nil }},
			})
			f.SetInterspersed(true)
			if err := f.Parse(plain); err != nil {
				return badFlag(f, err)
			}
			n.of = append(n.of, f.Args()...)
			if version {
				_, err := fmt.Fprintf(e.Stdout, "numastat from homenode %s\n", e.Version)
				return err
			}
			return n.print(c, e)
		})
}

func (n *numastat) print(c *cobra.Command, e *cli.Env) error {
	if !n.meminfo && !n.original && len(n.of) == 0 {
		if !n.compact && !n.skipZero && !n.sorted && !n.verbose {
			return printAllocations(e)
		}
		n.original = true
	}
	p := e.Paint()
	between := false
	section := func(title string) {
		if between {
			fmt.Fprintln(e.Stdout)
		}
		between = true
		fmt.Fprintln(e.Stdout, p.Bold(title))
	}
	if n.original {
		f, err := e.Memory.Nodes()
		if err != nil {
			return err
		}
		section("Allocations since boot")
		var rows []workload.Figure
		for _, r := range f.Rows {
			if r.Unit == workload.InPages {
				r.ByNode = slices.Clone(r.ByNode)
				for i := range r.ByNode {
					r.ByNode[i] *= 4 // KiB of a page of numa_hit and the like: they count base pages
				}
				rows = append(rows, r)
			}
		}
		n.table(e, p, f.Nodes, rows)
	}
	if n.meminfo {
		f, err := e.Memory.Nodes()
		if err != nil {
			return err
		}
		section("Memory of the nodes")
		n.table(e, p, f.Nodes,
			slices.DeleteFunc(slices.Clone(f.Rows), func(r workload.Figure) bool { return r.Unit != workload.InKiB }))
	}
	if len(n.of) == 0 {
		return nil
	}
	return n.processes(c, e, p, section)
}

// processes prints where the memory of processes lies: of one by kind, of several in a line each.
func (n *numastat) processes(c *cobra.Command, e *cli.Env, p view.Paint, section func(string)) error {
	found := map[int]string{}
	for _, of := range n.of {
		if pid, err := strconv.Atoi(of); err == nil && pid > 0 {
			found[pid] = ""
			continue
		}
		some, err := e.ByHand.Commands(of)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			return fmt.Errorf("no process has %q in its command line", of)
		}
		maps.Copy(found, some)
	}
	var rows []workload.Figure
	var nodes []topology.NodeID
	var unread []string
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		f, failed := e.Memory.Processes(cli.ContextOf(c), []int{pid})
		if len(failed) > 0 {
			unread = append(unread, fmt.Sprintf("process %d: %s", pid, failed[0].Why))
			continue
		}
		name := strconv.Itoa(pid)
		if found[pid] != "" {
			name += " (" + words.Printable(found[pid]) + ")"
		}
		nodes = f.Nodes
		if len(found) == 1 || n.verbose {
			section("Memory of process " + name)
			n.table(e, p, f.Nodes, f.Rows)
		}
		for _, r := range f.Rows {
			if r.Name == "total" {
				r.Name = name
				rows = append(rows, r)
			}
		}
	}
	if len(rows) > 1 {
		section("Memory of processes")
		all := workload.Figure{Name: "total", Unit: workload.InKiB, ByNode: make([]int64, len(nodes))}
		for _, r := range rows {
			for i := range r.ByNode {
				all.ByNode[i] += max(0, r.ByNode[i])
			}
		}
		n.table(e, p, nodes, append(rows, all))
	}
	if len(rows) == 0 {
		return errors.New(strings.Join(unread, "; "))
	}
	for _, u := range unread {
		fmt.Fprintf(e.Stderr, "numastat: not read: %s\n", words.Printable(u))
	}
	return nil
}

// table prints rows of KiB in MiB.
func (n *numastat) table(e *cli.Env, p view.Paint, nodes []topology.NodeID, rows []workload.Figure) {
	total := slices.IndexFunc(rows, func(r workload.Figure) bool { return r.Name == "total" })
	last := len(rows)
	if total == len(rows)-1 && total >= 0 {
		last = total // which stays below what it is the sum of
	}
	if n.sorted {
		at := slices.IndexFunc(nodes, func(id topology.NodeID) bool { return strconv.Itoa(int(id)) == n.by })
		value := func(r workload.Figure) int64 {
			if at < 0 {
				return r.Total()
			}
			return r.ByNode[at]
		}
		slices.SortStableFunc(rows[:last], func(a, b workload.Figure) int { return cmp.Compare(value(b), value(a)) })
	}
	shown := func(k int) bool {
		return !n.skipZero || slices.ContainsFunc(rows, func(r workload.Figure) bool { return r.ByNode[k] != 0 })
	}
	heads := []string{"MiB"}
	for k, id := range nodes {
		if shown(k) {
			heads = append(heads, fmt.Sprintf(">NODE %d", id))
		}
	}
	t := view.NewTable(append(heads, ">TOTAL")...)
	for _, r := range rows {
		if n.skipZero && !slices.ContainsFunc(r.ByNode, func(v int64) bool { return v != 0 }) {
			continue
		}
		cells := []string{r.Name}
		for k := range nodes {
			if shown(k) {
				cells = append(cells, n.mib(r.ByNode[k]))
			}
		}
		t.Row(append(cells, n.mib(r.Total()))...)
	}
	t.Print(e.Stdout, p)
}

func (n *numastat) mib(kib int64) string {
	switch {
	case kib < 0:
		return "-"
	case n.compact:
		return strconv.FormatInt((kib+512)/1024, 10)
	}
	return strconv.FormatFloat(float64(kib)/1024, 'f', 2, 64)
}

// printAllocations prints what the kernel counts of each node, line by line as numastat does, for scripts
// that read it.
func printAllocations(e *cli.Env) error {
	online, err := readSet[topology.NodeID](e.Root, "sys/devices/system/node/online")
	if err != nil {
		return cli.Forbiddenf("this kernel counts no allocations by node: %w", err)
	}
	var names []string
	counts := map[string][]string{}
	head := strings.Repeat(" ", 16)
	for node := range online.All() {
		text, err := fs.ReadFile(e.Root, fmt.Sprintf("sys/devices/system/node/node%d/numastat", node))
		if err != nil {
			return cli.Forbiddenf("allocations on node %d: %w", node, err)
		}
		head += fmt.Sprintf("%16s", fmt.Sprintf("node%d", node))
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 2 {
				continue
			}
			if counts[f[0]] == nil {
				names = append(names, f[0])
			}
			counts[f[0]] = append(counts[f[0]], f[1])
		}
	}
	fmt.Fprintln(e.Stdout, head)
	for _, name := range names {
		line := fmt.Sprintf("%-16s", words.Printable(name))
		for _, v := range counts[name] {
			line += fmt.Sprintf("%16s", words.Printable(v))
		}
		fmt.Fprintln(e.Stdout, line)
	}
	return nil
}
