package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// userHZ is the unit of times in /proc/PID/stat. It is part of the ABI and 100 on
// every architecture that Go supports.
const userHZ = 100

// proc reads /proc below a root.
type proc struct{ root fs.FS }

// stat is the part of /proc/PID/stat used here.
type stat struct {
	workload.Process
	parent  int
	group   int // process group
	session int
	state   byte
}

func (p proc) read(pid int, file string) ([]byte, error) {
	text, err := fs.ReadFile(p.root, fmt.Sprintf("proc/%d/%s", pid, file))
	if err != nil && isGone(err) {
		return nil, exited(pid)
	}
	return text, err
}

func (p proc) stat(pid int) (stat, error) {
	text, err := p.read(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return s, nil
}

// parseStat reads /proc/PID/stat. The command, in brackets, may hold anything,
// brackets and spaces too: fields are counted after the last bracket.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, errors.New("no command in brackets")
	}
	fields := strings.Fields(string(text[end+1:]))
	const state, parent, group, session, start = 0, 1, 2, 3, 22 - 3 // field 3 of proc_pid_stat(5) is the first
	if len(fields) <= start {
		return stat{}, errors.New("too short")
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	ppid, err2 := strconv.Atoi(fields[parent])
	pgrp, err3 := strconv.Atoi(fields[group])
	sid, err4 := strconv.Atoi(fields[session])
	began, err5 := strconv.ParseUint(fields[start], 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return stat{}, err
	}
	return stat{workload.Process{PID: pid, Start: began}, ppid, pgrp, sid, fields[state][0]}, nil
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
	var members []workload.Process
	for _, m := range found {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b workload.Process) int { return a.PID - b.PID })
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
	for line := range strings.Lines(string(text)) {
		if sec, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(sec), 10, 64)
			return time.Unix(n, 0), err
		}
	}
	return time.Time{}, errors.New("/proc/stat: no btime")
}

// online is the CPUs that run.
func (p proc) online() (topology.CPUSet, error) {
	text, err := fs.ReadFile(p.root, "sys/devices/system/cpu/online")
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(string(text))
}
