package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// TestCachesCostMore: threads that exchange lines pay more for each cache more that they are in; jobs that exchange
// none pay nothing.
func TestCachesCostMore(t *testing.T) {
	for _, exchange := range []float64{0, 0.3} {
		before := 0.0
		for n, cpus := range []string{"0-7", "0-15", "0-23", "0-31"} {
			h, err := topology.FromSynthetic(machineOf("caches", 2))
			if err != nil {
				t.Fatal(err)
			}
			d := guest(6, 0.5, 1<<20)
			d.Exchange = exchange
			m := newMachine(h, 1)
			m.findCaches([]Event{{Demand: d}, {Demand: Demand{Exchange: 0.1}}}, 1)
			if len(m.caches) != 8 {
				t.Fatalf("%d caches, want 8", len(m.caches))
			}
			set, err := topology.ParseCPUSet(cpus)
			if err != nil {
				t.Fatal(err)
			}
			j := &job{id: "a", demand: d, cpus: set, mems: h.AllowedMems}
			m.add(j)
			m.settleCaches()
			cost := m.accessNs(j)
			if n > 0 && exchange > 0 && cost <= before {
				t.Errorf("%d caches cost %.1f ns an access, one fewer %.1f ns", n+1, cost, before)
			}
			if n > 0 && exchange == 0 && cost != before {
				t.Errorf("work that exchanges nothing pays %.1f ns in %d caches, %.1f ns in one fewer", cost, n+1,
					before)
			}
			before = cost
		}
	}
}

// TestCachesAreFull: threads wait where more of them want to run than their cache has CPUs, though the node idles, and
// do not where they may use all of the node.
func TestCachesAreFull(t *testing.T) {
	for _, c := range []struct {
		name   string
		cpus   string
		busy   float64
		bursts bool
		waits  bool
	}{
		{"twelve threads in a cache of 8 CPUs", "0-7", 0.5, false, true},
		{"on all of the node", "0-31", 0.5, false, false},
		{"all at once", "0-7", 0.1, true, true},
		{"all at once, on two caches", "0-15", 0.1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := topology.FromSynthetic(machineOf("caches", 2))
			if err != nil {
				t.Fatal(err)
			}
			d := guest(12, c.busy, 1<<20)
			d.Exchange, d.Bursts = 0.3, c.bursts
			m := newMachine(h, 1)
			m.findCaches([]Event{{Demand: d}}, 1)
			set, err := topology.ParseCPUSet(c.cpus)
			if err != nil {
				t.Fatal(err)
			}
			j := &job{id: "a", demand: d, cpus: set, mems: h.AllowedMems}
			m.add(j)
			m.serve()
			m.settleCaches()
			m.crowd()
			if got := j.served < 1; got != c.waits {
				t.Errorf("it gets %.3f of what it wants", j.served)
			}
		})
	}
}

// TestPlaceBeatsOff: work that exchanges lines has cheaper accesses with caches: place than with off, and no less CPU
// time.
func TestPlaceBeatsOff(t *testing.T) {
	for seed := range uint64(3) {
		var scores []Score
		for _, mode := range []plan.CacheMode{plan.CachesOff, plan.CachesPlace} {
			trace, err := Scenario("caches", 2, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			trace.Policy.Caches = mode
			r, err := Run(context.Background(), Options{Trace: trace, Seed: seed + 1, Policies: []string{"homenode"}})
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Failed(); f != nil {
				t.Fatal(f)
			}
			scores = append(scores, r.Policies[0])
		}
		off, place := scores[0], scores[1]
		t.Logf("seed %d: felt %.1f ns off, %.1f ns place; CPU %.4f off, %.4f place; %d steps", seed+1, off.FeltNs,
			place.FeltNs, off.CPUServed, place.CPUServed, place.Steps)
		if place.FeltNs > 0.95*off.FeltNs {
			t.Errorf("seed %d: an access costs %.1f ns with caches: place, %.1f ns with off", seed+1, place.FeltNs,
				off.FeltNs)
		}
		if place.CPUServed < off.CPUServed-0.005 {
			t.Errorf("seed %d: %.4f of the CPU time with caches: place, %.4f with off", seed+1, place.CPUServed,
				off.CPUServed)
		}
	}
}

// TestServicesOfTheGuest: the work of the guest caches-count (e2e/guest/count/lines.go) on a machine of its shape. Kept in
// caches, it pays at most half of what lines of other caches cost under the kernel alone, and waits for a CPU for two
// thousandths of its time more at most: simulated threads that may go elsewhere do not make room for those that may not.
func TestServicesOfTheGuest(t *testing.T) {
	kinds := func(of ...Demand) []Demand { return of }
	exchanging := func(threads int, busy float64) Demand {
		d := guest(threads, busy, 1<<20)
		d.Exchange = 1
		d.Asks = false
		d.Bandwidth = 0
		return d
	}
	pair, pod, vm, service := exchanging(2, 0.6), exchanging(3, 0.6), exchanging(4, 0.6), exchanging(3, 0.4)
	for name, work := range map[string][]Demand{
		"together": kinds(pair, pair, pair, pod, vm),
		"six":      kinds(service, service, service, service, service, service),
	} {
		for seed := range uint64(5) {
			var lines, served []float64
			for _, policy := range []string{"none", "homenode"} {
				l, s := exchange(t, work, policy, seed+1)
				lines, served = append(lines, l), append(served, s)
			}
			t.Logf("%s, seed %d: lines cost %.1f ns of %.1f ns, CPU %.4f of %.4f", name, seed+1, lines[1], lines[0], served[1],
				served[0])
			if lines[1] > lines[0]/2 {
				t.Errorf("%s, seed %d: lines cost %.1f ns, %.1f ns under the kernel alone", name, seed+1, lines[1], lines[0])
			}
			if served[1] < served[0]-0.002 {
				t.Errorf("%s, seed %d: work gets %.4f of its CPU time, %.4f under the kernel alone", name, seed+1,
					served[1], served[0])
			}
		}
	}
}

// exchange returns what lines cost all work on two nodes of two caches of 4 CPUs, ns an access, and the share of the CPU
// time that it gets, over five minutes.
func exchange(t *testing.T, work []Demand, policy string, seed uint64) (lines, served float64) {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=32GiB) l3:2 core:4")
	if err != nil {
		t.Fatal(err)
	}
	trace := &Trace{Name: "guest", Host: h, Policy: plan.DefaultPolicy(), Until: 5 * time.Minute}
	trace.Policy.Caches = plan.CachesPlace
	for i, d := range work {
		at := time.Duration(i) * time.Second
		trace.Events = append(trace.Events, Event{At: at, Op: Arrive, Name: fmt.Sprint("w", i), Demand: d})
	}
	r, err := Run(context.Background(), Options{Trace: trace, Seed: seed, Policies: []string{policy}})
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Failed(); f != nil {
		t.Fatal(f)
	}
	return r.Policies[0].LinesNs, r.Policies[0].CPUServed
}
