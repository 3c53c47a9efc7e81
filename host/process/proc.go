package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// proc reads /proc below a root.
type proc struct{ root fs.FS }

// stat is the part of /proc/PID/stat used here.
type stat struct {
	workload.Process
	parent  int
	group   int // process group
	session int
	state   byte
	vhost   int // of a thread of the kernel: the process that it carries packets or blocks for; else 0
}

func (p proc) read(pid int, file string) ([]byte, error) {
	text, err := fs.ReadFile(p.root, fmt.Sprintf("proc/%d/%s", pid, file))
	if err != nil && isGone(err) {
		return nil, exited(pid)
	}
	return text, err
}

// parse is for files that are long.
func (p proc) parse(pid int, file string, parse func(io.Reader) error) error {
	f, err := p.root.Open(fmt.Sprintf("proc/%d/%s", pid, file))
	if err == nil {
		defer f.Close()
		err = parse(f)
	}
	if err != nil && isGone(err) {
		return exited(pid)
	}
	return err
}

func (p proc) stat(pid int) (stat, error) {
	text, err := p.read(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	s, err := procfs.ParseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	out := stat{workload.Process{PID: s.PID, Start: s.Start}, s.Parent, s.Group, s.Session, s.State, 0}
	if of, is := strings.CutPrefix(string(s.Comm), "vhost-"); is && s.Flags&procfs.KernelThread != 0 {
		out.vhost, _ = strconv.Atoi(of)
	}
	return out, nil
}

// check returns an error that wraps ESRCH unless the very process named lives.
func (p proc) check(want workload.Process) error {
	if want.PID <= 0 || want.Start == 0 {
		return fmt.Errorf("process %d has no start time to know it by", want.PID)
	}
	s, err := p.stat(want.PID)
	if err != nil {
		return err
	}
	if s.Start != want.Start {
		return fmt.Errorf("process %d: the PID now belongs to another process: %w", want.PID, unix.ESRCH)
	}
	if s.state == 'X' || s.state == 'x' {
		return exited(want.PID)
	}
	// A zombie with other threads is a program whose main thread has ended.
	if s.state == 'Z' {
		if threads, err := p.threads(want.PID); err != nil || len(threads) < 2 {
			return exited(want.PID)
		}
	}
	return nil
}

// threads lists the thread IDs of a process, rising.
func (p proc) threads(pid int) ([]int, error) {
	return p.numbers(fmt.Sprintf("proc/%d/task", pid), pid)
}

func (p proc) numbers(dir string, pid int) ([]int, error) {
	entries, err := fs.ReadDir(p.root, dir)
	if err != nil {
		if pid != 0 && isGone(err) {
			return nil, exited(pid)
		}
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// hasThread reports whether tid is a thread of the process pid now, as far as can be seen.
func (p proc) hasThread(pid, tid int) bool {
	_, err := fs.Stat(p.root, fmt.Sprintf("proc/%d/task/%d", pid, tid))
	return !isGone(err)
}

// family is the given processes that live, and their descendants that stayed in
// the cgroup of their parent, rising by PID: one that was put into another cgroup
// is another workload. The error wraps ESRCH when none of the given lives.
func (p proc) family(of []workload.Process) ([]workload.Process, error) {
	all, err := p.all()
	if err != nil {
		return nil, err
	}
	children := map[int][]stat{}
	for _, s := range all {
		children[s.parent] = append(children[s.parent], s)
	}
	found := map[int]workload.Process{}
	var queue, dead []int
	for _, want := range of {
		if err := p.check(want); err != nil {
			if !isGone(err) {
				return nil, err
			}
			dead = append(dead, want.PID)
			continue
		}
		found[want.PID] = want
		queue = append(queue, want.PID)
	}
	if len(found) == 0 {
		return nil, &GoneError{PIDs: dead}
	}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		if len(children[parent]) == 0 {
			continue
		}
		home, err := p.cgroup(parent)
		if err != nil {
			continue
		}
		for _, c := range children[parent] {
			if _, seen := found[c.PID]; seen || c.state == 'Z' || c.state == 'X' || c.Start < found[parent].Start {
				continue
			}
			if own, err := p.cgroup(c.PID); err != nil || own != home {
				continue
			}
			found[c.PID] = c.Process
			queue = append(queue, c.PID)
		}
	}
	// Before Linux 6.4 threads of the kernel carry the packets and blocks of a guest, named
	// vhost-PID (vhost_dev_set_owner, drivers/vhost/vhost.c); since then they are its own.
	for _, k := range children[2] {
		if _, of := found[k.vhost]; of && k.vhost > 0 {
			found[k.PID] = k.Process
		}
	}
	var members []workload.Process
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		members = append(members, found[pid])
	}
	return members, nil
}

// all is every process there is, rising by PID; those that exit meanwhile are
// left out.
func (p proc) all() ([]stat, error) {
	pids, err := p.numbers("proc", 0)
	if err != nil {
		return nil, err
	}
	var all []stat
	for _, pid := range pids {
		if s, err := p.stat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// cgroup is the text of /proc/PID/cgroup, to compare.
func (p proc) cgroup(pid int) (string, error) {
	text, err := p.read(pid, "cgroup")
	return string(text), err
}

// booted is the wall-clock time of boot, to which start times are relative.
func (p proc) booted() (time.Time, error) {
	text, err := fs.ReadFile(p.root, "proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	at, ok := procfs.Booted(text)
	if !ok {
		return at, errors.New("/proc/stat: no btime")
	}
	return at, nil
}

// online is the CPUs that run.
func (p proc) online() (topology.CPUSet, error) {
	text, err := fs.ReadFile(p.root, "sys/devices/system/cpu/online")
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(string(text))
}
