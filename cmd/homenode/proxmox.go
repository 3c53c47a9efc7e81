package main

import (
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/proxmox"
)

// proxmoxIn makes Proxmox VE a source of a daemon, and its guests changed with their threads.
func proxmoxIn(o *daemon.Options, c config.Config) {
	if c.Proxmox.Manage == config.NoGuests {
		return
	}
	s := proxmox.New(proxmox.Options{Root: machine, Manage: proxmox.Managed(c.Proxmox.Manage)})
	o.Sources = append(o.Sources, s)
	o.Drivers[workload.InCgroup] = s.Driver(o.Drivers[workload.InCgroup], o.Drivers[workload.InProcess].(proxmox.Processes))
}
