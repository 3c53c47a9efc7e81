//go:build linux

package share

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const (
	stepThreads = 4 // of 6 CPUs
	stepPeriod  = 50 * time.Millisecond
	stepCount   = 100
	stepTraced  = 40    // more, whose wake-ups are looked at one by one
	stepTurns   = 10000 // about 2 ms where few CPUs are busy
)

// shareStep measures how soon online work has the CPUs that it needs when its load rises: four threads wake at the
// same moment, as in the experiment of Caladan (Fried and others, OSDI 2020, section 7.3), and each counts from then
// until it runs. Batch work wants all CPUs. A part of that time is no batch work's fault: two online threads may wake
// on one CPU. So the tracer shows, too, for how long batch work runs on while online work waits for its CPU: the time
// to yield.
func shareStep(t *lab.T) {
	quiet()
	mountBPF(t)
	p99, yield := map[string]int64{}, map[string]int64{}
	for i, c := range []tollCase{tollAlone, tollBeside, tollWeight, tollBase, tollKernel} {
		x, why := runStep(t, c, i+1)
		if why != "" {
			t.LogLines(c.name+" is not to be had", why, 20)
			continue
		}
		t.Logf("STEP,%s,%d,%d,%d,%d,%.2f",
			c.name, x.late.at(50), x.late.at(90), x.late.at(99), x.late.at(100), x.batch)
		t.Logf("YIELD,%s,%d,%d,%d,%d,%d", c.name, len(x.yields), x.yields.at(50), x.yields.at(90), x.yields.at(99),
			x.yields.at(100))
		p99[c.name], yield[c.name] = x.late.at(99), x.yields.at(99)
	}
	base, beside := p99[tollBase.name], p99[tollBeside.name]
	if base > 5000 || base >= beside {
		t.Fatalf("99 of 100 threads ran within %d µs with homenode, want 5,000 at most and less than the %d with "+
			"nothing done",
			base, beside)
	}
	t.Textf(
		"99 of 100 threads ran within %d µs with nothing done, %d with weights, %d with homenode, %d with sched_ext; "+
			"batch work yielded within %d, %d, %d and %d µs",
		beside, p99[tollWeight.name], base, p99[tollKernel.name], yield[tollBeside.name], yield[tollWeight.name],
		yield[tollBase.name], yield[tollKernel.name])
}

// steps is what a case of shareStep counted.
type steps struct {
	late   spread  // how late the threads ran
	batch  float64 // CPUs that batch work kept busy meanwhile
	yields spread  // how long batch work ran on where online work waited, each time
}

// runStep runs one case, or returns why this kernel lacks it.
func runStep(t *lab.T, c tollCase, tag int) (x steps, why string) {
	s := &tollSetup{t: t, hogs: c.hogs}
	s.online = t.NewGroup(lab.CgroupRoot, "online"+strconv.Itoa(tag))
	s.batch = t.NewGroup(lab.CgroupRoot, "batch"+strconv.Itoa(tag))
	before := len(t.Cleanups)
	c.begin(s)
	if s.why == "" {
		start, at := time.Now(), s.ran()
		x.late = s.step(stepCount, nil)
		x.batch = (s.ran() - at).Seconds() / time.Since(start).Seconds()
		x.yields = s.yields()
	}
	for _, undo := range slices.Backward(t.Cleanups[before:]) {
		undo()
	}
	t.Cleanups = t.Cleanups[:before]
	lab.FreshState()
	return x, s.why
}

// step has the threads wake so often, and returns how late they ran. meanwhile is called while they run, unless it is
// nil.
func (s *tollSetup) step(count int, meanwhile func()) spread {
	file := filepath.Join(lab.WorkFolder, "late")
	p := tollProgram("step", "step", strconv.Itoa(stepThreads), strconv.FormatInt(int64(stepPeriod), 10),
		strconv.Itoa(count), strconv.Itoa(stepTurns), file)
	startToll(s.t, s.online, p)
	if meanwhile != nil {
		meanwhile()
	}
	s.t.Do(p.Wait())
	b, err := os.ReadFile(file)
	s.t.Do(err)
	late := spreadOf(b)
	if len(late) != stepThreads*count {
		s.t.Fatalf("%d of %d wake-ups were counted", len(late), stepThreads*count)
	}
	return late
}

// yields has the threads wake and returns for how long batch work ran on each time when one of them waited for its
// CPU.
func (s *tollSetup) yields() (all spread) {
	var online []string
	tr := s.t.Trace(func() {
		s.step(stepTraced, func() {
			time.Sleep(4 * stepPeriod)
			online = strings.Fields(lab.ReadText(s.online.File("cgroup.threads")))
		})
	})
	isBatch := s.t.Members(s.batch)
	for _, f := range online {
		tid, err := strconv.Atoi(f)
		s.t.Do(err)
		for cpu, waits := range tr.Counted(tid, s.t.Shape.CPUs()) {
			for _, span := range lab.Meet(waits, tr.Runs(cpu, isBatch)) {
				all = append(all, int64(span.Long()))
			}
		}
	}
	slices.Sort(all)
	return all
}

// nextScan waits until the daemon has scanned once more.
func nextScan(t *lab.T) {
	before := t.Status().Time
	t.Poll(30*time.Second, 200*time.Millisecond, "another scan", func() (bool, string) {
		now := t.Status().Time
		return now.After(before), now.String()
	})
}

// shareTrigger measures how soon homenode takes CPUs from batch work when online work begins to wait for some. The
// daemon has the capabilities of the service, and its next scan is due in ten seconds.
func shareTrigger(t *lab.T) {
	quiet()
	s := &tollSetup{t: t, hogs: 6}
	s.online, s.batch = t.NewGroup(lab.CgroupRoot, "online"), t.NewGroup(lab.CgroupRoot, "batch")
	h := tollProgram("hog", "hog", "6")
	startToll(t, s.batch, h)
	t.Defer(func() {
		h.Process.Kill()
		h.Wait()
	})
	quiet := tollProgram("idle", "clock", strconv.FormatInt(int64(100*time.Millisecond), 10), "10000",
		filepath.Join(lab.WorkFolder, "late"))
	startToll(t, s.online, quiet) // so that the group is known, and has a trigger
	t.Defer(func() {
		quiet.Process.Kill()
		quiet.Wait()
	})
	s.period, s.wrap = "10s", []string{lab.Self, "as-service"}
	s.share("off")
	for range 2 { // the second scan sets triggers for what the first one saw
		nextScan(t)
	}
	cpus := func() string {
		return lab.ReadText(s.batch.File("cpuset.cpus.effective")) + lab.ReadText(s.batch.File("cpu.max"))
	}
	had := cpus()
	begun := time.Now()
	load := tollProgram("load", "hog", "8")
	startToll(t, s.online, load)
	t.Defer(func() {
		load.Process.Kill()
		load.Wait()
	})
	for cpus() == had {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("batch work has %s 20 s after online work wanted all CPUs", had)
		}
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(begun)
	t.Textf("%d ms after online work wanted all CPUs batch work had fewer", took.Milliseconds())
	t.Logf("TRIGGER,%d", took.Milliseconds())
	if took > 1500*time.Millisecond {
		t.Fatalf("batch work had fewer CPUs after %v only: no trigger woke the daemon", took)
	}
}
