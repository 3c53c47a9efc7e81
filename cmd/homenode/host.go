package main

import (
	"context"
	"errors"
	"os"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/daemon"
	hostirq "github.com/homenode/homenode/host/irq"
	"github.com/homenode/homenode/host/store"
	"github.com/homenode/homenode/ui/cli"
)

// hostPreparer is this machine for `homenode host`.
type hostPreparer struct{}

func (hostPreparer) Devices(ctx context.Context, h *topology.Host) ([]irq.Device, error) {
	return hostirq.New(machine).Devices(ctx, h)
}

// PlacesInterrupts reports whether the daemon, as configured, does.
func (hostPreparer) PlacesInterrupts() (bool, error) {
	c, err := configOf(cli.DaemonOptions{})
	if err != nil {
		return false, cli.Usage(err)
	}
	return c.Mode == config.Enforce && c.IRQ == control.InterruptsPlace, nil
}

func (hostPreparer) Placed(stateDir string) ([]plan.Placement, error) {
	l, err := localHost(stateDir)
	if err != nil {
		return nil, err
	}
	placed, err := l.Placed()
	if errors.Is(err, store.ErrLocked) { // a daemon, which is asked itself
		return nil, nil
	}
	return placed, err
}

func (hostPreparer) MayPrepare() error {
	if os.Geteuid() != 0 {
		return cli.Forbidden(errors.New("preparing a host changes other users' work: run it as root, or look with " +
			"--dry-run"))
	}
	return nil
}

// localHost is what answers without a daemon.
func localHost(stateDir string) (*daemon.Local, error) {
	l, _, err := local(context.Background(), stateDir)
	if err != nil {
		return nil, err
	}
	return l.(*daemon.Local), nil
}
