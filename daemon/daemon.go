package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Options is everything a Daemon works with.
type Options struct {
	Config   Config
	Version  string
	BootID   string // changes when the machine restarts: the journal of another boot is void
	Observer Observer
	Drivers  map[workload.Kind]Driver
	Guests   Guests // nil knows no guests
	Store    Store
	Clock    Clock
	Recorder Recorder // nil keeps no record
	Log      *slog.Logger
	// Looked is called after every look, the first included: readiness and watchdog.
	Looked func(first bool)
	// Rivals finds other programs that place things on the host; nil finds none.
	Rivals func(*topology.Host) []measure.Manager
	Links  Links // finds what workloads use; nil finds nothing
	// Self counts what this process holds, for Status; nil leaves it out. The journal
	// is counted by the daemon.
	Self func() api.Self
	// Go runs a page move beside the loop; nil starts a goroutine. The simulator
	// runs it in step with its own clock.
	Go func(move func())
}

// Daemon is the loop. It implements api.Backend.
type Daemon struct {
	o      Options
	policy plan.Policy

	// changing is held while the host is changed, so that undo and the loop
	// never write at the same time. Page moves run outside it.
	changing sync.Mutex
	// asked is the processes of process workloads in the last look, and whether it
	// is known if they have inherited something. Only the loop uses it.
	asked map[workload.Process]bool
	// waits is since when workloads wait for their page move. Only the loop uses it.
	waits map[workload.ID]time.Time
	// deciding is held from a look to the publishing of what was decided on it,
	// and by Place, so that neither writes over the other's placements.
	deciding sync.Mutex

	mu     sync.Mutex // guards what follows
	view   view
	wants  map[workload.ID]api.Want // from `homenode run`
	held   holds
	given  map[workload.ID]topology.CPUSet // affinity homenode itself gave, for the observer
	sets   map[string]bool                 // cgroups whose CPU set homenode itself changed
	moving map[workload.ID]*move
	// movedAt is when a move of a workload ended: what the look that was under way saw of
	// the memory is older than that.
	movedAt  map[workload.ID]end
	looks    uint64                    // begun
	moved    map[workload.ID]plan.Move // newest that ended, of workloads that are there
	tries    map[string]*retry
	chosen   map[workload.ID]plan.Decision // why each home was chosen, for as long as it is kept
	fresh    map[workload.ID]bool          // placed by Place since the look began: not in its snapshot
	fewer    bool                          // wants or holds were forgotten and not yet written down
	saved    []plan.Placement              // the ledger as it is on disk
	whys     bool                          // chosen is not on disk as it is
	pruned   time.Time                     // when the journal was last rid of what is gone
	memory   balance.Memory                // what balancing goes by besides the newest look
	unpast   bool                          // memory.Past is not on disk as it is
	balanced string                        // what was last told of balancing
	rivals   rivals
	devices  devices
	border   plan.Border // between dedicated and shared work
	near     nearness
	orders   []balance.Past // changes of home that were ordered since the last tick
	guests   guests
	host     []string // cgroups that `host prepare` confined: what runs there is the host's
}

// view is the result of the newest tick.
type view struct {
	at       time.Time
	took     time.Duration
	snapshot workload.Snapshot
	state    plan.State
	plan     plan.Plan
	balance  balance.Report
	halted   string // why the daemon stopped changing things; "" when it did not
}

// holds is what undo, or the cancelling of a move, told the daemon to leave alone.
type holds struct {
	All bool                 `json:"all"`
	IDs map[workload.ID]bool `json:"ids"`
}

// drop forgets the single holds that match.
func (h *holds) drop(match func(workload.ID) bool) bool {
	before := len(h.IDs)
	maps.DeleteFunc(h.IDs, func(id workload.ID, _ bool) bool { return match(id) })
	return len(h.IDs) != before
}

func (h holds) has(id workload.ID) bool { return h.All || h.IDs[id] }

// Keys of what the daemon keeps in the store besides journal and history.
const (
	keyBoot  = "boot"
	keyWants = "wants"
	keyHolds = "holds"
	keyWhys  = "chosen"
)

// New reads what an earlier daemon left in the store and is ready to Run.
func New(o Options) (*Daemon, error) {
	if o.Go == nil {
		o.Go = func(move func()) { go move() }
	}
	d := &Daemon{
		o: o, policy: o.Config.policy(),
		wants:   map[workload.ID]api.Want{},
		held:    holds{IDs: map[workload.ID]bool{}},
		given:   map[workload.ID]topology.CPUSet{},
		moving:  map[workload.ID]*move{},
		movedAt: map[workload.ID]end{},
		moved:   map[workload.ID]plan.Move{},
		tries:   map[string]*retry{},
		chosen:  map[workload.ID]plan.Decision{},
		fresh:   map[workload.ID]bool{},
	}
	if err := d.forgetOtherBoot(); err != nil {
		return nil, err
	}
	if _, err := o.Store.Load(keyWants, &d.wants); err != nil {
		return nil, err
	}
	if _, err := o.Store.Load(keyHolds, &d.held); err != nil {
		return nil, err
	}
	if _, err := o.Store.Load(keyWhys, &d.chosen); err != nil {
		return nil, err
	}
	if _, err := o.Store.Load(keyPast, &d.memory.Past); err != nil {
		return nil, err
	}
	if err := d.loadBorder(); err != nil {
		return nil, err
	}
	entries, err := o.Store.Journal()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		d.noteGiven(e.Workload, e.Kind, e.New)
	}
	d.host, d.sets = confined(entries), changedSets(entries)
	placements, err := o.Store.Placements()
	if err != nil {
		return nil, err
	}
	d.view.plan.Placements, d.saved = placements, placements
	for _, p := range placements { // `homenode run` set these itself: they have no journal entry
		if _, own := d.wants[p.Workload]; own {
			if _, ok := d.given[p.Workload]; !ok {
				d.given[p.Workload] = p.CPUs
			}
		}
	}
	return d, d.resumeMoves()
}

// forgetOtherBoot voids the journal and the process homes of an earlier boot:
// a restart of the machine put every cgroup and affinity back to its origin,
// and the same PIDs now belong to others.
func (d *Daemon) forgetOtherBoot() error {
	var boot string
	known, err := d.o.Store.Load(keyBoot, &boot)
	if err != nil || boot == d.o.BootID {
		return err
	}
	if known {
		if err := ForgetBoot(d.o.Store, d.o.Clock.Now()); err != nil {
			return err
		}
	}
	return d.o.Store.Save(keyBoot, d.o.BootID)
}

// ForgetBoot marks everything in the store that a restart of the machine has
// undone by itself.
func ForgetBoot(s Store, at time.Time) error {
	entries, err := s.Journal()
	if err != nil {
		return err
	}
	var seqs []uint64
	for _, e := range entries {
		if e.Kind != plan.GuestDefinition { // that is on libvirt's disk
			seqs = append(seqs, e.Seq)
		}
	}
	if err := s.Mark(plan.Gone, seqs...); err != nil {
		return err
	}
	placements, err := s.Placements()
	if err != nil {
		return err
	}
	placements = slices.DeleteFunc(placements, func(p plan.Placement) bool { return p.Start != 0 })
	if err := s.SavePlacements(placements); err != nil {
		return err
	}
	if err := s.Save(keyWants, map[workload.ID]api.Want{}); err != nil {
		return err
	}
	held := holds{}
	if _, err := s.Load(keyHolds, &held); err != nil {
		return err
	}
	held.drop(func(id workload.ID) bool { return strings.HasPrefix(string(id), "pid:") })
	if err := s.Save(keyHolds, held); err != nil {
		return err
	}
	return s.Append(plan.Event{Time: at, Kind: plan.EventDaemon, Text: fmt.Sprintf(
		"the machine was restarted: %d journalled changes are gone with the last boot", len(seqs))})
}

// resumeMoves tells of page moves that an earlier daemon did not finish. The
// next tick plans what is left of them.
func (d *Daemon) resumeMoves() error {
	moves, err := d.o.Store.Moves()
	if err != nil {
		return err
	}
	for _, m := range moves {
		if m.State != moveRunning && m.State != movePaused {
			d.moved[m.Workload] = m
			continue
		}
		m.State = moveInterrupted
		d.moved[m.Workload] = m
		if err := d.o.Store.SaveMove(m); err != nil {
			return err
		}
		d.event(plan.Event{Kind: plan.EventMove, Workload: m.Workload, Text: fmt.Sprintf(
			"the move to node %s was interrupted after %s of %s; what is left is planned anew",
			m.Home, size(m.Moved), size(m.Planned))})
	}
	return nil
}

// Run loops until ctx ends, then finishes what it is doing and, if configured,
// undoes everything.
func (d *Daemon) Run(ctx context.Context) error {
	d.event(plan.Event{Kind: plan.EventDaemon, Text: fmt.Sprintf(
		"homenode %s started in %s mode, period %v", d.o.Version, d.o.Config.Mode, d.o.Config.Period)})
	if d.held.All {
		d.event(plan.Event{Kind: plan.EventDaemon, Text: "everything was undone by hand: nothing is changed until `homenode resume --all`"})
	}
	first, woke := true, false
	for ctx.Err() == nil {
		if err := d.Tick(ctx); err != nil && ctx.Err() == nil {
			if first {
				return err
			}
			d.once("look", plan.Event{Kind: plan.EventHost, Error: true, Text: "look at the host: " + err.Error()})
		}
		if d.o.Looked != nil {
			d.o.Looked(first)
		}
		first = false
		if woke { // what happens all the time is not looked at all the time
			woke = false
			select {
			case <-ctx.Done():
			case <-d.o.Clock.After(max(wakeRest, 4*d.tookLast())):
			}
		}
		select {
		case <-ctx.Done():
		case <-d.o.Clock.After(d.o.Config.Period):
		case <-d.woken():
			woke = true
		}
	}
	return d.stop()
}

// wakeRest is the least time from a look that an event called for to the next one. What
// happens all the time takes a fifth of a CPU at most.
const wakeRest = 50 * time.Millisecond

func (d *Daemon) tookLast() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view.took
}

// woken receives when something happened that does not wait for the next look.
func (d *Daemon) woken() <-chan struct{} {
	if d.o.Guests == nil || d.o.Config.Libvirt.Manage == NoGuests {
		return nil
	}
	return d.o.Guests.Wake()
}

// stop waits for page moves to end and puts everything back if so configured.
// Its own context is fresh: the one that ended must not cut the restoring short.
func (d *Daemon) stop() error {
	d.cancelMoves(func(workload.ID) bool { return true })
	if d.o.Config.RestoreOnStop && d.o.Config.Mode == Enforce {
		d.changing.Lock()
		defer d.changing.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		result, err := Undo(ctx, d.o.Store, d.o.Drivers, api.Which{All: true}, d.o.Clock.Now())
		if err != nil {
			return err
		}
		if len(result.Failed) > 0 {
			return fmt.Errorf("%d settings could not be restored; see `homenode history`, then run `homenode undo --all`", len(result.Failed))
		}
	}
	d.event(plan.Event{Kind: plan.EventDaemon, Text: "homenode stopped"})
	return nil
}

// Tick is one round: observe, decide, check, and in enforce mode journal, apply
// and verify.
func (d *Daemon) Tick(ctx context.Context) error {
	start := d.o.Clock.Now()
	d.mu.Lock()
	clear(d.fresh)
	d.looks++
	look := d.looks
	d.mu.Unlock()
	d.lookGuests(ctx)
	snapshot, err := d.o.Observer.Look(ctx)
	if err != nil {
		return err
	}
	snapshot = d.withGuests(snapshot)
	d.once("look", plan.Event{})
	d.seekRivals(snapshot.Host)
	if look == 1 {
		told, err := d.o.Config.suits(snapshot.Host)
		if err != nil {
			return &api.Error{Code: api.BadRequest, Text: "configuration: " + err.Error()}
		}
		for _, text := range told {
			d.event(plan.Event{Kind: plan.EventDaemon, Error: true, Text: text})
		}
	}
	d.learnNear(ctx, snapshot)
	if err := d.decide(start, snapshot); err != nil {
		return err
	}
	d.tellMoved(look, snapshot)
	d.tendInterrupts(ctx, snapshot.Host)
	d.mu.Lock()
	steps, halted := d.view.plan.Steps, d.view.halted != ""
	d.mu.Unlock()
	if d.o.Config.Mode != Enforce || halted {
		return nil
	}
	if err := d.adoptNew(ctx, snapshot); err != nil {
		d.once("heirs", plan.Event{Kind: plan.EventStep, Error: true, Text: "look for inherited settings: " + err.Error()})
	} else {
		d.once("heirs", plan.Event{})
	}
	d.carryOut(ctx, look, steps)
	d.tendDefinitions(ctx, snapshot.Host)
	return d.prune(ctx, snapshot)
}

// decide plans on a snapshot, checks the plan, tells of it and publishes it.
func (d *Daemon) decide(start time.Time, snapshot workload.Snapshot) error {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	policy := d.bounded(d.policy, snapshot.Host)
	d.mu.Lock()
	before := d.view
	snapshot.Observations = d.named(snapshot.Observations)
	d.near.locate(snapshot.Observations)
	state := plan.State{
		Host: snapshot.Host, Policy: policy, Unmanaged: snapshot.Unmanaged,
		Placements: d.guestPlacements(d.living(before.plan.Placements, snapshot), snapshot.Host),
	}
	state.Policy.Reserved = state.Policy.Reserved.Union(d.rivals.cpus())
	in, memory := d.input(start, state, snapshot), d.memory
	d.mu.Unlock()
	if err := d.saveFewer(); err != nil {
		return err
	}
	d.mu.Lock()
	in.Told, d.orders = d.orders, nil
	d.mu.Unlock()

	in, out, learnt, violations := sound(in, memory, func(p plan.Plan) []plan.Violation {
		return plan.CheckPlan(state, p)
	})
	d.record(in, memory, out)
	next := out.Plan
	bear(next.Placements, snapshot)
	snapshot.Problems = append(slices.Clone(snapshot.Problems), broken(in.Subjects)...)
	now := view{at: start, snapshot: snapshot, state: state, plan: next, balance: out.Report, halted: halt(violations)}
	now.took = d.o.Clock.Now().Sub(start)

	if now.halted != "" { // a plan that breaks rules is no ground for the next one either
		now.plan.Placements, now.plan.Steps = before.plan.Placements, nil
	}
	d.tell(before, now)
	d.mu.Lock()
	d.view = now
	d.mu.Unlock()
	if err := d.learn(learnt); err != nil { // also when halted: the flight recorder counts on it
		return err
	}
	if now.halted != "" {
		return nil
	}
	d.tellBalance(&out.Report)
	return d.remember(next)
}

// pruneEvery is how often the journal is rid of settings whose thing is gone.
// Nothing waits for it, undo finds out by itself; a host where 20 cgroups a second
// come and go then has some hundreds of dead entries at most.
const pruneEvery = 20 * time.Second

// prune marks journalled settings of workloads that were not seen as gone, when
// their cgroup or process no longer exists, so that the journal does not grow
// with every workload that came and went.
func (d *Daemon) prune(ctx context.Context, s workload.Snapshot) error {
	d.mu.Lock()
	due := d.o.Clock.Now().Sub(d.pruned) >= pruneEvery
	if due {
		d.pruned = d.o.Clock.Now()
	}
	d.mu.Unlock()
	if !due {
		return nil
	}
	seen := map[workload.ID]bool{}
	for i := range s.Observations {
		seen[s.Observations[i].ID] = true
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	entries, err := d.o.Store.Journal()
	if err != nil {
		return err
	}
	var dead []uint64
	counted := map[workload.ID]bool{} // devices whose queues come back with their number
	for _, e := range entries {
		if e.Kind == plan.QueueCount {
			driver, ok := d.driverOf(e)
			counted[e.Workload] = ok && !gone(driver.Present(e))
		}
	}
	for _, e := range entries {
		if counted[e.Workload] {
			continue
		}
		driver, ok := d.driverOf(e)
		// Processes come and go while their workload stays.
		again := e.Kind == plan.Affinity || kindOf(e) == workload.InGuest // a guest may have been started anew
		if (!seen[e.Workload] || again) && ok && gone(driver.Present(e)) {
			dead = append(dead, e.Seq)
		}
	}
	d.mu.Lock()
	for key, r := range d.tries {
		if !r.next.IsZero() && d.o.Clock.Now().Sub(r.next) > retryMost {
			delete(d.tries, key)
		}
	}
	d.mu.Unlock()
	heirs, err := bury(ctx, d.o.Store, d.o.Drivers, entries, dead)
	d.noteHeirs(heirs)
	return err
}

// remember writes homes down, and why they were chosen: a kept home is later
// explained by what spoke for it when it was new.
func (d *Daemon) remember(next plan.Plan) error {
	d.mu.Lock()
	chosen := map[workload.ID]plan.Decision{}
	renewed := false
	for _, dec := range next.Report.Decisions {
		switch old, ok := d.chosen[dec.Workload]; {
		case dec.Outcome == plan.Placed:
			chosen[dec.Workload] = dec
			renewed = true
		case dec.Outcome == plan.Kept && ok && old.Home.Equal(dec.Home):
			chosen[dec.Workload] = old
		}
	}
	for id := range d.fresh { // not in the plan's report yet
		if old, ok := d.chosen[id]; ok && chosen[id].Outcome == "" {
			chosen[id] = old
		}
	}
	d.whys = d.whys || renewed || len(chosen) != len(d.chosen)
	d.chosen = chosen
	whys, saved := d.whys, d.saved
	d.mu.Unlock()
	if !samePlacements(saved, next.Placements) {
		if err := d.o.Store.SavePlacements(next.Placements); err != nil {
			return err // tried again at the next tick
		}
		d.mu.Lock()
		d.saved = next.Placements
		d.mu.Unlock()
	}
	if !whys {
		return nil
	}
	if err := d.o.Store.Save(keyWhys, chosen); err != nil {
		return err
	}
	d.mu.Lock()
	d.whys = false
	d.mu.Unlock()
	return nil
}

// breaks begins the reason why a workload is left alone whose placement broke a rule.
const breaks = "What was planned for it breaks a rule"

// sound plans, and when the plan breaks rules plans again without the workloads named in
// that, so that the others are not held up by them. They stay as they are; dedicated
// ones keep the CPUs that they hold. What still breaks a rule then is returned.
func sound(in balance.Input, memory balance.Memory, check func(plan.Plan) []plan.Violation) (balance.Input, balance.Outcome, balance.Memory, []plan.Violation) {
	for {
		out, learnt := balance.Tick(in, memory)
		violations := check(out.Plan)
		subjects, less := slices.Clone(in.Subjects), false
		for _, v := range violations {
			for i := range subjects {
				if s := &subjects[i]; s.LeaveAlone == "" && slices.Contains(v.Workloads, s.Observation.ID) {
					s.LeaveAlone, less = fmt.Sprintf("%s: %s.", breaks, v), true
					s.Fixed = s.Fixed || s.Spec.Class == workload.Dedicated
				}
			}
		}
		if !less {
			return in, out, learnt, violations
		}
		in.Subjects = subjects
	}
}

// broken is a problem for each workload that sound left alone.
func broken(subjects []place.Subject) (out []workload.Problem) {
	for i := range subjects {
		if s := &subjects[i]; strings.HasPrefix(s.LeaveAlone, breaks) {
			out = append(out, workload.Problem{Subject: string(s.Observation.ID), Text: s.LeaveAlone})
		}
	}
	return out
}

// halt is the reason to change nothing when a plan breaks a rule all the same: then
// either the engine or the facts are wrong, and neither is a ground to act on.
func halt(violations []plan.Violation) string {
	if len(violations) == 0 {
		return ""
	}
	return fmt.Sprintf("the plan breaks %d rules and is not carried out; first: %s", len(violations), violations[0])
}

// living is the ledger without workloads that are gone. d.mu is held.
func (d *Daemon) living(placements []plan.Placement, s workload.Snapshot) []plan.Placement {
	seen := map[workload.ID]uint64{}
	for i := range s.Observations {
		seen[s.Observations[i].ID] = startOf(&s.Observations[i])
	}
	maps.DeleteFunc(d.moved, func(id workload.ID, _ plan.Move) bool { _, here := seen[id]; return !here })
	out := make([]plan.Placement, 0, len(placements))
	for _, p := range placements {
		start, here := seen[p.Workload]
		if here && start == p.Start || d.fresh[p.Workload] {
			out = append(out, p)
			continue
		}
		delete(d.given, p.Workload)
	}
	maps.DeleteFunc(d.given, func(id workload.ID, _ topology.CPUSet) bool {
		_, here := seen[id]
		return !here && !d.fresh[id]
	})
	// A registered process need not have a placement: it may be left alone.
	for id, w := range d.wants {
		if d.fresh[id] {
			continue
		}
		if start, here := seen[id]; !here || start != w.Process.Start {
			delete(d.wants, id)
			delete(d.given, id)
			d.fewer = true
		}
	}
	// The next process with the PID is another one. A cgroup that is small for a
	// while is the same one.
	if d.held.drop(func(id workload.ID) bool {
		_, here := seen[id]
		return strings.HasPrefix(string(id), "pid:") && !here
	}) {
		d.fewer = true
	}
	return out
}

// saveFewer writes wants and holds down after some were forgotten.
func (d *Daemon) saveFewer() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fewer {
		return nil
	}
	if err := d.o.Store.Save(keyWants, d.wants); err != nil {
		return err
	}
	if err := d.o.Store.Save(keyHolds, d.held); err != nil {
		return err
	}
	d.fewer = false
	return nil
}

// startOf tells one process workload from a later one with the same PID; 0 for
// a cgroup, which keeps its home when its service is started again.
func startOf(o *workload.Observation) uint64 {
	if o.Kind != workload.InProcess || len(o.Processes) == 0 {
		return 0
	}
	root := o.Processes[0]
	for _, p := range o.Processes {
		if processID(p.PID) == o.ID {
			root = p
		}
	}
	return root.Start
}

// bear writes the start time of process workloads into their placements.
func bear(placements []plan.Placement, s workload.Snapshot) {
	starts := map[workload.ID]uint64{}
	for i := range s.Observations {
		starts[s.Observations[i].ID] = startOf(&s.Observations[i])
	}
	for i := range placements {
		placements[i].Start = starts[placements[i].Workload]
	}
}

// named is observations with the names that `homenode run` was given. d.mu is held.
func (d *Daemon) named(seen []workload.Observation) []workload.Observation {
	seen = slices.Clone(seen)
	for i := range seen {
		if want, ok := d.wants[seen[i].ID]; ok && want.Name != "" && want.Process.Start == startOf(&seen[i]) {
			seen[i].Name = want.Name
		}
	}
	return seen
}

// subjects pairs each observation with what is wished for it. d.mu is held.
func (d *Daemon) subjects(s workload.Snapshot) []place.Subject {
	subjects := make([]place.Subject, 0, len(s.Observations))
	for i := range s.Observations {
		o := s.Observations[i]
		if o.Kind == workload.InGuest {
			subjects = append(subjects, d.guestSubject(o))
			continue
		}
		alone := d.rivals.owner(o.ID)
		if alone == "" {
			alone = d.o.Config.excluded(&o)
		}
		if alone == "" {
			alone = ofHost(o.ID, d.host)
		}
		if alone == "" {
			alone = setByOthers(&o, s.Host, d.sets)
		}
		subjects = append(subjects, place.Subject{Spec: d.specOf(&o), Observation: o, LeaveAlone: alone})
	}
	return subjects
}

// specOf is what is wished for a workload. d.mu is held.
func (d *Daemon) specOf(o *workload.Observation) workload.Spec {
	if g := d.guests.by[o.ID]; g != nil {
		return g.Spec
	}
	spec := place.SpecFrom(*o, d.arranging())
	told := false
	if r := d.o.Config.rule(o); r != nil {
		wish(&spec, r)
		told = r.Near != nil
	}
	if want, ok := d.wants[o.ID]; ok && want.Process.Start == startOf(o) {
		spec = specOfWant(want, o.ID, spec)
		told = len(want.Near) > 0
	}
	if !told {
		d.addLearned(&spec, o)
	}
	return spec
}

// wish puts what a rule says over what was derived.
func wish(spec *workload.Spec, r *Rule) {
	if r.Class != "" {
		spec.Class = r.Class
	}
	if r.Importance != nil {
		spec.Importance = *r.Importance
	}
	if r.CPUs > 0 {
		spec.CPUs = r.CPUs
	}
	if r.Memory > 0 {
		spec.Memory = r.Memory.KiB()
	}
	if r.SMT != "" {
		spec.SMT = r.SMT
	}
	for _, dev := range r.Near {
		spec.Near = append(spec.Near, workload.Near{Device: dev})
	}
	spec.Given = true
}

func specOfWant(w api.Want, id workload.ID, derived workload.Spec) workload.Spec {
	s := derived
	s.ID, s.Name, s.Class, s.CPUs = id, w.Name, w.Class, w.CPUs
	s.Given = true
	if s.Importance == 0 {
		s.Importance = workload.DefaultImportance
	}
	if w.MemoryKiB > 0 {
		s.Memory = topology.KiB(w.MemoryKiB)
	}
	if w.HugePageKiB > 0 {
		s.HugePage = topology.KiB(w.HugePageKiB)
	}
	if w.SMT != "" {
		s.SMT = w.SMT
	}
	s.Near = nil
	for _, dev := range w.Near {
		s.Near = append(s.Near, workload.Near{Device: dev})
	}
	return s
}

// arranging is what core needs to know of the configuration.
func (d *Daemon) arranging() place.Options {
	m := d.o.Config.Manage
	return place.Options{
		MinMemory:     m.MinMemory.KiB(),
		MinCPU:        m.MinCPU,
		MoveBandwidth: int64(d.o.Config.Move.Bandwidth),
	}
}

// Given is the CPU set that homenode gave a workload by affinity, so that the
// observer does not take its own work for somebody else's pin.
func (d *Daemon) Given(id workload.ID) (topology.CPUSet, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cpus, ok := d.given[id]
	return cpus, ok
}

// noteGiven remembers an affinity homenode gave. d.mu is held, or d is not yet shared.
func (d *Daemon) noteGiven(id workload.ID, kind plan.SettingKind, value string) {
	if kind != plan.Affinity {
		return
	}
	if cpus, err := topology.ParseCPUSet(value); err == nil {
		d.given[id] = cpus
	}
}

// Registered is the processes that `homenode run` placed, and those of guests: they
// are workloads however small they are.
func (d *Daemon) Registered() []workload.Process {
	d.mu.Lock()
	var out []workload.Process
	for _, id := range slices.Sorted(maps.Keys(d.wants)) {
		out = append(out, d.wants[id].Process)
	}
	d.mu.Unlock()
	if d.woken() != nil { // it may wait for a libvirt that is slow
		out = append(out, d.o.Guests.Processes()...)
	}
	return out
}

// samePlacements compares ledgers so that the disk is written only on change.
func samePlacements(a, b []plan.Placement) bool {
	return slices.EqualFunc(a, b, func(x, y plan.Placement) bool {
		return x.Workload == y.Workload && x.Start == y.Start && x.Class == y.Class && x.VCPUs == y.VCPUs &&
			x.Home.Equal(y.Home) && x.CPUs.Equal(y.CPUs) && slices.Equal(x.Pins, y.Pins) && slices.Equal(x.Memory, y.Memory)
	})
}

// errHeld is why nothing is done to a workload that was undone.
var errHeld = errors.New("undone or cancelled by hand: left alone until `homenode resume`")
