package homes

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestWide: scans hurry once work has a home of several nodes, not because it still has one.
func TestWide(t *testing.T) {
	var w Wide
	at := time.Unix(1000, 0)
	parts := func(id workload.ID) []workload.ID { return []workload.ID{id, id + "/part"} }
	one := workload.Placement{Workload: "/one", Home: topology.Nodes(1)}
	two := workload.Placement{Workload: "/two", Home: topology.Nodes(0, 1)}
	more := workload.Placement{Workload: "/more", Home: topology.Nodes(2, 3)}
	for _, c := range []struct {
		name  string
		homes []workload.Placement
		want  string
		hurry time.Duration // since the first step; each comes a second after the one before
	}{
		{"no wide work", []workload.Placement{one}, "map[]", 0},
		{"it begins", []workload.Placement{one, two}, "map[/two:true /two/part:true]", time.Second + hurryFor},
		{"it goes on", []workload.Placement{two}, "map[/two:true /two/part:true]", time.Second + hurryFor},
		{"more begins", []workload.Placement{more}, "map[/more:true /more/part:true]", 3*time.Second + hurryFor},
		{"all has ended", nil, "map[]", 3*time.Second + hurryFor},
	} {
		w.Follow(c.homes, parts, at)
		if got := fmt.Sprint(w.IDs); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := w.Hurry.Sub(time.Unix(1000, 0)); c.hurry > 0 && got != c.hurry {
			t.Errorf("%s: scans hurry for %v, want %v", c.name, got, c.hurry)
		}
		at = at.Add(time.Second)
	}
}
