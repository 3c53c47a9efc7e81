package process

import (
	"context"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Restore puts Old of each entry back: on every thread of its process, and of all
// that has inherited from it and has no entry here, that still has what homenode gave. A
// thread that has other CPUs since keeps them. All entries are done in one scan of
// /proc, repeated until a scan finds nothing more. Who takes homenode's CPUs again and
// again, as anybody can for processes of their own, holds up no other entry. An entry
// whose process is gone has that as its error once what has inherited from it is restored.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	return d.RestoreBeside(ctx, entries, nil)
}

// RestoreBeside is Restore where the journal has other entries too: what is theirs, or inherited
// from them, is left alone, though it may have the same CPUs.
func (d *Driver) RestoreBeside(ctx context.Context, entries, journal []plan.Entry) []error {
	errs := make([]error, len(entries))
	online, err := d.proc.online()
	if err != nil {
		return fill(errs, err)
	}
	var sources []*source
	at := map[*source]int{}
	for i, e := range entries {
		s, err := d.source(e, online)
		if err != nil {
			errs[i] = err
			continue
		}
		sources = append(sources, &s)
		at[&s] = i
	}
	if len(sources) == 0 {
		return errs
	}
	all := sources
	for _, e := range journal {
		if s, err := d.source(e, online); err == nil && e.Of == 0 &&
			!slices.ContainsFunc(entries, func(x plan.Entry) bool { return x.Seq == e.Seq }) {
			s.beside = true
			all = append(all, &s)
		}
	}
	c := change{Driver: d, old: map[int]topology.CPUSet{}, cut: true}
	err = c.everywhere(ctx, func() (int, error) {
		for _, s := range sources {
			s.changed = 0
		}
		n, err := c.restore(ctx, sources, all)
		rest := n // of processes that could not be told to be somebody's
		for _, s := range sources {
			rest -= s.changed
		}
		for _, s := range sources {
			s.settled = (err == nil && s.changed+rest == 0) || (err != nil && s.settled)
		}
		return n, err
	})
	for _, s := range sources {
		if s.err == nil && !s.settled {
			s.err = err
		}
		if s.err == nil {
			s.err = d.proc.check(s.Process)
		}
		errs[at[s]] = s.err
	}
	return errs
}

func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// restore goes once through all processes and reports how many threads changed.
func (c *change) restore(ctx context.Context, sources, beside []*source) (n int, err error) {
	for _, of := range sources {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		n += c.restoreThreads(of.Process, of, true)
	}
	f := c.search(beside)
	all, err := f.all(ctx)
	if err != nil {
		return n, err
	}
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		of, err := f.from(p)
		switch {
		case err != nil && !isGone(err):
			return n, err // whose it is cannot be told
		case err != nil:
			n += c.again(p)
		case of != nil && !of.beside:
			n += c.restoreThreads(p, of, false)
		}
	}
	return n, nil
}

// restoreThreads restores the threads of a process that have their CPUs from an entry,
// its own or another's, and reports how many changed.
func (c *change) restoreThreads(p workload.Process, of *source, own bool) int {
	if of.err != nil {
		return 0
	}
	n, err := c.threads(p, func(tid int, has topology.CPUSet) topology.CPUSet {
		one, ok := of.one[tid]
		if !of.gave(has) && !(own && ok && one.Equal(has)) {
			return has
		}
		if cpus, ok := of.old.except[tid]; ok && own {
			return cpus
		}
		return of.old.main
	})
	if err != nil && !isGone(err) {
		of.err = err
	} else if err != nil {
		n += c.again(p)
	}
	of.changed += n
	return n
}

// again is 1 when a process that looked gone is not: it needs another pass.
func (c *change) again(p workload.Process) int {
	if isGone(c.proc.check(p)) {
		return 0
	}
	return 1
}
