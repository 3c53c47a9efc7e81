package scene

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Linked takes up what workloads were found to use. read is when the counters of each were read.
func (s *Scene) Linked(found map[workload.ID][]workload.Link, read map[workload.ID]time.Time) {
	links, helpers := map[workload.ID][]Link{}, map[ProcessKey]workload.ID{}
	for id, its := range found {
		vhost := 0.0
		o := s.Observation(id)
		if o != nil {
			vhost = o.Vhost.CPUUse
		}
		for _, l := range its {
			links[id] = append(links[id], counted(s.Links[id], l, read[id], vhost))
			if l.Helper.PID > 0 {
				helpers[ProcessKey(l.Helper)] = ""
			}
		}
	}
	s.Links, s.Helpers = links, helpers
	s.LocateHelpers()
}

// counted gives a link the traffic since its last reading, and vhost, the CPUs that the vhost threads
// of its workload use.
func counted(before []Link, l workload.Link, at time.Time, vhost float64) Link {
	out := Link{Link: l, At: at, Last: -1}
	if l.Vhost {
		out.VhostLast = vhost
	}
	if !l.Counted {
		out.Rate = -1
		return out
	}
	i := slices.IndexFunc(before, func(b Link) bool {
		return b.Kind == l.Kind && b.Device == l.Device && b.Helper == l.Helper
	})
	if i < 0 {
		return out
	}
	b := before[i]
	seconds := at.Sub(b.At).Seconds()
	if seconds <= 0 { // not read since
		return b
	}
	out.Last = max(0, float64(int64(l.Bytes-b.Bytes))/seconds/(1<<20)) // a counter may begin anew
	if b.Last >= 0 {
		out.Rate = min(b.Last, out.Last)
		out.VhostUse = min(b.VhostLast, out.VhostLast)
	}
	return out
}

// VhostUse returns the share of one link in the CPUs that the vhost threads of its workload use, by
// the traffic of each link.
func VhostUse(links []Link, i int) float64 {
	sum := 0.0
	for k := range links {
		if links[k].VhostUse > 0 {
			sum += links[k].Rate
		}
	}
	if sum <= 0 {
		return 0
	}
	return links[i].VhostUse * links[i].Rate / sum
}

// LocateHelpers finds the workloads that helpers are part of, all of them in one pass.
func (s *Scene) LocateHelpers() {
	if len(s.Helpers) == 0 {
		return
	}
	helpers := make(map[ProcessKey]workload.ID, len(s.Helpers)) // readers have the old one
	for p := range s.Helpers {
		helpers[p] = ""
	}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		for _, p := range o.Processes {
			id, is := helpers[ProcessKey(p)]
			if is && id == "" {
				helpers[ProcessKey(p)] = o.ID
			}
		}
	}
	s.Helpers = helpers
}
