package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/plan"
)

// quietFor is how long a stream of events may be silent before a comment tells
// that it is alive; a reader that is gone is noticed then, too.
var quietFor = 15 * time.Second

// Gap tells a reader of the stream that events are missing: those between After, which it
// has, and Before, which comes next, are no longer kept. When Before is not above After the
// numbers have begun anew: the daemon lost its state folder.
type Gap struct {
	After  uint64 `json:"after"`  // number of the last event before the gap
	Before uint64 `json:"before"` // number of the first event after it
}

// stream answers GET /v1/events?since=N with server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html): the id of each is
// its number, its data a plan.Event; one named "gap" has a Gap. Without since it begins
// with what happens next. Browsers ask again with Last-Event-ID.
func stream(stopping context.Context, w http.ResponseWriter, r *http.Request, b Backend) {
	source, ok := b.(EventSource)
	if !ok {
		reply(w, nil, &Error{NotFound, "nothing here says what happens while it does"})
		return
	}
	since, err := sinceOf(r, b)
	if err != nil {
		reply(w, nil, err)
		return
	}
	unhurried(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(stopping, cancel)()
	events := make(chan plan.Event)
	go func() {
		defer close(events)
		defer func() {
			if broken := recover(); broken != nil {
				logPanic("GET /v1/events", broken)
			}
		}()
		for ev := range source.Events(ctx, since) {
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	send := messages(w, writeWithin)
	alive := time.NewTicker(quietFor)
	defer alive.Stop()
	for ok := send([]byte(":\n")); ok; {
		select {
		case ev, more := <-events:
			if !more {
				return
			}
			if since > 0 && ev.Seq != since+1 {
				ok = send(message("event: gap", inJSON(Gap{since, ev.Seq})))
			}
			since = ev.Seq
			ok = ok && send(message(fmt.Sprintf("id: %d", ev.Seq), inJSON(ev)))
		case <-alive.C:
			ok = send([]byte(":\n"))
		case <-ctx.Done():
			ok = false
		}
	}
}

// messages begins an answer of server-sent events. Each that is sent may take so long.
func messages(w http.ResponseWriter, within time.Duration) (send func(text []byte) bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	out := http.NewResponseController(w)
	return func(text []byte) bool {
		out.SetWriteDeadline(time.Now().Add(within))
		_, err := w.Write(text)
		return err == nil && out.Flush() == nil
	}
}

// message is one server-sent event with data in JSON, which has no line end in it. head is the line
// before: its name or its number.
func message(head string, data []byte) []byte {
	return slices.Concat([]byte(head), []byte("\ndata: "), data, []byte("\n\n"))
}

// inJSON is of types that are all JSON.
func inJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// sinceOf is the number of the event after which a reader wants to hear.
func sinceOf(r *http.Request, b Backend) (uint64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("since")
	}
	if text == "" {
		h, err := b.History(r.Context(), HistoryQuery{Limit: 1})
		if err != nil || len(h.Events) == 0 {
			return 0, err
		}
		return h.Events[0].Seq, nil
	}
	since, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &Error{BadRequest, "since: want the number of an event, or 0 for all"}
	}
	return since, nil
}

// Events calls each with every event after the one numbered since, and with each to
// come, until ctx ends, the daemon stops or each returns an error.
func (c *Client) Events(ctx context.Context, since uint64, each func(plan.Event) error) error {
	req, err := http.NewRequestWithContext(ctx, "GET", c.base+"/v1/events?since="+strconv.FormatUint(since, 10), nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return asking(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	// A reader that hears nothing for three times as long as the daemon is ever silent
	// has lost it.
	silent := time.AfterFunc(3*quietFor, func() { resp.Body.Close() })
	defer silent.Stop()
	lines := bufio.NewReader(resp.Body)
	named := false // the message has a name: it is no event
	for {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.New("the daemon has ended the stream of events: it stopped, or was started again")
		}
		silent.Reset(3 * quietFor)
		switch data, ok := bytes.CutPrefix(line, []byte("data: ")); {
		case len(line) == 1: // ends a message
			named = false
			continue
		case bytes.HasPrefix(line, []byte("event:")):
			named = true
			continue
		case !ok || named:
			continue
		default:
			line = data
		}
		var ev plan.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := each(ev); err != nil {
			return err
		}
	}
}
