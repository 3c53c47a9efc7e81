package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/nri"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/store"
)

// containersIn makes the container runtime a source of a daemon, and its containers changed
// through it; nil where it is not to be asked.
func containersIn(o *daemon.Options, c config.Config, d func() *daemon.Daemon) *nri.Plugin {
	if c.Containers.Manage == config.NoPods {
		return nil
	}
	options := containersOf(c, d)
	options.Log = slog.Default()
	var err error
	if options.Key, err = store.HostKey(c.StateDir); err != nil { // on a full disk, say: containers are placed all the same
		slog.Warn("the key of this host cannot be used: after a restart, CPU sets of containers that no scan has seen count as set by another program", "err", err)
	}
	p := nri.New(options)
	o.Sources = append(o.Sources, p)
	o.Drivers[workload.InCgroup] = p.Driver(o.Drivers[workload.InCgroup])
	return p
}

// containersOf is the containers of this machine as its runtime tells them to d, which is nil
// where there is no daemon.
func containersOf(c config.Config, d func() *daemon.Daemon) nri.Options {
	mount := filepath.Join(machine, "sys/fs/cgroup")
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		mount = "" // cgroup v1
	}
	return nri.Options{
		Socket: c.Containers.Socket, Manage: nri.Managed(c.Containers.Manage), Enforce: c.Mode == config.Enforce,
		BestEffort: c.Containers.BestEffort, Mount: mount, Proc: filepath.Join(machine, "proc"),
		Grants: c.Containers.Annotations,
		Admit: func(ctx context.Context, spec workload.Spec, from workload.Origin, hold time.Duration) (workload.Placement, error) {
			return d().Admit(ctx, spec, from, hold)
		},
		Home: func(id workload.ID) (p workload.Placement, ok bool) {
			if found := place.Of(d().View().Plan.Placements, id); found != nil {
				return *found, true
			}
			return p, false
		},
		Booked: func(id workload.ID) (p workload.Placement, ok bool) {
			return d().View().HeldFor(id)
		},
		Held:     func(id workload.ID) bool { h := d().View().Holds; return h.Has(id) },
		Journal:  func() []plan.Entry { return d().View().Journal },
		Identify: process.Identify,
		Rule: func(names []string, labels map[string]string) *workload.Rule {
			for i := range c.Workloads {
				if r := &c.Workloads[i]; r.Fits(names, labels) {
					wishes := r.Wishes()
					return &wishes
				}
			}
			return nil
		},
		Alone: func(names []string) words.Reason { return leftAlone(&c, d().View().Managers, names) },
	}
}

// leftAlone is why what has one of some names, its cgroups among them, is not homenode's to
// place: by the configuration, or because another manager owns it.
func leftAlone(c *config.Config, managers []control.Manager, names []string) words.Reason {
	for i := range managers {
		m := &managers[i]
		if m.Everything {
			return words.Because(words.ManagerMovesAll, m.Name, m.Does, m.Name)
		}
		for _, name := range names {
			for part := range strings.SplitSeq(name, "/") {
				if strings.HasPrefix(name, "/") && slices.Contains(m.Cgroups, part) {
					return words.Because(words.ManagerOwns, m.Name, m.Does)
				}
			}
		}
	}
	fits := func(patterns []string) (string, bool) {
		for _, p := range patterns {
			if (&config.Rule{Match: p}).Fits(names, nil) {
				return p, true
			}
		}
		return "", false
	}
	if p, ok := fits(c.Manage.Exclude); ok {
		return words.Because(words.Excluded, p)
	}
	if _, ok := fits(c.Manage.Include); !ok && len(c.Manage.Include) > 0 {
		return words.Because(words.NotIncluded)
	}
	return words.Reason{}
}
