package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// manager decides where jobs go.
type manager interface {
	// preplace is told of a job that ran before anything began.
	preplace(j *job) error
	// begin is called once, after preplace and before the first event.
	begin(ctx context.Context) error
	// arrive decides on a job that is about to start and confines it; false refuses it.
	arrive(ctx context.Context, j *job) (bool, error)
	// depart is told of a job that has ended.
	depart(j *job)
	// tick is called once every period, after the machine was brought up to date.
	tick(ctx context.Context) error
	// due is when the manager wants to be woken.
	due() (time.Duration, bool)
	wake(ctx context.Context)
	// ledger is who is where by plan, and whether that changed since the last call.
	ledger() ([]plan.Placement, bool)
	// trouble is what the manager itself found wrong since the last call.
	trouble() []string
	// leaks is what is still given away when every job has departed.
	leaks(ctx context.Context) []string
	end()
}

// homenode is the real decider on a simulated machine: what control.Next says is done
// here, in step with the simulated clock.
type homenode struct {
	m        *machine
	policy   plan.Policy
	period   time.Duration
	pace     int64 // bytes/s of page moves
	rules    []workload.Rule
	state    *control.State
	still    bool // no balancing
	counters bool
	driver   driver // h itself, or what a test puts before it
	look     func(workload.Snapshot) workload.Snapshot
	admitted map[workload.ID]control.Admission // preplaced
	before   []workload.Placement              // of preplaced jobs
	scans    uint64
	requests uint64
	written  bool // the ledger changed since this was last asked

	tasks     []*task // page moves in flight, in the order they began
	current   *task   // the one that runs now
	moves     map[uint64]context.CancelFunc
	todo      []control.Effect
	inputs    []control.Input
	replies   map[uint64]control.Reply
	wrong     []string
	events    []plan.Event     // the newest
	listen    func(plan.Event) // for tests
	tape      func(control.Recorded)
	watch     func(control.View, []plan.Event)
	recognise control.Recognise
	house     bool // it is looked at as a House is
	count     *Score
}

// driver changes simulated settings, as the drivers of host do real ones.
type driver interface {
	Changes(ctx context.Context, s plan.Step) ([]plan.Change, error)
	Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error
	Read(e plan.Entry) (plan.Setting, error)
	Restore(e plan.Entry) error
}

// task is a page move as a coroutine: it runs only inside next, which returns
// when the move waits for its pace.
type task struct {
	next  func() (time.Duration, bool)
	stop  func()
	sleep func(time.Duration) bool
	until time.Duration
}

// epoch is the date on the simulated clock when it starts: any, but always the same.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newHomenode(m *machine, o *Options, t *Trace, count *Score) *homenode {
	h := &homenode{m: m, policy: t.Policy, recognise: t.Recognise, period: o.Period, rules: t.Rules,
		counters: t.Counters,
		tape:     o.Record, watch: o.Watch, house: t.house, admitted: map[workload.ID]control.Admission{}, count: count,
		moves: map[uint64]context.CancelFunc{}, replies: map[uint64]control.Reply{}}
	if h.rules == nil {
		h.rules = rulesFor(t.Events)
	}
	h.driver = h
	h.look = func(s workload.Snapshot) workload.Snapshot { return s }
	if o.breakHomenode != nil {
		o.breakHomenode(h)
	}
	return h
}

func (h *homenode) preplace(j *job) error {
	d := &j.demand
	p := placementFor(h.m, j)
	h.admitted[j.id] = control.Admission{Process: j.process, Placement: p,
		Spec: workload.Spec{ID: j.id, Name: j.name, Class: d.Class, CPUs: d.VCPUs, Memory: d.Memory, Given: true}}
	h.before = append(h.before, p)
	return nil
}

// movePace is the bandwidth of page moves that the daemon has by default, bytes/s.
const movePace = 256 << 20

// begin starts homenode on what an earlier one would have left.
func (h *homenode) begin(ctx context.Context) error {
	if h.pace = movePace; h.house {
		h.pace = housePace(len(h.m.host.Nodes))
	}
	sortPlacements(h.before)
	settings := settingsFor(h.policy, h.rules, h.pace)
	settings.Recognise = h.recognise
	settings.Balance.Enabled, settings.Share.On = !h.still, h.house
	h.state = control.New(settings, control.Saved{Placements: h.before, Admissions: h.admitted})
	h.written = true
	h.turn(ctx, control.Input{Started: &control.Started{Version: "simulated", Period: h.period}})
	if h.house { // its tenants are there before the daemon starts
		return nil
	}
	return h.tick(ctx)
}

// settingsFor is the configuration of a daemon that acts; pace is the bandwidth of page moves,
// bytes/s.
func settingsFor(policy plan.Policy, rules []workload.Rule, pace int64) control.Settings {
	return control.Settings{Enforce: true, Policy: policy, Rules: rules, Balance: balance.DefaultSettings(),
		Arrange:    arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: pace},
		Interrupts: control.InterruptsOff, Share: share.DefaultSettings()}
}

// turn gives an input to control.Next and does what follows, until only page moves are
// under way.
func (h *homenode) turn(ctx context.Context, in control.Input) {
	h.inputs = append(h.inputs, in)
	for len(h.inputs) > 0 || len(h.todo) > 0 {
		if len(h.inputs) == 0 {
			e := h.todo[0]
			h.todo = h.todo[1:]
			h.perform(ctx, &e)
			continue
		}
		in, h.inputs = h.inputs[0], h.inputs[1:]
		in.At = h.now()
		var before json.RawMessage
		if h.tape != nil && in.Started != nil {
			before = h.state.Checkpoint()
		}
		var out control.Output
		h.state, out = control.Next(h.state, in)
		if h.tape != nil {
			h.tape(control.Recorded{Before: before, Input: in, Output: out})
		}
		for _, e := range out.Save.Events {
			h.hear(e)
		}
		h.written = h.written || out.Save.Placements != nil
		for _, r := range out.Replies {
			h.replies[r.ID] = r
		}
		h.todo = append(h.todo, out.Effects...)
	}
}

// perform does an effect; a page move goes on by itself.
func (h *homenode) perform(ctx context.Context, e *control.Effect) {
	r := &control.Result{ID: e.ID}
	switch e.Kind {
	case control.EffectRead:
		var err error
		r.Changes, err = h.driver.Changes(ctx, *e.Step)
		r.Failed = failureOf(err)
	case control.EffectApply:
		if e.Step.Kind == plan.MovePages {
			h.spawn(ctx, e)
			return
		}
		r.Failed = failureOf(h.driver.Apply(ctx, *e.Step, func(plan.Move) {}))
	case control.EffectRestore, control.EffectCheck, control.EffectPresent:
		for _, entry := range e.Entries {
			now, err := h.driver.Read(entry)
			switch {
			case err == nil && e.Kind == control.EffectCheck:
				r.Settings = append(r.Settings, now)
			case err == nil && e.Kind == control.EffectRestore && !entry.Ours(now):
				err = plan.ErrForeign
			case err == nil && e.Kind == control.EffectRestore:
				err = h.driver.Restore(entry)
			}
			r.Each = append(r.Each, failureOf(err))
		}
	case control.EffectInherited:
	case control.EffectCancel:
		if cancel := h.moves[e.Of]; cancel != nil {
			cancel()
		}
		return
	default:
		return
	}
	h.inputs = append(h.inputs, control.Input{Result: r})
}

func failureOf(err error) *control.Failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errGone):
		return &control.Failure{Code: control.Gone, Text: err.Error()}
	case errors.Is(err, context.Canceled):
		return &control.Failure{Code: control.Cancelled, Text: err.Error()}
	case errors.Is(err, plan.ErrForeign):
		return &control.Failure{Code: control.Foreign, Text: err.Error()}
	}
	return &control.Failure{Code: control.Failed, Text: err.Error()}
}

// errGone is what is found of a job that has ended.
var errGone = errors.New("no longer exists")

func errLost(what string) error { return fmt.Errorf("%s %w", what, errGone) }

// ask makes a request and returns its answer.
func (h *homenode) ask(ctx context.Context, r control.Request) control.Reply {
	h.requests++
	r.ID = h.requests
	h.turn(ctx, control.Input{Request: &r})
	reply := h.replies[r.ID]
	delete(h.replies, r.ID)
	return reply
}

func (h *homenode) arrive(ctx context.Context, j *job) (bool, error) {
	if !j.demand.Asks {
		return true, nil
	}
	spec := workload.Spec{Name: j.name, Class: j.demand.Class, Importance: workload.DefaultImportance,
		CPUs: j.demand.VCPUs, Memory: j.demand.asked(), Given: true}
	for _, dev := range j.demand.Near {
		spec.Near = append(spec.Near, workload.Near{Device: dev})
	}
	r := h.ask(ctx, control.Request{Place: &control.PlaceRequest{Spec: spec, Process: j.process}})
	if r.Failed != nil && r.Failed.Code == control.NoRoom {
		return false, nil
	}
	if r.Failed != nil {
		return false, r.Failed
	}
	p := &r.Place.Placement
	j.cpus = p.CPUs
	j.prefer = p.Home
	j.bound = p.Bound
	j.exclusive = j.demand.Class == workload.Dedicated
	return true, nil
}

func (h *homenode) depart(*job) {}

func (h *homenode) tick(ctx context.Context) error {
	h.scans++
	h.turn(ctx, control.Input{Begun: &control.Begun{Number: h.scans}})
	scan := &control.Scan{Number: h.scans, Began: h.now()}
	if h.house {
		scan.Snapshot, scan.Claims = h.m.seen(h.period), []control.Claimed{{Source: "house", Claims: h.m.claims()}}
	} else {
		scan.Snapshot = h.snapshot()
	}
	h.turn(ctx, control.Input{Scan: scan})
	for _, t := range slices.Clone(h.tasks) { // those that end are taken out
		if t.until == never {
			h.resume(ctx, t)
		}
	}
	if h.watch != nil {
		h.watch(h.state.View(), h.events)
	}
	return nil
}

func (h *homenode) due() (time.Duration, bool) {
	if len(h.tasks) == 0 {
		return 0, false
	}
	t := h.tasks[0]
	for _, x := range h.tasks {
		if x.until < t.until {
			t = x
		}
	}
	return t.until, true
}

func (h *homenode) wake(ctx context.Context) {
	for _, t := range h.tasks {
		if t.until <= h.m.now || t.until == never {
			h.resume(ctx, t)
			return
		}
	}
}

func (h *homenode) end() {
	for _, t := range h.tasks {
		t.stop()
	}
	h.tasks = nil
}

func (h *homenode) ledger() ([]workload.Placement, bool) {
	changed := h.written
	h.written = false
	return h.state.Placements(), changed
}

func (h *homenode) trouble() []string {
	out := h.wrong
	h.wrong = nil
	return out
}

// leaks looks at what is still kept for workloads when all have departed.
func (h *homenode) leaks(context.Context) []string {
	var out []string
	vcpus, booked := make([]float64, len(h.m.host.Nodes)), make([]topology.KiB, len(h.m.host.Nodes))
	for _, p := range h.state.Placements() {
		out = append(out, fmt.Sprintf("%s has departed and still holds CPUs %s and %d KiB", p.Workload,
			p.CPUs.Union(p.Idle), workload.Total(p.Memory)))
		for i := range h.m.host.Nodes {
			home := topology.Nodes(h.m.host.Nodes[i].ID)
			booked[i] += workload.On(p.Memory, home)
			if p.Home.Has(h.m.host.Nodes[i].ID) {
				vcpus[i] += float64(p.VCPUs) / float64(p.Home.Len())
			}
		}
	}
	out = append(out, leaked(h.m.host, func(i int) float64 { return vcpus[i] },
		func(i int) topology.KiB { return booked[i] })...)
	for id := range h.state.Admissions {
		out = append(out, fmt.Sprintf("%s has departed and is still registered", id))
	}
	if n := len(h.tasks) + len(h.state.Tasks); n > 0 {
		out = append(out, fmt.Sprintf("%d page moves of departed workloads still run", n))
	}
	return out
}

// newestEvents is how many events are kept to tell of when something breaks.
const newestEvents = 64

// recent is the newest lines of the history.
func (h *homenode) recent() []string {
	var out []string
	for _, e := range h.events[max(0, len(h.events)-10):] {
		out = append(out, fmt.Sprintf("%8.1fs %s %s %s", e.Time.Sub(epoch).Seconds(), e.Kind, e.Workload, e.Text))
	}
	return out
}

// hear notes what homenode itself says is wrong, and counts.
func (h *homenode) hear(e plan.Event) {
	if h.listen != nil {
		h.listen(e)
	}
	if h.events = append(h.events, e); len(h.events) >= 2*newestEvents {
		h.events = slices.Clone(h.events[newestEvents:])
	}
	switch {
	case e.Kind == plan.EventPlan && e.Workload == "" && e.Error:
		h.wrong = append(h.wrong, "the daemon halted: "+e.Text)
	case e.Kind == plan.EventPlan && e.Error:
		h.count.Unplaced++
	case e.Kind == plan.EventStep && e.Error:
		h.count.FailedSteps++
	}
}

func (h *homenode) now() time.Time { return epoch.Add(h.m.now) }

// snapshot is what an observer would see.
func (h *homenode) snapshot() workload.Snapshot { return h.look(h.m.snapshot(h.period, h.counters)) }

func (m *machine) snapshot(period time.Duration, counters bool) workload.Snapshot {
	host := *m.host
	host.Nodes = append([]topology.Node(nil), host.Nodes...)
	for i := range host.Nodes {
		if host.Nodes[i].Memory >= 0 {
			host.Nodes[i].Free = m.free[i]
		}
	}
	s := workload.Snapshot{Host: &host, Observations: make([]workload.Observation, len(m.jobs))}
	for i, j := range m.jobs {
		s.Observations[i] = m.observation(j, period)
		if counters {
			s.Observations[i].Bandwidth = int64(float64(j.demand.Bandwidth) * j.demand.Busy * j.served)
		}
	}
	return s
}

// never is when a task that has not begun is due: not before it is resumed.
const never = time.Duration(1<<63 - 1)

// spawn makes a page move a coroutine. It begins when the tick that started it is over.
func (h *homenode) spawn(ctx context.Context, e *control.Effect) {
	ctx, cancel := context.WithCancel(ctx)
	h.moves[e.ID] = cancel
	t := &task{until: never}
	t.next, t.stop = iter.Pull(func(yield func(time.Duration) bool) {
		t.sleep = yield
		err := h.driver.Apply(ctx, *e.Step, func(m plan.Move) {
			h.inputs = append(h.inputs, control.Input{Progress: &control.Progress{ID: e.ID, Move: m}})
		})
		delete(h.moves, e.ID)
		h.inputs = append(h.inputs, control.Input{Result: &control.Result{ID: e.ID, Failed: failureOf(err)}})
	})
	h.tasks = append(h.tasks, t)
}

// resume runs a task until it waits again or ends, and takes up what it told.
func (h *homenode) resume(ctx context.Context, t *task) {
	h.current = t
	wait, more := t.next()
	h.current = nil
	if more {
		t.until = h.m.now + wait
	} else {
		h.tasks = slices.DeleteFunc(slices.Clone(h.tasks), func(x *task) bool { return x == t })
	}
	told := h.inputs
	h.inputs = nil
	for _, in := range told { // in the order in which it was told: progress comes before the end
		h.turn(ctx, in)
	}
}

// folder is the cgroup that jobs of one kind are found in; it says what a rule
// of the configuration gives them.
func folder(d *Demand) string {
	if d.Class == workload.Dedicated {
		return fmt.Sprintf("/sim/dedicated-%d-%dMiB", d.VCPUs, d.asked()>>10)
	}
	if d.Untold {
		return fmt.Sprintf("/sim/%s-%d", d.Class, workload.DefaultImportance)
	}
	return fmt.Sprintf("/sim/%s-%d", d.Class, d.Importance)
}

// rulesFor is the configuration for jobs that do not ask: what makes them other
// than shared work of middling importance.
func rulesFor(events []Event) []workload.Rule {
	var rules []workload.Rule
	seen := map[string]bool{folder(&Demand{Class: workload.Shared, Importance: workload.DefaultImportance}): true}
	for i := range events {
		d := &events[i].Demand
		if events[i].Op != Arrive || d.Asks || seen[folder(d)] {
			continue
		}
		seen[folder(d)] = true
		r := workload.Rule{Match: folder(d) + "/*", Class: d.Class, Importance: &d.Importance}
		if d.Class == workload.Dedicated {
			r.CPUs, r.Memory = d.VCPUs, d.asked()
		}
		rules = append(rules, r)
	}
	return rules
}
