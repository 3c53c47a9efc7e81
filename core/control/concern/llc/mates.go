package llc

import (
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Mates are workloads that belong into the same caches: the containers of a pod, a guest and the helpers that serve
// it, and work that should be near another. Threads of one workload, such as the vCPUs, emulator and vhost threads of
// a guest, are together anyway: its CPU set is for all of them.

// podOf returns the pod of a container by the path of its cgroup; "" for none.
func podOf(o *workload.Observation) workload.Owner {
	owner, ok := workload.CgroupOwner(o.Cgroup)
	if !ok || !strings.HasPrefix(string(owner), string(workload.PodOwner(""))) {
		return ""
	}
	return owner
}

// podOf is the pod of a workload, which is found again only when its cgroup is another one.
func (c *Calm) podOf(o *workload.Observation) workload.Owner {
	if c.cgroup != o.Cgroup {
		c.cgroup, c.pod = o.Cgroup, podOf(o)
	}
	return c.pod
}

// group is the work of a pod on one node.
type group struct{ members []*kept }

// partners are the workloads that should be near a workload, as a person, a link or its guest says.
func (x *kept) partners(yield func(workload.ID) bool) {
	for i := range x.Spec.Near {
		id := x.Spec.Near[i].Workload
		if id != "" && !yield(id) {
			return
		}
	}
}

// has reports whether another workload is a mate already.
func (x *kept) has(y *kept) bool {
	return (x.pod != nil && x.pod == y.pod) || slices.Contains(x.mates, y)
}

// findMates finds the mates of each workload on its node, and the caches of those that have CPUs of their own.
func (t *turn) findMates(mine []*kept) {
	t.findPods(mine)
	near := func(x *kept) bool { return len(x.Spec.Near) > 0 }
	if !slices.ContainsFunc(mine, near) {
		return
	}
	byID := make(map[workload.ID]*kept, len(mine))
	for _, x := range mine {
		byID[x.Observation.ID] = x
	}
	guests := t.dedicated()
	for _, x := range mine {
		for id := range x.partners {
			y := byID[id]
			if y != nil && y != x && y.node == x.node && !x.has(y) {
				x.mates = append(x.mates, y)
				y.mates = append(y.mates, x)
			}
			x.guests = x.guests.Union(guests[id].Intersect(x.node.all))
		}
	}
}

// findPods finds the work of each pod on each node.
func (t *turn) findPods(mine []*kept) {
	type at struct {
		node *node
		pod  workload.Owner
	}
	pods := map[at]*group{}
	for _, x := range mine {
		pod := x.calm.podOf(&x.Observation)
		if pod == "" {
			continue
		}
		g := pods[at{x.node, pod}]
		if g == nil {
			g = &group{}
			pods[at{x.node, pod}] = g
		}
		g.members = append(g.members, x)
		x.pod = g
	}
}

// dedicated returns the caches of each workload that has CPUs of its own.
func (t *turn) dedicated() map[workload.ID]topology.CacheSet {
	out := map[workload.ID]topology.CacheSet{}
	for i := range t.Plan.Placements {
		p := &t.Plan.Placements[i]
		if p.Class == workload.Dedicated {
			out[p.Workload] = p.CachesOn(t.Snapshot.Host)
		}
	}
	return out
}

// eachMate calls yield for each mate of a workload.
func (x *kept) eachMate(yield func(*kept)) {
	if x.pod != nil {
		for _, y := range x.pod.members {
			if y != x {
				yield(y)
			}
		}
	}
	for _, y := range x.mates {
		yield(y)
	}
}

// beside returns the caches that the mates of a workload have.
func (t *turn) beside(x *kept) topology.CacheSet {
	in := x.guests
	x.eachMate(func(y *kept) {
		if t.reports() {
			in = in.Union(y.calm.Would)
			return
		}
		in = in.Union(y.now)
	})
	return in
}
