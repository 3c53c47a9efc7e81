package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// triggers is what is found: "CPU 0 locality a".
func triggers(t *trouble) string {
	var out []string
	for _, x := range t.triggers {
		if x.Workload != "" {
			out = append(out, fmt.Sprintf("%s %s", x.Kind, x.Workload))
		} else {
			out = append(out, fmt.Sprintf("%s %d", x.Kind, x.Node))
		}
	}
	return strings.Join(out, " ")
}

// demotes makes node 1 memory without CPUs to which the kernel moves cold pages.
func demotes(b *bench) {
	h := b.in.State.Host
	h.Nodes[1].CPUs, h.Nodes[1].Kind, h.Nodes[1].Type = topology.CPUSet{}, topology.Special, topology.TypeCXL
	h.Tiering = topology.Tiering{Demotion: true, Tiers: []topology.Tier{{ID: 4, Nodes: topology.Nodes(0)}, {ID: 22, Nodes: topology.Nodes(1)}}}
}

// TestTriggers: each on both sides of its line. Nodes have 8 CPUs on 8 cores, 16 GiB and
// 150000 MiB/s.
func TestTriggers(t *testing.T) {
	quiet := func(s *place.Subject) { s.Observation.Bandwidth = 1; s.Observation.Threads = int(s.Observation.CPUUse) }
	traffic := func(mibs int64) func(*place.Subject) {
		return func(s *place.Subject) { s.Observation.Bandwidth = mibs }
	}
	far := func(reads, local float64) func(*place.Subject) {
		return func(s *place.Subject) {
			s.Observation.Memory = []workload.NodeMemory{{Node: 1 - s.Observation.RanOn[0].Node, KiB: gib}}
			s.Observation.Accesses = workload.Accesses{From: workload.Counters, PerSecond: reads, Local: local}
		}
	}
	halves := func(s *place.Subject) {
		s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib / 2}, {Node: 1, KiB: gib / 2}}
	}
	wide := func(b *bench) {
		b.in.State.Placements[0].Home = topology.Nodes(0, 1)
		b.in.Subjects[0].Observation.RanOn = []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}
	}
	for _, tt := range []struct {
		name  string
		setup func(b *bench)
		looks func(b *bench, k int) // before look k of three
		want  string
	}{
		{name: "calm", setup: func(b *bench) { b.run("a", 0, 8, gib, quiet); b.run("b", 1, 1, gib, quiet) }},
		{name: "a node without CPUs", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			b.in.State.Host.Nodes[1].CPUs = topology.CPUSet{}
		}},
		{name: "more than its CPUs", setup: func(b *bench) {
			b.run("a", 0, 5, gib, quiet)
			b.run("c", 0, 4, gib, quiet)
			b.run("b", 1, 1, gib, quiet)
		}, want: "CPU 0"},
		{name: "both nodes alike", setup: func(b *bench) {
			b.run("a", 0, 9, gib, quiet)
			b.run("b", 1, 9, gib, quiet)
		}},
		{name: "a gap of less than a tenth", setup: func(b *bench) {
			b.run("a", 0, 10, gib, quiet)
			b.run("b", 1, 9.25, gib, func(s *place.Subject) { s.Observation.Bandwidth, s.Observation.Threads = 1, 1 })
		}},
		{name: "a gap of more than a tenth", setup: func(b *bench) {
			b.run("a", 0, 10, gib, quiet)
			b.run("b", 1, 9.15, gib, func(s *place.Subject) { s.Observation.Bandwidth, s.Observation.Threads = 1, 1 })
		}, want: "CPU 0"},
		{name: "less at stake than looks differ by", setup: func(b *bench) {
			b.run("a", 0, 8.09, gib, func(s *place.Subject) { s.Observation.Bandwidth, s.Observation.Threads = 1, 1 })
			b.run("b", 1, 1, gib, quiet)
		}},
		{name: "the reserve of important work adds to its load", setup: func(b *bench) {
			b.run("a", 0, 6, gib, quiet, important(100)) // keeps 3 idle
			b.run("b", 1, 1, gib, quiet)
		}, want: "CPU 0"},
		{name: "a smaller reserve fits", setup: func(b *bench) {
			b.run("a", 0, 6, gib, quiet, important(80)) // keeps 1.8 idle
			b.run("b", 1, 1, gib, quiet)
		}},
		{name: "crowded in two looks of three", setup: func(b *bench) {
			b.run("a", 0, 10, gib, quiet)
			b.run("b", 1, 1, gib, quiet)
		}, looks: func(b *bench, k int) {
			b.in.Subjects[0].Observation.CPUUse, b.in.Subjects[0].Observation.Threads = 10, 10
			if k == 1 {
				b.in.Subjects[0].Observation.CPUUse, b.in.Subjects[0].Observation.Threads = 7, 7
			}
		}},
		{name: "six tenths of a node's bandwidth", setup: func(b *bench) {
			b.run("a", 0, 1, gib, traffic(90_000))
			b.run("b", 1, 1, gib, traffic(89_999))
		}, want: "bandwidth 0"},
		{name: "important work's bandwidth has a reserve", setup: func(b *bench) {
			b.run("a", 0, 1, gib, traffic(60_000), important(100)) // × 1.5
			b.run("b", 1, 1, gib, traffic(59_999), important(100))
		}, want: "bandwidth 0"},
		{name: "counted at the node, with the reserve on top", setup: func(b *bench) {
			b.run("a", 0, 1, gib, traffic(20_000), important(100)) // 10000
			b.run("b", 1, 1, gib, traffic(20_000))
			b.in.Traffic = []int64{80_000, 89_999}
		}, want: "bandwidth 0"},
		{name: "counted at the node: nothing", setup: func(b *bench) {
			b.run("a", 0, 1, gib, traffic(120_000))
			b.in.Traffic = []int64{0, topology.None}
		}},
		{name: "not counted at the node", setup: func(b *bench) {
			b.run("a", 0, 1, gib, traffic(120_000))
			b.in.Traffic = []int64{topology.None, 0}
		}, want: "bandwidth 0"},
		{name: "bandwidth in two looks of three", setup: func(b *bench) { b.run("a", 0, 1, gib, traffic(120_000)) },
			looks: func(b *bench, k int) {
				b.in.Subjects[0].Observation.Bandwidth = []int64{120_000, 80_000, 140_000}[k]
			}},
		{name: "memory a little short", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			b.in.State.Host.Nodes[0].Free = 16*gib*4/100 - 1
			b.in.State.Host.Nodes[1].Free = 16*gib*4/100 + 1
		}, want: "memory 0"},
		{name: "what is reclaimable counts as free", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			b.in.State.Host.Nodes[0].Free = 0
			b.in.State.Host.Nodes[0].Reclaimable = gib
		}},
		{name: "memory short while the kernel demotes", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			demotes(b)
			b.in.State.Host.Nodes[0].Free = 0
		}},
		{name: "memory short, and only a GPU's is slower", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			demotes(b)
			b.in.State.Host.Nodes[0].Free, b.in.State.Host.Nodes[1].Type = 0, topology.TypeGPU
		}, want: "memory 0"},
		{name: "memory of a GPU is full", setup: func(b *bench) {
			b.run("a", 0, 1, gib, quiet)
			demotes(b)
			b.in.State.Host.Nodes[1].Free, b.in.State.Host.Nodes[1].Type = 0, topology.TypeGPU
		}},
		{name: "far, where the kernel demoted it", setup: func(b *bench) {
			b.run("a", 0, 3, gib, far(4e7, 0))
			demotes(b)
		}},
		{name: "memory short in two looks of three", setup: func(b *bench) { b.run("a", 0, 1, gib, quiet) },
			looks: func(b *bench, k int) { b.in.State.Host.Nodes[0].Free = []topology.KiB{0, gib, 0}[k] }},
		{name: "far", setup: func(b *bench) { b.run("a", 0, 3, gib, far(4e7, 0)) }, want: "locality a"},
		// 4e7 reads, of which four are waited for at once, are 1.1 × 82 ns too far: 0.902 CPUs.
		{name: "far, and little lost", setup: func(b *bench) { b.run("a", 0, 3, gib, far(4.4e6, 0)) }},
		{name: "far, and a little more lost", setup: func(b *bench) { b.run("a", 0, 3, gib, far(4.5e6, 0)) }, want: "locality a"},
		{name: "eight tenths are near", setup: func(b *bench) { b.run("a", 0, 3, gib, far(4e8, 0.8)) }},
		{name: "a little less is near", setup: func(b *bench) { b.run("a", 0, 3, gib, far(4e8, 0.79)) }, want: "locality a"},
		{name: "counters know of caches: a part is lost", setup: func(b *bench) { b.run("a", 0, 3, gib, far(9e6, 0.5)) }, want: "locality a"},
		{name: "counters know of caches: too small a part is lost", setup: func(b *bench) { b.run("a", 0, 3, gib, far(8.8e6, 0.5)) }},
		{name: "half of it far", setup: func(b *bench) {
			b.run("a", 0, 3, gib, far(9e6, 0), halves)
			b.in.Subjects[0].Observation.Accesses.Local = 0.5
		}, want: "locality a"},
		{name: "half of it far, and little lost", setup: func(b *bench) {
			b.run("a", 0, 3, gib, far(8.8e6, 0), halves)
			b.in.Subjects[0].Observation.Accesses.Local = 0.5
		}},
		{name: "counters cannot make it worse than residence does", setup: func(b *bench) { b.run("a", 0, 3, gib, far(8.8e6, 0), halves) }},
		{name: "half of it far, by residence alone", setup: func(b *bench) {
			b.run("a", 0, 3, gib, far(0, 0), halves)
			b.in.Subjects[0].Observation.Accesses = workload.Accesses{}
		}, want: "locality a"},
		{name: "far, dedicated", setup: func(b *bench) { b.run("a", 0, 3, gib, class(workload.Dedicated), far(4e7, 0)) }},
		{name: "far, batch", setup: func(b *bench) { b.run("a", 0, 3, gib, class(workload.Batch), far(4e7, 0)) }},
		{name: "a small one on two nodes", setup: func(b *bench) {
			b.run("a", 0, 8, gib, far(4e7, 0))
			wide(b)
		}, want: "locality a"},
		{name: "one that needs two nodes", setup: func(b *bench) {
			b.run("a", 0, 8.1, gib, far(4e7, 0))
			wide(b)
		}},
		{name: "no memory", setup: func(b *bench) {
			b.run("a", 0, 3, 0, func(s *place.Subject) { s.Observation.Memory = nil; s.Observation.Bandwidth = 50_000 })
		}},
	} {
		b := two(t)
		b.in.State.Host.Distances = topology.Matrix{{10, 21}, {21, 10}}
		tt.setup(b)
		settled := func(edit func(d *decider)) string {
			b.memory = History{}
			for k := range 2 {
				if tt.looks != nil {
					tt.looks(b, k)
				}
				b.memory = remember(&b.in, b.memory)
				b.in.At = b.in.At.Add(b.in.Settings.Window / 4)
			}
			if tt.looks != nil {
				tt.looks(b, 2)
			}
			d := b.decider()
			if edit != nil {
				edit(d)
			}
			return triggers(d.m.find(d.looks, d.settling))
		}
		if got := settled(nil); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		// Of a node that changed within the window nothing is known; of workloads it is.
		got := settled(func(d *decider) { d.settling[0] = true })
		if want := tt.want; strings.HasSuffix(want, " 0") && got != "" || !strings.HasSuffix(want, " 0") && got != want {
			t.Errorf("%s: %q of a node that is settling", tt.name, got)
		}
	}
}

// TestKnownTraffic: what the sentence gives as traffic is the node's, counted there or not.
func TestKnownTraffic(t *testing.T) {
	m := &model{counted: []float64{5, -1, -1, -1, -1}, plain: []float64{100, 100, 100, 100, 100}, measured: []float64{0, 99, 98, 1, 0.9}}
	from := map[words.Code][]int{}
	for i := range m.counted {
		code := m.knownFrom(i)
		from[code] = append(from[code], i)
	}
	if len(from) != 4 || !slices.Equal(from[words.PartlyCounted], []int{2, 3}) {
		t.Errorf("%v", from)
	}
}

// TestParted: far from what it is near to, by the model's own figures.
func TestParted(t *testing.T) {
	rooms := []place.Room{{Node: 0, CPUs: 8}, {Node: 1, CPUs: 8}, {Node: 2}}
	for _, tt := range []struct {
		name  string
		class workload.Class
		run   []part
		pull  []float64
		reads float64
		want  bool
	}{
		{"near", workload.Shared, parts(1), []float64{0, 1, 1}, 1e9, false},
		{"far", workload.Shared, parts(0, 1), []float64{0, 1, 1}, 1.1e6, true}, // 1.1e6 × 100 ns
		{"far, and little lost", workload.Shared, parts(0, 1), []float64{0, 1, 1}, 0.9e6, false},
		{"half of it far", workload.Shared, parts(0.5, 0.5), []float64{0, 1, 1}, 2.1e6, true},
		{"half of it far, and little lost", workload.Shared, parts(0.5, 0.5), []float64{0, 1, 1}, 1.9e6, false},
		{"nearer where no CPU is", workload.Shared, parts(1), []float64{0.5, 0.5, 0}, 1e9, false},
		{"dedicated", workload.Dedicated, parts(0, 1), []float64{0, 1, 1}, 1e9, false},
		{"near to nothing", workload.Shared, parts(0, 1), nil, 1e9, false},
	} {
		m := &model{rooms: rooms, local: []float64{100, 100, 100}}
		w := &work{Subject: &place.Subject{}, placed: &plan.Placement{Class: tt.class}, run: tt.run, pull: tt.pull, accesses: tt.reads}
		var x trouble
		m.findFarFromPartner(&x, w)
		if got := len(x.farFromPartner) == 1 && len(x.triggers) == 1 && x.triggers[0].Kind == FarFromPartner; got != tt.want {
			t.Errorf("%s: %v %v", tt.name, got, x.triggers)
		}
	}
	one := &model{rooms: []place.Room{{Node: 0, CPUs: 1}, {Node: 1, CPUs: 8}}, local: []float64{100, 100}}
	var y trouble
	if one.findFarFromPartner(&y, &work{Subject: &place.Subject{}, placed: &plan.Placement{Class: workload.Shared}, run: parts(0, 1), pull: []float64{0, 1}, accesses: 1e9}); len(y.farFromPartner) != 1 {
		t.Error("a node with one CPU left is not near")
	}
	m := &model{rooms: rooms[2:], local: []float64{100}}
	var x trouble
	m.findFarFromPartner(&x, &work{Subject: &place.Subject{}, placed: &plan.Placement{Class: workload.Shared}, run: parts(1), pull: []float64{1}, accesses: 1e9})
	if len(x.farFromPartner) > 0 {
		t.Error("farFromPartner on a host without CPUs")
	}
}

// TestKeepRoom: what is about nearness alone fills no node beyond three quarters.
func TestKeepRoom(t *testing.T) {
	for _, tt := range []struct {
		name           string
		load           float64 // on node 1
		run            []part
		to             []part
		farFromPartner bool
		far            bool
		hot            bool
		want           bool // kept
	}{
		{"room", 3, parts(1), parts(0, 1), true, false, false, true}, // 3 + 2 + 1 of 8
		{"a little too much", 3.1, parts(1), parts(0, 1), true, false, false, false},
		{"half is there", 4, parts(0.5, 0.5), parts(0, 1), true, false, false, true},
		{"it leaves", 9, parts(0, 1), parts(1), true, false, false, true},
		{"it is about memory too", 3.1, parts(1), parts(0, 1), true, true, false, true},
		{"it is about a node in trouble", 3.1, parts(1), parts(0, 1), true, false, true, true},
		{"it is about something else", 3.1, parts(1), parts(0, 1), false, false, false, true},
	} {
		m := &model{rooms: []place.Room{{CPUs: 8, Cores: 8}, {CPUs: 8, Cores: 8}}, load: []float64{0, tt.load}, kept: []float64{0, 0}}
		w := &work{run: tt.run, mem: parts(1), demand: 2, kept: 1}
		x := &trouble{cpu: make([]bool, 2), traffic: make([]bool, 2), short: make([]bool, 2)}
		x.cpu[0] = tt.hot
		if tt.farFromPartner {
			x.farFromPartner = append(x.farFromPartner, w)
		}
		if tt.far {
			x.far = append(x.far, w)
		}
		options := []option{{changes: []shift{{w: w, run: tt.to}}}}
		(&decider{m: m}).keepRoom(x, options)
		if got := options[0].rejected.None(); got != tt.want {
			t.Errorf("%s: %v", tt.name, options[0].rejected)
		}
	}
}
