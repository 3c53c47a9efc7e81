package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func synthetic(t testing.TB, s string) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func generated(t testing.TB, g Generation) *Trace {
	t.Helper()
	if g.Policy.Overcommit == 0 {
		g.Policy = plan.DefaultPolicy()
	}
	trace, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// fewer is a quarter under the race detector.
func fewer(events int) int {
	if raceEnabled {
		return events / 4
	}
	return events
}

// sound runs a simulation in which nothing may go wrong.
func sound(t testing.TB, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Failed(); f != nil {
		t.Fatalf("%v\n%s", f, strings.Join(f.Log, "\n"))
	}
	return r
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestSameSeedSameResult(t *testing.T) {
	t.Parallel()
	h := synthetic(t, "package:2 node:2 core:8 pu:2")
	other := ""
	for _, kind := range Kinds {
		g := Generation{Kind: kind, Host: h, Seed: 7, Events: fewer(300), Found: DefaultFound}
		first := asJSON(t, sound(t, Options{Trace: generated(t, g), Seed: 7}))
		again := asJSON(t, sound(t, Options{Trace: generated(t, g), Seed: 7}))
		if diff := gocmp.Diff(first, again); diff != "" {
			t.Errorf("%s: same seed, another result:\n%s", kind, diff)
		}
		g.Seed = 8
		if other = asJSON(t, sound(t, Options{Trace: generated(t, g), Seed: 8})); other == first {
			t.Errorf("%s: another seed, same result", kind)
		}
	}
}

// TestGolden holds all figures of a small run. A change of the engine may change
// them; UPDATE=1 writes them anew.
func TestGolden(t *testing.T) {
	trace := generated(t, Generation{Kind: "mixed", Host: synthetic(t, "package:2 node:2 core:4 pu:2"), Seed: 3, Events: 120, Found: DefaultFound})
	got := asJSON(t, sound(t, Options{Trace: trace, Seed: 3}))
	name := filepath.Join("testdata", "mixed.json")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("UPDATE=1 renews it:\n%s", diff)
	}
}

// TestShapes runs all kinds on hosts that are unlike each other.
func TestShapes(t *testing.T) {
	t.Parallel()
	reserved := plan.DefaultPolicy()
	reserved.Reserved = topology.CPUs(0, 1)
	reserved.ReservedMemory = 1 << 20
	for _, x := range []struct {
		name, host string
		policy     plan.Policy
	}{
		{"one node", "node:1 core:4", plan.DefaultPolicy()},
		{"no SMT", "package:2 node:1 core:8", plan.DefaultPolicy()},
		{"memory without CPUs", "package:2 node:1(memory=16GiB) special:1(memory=64GiB) core:4 pu:2", plan.DefaultPolicy()},
		{"little memory", "package:2 node:2(memory=1GiB) core:8 pu:2", plan.DefaultPolicy()},
		{"huge pages", "package:2 node:1(memory=32GiB hugepages=2MiB:4096) core:8 pu:2 numbering=interleaved", plan.DefaultPolicy()},
		{"reserved", "package:2 node:2(memory=16GiB) llc:2 core:4 pu:2", reserved},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, kind := range Kinds {
				trace := generated(t, Generation{Kind: kind, Host: synthetic(t, x.host), Policy: x.policy, Seed: 11, Events: fewer(200), Found: DefaultFound})
				sound(t, Options{Trace: trace, Seed: 11})
			}
		})
	}
}

// TestAnyHost simulates on hosts that are drawn: sparse IDs, nodes without CPUs
// or memory, unknown distances, confinement.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "host")
		st.Policy.Overcommit = max(1, min(100, st.Policy.Overcommit))
		st.Policy.Packing = cmp.Or(st.Policy.Packing, plan.Adaptive)
		st.Policy.Split, st.Policy.Dedicated = false, topology.CPUSet{} // no trace has a partition
		// The daemon refuses a reserve that leaves nothing for work (daemon.Config).
		if st.Host.Online.SubsetOf(st.Policy.Reserved) {
			st.Policy.Reserved = topology.CPUSet{}
		}
		for _, n := range st.Host.Nodes {
			if n.Memory > 0 {
				st.Policy.ReservedMemory = min(st.Policy.ReservedMemory, n.Memory/2)
			}
		}
		seed := rapid.Uint64().Draw(t, "seed")
		trace, err := Generate(Generation{Kind: rapid.SampledFrom(Kinds).Draw(t, "kind"), Host: st.Host, Policy: st.Policy, Seed: seed,
			Events: rapid.IntRange(2, 60).Draw(t, "events"), Workloads: rapid.IntRange(0, 20).Draw(t, "workloads"),
			Found: rapid.Float64Range(0, 1).Draw(t, "found")})
		if err != nil {
			t.Skip(err)
		}
		r, err := Run(context.Background(), Options{Trace: trace, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if f := r.Failed(); f != nil {
			t.Fatalf("%v\n%s", f, strings.Join(f.Log, "\n"))
		}
	})
}

// TestHomenodePays: on a host with room the daemon is better than no policy, and
// where everything asks it is not worse than the simple ones.
func TestHomenodePays(t *testing.T) {
	t.Parallel()
	trace := generated(t, Generation{Kind: "steady", Host: synthetic(t, "package:2 node:4 core:8 pu:2"), Seed: 5, Events: 300, Found: 1})
	r := sound(t, Options{Trace: trace, Seed: 5, Policies: []string{"homenode", "none"}})
	home, none := r.Policies[0], r.Policies[1]
	if home.Local < none.Local+0.2 || home.AccessNs > 0.8*none.AccessNs {
		t.Errorf("homenode: %.0f %% local, %.0f ns; none: %.0f %% local, %.0f ns", 100*home.Local, home.AccessNs, 100*none.Local, none.AccessNs)
	}
	if home.Moves == 0 || home.MovedBytes == 0 {
		t.Error("homenode moved nothing")
	}
}

// TestCost holds the formula to the measurements it was made from.
func TestCost(t *testing.T) {
	h := synthetic(t, "package:2 node:1 core:4")
	m := newModel(h)
	m.load(make([]float64, 2))
	if m.cost[0] != localNs || math.Abs(m.cost[1]-3.2*localNs) > 1e-9 {
		t.Errorf("idle: %v ns local, %v ns remote at distances 10 and 32", m.cost[0], m.cost[1])
	}
	at := func(share float64) float64 {
		clear(m.traffic)
		m.traffic[0] = share * nodeMiBs
		m.load(make([]float64, 2))
		return m.cost[0] / localNs
	}
	before := 0.0
	for share := 0.0; share < 1.5; share += 0.01 {
		if c := at(share); c < before {
			t.Fatalf("cost falls from %v to %v at %v of the bandwidth", before, c, share)
		} else {
			before = c
		}
	}
	if half, full := at(0.5), at(2); half > 1.2 || full < 3.2 || full > 3.6 {
		t.Errorf("cost × idle: %.2f at half the bandwidth (want at most 1.2), %.2f beyond it (mlc: 3.5)", half, full)
	}
	h.Measured = &topology.Measured{LatencyNs: [][]float64{{80, 140}, {140, 80}}, BandwidthMiBs: [][]float64{{90000, 0}, {0, 90000}}}
	m = newModel(h)
	if m.idle[1] != 140 || m.local != 80 || m.node[0] != 90000 || math.Abs(m.link[1]/90000-math.Pow(80.0/140, linkFall)) > 1e-9 {
		t.Errorf("measured: idle %v, local %v, node %v, link %v", m.idle, m.local, m.node, m.link)
	}
	h.Measured = nil
	h.Distances = nil
	if m = newModel(h); m.idle[1] != 2*localNs {
		t.Errorf("nothing known: remote %v ns", m.idle[1])
	}
}

// TestKernel tries what the machine does by itself.
func TestKernel(t *testing.T) {
	h := synthetic(t, "package:2 node:1(memory=4GiB) core:4")
	m := newMachine(h, 1)
	add := func(id string, vcpus int, kib topology.KiB, change func(*job)) *job {
		j := &job{id: workload.ID(id), demand: Demand{Class: workload.Shared, VCPUs: vcpus, Busy: 1, Memory: kib, Bandwidth: 1000}, cpus: h.Online, mems: h.AllowedMems}
		if change != nil {
			change(j)
		}
		m.add(j)
		if err := m.conserved(); err != nil {
			t.Fatal(err)
		}
		return j
	}
	const gib = topology.KiB(1 << 20)
	a := add("a", 1, 3*gib, nil)
	if a.threads[0] != 1 || a.mem[0] != 3*gib {
		t.Errorf("first touch: threads %v, memory %v", a.threads, a.mem)
	}
	b := add("b", 1, 2*gib, func(j *job) { j.cpus = h.Nodes[0].CPUs; j.prefer = topology.Nodes(0) })
	if b.mem[0] != gib || b.mem[1] != gib {
		t.Errorf("a preferred node that is full: %v", b.mem)
	}
	c := add("c", 1, 2*gib, func(j *job) { j.prefer, j.bound = topology.Nodes(0), true })
	if c.short != 2*gib || c.resident() != 0 {
		t.Errorf("bound to a full node: %v, %d short", c.mem, c.short)
	}
	m.remove(a)
	m.settleMemory()
	if c.short != 0 || c.mem[0] != 2*gib {
		t.Errorf("when room comes: %v, %d short", c.mem, c.short)
	}
	d := add("d", 2, gib, func(j *job) { j.scattered = true })
	if d.mem[0] != gib/2 || d.mem[1] != gib/2 {
		t.Errorf("interleaved: %v", d.mem)
	}
	m.change(d, Demand{Busy: 0.5, Memory: gib / 2})
	m.setCPUs(d, h.Nodes[1].CPUs, false)
	if d.threads[0] != 0 || d.threads[1] != 2 || d.resident() != gib/2 {
		t.Errorf("confined and smaller: threads %v, memory %v", d.threads, d.mem)
	}
	for _, j := range []*job{b, c, d} {
		m.remove(j)
	}
	if err := m.conserved(); err != nil || m.free[0] != 4*gib || m.free[1] != 4*gib {
		t.Errorf("empty: %v free, %v", m.free, err)
	}
}

func TestContention(t *testing.T) {
	h := synthetic(t, "package:2 node:1 core:4")
	m := newMachine(h, 1)
	for k := range 2 {
		m.add(&job{id: workload.ID(fmt.Sprint(k)), demand: Demand{VCPUs: 4, Busy: 1}, cpus: h.Nodes[0].CPUs, mems: h.AllowedMems})
	}
	own := &job{id: "own", demand: Demand{Class: workload.Dedicated, VCPUs: 2, Busy: 1}, cpus: topology.CPUs(0, 1), mems: h.AllowedMems, exclusive: true}
	m.add(own)
	m.serve()
	// Eight threads share the two CPUs that are nobody's.
	if m.jobs[0].served != 0.25 || own.served != 1 {
		t.Errorf("shared got %v, dedicated %v of their time", m.jobs[0].served, own.served)
	}
}

const smallCase = `{"name":"small","host":{"name":"h","nodes":[{"id":0,"socket":0,"cpus":[0,1,2,3],"mem_mib":4096},{"id":1,"socket":1,"cpus":[4,5,6,7],"mem_mib":4096}],
"cores":[[0,1],[2,3],[4,5],[6,7]],"l3":[[0,1,2,3],[4,5,6,7]],"slit":[[10,21],[21,10]],"reserved_cpus":[0],"devices":[{"id":"nic0","node":1}]},
"events":[{"op":"preplace","vm":"p","cpus":[4,5],"mem":{"1":1024}},
{"op":"arrive","vm":"a","vcpus":2,"mem_mib":1024,"t":0.5},{"op":"arrive","vm":"b","vcpus":2,"mem_mib":512,"bw":"high","dev":"nic0","t":1.5},
{"op":"arrive","vm":"c","vcpus":64,"mem_mib":512,"t":2},{"op":"depart","vm":"c","t":2.5},{"op":"depart","vm":"a","t":3},{"op":"depart","vm":"p","t":4}]}`

func TestTraceFromCase(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(smallCase), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Events) != 7 || trace.Events[2].At != 15*time.Second || trace.Policy.Reserved.Len() != 1 {
		t.Errorf("%d events, third at %v, policy %+v", len(trace.Events), trace.Events[2].At, trace.Policy)
	}
	r := sound(t, Options{Trace: trace, Seed: 1})
	for _, p := range r.Policies {
		if p.Arrivals != 3 || p.Refused != 1 {
			t.Errorf("%s: %d arrivals, %d refused; want 3 and 1", p.Policy, p.Arrivals, p.Refused)
		}
	}
	if home := r.Policies[0]; home.Local != 1 || home.Moves != 0 {
		t.Errorf("homenode: %v local, %d moves", home.Local, home.Moves)
	}
}

func TestBadTraces(t *testing.T) {
	for name, change := range map[string][2]string{
		"no JSON":       {`{"name"`, `x`},
		"unknown key":   {`"name":"small"`, `"name":"small","colour":1`},
		"time falls":    {`"t":1.5`, `"t":0.1`},
		"centuries":     {`"t":4`, `"t":1e12`},
		"preplace late": {`{"op":"depart","vm":"c","t":2.5}`, `{"op":"preplace","vm":"x","cpus":[6],"mem":{},"t":2.5}`},
		"negative":      {`"mem_mib":1024,"t":0.5`, `"mem_mib":-1,"t":0.5`},
	} {
		text := strings.Replace(smallCase, change[0], change[1], 1)
		if text == smallCase {
			t.Fatalf("%s: nothing changed", name)
		}
		_, err := ReadTrace(strings.NewReader(text), 10*time.Second)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line", name, err)
		}
	}
	for name, change := range map[string][2]string{
		"no such CPU":  {`"cpus":[4,5],"mem"`, `"cpus":[99],"mem"`},
		"no CPU":       {`"cpus":[4,5],"mem"`, `"cpus":[],"mem"`},
		"no room":      {`"mem":{"1":1024}`, `"mem":{"1":102400}`},
		"no such node": {`"mem":{"1":1024}`, `"mem":{"7":1024}`},
		"all reserved": {`"reserved_cpus":[0]`, `"reserved_cpus":[0,1,2,3,4,5,6,7]`},
	} {
		trace, err := ReadTrace(strings.NewReader(strings.Replace(smallCase, change[0], change[1], 1)), time.Second)
		if err != nil {
			continue
		}
		if r, err := Run(t.Context(), Options{Trace: trace}); err == nil && name != "no such node" {
			t.Errorf("%s: accepted: %+v", name, r)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(smallCase))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := ReadTrace(bytes.NewReader(text), time.Second)
		if err != nil || len(trace.Events) > 50 || len(trace.Host.Nodes) > 8 || trace.Host.Online.Len() > 512 || trace.Host.Online.Max() > 4096 {
			return
		}
		for _, e := range trace.Events {
			if e.At > 10*time.Minute || e.Demand.VCPUs > 1024 {
				return
			}
		}
		r, err := Run(t.Context(), Options{Trace: trace})
		if err == nil && r.Failed() != nil {
			t.Error(r.Failed())
		}
	})
}
