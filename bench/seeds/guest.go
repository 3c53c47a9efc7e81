package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A guest here is the host's kernel with the host's files, read-only over 9p, so that it has the host's programs
// and needs no image. Its first process runs one command and ends; what it prints goes to a file.

// domain is the parts of libvirt's domain XML that a guest has (formatdomain.html).
type domain struct {
	XMLName xml.Name `xml:"domain"`
	Type    string   `xml:"type,attr"`
	Name    string   `xml:"name"`
	Memory  memory   `xml:"memory"`
	VCPU    vcpu     `xml:"vcpu"`
	Pins    *pins    `xml:"cputune"`
	Numa    *numa    `xml:"numatune"`
	OS      bootOS   `xml:"os"`
	APIC    struct{} `xml:"features>acpi"`
	CPU     cpuMode  `xml:"cpu"`
	End     string   `xml:"on_poweroff"`
	Reboot  string   `xml:"on_reboot"`
	Share   share9p  `xml:"devices>filesystem"`
	Serial  serial   `xml:"devices>serial"`
}

type memory struct {
	Unit string `xml:"unit,attr"`
	MiB  int    `xml:",chardata"`
}

type vcpu struct {
	Placement string `xml:"placement,attr"`
	N         int    `xml:",chardata"`
}

type pins struct {
	VCPUs    []pin       `xml:"vcpupin"`
	Emulator emulatorPin `xml:"emulatorpin"`
}

type pin struct {
	VCPU   int    `xml:"vcpu,attr"`
	CPUSet string `xml:"cpuset,attr"`
}

type emulatorPin struct {
	CPUSet string `xml:"cpuset,attr"`
}

type numa struct {
	Memory struct {
		Mode    string `xml:"mode,attr"`
		NodeSet string `xml:"nodeset,attr"`
	} `xml:"memory"`
}

type bootOS struct {
	Type    string `xml:"type"`
	Kernel  string `xml:"kernel"`
	Initrd  string `xml:"initrd"`
	Cmdline string `xml:"cmdline"`
}

type cpuMode struct {
	Mode string `xml:"mode,attr"`
}

type share9p struct {
	Type   string `xml:"type,attr"`
	Access string `xml:"accessmode,attr"`
	Source struct {
		Dir string `xml:"dir,attr"`
	} `xml:"source"`
	Target struct {
		Dir string `xml:"dir,attr"`
	} `xml:"target"`
	Readonly struct{} `xml:"readonly"`
}

type serial struct {
	Type   string `xml:"type,attr"`
	Source struct {
		Path string `xml:"path,attr"`
	} `xml:"source"`
}

// domainOf describes the guest of an instance, in a home. Without KVM its processors are emulated.
func domainOf(in *instance, h home, emulate bool, kernel, initrd, init, console string) ([]byte, error) {
	d := domain{Type: "kvm", Name: in.name, Memory: memory{"MiB", in.ask.memory}, VCPU: vcpu{"static", in.ask.cpus},
		CPU: cpuMode{"host-passthrough"}, End: "destroy", Reboot: "destroy"}
	if emulate {
		d.Type, d.CPU.Mode = "qemu", "maximum" // the host's own processor cannot be passed through
	}
	d.OS = bootOS{"hvm", kernel, initrd,
		"root=host rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=1048576 ro console=ttyS0 quiet " +
			"panic=-1 noresume init=" + init}
	d.Share.Type = "mount"
	d.Share.Access = "passthrough"
	d.Share.Source.Dir = "/"
	d.Share.Target.Dir = "host"
	d.Serial.Type, d.Serial.Source.Path = "file", console
	cpus := h.CPUs.Slice()
	if len(cpus) > 0 {
		d.Pins = &pins{Emulator: emulatorPin{h.CPUs.String()}}
		for v := range in.ask.cpus {
			set := h.CPUs.String()
			if len(cpus) == in.ask.cpus {
				set = fmt.Sprint(int(cpus[v]))
			}
			d.Pins.VCPUs = append(d.Pins.VCPUs, pin{v, set})
		}
	}
	if !h.Nodes.Empty() {
		d.Numa = &numa{}
		d.Numa.Memory.Mode, d.Numa.Memory.NodeSet = "strict", h.Nodes.String()
	}
	return xml.MarshalIndent(d, "", "  ")
}

// Lines that a guest's first process prints before its command and after it.
const (
	guestBegins = ours + " begins"
	guestEnded  = ours + " ended with status"
)

// still is what a first process does after the power was switched off. It waits for a pipe into which nothing writes:
// no program can be read any more, and a first process that ends is a panic of the kernel.
const still = "read _ <>still"

// initOf is the guest's first process: an exit of the command ends the guest.
func initOf(script string) string {
	return fmt.Sprintf(`#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmp /tmp
cd /tmp
mkfifo still
echo "%s"
sh %s
echo "%s $?"
sync
echo o >/proc/sysrq-trigger
%s
`, guestBegins, script, guestEnded, still)
}

// initrd makes an initial RAM disk with 9p, once a run, for the kernel that guests boot: the one that runs, unless
// the user named another.
func (l *lab) initrd() (kernel, initrd string, err error) {
	kernel, release, err := l.vmlinuz()
	if err != nil {
		return "", "", err
	}
	initrd = filepath.Join(l.state.Dir, "initrd")
	if _, err := os.Stat(initrd); err == nil {
		return kernel, initrd, nil
	}
	conf := filepath.Join(l.state.Dir, "initramfs")
	if out, err := exec.Command("cp", "-r", "/etc/initramfs-tools", conf).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("copy /etc/initramfs-tools: %w: %s", err, end(string(out)))
	}
	if err := onlyModules(conf, "9p", "9pnet_virtio", "virtio_pci"); err != nil {
		return "", "", err
	}
	if out, err := exec.Command("mkinitramfs", "-d", conf, "-o", initrd, release).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("mkinitramfs: %w: %s", err, end(string(out)))
	}
	return kernel, initrd, os.Chmod(initrd, 0o644)
}

// vmlinuz returns the file of the kernel that guests boot, and its release.
func (l *lab) vmlinuz() (kernel, release string, err error) {
	release = l.kernel
	if release == "" {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return "", "", err
		}
		release = unix.ByteSliceToString(u.Release[:])
	}
	kernel = "/boot/vmlinuz-" + release
	if _, err := os.Stat(kernel); err != nil {
		return "", "", fmt.Errorf("guests have no kernel: %w (-kernel names another one)", err)
	}
	return kernel, release, nil
}

// onlyModules has mkinitramfs take these modules and what they need. All that it takes by default
// (MODULES=most, initramfs.conf(5)) fills half of a guest of 256 MiB.
func onlyModules(conf string, modules ...string) error {
	extra := filepath.Join(conf, "conf.d")
	if err := os.MkdirAll(extra, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(conf, "modules"), []byte(strings.Join(modules, "\n")+"\n"), 0o644),
		os.WriteFile(filepath.Join(extra, "zz-"+ours), []byte("MODULES=list\n"), 0o644))
}

// guest starts the guest of an instance, and returns a command that lasts as long as the guest.
func (l *lab) guest(in *instance, h home, script string) ([]string, error) {
	kernel, initrd, err := l.initrd()
	if err != nil {
		return nil, err
	}
	init := strings.TrimSuffix(script, ".sh") + ".init"
	if err := os.WriteFile(init, []byte(initOf(script)), 0o755); err != nil {
		return nil, err
	}
	console := strings.TrimSuffix(script, ".sh") + ".console"
	text, err := domainOf(in, h, l.emulate, kernel, initrd, init, console)
	if err != nil {
		return nil, err
	}
	file := strings.TrimSuffix(script, ".sh") + ".xml"
	if err := errors.Join(os.WriteFile(file, text, 0o644), os.WriteFile(console, nil, 0o600)); err != nil {
		return nil, err
	}
	up := 2 * patience
	if l.emulate {
		up *= 5
	}
	return follow(file, in.name, console, up, patience), nil
}

// follow returns a command that starts a guest and lasts as long as it. A guest whose first process does not begin
// in the time up, or that still runs the time off after its command ended, is destroyed. The last line says so.
func follow(file, name, console string, up, off time.Duration) []string {
	const script = `file=$1 name=$2 console=$3 up=$4 off=$5
virsh -q create "$file" >&2 || exit 1
waited=0 failed=
while virsh -q domstate "$name" 2>/dev/null | grep -q running; do
	if grep -q "^` + guestEnded + `" "$console"; then
		[ "$was" = ended ] || waited=0
		was=ended
		[ $waited -lt $((2 * off)) ] || failed="its command ended $off s ago, and it has not powered off"
	elif ! grep -q "` + guestBegins + `" "$console"; then
		[ $waited -lt $((2 * up)) ] || failed="its kernel started no program within $up s; \
does KVM work here? -smoke -emulate does without"
	fi
	if [ "$failed" ]; then
		timeout 10 virsh -q destroy "$name" >&2
		break
	fi
	waited=$((waited + 1))
	sleep 0.5
done
cat "$console"
[ ! "$failed" ] || { echo "guest $name was destroyed: $failed"; exit 1; }
grep -q "^` + guestEnded + ` 0" "$console"`
	return []string{"sh", "-c", script, "follow", file, name, console, seconds(up), seconds(off)}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
