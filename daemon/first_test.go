package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestNameBeforeFirstScan: who names a workload while the first scan is under way waits for it,
// and nothing is begun for who does not wait so long.
func TestNameBeforeFirstScan(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("a", 2, 1<<20, 0)
	m.add("b", 2, 1<<20, 1)
	scanned := make(chan struct{})
	m.looked = func() { <-scanned }
	live(t, m, func(string, workload.ID) bool { return false }, func(*Options) { scanned = make(chan struct{}) }, func(t *testing.T, l *life) {
		type answer struct {
			what string
			err  error
		}
		answers := make(chan answer, 4)
		for what, ask := range map[string]func() error{
			"explain": func() error { _, err := l.Explain(t.Context(), "a"); return err },
			"history": func() error {
				_, err := l.History(t.Context(), api.HistoryQuery{Workload: "a"})
				return err
			},
			"move": func() error {
				_, err := l.Move(t.Context(), api.MoveOrder{ID: "a", To: topology.Nodes(1), DryRun: true})
				return err
			},
			"undo": func() error { _, err := l.Undo(t.Context(), api.Which{ID: "a", DryRun: true}); return err },
		} {
			go func() { answers <- answer{what, ask()} }()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Undo(impatient, api.Which{ID: "b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("undo by somebody who waits a second: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := len(answers); n != 0 {
			a := <-answers
			close(scanned)
			t.Fatalf("%d are answered before the scan: %s: %v", n, a.what, a.err)
		}
		close(scanned)
		for range cap(answers) {
			if a := <-answers; a.err != nil {
				t.Errorf("%s: %v", a.what, a.err)
			}
		}
		if h := l.View().Holds; h.Has("/b") {
			t.Error("what somebody asked who has gone away is done")
		}
	})
}
