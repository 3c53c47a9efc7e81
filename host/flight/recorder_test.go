package flight

import (
	"bytes"
	"log/slog"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A disk that is slower than who records costs lines, and no checkpoint for each of them.
func TestNoCheckpointIsAskedForWhileLinesWait(t *testing.T) {
	r := &Recorder{lines: make(chan recorded, 2)} // nothing writes
	r.due.Store(true)
	checkpoints := 0
	add := func(n int) {
		for k := range n {
			var before []byte
			if r.Due() {
				before, checkpoints = []byte("{}"), checkpoints+1
			}
			r.Add(before, k)
		}
	}
	add(10)
	if checkpoints != 1 || len(r.lines) != 2 {
		t.Errorf("%d checkpoints, %d lines", checkpoints, len(r.lines))
	}
	<-r.lines
	add(3)
	if checkpoints != 1 || len(r.lines) != 1 {
		t.Errorf("after a gap: %d checkpoints, %d lines", checkpoints, len(r.lines))
	}
	<-r.lines
	add(1)
	if x := <-r.lines; checkpoints != 2 || x.before == nil {
		t.Errorf("%d checkpoints, the first line after a gap has %q", checkpoints, x.before)
	}
}

// A disk that is full keeps no file of a record that could not begin, costs no checkpoint
// for each line, and is told of in one line until there is room.
func TestDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := Create(dir, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var told bytes.Buffer
		r := NewRecorder(w, slog.New(slog.NewTextHandler(&told, nil)))
		defer r.Close()
		checkpoints := 0
		add := func(n int) {
			for range n {
				var before []byte
				if r.Due() {
					before, checkpoints = []byte("{}"), checkpoints+1
				}
				r.Add(before, "a line")
				synctest.Wait()
			}
		}
		full(t, func() { add(50) })
		if names, _ := Files(dir); checkpoints != 1 || len(names) > 0 {
			t.Errorf("%d checkpoints, %d files", checkpoints, len(names))
		}
		time.Sleep(beginAgain)
		full(t, func() { add(2) })
		if text := told.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, `\n`) {
			t.Errorf("told:\n%s", text)
		}
		time.Sleep(beginAgain)
		add(2)
		if names, _ := Files(dir); checkpoints != 3 || len(names) != 1 {
			t.Errorf("when there is room: %d checkpoints, files %v", checkpoints, names)
		}
		if text := told.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "writes again") {
			t.Errorf("told:\n%s", text)
		}
	})
}

// What was recorded when it is closed is written. A file that is full is followed by one
// that begins with a checkpoint.
func TestRecorded(t *testing.T) {
	for _, most := range []int64{1 << 20, 4 << 10} {
		dir := t.TempDir()
		w, err := Create(dir, most)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRecorder(w, slog.New(slog.DiscardHandler))
		sum, checkpoints := 0, 0
		for n := range 200 {
			var before []byte
			if r.Due() {
				before, checkpoints = strconv.AppendInt(nil, int64(sum), 10), checkpoints+1
			}
			r.Add(before, look{n, strings.Repeat("abc", n%50)})
			sum += n
			for most < 1<<20 && len(r.lines) > 0 { // it keeps up
				runtime.Gosched()
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		lines, read, torn := replayFile(t, dir)
		if full := most < 1<<20; torn || full != (read > 2) || !full && (lines != 200 || read != 1 || checkpoints != 1) {
			t.Errorf("%d lines, %d checkpoints of %d, torn %v", lines, read, checkpoints, torn)
		}
	}
}

// That nothing can be written is told once, and again when it is for another reason.
func TestErrorsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := Create(t.TempDir(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var told bytes.Buffer
		r := NewRecorder(w, slog.New(slog.NewTextHandler(&told, nil)))
		defer r.Close()
		for k, line := range []any{func() {}, func() {}, make(chan int)} {
			r.Add([]byte("{}"), line)
			synctest.Wait()
			if n := strings.Count(told.String(), "flight recorder"); n != []int{1, 1, 2}[k] {
				t.Errorf("line %d: told %d times:\n%s", k, n, &told)
			}
			time.Sleep(beginAgain)
		}
	})
}

// A full disk is logged once, although each attempt has a file with another name.
func TestFullDiskIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := Create(t.TempDir(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var told bytes.Buffer
		r := NewRecorder(w, slog.New(slog.NewTextHandler(&told, nil)))
		defer r.Close()
		r.Add([]byte("{}"), "it fits")
		synctest.Wait()
		full(t, func() {
			r.Add(nil, "the first that does not")
			synctest.Wait()
			time.Sleep(beginAgain)
			for range 3 {
				r.Add([]byte("{}"), "a line")
				synctest.Wait()
				time.Sleep(beginAgain)
			}
		})
		if n := strings.Count(told.String(), "msg=\"flight recorder\""); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &told)
		}
	})
}

// full lets nothing be written to files meanwhile (setrlimit(2), RLIMIT_FSIZE).
func full(t *testing.T, do func()) {
	signal.Ignore(unix.SIGXFSZ)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &was)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	do()
}
