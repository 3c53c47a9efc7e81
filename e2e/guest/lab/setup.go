//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// WorkFolder holds what a test writes: configuration, state, sockets.
const WorkFolder = "/run/e2e"

// mounts is the least a Linux user space needs.
var mounts = []struct{ kind, at string }{
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"devtmpfs", "/dev"},
	{"cgroup2", CgroupRoot},
	{"debugfs", "/sys/kernel/debug"},
	{"tmpfs", "/run"},
	{"tmpfs", "/tmp"},
}

// onDisk tells a guest whose root is a disk: package hypervisor has set it up, and the
// boot parameters are on the second disk.
func onDisk() bool { return ReadText(diskBoot) != "" }

const diskBoot = "/e2e/boot"

func setUp() error {
	if onDisk() {
		return errors.Join(os.MkdirAll(WorkFolder, 0o755), loadModules(), setSwitches())
	}
	var problems []error
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			problems = append(problems, err)
		}
		if err := syscall.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && err != syscall.EBUSY {
			problems = append(problems, fmt.Errorf("mount %s: %w", m.at, err))
		}
	}
	os.Chmod("/tmp", 0o1777)
	problems = append(problems,
		os.MkdirAll(WorkFolder, 0o755),
		LoopbackUp(),
		loadModules(),
		os.WriteFile(CgroupRoot+"/cgroup.subtree_control", []byte("+cpuset +cpu +memory +pids"), 0),
		setSwitches())
	return errors.Join(problems...)
}

// setSwitches puts the kernel's own page mover off: what a test sees moving, the
// test moved. Tests about the kernel's balancing switch it on.
func setSwitches() error {
	return SetBalancing(false)
}

// LoopbackUp brings the interface lo up.
func LoopbackUp() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	defer syscall.Close(s)
	var req struct { // struct ifreq, netdevice(7)
		name  [16]byte
		flags int16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&req))); e != 0 {
		return fmt.Errorf("bring lo up: %w", e)
	}
	return nil
}

// BootParam reads name=value from the kernel command line, or from what stands
// for it.
func BootParam(name string) string {
	for word := range strings.FieldsSeq(ReadText("/proc/cmdline") + " " + ReadText(diskBoot)) {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			return v
		}
	}
	return ""
}

// Seed is that of the run: it decides the order of the arms, and in which order and how far apart
// programs start.
func Seed() uint64 {
	n, _ := strconv.ParseUint(BootParam("seed"), 10, 64)
	return n
}
