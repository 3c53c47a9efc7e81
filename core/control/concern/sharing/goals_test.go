package sharing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// wants gives work goals and has it run on nodes in equal parts.
func wants(nodes []topology.NodeID, goals ...workload.Goal) func(*place.Subject) {
	return func(x *place.Subject) {
		x.Spec.Goals = goals
		uses(1, nodes...)(x)
	}
}

var (
	kernel   = workload.Goal{Metric: "wait", From: workload.FromKernel, Most: 5, Unit: "%"}
	baseline = workload.Goal{Metric: "harm", From: workload.FromBaseline}
	command  = workload.Goal{
		Metric: "p99", From: workload.FromCommand, Text: "cmd", Most: 10, Unit: "ms", Window: time.Minute,
	}
	both = []topology.NodeID{0, 1}
)

// read writes readings, a line each.
func read(all []goal.Reading) string {
	var lines []string
	for i := range all {
		r := &all[i]
		line := fmt.Sprintf("%s %s: %.2f of %.2f %s", r.Workload, r.Metric, r.Value, r.Most, r.Unit)
		if !r.Known {
			line += ", not known"
		}
		if r.Steady {
			line += ", steady"
		}
		if r.Failed != "" {
			line += ", " + r.Failed
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestReadings: each goal of running work has the newest value of its metric; batch work has no goals.
func TestReadings(t *testing.T) {
	h := on(t)
	h.batch("/b", wants(both, kernel))
	h.add("/a", workload.Batch, "", wants(both, kernel))
	h.Shared.Work = []share.Grant{{Workload: "/a"}}
	h.add("/x", workload.Shared, "", wants(both, kernel, baseline, command))
	h.add("/y", workload.Shared, "", wants(both, kernel, baseline, command))
	h.add("/z", workload.Shared, "", nil)
	x := &h.Subjects[2].Observation
	x.Waited, x.WaitedFrom = 0.02, workload.PSI
	h.Snapshot.Metrics = nil
	h.Interference.At = h.Began
	h.Interference.Victims = []share.Victim{
		{ID: "/w", Limit: 1, Samples: []float64{9}}, {ID: "/x", Limit: 4, Samples: []float64{1, 2}},
	}
	const none = `
		/y harm: 0.00 of 1.00 , not known, steady, its baseline is not known yet
		/y p99: 0.00 of 10.00 ms, not known, the daemon does not read it
		/y wait: 0.00 of 5.00 %, not known, steady, this kernel does not count how long it waits for a CPU`
	all, ran := h.readings()
	concerntest.Expect(t, "readings", read(all), `
		/x harm: 0.50 of 1.00 , steady
		/x p99: 0.00 of 10.00 ms, not known, the daemon does not read it
		/x wait: 2.00 of 5.00 %, steady`+none)
	if len(ran) != 2 || len(ran["/x"]) != 2 {
		t.Errorf("ran on %v", ran)
	}
	for i := range all {
		if all[i].As != "7 0" || (all[i].Known && !all[i].At.Equal(h.Began)) {
			t.Errorf("%+v", all[i])
		}
	}
	h.Snapshot.Metrics = []workload.MetricReading{{Key: command.Key(), Value: 7, Known: true, At: h.At, Failed: "slow"}}
	all, _ = h.readings()
	want := goal.Reading{
		Workload: "/x", As: "7 0", Metric: "p99", Unit: "ms", Value: 7, Most: 10, Known: true, At: h.At,
		Window: time.Minute, Failed: "slow",
	}
	if all[1] != want {
		t.Errorf("%+v, want %+v", all[1], want)
	}
}

// TestHarm: which samples say what part of its limit work is harmed.
func TestHarm(t *testing.T) {
	for _, c := range []struct {
		limit   float64
		samples []float64
		known   bool
		value   float64
	}{
		{4, []float64{2}, true, 0.5}, {4, []float64{0}, true, 0}, {0, []float64{2}, false, 0},
		{4, nil, false, 0}, {4, []float64{2, -1}, false, 0}, {0.5, []float64{1}, true, 2},
	} {
		h := on(t)
		h.Interference.Victims = []share.Victim{{ID: "/x", Limit: c.limit, Samples: c.samples}}
		var r goal.Reading
		h.harm(&r, &workload.Observation{ID: "/x"})
		if r.Known != c.known || r.Value != c.value || (r.Failed == "") != c.known {
			t.Errorf("%v: %+v", c, r)
		}
	}
}

// TestGoalInput: one node as its goals see it: those of work that runs there for a tenth of its time at least.
func TestGoalInput(t *testing.T) {
	h := on(t)
	h.known(2, 2)
	h.batch("/b", uses(1, both...))
	h.add("/x", workload.Shared, "", wants(both, kernel))
	in := h.input()
	goals := []goal.Reading{{Workload: "/x", Metric: "m"}, {Workload: "/y"}, {Workload: "/z"}}
	on := ran{
		"/x": {{Node: 0, Share: 0.9}, {Node: 1, Share: fewest}},
		"/y": {{Node: 0, Share: 0.95}, {Node: 1, Share: fewest - 0.01}},
	}
	for i, want := range []int{2, 1} {
		g := h.goalInput(&in, &in.Nodes[i], goals, on)
		if len(g.Goals) != want || g.Goals[0].Workload != "/x" {
			t.Errorf("node %d: %+v", i, g.Goals)
		}
		if g.Pool != 4 || g.Batch != 0.5 || g.Busy != 2 || g.Target != 0.65 || !g.At.Equal(h.Began) ||
			g.Hour != goal.HourOfWeek(h.Began) || g.Least != in.LeastOf(&in.Nodes[i]) {
			t.Errorf("node %d: %+v", i, g)
		}
	}
}

// TestSteers: the goals of a node replace its target, and count instead of the time that their work waits.
func TestSteers(t *testing.T) {
	h := on(t)
	h.batch("/b", uses(1, both...))
	h.add("/x", workload.Shared, workload.Online, wants([]topology.NodeID{1}, kernel))
	h.add("/y", workload.Shared, workload.Online, uses(1, 0))
	for i := range h.Subjects {
		h.Subjects[i].Observation.Waited, h.Subjects[i].Observation.WaitedFrom = 0.01, workload.PSI
	}
	h.Learned.Nodes = map[topology.NodeID]NodeLearned{1: {Hours: map[int]int{5: 50}}}
	h.known(1.5, -1) // the first scan knows nothing of node 1
	in := h.input()
	h.steer(&in)
	if h.Shared.Steering != nil || in.Nodes[1].Target != 0 || len(h.Goals) != 1 {
		t.Errorf("first scan: %+v, %+v", h.Shared.Steering, h.Goals)
	}
	h.known(1.5, 1.5)
	in = h.input()
	h.steer(&in)
	s := h.Shared.Steering
	if s == nil || len(s.Nodes) != 1 || s.Of(1) == nil || s.Of(0) != nil {
		t.Fatalf("steering: %+v", s)
	}
	out := s.Of(1)
	if in.Nodes[1].Target != out.Use || in.Nodes[0].Target != 0 || s.Use != out.Use || out.Use <= 0 {
		t.Errorf("target %v and %v, use %v", in.Nodes[0].Target, in.Nodes[1].Target, s.Use)
	}
	if s.Busy != 1.5/4 || s.Worst != 0 || len(s.Goals) != 1 {
		t.Errorf("%+v", s)
	}
	if in.Nodes[1].Waiting != "" || in.Nodes[1].Wait != 0 || in.Nodes[0].Waiting != "/y" {
		t.Errorf("waiting: %+v", in.Nodes)
	}
	if got := h.Goals[1].Hours[5]; got != 50 {
		t.Errorf("what an earlier daemon has learned: %d", got)
	}
	if l, ok := h.loop.Saved[GoalsKey].(Learned); !ok || len(l.Nodes) != 1 || l.Nodes[1].Hours[5] != 50 {
		t.Errorf("on disk: %+v", h.loop.Saved)
	}
	h.logged("history", "over [goal /x]")
	delete(h.loop.Saved, GoalsKey)
	concerntest.Pass(h.Scene, time.Second)
	in = h.input()
	h.steer(&in)
	if len(h.loop.Saved) > 0 {
		t.Error("it is on disk more often than once an hour")
	}
	concerntest.Pass(h.Scene, time.Hour)
	in = h.input()
	h.steer(&in)
	l, ok := h.loop.Saved[GoalsKey].(Learned)
	if !ok || len(l.Nodes[1].Goals) != 1 || l.Nodes[1].Goals[0].Workload != "/x" || l.Nodes[1].Goals[0].Most != 5 {
		t.Errorf("on disk: %+v", h.loop.Saved)
	}
	h.Subjects[1].Spec.Goals = nil
	h.steer(&in)
	if h.Goals != nil {
		t.Errorf("no goal is left: %+v", h.Goals)
	}
}

// TestLearnedStays: what was learned of an hour stays while no workload with a goal runs, and while no batch work does.
func TestLearnedStays(t *testing.T) {
	h := on(t)
	h.batch("/b", uses(1, both...))
	x := h.add("/x", workload.Shared, workload.Online, wants([]topology.NodeID{1}, kernel))
	x.Observation.WaitedFrom = workload.PSI
	h.known(1.5, 1.5)
	goals := x.Spec.Goals
	steer := func() map[int]int {
		in := h.input()
		h.steer(&in)
		return h.Goals[1].Hours
	}
	steer()
	hour := goal.HourOfWeek(h.Began)
	learned := steer()[hour]
	if learned == 0 {
		t.Fatal("nothing is learned")
	}
	concerntest.Pass(h.Scene, time.Hour)
	x.Spec.Goals = nil
	steer()
	x.Spec.Goals = goals
	if got := steer()[hour]; got != learned {
		t.Errorf("after a while without the workload: %d, want %d", got, learned)
	}
	all := h.Subjects
	h.Subjects = all[1:] // without batch work
	(&turn{Concern: h.Concern, Scene: h.Scene}).decide()
	h.Subjects = all
	if got := steer()[hour]; h.Goals == nil || got != learned {
		t.Errorf("after a while without batch work: %d, want %d", got, learned)
	}
}

// TestLearnedOfOtherNodes: what was learned of a node stays on disk while no workload with a goal runs there.
func TestLearnedOfOtherNodes(t *testing.T) {
	h := on(t)
	h.batch("/b", uses(1, both...))
	h.add("/x", workload.Shared, workload.Online, wants([]topology.NodeID{1}, kernel)).Observation.WaitedFrom = workload.PSI
	h.Learned.Nodes = map[topology.NodeID]NodeLearned{0: {Hours: map[int]int{7: 40}}}
	h.known(1.5, 1.5)
	in := h.input()
	h.steer(&in)
	if l, _ := h.loop.Saved[GoalsKey].(Learned); l.Nodes[0].Hours[7] != 40 || len(l.Nodes) != 2 {
		t.Errorf("on disk: %+v", h.loop.Saved)
	}
}

// TestSteersTwoNodes: use and busy CPUs of several nodes are those of all their CPUs.
func TestSteersTwoNodes(t *testing.T) {
	h := on(t)
	h.Snapshot.Host.Allowed.Remove(7)
	h.Snapshot.Host.Allowed.Remove(6)
	h.batch("/b", uses(1, both...))
	h.add("/x", workload.Shared, "", wants(both, kernel))
	h.Subjects[1].Observation.WaitedFrom = workload.PSI
	h.known(2, 1)
	in := h.input()
	h.steer(&in)
	s := h.Shared.Steering
	use := (4*s.Nodes[0].Use + 2*s.Nodes[1].Use) / 6
	if got, want := fmt.Sprintf("%.4f %.4f", s.Use, s.Busy), fmt.Sprintf("%.4f %.4f", use, 0.5); got != want {
		t.Errorf("use and busy %s, want %s", got, want)
	}
}

// verdict is a goal that holds, with some slack, or that cannot be used.
func verdict(id workload.ID, metric string, slack float64, why words.Reason) goal.Verdict {
	state := goal.Fine
	if !why.None() {
		state = goal.Stale
	}
	return goal.Verdict{Reading: goal.Reading{Workload: id, Metric: metric}, Slack: slack, State: state, Why: why}
}

// TestAdds: the outcomes of several nodes as one.
func TestAdds(t *testing.T) {
	bad := words.Because(words.ShareNone)
	next := func(i int) words.Reason { return words.Because(words.ShareMax, float64(i)) }
	s := &Steering{Worst: -1}
	s.add(0, goal.Outcome{
		Worst: 1, Next: next(0), Limits: map[goal.Resource]int{goal.Cache: 50, goal.Bandwidth: 20},
		Goals: []goal.Verdict{verdict("/b", "m", 0.1, bad), verdict("/c", "m", 0.3, words.Reason{})},
	})
	if s.Worst != 1 || s.Fell || s.Next.String() != next(0).String() {
		t.Errorf("one node: %+v", s)
	}
	s.add(1, goal.Outcome{
		Worst: 0, Next: next(1), Fell: true, Limits: map[goal.Resource]int{goal.Cache: 30, goal.Bandwidth: 40},
		Goals: []goal.Verdict{verdict("/a", "m", 0.5, words.Reason{}), verdict("/c", "l", 0.4, words.Reason{})},
	})
	if s.Next.String() != next(0).String() {
		t.Error("the node without the worst goal decides")
	}
	s.add(2, goal.Outcome{Worst: 0, Next: next(2), Goals: []goal.Verdict{verdict("/c", "m", 0.3, words.Reason{})}})
	s.add(3, goal.Outcome{Worst: -1, Next: next(3)})
	var goals []string
	for i := range s.Goals {
		goals = append(goals, string(s.Goals[i].Workload)+"/"+s.Goals[i].Metric)
	}
	if got := strings.Join(goals, " "); got != "/a/m /b/m /c/l /c/m" {
		t.Errorf("goals %s", got)
	}
	if s.Goals[s.Worst].Metric != "m" || s.Goals[s.Worst].Workload != "/c" || !s.Fell || len(s.Nodes) != 4 {
		t.Errorf("%+v", s)
	}
	if s.Limits[goal.Cache] != 30 || s.Limits[goal.Bandwidth] != 20 || s.Next.String() != next(2).String() {
		t.Errorf("limits %v, next %v", s.Limits, s.Next)
	}
}

// TestWorstIsUsable: without a usable goal none is the worst, and a later node gives the next step.
func TestWorstIsUsable(t *testing.T) {
	s := &Steering{Worst: -1}
	s.add(0, goal.Outcome{Worst: -1, Goals: []goal.Verdict{verdict("/b", "m", 0, words.Because(words.ShareNone))}})
	if s.Worst != -1 || !s.Next.None() {
		t.Errorf("%+v", s)
	}
	s.add(1, goal.Outcome{Worst: -1, Next: words.Because(words.ShareNone)})
	if s.Next.None() {
		t.Errorf("%+v", s)
	}
}

// TestFirstIsWorst: the first goal of all is the worst where it has the least slack, and its node gives the next step;
// of equal ones it is the first.
func TestFirstIsWorst(t *testing.T) {
	s := &Steering{Worst: -1}
	s.add(0, goal.Outcome{Worst: 0, Next: words.Because(words.ShareNone), Goals: []goal.Verdict{
		verdict("/b", "m", 0.1, words.Reason{}), verdict("/c", "m", 0.1, words.Reason{}),
		verdict("/d", "m", 0.2, words.Reason{}),
	}})
	if s.Worst != 0 {
		t.Errorf("worst %d", s.Worst)
	}
	s.add(1, goal.Outcome{Worst: 0, Next: words.Because(words.ShareOff), Goals: []goal.Verdict{
		verdict("/b", "m", 0.1, words.Reason{}),
	}})
	if s.Next.Code != words.ShareOff {
		t.Errorf("next %v", s.Next)
	}
}

// TestGoesBy: a usable goal of the workload itself.
func TestGoesBy(t *testing.T) {
	out := &goal.Outcome{Goals: []goal.Verdict{
		verdict("/a", "m", 0, words.Because(words.ShareNone)), verdict("/b", "m", 0, words.Reason{}),
	}}
	for id, want := range map[workload.ID]bool{"/a": false, "/b": true, "/c": false} {
		if got := goesBy(out, id); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// TestTellsGoals: history says once for each workload that a metric cannot be used, and forgets it when all can.
func TestTellsGoals(t *testing.T) {
	bad := words.Because(words.ShareNone)
	waiting := verdict("/d", "m", 0, bad)
	waiting.State = goal.Waiting
	h := on(t)
	h.tellGoals(&Steering{Goals: []goal.Verdict{
		verdict("/a", "m", 0, bad), verdict("/a", "n", 0, bad), verdict("/b", "m", 0, words.Reason{}),
		verdict("/c", "m", 0, words.Reason{}), verdict("/c", "n", 0, bad), waiting,
	}})
	h.logged("history", `
		once [goal /a] /a goal-unusable m stale error
		once [goal /c] /c goal-unusable n stale error
		over [goal /b]
		over [goal /d]`)
}

// TestLimits: caches and bandwidth can be limited where the group of resctrl exists; goals leave at least a little.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limit  share.CacheLimit
		stands bool
		want   string
	}{
		{share.CacheLimit{Cache: 1, Bandwidth: 1}, true, "[cache memory bandwidth]"}, {share.CacheLimit{Cache: 30}, true, "[cache]"},
		{share.CacheLimit{Bandwidth: 30}, true, "[memory bandwidth]"}, {share.CacheLimit{}, true, "[]"},
		{share.CacheLimit{Cache: 30, Bandwidth: 30}, false, "[]"},
	} {
		h := on(t)
		h.settings.Base.Cache = c.limit
		if c.stands {
			concerntest.Set(h.Scene, share.CacheID, plan.CacheGroup, share.CacheGroup, "x")
		}
		if got := fmt.Sprint(h.canLimit()); got != c.want {
			t.Errorf("%v: %s, want %s", c, got, c.want)
		}
	}
	for _, c := range []struct{ most, percent, want share.CacheLimit }{
		{share.CacheLimit{Cache: 40, Bandwidth: 60}, share.CacheLimit{}, share.CacheLimit{Cache: 40, Bandwidth: 60}},
		{share.CacheLimit{Cache: 40, Bandwidth: 60}, share.CacheLimit{Cache: 50}, share.CacheLimit{Cache: 20, Bandwidth: 60}},
		{share.CacheLimit{Cache: 40, Bandwidth: 60}, share.CacheLimit{Bandwidth: 50},
			share.CacheLimit{Cache: 40, Bandwidth: 30}},
		{share.CacheLimit{Cache: 40, Bandwidth: 60}, share.CacheLimit{Cache: 1, Bandwidth: 1},
			share.CacheLimit{Cache: 5, Bandwidth: 10}},
		{share.CacheLimit{Bandwidth: 8}, share.CacheLimit{Cache: 50, Bandwidth: 1}, share.CacheLimit{Bandwidth: 8}},
		{share.CacheLimit{Cache: 40}, share.CacheLimit{Bandwidth: 50}, share.CacheLimit{Cache: 40}},
		{share.CacheLimit{Cache: 1}, share.CacheLimit{Cache: 50}, share.CacheLimit{Cache: 5}},
	} {
		limits := map[goal.Resource]int{goal.Cache: c.percent.Cache, goal.Bandwidth: c.percent.Bandwidth}
		v := View{Steering: &Steering{Limits: limits}}
		if got := v.Limited(c.most); got != c.want {
			t.Errorf("%v of %v: %v, want %v", limits, c.most, got, c.want)
		}
	}
	if got := (&View{}).Limited(share.CacheLimit{Cache: 40}); got.Cache != 40 {
		t.Errorf("without goals: %v", got)
	}
	if (*Steering)(nil).Of(0) != nil {
		t.Error("an outcome without goals")
	}
}
