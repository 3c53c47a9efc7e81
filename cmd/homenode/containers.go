package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/nri"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/store"
)

// containersIn makes the container runtime a source of a daemon, and its containers changed
// through it; nil where it is not to be asked.
func containersIn(o *daemon.Options, c config.Config) *nri.Plugin {
	if c.Containers.Manage == config.NoPods {
		return nil
	}
	key, err := store.HostKey(c.StateDir)
	if err != nil { // on a full disk, say: containers are placed all the same
		slog.Warn("the key of this host cannot be used: after a restart, CPU sets of containers that no scan has seen count as set by another program", "err", err)
	}
	p := nri.New(nri.Options{
		Socket: c.Containers.Socket, Manage: nri.Managed(c.Containers.Manage), Enforce: c.Mode == config.Enforce,
		BestEffort: c.Containers.BestEffort, Mount: nri.Mount(cgroupMount()),
		Proc: filepath.Join(machine, "proc"), Root: os.DirFS(machine),
		Grants: c.Containers.Annotations, Key: key, Rule: c.Wishes, Identify: process.Identify, Log: slog.Default(),
	})
	o.Sources = append(o.Sources, p)
	o.Drivers[workload.InCgroup] = p.Driver(o.Drivers[workload.InCgroup])
	return p
}
