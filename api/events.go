package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/plan"
)

// quietFor is how long a stream of events may be silent before a comment tells
// that it is alive; a reader that is gone is noticed then, too.
var quietFor = 15 * time.Second

// stream answers GET /v1/events?since=N with server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html): the id of each is
// its number, its data a plan.Event. Browsers ask again with Last-Event-ID.
func stream(stopping context.Context, w http.ResponseWriter, r *http.Request, b Backend) {
	source, ok := b.(EventSource)
	if !ok {
		reply(w, nil, &Error{NotFound, "nothing here says what happens while it does"})
		return
	}
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("since")
	}
	since, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		reply(w, nil, &Error{BadRequest, "since: want the number of an event, 0 for all"})
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
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		out.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := w.Write([]byte(text))
		return err == nil && out.Flush() == nil
	}
	alive := time.NewTicker(quietFor)
	defer alive.Stop()
	for ok := send(":\n"); ok; {
		select {
		case ev, more := <-events:
			data, err := json.Marshal(ev)
			ok = more && err == nil && send(fmt.Sprintf("id: %d\ndata: %s\n\n", ev.Seq, data))
		case <-alive.C:
			ok = send(":\n")
		case <-ctx.Done():
			ok = false
		}
	}
}

// Events calls each with every event after the one numbered since, and with each to
// come, until ctx ends, the daemon stops or each returns an error.
func (c *Client) Events(ctx context.Context, since uint64, each func(plan.Event) error) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://homenode/v1/events?since="+strconv.FormatUint(since, 10), nil)
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
	for {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.New("the daemon has ended the stream of events: it stopped, or was started again")
		}
		silent.Reset(3 * quietFor)
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var ev plan.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := each(ev); err != nil {
			return err
		}
	}
}
