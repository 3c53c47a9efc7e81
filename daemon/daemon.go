package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Options is everything a Daemon works with.
type Options struct {
	Settings  control.Settings
	Period    time.Duration // between two scans
	Version   string
	BootID    string // changes when the machine restarts: the journal of another boot is void
	Observer  Observer
	Sources   []Source
	Drivers   map[workload.Kind]Driver
	Surveys   map[control.SurveyKind]Surveyor
	Scheduler Scheduler // nil: the kernel takes none for batch work
	Store     Store
	Clock     Clock
	Recorder  Recorder // nil keeps no record
	Log       *slog.Logger
	// Metrics is what the goals of the configuration are read from, one for each reading.
	Metrics []Metric
	// Admitted is what `homenode run` has started without a daemon and still lives; nil:
	// nothing. It is asked at the start and before a home is given.
	Admitted func() []control.Admission
	// Processes is asked before a home is given; nil: bookings end with the next scan.
	Processes Processes
	// Odd is what in the configuration does not fit the machine: status tells it.
	Odd []string
	// Ready is called when the first scan was decided on, Alive each time the loop has
	// come round: readiness and watchdog. Neither may wait.
	Ready func(*Daemon)
	Alive func()
	// Looked is called with the time that a look and what was decided on it took; it may not
	// wait. nil is not called.
	Looked func(took time.Duration)
	// Self counts what this process holds, for Status; nil leaves it out.
	Self func() api.Self

	// Lineage is what the kernel says of a process that somebody names; zero for none. nil
	// knows those alone that were seen.
	Lineage func(pid int) workload.Lineage

	// Go runs something beside the loop; nil starts a goroutine. Inline has the calls of
	// page moves made in it and not given up: both are for tests that step through.
	Go     func(func())
	Inline bool
}

// after is closed when d is over.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// Daemon is the loop. It implements api.Backend.
type Daemon struct {
	o      Options
	owners map[plan.SettingKind]Driver
	log    logBeside
	work   context.Context // of effects and scans
	stop   context.CancelFunc
	calls  chan struct{} // driver calls under way, but for page moves and restores
	undos  chan struct{} // calls under way that restore
	asking chan struct{} // one what-if
	lost   atomic.Int64  // calls that were given up and have not come back

	inputs   chan arrival // from scans, surveys and effects
	requests chan asked
	view     atomic.Pointer[View]
	ended    chan struct{} // closed when the loop has ended

	readings []atomic.Pointer[workload.MetricReading] // of o.Metrics

	// The loop's alone.
	state     *control.State
	outbox    outbox
	history   []plan.Event // the newest: appended to, never changed
	trend     Trend
	answers   map[uint64]asked              // requests that are not answered
	cancels   map[uint64]context.CancelFunc // of effects under way
	cancelled map[uint64]bool               // effects that wait for the disk, and are not to be begun
	number    uint64                        // of requests
	scans     uint64                        // begun
	scanning  bool
	overdue   <-chan time.Time // when the scan under way takes too long
	ready     bool
	behind    bool            // the View is older than the state
	running   int             // effects, surveys and scans that have not come back
	stuck     map[callKey]int // calls given up that have not come back
	surveying map[control.SurveyKind]bool
	stalled   string
	unseen    string             // why the newest scan saw nothing
	seen      *workload.Snapshot // of a scan that nothing was decided on; nil when all is well
	failed    error              // of the first scan: the daemon ends with it

	// The scan's, of each source.
	refreshing []chan error // while it is brought up to date
	claimed    []control.Claimed

	broken atomic.Pointer[[]string] // what has panicked

	noted      chan string                     // sentences of Note
	note       string                          // the newest, the loop's alone
	handedOver atomic.Pointer[context.Context] // another daemon goes on at once, unless this has ended
}

// arrival is what comes back from beside the loop.
type arrival struct {
	control.Input
	call callKey // the call it is about
	lost int     // 1 when that was given up, -1 when it has come back all the same, without an input

	asked      *asked // a request that is ready to be decided on
	unanswered bool   // it is a scan that failed for want of time: another may not
}

// asked is a request and where its answer goes.
type asked struct {
	ctx     context.Context // of who asks: nothing is begun for who has gone away
	request control.Request
	answer  chan<- control.Reply
	looked  bool // Options.Processes was asked for it
}

// New reads what an earlier daemon left in the store and is ready to Run.
func New(o Options) (*Daemon, error) {
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	beside := newLogBeside(o.Log.Handler())
	o.Log = slog.New(beside)
	d := &Daemon{o: o, owners: owners(o.Drivers), log: beside, calls: make(chan struct{}, mostCalls),
		undos: make(chan struct{}, mostCalls), asking: make(chan struct{}, 1),
		inputs: make(chan arrival, 1024), stuck: map[callKey]int{}, surveying: map[control.SurveyKind]bool{},
		refreshing: make([]chan error, len(o.Sources)), claimed: make([]control.Claimed, len(o.Sources)),
		requests: make(chan asked, 64), ended: make(chan struct{}),
		answers: map[uint64]asked{}, cancels: map[uint64]context.CancelFunc{}, cancelled: map[uint64]bool{}}
	d.noted = make(chan string, 1)
	d.readings = make([]atomic.Pointer[workload.MetricReading], len(o.Metrics))
	d.work, d.stop = context.WithCancel(context.Background())
	saved, err := load(o.Store)
	if err != nil {
		return nil, err
	}
	if saved, err = d.sinceBoot(saved); err != nil {
		return nil, err
	}
	if d.history, err = o.Store.History(plan.EventQuery{Limit: keepEvents}); err != nil {
		return nil, err
	}
	d.outbox.written, d.outbox.saved = make(chan error, 1), saved.Events
	if o.Admitted != nil {
		saved = saved.With(o.Admitted())
	}
	d.state = control.New(o.Settings, saved)
	d.publish()
	return d, nil
}

// keyBoot is where the store keeps which boot its journal is of.
const keyBoot = "boot"

// wakeRest is the least time from a scan that an event called for to the next one. What
// happens all the time takes a fifth of a CPU at most.
const wakeRest = 50 * time.Millisecond

// Run loops until ctx ends, then lets what is under way come to a stop and, if configured,
// undoes everything. A Daemon runs once.
func (d *Daemon) Run(ctx context.Context) error {
	logged := make(chan struct{})
	go func() {
		d.log.write(d.ended)
		close(logged)
	}()
	defer func() {
		select {
		case <-logged:
		case <-after(lastLines):
		}
	}()
	defer close(d.ended)
	defer d.stop()
	for i := range d.o.Metrics {
		go d.follow(ctx, i)
	}
	wake := make(chan struct{})
	for _, s := range d.o.Sources {
		if j, ok := s.(Joining); ok {
			j.Join(d)
		}
		go d.listen(ctx, s, wake)
	}
	d.next(control.Input{Started: &control.Started{Version: d.o.Version, Period: d.o.Period}})
	d.scan()
	pause := d.pause()
	due, pulse := d.o.Clock.After(pause), d.o.Clock.After(time.Second)
	for ctx.Err() == nil && d.failed == nil {
		woken := wake
		if d.scanning { // may have looked there already: it is waited for
			woken = nil
		}
		select {
		case <-ctx.Done():
		case in := <-d.inputs:
			d.take(in)
		case <-d.overdue:
			d.late()
		case a := <-d.requests:
			d.ask(a)
		case err := <-d.outbox.written:
			d.wrote(err)
		case <-d.outbox.due:
			d.writeDue()
		case note := <-d.noted:
			d.noteNow(note)
		case <-due:
			d.scan()
			pause = d.pause()
			due = d.o.Clock.After(pause)
		case <-woken:
			d.scan()
		case <-pulse: // so that Alive is called
			pulse = d.o.Clock.After(time.Second)
		}
		if now := d.pause(); now < pause/2 {
			pause = now
			due = d.o.Clock.After(pause)
		}
		if d.o.Alive != nil {
			d.o.Alive()
		}
	}
	return errors.Join(d.failed, d.end())
}

// Note has status say, until another note, what is wrong with a configuration that was to replace that of this
// daemon; "" is nothing. It goes into the history and the log with the next scan, which begins at once.
func (d *Daemon) Note(text string) {
	select {
	case d.noted <- text:
	case <-d.ended:
	}
}

func (d *Daemon) noteNow(text string) {
	if text != "" && text == d.note { // no news for the history, and whoever has asked again wants an answer
		d.o.Log.Warn("configuration: " + text)
	}
	d.note = text
	d.scan()
}

// HandOver has the daemon restore nothing when it ends, because another one goes on at once. Where ctx has ended
// by then, the other one does not come and the daemon restores as ever.
func (d *Daemon) HandOver(ctx context.Context) { d.handedOver.Store(&ctx) }

func (d *Daemon) goesOn() bool {
	ctx := d.handedOver.Load()
	return ctx != nil && (*ctx).Err() == nil
}

// listen asks for a scan when something happened to a source's workloads.
func (d *Daemon) listen(ctx context.Context, s Source, wake chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wakeOf(s):
		}
		select {
		case <-ctx.Done():
			return
		case wake <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case <-d.o.Clock.After(max(wakeRest, 4*d.View().Took)):
		}
	}
}

// wakeOf is nil for a source that is polled.
func (d *Daemon) wakeOf(s Source) (wake <-chan struct{}) {
	var bug error
	defer d.caught(s.Name()+" waking the daemon", &bug)
	return s.Wake()
}

// end stops what is under way, lets go what sharing has frozen and, if configured, puts
// everything back.
func (d *Daemon) end() error {
	d.next(control.Input{Stopped: true})
	for _, cancel := range d.cancels {
		cancel()
	}
	d.pump(10*time.Second, func() bool { return len(d.cancels) == 0 })
	var err error
	if d.o.Settings.Enforce {
		which := control.Which{All: true, Stop: true}
		if !d.o.Settings.RestoreOnStop || d.goesOn() {
			which.Sharing, which.Only = true, plan.CgroupFreeze
		}
		answer := make(chan control.Reply, 1)
		d.ask(asked{ctx: context.Background(), request: control.Request{Undo: &which}, answer: answer})
		d.pump(time.Minute, func() bool { return len(answer) > 0 })
		select {
		case r := <-answer:
			if r.Undo != nil && len(r.Undo.Failed) > 0 {
				err = fmt.Errorf("%d settings could not be restored; see `homenode history`, then run `homenode "+
					"undo --all`", len(r.Undo.Failed))
			}
		default:
			err = errors.New("not everything could be restored within a minute; run `homenode undo --all`")
		}
	}
	d.pump(10*time.Second, func() bool { d.write(); return d.outbox.writing == nil && len(d.outbox.queue) == 0 })
	d.catchUp()
	return err
}

// pump takes inputs until done, or for so long.
func (d *Daemon) pump(most time.Duration, done func() bool) {
	late := after(most)
	for !done() {
		select {
		case in := <-d.inputs:
			d.take(in)
		case err := <-d.outbox.written:
			d.wrote(err)
		case <-d.outbox.due:
			d.writeDue()
		case <-late:
			return
		}
	}
}

// post hands an input to the loop.
func (d *Daemon) post(in control.Input) { d.arrive(arrival{Input: in}) }

// arrive hands what came back to the loop. After the loop has ended nobody wants it.
func (d *Daemon) arrive(a arrival) {
	select {
	case d.inputs <- a:
	case <-d.ended:
	}
}

// take gives what came from beside the loop to it.
func (d *Daemon) take(a arrival) {
	if a.asked != nil {
		d.ask(*a.asked)
		return
	}
	if a.lost != 0 {
		if d.stuck[a.call] += a.lost; d.stuck[a.call] == 0 {
			delete(d.stuck, a.call)
		}
		if a.lost < 0 {
			d.cameBack(a.call)
			return
		}
	}
	switch in := &a.Input; {
	case in.Scan != nil:
		d.running--
		d.scanning = false
		d.overdue = nil
		d.unseen = in.Scan.Failed
		if in.Scan.Failed != "" && !d.ready && !a.unanswered {
			d.failed = errors.New(in.Scan.Failed)
		}
	case in.Survey != nil:
		d.running--
		delete(d.surveying, in.Survey.Kind)
	case in.Result != nil:
		d.running--
		delete(d.cancels, in.Result.ID)
	}
	if a.Scan != nil {
		d.withdraw()
	}
	d.next(a.Input)
	if a.Scan != nil && a.Scan.Failed == "" && d.o.Looked != nil {
		d.o.Looked(d.View().Took)
	}
	if a.Scan != nil && d.failed == nil {
		d.getReady()
	}
}

// cameBack takes up that a call has come back after it was given up. What it changed then
// is restored once more if it was to be.
func (d *Daemon) cameBack(c callKey) {
	if c.of == step && d.stuck[c] == 0 && d.state.Holds.Has(c.workload) {
		d.next(control.Input{Request: &control.Request{Undo: &control.Which{ID: c.workload}}})
		return
	}
	d.publish()
}

// getReady says once that the daemon is ready.
func (d *Daemon) getReady() {
	if !d.ready && d.o.Ready != nil {
		d.o.Ready(d)
	}
	d.ready = true
}

// late tells that the scan under way takes too long. There is no other beside it: when it
// ends after all, it is decided on.
func (d *Daemon) late() {
	d.overdue, d.unseen = nil, errScanLate.Error()
	d.next(control.Input{Scan: &control.Scan{Number: d.scans, Failed: d.unseen}})
	d.getReady()
}

var errScanLate = fmt.Errorf("the scan of the host has not ended within %s", words.Duration(scanWithin))

// ask gives a request to the loop. Before a home is given it is looked, beside the loop, who
// of those that hold one has ended, so that no booking outlives its process.
func (d *Daemon) ask(a asked) {
	if a.ctx.Err() != nil {
		return
	}
	if p := a.request.Place; p != nil && d.o.Processes != nil && !a.looked && d.stalled == "" {
		a.looked = true
		booked := d.state.Booked()
		d.o.Go(func() {
			d.lookAt(p, booked)
			d.arrive(arrival{asked: &a})
		})
		return
	}
	d.number++
	a.request.ID = d.number
	d.answers[d.number] = a
	d.next(control.Input{Request: &a.request})
}

// withdraw takes back what waits for a scan and whose asker has gone away.
func (d *Daemon) withdraw() {
	for _, r := range slices.Clone(d.state.Waiting) {
		if a, waits := d.answers[r.ID]; waits && a.ctx.Err() != nil {
			delete(d.answers, r.ID)
			d.next(control.Input{Withdrawn: r.ID})
		}
	}
}

// lookAt finds out what a request for a home needs to know of processes.
func (d *Daemon) lookAt(p *control.PlaceRequest, booked []workload.Process) {
	var bug error
	defer d.caught("looking which processes have started and ended", &bug)
	if p.Process.PID > 0 {
		p.Had = d.o.Processes.Affinity(p.Process)
	}
	p.Ended = d.o.Processes.Ended(booked)
	p.Admitted = d.admitted()
}

// admitted returns the commands that `homenode run` has started without a daemon and that live.
func (d *Daemon) admitted() []control.Admission {
	if d.o.Admitted == nil {
		return nil
	}
	return d.o.Admitted()
}

// next is one turn of the loop: what follows from an input is decided, published, written
// and begun.
func (d *Daemon) next(in control.Input) {
	in.At = d.o.Clock.Now().Round(0)
	if in.Scan != nil && in.Scan.Failed == "" {
		odd := d.o.Odd
		if d.note != "" {
			odd = append(slices.Clip(odd), d.note)
		}
		for _, text := range odd {
			in.Scan.Snapshot.Problems = append(slices.Clip(in.Scan.Snapshot.Problems),
				workload.Problem{Subject: "configuration", Text: text})
		}
	}
	out, ok := d.decide(in)
	if !ok {
		return
	}
	for i := range out.Save.Events {
		e := &out.Save.Events[i]
		d.remember(*e)
		d.trend.Hear(e)
		level := slog.LevelInfo
		switch {
		case e.Error:
			level = slog.LevelWarn
		case e.Kind == plan.EventWorkload, e.Kind == plan.EventPlan &&
			!d.o.Settings.Enforce: // nothing is changed by it
			level = slog.LevelDebug
		}
		about := []any{"kind", e.Kind}
		if e.Workload != "" {
			about = append(about, "workload", e.Workload)
		}
		d.o.Log.Log(context.Background(), level, e.Text, about...)
	}
	d.behind = true
	d.send(out)
	if len(d.inputs) == 0 && len(d.requests) == 0 {
		d.catchUp()
	}
}

// decide is control.Next, recorded. When it panics the daemon changes nothing more and
// goes on reporting: the state may be half changed.
func (d *Daemon) decide(in control.Input) (out control.Output, ok bool) {
	if d.stalled != "" && in.Scan == nil {
		d.refuse()
		return out, false
	}
	defer func() {
		if r := recover(); r != nil {
			d.stalled = fmt.Sprintf("deciding failed, and nothing is changed until the daemon is started again: %v", r)
			d.o.Log.Error(d.stalled, "stack", string(debug.Stack()))
			d.refuse()
			d.publish()
			out, ok = control.Output{}, false
		}
	}()
	if d.stalled != "" {
		if in.Scan.Failed == "" {
			d.seen = &in.Scan.Snapshot // status goes on showing what is there
		}
		d.publish()
		return out, false
	}
	var before json.RawMessage
	d.record(func(r Recorder) {
		if r.Due() {
			before = d.state.Checkpoint()
		}
	})
	d.state, out = control.Next(d.state, in)
	d.record(func(r Recorder) {
		r.Record(control.Recorded{Before: before, Input: in, Output: out})
	})
	return out, true
}

// refuse answers all who wait: nothing is decided any more.
func (d *Daemon) refuse() {
	for id := range d.answers {
		d.answer(control.Reply{ID: id, Failed: &control.Failure{Code: control.Failed, Text: d.stalled}})
	}
}

const (
	// keepEvents is how many of the newest events are at hand for who follows them, beside
	// those that the store has not written yet; it has all others.
	keepEvents = 512
	// mostEvents bounds those that are not written: a disk that is full must not fill memory
	// too.
	mostEvents = 1 << 14
)

const (
	// scanWithin is how long a scan may take before it is told of, and before the daemon
	// is ready without it: most take less than a second, and systemd waits 90 s for a start.
	scanWithin = time.Minute
	// refreshWithin is how long a scan waits for its sources.
	refreshWithin = 5 * time.Second
)
