package inside_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func cpusOf(text string) topology.CPUSet {
	s, err := topology.ParseCPUSet(text)
	if err != nil {
		panic(err)
	}
	return s
}

var twoParts = []inside.Part{{Node: 0, CPUs: cpusOf("0-3"), Weight: 0.5}, {Node: 2, CPUs: cpusOf("8-11"), Weight: 0.5}}

func TestDivide(t *testing.T) {
	faults := func(on0, on2 uint64) []workload.NodeFaults {
		return []workload.NodeFaults{{Node: 0, Faults: on0}, {Node: 2, Faults: on2}}
	}
	sets := []topology.CPUSet{cpusOf("0-3"), cpusOf("8-11")}
	thread := func(tid int, cpus string, use float64, f ...workload.NodeFaults) workload.Thread {
		return workload.Thread{Process: 1, TID: tid, CPUs: cpusOf(cpus), Use: use, Faults: f}
	}
	on := func(node topology.NodeID, use float64, f ...workload.NodeFaults) workload.Thread {
		t := thread(0, "0-15", use, f...)
		t.On = topology.Nodes(node)
		return t
	}
	for _, tt := range []struct {
		name    string
		threads []workload.Thread
		given   []topology.CPUSet
		want    []int
	}{
		{name: "evenly, where nothing is known", want: []int{0, 1, 0, 1},
			threads: []workload.Thread{thread(1, "0-3,8-11", 0), thread(2, "0-15", 0), thread(3, "0-3,8-11", 0), thread(4, "0-3,8-11", 0)}},
		{name: "to their memory", want: []int{1, 1, 0, 0},
			threads: []workload.Thread{thread(1, "0-15", 1, faults(10, 900)...), thread(2, "0-15", 1, faults(100, 900)...), thread(3, "0-15", 1, faults(900, 10)...), thread(4, "0-15", 1)}},
		{name: "not all to one node, the clearest first", want: []int{0, 1, 0, 1},
			threads: []workload.Thread{thread(1, "0-15", 1, faults(900, 10)...), thread(2, "0-15", 1, faults(900, 300)...), thread(3, "0-15", 1, faults(900, 20)...), thread(4, "0-15", 1, faults(900, 200)...)}},
		{name: "a few samples tell nothing", want: []int{0, 1},
			threads: []workload.Thread{thread(1, "0-15", 1, faults(0, 60)...), thread(2, "0-15", 1, faults(0, 60)...)}},
		{name: "what is on a part stays, whatever its faults; what came later fills up", given: sets, want: []int{0, 1, 1},
			threads: []workload.Thread{thread(1, "0-3", 1, faults(0, 900)...), thread(2, "0-15", 1), thread(3, "8-11", 0.1)}},
		{name: "one that its owner pinned is left alone, and counts", given: sets, want: []int{-1, 1, -1, 1},
			threads: []workload.Thread{thread(1, "0", 1), thread(2, "0-15", 0.9), thread(3, "1-2", 1), thread(4, "0-15", 0.9)}},
		{name: "a set of a part that homenode did not give is its owner's", want: []int{-1, 1},
			threads: []workload.Thread{thread(1, "0-3", 1), thread(2, "0-15", 1)}},
		{name: "sets of an earlier home", given: append([]topology.CPUSet{cpusOf("4-7")}, sets...), want: []int{0, 1},
			threads: []workload.Thread{thread(1, "4-7", 1), thread(2, "4-7", 1)}},
		{name: "where they run", want: []int{1, 1, 0, 1, 0, 0},
			threads: []workload.Thread{on(2, 1), on(2, 1), on(0, 1), on(2, 1), on(0, 1), on(0, 1)}},
		{name: "not more than its share", want: []int{1, 1, 1, 0, 0, 0},
			threads: []workload.Thread{on(2, 1), on(2, 1), on(2, 1), on(2, 1), on(0, 1), on(0, 1)}},
		{name: "one that runs elsewhere fills up", want: []int{1, 0, 1},
			threads: []workload.Thread{on(2, 1), on(5, 1), on(2, 0)}},
		{name: "its memory goes before where it runs", want: []int{0, 1},
			threads: []workload.Thread{on(2, 1, faults(900, 10)...), on(0, 1, faults(10, 900)...)}},
		{name: "one goes from a part that is full to one with room", given: sets, want: []int{1, 0, 0, 0, 0, 1},
			threads: []workload.Thread{thread(1, "0-3", 0.9), thread(2, "0-3", 0.9), thread(3, "0-3", 0.8), thread(4, "0-3", 0.8), thread(5, "0-3", 0.4), thread(6, "8-11", 0.1)}},
		{name: "both are full", given: sets, want: []int{0, 0, 1, 1},
			threads: []workload.Thread{thread(1, "0-3", 2), thread(2, "0-3", 2), thread(3, "8-11", 1.8), thread(4, "8-11", 1.8)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := inside.Divide(twoParts, tt.threads, tt.given, nil); !slices.Equal(got, tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestDivideProperties: the same input has the same result; what was divided stays divided;
// nobody's own CPUs are touched; no part has much more than its share.
func TestDivideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []inside.Part{}
		var whole topology.CPUSet
		n := rapid.IntRange(2, 4).Draw(t, "parts")
		for k := range n {
			cpus := topology.CPUs(topology.CPUID(4*k), topology.CPUID(4*k+1), topology.CPUID(4*k+2), topology.CPUID(4*k+3))
			parts, whole = append(parts, inside.Part{Node: topology.NodeID(k), CPUs: cpus, Weight: 1 / float64(n)}), whole.Union(cpus)
		}
		var given []topology.CPUSet
		for k := range parts {
			given = append(given, parts[k].CPUs)
		}
		var threads []workload.Thread
		own := map[int]bool{}
		for i := range rapid.IntRange(1, 40).Draw(t, "threads") {
			x := workload.Thread{Process: 1, TID: i, CPUs: whole, Use: rapid.Float64Range(0, 1).Draw(t, "use")}
			if rapid.IntRange(0, 9).Draw(t, "own") == 0 {
				x.CPUs, own[i] = topology.CPUs(topology.CPUID(rapid.IntRange(0, 4*n-1).Draw(t, "cpu"))), true
			}
			for k := range parts {
				x.Faults = append(x.Faults, workload.NodeFaults{Node: topology.NodeID(k), Faults: rapid.Uint64Range(0, 1000).Draw(t, "faults")})
			}
			threads = append(threads, x)
		}
		to := inside.Divide(parts, threads, nil, nil)
		if again := inside.Divide(parts, threads, nil, nil); !slices.Equal(again, to) {
			t.Fatalf("%v, then %v", to, again)
		}
		load, all := make([]float64, n), 0.0
		for i, k := range to {
			if own[i] != (k < 0) {
				t.Fatalf("thread %d, its owner's: %v, got part %d", i, own[i], k)
			}
			if k >= 0 {
				load[k] += threads[i].Use + 0.05
				all += threads[i].Use + 0.05
				threads[i].CPUs = parts[k].CPUs
			}
		}
		if len(own) == 0 {
			for k := range load {
				if load[k] > all/float64(n)+1.05 {
					t.Fatalf("part %d has %.2f of %.2f", k, load[k], all)
				}
			}
		}
		changed := 0
		for i, k := range inside.Divide(parts, threads, given, nil) {
			if k != to[i] {
				changed++
			}
		}
		if changed > 1 {
			t.Fatalf("%d threads go elsewhere at the next look", changed)
		}
	})
}

// TestDivisibleProperties: what is divided and put back again has had a quarter more, or less,
// threads in between; few threads are divided, and too many to be looked at are not.
func TestDivisibleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = workload.MostPerThread
		divided, last := false, 0
		for _, n := range rapid.SliceOfN(rapid.IntRange(most/2, most*3/2), 1, 100).Draw(t, "threads") {
			now := inside.Divisible(n, divided)
			if now && n > most || !now && n <= most/2 {
				t.Fatalf("%d threads are divided: %v", n, now)
			}
			if again := inside.Divisible(n, now); again != now {
				t.Fatalf("%d threads are divided: %v, and at the next look: %v", n, now, again)
			}
			if now == divided {
				continue
			}
			if last > 0 && max(n, last)-min(n, last) <= most/4 {
				t.Fatalf("divided: %v at %d threads, then %v at %d", divided, last, now, n)
			}
			divided, last = now, n
		}
	})
}
