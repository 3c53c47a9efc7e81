package tree

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
)

// simulate runs a command line with a simulator of the test's.
func simulate(t *testing.T, run cli.Simulate, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" },
		Root: fs.FS(fstest.MapFS{}), Sim: run}
	code = Main(t.Context(), e, append([]string{"sim"}, args...))
	return code, out.String(), errs.String()
}

func TestSimFailureTellsHowToBringItBack(t *testing.T) {
	broken := func(_ context.Context, o sim.Options) (*sim.Result, error) {
		f := &sim.Failure{Policy: "homenode", Seed: o.Seed, At: 90 * time.Second, Event: 12, Text: "cpu-used-twice: too bad", Log: []string{"   88.0s plan x placed"}}
		return &sim.Result{Seed: o.Seed, Policies: []sim.Score{{Policy: "homenode", Violations: 3, Failure: f}}}, nil
	}
	const host = "package:2 node:1 core:4"
	code, out, errs := simulate(t, broken, "--host", host, "--generate", "burst", "--seed", "42", "--events", "77", "--policy", "homenode,none")
	if code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	const again = "homenode sim --host 'package:2 node:1 core:4' --generate burst --events 77 --workloads 0 --found 0.5 --seed 42 --period 2s --policy homenode"
	for _, want := range []string{"seed 42", "after event 12", "1m30s", "cpu-used-twice: too bad", again + "\n", "88.0s plan x placed"} {
		if !strings.Contains(errs, want) {
			t.Errorf("standard error lacks %q:\n%s", want, errs)
		}
	}
	if !strings.Contains(out, "VIOLATIONS") {
		t.Errorf("no table:\n%s", out)
	}
}

// TestSimCommandIsTheSame: what a failure prints means the same trace.
func TestSimCommandIsTheSame(t *testing.T) {
	var seen []sim.Options
	spy := func(_ context.Context, o sim.Options) (*sim.Result, error) {
		seen = append(seen, o)
		return &sim.Result{Policies: []sim.Score{{Policy: "none", Failure: &sim.Failure{Policy: "none"}}}}, nil
	}
	_, _, errs := simulate(t, spy, "--generate", "mixed", "--seed", "18446744073709551615", "--events", "50", "--found", "0.123456789", "--period", "1500ms")
	_, line, _ := strings.Cut(errs, "bring it back with: homenode sim ")
	line, _, _ = strings.Cut(line, "\n")
	simulate(t, spy, strings.Fields(line)...)
	if len(seen) != 2 {
		t.Fatalf("%d runs from %q", len(seen), errs)
	}
	a, b := seen[0], seen[1]
	if a.Seed != b.Seed || a.Period != b.Period || len(a.Trace.Events) != len(b.Trace.Events) || a.Trace.Events[49].Name != b.Trace.Events[49].Name ||
		a.Trace.Events[49].At != b.Trace.Events[49].At {
		t.Error("another simulation")
	}
}

func TestSimBadUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, args := range [][]string{
		{},
		{"--generate", "noise"},
		{"--generate", "churn", "--trace", "x"},
		{"--generate", "churn", "--policy", "best"},
		{"--generate", "churn", "--policy", ""},
		{"--generate", "churn", "--events", "0"},
		{"--generate", "churn", "--events", "-5"},
		{"--generate", "churn", "--workloads", "-1"},
		{"--generate", "churn", "--found", "2"},
		{"--generate", "churn", "--found", "NaN"},
		{"--generate", "churn", "--seed", "-1"},
		{"--generate", "churn", "--period", "1ms"},
		{"--generate", "churn", "--host", "nothing"},
		{"--generate", "churn", "--host", "core:0"},
		{"--generate", "churn", "--host", file("empty", "")},
		{"--generate", "churn", "--host", file("bad.json", "{")},
		{"--generate", "churn", "--host", file("bad.xml", "<a>")},
		{"--trace", filepath.Join(dir, "nothing")},
		{"--trace", file("case.json", `{"events":[]}`)},
		{"--trace", "-"},
		{"--trace", "-", "--unit", "-1s"},
		{"--generate", "churn", "more"},
	} {
		code, out, errs := simulate(t, sim.Run, args...)
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit status %d, output %q, error %q; want 2 and one line", args, code, out, errs)
		}
	}
}
