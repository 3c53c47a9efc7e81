package observe

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// lockedMiB is above Options.MinMemory's default, so that the process is a workload.
const lockedMiB = 70

// locked takes memory and then maps a file of a server that answers no read: the kernel waits for
// it with the lock of this process's address space held. Root's victim maps none ("-").
func locked(file string) {
	mem, err := syscall.Mmap(-1, 0, lockedMiB<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		os.Exit(1)
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	if file == "-" {
		fmt.Println("ready")
		time.Sleep(2 * time.Minute)
		os.Exit(0)
	}
	f, err := os.Open(file)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
	os.Exit(0)
}

// mute mounts a file system with one file that answers no read, at a folder that each user may
// enter, and begins to read it. What waits for it goes on after release.
func mute(t *testing.T) (file string, release func()) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	at, err := os.MkdirTemp("", "mute")
	if err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)
	if err := unix.Mount("mute", at, "fuse", unix.MS_NOSUID, options); err != nil {
		unix.Close(device)
		os.Remove(at)
		t.Skipf("mount: %v", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		answerNoRead(device)
	}()
	release = func() {
		unix.Unmount(at, unix.MNT_FORCE) // aborts all that waits (fuse_umount_begin)
		unix.Unmount(at, unix.MNT_DETACH)
		<-served
		unix.Close(device)
		os.Remove(at)
	}
	file = filepath.Join(at, "file")
	f, err := os.Open(file)
	if err != nil {
		release()
		t.Fatal(err)
	}
	go func() {
		defer f.Close()
		f.Read(make([]byte, 16)) // holds the page that each mmap waits for
	}()
	time.Sleep(time.Second)
	return file, release
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

// answerNoRead serves a file system until it is unmounted. Whoever opens the file after the first
// gets it past the page cache: mmap then drops what is cached, and waits for the page that
// the first one reads.
func answerNoRead(device int) {
	request := make([]byte, 1<<20)
	le, opens := binary.LittleEndian, 0
	for {
		n, err := unix.Read(device, request)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < 40 { // struct fuse_in_header
			return
		}
		code, unique, node := le.Uint32(request[4:]), le.Uint64(request[8:]), le.Uint64(request[16:])
		var answer []byte
		var failed unix.Errno
		switch code {
		case fuseInit: // version 7.31, and so many background requests
			answer = make([]byte, 64)
			le.PutUint32(answer[0:], 7)
			le.PutUint32(answer[4:], 31)
			le.PutUint32(answer[8:], 4096)
			le.PutUint16(answer[16:], 12)
			le.PutUint16(answer[18:], 9)
			le.PutUint32(answer[20:], 4096)
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
			if opens++; opens > 1 {
				flags |= fopenDirectIO
			}
			answer = append(le.AppendUint32(le.AppendUint64(nil, 1), flags), 0, 0, 0, 0)
		case fuseRead, fuseForget, fuseBatchForget, fuseInterrupt:
			continue
		default:
			failed = unix.ENOSYS
		}
		out := le.AppendUint32(nil, uint32(16+len(answer)))
		out = le.AppendUint32(out, uint32(-int32(failed)))
		out = append(le.AppendUint64(out, unique), answer...)
		if _, err := unix.Write(device, out); err != nil && err != unix.ENOENT {
			return
		}
	}
}

// attributes is a struct fuse_attr: node 1 is the folder, others a file of 1 MiB.
func attributes(node uint64) []byte {
	a, mode := make([]byte, 88), uint32(unix.S_IFREG|0o644)
	if node == 1 {
		mode = unix.S_IFDIR | 0o755
	}
	binary.LittleEndian.PutUint64(a[0:], node)
	binary.LittleEndian.PutUint64(a[8:], 1<<20)
	binary.LittleEndian.PutUint32(a[60:], mode)
	binary.LittleEndian.PutUint32(a[64:], 1)
	binary.LittleEndian.PutUint32(a[80:], 4096)
	return a
}

// startLocked starts this test's program as a user in a user namespace of that user.
func startLocked(t *testing.T, program, file string, uid int) int {
	t.Helper()
	id := strconv.Itoa(uid)
	c := exec.Command("setpriv", "--reuid", id, "--regid", id, "--clear-groups", "unshare", "-U", program)
	if uid == 0 {
		c = exec.Command(program)
	}
	c.Env = append(os.Environ(), "OBSERVE_LOCKED="+file, "GOMAXPROCS=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	var said [64]byte
	n, err := io.ReadAtLeast(out, said[:], 6)
	if err != nil || string(said[:n]) != "ready\n" {
		t.Skipf("user %d: %q, %v", uid, said[:n], err)
	}
	return c.Process.Pid
}

// only is a machine on which some processes run, whatever else this one has.
type only struct {
	files.Reader
	pids *[]int
}

func (o only) Numbers(dir string, out []int) ([]int, error) {
	if dir == "proc" {
		return append(out, *o.pids...), nil
	}
	return o.Reader.Numbers(dir, out)
}

// Twenty processes of five users hold their own locks on a real kernel, by files of a FUSE server.
// A process of root that starts later is read all the same (A3).
func TestLockedProcessesOfManyUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root mounts, and reads processes of others")
	}
	program, err := copyForAll(t)
	if err != nil {
		t.Fatal(err)
	}
	file, release := mute(t)
	defer release() // before the clean-up waits for the processes
	var stuck []int
	const first, users, each = 54321, 5, 4
	for uid := first; uid < first+users; uid++ {
		for range each {
			stuck = append(stuck, startLocked(t, program, file, uid))
		}
	}
	time.Sleep(time.Second) // until all are in mmap
	if answersNow(stuck[0]) {
		t.Skip("this kernel reads numa_maps without the lock of the address space")
	}
	pids := stuck
	o := New(files.Root("/"), Options{})
	o.files = only{o.files, &pids}
	o.topKnown = true // process mode, whatever this machine has
	look := func() workload.Snapshot {
		s, err := o.Look(t.Context(), control.Attention{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 8 { // until all calls that it makes are lost
		look()
		time.Sleep(time.Second)
	}
	victim := startLocked(t, program, "-", 0)
	pids = append(pids, victim)
	id := workload.ID(fmt.Sprintf("pid:%d", victim))
	var got workload.Observation
	for range 20 {
		got = find(t, look(), id)
		if !got.MemoryUnread && got.OwnPolicy != workload.PolicyUnknown {
			break
		}
		time.Sleep(time.Second)
	}
	if got.MemoryUnread || got.OwnPolicy == workload.PolicyUnknown {
		t.Errorf("root's process is not read: %+v", got)
	}
	unanswered := 0
	for _, x := range look().Observations {
		if x.Unanswered {
			unanswered++
		}
	}
	if unanswered != len(stuck) {
		t.Errorf("%d processes are reported as unanswered, want %d", unanswered, len(stuck))
	}
}

// copyForAll copies this program to where each user may run it.
func copyForAll(t *testing.T) (string, error) {
	dir, err := os.MkdirTemp("", "locked")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, text, 0o755); err != nil {
		return "", err
	}
	return program, os.Chmod(dir, 0o755)
}

// answersNow reports whether numa_maps of a process can be read.
func answersNow(pid int) bool {
	back := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
		back <- err
	}()
	select {
	case err := <-back:
		return err == nil
	case <-time.After(2 * time.Second):
		return false
	}
}
