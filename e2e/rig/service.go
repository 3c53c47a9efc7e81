package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// buildService builds what the guest with systemd needs besides the programs of
// every guest: what mounts its disk, and the unit that ships.
func buildService(ctx context.Context, root, bin string) error {
	if err := goBuild(ctx, root, bin, "hypervisor", "./e2e/hypervisor"); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(root, "packaging", "systemd", "homenode.service"))
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "homenode.service"), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("take the unit: %w", err)
	}
	return nil
}

// service makes the second disk and the arguments of a machine that boots from the
// disk with systemd. Nothing is saved: systemd counts the time that a saved machine
// would miss.
func (g *guest) service(ctx context.Context, bin string, words []string) ([]string, error) {
	disk := filepath.Join(g.dir, "disk.img")
	if err := writeDisk(ctx, disk, bin, words, "guest", "walker", "homenode", "homenode.service"); err != nil {
		return nil, err
	}
	init, err := g.writeInit(bin, g.tools.systemd)
	if err != nil {
		return nil, err
	}
	args := qemuArgs(g.shape, g.tools, init, g.dir, bin, []string{"handover=/usr/lib/systemd/systemd"})
	return append(args, drives(filepath.Join(g.tools.systemd, "root.img"), disk, true)...), nil
}
