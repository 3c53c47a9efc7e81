//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

func setAffinity(tid int, cpus set) error {
	mask := uint64(cpus)
	if _, _, e := syscall.Syscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(tid), 8, uintptr(unsafe.Pointer(&mask))); e != 0 {
		return fmt.Errorf("sched_setaffinity of %d to %s: %w", tid, cpus, e)
	}
	return nil
}

func threadsOf(pid int) []int {
	d, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var r []int
	for _, e := range d {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			r = append(r, tid)
		}
	}
	return r
}

// statusField reads a line of /proc/TID/status.
func statusField(tid int, field string) string {
	for line := range strings.Lines(readText(fmt.Sprintf("/proc/%d/status", tid))) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// allowed is the CPUs each thread of a process may run on.
func allowed(pid int) map[int]set {
	r := map[int]set{}
	for _, tid := range threadsOf(pid) {
		if s, err := parseSet(statusField(tid, "Cpus_allowed_list")); err == nil && s != 0 {
			r[tid] = s
		}
	}
	return r
}

// lastCPU is the CPU a thread was last seen on, field 39 of proc_pid_stat(5).
func lastCPU(tid int) int {
	s := readText(fmt.Sprintf("/proc/%d/stat", tid))
	if i := strings.LastIndexByte(s, ')'); i >= 0 {
		if f := strings.Fields(s[i+1:]); len(f) > 36 {
			if n, err := strconv.Atoi(f[36]); err == nil {
				return n
			}
		}
	}
	return -1
}

// runTime is how long a thread has run, as text to compare.
func runTime(tid int) string {
	ran, _, _ := strings.Cut(readText(fmt.Sprintf("/proc/%d/schedstat", tid)), " ")
	return ran
}

// affinities is the CPUs that the threads of a process may use, together.
func (t *T) affinities(pid int) (all set) {
	for _, s := range allowed(pid) {
		all |= s
	}
	return all
}
