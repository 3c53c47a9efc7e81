package demand

import (
	"math"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

func TestEntitled(t *testing.T) {
	for _, tt := range []struct {
		name         string
		threads      int
		given        int
		use, crowded float64
		want         float64
	}{
		{"with room it gets what it wants", 64, 0, 4, 0, 4},
		{"on a full node a quarter more", 64, 0, 4, 1, 5},
		{"half full, half of that", 64, 0, 4, 0.5, 4.5},
		{"no more than its threads", 4, 0, 4, 1, 4},
		{"threads unknown", 0, 0, 4, 1, 5},
		{"one thread", 1, 0, 0.9, 1, 1},
		{"no more than its vCPUs", 64, 4, 3.6, 1, 4},
		{"one vCPU", 64, 1, 0.9, 1, 1},
		{"the less of both", 3, 4, 2.9, 1, 3},
		{"never less than it uses", 2, 2, 3, 1, 3},
	} {
		s, o := workload.Spec{CPUs: tt.given, Given: tt.given > 0}, workload.Observation{Threads: tt.threads}
		if got := Entitled(&s, &o, tt.use, tt.crowded); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	s, o := workload.Spec{CPUs: 4}, workload.Observation{Threads: 64}
	if got := Entitled(&s, &o, 4, 1); got != 5 {
		t.Errorf("a size that nobody gave bounds it to %v", got)
	}
}
