package demand

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestSpecFrom(t *testing.T) {
	tests := []struct {
		name    string
		use     float64
		threads int
		mem     topology.KiB
		cpus    int
		memory  topology.KiB
	}{
		{"idle", 0, 4, 0, 1, 0},
		{"a quarter more than it uses", 3.2, 16, 0, 4, 0},
		{"rounds up", 3.3, 16, 0, 5, 0},
		{"no more than its threads", 8, 8, 0, 8, 0},
		{"threads unknown", 8, 0, 0, 10, 0},
		{"memory rounds up to a sixteenth", 1, 1, 1<<30 + 1, 1, 1<<30 + 1<<27},
		{"small memory rounds up to 16 MiB", 1, 1, 1, 1, 16 << 10},
		{"absurd use", 1e300, 0, 0, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := SpecFrom(workload.Observation{ID: "a", Threads: tt.threads, CPUUse: tt.use, Memory: []workload.NodeMemory{{KiB: tt.mem}}})
			if s.CPUs != tt.cpus || s.Memory != tt.memory {
				t.Errorf("%d CPUs %d KiB, want %d and %d", s.CPUs, s.Memory, tt.cpus, tt.memory)
			}
			if s.Class != workload.Shared || s.Given {
				t.Errorf("class %s given %v", s.Class, s.Given)
			}
		})
	}
}
