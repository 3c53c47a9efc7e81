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

// TestHurryHasABudget: a user who begins wide work again and again has scans hurry for a tenth of the time in the
// end, and no five minutes have more of it than the budget and what comes back to it meanwhile.
func TestHurryHasABudget(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 3 * time.Second, hurryFor, 25 * time.Second} {
		var w Wide
		start := time.Unix(1000, 0)
		parts := func(id workload.ID) []workload.ID { return []workload.ID{id} }
		hurried := []time.Duration{0} // by second
		for s := range 3600 {
			now := start.Add(time.Duration(s) * time.Second)
			if now.Sub(start)%every == 0 {
				id := workload.ID(fmt.Sprint("/", s))
				w.Follow([]workload.Placement{{Workload: id, Home: topology.Nodes(0, 1)}}, parts, now)
			}
			hurried = append(hurried, hurried[s]+min(time.Second, max(0, w.Hurry.Sub(now))))
		}
		if first := hurried[int(every.Seconds())*2]; first < 2*min(every, hurryFor) {
			t.Errorf("every %v: the first two have %v of hurry, want all", every, first)
		}
		window, refill := int(hurryWithin.Seconds()), hurryMost
		for s := window; s < len(hurried); s++ {
			if got := hurried[s] - hurried[s-window]; got > hurryMost+refill {
				t.Fatalf("every %v: %v of hurry in the %v until second %d", every, got, hurryWithin, s)
			}
		}
		most := time.Hour/time.Duration(hurryWithin/hurryMost) + hurryMost
		if all := hurried[3600]; all > most || all < most/2 {
			t.Errorf("every %v: %v of hurry in an hour, want at most %v and about that", every, all, most)
		}
	}
}

// TestHurryComesBack: after quiet minutes wide work has all of the hurry again, however much went before, and a
// clock that went back takes none of it away.
func TestHurryComesBack(t *testing.T) {
	parts := func(id workload.ID) []workload.ID { return []workload.ID{id} }
	var w Wide
	begin := func(id int, now time.Time) time.Duration {
		w.Follow([]workload.Placement{{Workload: workload.ID(fmt.Sprint("/", id)), Home: topology.Nodes(0, 1)}}, parts, now)
		return w.Hurry.Sub(now)
	}
	at := time.Unix(100000, 0)
	for i := range 100 {
		begin(i, at.Add(time.Duration(i)*time.Second))
	}
	at = at.Add(100 * time.Second)
	if got := begin(100, at); got > time.Second {
		t.Errorf("with the budget spent, scans hurry for %v", got)
	}
	for i, later := range []time.Duration{hurryWithin, 2 * hurryWithin, -time.Hour} {
		if got := begin(101+i, at.Add(later)); got != hurryFor {
			t.Errorf("after %v scans hurry for %v, want %v", later, got, hurryFor)
		}
	}
	back := w.Hurry.Add(-time.Hour)
	w.Follow([]workload.Placement{{Workload: "/103", Home: topology.Nodes(0, 1)}}, parts, back)
	if got := w.Hurry.Sub(back); got > 0 {
		t.Errorf("the clock went back: scans hurry for %v more", got)
	}
}
