//go:build linux

package share

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
)

// atMost fails where a time is longer than it may be.
func atMost(t *lab.T, what string, took, most time.Duration) {
	if took > most {
		t.Fatalf("%s: %v, at most %v", what, took, most)
	}
	t.Logf("%s: %v, at most %v", what, took, most)
}

// scxWaits: no batch task runs on a CPU while online work that may run there waits for it. On
// all but the last CPU some always does, so that from Linux 7.0 on the kernel asks the scheduler all the same.
// (But for the guard, which is left out here.)
func scxWaits(t *lab.T) {
	conf := machine(t)
	conf.NoGuard, conf.Timeout = true, 0
	s := scheduler(t, conf)
	on := t.NewGroup(lab.CgroupRoot, "on")
	batchHogs(t, s, t.Shape.CPUs()+2, tiered(t, on, workload.Online))
	groups := make([]lab.Group, t.Shape.CPUs())
	for cpu := range groups {
		groups[cpu] = t.NewGroup(on, strconv.Itoa(cpu))
		c := startIn(t, groups[cpu], "bursts")
		bind(t, c.Process.Pid, cpu)
	}
	last := t.Shape.CPUs() - 1
	for cpu := range last {
		bind(t, startIn(t, groups[cpu], "hog", "1").Process.Pid, cpu)
	}
	off := lab.Group(lab.CgroupRoot + "/off")
	tr := t.Trace(func() { time.Sleep(2 * time.Second) })
	batch := t.Members(off)
	most, waited := time.Duration(0), 0
	for cpu, g := range groups {
		ran := tr.Runs(cpu, batch)
		for _, f := range strings.Fields(lab.ReadText(g.File("cgroup.threads"))) {
			tid, _ := strconv.Atoi(f)
			waits := tr.Waits(tid)
			waited += len(waits)
			most = max(most, lab.Longest(lab.Meet(waits, ran)))
		}
		if cpu == last && lab.InAll(ran) < 500*time.Millisecond {
			t.Fatalf("batch work had %v of CPU %d: nothing was there to give way", lab.InAll(ran), cpu)
		}
	}
	if waited < 500 {
		t.Fatalf("online work waited %d times only", waited)
	}
	st := stillEnabled(t, s)
	t.Logf("online work waited %d times; %+v", waited, st.Refused)
	atMost(t, "batch work ran on while online work waited for its CPU", most, time.Millisecond)
}

// scxBeside: when online-strict work begins, batch work leaves the sibling, and none begins there;
// the scheduler's own counts say the same as the tracer. A change of tiers holds at once.
func scxBeside(t *lab.T) {
	s := scheduler(t, machine(t))
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	tier := tiered(t, strict, workload.OnlineStrict)
	off := batchHogs(t, s, t.Shape.CPUs(), tier)
	var bursts []*exec.Cmd
	for cpu := 0; cpu < t.Shape.CPUs(); cpu += 2 {
		c := startIn(t, strict, "bursts")
		bind(t, c.Process.Pid, cpu)
		bursts = append(bursts, c)
	}
	time.Sleep(200 * time.Millisecond)
	var before, st scx.Stats
	tr := t.Trace(func() {
		before = counters(t, s)
		time.Sleep(time.Second)
		st = stillEnabled(t, s)
	})
	isStrict, isBatch := t.Members(strict), t.Members(off)
	var beside []lab.Span
	begun := 0
	for cpu := range t.Shape.CPUs() {
		ran, sibling := tr.Runs(cpu, isStrict), tr.Runs(cpu^1, isBatch)
		both := lab.Meet(ran, sibling)
		beside = append(beside, both...)
		for _, b := range both {
			for _, r := range ran {
				// A batch task that was chosen before, and is on its CPU a moment later, is none.
				if r.From < b.From-300*time.Microsecond && b.From < r.To {
					begun++
				}
			}
		}
	}
	starts := st.StrictStarts - before.StrictStarts
	counted, long := uint64(0), uint64(0)
	for i, n := range st.Overlaps {
		counted += n - before.Overlaps[i]
		if n-before.Overlaps[i] > 0 {
			t.Logf("%d for %v to %v", n-before.Overlaps[i], time.Duration(1)<<i, time.Duration(2)<<i)
		}
		if i >= 19 {
			long += n - before.Overlaps[i]
		}
	}
	t.Logf("online-strict work began %d times, batch work was beside it %d times, %v in all; counted %d", starts,
		len(beside), lab.InAll(beside), counted)
	if starts < 250 || len(beside) < 100 {
		t.Fatalf("too few to tell")
	}
	if begun > 0 {
		t.Fatalf("%d times batch work began beside online-strict work that ran already", begun)
	}
	atMost(t, "beside online-strict work, 99 of 100", lab.Within(beside, 99), 500*time.Microsecond)
	atMost(t, "beside online-strict work, the longest", lab.Longest(beside), 4*time.Millisecond)
	if long*100 > counted {
		t.Fatalf("%d of %d times batch work ran beside online-strict work for more than half a millisecond", long,
			counted)
	}
	if d := int(counted) - len(beside); d < -len(beside)/10 || d > len(beside)/10 {
		t.Fatalf("the scheduler counted %d of %d", counted, len(beside))
	}

	// Work that never leaves its CPU becomes online-strict, with its sibling busy; this program and Go's own
	// threads are elsewhere, for where anything switches the new tier is seen by that.
	for _, c := range bursts {
		c.Process.Kill()
		c.Wait()
	}
	bind(t, os.Getpid(), t.Shape.CPUs()-1)
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, strict, workload.Online), tiered(t, off, workload.BatchTier)}))
	hog := startIn(t, strict, "hog", "1")
	bind(t, hog.Process.Pid, 0)
	for _, tid := range lab.ThreadsOf(hog.Process.Pid) {
		if statFields(tid)[0] != "R" {
			t.Do(lab.SetAffinity(tid, lab.SetOf(2)))
		}
	}
	time.Sleep(100 * time.Millisecond)
	var called, set time.Duration
	tr = t.Trace(func() {
		time.Sleep(20 * time.Millisecond)
		called = time.Duration(lab.Monotonic())
		t.Do(s.SetTiers([]scx.Cgroup{tier, tiered(t, off, workload.BatchTier)}))
		set = time.Duration(lab.Monotonic())
		time.Sleep(100 * time.Millisecond)
	})
	late, was := set, false
	for _, r := range tr.Runs(1, isBatch) {
		// the kernel's own threads come by
		late, was = max(late, r.To), was || (r.From < called && called < r.To+time.Millisecond)
	}
	if !was {
		t.Fatalf("no batch work was beside it: %s", tr.Around(lab.Span{From: called, To: set}))
	}
	t.Logf("the call took %v", set-called)
	atMost(t, "beside what has become online-strict, after the call", late-set, time.Millisecond)
}

// scxIdle: no CPU is idle for a millisecond while batch work waits that may run there, unless a
// reason for it is counted; it stays on its nodes, and within the budget.
func scxIdle(t *lab.T) {
	conf := machine(t)
	s := scheduler(t, conf)
	on := t.NewGroup(lab.CgroupRoot, "on")
	off := batchHogs(t, s, 1, tiered(t, on, workload.Online))
	for cpu := range t.Shape.CPUs() {
		bind(t, startIn(t, on, "bursts").Process.Pid, cpu)
		startIn(t, off, "bursts") // comes and goes, so that CPUs are idle in between
	}
	time.Sleep(100 * time.Millisecond)
	switched(t, off)
	idle := func(tr *lab.Trace, cpus ...int) (most time.Duration) {
		var free [][]lab.Span
		for _, cpu := range cpus {
			free = append(free, tr.Runs(cpu, func(tid int) bool { return tid == 0 }))
		}
		for _, f := range strings.Fields(lab.ReadText(off.File("cgroup.threads"))) {
			waits := tr.Waits(lab.Leading(f))
			for _, spans := range free {
				most = max(most, lab.Longest(lab.Meet(waits, spans)))
			}
		}
		return most
	}
	var all []int
	for cpu := range t.Shape.CPUs() {
		all = append(all, cpu)
	}
	tr := t.Trace(func() { time.Sleep(time.Second) })
	st := stillEnabled(t, s)
	if r := st.Refused; r.Expelled+r.Budget+r.IdleBuffer+r.Nodes > 0 {
		t.Fatalf("refused without a reason: %+v", r)
	}
	atMost(t, "a CPU was idle while batch work waited", idle(tr, all...), time.Millisecond)

	// On the last node alone, and more of it than has room there.
	startIn(t, off, "hog", strconv.Itoa(t.Shape.CPUs()))
	time.Sleep(100 * time.Millisecond)
	switched(t, off)
	last := t.Shape.Nodes - 1
	theirs := all[last*t.Shape.CPUsPerNode:]
	offTier := tiered(t, off, workload.BatchTier, topology.NodeID(last))
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, on, workload.Online), offTier}))
	time.Sleep(50 * time.Millisecond)
	before := counters(t, s)
	tr = t.Trace(func() {
		time.Sleep(time.Second)
		st = stillEnabled(t, s)
	})
	batch := t.Members(off)
	for _, cpu := range all[:last*t.Shape.CPUsPerNode] {
		if n := tr.Starts(cpu, batch); n > 0 {
			t.Fatalf("batch work of node %d began %d times on CPU %d", last, n, cpu)
		}
	}
	for i := range last {
		if st.Nodes[i].Used != before.Nodes[i].Used {
			t.Fatalf("%v of batch work are counted on node %d", st.Nodes[i].Used-before.Nodes[i].Used, i)
		}
	}
	if st.Refused.Nodes == before.Refused.Nodes {
		t.Fatalf("no refusal is counted: %+v", st.Refused)
	}
	atMost(t, fmt.Sprintf("a CPU of node %d was idle while its batch work waited", last), idle(tr, theirs...),
		time.Millisecond)

	t.Write(on.File("cgroup.kill"), "1")
	// A budget.
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, on, workload.Online), tiered(t, off, workload.BatchTier)}))
	for _, budget := range []float64{1, 0.5} {
		conf.Nodes = nil
		for n := range t.Shape.Nodes {
			conf.Nodes = append(conf.Nodes, scx.Node{ID: topology.NodeID(n), Budget: budget})
		}
		t.Do(s.Set(conf))
		time.Sleep(100 * time.Millisecond)
		before = counters(t, s)
		tr = t.Trace(func() {
			time.Sleep(time.Second)
			st = stillEnabled(t, s)
		})
		if st.Refused.Budget == before.Refused.Budget {
			t.Fatalf("no refusal is counted: %+v", st.Refused)
		}
		for n := range t.Shape.Nodes {
			var ran, both time.Duration
			for cpu := n * t.Shape.CPUsPerNode; cpu < (n+1)*t.Shape.CPUsPerNode; cpu++ {
				ran += lab.InAll(tr.Runs(cpu, batch))
				for other := n * t.Shape.CPUsPerNode; other < cpu; other++ {
					both += lab.InAll(lab.Meet(tr.Runs(cpu, batch), tr.Runs(other, batch)))
				}
			}
			length := (tr.To - tr.From).Seconds()
			between(t, fmt.Sprintf("budget %.1f: CPUs of node %d", budget, n), ran.Seconds()/length, 0.9*budget,
				1.05*budget)
			between(t, fmt.Sprintf("budget %.1f: two CPUs of node %d at a time", budget, n), both.Seconds()/length, 0,
				0.05)
		}
	}
}

// scxTogether: threads that ran last on one CPU wake at the same moment, with all CPUs idle: each has a
// CPU at once, batch work or not.
func scxTogether(t *lab.T) {
	s := scheduler(t, machine(t))
	off := t.NewGroup(lab.CgroupRoot, "off")
	tier := tiered(t, off, workload.BatchTier)
	t.Do(s.SetTiers([]scx.Cgroup{tier}))
	startIn(t, off, "together", strconv.Itoa(t.Shape.CPUs()))
	time.Sleep(100 * time.Millisecond)
	switched(t, off)
	for _, one := range []struct {
		what  string
		tiers []scx.Cgroup
	}{{"batch threads", []scx.Cgroup{tier}}, {"threads that are not batch work", nil}} {
		t.Do(s.SetTiers(one.tiers))
		time.Sleep(2 * togetherEvery)
		tr := t.Trace(func() { time.Sleep(20 * togetherEvery) })
		var waits []lab.Span
		for _, f := range strings.Fields(lab.ReadText(off.File("cgroup.threads"))) {
			for _, w := range tr.Waits(lab.Leading(f)) {
				if w.From%togetherEvery < time.Millisecond { // not those that wait for CPU 0
					waits = append(waits, w)
				}
			}
		}
		if len(waits) < 15*t.Shape.CPUs() {
			t.Fatalf("%s: %d wake-ups only", one.what, len(waits))
		}
		var most time.Duration
		for cpu := range t.Shape.CPUs() {
			idle := tr.Runs(cpu, func(tid int) bool { return tid == 0 })
			for _, w := range waits {
				long := lab.Longest(lab.Meet([]lab.Span{w}, idle))
				if most = max(most, long); long > time.Millisecond {
					t.Logf("CPU %d was idle for %v; %s", cpu, long, tr.Around(w))
				}
			}
		}
		t.Logf("%s: of %d waits 99 of 100 within %v", one.what, len(waits), lab.Within(waits, 99))
		atMost(t, one.what+" waited while a CPU was idle", most, time.Millisecond)
	}
	stillEnabled(t, s)
}

// scxBudget: a budget of one CPU is used up beside online work that comes and goes on every CPU of the
// node: where it takes the CPU of a batch task, another CPU goes on.
func scxBudget(t *lab.T) {
	conf := machine(t)
	for n := range t.Shape.Nodes {
		conf.Nodes = append(conf.Nodes, scx.Node{ID: topology.NodeID(n), Budget: 1})
	}
	s := scheduler(t, conf)
	on := t.NewGroup(lab.CgroupRoot, "on")
	off := batchHogs(t, s, t.Shape.CPUs(), tiered(t, on, workload.Online))
	for cpu := range t.Shape.CPUs() {
		bind(t, startIn(t, on, "bursts").Process.Pid, cpu)
	}
	tr := t.Trace(func() { time.Sleep(time.Second) })
	batch := t.Members(off)
	for n := range t.Shape.Nodes {
		var ran time.Duration
		full := []lab.Span{{From: tr.From, To: tr.To}} // no CPU of the node is free
		for cpu := n * t.Shape.CPUsPerNode; cpu < (n+1)*t.Shape.CPUsPerNode; cpu++ {
			ran += lab.InAll(tr.Runs(cpu, batch))
			full = lab.Meet(full, tr.Runs(cpu, func(tid int) bool { return tid != 0 && !batch(tid) }))
		}
		free := tr.To - tr.From - lab.InAll(full)
		t.Logf("node %d: batch work had %.3f CPUs; for %v of %v a CPU was free", n,
			ran.Seconds()/(tr.To-tr.From).Seconds(), free, tr.To-tr.From)
		between(t, fmt.Sprintf("node %d, a budget of 1: what batch work had of what was free", n),
			ran.Seconds()/free.Seconds(), 0.95, 1.05)
	}
	if st := stillEnabled(t, s); st.Refused.Budget == 0 || st.Refused.IdleBuffer+st.Refused.Expelled > 0 {
		t.Fatalf("%+v", st.Refused)
	}
}

// bind has a process on one CPU, with threads that it is about to start.
func bind(t *lab.T, pid, cpu int) {
	for range 2 {
		for _, tid := range lab.ThreadsOf(pid) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(cpu)))
		}
		time.Sleep(30 * time.Millisecond)
	}
}
