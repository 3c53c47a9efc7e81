package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// lab is what one experiment runs with.
type lab struct {
	e        *Experiment
	host     *topology.Host
	state    *state
	self     string // this program
	homenode string // the program, absolute; "" for none
	raw      string // folder for what programs print
	smoke    bool
	emulate  bool          // guests without KVM
	kernel   string        // the release that guests boot; "" for the host's
	rest     time.Duration // before the programs of a period start, in every arm: a daemon takes its time
	plan     trial.Plan
	began    time.Time
	prefer   map[Kind]Kind // what programs run in here
	daemon   *daemon       // of the period
	numad    bool          // whether numad was started in the period
	say      func(format string, a ...any)
}

// period is what one arm gave in one block: a value for each metric.
type period struct {
	block    int
	arm      string
	switched float64 // seconds since the start of the run
	from, to float64
	values   map[string]float64
	placed   int // programs that Homenode started
	unplaced int // of those, programs without a home
}

// ruleAt is the rule of an arm.
func (e *Experiment) ruleAt(arm string) *rule {
	if v := e.variant(arm); v != nil {
		return ruleOf(v.Rule)
	}
	return ruleOf(arm)
}

// instances is everything that runs in an arm, with homes by its rule.
func (l *lab) instances(arm string, block int) ([]*instance, error) {
	sizes, err := l.e.SizesOn(l.host, arm, l.smoke)
	if err != nil {
		return nil, err
	}
	var all []*instance
	for k := range l.e.Programs {
		p := &l.e.Programs[k]
		count, err := sizes.Int(p.Count, 1)
		if err != nil {
			return nil, err
		}
		cpus, err := sizes.Int(p.CPUs, 1)
		if err != nil {
			return nil, err
		}
		mib, err := sizes.Int(p.Memory, 64)
		if err != nil {
			return nil, err
		}
		for i := range count {
			in := &instance{program: p, i: i, name: fmt.Sprintf("%s-%s-%d", ours, p.Name, i),
				ask: ask{cpus, mib, p.Class == "batch"}, as: l.prefer[p.As]}
			in.sizes = sizes.at(i, l.seconds(), l.state.Dir, l.self, l.homenode)
			in.out = filepath.Join(l.raw, fmt.Sprintf("%03d-%s-%s-%d.txt", block, arm, p.Name, i))
			all = append(all, in)
		}
	}
	if r := l.e.ruleAt(arm); r.homes != nil {
		placed := placedOf(all)
		asks := make([]ask, len(placed))
		for i, in := range placed {
			asks[i] = in.ask
		}
		for i, h := range r.homes(l.host, asks) {
			placed[i].home = h
		}
	}
	return all, nil
}

func (l *lab) seconds() int { return max(1, int(l.plan.Period.Seconds())) }

// placedOf is what the arm places.
func placedOf(all []*instance) []*instance {
	return slices.DeleteFunc(slices.Clone(all), func(in *instance) bool { return in.program.Role == Load })
}

func of(all []*instance, role Role) []*instance {
	return slices.DeleteFunc(slices.Clone(all), func(in *instance) bool { return in.program.Role != role })
}

// measure is one period. Whatever happens, nothing of it runs afterwards.
func (l *lab) measure(ctx context.Context, arm string, block int) (p period, err error) {
	p = period{block: block, arm: arm, switched: time.Since(l.began).Seconds()}
	r := l.e.ruleAt(arm)
	all, err := l.instances(arm, block)
	if err != nil {
		return p, err
	}
	rested := time.Now().Add(l.rest)
	if err := l.turn(r); err != nil {
		return p, err
	}
	defer func() {
		err = errors.Join(err, l.stopNumad(), l.stop(all), l.stopDaemon())
	}()
	if r.name == "homenode" {
		if err := l.startDaemon(ctx); err != nil {
			return p, err
		}
	}
	if err := sleep(ctx, time.Until(rested)); err != nil {
		return p, err
	}
	if err := l.serve(ctx, r, of(all, Server)); err != nil {
		return p, err
	}
	p.from = time.Since(l.began).Seconds()
	if err := l.work(ctx, r, all); err != nil {
		return p, err
	}
	p.to = time.Since(l.began).Seconds()
	if r.name == "homenode" {
		p.placed, p.unplaced = len(placedOf(all)), unplaced(all)
	}
	p.values, err = l.read(all)
	return p, err
}

// startAll starts what an arm places. A rule for what runs already lets it start anywhere.
func (l *lab) startAll(r *rule, all []*instance) error {
	for _, in := range all {
		h := in.home
		if r.later {
			h = home{}
		}
		if err := l.start(in, h); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the servers, fills them, and lets them settle.
func (l *lab) serve(ctx context.Context, r *rule, servers []*instance) error {
	if len(servers) == 0 {
		return nil
	}
	if err := l.startAll(r, servers); err != nil {
		return err
	}
	for _, in := range servers {
		if err := l.ready(ctx, in); err != nil {
			return err
		}
		if err := l.fill(ctx, in); err != nil {
			return fmt.Errorf("fill %s: %w", in.name, err)
		}
	}
	if err := l.settle(ctx, r, servers); err != nil {
		return err
	}
	return sleep(ctx, l.plan.Washout)
}

func (l *lab) fill(ctx context.Context, in *instance) error {
	text, err := in.sizes.Fill(in.program.Fill)
	if err != nil || text == "" {
		return err
	}
	return l.do(ctx, text, 10*patience)
}

// work runs what ends by itself. The servers must outlive it.
func (l *lab) work(ctx context.Context, r *rule, all []*instance) error {
	works, loads := of(all, Work), of(all, Load)
	if err := l.startAll(r, works); err != nil {
		return err
	}
	if len(works) > 0 {
		if err := l.settle(ctx, r, works); err != nil {
			return err
		}
	}
	for _, in := range loads {
		if err := l.start(in, home{}); err != nil {
			return err
		}
	}
	for _, in := range slices.Concat(works, loads) {
		within := 3*l.plan.Period + 5*patience
		if in.as == Guest && l.emulate {
			within *= 6 // Linux takes minutes to start
		}
		if err := in.wait(ctx, within); err != nil {
			return err
		}
	}
	for _, in := range of(all, Server) {
		if in.ended() {
			return in.lost()
		}
	}
	return nil
}

// read reads every metric in what was printed.
func (l *lab) read(all []*instance) (map[string]float64, error) {
	values := map[string]float64{}
	for i := range l.e.Metrics {
		m := &l.e.Metrics[i]
		if !l.has(m) {
			continue
		}
		var texts []string
		for _, in := range all {
			if slices.Contains(m.Of, in.program.Name) {
				texts = append(texts, in.text())
			}
		}
		v, err := m.Read(texts)
		switch {
		case err == nil:
			values[m.Name] = v
		case !m.Optional:
			return nil, err
		}
	}
	return values, nil
}

// has reports whether a metric means something on this machine.
func (l *lab) has(m *Metric) bool {
	nodes, _ := facts(l.host).Int("nodes", 1)
	return nodes >= m.Nodes
}

// turn switches the kernel for an arm.
func (l *lab) turn(r *rule) error {
	for _, s := range []struct {
		file  string
		value setting
	}{{balancingFile, r.balancing}, {cachesFile, r.caches}} {
		if _, err := os.Stat(s.file); err != nil {
			continue // this kernel has no such switch
		}
		value := string(s.value)
		if s.value == asFound {
			found, err := l.state.found(s.file)
			if err != nil {
				return err
			}
			value = found
		}
		if err := l.state.set(s.file, value); err != nil {
			return err
		}
	}
	return nil
}

// experiment runs all periods, and calls done after each.
func (l *lab) experiment(ctx context.Context, done func(period)) error {
	l.began = time.Now()
	sizes, err := l.e.SizesOn(l.host, string(l.plan.Arms[0]), l.smoke)
	if err != nil {
		return err
	}
	for _, c := range l.e.Prepare {
		text, err := sizes.at(0, l.seconds(), l.state.Dir, l.self, l.homenode).Fill(c)
		if err != nil {
			return err
		}
		if err := l.do(ctx, text, 30*time.Minute); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	n := 0
	for block, order := range l.plan.Orders() {
		for _, arm := range order {
			n++
			p, err := l.measure(ctx, string(arm), block)
			if held := (errHeld{}); l.smoke && errors.As(err, &held) {
				l.say("%d/%d %s is left out: %v", n, l.plan.Blocks*len(l.plan.Arms), arm, held)
				continue
			}
			if err != nil {
				return fmt.Errorf("block %d, arm %s: %w", block+1, arm, err)
			}
			l.say("%d/%d %s: %s", n, l.plan.Blocks*len(l.plan.Arms), arm, l.show(p))
			if p.unplaced > 0 {
				l.say("  homenode had no home for %d of %s: they ran anywhere", p.unplaced,
					words.Count(p.placed, "program"))
			}
			done(p)
		}
	}
	return nil
}

// show is the values of a period in one line.
func (l *lab) show(p period) string {
	out := ""
	for _, m := range l.e.Metrics {
		if v, ok := p.values[m.Name]; ok {
			out += fmt.Sprintf("%s %s %s, ", m.Name, figure(v), m.Unit)
		}
	}
	return out[:max(0, len(out)-2)]
}
