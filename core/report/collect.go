package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// mostLooks bounds the looks that are kept: as many as a curve of the width of a page
	// can show.
	mostLooks = 480

	// mostWorkloads bounds those that are followed. A host of a year's short jobs has more.
	mostWorkloads = 20_000

	// mostMoves bounds the moves that are told apart, about 30 MB of them.
	mostMoves = 60_000

	// longest is how long nothing may be recorded before that counts as a gap, unless the
	// daemon looks less often: a busy machine may miss some looks.
	longest = time.Minute
)

// Collector reads a period, a line of the log and an event at a time.
type Collector struct {
	since, until time.Time
	looks        []look
	step         time.Duration // the least time between two looks that are read
	last         []byte        // the newest look that was not read
	lastAt       time.Time     // its time
	at           time.Time     // of the newest line in the period; zero before the first
	first        time.Time
	count        int // looks recorded
	version      string
	mode         string
	period       time.Duration // of the daemon
	held         control.Holds
	gaps         []Gap
	workloads    map[workload.ID]*followed
	lost         bool // some workloads are beyond mostWorkloads
	reasons      map[reasonKey]*reason
	host         *topology.Host
	nodes        []workload.NodeUse
	newest       *sampled

	seen                  map[uint64]bool // events of the history, by their number
	events                int
	firstEvent, lastEvent time.Time
	expected              map[workload.ID]float64
	moves                 map[moveKey]*Moved
	failures              map[words.Code]*Failure
	changed               map[string]*Changed
	orders                []Order
	ordered               int
	notes                 []string
}

// look is what is kept of a look that was read.
type look struct {
	at                  time.Time
	memory, memoryLocal float64 // KiB
	access, accessLocal float64 // a second
	busy, busyLocal     float64 // CPUs
	nodes               []NodeHomes
	gap                 bool // nothing was recorded before it
}

// followed is a workload over the period.
type followed struct {
	name        string
	first, last *float64 // locality
	seconds     float64
	use, remote float64 // CPUs × seconds
	memory      int64
}

type reasonKey struct {
	what Refusal
	code words.Code
}

type reason struct {
	text      string
	workloads map[workload.ID]bool
	seconds   float64
	look      int // the newest, from 1
	bytes     int64
}

type moveKey struct {
	id      workload.ID
	started int64
}

// sampled is a look that is read in full.
type sampled struct {
	Input struct {
		At   time.Time     `json:"at"`
		Scan *control.Scan `json:"scan"`
	} `json:"input"`
	Output struct {
		Plan    *plan.Plan      `json:"plan"`
		Balance *balance.Report `json:"balance"`
	} `json:"output"`
}

// placement is that of a workload in the plan; nil without one.
func (s *sampled) placement(id workload.ID) *workload.Placement {
	if s.Output.Plan == nil {
		return nil
	}
	all := s.Output.Plan.Placements
	k, ok := slices.BinarySearchFunc(all, id,
		func(p workload.Placement, id workload.ID) int { return strings.Compare(string(p.Workload), string(id)) })
	if !ok {
		return nil
	}
	return &all[k]
}

// batch reports whether a workload is batch work, which has no home: where its memory lies counts
// nowhere.
func (s *sampled) batch(id workload.ID) bool {
	p := s.placement(id)
	return p != nil && p.Class == workload.Batch
}

// New collects what is not before since and before until; a zero one is no bound.
func New(since, until time.Time) *Collector {
	return &Collector{since: since, until: until, workloads: map[workload.ID]*followed{},
		reasons: map[reasonKey]*reason{}, seen: map[uint64]bool{},
		expected: map[workload.ID]float64{}, moves: map[moveKey]*Moved{}, failures: map[words.Code]*Failure{},
		changed: map[string]*Changed{}}
}

// Checkpoint is where a file of the log begins.
func (c *Collector) Checkpoint(text []byte) error {
	var s struct {
		At       time.Time
		Settings struct{ Enforce *bool }
		Holds    control.Holds
	}
	// Settings has JSON names of its own, which are found in any case.
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read what the daemon remembered: %w", err)
	}
	if c.in(s.At) || !s.At.After(c.since) {
		if s.Settings.Enforce != nil {
			c.mode = (&control.Settings{Enforce: *s.Settings.Enforce}).Mode()
		}
		c.held = s.Holds
	}
	return nil
}

// in reports whether a time is in the period, early whether it is not past its end.
func (c *Collector) in(at time.Time) bool { return !at.Before(c.since) && c.early(at) }

func (c *Collector) early(at time.Time) bool { return c.until.IsZero() || at.Before(c.until) }

// parts of a line as the recorder writes it: the time first, then what happened, then what
// followed, of which what is saved comes first. A quote in a text is escaped, so that these
// cannot stand within one.
var (
	timeBegins   = []byte(`{"input":{"at":"`)
	outputBegins = []byte(`},"output":{"save":`)
	effectsBegin = []byte(`,"effects":`)
)

// head is what is read of every line.
type head struct {
	at      time.Time
	events  []plan.Event
	values  map[string]json.RawMessage
	effects []effect
}

type effect struct {
	Kind control.EffectKind `json:"kind"`
	Step *struct {
		Kind     plan.StepKind `json:"kind"`
		Workload workload.ID   `json:"workload"`
		Gain     plan.Gain     `json:"gain"`
	} `json:"step"`
}

// readHead reads the time, the events and the effects of a line, and no more of it than it
// must.
func readHead(line []byte) (h head, err error) {
	var save struct {
		Events []plan.Event
		Values map[string]json.RawMessage
	}
	at, hasTime := bytes.CutPrefix(line, timeBegins)
	end := bytes.IndexByte(at, '"')
	out := bytes.LastIndex(line, outputBegins)
	if !hasTime || end < 0 || out < 0 {
		var whole struct {
			Input struct {
				At time.Time `json:"at"`
			} `json:"input"`
			Output struct {
				Save    json.RawMessage `json:"save"`
				Effects []effect        `json:"effects"`
			} `json:"output"`
		}
		if err := json.Unmarshal(line, &whole); err != nil || whole.Output.Save == nil {
			return h, fmt.Errorf("not a line of a flight log")
		}
		err = json.Unmarshal(whole.Output.Save, &save)
		return head{whole.Input.At, save.Events, save.Values, whole.Output.Effects}, err
	}
	if h.at, err = time.Parse(time.RFC3339Nano, string(at[:end])); err != nil {
		return h, fmt.Errorf("not a line of a flight log: %w", err)
	}
	rest := line[out+len(outputBegins):]
	d := json.NewDecoder(bytes.NewReader(rest))
	if err := d.Decode(&save); err != nil {
		return h, fmt.Errorf("not a line of a flight log: %w", err)
	}
	h.events, h.values = save.Events, save.Values
	if rest, ok := bytes.CutPrefix(rest[d.InputOffset():], effectsBegin); ok {
		if err := json.NewDecoder(bytes.NewReader(rest)).Decode(&h.effects); err != nil {
			return h, fmt.Errorf("not a line of a flight log: %w", err)
		}
	}
	return h, nil
}

var (
	scanBegins    = []byte(`,"scan":{`)
	startedBegins = []byte(`,"started":{`)
)

// Line is a line of the log; it is not kept.
func (c *Collector) Line(line []byte) error {
	h, err := readHead(line)
	if err != nil {
		return err
	}
	if v, ok := h.values[control.KeyHolds]; ok && c.early(h.at) {
		var held control.Holds
		if json.Unmarshal(v, &held) == nil {
			c.held = held
		}
	}
	for _, e := range h.effects {
		if e.Kind == control.EffectApply && e.Step != nil && e.Step.Kind == plan.MovePages &&
			len(c.expected) < mostWorkloads {
			c.expected[e.Step.Workload] = e.Step.Gain.LocalityAfter
		}
	}
	for i := range h.events {
		if e := &h.events[i]; c.in(e.Time) && !c.seen[e.Seq] {
			c.event(e)
		}
	}
	is := func(begins []byte) bool { // the first key after the time
		k := bytes.IndexByte(line[len(timeBegins):], '"')
		return k >= 0 && bytes.HasPrefix(line[len(timeBegins)+k+1:], begins)
	}
	if is(startedBegins) && c.early(h.at) { // of before the period, too: that daemon goes on in it
		var x struct {
			Input struct{ Started *control.Started }
		}
		if json.Unmarshal(line, &x) == nil && x.Input.Started != nil {
			c.version, c.period = x.Input.Started.Version, x.Input.Started.Period
		}
	}
	if !c.in(h.at) {
		return nil
	}
	gap := c.mind(h.at)
	if is(scanBegins) {
		c.count++
		return c.scan(line, h.at, gap)
	}
	return nil
}

// mind notes the time of a line, and reports whether nothing was recorded before it.
func (c *Collector) mind(at time.Time) (gap bool) {
	was := c.at
	if was.IsZero() {
		c.first = at
		was = c.since
	}
	if !was.IsZero() && at.Sub(was) > c.patience() {
		c.gaps = append(c.gaps, Gap{was.UTC(), at.UTC()})
		gap = true
	}
	if at.After(c.at) {
		c.at = at
	}
	return gap
}

func (c *Collector) patience() time.Duration { return max(longest, 5*c.period) }

// scan reads a look in full when it is its turn.
func (c *Collector) scan(line []byte, at time.Time, gap bool) error {
	if n := len(c.looks); n > 0 && !gap && at.Sub(c.looks[n-1].at) < c.step {
		c.last, c.lastAt = append(c.last[:0], line...), at
		return nil
	}
	c.lastAt = time.Time{}
	if err := c.read(line, gap); err != nil {
		return err
	}
	if len(c.looks) < mostLooks {
		return nil
	}
	kept := c.looks[:0]
	for k := range c.looks {
		if k%2 == 0 || c.looks[k].gap {
			kept = append(kept, c.looks[k])
		}
	}
	c.looks = kept
	c.step = 2 * max(c.step, c.looks[len(c.looks)-1].at.Sub(c.looks[0].at)/mostLooks, time.Second/2)
	return nil
}

// read takes in a whole look.
func (c *Collector) read(line []byte, gap bool) error {
	var s sampled
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("not a look of a flight log: %w", err)
	}
	scan := s.Input.Scan
	if scan == nil || scan.Failed != "" || scan.Snapshot.Host == nil {
		return nil
	}
	weight := 0.0 // seconds that the look before was the newest
	if n := len(c.looks); n > 0 && !gap {
		weight = s.Input.At.Sub(c.looks[n-1].at).Seconds()
	}
	if weight <= 0 {
		weight = 1
	}
	c.host = scan.Snapshot.Host
	c.nodes = scan.Snapshot.Nodes
	c.newest = &s
	l := look{at: s.Input.At, gap: gap}
	for i := range scan.Snapshot.Observations {
		if o := &scan.Snapshot.Observations[i]; !s.batch(o.ID) {
			c.observe(&l, o, weight)
		}
	}
	if p := s.Output.Plan; p != nil {
		l.nodes = homesOf(c.host, p.Placements)
		for i := range p.Report.Decisions {
			c.refused(&p.Report.Decisions[i], weight)
		}
	}
	if b := s.Output.Balance; b != nil {
		for i := range b.Weighed {
			x := &b.Weighed[i]
			for _, ch := range x.Changes {
				c.reason(NotChanged, x.Rejected, ch.Workload, weight)
			}
		}
	}
	c.looks = append(c.looks, l)
	return nil
}

// observe adds a workload to a look.
func (c *Collector) observe(l *look, o *workload.Observation, weight float64) {
	share, _, known := o.LocalShare()
	memory := float64(workload.Total(o.Memory))
	if known {
		l.memory, l.memoryLocal = l.memory+memory, l.memoryLocal+memory*share
		l.busy, l.busyLocal = l.busy+o.CPUUse, l.busyLocal+o.CPUUse*share
		l.access, l.accessLocal = l.access+o.Accesses.PerSecond, l.accessLocal+o.Accesses.PerSecond*share
	}
	f := c.workloads[o.ID]
	if f == nil {
		if len(c.workloads) >= mostWorkloads {
			c.lost = true
			return
		}
		f = &followed{}
		c.workloads[o.ID] = f
	}
	f.name, f.memory = o.Name, int64(memory)
	if !known {
		return
	}
	if f.first == nil {
		f.first = &share
	}
	f.last = &share
	f.seconds += weight
	f.use += weight * o.CPUUse
	f.remote += weight * o.CPUUse * (1 - share)
}

// homesOf is what lives on each node of a host.
func homesOf(h *topology.Host, placements []workload.Placement) []NodeHomes {
	out := make([]NodeHomes, len(h.Nodes))
	at := make(map[topology.NodeID]int, len(h.Nodes))
	for i := range h.Nodes {
		out[i].Node, at[h.Nodes[i].ID] = h.Nodes[i].ID, i
	}
	for i := range placements {
		p := &placements[i]
		part := 1 / float64(max(1, p.Home.Len()))
		for _, n := range p.Home.Slice() {
			if k, ok := at[n]; ok {
				out[k].Homes += part
				out[k].VCPUs += part * float64(p.VCPUs)
			}
		}
	}
	return out
}

// refused adds a decision that gave no home.
func (c *Collector) refused(d *plan.Decision, weight float64) {
	what := LeftAlone
	switch d.Outcome {
	case plan.Refused:
		what = NoHome
	case plan.LeftAlone:
	default:
		return
	}
	if len(d.Reasons) > 0 {
		c.reason(what, d.Reasons[0], d.Workload, weight)
	}
}

// reason counts a reason once more. The time of a look counts once however many workloads
// it is about.
func (c *Collector) reason(what Refusal, why words.Reason, id workload.ID, weight float64) *reason {
	if why.None() {
		return nil
	}
	key := reasonKey{what, why.Code}
	r := c.reasons[key]
	if r == nil {
		r = &reason{text: why.String(), workloads: map[workload.ID]bool{}}
		c.reasons[key] = r
	}
	if len(r.workloads) < mostWorkloads {
		r.workloads[id] = true
	}
	if r.look != len(c.looks)+1 {
		r.look = len(c.looks) + 1
		r.seconds += weight
	}
	return r
}

// History is events that were kept beside the log, to be given before its lines: what is in
// both counts once.
func (c *Collector) History(events []plan.Event) {
	for i := range events {
		if e := &events[i]; c.in(e.Time) {
			c.seen[e.Seq] = true
			c.event(e)
		}
	}
}

// settingOf is the kind of setting that the text of a step begins with.
func settingOf(text string) string {
	for i, r := range text {
		if r != '-' && (r < 'a' || r > 'z') {
			return text[:i]
		}
	}
	return text
}

func (c *Collector) event(e *plan.Event) {
	c.events++
	if c.firstEvent.IsZero() || e.Time.Before(c.firstEvent) {
		c.firstEvent = e.Time
	}
	if e.Time.After(c.lastEvent) {
		c.lastEvent = e.Time
	}
	if e.Error {
		f := c.failures[e.Code]
		if f == nil {
			f = &Failure{Code: e.Code}
			c.failures[e.Code] = f
		}
		f.Count++
		if !e.Time.Before(f.Last) {
			f.Last = e.Time.UTC()
			f.Workload = e.Workload
			f.Text = e.Text
		}
	}
	if m := e.Move; m != nil && m.State != "running" && m.State != "paused" {
		c.moved(e)
	}
	setting := func() *Changed {
		kind := settingOf(e.Text)
		if c.changed[kind] == nil {
			c.changed[kind] = &Changed{Setting: kind}
		}
		return c.changed[kind]
	}
	switch {
	case e.Code == words.StepTook && e.By != nil:
		setting().Ordered++
	case e.Code == words.StepTook:
		setting().Count++
	case e.Code == words.PutBack:
		setting().PutBack++
	case e.Code == words.SetBack, e.Code == words.SetSince:
		setting().ByOthers++
	}
	if e.By != nil && e.Code != words.StepTook && e.Code != words.PutBack {
		c.ordered++
		c.orders = append(c.orders, Order{e.Time.UTC(), e.By.String(), e.Workload, e.Text})
		if len(c.orders) > 2*mostOrders {
			c.orders = newest(c.orders)
		}
	}
}

// mostOrders is how many orders a report lists.
const mostOrders = 50

func newest(orders []Order) []Order {
	slices.SortStableFunc(orders, func(a, b Order) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Text, b.Text))
	})
	return orders[:min(len(orders), mostOrders)]
}

// moved takes in the record of a move; a later one of the same move has more.
func (c *Collector) moved(e *plan.Event) {
	key := moveKey{e.Move.Workload, e.Move.Started.UnixNano()}
	was := c.moves[key]
	if was == nil && len(c.moves) == mostMoves {
		c.Note(words.Because(words.ReportNotAllMoves, mostMoves))
		return
	}
	m := &Moved{Move: *e.Move, Ended: e.Time.UTC()}
	m.Started = m.Started.UTC()
	if x, ok := c.expected[e.Move.Workload]; ok {
		m.Expected = &x
	}
	if was != nil {
		if was.LocalityAfter != nil && m.LocalityAfter == nil {
			return
		}
		if m.Ended.After(was.Ended) {
			m.Ended = was.Ended
		}
		if was.Expected != nil {
			m.Expected = was.Expected
		}
	}
	c.moves[key] = m
}

// Note is something that limits the report.
func (c *Collector) Note(r words.Reason) {
	if text := r.String(); !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// Unseen reports whether nothing was recorded of the host, whatever happened.
func (c *Collector) Unseen() bool { return c.at.IsZero() }

// Empty reports whether nothing was recorded and nothing happened.
func (c *Collector) Empty() bool { return c.at.IsZero() && c.events == 0 }
