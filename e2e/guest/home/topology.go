//go:build linux

package home

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeTopology: homenode's view of the machine is that of /sys.
func homenodeTopology(t *lab.T) {
	r := t.Must(lab.Capture([]string{lab.HomenodeBin, "topology", "--json"}, "topology --json"), lab.ExitOK)
	var top any
	t.Do(json.Unmarshal([]byte(r.Out), &top))
	// The schema is homenode's own; what must be in it somewhere is each node's
	// row of distances.
	for n := range t.Shape.Nodes {
		if !holdsRow(top, t.Shape.Distance[n]) {
			t.Fatalf("topology --json has no row %v for node %d: %s", t.Shape.Distance[n], n, lab.Cut(r.Out))
		}
	}
	text := t.Must(lab.Capture([]string{lab.HomenodeBin, "topology"}, "topology"), lab.ExitOK)
	if strings.TrimSpace(text.Out) == "" {
		t.Fatalf("%s", text)
	}
}

// holdsRow looks through JSON for an array of exactly these numbers.
func holdsRow(v any, row []int) bool {
	switch v := v.(type) {
	case []any:
		same := len(v) == len(row)
		for i := range v {
			if f, ok := v[i].(float64); !ok || !same || int(f) != row[i] {
				same = false
			}
		}
		return same || slices.ContainsFunc(v, func(e any) bool { return holdsRow(e, row) })
	case map[string]any:
		for _, e := range v {
			if holdsRow(e, row) {
				return true
			}
		}
	}
	return false
}
