package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/daemon/memory"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	picture "github.com/homenode/homenode/ui/house"
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

// demoPeriod is the time between two scans of a simulated host.
const demoPeriod = time.Second

// demo is `homenode demo`: the daemon's loop and API on a simulated host, one story after the
// other. It writes a socket and its flight log, in a folder of its own that is removed at the end.
func demo(ctx context.Context, o cli.DemoOptions) error {
	if o.See != nil {
		return seeDemo(ctx, o)
	}
	dir, err := os.MkdirTemp("", "homenode-demo-")
	if err != nil {
		return cli.Forbidden(err)
	}
	defer os.RemoveAll(dir)
	place := cli.DemoPlace{Socket: filepath.Join(dir, "socket")}
	viewed := make(chan struct{})
	for {
		next, err := tellStory(ctx, &o, &place, viewed)
		if err != nil || next == "" {
			return err
		}
		o.Story = next
	}
}

// tellStory plays a story from its first viewer on, until ctx ends or another story is chosen.
// The host waits until viewed is closed, and the first connection closes it.
func tellStory(ctx context.Context, o *cli.DemoOptions, place *cli.DemoPlace,
	viewed chan struct{}) (next string, err error) {
	access := api.Access{Group: os.Getegid()}
	socket, err := api.Listen(place.Socket, access)
	if err != nil {
		return "", cli.Forbidden(err)
	}
	arrive := sync.OnceFunc(func() {
		select {
		case <-viewed:
		default:
			close(viewed)
		}
	})
	l := keepAtDoor(socket, arrive)
	defer l.Close()
	var page *atDoor
	if listener := demoListener(place.Page); listener != nil {
		page = keepAtDoor(listener, arrive)
		defer page.Close()
		place.Page = listener.Addr().String()
	}
	shown := *place
	if shown.Page != "" {
		shown.Page = "http://" + shown.Page + "/"
	}
	ended := make(chan struct{})
	defer close(ended)
	select {
	case <-viewed:
	default:
		go o.Ready(shown)
	}
	select {
	case <-ctx.Done():
		return "", nil
	case <-viewed:
	}
	clock := fastClock{time.Now(), o.Speed}
	house, err := sim.NewHouse(sim.Story(o.Story), o.Nodes, o.Seed, clock)
	if err != nil {
		return "", cli.Usage(err)
	}
	options := demoDaemon(house, clock)
	options.Ready = func(*daemon.Daemon) {
		l.open()
		if page != nil {
			page.open()
		}
	}
	record, err := recordDemo(filepath.Dir(place.Socket))
	if err != nil {
		return "", cli.Forbidden(err)
	}
	defer record.Close()
	options.Recorder = record
	d, err := newWatched(options, config.New().Metrics.Workloads)
	if err != nil {
		return "", err
	}
	access.Houses = api.NewHouses(d, "demo", picture.Painter{})
	var remote *overTCP
	if page != nil {
		remote = &overTCP{page, api.Remote{Page: web.Files, Houses: access.Houses}}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chosen := make(chan string, 1)
	go func() {
		select {
		case story := <-o.Next:
			chosen <- story
			cancel()
		case <-ended:
		}
	}()
	err = serve(ctx, d, l, access, remote)
	if o.Ended != nil {
		if s, err := d.Status(context.Background()); err == nil {
			o.Ended(o.Story, s)
		}
	}
	select {
	case next = <-chosen:
	default:
	}
	return next, err
}

// mostRecorded bounds the flight log of a demo, bytes: several hours.
const mostRecorded = 64 << 20

// recordDemo is the flight recorder of a story, for `homenode report` on its socket. It keeps nothing
// of the story before.
func recordDemo(dir string) (recorder, error) {
	dir = filepath.Join(dir, flightFolder)
	if err := os.RemoveAll(dir); err != nil {
		return recorder{}, err
	}
	w, err := flight.Create(dir, mostRecorded)
	if err != nil {
		return recorder{}, err
	}
	return recorder{flight.NewRecorder(w, slog.New(slog.DiscardHandler))}, nil
}

// demoListener is where the page is served, on this machine's own address: where it was, or on
// the port that a daemon has by habit, so that one ssh -L does for both, or on any. All that it
// shows is made up, so that it asks for no token. nil where nothing may listen.
func demoListener(before string) net.Listener {
	tries := []string{"127.0.0.1:4663", "127.0.0.1:0"}
	if before != "" {
		tries = []string{before}
	}
	for _, address := range tries {
		if l, err := net.Listen("tcp", address); err == nil {
			return l
		}
	}
	return nil
}

// atDoor is a listener whose connections wait until it is opened: the first viewer starts what
// is to be seen, and is let in once there is something.
type atDoor struct {
	net.Listener
	conns  chan net.Conn
	opened chan struct{}
	closed chan struct{}
	open   func()
	shut   func()
}

// keepAtDoor calls arrive with each connection.
func keepAtDoor(l net.Listener, arrive func()) *atDoor {
	d := &atDoor{Listener: l, conns: make(chan net.Conn), opened: make(chan struct{}), closed: make(chan struct{})}
	d.open = sync.OnceFunc(func() { close(d.opened) })
	d.shut = sync.OnceFunc(func() { close(d.closed) })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				d.shut()
				return
			}
			if err != nil {
				time.Sleep(10 * time.Millisecond) // too many open files, as net/http waits
				continue
			}
			arrive()
			select {
			case d.conns <- c:
			case <-d.closed:
				c.Close()
			}
		}
	}()
	return d
}

func (d *atDoor) Accept() (net.Conn, error) {
	select {
	case <-d.opened:
	case <-d.closed:
		return nil, net.ErrClosed
	}
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *atDoor) Close() error {
	d.shut()
	return d.Listener.Close()
}

// demoDaemon is a daemon that looks after a simulated host, and remembers nothing.
func demoDaemon(house *sim.House, clock fastClock) daemon.Options {
	return daemon.Options{
		Settings: house.Settings(), Period: demoPeriod, Version: version, BootID: "demo", Clock: clock,
		Store:    memory.New(),
		Observer: house, Sources: []daemon.Source{house},
		Drivers: map[workload.Kind]daemon.Driver{workload.InCgroup: house, workload.InProcess: house},
		Log:     slog.New(slog.DiscardHandler), Self: holdings,
	}
}

// longestDemo bounds what is shown of a simulated host without a clock.
const longestDemo = time.Hour

// seeDemo shows a simulated host step by step: the same decisions as the daemon's, without its
// loop, so that the same seed gives the same, byte for byte.
func seeDemo(ctx context.Context, o cli.DemoOptions) error {
	trace, err := sim.HouseTrace(sim.Story(o.Story), o.Nodes, o.Seed, longestDemo)
	if err != nil {
		return cli.Usage(err)
	}
	seen, enough := context.WithCancel(ctx)
	defer enough()
	var trend daemon.Trend
	heard := uint64(0)
	_, err = sim.Run(seen, sim.Options{Trace: trace, Seed: o.Seed, Policies: []string{"homenode"}, Period: demoPeriod,
		Watch: func(v control.View, events []plan.Event) {
			for i := range events {
				if e := &events[i]; e.Seq > heard {
					heard = e.Seq
					trend.Hear(e)
				}
			}
			if view := (&daemon.View{View: v, Trend: trend.Look(&v)}); seen.Err() == nil &&
				!o.See(view.Status("demo"), events) {
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
