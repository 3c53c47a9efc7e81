package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// Order is a way to sort workloads, the ones that want a look first.
type Order struct {
	Name    string
	Compare func(a, b *api.Workload) int
}

// Options say how a Model shows things.
type Options struct {
	Orders  []Order // at least one; the first is used until a key says otherwise
	Sort    string  // name of the one to begin with; "" is the first
	Filter  string  // text that names, IDs, classes, homes or states must contain
	Label   func(*api.Workload) string
	Explain func(api.Explanation, view.Paint) string
	Colour  bool
	ASCII   bool // the locale is not UTF-8
	Every   time.Duration
	Title   string  // in place of the version; "" is that
	Link    string  // to the page; "" without one
	Stories []Story // of a demo, by the keys from 1 on
	Story   int     // the one that plays
	Choose  func(ctx context.Context, story int)
	Zone    *time.Location // of the times; nil is that of this machine
}

// Story is what a demo can show.
type Story struct {
	Title string // in a few words
	What  string // in a sentence
}

// Ask is a request to the daemon that is made beside the screen; what it returns is for Take.
type Ask func(ctx context.Context, b api.Backend) any

// What Take takes.
type (
	// Seen is a status that was asked for.
	Seen struct {
		Status api.Status
		Err    error
		At     time.Time // by the clock of the screen
	}
	// Happened is events as they came, rising by number.
	Happened []plan.Event
	// Allowed is whether the daemon lets this user change something.
	Allowed bool
	// Bandwidths is what the memory of each node can deliver, MiB/s, as far as it was measured.
	Bandwidths map[topology.NodeID]float64

	restarted struct { // the demo plays another story
		first api.Status
		err   error
	}
	explained struct {
		id  workload.ID
		x   api.Explanation
		err error
	}
	offered struct { // what a change would do, with the question
		text []string
		err  error
		do   Ask
	}
	done struct {
		text string
		err  error
	}
)

// page is what fills the screen.
type page int

const (
	list page = iota
	detail
	explanation
	help
)

// Model is what the screen shows.
type Model struct {
	o             Options
	width, height int // of the screen; height 0 shows everything

	status     api.Status
	have       bool // a status was seen
	seen       time.Time
	lost       error     // why there is no newer one
	lostAt     time.Time // since when
	events     []plan.Event
	allowed    bool
	bandwidths map[topology.NodeID]float64

	page     page
	chosen   workload.ID // the workload that keys are about
	top      int         // first line of the list, or of the page
	bottom   int         // lines of the page beyond the screen
	node     int         // first node that is shown
	order    int
	filter   string
	typing   bool // into filter
	back     page // that an explanation was asked from
	paused   bool
	held     []plan.Event // those known when it was paused
	explains *explained

	asking   string   // what is asked, or done, now
	question []string // until y or n
	do       Ask
	to       *string // nodes that are typed in for a move
	notice   string  // what became of the last change
	bad      bool    // it is an error
	story    int     // of the demo
	starting bool    // it plays another story in a moment
	Quit     bool    // the user wants to go
}

// keepEvents is how many of the newest events are kept: more than any screen has lines.
const keepEvents = 200

// New is a screen of so many columns and lines; with no lines it shows everything.
func New(o Options, width, height int) *Model {
	m := &Model{o: o, width: width, height: height, filter: words.Printable(o.Filter), story: o.Story}
	m.order = max(0, slices.IndexFunc(o.Orders, func(x Order) bool { return x.Name == o.Sort }))
	return m
}

// clock is a time as it is shown.
func (m *Model) clock(t time.Time, layout string) string {
	if m.o.Zone != nil {
		return t.In(m.o.Zone).Format(layout)
	}
	return t.Local().Format(layout)
}

// Resize tells the size of the screen.
func (m *Model) Resize(width, height int) { m.width, m.height = width, max(1, height) }

// Paused reports whether the screen stands still.
func (m *Model) Paused() bool { return m.paused }

// Take takes an answer.
func (m *Model) Take(msg any) {
	switch msg := msg.(type) {
	case Seen:
		m.take(msg)
	case Happened:
		if !m.starting {
			m.happened(msg)
		}
	case restarted:
		m.starting, m.asking = false, ""
		if msg.err != nil {
			m.tell(msg.err)
			return
		}
		m.events = nil
		m.held = nil
		m.paused = false
		m.take(Seen{Status: msg.first, At: time.Now()})
	case Allowed:
		m.allowed = bool(msg)
	case Bandwidths:
		m.bandwidths = msg
	case explained:
		if m.page == explanation && msg.id == m.chosen {
			m.explains = &explained{msg.id, view.PlainAll(msg.x), msg.err}
		}
		m.asking = ""
	case offered:
		m.asking = ""
		if msg.err != nil {
			m.tell(msg.err)
			return
		}
		m.question, m.do = view.PlainAll(msg.text), msg.do
	case done:
		m.asking = ""
		if msg.err != nil {
			m.tell(msg.err)
			return
		}
		m.notice, m.bad = words.Printable(msg.text), false
	}
}

func (m *Model) tell(err error) {
	m.notice, m.bad = words.Printable(strings.Join(strings.Fields(err.Error()), " ")), true
}

func (m *Model) take(s Seen) {
	switch {
	case m.paused, m.starting:
	case s.Err != nil:
		if m.lost == nil {
			m.lostAt = s.At
		}
		m.lost, m.seen = s.Err, s.At
	default:
		m.status = view.PlainAll(s.Status)
		m.have = true
		m.lost = nil
		m.seen = s.At
	}
}

func (m *Model) happened(events []plan.Event) {
	for _, e := range view.PlainAll(events) {
		if n := len(m.events); n > 0 && e.Seq <= m.events[n-1].Seq && !e.Time.After(m.events[n-1].Time) {
			continue // known; a daemon that lost its state folder counts anew, later
		}
		m.events = append(m.events, e)
	}
	m.events = slices.Clone(m.events[max(0, len(m.events)-keepEvents):])
}

// shown is the workloads that pass the filter, in order.
func (m *Model) shown() []*api.Workload {
	var out []*api.Workload
	text := strings.ToLower(m.filter)
	for i := range m.status.Workloads {
		w := &m.status.Workloads[i]
		has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
		if text == "" || has(string(w.ID)) || has(w.Name) || has(string(w.Class)) || has(w.State) {
			out = append(out, w)
		}
	}
	if len(m.o.Orders) > 0 {
		compare := m.o.Orders[m.order].Compare
		slices.SortStableFunc(out, func(a, b *api.Workload) int {
			return cmp.Or(batchLast(a, b), compare(a, b), cmp.Compare(a.ID, b.ID))
		})
	}
	return out
}

// batchLast puts batch work below online work, whatever the order.
func batchLast(a, b *api.Workload) int {
	switch x, y := a.Class == workload.Batch, b.Class == workload.Batch; {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// at is the chosen workload among those shown; the first where it is not among them.
func (m *Model) at(shown []*api.Workload) int {
	return max(0, slices.IndexFunc(shown, func(w *api.Workload) bool { return w.ID == m.chosen }))
}

// workload is the chosen one, nil where it is gone.
func (m *Model) workload() *api.Workload {
	for i := range m.status.Workloads {
		if m.status.Workloads[i].ID == m.chosen {
			return &m.status.Workloads[i]
		}
	}
	return nil
}

// Key does what a key says, in the words of bubbletea ("q", "enter", "ctrl+c", "up").
func (m *Model) Key(key string) Ask {
	if key == "ctrl+c" {
		m.Quit = true
		return nil
	}
	m.notice = ""
	switch {
	case m.typing:
		m.filterKey(key)
		return nil
	case m.to != nil:
		return m.toKey(key)
	case m.question != nil:
		return m.answer(key)
	}
	shown := m.shown()
	if (m.page == list || m.chosen == "") && len(shown) > 0 { // what was chosen may have ended, or not pass the filter
		m.chosen = shown[m.at(shown)].ID
	}
	switch key {
	case "q":
		if m.page == list {
			m.Quit = true
		} else {
			m.turnBack()
		}
	case "esc":
		if m.page == list {
			m.filter = ""
		}
		m.turnBack()
	case "?", "f1":
		m.turn(help)
	case "p", "space":
		m.paused, m.held = !m.paused, m.events
	case "s":
		m.order = (m.order + 1) % max(1, len(m.o.Orders))
	case "S":
		m.order = (m.order + max(1, len(m.o.Orders)) - 1) % max(1, len(m.o.Orders))
	case "/":
		m.turn(list)
		m.typing = true
	case "left":
		m.node = max(0, m.node-1)
	case "right":
		m.node = min(m.node+1, max(0, len(m.status.Nodes)-1))
	case "up", "k", "down", "j", "pgup", "pgdown", "home", "g", "end", "G":
		m.scroll(key, shown)
	case "enter":
		if len(shown) > 0 {
			m.turn(detail)
		}
	case "e":
		if len(shown) > 0 {
			if m.page != explanation {
				m.back = m.page
			}
			m.turn(explanation)
			m.explains = nil
			return explain(m.chosen)
		}
	case "m", "x", "u", "U", "r", "R":
		return m.change(key)
	case "1", "2", "3", "4", "5", "6", "7", "8", "9":
		return m.play(int(key[0] - '1'))
	}
	return nil
}

// startWithin is how long another story of a demo may take to start.
const startWithin = 10 * time.Second

// play starts another story of a demo, or the same anew.
func (m *Model) play(story int) Ask {
	if story >= len(m.o.Stories) || m.starting {
		return nil
	}
	var since time.Time
	if t := m.status.Trend; t != nil {
		since = t.Since
	}
	m.turn(list)
	m.story = story
	m.starting = true
	m.asking = "starting: " + m.o.Stories[story].Title
	return func(ctx context.Context, b api.Backend) any {
		ctx, cancel := context.WithTimeout(ctx, startWithin)
		defer cancel()
		m.o.Choose(ctx, story)
		for {
			s, err := b.Status(ctx)
			if err == nil && s.Trend != nil && !s.Trend.Since.Equal(since) {
				return restarted{first: s}
			}
			select {
			case <-ctx.Done():
				return restarted{err: fmt.Errorf("the story did not start within %v", startWithin)}
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

func (m *Model) turn(p page) {
	if m.page != p {
		m.page, m.top = p, 0
	}
}

// turnBack leaves a page: an explanation for the workload in detail where it was asked from there.
func (m *Model) turnBack() {
	if m.page == explanation && m.back == detail {
		m.turn(detail)
		return
	}
	m.turn(list)
}

// scroll goes through the list, or through a page that is longer than the screen.
func (m *Model) scroll(key string, shown []*api.Workload) {
	far := max(1, m.height-16)
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -far, "pgdown": far, "home": -1 << 20,
		"g": -1 << 20, "end": 1 << 20, "G": 1 << 20}[key]
	if m.page != list {
		m.top = max(0, min(m.top+by, m.bottom))
		return
	}
	if len(shown) > 0 {
		m.chosen = shown[max(0, min(m.at(shown)+by, len(shown)-1))].ID
	}
}

// filterKey types into the filter.
func (m *Model) filterKey(key string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	default:
		m.filter = typed(m.filter, key)
	}
}

// mostTyped is as long as what is typed gets.
const mostTyped = 60

// typed is text after a key.
func typed(text, key string) string {
	switch r := []rune(text); {
	case key == "backspace" && len(r) > 0:
		return string(r[:len(r)-1])
	case key == "space" && len(r) < mostTyped:
		return text + " "
	case len([]rune(key)) == 1 && len(r) < mostTyped:
		return text + words.Printable(key)
	}
	return text
}
