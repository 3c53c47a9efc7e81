package cgroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// locked lets process 5 of /a/b hold its lock.
func locked(m *model, kernel string) *Driver {
	d := m.driver()
	root := d.root.(fstest.MapFS)
	root["proc/sys/kernel/osrelease"] = &fstest.MapFile{Data: []byte(kernel + "\n")}
	root["proc/5/stat"], root["proc/6/stat"] = stat(5, "4096"), stat(6, "8192")
	d.answers = func(p workload.Process) error {
		if p.PID == 5 {
			return fmt.Errorf("process 5 %w", plan.ErrNoAnswer)
		}
		return unix.ESRCH // what else fails is no answer about the lock
	}
	return d
}

// Kernels before 6.2 take the locks of all processes below when a controller goes on or off.
func TestControllerBesideAHeldLock(t *testing.T) {
	for _, c := range []struct {
		kernel string
		pids   string // of /a/b
		holds  bool
	}{
		{"6.1.0-31-amd64", "6\n5", true}, {"5.15.0", "5", true}, {"6.1.0", "6", false}, {"6.1.0", "", false}, {"6.1.0", "0", false},
		{"6.2.0", "5", false}, {"7.3.4+deb13", "5", false}, {"unknown", "5", false},
	} {
		t.Run(c.kernel+" "+strings.ReplaceAll(c.pids, "\n", ","), func(t *testing.T) {
			m := slice(t)
			d := locked(m, c.kernel)
			m.put("/a/b", "cgroup.procs", c.pids)
			err := d.Apply(ctx, step(plan.SetCPUs, "/a/c", "1"), nil)
			var held *LockedError
			if errors.As(err, &held) != c.holds || c.holds != errors.Is(err, plan.ErrNoAnswer) || err != nil && !c.holds {
				t.Fatalf("%v", err)
			}
			if on := strings.Contains(m.get("/", subtreeControl), "cpuset"); on == c.holds {
				t.Errorf("the controller is on: %v", on)
			}
			if c.holds {
				return
			}
			m.put("/a/b", "cgroup.procs", "5")
			m.put("/a/c", "cpuset.cpus", "")
			e := plan.Entry{Kind: plan.CgroupControllers, Path: "/a", Old: cpusets.off(), New: cpusets.on()}
			old := strings.HasPrefix(c.kernel, "6.1")
			if err := restore(d, e); errors.As(err, &held) != old {
				t.Errorf("off again: %v", err)
			}
			if on := m.get("/a", subtreeControl) != ""; on != old {
				t.Errorf("the controller of /a is on: %v", on)
			}
		})
	}
}

// A process that holds its lock stays where `homenode run` put it: another cgroup may have
// other memory nodes.
func TestLeaveWithAHeldLock(t *testing.T) {
	m := newModel(t)
	m.mkdir(BatchGroup)
	m.mkdir(BatchGroup + "/5")
	m.enter(BatchGroup+"/5", "5")
	d := locked(m, "7.3.4")
	var held *LockedError
	if err := d.Leave(ctx, BatchGroup+"/5", "/"); !errors.As(err, &held) || m.get(BatchGroup+"/5", "cgroup.procs") != "5" {
		t.Errorf("%v, there is %q", err, m.get(BatchGroup+"/5", "cgroup.procs"))
	}
	d.answers = nil
	if err := d.Leave(ctx, BatchGroup+"/5", "/"); err != nil || m.get("/", "cgroup.procs") != "5" {
		t.Errorf("%v", err)
	}
}
