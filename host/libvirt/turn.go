package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// changeWithin bounds a change that moves no memory: each call takes milliseconds, on a
	// crowded host seconds, and a libvirt that hangs must not hold up who waits.
	changeWithin = time.Minute
	// moveWithin bounds one that does: a TiB at 1 GiB a second.
	moveWithin = 20 * time.Minute
	// lockWithin is how long a step waits for another homenode that changes guests: what is
	// put off is tried again. Who puts things back has more patience.
	lockWithin = 2 * time.Second
)

var errBusy = errors.New("another homenode is changing guests")

// change runs a change of a guest while no other homenode changes guests. Those of this
// one go beside each other: moving the memory of a large guest takes minutes.
func (w *Watch) change(ctx context.Context, name string, wait, within time.Duration,
	do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := w.lock(ctx, wait); err != nil {
		return fmt.Errorf("guest %q: %w", name, err)
	}
	defer w.unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if k := w.known[name]; k != nil {
			k.stale = true
			k.signals++
		}
	}()
	if err := do(ctx); err != nil {
		return fmt.Errorf("guest %q: %w", name, err)
	}
	return nil
}

// lock takes the lock among homenodes, or shares it with who has it here.
func (w *Watch) lock(ctx context.Context, wait time.Duration) error {
	if w.o.Lock == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case w.locking <- struct{}{}:
		defer func() { <-w.locking }()
	case <-ctx.Done():
		return errBusy
	}
	w.mu.Lock()
	if w.sharing > 0 {
		w.sharing++
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	held, err := w.o.Lock(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.sharing = held, 1
	return nil
}

func (w *Watch) unlock() {
	if w.o.Lock == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sharing--
	if w.sharing == 0 {
		w.held.Close()
	}
}
