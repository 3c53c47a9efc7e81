package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/workload"
)

// What a kind of load suggests is given only where the configuration says so, and never to work of
// which somebody has said how important it is.
func TestRecognised(t *testing.T) {
	eighty := 80
	for _, tt := range []struct {
		name  string
		how   Recognise
		rules []workload.Rule
		kind  load.Kind
		want  int
	}{
		{"off", RecogniseOff, nil, load.Unknown, 50},
		{"suggested", RecogniseSuggest, nil, load.Latency, 50},
		{"applied", RecogniseApply, nil, load.Latency, 70},
		{"a rule has the last word", RecogniseApply, []workload.Rule{{Match: "/web", Importance: &eighty}}, load.Latency, 80},
		{"a rule that says nothing of it", RecogniseApply, []workload.Rule{{Match: "/web", CPUs: 2}}, load.Latency, 70},
		{"batch work", RecogniseApply, []workload.Rule{{Match: "/web", Class: workload.Batch}}, load.Latency, 50},
	} {
		f := newFake(t, 2, 8, observing, ruled(tt.rules...), func(s *Settings) { s.Recognise = tt.how })
		f.add("web", 0.6, 1<<20, 0)
		f.works["/web"].obs.Slices = workload.Slices{PerSecond: 2000, Mean: 300 * time.Microsecond, Asleep: 0.8}
		f.passes(40)
		v := f.s.View()
		if l, got := v.Loads["/web"], v.SpecOf("/web").Importance; l.Kind != tt.kind || got != tt.want {
			t.Errorf("%s: %+v, importance %d", tt.name, l, got)
		}
		f.remove("/web")
		f.passes(1)
		if len(f.s.Loads) != 0 {
			t.Errorf("%s: what is gone is remembered: %v", tt.name, f.s.Loads)
		}
	}
}
