package vm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

func vmMoveCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var nodes string
	var dryRun bool
	c := &cobra.Command{
		Use:   "move NAME",
		Short: "Give a guest another home",
		Long: `Give a guest that homenode placed the best home there is for it now, or one on
the nodes named with --nodes. A shared guest that runs moves at once, its
threads and its memory. A dedicated one keeps its CPUs and memory until its next
start.

Exit status 1 means that there is no such home, or that the guest is not
homenode's to move; the line says why.`,
		Example: `  homenode vm define --dry-run --flavor g1.large --name app --nodes 0 \
    --synthetic "node:2 core:8 pu:2" > app.xml
  homenode vm move app --nodes 1 --dry-run --running app.xml \
    --synthetic "node:2 core:8 pu:2"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := topology.ParseNodeSet(nodes)
			if err != nil {
				return cli.Usagef("--to: %w", err)
			}
			return v.changeOne(c, e, args[0], dryRun, func(s *existing, g *guest.Guest) error {
				if err := notNovas(g); err != nil {
					return err
				}
				if !g.Placed && g.Next == nil {
					return cli.Nof("%s was not placed by homenode; adopt it first: homenode vm adopt %s", g.Name,
						g.Name)
				}
				return move(c, e, s, g, to, false, dryRun)
			})
		},
	}
	v.flags(c, e)
	c.Flags().StringVar(&nodes, "to", "", "only to these `NODES`, such as 1 or 0-1 (also --nodes)")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "nodes" {
			name = "to"
		}
		return pflag.NormalizedName(name)
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	return c
}

func vmAdoptCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var all, cells, dryRun bool
	c := &cobra.Command{
		Use:   "adopt NAME... | --all",
		Short: "Place guests that homenode did not define",
		Long: `Give guests that something else defined a home, as shared guests: their
definitions get a CPU set, a memory binding and homenode's mark. A guest that
runs comes to its home at its next start, or at once where the daemon runs in
enforce mode.

A guest that is wider than a node and sees no NUMA nodes floats over all nodes of
its home. With --cells it sees one for each from its next start, in equal parts:
the vCPUs of each then float over their node, with its memory there. Released, it
sees none again.

Homenode leaves a guest alone, and names it, if the user or another program bound it
to CPUs or nodes.`,
		Example: `  homenode vm adopt --all --dry-run
  homenode vm adopt --cells big1
  homenode vm adopt web1`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if all == (len(args) > 0) {
				return cli.Usagef("name guests, or say --all")
			}
			s, err := v.readToChange(c, e, dryRun)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			var guests []*guest.Guest
			for _, name := range args {
				g, err := s.find(name)
				if err != nil {
					return err
				}
				guests = append(guests, g)
			}
			for i := range s.guests {
				if all && !s.guests[i].Placed && !s.guests[i].Nova {
					guests = append(guests, &s.guests[i])
				}
			}
			if len(guests) == 0 {
				fmt.Fprintln(e.Stdout, "There is no guest to adopt: each that is here is homenode's or Nova's already.")
			}
			return adopt(c, e, s, guests, cells, dryRun)
		},
	}
	v.flags(c, e)
	c.Flags().BoolVar(&cells, "cells", false,
		"let those wider than a node see the nodes of their home, from their next start")
	c.Flags().BoolVar(&all, "all", false, "all unbound guests without homenode's mark")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	return c
}

// adopt goes on past a guest that cannot be adopted; the status tells.
func adopt(c *cobra.Command, e *cli.Env, s *existing, guests []*guest.Guest, cells, dryRun bool) error {
	refused := false
	for _, g := range guests {
		if (g.Placed && g.Manual == "") || g.Next != nil {
			fmt.Fprintf(e.Stdout, "%s is homenode's already.\n", g.Name)
			continue
		}
		err := notNovas(g)
		if err == nil {
			err = move(c, e, s, g, topology.NodeSet{}, cells, dryRun)
		}
		var no *cli.Exit
		if errors.As(err, &no) && no.Code == cli.ExitNo {
			fmt.Fprintf(e.Stderr, "homenode: %s\n", cli.OneLine(err.Error()))
			refused = true
			continue
		}
		if err != nil {
			return err
		}
	}
	if refused {
		return cli.ErrNo
	}
	return nil
}

// readToChange is read for a command that changes guests, which only those of
// this host can be.
func (v *vmHost) readToChange(c *cobra.Command, e *cli.Env, dryRun bool) (*existing, error) {
	if !dryRun && (v.elsewhere() || len(v.running) > 0) {
		return nil, cli.Usagef("only guests of this host can be changed: add --dry-run to see what would be on another")
	}
	return v.read(c, e, !dryRun)
}

// changeOne does something with one guest, which must be of this host unless it is a dry run.
func (v *vmHost) changeOne(c *cobra.Command, e *cli.Env, name string, dryRun bool,
	do func(*existing, *guest.Guest) error) (err error) {
	s, err := v.readToChange(c, e, dryRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	g, err := s.find(name)
	if err != nil {
		return err
	}
	return do(s, g)
}

// find finds a guest by name, by vm:NAME or by UUID.
func (s *existing) find(name string) (*guest.Guest, error) {
	all := make([]workload.Named, len(s.guests))
	for i := range s.guests {
		g := &s.guests[i]
		all[i] = workload.Named{ID: guest.ID(g.Name), Name: g.Name, Also: []string{g.UUID}}
	}
	found := workload.Find(all, name, workload.Lineage{})
	switch {
	case len(found) > 1: // copies that have one UUID
		return nil, cli.Usagef("%q may be %d guests; name one by its name", name, len(found))
	case len(found) == 0:
		var like []string
		for _, id := range workload.Alike(all, name) {
			like = append(like, strings.TrimPrefix(string(id), "vm:"))
		}
		if like != nil {
			return nil, cli.Nof("there is no guest %q; names like it: %s", name, strings.Join(like, ", "))
		}
		return nil, cli.Nof("there is no guest %q", name)
	}
	return &s.guests[slices.IndexFunc(all, func(n workload.Named) bool { return n.ID == found[0] })], nil
}

// move gives one guest a home.
func move(c *cobra.Command, e *cli.Env, s *existing, g *guest.Guest, nodes topology.NodeSet, cells, dryRun bool) error {
	if g.Manual != "" {
		return cli.Nof("%s is left alone: %s", g.Name, g.Manual)
	}
	find := s.room.Move
	if cells {
		find = s.room.MoveInCells
	}
	home, d := find(g, nodes)
	stays := d.Outcome == plan.Kept && g.Placed && g.Next == nil
	say := func(goes, stay string) error {
		was := words.Nodes(g.Home.Nodes()) + ", " + words.CPUs(g.Home.CPUs())
		text := fmt.Sprintf("%s from %s, to %s, %s", goes, was, words.Nodes(home.Nodes()), words.CPUs(home.CPUs()))
		if stays {
			text = stay + " on " + was
		}
		if g.Wished {
			text += "; near: " + words.Printable(cmp.Or(workload.NearText(g.Near), "nothing"))
		}
		_, err := fmt.Fprintf(e.Stdout, "%s %s.\n", g.Name, text)
		return err
	}
	switch {
	case stays && !g.Wished:
		return say("", "stays")
	case d.Outcome != plan.Placed && d.Outcome != plan.Kept:
		return refusal(&d)
	}
	steps, now := g.Steps(home)
	if len(steps) == 0 {
		return cli.Nof("%s has no definition, and as it runs its memory stays where it is", g.Name)
	}
	s.room.Commit(home)
	if dryRun {
		return say("would go", "would stay")
	}
	back, err := clear(c, e, s, g.Name, &home)
	if err != nil {
		return err
	}
	if err := s.change(c.Context(), steps, "homenode vm "+c.Name()+"."); err != nil {
		back()
		return err
	}
	if !now {
		return say("goes at its next start", "stays")
	}
	return say("goes", "stays")
}

// notNovas is an error for a guest of OpenStack Nova: Nova writes its definition anew, and
// carries what is in it to other hosts.
func notNovas(g *guest.Guest) error {
	if !g.Nova || g.Placed || g.Next != nil {
		return nil
	}
	return cli.Nof("%s is OpenStack Nova's, which writes its definition: with libvirt.manage: nova the daemon places "+
		"it as it runs, and homenode move %s moves it", g.Name, g.Spec.ID)
}
