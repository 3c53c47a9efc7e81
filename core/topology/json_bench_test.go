package topology

import (
	"bytes"
	"testing"
)

// A large host: 64 nodes, 4,096 CPUs, all measured.
func BenchmarkFromJSON(b *testing.B) {
	h, err := FromSynthetic("package:16 node:4 llc:4 core:8 pu:2")
	if err != nil {
		b.Fatal(err)
	}
	floats := make([][]float64, len(h.Nodes))
	for i := range floats {
		floats[i] = make([]float64, len(h.Nodes))
		for k := range floats[i] {
			floats[i][k] = 80.5 + float64(i+k)
		}
	}
	h.HMAT, h.Measured = floats, &Measured{LatencyNs: floats, BandwidthMiBs: floats}
	var text bytes.Buffer
	if err := h.WriteJSON(&text); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := FromJSON(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
