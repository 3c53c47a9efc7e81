package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// diskBytes is the size of the second disk. It is the same whatever is on it, so
// that a saved machine can be resumed with another.
const diskBytes = 128 << 20

// onDisk is what the second disk holds beside the tests and homenode.
func onDisk(s suite.Shape) []string {
	switch {
	case s.Name == "pods-seeds":
		return []string{"bench-seeds"}
	case s.Name == "stack":
		return []string{"homenode.service"}
	case s.Disk == "bench":
		return []string{"homenode.service", "bench-share"}
	case s.Systemd:
		return []string{"walker", "homenode.service", "homenode.deb"}
	case s.Disk == "libvirt":
		return []string{"homenode-next", "pacer", "sender"}
	}
	return []string{"walker", "cri"}
}

// buildDisk builds what a guest with a disk needs besides the programs of every guest:
// its first program and what is onDisk.
func buildDisk(ctx context.Context, root, bin, homenode string, j work) error {
	if err := goBuild(ctx, root, bin, "hypervisor", "./e2e/hypervisor"); err != nil {
		return err
	}
	switch {
	case j.shape.Name == "pods-seeds":
		return goBuild(ctx, root, bin, "bench-seeds", "./bench/seeds")
	case j.shape.Systemd:
		return buildService(ctx, root, bin, j.tests)
	case j.shape.Disk == "libvirt":
		return buildLibvirt(ctx, root, bin, homenode)
	}
	return goBuild(ctx, filepath.Join(root, "e2e", "cri"), bin, "cri", ".")
}

// buildLibvirt builds the programs of the guests in the guest with libvirt, and
// homenode once more as another version.
func buildLibvirt(ctx context.Context, root, bin, homenode string) error {
	if err := goBuild(ctx, root, bin, "homenode-next", homenode, "-X", "main.version="+suite.NextVersion); err != nil {
		return err
	}
	for _, name := range []string{"pacer", "sender"} {
		object := filepath.Join(bin, name+".o")
		for _, argv := range [][]string{
			{"as", "--32", "-I", filepath.Join(root, "e2e", "pacer"), "-o", object,
				filepath.Join(root, "e2e", "pacer", name+".s")},
			{"ld", "-m", "elf_i386", "-Ttext=0", "-e", "0", "--oformat", "binary", "-o", filepath.Join(bin, name),
				object},
		} {
			if b, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("build %s: %s: %w: %s", name, argv[0], err, suite.OneLine(string(b)))
			}
		}
	}
	return nil
}

// resume makes the second disk, and the arguments with which QEMU goes on from the
// saved machine; it boots and saves one where there is none of this make.
func (g *guest) resume(ctx context.Context, bin string, words []string) ([]string, error) {
	disk := filepath.Join(g.dir, "disk.img")
	if err := g.writeDisk(ctx, disk, bin, words); err != nil {
		return nil, err
	}
	init, err := g.writeInit(bin)
	if err != nil {
		return nil, err
	}
	args := qemuArgs(g.shape, g.tools, init, g.dir, bin, nil)
	key, err := g.key(init)
	if err != nil {
		return nil, err
	}
	saved := filepath.Join(g.tools.disks[g.shape.Disk], "saved-"+g.shape.Name+"-"+key)
	if same, _ := filepath.Glob(filepath.Join(g.tools.disks[g.shape.Disk], "saved-*-"+key)); len(same) > 0 {
		saved = same[0] // of a shape that is the same machine
	}
	if _, err := os.Stat(saved); errors.Is(err, os.ErrNotExist) {
		uncounted := g.shape
		uncounted.Count = false // a plugin is no part of the machine, and slows it
		args := qemuArgs(uncounted, g.tools, init, g.dir, bin, nil)
		err := g.save(ctx, args, saved)
		if errors.Is(err, errSaveLate) && ctx.Err() == nil {
			fmt.Printf("guest %s: %v: booted once more\n", g.name, err)
			err = g.save(ctx, args, saved)
		}
		if err != nil {
			return nil, fmt.Errorf("save guest %s: %w", g.shape.Name, err)
		}
	}
	g.saved = saved
	args = append(args, drives(filepath.Join(saved, "root.img"), disk, true)...)
	return append(args, "-incoming", "exec:zstd -dc "+quoted(filepath.Join(saved, "state"))), nil
}

// writeInit makes the initramfs that mounts the disk.
func (g *guest) writeInit(bin string) (string, error) {
	init := filepath.Join(g.dir, "hypervisor.cpio")
	return init, writeArchive(init, []archived{
		{name: "init", from: filepath.Join(bin, "hypervisor")},
		{name: "virtio_blk.ko.xz", from: filepath.Join(g.tools.disks[g.shape.Disk], "virtio_blk.ko.xz")},
	})
}

// quoted is a file name as the shell takes it.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }

func drives(root, disk string, keep bool) []string {
	return append(drive(0, root, keep), drive(1, disk, keep)...)
}

// drive is the disk with a number. With keep, what the guest writes lasts as long as QEMU runs, and the
// file stays as it is.
func drive(i int, file string, keep bool) []string {
	snapshot := map[bool]string{false: "off", true: "on"}[keep]
	return []string{
		"-drive", fmt.Sprintf("file=%s,if=none,id=d%d,format=raw,snapshot=%s,cache=unsafe",
			strings.ReplaceAll(file, ",", ",,"), i, snapshot),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=d%d,bus=pcie.0", i),
	}
}

// key names a saved machine by all that it is made of.
func (g *guest) key(init string) (string, error) {
	h := sha256.New()
	machine := g.shape
	machine.Name = ""
	machine.Slow = false
	machine.Count = false // say nothing of it
	fmt.Fprintf(h, "%+v %s %s %s\n", machine, g.tools.qemu, g.tools.kernel, g.tools.accel)
	for _, name := range []string{init, filepath.Join(g.tools.disks[g.shape.Disk], "SHA256SUMS")} {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("name saved machine: %w", err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("name saved machine: %w", err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:keyLength/2]), nil
}

// keyLength is that of a key, in hexadecimal digits: names of shapes begin with one another.
const keyLength = 16

// writeDisk makes the second disk: programs, modules, and what the boot parameters are for
// other guests.
func (g *guest) writeDisk(ctx context.Context, disk, bin string, words []string) error {
	dir, err := os.MkdirTemp(filepath.Dir(disk), "disk")
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "boot"), []byte(strings.Join(words, " ")+"\n"), 0o644); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	var files []archived
	for _, name := range append([]string{"guest", "homenode"}, onDisk(g.shape)...) {
		files = append(files, archived{name, filepath.Join(bin, name)})
	}
	if g.shape.NIC > 0 {
		files = append(files, g.tools.modules...)
	}
	if needs([]work{g.work}, func(t suite.Test) bool { return t.Numactl }) {
		files = append(files, g.tools.numactl...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f.from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, f.name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f.name), b, 0o755)
		}
		if err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	os.Remove(disk)
	if err := blank(disk); err != nil {
		return err
	}
	return mke2fs(ctx, "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard,root_owner=0:0", "-m", "0", "-d", dir,
		disk)
}

// mke2fs makes a file system in a file.
func mke2fs(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "mke2fs", append([]string{"-q", "-t", "ext4"}, args...)...)
	c.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("make disk: mke2fs: %w: %s", err, suite.OneLine(string(b)))
	}
	return nil
}

func blank(disk string) error {
	err := os.WriteFile(disk, nil, 0o644)
	if err == nil {
		err = os.Truncate(disk, diskBytes)
	}
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return nil
}

// save boots the machine up to where it waits for its second disk, and writes its
// first disk and its state into a folder that is there only when it is whole.
func (g *guest) save(ctx context.Context, args []string, folder string) error {
	old,
		_ := filepath.Glob(filepath.Join(filepath.Dir(folder),
		"saved-"+g.shape.Name+"-"+strings.Repeat("?", keyLength)))
	for _, dir := range old {
		os.RemoveAll(dir)
	}
	dir, err := os.MkdirTemp(filepath.Dir(folder), "saving-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rootDisk := filepath.Join(dir, "root.img")
	noDisk := filepath.Join(dir, "none.img")
	socket := filepath.Join(dir, "qmp")
	if b, err := exec.CommandContext(ctx, "cp", "--sparse=always",
		filepath.Join(g.tools.disks[g.shape.Disk], "root.img"), rootDisk).CombinedOutput(); err != nil {
		return fmt.Errorf("copy disk: %w: %s", err, b)
	}
	if err := blank(noDisk); err != nil {
		return err
	}
	args = append(append(args, drives(rootDisk, noDisk, false)...), "-qmp", "unix:"+socket+",server=on,wait=off")

	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	wire, wireEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wire.Close()
	console, err := os.Create(filepath.Join(g.dir, "console-save"))
	if err != nil {
		return err
	}
	defer console.Close()
	q := exec.CommandContext(ctx, g.tools.qemu, args...)
	q.ExtraFiles = []*os.File{wireEnd}
	q.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	q.Stdout, q.Stderr = console, console
	start := time.Now()
	if err := q.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	defer func() {
		q.Process.Kill()
		q.Wait()
	}()
	wireEnd.Close()
	ready := false
	for lines := bufio.NewScanner(wire); !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), "READY ")
	}
	if !ready {
		return fmt.Errorf("%w within %.0f s; see %s", errSaveLate, time.Since(start).Seconds(), console.Name())
	}
	up := time.Since(start)
	if err := writeState(ctx, socket, filepath.Join(dir, "state")); err != nil {
		return err
	}
	os.Remove(noDisk)
	os.Remove(socket)
	if err := os.Rename(dir, folder); err != nil && !errors.Is(err, os.ErrExist) { // another rig was faster
		return err
	}
	_ = q.Wait() // it was told to end
	spent := q.ProcessState.UserTime() + q.ProcessState.SystemTime()
	g.report.spend(spent)
	fmt.Printf("\nguest %s: booted in %.1f s, saved in %.1f s, %.0f s of CPU time\n", g.name, up.Seconds(),
		(time.Since(start) - up).Seconds(), spent.Seconds())
	return nil
}

// errSaveLate: 16 emulated CPUs that boot beside another guest on two CPUs did not once in five minutes,
// and alone do within one.
var errSaveLate = errors.New("it did not come up")

// saveLimit is for a loaded machine; idle, it takes a tenth of it.
const saveLimit = 5 * time.Minute

// writeState lets QEMU write the running machine into a file, as for a migration.
// It ends stopped, and its disk as the state knows it.
func writeState(ctx context.Context, socket, file string) error {
	m, err := monitorAt(ctx, socket)
	if err != nil {
		return err
	}
	defer m.close()
	for _, c := range []struct {
		name      string
		arguments map[string]any
	}{
		{"migrate-set-parameters", map[string]any{"max-bandwidth": int64(16 << 30)}},
		{"migrate", map[string]any{"uri": "exec:zstd -1 -q -f -o " + quoted(file)}},
	} {
		if _, err := m.ask(c.name, c.arguments); err != nil {
			return err
		}
	}
	for {
		b, err := m.ask("query-migrate", nil)
		if err != nil {
			return err
		}
		var now struct{ Status string }
		_ = json.Unmarshal(b, &now)
		switch now.Status {
		case "completed":
			_, err := m.ask("quit", nil)
			return err
		case "failed", "cancelled":
			return fmt.Errorf("QEMU: migrate: %s", b)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
