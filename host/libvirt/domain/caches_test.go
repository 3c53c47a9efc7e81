package domain

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// epyc is a host of two nodes, each with four caches of four cores; siblings are 32 apart.
const epyc = "package:2 node:1(memory=64GiB) llc:4 core:4 pu:2"

// dedicatedOn is a dedicated guest pinned to CPUs of nodes 0 and 1 (from 16 on) of epyc.
func dedicatedOn(cpus ...topology.CPUID) guest.Home {
	p := plan.Placement{Workload: guest.ID("g"), Class: workload.Dedicated, Importance: 50, VCPUs: len(cpus), Pins: cpus, CPUs: topology.CPUs(cpus...)}
	for node := range topology.NodeID(2) {
		some := false
		for _, cpu := range cpus {
			some = some || topology.NodeID(cpu%32/16) == node
		}
		if some {
			p.Home.Add(node)
			p.Memory = append(p.Memory, workload.NodeMemory{Node: node, KiB: 1 << 20})
		}
	}
	return guest.Home{Placement: p, Emulator: topology.CPUs(15)}
}

// cores are both threads of so many cores from each of the given ones on.
func cores(n int, from ...topology.CPUID) (out []topology.CPUID) {
	for _, first := range from {
		for k := range topology.CPUID(n) {
			out = append(out, first+k, first+k+32)
		}
	}
	return out
}

func TestGuestSeesCaches(t *testing.T) {
	const emulated, passed = "<cache mode='emulate' level='3'/>", "<cache mode='passthrough'/>"
	for _, c := range []struct {
		name, arch  string
		pins        []topology.CPUID
		want, cache string
	}{
		{"one cache", "x86_64", cores(4, 0), "sockets='1' cores='4' threads='2'", passed},
		{"a part of one", "x86_64", cores(2, 0), "sockets='1' cores='2' threads='2'", passed},
		{"two whole caches", "x86_64", cores(4, 0, 4), "sockets='1' dies='2' cores='4' threads='2'", passed},
		{"halves of two", "x86_64", cores(2, 0, 4), "sockets='1' dies='2' cores='2' threads='2'", emulated},
		{"three of four cores of two", "x86_64", cores(3, 0, 4), "sockets='1' dies='2' cores='3' threads='2'", passed},
		{"one thread of each core", "x86_64", []topology.CPUID{0, 1, 2, 3, 4, 5, 6, 7}, "sockets='1' dies='2' cores='4' threads='1'", emulated},
		{"uneven: no dies of one size", "x86_64", append(cores(3, 0), cores(1, 4)...), "sockets='1' cores='4' threads='2'", passed},
		{"a cache that is met twice", "x86_64", append(cores(1, 0, 4), cores(1, 1, 5)...), "sockets='1' cores='4' threads='2'", passed},
		{"two nodes, a cache of each", "x86_64", cores(4, 0, 16), "sockets='2' cores='4' threads='2'", passed},
		{"two nodes, halves of two caches of each", "x86_64", cores(2, 0, 4, 16, 20), "sockets='2' dies='2' cores='2' threads='2'", emulated},
		{"two nodes, half a cache of each", "x86_64", cores(2, 0, 16), "sockets='2' cores='2' threads='2'", emulated},
		{"an emulated machine aborts with dies", "emulated", cores(4, 0, 4), "sockets='2' cores='4' threads='2'", ""},
		{"Arm has no dies", "aarch64", cores(4, 0, 4), "sockets='2' cores='4' threads='2'", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := shape(t, epyc)
			order := guest.Order{Name: "g", Flavor: guest.Flavor{Name: "f", Class: workload.Dedicated, VCPUs: len(c.pins), SMT: workload.SMTPrefer, Emulator: guest.Share, Queues: 1}}
			m := Machine{Arch: c.arch}
			if c.arch == "emulated" {
				m = Machine{Arch: "x86_64", Emulated: true}
			}
			d, err := New(st.Host, &order, dedicatedOn(c.pins...), m)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(d.String(), "<topology "+c.want+"/>") || strings.Contains(d.String(), "<cache ") != (c.cache != "") || !strings.Contains(d.String(), c.cache) {
				t.Errorf("want %s and %s in\n%s", c.want, c.cache, d)
			}
			if rng := schema(); rng != "" {
				validate(t, rng, map[string][]byte{"guest": d.Bytes()})
			}
		})
	}
}

// TestDiesAreCaches: whatever the pins, the topology has a CPU for each vCPU, and where it has dies, two
// vCPUs are in one die exactly if they are pinned to one cache.
func TestDiesAreCaches(t *testing.T) {
	h := shape(t, epyc).Host
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 63), 1, 32, rapid.ID[int]).Draw(t, "cpus")
		if rapid.Bool().Draw(t, "blocks") { // such as a placement makes
			from := rapid.SliceOfNDistinct(rapid.SampledFrom([]topology.CPUID{0, 4, 8, 12, 16, 20, 24, 28}), 1, 8, rapid.ID[topology.CPUID]).Draw(t, "from")
			cpus = nil
			for _, cpu := range cores(rapid.IntRange(1, 4).Draw(t, "cores"), from...) {
				cpus = append(cpus, int(cpu))
			}
		}
		var pins []topology.CPUID
		for _, cpu := range cpus {
			pins = append(pins, topology.CPUID(cpu))
		}
		home := dedicatedOn(pins...)
		sets := oneEach(pins)
		before := topologyOf(threadsPerCore(h, sets), cellsOf(h, &home.Placement))
		got := before.withCaches(h, sets, Machine{Arch: "x86_64"})
		if got.sockets*got.dies*got.cores*got.threads != len(pins) {
			t.Fatalf("%+v for %d vCPUs", got, len(pins))
		}
		if got == before {
			return
		}
		size := got.cores * got.threads
		for i := range pins {
			for k := range pins {
				if one := cacheOf(h, sets[i]) == cacheOf(h, sets[k]); one != (i/size == k/size) {
					t.Fatalf("%+v: vCPUs %d and %d are pinned to one cache: %v", got, i, k, one)
				}
			}
		}
	})
}
