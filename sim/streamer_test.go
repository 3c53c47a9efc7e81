package sim

import (
	"math"
	"testing"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
)

// streamer is work on the CPUs of node 0 that keeps so many accesses of 64 bytes in flight, with its pages spread over
// all nodes. Each access takes what memory costs under that load: a closed loop.
type streamer struct {
	*model
	inFlight float64
}

// rate returns the MiB/s that the work has with parts of its pages on the nodes.
func (s *streamer) rate(parts []float64) float64 {
	most := math.Inf(1)
	for j, f := range parts {
		if f > 0 {
			most = min(most, mostBusy*min(s.node[j], s.link[j])/f)
		}
	}
	low, high := 0.0, most
	for range 60 {
		mid := (low + high) / 2
		if mid*(1<<20)*s.latency(parts, mid)*1e-9 > s.inFlight*64 {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

// latency returns the mean ns of an access at a rate.
func (s *streamer) latency(parts []float64, rate float64) (mean float64) {
	clear(s.traffic)
	for j, f := range parts {
		s.traffic[j] = rate * f
	}
	s.load(make([]float64, s.n))
	for j, f := range parts {
		mean += f * s.cost[j]
	}
	return mean
}

// best searches all splits in steps of a hundredth, over three nodes at most.
func (s *streamer) best() (rate float64, parts []float64) {
	for a := 0; a <= 100; a++ {
		for b := 0; b <= 100-a; b++ {
			try := []float64{float64(a) / 100, float64(b) / 100, float64(100-a-b) / 100}[:s.n]
			if s.n == 2 {
				try = []float64{float64(a) / 100, float64(100-a) / 100}
				if b > 0 {
					break
				}
			}
			if r := s.rate(try); r > rate {
				rate, parts = r, try
			}
		}
	}
	return rate, parts
}

// filled returns the rate where each node that is used costs the same under load, and others cost more when idle: water
// filling. A part of the pages at a time goes where memory costs least. Where a controller is saturated the model bounds the
// wait, so that water filling stops early: the search is the stricter reference.
func (s *streamer) filled() float64 {
	parts := make([]float64, s.n)
	parts[0] = 1
	for range 500 {
		s.latency(parts, s.rate(parts))
		from, to := 0, 0
		for j := range parts {
			if parts[j] > 0 && s.cost[j] > s.cost[from] {
				from = j
			}
			if s.cost[j] < s.cost[to] {
				to = j
			}
		}
		step := min(parts[from], 0.002)
		if s.cost[from]-s.cost[to] < 1 || step == 0 {
			break
		}
		parts[from] -= step
		parts[to] += step
	}
	return s.rate(parts)
}

// tieredHosts are machines with slower or faster memory than DRAM, as measured: latency in ns, bandwidth in MiB/s from
// node 0.
var tieredHosts = []struct {
	name               string
	latency, bandwidth []float64
}{
	{"DDR5 and CXL", []float64{110, 250}, []float64{200_000, 60_000}},
	{"DDR5 and two CXL", []float64{110, 250, 400}, []float64{200_000, 60_000, 25_000}},
	{"DDR4 and persistent", []float64{82, 320}, []float64{100_000, 30_000}},
	{"DDR5 and HBM", []float64{110, 130}, []float64{250_000, 700_000}},
}

func tieredHost(latency, bandwidth []float64) *topology.Host {
	drawing := map[int]string{
		2: "0 0-31 64G 10 20\n1 - 64G 20 10 type=cxl\n",
		3: "0 0-31 64G 10 20 25\n1 - 64G 20 10 40 type=cxl\n2 - 64G 25 40 10 type=cxl\n",
	}[len(latency)]
	h := plantest.Draw(drawing)
	h.Measured = &topology.Measured{LatencyNs: make([][]float64, len(latency)), BandwidthMiBs: make([][]float64, len(latency))}
	for i := range latency {
		h.Measured.LatencyNs[i], h.Measured.BandwidthMiBs[i] = make([]float64, len(latency)), make([]float64, len(latency))
	}
	h.Measured.LatencyNs[0], h.Measured.BandwidthMiBs[0] = latency, bandwidth
	return h
}

// TestWeightsNearBestSplit: with the weights that homenode computes from the measured matrix, work that needs all bandwidth
// has at least 95 % of the rate of the best split, found by search. Work for which the nearest memory is not enough has
// 93 %, and 95 % of water filling. Other work is better off in the nearest memory alone, and is not counted.
func TestWeightsNearBestSplit(t *testing.T) {
	for _, c := range tieredHosts {
		h := tieredHost(c.latency, c.bandwidth)
		weights, _ := h.InterleaveWeights()
		sum := 0
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			t.Fatalf("%s: no weights", c.name)
		}
		parts := make([]float64, len(weights))
		for j, w := range weights {
			parts[j] = float64(w) / float64(sum)
		}
		for _, inFlight := range []float64{64, 256, 512, 1024, 4096, 16384} {
			s := &streamer{newModel(h), inFlight}
			best, at := s.best()
			filled, got := s.filled(), s.rate(parts)
			only := s.rate(append([]float64{1}, make([]float64, len(parts)-1)...))
			t.Logf("%s, %5.0f in flight: best %6.0f MiB/s at %v; weights %v %.1f %%, water filling %.1f %%, node 0 alone %.1f %%",
				c.name, inFlight, best, at, weights, 100*got/best, 100*filled/best, 100*only/best)
			loaded := only < 0.95*best // one memory is not enough
			saturated := inFlight >= 4096
			short := (saturated && got < 0.95*best) || (loaded && (got < 0.93*best || got < 0.95*filled))
			if short {
				t.Errorf("%s, %.0f in flight: weights %v give %.0f MiB/s, the best split %.0f, water filling %.0f",
					c.name, inFlight, weights, got, best, filled)
			}
			if filled > 1.01*best {
				t.Errorf("%s: the search missed water filling: %.0f and %.0f", c.name, best, filled)
			}
		}
	}
}

// TestMemoryWithoutCPUs: it has the latency and bandwidth that its neighbours measured.
func TestMemoryWithoutCPUs(t *testing.T) {
	m := newModel(tieredHost([]float64{110, 250}, []float64{200_000, 60_000}))
	if m.idle[1] != 250 || m.node[1] != 60_000 {
		t.Errorf("latency %.0f ns, bandwidth %.0f MiB/s", m.idle[1], m.node[1])
	}
}
