package work

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// checked returns a fake on which the settings of a workload were checked: they read as now.
func checked(t *testing.T, e plan.Entry, now string, change func(*fake)) *fake {
	f := newFake(t, e)
	f.room = &topology.Host{Online: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)}
	f.plan.Steps = []plan.Step{cpusOf("/a", e.New), cpusOf("/b", "0")}
	f.seen["/a"] = &workload.Observation{ID: "/a", CPUs: topology.CPUs(0, 1)}
	if change != nil {
		change(f)
	}
	f.Check("/a", []plan.Entry{e})
	if !f.Checking()["/a"] {
		t.Error("it is not being checked")
	}
	id := f.next().ID
	f.lines = nil
	var settings []plan.Setting
	if now != "" {
		settings = []plan.Setting{setting(now)}
	}
	f.CheckResult(&Result{ID: id, Settings: settings})
	f.CheckResult(&Result{ID: id, Settings: settings}) // of an earlier one
	if f.Checking()["/a"] || namesOf(f.Steps()) != "/b 0" {
		t.Errorf("left to do: %s", namesOf(f.Steps()))
	}
	return f
}

// TestCheckOfCPUs: a CPU set that reads otherwise is theirs, of another cgroup, set back, or without effect.
func TestCheckOfCPUs(t *testing.T) {
	e := applied(1, plan.CgroupCPUs, "/a", "0-7", "0-3")
	e.Object = "55"
	f := checked(t, e, "cpuset.cpus /a 5 55", nil)
	f.want("theirs",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
		"save theirs [{/a cpuset.cpus /a 55 0-7}]",
		"took away /a",
		"changed /a",
		"!step /a: set-since",
	)
	if f.Overwrites["/a"].Count != 1 || len(f.Narrowed) != 0 {
		t.Errorf("%+v", f.Overwrites)
	}
	f = checked(t, e, "cpuset.cpus /a 5 66", nil)
	f.want("another cgroup",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
	)
	f = checked(t, e, "cpuset.cpus /a 0-7 55", func(f *fake) { f.Overwrites["/a"] = Overwrite{Count: 2} })
	f.want("set back",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, intended",
		"!step /a: set-back",
	)
	if x := f.Overwrites["/a"]; x.Count != 3 || !x.Last.Equal(start) {
		t.Errorf("%+v", x)
	}
	f = checked(t, e, "cpuset.cpus /a 0-3 55", nil)
	f.want("without effect",
		"!host /a: cpus-taken, once",
	)
	if !f.Narrowed["/a"].Equal(topology.CPUs(0, 1)) {
		t.Errorf("%+v", f.Narrowed)
	}
	f = checked(t, e, "cpuset.cpus /a 0-3 55", func(f *fake) { f.room.Online = topology.CPUs(0, 1) })
	f.want("the others are offline")
	f = checked(t, e, "cpuset.cpus /a 0-3 55", func(f *fake) { f.seen["/a"] = nil })
	f.want("gone")
	f = checked(t, e, "cpuset.cpus /b 0-3", nil)
	f.want("no entry")
	f = checked(t, e, "", nil)
	f.want("nothing read")
}

// TestCheckFails: a check without an answer concludes nothing.
func TestCheckFails(t *testing.T) {
	f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0-3"))
	f.plan.Steps = []plan.Step{cpusOf("/a", "0")}
	f.Check("/a", f.Journal.All())
	f.lines = nil
	f.CheckResult(&Result{ID: f.next().ID, Failed: &Failure{}, Settings: []plan.Setting{setting("cpuset.cpus /a 5")}})
	if len(f.lines) != 0 || len(f.Steps()) != 0 {
		t.Errorf("%q", f.lines)
	}
}

// TestCheckOfValues: a value that scans do not see is taken up likewise, and a group is filled again.
func TestCheckOfValues(t *testing.T) {
	weight := applied(1, plan.CgroupWeight, "/a", "100", "50")
	weight.Object = "55"
	for _, tt := range []struct {
		name string
		e    plan.Entry
		now  string
	}{
		{"stands", weight, "cpu.weight /a 50 55"},
		{"no entry", weight, "cpu.weight /b 70 55"},
	} {
		f := checked(t, tt.e, tt.now, nil)
		if len(f.lines) != 0 || len(f.Overwrites) != 0 {
			t.Errorf("%s: %q", tt.name, f.lines)
		}
	}
	f := checked(t, weight, "cpu.weight /a 70 55", nil)
	f.want("theirs",
		"entry 1 cpu.weight /a: 100 to 50, gone",
		"save theirs [{/a cpu.weight /a 55 100}]",
		"took away /a",
		"changed /a",
		"!step /a: set-since",
	)
	f = checked(t, weight, "cpu.weight /a 70 66", nil)
	f.want("another cgroup",
		"entry 1 cpu.weight /a: 100 to 50, gone",
	)
	f = checked(t, weight, "cpu.weight /a 100 55", nil)
	f.want("set back",
		"entry 1 cpu.weight /a: 100 to 50, intended",
		"!step /a: set-back",
	)
	tasks := applied(1, plan.CacheTasks, "/a", "", "batch")
	f = checked(t, tasks, "resctrl.tasks /a -", nil)
	f.want("tasks came from elsewhere",
		"entry 1 resctrl.tasks /a:  to batch, intended",
	)
	if len(f.Overwrites) != 0 {
		t.Errorf("%+v", f.Overwrites)
	}
}

// TestTellNarrowed: only the step for the CPUs without effect is dropped.
func TestTellNarrowed(t *testing.T) {
	f := newFake(t)
	f.room = &topology.Host{}
	f.plan.Steps = []plan.Step{cpusOf("/a", "0-3"), cpusOf("/a", "0-4"), memsOf("/a", "0-3"), cpusOf("/b", "0-3")}
	e := applied(1, plan.CgroupCPUs, "/a", "0-7", "0-3")
	f.TellNarrowed(&workload.Observation{ID: "/a"}, &e)
	if got := namesOf(f.Steps()); got != "/a 0-4, /a 0-3, /b 0-3" {
		t.Errorf("%s", got)
	}
	if len(f.lines) != 0 {
		t.Errorf("none of them is online: %q", f.lines)
	}
	e.New = "x"
	f.TellNarrowed(&workload.Observation{ID: "/a"}, &e)
	f.want("of what is no set",
		"!host /a: cpus-taken, once",
	)
}

// TestGiveBack: settings of other programs are homenode's again when the user resumes the workload, and that is saved.
func TestGiveBack(t *testing.T) {
	a, b := applied(1, plan.CgroupCPUs, "/a", "0-7", "0"), applied(2, plan.CgroupCPUs, "/b", "0-7", "0")
	f := newFake(t)
	f.keepTheirs(&a)
	f.keepTheirs(&b)
	f.lines = nil
	f.GiveBackOf(Which{ID: "/c"})
	f.want("of none")
	f.GiveBackOf(Which{ID: "/a"})
	f.want("of one",
		"save theirs [{/b cpuset.cpus /b  0-7}]",
	)
	f.GiveBack(&b)
	f.want("an entry",
		"save theirs []",
	)
}

// TestSilence: a workload with a call that does not return is left alone, twice as long each time.
func TestSilence(t *testing.T) {
	f := newFake(t)
	for i, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		f.silence("/a", "/x", &Failure{Code: NoAnswer, Text: "why"})
		q := f.Silent["/a"]
		if q.Failures != i+1 || q.Wait != wait || !q.Until.Equal(f.At.Add(wait)) || q.Text != "why" || q.Code != NoAnswer || q.Target != "/x" {
			t.Errorf("%d: %+v", i, q)
		}
		if !f.SilentNow("/a") || f.SilentNow("/b") {
			t.Error("silent")
		}
		f.At = q.Until
		if f.SilentNow("/a") {
			t.Error("at the end of the wait")
		}
	}
	f.silence("/b", "/y", &Failure{Code: NotFrozen})
	no, frozen := f.Silent["/a"], f.Silent["/b"]
	if no.Why().Code != words.Unanswered || frozen.Why().Code != words.NotFrozen {
		t.Errorf("%s, %s", no.Why().Code, frozen.Why().Code)
	}
}

// TestForget: Forget drops a failure ten minutes after its next try, an overwrite after an hour, and all of a
// workload that is gone.
func TestForget(t *testing.T) {
	never := func(workload.ID) bool { return false }
	nowhere := func(string) workload.ID { return "" }
	for _, tt := range []struct {
		age     time.Duration // since the next try, or the last overwrite
		retries bool
		silent  bool
		over    bool
	}{
		{-2 * time.Hour, true, true, false},
		{0, true, true, true},
		{RetryMost, true, true, true},
		{RetryMost + 1, false, false, true},
		{time.Hour - 1, false, false, true},
		{time.Hour, false, false, false},
	} {
		f := newFake(t)
		f.Retries[Key{Workload: "/a"}] = Retry{Next: start.Add(-tt.age)}
		f.Silent["/a"] = Silent{Until: start.Add(-tt.age)}
		f.Overwrites["/a"] = Overwrite{Last: start.Add(-tt.age)}
		f.Moves["/a"], f.Narrowed["/a"] = plan.Move{}, topology.CPUs(1)
		f.Forget(never, nil, nowhere)
		if (len(f.Retries) == 1) != tt.retries || (len(f.Silent) == 1) != tt.silent || (len(f.Overwrites) == 1) != tt.over || len(f.Moves)+len(f.Narrowed) != 2 {
			t.Errorf("%v: %d retries, %d silent, %d overwrites", tt.age, len(f.Retries), len(f.Silent), len(f.Overwrites))
		}
	}
	f := newFake(t)
	for _, id := range []workload.ID{"/a", "/b"} {
		f.Retries[Key{Workload: id}], f.Overwrites[id] = Retry{Next: start}, Overwrite{Last: start}
		f.Moves[id], f.Narrowed[id] = plan.Move{}, topology.CPUs(1)
	}
	f.Forget(func(id workload.ID) bool { return id == "/a" }, map[workload.ID]bool{"/b": true}, nowhere)
	if len(f.Moves) != 1 || len(f.Narrowed) != 1 || len(f.Retries) != 1 || len(f.Overwrites) != 1 {
		t.Errorf("%v, %v, %v, %v", f.Moves, f.Narrowed, f.Retries, f.Overwrites)
	}
	if _, ok := f.Moves["/b"]; !ok || f.Failing("/b") || !f.Failing("/a") {
		t.Errorf("%v, %v", f.Moves, f.Retries)
	}
}

// TestSilentUnderAnotherID: a cgroup that is left alone stays so under its next ID, as long as the later of the two.
func TestSilentUnderAnotherID(t *testing.T) {
	at := func(target string) workload.ID { return map[string]workload.ID{"/x": "/new"}[target] }
	gone := func(id workload.ID) bool { return id != "/new" && id != "/stays" }
	for _, tt := range []struct {
		target string
		has    time.Duration // that the new ID is silent for already; 0 is not at all
		want   string
		until  time.Duration
	}{
		{"/x", 0, "/new /stays", 60},
		{"/x", 30, "/new /stays", 60},
		{"/x", 60, "/new /stays", 60},
		{"/x", 90, "/new /stays", 90},
		{"/y", 0, "/stays", 0},
	} {
		f := newFake(t)
		f.Silent["/old"] = Silent{Until: start.Add(60 * time.Second), Target: tt.target, Failures: 1}
		f.Silent["/stays"] = Silent{Until: start.Add(time.Second), Target: "/x"}
		if tt.has > 0 {
			f.Silent["/new"] = Silent{Until: start.Add(tt.has * time.Second), Failures: 7}
		}
		f.Forget(gone, nil, at)
		got := ""
		for _, id := range sortedKeys(f.Silent) {
			got += " " + string(id)
		}
		q := f.Silent["/new"]
		if got[1:] != tt.want || (tt.until > 0 && q.Until.Sub(start) != tt.until*time.Second) || (q.Failures == 7) != (tt.has == 90) {
			t.Errorf("%+v: %q, %+v", tt, got, q)
		}
	}
}

// TestTryAgain: an order to try again ends all waits of one workload.
func TestTryAgain(t *testing.T) {
	f := newFake(t)
	for _, id := range []workload.ID{"/a", "/b"} {
		f.Tried[id], f.Retries[Key{Workload: id}], f.Silent[id], f.Overwrites[id] = true, Retry{}, Silent{}, Overwrite{}
	}
	f.TryAgain("/a")
	if len(f.Tried) != 1 || len(f.Retries) != 1 || len(f.Silent) != 1 || len(f.Overwrites) != 1 || !f.Tried["/b"] || f.Failing("/a") {
		t.Errorf("%v, %v, %v, %v", f.Tried, f.Retries, f.Silent, f.Overwrites)
	}
}

// TestPutOff: a page move whose memory stayed for lasting causes waits ten minutes at once, for its own home alone.
func TestPutOff(t *testing.T) {
	stuck := plan.Move{Workload: "/a", Home: "0", Planned: 100, RefusedBy: []plan.Refusal{{Cause: plan.Pinned, Bytes: 50}}}
	for name, tt := range map[string]struct {
		step plan.Step
		move plan.Move
		wait time.Duration
	}{
		"its move":         {pagesOf("/a", "0", 1), stuck, RetryMost},
		"to another home":  {pagesOf("/a", "1", 1), stuck, RetryFirst},
		"another step":     {memsOf("/a", "0"), stuck, RetryFirst},
		"another workload": {pagesOf("/b", "0", 1), stuck, RetryFirst},
		"all was moved":    {pagesOf("/a", "0", 1), plan.Move{Workload: "/a", Home: "0", Planned: 100}, RetryFirst},
	} {
		f := newFake(t)
		f.Moves["/a"] = tt.move
		wait, repeated := f.putOff(&tt.step, Failed, "why")
		again, twice := f.putOff(&tt.step, Gone, "why")
		if _, third := f.putOff(&tt.step, Gone, "other"); wait != tt.wait || again != min(RetryMost, 2*tt.wait) || repeated || !twice || third {
			t.Errorf("%s: %v %v, then %v %v, %v", name, wait, repeated, again, twice, third)
		}
		if r := f.Retries[KeyOf(&tt.step)]; r.Failures != 3 || r.Text != "other" || r.Code != Gone {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestOwnWrites: affinities that a scan saw during a write of homenode count as its own.
func TestOwnWrites(t *testing.T) {
	f := newFake(t)
	writes := func(kind plan.StepKind, writing bool, pinned uint64) *Task {
		return &Task{Writing: writing, Pinned: pinned, Steps: []plan.Step{{Kind: kind}}}
	}
	f.Ended["ended"], f.Ended["before"] = Ended{Pinned: 4}, Ended{Pinned: 3}
	f.Tasks["writes"], f.Tasks["reads"] = writes(plan.SetCPUs, true, 0), writes(plan.SetCPUs, false, 0)
	f.Tasks["nodes"], f.Tasks["wrote"], f.Tasks["wrote before"] = writes(plan.SetMems, true, 0), writes(plan.SetMems, true, 4), writes(plan.SetMems, true, 3)
	ids := []workload.ID{"before", "ended", "nodes", "other", "placed", "reads", "writes", "wrote", "wrote before"}
	var seen []workload.Observation
	for _, id := range ids {
		seen = append(seen, workload.Observation{ID: id, Pinned: true, PinnedWhy: "x"})
	}
	seen = append(seen, workload.Observation{ID: "writes", PinnedWhy: "y"})
	none := func(*workload.Observation) bool { return false }
	out := f.OwnWrites(seen, func(o *workload.Observation) bool { return o.ID == "placed" })
	var own []string
	for i := range out {
		if seen[i].Pinned && !out[i].Pinned {
			own = append(own, string(out[i].ID))
			if out[i].PinnedWhy != "" || seen[i].PinnedWhy != "x" {
				t.Errorf("%+v", out[i])
			}
		}
	}
	if !slices.Equal(own, []string{"ended", "placed", "writes", "wrote"}) || out[len(out)-1].PinnedWhy != "y" {
		t.Errorf("%v", own)
	}
	if same := f.OwnWrites(seen[:1], none); &same[0] != &seen[0] || !same[0].Pinned {
		t.Error("copied for nothing")
	}
}

// TestAdoptInherited: an heir of a value gets an entry with its value without homenode.
func TestAdoptInherited(t *testing.T) {
	from := applied(1, plan.Affinity, "7@1", "0-7", "2-3")
	from.Workload, from.Time, from.Ticks, from.Past = "pid:7", start.Add(-time.Hour), 88, []string{"0-1", "4"}
	begin := func() *fake { return newFake(t, from, applied(2, plan.Affinity, "9@1", "0-7", "2-3")) }
	heir := func(path, has string, of uint64) plan.Inherited {
		s := setting("affinity " + path + " 0-6")
		s.Groups, s.Object = "g", "o"
		return plan.Inherited{Setting: s, Has: has, Of: of}
	}
	f := begin()
	stale := f.AdoptInherited([]plan.Inherited{heir("8@1", "2-3", 1), heir("9@1", "2-3", 1), heir("10@1", "2-3", 99)}, nil)
	f.want("adopted",
		"entry 3 affinity 8@1: 0-6 to 2-3, applied",
	)
	if len(stale) != 1 || stale[0].Path != "10@1" {
		t.Errorf("stale %+v", stale)
	}
	e := f.Journal.At(3)
	if e.Workload != "pid:7" || !e.Time.Equal(from.Time) || e.Ticks != 88 || e.Of != 1 || e.Groups != "g" || e.Object != "o" {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(e.Past, from.Past) { // processes that it started then have these values
		t.Errorf("earlier values %q, want %q", e.Past, from.Past)
	}
	f = begin() // it has an earlier value: the newest reaches it, too
	f.AdoptInherited([]plan.Inherited{heir("8@1", "0-1", 1)}, nil)
	if e := f.Journal.At(3); e.New != "2-3" || !slices.Equal(e.Past, []string{"4", "0-1"}) || len(f.Journal.At(1).Past) != 2 {
		t.Errorf("%+v", e)
	}
	f = begin() // of another kind
	f.AdoptInherited([]plan.Inherited{{Setting: setting("affinity.threads 8@1 0-6"), Has: "0-1", Of: 1}}, nil)
	if e := f.Journal.At(3); e.New != "0-1" || len(e.Past) != 0 {
		t.Errorf("%+v", e)
	}
	for _, known := range []bool{true, false} {
		f = begin()
		f.lines = nil
		f.AdoptInherited([]plan.Inherited{heir("8@1", "2-3", 1)}, func(p workload.Process) (workload.ID, bool) {
			if p != (workload.Process{PID: 8, Start: 1}) {
				t.Errorf("%+v", p)
			}
			return "pid:8", known
		})
		want := workload.ID("pid:7")
		if known {
			want = "pid:8"
		}
		if e := f.Journal.At(3); e.Workload != want || slices.Contains(f.lines, "gave pid:8 affinity 2-3") != known {
			t.Errorf("known %v: %+v, %q", known, e, f.lines)
		}
	}
	f = begin() // no process
	f.AdoptInherited([]plan.Inherited{heir("x", "2-3", 1)}, func(workload.Process) (workload.ID, bool) { t.Error("asked"); return "", false })
	if e := f.Journal.At(3); e.Workload != "pid:7" {
		t.Errorf("%+v", e)
	}
}
