package libvirt

import (
	"context"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
)

// All is all guests that libvirt knows now, running or not, by name; a running one as it
// runs, another as it will start; and those that cannot be understood.
func (w *Watch) All(ctx context.Context, h *topology.Host) (guests []guest.Guest, unread []guest.Unread, err error) {
	if err := w.Look(ctx); err != nil {
		return nil, nil, err
	}
	seen, unread := w.Guests(h)
	for i := range seen {
		guests = append(guests, seen[i].Known())
	}
	return guests, unread, nil
}

// Define makes a new guest known to libvirt. It starts nothing.
func (w *Watch) Define(ctx context.Context, xml []byte) error {
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	return c.define(ctx, xml)
}
