package flight

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ticks is records of n ticks of a small host, with the memory each began with.
func ticks(t testing.TB, n int) []balance.Record {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=8GiB) core:4")
	if err != nil {
		t.Fatal(err)
	}
	var out []balance.Record
	var memory balance.Memory
	var homes []plan.Placement
	for k := range n {
		o := workload.Observation{ID: "/a", Name: "a", Kind: workload.InCgroup, Cgroup: "/a", Threads: 4, CPUUse: 1 + float64(k)/7,
			RanOn: []workload.NodeShare{{Node: 0, Share: 1}}, Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}, CPUs: h.Allowed, Mems: h.AllowedMems}
		in := balance.Input{At: time.Unix(1_000_000+2*int64(k), 0).UTC(), Settings: balance.DefaultSettings(),
			State:    plan.State{Host: h, Policy: plan.DefaultPolicy(), Placements: homes},
			Subjects: []place.Subject{{Spec: place.SpecFrom(o, place.Options{}), Observation: o}}}
		before := memory
		var outcome balance.Outcome
		outcome, memory = balance.Tick(in, memory)
		homes = outcome.Plan.Placements
		out = append(out, balance.Record{Memory: &before, Input: in, Outcome: outcome})
	}
	return out
}

func write(t testing.TB, dir string, most int64, records []balance.Record) {
	t.Helper()
	w, err := Create(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func replay(t testing.TB, path string) (balance.Replayed, *Log) {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := balance.Replay(l.Next, "homenode")
	if err != nil {
		t.Fatal(err)
	}
	return out, l
}

func TestWrittenAndReplayed(t *testing.T) {
	dir := t.TempDir()
	records := ticks(t, 40)
	write(t, dir, 1<<20, records[:25]) // two runs of a daemon
	write(t, dir, 1<<20, records[25:])
	out, l := replay(t, dir)
	if out.Ticks != 40 || out.Differ != 0 || l.Torn() {
		t.Errorf("%+v, torn %v", out, l.Torn())
	}
	names, _ := Files(dir)
	if len(names) != 2 {
		t.Errorf("files %v", names)
	}
	for _, name := range names { // each can be replayed alone
		if out, _ := replay(t, name); out.Differ != 0 || out.Ticks == 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestTornAnywhere cuts a log at every byte, as kill -9 may: all whole ticks
// before the cut are there, and nothing is an error.
func TestTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1<<20, ticks(t, 6))
	names, _ := Files(dir)
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for cut := range len(whole) + 1 {
		r, err := NewReader(bytes.NewReader(whole[:cut]))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		n := 0
		for {
			_, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("cut at %d of %d: %v", cut, len(whole), err)
			}
			n++
		}
		if n < last {
			t.Fatalf("cut at %d: %d ticks, %d with less of the file", cut, n, last)
		}
		last = n
		r.Close()
	}
	if last != 6 {
		t.Errorf("%d ticks in the whole file", last)
	}
}

// TestBounded writes much more than is kept.
func TestBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 24 << 10
	w, err := Create(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	rotated := 0
	for _, r := range ticks(t, 700) {
		if err := w.Record(r); err != nil {
			t.Fatal(err)
		}
		names, _ := Files(dir)
		total := int64(0)
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		rotated = max(rotated, len(names))
		if total > most+most/files {
			t.Fatalf("%d bytes in %v, %d allowed", total, names, most)
		}
	}
	w.Close()
	names, _ := Files(dir)
	if rotated < 3 || filepath.Base(names[0]) == prefix+"000000000001"+suffix {
		t.Errorf("never full: %v", names)
	}
	if out, _ := replay(t, dir); out.Differ != 0 || out.Ticks < 50 {
		t.Errorf("%+v", out)
	}
}

// TestGoesOnAfterAnError: the tick after one that could not be written begins a
// new file, which can be replayed.
func TestGoesOnAfterAnError(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	records := ticks(t, 6)
	for k, r := range records {
		if k == 3 {
			r.Outcome.Report.Lost = 1 / zero // has no JSON
		}
		if err := w.Record(r); (err != nil) != (k == 3) {
			t.Fatalf("tick %d: %v", k, err)
		}
	}
	w.Close()
	if out, _ := replay(t, dir); out.Ticks != 5 || out.Differ != 0 {
		t.Errorf("%+v", out)
	}
}

var zero float64

func TestBadInput(t *testing.T) {
	good, err := json.Marshal(ticks(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"text":       "hello",
		"other JSON": `{"a":1}` + "\n",
		"not JSON":   "{nonsense\n",
		"newer":      strings.Replace(string(good), `{"schema":""`, `{"schema":"homenode-flight/9"`, 1) + "\n",
		"no host":    `{"schema":"homenode-flight/1","input":{},"outcome":{}}` + "\n",
	} {
		r, err := NewReader(strings.NewReader(text))
		if err == nil {
			_, err = r.Next()
		}
		if err == nil || err == io.EOF || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDetectsAnotherDecision: a log whose outcome is not what the same facts lead
// to is told of.
func TestDetectsAnotherDecision(t *testing.T) {
	records := ticks(t, 8)
	records[5].Outcome.Report.Quiet = "Because."
	dir := t.TempDir()
	write(t, dir, 1<<20, records)
	if out, _ := replay(t, dir); out.Differ != 1 || !strings.Contains(out.First, "Because.") {
		t.Errorf("%+v", out)
	}
}

func FuzzReader(f *testing.F) {
	dir := f.TempDir()
	write(f, dir, 1<<20, ticks(f, 3))
	names, _ := Files(dir)
	whole, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	record := ticks(f, 1)[0]
	record.Schema = balance.Schema
	line, err := json.Marshal(record)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader(bytes.NewReader(text))
		if err != nil {
			return
		}
		defer r.Close()
		// Whatever can be read must be decided without a crash.
		ticks := 0
		runs, err := balance.NewCompare(balance.Policies...)
		if err != nil {
			t.Fatal(err)
		}
		balance.Replay(func() (balance.Logged, error) {
			l, err := r.Next()
			if ticks++; err == nil && (ticks > 8 || len(l.Input.Subjects) > 20 || len(l.Input.State.Host.Nodes) > 8 || l.Input.State.Host.Online.Max() > 4096) {
				return l, io.EOF
			}
			if err == nil {
				runs.Add(l)
			}
			return l, err
		}, "homenode")
	})
}
