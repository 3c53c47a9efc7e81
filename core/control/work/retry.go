package work

import (
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// silence leaves a workload alone of which a call did not return, or whose processes did not freeze.
func (w *Work) silence(id workload.ID, target string, f *Failure) {
	q := w.Silent[id]
	wait := backoff(q.Failures)
	w.Silent[id] = Silent{
		Failures: q.Failures + 1,
		Until:    w.At.Add(wait),
		Text:     f.Text,
		Code:     f.Code,
		Wait:     wait,
		Target:   target,
	}
}

// putOff notes when a step may be tried again, and returns whether its last failure had the same text.
func (w *Work) putOff(step *plan.Step, code Code, text string) (wait time.Duration, repeated bool) {
	key := KeyOf(step)
	r := w.Retries[key]
	wait = backoff(r.Failures)
	m, ok := w.Moves[step.Workload]
	sameMove := ok && step.Kind.MovesPages() && m.Home == step.To
	if sameMove && immovable(&m) {
		wait = RetryMost
	}
	w.Retries[key] = Retry{Failures: r.Failures + 1, Next: w.At.Add(wait), Text: text, Code: code}
	return wait, r.Text == text
}

// TryAgain lets what was put off be tried at the next scan.
func (w *Work) TryAgain(id workload.ID) {
	delete(w.Tried, id)
	maps.DeleteFunc(w.Retries, func(key Key, _ Retry) bool { return key.Workload == id })
	delete(w.Silent, id)
	delete(w.Overwrites, id)
}

// Failing reports whether a step of a workload has failed and is tried again.
func (w *Work) Failing(id workload.ID) bool {
	for key := range w.Retries {
		if key.Workload == id {
			return true
		}
	}
	return false
}

// Forget forgets what failed long ago, or of workloads that are gone. another has the workloads whose ID
// is another one's now; at returns the ID that a target has now, or "".
func (w *Work) Forget(gone func(workload.ID) bool, another map[workload.ID]bool, at func(target string) workload.ID) {
	for id, t := range w.Tasks { // another one may be in its cgroup by now
		givesCPUs := func(step plan.Step) bool { return step.Kind.GivesCPUs() }
		if t.Request == 0 && slices.ContainsFunc(t.Steps, givesCPUs) && gone(id) {
			t.Cancelled = true
		}
	}
	dropGone(w.Moves, gone)
	dropGone(w.Narrowed, gone)
	w.keepSilent(gone, at)
	maps.DeleteFunc(w.Overwrites, func(id workload.ID, x Overwrite) bool {
		return another[id] || w.At.Sub(x.Last).Abs() >= GiveInFor
	})
	maps.DeleteFunc(w.Retries, func(key Key, r Retry) bool {
		return another[key.Workload] || w.At.Sub(r.Next) > RetryMost
	})
}

func dropGone[V any](m map[workload.ID]V, gone func(workload.ID) bool) {
	maps.DeleteFunc(m, func(id workload.ID, _ V) bool { return gone(id) })
}

// keepSilent has what is left alone stay so under the ID that its cgroup or process has by now:
// nothing is begun there.
func (w *Work) keepSilent(gone func(workload.ID) bool, at func(target string) workload.ID) {
	for _, id := range sortedKeys(w.Silent) {
		q := w.Silent[id]
		if w.At.Sub(q.Until) > RetryMost {
			delete(w.Silent, id)
			continue
		}
		if !gone(id) {
			continue
		}
		delete(w.Silent, id)
		now := at(q.Target)
		if now != "" && !w.Silent[now].Until.After(q.Until) {
			w.Silent[now] = q
		}
	}
}

// immovable reports whether a part of the memory that counts (see package place) was
// left behind for reasons that last.
func immovable(m *plan.Move) bool {
	var lasting int64
	for _, x := range m.RefusedBy {
		if x.Cause.Lasts() {
			lasting += x.Bytes
		}
	}
	return lasting*100 >= m.Planned && lasting > 0
}
