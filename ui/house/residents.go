package house

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// residentsOf is every workload, in the order of the Status.
func residentsOf(s *api.Status) []api.Resident {
	out := make([]api.Resident, 0, len(s.Workloads))
	for i := range s.Workloads {
		w := &s.Workloads[i]
		r := api.Resident{ID: string(w.ID), Name: short(w.Name), Count: 1, Class: w.Class, Tier: w.Tier, Home: w.Home,
			Caches: w.Caches, CPUs: w.CPUs, CPUUse: rough(w.CPUUse),
			MemoryKiB: int64(rounded(float64(w.MemoryKiB), 2)), ByNode: []api.NodeKiB{}, Locality: percent(w.Locality),
			After: percent(w.LocalityExpected), State: w.State}
		r.Group, r.Pod, r.Guest = namespaceOf(w.ID)
		for _, m := range w.MemoryByNode {
			// less than half a percent is not seen
			if kib := int64(rounded(float64(m.KiB), 2)); kib*200 >= w.MemoryKiB {
				r.ByNode = append(r.ByNode, api.NodeKiB{Node: m.Node, KiB: kib})
			}
		}
		if w.State != api.StateAtHome {
			r.Why = short(w.Why)
		}
		if m := w.Move; w.Moving() {
			r.Moved = &api.ResidentMove{Planned: m.Planned, Moved: m.Moved, Left: leftOf(m)}
		}
		out = append(out, r)
	}
	return out
}

// namespaceOf is what a workload is told with, where many are told together.
func namespaceOf(id workload.ID) (group string, pod, guest bool) {
	name := string(id)
	switch before, _, slash := strings.Cut(strings.TrimPrefix(name, "/"), "/"); {
	case strings.HasPrefix(name, "vm:"):
		return "guests", false, true
	case strings.HasPrefix(name, "pid:"):
		return "processes", false, false
	case strings.HasPrefix(name, "/"):
		return words.Printable(before), false, false
	case slash:
		return words.Printable(before), true, false
	}
	return "others", false, false
}

// weight is how large a resident is drawn, among others.
func weight(r *api.Resident) float64 { return float64(r.CPUs) + float64(r.MemoryKiB)/(4<<20) }

// grouped tells the largest of each home one by one, and the rest by namespace.
func grouped(all []api.Resident, nodes int) []api.Resident {
	order := make([]*api.Resident, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *api.Resident) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a.ID, b.ID))
	})
	each, away := max(drawnInHome, drawnInAll/max(1, nodes)), drawnAway
	drawn, groups := map[string]int{}, map[string][]*api.Resident{}
	out := []api.Resident{}
	for _, r := range order {
		switch {
		case !api.AtRest(r.State) && away > 0:
			away--
			out = append(out, *r)
		case api.AtRest(r.State) && r.Home != "" && drawn[r.Home] < each, r.Home == "" && drawn[""] < drawnInHome:
			drawn[r.Home]++
			out = append(out, *r)
		default:
			groups[r.Home] = append(groups[r.Home], r)
		}
	}
	for home, members := range groups {
		out = append(out, together(home, members)...)
	}
	slices.SortFunc(out, func(a, b api.Resident) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// together is one resident for each namespace of a home, the smallest namespaces as one.
func together(home string, members []*api.Resident) []api.Resident {
	byName := map[string][]*api.Resident{}
	for _, r := range members {
		byName[r.Group] = append(byName[r.Group], r)
	}
	names := slices.SortedFunc(maps.Keys(byName),
		func(a, b string) int { return cmp.Or(len(byName[b])-len(byName[a]), strings.Compare(a, b)) })
	if len(names) > groupsInHome {
		var rest []*api.Resident
		for _, name := range names[groupsInHome-1:] {
			rest = append(rest, byName[name]...)
			delete(byName, name)
		}
		names = append(names[:groupsInHome-1:groupsInHome-1], "")
		byName[""] = rest
	}
	var out []api.Resident
	for _, name := range names {
		out = append(out, sum(home, name, byName[name]))
	}
	return out
}

// leftOf is how many seconds a page move still takes; nil unknown.
func leftOf(m *plan.Move) *float64 {
	left, known := m.Left()
	if !known {
		return nil
	}
	return new(math.Ceil(left.Seconds()))
}

// residentsFor is the workloads that have text in their name or ID, of a group of a House; either
// may be "".
func residentsFor(s *api.Status, text, group string) api.Residents {
	all := residentsOf(s)
	if group != "" {
		home, name, _ := strings.Cut(strings.TrimPrefix(group, "group:"), ":")
		drawn := map[string]bool{}
		for _, r := range grouped(all, len(s.Nodes)) {
			drawn[r.ID] = true
		}
		all = slices.DeleteFunc(all, func(r api.Resident) bool {
			return r.Home != home || drawn[r.ID] || (name != "" && r.Group != name) ||
				(name == "" && drawn["group:"+home+":"+r.Group])
		})
	}
	text = strings.ToLower(text)
	all = slices.DeleteFunc(all, func(r api.Resident) bool {
		return !strings.Contains(strings.ToLower(r.Name), text) && !strings.Contains(strings.ToLower(r.ID), text)
	})
	slices.SortStableFunc(all, func(a, b api.Resident) int { return cmp.Compare(weight(&b), weight(&a)) })
	return api.Residents{Schema: "homenode-residents/2", Count: len(all), Residents: all[:min(len(all), mostFound)]}
}
