package main

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// How the ledger is followed: each event of the daemon has it asked at once, and it is asked
// all the same between events, for a home that is held leaves none, and what a scan sees need not.
// Half a second, so that the change is published within one.
const (
	askEvery    = 500 * time.Millisecond
	silentAfter = 5 * time.Second // without an answer devices get a taint
	renewAgain  = 5 * time.Second // after a renewal that failed
)

// perSlice is the devices of one slice: the most that one with such devices may have.
const perSlice = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// publisher keeps the node's slices as the ledger is.
type publisher struct {
	d       *driver
	offer   offer
	publish func(context.Context, resourceslice.DriverResources) error

	headroom *headroom // nil tells nobody what batch work may have

	room   api.Room
	told   []resourceapi.Device
	answer time.Time // of the daemon
	renew  time.Time // when all is to be booked again
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	changed, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	go p.d.follow(ctx, changed, gone)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		p.once(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		case <-gone:
			p.renew = time.Time{} // the one that comes may know nothing of claims
		}
	}
}

// follow says that something happened, and that all is to be booked again (the daemon has gone, or
// CPUs went offline or came online), until ctx ends.
func (d *driver) follow(ctx context.Context, changed, gone chan<- struct{}) {
	say := func(to chan<- struct{}) {
		select {
		case to <- struct{}{}:
		default: // it is said already
		}
	}
	for ctx.Err() == nil {
		say(gone) // or one has come and gone since the last try
		d.daemon.Events(ctx, func(e plan.Event) error {
			say(changed)
			if e.Code == words.CPUsOffline || e.Code == words.CPUsOnline {
				say(gone) // all claims are booked again: some may have lost CPUs, or have them back
			}
			d.tellPod(ctx, &e)
			d.evictPod(ctx, &e)
			return nil
		})
		say(gone)
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// once asks what is left and publishes it when it is news.
func (p *publisher) once(ctx context.Context, now time.Time) {
	room, err := p.d.daemon.Room(ctx, claimPrefix)
	switch {
	case err != nil || room.Host == nil:
		if p.room.Host == nil || now.Sub(p.answer) < silentAfter {
			return
		}
		if !p.offer.silent {
			klog.ErrorS(err, "The daemon does not answer; its NUMA nodes are not offered until it does")
		}
		p.offer.silent = true
	default:
		p.room = room
		p.answer = now
		p.offer.silent = false
		if !now.Before(p.renew) {
			p.renew = now.Add(renewEvery)
			if err := p.d.renew(ctx); err != nil {
				klog.ErrorS(err, "Book the claims again")
				p.renew = now.Add(renewAgain)
			}
		}
	}
	if p.headroom != nil {
		milli := batchMilli(&p.room)
		if p.offer.silent {
			milli = 0
		}
		p.headroom.tell(ctx, now, milli)
	}
	p.offer.contradicted = ""
	if p.d.managers == refuse {
		p.offer.contradicted = p.d.static()
	}
	next := devices(&p.room, p.offer)
	steady(p.told, next, p.total)
	if p.told != nil && resourceslice.DevicesDeepEqual(p.told, next) {
		return
	}
	var all []resourceslice.Slice
	for part := range slices.Chunk(next, perSlice) {
		all = append(all, resourceslice.Slice{Devices: part})
	}
	if err := p.publish(ctx,
		resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{p.d.pool: {Slices: all}}}); err != nil {
		klog.ErrorS(err, "Publish the devices")
		return
	}
	p.told = next
}

// total is the memory of a device's node, in bytes.
func (p *publisher) total(device string) int64 {
	for _, n := range p.room.Host.Nodes {
		if deviceName(n.ID) == device && n.Memory != topology.None {
			return int64(n.Memory) << 10
		}
	}
	return 0
}
