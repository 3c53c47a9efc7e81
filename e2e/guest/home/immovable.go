//go:build linux

package home

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// What the holder holds, in MiB: memory that io_uring has pinned, huge pages, and
// plain memory.
const (
	pinnedMiB = 16
	hugeMiB   = 8
	plainMiB  = 40
)

// homenodeImmovable: memory that does not move is told, in bytes and by cause, and
// is not tried again and again; when its hindrance has gone it moves.
func homenodeImmovable(t *lab.T) {
	const from, to = 3, 1
	pool := func(node int) string { return lab.NodeFile(node, "hugepages/hugepages-2048kB/nr_hugepages") }
	hugePool(t, pool(from), hugeMiB/2)
	g := t.NewGroup(lab.CgroupRoot, "holder")
	pid := startIn(t, g, "/init", "holder", fmt.Sprint(from))
	id := g.Path()
	t.OnFailure(func() {
		for _, f := range []string{"status", "wchan", "syscall", "stack", "limits"} {
			t.LogLines(f, lab.ReadText(fmt.Sprintf("/proc/%d/%s", pid, f)), 60)
		}
		b, _ := lab.NumaMaps(pid)
		t.Logf("%v", b)
	})
	t.Until(20*time.Second, "the holder holds its memory", func() (bool, string) {
		pin := lab.StatusField(pid, "VmPin")
		return pin == fmt.Sprintf("%d kB", pinnedMiB<<10), "VmPin " + pin + " " + lab.ReadText(startedErrors)
	})
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.Until(60*time.Second, "the holder has a home", func() (bool, string) {
		s := t.Status()
		_, state, why := s.Of(id)
		return state == "at home", state + ": " + why
	})
	t.Must(lab.Homenode("move", "holder", "--to", fmt.Sprint(to)), lab.ExitOK)
	var m lab.Moved
	ended := func(after time.Time) {
		t.Poll(120*time.Second, time.Second, "the move has ended", func() (bool, string) {
			s := t.Status()
			var state string
			m, state, _ = s.Of(id)
			return m.Home == fmt.Sprint(to) && m.Started.After(after) && (m.State == "done" || m.State == "failed"),
				fmt.Sprintf("%s: %+v", state, m)
		})
	}
	ended(time.Time{})
	by := map[string]int64{}
	for _, r := range m.RefusedBy {
		by[r.Cause] += r.Bytes
	}
	if by["pinned"] != pinnedMiB<<20 || by["no-huge-page"] != hugeMiB<<20 || m.Moved < plainMiB<<20 {
		t.Fatalf("moved %d bytes, refused %v; wanted %d MiB pinned, %d MiB of huge pages", m.Moved, by, pinnedMiB,
			hugeMiB)
	}
	anon, err := lab.AnonByNode(pid)
	t.Do(err)
	if anon[from] < pinnedMiB<<20/lab.PageSize || anon[to] < plainMiB<<20/lab.PageSize {
		t.Fatalf("by numa_maps it lies %s", lab.ByNodeText(anon))
	}
	e := t.AwaitEvent(10*time.Second, id, "move-ended", "move-ended-part", "step-failed")
	t.Must(lab.Homenode("explain", id), lab.ExitOK)
	first := m.Started
	lab.Warm(12 * time.Second)
	s := t.Status()
	if m, state, why := s.Of(id); !m.Started.Equal(first) {
		t.Fatalf("tried again %v later: %s, %s", m.Started.Sub(first), state, why)
	}

	// Room for the huge pages, and an order to try again.
	hugePool(t, pool(to), hugeMiB/2)
	t.Must(lab.Homenode("move", id, "--to", fmt.Sprint(to)), lab.ExitOK)
	ended(first)
	for _, r := range m.RefusedBy {
		if r.Cause != "pinned" || r.Bytes != pinnedMiB<<20 {
			t.Fatalf("with free huge pages: %d bytes refused as %s", r.Bytes, r.Cause)
		}
	}
	if free := t.Read(lab.NodeFile(to, "hugepages/hugepages-2048kB/free_hugepages")); free != "0" ||
		m.Moved != hugeMiB<<20 {
		t.Fatalf("moved %d bytes, %s of %d huge pages of node %d are free", m.Moved, free, hugeMiB/2, to)
	}
	t.Alive(d)
	t.Textf("history: %s", lab.Cut(e.Text))
}

// hugePool makes a node's pool of huge pages so large. The kernel gives what it finds in
// one piece, so memory that earlier tests left in pieces is put together first.
func hugePool(t *lab.T, file string, n int) {
	t.Until(30*time.Second, "huge pages in "+file, func() (bool, string) {
		t.Write(file, fmt.Sprint(n))
		got := t.Read(file)
		if got != fmt.Sprint(n) {
			t.Write("/proc/sys/vm/drop_caches", "3")
			t.Write("/proc/sys/vm/compact_memory", "1")
		}
		return got == fmt.Sprint(n), got + " of " + fmt.Sprint(n)
	})
}

// Holder is the process: it takes all its memory on one node and has io_uring pin a
// part of it.
func Holder(node string) error {
	var n int
	if _, err := fmt.Sscan(node, &n); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/comm", []byte("holder"), 0); err != nil {
		return err
	}
	take := func(mib, flags int) ([]byte, error) {
		b, err := syscall.Mmap(-1, 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON|flags)
		if err != nil {
			return nil, fmt.Errorf("map %d MiB: %w", mib, err)
		}
		p := lab.Pages{Bytes: b}
		if flags == 0 {
			if err := syscall.Madvise(b, 15); err != nil { // MADV_NOHUGEPAGE
				return nil, err
			}
		}
		if err := p.Bind(lab.MpolBind, lab.SetOf(n)); err != nil {
			return nil, err
		}
		p.Touch()
		return b, p.Bind(lab.MpolDefault, 0)
	}
	if _, err := take(plainMiB, 0); err != nil {
		return err
	}
	if _, err := take(hugeMiB, syscall.MAP_HUGETLB); err != nil {
		return err
	}
	b, err := take(pinnedMiB, 0)
	if err == nil {
		err = unprivileged(pinnedMiB << 20)
	}
	if err == nil {
		err = pinByRing(b)
	}
	if err == nil {
		Sleeper()
	}
	return err
}

// unprivileged gives up root's capabilities, with leave to lock so many bytes: the
// kernel counts as VmPin only what who lacks CAP_IPC_LOCK pins by io_uring (seen on
// Linux 7.3).
func unprivileged(mayLock uint64) error {
	const memlock = 8 // RLIMIT_MEMLOCK
	if err := syscall.Setrlimit(memlock, &syscall.Rlimit{Cur: mayLock, Max: mayLock}); err != nil {
		return fmt.Errorf("limit of locked memory: %w", err)
	}
	return syscall.Setreuid(-1, 65534)
}

// pinByRing registers memory with an io_uring, which pins it for as long as the ring
// is open (io_uring_register(2), IORING_REGISTER_BUFFERS).
func pinByRing(b []byte) error {
	const (
		setup    = 425
		register = 427
		buffers  = 0
	) // the same numbers on x86-64 and arm64
	var params [120]byte // struct io_uring_params
	fd, _, e := syscall.Syscall(setup, 2, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		return fmt.Errorf("io_uring_setup: %w", e)
	}
	iov := syscall.Iovec{Base: &b[0]}
	iov.SetLen(len(b))
	if _, _, e := syscall.Syscall6(register, fd, buffers, uintptr(unsafe.Pointer(&iov)), 1, 0, 0); e != 0 {
		return fmt.Errorf("io_uring_register of %d bytes: %w", len(b), e)
	}
	return nil
}
