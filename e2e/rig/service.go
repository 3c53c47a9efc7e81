package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/homenode/homenode/e2e/suite"
)

// buildService takes the unit that ships, and for the test of it makes the package.
func buildService(ctx context.Context, root, bin string, tests []suite.Test) error {
	b, err := os.ReadFile(filepath.Join(root, "packaging", "systemd", "homenode.service"))
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "homenode.service"), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("take the unit: %w", err)
	}
	deb := filepath.Join(bin, "homenode.deb")
	if !slices.ContainsFunc(tests, func(t suite.Test) bool { return t.Name == "systemd.package" }) {
		return os.WriteFile(deb, nil, 0o644)
	}
	dist := filepath.Join(bin, "dist")
	c := exec.CommandContext(ctx, "make", "-C", root, "dist", "DIST="+dist)
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("make dist: %w: %s", err, suite.OneLine(string(b)))
	}
	made, err := filepath.Glob(filepath.Join(dist, "homenode_*_amd64.deb"))
	if err != nil || len(made) != 1 {
		return fmt.Errorf("make dist: packages for amd64: %q, %v", made, err)
	}
	return os.Rename(made[0], deb)
}

// service makes the second disk and the arguments of a machine that boots from the
// disk with systemd. Nothing is saved: systemd counts the time that a saved machine
// would miss.
func (g *guest) service(ctx context.Context, bin string, words []string) ([]string, error) {
	disk := filepath.Join(g.dir, "disk.img")
	if err := g.writeDisk(ctx, disk, bin, words); err != nil {
		return nil, err
	}
	init, err := g.writeInit(bin)
	if err != nil {
		return nil, err
	}
	args := qemuArgs(g.shape, g.tools, init, g.dir, bin, []string{"handover=/usr/lib/systemd/systemd"})
	args = append(args, drives(filepath.Join(g.tools.disks[g.shape.Disk], "root.img"), disk, true)...)
	if !g.shape.Reboots {
		return args, nil
	}
	state := filepath.Join(g.dir, "state.img")
	if err := stateDisk(ctx, state); err != nil {
		return nil, err
	}
	return append(args, drive(2, state, true)...), nil
}

// stateDisk makes an empty disk for a guest that its tests restart. Unlike the other disks, its
// file system has a journal, so that it is whole after a restart in the midst of a write.
func stateDisk(ctx context.Context, file string) error {
	os.Remove(file)
	if err := blank(file); err != nil {
		return err
	}
	return mke2fs(ctx, "-E", "lazy_itable_init=0,nodiscard,root_owner=0:0", file)
}
