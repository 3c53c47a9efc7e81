package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPodRoot mounts the root of containers in a mount namespace of its own, whose mounts are shared as systemd has them. The copy cannot
// be written to, and once it is unmounted every mount is as before.
func TestPodRoot(t *testing.T) {
	const inside = "HOMENODE_TEST_POD_ROOT"
	if os.Getenv(inside) != "" {
		if err := podRootInside(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getuid() != 0 {
		t.Skip("skipped: mounting needs root")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestPodRoot$")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("skipped: this root may not have a mount namespace of its own")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// podRootInside runs in the namespace.
func podRootInside() error {
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return err
	}
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if err := mountPodRoot(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(podRoot, "proc/self")); err != nil {
		return fmt.Errorf("the mounts below / are missing: %w", err)
	}
	if err := os.WriteFile(filepath.Join(podRoot, "run/x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("write in the copy: %v, want %v", err, unix.EROFS)
	}
	for range 2 { // the keeper may find nothing to do
		if err := unmountPodRoot(); err != nil {
			return err
		}
	}
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if string(after) != string(before) {
		return fmt.Errorf("mounts were\n%s\nand are now\n%s", before, after)
	}
	if _, err := os.Stat(podRoot); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is left: %v", podRoot, err)
	}
	return nil
}
