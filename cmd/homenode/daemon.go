package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/cgroup"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/host/irq"
	"github.com/homenode/homenode/host/libvirt"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/store"
	"github.com/homenode/homenode/ui/cli"
)

// wallClock is the time of this machine.
type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// runDaemon is `homenode daemon`.
func runDaemon(ctx context.Context, o cli.DaemonOptions) error {
	config, err := configOf(o)
	if err != nil {
		return cli.Usage(err)
	}
	if config.Mode == daemon.Enforce && os.Geteuid() != 0 {
		return cli.Forbidden(errors.New("enforce mode changes other users' work: run it as root, or look with --mode observe"))
	}
	access := api.Access{Group: -1, OthersMayRead: config.OthersMayRead}
	if config.SocketGroup != "" {
		if access.Group, err = groupID(config.SocketGroup); err != nil {
			return cli.Usage(err)
		}
	}
	s, err := store.Open(config.StateDir)
	if errors.Is(err, store.ErrLocked) {
		return cli.Forbidden(fmt.Errorf("another daemon is running: %w", err))
	}
	if err != nil {
		return cli.Forbidden(err)
	}
	defer s.Close()

	var d *daemon.Daemon
	options := optionsFor(config, observe.Options{
		Expected:   func(id workload.ID) (topology.CPUSet, bool) { return d.Given(id) },
		Registered: func() []workload.Process { return d.Registered() },
	})
	options.Store = s
	if most := int64(config.Record.MaxSize); most > 0 {
		w, err := flight.Create(filepath.Join(config.StateDir, flightFolder), most)
		if err != nil {
			return cli.Forbidden(err)
		}
		defer w.Close()
		options.Recorder = w
	}
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	// A look comes once a period: the watchdog must wait longer than that.
	watchdog := max(time.Minute, 3*config.Period)
	options.Looked = func(first bool) {
		if !first {
			sd.SdNotify(false, sd.SdNotifyWatchdog)
			return
		}
		sd.SdNotify(false, fmt.Sprintf("%s\nWATCHDOG_USEC=%d", sd.SdNotifyReady, watchdog.Microseconds()))
		if o.FirstLook != nil {
			if status, err := d.Status(ctx); err == nil {
				o.FirstLook(status)
			}
		}
	}
	if d, err = daemon.New(options); err != nil {
		return err
	}
	l, err := listen(config.Socket, access)
	if err != nil {
		return cli.Forbidden(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		if config.MeasureAtStart {
			measureAtStart(ctx, observe.Root("/"), config.StateDir, options.Log)
		}
	}()
	err = serve(ctx, d, l, access)
	cancel()
	<-measured
	return err
}

// flightFolder is where the flight recorder writes, below the state folder.
const flightFolder = "flight"

// openFlight is for `homenode replay`.
func openFlight(path string) (cli.Flight, error) {
	if path == "" {
		path = filepath.Join(defaultState(), flightFolder)
	}
	return flight.Open(path)
}

// serve runs the loop and the API; when one ends, so does the other.
func serve(ctx context.Context, d *daemon.Daemon, l net.Listener, access api.Access) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- api.Serve(ctx, l, d, access)
		cancel()
	}()
	err := d.Run(ctx)
	sd.SdNotify(false, sd.SdNotifyStopping)
	cancel()
	return errors.Join(err, <-served)
}

func listen(socket string, access api.Access) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	return api.Listen(socket, access)
}

// configOf is defaults, then the file, then the command line.
func configOf(o cli.DaemonOptions) (daemon.Config, error) {
	config := userConfig()
	file := o.Config
	if file == "" {
		if _, err := os.Stat(configFile); err == nil {
			file = configFile
		}
	}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return config, err
		}
		defer f.Close()
		if config, err = daemon.ParseConfig(f, file, config); err != nil {
			return config, err
		}
	}
	if o.Mode != "" {
		config.Mode = daemon.Mode(o.Mode)
	}
	if o.StateDir != "" {
		config.StateDir = o.StateDir
	}
	if o.Socket != "" {
		config.Socket = o.Socket
	}
	if o.Period != 0 {
		config.Period = o.Period
	}
	return config, config.Validate()
}

// userConfig is the defaults, with the folders of whoever runs this.
func userConfig() daemon.Config {
	c := daemon.NewConfig()
	c.StateDir = defaultState()
	if os.Geteuid() != 0 {
		c.Socket = userSocket()
	}
	return c
}

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("socket_group: %w; name a group of this machine", err)
	}
	return strconv.Atoi(g.Gid)
}

var _ daemon.Heirs = (*process.Driver)(nil)

// optionsFor wires the host packages together; the store is the caller's.
func optionsFor(config daemon.Config, look observe.Options) daemon.Options {
	look.MinMemory = config.Manage.MinMemory.KiB()
	look.MinCPU = config.Manage.MinCPU
	look.SelfPID = os.Getpid()
	kept := keptIn(config.StateDir)
	look.Host, look.Free = kept.host, kept.free
	observer := observe.New(observe.Root("/"), look)
	pressure := &process.Pressure{Host: config.Move.PauseHost, Workload: config.Move.PauseWorkload}
	mover := process.NewMover(process.MoverOptions{
		Bandwidth: int64(config.Move.Bandwidth),
		Batch:     config.Move.Batch,
		Pause:     pressure.Pause,
	})
	guests := libvirt.NewWatch(libvirt.WatchOptions{
		URI: os.Getenv("LIBVIRT_DEFAULT_URI"), Process: hypervisor,
		Lock: func(ctx context.Context) (interface{ Close() error }, error) { return lockGuests(ctx, defaultState()) },
	})
	return daemon.Options{
		Guests: guests,
		Config: config, Version: version, BootID: bootID(),
		Observer: observer,
		Drivers: map[workload.Kind]daemon.Driver{
			workload.InCgroup:  cgroup.New(cgroup.Options{Mover: mover}),
			workload.InProcess: process.New(process.Options{Mover: mover}),
			workload.InDevice:  irq.New("/"),
			workload.InGuest:   guests,
		},
		Clock:  wallClock{},
		Rivals: func(h *topology.Host) []measure.Manager { return doctor.Managers(observe.Root("/"), h) },
	}
}

// bootID changes with every start of the machine (random(4)).
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// journal reports whether a state folder holds a journal that may be read.
func journal(stateDir string) error {
	s, err := store.OpenReadOnly(stateDir)
	if err != nil {
		return err
	}
	return s.Close()
}

// local answers for commands when no daemon runs.
func local(_ context.Context, stateDir string) (api.Backend, func() error, error) {
	config, err := configOf(cli.DaemonOptions{StateDir: stateDir})
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	var l *daemon.Local
	l = &daemon.Local{
		Options: optionsFor(config, observe.Options{
			Expected:   func(id workload.ID) (topology.CPUSet, bool) { return l.Given(id) },
			Registered: func() []workload.Process { return l.Registered() },
		}),
		Open: func() (daemon.Store, error) {
			if _, err := os.Stat(systemState); err == nil && os.Geteuid() != 0 && config.StateDir == defaultState() {
				return nil, cli.Forbidden(fmt.Errorf("this machine's journal is in %s: ask as root, or name another --state-dir", systemState))
			}
			s, err := store.Open(config.StateDir)
			if err != nil {
				return nil, cli.Forbidden(err)
			}
			return s, nil
		},
		OpenRead: func() (daemon.Store, error) {
			s, err := store.OpenReadOnly(config.StateDir)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
				return nil, nil // nothing was ever changed, or it is not ours to know
			case err != nil:
				return nil, cli.Forbidden(err)
			}
			return s, nil
		},
	}
	return l, func() error { return nil }, nil
}
