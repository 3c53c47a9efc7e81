package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/workload"
)

// nearFlag says what something is to be near to.
func nearFlag(f *pflag.FlagSet, near *[]string) {
	f.StringArrayVar(near, "near", nil, "what to be near: a `DEVICE` by kernel name or PCI address, process=NAME or service=NAME; ,policy=required refuses any other home; may be repeated")
}

func parseNear(texts []string) ([]workload.Near, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	near, err := workload.ParseNear(strings.Join(texts, " "))
	if err != nil {
		return nil, usageErrorf("--near: %w", err)
	}
	return near, nil
}

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
		i := slices.IndexFunc(named, func(n workload.Named) bool { return n.ID == id })
		return workload.MayName(workload.UserOf(named[i].Cgroup), 0)
	}
	workload.Locate(near, named, system, func(id workload.ID) []workload.NodeShare { return ran[id] })
}

// wish adds what a rule of the configuration has a guest be near to, and finds what that names.
func (s *existing) wish(e *Env, g *guest.Guest) error {
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
