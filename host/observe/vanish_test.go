package observe

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// oneOfEach is a machine with something of everything.
func oneOfEach() *fakeMachine {
	m := newFake()
	m.group("/system.slice", fakeGroup{})
	m.service("/system.slice/a.service", 100, "a", 100*mib)
	m.proc(101, 100, "a-worker", "/system.slice/a.service", 10*mib)
	m.procs[100].threads = []fakeThread{{cpus: "0-7"}, {cpus: "0-3", cpu: 4}}
	m.service("/system.slice/b.service", 110, "b", 100*mib)
	m.proc(111, 1, "b2", "/system.slice/b.service", 100*mib)
	m.group("/session-1.scope", fakeGroup{})
	m.proc(120, 1, "bash", "/session-1.scope", 1*mib)
	m.proc(121, 120, "train", "/session-1.scope", 300*mib)
	m.proc(122, 121, "train", "/session-1.scope", 300*mib)
	return m
}

// TestFailEachRead fails the nth file that is opened, for every n and for every way
// in which a file of a process or cgroup that ends, or is not ours to read, fails.
func TestFailEachRead(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.ESRCH, syscall.ENODEV, syscall.EACCES, syscall.EOPNOTSUPP, syscall.EIO} {
		for _, process := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v process=%v", errno, process), func(t *testing.T) {
				for n := 0; ; n++ {
					m := oneOfEach()
					if process {
						m.mounts, m.top = "", ""
					}
					r := newRig(t, m, Options{})
					seen, failed := 0, ""
					r.fs.fail = func(name string) error {
						if seen++; seen == n+1 {
							failed = name
							return errno
						}
						return nil
					}
					for range 3 {
						r.now = r.now.Add(2 * time.Second)
						r.fs.refresh()
						s, err := r.o.Look(context.Background(), control.Attention{})
						whole := failed == "proc" || failed == "sys/fs/cgroup/cgroup.procs" || (errno == syscall.EIO || errno == syscall.EOPNOTSUPP) &&
							(failed == "proc/self/mountinfo" || failed == "sys/fs/cgroup/cgroup.controllers")
						if err != nil && !whole {
							t.Fatalf("without %s nothing is seen: %v", failed, err)
						}
						if len(s.Problems) > 0 && failed == "" {
							t.Fatalf("problems without a failure: %v", s.Problems)
						}
						check(t, s)
					}
					if failed == "" {
						return
					}
				}
			})
		}
	}
}

// TestNothingReadable: a look at an empty root says what it lacks and does not panic.
func TestNothingReadable(t *testing.T) {
	r := newRig(t, newFake(), Options{})
	r.fs.files = nil
	if _, err := r.o.Look(context.Background(), control.Attention{}); !errors.Is(err, errNoProc) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.o.Look(ctx, control.Attention{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// check holds for every snapshot.
func check(t interface{ Errorf(string, ...any) }, s workload.Snapshot) {
	owner := map[int]workload.ID{}
	for i, o := range s.Observations {
		if i > 0 && s.Observations[i-1].ID >= o.ID {
			t.Errorf("%q comes before %q", s.Observations[i-1].ID, o.ID)
		}
		if len(o.Processes) == 0 {
			t.Errorf("%s has no process", o.ID)
		}
		for j, p := range o.Processes {
			if j > 0 && o.Processes[j-1].PID >= p.PID {
				t.Errorf("%s: processes not rising: %v", o.ID, o.Processes)
			}
			if by, ok := owner[p.PID]; ok {
				t.Errorf("process %d is in %s and %s", p.PID, by, o.ID)
			}
			owner[p.PID] = o.ID
		}
		var shares float64
		for j, r := range o.RanOn {
			if shares += r.Share; r.Share <= 0 || (j > 0 && o.RanOn[j-1].Node >= r.Node) {
				t.Errorf("%s: ran on %v", o.ID, o.RanOn)
			}
		}
		if len(o.RanOn) > 0 && (shares < 1-1e-9 || shares > 1+1e-9) {
			t.Errorf("%s: shares add up to %v", o.ID, shares)
		}
		all := byNode{}
		for j, n := range o.Memory {
			if all.add(int(n.Node), n.KiB); n.KiB <= 0 || (j > 0 && o.Memory[j-1].Node >= n.Node) {
				t.Errorf("%s: memory %v", o.ID, o.Memory)
			}
		}
		for _, n := range o.Anon {
			if n.KiB > all.at(int(n.Node)) {
				t.Errorf("%s: anonymous %v of %v", o.ID, o.Anon, o.Memory)
			}
		}
		if !o.CPUs.SubsetOf(s.Host.Online) || o.CPUs.Empty() || o.CPUUse < 0 || o.CPUTime < 0 {
			t.Errorf("%s: CPUs %s, use %v, time %v", o.ID, o.CPUs, o.CPUUse, o.CPUTime)
		}
	}
	for _, u := range s.Unmanaged {
		if u.KiB < 0 {
			t.Errorf("unmanaged %v", s.Unmanaged)
		}
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newFake()
		if rapid.IntRange(0, 3).Draw(rt, "mode") == 0 {
			m.mounts, m.top = "", ""
		}
		groups := []string{"/", "/a.service", "/b.service", "/b.service/below", "/session-1.scope", "/s.slice/c.scope"}
		m.group("/s.slice", fakeGroup{})
		for _, g := range groups[1:] {
			m.group(g, fakeGroup{cpus: "0-7", mems: "0-1"})
		}
		n := rapid.IntRange(0, 12).Draw(rt, "processes")
		for i := range n {
			pid := 100 + 10*i
			// Parents may be missing, the process itself, or in a ring.
			parent := 1
			if k := rapid.IntRange(-1, n).Draw(rt, "parent"); k >= 0 {
				parent = 100 + 10*k
			}
			rss := topology.KiB(4 * rapid.IntRange(0, 60_000).Draw(rt, "pages"))
			p := m.proc(pid, parent, "p", rapid.SampledFrom(groups).Draw(rt, "cgroup"), rss)
			on0 := rapid.IntRange(0, int(rss/4)).Draw(rt, "on node 0")
			p.maps = fmt.Sprintf("7f00 default anon=%d N0=%d N1=%d kernelpagesize_kB=4\n", rss/4, on0, int(rss/4)-on0)
			m.groups[p.cgroup].anon.addAll(byNode{topology.KiB(on0 * 4), rss - topology.KiB(on0*4)})
			p.threads = nil
			for range rapid.IntRange(1, 4).Draw(rt, "threads") {
				p.threads = append(p.threads, fakeThread{cpu: rapid.IntRange(0, 9).Draw(rt, "cpu"), cpus: rapid.SampledFrom([]string{"0-7", "0-3", "5"}).Draw(rt, "affinity")})
			}
		}
		r := newRig(rt, m, Options{})
		s := r.look()
		check(rt, s)
		for _, o := range s.Observations {
			var want topology.KiB
			for _, p := range o.Processes {
				want += m.procs[p.PID].rss
			}
			if o.Kind == workload.InCgroup && len(m.groups["/b.service/below"].anon) > 0 {
				continue // the fake does not charge a parent for its children
			}
			if got := workload.Total(o.Memory); got != want {
				rt.Errorf("%s: memory %d KiB, want %d", o.ID, got, want)
			}
		}
		for pid := range m.procs {
			for i := range m.procs[pid].threads {
				m.procs[pid].threads[i].ticks += uint64(rapid.IntRange(0, 200).Draw(rt, "ticks"))
			}
		}
		check(rt, r.after(2*time.Second))
		if n > 0 {
			delete(m.procs, 100)
		}
		check(rt, r.after(40*time.Second))
	})
}
