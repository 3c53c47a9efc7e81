package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
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
	wake()
	// ledger is who is where by plan, and whether that changed since the last call.
	ledger() ([]plan.Placement, bool)
	// trouble is what the manager itself found wrong since the last call.
	trouble() []string
	// leaks is what is still given away when every job has departed.
	leaks(ctx context.Context) []string
	end()
}

// homenode is the real daemon on a simulated machine: the manager, and the
// daemon's Observer, Driver and Clock.
type homenode struct {
	m        *machine
	policy   plan.Policy
	period   time.Duration
	pace     int64 // bytes/s of page moves
	rules    []daemon.Rule
	daemon   *daemon.Daemon
	still    bool // no balancing
	counters bool
	store    *store
	driver   daemon.Driver // h itself, or what a test puts before it
	look     func(workload.Snapshot) workload.Snapshot
	wants    map[workload.ID]api.Want
	before   []plan.Placement // of preplaced jobs

	tasks   []*task // page moves in flight, in the order they began
	current *task   // the one that runs now
	wrong   []string
	listen  func(plan.Event) // for tests
	tape    daemon.Recorder  // for tests
	count   *Score
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
	h := &homenode{m: m, policy: t.Policy, period: o.Period, rules: rulesFor(t.Events), counters: t.Counters, store: newStore(),
		wants: map[workload.ID]api.Want{}, count: count}
	h.driver = h
	h.look = func(s workload.Snapshot) workload.Snapshot { return s }
	if o.breakHomenode != nil {
		o.breakHomenode(h)
	}
	return h
}

func (h *homenode) preplace(j *job) error {
	d := &j.demand
	h.wants[j.id] = api.Want{Name: j.name, Class: d.Class, CPUs: d.VCPUs, MemoryKiB: int64(d.Memory), Process: j.process}
	p := placementFor(h.m, j)
	h.before = append(h.before, p)
	return nil
}

// begin starts the daemon on what an earlier one would have left.
func (h *homenode) begin(ctx context.Context) error {
	c := daemon.NewConfig()
	c.Mode = daemon.Enforce
	c.Period = h.period
	c.Reserve.CPUs = h.policy.Reserved
	c.Reserve.Memory = daemon.Size(h.policy.ReservedMemory) << 10
	c.Policy.Overcommit, c.Policy.Packing = h.policy.Overcommit, h.policy.Packing
	c.Workloads = h.rules
	c.Balance.Enabled = !h.still
	if err := c.Validate(); err != nil {
		return err
	}
	h.pace = int64(c.Move.Bandwidth)
	sortPlacements(h.before)
	h.store.ledger = h.before
	if err := h.store.Save("wants", h.wants); err != nil {
		return err
	}
	h.store.heard = h.hear
	var err error
	h.daemon, err = daemon.New(daemon.Options{
		Config: c, Version: "simulated", BootID: "simulated", Observer: h, Store: h.store, Clock: h, Recorder: h.tape,
		Drivers: map[workload.Kind]daemon.Driver{workload.InCgroup: h.driver, workload.InProcess: h.driver},
		Log:     slog.New(slog.DiscardHandler), Go: h.spawn,
	})
	if err != nil {
		return err
	}
	h.store.begun = true
	return h.tick(ctx)
}

func (h *homenode) arrive(ctx context.Context, j *job) (bool, error) {
	if !j.demand.Asks {
		return true, nil
	}
	home, err := h.daemon.Place(ctx, api.Want{Name: j.name, Class: j.demand.Class, CPUs: j.demand.VCPUs,
		MemoryKiB: int64(j.demand.asked()), Near: j.demand.Near, Process: j.process})
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.NoRoom {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j.cpus, j.prefer, j.bound = home.CPUs, home.Nodes, home.Bound
	j.exclusive = j.demand.Class == workload.Dedicated
	return true, nil
}

func (h *homenode) depart(*job) {}

func (h *homenode) tick(ctx context.Context) error {
	if err := h.daemon.Tick(ctx); err != nil {
		return err
	}
	for _, t := range h.tasks {
		if t.until == never {
			h.resume(t)
		}
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

func (h *homenode) wake() {
	for _, t := range h.tasks {
		if t.until <= h.m.now {
			h.resume(t)
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

func (h *homenode) ledger() ([]plan.Placement, bool) {
	changed := h.store.saved
	h.store.saved = false
	return h.store.ledger, changed
}

func (h *homenode) trouble() []string {
	out := h.wrong
	h.wrong = nil
	return out
}

// leaks looks at the ledger, at what the daemon shows of it, and at what else the
// daemon keeps for a workload.
func (h *homenode) leaks(ctx context.Context) []string {
	var out []string
	for _, p := range h.store.ledger {
		out = append(out, fmt.Sprintf("%s has departed and still holds CPUs %s and %d KiB", p.Workload, p.CPUs.Union(p.Idle), workload.Total(p.Memory)))
	}
	status, err := h.daemon.Status(ctx)
	if err != nil {
		return append(out, err.Error())
	}
	out = append(out, leaked(h.m.host,
		func(i int) float64 { return status.Nodes[i].VCPUs },
		func(i int) topology.KiB { return topology.KiB(status.Nodes[i].BookedKiB) })...)
	for _, p := range h.daemon.Registered() {
		out = append(out, fmt.Sprintf("process %d has departed and is still registered", p.PID))
	}
	if n := len(h.tasks); n > 0 {
		out = append(out, fmt.Sprintf("%d page moves of departed workloads still run", n))
	}
	return out
}

// recent is the newest lines of the daemon's history.
func (h *homenode) recent() []string {
	var out []string
	for _, e := range h.store.events[max(0, len(h.store.events)-10):] {
		out = append(out, fmt.Sprintf("%8.1fs %s %s %s", e.Time.Sub(epoch).Seconds(), e.Kind, e.Workload, e.Text))
	}
	return out
}

// hear notes what the daemon itself says is wrong, and counts.
func (h *homenode) hear(e plan.Event) {
	if h.listen != nil {
		h.listen(e)
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

// Now implements daemon.Clock.
func (h *homenode) Now() time.Time { return epoch.Add(h.m.now) }

// After implements daemon.Clock. Only Run uses it, and the simulator ticks itself.
func (h *homenode) After(time.Duration) <-chan time.Time { return nil }

// Look implements daemon.Observer.
func (h *homenode) Look(context.Context) (workload.Snapshot, error) {
	host := *h.m.host
	host.Nodes = append([]topology.Node(nil), host.Nodes...)
	for i := range host.Nodes {
		if host.Nodes[i].Memory >= 0 {
			host.Nodes[i].Free = h.m.free[i]
		}
	}
	s := workload.Snapshot{Host: &host, Observations: make([]workload.Observation, len(h.m.jobs))}
	for i, j := range h.m.jobs {
		s.Observations[i] = h.m.observation(j, h.period)
		if h.counters {
			s.Observations[i].Bandwidth = int64(float64(j.demand.Bandwidth) * j.demand.Busy * j.served)
		}
	}
	return h.look(s), nil
}

// Stale implements daemon.Observer: every look reads everything.
func (h *homenode) Stale(workload.ID) {}

// Changed implements daemon.Observer.
func (h *homenode) Changed(workload.ID) {}

// never is when a task that has not begun is due: not before it is resumed.
const never = time.Duration(1<<63 - 1)

// spawn makes a page move a coroutine. It begins when the tick that started it
// is over.
func (h *homenode) spawn(move func()) {
	t := &task{until: never}
	t.next, t.stop = iter.Pull(func(yield func(time.Duration) bool) {
		t.sleep = yield
		move()
	})
	h.tasks = append(h.tasks, t)
}

// resume runs a task until it waits again or ends.
func (h *homenode) resume(t *task) {
	h.current = t
	wait, more := t.next()
	h.current = nil
	if more {
		t.until = h.m.now + wait
		return
	}
	for i, x := range h.tasks {
		if x == t {
			h.tasks = append(h.tasks[:i:i], h.tasks[i+1:]...)
		}
	}
}

// folder is the cgroup that jobs of one kind are found in; it says what a rule
// of the configuration gives them.
func folder(d *Demand) string {
	if d.Class == workload.Dedicated {
		return fmt.Sprintf("/sim/dedicated-%d-%dMiB", d.VCPUs, d.asked()>>10)
	}
	return fmt.Sprintf("/sim/%s-%d", d.Class, d.Importance)
}

// rulesFor is the configuration for jobs that do not ask: what makes them other
// than shared work of middling importance.
func rulesFor(events []Event) []daemon.Rule {
	var rules []daemon.Rule
	seen := map[string]bool{folder(&Demand{Class: workload.Shared, Importance: workload.DefaultImportance}): true}
	for i := range events {
		d := &events[i].Demand
		if events[i].Op != Arrive || d.Asks || seen[folder(d)] {
			continue
		}
		seen[folder(d)] = true
		r := daemon.Rule{Match: folder(d) + "/*", Class: d.Class, Importance: &d.Importance}
		if d.Class == workload.Dedicated {
			r.CPUs, r.Memory = d.VCPUs, daemon.Size(d.asked())<<10
		}
		rules = append(rules, r)
	}
	return rules
}

// errLost is what a move finds whose job has ended.
func errLost(what string) error { return fmt.Errorf("%s %w", strings.TrimSpace(what), daemon.ErrGone) }
