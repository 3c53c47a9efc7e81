package control

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/workload"
)

// p99 is a goal whose metric a file has.
var p99 = workload.Goal{Metric: "p99", From: workload.FromFile, Text: "/run/p99", Most: 2, Unit: "ms", Window: 2 * time.Second}

// steered is batch with a goal for the service, and its metric.
type steered struct {
	*fake
	n int
}

func withGoal(t testing.TB, change ...func(*Settings)) *steered {
	rule := workload.Rule{Match: "web", Tier: workload.Online, Goals: []workload.Goal{p99}}
	first := func(s *Settings) { s.Rules = append([]workload.Rule{rule}, s.Rules...) }
	f := batch(t, append(change, first, turnedOn)...)
	return &steered{fake: f}
}

// reads scans with a value of the metric.
func (f *steered) reads(scans int, value float64) {
	for range scans {
		f.n++
		if all := f.s.Shared.Nodes; len(all) > 0 { // batch work takes what it may
			f.use(1, all[0].CPUs)
		}
		f.metrics = []workload.MetricReading{{Key: p99.Key(), Value: value + float64(f.n%7)/1000, Known: true, At: f.now}}
		f.scans(1)
	}
}

func (f *steered) steering(t *testing.T) *sharing.Steering {
	t.Helper()
	s := f.s.Shared.Steering
	if s == nil {
		t.Fatal("no goal is followed")
	}
	return s
}

// TestGoalSteersSharing: with slack batch work gets more than the target gives; a missed goal takes CPUs from
// it within
// two scans; when it holds again they come back; sharing off restores everything.
func TestGoalSteersSharing(t *testing.T) {
	f := withGoal(t)
	f.use(1, 4)
	f.reads(1, 0.5)
	target := f.steering(t).Use
	f.reads(40, 0.5)
	high, had := f.steering(t).Use, f.s.Shared.Nodes[0].CPUs
	if high < target+0.1 {
		t.Fatalf("use %.2f after 40 scans with slack, %.2f at the beginning", high, target)
	}
	f.reads(2, 3)
	low, has := f.steering(t).Use, f.s.Shared.Nodes[0].CPUs
	if low > high-0.1 || has >= had {
		t.Errorf("missed for two scans: use %.2f of %.2f, %.2f CPUs of %.2f", low, high, has, had)
	}
	f.reads(200, 0.5)
	if again := f.steering(t).Use; again < low+0.1 {
		t.Errorf("use %.2f after the goal holds again, %.2f while it was missed", again, low)
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.reads(3, 0.5)
	for _, e := range f.s.Journal.Group("sharing", plan.SettingKind.IsCgroupFile) {
		if e.Kind != plan.CgroupCPUs {
			t.Errorf("not restored: %s of %s", e.Kind, e.Path)
		}
	}
	if f.cpus("/batch1") != "0-15" {
		t.Errorf("batch work has CPUs %s with sharing off", f.cpus("/batch1"))
	}
}

// TestMetricStops: the target applies, the history says so once, and the goal is followed again when it is back.
func TestMetricStops(t *testing.T) {
	f := withGoal(t)
	f.use(1, 4)
	f.reads(40, 0.5)
	f.scans(30) // the same reading again and again
	s := f.steering(t)
	if !s.Fell || s.Use > 0.6501 || s.Goals[0].State != goal.Stale {
		t.Errorf("fell %t, use %.2f, %s", s.Fell, s.Use, s.Goals[0].State)
	}
	told := 0
	for _, e := range f.events {
		if strings.Contains(e.Text, "the metric p99") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	f.reads(10, 0.5)
	if s := f.steering(t); s.Fell || s.Use <= 0.65 {
		t.Errorf("the metric is back: fell %t, use %.2f", s.Fell, s.Use)
	}
}

// TestLearnedSurvives: an hour in which less held before begins with less, also under the next daemon. What is
// learned is
// written when an hour ends.
func TestLearnedSurvives(t *testing.T) {
	f := withGoal(t)
	f.use(1, 4)
	f.reads(3, 1.9)
	f.now = f.now.Add(time.Hour)
	f.reads(2, 1.9)
	var learned sharing.Learned
	if err := json.Unmarshal(f.disk.values[KeyGoals], &learned); err != nil || len(learned.Nodes[0].Hours) == 0 {
		t.Fatalf("on disk: %s, %v", f.disk.values[KeyGoals], err)
	}
	learned.Nodes[0].Hours[goal.HourOfWeek(f.now)] = 40
	text, err := json.Marshal(learned)
	if err != nil {
		t.Fatal(err)
	}
	f.disk.values[KeyGoals] = text
	f.start()
	f.reads(2, 0.5)
	if use := f.steering(t).Use; use > 0.45 {
		t.Errorf("use %.2f; 0.40 was learned of this hour", use)
	}
}

// TestTakesNothingByName: a user names his processes, and gets neither a goal nor isolation by a rule for that name. A rule for
// the path of the cgroup gives both.
func TestTakesNothingByName(t *testing.T) {
	for match, want := range map[string]int{"web": 0, "/user.slice/**": 1} {
		rule := workload.Rule{Match: match, Class: workload.Dedicated, Isolated: true, Goals: []workload.Goal{p99}}
		f := newFake(t, 2, 8, func(s *Settings) { s.Rules = []workload.Rule{rule} })
		id := f.addProcess(70, "web", 2, 1<<20, 1)
		f.works[id].obs.UID = 1000
		f.scan(2)
		if got := subjectOf(f, id).Spec; len(got.Goals) != want || got.Isolated != (want > 0) {
			t.Errorf("match %s: goals %v, isolated %t", match, got.Goals, got.Isolated)
		}
	}
	f := withGoal(t)
	f.works["/web"].obs.UID = 33 // a service of the system that runs as a user
	f.scan(2)
	if got := subjectOf(f.fake, "/web").Spec.Goals; len(got) != 1 {
		t.Errorf("a service: %v", got)
	}
}

// subjectOf returns a workload of the newest scan.
func subjectOf(f *fake, id workload.ID) *place.Subject {
	k := slices.IndexFunc(f.s.Subjects, func(x *place.Subject) bool { return x.Observation.ID == id })
	if k < 0 {
		f.t.Fatalf("no subject %s", id)
	}
	return f.s.Subjects[k]
}
