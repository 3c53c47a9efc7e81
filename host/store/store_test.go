package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var equal = []cmp.Option{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b topology.CPUSet) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) })}

func opened(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func commit(t testing.TB, s *Store, b plan.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
}

// A batch is written whole, and what was restored is gone for good.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	at := time.Unix(1_800_000_000, 5).UTC()
	cpus := plan.Entry{Seq: 1, Time: at, Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a", Old: "", New: "0-3", Past: []string{"1"}, Object: "77", Ticks: 9, State: plan.Intended}
	mems := plan.Entry{Seq: 2, Time: at, Workload: "/a", Kind: plan.CgroupMems, Path: "/a", Groups: "k", Old: "0-3", New: "0", State: plan.Applied}
	homes := []plan.Placement{{Workload: "/a", Class: workload.Shared, CPUs: topology.CPUs(1, 70)}}
	commit(t, s, plan.Batch{Entries: []plan.Entry{cpus, mems}, Placements: plan.HomesOf(homes), Moves: []plan.Move{{Workload: "/a"}},
		Events: []plan.Event{{Seq: 1, Text: "x"}}, Values: map[string]any{"k": 1}})
	cpus.State = plan.Applied
	commit(t, s, plan.Batch{Entries: []plan.Entry{cpus}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	journal, err := s.Journal()
	if d := cmp.Diff([]plan.Entry{cpus, mems}, journal); d != "" || err != nil {
		t.Error(err, d)
	}
	commit(t, s, plan.Batch{Entries: []plan.Entry{{Seq: 2, State: plan.Restored}, {Seq: 1, State: plan.Gone}}})
	commit(t, s, plan.Batch{Entries: []plan.Entry{{Seq: 2, State: plan.Restored}}}) // a crash came before the mark
	if journal, err := s.Journal(); len(journal) != 0 || err != nil {
		t.Errorf("%+v, %v", journal, err)
	}
	if last, err := s.LastSeq(); last != 2 || err != nil {
		t.Errorf("the number of an entry of before would be given again: last %d, %v", last, err)
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	for name, b := range map[string]plan.Batch{
		"no number":        {Entries: []plan.Entry{{State: plan.Intended}}},
		"an event without": {Events: []plan.Event{{Text: "x"}}},
		"no state":         {Entries: []plan.Entry{{Seq: 5}}},
		"no workload":      {Moves: []plan.Move{{}}},
		"no JSON":          {Values: map[string]any{"v": func() {}}},
	} {
		s := opened(t, t.TempDir())
		before := contents(t, s)
		b.Entries = append([]plan.Entry{{Seq: 1, State: plan.Intended}}, b.Entries...)
		b.Events = append([]plan.Event{{Seq: 1, Text: "x"}}, b.Events...)
		if err := s.Commit(b); err == nil {
			t.Errorf("%s: no error", name)
		}
		if after := contents(t, s); after != before {
			t.Errorf("%s: half of it was kept: %s", name, after)
		}
	}
}

// contents is all that the store says.
func contents(t testing.TB, s *Store) string {
	t.Helper()
	text, err := everything(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func everything(s *Store) (string, error) {
	journal, err1 := s.Journal()
	last, err2 := s.LastSeq()
	homes, err3 := s.Placements()
	moves, err4 := s.Moves()
	history, err5 := s.History(plan.EventQuery{})
	var holds json.RawMessage
	found, err6 := s.Load("holds", &holds)
	return fmt.Sprintf("%+v %d %+v %+v %+v %v %s", journal, last, homes, moves, history, found, holds),
		errors.Join(err1, err2, err3, err4, err5, err6)
}

// Each part of the history is bounded by itself: nothing pushes out what is in another.
func TestHistoryIsBounded(t *testing.T) {
	s := opened(t, t.TempDir())
	s.keepEvents, s.keepSteps, s.keepOrders = 10, 4, 2
	seq := uint64(0)
	add := func(kinds ...plan.EventKind) {
		var b plan.Batch
		for _, k := range kinds {
			seq++
			b.Events = append(b.Events, plan.Event{Seq: seq, Time: t0, Kind: k, Text: fmt.Sprint(seq)})
		}
		commit(t, s, b)
	}
	numbers := func(limit int) (out []uint64) {
		all, err := s.History(plan.EventQuery{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			out = append(out, e.Seq)
		}
		return out
	}
	add(plan.EventOrder, plan.EventOrder, plan.EventOrder)
	add(plan.EventStep, plan.EventMove, plan.EventUndo, plan.EventStep, plan.EventStep)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6, 7, 8}, numbers(0)); diff != "" {
		t.Error(diff)
	}
	for range 20 {
		add(plan.EventPlan, plan.EventWorkload, plan.EventHost)
	}
	if diff := cmp.Diff([]uint64{2, 3, 5, 6, 7, 8, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68}, numbers(0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{8, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68}, numbers(11)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{66, 67, 68}, numbers(3)); diff != "" {
		t.Error(diff)
	}
}

func TestMovesAreBounded(t *testing.T) {
	s := opened(t, t.TempDir())
	s.keepMoves = 3
	for i := range 6 {
		m := plan.Move{Workload: workload.ID(fmt.Sprint("pid:", i)), Started: t0.Add(time.Duration(i)), State: "done"}
		if i == 1 {
			m.State = "running"
		}
		commit(t, s, plan.Batch{Moves: []plan.Move{m}})
	}
	moves, err := s.Moves()
	var ids []string
	for _, m := range moves {
		ids = append(ids, string(m.Workload))
	}
	if want := []string{"pid:1", "pid:4", "pid:5"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("kept %v, want %v (%v)", ids, want, err)
	}
}

// model is what the store should hold, without a file.
type model struct {
	seq, events uint64
	live        map[uint64]plan.Entry
	moves       map[workload.ID]plan.Move
	history     []plan.Event
	homes       []plan.Placement
	values      map[string]int
}

func TestStoreAgainstModel(t *testing.T) {
	base := t.TempDir()
	empty := opened(t, t.TempDir())
	data, err := os.ReadFile(empty.path) // to make one takes long, for it is synced
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, fileName), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.db.NoSync = true // the model checks meaning, TestKill durability
		s.keepEvents = 6
		defer func() { s.Close() }()
		m := &model{live: map[uint64]plan.Entry{}, moves: map[workload.ID]plan.Move{}, values: map[string]int{}}
		name := rapid.SampledFrom([]string{"/a", "/b/ü", "pid:1"})
		entry := rapid.Custom(func(t *rapid.T) plan.Entry {
			e := plan.Entry{Seq: m.seq + 1, Time: t0, Kind: plan.Affinity, Path: name.Draw(t, "path"), Old: rapid.String().Draw(t, "old"),
				State: rapid.SampledFrom([]plan.EntryState{plan.Intended, plan.Applied, plan.Failed, plan.Restored, plan.Gone}).Draw(t, "state")}
			if rapid.Bool().Draw(t, "again") {
				e.Seq = rapid.Uint64Range(1, m.seq+3).Draw(t, "seq")
			}
			m.seq = max(m.seq, e.Seq)
			return e
		})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { m.compare(t, s) },
			"commit": func(t *rapid.T) {
				var b plan.Batch
				b.Entries = rapid.SliceOfN(entry, 0, 3).Draw(t, "entries")
				for _, e := range b.Entries {
					if m.live[e.Seq] = e; e.State == plan.Restored || e.State == plan.Gone {
						delete(m.live, e.Seq)
					}
				}
				for range rapid.IntRange(0, 3).Draw(t, "events") {
					m.events += rapid.Uint64Range(1, 3).Draw(t, "further")
					e := plan.Event{Seq: m.events, Time: t0, Kind: plan.EventHost, Text: rapid.String().Draw(t, "text")}
					b.Events = append(b.Events, e)
					m.history = append(m.history, e)
					m.history = m.history[max(0, len(m.history)-s.keepEvents):]
				}
				for range rapid.IntRange(0, 2).Draw(t, "moves") {
					mv := plan.Move{Workload: workload.ID(name.Draw(t, "workload")), Moved: rapid.Int64().Draw(t, "moved"), Started: t0}
					b.Moves = append(b.Moves, mv)
					m.moves[mv.Workload] = mv
				}
				if rapid.Bool().Draw(t, "homes") {
					m.homes = nil
					for range rapid.IntRange(0, 2).Draw(t, "n") {
						m.homes = append(m.homes, plan.Placement{Workload: workload.ID(name.Draw(t, "workload")), Class: workload.Shared,
							CPUs: topology.CPUs(1, 70), Home: topology.Nodes(1), Memory: []workload.NodeMemory{{Node: 1, KiB: 4}}})
					}
					b.Placements = plan.HomesOf(m.homes)
				}
				if rapid.Bool().Draw(t, "value") {
					k, v := name.Draw(t, "key"), rapid.Int().Draw(t, "value")
					b.Values = map[string]any{k: v}
					m.values[k] = v
				}
				if err := s.Commit(b); err != nil {
					t.Fatal(err)
				}
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = Open(dir); err != nil {
					t.Fatal(err)
				}
				s.db.NoSync = true
				s.keepEvents = 6
			},
		})
	})
}

func (m *model) compare(t *rapid.T, s *Store) {
	journal, err := s.Journal()
	var live []plan.Entry
	for _, seq := range slices.Sorted(maps.Keys(m.live)) {
		live = append(live, m.live[seq])
	}
	if d := cmp.Diff(live, journal, equal...); d != "" || err != nil {
		t.Fatal("journal", err, d)
	}
	if last, err := s.LastSeq(); last != m.seq || err != nil {
		t.Fatal("last", last, m.seq, err)
	}
	history, err := s.History(plan.EventQuery{})
	if d := cmp.Diff(m.history, history, equal...); d != "" || err != nil {
		t.Fatal("history", err, d)
	}
	homes, err := s.Placements()
	if d := cmp.Diff(m.homes, homes, equal...); d != "" || err != nil {
		t.Fatal("homes", err, d)
	}
	moves, err := s.Moves()
	if err != nil || len(moves) != len(m.moves) {
		t.Fatal("moves", err, moves)
	}
	for _, mv := range moves {
		if d := cmp.Diff(m.moves[mv.Workload], mv); d != "" {
			t.Fatal("move", d)
		}
	}
	for _, k := range []string{"/a", "/b/ü", "pid:1"} {
		var got int
		found, err := s.Load(k, &got)
		want, ok := m.values[k]
		if err != nil || found != ok || got != want {
			t.Fatal("value", k, found, got, want, err)
		}
	}
}

// A copy of the file taken between any two transactions, as a snapshot of the
// disk would, opens to just the state of that moment.
func TestCopyBetweenTransactions(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	for i := range 30 {
		b := plan.Batch{Entries: []plan.Entry{{Seq: uint64(i + 1), Kind: plan.Affinity, Path: fmt.Sprint(i), State: plan.Intended}}}
		if i%3 == 0 {
			b.Events = []plan.Event{{Seq: uint64(i + 1), Text: strings.Repeat("x", i*40)}}
		}
		if i%5 == 4 {
			b.Entries = append(b.Entries, plan.Entry{Seq: uint64(i - 3), State: plan.Restored})
		}
		commit(t, s, b)
		want, err := s.Journal()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		copied := t.TempDir()
		if err := os.WriteFile(filepath.Join(copied, fileName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := OpenReadOnly(copied)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Journal()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Error(err, d)
		}
		if err := c.Commit(plan.Batch{Events: []plan.Event{{}}}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write on a store open for reading: %v", err)
		}
		c.Close()
	}
}

func TestDamageIsNeverReplaced(t *testing.T) {
	good := t.TempDir()
	s := opened(t, good)
	for i := range 200 {
		commit(t, s, plan.Batch{Values: map[string]any{fmt.Sprint("k", i): strings.Repeat("v", 100)}})
		if i == 20 {
			s.db.NoSync = true
		}
	}
	s.Close()
	text, err := os.ReadFile(filepath.Join(good, fileName))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for _, c := range []struct {
		name string
		text []byte
	}{
		{"empty", nil},
		{"text", []byte("homenode\n")},
		{"zeros", make([]byte, len(text))},
		{"cut to a page", text[:page]},
		{"cut to four pages", text[:4*page]},
		{"half", text[:len(text)/2/page*page]},
		{"both metas lost", append(make([]byte, 2*page), text[2*page:]...)},
		{"all pages but the metas lost", append(slices.Clone(text[:2*page]), make([]byte, len(text)-2*page)...)},
		{"all pages but the metas are noise", append(slices.Clone(text[:2*page]), []byte(strings.Repeat("\xff\x7f", (len(text)-2*page)/2))...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			if err := os.WriteFile(path, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
				s, err := open(dir)
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), path) {
					t.Errorf("opened %v with %v", s, err)
				}
			}
			if after, _ := os.ReadFile(path); !slices.Equal(after, c.text) {
				t.Error("the damaged file was written to")
			}
		})
	}
}

func TestOpenReadOnlyCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := OpenReadOnly(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state folder was created")
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	opened(t, dir)
	for name, want := range map[string]fs.FileMode{dir: 0o750, filepath.Join(dir, fileName): 0o600, filepath.Join(dir, lockName): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v (%v)", name, info.Mode().Perm(), want, err)
		}
	}
}

// What is found without decoding all is what decoding all finds.
func TestHistoryOfQuery(t *testing.T) {
	s := opened(t, t.TempDir())
	ids := []workload.ID{"", "/a", "/a/b", `/with "quotes" \ and <signs>`, "pid:7", "pid:71", "/ünï"}
	kinds := []plan.EventKind{plan.EventOrder, plan.EventStep, plan.EventPlan}
	var b plan.Batch
	for i := range 200 {
		id := ids[i%len(ids)]
		e := plan.Event{Seq: uint64(i + 1), Time: t0.Add(time.Duration(i) * time.Second), Kind: kinds[i%len(kinds)], Workload: id, Text: `said "workload":"/b" of it`}
		if i%5 == 0 {
			e.Move = &plan.Move{Workload: "/other"}
		}
		b.Events = append(b.Events, e)
	}
	commit(t, s, b)
	rapid.Check(t, func(t *rapid.T) {
		q := plan.EventQuery{Limit: rapid.IntRange(0, 60).Draw(t, "limit"), Workload: rapid.SampledFrom(append(ids, "/b", "/other")).Draw(t, "workload"),
			Kinds: rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 2).Draw(t, "kinds"), Since: t0.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "since")) * time.Second)}
		got, err := s.History(q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(q.Of(b.Events), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%+v:\n%s", q, diff)
		}
	})
	about, err := s.About()
	for _, id := range ids[1:] {
		if !slices.Contains(about, id) {
			t.Errorf("%v, %v: %q is missing", about, err, id)
		}
	}
}
