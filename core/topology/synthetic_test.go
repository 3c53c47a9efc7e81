package topology

import (
	"fmt"
	"strings"
	"testing"
)

// brief is a host on one line: nodes and their CPUs, cores, caches, distances.
func brief(h *Host) string {
	var b strings.Builder
	for _, n := range h.Nodes {
		fmt.Fprintf(&b, "node%d@%d[%s] ", n.ID, n.Package, n.CPUs)
	}
	b.WriteString("cores")
	for _, c := range h.Cores {
		fmt.Fprintf(&b, " %s", c.CPUs)
	}
	b.WriteString("; llcs")
	for _, l := range h.LLCs {
		fmt.Fprintf(&b, " %s", l.CPUs)
	}
	fmt.Fprintf(&b, "; %v", h.Distances)
	return b.String()
}

func TestFromSynthetic(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"core:2", "node0@0[0-1] cores 0 1; llcs; [[10]]"},
		{"pu:2", "node0@0[0-1] cores 0 1; llcs; [[10]]"},
		{"core:1 pu:2", "node0@0[0-1] cores 0-1; llcs; [[10]]"},
		{"package:2 node:2 llc:1 core:1 pu:2",
			"node0@0[0,4] node1@0[1,5] node2@1[2,6] node3@1[3,7] cores 0,4 1,5 2,6 3,7; llcs 0,4 1,5 2,6 3,7; [[10 12 32 32] [12 10 32 32] [32 32 10 12] [32 32 12 10]]"},
		{"Socket:2 NUMA:1 L3:1 core:2 thread:2 numbering=adjacent",
			"node0@0[0-3] node1@1[4-7] cores 0-1 2-3 4-5 6-7; llcs 0-3 4-7; [[10 32] [32 10]]"},
		{"pack:2 numanode:1 core:2 cpu:2 numbering=interleaved",
			"node0@0[0,2,4,6] node1@1[1,3,5,7] cores 0,4 1,5 2,6 3,7; llcs; [[10 32] [32 10]]"},
		{"package:1 die:2 node:1 cluster:1 core:1", "node0@0[0] node1@0[1] cores 0 1; llcs; [[10 12] [12 10]]"},
		{"node:1 package:2 llc:1 core:1", "node0@-1[0-1] cores 0 1; llcs 0 1; [[10]]"},
		{"package:2 special:1 core:1", "node0@-1[0-1] node1@0[] node2@1[] cores 0 1; llcs; [[10 46 46] [46 10 46] [46 46 10]]"},
		{"package:2 special:1 node:1 core:1",
			"node0@0[0] node1@1[1] node2@0[] node3@1[] cores 0 1; llcs; [[10 32 26 46] [32 10 46 26] [26 46 10 46] [46 26 46 10]]"},
	} {
		h, err := FromSynthetic(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if got := brief(h); got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

func TestSyntheticMemory(t *testing.T) {
	h := mustSynthetic(t, "package:2 special:1(memory=1TiB) node:1(memory=512MB, hugepages=1GiB:2 hugepages=64KiB:5) core:1")
	want := []Node{
		{ID: 0, Package: 0, CPUs: set("0"), Memory: 512 << 10, Free: 512 << 10, Kind: DRAM, HugePages: []HugePool{{64, 5, 5}, {1 << 20, 2, 2}}},
		{ID: 1, Package: 1, CPUs: set("1"), Memory: 512 << 10, Free: 512 << 10, Kind: DRAM, HugePages: []HugePool{{64, 5, 5}, {1 << 20, 2, 2}}},
		{ID: 2, Package: 0, Memory: 1 << 30, Free: 1 << 30, Kind: Special},
		{ID: 3, Package: 1, Memory: 1 << 30, Free: 1 << 30, Kind: Special},
	}
	if d := diff(&Host{Nodes: want}, &Host{Nodes: h.Nodes}); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if h := mustSynthetic(t, "node:2(memory=0) core:1"); h.Nodes[1].Kind != NoMem || !h.AllowedMems.Empty() {
		t.Errorf("memory=0: %+v", h.Nodes[1])
	}
}

func TestFromSyntheticRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "no CPUs; add core:N"},
		{"package:2", "no CPUs; add core:N"},
		{"package:2 boat:1", `character 11: unknown kind "boat"; known are package, node,`},
		{"package core:1", "character 1: package lacks a count; give package:1"},
		{"package:0 core:1", `character 1: count of package is "0"; give 1 to 8192`},
		{"package:-1 core:1", `count of package is "-1"`},
		{"package:2 socket:2 core:1", "character 11: package is there twice"},
		{"pu:2 core:1", "character 6: core stands after pu"},
		{"core:2 node:2", "character 8: node stands after core"},
		{"core:2 l2:2", "character 8: l2 stands after core"},
		{"core:2 die:2 pu:2 numa:1", "stands after pu"},
		{"core:8192 pu:2", "character 11: more than 8192 CPUs"},
		{"node:2000 core:1", "more than 1024 nodes"},
		{"node:1(memory=64) core:1", `character 1: size is "64"; give a size up to 4096TiB, such as 64GiB`},
		{"node:1(memory=9999999TiB) core:1", "give a size up to 4096TiB"},
		{"node:1(memory=64GiB core:1", "wants one closing parenthesis"},
		{"node:1(speed=9) core:1", `node has no attribute "speed"`},
		{"core:1(memory=1GiB)", `core has no attribute "memory"`},
		{"node:1(hugepages=2MiB) core:1", "give SIZE:COUNT, such as 2MiB:1024"},
		{"node:1(hugepages=2MiB:1 hugepages=2048KiB:1) core:1", "is there twice"},
		{"core:1 numbering=odd", `character 8: numbering is "odd"; give block, interleaved or adjacent`},
		{"core:1 numbering=block numbering=block", "numbering is there twice"},
		{strings.Repeat("core:1 ", 1000), "more than 4096 characters"},
	} {
		_, err := FromSynthetic(tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.60q: error %v, want %q in it", tc.text, err, tc.want)
			continue
		}
		oneLineError(t, err)
	}
}
