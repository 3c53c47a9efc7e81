package balance

import (
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// parts draws parts of nodes 0, 1, 2, …
func parts(shares ...float64) []part {
	var out []part
	for i, s := range shares {
		if s != 0 {
			out = append(out, part{i, s})
		}
	}
	return out
}

func alike(got, want []part) bool {
	if len(got) != len(want) {
		return false
	}
	for k := range got {
		if got[k].node != want[k].node || !near(got[k].share, want[k].share) {
			return false
		}
	}
	return true
}

func TestQueue(t *testing.T) {
	// 0.25 × u / (2 (1 − u))
	for u, want := range map[float64]float64{-1: 0, 0: 0, 0.2: 0.03125, 0.5: 0.125, 0.8: 0.5, 0.95: 2.375, 0.96: 2.375, 7: 2.375} {
		if got := queue(u); !near(got, want) {
			t.Errorf("at %v: %v, want %v", u, got, want)
		}
	}
}

func TestShortOfMemory(t *testing.T) {
	m := &model{host: &topology.Host{Nodes: []topology.Node{{Memory: 1000}, {Memory: 0}, {Memory: topology.None}}}}
	for _, tt := range []struct {
		node       int
		free, want float64
	}{
		{0, 1000, 0}, {0, 40, 0}, {0, 30, 0.25}, {0, 20, 0.5}, {0, 0, 1},
		{0, -30, 1}, // overdrawn while homes are tried
		{0, topology.None, 0}, {1, 0, 0}, {2, 0, 0}, {2, topology.None, 0},
	} {
		if got := m.short(tt.node, tt.free); !near(got, tt.want) {
			t.Errorf("node %d with %v KiB free: %v, want %v", tt.node, tt.free, got, tt.want)
		}
	}
}

func TestFreeMemory(t *testing.T) {
	for _, tt := range []struct{ memory, free, reclaimable, want topology.KiB }{
		{100, 10, 5, 15}, {100, 0, 0, 0}, {100, 10, topology.None, 10}, {100, topology.None, 5, topology.None},
		{topology.None, 10, 5, topology.None}, {0, 0, 0, topology.None}, {1, 1, 0, 1},
	} {
		if got := freeOf(&topology.Node{Memory: tt.memory, Free: tt.free, Reclaimable: tt.reclaimable}); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
	if shiftFree(topology.None, 5) != topology.None || shiftFree(7, -5) != 2 || shiftFree(-7, 5) != -2 {
		t.Error("what is unknown changed, or what is known did not")
	}
}

func TestLocalLatency(t *testing.T) {
	measured := &topology.Measured{LatencyNs: [][]float64{{90, 150}, {150, 0}}}
	hmat := [][]float64{{70, 130}, {130, 75}, {0, 0, 0}}
	for _, tt := range []struct {
		name string
		h    topology.Host
		want [4]float64
	}{
		{"nobody knows", topology.Host{}, [4]float64{82, 82, 82, 82}},
		{"the firmware's", topology.Host{HMAT: hmat}, [4]float64{70, 75, 82, 82}},
		{"measured, where it was", topology.Host{HMAT: hmat, Measured: measured}, [4]float64{90, 75, 82, 82}},
		{"measured", topology.Host{Measured: measured}, [4]float64{90, 82, 82, 82}},
	} {
		for i, want := range tt.want {
			if got := localNs(&tt.h, i); got != want {
				t.Errorf("%s: node %d: %v ns, want %v", tt.name, i, got, want)
			}
		}
	}
}

func TestCrowdedShare(t *testing.T) {
	m := &model{rooms: []place.Room{{CPUs: 10}, {CPUs: 20}, {CPUs: 0}}}
	for _, tt := range []struct {
		name string
		run  []part
		busy []float64
		from float64
		want float64
	}{
		{"idle", parts(1), []float64{5, 0, 0}, 0.8, 0},
		{"at the line", parts(1), []float64{8, 0, 0}, 0.8, 0},
		{"half way", parts(1), []float64{9, 0, 0}, 0.8, 0.5},
		{"full", parts(1), []float64{10, 0, 0}, 0.8, 1},
		{"over", parts(1), []float64{14, 0, 0}, 0.8, 1},
		{"by where it runs", parts(0.25, 0.75), []float64{9, 20, 0}, 0.8, 0.25*0.5 + 0.75},
		{"no CPUs for shared work", parts(0, 0, 1), []float64{0, 0, 1}, 0.8, 1},
		{"a look before the node came", parts(0.5, 0.5), []float64{10}, 0.8, 0.5},
	} {
		if got := (&work{run: tt.run}).crowdedShare(m.saturated([]Sample{{Busy: tt.busy}}, tt.from)[0]); !near(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCountedTraffic(t *testing.T) {
	for _, tt := range []struct {
		name  string
		looks [][]int64
		want  []float64
	}{
		{"the mean", [][]int64{{100, 0, 30}, {200, 0, 50}}, []float64{150, 0, 40}},
		{"a look without", [][]int64{{100, 0, 30}, nil}, []float64{topology.None, topology.None, topology.None}},
		{"a node unknown once", [][]int64{{100, topology.None, 30}, {200, 60, 50}, {300, 60, 10}}, []float64{200, topology.None, 30}},
		{"a node that came", [][]int64{{100, 10}, {200, 10, 5}}, []float64{150, 10, topology.None}},
	} {
		var looks []Sample
		for _, l := range tt.looks {
			looks = append(looks, Sample{Traffic: l})
		}
		got := counted(looks, 3)
		for i := range got {
			if !near(got[i], tt.want[i]) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestCalibrate(t *testing.T) {
	uses := func(u ...Use) []Sample { return []Sample{{Uses: u}, {Uses: u}} }
	for _, tt := range []struct {
		name  string
		told  []float64
		looks []Sample
		want  float64
	}{
		{"all by one", []float64{3000, 1000}, uses(Use{CPUs: 2}), 2000},
		{"less what is known", []float64{3000, 1000}, uses(Use{CPUs: 2}, Use{CPUs: 5, Bandwidth: 1000}), 1500},
		{"a node unknown", []float64{3000, topology.None}, uses(Use{CPUs: 2}), 7},
		{"nothing at one node", []float64{3000, 0}, uses(Use{CPUs: 2}), 1500},
		{"too little CPU to say", []float64{3000, 1000}, uses(Use{CPUs: 0.5}), 7},
		{"enough CPU to say", []float64{300, 0}, uses(Use{CPUs: 0.6}), 500},
		{"no more than a core streams", []float64{300000, 0}, uses(Use{CPUs: 1}), mostTraffic},
		{"no less than a loop in its caches", []float64{10, 0}, uses(Use{CPUs: 1}), leastTraffic},
		{"others bring more than was counted", []float64{100, 0}, uses(Use{CPUs: 1}, Use{Bandwidth: 200}), leastTraffic},
		{"another load in each look", []float64{4000, 0}, []Sample{{Uses: []Use{{CPUs: 1}}}, {Uses: []Use{{CPUs: 3}}}}, 2000},
	} {
		m := &model{counted: tt.told, perCPU: 7}
		if m.calibrate(tt.looks); !near(m.perCPU, tt.want) {
			t.Errorf("%s: %v MiB/s a CPU, want %v", tt.name, m.perCPU, tt.want)
		}
	}
}

// threeNodes has IDs 0, 2 and 5: CPUs 0-3, CPUs 4-9, and memory without CPUs.
func threeNodes() *topology.Host {
	return &topology.Host{Nodes: []topology.Node{
		{ID: 0, CPUs: topology.CPUs(0, 1, 2, 3), Memory: 1000},
		{ID: 2, CPUs: topology.CPUs(4, 5, 6, 7, 8, 9), Memory: 1000},
		{ID: 5, Memory: 500},
	}}
}

func TestWhereWorkRunsAndLies(t *testing.T) {
	m := &model{host: threeNodes(), nodeAt: indexByID(threeNodes())}
	for id, want := range map[topology.NodeID]int{0: 0, 2: 1, 5: 2, 1: -1, 9: -1} {
		if got := m.index(id); got != want {
			t.Errorf("node %d is at %d, want %d", id, got, want)
		}
	}
	if got := m.parts([]workload.NodeMemory{{Node: 0, KiB: 30}, {Node: 1, KiB: 10}, {Node: 2, KiB: 0}, {Node: 5, KiB: 60}}); !alike(got, parts(0.3, 0, 0.6)) {
		t.Errorf("memory, of which a tenth is on a node that left: %v", got)
	}
	if got := m.shares([]workload.NodeShare{{Node: 0, Share: 0.2}, {Node: 1, Share: 0.3}, {Node: 2, Share: 0.5}, {Node: 5, Share: 0}}); !alike(got, parts(0.2, 0.5)) {
		t.Errorf("CPU time, of which some is on a node that left: %v", got)
	}
	for _, tt := range []struct {
		home topology.NodeSet
		want []part
	}{
		{topology.Nodes(0), parts(1)}, {topology.Nodes(0, 2), parts(0.4, 0.6)}, {topology.Nodes(2, 5), parts(0, 6.0/7, 1.0/7)},
		{topology.Nodes(5), parts(0, 0, 1)}, {topology.Nodes(3), nil},
	} {
		if got := m.spread(tt.home); !alike(got, tt.want) {
			t.Errorf("memory of a home %v: %v, want %v", tt.home, got, tt.want)
		}
	}
	m.host.Nodes[1].Memory = 0
	if got := m.spread(topology.Nodes(0, 2)); !alike(got, parts(1)) {
		t.Errorf("memory of a home of which a node has none: %v", got)
	}
	for _, tt := range []struct {
		name string
		home topology.NodeSet
		cpus topology.CPUSet
		ran  []part
		want []part
	}{
		{"as it was seen", topology.Nodes(0, 2), topology.CPUs(0, 4), parts(0.1, 0.9), parts(0.1, 0.9)},
		{"seen elsewhere", topology.Nodes(0, 2), topology.CPUs(0, 4, 5, 6), parts(0.1, 0.88, 0.02), parts(0.25, 0.75)},
		{"a trace elsewhere", topology.Nodes(0, 2), topology.CPUs(0, 4), parts(0.1, 0.895, 0.005), parts(0.1, 0.895, 0.005)},
		{"never seen", topology.Nodes(0), topology.CPUs(0, 1), nil, parts(1)},
	} {
		if got := m.running(tt.home, tt.cpus, tt.ran); !alike(got, tt.want) {
			t.Errorf("%s: runs on %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMemoryAlongAMove(t *testing.T) {
	for _, tt := range []struct {
		name             string
		mem, fixed, home []part
		want             []part
	}{
		{"all of it", parts(1), nil, parts(0, 1), parts(0, 1)},
		{"a part is there already", parts(0.4, 0.6), nil, parts(0, 1), parts(0, 1)},
		{"what is on the home stays where it is", parts(0.2, 0.3, 0.5), nil, parts(0.5, 0.5), parts(0.45, 0.55)},
		{"page cache stays", parts(1), parts(0.3), parts(0, 1), parts(0.3, 0.7)},
		{"page cache on the home is no matter", parts(0.4, 0.6), parts(0, 0.5), parts(0, 1), parts(0, 1)},
		{"no more stays than is there", parts(0.2, 0.8), parts(0.3), parts(0, 1), parts(0.2, 0.8)},
		{"nothing moves", parts(1), parts(1), parts(0, 1), parts(1)},
		{"no home", parts(1), nil, nil, parts(1)},
		{"from the highest node", parts(0, 0, 1), parts(0, 0, 0.25), parts(1), parts(0.75, 0, 0.25)},
	} {
		w := work{mem: tt.mem, fixed: tt.fixed}
		if got := w.along(tt.home); !alike(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestCountAndLost puts one workload into a model and works out every sum by hand.
func TestCountAndLost(t *testing.T) {
	host := threeNodes()
	newModel := func() *model {
		m := &model{host: host, local: []float64{80, 100, 200}, least: 80,
			access: []float64{1, 2, 3, 2, 1, 4, 3, 4, 1},
			rooms:  []place.Room{{CPUs: 4, Cores: 2, Bandwidth: 1000}, {CPUs: 6, Cores: 6, Bandwidth: 2000}, {Bandwidth: 500}}}
		m.sums = make([]float64, 27)
		sums := m.sums
		for _, s := range []*[]float64{&m.load, &m.kept, &m.heavy, &m.traffic, &m.plain, &m.measured, &m.hits, &m.users, &m.free} {
			*s, sums = sums[:3:3], sums[3:]
		}
		m.free[0], m.free[1], m.free[2] = 100, 30, topology.None
		return m
	}
	w := &work{Subject: &place.Subject{Spec: workload.Spec{Importance: 60}}, demand: 4, kept: 0.4, traffic: 200, accesses: 1e6, weight: 1.2, measured: true, kib: 100}
	m := newModel()
	m.count(w, parts(0.25, 0.75), parts(0, 0.5, 0.5), 1)
	for name, x := range map[string]struct{ got, want []float64 }{
		"load":     {m.load, []float64{1, 3, 0}},
		"kept":     {m.kept, []float64{0.1, 0.3, 0}},
		"heavy":    {m.heavy, []float64{1.2, 3.6, 0}},
		"traffic":  {m.traffic, []float64{0, 110, 110}}, // a tenth is kept for it
		"plain":    {m.plain, []float64{0, 100, 100}},
		"measured": {m.measured, []float64{0, 100, 100}},
		"hits":     {m.hits, []float64{0, 0.6e6, 0.6e6}},
		"users":    {m.users, []float64{0, 2.4, 2.4}},
	} {
		for i := range x.got {
			if !near(x.got[i], x.want[i]) {
				t.Errorf("%s: %v, want %v", name, x.got, x.want)
				break
			}
		}
	}
	// 0.25 runs on node 0 at 80 ns, 0.75 on node 2 at 100 ns; half of the accesses each go to nodes 2 and 5.
	far := 1e6 * 1.2 * (0.25*0.5*(80*2-80) + 0.25*0.5*(80*3-80) + 0.75*0.5*(100*1-80) + 0.75*0.5*(100*4-80))
	if !near(m.far, far) {
		t.Errorf("lost by distance: %v, want %v", m.far, far)
	}
	// Node 2: 30 of 1000 KiB are free, 40 should be: a quarter short.
	lost := far +
		0.6e6*100*queue(110.0/2000) + 0.6e6*200*queue(110.0/500) +
		second*shortWait*2.4*0.25
	if got := m.lost(); !near(got, lost) {
		t.Errorf("lost: %v, want %v", got, lost)
	}
	m.count(w, parts(0.25, 0.75), parts(0, 0.5, 0.5), -1)
	for i, x := range m.sums[:24] {
		if math.Abs(x) > 1e-6 {
			t.Errorf("taken out again, sum %d is %v", i, x)
		}
	}
	if math.Abs(m.far) > 1e-3 {
		t.Errorf("taken out again, %v is lost by distance", m.far)
	}

	// Threads that wait for memory are users of it even when they want no CPU from others.
	m = newModel()
	m.count(&work{Subject: &place.Subject{}, accesses: 1e8, weight: 1}, nil, parts(0, 1), 1)
	if !near(m.users[1], 8.2) || m.measured[1] != 0 {
		t.Errorf("users %v, measured %v", m.users, m.measured)
	}

	// 3 vCPUs on 4 CPUs of 2 cores, with 2 kept idle beside them: 2 wait for a core, 1 for a CPU.
	m = newModel()
	busy := &work{Subject: &place.Subject{}, demand: 3, kept: 2, weight: 0.5}
	m.count(busy, parts(1), nil, 1)
	if got, want := m.lost(), second*place.Crowding(4, 2, 5)*0.5; !near(got, want) || want == 0 {
		t.Errorf("crowded: %v lost, want %v", got, want)
	}

	// Pull is lost by distance too.
	m = newModel()
	m.count(&work{Subject: &place.Subject{}, accesses: 1e6, weight: 2, pull: []float64{0, 0.5, 0}}, parts(0.5, 0.5), nil, 1)
	if want := 1e6 * 2 * 0.5 * 100 * 0.5; !near(m.far, want) {
		t.Errorf("pull: %v, want %v", m.far, want)
	}

	// A shift is one taken out and put in, and the memory that goes with it.
	m = newModel()
	m.count(w, parts(1), parts(1), 1)
	m.shift(w, parts(1), parts(1), parts(0, 1), parts(0.25, 0.75))
	if !near(m.load[0], 0) || !near(m.load[1], 4) || !near(m.plain[0], 50) || !near(m.plain[1], 150) || !near(m.free[0], 175) || !near(m.free[1], -45) {
		t.Errorf("shifted: load %v, traffic %v, free %v", m.load, m.plain, m.free)
	}
}

// TestWhatWasKnown: use on a node with idle time is remembered, and fades over the horizon.
func TestWhatWasKnown(t *testing.T) {
	m := &model{rooms: []place.Room{{CPUs: 10}}, workloads: []work{{id: "a", run: parts(1)}}}
	for _, tt := range []struct {
		name  string
		busy  float64
		use   float64
		free  float64
		age   time.Duration // since it was known
		want  float64
		known bool // as of now
	}{
		{"more than before", 5, 4, 3, time.Minute, 4, true},
		{"less: what was, fading", 5, 1, 4, time.Minute, 3.2, true}, // 1/5 of the horizon has passed
		{"less than what is left of it", 5, 3.5, 4, time.Minute, 3.5, true},
		{"past the horizon", 5, 1, 4, 6 * time.Minute, 1, true},
		{"on a node nearly full", 9.7, 1, 4, 0, 4, true},
		{"on a full node nothing is learned", 9.9, 1, 4, time.Minute, 4, false},
	} {
		l := Sample{At: epoch, Busy: []float64{tt.busy}, Uses: []Use{{Workload: "a", CPUs: tt.use, Free: tt.free, Known: epoch.Add(-tt.age)}, {Workload: "gone", CPUs: 1}}}
		m.know(&l, 5*time.Minute)
		if u := l.Uses[0]; !near(u.Free, tt.want) || u.Known.Equal(epoch) != (tt.known) {
			t.Errorf("%s: %+v, want %v", tt.name, u, tt.want)
		}
		if u := l.Uses[1]; u.Free != 0 || !u.Known.IsZero() {
			t.Errorf("%s: of what is gone %+v is known", tt.name, u)
		}
	}
}

// TestSize: what each workload wants, its traffic and accesses, from the looks.
func TestSize(t *testing.T) {
	shared := &plan.Placement{Class: workload.Shared}
	subject := func(importance, threads int) *place.Subject {
		return &place.Subject{Spec: workload.Spec{Importance: importance}, Observation: workload.Observation{Threads: threads}}
	}
	m := &model{rooms: []place.Room{{CPUs: 10}}, workloads: []work{
		{id: "a", run: parts(1), placed: shared, Subject: subject(70, 64)},
		{id: "b", run: parts(1), placed: &plan.Placement{Class: workload.Dedicated}, Subject: subject(50, 64)},
		{id: "c", run: parts(1), Subject: subject(50, 64)},
		{id: "d", run: parts(1), placed: shared, Subject: subject(50, 64)},
	}}
	looks := []Sample{
		{At: epoch, Busy: []float64{5}, Uses: []Use{{Workload: "a", CPUs: 1, Accesses: 4e6}, {Workload: "b", CPUs: 2, Bandwidth: 100}, {Workload: "c", CPUs: 1}}},
		{At: epoch.Add(2 * time.Second), Busy: []float64{5}, Uses: []Use{{Workload: "a", CPUs: 3, Accesses: 0, Since: epoch.Add(-8 * time.Second)},
			{Workload: "b", CPUs: 2, Bandwidth: 300}, {Workload: "c", CPUs: 1}, {Workload: "d", CPUs: 1, Free: 1.5, Known: epoch}, {Workload: "gone", CPUs: 9}}},
	}
	m.size(looks, 5*time.Minute)
	for _, tt := range []struct {
		id                              workload.ID
		demand, kept, traffic, accesses float64
		measured                        bool
		age                             float64
	}{
		{"a", 2, 0.4, 2 * nearness.BusyTraffic, 1e6, false, 10}, // counted in one look; four at once
		{"b", 0, 0, 200, 200 * (1 << 20) / 64 / 4, true, (2 * time.Second).Seconds()},
		{"c", 1, 0, nearness.BusyTraffic, nearness.BusyTraffic * (1 << 20) / 64 / 4, false, 2},
		{"d", 0.5, 0, nearness.BusyTraffic / 2, nearness.BusyTraffic / 2 * (1 << 20) / 64 / 4, false, 2},
	} {
		w := m.workloads[m.at(tt.id)]
		if tt.id != "a" { // Since is not set: as old as time
			w.age = tt.age
		}
		if !near(w.demand, tt.demand) || !near(w.kept, tt.kept) || !near(w.traffic, tt.traffic) || !near(w.accesses, tt.accesses) || w.measured != tt.measured || !near(w.age, tt.age) {
			t.Errorf("%s: wants %v, keeps %v, %v MiB/s (measured %v), %v accesses/s, for %v s; want %+v", tt.id, w.demand, w.kept, w.traffic, w.measured, w.accesses, w.age, tt)
		}
	}
}

// TestEachUse: what is known of idle times bounds what is wanted on a full node, for as
// long as the horizon.
func TestEachUse(t *testing.T) {
	for _, tt := range []struct {
		name          string
		use           Use
		class         workload.Class
		demand, share float64
	}{
		{"squeezed", Use{CPUs: 4, Free: 4.5, Known: epoch}, workload.Shared, 4.5, 0},
		{"it wants more than it did", Use{CPUs: 4, Free: 3.9, Known: epoch}, workload.Shared, 5, 0},
		{"just what it did", Use{CPUs: 4, Free: 4, Known: epoch}, workload.Shared, 4, 0},
		{"known for too long", Use{CPUs: 4, Free: 4.5, Known: epoch.Add(-5 * time.Minute)}, workload.Shared, 5, 0},
		{"known for a little less", Use{CPUs: 4, Free: 4.5, Known: epoch.Add(-5*time.Minute + time.Second)}, workload.Shared, 4.5, 0},
		{"dedicated work has its own", Use{CPUs: 4}, workload.Dedicated, 0, 0},
		{"batch work takes what is idle", Use{CPUs: 4}, workload.Batch, 0, 0},
	} {
		m := &model{rooms: []place.Room{{CPUs: 10}}, horizon: 5 * time.Minute, perCPU: 100, workloads: []work{
			{id: "a", run: parts(1), placed: &plan.Placement{Class: tt.class}, Subject: &place.Subject{}}}}
		tt.use.Workload = "a"
		calls := 0
		eachUse(m, &Sample{At: epoch, Busy: []float64{10}, Uses: []Use{tt.use, {Workload: "z"}}}, func(_ *work, demand, traffic float64, measured bool) {
			calls++
			if !near(demand, tt.demand) || !near(traffic, 400) || measured {
				t.Errorf("%s: wants %v, %v MiB/s; want %v", tt.name, demand, traffic, tt.demand)
			}
		})
		if calls != 1 {
			t.Errorf("%s: %d uses", tt.name, calls)
		}
	}
	m := &model{rooms: []place.Room{{CPUs: 10}}, perCPU: 100, workloads: []work{{id: "a", Subject: &place.Subject{}}}}
	for _, tt := range []struct {
		use      Use
		want     float64
		measured bool
	}{
		{Use{Workload: "a", CPUs: 4, Bandwidth: 7}, 7, true},
		{Use{Workload: "a", CPUs: 4, Bandwidth: 1}, 1, true},
		{Use{Workload: "a", CPUs: 4, Accesses: 1 << 24}, 1024, false}, // 16 Mi lines of 64 bytes
		{Use{Workload: "a", CPUs: 4, Accesses: 1 << 10}, 400, false},
	} {
		eachUse(m, &Sample{Uses: []Use{tt.use}}, func(_ *work, _, traffic float64, measured bool) {
			if !near(traffic, tt.want) || measured != tt.measured {
				t.Errorf("%+v: %v MiB/s, measured %v", tt.use, traffic, measured)
			}
		})
	}
}

func eachUse(m *model, l *Sample, yield func(w *work, demand, traffic float64, measured bool)) {
	m.each(l.Uses, func(w *work, u *Use) {
		demand, traffic, measured := m.want(w, l, u, m.saturated([]Sample{*l}, demand.Fills)[0])
		yield(w, demand, traffic, measured)
	})
}

// TestCrowdedSince: a node is crowded for as long as the load is there that its older
// work left no CPUs for.
func TestCrowdedSince(t *testing.T) {
	m := &model{rooms: []place.Room{{CPUs: 4, Cores: 4}, {CPUs: 4, Cores: 4}}, workloads: []work{
		{demand: 2, age: 10, run: parts(1)},
		{demand: 2, kept: 0.5, age: 100, run: parts(1)},
		{demand: 1, age: 1000, run: parts(0.5, 0.5)},
		{demand: 0, age: 1, run: parts(1)},
		{demand: 9, age: 5000, run: parts(0, 1)},
	}}
	for i, want := range []float64{10, 5000} { // 0.5 + 2.5 fit; with the 2 of the youngest there are 5
		if got := m.crowdedFor(i); got != want {
			t.Errorf("node %d is crowded for %v s, want %v", i, got, want)
		}
	}
	m.workloads[0].demand = 1 // 4 on 4
	if got := m.crowdedFor(0); got != 0 {
		t.Errorf("not crowded, for %v s", got)
	}
}

// TestNewWork: a workload in the model's terms, with its memory as it will be when a move
// under way has ended.
func TestNewWork(t *testing.T) {
	b := two(t)
	b.run("a", 0, 2, 4*gib, important(80), func(s *place.Subject) {
		s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: 3 * gib}}
		s.Observation.Movable = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: 2 * gib}}
	})
	b.run("b", 1, 2, gib, important(2))
	b.in.State.Host.Nodes[0].Free, b.in.State.Host.Nodes[1].Free = 10*gib, 10*gib
	for _, tt := range []struct {
		name    string
		flights []Flight
		mem     []part
		free    []float64
	}{
		{"as it lies", nil, parts(0.25, 0.75), []float64{float64(10 * gib), float64(10 * gib)}},
		{"on its way home", []Flight{{Workload: "a", To: topology.Nodes(0)}}, parts(0.75, 0.25), []float64{float64(8 * gib), float64(12 * gib)}},
		{"put off", []Flight{{Workload: "a", To: topology.Nodes(0), PutOff: words.Plain("refused.")}}, parts(0.25, 0.75), []float64{float64(10 * gib), float64(10 * gib)}},
		{"another's", []Flight{{Workload: "b", To: topology.Nodes(1)}}, parts(0.25, 0.75), []float64{float64(10 * gib), float64(10 * gib)}},
	} {
		b.in.Flights = tt.flights
		m := b.decider().m
		w, x := m.workloads[m.at("a")], m.workloads[m.at("b")]
		if !alike(w.mem, tt.mem) || !alike(w.fixed, parts(0, 0.25)) || !alike(w.run, parts(1)) || w.kib != float64(4*gib) || !near(w.weight, 1.6) || w.placed == nil || w.placed.Workload != "a" {
			t.Errorf("%s: %+v", tt.name, w)
		}
		if diff := gocmp.Diff(tt.free, m.free); diff != "" {
			t.Errorf("%s: free (-want +got):\n%s", tt.name, diff)
		}
		if x.weight != leastWeight || x.fixed != nil || !alike(x.mem, parts(0, 1)) || (w.flight != nil) != (len(tt.flights) > 0 && tt.flights[0].Workload == "a") {
			t.Errorf("%s: %+v", tt.name, x)
		}
	}
}

// decider is what one decides with after b's looks and one more.
func (b *bench) decider() *decider {
	memory := remember(&b.in, b.memory)
	d := &decider{in: &b.in, memory: &memory, looks: memory.Samples, ledger: place.NewLedger(b.in.State)}
	d.m = newModel(&b.in, b.in.State.Placements, d.ledger, d.looks)
	d.prepare()
	d.crowded = make([]float64, len(d.m.rooms))
	return d
}

// at returns the position of a workload, or -1.
func (m *model) at(id workload.ID) int {
	return slices.IndexFunc(m.workloads, func(w work) bool { return w.id == id })
}
