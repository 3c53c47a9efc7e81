package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// mostCalls bounds the driver calls under way at once: each may hold a thread in the
	// kernel. mostLost bounds those that were given up and are still in there, one for each
	// workload at most; beyond it whatever could hang is refused at once, and beyond twice
	// as many what puts settings back, too.
	mostCalls = 32
	mostLost  = 32

	// moveRests is how long a page move may say nothing. It tells of each batch, and when
	// it rests.
	moveRests = 10 * time.Minute

	// grace is what a call has beyond its deadline to come back by itself.
	grace = time.Second
)

// patience is how long an effect may take. The kernel moves memory while cpuset.mems is
// written, which takes as long as there is memory; page moves have no end but their own.
func patience(e *control.Effect) time.Duration {
	switch {
	case e.Kind == control.EffectApply && e.Step.Kind == plan.MovePages:
		return 0
	case e.Kind == control.EffectApply && e.Step.Kind == plan.SetMems:
		return 10 * time.Minute
	case e.Kind == control.EffectApply &&
		e.Step.Kind == plan.SetScheduler: // the kernel verifies it: a second, on an emulated machine half a minute
		return 2 * time.Minute
	case e.Kind == control.EffectApply:
		return 30 * time.Second
	case e.Kind == control.EffectRestore:
		return time.Minute + time.Duration(len(e.Entries))*20*time.Millisecond
	case e.Kind == control.EffectScheduler: // the first reads the types of the kernel
		return 30 * time.Second
	case e.Kind == control.EffectInherited, e.Kind == control.EffectSurvey, e.Kind == control.EffectPresent:
		return time.Minute
	}
	return 10 * time.Second
}

// begin does an effect beside the loop; its result comes back as an input.
func (d *Daemon) begin(e control.Effect) {
	switch e.Kind {
	case control.EffectCancel, control.EffectChanged, control.EffectMoved: // done already, see send
		return
	}
	key := keyOfCall(&e)
	if e.Kind == control.EffectSurvey {
		if d.surveying[e.Survey] {
			return // what it finds serves who asks now, too
		}
		d.surveying[e.Survey] = true
	}
	ctx, cancel := context.WithCancel(d.work)
	d.running++
	if e.ID != 0 {
		d.cancels[e.ID] = cancel
	}
	stuck, c := d.stuck[key] > 0, &call{key: key, effect: &e}
	if key.of == step {
		stuck = d.stuckStep(e.Workload, key.target)
	}
	for _, entry := range e.Entries {
		if e.Kind == control.EffectRestore && (d.stuckStep(entry.Workload, entry.Path) || d.stuckBelow(&entry)) {
			c.changing = append(c.changing, entry.Workload)
		}
	}
	seen := d.state.Snapshot // the next scan writes another into the state
	c.seen = &seen
	d.o.Go(func() {
		defer cancel()
		if stuck {
			d.post(unanswered(&e, errStuck))
			return
		}
		d.arrive(d.bounded(ctx, c))
	})
}

// tellObserver says that what it has read of a workload is no longer so.
func (d *Daemon) tellObserver(e *control.Effect) {
	var err error
	defer d.caught("the observer", &err)
	switch {
	case d.o.Observer == nil: // nobody looks
	case e.Kind == control.EffectMoved:
		d.o.Observer.Stale(e.Workload)
	default:
		d.o.Observer.Changed(e.Workload)
	}
}

// call is an effect as it is carried out.
type call struct {
	key      callKey
	effect   *control.Effect
	seen     *workload.Snapshot // newest when it began
	changing []workload.ID      // of a restore: a change of them was given up and may yet take
	pulse    pulse
}

// step is of calls that a step makes.
const step = "step"

// callKey tells calls apart of which one at a time may hang.
type callKey struct {
	of       string // survey, restore, or what of a step
	workload workload.ID
	target   string // of a step, as plan.Target.Own: it gets another ID when a source appears or goes away
}

// stuckStep reports whether a change of a workload, or of its cgroup or process under another ID, has
// not come back. Calls that have not are few.
func (d *Daemon) stuckStep(id workload.ID, target string) bool {
	for k := range d.stuck {
		same := k.target != "" && k.target == target
		if k.of == step && (k.workload == id || same) {
			return true
		}
	}
	return false
}

// stuckBelow reports whether an entry is of a controller that a change of a cgroup below, which has
// not come back, may yet turn on again.
func (d *Daemon) stuckBelow(e *plan.Entry) bool {
	for k := range d.stuck {
		if k.of == step && e.ControllerAbove(k.target) {
			return true
		}
	}
	return false
}

// keyOfCall is by what an effect would hang: a step in what it does to its workload.
func keyOfCall(e *control.Effect) callKey {
	switch {
	case e.Kind == control.EffectApply && e.Step.Kind == plan.MovePages: // it changes no setting
		return callKey{of: string(plan.MovePages), workload: e.Workload}
	case e.Kind == control.EffectRead, e.Kind == control.EffectApply:
		return callKey{step, e.Workload, e.Step.Target.Own()}
	case e.Kind == control.EffectSurvey:
		return callKey{of: string(e.Survey)}
	}
	return callKey{of: string(e.Kind), workload: e.Workload}
}

var errStuck = errors.New("an earlier call has not come back")

var errMayChange = fmt.Errorf("%w: a change of it may still take; when that comes back it is restored again",
	plan.ErrNoAnswer)

// bounded is perform, given up when it does not come back.
func (d *Daemon) bounded(ctx context.Context, c *call) arrival {
	e := c.effect
	limit := patience(e)
	slots := d.calls
	most := int64(mostLost)
	switch {
	case limit == 0 && d.o.Inline:
		return arrival{Input: d.perform(ctx, c)}
	case limit == 0: // few page moves run at once, and each for long
		slots = nil
	case e.Kind == control.EffectRestore: // must not wait for what others hang in
		slots, most = d.undos, 2*mostLost
	}
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return arrival{Input: unanswered(e, ctx.Err())}
		}
	}
	asked := ctx
	ctx, cancel := context.WithCancel(asked)
	defer cancel()
	if limit > 0 {
		var over context.CancelFunc
		ctx, over = context.WithTimeout(ctx, limit)
		defer over()
	}
	if lost := d.lost.Load(); lost >= most {
		return arrival{Input: unanswered(e, fmt.Errorf("%d calls before it have not come back", lost))}
	}
	done := make(chan control.Input, 1)
	go func() { done <- d.perform(ctx, c) }()
	if in, ok := d.await(ctx, done, limit, &c.pulse); ok {
		return arrival{Input: in}
	}
	cancel()
	select {
	case in := <-done:
		return arrival{Input: in}
	case <-after(grace + stopGrace(e, asked)):
	}
	d.lost.Add(1)
	go func() {
		<-done
		d.lost.Add(-1)
		d.arrive(arrival{call: c.key, lost: -1})
	}()
	err := fmt.Errorf("no answer within %s", words.Duration(limit+grace))
	switch {
	case asked.Err() != nil:
		err = errors.New("it was told to stop and has not")
	case limit == 0:
		err = fmt.Errorf("no page moved for %s", words.Duration(moveRests))
	}
	return arrival{Input: unanswered(e, err), call: c.key, lost: 1}
}

// pulse is what a page move says while it goes on.
type pulse struct {
	said  atomic.Int64 // how often
	rests atomic.Bool  // it said that it waits for others
}

// await waits for a call to come back, until ctx ends or a page move is silent for too
// long.
func (d *Daemon) await(ctx context.Context, done <-chan control.Input, limit time.Duration,
	p *pulse) (control.Input, bool) {
	var look <-chan time.Time
	if limit == 0 {
		t := time.NewTicker(moveRests)
		defer t.Stop()
		look = t.C
	}
	for said := int64(0); ; said = p.said.Load() {
		select {
		case in := <-done:
			return in, true
		case <-ctx.Done():
			return control.Input{}, false
		case <-look:
			if p.said.Load() == said && !p.rests.Load() {
				return control.Input{}, false
			}
		}
	}
}

// stopGrace is what a call that was told to stop has beyond grace: a page move to end its
// batch; one that sets memory nodes to end, for the kernel does not stop moving memory, and
// what is restored beside it may have to be restored again.
func stopGrace(e *control.Effect, asked context.Context) time.Duration {
	switch {
	case e.Kind != control.EffectApply:
	case e.Step.Kind == plan.MovePages:
		return 10 * time.Second
	case e.Step.Kind == plan.SetMems && asked.Err() != nil:
		return 30 * time.Second
	}
	return 0
}

// unanswered is the input for an effect that did not come back.
func unanswered(e *control.Effect, err error) control.Input {
	f := &control.Failure{Code: control.NoAnswer, Text: err.Error()}
	if errors.Is(err, context.Canceled) {
		f.Code = control.Cancelled
	}
	return failed(e, f)
}

// failed is the input for an effect of which nothing is known but that it failed.
func failed(e *control.Effect, f *control.Failure) control.Input {
	if e.Kind == control.EffectSurvey {
		return control.Input{Survey: &control.Survey{Kind: e.Survey, Failed: f.Text}}
	}
	return control.Input{Result: &control.Result{ID: e.ID, Failed: f}}
}

// perform does one effect. It may block.
func (d *Daemon) perform(ctx context.Context, c *call) (in control.Input) {
	e := c.effect
	var bug error
	defer func() {
		if bug != nil {
			in = failed(e, failure(bug))
		}
	}()
	defer d.caught(what(e), &bug)
	if e.Kind == control.EffectSurvey {
		found, err := d.o.Surveys[e.Survey](ctx, c.seen)
		found.Kind = e.Survey
		if err != nil {
			found.Failed = err.Error()
		}
		return control.Input{Survey: &found}
	}
	r := &control.Result{ID: e.ID}
	switch e.Kind {
	case control.EffectRead:
		r.Failed = failure(d.read(ctx, e, r))
	case control.EffectApply:
		ctx = plan.WithFrozen(ctx, func(long time.Duration) { r.Frozen += long })
		r.Failed = failure(d.apply(ctx, e, r, &c.pulse))
	case control.EffectRestore:
		ctx = plan.WithFrozen(ctx, func(long time.Duration) { r.Frozen += long })
		r.Each = d.restore(ctx, e.Entries, e.Journal)
		for i := range e.Entries {
			if f := r.Each[i]; (f == nil || f.Code == control.Unchanged) &&
				slices.Contains(c.changing, e.Entries[i].Workload) {
				r.Each[i] = failure(errMayChange)
			}
		}
	case control.EffectCheck:
		for _, entry := range e.Entries {
			now, err := d.readEntry(ctx, entry)
			r.Settings, r.Failed = append(r.Settings, now), failure(err)
		}
	case control.EffectPresent:
		for _, entry := range e.Entries {
			var f *control.Failure
			if driver := d.owner(entry.Kind); driver != nil {
				f = failure(d.present(driver, entry))
			}
			r.Each = append(r.Each, f)
		}
	case control.EffectScheduler:
		if d.o.Scheduler == nil {
			r.Scheduler = &share.SchedulerSeen{Unable: words.Because(words.SchedulerNoKernel)}
			break
		}
		seen, err := d.o.Scheduler.Look(ctx, *e.Scheduler)
		r.Scheduler, r.Failed = &seen, failure(err)
	case control.EffectInherited:
		var err error
		r.Inherited, err = d.inherited(ctx, e.Entries, e.Among)
		r.Failed = failure(err)
	}
	return control.Input{Result: r}
}

// read is how the settings of a step are now, and which of them are so by inheritance
// from homenode.
func (d *Daemon) read(ctx context.Context, e *control.Effect, r *control.Result) error {
	driver, ok := d.o.Drivers[e.Step.Target.Kind]
	if !ok {
		return fmt.Errorf("no driver for %s workloads", e.Step.Target.Kind)
	}
	var err error
	if r.Changes, err = driver.Changes(ctx, *e.Step); err != nil {
		return err
	}
	d.asWritten(ctx, r.Changes)
	if len(e.Journal) == 0 {
		return nil
	}
	var among []workload.Process
	for i := range r.Changes {
		c := &r.Changes[i]
		if slices.ContainsFunc(e.Journal, func(x plan.Entry) bool { return x.Kind == c.Kind && x.Path == c.Path }) {
			continue
		}
		if p, err := plan.ParseProcessPath(c.Path); err == nil && c.Kind == plan.Affinity {
			among = append(among, p)
		}
	}
	if len(among) == 0 {
		return nil
	}
	if r.Inherited, err = d.inherited(ctx, e.Journal, among); err != nil {
		return fmt.Errorf("look for inherited settings: %w", err)
	}
	return nil
}

// asWritten gives values that read otherwise than they were written, as a mask for a list
// of CPUs, the form that the journal has.
func (d *Daemon) asWritten(ctx context.Context, changes []plan.Change) {
	journal := d.View().Journal
	for i := range changes {
		c := &changes[i]
		k := slices.IndexFunc(journal, func(e plan.Entry) bool { return e.Kind == c.Kind && e.Path == c.Path })
		if k < 0 || journal[k].Ours(c.Setting) {
			continue
		}
		if now, err := d.readEntry(ctx, journal[k]); err == nil {
			c.Value = now.Value
		}
	}
}

func (d *Daemon) inherited(ctx context.Context, journal []plan.Entry,
	among []workload.Process) ([]plan.Inherited, error) {
	driver, ok := d.owner(plan.Affinity).(Inheriting)
	if !ok || len(journal) == 0 {
		return nil, nil
	}
	return driver.Inherited(ctx, journal, among)
}

// apply changes what a step is about.
func (d *Daemon) apply(ctx context.Context, e *control.Effect, r *control.Result, p *pulse) error {
	driver, ok := d.o.Drivers[e.Step.Target.Kind]
	if !ok {
		return fmt.Errorf("no driver for %s workloads", e.Step.Target.Kind)
	}
	err := driver.Apply(ctx, *e.Step, func(m plan.Move) {
		p.said.Add(1)
		p.rests.Store(m.State == api.StatePaused)
		d.post(control.Input{Progress: &control.Progress{ID: e.ID, Move: m}})
	})
	if errors.Is(err, plan.ErrFixed) {
		changes, bad := driver.Changes(ctx, *e.Step)
		for _, c := range changes {
			if bad == nil {
				r.Standing = append(r.Standing, c.Setting)
			}
		}
	}
	return err
}

// owner is the driver of a kind of setting, or nil.
func (d *Daemon) owner(kind plan.SettingKind) Driver { return d.owners[kind] }

func owners(drivers map[workload.Kind]Driver) map[plan.SettingKind]Driver {
	out := map[plan.SettingKind]Driver{}
	for _, driver := range drivers {
		for _, kind := range driver.Owns() {
			out[kind] = driver
		}
	}
	return out
}

func (d *Daemon) readEntry(ctx context.Context, e plan.Entry) (now plan.Setting, err error) {
	driver := d.owner(e.Kind)
	if driver == nil {
		return plan.Setting{}, fmt.Errorf("no driver for %s", e.Kind)
	}
	defer d.caught("reading "+string(e.Kind), &err)
	return driver.Read(ctx, e)
}

func (d *Daemon) present(driver Driver, e plan.Entry) (err error) {
	defer d.caught("looking for what has a "+string(e.Kind), &err)
	return driver.Present(e)
}

// putBack restores entries of one driver. When that panics each is tried by itself, so
// that one holds up no other.
func (d *Daemon) putBack(ctx context.Context, driver Driver, entries, journal []plan.Entry) (errs []error) {
	var bug error
	func() {
		defer d.caught("restoring "+string(entries[0].Kind), &bug)
		if i, ok := driver.(Inheriting); ok {
			errs = i.RestoreBeside(ctx, entries, journal)
		} else {
			errs = driver.Restore(ctx, entries)
		}
	}()
	switch {
	case bug == nil:
		return errs
	case len(entries) == 1:
		return []error{bug}
	}
	errs = nil
	for i := range entries {
		errs = append(errs, d.putBack(ctx, driver, entries[i:i+1], journal)...)
	}
	return errs
}

// restore has one driver restore its entries, as far as they are still ours: what somebody
// else has set since is theirs.
func (d *Daemon) restore(ctx context.Context, entries, journal []plan.Entry) []*control.Failure {
	out := make([]*control.Failure, len(entries))
	byDriver := map[Driver][]int{}
	same := map[int]bool{}   // it stands as it was: a write that failed, or somebody was faster
	theirs := map[int]bool{} // somebody else has set them since: the driver leaves those alone
	var drivers []Driver
	for i := range entries {
		driver := d.owner(entries[i].Kind)
		now, err := d.readEntry(ctx, entries[i])
		switch {
		case ctx.Err() != nil:
			out[i] = failure(ctx.Err())
		case inherits(driver) &&
			(err == nil || isGone(err)): // others may have the value of one that is gone or was set anew
			theirs[i], same[i] = err == nil && !entries[i].Ours(now), err == nil && now.Value == entries[i].Old
			if byDriver[driver] == nil {
				drivers = append(drivers, driver)
			}
			byDriver[driver] = append(byDriver[driver], i)
		case err != nil && isGone(err) && driver != nil && isGone(d.present(driver, entries[i])):
			out[i] = &control.Failure{Code: control.Gone, Text: err.Error()}
		case err != nil && !isGone(err):
			out[i] = failure(err)
		case err == nil && !entries[i].Ours(now):
			out[i] = failure(fmt.Errorf("%w: it reads %q", plan.ErrForeign, now.Value))
		default:
			same[i] = err == nil && now.Value == entries[i].Old // it is written all the same
			if byDriver[driver] == nil {
				drivers = append(drivers, driver)
			}
			byDriver[driver] = append(byDriver[driver], i)
		}
	}
	for _, driver := range drivers {
		some := make([]plan.Entry, 0, len(entries))
		for _, i := range byDriver[driver] {
			some = append(some, entries[i])
		}
		for k, err := range d.putBack(ctx, driver, some, journal) {
			i := byDriver[driver][k]
			if out[i] = failure(err); err != nil && isGone(err) && !isGone(d.present(driver, entries[i])) {
				out[i].Code = control.Failed // it only looked gone
			}
			switch {
			case err == nil && theirs[i]:
				out[i] = failure(plan.ErrForeign)
			case err == nil && same[i]:
				out[i] = &control.Failure{Code: control.Unchanged, Text: "it stood as it was"}
			}
		}
	}
	return out
}

func inherits(driver Driver) bool {
	_, ok := driver.(Inheriting)
	return ok
}

// failure is an error as the loop knows it.
func failure(err error) *control.Failure {
	if err == nil {
		return nil
	}
	code := control.Failed
	var lacks *plan.UnsupportedError
	switch {
	case errors.As(err, &lacks) && plan.SettingKind(lacks.Feature).IsCgroupFile():
		code = control.Lacking
	case errors.Is(err, plan.ErrNotFrozen):
		code = control.NotFrozen
	case errors.Is(err, plan.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		code = control.NoAnswer
	case errors.Is(err, context.Canceled):
		code = control.Cancelled
	case errors.Is(err, plan.ErrFixed):
		code = control.Fixed
	case errors.Is(err, plan.ErrInUse):
		code = control.InUse
	case errors.Is(err, plan.ErrForeign):
		code = control.Foreign
	case isGone(err):
		code = control.Gone
	}
	return &control.Failure{Code: code, Text: err.Error()}
}

// isGone reports whether an error says that the target no longer exists.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
