package view

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
)

// TestTiersInText: the type of memory without CPUs, how it is known, and what the kernel does with its tiers.
func TestTiersInText(t *testing.T) {
	h := plantest.Draw("0 0-3 16G 10 14 80\n1 - 32G 14 10 255 type=cxl\n2 - 96G 80 255 10")
	h.Nodes[1].Evidence = []string{"dax0.0 is a CXL region"}
	h.Tiering = topology.Tiering{Demotion: true, Tiers: []topology.Tier{{ID: 4, Nodes: topology.Nodes(0)}, {ID: 22, Nodes: topology.Nodes(1)}}}
	text := func() string {
		var b strings.Builder
		TopologyText(&b, Paint{}, h)
		return strings.Join(strings.Fields(b.String()), " ")
	}
	for _, want := range []string{"no CPUs, CXL", "no CPUs, GPU memory", "node1 CXL: dax0.0 is a CXL region", "node2 GPU memory: SLIT distance 80",
		"Only a workload that names its node gets memory of a GPU.", "tiers 4: node 0; 22: node 1. The kernel moves cold pages to slower tiers, and nothing fetches them back but the kernel."} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	// Memory of a GPU is no memory of ordinary work, and its size is shown apart.
	if got, want := text(), "48 GiB of memory"; !strings.Contains(got, want) || !strings.Contains(got, "memory of GPUs, in addition: 96 GiB on node 2") {
		t.Errorf("no %q, and GPU memory apart, in\n%s", want, got)
	}
	h.HMATBandwidth = [][]float64{{300, 100, 900}, {0, 0, 0}, {0, 0, 0}}
	for _, want := range []string{"interleaved from node0: weights node0 3, node1 1 reach 100 % of the bandwidth of all (HMAT).", "`homenode run -w 0-1` uses them."} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	h.Tiering.Promotion = true
	if want := "The kernel moves cold pages to slower tiers and hot ones back."; !strings.Contains(text(), want) {
		t.Error(text())
	}
	h.Tiering.Demotion = false
	if want := "demotion_enabled is false"; !strings.Contains(text(), want) {
		t.Error(text())
	}
	h = plantest.Draw("0 0-3 16G 10 21\n1 4-7 16G 21 10")
	if got := text(); strings.Contains(got, "tiers") || strings.Contains(got, "without CPUs") {
		t.Error(got)
	}
}

// TestMemoryWithoutCPUsDoesNotWrap: what is said of memory without CPUs goes below where it is too long for its row,
// and says nothing about the rows of nodes with CPUs.
func TestMemoryWithoutCPUsDoesNotWrap(t *testing.T) {
	h := plantest.Draw("0 0-3 94G 10 21 17 28\n1 4-7 94G 21 10 17 28\n2 8-11 94G 21 21 10 17\n107 - 742G 17 17 28 10 type=pmem")
	h.Nodes[3].Evidence = []string{"dax0.0 is on the NVDIMM bus ndbus0"}
	for i := range h.Nodes {
		h.Nodes[i].Free = h.Nodes[i].Memory - (1<<20 + 512<<10)
	}
	var b strings.Builder
	TopologyText(&b, Paint{}, h)
	for _, want := range []string{
		"free   L3  0-3\n",
		"742 GiB free\n  no CPUs, persistent memory, nearest 0-1\n",
		"\nMemory without CPUs\nnode107  persistent memory: dax0.0",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
