//go:build linux

package home

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeFrozen measures how long workloads of many processes and much memory are frozen while
// their memory nodes are set and restored: bench/results/freeze.md.
func homenodeFrozen(t *lab.T) {
	const cycles = 4
	all := fmt.Sprintf("0-%d", t.Shape.Nodes-1)
	var rows []string
	for _, c := range []struct{ processes, mib int }{{1, 32}, {100, 32}, {1000, 32}, {1, 160}} {
		g := t.NewGroup(lab.CgroupRoot, "many")
		t.Write(g.File("cpuset.mems"), "1")
		pid := startIn(t, g, "/init", "many", strconv.Itoa(c.processes), strconv.Itoa(c.mib))
		t.Until(120*time.Second, "its processes run", func() (bool, string) {
			n := len(strings.Fields(lab.ReadText(g.File("cgroup.procs"))))
			return n == c.processes, fmt.Sprint(n)
		})
		lab.Warm(3 * time.Second)
		t.Write(g.File("cpuset.mems"), all)
		d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce",
			Extra: "workloads: [{match: /many, class: dedicated, cpus: 1}]\n"})
		for range cycles {
			t.Until(120*time.Second, "it is bound", func() (bool, string) {
				mems := lab.ReadText(g.File("cpuset.mems"))
				return mems != all, mems
			})
			t.Must(lab.Homenode("undo", "/many"), lab.ExitOK)
			t.Must(lab.Homenode("resume", "/many"), lab.ExitOK)
		}
		var took []float64
		for _, e := range t.History() {
			if e.Code == "was-frozen" {
				took = append(took, 1000*e.Frozen)
			}
		}
		if len(took) < cycles {
			t.Fatalf("%d processes: it was frozen %d times", c.processes, len(took))
		}
		slices.Sort(took)
		t.Stop(d)
		lab.FreshState()
		row := fmt.Sprintf("%d processes, %d MiB: frozen %d times, %.1f ms (least), %.1f ms (median), %.1f ms (most)",
			c.processes, c.mib, len(took), took[0], took[len(took)/2], took[len(took)-1])
		t.Logf("%s", row)
		rows = append(rows, row)
		t.Write(g.File("cgroup.kill"), "1")
		lab.AwaitEnd(pid)
		t.Until(60*time.Second, "they have ended", func() (bool, string) {
			err := syscall.Rmdir(string(g))
			return err == nil, fmt.Sprint(err)
		})
	}
	t.Textf("%s", strings.Join(rows, "; "))
}

// Many takes memory and makes processes that wait. They are forked in raw system calls: a
// thousand programs of Go would not fit.
func Many(processes, mib string) error {
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
	for i := 0; i < len(memory); i += lab.PageSize {
		memory[i] = 1
	}
	Sleeper()
	memory[0]++
	return nil
}
