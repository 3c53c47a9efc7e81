package daemon

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/daemon/memory"
)

// Kept is a journal that others write: that of the runs of one user.
type Kept interface {
	// Entries is what was changed and not restored, rising by Seq from 1.
	Entries() []plan.Entry
	// Restored takes an entry off: it was restored.
	Restored(plan.Entry) error
	Close() error
}

// keptStore is a store with a kept journal. It forgets all else.
type keptStore struct {
	*memory.Store
	Kept
}

// Over returns a store with the entries of a journal that others write.
func Over(k Kept) (Store, error) {
	m := memory.New()
	return keptStore{m, k}, m.Commit(plan.Batch{Entries: k.Entries()})
}

// UndoKept restores entries of a journal that others write: open opens it. An empty answer says that nothing of
// it is meant, or that there can be none.
func (l *Local) UndoKept(ctx context.Context, which api.Which, open func() (Kept, error)) (api.UndoResult, error) {
	l.OpenRead = func() (Store, error) {
		k, err := open()
		if err != nil {
			return nil, err
		}
		return Over(k)
	}
	l.OpenUndo = l.OpenRead
	out, err := l.Undo(ctx, which)
	var refused *api.Error
	none := errors.As(err, &refused) && refused.Code == api.NotFound
	if none || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return api.UndoResult{Workload: out.Workload}, nil
	}
	return out, err
}

// Close implements Store.
func (s keptStore) Close() error { return s.Kept.Close() }

// Commit implements Store.
func (s keptStore) Commit(b plan.Batch) error {
	var errs []error
	for _, e := range b.Entries {
		if e.State == plan.Restored {
			errs = append(errs, s.Restored(e))
		}
	}
	return errors.Join(append(errs, s.Store.Commit(b))...)
}
