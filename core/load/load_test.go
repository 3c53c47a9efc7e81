package load

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/workload"
)

func seen(use, perSecond float64, mean time.Duration, asleep, waited float64) workload.Observation {
	return workload.Observation{CPUUse: use, Slices: workload.Slices{PerSecond: perSecond, Mean: mean, Asleep: asleep, Waited: waited}}
}

var (
	web   = seen(0.6, 2000, 300*time.Microsecond, 0.8, 0.02)
	held  = seen(0.6, 2000, 300*time.Microsecond, 0.7, 0.3)
	batch = seen(4, 1200, 3*time.Millisecond, 0, 0.4)
	nfv   = seen(1, 9000, 110*time.Microsecond, 0.1, 0)
	idle  = seen(0.01, 30, 300*time.Microsecond, 0.99, 0)
)

var start = time.Unix(1_000_000, 0)

// looks is what is known after looks that are 10 s apart.
func looks(l Load, from time.Time, n int, o workload.Observation) (Load, time.Time) {
	for range n {
		from = from.Add(10 * time.Second)
		l = l.Look(&o, from)
	}
	return l, from
}

func TestKinds(t *testing.T) {
	vhost := seen(1, 500, 2*time.Millisecond, 0.1, 0)
	vhost.Vhost.CPUUse = 0.4
	for _, tt := range []struct {
		name string
		o    workload.Observation
		kind Kind
		says int
	}{
		{"a server that sleeps between requests", web, Latency, 70},
		{"a server that waits for CPUs", held, Latency, 80},
		{"a batch job on a crowded host", batch, Steady, 0},
		{"a packet mover", nfv, Interrupts, 70},
		{"a guest whose vhost threads work", vhost, Interrupts, 70},
		{"hardly anything", idle, Unknown, 0},
		{"a kernel that does not count", workload.Observation{CPUUse: 3}, Unknown, 0},
	} {
		l, _ := looks(Load{}, start, 8, tt.o)
		if l.Kind != tt.kind || l.Importance != tt.says {
			t.Errorf("%s: %+v", tt.name, l)
		}
		if why := l.Why(&tt.o); why.None() != (tt.kind == Unknown) {
			t.Errorf("%s: %s", tt.name, why)
		}
	}
}

func TestHysteresis(t *testing.T) {
	l, at := looks(Load{}, start, 5, web)
	if l.Kind != Unknown {
		t.Errorf("after 50 s: %+v", l)
	}
	l, at = looks(l, at, 3, web)
	if l.Kind != Latency {
		t.Errorf("after 80 s: %+v", l)
	}
	l, at = looks(l, at, 20, batch)
	if l.Kind != Latency || l.Importance != 70 {
		t.Errorf("200 s of something else: %+v", l)
	}
	l, at = looks(l, at, 1, web)
	l, at = looks(l, at, 20, batch)
	if l.Kind != Latency {
		t.Errorf("and once more: %+v", l)
	}
	l, at = looks(l, at, 15, batch)
	if l.Kind != Steady || l.Importance != 0 {
		t.Errorf("six minutes of something else: %+v", l)
	}
	near := seen(0.6, 2000, 2500*time.Microsecond, 0.25, 0)
	if first, _ := looks(Load{}, at, 8, near); first.Kind == Latency {
		t.Errorf("beyond the bounds: %+v", first)
	}
	l, at = looks(Load{}, at, 8, web)
	if l, _ = looks(l, at, 60, near); l.Kind != Latency {
		t.Errorf("just beyond the bounds of what it is: %+v", l)
	}
}

// Whatever is seen, a kind counts for five minutes at least, a suggestion is never lower than the default, and the same
// looks give the same.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var l, again Load
		at, changed := start, time.Time{}
		for range rapid.IntRange(1, 120).Draw(r, "looks") {
			at = at.Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "later")) * time.Second)
			o := rapid.SampledFrom([]workload.Observation{web, held, batch, nfv, idle,
				seen(rapid.Float64Range(0, 8).Draw(r, "use"), rapid.Float64Range(0, 1e5).Draw(r, "slices"), time.Duration(rapid.Int64Range(0, 1e8).Draw(r, "mean")),
					rapid.Float64Range(0, 1).Draw(r, "asleep"), rapid.Float64Range(0, 1).Draw(r, "waited"))}).Draw(r, "look")
			was := l
			l, again = l.Look(&o, at), again.Look(&o, at)
			if l != again {
				r.Fatalf("%+v and %+v", l, again)
			}
			if l.Kind != was.Kind {
				if was.Kind != Unknown && at.Sub(changed) < ends {
					r.Fatalf("%s for %s only", was.Kind, at.Sub(changed))
				}
				changed = at
			}
			if l.Importance != 0 && (l.Importance <= workload.DefaultImportance || l.Importance > 100) || (l.Importance != 0) != (l.Kind == Latency || l.Kind == Interrupts) {
				r.Fatalf("%+v", l)
			}
		}
	})
}
