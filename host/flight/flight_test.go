package flight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// looks stands for what a daemon records: each is checked against the sum of those
// before, so that one that is missing shows.
type look struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

type recorder struct {
	*Writer
	sum  int // of all before
	next int
}

func create(t testing.TB, dir string, most int64) *recorder {
	t.Helper()
	w, err := Create(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	return &recorder{Writer: w}
}

func (r *recorder) record() error {
	n := r.next
	err := r.Record(look{n, strings.Repeat("abc", n%50)}, func() any { return r.sum })
	r.next++
	r.sum += n
	return err
}

func (r *recorder) records(t testing.TB, n int) {
	t.Helper()
	for range n {
		if err := r.record(); err != nil {
			t.Fatal(err)
		}
	}
}

// replay reads a log to its end, and checks that each line follows from what a file
// began with and the lines before it.
func replay(t testing.TB, next func() (Record, error)) (lines, checkpoints int) {
	t.Helper()
	sum := 0
	for {
		r, err := next()
		if err == io.EOF {
			return lines, checkpoints
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Checkpoint != nil {
			if err := json.Unmarshal(r.Checkpoint, &sum); err != nil || r.Line != nil {
				t.Fatal(err, r)
			}
			checkpoints++
			continue
		}
		var l look
		if err := json.Unmarshal(r.Line, &l); err != nil {
			t.Fatal(err)
		}
		if sum != l.N*(l.N-1)/2 {
			t.Fatalf("line %d: the lines before it make %d", l.N, sum)
		}
		sum += l.N
		lines++
	}
}

func replayFile(t testing.TB, path string) (lines, checkpoints int, torn bool) {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lines, checkpoints = replay(t, l.Next)
	return lines, checkpoints, l.Torn()
}

func TestWrittenAndReplayed(t *testing.T) {
	dir := t.TempDir()
	r := create(t, dir, 1<<20)
	r.records(t, 25)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Writer = create(t, dir, 1<<20).Writer // the next run of the daemon
	r.records(t, 15)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if lines, checkpoints, torn := replayFile(t, dir); lines != 40 || checkpoints != 2 || torn {
		t.Errorf("%d lines, %d checkpoints, torn %v", lines, checkpoints, torn)
	}
	names, _ := Files(dir)
	if len(names) != 2 {
		t.Errorf("files %v", names)
	}
	for _, name := range names { // each can be replayed alone
		if lines, checkpoints, _ := replayFile(t, name); lines == 0 || checkpoints != 1 {
			t.Errorf("%s: %d lines, %d checkpoints", name, lines, checkpoints)
		}
	}
}

// TestTornAnywhere cuts a log at every byte, as kill -9 may: all whole lines
// before the cut are there, and nothing is an error.
func TestTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 1<<20)
	w.records(t, 6)
	w.Close()
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
		n, _ := replay(t, r.Next)
		if n < last {
			t.Fatalf("cut at %d: %d lines, %d with less of the file", cut, n, last)
		}
		if torn := cut > 0 && cut < len(whole); r.Torn() != torn {
			t.Errorf("cut at %d of %d: torn %v", cut, len(whole), r.Torn())
		}
		last = n
		r.Close()
	}
	if last != 6 {
		t.Errorf("%d lines in the whole file", last)
	}
}

// A log is torn when a file of it ends within a line, whichever file it is.
func TestTorn(t *testing.T) {
	for _, tt := range []struct {
		files []string
		torn  bool
	}{
		{[]string{firstLine}, false}, {[]string{firstLine, ""}, false}, {[]string{firstLine, firstLine + `{"n":0}` + "\n"}, false},
		{[]string{firstLine + `{"n":0`}, true}, {[]string{firstLine + `{"n":0`, firstLine}, true}, {[]string{firstLine, firstLine + "{"}, true},
	} {
		dir := t.TempDir()
		for k, text := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%012d%s", prefix, k, suffix)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, torn := replayFile(t, dir); torn != tt.torn {
			t.Errorf("%q: torn %v", tt.files, torn)
		}
	}
}

// What is no log, or is gone when it is its turn, is an error that names it.
func TestNoLog(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a file that is not there")
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty folder: %v", err)
	}
	w := create(t, dir, 1<<20)
	w.records(t, 2)
	w.end()
	w.records(t, 2)
	w.Close()
	names, _ := Files(dir)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
	}
	os.Remove(names[1])
	for range 2 { // also when it is asked again
		if _, err := l.Next(); err == nil || err == io.EOF || !strings.Contains(err.Error(), names[1]) {
			t.Errorf("%v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A log goes on with the number after the newest, and counts its own files only.
func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string]uint64{
		"flight-000000000007.jsonl.zst": 7, "flight-000000000000.jsonl.zst": 0, "flight-7.jsonl.zst": none, "flight-0000000000007.jsonl.zst": none,
		"flight-000000000007.jsonl": none, "000000000007.jsonl.zst": none, "flight-00000000000x.jsonl.zst": none, "flight-+00000000007.jsonl.zst": none, "flight-x00000000000.jsonl.zst": none, "": none,
	} {
		if n, ok := number(name); ok != (want != none) || ok && n != want {
			t.Errorf("%q: %d %v", name, n, ok)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"flight-000000000009.jsonl.zst", "flight-000000000012.jsonl.zst", "flight-00000000099.jsonl.zst"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "flight-000000000099.jsonl.zst"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := create(t, dir, 1<<20)
	w.records(t, 1)
	w.end()
	w.records(t, 1)
	w.Close()
	names, err := Files(dir)
	if err != nil || len(names) != 4 || filepath.Base(names[2]) != "flight-000000000013.jsonl.zst" || filepath.Base(names[3]) != "flight-000000000014.jsonl.zst" {
		t.Errorf("%v %v", names, err)
	}
}

const none = 1 << 63

// The oldest files go when one more would not fit, and no others do.
func TestRoomIsMade(t *testing.T) {
	dir := t.TempDir()
	var all []string
	for k := range 4 {
		all = append(all, filepath.Join(dir, fmt.Sprintf("%s%012d%s", prefix, k, suffix)))
		if err := os.WriteFile(all[k], make([]byte, 70), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		most int64
		left int
	}{{320, 4}, {318, 3}, {80, 1}, {78, 0}} {
		w := Writer{dir: dir, most: tt.most}
		if err := w.makeRoom(); err != nil {
			t.Fatal(err)
		}
		if names, _ := Files(dir); len(names) != tt.left || tt.left > 0 && names[0] != all[4-tt.left] {
			t.Errorf("%d bytes: left %v, want %d", tt.most, names, tt.left)
		}
	}
}

// TestBounded writes much more than is kept.
func TestBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 24 << 10
	w := create(t, dir, most)
	rotated := 0
	for range 2000 {
		w.records(t, 1)
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
	if lines, checkpoints, _ := replayFile(t, dir); lines < 50 || checkpoints != len(names) {
		t.Errorf("%d lines, %d checkpoints in %d files", lines, checkpoints, len(names))
	}
}

// TestGoesOnAfterAnError: the line after one that could not be written begins a
// new file, which can be replayed.
func TestGoesOnAfterAnError(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 1<<20)
	none := func() {} // has no JSON
	w.records(t, 3)
	if err := w.Record(none, func() any { return 0 }); err == nil {
		t.Error("line: no error")
	}
	w.sum, w.next = w.sum+w.next, w.next+1 // the one that is lost
	w.records(t, 2)
	w.end() // as when a file is full
	if err := w.Record(look{}, func() any { return none }); err == nil {
		t.Error("checkpoint: no error")
	}
	w.sum, w.next = w.sum+w.next, w.next+1
	w.records(t, 2)
	w.Close()
	if lines, checkpoints, _ := replayFile(t, dir); lines != 7 || checkpoints != 3 {
		t.Errorf("%d lines, %d checkpoints", lines, checkpoints)
	}
}

const firstLine = `{"schema":"` + Schema + `","checkpoint":0}` + "\n"

func TestBadInput(t *testing.T) {
	for name, text := range map[string]string{
		"text":          "hello",
		"other JSON":    `{"a":1}` + "\n",
		"not JSON":      "{nonsense\n",
		"newer":         strings.Replace(firstLine, "/2", "/9", 1),
		"before":        `{"schema":"homenode-flight/1","memory":{},"input":{},"outcome":{}}` + "\n",
		"no checkpoint": `{"schema":"` + Schema + `"}` + "\n",
		"line":          firstLine + "{nonsense\n",
		"too long":      firstLine + `"` + strings.Repeat("x", maxLine) + `"` + "\n",
	} {
		r, err := NewReader(strings.NewReader(text))
		for err == nil {
			_, err = r.Next()
		}
		if err == io.EOF || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		var other *SchemaError
		if (name == "newer" || name == "before") != errors.As(err, &other) {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(err)
	}
}

// Files of the form before are passed over where a log goes on with newer ones, and
// refused where it does not.
func TestFormOfBefore(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, prefix+"000000000001"+suffix)
	if err := os.WriteFile(old, []byte(`{"schema":"homenode-flight/1","memory":{},"input":{},"outcome":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var other *SchemaError
	if _, err := l.Next(); !errors.As(err, &other) || !strings.Contains(err.Error(), "replay it with the homenode that wrote it") {
		t.Error(err)
	}
	l.Close()
	w := create(t, dir, 1<<20)
	w.records(t, 3)
	w.Close()
	if lines, _, _ := replayFile(t, dir); lines != 3 {
		t.Errorf("%d lines", lines)
	}
}

// R16: a file of 6 KiB whose line would take gigabytes as values is refused.
func TestBomb(t *testing.T) {
	for _, element := range []string{"{}", "null", "[]", `{"a":{}}`} {
		var zipped bytes.Buffer
		zip, err := zstd.NewWriter(&zipped, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(zip, firstLine+`{"n":[`+strings.Repeat(element+",", 10_000_000)+element+"]}\n")
		zip.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		size := zipped.Len()
		r, err := NewReader(&zipped)
		for err == nil {
			_, err = r.Next()
		}
		runtime.ReadMemStats(&after)
		took := (after.TotalAlloc - before.TotalAlloc) >> 20
		if err == io.EOF || !strings.Contains(err.Error(), "line 2 is larger") || took > 100 {
			t.Errorf("%s: %v, %d MiB", element, err, took)
		}
		t.Logf("%d bytes of %s: %v, %d MiB", size, element, err, took)
		r.Close()
	}
	var counter partCounter
	if n := counter.add([]byte(`{"null{[\"n":[1,`)); n != 2 {
		t.Errorf("%d parts", n)
	}
	if n := counter.add([]byte(`null,"\\"]}`)); n != 3 {
		t.Errorf("%d parts", n)
	}
}

func FuzzReader(f *testing.F) {
	dir := f.TempDir()
	w := create(f, dir, 1<<20)
	w.records(f, 3)
	w.Close()
	names, _ := Files(dir)
	whole, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(firstLine + `{"n":0}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader(bytes.NewReader(text))
		if err != nil {
			return
		}
		defer r.Close()
		for err == nil {
			var record Record
			record, err = r.Next()
			if err == nil && !json.Valid(record.Line) && !json.Valid(record.Checkpoint) {
				t.Fatalf("%+v", record)
			}
		}
	})
}
