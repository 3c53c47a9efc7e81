package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Find is the running workload that a name means (workload.Find), with what the kernel says
// of it where it is a process.
func (v *View) Find(name workload.ID, of workload.Lineage) (*workload.Observation, *Failure) {
	all := v.Snapshot.Observations
	id, f := find(running(all, v.Claims), name, of)
	if f != nil {
		return nil, v.smaller(f, name, of)
	}
	return &all[slices.IndexFunc(all, func(o workload.Observation) bool { return o.ID == id })], nil
}

// FindKnown is the ID that a name means, of what runs, of what stands in the journal or is
// held, and of others that somebody remembers.
func (v *View) FindKnown(name workload.ID, of workload.Lineage, others ...workload.ID) (workload.ID, *Failure) {
	id, f := find(known(v.Snapshot.Observations, v.Claims, v.Journal, v.Holds.IDs, others), name, of)
	return id, v.smaller(f, name, of)
}

// smaller says of what was not found that it was moved by itself or is too small, where it is.
func (v *View) smaller(f *Failure, name workload.ID, of workload.Lineage) *Failure {
	if f == nil || f.Code != NotFound {
		return f
	}
	if pid, isPID := workload.PIDOf(string(name)); isPID {
		id := workload.ID(fmt.Sprintf("pid:%d", pid))
		if slices.ContainsFunc(v.Journal, func(e plan.Entry) bool { return e.Workload == id }) {
			return refuse(NotFound, words.ProcessMoved, pid, pid)
		}
	}
	all := make([]workload.Named, len(v.Snapshot.Smaller))
	for i, x := range v.Snapshot.Smaller {
		all[i] = workload.NamedByID(x.ID)
		all[i].Name, all[i].Cgroup = x.Name, x.Cgroup
	}
	found := workload.Find(all, string(name), of)
	if len(found) != 1 {
		return f
	}
	i := slices.IndexFunc(all, func(n workload.Named) bool { return n.ID == found[0] })
	x := &v.Snapshot.Smaller[i]
	if pid, isPID := workload.PIDOf(string(name)); isPID && string(x.ID) != fmt.Sprintf("pid:%d", pid) {
		return refuse(NotFound, words.SmallerHolds, pid, candidates(all, found), int64(x.Memory), x.CPUUse)
	}
	return refuse(NotFound, words.SmallerNamed, string(x.ID), int64(x.Memory), x.CPUUse)
}

// means puts the ID of the one workload that is meant in the place of its name.
func (s *State) means(which *Which, of workload.Lineage) (f *Failure) {
	if which.All {
		return nil
	}
	if which.ID == "" {
		return refuse(BadRequest, words.NameOrAll)
	}
	// What was placed since the newest scan is in none of the others.
	which.ID, f = find(known(s.Snapshot.Observations, s.Claims, s.Journal.All(), s.Holds.IDs, sortedKeys(s.Admissions)), which.ID, of)
	return f
}

// running is what runs by all its names.
func running(all []workload.Observation, claims map[workload.ID]*workload.Claim) []workload.Named {
	out := make([]workload.Named, len(all))
	for i := range all {
		out[i] = workload.NamedOf(&all[i])
		if c := claims[all[i].ID]; c != nil {
			if out[i].Also = c.Also; c.Part != nil { // its process names the whole
				out[i].Processes = nil
			}
		}
	}
	return out
}

// known is running with what was claimed, changed, held or remembered and does not run.
func known(all []workload.Observation, claims map[workload.ID]*workload.Claim, journal []plan.Entry, holds map[workload.ID]bool, others []workload.ID) []workload.Named {
	out := running(all, claims)
	have := make(map[workload.ID]bool, len(out))
	for i := range out {
		have[out[i].ID] = true
	}
	add := func(n workload.Named) {
		if n.ID != "" && !have[n.ID] {
			have[n.ID] = true
			out = append(out, n)
		}
	}
	for id, c := range claims {
		add(workload.Named{ID: id, Name: c.Name, Also: c.Also})
	}
	for _, e := range journal {
		add(workload.NamedByID(e.Workload))
	}
	for id := range holds {
		add(workload.NamedByID(id))
	}
	for _, id := range others {
		add(workload.NamedByID(id))
	}
	return out
}

func find(all []workload.Named, name workload.ID, of workload.Lineage) (workload.ID, *Failure) {
	if name == "" {
		return "", refuse(BadRequest, words.NameWorkload)
	}
	switch found := workload.Find(all, string(name), of); len(found) {
	case 0:
		return "", notFound(all, name, of)
	case 1:
		return found[0], nil
	default:
		return "", refuse(BadRequest, words.SeveralNamed, string(name), len(found), candidates(all, found))
	}
}

// mostCandidates is how many are listed: a line or two.
const mostCandidates = 8

// candidates is workloads for a person to choose from.
func candidates(all []workload.Named, ids []workload.ID) string {
	var out []string
	for _, id := range ids[:min(len(ids), mostCandidates)] {
		text := string(id)
		if i := slices.IndexFunc(all, func(n workload.Named) bool { return n.ID == id }); strings.HasPrefix(text, "pid:") && all[i].Name != "" {
			text += " (" + all[i].Name + ")"
		}
		out = append(out, text)
	}
	text := strings.Join(out, ", ")
	if more := len(ids) - len(out); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// mostShown is how much of a name that means nothing is repeated, in bytes.
const mostShown = 80

// notFound is why a name means nothing, with those that are like it.
func notFound(all []workload.Named, name workload.ID, of workload.Lineage) *Failure {
	if device, ok := strings.CutPrefix(string(name), "device:"); ok {
		return refuse(NotFound, words.NoSuchDevice, device)
	}
	if pid, ok := workload.PIDOf(string(name)); ok {
		if len(of.PIDs) == 0 {
			return refuse(NotFound, words.NoSuchProcess, pid)
		}
		return refuse(NotFound, words.ProcessOfNone, pid)
	}
	if near := workload.Alike(all, string(name)); near != nil {
		return refuse(NotFound, words.UnknownNear, string(name), candidates(all, near))
	}
	shown := string(name)
	if len(shown) > mostShown {
		shown = strings.ToValidUTF8(shown[:mostShown], "") + "…"
	}
	return refuse(NotFound, words.UnknownWorkload, shown)
}
