package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Guests that come from other hosts at the same time do not get the same CPUs, although
// libvirt lists none of them yet.
func TestComingGuestsDoNotShareCPUs(t *testing.T) {
	r, hv := guestRig(t, 1, 8, Observe, MarkedGuests)
	r.ticks(t, 1)
	ask := func(name string) (topology.CPUSet, error) {
		h, err := r.Place(t.Context(), api.Want{Name: name, Class: workload.Dedicated, CPUs: 4, Guest: true})
		return h.CPUs, err
	}
	a, err := ask("a")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ask("a"); err != nil || !again.Equal(a) {
		t.Errorf("asked again: %v, %v; was %v", again, err, a)
	}
	b, err := ask("b")
	if err != nil || a.Intersects(b) {
		t.Fatalf("a has %v, b %v: %v", a, b, err)
	}
	r.ticks(t, 2) // a look does not forget them
	var full *api.Error
	if c, err := ask("c"); !errors.As(err, &full) || full.Code != api.NoRoom {
		t.Errorf("c has %v, %v beside %v and %v", c, err, a, b)
	}
	// One comes and the other does not.
	v := dedicatedVM("a", 0, a.Slice()...)
	hv.vms = append(hv.vms, v)
	hv.start(v, 0)
	r.ticks(t, 1)
	r.clock.now = r.clock.now.Add(comesWithin + time.Second)
	r.ticks(t, 1)
	c, err := ask("c")
	if err != nil || !c.Equal(b) {
		t.Errorf("b did not come, and c has %v, %v", c, err)
	}
	r.clock.now = r.clock.now.Add(comesWithin + time.Second)
	r.ticks(t, 1)
	if n := len(r.view.plan.Placements); n != 1 {
		t.Errorf("%d homes, for one guest", n)
	}
}

// A saved guest that comes back is told a home where its own definition holds all CPUs.
func TestRestoredGuestIsNotInItsOwnWay(t *testing.T) {
	d := dedicatedVM("d", 0, 0, 1, 2, 3, 4, 5, 6, 7)
	r, _ := guestRig(t, 1, 8, Observe, MarkedGuests, d)
	r.ticks(t, 1)
	if len(r.view.plan.Placements) != 1 {
		t.Fatalf("%+v", r.view.plan.Placements)
	}
	h, err := r.Place(t.Context(), api.Want{Name: "d", Class: workload.Dedicated, CPUs: 8, Guest: true})
	if err != nil || h.CPUs.String() != "0-7" {
		t.Errorf("%v, %v", h.CPUs, err)
	}
}
