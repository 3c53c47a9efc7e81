package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// readEach opens the stores in the folders that it is named, and says what each holds.
func readEach() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, open := range []func(string) (*Store, error){OpenReadOnly, Open} {
			s, err := open(in.Text())
			text := ""
			if err == nil {
				s.db.NoSync = true
				text, err = everything(s)
				err = errors.Join(err, s.Commit(plan.Batch{Events: []plan.Event{{Seq: 1 << 40, Text: "more"}}}))
				if errors.Is(err, ErrReadOnly) {
					err = nil
				}
				s.Close()
			}
			var corrupt *CorruptError
			var newer *SchemaError
			if err != nil && !errors.As(err, &corrupt) && !errors.As(err, &newer) {
				text = "another error: "
			}
			fmt.Println(strconv.Quote(fmt.Sprint(text, err)))
		}
	}
}

// filled is the bytes of a store with branch pages, inline buckets and free pages.
func filled(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	s := opened(t, dir)
	s.db.NoSync = true
	for i := range 60 {
		var b plan.Batch
		for k := range 4 {
			b.Entries = append(b.Entries, plan.Entry{Seq: uint64(4*i + k + 1), Kind: plan.CgroupCPUs, Path: fmt.Sprint("/a/", i, k), Old: "0-3", New: "8-11", State: plan.Intended})
		}
		if i > 5 {
			b.Entries = append(b.Entries, plan.Entry{Seq: uint64(4*i - 9), State: plan.Restored})
		}
		b.Moves = []plan.Move{{Workload: workload.ID(fmt.Sprint("/a/", i%5))}}
		b.Events = []plan.Event{{Seq: uint64(i + 1), Text: strings.Repeat("e", 3*i)}}
		b.Values = map[string]any{"holds": i}
		homes := []plan.Placement{{Workload: workload.ID(fmt.Sprint(i))}}
		b.Placements = plan.HomesOf(homes)
		commit(t, s, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever bytes of the file are damaged, it is an error, or what was written can be
// read: never a crash, and never another journal (R10: bbolt crashed on offsets in
// branch pages, and went by pages that led elsewhere).
func TestDamagedBytes(t *testing.T) {
	data := filled(t)
	page := os.Getpagesize()
	var branches, leaves, free []int
	for at := 2 * page; at < len(data); at += page {
		switch word16(data[at+8:]) {
		case branchPage:
			branches = append(branches, at)
		case leafPage:
			leaves = append(leaves, at)
		case freelistPage:
			free = append(free, at)
		}
	}
	if len(branches) == 0 {
		t.Fatal("no branch page to damage")
	}
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	of := func(pages []int) int { return pages[r.IntN(len(pages))] }
	places := map[string]func() (at, n int){
		"anywhere":   func() (int, int) { return r.IntN(len(data)), 1 + r.IntN(64) },
		"one byte":   func() (int, int) { return r.IntN(len(data)), 1 },
		"head":       func() (int, int) { return of(append(leaves, branches...)) + r.IntN(pageHeader), 1 },
		"element":    func() (int, int) { return of(leaves) + pageHeader + r.IntN(20*elementSize), 1 },
		"branch":     func() (int, int) { return of(branches) + pageHeader + r.IntN(8*elementSize), 1 },
		"branch key": func() (int, int) { return of(branches) + pageHeader + elementSize*r.IntN(3) + r.IntN(4), 1 },
		"meta":       func() (int, int) { return page*r.IntN(2) + pageHeader + r.IntN(metaSize), 1 },
		"free":       func() (int, int) { return of(free) + r.IntN(128), 1 },
		"zero page":  func() (int, int) { return page * r.IntN(len(data)/page), -page },
		"old page":   func() (int, int) { return 0, 0 },
	}
	base := t.TempDir()
	var dirs, what []string
	write := func(bad []byte, name string) {
		dir := filepath.Join(base, fmt.Sprint(len(dirs)))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, fileName), bad, 0o600)); err != nil {
			t.Fatal(err)
		}
		dirs, what = append(dirs, dir), append(what, name)
	}
	write(data, "whole")
	for name, place := range places {
		for range 65 {
			bad := append([]byte{}, data...)
			at, n := place()
			switch {
			case n < 0:
				clear(bad[at : at-n])
			case n == 0: // a write that went astray: a page of before in the place of another
				from, to := of(leaves), of(leaves)
				if len(free) > 1 && r.IntN(2) == 0 {
					from, to = of(free), of(free)
				}
				copy(bad[to+8:to+page], data[from+8:from+page])
				at = to
			default:
				for k := range min(n, len(bad)-at) {
					bad[at+k] ^= byte(1 << r.IntN(8))
				}
			}
			write(bad, fmt.Sprintf("%s, %d bytes at %d", name, n, at))
		}
	}
	answers := readInChild(t, dirs, what)
	refused := 0
	for i, a := range answers {
		for k, text := range a {
			whole := answers[0][k]
			if text != whole && (!strings.Contains(text, " is damaged (") && !strings.Contains(text, "has schema") || strings.HasPrefix(text, "another")) {
				t.Errorf("%s: %.300s", what[i], text)
			}
			if text != whole {
				refused++
			}
		}
	}
	if !strings.Contains(answers[0][0], "8-11") {
		t.Errorf("nothing was damaged: %s", answers[0][0])
	}
	t.Logf("%d of %d damaged files were refused", refused/2, len(dirs)-1)
}

// readInChild has a process read the stores in dirs, each for reading and for writing.
func readInChild(t *testing.T, dirs, what []string) [][2]string {
	t.Helper()
	var answers [][2]string
	for len(answers) < len(dirs) {
		c, out := childWith(t, "read", "", strings.NewReader(strings.Join(dirs[len(answers):], "\n")))
		for out.Scan() {
			first, _ := strconv.Unquote(out.Text())
			if !out.Scan() {
				break
			}
			second, _ := strconv.Unquote(out.Text())
			answers = append(answers, [2]string{first, second})
		}
		if err := c.Wait(); err != nil && len(answers) < len(dirs) {
			t.Errorf("%s crashes the process: %v", what[len(answers)], err)
			answers = append(answers, [2]string{"crash", "crash"})
		}
	}
	return answers
}

// Pages of a file that is damaged are never believed, whatever they are.
func FuzzReadPages(f *testing.F) {
	s, err := Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	s.Close()
	data, err := os.ReadFile(s.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if buckets, err := readPages(data); err == nil {
			verify(buckets)
		}
	})
}

// writeSchema1 makes a store as homenode did before values had checksums.
func writeSchema1(t *testing.T, dir string) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, fileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		journal, history := tx.Bucket(bucketJournal), tx.Bucket(bucketHistory)
		err := tx.Bucket(bucketMeta).Put([]byte("schema"), []byte("1"))
		for seq := uint64(2); seq < 200; seq += 3 {
			err = errors.Join(err, journal.Put(key(seq), fmt.Appendf(nil, `{"seq":%d,"time":"2026-11-21T12:00:00.000000001Z","workload":"/a","kind":"affinity","path":"%d@77","kin":"3 4","old":"0-%d","new":"0","past":["1","2-3"],"state":"intended"}`, seq, seq, seq)))
		}
		for seq := uint64(40); seq < 60; seq++ {
			err = errors.Join(err, history.Put(key(seq), fmt.Appendf(nil, `{"seq":%d,"time":"2026-11-21T12:00:00Z","kind":"step","text":"<&> ü"}`, seq)))
		}
		return errors.Join(err, journal.SetSequence(300), history.SetSequence(59),
			tx.Bucket(bucketLedger).Put(keyPlacements, []byte(`[{"workload":"/a","class":"shared","cpus":"0-3"}]`)),
			tx.Bucket(bucketMoves).Put([]byte("/a"), []byte(`{"workload":"/a","home":"0","moved":4096,"started":"2026-11-21T12:00:00Z","state":"paused"}`)),
			tx.Bucket(bucketValues).Put([]byte("holds"), []byte(`{"all":false, "of":["/a"]}`)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A value that is damaged after the store was opened is an error for who reads it, and
// for who would write over it.
func TestDamageWhileOpen(t *testing.T) {
	s := opened(t, t.TempDir())
	homes := []plan.Placement{{Workload: "/a"}}
	b := plan.Batch{Entries: []plan.Entry{{Seq: 1, State: plan.Applied}}, Placements: plan.HomesOf(homes), Moves: []plan.Move{{Workload: "/a"}},
		Events: []plan.Event{{Seq: 1, Text: "x"}}, Values: map[string]any{"holds": 1}}
	commit(t, s, b)
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			bucket := tx.Bucket(name)
			k, v := bucket.Cursor().First()
			if err := bucket.Put(bytes.Clone(k), append(bytes.Clone(v[:len(v)-1]), '!')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, journal := s.Journal()
	_, placements := s.Placements()
	_, moves := s.Moves()
	_, history := s.History(plan.EventQuery{})
	_, value := s.Load("holds", new(int))
	b.Events = nil // of which each has a number of its own
	for what, err := range map[string]error{"journal": journal, "ledger": placements, "moves": moves, "history": history, "values": value, "": s.Commit(b)} {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "the checksum of "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What readPages and verify check themselves, where no checksum would tell.
func TestDamageWithoutChecksums(t *testing.T) {
	dir := t.TempDir()
	writeSchema1(t, dir)
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := readMeta(data)
	if err != nil {
		t.Fatal(err)
	}
	fifth := append(key(5), `{"seq":5,`...)
	with := func(text string) []byte { return bytes.ReplaceAll(data, fifth, []byte(text)) }
	for want, bad := range map[string][]byte{
		"a key is there twice":                        with(string(key(2)) + `{"seq":5,`),
		"keys are out of order":                       with(string(key(9)) + `{"seq":5,`),
		"is not JSON":                                 with(string(key(5)) + `{"seq";5,`),
		fmt.Sprintf("pages of %d are in", m.pageSize): data[:(m.end-1)*m.pageSize],
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenReadOnly(dir)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestUpgrade: a store of schema 1, whose values have no checksums, is read as it is,
// and has one after it was opened for writing; nothing in it is lost.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	writeSchema1(t, dir)
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, r)
	if err := r.Commit(plan.Batch{Events: []plan.Event{{}}}); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	r.Close()
	for _, part := range []string{"New:0 Past:[1 2-3]", "0-197", " 300 ", "<&> ü", "paused", `"of":["/a"]`} {
		if !strings.Contains(want, part) {
			t.Errorf("%q is not read", part)
		}
	}
	for range 2 { // to upgrade, and after that
		s := opened(t, dir)
		if got := contents(t, s); got != want {
			t.Errorf("upgraded: %s\nbefore: %s", got, want)
		}
		s.Close()
	}
	s := opened(t, dir)
	commit(t, s, plan.Batch{Events: []plan.Event{{Seq: 60, Text: "next"}}, Entries: []plan.Entry{{Seq: 2, State: plan.Gone}}})
	history, err := s.History(plan.EventQuery{Limit: 1})
	if err != nil || history[0].Seq != 60 {
		t.Errorf("%+v, %v", history, err)
	}
	s.Close()
	if r, err = OpenReadOnly(dir); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if journal, err := r.Journal(); err != nil || len(journal) != 65 || r.schema != schema {
		t.Errorf("%d entries, schema %d, %v", len(journal), r.schema, err)
	}
}
