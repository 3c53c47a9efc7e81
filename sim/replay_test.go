package sim

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
)

// tape is a flight recorder in memory: JSON, as on disk.
type tape struct{ lines [][]byte }

func (x *tape) record(r control.Recorded) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	x.lines = append(x.lines, line)
}

func (x *tape) reader() func() (control.Logged, error) {
	k := -1
	return func() (control.Logged, error) {
		var l control.Logged
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
		r := sound(t, Options{Trace: trace, Seed: 5, Policies: []string{"homenode"}, Record: x.record})
		out, err := control.Replay(x.reader(), nil)
		if err != nil || out.Differ > 0 || out.Scans < r.Policies[0].Ticks {
			t.Errorf("%s: %v, %d of %d inputs differ; %s", name, err, out.Differ, out.Inputs, out.First)
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
	sound(t, Options{Trace: trace, Seed: 3, Period: 10 * time.Second, Policies: []string{"homes-kept"}, Record: x.record})
	runs, err := balance.NewCompare(balance.Policies...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = control.Replay(x.reader(), func(in balance.Input, before balance.History) {
		in.Settings.Enabled = true // it was recorded without balancing
		runs.Add(in, before)
	})
	if err != nil {
		t.Fatal(err)
	}
	got := runs.Results()
	own, kept, eager := got[0], got[1], got[2]
	t.Logf("%+v", got)
	if own.Lost >= kept.Lost || own.Changes == 0 || kept.Changes != 0 || eager.Changes < own.Changes {
		t.Errorf("%+v", got)
	}
}
