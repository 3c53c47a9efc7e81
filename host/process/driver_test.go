package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func (m *model) driver() *Driver {
	d := New(Options{Root: m})
	d.kernel = m
	d.now = func() (uint64, error) { return m.ticks, m.step("clock") }
	return d
}

func cpuStep(to string, ps ...*modelProc) plan.Step {
	s := moveStep(to, ps...)
	s.Kind = plan.SetCPUs
	return s
}

// masks is the affinity of every thread, as text.
func (m *model) masks() map[int]string {
	all := map[int]string{}
	for _, p := range m.procs {
		for tid, cpus := range p.threads {
			all[tid] = cpus.String()
		}
	}
	return all
}

// tree is a process with threads, one of them pinned, a child, a grandchild, a
// child in another cgroup, and a stranger.
func tree() (*model, *modelProc) {
	m := newModel()
	p := m.add(10, 1)
	p.threads[20], p.threads[21] = m.cpus, topology.CPUs(3)
	m.add(11, 10).threads[22] = topology.CPUs(0, 1)
	m.add(12, 11)
	m.add(13, 10).cgroup = "0::/other\n"
	m.add(14, 1)
	return m, p
}

// entries is the journal of changes.
func entries(all []plan.Change) (out []plan.Entry) {
	for i, c := range all {
		out = append(out, plan.Entry{Seq: uint64(i + 1), Kind: c.Kind, Path: c.Path, Groups: c.Groups, Old: c.Value, New: c.Will,
			Object: c.Object, Ticks: c.Ticks, State: plan.Applied})
	}
	return out
}

// restore puts everything back in the reverse order.
func (m *model) restore(journal []plan.Entry) error {
	back := slices.Clone(journal)
	slices.Reverse(back)
	return errors.Join(m.driver().Restore(context.Background(), back)...)
}

func TestAffinityApplyAndRestore(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	m.add(17, 10).state = 'Z'
	d := m.driver()
	before := m.masks()
	have, err := d.Changes(ctx, cpuStep("4-5", p))
	setting := func(path, value string) plan.Change {
		return plan.Change{Will: "4-5", Setting: plan.Setting{Kind: plan.Affinity, Path: path, Value: value, Groups: "0 0::/user.slice", Ticks: 10000}}
	}
	want := []plan.Change{setting("10@1010", "0-7;21=3"), setting("11@1011", "0-7;22=0-1"), setting("12@1012", "0-7")}
	if err != nil || !slices.Equal(have, want) {
		t.Fatalf("%+v %v", have, err)
	}
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	after := map[int]string{10: "4-5", 20: "4-5", 21: "4-5", 11: "4-5", 22: "4-5", 12: "4-5", 13: "0-7", 14: "0-7", 17: "0-7"}
	if got := m.masks(); !maps.Equal(got, after) {
		t.Errorf("after Apply %v", got)
	}
	m.trace = nil
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil || slices.Contains(m.trace, "set affinity") {
		t.Errorf("a second Apply changed something: %v", err)
	}
	if err := m.restore(entries(have)); err != nil {
		t.Fatal(err)
	}
	if got := m.masks(); !maps.Equal(got, before) {
		t.Errorf("after Restore %v, want %v", got, before)
	}
}

// Before Linux 6.4 threads of the kernel named after a guest carry its packets: they go with it and
// come back. A process with such a name is none.
func TestAffinityOfVhostThreads(t *testing.T) {
	m, p := tree()
	m.add(2, 0)
	m.add(30, 2).vhost = p.pid
	m.add(31, 2).vhost = 999
	d := m.driver()
	before := m.masks()
	have, err := d.Changes(t.Context(), cpuStep("4-5", p))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(have, func(c plan.Change) bool { return c.Path == "30@1030" }) {
		t.Errorf("not journalled: %+v", have)
	}
	if err := d.Apply(t.Context(), cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	if got := m.masks(); got[30] != "4-5" || got[31] != "0-7" {
		t.Errorf("after Apply %v", got)
	}
	if err := m.restore(entries(have)); err != nil {
		t.Fatal(err)
	}
	if got := m.masks(); !maps.Equal(got, before) {
		t.Errorf("after Restore %v, want %v", got, before)
	}
}

// Threads and children made after the journal was written have inherited what
// homenode gave; they get the old value too. What a thread chose itself it keeps.
// Threads that the value names have their own CPUs, the others those of the first; where a call
// fails, all have what they had.
func TestPin(t *testing.T) {
	ctx := context.Background()
	for n := 0; ; n++ {
		m, _ := tree()
		p := m.add(40, 10)
		p.threads[41], p.threads[42] = topology.CPUs(0, 1, 2, 3), topology.CPUs(7)
		before := m.masks()
		m.calls = 0
		if n > 0 {
			m.fault = func(call int, _ string) error {
				if call == n {
					return unix.EPERM
				}
				return nil
			}
		}
		err := m.driver().Pin(ctx, workload.Process{PID: 40, Start: p.start}, "4-5;41=5")
		switch {
		case n == 0 && err != nil:
			t.Fatal(err)
		case n > 0 && m.calls < n:
			return
		case err == nil:
			if !p.threads[40].Equal(topology.CPUs(4, 5)) || !p.threads[41].Equal(topology.CPUs(5)) || !p.threads[42].Equal(topology.CPUs(4, 5)) {
				t.Fatalf("%d: %v", n, p.threads)
			}
		case !maps.Equal(before, m.masks()):
			t.Fatalf("call %d failed (%v), and it is not as it was: %v", n, err, p.threads)
		}
	}
}

func TestAffinityRestoreOfWhatInherited(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	d := m.driver()
	have, err := d.Changes(ctx, cpuStep("4-5", p))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	p.threads[30] = topology.CPUs(4, 5)
	p.threads[31] = topology.CPUs(4)
	child := m.add(15, 10)
	child.start, child.threads[15], child.threads[32] = 20000, topology.CPUs(4, 5), topology.CPUs(5)
	before := m.add(16, 10) // there before: it has an entry of its own, with just this value
	before.threads[16] = topology.CPUs(4, 5)
	if err := m.restore(entries(have)); err != nil {
		t.Fatal(err)
	}
	got := m.masks()
	for tid, want := range map[int]string{10: "0-7", 20: "0-7", 21: "3", 30: "0-7", 31: "4", 15: "0-7", 32: "5", 16: "4-5"} {
		if got[tid] != want {
			t.Errorf("thread %d has %s, want %s", tid, got[tid], want)
		}
	}
}

// A workload that was moved twice: a child made in between has the first set.
func TestAffinityRestoreAfterTwoHomes(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	p := m.add(10, 1)
	d := m.driver()
	have, _ := d.Changes(ctx, cpuStep("4-5", p))
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	journal := entries(have)
	late := m.add(15, 10)
	late.start, late.threads[15], late.cgroup = 20000, topology.CPUs(4, 5), "0::/other\n" // no longer of the workload
	journal[0].Renew("w", "2-3")
	if err := d.Apply(ctx, cpuStep("2-3", p), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.restore(journal); err != nil {
		t.Fatal(err)
	}
	if got := m.masks(); got[10] != "0-7" || got[15] != "0-7" {
		t.Errorf("%v", got)
	}
}

// What a process leaves behind when it exits is restored by its entry, which is gone.
func TestAffinityRestoreOfOrphans(t *testing.T) {
	m, _, journal := given(t)
	m.fork(11, 10)
	m.exit(10)
	if err := m.restore(journal); !isGone(err) {
		t.Error(err)
	}
	if got := m.masks(); got[11] != "0-7" {
		t.Errorf("%v", got)
	}
}

// The time of day plays no part: the clock was two hours fast when a value was given,
// and set back since (R11).
func TestAffinityRestoreAfterTheClockWasSetBack(t *testing.T) {
	m, _, journal := given(t)
	journal[0].Time = time.Unix(1700000000, 0).Add(2 * time.Hour)
	m.fork(11, 10)
	got, err := m.driver().Inherited(context.Background(), journal, nil)
	if err != nil || len(got) != 1 || got[0].Ticks != journal[0].Ticks {
		t.Errorf("%+v %v", got, err)
	}
	if err := m.restore(journal); err != nil {
		t.Error(err)
	}
	if got := m.masks(); got[11] != "0-7" {
		t.Errorf("%v", got)
	}
	// An entry of before has no ticks, and the clock is all there is.
	journal[0].Ticks, journal[0].Time = 0, time.Unix(1700000000+100, 0)
	m.fork(12, 10).threads[12] = topology.CPUs(4, 5)
	if got, err := m.driver().Inherited(context.Background(), journal, nil); err != nil || len(got) != 1 || got[0].Ticks != 9800 {
		t.Errorf("%+v %v", got, err)
	}
}

// However many entries, each pass scans /proc once (R6).
func TestAffinityRestoreScansOnce(t *testing.T) {
	m := newModel()
	var all []*modelProc
	for pid := range 50 {
		all = append(all, m.add(100+pid, 1))
	}
	have, err := m.driver().Changes(context.Background(), cpuStep("4-5", all...))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.driver().Apply(context.Background(), cpuStep("4-5", all...), nil); err != nil {
		t.Fatal(err)
	}
	m.trace = nil
	if err := m.restore(entries(have)); err != nil {
		t.Fatal(err)
	}
	scans := 0
	for _, call := range m.trace {
		if call == "list proc" {
			scans++
		}
	}
	if scans != 2 { // the second finds nothing more
		t.Errorf("%d scans of /proc", scans)
	}
	for tid, cpus := range m.masks() {
		if cpus != "0-7" {
			t.Errorf("thread %d on %s", tid, cpus)
		}
	}
}

// A process that takes the CPUs again each time it was restored, or forks children that
// do, holds up nobody else.
func TestAffinityRestoreBesideOneThatResists(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	one, hostile := m.add(10, 1), m.add(11, 1)
	have, err := m.driver().Changes(ctx, cpuStep("4-5", one, hostile))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.driver().Apply(ctx, cpuStep("4-5", one, hostile), nil); err != nil {
		t.Fatal(err)
	}
	pid := 100
	m.fault = func(_ int, what string) error {
		if what == "list proc" {
			child := m.add(pid, hostile.pid)
			child.start, child.threads[pid] = 20000+uint64(pid), topology.CPUs(4, 5)
			pid++
		}
		return nil
	}
	errs := m.driver().Restore(ctx, entries(have))
	if errs[0] != nil || errs[1] == nil || one.threads[10].String() != "0-7" {
		t.Errorf("%v, thread on %s", errs, one.threads[10])
	}
}

// What somebody else has set since is theirs: it reads as that, and is not put back.
func TestAffinitySetBySomebodyElse(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		after func(m *model, p *modelProc, e *plan.Entry)
		read  string
		ours  bool
		main  string // after restoring
	}{
		{"untouched", func(*model, *modelProc, *plan.Entry) {}, "4-5", true, "0-7"},
		{"taskset of the main thread", func(_ *model, p *modelProc, _ *plan.Entry) { p.threads[10] = topology.CPUs(1) }, "1", false, "1"},
		{"taskset to some of them", func(_ *model, p *modelProc, _ *plan.Entry) { p.threads[10] = topology.CPUs(4) }, "4", false, "4"},
		{"back to what it was", func(_ *model, p *modelProc, _ *plan.Entry) { p.threads[10] = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7) }, "0-7;20=3", true, "0-7"},
		{"a CPU went offline", func(m *model, _ *modelProc, _ *plan.Entry) { m.cpus.Remove(5) }, "4-5", true, "0-4,6-7"},
		{"offline, and back to what it was", func(m *model, p *modelProc, _ *plan.Entry) {
			p.threads[10] = m.cpus
			m.cpus.Remove(2)
		}, "0-7;20=3", true, "0-1,3-7"},
		{"a crash before the next was written", func(_ *model, _ *modelProc, e *plan.Entry) { e.Renew("w", "2-3") }, "4-5", true, "0-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, p, journal := given(t)
			e := &journal[0]
			c.after(m, p, e)
			now, err := m.driver().Read(ctx, *e)
			if err != nil || now.Value != c.read || now.Kind != e.Kind || now.Path != e.Path || e.Ours(now) != c.ours {
				t.Errorf("%+v %v, ours %v", now, err, e.Ours(now))
			}
			if err := m.restore(journal); err != nil {
				t.Error(err)
			}
			if has, _ := m.Affinity(10); has.String() != c.main {
				t.Errorf("restored to %s", has)
			}
			if has, _ := m.Affinity(20); has.String() != "3" {
				t.Errorf("the thread with CPUs of its own has %s", has)
			}
			delete(m.procs, 10)
			if now, err := m.driver().Read(ctx, *e); !isGone(err) {
				t.Errorf("%+v %v of a process that has exited", now, err)
			}
		})
	}
	m, _, journal := given(t)
	journal[0].Kind = plan.CgroupCPUs
	if now, err := m.driver().Read(ctx, journal[0]); err == nil {
		t.Errorf("%+v of another kind", now)
	}
	if err := m.restore(journal); err == nil {
		t.Error("another kind was restored")
	}
}

// Every call of restoring fails once: the entry has an error or everything is as before,
// and the next try ends it.
func TestAffinityRestoreWithEachCallFailing(t *testing.T) {
	for _, errno := range []error{unix.EPERM, unix.EIO, unix.ESRCH, fs.ErrNotExist, unix.EMFILE, unix.EINVAL} {
		for n := 1; ; n++ {
			m, p, journal := given(t)
			p.threads[30] = topology.CPUs(4, 5)
			m.fork(11, 10)
			m.fork(12, 10)
			m.exit(11)
			m.calls, m.trace = 0, nil
			m.fault = func(call int, _ string) error {
				if call == n {
					return errno
				}
				return nil
			}
			restored := func() bool {
				masks := m.masks()
				return masks[10] == "0-7" && masks[20] == "3" && masks[30] == "0-7" && masks[12] == "0-7"
			}
			err := m.restore(journal)
			if m.calls < n {
				if err != nil || n < 20 {
					t.Errorf("without a fault, %d calls: %v", m.calls, err)
				}
				break
			}
			m.fault = nil
			if err == nil && !restored() {
				t.Errorf("call %d fails with %v (%s): no error and %v", n, errno, m.trace[n-1], m.masks())
			}
			if err := m.restore(journal); err != nil || !restored() {
				t.Errorf("after call %d failed with %v (%s): %v, %v", n, errno, m.trace[n-1], err, m.masks())
			}
		}
	}
}

func TestAffinityApplyCatchesNewThreads(t *testing.T) {
	m, p := tree()
	made := 100
	m.hook = func(call int) {
		if m.trace[len(m.trace)-1] == "set affinity" && made < 120 {
			made++
			p.threads[made] = m.cpus
			child := m.add(made+1000, 11)
			child.start = 5000
		}
	}
	if err := m.driver().Apply(context.Background(), cpuStep("1", p), nil); err != nil {
		t.Fatal(err)
	}
	for tid, cpus := range m.masks() {
		if want := tid != 13 && tid != 14; (cpus == "1") != want {
			t.Errorf("thread %d on %s", tid, cpus)
		}
	}
	m.hook = func(int) { // one more in each pass, with an ID of its own
		if strings.HasPrefix(m.trace[len(m.trace)-1], fmt.Sprintf("list proc/%d/task", p.pid)) {
			made++
			p.threads[100_000+made] = m.cpus
		}
	}
	if err := m.driver().Apply(context.Background(), cpuStep("2", p), nil); err == nil {
		t.Error("a thread bomb was mastered")
	}
}

// What is put back may be more than the cgroup of a process has at that moment: it has the rest
// when the cgroup has it.
func TestRestoreInNarrowCgroup(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	p.allowed = topology.CPUs(0, 1)
	p.threads = map[int]topology.CPUSet{10: p.allowed, 20: topology.CPUs(0), 21: topology.CPUs(1), 22: topology.CPUs(1)}
	err := m.restore([]plan.Entry{{Seq: 1, Kind: plan.Affinity, Path: plan.ProcessPath(p.process()), Old: "0-7;22=0,4", New: "0-1;20=0;21=1;22=1", State: plan.Applied}})
	if err != nil || !maps.Equal(p.sets(), map[int]string{10: "0-1", 20: "0-1", 21: "0-1", 22: "0"}) {
		t.Errorf("%v, %v", p.sets(), err)
	}
}

func TestAffinityRefusals(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	d := m.driver()
	m.procs[12].threads[12] = topology.CPUs(0, 1)
	before := m.masks()
	mems := cpuStep("0", p)
	mems.Kind = plan.SetMems
	var unsupported *plan.UnsupportedError
	if err := d.Apply(ctx, mems, nil); !errors.As(err, &unsupported) {
		t.Errorf("set-mems: %v", err)
	}
	if _, err := d.Changes(ctx, mems); !errors.As(err, &unsupported) {
		t.Errorf("set-mems: %v", err)
	}
	var mismatch *MismatchError
	if err := d.Apply(ctx, cpuStep("6-9", p), nil); !errors.As(err, &mismatch) || mismatch.Why != "CPU 8-9 is offline" {
		t.Errorf("offline CPU: %v", err)
	}
	m.procs[12].allowed = topology.CPUs(0, 1)
	if err := d.Apply(ctx, cpuStep("1-2", p), nil); !errors.As(err, &mismatch) || mismatch.Thread != 12 ||
		!strings.Contains(mismatch.Why, "its cgroup does not allow CPU 2") {
		t.Errorf("cgroup with fewer CPUs: %v", err)
	}
	if err := d.Apply(ctx, cpuStep("2", p), nil); !errors.As(err, &mismatch) {
		t.Errorf("cgroup with other CPUs: %v", err)
	}
	for _, to := range []string{"", "x", "0-"} {
		if err := d.Apply(ctx, cpuStep(to, p), nil); err == nil {
			t.Errorf("to %q: no error", to)
		}
	}
	reused := cpuStep("1", p)
	reused.Target.Processes[0].Start++
	if err := d.Apply(ctx, reused, nil); !errors.Is(err, unix.ESRCH) {
		t.Errorf("PID of another process: %v", err)
	}
	if _, err := d.Changes(ctx, reused); !errors.Is(err, unix.ESRCH) {
		t.Errorf("PID of another process: %v", err)
	}
	if err := m.restore([]plan.Entry{{Kind: plan.Affinity, Path: "10@7", Old: "0", New: "1"}}); !errors.Is(err, unix.ESRCH) {
		t.Errorf("PID of another process: %v", err)
	}
	reused.Target.Processes[0].Start = 0
	if err := d.Apply(ctx, reused, nil); err == nil {
		t.Error("a process without a start time was touched")
	}
	if got := m.masks(); !maps.Equal(got, before) {
		t.Errorf("a refused step left %v", got)
	}
}

// A call that fails leaves every thread as it was.
func TestAffinityWithEachCallFailing(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	before := m.masks()
	if err := m.driver().Apply(ctx, cpuStep("1", p), nil); err != nil {
		t.Fatal(err)
	}
	calls := m.calls
	for n := 1; n <= calls; n++ {
		for _, e := range []error{unix.EPERM, unix.EINVAL, unix.EIO, unix.ESRCH, fs.ErrNotExist, unix.EMFILE, unix.EBUSY} {
			m, p := tree()
			m.fault = func(call int, what string) error {
				if call == n {
					return e
				}
				return nil
			}
			err := m.driver().Apply(ctx, cpuStep("1", p), nil)
			what := fmt.Sprintf("call %d (%s) fails with %v", n, m.trace[n-1], e)
			got := m.masks()
			if err != nil && !maps.Equal(got, before) {
				t.Errorf("%s: failed with %v and left %v", what, err, got)
			}
			if e == unix.EMFILE && isGone(err) {
				t.Errorf("%s: the workload is taken for gone: %v", what, err)
			}
			if err == nil && (got[10] != "1" || got[21] != "1") {
				t.Errorf("%s: success but %v", what, got)
			}
		}
	}
}

// Without time nothing is set, and that is no success.
func TestAffinityEndsWithContext(t *testing.T) {
	for _, at := range []string{"", "set affinity"} { // before, and in the midst
		m, p := tree()
		before := m.masks()
		ctx, cancel := context.WithCancel(context.Background())
		m.hook = func(int) {
			if at == "" || m.trace[len(m.trace)-1] == at {
				cancel()
			}
		}
		if err := m.driver().Apply(ctx, cpuStep("1", p), nil); !errors.Is(err, context.Canceled) || !maps.Equal(m.masks(), before) {
			t.Errorf("cancelled at %q: %v, %v", at, err, m.masks())
		}
		cancel()
	}
}

// When the workload exits half way, a child that lives on is as it was.
func TestAffinityApplyWhileParentExits(t *testing.T) {
	m, p := tree()
	before := m.masks()
	m.hook = func(int) {
		if len(m.trace) > 1 && m.procs[12] != nil && !m.procs[12].threads[12].Equal(m.cpus) {
			delete(m.procs, 10)
			m.procs[11].parent = 1
		}
	}
	err := m.driver().Apply(context.Background(), cpuStep("1", p), nil)
	if !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
	for tid, cpus := range m.masks() {
		if cpus != before[tid] {
			t.Errorf("thread %d was left on %s", tid, cpus)
		}
	}
}

func TestAffinityText(t *testing.T) {
	for _, text := range []string{"0-15", "0-15;1240=3", "0;7=1;8=0-1,5"} {
		a, err := parseAffinity(text)
		if err != nil || a.String() != text {
			t.Errorf("%q came back as %q, %v", text, a, err)
		}
	}
	for _, text := range []string{"", ";", "x", "0;", "0;1", "0;=1", "0;-1=1", "0;1=", "0;1=x"} {
		if a, err := parseAffinity(text); err == nil {
			t.Errorf("%q taken as %q", text, a)
		}
	}
	for _, path := range []string{"", "1", "1@", "@1", "0@1", "-1@1", "1@0", "1@x", "1@2@3"} {
		if p, err := plan.ParseProcessPath(path); err == nil {
			t.Errorf("%q taken as %v", path, p)
		}
	}
	if p, err := plan.ParseProcessPath(plan.ProcessPath(workload.Process{PID: 4, Start: 9})); err != nil || p.PID != 4 || p.Start != 9 {
		t.Errorf("%v %v", p, err)
	}
}

// A process that maps a file of a long path very often costs no more than others.
func TestMapsOfLongPaths(t *testing.T) {
	line := "%x-%x rw-s 00000000 08:01 7 /" + strings.Repeat("n", 4000) + "\n"
	r, w := io.Pipe()
	go func() {
		for i := range 20_000 {
			fmt.Fprintf(w, line, i<<12, (i+1)<<12)
		}
		w.Close()
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all, err := parseMaps(r, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || len(all) != 20_000 || all[7].file != (fileID{"08:01", 7}) {
		t.Fatalf("%d ranges, %v", len(all), err)
	}
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
		t.Errorf("%d MiB kept of 80", kept>>20)
	}
	runtime.KeepAlive(all)
}

func FuzzParse(f *testing.F) {
	m, _, _ := machine()
	for _, file := range []string{"stat", "maps", "numa_maps", "smaps", "mountinfo"} {
		text, _ := m.file("proc/10/" + file)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parseAffinity(string(text))
		tmpfsDevices(bytes.NewReader(text), map[string]bool{})
		parseSmaps(bytes.NewReader(text))
		all, err := parseMaps(bytes.NewReader(text), nil)
		if err == nil {
			parseNumaMaps(bytes.NewReader(text), all)
			for i := range all {
				all[i].off(topology.Nodes(0))
			}
		}
	})
}
