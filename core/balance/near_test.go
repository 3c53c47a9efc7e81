package balance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// talks makes a workload near to something learned, with so much traffic of its own.
func talks(to topology.NodeID, mibs int64) func(*place.Subject) {
	return func(s *place.Subject) {
		s.Observation.Bandwidth = mibs
		s.Spec.Near = []workload.Near{{Nodes: topology.Nodes(to), Learned: true, Weight: 1}}
	}
}

// poller is a helper with threads that are always busy, pinned by its own program.
func poller(s *place.Subject) { s.Observation.Pinned = true }

// serves makes a workload one that works for others.
func serves(to topology.NodeID) func(*place.Subject) {
	return func(s *place.Subject) {
		s.Spec.Near = []workload.Near{{Nodes: topology.Nodes(to), Learned: true, Serves: true, Weight: 1}}
	}
}

func TestNearMoves(t *testing.T) {
	tests := []struct {
		name  string
		setup func(b *bench)
		want  string
		why   words.Reason
	}{
		{"with room it goes to its card", func(b *bench) {
			b.in.State.Host.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:01.0", Node: 0}}
			b.run("a", 1, 3, gib/4, func(s *place.Subject) {
				s.Observation.Bandwidth = 12_000
				s.Spec.Near = []workload.Near{{Device: "eth0", Learned: true, Weight: 1}}
			})
			b.run("b", 0, 1, gib)
		}, "move a 1>0", words.Because(words.FarFromPartner)},
		{"with room it goes to its poll thread", func(b *bench) {
			b.run("a", 1, 3, gib/4, talks(0, 12_000))
			b.run("ovs", 0, 2, gib, poller)
		}, "move a 1>0", words.Because(words.OnNodes, "0")},
		{"few busy CPUs and a fast link go to the card: what is far is traffic, not CPUs", func(b *bench) {
			b.run("a", 1, 1.5, gib/4, talks(0, 0))
		}, "move a 1>0", words.Because(words.OnNodes, "0")},
		{"a wide guest of which little is busy is no other", func(b *bench) {
			b.run("a", 1, 1.5, gib/4, talks(0, 0), func(s *place.Subject) { s.Spec.CPUs, s.Spec.Given = 4, true })
		}, "move a 1>0", words.Because(words.OnNodes, "0")},
		{"few busy CPUs crowd no node", func(b *bench) {
			b.run("a", 1, 1.5, gib/4, talks(0, 0))
			b.run("b", 0, 5.5, gib)
		}, "no choice", words.Because(words.AffinityLimit)},
		{"little traffic is no ground", func(b *bench) {
			b.run("a", 1, 3, gib/4, talks(0, 250))
		}, "in order", words.Reason{}},
		{"a node that would fill up is left", func(b *bench) {
			b.run("a", 1, 3, gib/4, talks(0, 12_000))
			b.run("b", 0, 4, gib)
		}, "no choice", words.Because(words.AffinityLimit)},
		{"memory that is dear to copy stays", func(b *bench) {
			b.run("a", 1, 3, 12*gib, talks(0, 12_000))
		}, "no choice", words.Because(words.DoesNotPay)},
		{"a helper goes where those are that it works for, though it uses little", func(b *bench) {
			b.run("nbd", 1, 0.3, gib/8, serves(0))
		}, "move nbd 1>0", words.Because(words.FarFromPartner)},
		{"a helper goes, though its program text stays", func(b *bench) {
			b.run("nbd", 1, 0.3, gib/8, serves(0), func(s *place.Subject) {
				s.Observation.Movable = []workload.NodeMemory{{Node: 1, KiB: gib / 20}}
			})
		}, "move nbd 1>0", words.Because(words.FarFromPartner)},
		{"a helper that is hardly busy stays where it is", func(b *bench) {
			b.run("nbd", 1, 0.02, gib/8, serves(0))
		}, "in order", words.Reason{}},
		{"a helper crowds no node", func(b *bench) {
			b.run("nbd", 1, 0.3, gib/8, serves(0))
			b.run("b", 0, 6.5, gib)
		}, "no choice", words.Because(words.AffinityLimit)},
		{"what may not move stays", func(b *bench) {
			b.run("a", 1, 3, gib/4, talks(0, 12_000), func(s *place.Subject) { s.Spec.Nodes = topology.Nodes(1) })
		}, "no choice", words.Reason{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := two(t)
			tt.setup(b)
			b.decides(t, tt.want, tt.why)
		})
	}
}

// What was learned survives the flight recorder: the same decision comes out of what it
// wrote.
func TestLearnedIsRecorded(t *testing.T) {
	b := two(t)
	b.in.State.Host.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:01.0", Node: 0}}
	b.run("a", 1, 3, gib/4, talks(0, 12_000))
	b.run("b", 1, 1, gib, func(s *place.Subject) { s.Spec.Near = []workload.Near{{Device: "eth0", Learned: true, Weight: 0.25}} })
	b.until()
	in, memory := b.in, b.memory
	out, _ := Tick(in, memory)
	type recorded struct {
		Memory History
		Input  Input
	}
	text, err := json.Marshal(recorded{memory, in})
	if err != nil {
		t.Fatal(err)
	}
	var back recorded
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := Tick(back.Input, back.Memory)
	was, _ := json.Marshal(out)
	now, _ := json.Marshal(again)
	if string(was) != string(now) || !strings.Contains(string(text), `"Learned":true`) {
		t.Errorf("%s\n%s", was, now)
	}
}

// Broadcom's KB 439993: a host where every guest talks to poll threads that burn their
// CPUs on one node. Some guests go there; that node never gets more than its part, and
// after that nothing moves any more.
func TestGuestsDoNotChaseAPollThread(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(2, 3).Draw(r, "nodes")
		b := newBench(t, fmt.Sprintf("package:%d node:1(memory=64GiB) core:16", nodes))
		busy := rapid.IntRange(1, 8).Draw(r, "poll threads")
		b.run("a-ovs", 0, float64(busy), gib, poller)
		guests := rapid.IntRange(2, 3*nodes).Draw(r, "guests")
		for i := range guests {
			b.run(fmt.Sprintf("g%02d", i), topology.NodeID(i%nodes), rapid.Float64Range(1, 3).Draw(r, "use"), gib/8,
				talks(0, rapid.Int64Range(0, 20_000).Draw(r, "MiB/s")))
		}
		loads := func() []float64 {
			out := make([]float64, nodes)
			for _, s := range b.in.Subjects {
				for _, p := range s.Observation.RanOn {
					out[p.Node] += p.Share * s.Observation.CPUUse
				}
			}
			return out
		}
		before := loads()[0]
		came, last := 0, 0
		for k := range 120 { // four minutes
			if rep := b.tick(); rep.Chosen != nil {
				last = k
				for _, c := range rep.Chosen.Changes {
					if c.To.Has(0) {
						came++
					}
				}
			}
			if now := loads()[0]; now > max(before, nearFill*16)+1e-9 {
				r.Fatalf("tick %d: node 0 has %.1f CPUs wanted of 16, before %.1f: %s", k, now, before, b.out.Report.Verdict())
			}
		}
		if came > guests || last > 100 {
			r.Fatalf("%d moves to the poll threads by %d guests, the last in tick %d", came, guests, last)
		}
	})
}
