package api

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Refusals counts which parties were refused because they had, or asked for, as much as one party
// may. The status has a sentence about each for refusedFor. The zero value is ready; a nil
// *Refusals counts nothing.
type Refusals struct {
	mu sync.Mutex
	by map[refusedParty]*refusedTimes
}

type refusedParty struct {
	who  workload.Owner
	what words.Code
}

type refusedTimes struct {
	n    int
	last time.Time
}

const (
	refusedFor = 10 * time.Minute
	// mostRefused bounds the parties that are counted: status shows them, and a person reads it.
	mostRefused = 16
)

var (
	refusedConnection = words.ConnectionsRefused
	refusedRequest    = words.RequestsRefused
)

// add counts one refusal.
func (r *Refusals) add(who workload.Owner, what words.Code) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	key := refusedParty{who, what}
	t := r.by[key]
	if t == nil {
		r.forget(now)
		if len(r.by) >= mostRefused {
			return
		}
		if r.by == nil {
			r.by = map[refusedParty]*refusedTimes{}
		}
		t = &refusedTimes{}
		r.by[key] = t
	}
	t.n++
	t.last = now
}

func (r *Refusals) forget(now time.Time) {
	maps.DeleteFunc(r.by, func(_ refusedParty, t *refusedTimes) bool { return now.Sub(t.last) > refusedFor })
}

// sentences returns what the status has to say, in a fixed order.
func (r *Refusals) sentences() (out []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	for key, t := range r.by {
		out = append(out, words.Because(key.what, words.Printable(key.who.String()), t.n).String())
	}
	slices.Sort(out)
	return out
}
