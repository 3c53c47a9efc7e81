package concerntest

import (
	"fmt"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Loop answers the questions of a concern from its fields, and logs its reports.
type Loop struct {
	Scene   *concern.Scene
	Facts   map[string]bool               // such as "held a", "busy a", "all held"
	Parts   map[workload.ID][]workload.ID // names that the observer has for a workload; its ID without an entry
	Starts  map[workload.ID]uint64
	Tries   map[work.Key]work.Retry
	Effects []work.Effect
	Saved   map[string]any
	Log     []string // of Event, Once, Over, Order, Ask, Reply, Adopt and SurveyAgain
}

// Is makes facts true, and all others false: "held a, busy b".
func (l *Loop) Is(facts string) {
	l.Facts = map[string]bool{}
	for fact := range strings.SplitSeq(facts, ", ") {
		l.Facts[fact] = true
	}
}

// Logged returns the lines of Log since the last call.
func (l *Loop) Logged() string {
	all := strings.Join(l.Log, "\n")
	l.Log = nil
	return all
}

func (l *Loop) about(what string, id workload.ID) bool { return l.Facts[what+" "+string(id)] }

func (l *Loop) log(format string, args ...any) { l.Log = append(l.Log, fmt.Sprintf(format, args...)) }

// Observation implements concern.Loop.
func (l *Loop) Observation(id workload.ID) *workload.Observation {
	for i := range l.Scene.Snapshot.Observations {
		o := &l.Scene.Snapshot.Observations[i]
		if o.ID == id {
			return o
		}
	}
	return nil
}

// Observed implements concern.Loop.
func (l *Loop) Observed(id workload.ID) []workload.ID {
	parts, ok := l.Parts[id]
	if !ok {
		return []workload.ID{id}
	}
	return parts
}

// OwnCgroup implements concern.Loop.
func (l *Loop) OwnCgroup(o *workload.Observation) string {
	if o.Kind != workload.InCgroup || l.about("managed", o.ID) {
		return ""
	}
	return o.Cgroup
}

// Start implements concern.Loop.
func (l *Loop) Start(o *workload.Observation) uint64 { return l.Starts[o.ID] }

// Homes implements concern.Loop.
func (l *Loop) Homes() []workload.Placement { return l.Scene.Plan.Placements }

// Held implements concern.Loop.
func (l *Loop) Held(id workload.ID) bool { return l.about("held", id) }

// AllHeld implements concern.Loop.
func (l *Loop) AllHeld() bool { return l.Facts["all held"] }

// Busy implements concern.Loop.
func (l *Loop) Busy(id workload.ID) bool { return l.about("busy", id) }

// Undoes implements concern.Loop.
func (l *Loop) Undoes(id workload.ID) bool { return l.about("undoes", id) }

// Settled implements concern.Loop.
func (l *Loop) Settled(id workload.ID) bool { return !l.about("unsettled", id) }

// Changing implements concern.Loop.
func (l *Loop) Changing(id workload.ID) bool { return l.about("changing", id) }

// Redefines implements concern.Loop.
func (l *Loop) Redefines(id workload.ID) bool { return l.about("redefines", id) }

// LeftAlone implements concern.Loop.
func (l *Loop) LeftAlone(o *workload.Observation, names []string) words.Reason {
	for _, name := range append(names, string(o.ID)) {
		if l.Facts["alone "+name] {
			return words.Because(words.NotIncluded)
		}
	}
	return words.Reason{}
}

// Halted implements concern.Loop.
func (l *Loop) Halted() words.Reason { return words.Because(words.ObserveOnly) }

// RetryOf implements concern.Loop.
func (l *Loop) RetryOf(key work.Key) work.Retry { return l.Tries[key] }

// Retries implements concern.Loop.
func (l *Loop) Retries(f func(work.Key, work.Retry)) {
	for key, r := range l.Tries {
		f(key, r)
	}
}

// Later implements concern.Loop.
func (l *Loop) Later(at time.Time) bool {
	left := at.Sub(l.Scene.At)
	return left > 0 && left <= work.RetryMost
}

// Again implements concern.Loop.
func (l *Loop) Again(key work.Key) bool {
	r := l.Tries[key]
	if l.Later(r.Next) {
		return false
	}
	l.Tries[key] = work.Retry{Failures: r.Failures + 1, Next: l.Scene.At.Add(work.RetryFirst)}
	return true
}

// SurveyAgain implements concern.Loop.
func (l *Loop) SurveyAgain(kind work.SurveyKind) { l.log("survey %v", kind) }

func textOf(e plan.Event, code words.Code, args []any) string {
	text := strings.TrimSpace(fmt.Sprint(e.Workload, " ", code))
	for _, arg := range args {
		text += fmt.Sprint(" ", arg)
	}
	if e.Error {
		text += " error"
	}
	return text
}

// Event implements concern.Loop.
func (l *Loop) Event(e plan.Event, code words.Code, args ...any) {
	l.log("event %s", textOf(e, code, args))
}

// Order implements concern.Loop.
func (l *Loop) Order(id workload.ID, code words.Code, args ...any) {
	l.log("order %s", textOf(plan.Event{Workload: id}, code, args))
}

// Once implements concern.Loop.
func (l *Loop) Once(key string, e plan.Event, code words.Code, args ...any) {
	l.log("once [%s] %s", key, textOf(e, code, args))
}

// Over implements concern.Loop.
func (l *Loop) Over(key string) { l.log("over [%s]", key) }

// Save implements concern.Loop.
func (l *Loop) Save(key string, value any) { l.Saved[key] = value }

// Ask implements concern.Loop.
func (l *Loop) Ask(e work.Effect) uint64 {
	l.Effects = append(l.Effects, e)
	l.log("ask %s", e.Kind)
	return l.Asked()
}

// Asked implements concern.Loop.
func (l *Loop) Asked() uint64 { return uint64(len(l.Effects)) }

// Reply implements concern.Loop.
func (l *Loop) Reply(id uint64, f *work.Failure, answer any) {
	if f != nil {
		l.log("reply %d %s: %s", id, f.Code, f.Text)
		return
	}
	l.log("reply %d %+v", id, answer)
}

// Adopt implements concern.Loop.
func (l *Loop) Adopt(id workload.ID, kind plan.SettingKind, path, value string) {
	l.log("adopt %s %s %s: %s", id, kind, path, value)
	l.Scene.Journal.Put(plan.Entry{
		Seq: 1 << 20, Workload: id, Kind: kind, Path: path, New: value, State: plan.Applied,
	})
}
