package nearness

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func TestFollow(t *testing.T) {
	const gib = topology.KiB(1 << 20)
	guest := func(id string, memory topology.KiB, nodes ...topology.NodeID) Client {
		return Client{ID: workload.ID(id), Memory: memory, Nodes: topology.Nodes(nodes...)}
	}
	bound := guest("vm:b", gib, 1)
	bound.Stays = words.Because(words.DedicatedStays)
	for _, tt := range []struct {
		name   string
		helper Helper
		want   string // "" is not known
	}{
		{"the smaller goes", Helper{Memory: gib / 8, Clients: []Client{guest("vm:a", 4*gib, 0)}}, "follows 0: It works for vm:a and follows: it holds 128 MiB, they hold 4 GiB."},
		{"a large daemon of a small guest stays", Helper{Memory: 8 * gib, Clients: []Client{guest("vm:a", gib, 0)}},
			"stays 0: It works for vm:a and holds 8 GiB, they hold 1 GiB: they move to it, and it stays."},
		{"moving many guests costs more", Helper{Memory: 8 * gib, Clients: []Client{guest("vm:a", 7*gib/2, 0), guest("vm:b", 7*gib/2, 0)}},
			"follows 0: It works for vm:a and vm:b and follows: it holds 8 GiB, they hold 7 GiB."},
		{"a guest that cannot move", Helper{Memory: 8 * gib, Clients: []Client{bound}},
			"follows 1: It works for vm:b and follows: vm:b cannot come to it. Dedicated workloads move only when ordered to."},
		{"pinned by its owner", Helper{Memory: gib, Stays: words.Because(words.OwnAffinity, "CPU 2"), Clients: []Client{guest("vm:a", 4*gib, 0)}},
			"stays 0: It works for vm:a and does not follow: Another program, or the workload itself, set its CPU affinities (CPU 2); homenode leaves them alone."},
		{"guests on two nodes", Helper{Memory: gib / 8, Clients: []Client{guest("vm:a", gib, 0), guest("vm:b", gib, 1)}},
			"stays : It works for vm:a and vm:b, which are on nodes 0-1 but share no node, so it stays."},
		{"a wide guest and one of its nodes", Helper{Memory: gib / 8, Clients: []Client{guest("vm:a", gib, 0, 1), guest("vm:b", gib, 1)}},
			"follows 1: It works for vm:a and vm:b and follows: it holds 128 MiB, they hold 2 GiB."},
		{"nobody knows where they are", Helper{Memory: gib, Clients: []Client{guest("vm:a", gib)}}, ""},
	} {
		f, known := Follow(&tt.helper)
		got := ""
		if known {
			got = fmt.Sprintf("%s %s: %s", map[bool]string{true: "follows", false: "stays"}[f.Follows], f.Nodes, f.Why)
		}
		if got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
		if f.Follows != (len(f.To) > 0) {
			t.Errorf("%s: near %+v", tt.name, f.To)
		}
	}
}

// TestFollowProperties: a helper that must stay never follows, and one that follows leaves no client behind. More
// memory of its own never makes it follow.
func TestFollowProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := Helper{Memory: topology.KiB(rapid.Int64Range(0, 64<<20).Draw(r, "memory"))}
		if rapid.Bool().Draw(r, "stays") {
			h.Stays = words.Because(words.HeldByHand)
		}
		for i := range rapid.IntRange(0, 4).Draw(r, "clients") {
			c := Client{ID: workload.ID(fmt.Sprintf("vm:%d", i)), Memory: topology.KiB(rapid.Int64Range(0, 64<<20).Draw(r, "client"))}
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 2, func(n int) int { return n }).Draw(r, "nodes") {
				c.Nodes.Add(topology.NodeID(n))
			}
			if rapid.Bool().Draw(r, "bound") {
				c.Stays = words.Because(words.DedicatedStays)
			}
			h.Clients = append(h.Clients, c)
		}
		f, known := Follow(&h)
		if f.Follows && (!known || !h.Stays.None() || f.Nodes.Empty()) {
			r.Fatalf("%+v of %+v", f, h)
		}
		sum := 0.0
		for _, n := range f.To {
			sum += n.Weight
			if !n.Serves || !f.Nodes.SubsetOf(n.Nodes) {
				r.Fatalf("near %+v, all are on %s", n, f.Nodes)
			}
		}
		if f.Follows && (sum < 0.99 || sum > 1.01) {
			r.Fatalf("weights add up to %v", sum)
		}
		if known && f.Why.None() {
			r.Fatal("no reason")
		}
		more := h
		more.Memory += topology.KiB(rapid.Int64Range(0, 64<<20).Draw(r, "more"))
		if g, _ := Follow(&more); g.Follows && !f.Follows {
			r.Fatalf("with %d KiB it stays, with %d it follows", h.Memory, more.Memory)
		}
	})
}
