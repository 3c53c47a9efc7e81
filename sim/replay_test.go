package sim

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
)

// tape is a flight recorder in memory: JSON, as on disk.
type tape struct{ lines [][]byte }

func (x *tape) Record(r balance.Record) error {
	if len(x.lines) > 0 {
		r.Memory = nil
	}
	line, err := json.Marshal(r)
	x.lines = append(x.lines, line)
	return err
}

func (x *tape) reader(t *testing.T) func() (balance.Logged, error) {
	k := -1
	return func() (balance.Logged, error) {
		var l balance.Logged
		if k++; k == len(x.lines) {
			return l, io.EOF
		}
		err := json.Unmarshal(x.lines[k], &l)
		return l, err
	}
}

// TestReplayIsExact records whole runs of the daemon and decides every tick again.
func TestReplayIsExact(t *testing.T) {
	t.Parallel()
	traces := map[string]*Trace{}
	for _, kind := range Kinds {
		traces[kind] = generated(t, Generation{Kind: kind, Host: synthetic(t, "package:2 node:2 core:4 pu:2"), Seed: 5, Events: fewer(100), Found: DefaultFound})
	}
	names := []string{"noisy-neighbour", "swap", "memory-shortage"}
	if raceEnabled {
		names = names[:1]
	}
	for _, name := range names {
		trace, err := Scenario(name, 2, 5)
		if err != nil {
			t.Fatal(err)
		}
		traces[name] = trace
	}
	changes := 0
	for name, trace := range traces {
		x := &tape{}
		r := sound(t, Options{Trace: trace, Seed: 5, Policies: []string{"homenode"}, breakHomenode: func(h *homenode) { h.tape = x }})
		out, err := balance.Replay(x.reader(t), "homenode")
		if err != nil || out.Differ > 0 || out.Ticks < r.Policies[0].Ticks {
			t.Errorf("%s: %v, %d of %d ticks differ; %s", name, err, out.Differ, out.Ticks, out.First)
		}
		changes += len(out.Changes)
	}
	if changes == 0 {
		t.Error("no home was changed: this is no test")
	}
}

// TestWhatIf compares policies on a recorded run: by its own model homenode loses
// less than without balancing, and an eager one changes no fewer homes.
func TestWhatIf(t *testing.T) {
	trace, err := Scenario("ping-pong", 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	x := &tape{}
	sound(t, Options{Trace: trace, Seed: 3, Period: 10 * time.Second, Policies: []string{"homes-kept"}, breakHomenode: func(h *homenode) { h.tape = x }})
	runs, err := balance.NewCompare(balance.Policies...)
	if err != nil {
		t.Fatal(err)
	}
	next := x.reader(t)
	for {
		l, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Input.Settings.Enabled = true // it was recorded without balancing
		runs.Add(l)
	}
	got := runs.Results()
	own, kept, eager := got[0], got[1], got[2]
	t.Logf("%+v", got)
	if own.Lost >= kept.Lost || own.Changes == 0 || kept.Changes != 0 || eager.Changes < own.Changes {
		t.Errorf("%+v", got)
	}
}
