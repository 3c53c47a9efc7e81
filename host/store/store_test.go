package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
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

func TestIntendKeepsFirstOld(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	cpus := plan.Setting{Kind: plan.CgroupCPUs, Path: "/a", Value: ""}
	mems := plan.Setting{Kind: plan.CgroupMems, Path: "/a", Value: "0-3"}
	first, err := s.Intend("/a", []plan.Setting{cpus, mems}, []string{"0-3", "0"}, t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(plan.Applied, first[0].Seq, first[1].Seq); err != nil {
		t.Fatal(err)
	}
	cpus.Value = "0-3"
	again, err := s.Intend("/a", []plan.Setting{cpus}, []string{"4-7"}, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Entry{Seq: first[0].Seq, Time: t0, Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a", Old: "", New: "4-7", Past: []string{"0-3"}, State: plan.Intended}
	if d := cmp.Diff([]plan.Entry{want}, again); d != "" {
		t.Error(d)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	journal, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	second := first[1]
	second.State = plan.Applied
	if d := cmp.Diff([]plan.Entry{want, second}, journal); d != "" {
		t.Error(d)
	}
	if err := s.Mark(plan.Restored, first[0].Seq, first[1].Seq); err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(plan.Restored, first[0].Seq); err != nil {
		t.Errorf("marking restored twice: %v", err)
	}
	if err := s.Mark(plan.Applied, first[0].Seq); err == nil {
		t.Error("an entry that is gone was marked applied")
	}
	fresh, err := s.Intend("/a", []plan.Setting{cpus}, []string{"1"}, t0)
	if err != nil || fresh[0].Old != "0-3" || fresh[0].Seq <= second.Seq {
		t.Errorf("after restore a setting starts anew: %+v, %v", fresh, err)
	}
}

func TestMarkIsOneTransaction(t *testing.T) {
	s := opened(t, t.TempDir())
	e, err := s.Intend("/a", []plan.Setting{{Kind: plan.CgroupCPUs, Path: "/a"}}, []string{"0"}, t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(plan.Applied, e[0].Seq, 99); err == nil {
		t.Fatal("an unknown entry was marked")
	}
	if j, _ := s.Journal(); j[0].State != plan.Intended {
		t.Errorf("half a Mark was kept: %+v", j)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := opened(t, t.TempDir())
	s.keepEvents = 10
	for i := range 7 {
		var batch []plan.Event
		for j := range 5 {
			batch = append(batch, plan.Event{Time: t0, Kind: plan.EventStep, Text: fmt.Sprint(i*5 + j)})
		}
		if err := s.Append(batch...); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.History(0)
	if err != nil || len(all) != 10 || all[0].Text != "25" || all[9].Seq != 35 {
		t.Errorf("%+v, %v", all, err)
	}
	if last, _ := s.History(3); len(last) != 3 || last[0].Text != "32" {
		t.Errorf("newest three: %+v", last)
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
		if err := s.SaveMove(m); err != nil {
			t.Fatal(err)
		}
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
	live        []plan.Entry
	moves       map[workload.ID]plan.Move
	history     []plan.Event
	homes       []plan.Placement
	values      map[string]int
}

func (m *model) intend(w workload.ID, have []plan.Setting, will []string, at time.Time) (out []plan.Entry) {
	for i, h := range have {
		j := slices.IndexFunc(m.live, func(e plan.Entry) bool { return e.Kind == h.Kind && e.Path == h.Path })
		if j < 0 {
			m.seq++
			m.live = append(m.live, plan.Entry{Seq: m.seq, Time: at, Kind: h.Kind, Path: h.Path, Old: h.Value})
			j = len(m.live) - 1
		}
		m.live[j].Renew(w, will[i])
		out = append(out, m.live[j])
	}
	return out
}

func (m *model) mark(state plan.EntryState, seq uint64) {
	j := slices.IndexFunc(m.live, func(e plan.Entry) bool { return e.Seq == seq })
	if state == plan.Restored || state == plan.Gone {
		m.live = slices.Delete(m.live, j, j+1)
		return
	}
	m.live[j].State = state
}

func TestStoreAgainstModel(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.db.NoSync = true // the model checks meaning, TestKill durability
		s.keepEvents = 6
		defer func() { s.Close() }()
		m := &model{moves: map[workload.ID]plan.Move{}, values: map[string]int{}}
		name := rapid.SampledFrom([]string{"/a", "/b/ü", "pid:1"})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { m.compare(t, s) },
			"intend": func(t *rapid.T) {
				have := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Setting {
					return plan.Setting{Kind: rapid.SampledFrom([]plan.SettingKind{plan.CgroupCPUs, plan.Affinity}).Draw(t, "kind"),
						Path: name.Draw(t, "path"), Value: rapid.String().Draw(t, "value")}
				}), 1, 3).Draw(t, "have")
				will := make([]string, len(have))
				for i := range will {
					will[i] = rapid.SampledFrom([]string{"0", "1-2", ""}).Draw(t, "will")
				}
				at := t0.Add(time.Duration(rapid.IntRange(0, 1e9).Draw(t, "at")))
				w := workload.ID(name.Draw(t, "workload"))
				got, err := s.Intend(w, have, will, at)
				if d := cmp.Diff(m.intend(w, have, will, at), got); d != "" || err != nil {
					t.Fatal(err, d)
				}
			},
			"mark": func(t *rapid.T) {
				if len(m.live) == 0 {
					t.Skip()
				}
				seq := rapid.SampledFrom(m.live).Draw(t, "entry").Seq
				state := rapid.SampledFrom([]plan.EntryState{plan.Applied, plan.Failed, plan.Restored, plan.Gone}).Draw(t, "state")
				if err := s.Mark(state, seq); err != nil {
					t.Fatal(err)
				}
				m.mark(state, seq)
			},
			"append": func(t *rapid.T) {
				e := plan.Event{Time: t0, Kind: plan.EventHost, Text: rapid.String().Draw(t, "text")}
				if err := s.Append(e); err != nil {
					t.Fatal(err)
				}
				m.events++
				e.Seq = m.events
				m.history = append(m.history, e)
				m.history = m.history[max(0, len(m.history)-s.keepEvents):]
			},
			"move": func(t *rapid.T) {
				mv := plan.Move{Workload: workload.ID(name.Draw(t, "workload")), Moved: rapid.Int64().Draw(t, "moved"), Started: t0}
				if err := s.SaveMove(mv); err != nil {
					t.Fatal(err)
				}
				m.moves[mv.Workload] = mv
			},
			"homes": func(t *rapid.T) {
				m.homes = nil
				for range rapid.IntRange(0, 2).Draw(t, "n") {
					m.homes = append(m.homes, plan.Placement{Workload: workload.ID(name.Draw(t, "workload")), Class: workload.Shared,
						CPUs: topology.CPUs(1, 70), Home: topology.Nodes(1), Memory: []workload.NodeMemory{{Node: 1, KiB: 4}}})
				}
				if err := s.SavePlacements(m.homes); err != nil {
					t.Fatal(err)
				}
			},
			"value": func(t *rapid.T) {
				k, v := name.Draw(t, "key"), rapid.Int().Draw(t, "value")
				if err := s.Save(k, v); err != nil {
					t.Fatal(err)
				}
				m.values[k] = v
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
	if d := cmp.Diff(m.live, journal, equal...); d != "" || err != nil {
		t.Fatal("journal", err, d)
	}
	history, err := s.History(0)
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
		have := []plan.Setting{{Kind: plan.Affinity, Path: fmt.Sprint(i % 7), Value: fmt.Sprint(i)}}
		if _, err := s.Intend("w", have, []string{"0"}, t0); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := s.Append(plan.Event{Text: strings.Repeat("x", i*40)}); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 4 {
			j, _ := s.Journal()
			if err := s.Mark(plan.Restored, j[0].Seq); err != nil {
				t.Fatal(err)
			}
		}
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
		if _, err := c.Intend("w", []plan.Setting{{}}, []string{""}, t0); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write on a store open for reading: %v", err)
		}
		c.Close()
	}
}

func TestDamageIsNeverReplaced(t *testing.T) {
	good := t.TempDir()
	s := opened(t, good)
	for i := range 200 {
		if err := s.Save(fmt.Sprint("k", i), strings.Repeat("v", 100)); err != nil {
			t.Fatal(err)
		}
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

// Any one page overwritten gives an error or a store that can be read: never a
// crash of the process.
func TestDamagedPages(t *testing.T) {
	good := t.TempDir()
	s := opened(t, good)
	s.db.NoSync = true
	for i := range 300 {
		s.Append(plan.Event{Text: strings.Repeat("e", 50)})
		s.Intend("w", []plan.Setting{{Kind: plan.Affinity, Path: fmt.Sprint(i)}}, []string{"0"}, t0)
	}
	s.Close()
	text, err := os.ReadFile(filepath.Join(good, fileName))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	found := 0
	for p := 0; p < len(text)/page; p++ {
		for _, fill := range []byte{0, 0xff, 0x41} {
			dir := t.TempDir()
			bad := slices.Clone(text)
			for i := range page {
				bad[p*page+i] = fill
			}
			if err := os.WriteFile(filepath.Join(dir, fileName), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir)
			if err != nil {
				found++
				continue
			}
			s.Journal()
			s.History(0)
			s.Save("x", 1)
			s.Close()
		}
	}
	if found == 0 {
		t.Error("no damage was ever found")
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	err := s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put([]byte("schema"), []byte("2")) })
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = Open(dir)
	var newer *SchemaError
	if !errors.As(err, &newer) || newer.Have != 2 {
		t.Error(err)
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
