package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// before is the commit that TestDowngrade builds as long as there is no release.
const before = "20dd616ca8b5"

// folderOf01 is a state folder that homenode 0.1 wrote: 3 entries, and 46 events of which 4
// are steps and one is of an undo.
func folderOf01(t *testing.T) string { return folderOf(t, "testdata/homenode-0.1.db.gz") }

// folderOf is a state folder with a compressed file.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFolderOfTheVersionBefore is read as it is, and nothing in it is lost when it is used:
// not its steps either, when other events push them out.
func TestFolderOfTheVersionBefore(t *testing.T) {
	dir := folderOf01(t)
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, r)
	for _, part := range []string{"/w3", "0-7", "homenode v0.1 started", "as before"} {
		if !strings.Contains(want, part) {
			t.Errorf("%q is not read", part)
		}
	}
	r.Close()
	s := opened(t, dir)
	if got := contents(t, s); got != want {
		t.Errorf("now %s\nwas %s", got, want)
	}
	s.keepEvents = 5
	last, err := s.History(plan.EventQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(9) {
		commit(t, s, plan.Batch{Events: []plan.Event{{Seq: last[0].Seq + 1 + i, Kind: plan.EventPlan, Text: "noise"}}})
	}
	if steps, rest := count(t, s); steps != 4+1 || rest != 5 {
		t.Errorf("%d steps and undos, %d others", steps, rest)
	}
}

// TestOfflineIsBatch: what homenode 0.1 wrote of batch work, which it called offline, is read as
// batch work, before and after the file is brought up to date.
func TestOfflineIsBatch(t *testing.T) {
	dir := folderOf(t, "testdata/homenode-0.1-offline.db.gz")
	check := func(s *Store, have int) {
		t.Helper()
		if s.schema != have {
			t.Errorf("schema %d, want %d", s.schema, have)
		}
		homes, err := s.Placements()
		if err != nil || len(homes) != 1 || homes[0].Class != workload.Batch || homes[0].CPUs.String() != "2-4" {
			t.Errorf("homes %+v, %v", homes, err)
		}
		events, err := s.History(plan.EventQuery{})
		if err != nil || len(events) != 1 || events[0].Code != words.BatchCPUs {
			t.Errorf("history %+v, %v", events, err)
		}
		var chosen map[workload.ID]plan.Decision
		if _, err := s.Load("chosen", &chosen); err != nil || len(chosen["/encode"].Reasons) != 1 || chosen["/encode"].Reasons[0].Code != words.BatchCPUs {
			t.Errorf("chosen %+v, %v", chosen, err)
		}
		if journal, err := s.Journal(); err != nil || len(journal) != 3 {
			t.Errorf("%d entries, %v", len(journal), err)
		}
	}
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	check(r, 2)
	r.Close()
	s := opened(t, dir)
	check(s, schema)
	s.Close()
	s = opened(t, dir)
	check(s, schema)
}

// TestKeysOfSchema3: values that schema 3 kept under the names wants and border are read under
// their present names, before and after the file is brought up to date.
func TestKeysOfSchema3(t *testing.T) {
	dir := folderOf(t, "testdata/homenode-schema-3.db.gz")
	check := func(s *Store, have int) {
		t.Helper()
		if s.schema != have {
			t.Errorf("schema %d, want %d", s.schema, have)
		}
		for key, want := range map[string]string{
			"admissions": `{"pid:77":{"Spec":{"id":"pid:77","name":"db","class":"dedicated"},"Process":{"PID":77,"Start":5}}}`,
			"partition":  `{"configured":"any","partition":"0-3,8-11"}`,
			"holds":      `{"all":false,"ids":{"/b":true}}`,
		} {
			var got json.RawMessage
			if found, err := s.Load(key, &got); !found || err != nil || string(got) != want {
				t.Errorf("%s: %s, %v; want %s", key, got, err, want)
			}
		}
	}
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	check(r, 3)
	r.Close()
	s := opened(t, dir)
	check(s, schema)
	for _, old := range renamed {
		if found, err := s.Load(old, new(json.RawMessage)); found || err != nil {
			t.Errorf("%s is still there: %v", old, err)
		}
	}
	s.Close()
	s = opened(t, dir)
	check(s, schema)
}

func count(t *testing.T, s *Store) (steps, rest int) {
	t.Helper()
	all, err := s.History(plan.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range all {
		if i > 0 && e.Seq <= all[i-1].Seq {
			t.Errorf("event %d comes after %d", e.Seq, all[i-1].Seq)
		}
		if e.Kind == plan.EventStep || e.Kind == plan.EventUndo {
			steps++
		} else {
			rest++
		}
	}
	return steps, rest
}

// schemaLine is where store.go says which schema it writes.
var schemaLine = regexp.MustCompile(`(?m)^\tschema = (\d+)$`)

// TestDowngrade: the version before opens a folder of this one and works with it, and this
// one takes over what that has written; where its schema is lower, it refuses the folder and
// leaves it as it is. It is built from the history of the repository.
func TestDowngrade(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another version")
	}
	commit := before
	if tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "HEAD^").Output(); err == nil {
		commit = strings.TrimSpace(string(tag))
	}
	source := t.TempDir()
	archive := exec.Command("git", "archive", commit, "go.mod", "go.sum", "core", "host")
	archive.Dir = "../.."
	text, err := archive.Output()
	if err != nil {
		t.Skipf("no git with the commit %s here: %v", commit, err)
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(text)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Skipf("tar: %v: %s", err, out)
	}
	main, err := os.ReadFile("testdata/before.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(source+"/cmd/before", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source+"/cmd/before/main.go", main, 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", source+"/before", "./cmd/before")
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the version before cannot be built here: %v: %s", err, out)
	}

	dir := folderOf01(t)
	s := opened(t, dir)
	last, err := s.History(plan.EventQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := last[0].Seq + 1
	s.keepEvents = 2
	if err := s.Commit(plan.Batch{Events: []plan.Event{{Seq: next, Kind: plan.EventOrder, Text: "root asked", By: &plan.Asker{UID: 0}}}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	code, err := os.ReadFile(source + "/host/store/store.go")
	if err != nil {
		t.Fatal(err)
	}
	line := schemaLine.FindSubmatch(code)
	if line == nil {
		t.Fatal("the version before has no schema")
	}
	was, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(source+"/before", dir).CombinedOutput()
	if lower := string(line[1]); lower != strconv.Itoa(schema) {
		have, knows := fmt.Sprintf("schema %d", schema), "knows schemas up to "+lower
		if now, _ := os.ReadFile(filepath.Join(dir, fileName)); err == nil || !strings.Contains(string(out), have) || !strings.Contains(string(out), knows) || !bytes.Equal(was, now) {
			t.Errorf("the version before: %s, %v; want that it has %s and the version before %s, and the file as it was", out, err, have, knows)
		}
		return
	}
	if want := fmt.Sprintf("3 entries, next event %d\n2 entries, next event %d\n", next+1, next+2); err != nil || string(out) != want {
		t.Errorf("the version before: %s, %v; want %s", out, err, want)
	}
	s = opened(t, dir)
	if steps, rest := count(t, s); steps != 4+1+2 || rest != 1 {
		t.Errorf("%d steps and undos, %d others", steps, rest)
	}
	if last, err := s.History(plan.EventQuery{Limit: 1}); err != nil || last[0].Seq != next+2 {
		t.Errorf("%+v, %v", last, err)
	}
	steps := 0
	if err := s.db.View(func(tx *bolt.Tx) error { steps = tx.Bucket(bucketSteps).Stats().KeyN; return nil }); err != nil || steps != 4+1+2 {
		t.Errorf("%d steps are kept apart, %v", steps, err)
	}
	if journal, err := s.Journal(); err != nil || len(journal) != 1 {
		t.Errorf("%d entries, %v", len(journal), err)
	}
}

// TestNewerFolder is refused with one line that says which homenode to use.
func TestNewerFolder(t *testing.T) {
	for _, version := range []string{"", "v0.9.0"} {
		dir := t.TempDir()
		s := opened(t, dir)
		if version != "" {
			commit(t, s, plan.Batch{Values: map[string]any{plan.KeyVersion: version}})
		}
		if err := s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put([]byte("schema"), []byte("5")) }); err != nil {
			t.Fatal(err)
		}
		path := s.path
		s.Close()
		by := "a newer homenode"
		if version != "" {
			by = "homenode " + version
		}
		want := path + " was written by " + by + " (schema 5, and this one knows schemas up to 4): use that version or a newer one; " +
			"to stay with this one, run `homenode undo --all` with that version, then move the file away"
		was, _ := os.ReadFile(path)
		for name, open := range map[string]func(string) (*Store, error){"Open": Open, "OpenReadOnly": OpenReadOnly, "OpenForUndo": OpenForUndo} {
			if _, err := open(dir); err == nil || err.Error() != want {
				t.Errorf("%s: %v\nwant %s", name, err, want)
			}
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(was, now) {
			t.Error("the newer file was written to")
		}
	}
}
