package main

import (
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/incus"
)

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
