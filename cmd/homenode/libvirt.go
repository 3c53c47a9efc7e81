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

func (guests) Standing(h *topology.Host, text []byte) (guest.Standing, error) {
	d, err := domain.Parse(text)
	if err != nil {
		return guest.Standing{}, err
	}
	return d.Standing(h)
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
	c, err := libvirt.Open(ctx, os.Getenv("LIBVIRT_DEFAULT_URI"))
	switch {
	case errors.Is(err, libvirt.ErrURI):
		return nil, cli.Usage(err)
	case err != nil:
		return nil, cli.Forbidden(err)
	case !change:
		return c, nil
	}
	lock, err := lockGuests(ctx, defaultState())
	if err != nil {
		return nil, cli.Forbidden(errors.Join(err, c.Close()))
	}
	return &locked{c, lock}, nil
}

// locked is a connection that nobody else changes guests beside.
type locked struct {
	*libvirt.Client
	lock *os.File
}

func (l *locked) Close() error { return errors.Join(l.Client.Close(), l.lock.Close()) }

// lockWait is how long one change waits for another: dozens of guests are moved
// in less.
const lockWait = 30 * time.Second

// lockGuests waits until nobody else of this user changes guests; closing the
// file ends it, as does the end of the process.
func lockGuests(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "guests.lock"), os.O_RDWR|os.O_CREATE, 0o600)
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
func policy() (plan.Policy, error) {
	c, err := configOf(cli.DaemonOptions{})
	if err != nil {
		return plan.Policy{}, cli.Usage(err)
	}
	return c.ForPlacing(), nil
}

// hypervisor is the QEMU of a running guest, by the file that libvirt writes its PID
// into: below /run for the system's libvirt, below the user's folder for one's own.
func hypervisor(name string) (workload.Process, error) {
	file := filepath.Join("/run/libvirt/qemu", name+".pid")
	if os.Getenv("LIBVIRT_DEFAULT_URI") == "qemu:///session" {
		file = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "libvirt/qemu/run", name+".pid")
	}
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
