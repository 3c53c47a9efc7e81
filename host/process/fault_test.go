package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/fault"
	"github.com/homenode/homenode/host/internal/numa"
)

var errnos = []unix.Errno{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EBUSY, unix.ESRCH, unix.ENOENT, unix.EIO, unix.EINTR, unix.EMFILE}

// Whichever call fails on the way to a process's new affinity and back: it has the
// old one, or the new one and a setting that was read before.
func TestEverySystemCallFails(t *testing.T) {
	cpus, err := AffinityOf(0)
	if err != nil || cpus.Len() < 2 {
		t.Skip("needs two CPUs")
	}
	to := topology.CPUs(cpus.Max())
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		p := sleeper(t)
		d := New(Options{Root: alone(t, p)})
		now := func() topology.CPUSet {
			has, err := AffinityOf(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			return has
		}
		var have []plan.Change
		var err error
		watched(func() {
			if have, err = d.Changes(t.Context(), cpuStepOf(p, to)); err == nil {
				err = d.Apply(t.Context(), cpuStepOf(p, to), nil)
			}
		})
		switch has := now(); {
		case err == nil && !has.Equal(to):
			t.Errorf("no error, and CPUs %s", has)
		case err != nil && !has.Equal(cpus) && len(have) == 0:
			t.Errorf("CPUs %s without a record: %v", has, err)
		case err != nil && !has.Equal(cpus) && !strings.Contains(err.Error(), "restore: ") && !isGone(err):
			t.Errorf("CPUs %s are left and not told: %v", has, err)
		}
		if len(have) == 0 {
			return
		}
		e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: to.String(), Groups: have[0].Groups, Ticks: have[0].Ticks}
		watched(func() { err = d.Restore(t.Context(), []plan.Entry{e})[0] })
		if has := now(); err == nil && !has.Equal(cpus) {
			t.Errorf("restored to %s", has)
		}
		if err := d.Restore(t.Context(), []plan.Entry{e})[0]; err != nil || !now().Equal(cpus) {
			t.Errorf("restored at last to %s, %v", now(), err)
		}
	})
}

// Whichever call of a page move fails: the move ends and its record says how.
func TestEverySystemCallOfAMoveFails(t *testing.T) {
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		p := sleeper(t)
		m := NewMover(MoverOptions{Root: alone(t, p), Sweep: true})
		m.wait = 0 // calls fail on this thread only
		var last plan.Move
		var err error
		watched(func() {
			err = m.Move(t.Context(), moveStepOf(p), func(r plan.Move) { last = r })
		})
		if want := map[bool]string{true: "done", false: "failed"}[err == nil]; last.State != want || last.Moved < 0 || last.Refused < 0 {
			t.Errorf("record %+v of %v", last, err)
		}
		if err := m.Move(t.Context(), moveStepOf(p), nil); err != nil {
			t.Errorf("the next move: %v", err)
		}
	})
}

// Whichever call fails: a thread is said to be confined only when it is.
func TestEverySystemCallOfConfiningFails(t *testing.T) {
	var none *plan.UnsupportedError
	k := numa.Kernel{}
	for _, policy := range []MemPolicy{MemBind, MemPreferred, MemWeightedInterleave} {
		t.Run(string(policy), func(t *testing.T) {
			fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
				runtime.LockOSThread() // for good: see ConfineSelf
				all, err := k.Affinity(0)
				if err != nil {
					t.Fatal(err)
				}
				one, node := topology.CPUs(all.Max()), topology.Nodes(0)
				watched(func() { err = ConfineSelf(one, node, policy) })
				if errors.As(err, &none) {
					return
				}
				cpus, _ := k.Affinity(0)
				mode, nodes, _ := k.Policy()
				if holds := cpus.Equal(one) && mode != numa.Default && nodes.Equal(node); err == nil && !holds {
					t.Errorf("confined to CPUs %s, nodes %s by mode %#x", cpus, nodes, mode)
				}
			})
		})
	}
}

// sleeper is a process that does nothing until the test ends.
func sleeper(t *testing.T) workload.Process {
	t.Helper()
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	s, err := New(Options{}).proc.stat(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return s.Process
}

// alone is the machine's tree as if the process were the only one.
func alone(t *testing.T, p workload.Process) fs.FS {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"proc/stat", fmt.Sprintf("proc/%d", p.PID), "sys/devices/system/cpu", "sys/devices/system/node"} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/"+name, at); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(root)
}

func cpuStepOf(p workload.Process, to topology.CPUSet) plan.Step {
	return plan.Step{Kind: plan.SetCPUs, Workload: "w", To: to.String(),
		Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{p}}}
}

func moveStepOf(p workload.Process) plan.Step {
	s := cpuStepOf(p, topology.CPUSet{})
	s.Kind, s.To = plan.MovePages, "0"
	return s
}
