//go:build linux

package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// SetAffinity allows a thread these CPUs alone.
func SetAffinity(tid int, cpus Set) error {
	mask := uint64(cpus)
	if _, _, e := syscall.Syscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(tid), 8,
		uintptr(unsafe.Pointer(&mask))); e != 0 {
		return fmt.Errorf("sched_setaffinity of %d to %s: %w", tid, cpus, e)
	}
	return nil
}

// ThreadsOf returns the thread IDs of a process; none if it is gone.
func ThreadsOf(pid int) []int {
	d, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var r []int
	for _, e := range d {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			r = append(r, tid)
		}
	}
	return r
}

// StatusField reads a line of /proc/TID/status.
func StatusField(tid int, field string) string {
	for line := range strings.Lines(ReadText(fmt.Sprintf("/proc/%d/status", tid))) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Allowed is the CPUs each thread of a process may run on.
func Allowed(pid int) map[int]Set {
	r := map[int]Set{}
	for _, tid := range ThreadsOf(pid) {
		if s, err := ParseSet(StatusField(tid, "Cpus_allowed_list")); err == nil && s != 0 {
			r[tid] = s
		}
	}
	return r
}

// LastCPU is the CPU a thread was last seen on, field 39 of proc_pid_stat(5).
func LastCPU(tid int) int {
	s := ReadText(fmt.Sprintf("/proc/%d/stat", tid))
	if i := strings.LastIndexByte(s, ')'); i >= 0 {
		if f := strings.Fields(s[i+1:]); len(f) > 36 {
			if n, err := strconv.Atoi(f[36]); err == nil {
				return n
			}
		}
	}
	return -1
}

// RunTime is how long a thread has run, as text to compare.
func RunTime(tid int) string {
	ran, _, _ := strings.Cut(ReadText(fmt.Sprintf("/proc/%d/schedstat", tid)), " ")
	return ran
}

// Affinities is the CPUs that the threads of a process may use, together.
func (t *T) Affinities(pid int) (all Set) {
	for _, s := range Allowed(pid) {
		all |= s
	}
	return all
}
