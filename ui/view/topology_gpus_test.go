package view

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
)

// TestNearGPUs: a host of one node has no other nodes, and the heading names none.
func TestNearGPUs(t *testing.T) {
	const others = "all else is on other nodes"
	for drawn, want := range map[string]bool{"0 0-3 16G 10": false, "0 0-3 16G 10 20\n1 4-7 16G 20 10": true} {
		h := plantest.Draw(drawn)
		h.Devices = []topology.Device{
			{Name: "card1", Kind: topology.GPU, GPU: "gpu0", PCI: "0000:00:06.0", Root: "pci0000:00", Node: 0},
			{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:03.0", Root: "pci0000:00", Node: 0},
		}
		var b strings.Builder
		TopologyText(&b, Paint{}, h)
		text := b.String()
		if !strings.Contains(text, "Near GPUs") || strings.Contains(text, others) != want {
			t.Errorf("%q: want %q: %v, in\n%s", drawn, others, want, text)
		}
	}
}
