package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

var begin = time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)

func lineOf(t testing.TB, in control.Input, out control.Output) []byte {
	t.Helper()
	text, err := json.Marshal(control.Recorded{Input: in, Output: out})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// looked is a look at two workloads, each with a locality.
func looked(t testing.TB, at time.Time, local ...float64) []byte {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=8GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	s := workload.Snapshot{Host: h}
	p := &plan.Plan{}
	for i, x := range local {
		id := workload.ID(fmt.Sprintf("pid:%d", 10+i))
		s.Observations = append(s.Observations, workload.Observation{ID: id, Name: "w", CPUUse: 2, RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
			Memory: []workload.NodeMemory{{Node: 0, KiB: topology.KiB(x * 1000)}, {Node: 1, KiB: topology.KiB((1 - x) * 1000)}}})
		p.Placements = append(p.Placements, workload.Placement{Workload: id, Class: workload.Shared, VCPUs: 2, Home: topology.Nodes(0)})
		p.Report.Decisions = append(p.Report.Decisions, plan.Decision{Workload: id, Outcome: plan.Refused, Reasons: []words.Reason{words.Because(words.NoRoomBooked, topology.Nodes(0))}})
	}
	return lineOf(t, control.Input{At: at, Scan: &control.Scan{Snapshot: s}}, control.Output{Plan: p, Balance: &balance.Report{}})
}

func feed(t testing.TB, c *Collector, lines ...[]byte) Report {
	t.Helper()
	for _, line := range lines {
		if err := c.Line(line); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.Done("host", 10)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGapsAndBounds(t *testing.T) {
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	c := New(at(-600), at(4000))
	r := feed(t, c, looked(t, at(-601), 0), looked(t, at(0), 0.5, 0.5), looked(t, at(30), 0.5, 1), looked(t, at(500), 1, 1), looked(t, at(4000), 0))
	want := []Gap{{at(-600), at(0)}, {at(30), at(500)}, {at(500), at(4000)}}
	if !reflect.DeepEqual(r.Gaps, want) {
		t.Errorf("gaps %v, want %v", r.Gaps, want)
	}
	if r.Looks != 3 || r.Read != 3 || !r.From.Equal(at(0)) || !r.To.Equal(at(500)) {
		t.Errorf("%d looks, %d read, %v to %v", r.Looks, r.Read, r.From, r.To)
	}
	if m := r.Locality.Memory; *m.Before != 0.625 && *m.Before != 0.5 || *m.After != 1 {
		t.Errorf("locality %v → %v", *m.Before, *m.After)
	}
	if len(r.NotDone) != 1 || r.NotDone[0].Workloads != 2 || r.NotDone[0].Share != 1 || r.NotDone[0].What != NoHome {
		t.Errorf("%+v", r.NotDone)
	}
}

// A move is told with what it was to bring and what it brought, once, however many records
// tell it, and so is an event that both the history and the log have.
func TestEventsCountOnce(t *testing.T) {
	half, whole := 0.5, 0.9
	move := plan.Move{Workload: "pid:10", Home: "0", Moved: 1 << 30, Refused: 4096, Seconds: 4, State: "done", Started: begin, LocalityBefore: &half,
		Why: "pinned for a device", RefusedBy: []plan.Refusal{{Cause: plan.Pinned, Bytes: 4096, Why: "pinned for a device"}}}
	ended := plan.Event{Seq: 5, Time: begin.Add(time.Second), Kind: plan.EventMove, Workload: "pid:10", Code: words.MoveEnded, Move: &move}
	later := move
	later.LocalityAfter = &whole
	seen := plan.Event{Seq: 6, Time: begin.Add(2 * time.Second), Kind: plan.EventMove, Workload: "pid:10", Code: words.LocalityChanged, Move: &later}
	failed := plan.Event{Seq: 7, Time: begin.Add(2 * time.Second), Kind: plan.EventStep, Code: words.StepFailed, Text: "set-mems to 1 failed", Error: true}
	took := plan.Event{Seq: 8, Time: begin, Kind: plan.EventStep, Code: words.StepTook, Text: "set-cpus: all → 0-3. Why."}
	ordered := plan.Event{Seq: 9, Time: begin, Kind: plan.EventOrder, Code: words.UndoOrdered, Text: "carol asked", By: &plan.Asker{User: "carol"}}
	events := []plan.Event{ended, seen, failed, took, ordered}
	c := New(time.Time{}, time.Time{})
	c.History(events[1:])
	step := &plan.Step{Kind: plan.MovePages, Workload: "pid:10", Gain: plan.Gain{LocalityBefore: 0.5, LocalityAfter: 1}}
	r := feed(t, c, lineOf(t, control.Input{At: begin, Begun: &control.Begun{}}, control.Output{Effects: []control.Effect{{Kind: control.EffectApply, Step: step}}}),
		lineOf(t, control.Input{At: begin, Result: &control.Result{}}, control.Output{Save: plan.Batch{Events: events}}), looked(t, begin, 0.9))
	m := r.Moves
	if m.Count != 1 || m.Bytes != 1<<30 || m.Stayed != 4096 || m.Judged != 0 {
		t.Errorf("%+v", m)
	}
	if len(r.Failures) != 1 || r.Failures[0].Count != 1 || len(r.Orders) != 1 || r.Orders[0].By != "carol" {
		t.Errorf("%+v %+v", r.Failures, r.Orders)
	}
	if len(r.Changed) != 1 || r.Changed[0] != (Changed{Setting: "set-cpus", Count: 1}) {
		t.Errorf("%+v", r.Changed)
	}

	c = New(time.Time{}, time.Time{}) // the log alone: the order began before the move ended
	r = feed(t, c, lineOf(t, control.Input{At: begin, Begun: &control.Begun{}}, control.Output{Effects: []control.Effect{{Kind: control.EffectApply, Step: step}}}),
		lineOf(t, control.Input{At: begin, Result: &control.Result{}}, control.Output{Save: plan.Batch{Events: events}}))
	if m := r.Moves; m.Judged != 1 || *m.Expected != 0.5 || *m.Seen < 0.39 || *m.Seen > 0.41 || m.Largest[0].Ended != ended.Time {
		t.Errorf("%+v", m)
	}
}

// A long log keeps a bounded number of looks, evenly spread, and the last one.
func TestLongLog(t *testing.T) {
	c := New(time.Time{}, time.Time{})
	const n = 5000
	line := string(looked(t, begin, 0.5))
	stamp := begin.Format(time.RFC3339Nano)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		if err := c.Line([]byte(strings.Replace(line, stamp, begin.Add(time.Duration(2*i)*time.Second).Format(time.RFC3339Nano), 1))); err != nil {
			t.Fatal(err)
		}
		if len(c.looks) > mostLooks {
			t.Fatalf("%d looks are kept", len(c.looks))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("it holds %d bytes more", grown)
	}
	r, err := c.Done("", 10)
	if err != nil {
		t.Fatal(err)
	}
	last := r.Locality.Points[len(r.Locality.Points)-1].At
	if r.Looks != n || r.Read < mostLooks/4 || !last.Equal(begin.Add(2*(n-1)*time.Second)) {
		t.Errorf("%d looks, %d read, the last of %v", r.Looks, r.Read, last)
	}
	most := time.Duration(0)
	for i := range len(r.Locality.Points) - 1 {
		most = max(most, r.Locality.Points[i+1].At.Sub(r.Locality.Points[i].At))
	}
	if most > n*2*time.Second/100 {
		t.Errorf("%v between two looks", most)
	}
}

// The quick way to read a line finds what the long way does.
func TestHeadsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z"\\{},:]{0,30}|\},"output":\{"save":`)
		in := control.Input{At: begin.Add(time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "at")))}
		if rapid.Bool().Draw(t, "scan") {
			in.Scan = &control.Scan{Failed: text.Draw(t, "failed")}
		} else {
			in.Request = &control.Request{Move: &control.MoveRequest{ID: workload.ID(text.Draw(t, "id"))}}
		}
		out := control.Output{}
		for i := range rapid.IntRange(0, 3).Draw(t, "events") {
			out.Save.Events = append(out.Save.Events, plan.Event{Seq: uint64(i + 1), Time: in.At, Text: text.Draw(t, "text")})
		}
		if rapid.Bool().Draw(t, "effect") {
			out.Effects = []control.Effect{{Kind: control.EffectApply, Step: &plan.Step{Kind: plan.MovePages, Workload: workload.ID(text.Draw(t, "of"))}}}
		}
		line, err := json.Marshal(control.Recorded{Input: in, Output: out})
		if err != nil {
			t.Fatal(err)
		}
		quick, err := readHead(line)
		if err != nil {
			t.Fatal(err)
		}
		long, err := readHead(append([]byte(" "), line...)) // which does not begin as it should
		if err != nil || !reflect.DeepEqual(quick, long) {
			t.Fatalf("%s\nquick %+v\nlong %+v %v", line, quick, long, err)
		}
	})
}

// Whatever a line is, it is an error or taken in.
func FuzzLine(f *testing.F) {
	f.Add(looked(f, begin, 0.5))
	f.Add([]byte(`{"input":{"at":"2026-11-22T18:00:00Z","scan":{}},"output":{"save":{}}}`))
	f.Add([]byte(`{"input":{"at":"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c := New(time.Time{}, time.Time{})
		_ = c.Line(line)
		_, _ = c.Done("", 3)
	})
}

// A daemon that was started before the period goes on in it: its version is told, and so is how often
// it looks, for looks that are far apart are no gap then.
func TestStartedBefore(t *testing.T) {
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	started := lineOf(t, control.Input{At: at(-600), Started: &control.Started{Version: "1.2.3", Period: 2 * time.Minute}}, control.Output{})
	later := lineOf(t, control.Input{At: at(900), Started: &control.Started{Version: "9"}}, control.Output{})
	r := feed(t, New(at(0), at(800)), started, looked(t, at(60), 1), looked(t, at(180), 1), looked(t, at(300), 1), later)
	if r.Version != "1.2.3" || len(r.Gaps) != 0 || r.Looks != 3 {
		t.Errorf("version %q, gaps %v, %d looks", r.Version, r.Gaps, r.Looks)
	}
}

// TestBatchDoesNotCount: batch work has no home, so that where its memory lies is no loss.
func TestBatchDoesNotCount(t *testing.T) {
	line := func(at time.Time) []byte {
		return bytes.Replace(looked(t, at, 1, 0), []byte(`"Workload":"pid:11","Class":"shared"`), []byte(`"Workload":"pid:11","Class":"batch"`), 1)
	}
	r := feed(t, New(begin, time.Time{}), line(begin), line(begin.Add(2*time.Second)))
	if l := r.Locality; len(l.Points) != 2 || l.Memory.After == nil || *l.Memory.After != 1 || l.Busy.After == nil || *l.Busy.After != 1 {
		t.Errorf("locality %+v", l)
	}
	if len(r.Worst) != 0 {
		t.Errorf("worst %+v", r.Worst)
	}
}
