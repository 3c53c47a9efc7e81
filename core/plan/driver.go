package plan

import (
	"context"
	"time"
)

// Driver carries out steps for one kind of target. Its methods are idempotent, may be
// called from several goroutines at once for different targets, and may block: a call that
// is not back at its context's deadline is given up. Errors that wrap
// fs.ErrNotExist, ESRCH or ENODEV mean that the target is gone.
type Driver interface {
	// Owns lists the kinds of setting that this driver reads, changes and restores.
	Owns() []SettingKind
	// SurvivesBoot reports whether a setting keeps its value over a restart of the machine.
	SurvivesBoot(kind SettingKind) bool
	// Changes reads everything that Apply(step) would change, as it is and as it will be,
	// in the order of changing. A step that moves pages only has none.
	Changes(ctx context.Context, step Step) ([]Change, error)
	// Apply makes the step true and reads back that it is. A cgroup that is not the
	// target's Object any more is gone. For move-pages it calls
	// progress after each batch and stops between batches when ctx ends, returning ctx's
	// error; calling again goes on where it stopped.
	Apply(ctx context.Context, step Step, progress func(Move)) error
	// Read is the setting of an entry as it is now.
	Read(ctx context.Context, entry Entry) (Setting, error)
	// Restore puts Old of entries back, in their order, and reads back that it stands: an
	// error, or nil, for each.
	Restore(ctx context.Context, entries []Entry) []error
	// Present returns nil while the thing that entry is about exists.
	Present(entry Entry) error
}

// Each restores entries one by one, in their order: an error, or nil, for each.
func Each(ctx context.Context, entries []Entry, restore func(context.Context, Entry) error) []error {
	errs := make([]error, len(entries))
	for i, e := range entries {
		errs[i] = restore(ctx, e)
	}
	return errs
}

type frozenKey struct{}

// WithFrozen is a context in which a driver reports how long it kept processes frozen.
func WithFrozen(ctx context.Context, report func(time.Duration)) context.Context {
	return context.WithValue(ctx, frozenKey{}, report)
}

// Frozen reports that a driver kept the processes of its target frozen for so long.
func Frozen(ctx context.Context, long time.Duration) {
	if report, ok := ctx.Value(frozenKey{}).(func(time.Duration)); ok {
		report(long)
	}
}
