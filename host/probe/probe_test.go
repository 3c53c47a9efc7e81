package probe

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
	"github.com/homenode/homenode/host/probe/kernel"
)

func TestCgroupRoom(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		fsys fstest.MapFS
		want int64
	}{
		"v2, the parent is narrower": {fstest.MapFS{
			"proc/self/cgroup":               file("0::/a/b\n"),
			"sys/fs/cgroup/a/memory.max":     file("1000\n"),
			"sys/fs/cgroup/a/memory.current": file("400\n"),
			"sys/fs/cgroup/a/b/memory.max":   file("max\n"),
		}, 600},
		"v1": {fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/x\n1:cpu:/\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("5000"),
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": file("1000"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   file("9223372036854771712"),
		}, 4000},
		"none":  {fstest.MapFS{"proc/self/cgroup": file("0::/\n")}, 0},
		"empty": {fstest.MapFS{}, 0},
		"full": {fstest.MapFS{
			"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("10"), "sys/fs/cgroup/a/memory.current": file("20"),
		}, 1},
	} {
		if got := cgroupRoom(c.fsys); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestCache(t *testing.T) {
	c := Cache{Dir: t.TempDir() + "/measured"}
	if d, err := c.Cached("sha256:abc"); d != nil || err != nil {
		t.Error(d, err)
	}
	d := &measure.Document{Schema: measure.Schema, Nodes: []measure.Node{{ID: 0}}}
	d.Host.Fingerprint = "sha256:abc"
	name, err := c.Keep(d)
	if err != nil || !strings.HasSuffix(name, "/sha256-abc.json") {
		t.Fatal(name, err)
	}
	if got, err := c.Cached("sha256:abc"); err != nil || got.Host.Fingerprint != "sha256:abc" {
		t.Error(got, err)
	}
	if err := os.WriteFile(name, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Cached("sha256:abc"); err == nil {
		t.Errorf("a broken file is taken as %+v", got)
	}
	if _, err := (Cache{Dir: "/proc/nowhere"}).Keep(d); err == nil {
		t.Error("kept in /proc")
	}
}

// live is a machine to measure on, with a plan made small.
func live(t *testing.T, parts ...measure.Part) (*Machine, measure.Plan) {
	t.Helper()
	root := os.DirFS("/")
	h, err := topology.FromSysfs(root)
	if err != nil {
		t.Skip(err)
	}
	for i := range h.LLCs {
		h.LLCs[i].Size = min(h.LLCs[i].Size, 4<<10) // not a measurement of memory: small and quick
	}
	m := &Machine{Root: root, Host: h}
	plan, err := measure.MakePlan(h, measure.Request{Parts: parts, BusyOK: true, CPU: -1, Node: -1, LoadedFrom: -1, LoadedTo: -1, Points: 4, Mixes: []string{"r"}}, 256<<20)
	if err != nil {
		t.Skip(err)
	}
	plan.Buffers = plan.Buffers[:1]
	plan.Buffers[0].Bytes = min(plan.Buffers[0].Bytes, 64<<20)
	return m, plan
}

// Every part runs, gives numbers that can be, and goes through JSON.
func TestLive(t *testing.T) {
	parts := []measure.Part{measure.PartLatency, measure.PartPages, measure.PartBandwidth}
	if !testing.Short() {
		parts = append(parts, measure.PartLevels, measure.PartC2C, measure.PartLoaded)
	}
	m, plan := live(t, parts...)
	d := measure.NewDocument(m.Root, m.Host)
	var last float64
	if err := m.Run(t.Context(), plan, d, func(p float64) {
		if p < 0 || p > 1 {
			t.Errorf("progress %v", p)
		}
		last = p
	}); err != nil {
		t.Fatal(err)
	}
	if last == 0 || d.Run == nil || d.Run.Seconds <= 0 {
		t.Errorf("progress ended at %v, run %+v", last, d.Run)
	}
	if d.Latency == nil {
		t.Fatal("no latency")
	}
	v := d.Latency.Median[0][0]
	t.Logf("latency %.1f ns, %d samples, %d thrown out, pages %s, %q; notes %v", float64(v), d.Latency.Samples[0][0], d.Latency.Rejected[0][0], d.Latency.Pages, d.Latency.Flags[0][0], d.Run.Notes)
	if v.Known() && (v < 1 || v > 100_000) || !v.Known() && !strings.HasPrefix(d.Latency.Flags[0][0], "failed") {
		t.Errorf("latency %v, %q", v, d.Latency.Flags)
	}
	var b strings.Builder
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := measure.Read(strings.NewReader(b.String())); err != nil {
		t.Error(err)
	}
}

// A run that is told to stop ends soon and keeps what it has.
func TestStops(t *testing.T) {
	m, plan := live(t, measure.PartLatency, measure.PartPages, measure.PartLevels)
	ctx, cancel := context.WithCancel(t.Context())
	d := measure.NewDocument(m.Root, m.Host)
	start := time.Now()
	err := m.Run(ctx, plan, d, func(p float64) {
		if d.Latency != nil {
			cancel()
		}
	})
	cancel()
	if err != nil || !d.Run.Partial || d.Latency == nil || d.Levels != nil && len(d.Levels[0].Points) > 10 {
		t.Errorf("%v, partial %v after %v", err, d.Run.Partial, time.Since(start))
	}
}

// One that is told to stop while memory is still being made ends as soon.
func TestStopsBeforeMeasuring(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := measure.NewDocument(m.Root, m.Host)
	if err := m.Run(ctx, plan, d, nil); err != nil || !d.Run.Partial || d.Latency != nil {
		t.Errorf("%v, run %+v, latency %v", err, d.Run, d.Latency)
	}
}

func TestRefusesABusyMachine(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	m.Root = fstest.MapFS{"proc/loadavg": &fstest.MapFile{Data: []byte("99.00 1 1 1/1 1\n")}}
	plan.Request.BusyOK = false
	if err := m.Run(t.Context(), plan, &measure.Document{}, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
}

// With a stressor on another CPU and one on the very CPU that measures, the
// printed interval still meets the one taken in quiet before and after. The
// machine may have other work of its own: then both intervals are wide, and
// must still meet.
func TestIntervalUnderAStressor(t *testing.T) {
	if testing.Short() || testing.CoverMode() != "" {
		t.Skip("takes seconds")
	}
	m, plan := live(t, measure.PartLatency)
	if m.Host.Allowed.Len() < 2 {
		t.Skip("needs two CPUs")
	}
	plan.CPUs = nil
	take := func() (measure.Interval, int) {
		d := measure.NewDocument(m.Root, m.Host)
		if err := m.Run(t.Context(), plan, d, nil); err != nil {
			t.Fatal(err)
		}
		return d.Latency.CI95[0][0], d.Latency.Rejected[0][0]
	}
	before, rejectedBefore := take()
	stop := make(chan struct{})
	done := make(chan struct{})
	cpus := m.Host.Allowed.Slice()[:2]
	for _, cpu := range cpus {
		go func() {
			runtime.LockOSThread()
			defer func() { done <- struct{}{} }()
			defer numa.Kernel{}.SetAffinity(0, m.Host.Allowed)
			_ = numa.Kernel{}.SetAffinity(0, topology.CPUs(cpu))
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 5)
			for {
				select {
				case <-stop:
					return
				default:
					kernel.Spin(10_000)
				}
			}
		}()
	}
	under, rejectedUnder := take()
	close(stop)
	for range cpus {
		<-done
	}
	after, _ := take()
	t.Logf("before %.1f (%d thrown out), under load %.1f (%d thrown out), after %.1f", before, rejectedBefore, under, rejectedUnder, after)
	if !before.Known() || !under.Known() || !after.Known() {
		t.Skip("too busy: too few undisturbed samples, and so no number was given")
	}
	quiet := measure.Interval{min(before[0], after[0]), max(before[1], after[1])}
	// Neighbours of a shared cache move the truth itself by some percent between runs.
	quiet[0], quiet[1] = quiet[0]*0.97, quiet[1]*1.03
	if under.Apart(quiet) {
		t.Errorf("under load %.1f, in quiet %.1f: they do not meet", under, quiet)
	}
}

// The share of the time for which the load had CPUs is told by the threads' own clocks.
func TestStarvedLoad(t *testing.T) {
	spent := map[int]time.Duration{1: time.Second, 2: time.Second, 3: 0}
	b := burn{loaders: make([]loader, 4), clock: func(tid int) (time.Duration, error) {
		if tid == 3 {
			return 0, errors.New("no such thread")
		}
		return spent[tid], nil
	}}
	for i, tid := range []int64{1, 2, 3, -1} {
		b.loaders[i].tid.Store(tid)
	}
	before := b.spent()
	spent[1] += 100 * time.Millisecond
	spent[2] += 60 * time.Millisecond
	if ran := b.ran(before, 100*time.Millisecond); math.Abs(ran-0.8) > 1e-9 {
		t.Errorf("ran %v of the time, want 0.8", ran)
	}
	if ran := (&burn{b.clock, b.loaders[2:]}).ran([]time.Duration{-1, -1}, time.Second); ran != 0 {
		t.Errorf("without a clock it ran %v", ran)
	}
	b.loaders[1].tid.Store(0) // never got to its CPU
	if ran := (&burn{b.clock, b.loaders[1:2]}).ran([]time.Duration{0}, time.Second); ran <= 0 || ran > 0.01 {
		t.Errorf("what never began ran %v of the time", ran)
	}

	var l measure.Loaded
	point := func(ns, ran float64) measure.LoadedPoint {
		return measure.LoadedPoint{Gap: 20, NS: measure.Value(ns), MBps: 1, Ran: ran}
	}
	for _, tt := range []struct {
		p    measure.LoadedPoint
		done bool
		ns   measure.Value // what stands afterwards
		flag string
	}{
		{point(100, 0.5), false, 100, "~"},
		{point(110, 0.4), false, 100, "~"},
		{point(120, 0.8), false, 120, "~"},
		{point(130, 0.95), true, 130, ""},
	} {
		if done := keepPoint(&l, tt.p); done != tt.done || len(l.Points) != 1 || l.Points[0].NS != tt.ns || l.Points[0].Flag != tt.flag {
			t.Errorf("after %+v: done %v, %+v", tt.p, done, l.Points)
		}
	}
	if !keepPoint(&l, measure.LoadedPoint{Gap: -1, NS: 80}) || len(l.Points) != 2 {
		t.Errorf("without load nothing can be starved: %+v", l.Points)
	}
}

// The kernel's clock of a thread goes on while it works and stands while it sleeps.
func TestThreadClock(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	a, err := threadClock(tid)
	if err != nil {
		t.Fatal(err)
	}
	for began := a; ; {
		if b, err := threadClock(tid); err != nil {
			t.Fatal(err)
		} else if b > began {
			break
		}
	}
	before, _ := threadClock(tid)
	time.Sleep(50 * time.Millisecond)
	if after, _ := threadClock(tid); after-before > 40*time.Millisecond {
		t.Errorf("asleep for 50 ms it used %v", after-before)
	}
	if _, err := threadClock(1 << 22); err == nil {
		t.Error("a thread that does not exist has a clock")
	}
}
