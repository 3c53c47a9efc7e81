package process

import (
	"context"
	"maps"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// A process in a cgroup with CPUs 0-7 whose threads are divided among 0-3 and 4-7.
func dividing(p *modelProc, from string, want map[int]string) plan.Step {
	step := plan.Step{Kind: plan.DivideThreads, Workload: "/wide", From: from, To: "0-3;4-7",
		Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{p.process()}}}
	for tid, cpus := range want {
		step.Threads = append(step.Threads, plan.ThreadSet{TID: tid, CPUs: cpuSet(cpus)})
	}
	return step
}

func cpuSet(text string) topology.CPUSet {
	s, err := topology.ParseCPUSet(text)
	if err != nil {
		panic(err)
	}
	return s
}

func (p *modelProc) sets() map[int]string {
	out := map[int]string{}
	for tid, cpus := range p.threads {
		out[tid] = cpus.String()
	}
	return out
}

func TestDivide(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	m.add(1, 0)
	p := m.add(100, 1)
	all := cpuSet("0-7")
	p.threads = map[int]topology.CPUSet{100: all, 101: all, 102: all, 103: cpuSet("2"), 104: all}
	d := m.driver()

	step := dividing(p, "", map[int]string{100: "0-3", 101: "4-7", 102: "4-7", 103: "4-7", 999: "0-3"}) // its owner has pinned 103, 999 has ended
	changes, err := d.Changes(ctx, step)
	if err != nil || len(changes) != 1 || changes[0].Value != "0-7" || changes[0].Will != "0-3;4-7" {
		t.Fatalf("changes %+v, %v", changes, err)
	}
	if err := d.Apply(ctx, step, nil); err != nil {
		t.Fatal(err)
	}
	want := map[int]string{100: "0-3", 101: "4-7", 102: "4-7", 103: "2", 104: "0-7"}
	if got := p.sets(); !maps.Equal(got, want) {
		t.Fatalf("threads have %v, want %v", got, want)
	}
	entry := plan.Entry{Seq: 1, Workload: "/wide", Kind: plan.ThreadCPUs, Path: changes[0].Path, Groups: changes[0].Groups, Ticks: changes[0].Ticks,
		Old: changes[0].Value, New: changes[0].Will, State: plan.Applied}
	if now, err := d.Read(ctx, entry); err != nil || !entry.Ours(now) {
		t.Fatalf("reads as %+v, %v", now, err)
	}

	// Threads that are born have what their maker has; what is pinned meanwhile stays.
	p.threads[105], p.threads[102] = cpuSet("4-7"), cpuSet("6")
	if err := d.Apply(ctx, dividing(p, "0-3;4-7", map[int]string{104: "0-3", 105: "0-3", 102: "0-3"}), nil); err != nil {
		t.Fatal(err)
	}
	want = map[int]string{100: "0-3", 101: "4-7", 102: "6", 103: "2", 104: "0-3", 105: "0-3"}
	if got := p.sets(); !maps.Equal(got, want) {
		t.Fatalf("threads have %v, want %v", got, want)
	}

	// A child that a divided thread has made is found, and put back with it.
	child := m.fork(200, 100)
	child.threads[200] = cpuSet("4-7")
	found, err := d.Inherited(ctx, []plan.Entry{entry}, nil)
	if err != nil || len(found) != 1 || found[0].Path != plan.ProcessPath(child.process()) || found[0].Value != "0-7" || found[0].Kind != plan.Affinity {
		t.Fatalf("inherited %+v, %v", found, err)
	}
	for _, err := range d.Restore(ctx, []plan.Entry{entry}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want = map[int]string{100: "0-7", 101: "0-7", 102: "6", 103: "2", 104: "0-7", 105: "0-7"}
	if got := p.sets(); !maps.Equal(got, want) || child.sets()[200] != "0-7" {
		t.Fatalf("after undo threads have %v, want %v; the child %v", got, want, child.sets())
	}
}

// The cgroup has no more than the home when threads are divided: what is put back is what
// nobody had pinned, also when the cgroup has more by then or not.
func TestDivideInCgroup(t *testing.T) {
	for _, then := range []string{"0-3", "0-7"} {
		ctx := context.Background()
		m := newModel()
		m.add(1, 0)
		p := m.add(100, 1)
		p.allowed = cpuSet("0-3")
		p.threads = map[int]topology.CPUSet{100: cpuSet("0-3"), 101: cpuSet("0-3")}
		m.cpuset = "0-3\n"
		d := m.driver()
		step := dividing(p, "", map[int]string{100: "0-1", 101: "2-3"})
		step.To = "0-1;2-3"
		changes, err := d.Changes(ctx, step)
		if err != nil || changes[0].Value != "0-7" {
			t.Fatalf("changes %+v, %v", changes, err)
		}
		if err := d.Apply(ctx, step, nil); err != nil {
			t.Fatal(err)
		}
		p.allowed = cpuSet(then)
		entry := plan.Entry{Seq: 1, Kind: plan.ThreadCPUs, Path: changes[0].Path, Groups: changes[0].Groups, Ticks: changes[0].Ticks, Old: changes[0].Value, New: changes[0].Will, State: plan.Applied}
		if errs := d.Restore(ctx, []plan.Entry{entry}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if got := p.sets(); got[100] != then || got[101] != then {
			t.Errorf("threads have %v, want %s", got, then)
		}
	}
}

// What its owner had given a thread beyond the CPUs of the main thread comes back, also of threads
// that come later.
func TestDivideKeepsWiderThreads(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	m.add(1, 0)
	p := m.add(100, 1)
	p.threads = map[int]topology.CPUSet{100: cpuSet("0-3"), 101: cpuSet("0-7"), 102: cpuSet("0-3"), 103: cpuSet("0-5")}
	d := m.driver()
	divide := func(from string, want map[int]string) plan.Change {
		t.Helper()
		step := dividing(p, from, want)
		step.To = "0-1;2-3"
		changes, err := d.Changes(ctx, step)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Apply(ctx, step, nil); err != nil {
			t.Fatal(err)
		}
		return changes[0]
	}
	c := divide("", map[int]string{100: "0-1", 101: "2-3", 102: "2-3"}) // 103 is not divided
	if c.Value != "0-3;101=0-7" || c.Threads != "" {
		t.Fatalf("before: %q, later %q", c.Value, c.Threads)
	}
	p.threads[104], p.threads[105] = cpuSet("0-6"), cpuSet("2-3")
	later := divide("0-1;2-3", map[int]string{100: "0-1", 101: "2-3", 102: "2-3", 104: "0-1", 105: "0-1"})
	if later.Value != "0-1;2-3" || later.Threads != ";104=0-6" {
		t.Fatalf("before: %q, later %q", later.Value, later.Threads)
	}
	entry := plan.Entry{Seq: 1, Kind: plan.ThreadCPUs, Path: c.Path, Groups: c.Groups, Ticks: c.Ticks, Old: c.Value + later.Threads, New: c.Will, State: plan.Applied}
	if errs := d.Restore(ctx, []plan.Entry{entry}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	want := map[int]string{100: "0-3", 101: "0-7", 102: "0-3", 103: "0-5", 104: "0-6", 105: "0-3"}
	if got := p.sets(); !maps.Equal(got, want) {
		t.Errorf("after undo %v, want %v", got, want)
	}
}

// What has CPUs by an entry of its own is not put back with the threads of who made it, though
// those CPUs are the same.
func TestUndivideLeavesOthers(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		journal bool
		of      uint64
		want    string
	}{
		"homenode gave it a home":    {true, 0, "0-3"},
		"it has them by inheritance": {true, 1, "0-7"},
		"nothing is known of it":     {false, 0, "0-7"},
	} {
		m := newModel()
		m.add(1, 0)
		p := m.add(100, 1)
		p.threads = map[int]topology.CPUSet{100: cpuSet("0-3"), 101: cpuSet("4-7")}
		child := m.fork(200, 100)
		grandchild := m.fork(300, 200)
		child.threads[200], grandchild.threads[300] = cpuSet("0-3"), cpuSet("0-3")
		entry := plan.Entry{Seq: 1, Kind: plan.ThreadCPUs, Path: plan.ProcessPath(p.process()), Old: "0-7", New: "0-3;4-7", State: plan.Applied}
		journal := []plan.Entry{entry}
		if tt.journal {
			journal = append(journal, plan.Entry{Seq: 2, Kind: plan.Affinity, Path: plan.ProcessPath(child.process()), Old: "0-7", New: "0-3", Of: tt.of, State: plan.Applied})
		}
		if errs := m.driver().RestoreBeside(ctx, journal[:1], journal); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if got := p.sets(); !maps.Equal(got, map[int]string{100: "0-7", 101: "0-7"}) || child.sets()[200] != tt.want || grandchild.sets()[300] != tt.want {
			t.Errorf("%s: %v, child %v, grandchild %v", name, got, child.sets(), grandchild.sets())
		}
	}
}

// A process that makes threads all the time is divided all the same; what its owner sets while that
// goes on stands, also when it then fails.
func TestDivideBesideItsOwner(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m := newModel()
		m.add(1, 0)
		p := m.add(100, 1)
		p.threads = map[int]topology.CPUSet{100: cpuSet("0-7"), 101: cpuSet("0-7"), 102: cpuSet("0-7")}
		made, sets := 200, 0
		m.hook = func(int) {
			switch last := m.trace[len(m.trace)-1]; {
			case strings.HasPrefix(last, "list proc/100/task"):
				made++
				p.threads[made] = p.threads[101]
			case last == "set affinity":
				if sets++; sets == 3 { // the first two have theirs
					p.threads[100] = cpuSet("6")
				}
			}
		}
		m.fault = func(_ int, what string) error {
			if fails && what == "set affinity" && sets == 3 {
				return unix.EIO
			}
			return nil
		}
		err := m.driver().Apply(context.Background(), dividing(p, "", map[int]string{100: "0-3", 101: "4-7", 102: "0-3"}), nil)
		want := map[int]string{100: "6", 101: "4-7", 102: "0-3"}
		if fails {
			want[101], want[102] = "0-7", "0-7"
		}
		got := p.sets()
		maps.DeleteFunc(got, func(tid int, _ string) bool { return tid > 200 })
		if (err != nil) != fails || !maps.Equal(got, want) {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestDivideBadSteps(t *testing.T) {
	m := newModel()
	p := m.add(100, 1)
	d := m.driver()
	for name, change := range map[string]func(*plan.Step){
		"no sets":      func(s *plan.Step) { s.To = "" },
		"an empty set": func(s *plan.Step) { s.To = "0-3;" },
		"two processes": func(s *plan.Step) {
			s.Target.Processes = append(s.Target.Processes, workload.Process{PID: 1, Start: 1})
		},
		"no CPUs": func(s *plan.Step) { s.Threads[0].CPUs = topology.CPUSet{} },
	} {
		step := dividing(p, "", map[int]string{100: "0-3"})
		change(&step)
		if _, err := d.Changes(context.Background(), step); err == nil {
			t.Errorf("%s: changes", name)
		}
		if err := d.Apply(context.Background(), step, nil); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
}
