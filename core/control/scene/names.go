package scene

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Running returns the workloads that run, each by all its names.
func Running(all []workload.Observation, claims map[workload.ID]*workload.Claim) []workload.Named {
	out := make([]workload.Named, len(all))
	for i := range all {
		out[i] = workload.NamedOf(&all[i])
		c := claims[all[i].ID]
		if c == nil {
			continue
		}
		out[i].Also = c.Also
		if c.Part != nil { // its process names the whole
			out[i].Processes = nil
		}
	}
	return out
}

// Remembered is the workloads that a name may mean although they do not run.
type Remembered struct {
	Claims  map[workload.ID]*workload.Claim
	Journal []plan.Entry
	Held    map[workload.ID]bool
	Others  []workload.ID
}

// Known returns the workloads that run, and those that are remembered.
func Known(all []workload.Observation, also Remembered) []workload.Named {
	out := Running(all, also.Claims)
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
	for id, c := range also.Claims {
		add(workload.Named{ID: id, Name: c.Name, Also: c.Also})
	}
	for i := range also.Journal {
		add(workload.NamedByID(also.Journal[i].Workload))
	}
	for id := range also.Held {
		add(workload.NamedByID(id))
	}
	for _, id := range also.Others {
		add(workload.NamedByID(id))
	}
	return out
}

// Unfound is why a name means no single workload.
type Unfound struct {
	None bool // it means none; else it is no name, or it means several
	Why  words.Reason
}

// Find returns the one workload that a name means.
func Find(all []workload.Named, name workload.ID, of workload.Lineage) (workload.ID, *Unfound) {
	if name == "" {
		return "", &Unfound{Why: words.Because(words.NameWorkload)}
	}
	found := workload.Find(all, string(name), of)
	switch len(found) {
	case 0:
		return "", &Unfound{None: true, Why: notFound(all, name, of)}
	case 1:
		return found[0], nil
	default:
		return "", &Unfound{Why: words.Because(words.SeveralNamed, string(name), len(found), candidates(all, found))}
	}
}

// mostCandidates is how many workloads are listed: a line or two.
const mostCandidates = 8

// candidates lists workloads for a person to choose from.
func candidates(all []workload.Named, ids []workload.ID) string {
	var out []string
	for _, id := range ids[:min(len(ids), mostCandidates)] {
		text := string(id)
		i := slices.IndexFunc(all, func(n workload.Named) bool { return n.ID == id })
		if OfProcess(id) && all[i].Name != "" {
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

// mostShown is how much of an unknown name is repeated, in bytes.
const mostShown = 80

// notFound returns why a name means nothing, with the names that are similar.
func notFound(all []workload.Named, name workload.ID, of workload.Lineage) words.Reason {
	device, ok := strings.CutPrefix(string(name), "device:")
	if ok {
		return words.Because(words.NoSuchDevice, device)
	}
	pid, ok := workload.PIDOf(string(name))
	if ok {
		if len(of.PIDs) == 0 {
			return words.Because(words.NoSuchProcess, pid)
		}
		return words.Because(words.ProcessOfNone, pid)
	}
	near := workload.Alike(all, string(name))
	if near != nil {
		return words.Because(words.UnknownNear, string(name), candidates(all, near))
	}
	shown := string(name)
	if len(shown) > mostShown {
		shown = strings.ToValidUTF8(shown[:mostShown], "") + "…"
	}
	return words.Because(words.UnknownWorkload, shown)
}

// Smaller returns why a name means no workload when it means a process that was moved by itself, or
// work that is too small to be one; none when it means neither.
func Smaller(snap *workload.Snapshot, journal []plan.Entry, name workload.ID, of workload.Lineage) words.Reason {
	pid, isPID := workload.PIDOf(string(name))
	if isPID {
		id := ProcessID(pid)
		if slices.ContainsFunc(journal, func(e plan.Entry) bool { return e.Workload == id }) {
			return words.Because(words.ProcessMoved, pid, pid)
		}
	}
	all := make([]workload.Named, len(snap.Smaller))
	for i, x := range snap.Smaller {
		all[i] = workload.NamedByID(x.ID)
		all[i].Name, all[i].Cgroup = x.Name, x.Cgroup
	}
	found := workload.Find(all, string(name), of)
	if len(found) != 1 {
		return words.Reason{}
	}
	i := slices.IndexFunc(all, func(n workload.Named) bool { return n.ID == found[0] })
	x := &snap.Smaller[i]
	if isPID && x.ID != ProcessID(pid) {
		return words.Because(words.SmallerHolds, pid, candidates(all, found), int64(x.Memory), x.CPUUse)
	}
	return words.Because(words.SmallerNamed, string(x.ID), int64(x.Memory), x.CPUUse)
}
