package measure

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/topology"
)

func synthetic(t *testing.T, s string) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range h.Nodes {
		h.Nodes[i].Free = h.Nodes[i].Memory
	}
	for i := range h.LLCs {
		h.LLCs[i].Size = 32 << 10
	}
	return h
}

func request(full bool, parts ...Part) Request {
	return Request{Parts: parts, Full: full, CPU: -1, Node: -1, LoadedFrom: -1, LoadedTo: -1}
}

// The budgets that the profiles were designed to, from the estimate.
func TestBudgets(t *testing.T) {
	two := "package:2 node:1(memory=192GiB) llc:1 core:24 pu:2"
	eight := "package:2 node:4(memory=96GiB) llc:4 core:4 pu:2"
	all := []Part{PartLatency, PartPages, PartBandwidth}
	for _, c := range []struct {
		name, host string
		req        Request
		most       float64
	}{
		{"two nodes, 96 CPUs, quick", two, request(false, all...), 20},
		{"two nodes, 96 CPUs, full", two, request(true, PartLatency, PartC2C, PartLoaded, PartBandwidth, PartLevels), 120},
		{"eight nodes, 256 CPUs, quick", eight, request(false, all...), 60},
		{"eight nodes, 256 CPUs, full", eight, request(true, PartLatency, PartC2C, PartBandwidth), 720},
	} {
		p, err := MakePlan(synthetic(t, c.host), c.req, 0)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Seconds > c.most || p.Seconds < 1 {
			t.Errorf("%s: %.0f s, want at most %.0f: %+v", c.name, p.Seconds, c.most, p.Steps)
		}
	}
}

func TestPlanFitsTheBudget(t *testing.T) {
	h := synthetic(t, "package:2 node:4(memory=96GiB) llc:4 core:4 pu:2")
	req := request(true, PartLatency, PartPages, PartLevels, PartC2C, PartBandwidth, PartLoaded)
	req.Budget = 30 * time.Second
	p, err := MakePlan(h, req, 0)
	if err != nil || p.Seconds > 30 || !p.Has(PartLatency) || p.Profile != "quick" {
		t.Errorf("%v: %.0f s %s %v", err, p.Seconds, p.Profile, p.Steps)
	}
	if !strings.Contains(strings.Join(p.Notes, " "), "budget") {
		t.Errorf("the notes do not say what was left out: %v", p.Notes)
	}
}

// Offline CPUs, a cpuset and too little memory are respected, and told.
func TestPlanRespectsLimits(t *testing.T) {
	h := synthetic(t, "package:2 node:1(memory=64GiB) llc:1 core:4 pu:2")
	h.Allowed = topology.CPUs(h.Nodes[1].CPUs.Slice()[:6]...)
	h.AllowedMems = topology.Nodes(1)
	p, err := MakePlan(h, request(true, PartLatency, PartC2C, PartBandwidth, PartLoaded), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Buffers) != 1 || p.Buffers[0].Node != 1 || len(p.NodeCPUs) != 1 || p.NodeCPUs[0].Node != 1 {
		t.Errorf("buffers %v, CPUs %v", p.Buffers, p.NodeCPUs)
	}
	used := append(slices.Clone(p.CPUs), p.Pairs...)
	for _, sets := range p.Streams {
		for _, set := range sets {
			used = append(used, set...)
		}
	}
	for _, l := range p.Load {
		used = append(used, l.Load...)
		if slices.Contains(l.Load, l.Chase) {
			t.Errorf("CPU %d loads and chases", l.Chase)
		}
	}
	for _, cpu := range used {
		if !h.Allowed.Has(cpu) {
			t.Errorf("CPU %d is not allowed", cpu)
		}
	}
	if p, _ = MakePlan(synthetic(t, "package:2 node:1(memory=64GiB) llc:1 core:4 pu:2"), request(false, PartLatency), 200<<20); p.Buffers[0].Bytes > 100<<20 || !p.Buffers[0].Diluted {
		t.Errorf("buffers %+v under a limit of 200 MiB", p.Buffers)
	}
	h = synthetic(t, "package:1 node:2(memory=64GiB) core:2 pu:1")
	h.Nodes[1].Free = 16 << 10
	if p, err = MakePlan(h, request(false, PartLatency), 0); err != nil || len(p.Buffers) != 1 || !strings.Contains(strings.Join(p.Notes, " "), "node1 is left out") {
		t.Errorf("a full node: %+v %v %v", p.Buffers, p.Notes, err)
	}
	h.Nodes[0].Free = 1
	if _, err = MakePlan(h, request(false, PartLatency), 0); err == nil {
		t.Error("measured on no memory")
	}
	if _, err = MakePlan(synthetic(t, "package:1 core:1 pu:1"), request(false, PartC2C), 0); err == nil {
		t.Error("core to core on one core")
	}
}

func TestKnees(t *testing.T) {
	var points []LevelPoint
	for _, size := range LevelSizes(1<<30, 32<<20) {
		ns := 1.1
		switch {
		case size > 32<<20:
			ns = 95
		case size > 1<<20:
			ns = 12
		case size > 48<<10:
			ns = 3.6
		}
		points = append(points, LevelPoint{Bytes: size, NS: Value(ns), CI95: Interval{Value(ns * 0.98), Value(ns * 1.02)}})
	}
	knees := Knees(points)
	if len(knees) != 3 || knees[0].Bytes != 44<<10 || knees[1].Bytes != 1<<20 || knees[2].Bytes != 32<<20 {
		t.Errorf("%+v", knees)
	}
	if k := Knees(points[:3]); len(k) != 0 {
		t.Errorf("a knee where nothing changes: %+v", k)
	}
}

func TestLoadedCurve(t *testing.T) {
	l := Loaded{}
	for i, g := range Gaps(15) {
		x := float64(i) / 14
		l.Points = append(l.Points, LoadedPoint{Gap: g, MBps: Value(100_000 * (1 - (1-x)*(1-x))), NS: Value(80 + 400*x*x*x*x)})
	}
	FinishLoaded(&l)
	if l.Peak != 100_000 || !(l.At50 < l.At75 && l.At75 < l.At90) || l.Knee < 60_000 || l.Knee > 99_000 {
		t.Errorf("%+v", l)
	}
	if g := Gaps(15); len(g) != 15 || g[0] != -1 || g[1] != 20_000 || g[14] != 0 || g[13] < 15 || g[13] > 25 {
		t.Errorf("gaps %v", g)
	}
}

// Points whose load was starved count for nothing; without full load there is no peak.
func TestStarvedLoad(t *testing.T) {
	curve := func(starved ...int) Loaded {
		l := Loaded{}
		for i, g := range Gaps(6) {
			p := LoadedPoint{Gap: g, MBps: Value(20_000 * i), NS: Value(80 + 10*i*i), Ran: 0.97}
			if slices.Contains(starved, i) {
				p.MBps, p.NS, p.Ran, p.Flag = p.MBps*3, 5000, 0.6, "~"
			}
			l.Points = append(l.Points, p)
		}
		FinishLoaded(&l)
		return l
	}
	for _, tt := range []struct {
		starved []int
		peak    bool
	}{{nil, true}, {[]int{2, 3}, true}, {[]int{5}, false}, {[]int{1, 2, 3, 4}, false}} {
		l := curve(tt.starved...)
		if l.Peak.Known() != tt.peak || l.Knee.Known() != tt.peak || l.At90.Known() != tt.peak {
			t.Errorf("starved %v: peak %v, knee %v, at 90 %% %v", tt.starved, l.Peak, l.Knee, l.At90)
		}
		if tt.peak && (l.Peak != 100_000 || l.At50 > 400) {
			t.Errorf("starved %v: %+v", tt.starved, l)
		}
	}
}

func TestDiffAndMerge(t *testing.T) {
	make := func(ns float64) *Document {
		d := &Document{Schema: Schema, Nodes: []Node{{ID: 0}}}
		d.Host.Fingerprint = "x"
		d.Latency = &Latency{From: "node", Rows: []int{0}, Cols: []int{0}, Median: Table{{Value(ns)}}, CI95: [][]Interval{{{Value(ns * 0.99), Value(ns * 1.01)}}}}
		return d
	}
	if c := Diff(make(100), make(120), 0.05); len(c) != 1 || !c[0].Worse || !c[0].Sure {
		t.Errorf("%+v", c)
	}
	if c := Diff(make(100), make(101), 0.05); c[0].Worse || c[0].Sure {
		t.Errorf("%+v", c)
	}
	if c := Diff(make(120), make(100), 0.05); c[0].Worse || !c[0].Sure {
		t.Errorf("%+v", c)
	}
	newer := &Document{Nodes: []Node{{ID: 0}}, C2C: []C2C{{}}}
	newer.Host.Fingerprint = "x"
	if m := Merge(make(100), newer); m.Latency == nil || m.C2C == nil {
		t.Error("the older latency is lost")
	}
	newer.Host.Fingerprint = "y"
	if m := Merge(make(100), newer); m.Latency != nil {
		t.Error("kept from another machine")
	}
}

// A step is named by the cache that the machine has, never by its place in the order:
// on this busy machine the curve has four steps, and the CPU three caches.
func TestNameKnees(t *testing.T) {
	steps := func(kib ...int64) []Knee {
		var out []Knee
		for _, k := range kib {
			out = append(out, Knee{Bytes: k << 10})
		}
		return out
	}
	caches := []Cache{{"L1d", 32 << 10}, {"L2", 1 << 20}, {"L3", 32 << 20}}
	for _, tt := range []struct {
		knees  []Knee
		caches []Cache
		want   string
	}{
		{steps(20, 180, 512, 2048), caches, "L1d step 2 L2 step 4"},
		{steps(44, 1024, 32<<10), []Cache{{"L1d", 48 << 10}, {"L2", 1 << 20}, {"L3", 32 << 20}}, "L1d L2 L3"},
		{steps(32, 1448, 23<<10), caches, "L1d L2 L3"},
		{steps(700, 1024), caches, "step 1 L2"},
		{steps(20, 180), nil, "step 1 step 2"},
		{nil, caches, ""},
	} {
		l := Levels{Knees: tt.knees, Caches: tt.caches}
		l.NameKnees()
		var got []string
		for _, k := range l.Knees {
			got = append(got, k.Level)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%v: %q, want %q", tt.knees, s, tt.want)
		}
	}
}

func TestCaches(t *testing.T) {
	root := fstest.MapFS{}
	for i, c := range [][3]string{{"1", "Data", "32K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "1024K"}, {"3", "Unified", "32768K"}, {"4", "Unified", "?"}} {
		for j, file := range []string{"level", "type", "size"} {
			root[fmt.Sprintf("sys/devices/system/cpu/cpu5/cache/index%d/%s", i, file)] = &fstest.MapFile{Data: []byte(c[j] + "\n")}
		}
	}
	if got := fmt.Sprint(Caches(root, 5)); got != "[{L1d 32768} {L2 1048576} {L3 33554432}]" {
		t.Error(got)
	}
	if got := Caches(root, 6); got != nil {
		t.Errorf("%v of a CPU without caches", got)
	}
}
