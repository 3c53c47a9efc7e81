package api

import (
	"bufio"
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
)

// lossy lacks some of its events.
type lossy struct{ answers }

func (*lossy) History(context.Context, HistoryQuery) (History, error) {
	return History{Events: []plan.Event{{Seq: 40}}}, nil
}

func (*lossy) Events(ctx context.Context, since uint64) iter.Seq[plan.Event] {
	return func(yield func(plan.Event) bool) {
		for _, n := range []uint64{40, 41, 50, 51} {
			if n > min(since, 50) && !yield(plan.Event{Seq: n, Text: "a\nb"}) {
				return
			}
		}
	}
}

// TestEventStream: what a browser's EventSource reads, with what is missing told.
func TestEventStream(t *testing.T) {
	socket := listening(t, &lossy{}, Access{})
	c := plainOn(socket)
	for _, tt := range []struct{ query, lastID, want string }{
		{"?since=0", "", "id:40 data id:41 data gap{41,50} id:50 data id:51 data"},
		{"", "", "id:41 data gap{41,50} id:50 data id:51 data"}, // from now on
		{"?since=0", "50", "id:51 data"},                        // as a browser that was cut off
		{"", "70", "gap{70,51} id:51 data"},                     // numbers have begun anew
		{"", "12", "gap{12,40} id:40 data id:41 data gap{41,50} id:50 data id:51 data"},
	} {
		req, _ := http.NewRequest("GET", "http://homenode/v1/events"+tt.query, nil)
		req.Header.Set("Accept", "text/event-stream")
		if tt.lastID != "" {
			req.Header.Set("Last-Event-ID", tt.lastID)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		gap := false
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); {
			case key == "id":
				got = append(got, "id:"+value)
			case key == "event":
				gap = value == "gap"
			case key == "data" && gap:
				got, gap = append(got, strings.NewReplacer(`{"after":`, "gap{", `"before":`, "").Replace(value)), false
			case key == "data" && strings.Contains(value, `"text":"a\nb"`):
				got = append(got, "data")
			case lines.Text() != "" && lines.Text() != ":":
				t.Errorf("line %q", lines.Text())
			}
		}
		resp.Body.Close()
		if text := strings.Join(got, " "); resp.Header.Get("Content-Type") != "text/event-stream" || text != tt.want {
			t.Errorf("%q, %q: %s %s\nwant %s", tt.query, tt.lastID, resp.Header.Get("Content-Type"), text, tt.want)
		}
	}
	// The command line's reader passes over what is no event.
	cl, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var seen []uint64
	cl.Events(t.Context(), 0, func(e plan.Event) error { seen = append(seen, e.Seq); return nil })
	if len(seen) != 4 || seen[2] != 50 {
		t.Errorf("seen %v", seen)
	}
}
