package balance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

const gib = topology.KiB(1 << 20)

// bench is a host on which all that is decided comes true at once.
type bench struct {
	t      testing.TB
	in     Input
	memory History
	out    Outcome
}

func newBench(t testing.TB, host string) *bench {
	t.Helper()
	h, err := topology.FromSynthetic(host)
	if err != nil {
		t.Fatal(err)
	}
	for i := range h.Nodes {
		h.Nodes[i].Free = h.Nodes[i].Memory
	}
	return &bench{t: t, in: Input{At: epoch, State: plan.State{Host: h, Policy: plan.DefaultPolicy()}, Settings: DefaultSettings(),
		Arrange: arrange.Options{MoveBandwidth: 256 << 20}}}
}

// two is two nodes of eight cores and 16 GiB.
func two(t testing.TB) *bench { return newBench(t, "package:2 node:1(memory=16GiB) core:8") }

// run puts a workload at home on one node.
func (b *bench) run(id string, node topology.NodeID, use float64, mem topology.KiB, edit ...func(*place.Subject)) {
	h := b.in.State.Host
	k := slices.IndexFunc(h.Nodes, func(n topology.Node) bool { return n.ID == node })
	o := workload.Observation{ID: workload.ID(id), Name: id, Kind: workload.InCgroup, Cgroup: id, Threads: 64, CPUUse: use,
		RanOn: []workload.NodeShare{{Node: node, Share: 1}}, Memory: []workload.NodeMemory{{Node: node, KiB: mem}}, CPUs: h.Nodes[k].CPUs, Mems: h.AllowedMems}
	h.Nodes[k].Free -= mem
	s := &place.Subject{Observation: o, Spec: demand.SpecFrom(o)}
	for _, f := range edit {
		f(s)
	}
	b.in.Subjects = append(b.in.Subjects, s)
	p := plan.Placement{Workload: o.ID, Class: s.Spec.Class, Importance: s.Spec.Importance, VCPUs: s.Spec.CPUs, Home: topology.Nodes(node),
		CPUs: o.CPUs, Memory: []workload.NodeMemory{{Node: node, KiB: s.Spec.Memory}}, Asked: s.Spec.Memory}
	if p.Class == workload.Dedicated {
		p.Pins = p.CPUs.Slice()[:p.VCPUs]
		p.CPUs = topology.CPUs(p.Pins...)
		b.in.Subjects[len(b.in.Subjects)-1].Observation.CPUs = p.CPUs
	}
	if s.Alone.None() && !o.Pinned {
		b.in.State.Placements = append(b.in.State.Placements, p)
	}
}

func class(c workload.Class) func(*place.Subject) {
	return func(s *place.Subject) { s.Spec.Class, s.Spec.CPUs, s.Spec.Given = c, 2, true }
}

func important(i int) func(*place.Subject) {
	return func(s *place.Subject) { s.Spec.Importance = i }
}

// tick decides once; homes change, and threads and memory with them.
func (b *bench) tick() *Report {
	b.t.Helper()
	b.out, b.memory = Tick(b.in, b.memory)
	for _, v := range plan.CheckPlan(b.in.State, b.out.Plan) {
		b.t.Fatalf("%s: %s", v.Code, v.Text)
	}
	b.in.At = b.in.At.Add(2 * time.Second)
	b.in.State.Placements = b.out.Plan.Placements
	for i := range b.in.Subjects {
		o := &b.in.Subjects[i].Observation
		k := slices.IndexFunc(b.out.Plan.Placements, func(p plan.Placement) bool { return p.Workload == o.ID })
		if k < 0 || b.out.Report.State != Moves {
			continue
		}
		p := &b.out.Plan.Placements[k]
		o.CPUs, o.RanOn = p.CPUs, nil
		for n := range p.Home.All() {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: n, Share: 1 / float64(p.Home.Len())})
		}
		if p.Home.Len() == 1 {
			o.Memory = []workload.NodeMemory{{Node: p.Home.Min(), KiB: workload.Total(o.Memory)}}
		}
	}
	return &b.out.Report
}

// until ticks until something is chosen, at most a minute.
func (b *bench) until() *Report {
	b.t.Helper()
	for range 30 {
		if r := b.tick(); r.Chosen != nil {
			return r
		}
	}
	return &b.out.Report
}

func brief(r *Report) string {
	if r.Chosen != nil {
		var homes []string
		for _, c := range r.Chosen.Changes {
			homes = append(homes, fmt.Sprintf("%s %s>%s", c.Workload, c.From, c.To))
		}
		return string(r.Chosen.Kind) + " " + strings.Join(homes, ", ")
	}
	return string(r.State)
}

func TestDecisions(t *testing.T) {
	tests := []struct {
		name  string
		setup func(b *bench)
		want  string       // what is chosen, or the state
		why   words.Reason // part of the report or of a rejection
	}{
		{"calm", func(b *bench) {
			b.run("a", 0, 5, gib)
			b.run("b", 1, 1, gib)
		}, "in order", words.Because(words.Balanced, 5.0, 8, 0, 1.0, 8, 1, 0.03)},
		{"both full alike", func(b *bench) {
			for i := range 4 {
				b.run(fmt.Sprint("a", i), topology.NodeID(i%2), 5, gib)
			}
		}, "in order", words.Because(words.Balanced)},
		{"one node crowded", func(b *bench) {
			b.run("a", 0, 5, gib)
			b.run("b", 0, 5, 4*gib)
			b.run("c", 1, 1, gib)
		}, "move a 0>1", words.Because(words.ShortOfCPU, 0, 12.5, 8, 8.0, words.Reasons(words.Because(words.LeastBusy, 1, 1.0, 8)))},
		{"the important one stays", func(b *bench) {
			b.run("a", 0, 5, gib, important(90))
			b.run("b", 0, 5, 4*gib)
			b.run("c", 1, 1, gib)
		}, "move b 0>1", words.Because(words.KeptIdle)},
		{"the reserve alone crowds", func(b *bench) {
			b.run("a", 0, 5, gib, important(100))
			b.run("b", 0, 2, gib)
			b.run("c", 1, 1, gib)
		}, "move b 0>1", words.Because(words.KeptIdle, 2.5)},
		{"only the important one can go", func(b *bench) {
			b.run("a", 0, 5, gib, important(90))
			b.run("b", 0, 5, gib, func(s *place.Subject) { s.Spec.Nodes = topology.Nodes(0) })
			b.run("c", 1, 1, gib)
		}, "move a 0>1", words.Reason{}},
		{"dedicated work stays", func(b *bench) {
			b.run("a", 0, 2, gib, class(workload.Dedicated))
			b.run("b", 0, 8, gib, func(s *place.Subject) { s.Spec.Nodes = topology.Nodes(0) })
			b.run("c", 1, 1, gib)
		}, "no choice", words.Reason{}},
		{"pinned work stays", func(b *bench) {
			b.run("a", 0, 5, gib, func(s *place.Subject) { s.Observation.Pinned = true })
			b.run("b", 0, 5, gib, func(s *place.Subject) { s.Observation.OwnPolicy = "bind:0" })
			b.run("c", 1, 1, gib)
		}, "no choice", words.Because(words.OwnPolicy, "bind:0")},
		{"undone work stays", func(b *bench) {
			b.run("a", 0, 5, gib)
			b.run("b", 0, 5, gib)
			b.run("c", 1, 1, gib)
			b.in.HeldAll = true
		}, "no choice", words.Because(words.Held)},
		{"a swap, for memory is full", func(b *bench) {
			b.run("a", 0, 6, 7*gib)
			b.run("b", 0, 5, 7*gib)
			b.run("c", 1, 1, 7*gib)
			b.run("d", 1, 1, 7*gib)
		}, "swap", words.Because(words.ChangeSaves)},
		{"memory is short", func(b *bench) {
			b.run("a", 0, 2, 12*gib)
			b.run("b", 0, 1, 4*gib-200<<10)
			b.run("c", 1, 1, gib)
		}, "move b 0>1", words.Because(words.ShortOfMemory)},
		{"bandwidth, counted", func(b *bench) {
			for i := range 2 {
				b.run(fmt.Sprint("a", i), 0, 1, gib, func(s *place.Subject) { s.Observation.Bandwidth = 60_000 })
			}
			b.run("b", 1, 1, gib)
		}, "move a0 0>1", words.Because(words.ShortOfBandwidth, 0, 120000, 150000, 0.8, words.Because(words.Counted))},
		{"bandwidth, counted at the node", func(b *bench) {
			for i := range 2 {
				b.run(fmt.Sprint("a", i), 0, 3, gib)
			}
			b.run("b", 1, 1, gib)
			b.in.Traffic = []int64{105_000, 5_000}
		}, "move a0 0>1", words.Because(words.ShortOfBandwidth, 0, 105000, 150000, 0.7, words.Because(words.CountedAtNode))},
		{"bandwidth, counted at the node: less than its work is thought to bring", func(b *bench) {
			for i := range 2 {
				b.run(fmt.Sprint("a", i), 0, 1, gib, func(s *place.Subject) { s.Observation.Bandwidth = 60_000 })
			}
			b.run("b", 1, 1, gib)
			b.in.Traffic = []int64{40_000, 1_000}
		}, "in order", words.Reason{}},
		{"far by residence, near by counters", func(b *bench) {
			b.run("a", 0, 3, gib)
			b.in.Subjects[0].Observation.Memory = []workload.NodeMemory{{Node: 1, KiB: gib}}
			b.in.Subjects[0].Observation.Accesses = workload.Accesses{From: workload.Counters, Local: 0.95, PerSecond: 5e7}
			b.in.Flights = []Flight{{Workload: "a", To: topology.Nodes(0), PutOff: words.Plain("busy or pinned.")}}
		}, "in order", words.Reason{}},
		{"far by residence, too few reads counted to matter", func(b *bench) {
			b.run("a", 0, 3, gib)
			b.in.Subjects[0].Observation.Memory = []workload.NodeMemory{{Node: 1, KiB: gib}}
			b.in.Subjects[0].Observation.Accesses = workload.Accesses{From: workload.Counters, Local: 0, PerSecond: 1e5}
			b.in.Flights = []Flight{{Workload: "a", To: topology.Nodes(0), PutOff: words.Plain("busy or pinned.")}}
		}, "in order", words.Reason{}},
		{"memory that does not follow: the CPUs go to it", func(b *bench) {
			b.run("a", 0, 3, gib)
			b.in.Subjects[0].Observation.Memory = []workload.NodeMemory{{Node: 1, KiB: gib}}
			b.in.Flights = []Flight{{Workload: "a", To: topology.Nodes(0), PutOff: words.Plain("busy or pinned.")}}
		}, "move a 0>1", words.Because(words.FarFromMemory)},
		{"memory on its way home is waited for", func(b *bench) {
			b.run("a", 0, 3, gib)
			b.in.Subjects[0].Observation.Memory = []workload.NodeMemory{{Node: 1, KiB: gib}}
			b.in.Flights = []Flight{{Workload: "a", To: topology.Nodes(0)}}
		}, "in order", words.Reason{}},
		{"one move at a time between two nodes", func(b *bench) {
			b.run("a", 0, 5, gib)
			b.run("b", 0, 5, gib)
			b.run("c", 1, 1, gib)
			b.in.Subjects[2].Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}}
			b.in.Flights = []Flight{{Workload: "c", To: topology.Nodes(1)}}
		}, "no choice", words.Because(words.PairBusy, "c", 0, 1)},
		{"too much memory for what it saves", func(b *bench) {
			b.run("a", 0, 8.2, 14*gib)
			b.run("c", 1, 7, gib)
			b.in.Settings.Horizon = 10 * time.Second
		}, "no choice", words.Reason{}},
		{"near a device", func(b *bench) {
			b.in.State.Host.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:01.0", Node: 0}}
			near := func(s *place.Subject) { s.Spec.Near = []workload.Near{{Device: "eth0", Weight: 2}} }
			b.run("a", 0, 5, gib, near)
			b.run("b", 0, 5, gib)
			b.run("c", 1, 1, gib)
		}, "move b 0>1", words.Reason{}},
		{"turned off", func(b *bench) {
			b.run("a", 0, 9, gib)
			b.in.Settings.Enabled = false
		}, "off", words.Because(words.BalanceOff)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := two(t)
			tt.setup(b)
			b.decides(t, tt.want, tt.why)
		})
	}
}

// decides looks until something is decided, and tells what is not as wanted.
func (b *bench) decides(t *testing.T, want string, why words.Reason) {
	t.Helper()
	r := b.until()
	if got := brief(r); got != want && !(want == "swap" && strings.HasPrefix(got, "swap ")) {
		t.Fatalf("%s: %s\n%+v", got, r.Verdict(), r)
	}
	given := words.Reasons(r.Verdict())
	for _, c := range r.Weighed {
		given = append(given, c.Rejected)
	}
	if !why.None() && !wordstest.Has(given, why) {
		t.Errorf("%s is not among %s", why, given)
	}
}

// TestWindow: a burst shorter than the window moves nothing, and nothing is
// decided before the window is full.
func TestWindow(t *testing.T) {
	b := two(t)
	b.run("a", 0, 1, gib)
	b.run("b", 0, 1, gib)
	b.run("c", 1, 1, gib)
	for k := range 60 {
		burst := k%10 < 4 // 8 s of 20
		for i := range 2 {
			b.in.Subjects[i].Observation.CPUUse = map[bool]float64{true: 6, false: 1}[burst]
		}
		r := b.tick()
		if k < 5 && r.State != Learning {
			t.Errorf("tick %d: %s", k, r.State)
		}
		if r.Chosen != nil {
			t.Fatalf("tick %d: %s", k, r.Verdict())
		}
	}
}

// TestRestAndBan drives a load that swings as badly as it can for three hours.
func TestRestAndBan(t *testing.T) {
	b := two(t)
	for i := range 4 {
		b.run(fmt.Sprint("w", i), topology.NodeID(i%2), 5, gib)
	}
	last := map[workload.ID]HomeChange{}
	perHour := map[workload.ID][]time.Time{}
	moves := 0
	for range 3 * 1800 {
		// Whoever shares a node with w0 now is busy, the others are idle.
		home := b.in.State.Placements[0].Home
		for i := range b.in.Subjects {
			b.in.Subjects[i].Observation.CPUUse = 0.2
			if b.in.State.Placements[i].Home.Equal(home) {
				b.in.Subjects[i].Observation.CPUUse = 6
			}
		}
		at := b.in.At
		r := b.tick()
		if r.Chosen == nil {
			continue
		}
		moves++
		for _, c := range r.Chosen.Changes {
			if p, ok := last[c.Workload]; ok && at.Sub(p.At) < 15*time.Minute && c.To.Intersects(p.From) {
				t.Fatalf("%s back to %s after %v", c.Workload, c.To, at.Sub(p.At))
			}
			last[c.Workload] = HomeChange{From: c.From, To: c.To, At: at}
			perHour[c.Workload] = append(slices.DeleteFunc(perHour[c.Workload], func(x time.Time) bool { return at.Sub(x) >= time.Hour }), at)
			if n := len(perHour[c.Workload]); n > 6 {
				t.Fatalf("%s moved %d times within an hour", c.Workload, n)
			}
		}
	}
	if moves == 0 || moves > 3*4*4 {
		t.Errorf("%d moves in three hours", moves)
	}
}

// TestHorizon: what is new is expected to last less than what has lasted.
// TestKnownUse: on a full node work is taken to want what it used when its node had
// idle time, and a quarter more than it gets only when it uses more than that, or
// when that was long ago.
func TestKnownUse(t *testing.T) {
	for _, x := range []struct {
		name  string
		calm  int // ticks on a node with idle time
		full  int // ticks on a full one
		a, b  float64
		wants float64
	}{
		{"never seen with idle time", 0, 10, 4, 4, 10},
		{"squeezed", 10, 10, 3.9, 3.6, 3.9 + 3.7 + 1.25*0.5},
		{"one wants more", 10, 10, 4.4, 3.1, 1.25*4.4 + 3.7 + 1.25*0.5},
		{"long ago", 10, 200, 3.9, 3.6, 10},
	} {
		b := two(t)
		b.in.Settings.Act = false
		b.run("a", 0, 3.9, gib)
		b.run("b", 0, 3.7, gib)
		b.run("z", 1, 1, gib)
		for range x.calm {
			b.tick()
		}
		if x.calm > 0 {
			b.run("new", 0, 8-x.a-x.b, gib)
		}
		b.in.Subjects[0].Observation.CPUUse, b.in.Subjects[1].Observation.CPUUse = x.a, x.b
		for range x.full {
			b.tick()
		}
		if got := b.out.Report.Nodes[0].Load; math.Abs(got-x.wants) > 0.02 {
			t.Errorf("%s: node 0 is taken to want %.3f CPUs; want %.3f", x.name, got, x.wants)
		}
	}
}

// TestCrowdAge: what relieves an old workload of a new neighbour is worth something
// for as long as the neighbour may be expected to stay.
func TestCrowdAge(t *testing.T) {
	b := two(t)
	b.in.Settings.Act = false
	b.run("old", 0, 5, gib)
	b.run("z", 1, 1, gib)
	for range 600 {
		b.tick()
	}
	b.run("young", 0, 3, gib)
	for range 12 {
		b.tick()
	}
	tried := 0
	for _, c := range b.out.Report.Of("old") {
		if tried++; c.Gain.Seconds() > c.Saves*horizon(24) {
			t.Errorf("%s gains %v, %.2f CPUs for more than %.0f s", c.What(), c.Gain, c.Saves, horizon(24))
		}
	}
	if tried == 0 {
		t.Errorf("nothing was weighed: %+v", b.out.Report)
	}
}

func TestHorizon(t *testing.T) {
	was := 0.0
	for _, age := range []float64{0, 1, 10, 60, 600} {
		h := horizon(age)
		if h < age || age > 0 && h <= was || h > longest {
			t.Errorf("after %v s: %v", age, h)
		}
		was = h
	}
	if h := horizon(2 * longest); h != 2*longest {
		t.Errorf("after two hours: %v", h)
	}
}

func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		for _, crowded := range []bool{false, true} {
			b.Run(fmt.Sprintf("workloads=%d/crowded=%v", n, crowded), func(b *testing.B) {
				x := newBench(b, "package:2 node:4(memory=1TiB) core:64 pu:2")
				x.in.Settings.Act = false
				use := 256 / float64(n)
				for i := range n {
					u := use
					if crowded && i%8 == 0 {
						u *= 5
					}
					x.run(fmt.Sprintf("w%05d", i), topology.NodeID(i%8), u, gib/4)
				}
				for range 8 {
					x.tick()
				}
				if (x.out.Report.Chosen != nil) != crowded {
					b.Fatal(x.out.Report.Verdict())
				}
				before := cpuTime(b)
				for b.Loop() {
					x.in.At = x.in.At.Add(2 * time.Second)
					x.out, x.memory = Tick(x.in, x.memory)
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "CPU-ns/op") // a busy machine does not change it
			})
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
