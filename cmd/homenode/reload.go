package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/ui/cli"
)

// SIGHUP reloads the configuration. Every key may differ, also those that decide which files and sockets are
// open, so the daemon ends its loop, leaves everything as it is, and starts the same program anew under the
// same process ID: what holds after a restart of the service holds after a reload. A configuration that is
// wrong changes nothing. One that is right and still cannot start, such as a port that is taken, gives way to
// the one before, which the new program was handed.

// beforeFD names the variable with the descriptor of what the program before this one ran with.
const beforeFD = "HOMENODE_BEFORE_FD"

// ending is the signals that stop a daemon.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}

// init gives a program that was started by a reload its name back: the kernel has named it exe. The name of the
// process is that of its first thread, on which init runs.
func init() {
	if os.Getenv(beforeFD) == "" {
		return
	}
	if name, err := unix.BytePtrFromString(filepath.Base(os.Args[0])); err == nil {
		// ps shows the other name; nothing else is wrong
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	}
}

// hangup is what SIGHUP does to a daemon.
type hangup struct {
	signals  chan os.Signal
	ends     chan os.Signal // to stop
	terminal bool           // it was started at one
	note     string         // a configuration that could not be taken, for status
	started  bool
	kept     *os.File // what the next program is handed
}

func newHangup(ctx context.Context) *hangup {
	h := &hangup{signals: make(chan os.Signal, 1), ends: make(chan os.Signal, 1), terminal: atTerminal()}
	signal.Notify(h.ends, ending...)
	context.AfterFunc(ctx, func() { signal.Stop(h.ends) }) // a second one is not for this
	// By nohup it is ignored, and then nobody's order; by again for as long as nobody could take it.
	if !signal.Ignored(syscall.SIGHUP) || os.Getenv(beforeFD) != "" {
		signal.Notify(h.signals, syscall.SIGHUP)
	}
	return h
}

// atTerminal reports whether this process has a terminal that is still there.
func atTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func (h *hangup) began() { h.started = true }

// settles is how long the kernel may take to take a terminal from its processes after it told them.
const settles = 100 * time.Millisecond

// heed reloads the configuration at each hangup until ctx ends. A hangup with which the terminal of the
// daemon has gone ends it, as it does any program.
func (h *hangup) heed(ctx context.Context, o cli.DaemonOptions, layers []config.Layer, d *daemon.Daemon,
	with func([]config.Layer)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.signals:
		}
		if h.terminal {
			time.Sleep(settles)
			if !atTerminal() {
				with(nil)
				return
			}
		}
		next, err := reread(o)
		switch {
		case err != nil:
			d.Note(fmt.Sprintf("%v; the old configuration stays until this is mended and reloaded", err))
		case reflect.DeepEqual(next, layers) && !hasFiles(o, next):
			d.Note("")
			slog.Info("configuration reloaded: nothing has changed")
		default:
			if h.kept, err = keepLayers(layers); err != nil {
				d.Note(fmt.Sprintf("reload: %v; the old configuration stays", err))
				continue
			}
			with(next)
			return
		}
	}
}

// reread reads and checks what a reload would go by.
func reread(o cli.DaemonOptions) ([]config.Layer, error) {
	layers, err := layersOf(o.Config)
	if err != nil {
		return nil, err
	}
	c, err := configFrom(o, layers)
	if err != nil {
		return nil, err
	}
	if c.Mode == config.Enforce && os.Geteuid() != 0 {
		return nil, errors.New("mode: enforce needs root")
	}
	_, err = suits(&c)
	return layers, err
}

// hasFiles reports whether a configuration names files that may have changed, such as certificates.
func hasFiles(o cli.DaemonOptions, layers []config.Layer) bool {
	c, err := configFrom(o, layers)
	return err == nil && (c.API.Token != "" || c.API.Cert != "" || c.API.ClientCA != "")
}

// smallPages keeps the daemon's memory in small pages. Each huge page that the kernel makes of them later interrupts
// every CPU, isolated ones too (collapse_huge_page, mm/khugepaged.c), and the daemon gains nothing by it.
func smallPages() {
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // a kernel without huge pages knows no such call
}

// fewCPUs bounds how many CPUs the daemon computes on at a time. Its scans need one; Go's collector would take every
// idle CPU for its few milliseconds, and work that wakes then waits behind it.
func fewCPUs() {
	const most = 2
	runtime.GOMAXPROCS(min(most, runtime.GOMAXPROCS(0)))
}

// runDaemon is `homenode daemon`.
func runDaemon(ctx context.Context, o cli.DaemonOptions) error {
	slog.SetDefault(slog.New(logHandler(o)))
	smallPages()
	fewCPUs()
	read := cli.Reading(ctx, os.Stderr)
	h := newHangup(ctx) // before the files are read: nothing is lost that is changed later
	before, reloaded := inherited()
	if reloaded {
		o.FirstLook = nil // which was shown before the reload
	}
	layers, err := layersOf(o.Config)
	var c config.Config
	if err == nil {
		c, err = configFrom(o, layers)
	}
	read()
	if err != nil && !reloaded {
		return cli.Usage(err)
	}
	var next []config.Layer
	if err == nil {
		next, err = daemonOf(ctx, o, c, layers, h)
	}
	if err != nil && reloaded && !h.started {
		h.note = fmt.Sprintf("%v; the old configuration stays until this is mended and reloaded", err)
		if c, err = configFrom(o, before); err != nil {
			return cli.Usage(err)
		}
		layers = before
		next, err = daemonOf(ctx, o, c, layers, h)
	}
	if err != nil || next == nil {
		sd.SdNotify(false, sd.SdNotifyStopping) // and not in serve, which ends at a reload, too
		return err
	}
	if h.ended(ctx) {
		sd.SdNotify(false, sd.SdNotifyStopping)
		return restoreLate(ctx, o, c, layers, h)
	}
	slog.Info("configuration reloaded", "files", len(next))
	return again(h.kept)
}

// restoreLate does what restore_on_stop asks for after a daemon has ended and restored nothing, because another
// one was to go on: a daemon that ends at once.
func restoreLate(ctx context.Context, o cli.DaemonOptions, c config.Config, layers []config.Layer, h *hangup) error {
	if c.Mode != config.Enforce || !c.RestoreOnStop {
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	end()
	_, err := daemonOf(ctx, o, c, layers, h)
	return err
}

// logHandler writes one form of lines to standard error. The journal has the time of each already.
func logHandler(o cli.DaemonOptions) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.FirstLook != nil && term.IsTerminal(int(os.Stderr.Fd())) {
		options.Level = slog.LevelWarn // a person reads the status table; the history has the rest
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.NewTextHandler(os.Stderr, options)
}

// keepLayers writes the layers that this program runs with to memory that outlives it.
func keepLayers(layers []config.Layer) (*os.File, error) {
	text, err := json.Marshal(layers)
	if err != nil {
		return nil, err
	}
	// Neither has CLOEXEC. vm.memfd_noexec=2 refuses it without the flag, which Linux before 6.3 does not know.
	fd, err := unix.MemfdCreate("homenode-configuration", unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("homenode-configuration", 0)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "configuration")
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ended reports whether the user has stopped the service by now, after everything was left to the next program.
// From here on a signal to stop has the kernel end this process, or the next one until that takes signals: a
// signal that the Go runtime takes for this program would be lost with it, and the runtime of the next one
// unblocks what is blocked before it takes any.
func (h *hangup) ended(ctx context.Context) bool {
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGWINCH)
	signal.Reset(ending...)
	signal.Stop(taken) // waits until each signal that came before is in its channel
	return len(h.ends) > 0 || ctx.Err() != nil
}

// again replaces this process by the same program, which reads the configuration anew. It is handed the layers
// of the one that ran.
func again(kept *os.File) error {
	if err := os.Setenv(beforeFD, strconv.Itoa(int(kept.Fd()))); err != nil {
		return err
	}
	// the next program reads the files after it takes hangups: this one would change nothing
	signal.Ignore(syscall.SIGHUP)
	sd.SdNotify(false, reloading())
	return fmt.Errorf("reload: %w", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// reloading is what systemd is told (sd_notify(3)).
func reloading() string {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", sd.SdNotifyReloading, now.Nano()/1000)
}

// inherited is the layers that the program before this one ran with; ok is false without one.
func inherited() (layers []config.Layer, ok bool) {
	name := os.Getenv(beforeFD)
	os.Unsetenv(beforeFD)
	fd, err := strconv.Atoi(name)
	if err != nil || fd < 3 {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "configuration")
	defer f.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, false
	}
	return layers, json.NewDecoder(f).Decode(&layers) == nil
}
