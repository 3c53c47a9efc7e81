//go:build linux

package share

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const (
	stepThreads = 4 // of 6 CPUs
	stepPeriod  = 50 * time.Millisecond
	stepCount   = 100
	stepTurns   = 5000 // about 2 ms where few CPUs are busy
)

// shareStep measures how soon online work has the CPUs that it needs when its load rises: four threads wake at the
// same moment, as in the experiment of Caladan (Fried and others, OSDI 2020, section 7.3), and each counts from then
// until it runs. Batch work wants all CPUs.
func shareStep(t *lab.T) {
	quiet()
	mountBPF(t)
	p99 := map[string]int64{}
	for i, c := range []tollCase{tollAlone, tollBeside, tollWeight, tollBase, tollKernel} {
		late, batch, why := runStep(t, c, i+1)
		if why != "" {
			t.LogLines(c.name+" is not to be had", why, 20)
			continue
		}
		t.Logf("STEP,%s,%d,%d,%d,%d,%.2f",
			c.name, late.at(50), late.at(90), late.at(99), late.at(100), batch)
		p99[c.name] = late.at(99)
	}
	base, beside := p99[tollBase.name], p99[tollBeside.name]
	if base > 5000 || base >= beside {
		t.Fatalf("99 of 100 threads ran within %d µs with homenode, want 5,000 at most and less than the %d with "+
			"nothing done",
			base, beside)
	}
	t.Textf(
		"99 of 100 threads ran within %d µs with nothing done, %d with weights, %d with homenode, %d with sched_ext",
		beside, p99[tollWeight.name], base, p99[tollKernel.name])
}

// runStep runs one case, and returns how late the threads ran and how many CPUs batch work kept busy meanwhile.
func runStep(t *lab.T, c tollCase, tag int) (late spread, batch float64, why string) {
	s := &tollSetup{t: t, hogs: c.hogs}
	s.online = t.NewGroup(lab.CgroupRoot, "online"+strconv.Itoa(tag))
	s.batch = t.NewGroup(lab.CgroupRoot, "batch"+strconv.Itoa(tag))
	before := len(t.Cleanups)
	c.begin(s)
	if s.why == "" {
		file := filepath.Join(lab.WorkFolder, "late")
		p := tollProgram("step", "step", strconv.Itoa(stepThreads), strconv.FormatInt(int64(stepPeriod), 10),
			strconv.Itoa(stepCount), strconv.Itoa(stepTurns), file)
		start, at := time.Now(), s.ran()
		startToll(t, s.online, p)
		t.Do(p.Wait())
		batch = (s.ran() - at).Seconds() / time.Since(start).Seconds()
		b, err := os.ReadFile(file)
		t.Do(err)
		if late = spreadOf(b); len(late) != stepThreads*stepCount {
			t.Fatalf("%s: %d of %d wake-ups were counted", c.name, len(late), stepThreads*stepCount)
		}
	}
	for _, undo := range slices.Backward(t.Cleanups[before:]) {
		undo()
	}
	t.Cleanups = t.Cleanups[:before]
	lab.FreshState()
	return late, batch, s.why
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
