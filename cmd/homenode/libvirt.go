package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt"
	"github.com/homenode/homenode/host/libvirt/domain"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/ui/cli"
)

// guests is libvirt for the command line.
type guests struct{}

func (guests) New(h *topology.Host, o *guest.Order, home guest.Home, arch string, emulated bool) ([]byte, error) {
	d, err := domain.New(h, o, home, domain.Machine{Arch: arch, Emulated: emulated})
	if err != nil {
		return nil, err
	}
	return d.Bytes(), nil
}

func (guests) Guest(h *topology.Host, text []byte) (guest.Guest, error) {
	d, err := domain.Parse(text)
	if err != nil {
		return guest.Guest{}, err
	}
	return d.Guest(h)
}

func (guests) Wants(h *topology.Host, text []byte) (workload.Spec, guest.Emulator, bool, error) {
	d, err := domain.Parse(text)
	if err != nil {
		return workload.Spec{}, "", false, err
	}
	spec, mark, ok, err := d.Wants(h)
	return spec, mark.Emulator, ok, err
}

func (guests) Rehome(h *topology.Host, text []byte, home guest.Home) ([]byte, error) {
	d, err := domain.Parse(text)
	if err != nil {
		return nil, err
	}
	mark, _ := d.Mark()
	d.Place(h, home, mark)
	return d.Bytes(), nil
}

// Connect reaches the libvirt that LIBVIRT_DEFAULT_URI names, as virsh does. Who
// changes guests does so alone: two that place at once would give both the same CPUs.
func (guests) Connect(ctx context.Context, change bool) (cli.Hypervisor, error) {
	w := libvirt.NewWatch(libvirt.WatchOptions{URI: os.Getenv("LIBVIRT_DEFAULT_URI"), Manage: libvirt.Marked})
	switch err := w.Look(ctx); {
	case errors.Is(err, libvirt.ErrURI):
		return nil, cli.Usage(err)
	case err != nil:
		return nil, cli.Forbidden(errors.Join(err, w.Close()))
	}
	h := &hypervisors{Watch: w}
	if !change {
		return h, nil
	}
	if err := h.lock(ctx, defaultState()); err != nil {
		return nil, cli.Forbidden(errors.Join(err, w.Close()))
	}
	return h, nil
}

// hypervisors is a libvirt for a command. One that changes guests is the only one until
// Close, and until Unlock nobody else changes any: what it decides on stands still. The
// steps that it decides on are a daemon's to carry out, or a stand-in's, whose driver takes
// the second lock for each.
type hypervisors struct {
	*libvirt.Watch
	only, guests *os.File // nil: nothing is changed, or it is unlocked
}

func (h *hypervisors) lock(ctx context.Context, dir string) (err error) {
	if h.only, err = lockFile(ctx, dir, "commands.lock"); err != nil {
		return err
	}
	if h.guests, err = lockGuests(ctx, dir); err != nil {
		err = errors.Join(err, h.only.Close())
	}
	return err
}

func (h *hypervisors) Unlock() error {
	f := h.guests
	if h.guests = nil; f == nil {
		return nil
	}
	return f.Close()
}

func (h *hypervisors) Guests(ctx context.Context, host *topology.Host) ([]guest.Guest, []guest.Unread, error) {
	return h.All(ctx, host)
}

func (h *hypervisors) Close() error {
	err := errors.Join(h.Watch.Close(), h.Unlock())
	if h.only != nil {
		err = errors.Join(err, h.only.Close())
	}
	return err
}

// lockWait is how long one change waits for another: dozens of guests are moved
// in less.
const lockWait = 30 * time.Second

// lockGuests waits until nobody else of this user changes guests.
func lockGuests(ctx context.Context, dir string) (*os.File, error) {
	return lockFile(ctx, dir, "guests.lock")
}

// lockFile waits for a lock; closing the file ends it, as does the end of the process.
func lockFile(ctx context.Context, dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: another homenode is changing guests", f.Name()), f.Close())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// policy is that of the configuration file of this host.
func policy(h *topology.Host) (plan.Policy, error) {
	c, err := configOf(cli.DaemonOptions{})
	if err != nil {
		return plan.Policy{}, cli.Usage(err)
	}
	p, err := c.ForPlacing(h)
	if err != nil {
		return p, cli.Usage(err)
	}
	return p, nil
}

// ruleOf is the first rule of the configuration that fits one of some names; nil for none.
func ruleOf(names ...string) (*workload.Rule, error) {
	c, err := configOf(cli.DaemonOptions{})
	if err != nil {
		return nil, cli.Usage(err)
	}
	return c.Wishes(names, nil), nil
}

// runFolder is where libvirt keeps what runs: below /run for the system's, below the
// user's folder for one's own.
func runFolder() string {
	if os.Getenv("LIBVIRT_DEFAULT_URI") == "qemu:///session" {
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "libvirt/qemu/run")
	}
	return "/run/libvirt/qemu"
}

// guestsRun reports whether libvirt's folder tells of guests that run.
func guestsRun() bool {
	files, _ := filepath.Glob(filepath.Join(runFolder(), "*.pid"))
	return len(files) > 0
}

// hypervisor is the QEMU of a running guest, by the file that libvirt writes its PID
// into.
func hypervisor(name string) (workload.Process, error) {
	file := filepath.Join(runFolder(), name+".pid")
	text, err := os.ReadFile(file)
	if err != nil {
		return workload.Process{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return workload.Process{}, fmt.Errorf("%s: %w", file, err)
	}
	return process.Identify(pid)
}
