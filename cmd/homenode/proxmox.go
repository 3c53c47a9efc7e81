package main

import (
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/proxmox"
)

// proxmoxIn makes Proxmox VE a source of a daemon, and its guests changed with their threads. d
// is nil where there is no daemon.
func proxmoxIn(o *daemon.Options, c config.Config, d func() *daemon.Daemon) {
	if c.Proxmox.Manage == config.NoGuests {
		return
	}
	options := proxmox.Options{Root: machine, Manage: proxmox.Managed(c.Proxmox.Manage)}
	if d != nil {
		options.Home = func(id workload.ID) (p workload.Placement, ok bool) {
			if found := place.Of(d().View().Plan.Placements, id); found != nil {
				return *found, true
			}
			return p, false
		}
		options.Journal = func() []plan.Entry { return d().View().Journal }
	}
	s := proxmox.New(options)
	o.Sources = append(o.Sources, s)
	o.Drivers[workload.InCgroup] = s.Driver(o.Drivers[workload.InCgroup], o.Drivers[workload.InProcess].(proxmox.Processes))
}
