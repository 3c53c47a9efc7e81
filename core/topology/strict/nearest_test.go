package strict

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"status", "top", "topology", "stat", "history", "mode", "move", "manage", "metrics", "period"}
	for typed, want := range map[string]string{
		"statsu": "status", "hsitory": "history", "tpo": "top", "hist": "history", "modes": "mode", "perid": "period", "topo": "top", "matrics": "metrics",
		"xyz": "", "ls": "", "": "", "qqqqqqqq": "", "STATUS": "status",
	} {
		if have := Nearest(typed, known); have != want {
			t.Errorf("Nearest(%q) = %q, want %q", typed, have, want)
		}
	}
}
