package see

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// rows is which workloads a status shows, and in what order.
type rows struct {
	names      []string
	sort       string
	classes    []string
	home, glob string
	states     []string
	all        bool
	nodes      topology.NodeSet
	nodeFlag   string // flag of nodes as typed; "" is home
}

// States lists those that a workload may have.
var States = []string{
	api.StateAtHome, api.StateWouldMove, api.StateQueued, api.StateMoving, api.StatePaused, api.StateFailed,
	api.StateHeld, api.StateLeftAlone,
	api.StateNoRoom, api.StateNoAnswer,
}

// orders are the columns to sort by, the one that wants a look first: most CPU and memory,
// least local.
var orders = map[string]func(a, b *api.Workload) int{
	"cpu":    func(a, b *api.Workload) int { return cmp.Compare(b.CPUUse, a.CPUUse) },
	"memory": func(a, b *api.Workload) int { return cmp.Compare(b.MemoryKiB, a.MemoryKiB) },
	"local":  func(a, b *api.Workload) int { return cmp.Compare(localOrLast(a), localOrLast(b)) },
	"name": func(a, b *api.Workload) int {
		return strings.Compare(cmp.Or(a.Name, string(a.ID)), cmp.Or(b.Name, string(b.ID)))
	},
	"home": func(a, b *api.Workload) int {
		return cmp.Or(cmp.Compare(homeOrLast(a), homeOrLast(b)), strings.Compare(a.Home, b.Home),
			strings.Compare(a.Caches, b.Caches))
	},
	"state": func(a, b *api.Workload) int { return strings.Compare(a.State, b.State) },
	"class": func(a, b *api.Workload) int { return cmp.Compare(classAt(a), classAt(b)) },
}

// SortKeys lists them as help does.
var SortKeys = []string{"cpu", "memory", "local", "name", "home", "state", "class"}

func localOrLast(w *api.Workload) float64 {
	if w.Locality == nil {
		return 2
	}
	return *w.Locality
}

// homeOrLast is the first node of a home; what has none comes last.
func homeOrLast(w *api.Workload) int {
	if nodes, err := topology.ParseNodeSet(w.Home); err == nil && !nodes.Empty() {
		return int(nodes.Slice()[0])
	}
	return topology.MaxID + 1
}

func classAt(w *api.Workload) int { return slices.Index(workload.Classes, w.Class) }

func (r *rows) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.sort, "sort", "", "order by `COLUMN`: "+strings.Join(SortKeys, ", ")+"; by ID when not given")
	f.StringSliceVar(&r.classes, "class", nil, "only of this `CLASS`: "+cli.Listed(workload.Classes)+
		"; may be repeated")
	f.StringVar(&r.home, "home", "", "only those with a home on one of `NODES`, such as 0 or 0-1")
	f.StringVar(&r.home, "node", "", "as --home, one of `NODES`")
	c.PreRun = func(*cobra.Command, []string) {
		if f.Changed("node") {
			r.nodeFlag = "node"
		}
	}
	f.StringSliceVar(&r.states, "state", nil, "only in this `STATE`: "+strings.Join(States, ", ")+"; may be repeated")
	f.StringVar(&r.glob, "name", "", "only those whose name or ID fits `PATTERN`, such as 'redis*'")
	f.BoolVar(&r.all, "all", false, "those too small to be placed, too")
}

// check reads what the command line says.
func (r *rows) check() (err error) {
	if r.sort != "" && orders[r.sort] == nil {
		return cli.Usagef("--sort %q: want %s", r.sort, strings.Join(SortKeys, ", "))
	}
	for i, text := range r.classes {
		class, err := workload.ParseClass(text)
		if err != nil {
			return cli.Usagef("--class %q: want %s", text, cli.Listed(workload.Classes))
		}
		r.classes[i] = string(class)
	}
	for _, state := range r.states {
		if !slices.Contains(States, state) {
			return cli.Usagef("--state %q: want %s", state, strings.Join(States, ", "))
		}
	}
	if _, err := path.Match(r.glob, ""); err != nil {
		return cli.Usagef("--name %q: want a pattern with * and ?, such as 'redis*'; a [ begins a list of letters",
			r.glob)
	}
	if r.nodes, err = topology.ParseNodeSet(r.home); err != nil {
		return cli.Usagef("--%s: %w", cmp.Or(r.nodeFlag, "home"), err)
	}
	for _, name := range r.names {
		if err := cli.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// some reports whether less than everything is asked for.
func (r *rows) some() bool {
	return len(r.names)+len(r.classes)+len(r.states) > 0 || r.home != "" || r.glob != ""
}

// of is a status with what is asked for; b knows names that a status does not have.
func (r *rows) of(ctx context.Context, b api.Backend, s api.Status) (api.Status, error) {
	if small, ok := b.(api.SmallSource); ok && r.all {
		x, err := small.Small(ctx)
		if err != nil {
			return s, err
		}
		s.SmallWorkloads = x.Workloads
	}
	if err := r.here(&s); err != nil {
		return s, err
	}
	ids, err := r.named(ctx, b, &s)
	if err != nil {
		return s, err
	}
	s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads), func(w api.Workload) bool {
		home, _ := topology.ParseNodeSet(w.Home)
		return (ids != nil && !slices.Contains(ids, w.ID)) ||
			(len(r.classes) > 0 && !slices.Contains(r.classes, string(w.Class))) ||
			(len(r.states) > 0 && !slices.Contains(r.states, w.State)) || (r.home != "" && !home.Intersects(r.nodes)) ||
			!r.fits(w.Name, w.ID)
	})
	s.SmallWorkloads = slices.DeleteFunc(s.SmallWorkloads, func(w api.SmallWorkload) bool {
		return (ids != nil && !slices.Contains(ids, w.ID)) || len(r.classes)+len(r.states) > 0 || r.home != "" ||
			!r.fits(w.Name, w.ID)
	})
	if order := orders[r.sort]; order != nil {
		slices.SortStableFunc(s.Workloads, func(a, b api.Workload) int { return order(&a, &b) })
		small := func(w *api.SmallWorkload) *api.Workload {
			return &api.Workload{ID: w.ID, Name: w.Name, CPUUse: w.CPUUse, MemoryKiB: w.MemoryKiB}
		}
		slices.SortStableFunc(s.SmallWorkloads, func(a, b api.SmallWorkload) int { return order(small(&a), small(&b)) })
	}
	return s, nil
}

// here refuses nodes of which the host has none.
func (r *rows) here(s *api.Status) error {
	var nodes topology.NodeSet
	for i := range s.Nodes {
		nodes.Add(s.Nodes[i].ID)
	}
	if nodes.Empty() || r.nodes.Empty() || r.nodes.Intersects(nodes) {
		return nil
	}
	return cli.Usagef("--%s %s: this machine has no node %d; it has %s", cmp.Or(r.nodeFlag, "home"), r.home,
		r.nodes.Min(), words.Nodes(nodes))
}

// fits reports whether a name, an ID or the last part of one is that of the pattern.
func (r *rows) fits(name string, id workload.ID) bool {
	for _, text := range []string{name, string(id), path.Base(string(id))} {
		if ok, _ := path.Match(r.glob, text); ok || r.glob == "" {
			return true
		}
	}
	return false
}

// named is the workloads that are named, all that fit each name; nil when none is named.
func (r *rows) named(ctx context.Context, b api.Backend, s *api.Status) (ids []workload.ID, err error) {
	var all []workload.Named
	for i := range s.Workloads {
		w := &s.Workloads[i]
		n := workload.Named{ID: w.ID, Name: w.Name, Cgroup: w.Cgroup, Whole: w.Kind != workload.InProcess}
		for _, pid := range w.Processes {
			n.Processes = append(n.Processes, workload.Process{PID: pid})
		}
		all = append(all, n)
	}
	for _, w := range s.SmallWorkloads {
		n := workload.NamedByID(w.ID)
		n.Name = w.Name
		all = append(all, n)
	}
	for _, name := range r.names {
		found := workload.Find(all, name, workload.Lineage{})
		if found == nil { // a process that has come since, or the UUID of a guest
			x, err := b.Explain(ctx, workload.ID(name))
			if err != nil {
				return nil, err
			}
			found = []workload.ID{x.Workload.ID}
		}
		ids = append(ids, found...)
	}
	return ids, nil
}
