package workload

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]topology.KiB{
		"": 0, "0": 0, "0.0": 0, "0GiB": 0,
		"1B": 1, "1023B": 1, "1024B": 1, "1025B": 2, "2048 B": 2,
		"1KiB": 1, "1.5 KiB": 2, "16GiB": 16 << 20, "16GB": 15625000, "1KB": 1,
		"1EiB": 1 << 50,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d KiB, %v; want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"1", "16", "1e3", "many", "-1GiB", "GiB", "2EiB", "1.1EiB"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q: %d KiB and no error", bad, got)
		}
	}
}
