package trial

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// TestFileOfAService: the user of a service writes the file that a goal of the operator names. A pipe in its place does not
// hold up the daemon for ever, and the file may be as large as that user likes.
func TestFileOfAService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p99")
	s := OfGoal(&workload.Goal{From: workload.FromFile, Text: path}, "")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write := func(text []byte, flags int) {
		f, err := os.OpenFile(path, flags|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.Write(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(bytes.Repeat([]byte("1 "), 8<<20), 0)
	var value float64
	reads := testing.AllocsPerRun(1, func() { // twice
		at := s.(*File)
		*at = File{Path: at.Path, Pattern: at.Pattern, Most: at.Most}
		var err error
		if value, _, err = at.Read(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if most := 300_000.0; value != 1 || reads > most {
		t.Errorf("16 MiB of numbers: value %v, %v allocations; want %v at most", value, reads, most)
	}
	write([]byte("\n"+strings.Repeat("9000 \n", mostOfGoal/6)+"9000 \n"), os.O_APPEND) // the first that is read is a part of one
	if value, ok, err := s.Read(t.Context()); value != 9000 || !ok || err != nil {
		t.Errorf("a log that grew by more than is read: %v, %v, %v", value, ok, err)
	}
}

// TestQueryWithoutEnd: what a server that begins an answer and does not end it leads to names the server.
func TestQueryWithoutEnd(t *testing.T) {
	end := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		<-end
	}))
	defer server.Close()
	defer close(end)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err := (&Query{URL: server.URL, Text: "up"}).Read(ctx)
	if want := server.URL + " did not answer in time"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestPasswordOfServer: everyone who may read the status reads why a metric failed.
func TestPasswordOfServer(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(answer)) }))
	defer server.Close()
	q := &Query{URL: strings.Replace(server.URL, "http://", "http://me:secret@", 1), Text: "up"}
	for _, answer = range []string{"", `{"status":"error","error":"no"}`} {
		_, _, err := q.Read(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// TestFirstGroup: the first group of a pattern is the number.
func TestFirstGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("p99=12ms of 900\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := OfGoal(&workload.Goal{From: workload.FromFile, Text: path, Match: `p99=(\d+)ms of (\d+)`}, "")
	if x, _, err := s.Read(t.Context()); x != 12 || err != nil {
		t.Errorf("%v, %v", x, err)
	}
}
