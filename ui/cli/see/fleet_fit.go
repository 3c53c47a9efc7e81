package see

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/core/workload/specfile"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// FitDocument is on which hosts workloads would fit.
type FitDocument struct {
	Schema string    `json:"schema"` // homenode-fleet-fit/1
	Fit    int       `json:"fit"`    // hosts on which all of it fits, with moves of others or without
	Hosts  []FitHost `json:"hosts"`  // hosts, the best first
}

// FitHost is what one host would do with the workloads.
type FitHost struct {
	Host    string `json:"host"`            // host as it was named
	Error   string `json:"error,omitempty"` // why it did not answer; absent when it did
	Version string `json:"version"`         // version of its homenode
	Fits    bool   `json:"fits"`            // whether all workloads fit, one after the other
	Nodes   int    `json:"nodes"`           // NUMA nodes of the widest home; the fewer the better
	Moves   int    `json:"moves"`           // moves of other workloads that would make room; 0 is best
	// CPUs that the nodes of the homes have left for dedicated work before it comes
	RoomCPUs  int       `json:"room_cpus"`
	Workloads []fitWork `json:"workloads"` // workloads, in the order of the file
}

// fitWork is where one workload would go.
type fitWork struct {
	Name  string           `json:"name"`  // name of the workload
	Fits  bool             `json:"fits"`  // whether it fits, with moves of others or without
	Home  topology.NodeSet `json:"home"`  // home nodes; empty when it does not fit
	CPUs  topology.CPUSet  `json:"cpus"`  // CPUs that it would get; empty when it does not fit
	Moves []string         `json:"moves"` // moves of other workloads that make room, in words
	Why   string           `json:"why"`   // why there, or why not, in a sentence
}

// fitWanted is the workload that flags describe.
type fitWanted struct {
	spec, memory, class string
	cpus                int
}

// text is the workloads as YAML; flags as a file with one.
func (x *fitWanted) text(c *cobra.Command, e *cli.Env) (string, error) {
	if x.spec != "" {
		for _, f := range []string{"cpus", "memory", "class"} {
			if c.Flags().Changed(f) {
				return "", cli.Misused(c, "--spec and --"+f+" do not go together")
			}
		}
		text, err := cli.ReadInput(e, x.spec, cli.MaxSpec)
		if err != nil {
			return "", err
		}
		if _, err := specfile.Parse(text); err != nil {
			return "", cli.Usagef("%s: %w", cli.InputName(x.spec), err)
		}
		return string(text), nil
	}
	if x.cpus == 0 {
		return "", cli.Misused(c, "what is to fit? give --spec FILE, or --cpus N")
	}
	out := map[string]any{"name": "new", "cpus": x.cpus, "class": x.class}
	if x.memory != "" {
		out["memory"] = x.memory
	}
	text, err := json.Marshal(out) // which is YAML
	if err != nil {
		return "", err
	}
	if _, err := specfile.Parse(text); err != nil {
		return "", cli.Usagef("--cpus, --memory, --class: %w", err)
	}
	return string(text), nil
}

func fleetFitCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	var file string
	var want fitWanted
	var how asking
	c := &cobra.Command{
		Use:   "fit [HOST...]",
		Short: "Say on which hosts workloads would fit, the best first",
		Long: `Asks the daemons of many hosts where they would put workloads, as homenode plan
--admit does: on which nodes, which others would have to move first, or why it does
not fit. Nothing is done or booked. --spec reads what homenode plan --spec reads, up to
32 workloads, one on top of the other.

Best first: those on which all fits without moving others, then the fewest moves, then
the homes of the fewest nodes, then the most room left there.

` + fleetHostsText + `

Exit status 1: it fits nowhere.`,
		Example: `  homenode fleet fit --cpus 8 --memory 32GiB
  homenode fleet fit web1 web2 --cpus 16 --memory 64GiB --class dedicated
  homenode fleet fit --spec vm.yaml --hosts hosts.txt --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := how.check(e); err != nil {
				return err
			}
			if want.spec == "-" && file == "-" {
				return cli.Usagef("standard input can be --spec or --hosts, not both")
			}
			text, err := want.text(c, e)
			if err != nil {
				return err
			}
			hosts, err := hostsOf(e, c, args, file)
			if err != nil {
				return err
			}
			d := FitDocument{Schema: "homenode-fleet-fit/1",
				Hosts: each(cli.ContextOf(c), &how, hosts,
					func(ctx context.Context, a address) FitHost { return fitsOn(e, ctx, &how, a, text) })}
			if cli.ContextOf(c).Err() != nil {
				return cli.Forbiddenf("interrupted")
			}
			slices.SortStableFunc(d.Hosts, func(a, b FitHost) int { return better(&a, &b) })
			for i := range d.Hosts {
				if d.Hosts[i].Fits {
					d.Fit++
				}
			}
			if asJSON {
				err = cli.PrintJSON(e.Stdout, d)
			} else {
				writeFits(e.Stdout, e.Paint(), &d)
			}
			if err == nil && d.Fit == 0 {
				return cli.ErrNo
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&want.spec, "spec", "", "the workloads are in `FILE` (- is standard input)")
	f.IntVar(&want.cpus, "cpus", 0, "one workload of `N` CPUs")
	f.StringVar(&want.memory, "memory", "", "its memory, a `SIZE` such as 32GiB")
	f.StringVar(&want.class, "class", string(workload.Shared), "its `CLASS`: "+cli.Listed(workload.Classes))
	f.StringVar(&file, "hosts", "", "hosts are in `FILE`, one a line (- is standard input)")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-fleet-fit/1)")
	how.flags(c)
	return c
}

// better orders hosts, the best first; those that do not answer last.
func better(a, b *FitHost) int {
	rank := func(h *FitHost) int {
		switch {
		case h.Error != "":
			return 2
		case !h.Fits:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Moves, b.Moves), cmp.Compare(a.Nodes, b.Nodes),
		cmp.Compare(b.RoomCPUs, a.RoomCPUs), strings.Compare(a.Host, b.Host))
}

// fitHost asks one host. Over ssh the homenode there asks its own daemon in the same way.
func fitsOn(e *cli.Env, ctx context.Context, how *asking, a address, spec string) FitHost {
	failed := func(err error) FitHost {
		return FitHost{Host: a.name, Error: how.why(ctx, err), Workloads: []fitWork{}}
	}
	if a.ssh != "" {
		var d FitDocument
		text, err := e.Remote(ctx, cli.Remote{To: a.ssh, Port: a.port, Within: how.within,
			Args: []string{"homenode", "fleet", "fit", "--json", "--spec", "-", "unix:"}, Stdin: spec})
		if err := answered(text, err, &d.Schema, &d, "homenode-fleet-fit/1"); err != nil {
			return failed(err)
		}
		if len(d.Hosts) != 1 {
			return failed(fmt.Errorf("its homenode answers for %s", words.Count(len(d.Hosts), "host")))
		}
		d.Hosts[0].Host = a.name
		return d.Hosts[0]
	}
	client, err := dialHost(e, ctx, how, a)
	if err != nil {
		return failed(err)
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return failed(err)
	}
	answer, err := client.WhatIf(ctx, api.WhatIf{Spec: spec})
	if err != nil {
		return failed(err)
	}
	room, err := client.Room(ctx, "")
	if err != nil {
		return failed(err)
	}
	return FitOf(a.name, status.Version, &answer, &room)
}

// FitOf is what a daemon answered, in short.
func FitOf(host, version string, answer *api.WhatIfAnswer, room *api.Room) FitHost {
	h := FitHost{Host: host, Version: version, Fits: true, Workloads: []fitWork{}}
	var homes topology.NodeSet
	for i := range answer.Workloads {
		r := &answer.Workloads[i]
		w := fitWork{Name: string(r.Workload), Moves: []string{}, Why: firstReason(r.Reasons)}
		if w.Why == "" {
			w.Why = firstReason(r.Decision.Reasons)
		}
		if w.Fits = r.Place != nil; w.Fits {
			w.Home, w.CPUs = r.Place.Home, r.Place.CPUs
			h.Nodes = max(h.Nodes, w.Home.Len())
			homes = homes.Union(w.Home)
			for k := range r.Moves {
				w.Moves = append(w.Moves, fmt.Sprintf("%s from %s to %s", r.Moves[k].Workload,
					words.Nodes(r.Moves[k].From.Home), words.Nodes(r.Moves[k].To.Home)))
			}
			h.Moves += len(r.Moves)
		}
		h.Fits = h.Fits && w.Fits
		h.Workloads = append(h.Workloads, w)
	}
	for _, n := range room.Nodes {
		if homes.Has(n.Node) {
			h.RoomCPUs += n.CPUs
		}
	}
	return h
}

func firstReason(all []words.Reason) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].String()
}

func writeFits(w io.Writer, p view.Paint, d *FitDocument) {
	*d = view.PlainAll(*d)
	t := view.NewTable("HOST", "FITS", "ON NODES", ">MOVES", ">CPUS LEFT", "WHY").Drops("CPUS LEFT", "MOVES")
	var moves, versions []string
	for i := range d.Hosts {
		h := &d.Hosts[i]
		if h.Error != "" {
			t.Row(h.Host, p.Warn("no answer"), "-", "-", "-", h.Error)
			continue
		}
		versions = append(versions, h.Version)
		for k, x := range h.Workloads {
			host := h.Host
			fits := "yes"
			why := x.Why
			if len(h.Workloads) > 1 {
				why = x.Name + ": " + why
			}
			if k > 0 {
				host = ""
			}
			switch {
			case !x.Fits:
				fits = p.Warn("no")
			case len(x.Moves) > 0:
				fits = "after moves"
				moves = append(moves, h.Host+": "+strings.Join(x.Moves, ", then "))
			}
			moves, left := fmt.Sprint(len(x.Moves)), fmt.Sprint(h.RoomCPUs)
			if !x.Fits {
				moves, left = "-", "-"
			}
			t.Row(host, fits, cli.OrDash(x.Home.String()), moves, left, why)
		}
	}
	t.Print(w, p)
	for _, m := range moves {
		fmt.Fprintf(w, "%s %s\n", p.Dim("to move first:"), m)
	}
	slices.Sort(versions)
	tellVersions(w, p, slices.Compact(versions))
	if d.Fit == 0 {
		fmt.Fprintln(w, p.Warn("It fits on no host."))
	}
}
