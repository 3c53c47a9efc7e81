//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// homenodeTopology: homenode's view of the machine is that of /sys.
func homenodeTopology(t *T) {
	r := t.must(capture([]string{homenodeBin, "topology", "--json"}, "topology --json"), exitOK)
	var top any
	t.Do(json.Unmarshal([]byte(r.out), &top))
	// The schema is homenode's own; what must be in it somewhere is each node's
	// row of distances.
	for n := range t.shape.Nodes {
		if !holdsRow(top, t.shape.Distance[n]) {
			t.Fatalf("topology --json has no row %v for node %d: %s", t.shape.Distance[n], n, cut(r.out))
		}
	}
	text := t.must(capture([]string{homenodeBin, "topology"}, "topology"), exitOK)
	if strings.TrimSpace(text.out) == "" {
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
