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
	hosts := s.hostCgroups()
	helpers, clients := map[workload.ID]*place.Helper{}, map[workload.ID]place.Client{}
	for _, id := range sortedKeys(s.Links) {
		for _, l := range s.Links[id] {
			at := s.Helpers[processKey(l.Helper)]
			if l.Helper.PID == 0 || at == "" || at == id {
				continue
			}
			// By a socket that anybody may connect; what each program is called is its user's to say.
			c, o := s.observation(id), s.observation(at)
			if c != nil && !mayServe(c.Responsible(), o.Responsible()) {
				continue
			}
			h := helpers[at]
			if h == nil {
				_, why := s.stays(o, hosts)
				h = &place.Helper{ID: at, Memory: workload.Total(o.Memory), Stays: why}
				if h.Stays.None() && s.Settings.HelpersStay {
					h.Stays = words.Because(words.HelpersStay)
				}
				helpers[at] = h
			}
			if n := len(h.Clients); n == 0 || h.Clients[n-1].ID != id {
				if c != nil {
					if _, known := clients[id]; !known {
						clients[id] = s.client(c, hosts)
					}
					h.Clients = append(h.Clients, clients[id])
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

// mayServe reports whether work of two owners counts as helper and client of each other.
func mayServe(a, b workload.Owner) bool { return workload.MayServe(a, b) && workload.MayServe(b, a) }

// client is a workload that has a helper.
func (s *State) client(o *workload.Observation, hosts []string) place.Client {
	spec, why := s.stays(o, hosts)
	c := place.Client{ID: o.ID, Memory: workload.Total(o.Memory), Stays: why}
	if p := place.Of(s.Placements(), o.ID); p != nil && p.Class != workload.Batch {
		c.Nodes = p.Home
	} else {
		c.Nodes = workload.RunsOn(o.RanOn)
	}
	if !c.Stays.None() {
		return c
	}
	var near []string
	for _, n := range spec.Near {
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

// stays is what is wished for a workload, and why it is not moved; none when it may be.
func (s *State) stays(o *workload.Observation, hosts []string) (spec workload.Spec, why words.Reason) {
	x := s.subject(o, hosts, words.Reason{})
	switch {
	case !x.Alone.None():
		why = x.Alone
	case s.Holds.Has(o.ID):
		why = words.Because(words.HeldByHand)
	case o.Pinned:
		why = words.Because(words.OwnAffinity, o.PinnedWhy)
	case x.Spec.Class != workload.Shared:
		why = words.Because(words.ClassMovesNot, string(x.Spec.Class))
	case x.Fixed:
		why = words.Because(words.MovesByOrder)
	case o.OwnPolicy != "" && o.OwnPolicy != workload.PolicyUnknown:
		why = words.Because(words.OwnPolicy, o.OwnPolicy)
	}
	return x.Spec, why
}
