//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() { tests["homenode.frozen"] = homenodeFrozen }

// homenodeFrozen measures how long workloads of many processes and much memory are frozen while
// their memory nodes are set and restored: bench/results/freeze.md.
func homenodeFrozen(t *T) {
	const cycles = 4
	all := fmt.Sprintf("0-%d", t.shape.Nodes-1)
	var rows []string
	for _, c := range []struct{ processes, mib int }{{1, 32}, {100, 32}, {1000, 32}, {1, 160}} {
		g := t.newGroup(cgroupRoot, "many")
		t.write(g.file("cpuset.mems"), "1")
		pid := t.startIn(g, "/init", "many", strconv.Itoa(c.processes), strconv.Itoa(c.mib))
		t.Until(120*time.Second, "its processes run", func() (bool, string) {
			n := len(strings.Fields(readText(g.file("cgroup.procs"))))
			return n == c.processes, fmt.Sprint(n)
		})
		warm(3 * time.Second)
		t.write(g.file("cpuset.mems"), all)
		d := t.startDaemon(daemonOptions{mode: "enforce", extra: "workloads: [{match: /many, class: dedicated, cpus: 1}]\n"})
		for range cycles {
			t.Until(120*time.Second, "it is bound", func() (bool, string) {
				mems := readText(g.file("cpuset.mems"))
				return mems != all, mems
			})
			t.must(homenode("undo", "/many"), exitOK)
			t.must(homenode("resume", "/many"), exitOK)
		}
		var took []float64
		for _, e := range t.history() {
			if e.Code == "was-frozen" {
				took = append(took, 1000*e.Frozen)
			}
		}
		if len(took) < cycles {
			t.Fatalf("%d processes: it was frozen %d times", c.processes, len(took))
		}
		slices.Sort(took)
		t.stop(d)
		freshState()
		row := fmt.Sprintf("%d processes, %d MiB: frozen %d times, %.1f ms (least), %.1f ms (median), %.1f ms (most)", c.processes, c.mib, len(took), took[0], took[len(took)/2], took[len(took)-1])
		t.Logf("%s", row)
		rows = append(rows, row)
		t.write(g.file("cgroup.kill"), "1")
		awaitEnd(pid)
		t.Until(60*time.Second, "they have ended", func() (bool, string) {
			err := syscall.Rmdir(string(g))
			return err == nil, fmt.Sprint(err)
		})
	}
	t.Textf("%s", strings.Join(rows, "; "))
}

// many takes memory and makes processes that wait. They are forked in raw system calls: a
// thousand programs of Go would not fit.
func many(processes, mib string) error {
	n, err := strconv.Atoi(processes)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	for range n - 1 {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("fork: %w", errno)
		}
		if pid == 0 {
			for {
				syscall.RawSyscall(syscall.SYS_PPOLL, 0, 0, 0)
			}
		}
	}
	memory := make([]byte, size<<20)
	for i := 0; i < len(memory); i += pageSize {
		memory[i] = 1
	}
	sleeper()
	memory[0]++
	return nil
}
