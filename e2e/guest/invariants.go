//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/scx"
)

func init() {
	tests["scx.waits"] = scxWaits
	tests["scx.beside"] = scxBeside
	tests["scx.idle"] = scxIdle
	tests["scx.together"] = scxTogether
	tests["scx.budget"] = scxBudget
}

// atMost fails where a time is longer than it may be.
func (t *T) atMost(what string, took, most time.Duration) {
	if took > most {
		t.Fatalf("%s: %v, at most %v", what, took, most)
	}
	t.Logf("%s: %v, at most %v", what, took, most)
}

// scxWaits: no batch task runs on a CPU while online work that may run there waits for it. On
// all but the last CPU some always does, so that from Linux 7.0 on the kernel asks the scheduler all the same.
// (But for the guard, which is left out here.)
func scxWaits(t *T) {
	conf := t.machine()
	conf.NoGuard, conf.Timeout = true, 0
	s := t.scheduler(conf)
	on := t.newGroup(cgroupRoot, "on")
	t.batchHogs(s, t.shape.CPUs()+2, t.tier(on, workload.Online))
	groups := make([]group, t.shape.CPUs())
	for cpu := range groups {
		groups[cpu] = t.newGroup(on, strconv.Itoa(cpu))
		c := t.in(groups[cpu], "bursts")
		t.bind(c.Process.Pid, cpu)
	}
	last := t.shape.CPUs() - 1
	for cpu := range last {
		t.bind(t.in(groups[cpu], "hog", "1").Process.Pid, cpu)
	}
	off := group(cgroupRoot + "/off")
	tr := t.trace(func() { time.Sleep(2 * time.Second) })
	batch := t.members(off)
	most, waited := time.Duration(0), 0
	for cpu, g := range groups {
		ran := tr.runs(cpu, batch)
		for _, f := range strings.Fields(readText(g.file("cgroup.threads"))) {
			tid, _ := strconv.Atoi(f)
			waits := tr.waits(tid)
			waited += len(waits)
			most = max(most, longest(meet(waits, ran)))
		}
		if cpu == last && inAll(ran) < 500*time.Millisecond {
			t.Fatalf("batch work had %v of CPU %d: nothing was there to give way", inAll(ran), cpu)
		}
	}
	if waited < 500 {
		t.Fatalf("online work waited %d times only", waited)
	}
	st := t.stillEnabled(s)
	t.Logf("online work waited %d times; %+v", waited, st.Refused)
	t.atMost("batch work ran on while online work waited for its CPU", most, time.Millisecond)
}

// scxBeside: when online-strict work begins, batch work leaves the sibling, and none begins there;
// the scheduler's own counts say the same as the tracer. A change of tiers holds at once.
func scxBeside(t *T) {
	s := t.scheduler(t.machine())
	strict := t.newGroup(cgroupRoot, "strict")
	tier := t.tier(strict, workload.OnlineStrict)
	off := t.batchHogs(s, t.shape.CPUs(), tier)
	var bursts []*exec.Cmd
	for cpu := 0; cpu < t.shape.CPUs(); cpu += 2 {
		c := t.in(strict, "bursts")
		t.bind(c.Process.Pid, cpu)
		bursts = append(bursts, c)
	}
	time.Sleep(200 * time.Millisecond)
	var before, st scx.Stats
	tr := t.trace(func() {
		before = t.counters(s)
		time.Sleep(time.Second)
		st = t.stillEnabled(s)
	})
	isStrict, isBatch := t.members(strict), t.members(off)
	var beside []span
	begun := 0
	for cpu := range t.shape.CPUs() {
		ran, sibling := tr.runs(cpu, isStrict), tr.runs(cpu^1, isBatch)
		both := meet(ran, sibling)
		beside = append(beside, both...)
		for _, b := range both {
			for _, r := range ran {
				// A batch task that was chosen before, and is on its CPU a moment later, is none.
				if r.from < b.from-300*time.Microsecond && b.from < r.to {
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
	t.Logf("online-strict work began %d times, batch work was beside it %d times, %v in all; counted %d", starts, len(beside), inAll(beside), counted)
	if starts < 250 || len(beside) < 100 {
		t.Fatalf("too few to tell")
	}
	if begun > 0 {
		t.Fatalf("%d times batch work began beside online-strict work that ran already", begun)
	}
	t.atMost("beside online-strict work, 99 of 100", within(beside, 99), 500*time.Microsecond)
	t.atMost("beside online-strict work, the longest", longest(beside), 4*time.Millisecond)
	if long*100 > counted {
		t.Fatalf("%d of %d times batch work ran beside online-strict work for more than half a millisecond", long, counted)
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
	t.bind(os.Getpid(), t.shape.CPUs()-1)
	t.Do(s.SetTiers([]scx.Cgroup{t.tier(strict, workload.Online), t.tier(off, workload.BatchTier)}))
	hog := t.in(strict, "hog", "1")
	t.bind(hog.Process.Pid, 0)
	for _, tid := range threadsOf(hog.Process.Pid) {
		if statFields(tid)[0] != "R" {
			t.Do(setAffinity(tid, setOf(2)))
		}
	}
	time.Sleep(100 * time.Millisecond)
	var called, set time.Duration
	tr = t.trace(func() {
		time.Sleep(20 * time.Millisecond)
		called = time.Duration(monotonic())
		t.Do(s.SetTiers([]scx.Cgroup{tier, t.tier(off, workload.BatchTier)}))
		set = time.Duration(monotonic())
		time.Sleep(100 * time.Millisecond)
	})
	late, was := set, false
	for _, r := range tr.runs(1, isBatch) {
		late, was = max(late, r.to), was || r.from < called && called < r.to+time.Millisecond // the kernel's own threads come by
	}
	if !was {
		t.Fatalf("no batch work was beside it: %s", tr.around(span{called, set}))
	}
	t.Logf("the call took %v", set-called)
	t.atMost("beside what has become online-strict, after the call", late-set, time.Millisecond)
}

// scxIdle: no CPU is idle for a millisecond while batch work waits that may run there, unless a
// reason for it is counted; it stays on its nodes, and within the budget.
func scxIdle(t *T) {
	conf := t.machine()
	s := t.scheduler(conf)
	on := t.newGroup(cgroupRoot, "on")
	off := t.batchHogs(s, 1, t.tier(on, workload.Online))
	for cpu := range t.shape.CPUs() {
		t.bind(t.in(on, "bursts").Process.Pid, cpu)
		t.in(off, "bursts") // comes and goes, so that CPUs are idle in between
	}
	time.Sleep(100 * time.Millisecond)
	t.switched(off)
	idle := func(tr *trace, cpus ...int) (most time.Duration) {
		var free [][]span
		for _, cpu := range cpus {
			free = append(free, tr.runs(cpu, func(tid int) bool { return tid == 0 }))
		}
		for _, f := range strings.Fields(readText(off.file("cgroup.threads"))) {
			waits := tr.waits(leading(f))
			for _, spans := range free {
				most = max(most, longest(meet(waits, spans)))
			}
		}
		return most
	}
	var all []int
	for cpu := range t.shape.CPUs() {
		all = append(all, cpu)
	}
	tr := t.trace(func() { time.Sleep(time.Second) })
	st := t.stillEnabled(s)
	if r := st.Refused; r.Expelled+r.Budget+r.IdleBuffer+r.Nodes > 0 {
		t.Fatalf("refused without a reason: %+v", r)
	}
	t.atMost("a CPU was idle while batch work waited", idle(tr, all...), time.Millisecond)

	// On the last node alone, and more of it than has room there.
	t.in(off, "hog", strconv.Itoa(t.shape.CPUs()))
	time.Sleep(100 * time.Millisecond)
	t.switched(off)
	last := t.shape.Nodes - 1
	theirs := all[last*t.shape.CPUsPerNode:]
	t.Do(s.SetTiers([]scx.Cgroup{t.tier(on, workload.Online), t.tier(off, workload.BatchTier, topology.NodeID(last))}))
	time.Sleep(50 * time.Millisecond)
	before := t.counters(s)
	tr = t.trace(func() {
		time.Sleep(time.Second)
		st = t.stillEnabled(s)
	})
	batch := t.members(off)
	for _, cpu := range all[:last*t.shape.CPUsPerNode] {
		if n := tr.starts(cpu, batch); n > 0 {
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
	t.atMost(fmt.Sprintf("a CPU of node %d was idle while its batch work waited", last), idle(tr, theirs...), time.Millisecond)

	t.write(on.file("cgroup.kill"), "1")
	// A budget.
	t.Do(s.SetTiers([]scx.Cgroup{t.tier(on, workload.Online), t.tier(off, workload.BatchTier)}))
	for _, budget := range []float64{1, 0.5} {
		conf.Nodes = nil
		for n := range t.shape.Nodes {
			conf.Nodes = append(conf.Nodes, scx.Node{ID: topology.NodeID(n), Budget: budget})
		}
		t.Do(s.Set(conf))
		time.Sleep(100 * time.Millisecond)
		before = t.counters(s)
		tr = t.trace(func() {
			time.Sleep(time.Second)
			st = t.stillEnabled(s)
		})
		if st.Refused.Budget == before.Refused.Budget {
			t.Fatalf("no refusal is counted: %+v", st.Refused)
		}
		for n := range t.shape.Nodes {
			var ran, both time.Duration
			for cpu := n * t.shape.CPUsPerNode; cpu < (n+1)*t.shape.CPUsPerNode; cpu++ {
				ran += inAll(tr.runs(cpu, batch))
				for other := n * t.shape.CPUsPerNode; other < cpu; other++ {
					both += inAll(meet(tr.runs(cpu, batch), tr.runs(other, batch)))
				}
			}
			length := (tr.to - tr.from).Seconds()
			t.between(fmt.Sprintf("budget %.1f: CPUs of node %d", budget, n), ran.Seconds()/length, 0.9*budget, 1.05*budget)
			t.between(fmt.Sprintf("budget %.1f: two CPUs of node %d at a time", budget, n), both.Seconds()/length, 0, 0.05)
		}
	}
}

// scxTogether: threads that ran last on one CPU wake at the same moment, with all CPUs idle: each has a
// CPU at once, batch work or not.
func scxTogether(t *T) {
	s := t.scheduler(t.machine())
	off := t.newGroup(cgroupRoot, "off")
	tier := t.tier(off, workload.BatchTier)
	t.Do(s.SetTiers([]scx.Cgroup{tier}))
	t.in(off, "together", strconv.Itoa(t.shape.CPUs()))
	time.Sleep(100 * time.Millisecond)
	t.switched(off)
	for _, one := range []struct {
		what  string
		tiers []scx.Cgroup
	}{{"batch threads", []scx.Cgroup{tier}}, {"threads that are not batch work", nil}} {
		t.Do(s.SetTiers(one.tiers))
		time.Sleep(2 * togetherEvery)
		tr := t.trace(func() { time.Sleep(20 * togetherEvery) })
		var waits []span
		for _, f := range strings.Fields(readText(off.file("cgroup.threads"))) {
			for _, w := range tr.waits(leading(f)) {
				if w.from%togetherEvery < time.Millisecond { // not those that wait for CPU 0
					waits = append(waits, w)
				}
			}
		}
		if len(waits) < 15*t.shape.CPUs() {
			t.Fatalf("%s: %d wake-ups only", one.what, len(waits))
		}
		var most time.Duration
		for cpu := range t.shape.CPUs() {
			idle := tr.runs(cpu, func(tid int) bool { return tid == 0 })
			for _, w := range waits {
				long := longest(meet([]span{w}, idle))
				if most = max(most, long); long > time.Millisecond {
					t.Logf("CPU %d was idle for %v; %s", cpu, long, tr.around(w))
				}
			}
		}
		t.Logf("%s: of %d waits 99 of 100 within %v", one.what, len(waits), within(waits, 99))
		t.atMost(one.what+" waited while a CPU was idle", most, time.Millisecond)
	}
	t.stillEnabled(s)
}

// scxBudget: a budget of one CPU is used up beside online work that comes and goes on every CPU of the
// node: where it takes the CPU of a batch task, another CPU goes on.
func scxBudget(t *T) {
	conf := t.machine()
	for n := range t.shape.Nodes {
		conf.Nodes = append(conf.Nodes, scx.Node{ID: topology.NodeID(n), Budget: 1})
	}
	s := t.scheduler(conf)
	on := t.newGroup(cgroupRoot, "on")
	off := t.batchHogs(s, t.shape.CPUs(), t.tier(on, workload.Online))
	for cpu := range t.shape.CPUs() {
		t.bind(t.in(on, "bursts").Process.Pid, cpu)
	}
	tr := t.trace(func() { time.Sleep(time.Second) })
	batch := t.members(off)
	for n := range t.shape.Nodes {
		var ran time.Duration
		full := []span{{tr.from, tr.to}} // no CPU of the node is free
		for cpu := n * t.shape.CPUsPerNode; cpu < (n+1)*t.shape.CPUsPerNode; cpu++ {
			ran += inAll(tr.runs(cpu, batch))
			full = meet(full, tr.runs(cpu, func(tid int) bool { return tid != 0 && !batch(tid) }))
		}
		free := tr.to - tr.from - inAll(full)
		t.Logf("node %d: batch work had %.3f CPUs; for %v of %v a CPU was free", n, ran.Seconds()/(tr.to-tr.from).Seconds(), free, tr.to-tr.from)
		t.between(fmt.Sprintf("node %d, a budget of 1: what batch work had of what was free", n), ran.Seconds()/free.Seconds(), 0.95, 1.05)
	}
	if st := t.stillEnabled(s); st.Refused.Budget == 0 || st.Refused.IdleBuffer+st.Refused.Expelled > 0 {
		t.Fatalf("%+v", st.Refused)
	}
}

// bind has a process on one CPU, with threads that it is about to start.
func (t *T) bind(pid, cpu int) {
	for range 2 {
		for _, tid := range threadsOf(pid) {
			t.Do(setAffinity(tid, setOf(cpu)))
		}
		time.Sleep(30 * time.Millisecond)
	}
}
