package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Options say what is simulated.
type Options struct {
	Trace    *Trace
	Seed     uint64
	Policies []string      // of Policies; empty is all
	Period   time.Duration // of the daemon; 0 is its default, 2 s
	Judge    int           // at how many instants of a run the queues of queue.go are asked too; 0: never
	Progress func(policy string, done, total int, simulated time.Duration)
	// Record is told of each turn of homenode, as the daemon's flight recorder is; nil is not.
	Record func(control.Recorded)

	// Watch is told of homenode's view after each look, with the newest events; nil is not.
	Watch func(v control.View, events []plan.Event)

	breakHomenode func(*homenode)       // for tests: puts an error in
	breakManager  func(manager) manager // for tests
}

// Result is what a simulation found. Same options, same result.
type Result struct {
	Schema   string  `json:"schema"`   // homenode-sim/1
	Seed     uint64  `json:"seed"`     // seed of all random numbers
	Trace    string  `json:"trace"`    // where the arrivals come from: a file or a generator
	Events   int     `json:"events"`   // number of events that were played
	Host     Host    `json:"host"`     // the host that was simulated
	Policies []Score `json:"policies"` // results, in the order in which the policies were named
}

// Host is the simulated host.
type Host struct {
	Nodes     int   `json:"nodes"`      // number of NUMA nodes
	CPUs      int   `json:"cpus"`       // number of CPUs
	MemoryKiB int64 `json:"memory_kib"` // memory, KiB
	Measured  bool  `json:"measured"`   // whether latencies were measured; if not, they follow from the SLIT
}

// Failure is the first thing that went wrong in a run: a broken rule, a leak or
// a panic. The seed, with the same options, brings it back.
type Failure struct {
	Policy string        `json:"policy"`        // name of the policy
	Seed   uint64        `json:"seed"`          // seed that brings the failure back
	At     time.Duration `json:"at_ns"`         // simulated time of the failure, ns
	Event  int           `json:"event"`         // number of the newest event
	Text   string        `json:"text"`          // what went wrong, in a sentence
	Log    []string      `json:"log,omitempty"` // newest lines of the history, or the stack of a panic
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: seed %d, after event %d, at %v: %s", f.Policy, f.Seed, f.Event, f.At, f.Text)
}

// Failed is the first failure, or nil.
func (r *Result) Failed() *Failure {
	for i := range r.Policies {
		if f := r.Policies[i].Failure; f != nil {
			return f
		}
	}
	return nil
}

// defaultPeriod is the daemon's own (daemon.NewConfig).
const defaultPeriod = 2 * time.Second

// Run simulates every policy in turn. What goes wrong inside of a simulation is
// in its score; an error is bad input or the end of ctx.
func Run(ctx context.Context, o Options) (*Result, error) {
	o.Period = cmp.Or(o.Period, defaultPeriod)
	if len(o.Policies) == 0 {
		o.Policies = Policies
	}
	for _, p := range o.Policies {
		if !slices.Contains(Policies, p) && !slices.Contains(Variants, p) {
			return nil, fmt.Errorf("policy %q; want %s", p, strings.Join(append(slices.Clone(Policies), Variants...),
				", "))
		}
	}
	if err := usable(o.Trace); err != nil {
		return nil, err
	}
	h := o.Trace.Host
	out := &Result{Schema: "homenode-sim/1", Seed: o.Seed, Trace: o.Trace.Name, Events: len(o.Trace.Events),
		Host: Host{
			Nodes: len(h.Nodes), CPUs: h.Online.Len(), MemoryKiB: int64(h.Memory()), Measured: h.Measured != nil,
		}}
	for _, p := range o.Policies {
		score, err := simulate(ctx, &o, p)
		if err != nil {
			return nil, err
		}
		out.Policies = append(out.Policies, *score)
	}
	return out, nil
}

// usable refuses hosts on which nothing can run.
func usable(t *Trace) error {
	cpus := t.Host.Online.Intersect(t.Host.Allowed).Minus(t.Policy.Reserved)
	if cpus.Empty() {
		return fmt.Errorf("host: no CPU that may be used")
	}
	if t.Host.AllowedMems.Empty() {
		return fmt.Errorf("host: no node with memory that may be used")
	}
	if !slices.IsSortedFunc(t.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) }) {
		return fmt.Errorf("trace: events are not in order of time")
	}
	return nil
}

// run is one policy at work.
type run struct {
	o       *Options
	m       *machine
	manager manager
	score   *Score
	sums    sums
	jobs    map[string]*job   // by name, those that run
	refused map[string]Demand // by name, those that were turned away and have not departed
	offered int               // vCPUs of online jobs that run or would
	event   int
	judged  int // instants
	pid     int
	began   uint64
	recent  func() []string
	homes   homes
}

// homes is where each job that has a home belongs.
type homes map[workload.ID]home

// home is where a job belongs, and where it came from.
type home struct {
	start    uint64
	now, was topology.NodeSet
	since    time.Duration
}

// newRun is a run before anything happens in it; its manager is to be set.
func newRun(o *Options, score *Score) *run {
	m := newMachine(o.Trace.Host, o.Seed)
	m.findCaches(o.Trace.Events, o.Seed)
	return &run{o: o, m: m, score: score, jobs: map[string]*job{}, refused: map[string]Demand{}, event: -1,
		homes:  homes{},
		recent: func() []string { return nil }}
}

func simulate(ctx context.Context, o *Options, policy string) (score *Score, err error) {
	score = &Score{Policy: policy}
	r := newRun(o, score)
	switch policy {
	case "homenode":
		h := newHomenode(r.m, o, o.Trace, score)
		r.manager, r.recent = h, h.recent
	case "homes-kept":
		h := newHomenode(r.m, o, o.Trace, score)
		h.still = true
		r.manager, r.recent = h, h.recent
	case "first-fit":
		r.manager = newReference(r.m, o.Trace.Policy, o.Seed, firstFit, false)
	case "spread":
		r.manager = newReference(r.m, o.Trace.Policy, o.Seed, spread, false)
	case "random":
		r.manager = newReference(r.m, o.Trace.Policy, o.Seed, anyNode, false)
	case "interleave":
		r.manager = newReference(r.m, o.Trace.Policy, o.Seed, nil, true)
	case "none":
		r.manager = newReference(r.m, o.Trace.Policy, o.Seed, nil, false)
	case "kernel-balancing":
		r.manager = newAutoNUMA(newReference(r.m, o.Trace.Policy, o.Seed, nil, false), o.Period, score)
	case "numad":
		r.manager = newNumad(newReference(r.m, o.Trace.Policy, o.Seed, nil, false), o.Period, score)
	}
	if o.breakManager != nil {
		r.manager = o.breakManager(r.manager)
	}
	defer func() {
		if p := recover(); p != nil {
			r.fail("panic: %v", p)
			score.Failure.Log = strings.Split(strings.TrimSpace(string(debug.Stack())), "\n")
			err = nil
		}
		r.finish()
	}()
	defer r.manager.end()
	return score, r.all(ctx)
}

// settlePeriods is how long the machine is watched after the last event, and
// how long page moves get to end once everything has departed.
const settlePeriods = 15

// all is the whole run: preplaced jobs, events with ticks and page moves between
// them, a while of rest, and the departure of everybody.
func (r *run) all(ctx context.Context) error {
	events := r.o.Trace.Events
	for len(events) > r.event+1 && events[r.event+1].Op == Preplace {
		r.event++
		if err := r.preplace(&events[r.event]); err != nil {
			return err
		}
	}
	if err := r.manager.begin(ctx); err != nil {
		return err
	}
	r.checkLedger()
	tick := r.o.Period
	for r.event+1 < len(events) {
		e := &events[r.event+1]
		for tick <= e.At {
			if err := r.until(ctx, tick); err != nil {
				return err
			}
			tick += r.o.Period
		}
		r.catchUp(ctx, e.At)
		r.event++
		if err := r.happen(ctx, e); err != nil {
			return err
		}
	}
	for tick <= r.o.Trace.Until {
		if err := r.periods(ctx, &tick, 1); err != nil {
			return err
		}
	}
	if err := r.periods(ctx, &tick, settlePeriods); err != nil {
		return err
	}
	for _, j := range slices.Clone(r.m.jobs) {
		r.depart(j)
	}
	clear(r.refused)
	r.offered = 0
	if err := r.periods(ctx, &tick, settlePeriods); err != nil {
		return err
	}
	r.checkEmpty(ctx)
	return nil
}

func (r *run) periods(ctx context.Context, tick *time.Duration, n int) error {
	for range n {
		if err := r.until(ctx, *tick); err != nil {
			return err
		}
		*tick += r.o.Period
	}
	return nil
}

// catchUp lets page moves go on until a moment.
func (r *run) catchUp(ctx context.Context, to time.Duration) {
	for {
		due, ok := r.manager.due()
		if !ok || due > to {
			break
		}
		r.m.now = due
		r.manager.wake(ctx)
	}
	r.m.now = to
}

// until goes to a tick and does it.
func (r *run) until(ctx context.Context, at time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.catchUp(ctx, at)
	r.measure(r.o.Period, r.offered)
	r.score.Ticks++
	if err := r.manager.tick(ctx); err != nil {
		r.fail("tick: %v", err)
	}
	r.checkLedger()
	if err := r.m.conserved(); err != nil {
		r.fail("%v", err)
	}
	if r.o.Progress != nil {
		r.o.Progress(r.score.Policy, r.event+1, len(r.o.Trace.Events), r.m.now)
	}
	return nil
}

// newJob is a job that may run anywhere.
func (r *run) newJob(e *Event) *job {
	h := r.m.host
	j := &job{name: e.Name, demand: e.Demand, cpus: h.Online.Intersect(h.Allowed).Minus(r.o.Trace.Policy.Reserved),
		mems: h.AllowedMems, process: r.nextProcess()}
	j.kind, j.id = workload.InCgroup, workload.ID(cmp.Or(e.Demand.Cgroup, folder(&e.Demand)+"/"+e.Name))
	if e.Demand.Asks || e.Demand.Bare {
		j.kind, j.id = workload.InProcess, workload.ID(fmt.Sprintf("pid:%d", j.process.PID))
	}
	return j
}

// pids is how many PIDs there are before the first is used again: few, so that
// reuse, with another start time, is part of every long run.
const pids = 4096

func (r *run) nextProcess() workload.Process {
	for {
		r.pid++
		p := workload.Process{PID: 1000 + r.pid%pids, Start: r.began + 1}
		if r.m.byID[workload.ID(fmt.Sprintf("pid:%d", p.PID))] == nil {
			r.began++
			return p
		}
	}
}

func (r *run) preplace(e *Event) error {
	j := r.newJob(e)
	j.cpus, j.exclusive = e.CPUs, true
	if !e.CPUs.SubsetOf(r.m.host.Online) {
		return fmt.Errorf("event %d (preplace %q): the host has no CPUs %v", r.event, e.Name,
			e.CPUs.Minus(r.m.host.Online))
	}
	if e.CPUs.Empty() {
		return fmt.Errorf("event %d (preplace %q): no CPUs", r.event, e.Name)
	}
	want := j.demand.Memory
	j.demand.Memory = 0
	r.m.add(j)
	j.demand.Memory = want
	for _, x := range e.MemoryOn {
		i, ok := r.m.index[x.Node]
		if !ok || r.m.take(j, i, x.KiB) != x.KiB {
			return fmt.Errorf("event %d (preplace %q): node %d has no room for %d MiB", r.event, e.Name, x.Node,
				x.KiB>>10)
		}
	}
	r.jobs[e.Name] = j
	r.offered += j.demand.VCPUs
	return r.manager.preplace(j)
}

func (r *run) happen(ctx context.Context, e *Event) error {
	switch e.Op {
	case Arrive:
		return r.arrive(ctx, e)
	case Depart:
		if j := r.jobs[e.Name]; j != nil {
			r.depart(j)
		}
		if d, refused := r.refused[e.Name]; refused {
			if d.Class != workload.Batch {
				r.offered -= d.VCPUs
			}
			delete(r.refused, e.Name)
		}
	case Change:
		if d, refused := r.refused[e.Name]; refused {
			d.Busy, d.Bandwidth = e.Demand.Busy, e.Demand.Bandwidth
			r.refused[e.Name] = d
		}
		if j := r.jobs[e.Name]; j != nil {
			r.m.change(j, e.Demand)
		}
	}
	return nil
}

func (r *run) arrive(ctx context.Context, e *Event) error {
	if r.jobs[e.Name] != nil {
		return fmt.Errorf("event %d (arrive %q): it is there already", r.event, e.Name)
	}
	j := r.newJob(e)
	r.score.Arrivals++
	if e.Demand.Class != workload.Batch {
		r.offered += e.Demand.VCPUs
	}
	starts, err := r.manager.arrive(ctx, j)
	switch {
	case err != nil:
		r.fail("arrival of %s: %v", e.Name, err)
	case !starts:
		r.score.Refused++
		r.refused[e.Name] = e.Demand
	default:
		r.m.add(j)
		r.m.lay(j, e.Demand.Lies)
		r.jobs[e.Name] = j
	}
	r.checkLedger()
	return nil
}

func (r *run) depart(j *job) {
	if j.demand.Class != workload.Batch {
		r.offered -= j.demand.VCPUs
	}
	delete(r.jobs, j.name)
	r.m.remove(j)
	r.manager.depart(j)
}

// checkLedger re-checks the manager's ledger when it changed, and hears what the
// manager found itself.
func (r *run) checkLedger() {
	for _, text := range r.manager.trouble() {
		r.fail("%s", text)
	}
	placements, changed := r.manager.ledger()
	if !changed {
		return
	}
	r.countHomes(placements)
	st := plan.State{Host: r.m.host, Policy: r.o.Trace.Policy}
	for _, v := range plan.Check(st, placements) {
		r.fail("%s: %s", v.Code, v.Text)
	}
}

// returnTime is the time within which going back to an old home is counted.
const returnTime = 15 * time.Minute

// countHomes counts changes of home in the ledger.
func (r *run) countHomes(placements []plan.Placement) {
	here := make(map[workload.ID]bool, len(placements))
	for i := range placements {
		if p := &placements[i]; p.Class != workload.Batch {
			r.homes.saw(p.Workload, p.Start, p.Home, r.m.now, r.score)
			here[p.Workload] = true
		}
	}
	maps.DeleteFunc(r.homes, func(id workload.ID, _ home) bool { return !here[id] })
}

// saw counts a change of home, if this is one.
func (t homes) saw(id workload.ID, start uint64, nodes topology.NodeSet, now time.Duration, score *Score) {
	h, had := t[id]
	if !had || h.start != start {
		h = home{start: start, now: nodes}
	}
	if !h.now.Equal(nodes) {
		score.Rehomed++
		if !h.was.Empty() && now-h.since < returnTime && nodes.Minus(h.now).Intersects(h.was) {
			score.Returned++
		}
		h.was = h.now
		h.now = nodes
		h.since = now
	}
	t[id] = h
}

// checkEmpty holds the manager to an empty ledger when everybody has departed.
func (r *run) checkEmpty(ctx context.Context) {
	for _, text := range r.manager.leaks(ctx) {
		r.fail("leak: %s", text)
	}
	for i := range r.m.free {
		if r.m.free[i] != r.m.room[i] {
			r.fail("leak: node %d: %d KiB never came back", r.m.host.Nodes[i].ID, r.m.room[i]-r.m.free[i])
		}
	}
}

// fail counts a violation and keeps the first with what led to it.
func (r *run) fail(format string, a ...any) {
	r.score.Violations++
	if r.score.Failure == nil {
		r.score.Failure = &Failure{Policy: r.score.Policy, Seed: r.o.Seed, At: r.m.now, Event: r.event,
			Text: fmt.Sprintf(format, a...), Log: r.recent()}
	}
}

// leaked is a sentence for each node with CPUs or memory that are still given away.
func leaked(h *topology.Host, cpus func(i int) float64, kib func(i int) topology.KiB) []string {
	var out []string
	for i := range h.Nodes {
		if c := cpus(i); c > 1e-6 || c < -1e-6 {
			out = append(out, fmt.Sprintf("node %d: %.3g vCPUs are booked for nobody", h.Nodes[i].ID, c))
		}
		if m := kib(i); m != 0 {
			out = append(out, fmt.Sprintf("node %d: %d KiB are booked for nobody", h.Nodes[i].ID, m))
		}
	}
	return out
}
