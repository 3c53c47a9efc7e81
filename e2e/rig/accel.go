package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// chooseAccel is kvm where KVM boots the guests' kernel, else tcg. That /dev/kvm opens
// says little: under some hypervisors it runs its own patched kernels only.
func chooseAccel(ctx context.Context, asked string, t tools, image, out string) (string, error) {
	if asked != "auto" {
		return asked, nil
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg", nil
	}
	f.Close()
	// Asked once in a boot of this machine.
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	known := filepath.Join(out, "accel-"+strings.TrimSpace(string(id)))
	if b, err := os.ReadFile(known); err == nil {
		return string(b), nil
	}
	t.accel = "kvm"
	took, err := tryBoot(ctx, t, image, out, kvmLimit)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	accel := "kvm"
	if err != nil {
		accel = "tcg"
		fmt.Printf("KVM does not boot the guests' kernel (%v): emulation\n", err)
	} else {
		fmt.Printf("KVM boots the guests' kernel in %.1f s\n", took.Seconds())
	}
	return accel, os.WriteFile(known, []byte(accel), 0o644)
}

// kvmLimit is five times what a working KVM takes. To miss one costs time only.
const kvmLimit = 8 * time.Second

// quickBoot is nearly twice what a small guest's boot takes on two idle CPUs (3.8 s on an
// AMD EPYC guest). Where it takes longer, guests beside each other do not answer in time.
const quickBoot = 7 * time.Second

// chooseLanes is how many guests run at a time: as many as CPUs on a machine that is
// quick now, else one.
func chooseLanes(ctx context.Context, t tools, image, out string) (int, error) {
	took, err := tryBoot(ctx, t, image, out, 4*quickBoot)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	lanes := 1
	if err == nil && took <= quickBoot {
		lanes = runtime.NumCPU()
	}
	fmt.Printf("a small guest is up after %.1f s; guests at a time: %d\n", took.Seconds(), lanes)
	return lanes, nil
}

// tryBoot boots a small guest until its first process speaks.
func tryBoot(ctx context.Context, t tools, image, out string, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	small := suite.Shape{Nodes: 2, CPUsPerNode: 2, NodeMiB: 256, Distance: [][]int{{10, 20}, {20, 10}}}
	wire, wireEnd, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer wire.Close()
	q := exec.CommandContext(ctx, t.qemu, qemuArgs(small, t, image, out, "", nil)...)
	q.ExtraFiles = []*os.File{wireEnd}
	q.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	err = q.Start()
	wireEnd.Close()
	if err != nil {
		return 0, fmt.Errorf("start QEMU: %w", err)
	}
	defer func() {
		q.Process.Kill()
		q.Wait()
	}()
	for lines := bufio.NewScanner(wire); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "UP ") {
			return time.Since(start), nil
		}
	}
	if ctx.Err() != nil {
		return limit, fmt.Errorf("nothing heard for %v", limit)
	}
	return 0, errors.New("QEMU ended")
}
