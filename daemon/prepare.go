package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Prepare carries out steps on the host that no workload asks for, each journalled
// first. One that fails does not hold up the others: errs has an error, or nil, for
// each step, and err is about the journal. A step that the kernel lets nobody do
// wraps plan.ErrFixed. It needs the store to itself, so no daemon runs.
func (l *Local) Prepare(ctx context.Context, steps []plan.Step) (errs []error, err error) {
	s, err := l.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var held holds
	if _, err := s.Load(keyHolds, &held); err != nil {
		return nil, err
	}
	if held.IDs[hostprep.ID] { // from an undo: who prepares has thought again
		if err := Resume(s, api.Which{ID: hostprep.ID}); err != nil && !held.All {
			return nil, err
		}
	}
	errs = make([]error, len(steps))
	var events []plan.Event
	for i, step := range steps {
		errs[i] = prepare(ctx, s, l.Options, step)
		if ctx.Err() != nil && errs[i] == nil {
			errs[i] = ctx.Err()
		}
		e := plan.Event{Time: l.Clock.Now(), Kind: plan.EventHost, Workload: step.Workload,
			Text: fmt.Sprintf("%s of %s: %s → %s. %s", step.Kind, step.Target.Name(), orAll(step.From), step.To, step.Reason)}
		if errs[i] != nil {
			e.Text, e.Error = fmt.Sprintf("%s of %s to %s: %v", step.Kind, step.Target.Name(), step.To, errs[i]), !errors.Is(errs[i], plan.ErrFixed)
		}
		events = append(events, e)
	}
	return errs, s.Append(events...)
}

// prepare journals one setting, changes it and marks how it went. An entry whose
// change failed half way stays, so that undo puts it back.
func prepare(ctx context.Context, s Store, o Options, step plan.Step) error {
	driver, ok := o.Drivers[step.Target.Kind]
	if !ok {
		return fmt.Errorf("no driver for %s", step.Target.Kind)
	}
	have, err := driver.Settings(ctx, step)
	if err != nil {
		return err
	}
	known, err := s.Journal()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	will := make([]string, len(have))
	for i := range have {
		will[i] = step.To
		if have[i].Kind == plan.CgroupControllers {
			will[i] = "+cpuset"
		}
	}
	entries, err := s.Intend(step.Workload, have, will, o.Clock.Now())
	if err != nil { // no journal, no change
		return fmt.Errorf("journal: %w", err)
	}
	switch err := driver.Apply(ctx, step, func(plan.Move) {}); {
	case errors.Is(err, plan.ErrFixed): // nothing was changed, nothing is to be put back
		fresh := slices.DeleteFunc(entries, func(e plan.Entry) bool {
			return slices.ContainsFunc(known, func(k plan.Entry) bool { return k.Seq == e.Seq })
		})
		return errors.Join(err, s.Mark(plan.Restored, seqs(fresh)...))
	case err != nil:
		return err
	}
	if err := s.Mark(plan.Applied, seqs(entries)...); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Placed is the homes that an earlier daemon has given and that still hold: those
// whose settings are in the journal, and those of `homenode run`.
func (l *Local) Placed() ([]plan.Placement, error) {
	s, err := l.OpenRead()
	if err != nil || s == nil {
		return nil, err
	}
	defer s.Close()
	var boot string
	if _, err := s.Load(keyBoot, &boot); err != nil || boot != l.BootID {
		return nil, err
	}
	entries, err := s.Journal()
	if err != nil {
		return nil, err
	}
	all, err := s.Placements()
	return slices.DeleteFunc(all, func(p plan.Placement) bool {
		return p.Start == 0 && !slices.ContainsFunc(entries, func(e plan.Entry) bool { return e.Workload == p.Workload })
	}), err
}

// confined is the cgroups that preparing gave CPUs to and that were not undone.
func confined(journal []plan.Entry) []string {
	var out []string
	for _, e := range journal {
		switch {
		case e.Workload != hostprep.ID:
		case e.Kind == plan.CgroupCPUs:
			out = append(out, e.Path)
		case e.Kind == plan.UnitCPUs:
			out = append(out, hostprep.CgroupOf(e.Path))
		}
	}
	return out
}

// ofHost says why a workload below one of the cgroups is left alone, or "".
func ofHost(id workload.ID, cgroups []string) string {
	for _, at := range cgroups {
		if string(id) == at || strings.HasPrefix(string(id), at+"/") {
			return fmt.Sprintf("host prepare keeps %s on the CPUs of the host; leave it out there (--slices) to have it placed.", at)
		}
	}
	return ""
}
