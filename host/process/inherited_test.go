package process

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// given is a machine on which process 10, a child of the shell 9, was given CPUs
// 4-5 100 s after boot, with the journal of that.
func given(t *testing.T) (*model, *modelProc, []plan.Entry) {
	t.Helper()
	m := newModel()
	m.add(1, 0).cgroup = "0::/init.scope\n"
	m.procs[1].session, m.procs[1].group = 1, 1
	shell := m.add(9, 1)
	shell.session, shell.group = 9, 9
	p := m.fork(10, 9)
	p.start, p.group, p.threads[20] = 1010, 10, topology.CPUs(3)
	d := m.driver()
	have, err := d.Changes(context.Background(), cpuStep("4-5", p))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(context.Background(), cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	p.threads[20] = topology.CPUs(3) // it chose again
	return m, p, entries(have)
}

// fork is fork(2), 200 s after boot.
func (m *model) fork(pid, parent int) *modelProc {
	of := m.procs[parent]
	p := m.add(pid, parent)
	p.start, p.cgroup, p.group, p.session = 20000, of.cgroup, of.group, of.session
	p.threads[pid] = of.threads[parent]
	return p
}

// exit is exit(2): children go to PID 1.
func (m *model) exit(pid int) {
	delete(m.procs, pid)
	for _, p := range m.procs {
		if p.parent == pid {
			p.parent = 1
		}
	}
}

func (m *model) setsid(pid int) { m.procs[pid].session, m.procs[pid].group = pid, pid }

func TestInherited(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(m *model, p *modelProc)
		want  []plan.Inherited
	}{
		{"none", func(*model, *modelProc) {}, nil},
		{"a child", func(m *model, _ *modelProc) { m.fork(11, 10) }, []plan.Inherited{child(11, "0-7", "4-5", 10)}},
		{"a child with threads that chose", func(m *model, _ *modelProc) {
			c := m.fork(11, 10)
			c.threads[21], c.threads[22] = topology.CPUs(4), topology.CPUs(4, 5)
		}, []plan.Inherited{child(11, "0-7;21=4", "4-5;21=4", 10)}},
		{"a child that chose, with a thread that did not", func(m *model, _ *modelProc) {
			c := m.fork(11, 10)
			c.threads[11], c.threads[21] = topology.CPUs(1), topology.CPUs(4, 5)
		}, []plan.Inherited{child(11, "1;21=0-7", "1;21=4-5", 10)}},
		{"a child that chose", func(m *model, _ *modelProc) { m.fork(11, 10).threads[11] = topology.CPUs(4) }, nil},
		{"a child from before", func(m *model, _ *modelProc) { m.fork(11, 10).start = 5000 }, nil},
		{"an orphan", func(m *model, _ *modelProc) { m.fork(11, 10); m.exit(10) }, []plan.Inherited{child(11, "0-7", "4-5", 10)}},
		{"an orphan's child", func(m *model, _ *modelProc) {
			m.fork(11, 10)
			m.fork(12, 11)
			m.exit(10)
			m.exit(11)
		}, []plan.Inherited{child(12, "0-7", "4-5", 10)}},
		{"a daemon", func(m *model, _ *modelProc) { // forks, leads a session, forks again
			m.fork(11, 10)
			m.setsid(11)
			m.fork(12, 11)
			m.exit(11)
		}, []plan.Inherited{child(12, "0-7", "4-5", 11)}},
		{"an orphan taken in by a manager", func(m *model, _ *modelProc) {
			m.fork(11, 10)
			m.exit(10)
			m.fork(8, 1).session = 8
			m.procs[11].parent = 8
		}, []plan.Inherited{child(11, "0-7", "4-5", 10)}},
		{"an orphan taken in by a container's init", func(m *model, _ *modelProc) {
			m.fork(11, 10)
			m.exit(10)
			m.procs[9].nspid, m.procs[11].parent = "9\t1", 9
		}, []plan.Inherited{child(11, "0-7", "4-5", 10)}},
		{"an orphan that chose", func(m *model, _ *modelProc) {
			m.fork(11, 10).threads[11] = topology.CPUs(4)
			m.exit(10)
		}, nil},
		{"an orphan from before", func(m *model, _ *modelProc) { m.fork(11, 10).start = 5000; m.exit(10) }, nil},
		{"somebody's numactl in the same session", func(m *model, _ *modelProc) {
			m.fork(11, 9).threads[11] = topology.CPUs(4, 5)
			m.exit(10)
		}, nil},
		{"an orphan in another cgroup", func(m *model, _ *modelProc) {
			c := m.fork(11, 9)
			c.threads[11], c.cgroup = topology.CPUs(4, 5), "0::/other\n"
			m.exit(9)
		}, nil},
		{"a zombie", func(m *model, _ *modelProc) { m.fork(11, 10).state = 'Z' }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, p, journal := given(t)
			c.after(m, p)
			got, err := m.driver().Inherited(context.Background(), journal, nil)
			for i := range c.want {
				c.want[i].Of = 1
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v %v, want %+v", got, err, c.want)
			}
			if len(got) == 0 {
				return
			}
			// Once journalled there are no more, and they are restored by that.
			for _, h := range got {
				journal = append(journal, plan.Entry{Seq: 2, Ticks: h.Ticks, Kind: h.Kind, Path: h.Path, Groups: h.Groups, Old: h.Value, New: h.Has})
			}
			if again, err := m.driver().Inherited(context.Background(), journal, nil); err != nil || len(again) != 0 {
				t.Errorf("again %+v %v", again, err)
			}
			if err := m.restore(journal); err != nil && !isGone(err) {
				t.Error(err)
			}
			old, _ := parseAffinity(got[0].Value)
			pid := 0
			if q, err := plan.ParseProcessPath(got[0].Path); err == nil {
				pid = q.PID
			}
			if masks := m.masks(); masks[pid] != old.main.String() {
				t.Errorf("restored to %v", masks)
			}
		})
	}
}

func child(pid int, old, has string, group int) plan.Inherited {
	return plan.Inherited{Has: has, Setting: plan.Setting{Kind: plan.Affinity, Value: old,
		Path: plan.ProcessPath(workload.Process{PID: pid, Start: 20000}), Groups: groups{group, "0::/user.slice"}.String(),
		Ticks: 10000}}
}

// Two workloads with the same home in one cgroup: an orphan goes to the one whose
// process group it is in, and what is journalled for the other is no orphan.
func TestInheritedFromTwo(t *testing.T) {
	m, _, journal := given(t)
	q := m.fork(30, 9)
	q.group = 30
	q.threads[30] = topology.CPUs(4, 5)
	journal = append(journal, plan.Entry{Seq: 2, Ticks: journal[0].Ticks, Kind: plan.Affinity, Path: "30@20000", Groups: "30 0::/user.slice", Old: "0-6", New: "4-5"})
	m.fork(31, 30)
	m.exit(30)
	m.exit(9)
	got, err := m.driver().Inherited(context.Background(), journal, nil)
	if err != nil || len(got) != 1 || got[0].Of != 2 || got[0].Value != "0-6" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := m.driver().Inherited(context.Background(), journal, []workload.Process{{PID: 10, Start: 1010}}); err != nil || len(got) != 0 {
		t.Errorf("among the journalled: %+v %v", got, err)
	}
}

// A call that fails makes Inherited fail, or changes nothing: never is a process passed
// over, for the entry it inherits from is about to go.
func TestInheritedWithEachCallFailing(t *testing.T) {
	for n := 1; ; n++ {
		m, _, journal := given(t)
		m.fork(11, 10)
		m.setsid(11)
		m.fork(12, 11)
		m.exit(11)
		m.fork(13, 10)
		m.calls = 0
		m.fault = func(call int, _ string) error {
			if call == n {
				return unix.EMFILE
			}
			return nil
		}
		got, err := m.driver().Inherited(context.Background(), journal, nil)
		if m.calls < n {
			break
		}
		if err == nil && len(got) != 2 {
			t.Errorf("call %d fails (%s): %d found and no error", n, m.trace[len(m.trace)-1], len(got))
		}
	}
}

// TestInheritedWhileTheMakerExits: whenever its maker exits in a pass, a process is found,
// also one with the lower PID, which is read first.
func TestInheritedWhileTheMakerExits(t *testing.T) {
	for _, c := range []struct {
		name string
		pid  int
		make func(m *model, pid int)
	}{
		{"a child with a lower PID", 5, func(m *model, pid int) { m.fork(pid, 10) }},
		{"a child with a higher PID", 12, func(m *model, pid int) { m.fork(pid, 10) }},
		{"the leader of a session", 5, func(m *model, pid int) { m.fork(pid, 10); m.setsid(pid) }},
		{"a grandchild", 5, func(m *model, pid int) { m.fork(6, 10); m.fork(pid, 6) }},
		{"a child of an orphan", 5, func(m *model, pid int) { m.fork(6, 10); m.fork(pid, 6); m.exit(10) }},
	} {
		for n := 1; ; n++ {
			m, _, journal := given(t)
			c.make(m, c.pid)
			m.calls = 0
			m.hook = func(call int) {
				if call != n {
					return
				}
				for _, p := range []int{10, 6} {
					if m.procs[p] != nil {
						m.exit(p)
					}
				}
			}
			got, err := m.driver().Inherited(context.Background(), journal, nil)
			if m.calls < n {
				break
			}
			if err != nil || !slices.ContainsFunc(got, func(h plan.Inherited) bool { return strings.HasPrefix(h.Path, strconv.Itoa(c.pid)+"@") }) {
				t.Errorf("%s, exit at call %d (%s): %+v %v", c.name, n, m.trace[n-1], got, err)
			}
		}
	}
}

// Whose parents exit faster than they can be read holds nobody else up.
func TestInheritedBesideParentsThatExit(t *testing.T) {
	m, _, journal := given(t)
	m.fork(11, 10)
	m.fork(40, 9)
	m.fork(41, 40)
	next := 42
	m.hook = func(int) { // the parent of 41 has always just exited, and a subreaper has taken it
		m.exit(m.procs[41].parent)
		m.fork(next, 9)
		m.procs[41].parent = next
		next++
	}
	got, err := m.driver().Inherited(context.Background(), journal, nil)
	if err != nil || len(got) != 1 || got[0].Path != "11@20000" {
		t.Errorf("%+v %v", got, err)
	}
}
