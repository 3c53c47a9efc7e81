package scene

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Follow decides which helpers follow the workloads that they serve, and which workloads follow their
// helpers. homes is the current placements.
func (s *Scene) Follow(by *Basis, homes []workload.Placement) {
	before := s.Following
	s.Following = nil
	if len(s.Helpers) == 0 || s.Snapshot.Host == nil {
		return
	}
	f := follower{
		scene: s, by: by, homes: homes, hosts: hostCgroups(by.Journal),
		helpers: map[workload.ID]*nearness.Helper{}, clients: map[workload.ID]nearness.Client{},
	}
	for _, id := range sortedKeys(s.Links) {
		for i := range s.Links[id] {
			f.link(id, &s.Links[id][i])
		}
	}
	following := make(map[workload.ID]nearness.Following, len(f.helpers))
	for id, h := range f.helpers {
		decided, known := nearness.Follow(h)
		was, had := before[id]
		if !known && had { // no workload has a home at the first scan
			decided, known = was, true
		}
		if known {
			following[id] = decided
		}
	}
	s.Following = following
}

// follower collects the helpers that links lead to, and the workloads that they serve.
type follower struct {
	scene   *Scene
	by      *Basis
	homes   []workload.Placement
	hosts   []string // see hostCgroups
	helpers map[workload.ID]*nearness.Helper
	clients map[workload.ID]nearness.Client
}

// link takes up a link of a workload. It counts only between owners that may serve each other: any
// user can connect a socket, and each user chooses the names of his programs.
func (f *follower) link(id workload.ID, l *Link) {
	if l.Helper.PID == 0 {
		return
	}
	at := f.scene.Helpers[ProcessKey(l.Helper)]
	if at == "" || at == id {
		return
	}
	c, o := f.scene.Observation(id), f.scene.Observation(at)
	if c != nil && !mayServe(c.Responsible(), o.Responsible()) {
		return
	}
	h := f.helper(o)
	n := len(h.Clients)
	listed := n > 0 && h.Clients[n-1].ID == id
	if c == nil || listed {
		return
	}
	client, known := f.clients[id]
	if !known {
		client = f.client(c)
		f.clients[id] = client
	}
	h.Clients = append(h.Clients, client)
}

// helper returns a workload as a helper.
func (f *follower) helper(o *workload.Observation) *nearness.Helper {
	h := f.helpers[o.ID]
	if h != nil {
		return h
	}
	_, why := f.stays(o)
	if why.None() && f.by.Settings.HelpersStay {
		why = words.Because(words.HelpersStay)
	}
	h = &nearness.Helper{Memory: workload.Total(o.Memory), Stays: why}
	f.helpers[o.ID] = h
	return h
}

// mayServe reports whether work of two owners counts as helper and client of each other.
func mayServe(a, b workload.Owner) bool { return workload.MayServe(a, b) && workload.MayServe(b, a) }

// client returns a workload as one that has a helper.
func (f *follower) client(o *workload.Observation) nearness.Client {
	spec, why := f.stays(o)
	c := nearness.Client{ID: o.ID, Memory: workload.Total(o.Memory), Stays: why}
	p := place.Of(f.homes, o.ID)
	if p != nil && p.Class != workload.Batch {
		c.Nodes = p.Home
	} else {
		c.Nodes = workload.RunsOn(o.RanOn)
	}
	if !c.Stays.None() {
		return c
	}
	var near []string
	for i := range spec.Near {
		n := &spec.Near[i]
		if n.Device != "" && f.scene.deviceNodes(n).Intersects(c.Nodes) {
			near = append(near, n.Device)
		}
	}
	if len(near) > 0 {
		c.Stays = words.Because(words.ClientNear, near)
	}
	return c
}

// deviceNodes returns the nodes of the device that a wish names.
func (s *Scene) deviceNodes(n *workload.Near) topology.NodeSet {
	d := s.Snapshot.Host.Device(n.Device)
	if d != nil && d.Node >= 0 {
		return topology.Nodes(d.Node)
	}
	return n.Nodes
}

// stays returns what is wanted for a workload, and why it is not moved; none when it may be.
func (f *follower) stays(o *workload.Observation) (spec workload.Spec, why words.Reason) {
	x := f.scene.subject(f.by, o, f.hosts, words.Reason{})
	switch {
	case !x.Alone.None():
		why = x.Alone
	case f.by.Work.Held(o.ID):
		why = words.Because(words.HeldByHand)
	case o.Pinned:
		why = words.Because(words.OwnAffinity, o.PinnedWhy)
	case x.Spec.Class != workload.Shared:
		why = words.Because(words.ClassMovesNot, string(x.Spec.Class))
	case x.Fixed:
		why = words.Because(words.MovesByOrder)
	case o.HasPolicy():
		why = words.Because(words.OwnPolicy, o.OwnPolicy)
	}
	return x.Spec, why
}
