package topology

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInterleave(t *testing.T) {
	for _, tt := range []struct {
		name      string
		bandwidth []float64
		want      []int
		least     float64
	}{
		{"one node", []float64{100}, []int{1}, 1},
		{"equal nodes", []float64{100, 100}, []int{1, 1}, 1},
		{"DRAM and CXL", []float64{300, 100}, []int{3, 1}, 1},
		{"a node to leave out", []float64{300, 0, 100}, []int{3, 0, 1}, 1},
		{"a node that is hardly worth a page", []float64{1000, 1}, []int{1, 0}, 0.97},
		{"two sockets and CXL", []float64{200, 80, 40}, []int{5, 2, 1}, 0.97},
		{"nothing known", []float64{0, 0}, []int{0, 0}, 0},
		{"none", nil, []int{}, 0},
		{"nonsense", []float64{math.Inf(1), math.NaN(), -5}, []int{0, 0, 0}, 0},
	} {
		got, reached := Interleave(tt.bandwidth)
		if !slices.Equal(got, tt.want) || reached < tt.least || reached > 1+1e-9 {
			t.Errorf("%s: %v, %.3f of the best; want %v", tt.name, got, reached, tt.want)
		}
	}
}

// TestInterleaveIsNearTheBest: the weights reach 95 % of the best split that a search of parts finds, nodes without
// CPUs among them, and no weight is more than the kernel takes.
func TestInterleaveIsNearTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "nodes")
		bandwidth := make([]float64, n)
		for i := range bandwidth {
			bandwidth[i] = rapid.Float64Range(1, 400).Draw(t, "GB/s")
		}
		weights, reached := Interleave(bandwidth)
		best := search(bandwidth)
		if got := interleaved(bandwidth, weights); got < 0.95*best {
			t.Fatalf("%v for %v: %.1f, a search finds %.1f", weights, bandwidth, got, best)
		}
		if reached < 0.95 || reached > 1+1e-9 {
			t.Fatalf("says %.3f", reached)
		}
		for _, w := range weights {
			if w < 0 || w > mostWeight {
				t.Fatalf("weight %d", w)
			}
		}
	})
}

// search is the best bandwidth of all splits in parts of a fortieth.
func search(bandwidth []float64) float64 {
	const parts = 40
	best := 0.0
	var walk func(i, left int, least float64)
	walk = func(i, left int, least float64) {
		if i == len(bandwidth)-1 {
			if left > 0 {
				least = min(least, bandwidth[i]*parts/float64(left))
			}
			best = max(best, least)
			return
		}
		for k := 0; k <= left; k++ {
			next := least
			if k > 0 {
				next = min(next, bandwidth[i]*parts/float64(k))
			}
			if next > best {
				walk(i+1, left-k, next)
			}
		}
	}
	walk(0, parts, math.Inf(1))
	return best
}

func TestInterleaveFrom(t *testing.T) {
	h := &Host{Nodes: []Node{{ID: 0, Kind: DRAM, CPUs: CPUs(0)}, {ID: 1, Kind: Special, Type: TypeCXL}, {ID: 2, Kind: Special, Type: TypeGPU}}}
	if got, _ := h.InterleaveFrom(0); got != nil {
		t.Errorf("nothing known: %v", got)
	}
	h.HMATBandwidth = [][]float64{{200, 50, 900}, {0, 0, 0}, {0, 0, 0}}
	if got, source := h.InterleaveFrom(0); !slices.Equal(got, []float64{200, 50, 0}) || source != FromHMAT {
		t.Errorf("HMAT: %v %s", got, source)
	}
	h.Measured = &Measured{BandwidthMiBs: [][]float64{{180, 60, 900}}}
	if got, source := h.InterleaveFrom(0); !slices.Equal(got, []float64{180, 60, 0}) || source != MeasuredBefore {
		t.Errorf("measured: %v %s", got, source)
	}
	if got, _ := h.InterleaveFrom(1); got != nil {
		t.Errorf("from a node without CPUs: %v", got)
	}
}

// TestInterleaveWeights: one table for all CPUs, where there is memory other than DRAM and a matrix for it.
func TestInterleaveWeights(t *testing.T) {
	h := &Host{Nodes: []Node{
		{ID: 0, Kind: DRAM, CPUs: CPUs(0)}, {ID: 1, Kind: DRAM, CPUs: CPUs(1)}, {ID: 2, Kind: Special, Type: TypeCXL},
	}}
	if got, _ := h.InterleaveWeights(); got != nil {
		t.Errorf("without a matrix: %v", got)
	}
	h.HMATBandwidth = [][]float64{{200, 90, 50}, {90, 200, 30}, nil}
	if got, source := h.InterleaveWeights(); !slices.Equal(got, []int{4, 4, 1}) || source != FromHMAT {
		t.Errorf("%v from %s", got, source)
	}
	h.Nodes[2].Type = TypeGPU
	if got, _ := h.InterleaveWeights(); got != nil {
		t.Errorf("with a GPU's memory alone: %v", got)
	}
}
