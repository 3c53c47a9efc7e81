package libvirt

import (
	"context"
	"errors"
	"fmt"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// definition is what libvirt has written down of a guest. secure is with the passwords in
// it, which a define would else take away.
func (w *Watch) definition(ctx context.Context, name string, secure bool) (*domain.Document, *Client, error) {
	c, err := w.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	path, err := c.lookup(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	persistent, err := c.persistent(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if !persistent {
		return nil, nil, fmt.Errorf("guest %q: %w", name, gone("it has no definition"))
	}
	flags := xmlInactive
	if secure {
		flags |= xmlSecure
	}
	d, err := c.xml(ctx, path, flags)
	return d, c, err
}

// changesNext is what a new next start changes of a definition: where the guest is, and
// what it is to homenode when it is released.
func (w *Watch) changesNext(ctx context.Context, name string, cell int, next string) ([]plan.Change, error) {
	d, _, err := w.definition(ctx, name, false)
	if err != nil {
		return nil, err
	}
	was, err := d.Next()
	if err != nil {
		return nil, err
	}
	setting := func(kind plan.SettingKind, value string) plan.Setting {
		return plan.Setting{Kind: kind, Path: name, Value: value, Object: d.UUID()}
	}
	var out []plan.Change
	is, will := d.About(), next
	if err = w.edit(d, cell, next, nil); err == nil {
		will, err = d.Next()
	}
	if becomes := d.About(); is != "" && is != becomes {
		out = append(out, plan.Change{Setting: setting(plan.GuestMark, is), Will: becomes})
	}
	if errors.Is(err, plan.ErrForeign) { // what is there now tells who asks
		err = nil
	}
	return append(out, plan.Change{Setting: setting(plan.GuestDefinition, was), Will: will}), err
}

// applyNext writes into a definition where its guest is started next; "" takes homenode's
// bindings and mark off. mark is what it is then, nil for what it is now. again is for what was homenode's.
func (w *Watch) applyNext(ctx context.Context, name string, cell int, next string, mark *domain.Mark,
	again bool) error {
	d, c, err := w.definition(ctx, name, true)
	if err != nil {
		return err
	}
	if _, marked := d.Mark(); again && next != "" && !marked && mark == nil { // another of the same name, or released
		return fmt.Errorf("%w: its definition has no mark any more", errOthers)
	}
	before := d.String()
	if err := w.edit(d, cell, next, mark); err != nil {
		return err
	}
	if d.String() == before {
		return nil
	}
	want, err := d.Next()
	if err != nil {
		return err
	}
	if err := c.define(ctx, d.Bytes()); err != nil {
		return err
	}
	if d, _, err = w.definition(ctx, name, false); err != nil {
		return err
	}
	if now, err := d.Next(); err != nil || now != want {
		return errors.Join(err, fmt.Errorf("its definition was to be %q and is %q", want, now))
	}
	return nil
}

// edit writes a next start into a definition, or that of a cell, as far as it is homenode's.
func (w *Watch) edit(d *domain.Document, cell int, next string, mark *domain.Mark) error {
	have, marked := d.Mark()
	if next == "" && !marked { // it is nobody's, or somebody else's
		return nil
	}
	if err := mayChange(d); err != nil {
		return err
	}
	if next == "" {
		d.Release()
		return nil
	}
	n, err := guest.ParseNext(next)
	if err != nil {
		return err
	}
	if cell >= 0 {
		return d.PlaceCell(cell, n)
	}
	switch {
	case mark != nil:
	case marked:
		mark = &have
	default:
		m, err := d.NewMark()
		if err != nil {
			return err
		}
		if len(n.Pins) > 0 {
			m.Class = workload.Dedicated
		}
		m.Composed = len(n.Pins) == 0 && len(n.VCPUs) > 0 && len(n.Cells) > 1 // it is to see NUMA nodes
		mark = &m
	}
	if n.Near != nil {
		mark.Near = *n.Near
	}
	if pinned := len(n.Pins) > 0; !mark.Composed &&
		(pinned != (mark.Class == workload.Dedicated) || (!pinned && len(n.VCPUs) > 0)) {
		return fmt.Errorf("it is %s, and %q is no next start for that", mark.Class, next)
	}
	w.mu.Lock()
	h := w.host
	w.mu.Unlock()
	return d.PlaceNext(h, n, *mark)
}
