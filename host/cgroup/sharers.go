package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// A process outside the cgroup can share the address space of one inside: a child of
// clone(2) with CLONE_VM, or of vfork(2), that was put into another cgroup. It is not frozen
// with the cgroup and can hold the lock. Such a cgroup is refused.
//
// kcmp(2) compares address spaces. It is asked only about processes whose address spaces are
// laid out alike (fields 26 to 28 and 45 to 51 of /proc/PID/stat), which a shared one is.
// kcmp waits for execve(2) of either process, which its own lock can hold up (exec_mmap,
// fs/exec.c), so the call may be left behind: one for each cgroup, and mostLeft in all.
const (
	kcmpVM   = 1 // KCMP_VM of <linux/kcmp.h>
	kcmpMost = 2 * time.Second
	mostLeft = 16

	// mostPairs bounds the questions about one cgroup, some 0.1 s of kcmp. Children that one
	// process forked are laid out alike; a user who spreads 10,000 of them over two cgroups
	// makes 25 million pairs, 400 MB of them.
	mostPairs = 1 << 16
)

// sharesOutside returns an error when a process outside a cgroup has the address space of one
// inside.
func (d *Driver) sharesOutside(ctx context.Context, at string) error {
	inside, err := d.processesBelow(at)
	if err != nil {
		return err
	}
	layouts := map[string][]int{}
	for pid := range inside {
		if l := d.layout(pid); l != "" {
			layouts[l] = append(layouts[l], pid)
		}
	}
	entries, err := fs.ReadDir(d.root, "proc")
	if err != nil {
		return err
	}
	outside := map[string][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || inside[pid] {
			continue
		}
		if l := d.layout(pid); len(layouts[l]) > 0 {
			outside[l] = append(outside[l], pid)
		}
	}
	pairs, err := pairsOf(at, layouts, outside)
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		return nil
	}
	return d.compare(ctx, at, pairs)
}

// pairsOf returns each process inside a cgroup with each outside that is laid out alike.
func pairsOf(at string, inside, outside map[string][]int) (pairs [][2]int, err error) {
	all, most := 0, ""
	for l := range outside {
		n := len(inside[l]) * len(outside[l])
		all += n
		if n > len(inside[most])*len(outside[most]) {
			most = l
		}
	}
	if all > mostPairs {
		return nil, &ManyAlikeError{at, len(inside[most]), len(outside[most])}
	}
	for l, others := range outside {
		for _, pid := range others {
			for _, member := range inside[l] {
				pairs = append(pairs, [2]int{member, pid})
			}
		}
	}
	return pairs, nil
}

// compare asks the kernel whether pairs of processes share their address spaces.
func (d *Driver) compare(ctx context.Context, at string, pairs [][2]int) error {
	d.mu.Lock()
	if d.comparing[at] || len(d.comparing) >= mostLeft {
		d.mu.Unlock()
		return &NotFrozenError{at}
	}
	d.comparing[at] = true
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := d.comparePairs(at, pairs)
		d.mu.Lock()
		delete(d.comparing, at)
		d.mu.Unlock()
		done <- err
	}()
	over := time.NewTimer(kcmpMost)
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-over.C:
		return &NotFrozenError{at}
	}
}

func (d *Driver) comparePairs(at string, pairs [][2]int) error {
	for _, p := range pairs {
		same, err := d.sameMemory(p[0], p[1])
		switch {
		case errors.Is(err, unix.ESRCH):
			continue // one of them has ended
		case errors.Is(err, unix.ENOSYS):
			same = true // a kernel without kcmp: what is laid out alike counts
		case err != nil:
			return fmt.Errorf("cgroup %s: compare the memory of processes %d and %d: %v", at, p[0], p[1], err)
		}
		if !same {
			continue
		}
		text, err := fs.ReadFile(d.root, procfs.File(p[1], "cgroup"))
		if err != nil {
			continue // it has ended
		}
		in, err := unified(text)
		if err != nil {
			return fmt.Errorf("cgroup %s: process %d: %v", at, p[1], err)
		}
		if in != at && !strings.HasPrefix(in, at+"/") { // else it was started since
			return &SharedError{Cgroup: at, Inside: p[0], Outside: p[1], In: in}
		}
	}
	return nil
}

// sameMemory asks the kernel whether two processes share an address space.
func sameMemory(a, b int) (bool, error) {
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	if errno != 0 {
		return false, errno
	}
	return r == 0, nil
}

// processesBelow is the PIDs of the processes in a cgroup and below.
func (d *Driver) processesBelow(at string) (map[int]bool, error) {
	out := map[int]bool{}
	for todo := []string{at}; len(todo) > 0; todo = todo[1:] {
		cgroup := todo[0]
		text, err := d.files.read(cgroup, "cgroup.procs")
		switch {
		case errors.Is(err, unix.EOPNOTSUPP): // threaded: its processes are those of one above
		case err != nil && cgroup != at && errors.Is(d.lost(cgroup, err), fs.ErrNotExist):
			continue
		case err != nil:
			return nil, d.lost(cgroup, err)
		}
		for _, f := range strings.Fields(text) {
			pid, err := strconv.Atoi(f)
			if err != nil || pid == 0 {
				return nil, plan.Unsupported("setting the memory nodes of "+cgroup,
					"the host's PID namespace: homenode does not see all processes in it")
			}
			out[pid] = true
		}
		below, err := d.files.children(cgroup)
		if err != nil && cgroup == at {
			return nil, d.lost(cgroup, err)
		}
		todo = append(todo, below...)
	}
	return out, nil
}

// layout is where the address space of a process has its parts; "" for one that has none, as
// a thread of the kernel, or that has ended.
func (d *Driver) layout(pid int) string {
	text, err := fs.ReadFile(d.root, procfs.File(pid, "stat"))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the first is field 3
	if len(fields) < 49 {
		return ""
	}
	parts := slices.Concat(fields[23:26], fields[42:49])
	if len(bytes.Trim(slices.Concat(parts...), "0")) == 0 {
		return ""
	}
	return string(bytes.Join(parts, []byte{' '}))
}
