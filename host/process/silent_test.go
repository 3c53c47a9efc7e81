package process

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// A process whose memory is locked for ever holds up nobody but itself (R1): the others of
// the workload are moved, the move ends, and nothing more is asked of it meanwhile.
func TestProcessThatDoesNotAnswer(t *testing.T) {
	for _, what := range []string{"maps", "numa_maps", "smaps", "pagemap", "query", "move", "migrate"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // each waits
			m := newModel()
			step := moveStep("1", m.add(10, 1), m.add(11, 1))
			for _, pid := range []int{10, 11} {
				m.procs[pid].anon(0x10000, repeat(0, 20)...)
				if what == "migrate" && pid == 10 {
					m.procs[pid].ranges[0].pages[0].stuck = 6
				}
			}
			m.release = make(chan struct{})
			var hanging atomic.Int64
			m.hang = func(pid int, call string) bool { return pid == 10 && call == what }
			m.waits = &hanging
			mv, _ := m.mover(MoverOptions{Sweep: what == "migrate"})
			var later atomic.Int64
			mv.calls = procfs.NewCalls(func() time.Time { return time.Unix(later.Load(), 0) })
			mv.wait = 500 * time.Millisecond
			for range 2 {
				var last plan.Move
				err := mv.Move(context.Background(), step, func(r plan.Move) { last = r })
				if !errors.Is(err, plan.ErrNoAnswer) || !strings.Contains(err.Error(), "[10]") || last.State != "failed" {
					t.Errorf("%v, %+v", err, last)
				}
				for i, pg := range m.procs[11].ranges[0].pages {
					if pg.node != 1 {
						t.Errorf("page %d of the other process is on node %d", i, pg.node)
					}
				}
				if n := hanging.Load(); n != 1 {
					t.Errorf("%d calls left behind", n)
				}
			}
			hang := m.hang
			m.hang = nil
			defer func() { m.hang = hang }()
			close(m.release)
			for tries := 0; hanging.Load() > 0; tries++ {
				if tries == 500 {
					t.Fatal("the call does not end")
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond) // until it is counted as back
			later.Store(3600)
			if err := mv.Move(context.Background(), step, nil); err != nil {
				t.Errorf("once it answers: %v", err)
			}
		})
	}
}

// Processes of one user under many UIDs that do not answer keep neither root's pages nor another
// user's from being moved (A3).
func TestManyUIDsThatDoNotAnswer(t *testing.T) {
	m := newModel()
	m.release = make(chan struct{})
	defer close(m.release)
	const first, many = 100, 24
	m.hang = func(pid int, call string) bool { return pid >= first && pid < first+many && call == "maps" }
	mv, _ := m.mover(MoverOptions{})
	mv.wait = 20 * time.Millisecond
	pages := func(p *modelProc) *modelRange { return p.anon(0x10000, repeat(0, 20)...) }
	for pid := first; pid < first+many; pid++ {
		p := m.add(pid, 1)
		p.uid, p.cgroup = 100000+pid, "0::/user.slice/user-1000.slice/user@1000.service/x.scope\n"
		pages(p)
		err := mv.Move(context.Background(), moveStep("1", p), nil)
		if !errors.Is(err, plan.ErrNoAnswer) {
			t.Fatalf("process %d: %v", pid, err)
		}
	}
	mv.wait = answerIn
	for i, x := range []struct {
		uid    int
		cgroup string
	}{{0, "0::/system.slice/db.service\n"}, {1001, "0::/user.slice/user-1001.slice/session-1.scope\n"}} {
		p := m.add(10+i, 1)
		p.uid, p.cgroup = x.uid, x.cgroup
		r := pages(p)
		if err := mv.Move(context.Background(), moveStep("1", p), nil); err != nil {
			t.Errorf("user %d: %v", x.uid, err)
		}
		if r.pages[0].node != 1 {
			t.Errorf("user %d: a page is on node %d", x.uid, r.pages[0].node)
		}
	}
}

// A process outside the workload that does not answer makes only shared pages stay.
func TestStrangerThatDoesNotAnswer(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	p.anon(0x10000, repeat(0, 200)...)
	p.ranges[0].pages[0].maps = 2
	m.add(12, 1)
	m.release = make(chan struct{})
	defer close(m.release)
	m.hang = func(pid int, call string) bool { return pid == 12 && call == "maps" }
	mv, _ := m.mover(MoverOptions{})
	mv.wait = 500 * time.Millisecond
	var last plan.Move
	err := mv.Move(context.Background(), moveStep("1", p), func(r plan.Move) { last = r })
	if err != nil || last.Refused != basePage || last.RefusedBy[0].Cause != plan.SharedMem {
		t.Errorf("%v, %+v", err, last)
	}
	if got := p.ranges[0].pages[1].node; got != topology.NodeID(1) {
		t.Errorf("a page of its own is on node %d", got)
	}
}

// A move ends with its context, also while it reads what others share.
func TestSharersEndWithContext(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	p.anon(0x10000, repeat(0, 2)...)
	p.ranges[0].pages[0].maps = 2
	for pid := 20; pid < 40; pid++ {
		m.add(pid, 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.hook = func(int) {
		if m.trace[len(m.trace)-1] == "open proc/25/maps" {
			cancel()
		}
	}
	mv, _ := m.mover(MoverOptions{})
	err := mv.Move(ctx, moveStep("1", p), nil)
	if !errors.Is(err, context.Canceled) || m.trace[len(m.trace)-1] != "open proc/25/maps" {
		t.Errorf("%v after %s", err, m.trace[len(m.trace)-1])
	}
}

// Whether a process's lock is free is known within two seconds, and costs nothing but a call.
func TestAnswers(t *testing.T) {
	m := newModel()
	m.add(10, 1)
	m.add(11, 1)
	m.release = make(chan struct{})
	defer close(m.release)
	m.hang = func(pid int, call string) bool { return pid == 10 && call == "query" }
	mover, _ := m.mover(MoverOptions{})
	if err := mover.Answers(workload.Process{PID: 10, Start: 1}); !errors.Is(err, plan.ErrNoAnswer) {
		t.Errorf("one that holds its lock: %v", err)
	}
	if err := mover.Answers(workload.Process{PID: 11, Start: 1}); err != nil {
		t.Errorf("one that does not: %v", err)
	}
	if err := mover.Answers(workload.Process{PID: 12, Start: 1}); errors.Is(err, plan.ErrNoAnswer) {
		t.Errorf("one that has ended: %v", err)
	}
}
