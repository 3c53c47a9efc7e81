package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Changing is a Backend that says when Status has news.
type Changing interface {
	// Changed is closed when there is news after what Status tells now.
	Changed() <-chan struct{}
}

// housePeriod is the least time between two pictures: what all viewers together cost is bounded by
// it, and so is what each is sent.
const housePeriod = time.Second

// mostEvents is how many events a picture has at most.
const mostEvents = 60

// Painter makes what a picture shows (ui/house).
type Painter interface {
	// House is the picture of a status; host is nil where nothing is known of the machine.
	House(s *Status, host *topology.Host, events []plan.Event, name string) *House
	// Change is what makes one picture of another; more reports whether anything but the time is new.
	Change(old, now *House) (c HouseChange, more bool)
	// Residents is the workloads with a text in their name or ID, of a group of a House; both may be "".
	Residents(s *Status, text, group string) Residents
}

// Houses makes pictures of a Backend while a viewer is there. Each is made once, beside
// the loop, and shared by all viewers.
type Houses struct {
	b       Backend
	name    string
	painter Painter

	making  sync.Mutex // held while a picture is made
	now     *picture
	at      time.Time       // when now was made
	news    <-chan struct{} // closed when there is something newer than what now was made of
	status  Status          // that now was made of
	host    *topology.Host  // nil when unknown
	events  []plan.Event
	viewers int // streams
	stop    context.CancelFunc
}

// picture is one House as it is sent. It is not changed, but for next, which is set before after
// is closed.
type picture struct {
	house  *House
	whole  []byte
	change []byte // from the one before; nil where only the whole will do
	after  chan struct{}
	next   *picture
}

// NewHouses makes pictures of b's host, which is called name.
func NewHouses(b Backend, name string, painter Painter) *Houses {
	return &Houses{b: b, name: name, painter: painter}
}

// House is the newest picture, at most housePeriod old.
func (h *Houses) House(ctx context.Context) (*House, error) {
	p, err := h.newest(ctx)
	if err != nil {
		return nil, err
	}
	return p.house, nil
}

func (h *Houses) newest(ctx context.Context) (*picture, error) {
	h.making.Lock()
	defer h.making.Unlock()
	if h.now != nil && time.Since(h.at) < housePeriod {
		return h.now, nil
	}
	h.news = closed
	if c, ok := h.b.(Changing); ok {
		h.news = c.Changed()
	}
	s, err := h.b.Status(ctx)
	if err != nil {
		return nil, err
	}
	if room, ok := h.b.(RoomSource); ok { // each time: a machine may be measured, or grow, while it is looked at
		if r, err := room.Room(ctx, ""); err == nil {
			h.host = r.Host
		}
	}
	if err := h.recall(ctx); err != nil {
		return nil, err
	}
	h.status, h.at = s, time.Now()
	house := h.painter.House(&s, h.host, h.events, h.name)
	var change []byte
	if old := h.now; old != nil {
		house.Seq = old.house.Seq + 1
		c, more := h.painter.Change(old.house, house)
		if !more && c.Time.Equal(old.house.Time) {
			return old, nil
		}
		if slices.EqualFunc(old.house.Nodes, house.Nodes, func(a, b HouseNode) bool { return a.ID == b.ID }) {
			if change, err = json.Marshal(&c); err != nil {
				return nil, err
			}
		}
	}
	whole, err := json.Marshal(house)
	if err != nil {
		return nil, err
	}
	p := &picture{house: house, whole: whole, change: change, after: make(chan struct{})}
	if old := h.now; old != nil {
		old.next = p
		close(old.after)
	}
	h.now = p
	return p, nil
}

// recall brings the newest events up to date.
func (h *Houses) recall(ctx context.Context) error {
	old, err := h.b.History(ctx, HistoryQuery{Limit: mostEvents})
	if err == nil {
		h.events = old.Events
	}
	return err
}

// watch makes pictures for as long as there are viewers.
func (h *Houses) watch(ctx context.Context) {
	defer func() {
		if broken := recover(); broken != nil {
			logPanic("GET /v1/house/changes", broken)
		}
	}()
	for ctx.Err() == nil {
		h.newest(ctx) // an error shows as silence, and the next picture tells
		select {
		case <-time.After(housePeriod):
		case <-ctx.Done():
			return
		}
		h.making.Lock()
		news := h.news
		h.making.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// look counts a viewer in until done is called.
func (h *Houses) look() (done func()) {
	h.making.Lock()
	defer h.making.Unlock()
	h.viewers++
	if h.viewers == 1 {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		go h.watch(ctx)
	}
	return func() {
		h.making.Lock()
		defer h.making.Unlock()
		h.viewers--
		if h.viewers == 0 {
			h.stop()
		}
	}
}

// serve answers GET /v1/house. Its ETag is the number of the picture.
func (h *Houses) serve(w http.ResponseWriter, r *http.Request) {
	p, err := h.newest(r.Context())
	if err != nil {
		reply(w, nil, err)
		return
	}
	tag := fmt.Sprintf(`"%d-%d"`, p.house.Time.UnixNano(), p.house.Seq)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	w.Write(p.whole)
}

// residents answers GET /v1/house/residents.
func (h *Houses) residents(ctx context.Context, text, group string) (Residents, error) {
	if _, err := h.newest(ctx); err != nil {
		return Residents{}, err
	}
	h.making.Lock()
	s := h.status
	h.making.Unlock()
	return h.painter.Residents(&s, text, group), nil
}

// streamWithin is how long one message may take to a viewer. Who is slower is let go, and comes
// back to a whole picture.
var streamWithin = 10 * time.Second

// stream answers GET /v1/house/changes with server-sent events: a House first ("house"), then a
// HouseChange for each picture that follows ("change"), or a House again for who has missed one.
func (h *Houses) stream(stopping context.Context, w http.ResponseWriter, r *http.Request) {
	unhurried(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(stopping, cancel)()
	defer h.look()()
	p, err := h.newest(ctx)
	if err != nil {
		reply(w, nil, err)
		return
	}
	send := messages(w, streamWithin)
	alive := time.NewTicker(quietFor)
	defer alive.Stop()
	for ok := send(message("event: house", p.whole)); ok; {
		select {
		case <-p.after:
			h.making.Lock()
			now := h.now
			h.making.Unlock()
			if p.next == now && now.change != nil {
				ok = send(message("event: change", now.change))
			} else {
				ok = send(message("event: house", now.whole))
			}
			p = now
		case <-alive.C:
			ok = send(message("event: alive", []byte("{}")))
		case <-ctx.Done():
			ok = false
		}
	}
}
