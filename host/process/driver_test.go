package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

func entries(have []plan.Setting, to string, at time.Time) (out []plan.Entry) {
	for i, h := range have {
		out = append(out, plan.Entry{Seq: uint64(i + 1), Time: at, Kind: h.Kind, Path: h.Path, Old: h.Value, New: to, State: plan.Applied})
	}
	return out
}

func TestAffinityApplyAndRestore(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	d := m.driver()
	before := m.masks()
	have, err := d.Settings(ctx, cpuStep("4-5", p))
	want := []plan.Setting{
		{Kind: plan.Affinity, Path: "10@1010", Value: "0-7;21=3", Kin: "0 0::/user.slice"},
		{Kind: plan.Affinity, Path: "11@1011", Value: "0-7;22=0-1", Kin: "0 0::/user.slice"},
		{Kind: plan.Affinity, Path: "12@1012", Value: "0-7", Kin: "0 0::/user.slice"},
	}
	if err != nil || !slices.Equal(have, want) {
		t.Fatalf("%+v %v", have, err)
	}
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	after := map[int]string{10: "4-5", 20: "4-5", 21: "4-5", 11: "4-5", 22: "4-5", 12: "4-5", 13: "0-7", 14: "0-7"}
	if got := m.masks(); !maps.Equal(got, after) {
		t.Errorf("after Apply %v", got)
	}
	m.trace = nil
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil || slices.Contains(m.trace, "set affinity") {
		t.Errorf("a second Apply changed something: %v", err)
	}
	for _, e := range slices.Backward(entries(have, "4-5", time.Time{})) {
		if err := m.driver().Restore(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.masks(); !maps.Equal(got, before) {
		t.Errorf("after Restore %v, want %v", got, before)
	}
}

// Threads and children made after the journal was written have inherited what
// homenode gave; they get the old value too. What a thread chose itself it keeps.
func TestAffinityRestoreOfHeirs(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	d := m.driver()
	have, err := d.Settings(ctx, cpuStep("4-5", p))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000+100, 0) // 10,000 ticks after boot
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	p.threads[30] = topology.CPUs(4, 5)
	p.threads[31] = topology.CPUs(4)
	heir := m.add(15, 10)
	heir.start, heir.threads[15], heir.threads[32] = 20000, topology.CPUs(4, 5), topology.CPUs(5)
	journalled := m.add(16, 10) // there before: it has an entry of its own, with just this value
	journalled.threads[16] = topology.CPUs(4, 5)
	for _, e := range slices.Backward(entries(have, "4-5", at)) {
		if err := m.driver().Restore(ctx, e); err != nil {
			t.Fatal(err)
		}
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
	have, _ := d.Settings(ctx, cpuStep("4-5", p))
	if err := d.Apply(ctx, cpuStep("4-5", p), nil); err != nil {
		t.Fatal(err)
	}
	late := m.add(15, 10)
	late.start, late.threads[15] = 20000, topology.CPUs(4, 5)
	again, _ := d.Settings(ctx, cpuStep("2-3", p))
	if err := d.Apply(ctx, cpuStep("2-3", p), nil); err != nil {
		t.Fatal(err)
	}
	journal := entries(have, "2-3", time.Unix(1700000000, 0))
	journal = append(journal, plan.Entry{Seq: 2, Kind: plan.Affinity, Path: again[1].Path, Old: again[1].Value, New: "2-3"})
	for _, e := range slices.Backward(journal) {
		if err := d.Restore(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.masks(); got[10] != "0-7" || got[15] != "0-7" {
		t.Errorf("%v", got)
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

func TestAffinityRefusals(t *testing.T) {
	ctx := context.Background()
	m, p := tree()
	d := m.driver()
	m.procs[12].threads[12] = topology.CPUs(0, 1)
	before := m.masks()
	mems := cpuStep("0", p)
	mems.Kind = plan.SetMems
	var unsupported *UnsupportedError
	if err := d.Apply(ctx, mems, nil); !errors.As(err, &unsupported) {
		t.Errorf("set-mems: %v", err)
	}
	if _, err := d.Settings(ctx, mems); !errors.As(err, &unsupported) {
		t.Errorf("set-mems: %v", err)
	}
	var mismatch *MismatchError
	if err := d.Apply(ctx, cpuStep("6-9", p), nil); !errors.As(err, &mismatch) || mismatch.Why != "CPU 8-9 is offline" {
		t.Errorf("offline CPU: %v", err)
	}
	m.procs[12].allowed = topology.CPUs(0, 1)
	if err := d.Apply(ctx, cpuStep("1-2", p), nil); !errors.As(err, &mismatch) || mismatch.Thread != 12 {
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
	if _, err := d.Settings(ctx, reused); !errors.Is(err, unix.ESRCH) {
		t.Errorf("PID of another process: %v", err)
	}
	if err := d.Restore(ctx, plan.Entry{Kind: plan.Affinity, Path: "10@7", Old: "0", New: "1"}); !errors.Is(err, unix.ESRCH) {
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
			if err == nil && (got[10] != "1" || got[21] != "1") {
				t.Errorf("%s: success but %v", what, got)
			}
		}
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

func FuzzParse(f *testing.F) {
	m, _, _ := machine()
	for _, file := range []string{"stat", "maps", "numa_maps", "smaps", "mountinfo"} {
		text, _ := m.file("proc/10/" + file)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parseStat(text)
		parseAffinity(string(text))
		parseTmpfs(string(text))
		parseSmaps(string(text))
		parsePinned(string(text))
		all, err := parseMaps(string(text), nil)
		if err == nil {
			parseNumaMaps(string(text), all)
			for i := range all {
				all[i].off(topology.Nodes(0))
			}
		}
	})
}
