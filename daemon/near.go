package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/workload"
)

// nearEvery is the time between two looks for what workloads use: it changes when
// they start.
const nearEvery = 30 * time.Second

// nearness is what workloads were found to use. Only the loop writes it; Daemon.mu
// guards it.
type nearness struct {
	at    time.Time
	links map[workload.ID][]link
	// helpers is the processes that links are to, with the workload each is part of, ""
	// for none.
	helpers map[workload.Process]workload.ID
}

// link is a link with its traffic.
type link struct {
	workload.Link
	at time.Time // of the counter
	// rate is what went through it, MiB/s, the lesser of the last two windows: what
	// pulls must have lasted for a minute. Below 0 when nothing counts it, 0 while unknown.
	rate float64
	last float64 // of the newest window; below 0 before the first
}

func (n *nearness) of(id workload.ID) []link { return n.links[id] }

// learnNear finds what workloads use, every nearEvery.
func (d *Daemon) learnNear(ctx context.Context, s workload.Snapshot) {
	now := d.o.Clock.Now()
	if d.o.Links == nil || !d.o.Config.Near.Learn || !d.near.at.IsZero() && now.Sub(d.near.at) < nearEvery {
		return
	}
	found, at := d.o.Links.Links(ctx, s.Host, s.Observations)
	next := nearness{at: now, links: map[workload.ID][]link{}, helpers: map[workload.Process]workload.ID{}}
	for id, links := range found {
		for i := range links {
			next.links[id] = append(next.links[id], follow(d.near.links[id], links[i], at[id]))
			if p := links[i].Helper; p.PID > 0 {
				next.helpers[p] = ""
			}
		}
	}
	d.mu.Lock()
	d.near = next
	d.mu.Unlock()
}

// follow gives a link the traffic since it was seen before.
func follow(before []link, l workload.Link, at time.Time) link {
	out := link{Link: l, at: at, last: -1}
	if !l.Counted {
		out.rate = -1
		return out
	}
	i := slices.IndexFunc(before, func(b link) bool { return b.Kind == l.Kind && b.Device == l.Device && b.Helper == l.Helper })
	if i < 0 {
		return out
	}
	b := before[i]
	seconds := at.Sub(b.at).Seconds()
	if seconds <= 0 { // not looked at since
		return b
	}
	out.last = max(0, float64(int64(l.Bytes-b.Bytes))/seconds/(1<<20)) // a counter may begin anew
	if b.last >= 0 {
		out.rate = min(b.last, out.last)
	}
	return out
}

// addLearned adds what was learned to wishes that name nothing. d.mu is held.
func (d *Daemon) addLearned(spec *workload.Spec, o *workload.Observation) {
	for _, l := range d.near.of(o.ID) {
		near, counts := place.Learned(o, &l.Link, l.rate)
		if !counts {
			continue
		}
		if l.Helper.PID > 0 {
			near.Workload = d.near.helpers[l.Helper]
		}
		if near.Workload != o.ID {
			spec.Near = append(spec.Near, near)
		}
	}
}

// locate finds the workloads that helpers are part of, all of them in one pass.
func (n *nearness) locate(all []workload.Observation) {
	if len(n.helpers) == 0 {
		return
	}
	for p := range n.helpers {
		n.helpers[p] = ""
	}
	for i := range all {
		for _, p := range all[i].Processes {
			if id, is := n.helpers[p]; is && id == "" {
				n.helpers[p] = all[i].ID
			}
		}
	}
}

// linksOf is the wire form of what a workload was found to use, and which of it
// counts. d.mu is held.
func (d *Daemon) linksOf(o *workload.Observation, spec *workload.Spec) []api.Link {
	var out []api.Link
	for _, l := range d.near.of(o.ID) {
		x := api.Link{Kind: l.Kind, Name: l.Name, PID: l.Helper.PID, Nodes: l.Nodes.String(), Evidence: l.Evidence}
		if l.Counted && l.last >= 0 {
			rate := l.rate
			x.MiBs = &rate
		}
		for _, n := range spec.Near {
			if n.Learned && n.Device == l.Device && n.Nodes.Equal(l.Nodes) {
				x.Weight = n.Weight
			}
		}
		out = append(out, x)
	}
	return out
}

// nearOf is what a workload was told to be near. The rest is learned.
func nearOf(spec *workload.Spec) []string {
	var out []string
	for _, n := range spec.Near {
		if !n.Learned {
			out = append(out, n.Device)
		}
	}
	return out
}
