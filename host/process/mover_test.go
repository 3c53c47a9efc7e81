package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const mib = 1 << 20

// mover is a mover on the model.
func (m *model) mover(o MoverOptions) (*Mover, *modelClock) {
	clock := &modelClock{now: time.Unix(1_800_000_000, 0)}
	o.Root, o.Clock = m, clock
	if o.Batch == 0 {
		o.Batch = 512 // several batches in a model of some thousand pages
	}
	mv := NewMover(o)
	mv.kernel = m
	return mv, clock
}

func moveStep(to string, ps ...*modelProc) plan.Step {
	s := plan.Step{Kind: plan.MovePages, Workload: "w", To: to, Target: plan.Target{Kind: workload.InProcess}}
	for _, p := range ps {
		s.Target.Processes = append(s.Target.Processes, p.process())
	}
	return s
}

// moves runs a step and checks that its record is the truth.
func (m *model) moves(t testing.TB, o MoverOptions, step plan.Step) (plan.Move, error) {
	t.Helper()
	mv, _ := m.mover(o)
	return m.movesBy(t, mv, context.Background(), step)
}

type fataler interface {
	Helper()
	Errorf(string, ...any)
}

func (m *model) movesBy(t fataler, mv *Mover, ctx context.Context, step plan.Step) (plan.Move, error) {
	t.Helper()
	m.home, _ = topology.ParseNodeSet(step.To)
	m.moved = 0
	var last plan.Move
	err := mv.Move(ctx, step, func(p plan.Move) {
		if p.Moved < last.Moved || p.Refused < last.Refused {
			t.Errorf("the record went back from %+v to %+v", last, p)
		}
		last = p
	})
	// When the look after a call fails, that one batch is not claimed.
	if last.Moved > m.moved || last.Moved < m.moved && (m.fault == nil || m.moved-last.Moved > hugePage) {
		t.Errorf("the record says %d bytes came home, it was %d (%v)", last.Moved, m.moved, err)
	}
	if m.wrong != "" {
		t.Errorf("%s", m.wrong)
	}
	if err == nil && last.State != "done" {
		t.Errorf("state %q after success", last.State)
	}
	return last, err
}

func (r *modelRange) on(node topology.NodeID) (n int) {
	for _, p := range r.pages {
		if p.node == node {
			n++
		}
	}
	return n
}

func TestMove(t *testing.T) {
	t.Run("all to one node", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, append(repeat(1, 3000), repeat(0, 100)...)...)
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != 3100 || rec.Moved != 3000*basePage || rec.Refused != 0 || rec.Planned != 3000*basePage {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("a second move has nothing to do", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		p.anon(0x10000000, repeat(1, 10)...)
		m.moves(t, MoverOptions{}, moveStep("0", p))
		m.trace = nil
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || rec.Moved != 0 || slices.Contains(m.trace, "move") {
			t.Errorf("%+v %v %v", rec, err, m.trace)
		}
	})
	t.Run("what the step says stays is not touched", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, slices.Concat(repeat(2, 500), repeat(1, 300), repeat(0, 100))...)
		step := moveStep("0", p)
		step.Target.Stays = topology.Nodes(2)
		rec, err := m.moves(t, MoverOptions{Sweep: true}, step)
		if err != nil || r.on(0) != 400 || r.on(2) != 500 || rec.Moved != 300*basePage || rec.Planned != 300*basePage {
			t.Errorf("%d on 0, %d on 2, %+v %v", r.on(0), r.on(2), rec, err)
		}
	})
	t.Run("busy pages come with the next tries", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 600)...)
		r.pages[3].busy, r.pages[99].stuck, r.pages[100].busy = 2, 2, 1
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != 600 || rec.Refused != 0 {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("a pinned page is refused and the rest comes", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 600)...)
		r.pages[0].stuck = -1
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != 599 || rec.Refused != basePage || rec.Why != "4 KiB busy or pinned" {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("pinned for a device, locked and busy are told apart", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 600)...)
		l := p.anon(0x20000000, repeat(1, 100)...)
		l.locked = true
		p.vmPin, p.vmLck = 8, 400 // two pages pinned, and the locked range
		r.pages[0].stuck, r.pages[1].stuck, l.pages[3].stuck = -1, -1, -1
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		want := []plan.Refusal{{Cause: plan.Pinned, Bytes: 2 * basePage, Why: whyPinned.text}, {Cause: plan.Locked, Bytes: basePage, Why: whyLocked.text}}
		if err != nil || !slices.Equal(rec.RefusedBy, want) || rec.Refused != 3*basePage {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("what VFIO pins is locked memory that nobody mlocked", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 600)...)
		p.vmLck = 4
		r.pages[0].stuck = -1
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || len(rec.RefusedBy) != 1 || rec.RefusedBy[0].Cause != plan.Pinned || !rec.RefusedBy[0].Cause.Lasts() {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("many pinned pages are incomplete", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 100)...)
		for i := range 5 {
			r.pages[i*7].stuck = -1
		}
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		var inc *IncompleteError
		if !errors.As(err, &inc) || inc.Left != 5*basePage || rec.Refused != 5*basePage || !strings.Contains(err.Error(), "busy or pinned") {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("device memory", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 1000)...)
		for i := 0; i < 10; i += 2 {
			r.pages[i].special = true
		}
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || rec.Refused != 5*basePage || r.on(0) != 995 {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("left alone: page cache, vdso, files", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		lib := p.anon(0x20000000, repeat(1, 10)...)
		lib.dev, lib.inode, lib.path, lib.perms = "08:01", 77, "/usr/lib/libc.so.6", "r-xp"
		data := p.anon(0x21000000, repeat(1, 10)...)
		data.dev, data.inode, data.path = "08:01", 77, "/usr/lib/libc.so.6"
		for i := range 10 {
			lib.pages[i].file, lib.pages[i].maps = true, 50
			data.pages[i].file = i < 6
		}
		mapped := p.anon(0x22000000, repeat(1, 10)...)
		mapped.dev, mapped.inode, mapped.path, mapped.perms = "08:01", 78, "/var/lib/data base", "rw-s"
		vdso := p.anon(0x23000000, repeat(1, 2)...)
		vdso.path = "[vdso]"
		heap := p.anon(0x24000000, repeat(1, 200)...)
		heap.path = "[heap]"
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || lib.on(0) != 0 || data.on(0) != 4 || mapped.on(0) != 0 || vdso.on(0) != 0 || heap.on(0) != 200 || rec.Refused != 0 {
			t.Errorf("lib %d, data %d, mapped %d, vdso %d, heap %d: %+v %v", lib.on(0), data.on(0), mapped.on(0), vdso.on(0), heap.on(0), rec, err)
		}
	})
	t.Run("huge pages move whole", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x40000000-100*basePage, repeat(1, 100+4*512)...)
		r.thp = true
		for i := 100; i+512 <= r.length; i += 512 {
			var all []*modelPage
			for k := range 512 {
				all = append(all, r.pages[i+k])
			}
			for _, pg := range all {
				pg.thp = all
			}
		}
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != r.length || rec.Moved != int64(r.length)*basePage {
			t.Errorf("%d of %d: %+v %v", r.on(0), r.length, rec, err)
		}
		n := 0
		for _, w := range m.trace {
			if w == "move" {
				n++
			}
		}
		if n > 6 {
			t.Errorf("%d calls for 100 pages and 4 huge pages", n)
		}
	})
	t.Run("pages that only look like a huge page", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x40000000, repeat(1, 1024)...)
		r.thp = true
		r.pages[512].stuck = -1
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != 1023 || rec.Refused != basePage {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("huge pages that smaps does not tell", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x40000000, repeat(1, 1024)...).join()
		r.thp = false
		if rec, err := m.moves(t, MoverOptions{}, moveStep("0", p)); err != nil || r.on(0) != 1024 {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("hugetlb without room", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x40000000, repeat(1, 8)...)
		r.huge = true
		r.path = "/anon_hugepage (deleted)"
		m.huge[0] = 3
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		var inc *IncompleteError
		if !errors.As(err, &inc) || r.on(0) != 3 || rec.Moved != 3*hugePage || rec.Refused != 5*hugePage ||
			rec.Why != "10 MiB no free huge page of 2 MiB on node 0" {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("node full", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 5000)...)
		m.free[0] = 1200
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		var full *NodeFullError
		if !errors.As(err, &full) || full.Node != 0 || full.Left != 3800*basePage || r.on(0) != 1200 || !strings.Contains(rec.Why, "node 0 is full") {
			t.Errorf("%+v %v", rec, err)
		}
	})
	t.Run("one of two nodes full", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 4096)...)
		m.free[0] = 1000
		s := moveStep("0,2", p)
		s.Shares = []workload.NodeMemory{{Node: 0, KiB: 1}, {Node: 2, KiB: 1}}
		_, err := m.moves(t, MoverOptions{}, s)
		var full *NodeFullError
		if !errors.As(err, &full) || full.Node != 0 || r.on(0) != 1000 || r.on(2) != 2048 {
			t.Errorf("node 0 %d, node 2 %d: %v", r.on(0), r.on(2), err)
		}
	})
	t.Run("shares", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, append(repeat(0, 1000), repeat(3, 7000)...)...)
		s := moveStep("0-1", p)
		s.Shares = []workload.NodeMemory{{Node: 0, KiB: 3 << 20}, {Node: 1, KiB: 1 << 20}}
		_, err := m.moves(t, MoverOptions{}, s)
		if err != nil || r.on(0) != 6000 || r.on(1) != 2000 {
			t.Errorf("node 0 %d, node 1 %d: %v", r.on(0), r.on(1), err)
		}
		changes := 0
		for i := 1; i < r.length; i++ {
			if r.pages[i].node != r.pages[i-1].node {
				changes++
			}
		}
		if changes > 1 {
			t.Errorf("the run was cut %d times", changes)
		}
	})
	t.Run("shares of sparse memory", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(3, 8000)...)
		for i := range 4000 {
			delete(r.pages, 2*i)
		}
		_, err := m.moves(t, MoverOptions{}, moveStep("0-1", p))
		if err != nil || r.on(0) != 2000 || r.on(1) != 2000 || m.calls > 200 {
			t.Errorf("node 0 %d, node 1 %d after %d calls: %v", r.on(0), r.on(1), m.calls, err)
		}
	})
	t.Run("node outside cpuset.mems", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		p.anon(0x10000000, repeat(1, 10)...)
		p.mems = topology.Nodes(1)
		_, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		var not *NodeNotAllowedError
		if !errors.As(err, &not) || not.Node != 0 || not.PID != 10 {
			t.Error(err)
		}
	})
	t.Run("sparse range", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x100000000)
		r.length = 1 << 20 // 4 GiB
		for i := range 300 {
			r.pages[i*100] = &modelPage{node: 2, maps: 1}
		}
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", p))
		if err != nil || r.on(0) != 300 || m.calls > 200 {
			t.Errorf("%+v %v after %d calls", rec, err, m.calls)
		}
	})
	t.Run("no process", func(t *testing.T) {
		if _, err := newModel().moves(t, MoverOptions{}, moveStep("0")); err == nil {
			t.Error("moved nothing without an error")
		}
	})
}

func TestMoveSharedPages(t *testing.T) {
	build := func() (*model, *modelProc, *modelProc, *modelProc, *modelRange) {
		m := newModel()
		a, b, c := m.add(10, 1), m.add(11, 10), m.add(12, 1)
		r := a.anon(0x10000000, repeat(1, 50)...)
		r.dev, r.inode, r.path, r.perms = "00:01", 9, "/memfd:x (deleted)", "rw-s"
		for _, p := range r.pages {
			p.maps = 2
		}
		twin := *r
		b.ranges = append(b.ranges, &twin)
		return m, a, b, c, r
	}
	t.Run("within the workload", func(t *testing.T) {
		m, a, b, _, r := build()
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", a, b))
		if err != nil || r.on(0) != 50 || rec.Moved != 50*basePage || rec.Planned != 50*basePage {
			t.Errorf("%d %+v %v", r.on(0), rec, err)
		}
	})
	t.Run("with an outsider", func(t *testing.T) {
		m, a, b, c, r := build()
		twin := *r
		c.ranges = append(c.ranges, &twin)
		rec, err := m.moves(t, MoverOptions{}, moveStep("0", a, b))
		var inc *IncompleteError
		if !errors.As(err, &inc) || r.on(0) != 0 || rec.Refused != 50*basePage || inc.Left != 50*basePage || !strings.Contains(err.Error(), whyShared.text) {
			t.Errorf("%d %+v %v", r.on(0), rec, err)
		}
	})
	t.Run("with an outsider that has another file of the same number", func(t *testing.T) {
		m, a, b, c, r := build()
		other := *r
		other.dev, other.path = "08:01", "/file"
		c.ranges = append(c.ranges, &other)
		if _, err := m.moves(t, MoverOptions{}, moveStep("0", a, b)); err != nil || r.on(0) != 50 {
			t.Errorf("%d %v", r.on(0), err)
		}
	})
	t.Run("with a process that cannot be read", func(t *testing.T) {
		m, a, b, _, r := build()
		m.fault = func(_ int, what string) error {
			if what == "open proc/12/maps" {
				return unix.EACCES
			}
			return nil
		}
		if _, err := m.moves(t, MoverOptions{}, moveStep("0", a, b)); err == nil || r.on(0) != 0 {
			t.Errorf("%d %v", r.on(0), err)
		}
	})
	t.Run("without CAP_SYS_NICE", func(t *testing.T) {
		m, a, b, _, r := build()
		m.nice = false
		if rec, err := m.moves(t, MoverOptions{}, moveStep("0", a, b)); err == nil || r.on(0) != 0 || rec.Refused != 50*basePage {
			t.Errorf("%d %+v %v", r.on(0), rec, err)
		}
	})
	t.Run("after fork", func(t *testing.T) {
		m := newModel()
		a, b, c := m.add(10, 1), m.add(11, 10), m.add(12, 10)
		r := a.anon(0x10000000, repeat(1, 300)...)
		twin := *r
		b.ranges = append(b.ranges, &twin)
		for i := range 50 {
			r.pages[i].maps = 2
		}
		c.anon(0x90000000, repeat(1, 5)...)
		if rec, err := m.moves(t, MoverOptions{}, moveStep("0", a, b)); err != nil || r.on(0) != 300 {
			t.Errorf("%d %+v %v", r.on(0), rec, err)
		}
	})
}

func TestMoveIsPaced(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	p.anon(0x10000000, repeat(1, 64<<8)...) // 64 MiB
	mv, clock := m.mover(MoverOptions{Bandwidth: 16 * mib})
	rec, err := m.movesBy(t, mv, context.Background(), moveStep("0", p))
	// The last batch is not waited for.
	if want := 4*time.Second - 125*time.Millisecond; err != nil || clock.slept < want-time.Millisecond || clock.slept > want+time.Millisecond {
		t.Errorf("64 MiB at 16 MiB/s took %v: %v", clock.slept, err)
	}
	if rec.Seconds < 3.8 {
		t.Errorf("the record says %v s", rec.Seconds)
	}
}

func TestMovePauses(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	r := p.anon(0x10000000, repeat(1, 2000)...)
	asked := 0
	mv, clock := m.mover(MoverOptions{Bandwidth: -1, Pause: func(plan.Step, bool) (string, bool) {
		asked++
		return "memory pressure full 12%", asked > 1 && asked < 5
	}})
	m.home = topology.Nodes(0)
	var states []string
	err := mv.Move(context.Background(), moveStep("0", p), func(r plan.Move) {
		states = append(states, r.State+" "+r.Why)
	})
	want := []string{"running ", "paused memory pressure full 12%", "running ", "running ", "running ", "done "}
	if err != nil || r.on(0) != 2000 || clock.slept != 3*pauseCheck || !slices.Equal(states, want) {
		t.Errorf("%v after %v: %q", err, clock.slept, states)
	}
}

// TestRestsEnd: a move that rests under a pressure that does not end gives its place
// among the daemon's few moves to others. The next try goes on where it stopped.
func TestRestsEnd(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	r := p.anon(0x10000000, repeat(1, 2000)...)
	asked, short := 0, true
	mv, clock := m.mover(MoverOptions{Bandwidth: -1, Batch: 100, Pause: func(plan.Step, bool) (string, bool) {
		asked++
		return "/w waits for memory 40 % of the time", asked > 1 && short
	}})
	m.home = topology.Nodes(0)
	rec, err := m.movesBy(t, mv, context.Background(), moveStep("0", p))
	var rested *RestError
	if !errors.As(err, &rested) || !strings.Contains(err.Error(), "/w waits for memory") {
		t.Fatalf("%v, record %+v", err, rec)
	}
	if clock.slept != restMost || rec.State != "failed" || r.on(0) != 100 {
		t.Errorf("slept %v, %d pages at home, record %+v", clock.slept, r.on(0), rec)
	}
	short = false
	if rec, err = m.movesBy(t, mv, context.Background(), moveStep("0", p)); err != nil || r.on(0) != 2000 {
		t.Errorf("again: %v, %d pages at home, record %+v", err, r.on(0), rec)
	}
}

// TestRestsAreCountedTogether: a batch now and then does not keep the place.
func TestRestsAreCountedTogether(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	p.anon(0x10000000, repeat(1, 2000)...)
	asked := 0
	mv, clock := m.mover(MoverOptions{Bandwidth: -1, Batch: 2, Pause: func(plan.Step, bool) (string, bool) {
		asked++
		return "short", asked%2 == 0
	}})
	var rested *RestError
	if _, err := m.movesBy(t, mv, context.Background(), moveStep("0", p)); !errors.As(err, &rested) || clock.slept != restMost {
		t.Errorf("%v after %v of rest", err, clock.slept)
	}
}

func TestMoveIsCancelledBetweenBatchesAndGoesOn(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	r := p.anon(0x10000000, repeat(1, 5000)...)
	ctx, cancel := context.WithCancel(context.Background())
	mv, _ := m.mover(MoverOptions{})
	batches := 0
	m.home = topology.Nodes(0)
	var rec plan.Move
	err := mv.Move(ctx, moveStep("0", p), func(p plan.Move) {
		rec = p
		if batches++; batches == 3 {
			cancel()
		}
	})
	if err != context.Canceled || r.on(0) != 3*512 || rec.Moved != 3*512*basePage || rec.State != "cancelled" {
		t.Errorf("%v with %d pages home: %+v", err, r.on(0), rec)
	}
	rec, err = m.moves(t, MoverOptions{}, moveStep("0", p))
	if err != nil || r.on(0) != 5000 || rec.Moved != (5000-3*512)*basePage {
		t.Errorf("%v %+v", err, rec)
	}
}

func TestMoveWhileProcessesExit(t *testing.T) {
	t.Run("the only one", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		p.anon(0x10000000, repeat(1, 5000)...)
		m.hook = func(int) {
			if m.moved > 1000*basePage {
				delete(m.procs, 10)
			}
		}
		mv, _ := m.mover(MoverOptions{})
		m.home = topology.Nodes(0)
		var rec plan.Move
		err := mv.Move(context.Background(), moveStep("0", p), func(p plan.Move) { rec = p })
		var gone *GoneError
		if !errors.Is(err, unix.ESRCH) || !errors.As(err, &gone) || gone.Moved != rec.Moved || rec.Moved == 0 || rec.Moved > m.moved {
			t.Errorf("%v %+v, truly moved %d", err, rec, m.moved)
		}
	})
	t.Run("one of two", func(t *testing.T) {
		m := newModel()
		p, q := m.add(10, 1), m.add(11, 1)
		p.anon(0x10000000, repeat(1, 5000)...)
		r := q.anon(0x10000000, repeat(1, 100)...)
		m.hook = func(int) {
			if m.moved > 1000*basePage {
				p.state, p.ranges = 'Z', nil
			}
		}
		mv, _ := m.mover(MoverOptions{})
		m.home = topology.Nodes(0)
		if err := mv.Move(context.Background(), moveStep("0", p, q), nil); err != nil || r.on(0) != 100 {
			t.Errorf("%v, %d", err, r.on(0))
		}
	})
	t.Run("PID used again before", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		s := moveStep("0", p)
		p.start++
		r := p.anon(0x10000000, repeat(1, 50)...)
		if _, err := m.moves(t, MoverOptions{}, s); !errors.Is(err, unix.ESRCH) || r.on(0) != 0 {
			t.Errorf("%v, %d pages of a stranger moved", err, r.on(0))
		}
	})
	t.Run("PID used again meanwhile", func(t *testing.T) {
		m := newModel()
		p := m.add(10, 1)
		r := p.anon(0x10000000, repeat(1, 5000)...)
		m.hook = func(int) {
			if m.moved > 1000*basePage {
				p.start = 99999
			}
		}
		mv, _ := m.mover(MoverOptions{})
		m.home = topology.Nodes(0)
		err := mv.Move(context.Background(), moveStep("0", p), nil)
		if !errors.Is(err, unix.ESRCH) || r.on(0) > 1024 {
			t.Errorf("%v, %d", err, r.on(0))
		}
	})
}

func TestSweep(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	r := p.anon(0x10000000, repeat(1, 100)...)
	for i := range 20 {
		r.pages[i].busy = 50
	}
	mv, _ := m.mover(MoverOptions{Sweep: true})
	if err := mv.Move(context.Background(), moveStep("0", p), nil); err != nil || r.on(0) != 100 {
		t.Errorf("%v, %d", err, r.on(0))
	}
	if !slices.Contains(m.trace, "migrate") {
		t.Error("no sweep")
	}
}

func TestSweepFails(t *testing.T) {
	for _, at := range []string{"migrate", "open proc/10/stat", "open sys/devices/system/node/has_memory"} {
		m := newModel()
		p := m.add(10, 1)
		p.anon(0x10000000, repeat(1, 100)...).pages[3].busy = 50
		sweeps := false
		m.fault = func(_ int, what string) error {
			sweeps = sweeps || what == "open sys/devices/system/node/has_memory"
			if sweeps && what == at {
				return unix.EPERM
			}
			return nil
		}
		mv, _ := m.mover(MoverOptions{Sweep: true})
		if err := mv.Move(context.Background(), moveStep("0", p), nil); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// machine is a model with something of everything.
func machine() (*model, plan.Step, []*modelRange) {
	m := newModel()
	a, b, c := m.add(10, 1), m.add(11, 10), m.add(12, 1)
	plainRange := a.anon(0x10000000, append(repeat(1, 700), repeat(0, 20)...)...)
	plainRange.pages[5].busy, plainRange.pages[9].stuck, plainRange.pages[11].special = 1, -1, true
	thp := a.anon(0x40000000, repeat(2, 1024)...).join()
	hugeRange := a.anon(0x80000000, repeat(1, 3)...)
	hugeRange.huge = true
	m.huge[0] = 2
	shared := a.anon(0x90000000, repeat(1, 20)...)
	shared.dev, shared.inode, shared.path, shared.perms = "00:1b", 5, "/dev/shm/x", "rw-s"
	for _, p := range shared.pages {
		p.maps = 2
	}
	twin := *shared
	b.ranges = append(b.ranges, &twin)
	own := b.anon(0x10000000, repeat(3, 100)...)
	c.anon(0x70000000, repeat(1, 5)...)
	return m, moveStep("0", a, b), []*modelRange{plainRange, thp, hugeRange, shared, own}
}

// Every call fails once, in every way it can: the move ends, its record is the
// truth, and a second move finishes what the first did not.
func TestMoveWithEachCallFailing(t *testing.T) {
	m, s, _ := machine()
	if _, err := m.moves(t, MoverOptions{}, s); err != nil {
		var inc *IncompleteError
		if !errors.As(err, &inc) {
			t.Fatal(err)
		}
	}
	calls := m.calls
	errs := []error{unix.ESRCH, unix.EPERM, unix.EACCES, unix.ENOMEM, unix.EBUSY, unix.EINVAL, unix.ENODEV, unix.EIO, fs.ErrNotExist}
	for n := 1; n <= calls; n++ {
		for _, e := range errs {
			m, s, ranges := machine()
			m.fault = func(call int, _ string) error {
				if call == n {
					return e
				}
				return nil
			}
			what := fmt.Sprintf("call %d fails with %v", n, e)
			rec, err := m.moves(fail{t, what}, MoverOptions{}, s)
			off := 0
			for _, r := range ranges {
				off += len(r.pages) - r.on(0)
			}
			if err == nil && off > 3+1+20 && rec.Refused == 0 {
				t.Errorf("%s: success with %d pages off home and none refused", what, off)
			}
			m.fault = nil
			if _, err := m.moves(fail{t, what + ", second move"}, MoverOptions{}, s); err != nil {
				var inc *IncompleteError
				if !errors.As(err, &inc) {
					t.Errorf("%s: second move: %v", what, err)
				}
			}
		}
	}
	t.Logf("%d calls, %d faults each", calls, len(errs))
}

type fail struct {
	testing.TB
	what string
}

func (f fail) Errorf(format string, a ...any) {
	f.Helper()
	f.TB.Errorf(f.what+": "+format, a...)
}

// Any memory, any hindrance, any home: the record is the truth and success means
// that it is done.
func TestMoveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		var ps []*modelProc
		var all []*modelRange
		for i := range rapid.IntRange(1, 3).Draw(t, "processes") {
			p := m.add(10+i, 1)
			ps = append(ps, p)
			for k := range rapid.IntRange(1, 3).Draw(t, "ranges") {
				n := rapid.SampledFrom([]int{1, 7, 511, 600, 1300}).Draw(t, "pages")
				start := uintptr(0x40000000*(k+1) + rapid.IntRange(0, 3).Draw(t, "skew")*basePage)
				r := p.anon(start, repeat(topology.NodeID(rapid.IntRange(0, 3).Draw(t, "node")), n)...)
				if rapid.Bool().Draw(t, "thp") {
					r.thp = true
				}
				for range rapid.IntRange(0, 6).Draw(t, "odd pages") {
					i := rapid.IntRange(0, n-1).Draw(t, "page")
					switch pg := r.pages[i]; rapid.IntRange(0, 6).Draw(t, "how") {
					case 0:
						delete(r.pages, i)
					case 1:
						if pg != nil {
							pg.busy = rapid.IntRange(1, 9).Draw(t, "busy")
						}
					case 2:
						if pg != nil {
							pg.stuck = rapid.IntRange(-1, 4).Draw(t, "stuck")
						}
					case 3:
						if pg != nil {
							pg.special = true
						}
					case 4:
						if pg != nil {
							pg.maps = 2
						}
					case 5:
						if pg != nil {
							pg.node = 3
						}
					}
				}
				all = append(all, r)
			}
		}
		for n := range topology.NodeID(3) {
			if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
				m.free[n] = rapid.IntRange(0, 2000).Draw(t, "free")
			}
		}
		home := rapid.SampledFrom([]string{"0", "1", "0-1", "0,2"}).Draw(t, "home")
		s := moveStep(home, ps...)
		if rapid.Bool().Draw(t, "shares") {
			s.Shares = []workload.NodeMemory{{Node: 0, KiB: topology.KiB(rapid.IntRange(1, 1000).Draw(t, "share"))}, {Node: 1, KiB: 300}, {Node: 2, KiB: 200}}
		}
		set, _ := topology.ParseNodeSet(home)
		count := func() (off, total int64) {
			for _, r := range all {
				for _, pg := range r.pages {
					total += basePage
					if !set.Has(pg.node) {
						off += basePage
					}
				}
			}
			return off, total
		}
		before, _ := count()
		mv, _ := m.mover(MoverOptions{Batch: rapid.SampledFrom([]int{1, 7, 512, 5000}).Draw(t, "batch")})
		rec, err := m.movesBy(t, mv, context.Background(), s)
		after, total := count()
		if rec.Moved != before-after {
			t.Fatalf("%d bytes off home before, %d after, but %d moved", before, after, rec.Moved)
		}
		if rec.Refused > after {
			t.Fatalf("%d bytes refused, %d off home", rec.Refused, after)
		}
		if (err == nil) != (after*incompleteOf <= total) {
			t.Fatalf("%v with %d of %d off home", err, after, total)
		}
		if err != nil && len(m.free) == 0 && rec.Refused != after {
			t.Fatalf("%d off home, reasons for %d: %v", after, rec.Refused, err)
		}
	})
}
