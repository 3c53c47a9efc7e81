package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// What homenode has frozen must not stay so when it is killed. Before each freeze it puts a
// record into a folder that root alone can write, and starts a guardian: a process that waits
// for homenode to let go of a pipe, which the kernel does for it on kill -9, or for thawAfter,
// and thaws what has a record still. Where the guardian is killed too, as with all of a
// service, the next homenode thaws what has a record: ExecStopPost= of the unit, and each
// start (Thaw).

// ThawCommand is the first argument of the guardian's own command line; with no more arguments
// the program calls Thaw.
const ThawCommand = "thaw-frozen"

// keep writes the record of a cgroup that is about to be frozen and returns its name.
func (d *Driver) keep(at, object string) (string, error) {
	if d.run == "" {
		return "", nil
	}
	if err := os.MkdirAll(d.run, 0o700); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d %d\n%s\n", os.Getpid(), d.startOf(os.Getpid()), at)
	f, err := os.OpenFile(filepath.Join(d.run, object), os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", fmt.Errorf("cgroup %s: not frozen, because the record of it cannot be written: %w", at, plain(err))
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		d.forget(object)
		return "", fmt.Errorf("cgroup %s: not frozen, because the record of it cannot be written: %w", at, plain(err))
	}
	return object, nil
}

// plain keeps an error about a file of homenode's own from looking like one about a cgroup
// that is gone.
func plain(err error) error { return errors.New(err.Error()) }

func (d *Driver) forget(record string) {
	if record != "" {
		_ = os.Remove(filepath.Join(d.run, record))
	}
}

// startOf is when a process started, in clock ticks since boot; 0 when it does not run.
func (d *Driver) startOf(pid int) uint64 {
	text, err := fs.ReadFile(d.root, procfs.File(pid, "stat"))
	if err != nil {
		return 0
	}
	s, err := procfs.ParseStat(text)
	if err != nil {
		return 0
	}
	return s.Start
}

// Thaw thaws what a homenode that was killed has left frozen, and leaves alone what one that runs has
// frozen just now.
func (d *Driver) Thaw() error {
	if d.run == "" {
		return nil
	}
	records, err := os.ReadDir(d.run)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, r := range records {
		var live *FrozenError
		if err := d.thawLeft(r.Name()); !errors.As(err, &live) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// thawLeft thaws what has a record, unless the homenode that wrote it still runs.
func (d *Driver) thawLeft(record string) error {
	text, at, by := d.recorded(record)
	if text == "" {
		return nil
	}
	// A note of this process's own is one that it could not remove: see alone.
	if at != "" && by.PID != os.Getpid() && by.Start != 0 && d.startOf(by.PID) == by.Start {
		return &FrozenError{at}
	}
	return d.thawNow(record, at)
}

func (d *Driver) recorded(record string) (text, at string, by workload.Process) {
	if d.run == "" {
		return "", "", by
	}
	b, err := os.ReadFile(filepath.Join(d.run, record))
	if err != nil {
		return "", "", by
	}
	lines := strings.SplitN(string(b), "\n", 3)
	if len(lines) == 3 { // else it was killed while it wrote the record, and has frozen nothing
		pid, start, _ := strings.Cut(lines[0], " ")
		by.PID, _ = strconv.Atoi(pid)
		by.Start, _ = strconv.ParseUint(start, 10, 64)
		at = lines[1]
	}
	return "1" + string(b), at, by
}

func (d *Driver) thawNow(record, at string) error {
	if at != "" && checkPath(at) == nil {
		object, err := d.files.object(at)
		if err != nil && !errors.Is(d.lost(at, err), fs.ErrNotExist) {
			return err
		}
		if err == nil && object == record {
			if err := d.thawed(at); err != nil {
				return err
			}
		}
	}
	d.forget(record)
	return nil
}

// Guard starts the guardian of a record: this program again, with ThawCommand and the mount
// of the cgroups. It returns once the guardian stands by.
func Guard(mount string) func(run, record string) (end func(), err error) {
	return func(run, record string) (func(), error) {
		c := exec.Command("/proc/self/exe", ThawCommand, mount, run, record)
		c.Env = []string{"GOMAXPROCS=1"}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
		hold, err := c.StdinPipe()
		if err != nil {
			return nil, err
		}
		ready, err := c.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		end := func() {
			hold.Close()
			go func() { _ = c.Wait() }()
		}
		said := make(chan error, 1)
		go func() {
			_, err := ready.Read(make([]byte, 1))
			said <- err
		}()
		select {
		case err = <-said:
		case <-time.After(guardWithin):
			err = fmt.Errorf("it did not start within %v", guardWithin)
		}
		if err != nil {
			_ = c.Process.Kill()
			end()
			return nil, err
		}
		return end, nil
	}
}

// guardWithin is how long a guardian has to start; it takes some ten milliseconds, on an
// emulated machine beside other work several seconds.
const guardWithin = 30 * time.Second

// Guardian is the guardian's program. args follow ThawCommand; none thaws all that a homenode
// that was killed has left frozen.
func Guardian(mount, run string, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return New(Options{Mount: mount, Run: run}).Thaw()
	}
	if len(args) != 3 || args[2] != filepath.Base(args[2]) {
		return errors.New("want the mount, the folder of records and the name of a record")
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	d := New(Options{Mount: args[0], Run: args[1]})
	if _, err := out.Write([]byte{'.'}); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, in)
	}()
	select {
	case <-gone:
	case <-time.After(thawAfter):
	}
	if text, at, _ := d.recorded(args[2]); text != "" {
		return d.thawNow(args[2], at)
	}
	return nil
}
