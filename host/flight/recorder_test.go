package flight

import (
	"log/slog"
	"os/signal"
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

// A disk that is full keeps no file of a record that could not begin, and costs no
// checkpoint for each line.
func TestDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := Create(dir, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRecorder(w, slog.New(slog.DiscardHandler))
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
		add(2)
		if names, _ := Files(dir); checkpoints != 2 || len(names) != 1 {
			t.Errorf("when there is room: %d checkpoints, files %v", checkpoints, names)
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
