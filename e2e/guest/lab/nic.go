//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/homenode/homenode/e2e/suite"
	"golang.org/x/sys/unix"
)

// loadModules loads what the rig put into the initramfs or on the second disk, in the order of the names.
func loadModules() error {
	if s, err := suite.ShapeNamed(BootParam("shape")); err != nil || s.NIC == 0 {
		return err
	}
	names, _ := filepath.Glob("/modules/*")
	if onDisk() {
		names, _ = filepath.Glob("/e2e/modules/*")
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		flags := 0
		if filepath.Ext(name) != ".ko" {
			flags = unix.MODULE_INIT_COMPRESSED_FILE
		}
		err = unix.FinitModule(int(f.Fd()), "", flags)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// NIC is the guest's network card.
type NIC struct{ Name, pci string }

// Card finds it.
func (t *T) Card() NIC {
	links, _ := filepath.Glob("/sys/class/net/*/device")
	for _, l := range links {
		to, err := filepath.EvalSymlinks(l)
		if err != nil {
			continue
		}
		if filepath.Base(filepath.Dir(to)) != "" && isVirtio(filepath.Base(to)) {
			to = filepath.Dir(to)
		}
		n := NIC{filepath.Base(filepath.Dir(l)), filepath.Base(to)}
		if got := ReadText("/sys/bus/pci/devices/" + n.pci + "/numa_node"); got != fmt.Sprint(t.Shape.NIC) {
			t.Fatalf("%s is on node %q by sysfs, the shape puts it on %d", n.Name, got, t.Shape.NIC)
		}
		return n
	}
	t.Fatalf("the guest has no network card")
	return NIC{}
}

func isVirtio(name string) bool {
	ok, _ := filepath.Match("virtio[0-9]*", name)
	return ok
}

// Interrupts is the files that say where the card's interrupts go, by name.
func (n NIC) Interrupts() map[string]string {
	out := map[string]string{}
	numbers, _ := filepath.Glob("/sys/bus/pci/devices/" + n.pci + "/msi_irqs/*")
	for _, f := range numbers {
		number := filepath.Base(f)
		if name := ReadText("/sys/kernel/irq/" + number + "/actions"); name != "" {
			out["/proc/irq/"+number+"/smp_affinity_list"] = name
		}
	}
	return out
}

// Values is everything that may be set on a card, by file.
func (n NIC) Values() Snapshot {
	out := Snapshot{}
	for f := range n.Interrupts() {
		out[f] = ReadText(f)
	}
	for _, pattern := range []string{"rx-*/rps_cpus", "tx-*/xps_cpus"} {
		files, _ := filepath.Glob("/sys/class/net/" + n.Name + "/queues/" + pattern)
		for _, f := range files {
			out[f] = ReadText(f)
		}
	}
	queues, _ := filepath.Glob("/sys/class/net/" + n.Name + "/queues/*")
	out["queues"] = fmt.Sprint(len(queues))
	return out
}

// InNetns runs a command in a network namespace of its own, with a sysfs that shows
// it, as a container has.
func InNetns(argv []string) error {
	if len(argv) == 0 {
		return errors.New("in-netns: no command")
	}
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil &&
		!errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// Queues is how many queue pairs a card has by its values.
func (n NIC) Queues(s Snapshot) int {
	rx := 0
	for f := range s {
		if ok, _ := filepath.Match("/sys/class/net/*/queues/rx-*/rps_cpus", f); ok {
			rx++
		}
	}
	return rx
}
