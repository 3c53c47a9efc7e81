package plan

import (
	"math/rand/v2"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestFits: what fits as it is booked can be settled.
func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	fit := 0
	for range 20_000 {
		st := State{Host: &topology.Host{Nodes: []topology.Node{{ID: 0}, {ID: 2}, {ID: 5}}}}
		var caps []topology.KiB
		for range st.Host.Nodes {
			caps = append(caps, topology.KiB(r.IntN(12)-1))
		}
		var ps []Placement
		for range r.IntN(4) {
			p := Placement{HugePage: topology.KiB(r.IntN(10)/9) * 2}
			for i := range 6 {
				if r.IntN(3) == 0 {
					p.Home.Add(topology.NodeID(i))
				}
				if r.IntN(3) == 0 {
					p.Memory = append(p.Memory, workload.NodeMemory{Node: topology.NodeID(i), KiB: topology.KiB(r.IntN(5) - r.IntN(20)/19)})
				}
			}
			ps = append(ps, p)
		}
		c := newChecker(st)
		if !c.fits(ps, 0, caps) {
			continue
		}
		fit++
		c.settles(ps, 0, caps)
		if len(c.found) > 0 {
			t.Fatalf("%v of %v: %v", ps, caps, c.found)
		}
	}
	if fit < 1000 {
		t.Fatalf("only %d fit: the test tests nothing", fit)
	}
}
