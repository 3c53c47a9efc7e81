package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// Runner runs one trial.
type Runner struct {
	Doc      *trial.Document
	Sources  []Source // of Doc.Metrics
	Switch   func(ctx context.Context, order api.TrialOrder) (api.Trial, error)
	Save     func(*trial.Document) error
	Progress func(Progress) // told often
	Fail     func(error)    // told of readings that failed
	Lease    time.Duration
	Patience time.Duration // how long the daemon may be away

	started time.Time     // of this program, with its monotonic clock
	elapsed time.Duration // of the trial until then

	mu     sync.Mutex // guards what follows
	order  api.TrialOrder
	state  api.Trial
	since  time.Time // since when the arm stands without a break
	broken error     // why the period under way does not count
	begun  bool      // the daemon has the trial
	away   time.Time // since when the daemon does not answer

	newest map[string][]float64 // readings of the arm that stands, also of its washout
	base   map[string]float64   // means of what the guards compare with
	failed map[string]int       // failures in a row
}

// Progress is how far a trial is.
type Progress struct {
	Block, Blocks int
	Arm           trial.Arm
	Phase         string // before, switching or measuring
	Done          float64
	Left          time.Duration
}

// Errors that end a trial.
var (
	// ErrGuard is wrapped by the reason for which a guard ended a trial.
	ErrGuard = errors.New("stopped by a guard")
	// ErrOver is wrapped where the daemon has ended it.
	ErrOver = errors.New("ended by the daemon")
	// ErrNotRestored is wrapped where the daemon has not restored everything yet.
	ErrNotRestored = errors.New("not everything is restored")

	errBroken = errors.New("the period was interrupted")
)

// mostBroken is how often a block is begun again: a machine on which it never gets through
// must not go on for ever.
const mostBroken = 5

// Run measures what is left of the trial, and restores everything, whatever happens.
func (r *Runner) Run(user context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(user)
	defer cancel(nil)
	r.start()
	r.newest = map[string][]float64{}
	r.base = map[string]float64{}
	r.failed = map[string]int{}
	next := r.Doc.Restart()
	if len(r.Doc.Guards) > 0 {
		if err := r.before(ctx); err != nil {
			return cause(ctx, err)
		}
	}
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		r.renew(ctx, cancel)
	}()
	defer func() {
		cancel(nil)
		<-renewed
		err = errors.Join(err, r.end(user))
	}()
	orders := r.Doc.Plan.Orders()
	for broken := 0; next < len(orders); {
		err := r.block(ctx, next, orders[next])
		switch {
		case err == nil:
			next, broken = next+1, 0
		case errors.Is(err, errBroken) && ctx.Err() == nil && broken < mostBroken:
			broken++
			r.Doc.Restart()
		default:
			return cause(ctx, err)
		}
	}
	return nil
}

// cause is why ctx ended, where it did.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// start notes how long the trial has run. A clock that was set back, as after a restart of the machine, does not put
// new periods before those that were measured.
func (r *Runner) start() {
	r.started, r.elapsed = time.Now(), time.Since(r.Doc.Began)
	for i := range r.Doc.Periods {
		r.elapsed = max(r.elapsed, time.Duration(r.Doc.Periods[i].To*float64(time.Second)))
	}
}

// at returns the seconds since the start of the trial.
func (r *Runner) at() float64 { return (r.elapsed + time.Since(r.started)).Seconds() }

// before reads for a period what the guards compare with, before anything is switched.
func (r *Runner) before(ctx context.Context) error {
	sums, counts := map[string]float64{}, map[string]int{}
	from := time.Now()
	for {
		for i, m := range r.Doc.Metrics {
			if x, ok := r.read(ctx, i); ok {
				sums[m.Name] += x.Value
				counts[m.Name]++
			}
		}
		gone := time.Since(from)
		r.tell(-1, "", "before", gone.Seconds()/r.Doc.Plan.Period.Seconds())
		if gone >= r.Doc.Plan.Period {
			break
		}
		if err := pause(ctx, r.Doc.Plan.Every); err != nil {
			return err
		}
	}
	for name, n := range counts {
		r.base[name] = sums[name] / float64(n)
	}
	return nil
}

// block measures one block.
func (r *Runner) block(ctx context.Context, b int, arms []trial.Arm) error {
	for i, arm := range arms {
		p, err := r.period(ctx, b, i, arm)
		if err != nil {
			return err
		}
		r.Doc.Periods = append(r.Doc.Periods, p)
		if i == len(arms)-1 {
			r.Doc.Evaluate()
		}
		if err := r.Save(r.Doc); err != nil {
			return err
		}
		for name, readings := range p.Values { // what the next arm is compared with
			sum := 0.0
			for _, x := range readings {
				sum += x.Value
			}
			if len(readings) > 0 {
				r.base[name] = sum / float64(len(readings))
			}
		}
	}
	return nil
}

// mostSettle is how many periods a switch may take: what never settles is measured as it is.
const mostSettle = 3

// period switches to an arm, waits until its moves have ended, and measures.
func (r *Runner) period(ctx context.Context, b, i int, arm trial.Arm) (trial.Record, error) {
	plan := &r.Doc.Plan
	clear(r.newest)
	p := trial.Record{Block: b, Arm: arm, Values: map[string][]trial.Reading{}}
	share := func(phase float64) float64 { return (float64(i) + phase) / float64(len(plan.Arms)) }
	if err := r.switchTo(ctx, b, arm); err != nil {
		return p, err
	}
	began := time.Now()
	p.Switch = r.at()
	var due time.Time
	for { // washout
		if !time.Now().Before(due) {
			due = time.Now().Add(plan.Every)
			for k := range r.Doc.Metrics {
				r.read(ctx, k)
			}
			if err := r.guarded(); err != nil {
				return p, err
			}
		}
		state, err := r.ask(ctx)
		if err != nil {
			return p, err
		}
		gone := time.Since(began)
		if gone >= plan.Washout && state.Settled {
			break
		}
		if gone >= max(plan.Washout, mostSettle*plan.Period) {
			p.Pending = state.Pending
			break
		}
		r.tell(b, arm, "switching", share(0))
		if err := pause(ctx, min(time.Second, plan.Every)); err != nil {
			return p, err
		}
	}
	for k := range r.Doc.Metrics { // what is counted begins here
		r.read(ctx, k)
	}
	from := time.Now()
	p.From = r.at()
	for n := 1; ; n++ {
		if err := pause(ctx, time.Until(from.Add(time.Duration(n)*plan.Every))); err != nil {
			return p, err
		}
		for k, m := range r.Doc.Metrics {
			if x, ok := r.read(ctx, k); ok {
				p.Values[m.Name] = append(p.Values[m.Name], x)
			}
		}
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		if err := r.guarded(); err != nil {
			return p, err
		}
		r.mu.Lock()
		broken := r.broken
		r.mu.Unlock()
		if broken != nil {
			return p, broken
		}
		gone := time.Since(from)
		r.tell(b, arm, "measuring", share(gone.Seconds()/plan.Period.Seconds()))
		if gone >= plan.Period {
			break
		}
		n = max(n, int(gone/plan.Every)) // a command that takes long leaves readings out
	}
	p.To = r.at()
	return p, nil
}

// read takes one reading. What fails is left out.
func (r *Runner) read(ctx context.Context, k int) (trial.Reading, bool) {
	m := &r.Doc.Metrics[k]
	x, ok, err := r.Sources[k].Read(ctx)
	if err != nil {
		r.failed[m.Name]++
		if r.Fail != nil && r.failed[m.Name] == 1 && ctx.Err() == nil {
			r.Fail(fmt.Errorf("%s: %w", m.Name, err))
		}
		return trial.Reading{}, false
	}
	r.failed[m.Name] = 0
	if ok {
		r.newest[m.Name] = append(r.newest[m.Name], x)
	}
	return trial.Reading{At: r.at(), Value: x}, ok
}

// guarded returns why a guard ends the trial.
func (r *Runner) guarded() error {
	for _, g := range r.Doc.Guards {
		i := slices.IndexFunc(r.Doc.Metrics, func(m trial.Metric) bool { return m.Name == g.Metric })
		base, ok := r.base[g.Metric]
		if newest := r.newest[g.Metric]; ok && g.Broken(&r.Doc.Metrics[i], base, newest) {
			return fmt.Errorf("%w: %s was %.4g before and %.4g with the arm %s, more than %.4g %% worse, in %d "+
				"readings in a row", ErrGuard, g.Metric, base, newest[len(newest)-1], r.order.Arm, 100*g.Worse,
				trial.GuardReadings)
		}
	}
	return nil
}

// tell says how far the trial is: done is the share of the block.
func (r *Runner) tell(b int, arm trial.Arm, phase string, done float64) {
	if r.Progress == nil {
		return
	}
	plan := &r.Doc.Plan
	all := float64(plan.Blocks)
	whole := (max(0, float64(b)) + min(1, done)) / all
	if b < 0 {
		whole = 0
	}
	r.Progress(Progress{Block: b + 1, Blocks: plan.Blocks, Arm: arm, Phase: phase, Done: whole,
		Left: time.Duration((1 - whole) * float64(plan.Duration()))})
}

// switchTo orders an arm, and forgets what broke the one before.
func (r *Runner) switchTo(ctx context.Context, b int, arm trial.Arm) error {
	r.mu.Lock()
	r.order = api.TrialOrder{Name: r.Doc.Name, Arm: arm, Workloads: r.Doc.Workloads, Balancing: r.Doc.Balancing,
		Caches: r.Doc.Caches, LeaseS: int(r.Lease.Seconds()), Block: b + 1, Blocks: r.Doc.Plan.Blocks}
	r.state = api.Trial{}
	r.since = time.Time{}
	r.broken = nil
	r.mu.Unlock()
	_, err := r.ask(ctx)
	return err
}

// ask renews the trial and returns how it stands. A daemon that is away is waited for.
func (r *Runner) ask(ctx context.Context) (api.Trial, error) {
	for {
		state, err := r.askOnce(ctx)
		switch {
		case err == nil:
			r.mu.Lock()
			broken := r.broken
			r.mu.Unlock()
			return state, broken
		case errors.Is(err, errBroken):
			return state, err
		case over(err) != nil:
			return state, over(err)
		case ctx.Err() != nil:
			return state, ctx.Err()
		}
		r.mu.Lock()
		away := time.Since(r.away)
		r.mu.Unlock()
		if away > r.Patience {
			return state, fmt.Errorf("the daemon has been away for %s: %w", words.Duration(away), err)
		}
		if err := pause(ctx, time.Second); err != nil {
			return state, err
		}
	}
}

func (r *Runner) askOnce(ctx context.Context) (api.Trial, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order.Name == "" {
		return api.Trial{}, nil
	}
	r.order.Begin = !r.begun
	state, err := r.Switch(ctx, r.order)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.NotFound && r.begun { // it was not renewed in time
		r.begun = false
		r.broken = fmt.Errorf("%w: %w", errBroken, err)
		return state, r.broken
	}
	switch {
	case err != nil && ctx.Err() == nil:
		if r.away.IsZero() {
			r.away = time.Now()
		}
		r.broken = fmt.Errorf("%w: %w", errBroken, err)
	case err == nil:
		r.away, r.begun = time.Time{}, true
		if r.since.IsZero() {
			r.since = state.Since
		} else if !r.since.Equal(state.Since) { // it ended meanwhile, and has begun anew
			r.broken = fmt.Errorf("%w: the daemon restored everything meanwhile", errBroken)
		}
		r.state = state
	}
	return state, err
}

// over is an error that ends the trial, or nil.
func over(err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || errors.Is(err, errBroken) {
		return nil
	}
	switch refused.Code {
	case api.Failed, api.TooMany: // as while a daemon stops
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOver, err)
}

// renew keeps the trial from ending while commands run that take long.
func (r *Runner) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	for pause(ctx, r.Lease/5) == nil {
		if _, err := r.askOnce(ctx); over(err) != nil && ctx.Err() == nil {
			cancel(over(err))
			return
		}
	}
}

// stopPatience is how long a program that the user ends waits for a daemon that does not answer. When the machine
// shuts down, the daemon ends too, and systemd waits 90 s for the program.
const stopPatience = 10 * time.Second

// end has the daemon restore everything and waits until it has.
func (r *Runner) end(user context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.Patience)
	defer cancel()
	answered := time.Now()
	for {
		state, err := r.Switch(ctx, api.TrialOrder{Name: r.Doc.Name, End: true})
		switch {
		case err == nil && state.Name == "":
			return nil
		case over(err) != nil:
			return nil // another trial's, or none
		case err == nil:
			answered = time.Now()
		}
		late := user.Err() != nil && time.Since(answered) > stopPatience
		if late || pause(ctx, 200*time.Millisecond) != nil {
			if err == nil {
				err = errors.New("it has not done so yet")
			}
			return fmt.Errorf("%w; the daemon does so at the latest %s after it is back: %w", ErrNotRestored,
				words.Duration(r.Lease), err)
		}
	}
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
