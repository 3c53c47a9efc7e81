package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// kindOf returns what a program can run in on this machine, and a note for the report. It does without KVM where
// the user wants emulated guests.
func (l *lab) kindOf(k Kind) (as Kind, why string) {
	switch k {
	case Guest:
		if why := l.noGuests(); why != "" {
			return Process, why + ": processes take the place of guests"
		}
		if l.emulate {
			return Guest, "QEMU emulates the processors of guests (-emulate): what they measure says nothing"
		}
	case Pod:
		if _, err := os.Stat("/run/containerd/containerd.sock"); err != nil { // else ctr waits for it
			return Process, "containerd does not run: processes take the place of pods"
		}
		if _, err := answer("ctr", "version"); err != nil {
			return Process, "containerd does not answer (ctr version): processes take the place of pods"
		}
	}
	if k == "" {
		k = Process
	}
	return k, ""
}

// noGuests says what this machine lacks for guests; "" where it has all.
func (l *lab) noGuests() string {
	if _, err := exec.LookPath("virsh"); err != nil {
		return "there is no virsh (package libvirt-clients)"
	}
	if _, err := answer("virsh", "-q", "version"); err != nil {
		return "libvirt does not answer (virsh version)"
	}
	if _, err := exec.LookPath("mkinitramfs"); err != nil {
		return "there is no mkinitramfs (package initramfs-tools)"
	}
	if l.kernel == "" {
		if _, _, err := l.vmlinuz(); err != nil {
			return err.Error()
		}
	}
	if l.emulate {
		return ""
	}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "the machine has no /dev/kvm"
	}
	if err != nil {
		return fmt.Sprintf("KVM cannot be used (%v)", err)
	}
	kvm.Close()
	return ""
}

// answer runs a command that asks a daemon, for 10 s at most: one that hangs must not hold up the run.
func answer(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = time.Second
	return c.Output()
}
