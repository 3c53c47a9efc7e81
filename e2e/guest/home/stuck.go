//go:build linux

package home

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const stuckMiB = 48

// startStuck starts a process in a cgroup whose mmap lock is held until the test ends,
// as by a mapping of a file on a server that is gone: it maps a file of a file system
// that does not answer a read, and mmap waits for that page with the lock held.
func startStuck(t *lab.T, g lab.Group) int {
	mute, _ := startMute(t)
	pid := startIn(t, g, "/init", "stuck", mute)
	awaitStuck(t, pid)
	return pid
}

// startStuckLater starts one in a cgroup that takes its lock once the returned function is called.
func startStuckLater(t *lab.T, g lab.Group, mute string) (pid int, take func()) {
	trigger := fmt.Sprintf("%s/take-%s", lab.WorkFolder, filepath.Base(string(g)))
	pid = startIn(t, g, "/init", "stuck", mute, trigger)
	t.Defer(func() { os.Remove(trigger) })
	return pid, func() {
		t.Do(os.WriteFile(trigger, nil, 0o644))
		awaitStuck(t, pid)
	}
}

// startMute mounts a file system that answers no read and returns its one file, which a reader
// waits for until the test ends. end lets all that waits for it go on before.
func startMute(t *lab.T) (file string, end func()) {
	at := lab.WorkFolder + "/mute"
	t.Do(os.MkdirAll(at, 0o755))
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	t.Do(err)
	t.Do(syscall.Mount("mute", at, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())))
	t.Defer(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	server := exec.Command("/init", "mute")
	server.ExtraFiles = []*os.File{device}
	t.Do(server.Start())
	device.Close() // the server alone has it: when it ends, all that waits for it goes on
	t.Defer(func() {
		server.Process.Kill()
		server.Wait()
	})
	startIn(t, t.NewGroup(lab.CgroupRoot, "reader"), "/init", "mute-reader", at+"/file")
	t.Until(20*time.Second, "a read waits", func() (bool, string) {
		said := lab.ReadText(startedErrors)
		return strings.Contains(said, "reads"), said
	})
	time.Sleep(time.Second)
	return at + "/file", func() { server.Process.Kill() }
}

// awaitStuck waits until a process holds its lock.
func awaitStuck(t *lab.T, pid int) {
	// not one of Go's runtime
	own := fmt.Sprintf("%d 0x0 %#x %#x %#x ", syscall.SYS_MMAP, lab.PageSize, syscall.PROT_READ, syscall.MAP_PRIVATE)
	t.Until(30*time.Second, "mmap waits", func() (bool, string) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		var seen []string
		for _, f := range tasks {
			call := lab.ReadText(f)
			if strings.HasPrefix(call, own) {
				return true, ""
			}
			seen = append(seen, call)
		}
		return false, strings.Join(seen, "; ")
	})
}

// MuteReader opens the file and waits for ever for its first byte.
func MuteReader(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "reads")
	_, err = syscall.Read(int(f.Fd()), make([]byte, 16))
	return fmt.Errorf("read ended: %v", err)
}

// Stuck takes memory and then maps the file, once another file is there.
func Stuck(file, trigger string) error {
	if err := os.WriteFile("/proc/self/comm", []byte("stuck"), 0); err != nil {
		return err
	}
	memory := make([]byte, stuckMiB<<20)
	for i := 0; i < len(memory); i += lab.PageSize {
		memory[i] = 1
	}
	for trigger != "" {
		if _, err := os.Stat(trigger); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = syscall.Mmap(int(f.Fd()), 0, lab.PageSize, syscall.PROT_READ, syscall.MAP_PRIVATE)
	return fmt.Errorf("mmap ended: %v, %d", err, memory[0])
}

// Of <linux/fuse.h>.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseGetattr     = 3
	fuseOpen        = 14
	fuseRead        = 15
	fuseInit        = 26
	fuseInterrupt   = 36
	fuseBatchForget = 42

	fopenDirectIO  = 1
	fopenKeepCache = 2
)

// Mute serves a file system with one file on descriptor 3. It answers no read. The file's
// second opener gets it past the page cache: its mmap drops what is cached, and waits
// for the page that the first one reads.
func Mute() error {
	device := os.NewFile(3, "fuse")
	request := make([]byte, 1<<20)
	le, opens := binary.LittleEndian, 0
	for {
		n, err := syscall.Read(int(device.Fd()), request)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n < 40 { // struct fuse_in_header
			return fmt.Errorf("read a request: %d bytes, %v", n, err)
		}
		code := le.Uint32(request[4:])
		unique := le.Uint64(request[8:])
		node := le.Uint64(request[16:])
		var answer []byte
		var failed syscall.Errno
		switch code {
		case fuseInit: // version 7.31, and so many background requests
			answer = make([]byte, 64)
			le.PutUint32(answer[0:], 7)
			le.PutUint32(answer[4:], 31)
			le.PutUint32(answer[8:], lab.PageSize)
			le.PutUint16(answer[16:], 12)
			le.PutUint16(answer[18:], 9)
			le.PutUint32(answer[20:], lab.PageSize)
		case fuseGetattr: // struct fuse_attr_out
			answer = append(le.AppendUint64(nil, 1000), make([]byte, 8)...)
			answer = append(answer, attributes(node)...)
		case fuseLookup: // struct fuse_entry_out
			answer = make([]byte, 40)
			le.PutUint64(answer[0:], 2)
			le.PutUint64(answer[16:], 1000)
			le.PutUint64(answer[24:], 1000)
			answer = append(answer, attributes(2)...)
		case fuseOpen:
			flags := uint32(fopenKeepCache)
			opens++
			if opens > 1 {
				flags |= fopenDirectIO
			}
			answer = append(le.AppendUint32(le.AppendUint64(nil, 1), flags), 0, 0, 0, 0)
		case fuseRead, fuseForget, fuseBatchForget, fuseInterrupt:
			continue
		default:
			failed = syscall.ENOSYS
		}
		out := le.AppendUint32(nil, uint32(16+len(answer)))
		out = le.AppendUint32(out, uint32(-int32(failed)))
		out = append(le.AppendUint64(out, unique), answer...)
		if _, err := syscall.Write(int(device.Fd()), out); err != nil && err != syscall.ENOENT {
			return fmt.Errorf("answer request %d: %w", code, err)
		}
	}
}

// attributes is a struct fuse_attr: node 1 is the folder, others a file of 1 MiB.
func attributes(node uint64) []byte {
	a, mode := make([]byte, 88), uint32(syscall.S_IFREG|0o644)
	if node == 1 {
		mode = syscall.S_IFDIR | 0o755
	}
	binary.LittleEndian.PutUint64(a[0:], node)
	binary.LittleEndian.PutUint64(a[8:], 1<<20)
	binary.LittleEndian.PutUint32(a[60:], mode)
	binary.LittleEndian.PutUint32(a[64:], 1)
	binary.LittleEndian.PutUint32(a[80:], lab.PageSize)
	return a
}
