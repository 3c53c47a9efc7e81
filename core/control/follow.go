package control

import (
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// follow decides who goes to whom of the helpers that links lead to and those that they work for.
func (s *State) follow() {
	before := s.Following
	s.Following = nil
	if len(s.Helpers) == 0 || s.Snapshot.Host == nil {
		return
	}
	helpers := map[workload.ID]*place.Helper{}
	for _, id := range sortedKeys(s.Links) {
		for _, l := range s.Links[id] {
			at := s.Helpers[processKey(l.Helper)]
			if l.Helper.PID == 0 || at == "" || at == id {
				continue
			}
			h := helpers[at]
			if h == nil {
				o := s.observation(at)
				h = &place.Helper{ID: at, Memory: workload.Total(o.Memory), Stays: s.stays(o)}
				if h.Stays.None() && s.Settings.HelpersStay {
					h.Stays = words.Because(words.HelpersStay)
				}
				helpers[at] = h
			}
			if n := len(h.Clients); n == 0 || h.Clients[n-1].ID != id {
				if c := s.observation(id); c != nil {
					h.Clients = append(h.Clients, s.client(c))
				}
			}
		}
	}
	following := make(map[workload.ID]place.Following, len(helpers))
	for id, h := range helpers {
		f, known := place.Follow(h)
		if was, had := before[id]; !known && had { // nobody has a home at the first scan
			f, known = was, true
		}
		if known {
			following[id] = f
		}
	}
	s.Following = following
}

// client is a workload that has a helper.
func (s *State) client(o *workload.Observation) place.Client {
	c := place.Client{ID: o.ID, Memory: workload.Total(o.Memory), Stays: s.stays(o)}
	if p := place.Of(s.Homes(), o.ID); p != nil && p.Class != workload.Offline {
		c.Nodes = p.Home
	} else {
		c.Nodes = workload.RunsOn(o.RanOn)
	}
	if !c.Stays.None() {
		return c
	}
	var near []string
	for _, n := range s.SpecOf(o).Near {
		if at := s.deviceNodes(&n); n.Device != "" && at.Intersects(c.Nodes) {
			near = append(near, n.Device)
		}
	}
	if len(near) > 0 {
		c.Stays = words.Because(words.ClientNear, near)
	}
	return c
}

// deviceNodes is where a device is.
func (s *State) deviceNodes(n *workload.Near) topology.NodeSet {
	all := s.Snapshot.Host.Devices
	if i := slices.IndexFunc(all, func(d topology.Device) bool { return n.Device != "" && (d.Name == n.Device || d.PCI == n.Device) }); i >= 0 && all[i].Node >= 0 {
		return topology.Nodes(all[i].Node)
	}
	return n.Nodes
}

// stays is why a workload is not moved; none when it may be.
func (s *State) stays(o *workload.Observation) words.Reason {
	x := s.subject(o, s.hostCgroups(), false)
	switch {
	case !x.Alone.None():
		return x.Alone
	case s.Holds.Has(o.ID):
		return words.Because(words.HeldByHand)
	case o.Pinned:
		return words.Because(words.OwnAffinity, o.PinnedWhy)
	case x.Spec.Class != workload.Shared:
		return words.Because(words.ClassMovesNot, string(x.Spec.Class))
	case x.Fixed:
		return words.Because(words.MovesByOrder)
	case o.OwnPolicy != "" && o.OwnPolicy != workload.PolicyUnknown:
		return words.Because(words.OwnPolicy, o.OwnPolicy)
	}
	return words.Reason{}
}
