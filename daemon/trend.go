package daemon

import (
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// trendStep is the time between two points of a Trend: a curve of 15 minutes has 180, about one for
// each column of a wide terminal and for each four pixels of the page.
const trendStep = 5 * time.Second

// gapFrom is the time without a scan from which a Trend has a gap, and not the newest figure.
const gapFrom = 4 * trendStep

// Trend collects an api.Trend: what a View says, and the events. Its slices are appended to and
// never changed, so that a View may have them.
type Trend struct {
	now  *api.Trend // nil before the first scan
	last time.Time  // of the newest scan that was taken
}

// The states of a plan.Move that matter here.
const (
	moveRunning = "running"
	movePaused  = "paused"
	moveDone    = "done"
)

// Hear counts page moves that have ended.
func (t *Trend) Hear(e *plan.Event) {
	known := e.Code == words.LocalityChanged || e.Code == words.LocalityAfterMove // that move was counted when it ended
	if t.now == nil || e.Move == nil || known || e.Move.State == moveRunning || e.Move.State == movePaused {
		return
	}
	next := *t.now
	next.MovedBytes += e.Move.Moved
	if e.Move.State == moveDone {
		next.Moves++
		next.MovedAt = append(next.MovedAt, e.Time)
	}
	t.now = &next
}

// Look takes what a scan saw, once, and returns the Trend with it; nil before the first.
func (t *Trend) Look(v *control.View) *api.Trend {
	if v.At.IsZero() || v.Scans == 0 || v.At.Equal(t.last) {
		return t.now
	}
	gap := v.At.Sub(t.last)
	t.last = v.At
	local, slack := onlineLocality(v), leastSlack(v)
	// the clock was set, or nothing was seen for longer than the curve goes back
	if t.now != nil && (gap < 0 || gap > api.TrendSpan) {
		next := *t.now
		next.From = v.At
		next.Local = []*float64{local}
		next.MovedAt = []time.Time{}
		next.Slack = withSlack(nil, 0, slack)
		if next.Since.After(v.At) {
			next.Since = v.At
		}
		t.now = &next
		return t.now
	}
	if t.now == nil {
		t.now = &api.Trend{Since: v.At, First: local, From: v.At, StepS: trendStep.Seconds(), Local: []*float64{local},
			MovedAt: []time.Time{}}
		t.now.Slack = withSlack(nil, 0, slack)
		return t.now
	}
	next := *t.now
	at := next.From.Add(time.Duration(len(next.Local)) * trendStep)
	unseen := v.At.Sub(at) > gapFrom
	for ; !at.After(v.At); at = at.Add(trendStep) {
		point, left := local, slack
		if unseen && v.At.Sub(at) >= trendStep {
			point, left = nil, nil
		}
		next.Slack = withSlack(next.Slack, len(next.Local), left)
		next.Local = append(next.Local, point)
	}
	const most = int(api.TrendSpan/trendStep) + 1
	if old := len(next.Local) - most; old > 0 {
		next.Local, next.From = slices.Clone(next.Local[old:]), next.From.Add(time.Duration(old)*trendStep)
		next.MovedAt = slices.DeleteFunc(slices.Clone(next.MovedAt), next.From.After)
		next.Slack = withoutOldest(next.Slack, old)
	}
	t.now = &next
	return t.now
}

// leastSlack returns the slack of the tightest latency goal; nil without a usable goal.
func leastSlack(v *control.View) *float64 {
	g := v.Sharing.Steering
	if g == nil || g.Worst < 0 {
		return nil
	}
	return new(math.Round(1000*g.Goals[g.Worst].Slack) / 1000)
}

// withSlack appends a point to a curve that has before points, and begins one at the first known slack.
func withSlack(curve []*float64, before int, slack *float64) []*float64 {
	if curve == nil && slack == nil {
		return nil
	}
	if curve == nil {
		curve = make([]*float64, before)
	}
	return append(curve, slack)
}

// withoutOldest returns a curve without its old points; nil where none of the others is known.
func withoutOldest(curve []*float64, old int) []*float64 {
	if curve == nil {
		return nil
	}
	curve = slices.Clone(curve[old:])
	if !slices.ContainsFunc(curve, func(x *float64) bool { return x != nil }) {
		return nil
	}
	return curve
}

// onlineLocality is the local share of the accesses of online work, each workload counting by the
// CPUs that it keeps busy; nil unknown. It is what api.Status.Locality makes of a Status.
func onlineLocality(v *control.View) *float64 {
	var local api.Local
	for i := range v.Snapshot.Observations {
		o := &v.Snapshot.Observations[i]
		share, _, known := o.LocalShare()
		if !known || v.SpecOf(o.ID).Class == workload.Batch {
			continue
		}
		local.Add(share, o.CPUUse)
	}
	share := local.Share()
	if share != nil {
		*share = math.Round(1000**share) / 1000
	}
	return share
}
