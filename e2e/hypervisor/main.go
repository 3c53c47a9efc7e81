//go:build linux

// Command hypervisor is PID 1 of a guest in which libvirt, containerd or CRI-O runs, until the
// tests take over. It mounts the disk, starts the daemons without an init system (the
// system bus and libvirtd, or the container runtime), lets libvirt learn what its QEMU can do, or
// the runtime unpack its image, and waits: here the rig saves the machine. A machine that was saved goes on when it
// finds a file system on its second disk, and runs /e2e/guest from there as PID 1. Where the kernel command line names
// a program to hand over to, as it does for the disk with systemd, it only mounts the disk and becomes that program.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	if err := run(); err != nil {
		fmt.Println("hypervisor:", err)
		said, _ := filepath.Glob("/tmp/*.out")
		said = append(said, "/var/log/libvirt/libvirtd.log", runtimeLog)
		for _, name := range said {
			fmt.Printf("%s: %s\n", name, read(name))
		}
	}
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

func run() error {
	if err := root(); err != nil {
		return err
	}
	const handover = "handover=" // on the kernel command line: the program that is PID 1 of this disk
	for word := range strings.FieldsSeq(read("/proc/cmdline")) {
		if program, ok := strings.CutPrefix(word, handover); ok {
			return fmt.Errorf("run %s: %w", program, syscall.Exec(program, []string{program}, nil))
		}
	}
	steps := []func() error{mounts, users, daemons}
	for _, program := range []string{"containerd", "crio"} {
		if _, err := os.Stat("/usr/bin/" + program); err == nil {
			steps = []func() error{mounts, func() error { return containers(program) }}
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	wire, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open wire: %w", err)
	}
	fmt.Fprintf(wire, "READY %s\n", strings.Fields(read("/proc/uptime"))[0])
	wire.Close()
	if err := secondDisk(); err != nil {
		return err
	}
	const tests = "/e2e/guest"
	return fmt.Errorf("run %s: %w", tests, syscall.Exec(tests, []string{tests}, os.Environ()))
}

// root mounts the first disk and makes it the root.
func root() error {
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mount(m.kind, m.at); err != nil && !errors.Is(err, syscall.EBUSY) {
			return err
		}
	}
	if err := loadModule("/virtio_blk.ko.xz"); err != nil {
		return err
	}
	const at = "/root"
	err := until(10*time.Second, func() error {
		os.Mkdir(at, 0o755)
		return syscall.Mount("/dev/vda", at, "ext4", 0, "")
	})
	if err != nil {
		return fmt.Errorf("mount /dev/vda: %w", err)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := syscall.Mount(dir, at+dir, "", syscall.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := errors.Join(syscall.Chdir(at), syscall.Mount(at, "/", "", syscall.MS_MOVE, ""), syscall.Chroot("."),
		syscall.Chdir("/")); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	return nil
}

// mounts mounts what an init system would, and sets what libvirt's environment is.
func mounts() error {
	for _, m := range []struct{ kind, at string }{
		{"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"devpts", "/dev/pts"}, {"tmpfs", "/dev/shm"},
		{"cgroup2", "/sys/fs/cgroup"}, {"debugfs", "/sys/kernel/debug"},
	} {
		if err := mount(m.kind, m.at); err != nil {
			return err
		}
	}
	// as udev has them; crun reads a container's update from there
	for n, name := range []string{"stdin", "stdout", "stderr"} {
		if err := os.Symlink(fmt.Sprint("/proc/self/fd/", n), "/dev/"+name); err != nil &&
			!errors.Is(err, os.ErrExist) {
			return err
		}
	}
	os.Setenv("PATH", "/usr/sbin:/usr/bin")
	os.Setenv("HOME", "/root")
	return errors.Join(
		os.Chmod("/tmp", 0o1777),
		syscall.Sethostname([]byte("hypervisor")),
		os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpuset +cpu +memory +pids +io"), 0))
}

// loadModule loads a compressed module (finit_module(2), MODULE_INIT_COMPRESSED_FILE).
func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	const (
		finitModule    = 313
		compressedFile = 4
	)
	none := [1]byte{}
	if _, _, e := syscall.Syscall(finitModule, f.Fd(), uintptr(unsafe.Pointer(&none)), compressedFile); e != 0 {
		return fmt.Errorf("load module %s: %w", name, e)
	}
	return nil
}

// users gives files the owners that the packages' scripts would have given them.
func users() error {
	const (
		messagebus  = 101
		libvirtQEMU = 64055
		kvm         = 103
		helper      = "/usr/lib/dbus-1.0/dbus-daemon-launch-helper"
	)
	for _, dir := range []string{"/run/dbus", "/run/lock", "/run/libvirt", "/var/lib/libvirt/qemu",
		"/var/cache/libvirt/qemu"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.Chown(helper, 0, messagebus),
		syscall.Chmod(helper, 0o4754),
		os.Chown("/var/lib/libvirt/qemu", libvirtQEMU, kvm),
		os.Chown("/var/cache/libvirt/qemu", libvirtQEMU, kvm))
}

// daemons starts what a host of guests has running. libvirt-dbus is not among them:
// the bus starts it when it is first called, which is here; that call makes libvirt
// ask its QEMU for its capabilities, too.
func daemons() error {
	for _, argv := range [][]string{
		{"dbus-daemon", "--system"},
		{"virtlogd", "-d"},
		{"libvirtd", "-d"},
		{"virsh", "-c", "qemu:///system", "domcapabilities"},
		{"dbus-send", "--system", "--print-reply", "--reply-timeout=120000", "--dest=org.libvirt", "/org/libvirt/QEMU",
			"org.libvirt.Connect.ListDomains", "uint32:0"},
	} {
		start := time.Now()
		if err := command(argv...); err != nil {
			return err
		}
		if argv[0] == "libvirtd" {
			// Its first process ends before it listens.
			if err := until(time.Minute,
				func() error { _, err := os.Stat("/run/libvirt/libvirt-sock"); return err }); err != nil {
				return fmt.Errorf("libvirtd does not listen: %w", err)
			}
		}
		fmt.Printf("hypervisor: %s after %.1f s\n", argv[0], time.Since(start).Seconds())
	}
	return nil
}

const runtimeLog = "/var/log/container-runtime.log"

// containers starts a container runtime in a cgroup of its own, as a unit has one, and gives it
// the images of the disk.
func containers(program string) error {
	cgroup := "/sys/fs/cgroup/system.slice/" + program + ".service"
	if err := os.MkdirAll(cgroup, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	if err := loadModule("/overlay.ko.xz"); err != nil {
		return err
	}
	in, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	defer in.Close()
	log, err := os.Create(runtimeLog)
	if err != nil {
		return err
	}
	defer log.Close()
	images, err := filepath.Glob("/*.tar")
	if err != nil {
		return err
	}
	said, load := "containerd successfully booted", [][]string{}
	for _, image := range images {
		load = append(load, []string{"ctr", "-n", "k8s.io", "image", "import", "--local", image})
	}
	if program == "crio" {
		said, load = "Registered SIGHUP",
			[][]string{{"skopeo", "copy", "oci-archive:/image.tar",
				"containers-storage:[overlay@/var/lib/containers/storage+/run/containers/storage]docker.io/e2e/busybox:1"}}
	}
	c := exec.Command(program)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(in.Fd())}
	start := time.Now()
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for limit := time.After(3 * time.Minute); !strings.Contains(read(runtimeLog),
		said); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-ended:
			return fmt.Errorf("%s has ended: %v", program, err)
		case <-limit:
			return fmt.Errorf("%s does not come up", program)
		default:
		}
	}
	fmt.Printf("hypervisor: %s after %.1f s\n", program, time.Since(start).Seconds())
	for _, argv := range load {
		if err := command(argv...); err != nil {
			return err
		}
	}
	return nil
}

func command(argv ...string) error {
	name := filepath.Join("/tmp", argv[0]+".out")
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = out, out // a pipe would stay open in what has become a daemon
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace([]byte(read(name))))
	}
	return nil
}

// secondDisk waits for a file system on the second disk: the superblock's magic
// number (Documentation/filesystems/ext4/super.rst), read past the cache.
func secondDisk() error {
	const magicAt = 1024 + 0x38
	page := make([]byte, 2*4096)
	page = page[4096-int(uintptr(unsafe.Pointer(&page[0]))%4096):][:4096]
	for {
		fd, err := syscall.Open("/dev/vdb", syscall.O_RDONLY|syscall.O_DIRECT|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open the second disk: %w", err)
		}
		_, err = syscall.Pread(fd, page, 0)
		syscall.Close(fd)
		if err != nil {
			return fmt.Errorf("read the second disk: %w", err)
		}
		if page[magicAt] == 0x53 && page[magicAt+1] == 0xef {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := syscall.Mount("/dev/vdb", "/e2e", "ext4", syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the second disk: %w", err)
	}
	return nil
}

func mount(kind, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(kind, at, kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", at, err)
	}
	return nil
}

func until(limit time.Duration, f func() error) error {
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := f(); err == nil || time.Since(start) > limit {
			return err
		}
	}
}

func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}
