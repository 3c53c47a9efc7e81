package share

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/workload"
)

// pressing is a node where somebody important waits beside batch work that has one core.
func pressing(freeze bool, after time.Duration) *world {
	n := node(0, 0, 4, 2)
	w := &world{in: Input{At: epoch, Nodes: []Node{n}, Settings: on()}}
	w.in.Freeze, w.in.EvictAfter = freeze, after
	w.in.Work = []Work{batch("a", 50, n), batch("b", 10, n), batch("c", 10, n)}
	for i := range w.in.Work {
		w.in.Work[i].Asks = true
		w.in.Work[i].Now = floorOf(&n)
	}
	w.in.Nodes[0].Wait, w.in.Nodes[0].Waiting = 0.4, "web"
	return w
}

func (w *world) asked() (out []workload.ID) {
	for _, g := range w.out.Work {
		if !g.Asked.IsZero() {
			out = append(out, g.Workload)
		}
	}
	return out
}

// TestAsk: whose manager is asked, when, and that nobody is by default.
func TestAsk(t *testing.T) {
	const after = 5 * time.Minute
	w := pressing(false, 0)
	for range 600 {
		if w.round(2 * time.Second); len(w.asked()) > 0 {
			t.Fatal("somebody is asked by default")
		}
	}
	w = pressing(false, after)
	w.in.Work[1].Asks = false // it matters least, and nobody can be asked
	var at []time.Duration
	var who []workload.ID
	for range 600 {
		before := w.asked()
		w.round(2 * time.Second)
		for _, id := range w.asked() {
			if !slices.Contains(before, id) {
				at, who = append(at, w.in.At.Sub(epoch).Round(time.Minute)), append(who, id)
			}
		}
	}
	if !slices.Equal(who, []workload.ID{"c", "a"}) || at[0] != after || at[1] != 2*after {
		t.Errorf("asked %v at %v", who, at)
	}
	if s := w.was.Asking.Of("c").Since.Sub(epoch); s < after+askedAgain {
		t.Errorf("it is still there and is not asked again: %v", s)
	}
	w = pressing(false, after) // one quiet look begins the time anew
	for k := range 450 {
		w.in.Nodes[0].Wait = 0.4
		if k%100 == 99 {
			w.in.Nodes[0].Wait = 0
		}
		if w.round(2 * time.Second); len(w.asked()) > 0 {
			t.Fatalf("asked in look %d", k)
		}
	}
}

// TestAskFrozen: what is frozen for long is asked for, and is let go so that it can end.
func TestAskFrozen(t *testing.T) {
	w := pressing(true, 2*time.Minute)
	for range 90 {
		w.round(2 * time.Second)
	}
	if got := w.asked(); !slices.Equal(got, []workload.ID{"b"}) {
		t.Fatalf("asked %v", got)
	}
	for _, g := range w.out.Work {
		if g.Frozen == (g.Workload == "b") {
			t.Errorf("%+v", g)
		}
	}
	w.in.Work = slices.DeleteFunc(w.in.Work, func(x Work) bool { return x.ID == "b" })
	if w.round(2 * time.Second); w.was.Asking.Of("b") != nil {
		t.Error("it has gone, and is remembered")
	}
}

// TestAskProperties: nobody is asked who cannot be, before the time, or more than one at a time;
// and nobody who is asked is frozen.
func TestAskProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.SampledFrom([]time.Duration{0, time.Minute, 3 * time.Minute}).Draw(t, "after")
		w := pressing(rapid.Bool().Draw(t, "freeze"), after)
		for i := range w.in.Work {
			w.in.Work[i].Asks = rapid.Bool().Draw(t, "asks")
		}
		var newest time.Time
		for range rapid.IntRange(1, 200).Draw(t, "rounds") {
			w.in.Nodes[0].Wait = rapid.SampledFrom([]float64{0, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4}).Draw(t, "wait")
			w.round(rapid.SampledFrom([]time.Duration{2 * time.Second, 30 * time.Second}).Draw(t, "period"))
			n := 0
			for i, g := range w.out.Work {
				switch {
				case g.Asked.IsZero():
				case !w.in.Work[i].Asks, g.Frozen, after == 0, g.Asked.Sub(epoch) < after:
					t.Fatalf("%+v", g)
				case g.Asked.Equal(w.in.At):
					if n++; n > 1 || !newest.IsZero() && w.in.At.Sub(newest) < after {
						t.Fatalf("asked at %v, the newest before at %v", w.in.At, newest)
					}
					newest = w.in.At
				}
			}
		}
	})
}
