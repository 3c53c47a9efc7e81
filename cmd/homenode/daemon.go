package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/containers"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/host/irq"
	"github.com/homenode/homenode/host/libvirt"
	"github.com/homenode/homenode/host/links"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/host/peers"
	"github.com/homenode/homenode/host/prepare"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/proxmox"
	"github.com/homenode/homenode/host/resctrl"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scx"
	"github.com/homenode/homenode/host/store"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/house"
	"github.com/homenode/homenode/ui/trial"
)

// wallClock is the time of this machine.
type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// daemonOf runs a daemon with a configuration until ctx ends or, with the layers of the next one, until a
// hangup that asks for another.
func daemonOf(ctx context.Context, o cli.DaemonOptions, c config.Config, layers []config.Layer,
	h *hangup) (next []config.Layer, err error) {
	if c.Mode == config.Enforce && os.Geteuid() != 0 {
		return nil,
			cli.Forbidden(errors.New("enforce mode changes other users' work: run it as root, or look with --mode " +
				"observe"))
	}
	host, _ := os.Hostname()
	found := peers.New()
	access := api.Access{Group: -1, OthersMayRead: c.OthersMayRead, Owner: found.Process, Refused: &api.Refusals{}}
	if c.SocketGroup != "" {
		if access.Group, err = groupID(c.SocketGroup); err != nil {
			return nil, cli.Usage(err)
		}
	}
	machineNow, err := topology.FromSysfs(files.Root(machine))
	if err != nil {
		return nil, cli.Forbidden(err)
	}
	if err := blockDevices(&c); err != nil {
		return nil, cli.Usage(fmt.Errorf("%w", c.Located(err)))
	}
	odd, err := c.Suits(machineNow)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%w", c.Located(err)))
	}
	s, err := store.Open(c.StateDir)
	if errors.Is(err, store.ErrLocked) {
		return nil, cli.Forbidden(fmt.Errorf("another daemon is running: %w", err))
	}
	if err != nil {
		return nil, cli.Forbidden(err)
	}
	defer s.Close()

	options := optionsFor(c)
	source := func(g *workload.Goal) daemon.MetricSource { return trial.OfGoal(g, c.Share.Prometheus) }
	options.Metrics = daemon.Metrics(c.Goals(), source)
	options.Store = s
	options.Self = holdings
	options.Admitted = runsHere(c.StateDir).Admitted
	options.Odd = odd
	proxmoxIn(&options, c)
	incusIn(&options, c)
	pods := containersIn(&options, c)
	if c.Mode == config.Enforce {
		lock, err := store.LockHost()
		if err != nil {
			return nil, cli.Forbidden(err)
		}
		defer lock.Close()
		if lock.Notice != nil {
			slog.Warn("another enforcing daemon might not be noticed", "err", lock.Notice)
		}
		pressureIn(ctx, &options)
	}
	options.Log = slog.Default()
	if most := int64(c.Record.MaxSize); most > 0 {
		w, err := flight.Create(filepath.Join(c.StateDir, flightFolder), most)
		if err != nil {
			return nil, cli.Forbidden(err)
		}
		r := recorder{flight.NewRecorder(w, options.Log)}
		defer r.Close()
		options.Recorder = r
	}
	// The watchdog watches the loop, which comes round each second whatever hangs beside it
	// and waits for nobody: not for systemd, nor for who reads what is printed.
	notices := make(chan string, 8)
	defer close(notices)
	go func() {
		for n := range notices {
			sd.SdNotify(false, n)
		}
	}()
	notify := func(n string) {
		select {
		case notices <- n:
		default:
		}
	}
	var alive time.Time
	options.Alive = func() {
		if now := time.Now(); now.Sub(alive) >= time.Second {
			alive = now
			notify(sd.SdNotifyWatchdog)
		}
	}
	options.Ready = func(d *daemon.Daemon) {
		notify(sd.SdNotifyReady)
		h.began()
		if o.FirstLook == nil {
			return
		}
		if status, err := d.Status(ctx); err == nil {
			go o.FirstLook(status, c.Period)
		}
	}
	w, err := newWatched(options, c.Metrics.Workloads)
	if err != nil {
		return nil, err
	}
	d := w.Daemon
	if h.note != "" {
		d.Note(h.note)
	}
	l, err := listen(c.Socket, access)
	if refused := (*api.Error)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil {
		return nil, cli.Forbidden(err)
	}
	access.Houses = api.NewHouses(d, host, house.Painter{})
	remote, forget, err := listenTCP(&c, access, host)
	if remote != nil {
		remote.may.Local = found.Connection
		if err := found.Check(); err != nil {
			slog.Warn("users of this machine count as one over TCP: the kernel does not tell who connects", "err", err)
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	defer forget()
	program := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go sweepBatch(ctx)
	if pods != nil {
		go pods.Run(ctx)
	}
	if c.Metrics.Textfile != "" {
		go writeMetrics(ctx, w.shown, c.Metrics.Textfile, options.Log)
	}
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		if c.MeasureAtStart {
			measureAtStart(ctx, files.Root(machine), c.StateDir, options.Log)
		}
	}()
	chosen := make(chan []config.Layer, 1)
	go h.heed(ctx, o, layers, d, func(with []config.Layer) {
		chosen <- with
		if with != nil {
			d.HandOver(program)
		}
		cancel()
	})
	err = serve(ctx, w, l, access, remote)
	cancel()
	<-probed
	select {
	case next = <-chosen:
	default:
	}
	return next, err
}

// holdings counts what this process holds open.
func holdings() api.Self {
	open, _ := os.ReadDir("/proc/self/fd")
	return api.Self{Goroutines: runtime.NumGoroutine(), Descriptors: max(0, len(open)-1)} // less the one that reads
}

// serve runs the loop and the API; when one ends, so do the others.
func serve(ctx context.Context, d watched, l net.Listener, access api.Access, remote *overTCP) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.shown.Follow(ctx)
	served, looked := make(chan error, 1), make(chan error, 1)
	go func() {
		served <- api.Serve(ctx, l, d, access)
		cancel()
	}()
	go func() {
		if remote != nil {
			looked <- api.ServeTCP(ctx, remote.l, d, remote.may)
			cancel()
		} else {
			looked <- nil
		}
	}()
	err := d.Run(ctx)
	cancel()
	return errors.Join(err, <-served, <-looked)
}

func listen(socket string, access api.Access) (net.Listener, error) {
	if err := runs.Folder(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	return api.Listen(socket, access)
}

// localConfig is the configuration of a command without a daemon. Where --state-dir names no
// folder it is that of root's daemon, which state_dir may name, or an ordinary user's own.
func localConfig(stateDir string) (config.Config, error) {
	if stateDir == "" && os.Geteuid() != 0 {
		stateDir = defaultState()
	}
	return configOf(cli.DaemonOptions{StateDir: stateDir})
}

// userConfig is the defaults, with the folders of whoever runs this.
func userConfig() config.Config {
	c := config.New()
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

// blockDevices has share.io_max name devices as io.max does, MAJOR:MINOR.
func blockDevices(c *config.Config) error {
	all := slices.Clone(c.Share.IOMax)
	for i := range all {
		name, rest, _ := strings.Cut(strings.TrimSpace(all[i]), " ")
		if strings.Contains(name, ":") {
			continue
		}
		number, err := os.ReadFile(filepath.Join(machine, "sys/class/block", name, "dev"))
		if err != nil {
			return fmt.Errorf("share.io_max[%d]: no block device %q here; `lsblk` lists them", i, name)
		}
		all[i] = strings.TrimSpace(string(number)) + " " + rest
	}
	c.Share.IOMax = all
	return nil
}

var _ daemon.Inheriting = (*process.Driver)(nil)

// optionsFor wires the host packages together; the store is the caller's.
func optionsFor(c config.Config) daemon.Options {
	root := files.Root(machine)
	settings := c.Settings()
	kept := keptIn(c.StateDir)
	observer := observe.New(root, observe.Options{
		MinMemory: c.Manage.MinMemory.KiB(), MinCPU: c.Manage.MinCPU, SelfPID: os.Getpid(), Counters: true,
		Named: func(cgroup, name string) bool {
			return settings.Names(cgroup, name) || (c.Proxmox.Manage != config.NoGuests && proxmox.IsScope(cgroup))
		},
		Container: containers.New(root, nil).Of, Host: kept.host, Free: kept.free,
	})
	pressure := &process.Pressure{Root: os.DirFS(machine), Host: c.Move.PauseHost, Workload: c.Move.PauseWorkload}
	mover := process.NewMover(process.MoverOptions{
		Root:      os.DirFS(machine),
		Bandwidth: int64(c.Move.Bandwidth),
		Batch:     c.Move.Batch,
		Pause:     pressure.Pause,
	})
	interrupts, finder := irq.New(machine), links.New(machine)
	guests := libvirt.NewWatch(libvirt.WatchOptions{
		URI: os.Getenv("LIBVIRT_DEFAULT_URI"), Manage: libvirt.Managed(c.Libvirt.Manage), Process: hypervisor,
		CPUs: process.CPUsOf, Running: guestsRun, Answers: mover.Answers,
		Lock: func(ctx context.Context) (interface{ Close() error }, error) { return lockGuests(ctx, defaultState()) },
	})
	finder.Attached = guests.Attached
	var before *topology.Host // the budget is told often: all of sysfs is read again where CPUs came or went
	scheduler := scx.NewDriver(scx.DriverOptions{Root: machine, Folder: filepath.Join(c.StateDir, schedulers),
		Host: func() (_ *topology.Host, err error) {
			if before == nil {
				before, err = topology.FromSysfs(root)
			} else {
				before, err = topology.ReadFree(root, before)
			}
			return before, err
		}})
	return daemon.Options{
		Settings: settings, Period: c.Period, Version: version, BootID: bootID(),
		Observer: observer,
		Sources:  []daemon.Source{guests},
		Drivers: map[workload.Kind]daemon.Driver{
			workload.InCgroup:  cgroupDriver(mover),
			workload.InProcess: process.New(process.Options{Root: os.DirFS(machine), Mover: mover}),
			workload.InDevice:  interrupts,
			workload.InHost:    prepare.New(machine, prepare.Systemd{}),
			workload.InKernel:  scheduler,
			workload.InCache:   resctrl.New(machine),
			guest.Kind:         guests,
		},
		Scheduler: scheduler,
		Surveys: map[control.SurveyKind]daemon.Surveyor{
			control.Managers: func(_ context.Context, s *workload.Snapshot) (control.Survey, error) {
				return control.Survey{Managers: managers(doctor.Managers(root, s.Host))}, nil
			},
			control.Links: func(ctx context.Context, s *workload.Snapshot) (out control.Survey, err error) {
				out.Links, out.Read = finder.Links(ctx, s.Host, s.Observations)
				if err := finder.Lacks(); err != nil {
					out.Lacks = err.Error()
				}
				return out, nil
			},
			control.Interrupts: func(ctx context.Context, s *workload.Snapshot) (out control.Survey, err error) {
				out.Devices, err = interrupts.Devices(ctx, s.Host)
				return out, err
			},
			control.Isolation: func(_ context.Context, s *workload.Snapshot) (control.Survey, error) {
				return control.Survey{Noise: hostprep.ReadNoise(root, s.Host)}, nil
			},
		},
		Processes: process.Live{},
		Clock:     wallClock{}, Lineage: lineage,
	}
}

// lineage is what the kernel says of a process that a user names.
func lineage(pid int) workload.Lineage { return observe.LineageOf(files.Root(machine), pid) }

// cgroupOf is the cgroup of a process; "" when it is not known.
func cgroupOf(pid int) string { return lineage(pid).Cgroup }

// whoAsks is the user of this command.
func whoAsks() *plan.Asker { return api.WhoIs(os.Getuid(), os.Getpid()) }

// schedulers is the folder, below the state folder, of the schedulers that were loaded.
const schedulers = "schedulers"

// managers is the other programs that place things as the daemon sees them: what is left
// to each.
func managers(found []measure.Manager) []control.Manager {
	var out []control.Manager
	for _, m := range found {
		x := control.Manager{Name: m.Name, Does: m.Does, Owns: m.Owns, CPUs: m.CPUs, Names: m.Guests}
		switch m.Name {
		case doctor.Numad:
			x.Everything = true
		case doctor.Irqbalance:
			x.Interrupts = true
		case doctor.Kubelet:
			// Below kubepods.slice under systemd, else below kubepods; nested kubelets write
			// kubelet-kubepods.slice (pkg/kubelet/cm, cgroup roots).
			x.Cgroups = []string{"kubepods", "kubepods.slice", "kubelet-kubepods", "kubelet-kubepods.slice"}
		}
		out = append(out, x)
	}
	return out
}

// bootID changes with every start of the machine (random(4)).
func bootID() string {
	id, err := os.ReadFile(filepath.Join(machine, "proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// journal reports whether a state folder holds a journal that may be read.
func journal(stateDir string) error {
	c, err := localConfig(stateDir)
	if err != nil {
		return cli.Usage(err)
	}
	s, err := store.OpenReadOnly(c.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(journalOfRoot(c.StateDir), err)
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// journalOfRoot refuses a user's own state folder where root has one: the journal is there.
func journalOfRoot(stateDir string) error {
	if _, err := os.Stat(filepath.Join(machine, systemState)); err == nil && os.Geteuid() != 0 &&
		stateDir == defaultState() {
		return cli.Forbidden(fmt.Errorf("this machine's journal is in %s: ask as root, or name another --state-dir",
			systemState))
	}
	return nil
}

// local answers for commands when no daemon runs.
func local(_ context.Context, stateDir string) (api.Backend, func() error, error) {
	c, err := localConfig(stateDir)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	options, here := optionsFor(c), runsHere(c.StateDir)
	options.Admitted = here.Admitted
	proxmoxIn(&options, c)
	incusIn(&options, c)
	l := &daemon.Local{
		Runs:    here,
		Options: options,
		Who:     whoAsks,
		Open: func() (daemon.Store, error) {
			if err := journalOfRoot(c.StateDir); err != nil {
				return nil, err
			}
			s, err := store.Open(c.StateDir)
			if err != nil {
				return nil, cli.Forbidden(err)
			}
			return s, nil
		},
		OpenOwn: func() (daemon.Store, error) {
			s, err := store.Open(c.StateDir)
			if err != nil {
				return nil, cli.Forbidden(err)
			}
			return s, nil
		},
		Process: processNow,
		OpenUndo: func() (daemon.Store, error) {
			s, err := store.OpenForUndo(c.StateDir)
			if errors.Is(err, fs.ErrNotExist) {
				if err := journalOfRoot(c.StateDir); err != nil {
					return nil, err
				}
				return nil, &api.Error{Code: api.NotFound,
					Text: fmt.Sprintf("no journal in %s: homenode has changed nothing from there; --state-dir names "+
						"another folder", c.StateDir)}
			}
			if err != nil {
				return nil, cli.Forbidden(err)
			}
			return s, nil
		},
		OpenRead: func() (daemon.Store, error) {
			s, err := store.OpenReadOnly(c.StateDir)
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
