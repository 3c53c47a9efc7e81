package vm

import (
	"fmt"
	"slices"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// locate gives processes and services that wishes name what the daemon knows of them.
func (s *existing) locate(near []workload.Near) {
	if !workload.NamesOthers(near) {
		return
	}
	named, ran := make([]workload.Named, len(s.others)), map[workload.ID][]workload.NodeShare{}
	for i := range s.others {
		w := &s.others[i]
		named[i] = workload.Named{ID: w.ID, Name: w.Name, Cgroup: w.Cgroup, Whole: w.Kind != workload.InProcess}
		for _, r := range w.RanOn {
			ran[w.ID] = append(ran[w.ID], workload.NodeShare{Node: r.Node, Share: r.Share})
		}
	}
	system := func(id workload.ID) bool {
		i := slices.IndexFunc(s.others, func(w api.Workload) bool { return w.ID == id })
		// an older daemon knows the UID alone
		o := workload.Observation{UID: s.others[i].UID, Owner: workload.Owner(s.others[i].Owner)}
		return workload.MayName(o.Responsible(), workload.SystemOwner)
	}
	workload.Locate(near, named, system, func(id workload.ID) []workload.NodeShare { return ran[id] })
}

// absent tells of wishes that name what this host has not. They are kept: it may come.
func (s *existing) absent(e *cli.Env, near []workload.Near) {
	for i := range near {
		n := &near[i]
		what := ""
		switch {
		case n.Refuses(): // refused, with the reason
		case n.Device != "" &&
			!slices.ContainsFunc(s.host.Devices, func(d topology.Device) bool { return d.Is(n.Device) }):
			what = "this host has no such device"
		case n.Device == "" && n.Workload == "" && n.Nodes.Empty():
			what = "no workload or process of that name counts here"
		}
		if what != "" {
			fmt.Fprintf(e.Stderr, "homenode: near %s: %s; the wish is kept and changes nothing now\n",
				words.Printable(n.Name()), what)
		}
	}
}

// wish adds what a rule of the configuration has a guest be near to, and finds what that names.
func (s *existing) wish(e *cli.Env, g *guest.Guest) error {
	if e.Rule != nil && s.hypervisor != nil {
		r, err := e.Rule(string(g.Spec.ID), g.Name)
		if err != nil {
			return err
		}
		if r != nil {
			wishes := workload.Rule{Near: r.Near}
			wishes.Apply(&g.Spec)
		}
	}
	s.locate(g.Spec.Near)
	return nil
}
