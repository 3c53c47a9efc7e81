package control

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// scattered is two workloads that each fit a node, with their memory on both.
func scattered(t testing.TB, change ...func(*Settings)) *fake {
	f := newFake(t, 2, 8, change...)
	f.add("a", 3, 1<<20, 0, 1)
	f.add("b", 3, 1<<20, 0, 1)
	return f
}

func TestObserveModeChangesNothingAndPredicts(t *testing.T) {
	f := scattered(t, observing)
	before := f.all()
	f.scan(5)
	if diff := cmp.Diff(before, f.all()); diff != "" || f.count(EffectApply, "") != 0 || f.count(EffectRead, "") != 0 {
		t.Errorf("observe mode changed the host:\n%s", diff)
	}
	predicted := map[workload.ID]string{"/a": f.home("/a"), "/b": f.home("/b")}
	for id, home := range predicted {
		if home == "" || !f.s.restOf(id) {
			t.Errorf("%s: home %q, steps %v", id, home, f.s.restOf(id))
		}
	}
	f.start(func(s *Settings) { s.Enforce, s.Balance.Act = true, true })
	f.scan(6)
	for id, home := range predicted {
		if f.home(id) != home || !f.settled(id) {
			t.Errorf("%s: predicted node %s, went to %s", id, home, f.home(id))
		}
	}
}

func TestEnforceBringsHomeAndRests(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	for _, id := range []workload.ID{"/a", "/b"} {
		if !f.settled(id) {
			t.Errorf("%s: on CPUs %s, %.2f of its memory at home %s", id, f.cpus(id), f.onHome(id), f.home(id))
		}
		if e := f.s.Journal.Of(plan.CgroupCPUs, string(id)); e == nil || e.State != plan.Applied || e.Old != "" || e.New != f.cpus(id) || e.Workload != id || e.Object == "" {
			t.Errorf("%s: journal %+v", id, e)
		}
	}
	if f.home("/a") == f.home("/b") {
		t.Errorf("both on node %s", f.home("/a"))
	}
	reads := f.count(EffectRead, "")
	f.scan(10)
	if f.count(EffectRead, "") != reads || f.count(EffectCheck, "") != 0 {
		t.Error("a host at home was changed again")
	}
}

// A workload is brought to its home by CPUs first and memory then, each change read and
// journalled before it is made.
func TestStepsOfOneWorkload(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	f.keep = func(*Effect) bool { return true }
	f.end(f.begin())
	next := func(kind EffectKind, step plan.StepKind) Effect {
		t.Helper()
		if len(f.kept) != 1 || f.kept[0].Kind != kind || f.kept[0].Step == nil || f.kept[0].Step.Kind != step || f.kept[0].Workload != id {
			t.Fatalf("want %s of %s, have %s", kind, step, asJSON(t, f.kept))
		}
		e := f.kept[0]
		f.kept = nil
		return e
	}
	read := next(EffectRead, plan.SetCPUs)
	if len(f.disk.entries) != 0 {
		t.Errorf("journalled before it was read: %v", f.disk.journal())
	}
	f.perform(read)
	f.run()
	apply := next(EffectApply, plan.SetCPUs)
	if j := f.disk.journal(); len(j) != 1 || j[0].State != plan.Intended || j[0].New != apply.Step.To || j[0].Seq != 1 || !j[0].Time.Equal(f.now) {
		t.Errorf("journal %+v", j)
	}
	task := f.s.View().Tasks[id]
	if task.Step.Kind != plan.SetCPUs || task.Move != nil {
		t.Errorf("%+v", task)
	}
	f.perform(apply)
	f.run()
	if len(f.kept) != 2 || f.kept[0].Kind != EffectChanged || f.kept[0].Workload != id {
		t.Fatalf("%s", asJSON(t, f.kept))
	}
	f.kept = nil
	if j := f.disk.journal(); len(j) != 1 || j[0].State != plan.Applied {
		t.Errorf("journal %+v", j)
	}
}

func TestHomeIsKeptAndItsReasonRemembered(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	for range 2 {
		if d := f.decision("/a"); d.Outcome != plan.Kept {
			t.Errorf("%+v", d)
		}
		if d := f.s.Chosen["/a"]; d.Outcome != plan.Placed || len(d.Candidates) == 0 || d.Home.String() != f.home("/a") {
			t.Errorf("remembered %+v", d)
		}
		f.start()
		f.scan(2)
	}
	f.remove("/a")
	f.scan(1)
	if _, still := f.s.Chosen["/a"]; still || f.disk.saved(t).Chosen["/a"].Outcome != "" {
		t.Error("remembered of what is gone")
	}
	// Of a home from before reasons were kept none is made up.
	delete(f.disk.values, KeyChosen)
	f.start()
	for _, name := range []string{"c", "d"} { // with each all are written anew
		f.add(name, 1, 1<<20, 0)
		f.scan(2)
	}
	if d := f.s.Chosen; d["/c"].Outcome != plan.Placed || d["/d"].Outcome != plan.Placed {
		t.Errorf("%+v", d)
	}
	if d, known := f.s.Chosen["/b"]; known || f.decision("/b").Outcome != plan.Kept {
		t.Errorf("%+v is remembered of %+v", d, f.decision("/b"))
	}
}

// Of what `homenode run` has placed its own reason is kept until a scan can have seen it, and
// no longer than till there is a newer one.
func TestReasonsOfWhatRunPlaced(t *testing.T) {
	s := New(Settings{}, Saved{})
	var out Output
	s.out, s.Seen = &out, 5
	at := func(id workload.ID, node topology.NodeID) plan.Decision {
		return plan.Decision{Workload: id, Outcome: plan.Placed, Home: topology.Nodes(node)}
	}
	s.Chosen = map[workload.ID]plan.Decision{"renewed": at("renewed", 0), "unseen": at("unseen", 0), "gone": at("gone", 0)}
	s.Admissions = map[workload.ID]Admission{"renewed": {Scan: 5}, "unseen": {Scan: 5}, "gone": {Scan: 4}, "held": {Scan: 5}}
	s.Plan.Report.Decisions = []plan.Decision{at("renewed", 1)}
	s.keepDecisions()
	want := map[workload.ID]plan.Decision{"renewed": at("renewed", 1), "unseen": at("unseen", 0)}
	if diff := cmp.Diff(want, s.Chosen); diff != "" || out.Save.Values[KeyChosen] == nil {
		t.Errorf("saved %v\n%s", out.Save.Values, diff)
	}
}

// Who is gone leaves the ledger, and so does who has the PID of another now; a home that was
// asked for since the scan began stays.
func TestWhoIsStillThere(t *testing.T) {
	s, out := telling()
	s.Seen = 5
	at := func(id workload.ID, start uint64) workload.Placement {
		return workload.Placement{Workload: id, Start: start}
	}
	seen := func(id workload.ID, start uint64) workload.Observation {
		o := workload.Observation{ID: id, Kind: workload.InCgroup}
		if start > 0 {
			o.Kind, o.Processes = workload.InProcess, []workload.Process{{PID: 1, Start: start}}
		}
		return o
	}
	s.Snapshot.Observations = []workload.Observation{seen("/b", 0), seen("/d", 0), seen("pid:1", 7), seen("pid:2", 8)}
	s.Lives = scene.LivesOf(s.Snapshot.Observations, nil)
	root := func(scan uint64) Admission {
		return Admission{Process: workload.Process{PID: 1, Start: 7}, Scan: scan}
	}
	s.Admissions = map[workload.ID]Admission{"pid:1": root(4), "pid:2": root(4), "pid:3": root(5), "pid:4": root(4),
		"/soon": {Until: s.At.Add(1)}, "/late": {Until: s.At}, "/d": {Until: s.At.Add(time.Hour)}}
	s.Given = map[workload.ID]topology.CPUSet{"pid:1": {}, "pid:2": {}, "pid:3": {}, "pid:4": {}}
	ledger := []workload.Placement{at("/a", 0), at("/b", 0), at("/d", 0), at("pid:1", 7), at("pid:2", 7), at("pid:3", 7), at("pid:4", 7)}
	var left []workload.ID
	s.Plan.Placements = ledger
	for _, p := range s.living(&State{}) {
		left = append(left, p.Workload)
	}
	if diff := cmp.Diff([]workload.ID{"/b", "/d", "pid:1", "pid:3"}, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]workload.ID{"/soon", "pid:1", "pid:3"}, sortedKeys(s.Admissions)); diff != "" || out.Save.Values[KeyAdmissions] == nil {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]workload.ID{"pid:1", "pid:3"}, sortedKeys(s.Given)); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	same := ledger[1:4]
	s.Plan.Placements = same
	if got := s.living(&State{}); &got[0] != &same[0] || len(got) != 3 {
		t.Error("what nobody left is copied")
	}
}

// A step that is not due yet holds up those after it, unless it is one that others do
// without.
func TestStepsAfterOneThatWaits(t *testing.T) {
	for optional, begun := range map[bool]int{false: 0, true: 1} {
		s, out := telling()
		first := plan.Step{Kind: plan.SetCPUs, Workload: "/a", To: "1", Optional: optional}
		s.Retries[work.KeyOf(&first)] = retry{Next: s.At.Add(time.Second)}
		s.Begin("/a", &Task{Steps: []plan.Step{first, {Kind: plan.SetMems, Workload: "/a", To: "0"}}})
		if len(out.Effects) != begun || len(s.Tasks) != begun || begun > 0 && out.Effects[0].Step.Kind != plan.SetMems {
			t.Errorf("optional %v: %+v", optional, out.Effects)
		}
	}
}

// A view stands while what is left to do is done.
func TestViewStands(t *testing.T) {
	f := scattered(t)
	f.keeping(EffectApply)
	f.scan(1)
	v := f.s.View()
	was := asJSON(t, v.Plan.Steps)
	f.release()
	if now := asJSON(t, v.Plan.Steps); len(v.Plan.Steps) < 4 || !bytes.Equal(was, now) {
		t.Errorf("%s, was %s", now, was)
	}
}

// An entry is written when it has come further, and not again.
func TestMarkWritesOnce(t *testing.T) {
	s, out := telling()
	s.Put(plan.Entry{Seq: 1, Kind: plan.CgroupCPUs, Path: "/a", State: plan.Intended})
	for _, state := range []plan.EntryState{plan.Intended, plan.Applied, plan.Applied} {
		s.Mark(s.Journal.At(1), state)
	}
	if n := len(out.Save.Entries); n != 2 || out.Save.Entries[1].State != plan.Applied {
		t.Errorf("%+v", out.Save.Entries)
	}
}

func TestFailedStepIsToldOnceAndTriedLater(t *testing.T) {
	f := newFake(t, 2, 8)
	f.add("a", 3, 1<<20, 0, 1)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply {
			return &Failure{Code: Failed, Text: "broken on purpose"}
		}
		return nil
	}
	tries := func() int { return len(f.applies(plan.SetCPUs)) }
	var at []int
	for k := range 400 { // 800 s
		before := tries()
		if f.scan(1); tries() > before {
			at = append(at, 2*k)
		}
	}
	// 10 s later, then 20, 40, 80, 160, 320.
	if diff := cmp.Diff([]int{0, 10, 30, 70, 150, 310, 630}, at); diff != "" {
		t.Errorf("tried at (-want +got):\n%s", diff)
	}
	if n := f.told(words.StepFailed); n != 1 {
		t.Errorf("told %d times", n)
	}
	v := f.s.View()
	step := f.s.Plan.Steps[0]
	if r := v.RetryOf(&step); r == nil || r.Failures != 7 || r.Text != "broken on purpose" {
		t.Errorf("%+v", v.Retries)
	}
	other := step
	other.To = "77"
	if r := v.RetryOf(&other); r != nil {
		t.Errorf("retry of another step: %+v", r)
	}
	if e := f.s.Journal.Of(plan.CgroupCPUs, "/a"); e == nil || e.State != plan.Intended {
		t.Errorf("what may stand in part has the entry %+v", e)
	}
	f.fail = nil
	f.after(10 * time.Minute)
	f.scan(3)
	if !f.settled("/a") || len(f.s.Retries) != 0 {
		t.Errorf("in the end %+v, retries %v", f.s.Plan.Steps, f.s.Retries)
	}
}

// The wait has an upper bound, and is forgotten when nothing was tried for long.
func TestWaitIsBounded(t *testing.T) {
	f := newFake(t, 2, 8)
	f.add("a", 3, 1<<20, 0, 1)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply {
			return &Failure{Code: Failed, Text: "broken on purpose"}
		}
		return nil
	}
	for range 15 {
		f.after(10 * time.Minute)
		before := len(f.applies(plan.SetCPUs))
		f.scan(1)
		if len(f.applies(plan.SetCPUs)) != before+1 {
			t.Fatal("not tried after ten minutes")
		}
	}
	for _, r := range f.s.Retries {
		if wait := r.Next.Sub(f.now.Add(-2 * time.Second)); wait != work.RetryMost {
			t.Errorf("waits %v", wait)
		}
	}
	f.remove("/a")
	f.after(10*time.Minute + 10*time.Minute)
	f.scan(1)
	if len(f.s.Retries) != 0 {
		t.Errorf("kept: %v", f.s.Retries)
	}
}

// A call that does not come back leaves its workload alone for a while, longer each time.
func TestNoAnswer(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 3, 1<<20, 0, 1)
	b := f.add("b", 3, 1<<20, 0, 1)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectRead && e.Workload == a {
			return &Failure{Code: NoAnswer, Text: "no answer within 11s"}
		}
		return nil
	}
	tries := func() (n int) {
		for _, e := range f.done {
			if e.Kind == EffectRead && e.Workload == a {
				n++
			}
		}
		return n
	}
	f.scan(3)
	if tries() != 1 || f.s.View().Silent[a].String() != words.Because(words.Unanswered, "no answer within 11s").String() || !f.leftAlone(a, words.Unanswered) || !f.settled(b) {
		t.Errorf("%d tries, silent %v, %+v", tries(), f.s.Silent, f.decision(a))
	}
	var at []time.Duration
	began := f.now.Add(-6 * time.Second)
	for range 400 {
		before := tries()
		if f.scan(1); tries() > before {
			at = append(at, f.now.Add(-2*time.Second).Sub(began))
		}
	}
	if diff := cmp.Diff([]time.Duration{10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 630 * time.Second}, at); diff != "" {
		t.Errorf("tried at (-want +got):\n%s", diff)
	}
	f.fail = nil
	f.after(10 * time.Minute)
	f.scan(3)
	if !f.settled(a) || len(f.s.Silent) != 0 {
		t.Errorf("it answers again: %v, %+v", f.s.Silent, f.decision(a))
	}
}

func TestFailureOfOneStepIsNoneOfTheOther(t *testing.T) {
	f := scattered(t)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectRead && e.Workload == "/a" {
			return &Failure{Code: Failed, Text: "broken on purpose"}
		}
		return nil
	}
	f.scan(5)
	if f.settled("/a") || !f.settled("/b") {
		t.Errorf("a settled %v, b %v", f.settled("/a"), f.settled("/b"))
	}
	if len(f.disk.journal()) != 1 {
		t.Errorf("journal of what was never changed: %+v", f.disk.journal())
	}
}

// Every change fails once, the nth: in the end all is at home, and undo puts all back.
func TestEveryChangeFails(t *testing.T) {
	for _, code := range []Code{Failed, NoAnswer, Gone, InUse, Cancelled} {
		for n := 1; ; n++ {
			f := scattered(t)
			before := f.all()
			calls := 0
			f.fail = func(e *Effect) *Failure {
				if e.Kind != EffectApply && e.Kind != EffectRead {
					return nil
				}
				if calls++; calls == n {
					return &Failure{Code: code, Text: "broken on purpose"}
				}
				return nil
			}
			f.scan(15)
			for _, id := range []workload.ID{"/a", "/b"} {
				if !f.settled(id) {
					t.Errorf("call %d failed once (%s): %s on %s, steps %+v", n, code, id, f.cpus(id), f.s.Plan.Steps)
				}
			}
			if r := f.undo(""); r.Undo == nil || len(r.Undo.Failed)+len(r.Undo.Foreign) > 0 {
				t.Fatalf("call %d (%s): undo %s", n, code, asJSON(t, r))
			}
			if diff := cmp.Diff(before, f.all()); diff != "" {
				t.Fatalf("call %d failed (%s), undo left:\n%s", n, code, diff)
			}
			if t.Failed() {
				return
			}
			if calls < n {
				break
			}
		}
	}
}

func TestWorkloadThatEndsMeanwhile(t *testing.T) {
	f := scattered(t)
	f.mid = func(e *Effect) {
		f.mid = nil
		f.remove(e.Workload)
	}
	f.scan(8)
	if len(f.works) != 1 || f.told(words.WorkloadGone) != 1 {
		t.Errorf("%d left, told %d times", len(f.works), f.told(words.WorkloadGone))
	}
	for id := range f.works {
		if !f.settled(id) {
			t.Errorf("%s: the end of the other must not stop it", id)
		}
	}
	f.scan(20)
	if j := f.disk.journal(); len(j) != 1 {
		t.Errorf("journal of what is gone: %+v", j)
	}
}

func TestJournalForgetsWhatIsGone(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	f.remove("/a")
	f.scan(12)
	j := f.disk.journal()
	if len(j) != 1 || j[0].Workload != "/b" {
		t.Errorf("%+v", j)
	}
	n := f.count(EffectPresent, "")
	f.scan(20)
	if now := f.count(EffectPresent, ""); now != n {
		t.Errorf("asked after %d more times although all is there", now-n)
	}
	// What cannot be asked stays.
	f.remove("/b")
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectPresent {
			return &Failure{Code: NoAnswer, Text: "no answer"}
		}
		return nil
	}
	f.scan(15)
	if len(f.disk.journal()) != 1 {
		t.Errorf("%+v", f.disk.journal())
	}
	f.fail = nil
	f.scan(15)
	if len(f.disk.journal()) != 0 {
		t.Errorf("%+v", f.disk.journal())
	}
}

// CPUs that somebody else gave a cgroup stay; those that homenode gave it do not keep
// it from being managed, also after a restart.
func TestCPUsSetByOthersStay(t *testing.T) {
	f := newFake(t, 2, 4)
	admin := f.add("admin", 2, 1<<20, 0)
	db := f.add("db", 2, 1<<20, 0, 1)
	f.set(plan.CgroupCPUs, string(admin), "4-5")
	for range 2 {
		f.start()
		f.scan(3)
		if f.cpus(admin) != "4-5" || f.count(EffectRead, admin) != 0 || !f.leftAlone(admin, words.SetByOthers) {
			t.Errorf("admin is on CPUs %s: %+v", f.cpus(admin), f.decision(admin))
		}
		if !f.settled(db) {
			t.Errorf("db is on %s", f.cpus(db))
		}
	}
}

func TestSetByOthers(t *testing.T) {
	f := newFake(t, 2, 4)
	f.scan(1)
	id := f.add("system.slice/db.service", 1, 1<<20, 0)
	f.set(plan.CgroupCPUs, string(id), "0-1")
	o := f.snapshot().Observations[0]
	for _, c := range []struct {
		path, object string
		want         bool
	}{
		{"", "", true}, {"/system.slice/db.service", "", false}, {"/system.slice", "", false}, {"/", "", false}, {"/system", "", true},
		{"/system.slice/db.service", "1", true},  // an earlier cgroup under the path
		{"/system.slice", "1", false},            // of one above nothing is known here
		{"/system.slice/db.service", "x", false}, // see below
	} {
		object := c.object
		if object == "x" {
			object = f.values[settingKey{plan.CgroupCPUs, string(id)}].Object
		}
		f.s.Journal = journal.New([]plan.Entry{{Seq: 1, Kind: plan.CgroupCPUs, Path: c.path, Object: object, New: "0-1"}})
		if got := !f.s.SetByOthers(&f.s.Journal, &o).None(); got != c.want {
			t.Errorf("homenode changed %q (%s): %v", c.path, object, got)
		}
	}
	f.s.Journal = journal.New(nil)
	o.CPUs = f.host().Allowed
	if why := f.s.SetByOthers(&f.s.Journal, &o); !why.None() {
		t.Error(why)
	}
	o.CPUs, o.Kind = topology.CPUs(0), workload.InProcess
	if why := f.s.SetByOthers(&f.s.Journal, &o); !why.None() {
		t.Error(why)
	}
}

func TestIncludeAndExclude(t *testing.T) {
	f := newFake(t, 2, 8, func(s *Settings) {
		s.Include, s.Exclude = []string{"/srv/**", "db"}, []string{"/srv/x"}
	})
	in, out, db, other := f.add("srv/a", 2, 1<<20, 0), f.add("srv/x", 2, 1<<20, 0), f.add("db", 2, 1<<20, 1), f.add("other", 2, 1<<20, 0)
	f.scan(2)
	if f.home(in) == "" || f.home(db) == "" || !f.leftAlone(out, words.Excluded) || !f.leftAlone(other, words.NotIncluded) {
		t.Errorf("%+v", f.s.Plan.Report.Decisions)
	}
}

func TestRules(t *testing.T) {
	high := 90
	f := newFake(t, 2, 8, ruled(
		workload.Rule{Match: "a", Class: workload.Dedicated, CPUs: 2, SMT: workload.SMTIsolate, Importance: &high, Memory: 3 << 20, Near: []string{"eth0"}},
		workload.Rule{Match: "*", CPUs: 5}))
	a, b := f.add("a", 1, 1<<20, 0), f.add("b", 1, 1<<20, 0)
	f.scan(1)
	v := f.s.View()
	got := v.SpecOf(a)
	if got.Class != workload.Dedicated || got.CPUs != 2 || got.SMT != workload.SMTIsolate || got.Importance != 90 || got.Memory != 3<<20 || len(got.Near) != 1 || !got.Given {
		t.Errorf("%+v", got)
	}
	if p := f.placement(a); p.CPUs.Len() != 2 || p.Idle.Len() != 2 {
		t.Errorf("%+v", p)
	}
	if got := v.SpecOf(b); got.CPUs != 5 || got.Class != workload.Shared { // the second rule, for the name has no slash
		t.Errorf("%+v", got)
	}
	if got := v.SpecOf("/none"); got.ID != "" || got.CPUs != 0 {
		t.Errorf("%+v", got)
	}
}

// A panic in the engine leaves the workload alone that it comes from, and says so.
func TestEngineThatPanicsOnOneWorkload(t *testing.T) {
	f := newFake(t, 2, 8)
	bad, good := f.add("bad", 2, 1<<20, 0), f.add("good", 2, 1<<20, 0, 1)
	last := f.add("last", 2, 1<<20, 1)
	f.engine(func(in balance.Input, h balance.History) (balance.Outcome, balance.History) {
		for _, x := range in.Subjects {
			if x.Observation.ID == bad {
				panic("index out of range")
			}
		}
		return balance.Tick(in, h)
	})
	f.scan(3)
	if f.home(bad) != "" || f.count(EffectRead, bad) != 0 || !f.settled(good) || !f.settled(last) {
		t.Errorf("bad at %q, good %v, last %v", f.home(bad), f.settled(good), f.settled(last))
	}
	want := workload.Problem{Subject: string(bad), Text: words.Because(words.EngineFailed).String()}
	if p := f.s.Snapshot.Problems; len(p) != 1 || p[0] != want {
		t.Errorf("%+v", p)
	}
	if n := f.told(words.ProblemSeen); n != 1 {
		t.Errorf("told %d times", n)
	}
	f.engine(nil)
	f.scan(3)
	if !f.settled(bad) || len(f.s.Snapshot.Problems) != 0 {
		t.Errorf("later: %+v", f.s.Snapshot.Problems)
	}
}

// A placement that breaks a rule is not carried out; those of others are.
func TestPlanThatBreaksARule(t *testing.T) {
	f := newFake(t, 2, 8)
	bad, good := f.add("bad", 2, 1<<20, 0), f.add("good", 2, 1<<20, 1)
	always, planned := false, 0
	f.engine(func(in balance.Input, h balance.History) (balance.Outcome, balance.History) {
		out, learnt := balance.Tick(in, h)
		if p := place.Of(out.Plan.Placements, bad); p != nil {
			p.CPUs = topology.CPUSet{}
		}
		if always {
			out.Plan.Steps = append(slices.Clone(out.Plan.Steps), plan.Step{Workload: good, Kind: plan.SetCPUs})
			planned = len(out.Plan.Steps)
			out.Plan.Placements = slices.Clone(out.Plan.Placements)
			for i := range out.Plan.Placements {
				out.Plan.Placements[i].CPUs = topology.CPUSet{}
			}
			out.Plan.Placements = append(out.Plan.Placements, workload.Placement{Workload: "/zombie"})
		}
		return out, learnt
	})
	f.scan(3)
	if f.home(bad) != "" || !f.settled(good) || !f.s.Halted.None() || !f.leftAlone(bad, words.PlanBreaksRule) {
		t.Errorf("bad at %q, good %v, halted %v: %+v", f.home(bad), f.settled(good), f.s.Halted, f.decision(bad))
	}
	if p := f.s.Snapshot.Problems; len(p) != 1 || p[0].Subject != string(bad) {
		t.Errorf("told: %+v", p)
	}
	before, steps := f.s.Plan.Placements, f.count(EffectApply, "")
	always = true
	f.scan(1)
	recorded := f.end(f.begin()).Plan.Steps
	f.after(2 * time.Second)
	if planned == 0 || len(recorded) != planned {
		t.Errorf("the recorder has %d of the %d steps that were not begun", len(recorded), planned)
	}
	if f.s.Halted.Code != words.PlanUnsound || f.told(words.PlanUnsound) != 1 || len(f.s.Plan.Steps) != 0 || f.count(EffectApply, "") != steps || !homes.SamePlacements(before, f.s.Plan.Placements) {
		t.Errorf("halted %v, told %d times, %d steps, homes %+v", f.s.Halted, f.told(words.PlanUnsound), len(f.s.Plan.Steps), f.s.Plan.Placements)
	}
	if r := f.order(good, 0); r.Failed == nil || r.Failed.Code != Failed {
		t.Errorf("an order meanwhile: %+v", r)
	}
	f.engine(nil)
	f.scan(3)
	if !f.s.Halted.None() || f.told(words.PlanSoundAgain) != 1 || !f.settled(bad) {
		t.Errorf("afterwards %v, %+v", f.s.Halted, f.decision(bad))
	}
}

func TestScanThatFails(t *testing.T) {
	f := scattered(t)
	f.scan(3)
	before := f.s.Plan.Placements
	for range 3 {
		scan := f.begin()
		scan.Failed = "read /proc: too many open files"
		f.turn(Input{Scan: scan})
		f.run()
	}
	if f.told(words.ScanFailed) != 1 || !homes.SamePlacements(before, f.s.Plan.Placements) || f.s.Seen != 3 {
		t.Errorf("told %d times, homes %+v", f.told(words.ScanFailed), f.s.Plan.Placements)
	}
	f.scan(1)
	scan := f.begin()
	scan.Failed = "read /proc: too many open files"
	f.turn(Input{Scan: scan})
	if f.told(words.ScanFailed) != 2 {
		t.Error("not told when it fails anew")
	}
}

// A look may fall within the writing of the first affinity: the observer is told of it before.
func TestAffinityIsKnownWhileItIsWritten(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "db", 2, 1<<20, 0)
	f.keeping(EffectApply)
	f.scan(3)
	v := f.s.View()
	seen := v.Attention()
	if p := f.placement(id); p == nil || !slices.ContainsFunc(seen.Expected(id), p.CPUs.Equal) {
		t.Errorf("placed %+v, given %v", p, seen.Expected(id))
	}
}

// Records of an earlier process with the same PID are not those of the new one.
func TestSamePIDAnotherProcess(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "db", 2, 1<<20, 0, 1)
	f.scan(6)
	if f.s.Moves[id].State != work.MoveDone || f.s.Given[id].Empty() || f.placement(id).Start != 7 {
		t.Fatalf("move %+v, given %v, %+v", f.s.Moves[id], f.s.Given[id], f.placement(id))
	}
	f.undo(id)
	if !f.s.Holds.Has(id) {
		t.Fatal("not held")
	}
	f.resume(id)
	f.scan(3)
	move, home := f.s.Moves[id], f.placement(id)
	f.remove(id)
	f.addProcess(77, "web", 2, 1<<20, 0, 1)
	w := f.works[id]
	w.obs.Processes[0].Start = 8
	f.values[settingKey{plan.Affinity, "77@8"}] = plan.Setting{Kind: plan.Affinity, Path: "77@8", Value: "0-15"}
	delete(f.values, settingKey{plan.Affinity, "77@7"})
	f.keeping(EffectRead) // nothing is given to the new one yet
	f.scan(1)
	if m, ok := f.s.View().Moves[id]; ok {
		t.Errorf("it has the move of an earlier process: %+v, %+v", m, move)
	}
	if d := f.decision(id); d.Outcome != plan.Placed || f.placement(id).Start != 8 {
		t.Errorf("it keeps the home of an earlier process, %+v: %+v", home, d)
	}
	if g, ok := f.s.Given[id]; ok {
		t.Errorf("it is taken to have CPUs %v", g)
	}
	if n := f.toldOf(id, words.WorkloadGone); n != 1 {
		t.Errorf("told %d times that the earlier one is gone", n)
	}
}

// A partition or a cgroup above has taken CPUs that homenode gave: that is told, and they
// are not set again.
func TestCPUsThatHaveNoEffect(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 2, 1<<20, 0)
	f.scan(3)
	given, _ := topology.ParseCPUSet(f.cpus(id))
	f.works[id].taken = topology.CPUs(given.Slice()[1:]...)
	writes := f.count(EffectApply, id)
	f.scan(1)
	if f.toldOf(id, words.CPUsTaken) != 1 || f.s.restOf(id) {
		t.Errorf("told %d times at once, %+v is left to do", f.toldOf(id, words.CPUsTaken), f.s.Plan.Steps)
	}
	f.scan(4)
	if f.toldOf(id, words.CPUsTaken) != 1 || f.count(EffectApply, id) != writes || f.cpus(id) != given.String() {
		t.Errorf("told %d times, %d writes", f.toldOf(id, words.CPUsTaken), f.count(EffectApply, id)-writes)
	}
	if n := f.count(EffectCheck, id); n != 1 {
		t.Errorf("read %d times", n)
	}
	f.works[id].taken = topology.CPUSet{}
	f.scan(1)
	if len(f.s.Narrowed) != 0 || !f.settled(id) {
		t.Errorf("narrowed %v, steps %+v", f.s.Narrowed, f.s.Plan.Steps)
	}
	f.works[id].taken = topology.CPUs(given.Slice()[:1]...)
	f.scan(2)
	if n := f.toldOf(id, words.CPUsTaken); n != 2 {
		t.Errorf("told %d times when it comes again", n)
	}
	f.remove(id)
	f.scan(2)
	if len(f.s.Told) != 0 {
		t.Errorf("kept when it is gone: %v", f.s.Told)
	}
}

// What went offline nobody has taken.
func TestCPUsOfAHomeGoOffline(t *testing.T) {
	f := newFake(t, 3, 4)
	id := f.add("a", 8, 1<<20, 0, 1)
	f.scan(3)
	if f.cpus(id) != "0-7" {
		t.Fatalf("CPUs %q", f.cpus(id))
	}
	f.nodes = 1
	f.scan(3)
	if f.told(words.CPUsOffline) != 1 || f.toldOf(id, words.CPUsTaken) != 0 {
		t.Errorf("told %d times of the host and %d times of its work: %s", f.told(words.CPUsOffline), f.toldOf(id, words.CPUsTaken), f.cpus(id))
	}
}

// What a scan saw before a setting was written is not held against the setting, and it is
// not written again.
func TestScanOlderThanASetting(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 2, 1<<20, 0)
	f.keeping(EffectApply)
	f.scan(1)
	old := f.begin()
	old.Snapshot = f.snapshot()
	f.release()
	if f.cpus(id) == "" || f.count(EffectApply, id) != 1 {
		t.Fatalf("CPUs %q, %d writes", f.cpus(id), f.count(EffectApply, id))
	}
	f.turn(Input{Scan: old})
	f.run()
	if f.toldOf(id, words.CPUsTaken) != 0 || f.count(EffectCheck, id) != 0 || f.count(EffectApply, id) != 1 {
		t.Errorf("told %d times, read %d times, %d writes", f.toldOf(id, words.CPUsTaken), f.count(EffectCheck, id), f.count(EffectApply, id))
	}
	f.scan(2)
	if len(f.s.Ended) != 0 || f.s.restOf(id) || f.count(EffectApply, id) != 1 {
		t.Errorf("later: %v, %+v, %d writes", f.s.Ended, f.s.Plan.Steps, f.count(EffectApply, id))
	}
}

// Memory that was moved and not read since is not moved again, and what the move brought
// is told when it is known.
func TestMemoryNotReadSinceItsMove(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 2, 1<<20, 0)
	f.scan(3)
	memory := slices.Clone(f.works[id].obs.Memory)
	f.order(id, 1)
	moved := slices.Clone(f.works[id].obs.Memory)
	if f.s.Moves[id].State != work.MoveDone || f.told(words.MoveEnded) != 1 || slices.Equal(memory, moved) {
		t.Fatalf("move %+v, memory %v", f.s.Moves[id], moved)
	}
	w := f.works[id]
	w.obs.Memory, w.obs.MemoryMoved = memory, true
	f.scan(3)
	if n := f.told(words.LocalityChanged) + f.told(words.LocalityAfterMove); n != 0 || f.told(words.MoveEnded) != 1 {
		t.Errorf("from figures of before: told %d times, moved %d times", n, f.told(words.MoveEnded))
	}
	w.obs.Memory, w.obs.MemoryMoved = moved, false
	f.scan(2)
	if n := f.told(words.LocalityChanged); n != 1 || f.s.Moves[id].LocalityAfter == nil || *f.s.Moves[id].LocalityAfter != 1 || len(f.s.Ended) != 0 {
		t.Errorf("told %d times, %+v, %v", n, f.s.Moves[id], f.s.Ended)
	}
}

// TestNotesAreSaidOnce: a decision has the note of its source once, however many scans it stays the same.
func TestNotesAreSaidOnce(t *testing.T) {
	h := settledHost(t, 6, false)
	note := words.Because(words.HeldByHand)
	o := h.turns[0].Observations[2]
	claims := []Claimed{{Source: "test", Claims: []workload.Claim{{ID: o.ID, Name: o.Name, Running: true, Cgroups: []string{o.Cgroup}, Process: o.Processes[0], Note: note}}}}
	for i := range 5 {
		h.at = h.at.Add(2 * time.Second)
		h.state.Scans++
		h.state, _ = Next(h.state, Input{At: h.at, Scan: &Scan{Number: h.state.Scans, Began: h.at, Snapshot: h.turns[0], Claims: claims}})
		said := 0
		for _, d := range h.state.Plan.Report.Decisions {
			for _, r := range d.Reasons {
				if r.Code == note.Code {
					said++
				}
			}
		}
		if said != 1 {
			t.Fatalf("scan %d: %d notes", i, said)
		}
	}
}
