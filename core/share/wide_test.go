package share

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestManyNodes: on 64 nodes, where some gain and some lose in most looks, the CPU set of batch work is
// not changed to give more but once in ten seconds, what is taken is taken in the look that says so, and
// what is given stays near to what the nodes have.
func TestManyNodes(t *testing.T) {
	for _, kind := range []string{"bursts", "days", "rare"} {
		r := rand.New(rand.NewPCG(1, 2))
		var nodes []Node
		pool := 0
		for i := range 64 {
			nodes = append(nodes, node(i, 64*i, 32, 2))
			pool += nodes[i].Pool.Len()
		}
		work := []Work{batch("b", 50, nodes...)}
		work[0].Use = 1000
		phase := make([]float64, 64)
		for i := range phase {
			phase[i] = r.Float64()
			work[0].RanOn = append(work[0].RanOn, workload.NodeShare{Node: topology.NodeID(i), Share: 1.0 / 64})
		}
		var s State
		var was topology.CPUSet
		var changed time.Time
		all, more, late, missing := 0, 0, 0, 0.0
		const rounds = 600
		for k := range rounds {
			at := float64(2 * k)
			in := Input{At: epoch.Add(time.Duration(2*k) * time.Second), Work: work, Settings: on()}
			for i, n := range nodes {
				x := 20.0
				switch every := 300.0; kind {
				case "rare":
					every = 1200
					fallthrough
				case "bursts":
					if math.Mod(at/every+phase[i], 1) < 0.1 {
						x = 40
					}
				case "days":
					x = 20 + 15*math.Sin(2*math.Pi*(at/1200+phase[i]))
				}
				n.Online = max(0, x+r.NormFloat64()*0.5)
				in.Nodes = append(in.Nodes, n)
			}
			var out Outcome
			out, s = Decide(in, s)
			got, have, listed := out.Work[0].CPUs, topology.CPUSet{}, topology.CPUSet{}
			for i := range s.Nodes {
				have, listed = have.Union(s.Nodes[i].Given), listed.Union(out.Nodes[i].Given)
			}
			if !got.SubsetOf(have) {
				t.Fatalf("%s, look %d: CPUs %v are given that the nodes have not", kind, k, got.Minus(have))
			}
			if !listed.Equal(got) {
				t.Fatalf("%s, look %d: the nodes tell of %v, given is %v", kind, k, listed, got)
			}
			missing += float64(have.Len()-got.Len()) / float64(pool) / rounds
			if !was.Empty() && !got.Equal(was) {
				all++
				if was.SubsetOf(got) {
					if more++; in.At.Sub(changed) < 10*time.Second {
						late++
					}
				}
				changed = in.At
			}
			was, work[0].Now = got, got
		}
		t.Logf("%s: changed %.1f times a minute, only to more %.1f; on average %.2f %% of the CPUs later", kind, float64(all)*30/rounds, float64(more)*30/rounds, 100*missing)
		if late > 0 || all == 0 || kind == "rare" && more == 0 {
			t.Errorf("%s: of %d changes %d were only to more, %d of them within ten seconds of another", kind, all, more, late)
		}
		if missing > 0.01 {
			t.Errorf("%s: on average %.1f %% of the CPUs are given later", kind, 100*missing)
		}
	}
}

// TestManyNodesFirst: what has no CPU on the only node that it may use gets some as soon as that has any:
// in a set of none it would have all of them.
func TestManyNodesFirst(t *testing.T) {
	var nodes []Node
	for i := range many {
		nodes = append(nodes, node(i, 64*i, 32, 2))
	}
	work := []Work{batch("all", 50, nodes...), batch("one", 50, nodes[0])}
	var s State
	for k := range 40 {
		in := Input{At: epoch.Add(time.Duration(2*k) * time.Second), Work: work, Settings: on()}
		in.Nodes = append(in.Nodes, nodes...)
		if k >= 10 && k < 12 { // dedicated work has all of it for a moment
			in.Nodes[0] = Node{ID: 0, Known: true}
		}
		var out Outcome
		out, s = Decide(in, s)
		if one := out.Work[1].CPUs; !in.Nodes[0].Pool.Empty() && !one.SubsetOf(s.Nodes[0].Given) {
			t.Fatalf("look %d: %v is given, the node has %v", k, one, s.Nodes[0].Given)
		}
	}
}
