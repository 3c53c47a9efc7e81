package daemon

import (
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestTrend: a point each five seconds and 15 minutes at most, a gap where nothing was seen, the
// first figure for good, and each page move counted once.
func TestTrend(t *testing.T) {
	began := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	view := func(after time.Duration, local float64) *control.View {
		v := &control.View{At: began.Add(after), Scans: 1}
		v.Snapshot.Observations = []workload.Observation{{ID: "a", CPUUse: 1, RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
			Memory: []workload.NodeMemory{{Node: 0, KiB: 1000 * 1024 * 1}, {Node: 1, KiB: 0}}, Accesses: workload.Accesses{From: workload.Counters, Local: local, PerSecond: 1e6}}}
		return v
	}
	var trend Trend
	done := &plan.Move{Moved: 3 << 30, State: "done"}
	trend.Hear(&plan.Event{Move: done, Code: words.MoveEnded}) // of before the start
	if trend.Look(&control.View{}) != nil {
		t.Fatal("a trend before the first scan")
	}
	trend.Look(view(0, 0.4))
	trend.Hear(&plan.Event{Time: began.Add(time.Second), Move: done, Code: words.MoveEnded})
	trend.Hear(&plan.Event{Time: began.Add(2 * time.Second), Move: done, Code: words.LocalityChanged})
	trend.Hear(&plan.Event{Move: &plan.Move{Moved: 1 << 30, State: "running"}})
	trend.Hear(&plan.Event{Move: &plan.Move{Moved: 1 << 30, State: "cancelled"}, Code: words.MoveCancelled})
	for s := 1; s <= 20; s++ {
		trend.Look(view(time.Duration(s)*time.Second, 0.9))
	}
	now := trend.Look(view(60*time.Second, 1))
	if now.First == nil || *now.First != 0.4 || now.Moves != 1 || now.MovedBytes != 4<<30 || len(now.MovedAt) != 1 || !now.Since.Equal(began) {
		t.Errorf("%+v", now)
	}
	if n := len(now.Local); n != 13 || *now.Local[0] != 0.4 || *now.Local[4] != 0.9 || now.Local[6] != nil || now.Local[12] == nil || *now.Local[12] != 1 {
		t.Errorf("%d points: %v", n, now.Local)
	}
	for s := 61; s < 4000; s++ {
		now = trend.Look(view(time.Duration(s)*time.Second, 1))
	}
	if n, most := len(now.Local), int(api.TrendSpan/trendStep)+1; n != most || !now.From.After(now.Since) || len(now.MovedAt) != 0 || *now.First != 0.4 || now.Moves != 1 {
		t.Errorf("%d points from %v on, %d ticks, want %d and none", n, now.From, len(now.MovedAt), most)
	}
	for _, at := range []time.Duration{-8 * time.Hour, 50 * 365 * 24 * time.Hour} { // the clock is set
		now = trend.Look(view(at, 0.8))
		if len(now.Local) != 1 || *now.Local[0] != 0.8 || now.Moves != 1 || now.Since.After(began.Add(at)) {
			t.Errorf("clock %v: %+v", at, now)
		}
		if now = trend.Look(view(at+10*time.Second, 0.9)); len(now.Local) != 3 {
			t.Errorf("clock %v: the curve does not go on: %d points", at, len(now.Local))
		}
	}
}

// TestTrendOfSlack: the curve of slack begins with the first usable goal, has a point for each point of the other
// curve, a gap where no metric can be used, and ends when its last point is 15 minutes old.
func TestTrendOfSlack(t *testing.T) {
	began := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	var trend Trend
	look := func(after time.Duration, slack ...float64) *api.Trend {
		v := &control.View{At: began.Add(after), Scans: 1}
		if len(slack) > 0 {
			v.Sharing.Steering = &sharing.Steering{Worst: 0, Goals: []goal.Verdict{{Slack: slack[0]}}}
		}
		return trend.Look(v)
	}
	if now := look(0); now.Slack != nil {
		t.Errorf("slack without a goal: %v", now.Slack)
	}
	look(5 * time.Second)
	now := look(10*time.Second, 0.25)
	if len(now.Slack) != len(now.Local) || now.Slack[0] != nil || *now.Slack[2] != 0.25 {
		t.Errorf("%d points of slack, %d of the other curve: %v", len(now.Slack), len(now.Local), now.Slack)
	}
	before := now
	look(15*time.Second, -0.5)
	now = look(20 * time.Second)
	if len(before.Slack) != 3 || *now.Slack[3] != -0.5 || now.Slack[4] != nil {
		t.Errorf("then %v, now %v", before.Slack, now.Slack)
	}
	for s := 25; s <= 1000; s += 5 {
		now = look(time.Duration(s) * time.Second)
	}
	if now.Slack != nil {
		t.Errorf("after 16 minutes without a goal: %d points", len(now.Slack))
	}
}
