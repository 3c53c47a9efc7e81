package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/daemon/memory"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/web"
)

// fastClock goes so many times as fast as the time of this machine.
type fastClock struct {
	from  time.Time
	speed float64
}

func (c fastClock) Now() time.Time {
	return c.from.Add(time.Duration(float64(time.Since(c.from)) * c.speed))
}

func (c fastClock) After(d time.Duration) <-chan time.Time {
	return time.After(time.Duration(float64(d) / c.speed))
}

// demoPeriod is the time between two looks of the daemon at a simulated host.
const demoPeriod = time.Second

// demo is `homenode demo`: the daemon's loop and API on a simulated host. All that it writes is
// the socket, in a folder of its own that goes with it.
func demo(ctx context.Context, o cli.DemoOptions) error {
	if o.See != nil {
		return seeDemo(ctx, o)
	}
	clock := fastClock{time.Now(), o.Speed}
	house, err := sim.NewHouse(o.Nodes, o.Seed, clock)
	if err != nil {
		return cli.Usage(err)
	}
	dir, err := os.MkdirTemp("", "homenode-demo-")
	if err != nil {
		return cli.Forbidden(err)
	}
	defer os.RemoveAll(dir)
	place := cli.DemoPlace{Socket: filepath.Join(dir, "socket")}
	access := api.Access{Group: os.Getegid()}
	l, err := api.Listen(place.Socket, access)
	if err != nil {
		return cli.Forbidden(err)
	}
	options := demoDaemon(house, clock)
	options.Ready = func() { go o.Ready(place) }
	d, err := newWatched(options, config.New().Metrics.Workloads)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	access.Houses = api.NewHouses(d, "demo")
	remote := demoPage(access.Houses)
	if remote != nil {
		place.Page = "http://" + remote.l.Addr().String() + "/"
	}
	return serve(ctx, d, l, access, remote)
}

// demoPage serves the page on this machine's own address: on the port that a daemon has by habit,
// so that one ssh -L does for both, or on any. All that it shows is made up, so that it asks for
// no token. nil where nothing may listen.
func demoPage(houses *api.Houses) *overTCP {
	for _, port := range []string{"4663", "0"} {
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return &overTCP{l, api.Remote{Page: web.Files, Houses: houses}}
		}
	}
	return nil
}

// demoDaemon is a daemon that looks after a simulated host, and remembers nothing.
func demoDaemon(house *sim.House, clock fastClock) daemon.Options {
	return daemon.Options{
		Settings: house.Settings(), Period: demoPeriod, Version: version, BootID: "demo", Clock: clock, Store: memory.New(),
		Observer: house, Sources: []daemon.Source{house}, Drivers: map[workload.Kind]daemon.Driver{workload.InCgroup: house, workload.InProcess: house},
		Log: slog.New(slog.DiscardHandler), Self: holdings,
	}
}

// longestDemo bounds what is shown of a simulated host without a clock.
const longestDemo = time.Hour

// seeDemo shows a simulated host step by step: the same decisions as the daemon's, without its
// loop, so that the same seed gives the same, byte for byte.
func seeDemo(ctx context.Context, o cli.DemoOptions) error {
	trace, err := sim.HouseTrace(o.Nodes, o.Seed, longestDemo)
	if err != nil {
		return cli.Usage(err)
	}
	seen, enough := context.WithCancel(ctx)
	defer enough()
	_, err = sim.Run(seen, sim.Options{Trace: trace, Seed: o.Seed, Policies: []string{"homenode"}, Period: demoPeriod, Watch: func(v control.View, events []plan.Event) {
		if view := (&daemon.View{View: v}); seen.Err() == nil && !o.See(view.Status("demo"), events) {
			enough()
		}
	}})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case seen.Err() != nil:
		return nil
	}
	return err
}
