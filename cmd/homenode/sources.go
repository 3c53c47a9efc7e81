package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/incus"
	"github.com/homenode/homenode/host/nri"
	"github.com/homenode/homenode/host/pressure"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/proxmox"
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
		slog.Warn("the key of this host cannot be used: after a restart, CPU sets of containers that no scan has "+
			"seen count as set by another program", "err", err)
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

// proxmoxIn makes Proxmox VE a source of a daemon, and its guests changed with their threads.
func proxmoxIn(o *daemon.Options, c config.Config) {
	if c.Proxmox.Manage == config.NoGuests {
		return
	}
	s := proxmox.New(proxmox.Options{Root: machine, Manage: proxmox.Managed(c.Proxmox.Manage)})
	o.Sources = append(o.Sources, s)
	o.Drivers[workload.InCgroup] = s.Driver(o.Drivers[workload.InCgroup],
		o.Drivers[workload.InProcess].(proxmox.Processes))
}

// incusIn makes Incus and LXD a source of a daemon. With incus.manage: none it asks nothing and has no instances.
func incusIn(o *daemon.Options, c config.Config) {
	s := incus.New(incus.Options{
		Root:   machine,
		Manage: incus.Managed(c.Incus.Manage),
		Grants: c.Containers.Annotations,
		Rule:   c.Wishes,
	})
	o.Sources = append(o.Sources, s)
	o.Drivers[workload.InCgroup] = incus.Driver{Driver: o.Drivers[workload.InCgroup]}
}

// pressureIn has the kernel wake a daemon when important work waits for a CPU next to batch work. Without it batch
// work gives way at the next scan.
func pressureIn(ctx context.Context, o *daemon.Options) {
	s, err := pressure.New(ctx, filepath.Join(machine, "sys/fs/cgroup"))
	if err != nil {
		slog.Warn("batch work gives way at scans only", "err", err)
		return
	}
	o.Sources = append(o.Sources, s)
}
