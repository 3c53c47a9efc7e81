package work

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestStepsOfATask: each step is read, journalled, changed and marked before the next one begins.
func TestStepsOfATask(t *testing.T) {
	f := newFake(t)
	f.plan.Steps = []plan.Step{cpusOf("/a", "0-3"), memsOf("/a", "0"), cpusOf("/b", "4")}
	task := f.begins(f.plan.Steps[0], f.plan.Steps[1])
	if task.Target != "/a" || f.Tasks["/a"] != task || task.Writing {
		t.Errorf("%+v", task)
	}
	f.want("begun",
		"read /a set-cpus 0-3",
	)
	f.Silent["/a"], f.Narrowed["/a"] = Silent{Failures: 2}, topology.CPUs(1)
	f.Retries[KeyOf(&f.plan.Steps[0])] = Retry{Failures: 1}
	f.reads("cpuset.cpus /a 0-7 55")
	if !task.Writing || task.Took || len(task.Entries) != 1 {
		t.Errorf("%+v", task)
	}
	f.want("read",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, intended",
		"apply /a set-cpus 0-3",
	)
	f.ends("")
	if task.Writing || !task.Took || task.Pinned != 5 || len(f.Silent)+len(f.Narrowed)+len(f.Retries) != 0 {
		t.Errorf("%+v", task)
	}
	f.want("changed",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, applied",
		"gave /a cpuset.cpus 0-3",
		"changed /a",
		"step /a: step-took",
		"read /a set-mems 0",
		"ended /a set-cpus 0-3: ok",
	)
	f.reads("cpuset.mems /a 0-1")
	f.ends("")
	f.want("second",
		"entry 2 cpuset.mems /a: 0-1 to 0, intended",
		"apply /a set-mems 0",
		"entry 2 cpuset.mems /a: 0-1 to 0, applied",
		"gave /a cpuset.mems 0",
		"changed /a",
		"step /a: step-took",
		"ended /a set-mems 0: ok",
	)
	if len(f.Tasks) != 0 || len(f.Running) != 0 || namesOf(f.Steps()) != "/b 4" || f.Tried["/a"] {
		t.Errorf("left: %+v, %s", f.Tasks, namesOf(f.Steps()))
	}
	if end := f.Ended["/a"]; end.Scan != 5 || !end.Settings || end.Asked || end.Pinned != 5 || end.Target != "/a" {
		t.Errorf("%+v", end)
	}
	if e := f.Journal.At(1); e.Object != "55" || !e.Time.Equal(start) || e.Workload != "/a" {
		t.Errorf("%+v", e)
	}
}

// TestObjectOfAStep: a step changes the cgroup that was read, and none that is made anew under the same path.
func TestObjectOfAStep(t *testing.T) {
	f := newFake(t)
	f.begins(cpusOf("/a", "0-3"))
	f.reads("cgroup.subtree_control / cpu 1", "cpuset.cpus /a 0-7 55")
	if e := f.next(); e.Step.Target.Object != "55" {
		t.Errorf("%+v", e.Step.Target)
	}
}

// TestFailedSteps: a failure is reported once per reason, puts the next try off by its kind, and ends the task unless
// the step is optional.
func TestFailedSteps(t *testing.T) {
	for _, tt := range []struct {
		code    Code
		retries int
		silent  bool
		line    string // of the history
		repeats bool   // the line comes again with each try
		forgets bool   // the step is not left to do
		prunes  bool
	}{
		{code: Failed, retries: 1, line: "!step /a: step-failed"},
		{code: Foreign, retries: 1, line: "!step /a: step-failed"},
		{code: Gone, retries: 1, line: "!step /a: step-gone", prunes: true},
		{code: NoAnswer, retries: 1, silent: true, line: "!step /a: step-failed"},
		{code: NotFrozen, retries: 1, silent: true, line: "!step /a: step-failed"},
		{code: Fixed, line: "step /a: step-fixed", repeats: true, forgets: true},
		{code: Cancelled},
	} {
		for _, writing := range []bool{false, true} {
			f := newFake(t)
			step := cpusOf("/a", "0-3")
			f.plan.Steps = []plan.Step{step, memsOf("/a", "0")}
			var lines []string
			for range 2 {
				delete(f.Tried, "/a")
				f.At = f.At.Add(RetryMost)
				task := f.begins(step, memsOf("/a", "0"))
				if writing {
					f.reads("cpuset.cpus /a 0-7")
				}
				f.ends(tt.code)
				lines = append(lines, f.lines...)
				f.lines = nil
				if !f.Tried["/a"] || len(f.Tasks) != 0 || (task.Pinned == 5) != writing {
					t.Errorf("%s, writing %v: tried %v, %+v", tt.code, writing, f.Tried, task)
				}
				if _, wrote := f.Ended["/a"]; wrote != writing {
					t.Errorf("%s, writing %v: ended %+v", tt.code, writing, f.Ended)
				}
			}
			n := 0
			for _, l := range lines {
				if l == tt.line {
					n++
				}
			}
			if want := map[bool]int{false: 1, true: 2}[tt.repeats]; tt.line != "" && n != want {
				t.Errorf("%s, writing %v: %q %d times in %q", tt.code, writing, tt.line, n, lines)
			}
			if told := slices.ContainsFunc(lines, func(l string) bool { return l[0] == '!' }); told != (tt.line != "" && tt.line[0] == '!') {
				t.Errorf("%s, writing %v: %q", tt.code, writing, lines)
			}
			if slices.Contains(lines, "prune soon") != tt.prunes || slices.Contains(lines, "changed /a") != writing {
				t.Errorf("%s, writing %v: %q", tt.code, writing, lines)
			}
			if !slices.Contains(lines, "ended /a set-cpus 0-3: "+string(tt.code)) || slices.Contains(lines, "read /a set-mems 0") {
				t.Errorf("%s, writing %v: %q", tt.code, writing, lines)
			}
			if len(f.Retries) != tt.retries || len(f.Silent) != map[bool]int{true: 1}[tt.silent] || (len(f.Steps()) == 1) != tt.forgets {
				t.Errorf("%s, writing %v: retries %v, silent %v, %d steps", tt.code, writing, f.Retries, f.Silent, len(f.Steps()))
			}
			if r := f.Retries[KeyOf(&step)]; tt.retries > 0 && (r.Failures != 2 || r.Code != tt.code || r.Text != string(tt.code) || r.Next.Sub(f.At) != 2*RetryFirst) {
				t.Errorf("%s: %+v", tt.code, r)
			}
			if q := f.Silent["/a"]; tt.silent && (q.Failures != 2 || q.Code != tt.code || q.Target != "/a" || q.Wait != 2*RetryFirst || !q.Until.Equal(f.At.Add(q.Wait))) {
				t.Errorf("%s: %+v", tt.code, q)
			}
			if e := f.Journal.Of(plan.CgroupCPUs, "/a"); writing != (e != nil) || (e != nil && e.State != plan.Intended) {
				t.Errorf("%s, writing %v: %+v", tt.code, writing, e)
			}
		}
	}
}

// TestAnotherReason: a second failure for another reason is reported, too.
func TestAnotherReason(t *testing.T) {
	f := newFake(t)
	for range 2 {
		f.begins(cpusOf("/a", "0-3"))
		e := f.next()
		f.TaskResult(&Result{ID: e.ID, Failed: &Failure{Code: Failed, Text: f.At.String()}})
		f.At = f.At.Add(RetryMost)
	}
	f.want("twice",
		"read /a set-cpus 0-3",
		"!step /a: step-failed",
		"ended /a set-cpus 0-3: failed",
		"read /a set-cpus 0-3",
		"!step /a: step-failed",
		"ended /a set-cpus 0-3: failed",
	)
}

// TestOptionalSteps: the next step goes on after an optional one that failed or waits for its next try.
func TestOptionalSteps(t *testing.T) {
	f := newFake(t)
	first := memsOf("/a", "0")
	first.Optional = true
	f.begins(first, cpusOf("/a", "0-3"))
	f.ends(Failed)
	f.want("failed",
		"read /a set-mems 0",
		"!step /a: step-failed",
		"read /a set-cpus 0-3",
		"ended /a set-mems 0: failed",
	)
	f.ends(Cancelled)
	f.want("the next",
		"ended /a set-cpus 0-3: cancelled",
	)
	f.begins(first, cpusOf("/a", "0-3"))
	f.want("it waits",
		"read /a set-cpus 0-3",
	)
	f.ends(Failed)
	f.lines = nil
	f.begins(cpusOf("/a", "0-3"), first)
	f.want("nothing follows one that waits and is not optional")
}

// TestFixedSettings: of a setting that the kernel keeps nothing is restored, unless it reads otherwise than before.
func TestFixedSettings(t *testing.T) {
	f := newFake(t, applied(1, plan.CgroupMems, "/a", "0-1", "0"))
	f.begins(cpusOf("/a", "0-3"))
	f.reads("cpuset.cpus /a 0-7", "cpuset.mems /a 0", "cpuset.cpus /b 0-7", "cpuset.cpus /c 0-7")
	f.lines = nil
	e := f.next()
	f.TaskResult(&Result{ID: e.ID, Failed: &Failure{Code: Fixed}, Standing: []plan.Setting{setting("cpuset.cpus /a 0-7"), setting("cpuset.mems /a 0"), setting("cpuset.cpus /b 0-6")}})
	f.want("fixed",
		"changed /a",
		"entry 2 cpuset.cpus /a: 0-7 to 0-3, restored",
		"step /a: step-fixed",
		"ended /a set-cpus 0-3: fixed",
	)
}

// TestForeignValues: a setting that another program has set since belongs to it. A request gets that as its answer,
// and a second request sets it.
func TestForeignValues(t *testing.T) {
	entry := applied(1, plan.CgroupCPUs, "/a", "0-7", "0-3")
	f := newFake(t, entry)
	f.begins(cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 5")
	f.want("by a plan",
		"read /a set-cpus 4",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
		"save theirs [{/a cpuset.cpus /a  0-7}]",
		"took away /a",
		"changed /a",
		"!step /a: set-since",
		"ended /a set-cpus 4: foreign",
	)
	if f.Overwrites["/a"].Count != 1 || !f.Overwrites["/a"].Last.Equal(start) || len(f.Theirs) != 1 || f.Journal.Len() != 0 {
		t.Errorf("%+v, %+v", f.Overwrites, f.Theirs)
	}
	f.begins(cpusOf("/a", "4")) // again by the next plan
	f.want("it waits")
	f.At = f.At.Add(RetryMost)
	f.begins(cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 5")
	f.want("it stays theirs",
		"read /a set-cpus 4",
		"ended /a set-cpus 4: foreign",
	)
	f.At = f.At.Add(RetryMost)
	f.begins(cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 0-7")
	f.want("it has its old value again",
		"read /a set-cpus 4",
		"save theirs []",
		"entry 2 cpuset.cpus /a: 0-7 to 4, intended",
		"apply /a set-cpus 4",
	)

	f = newFake(t, entry)
	f.asks(9, true, cpusOf("/a", "4"), cpusOf("/a", "5"))
	f.reads("cpuset.cpus /a 5")
	f.want("by a request",
		"read /a set-cpus 4",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
		"save theirs [{/a cpuset.cpus /a  0-7}]",
		"took away /a",
		"changed /a",
		"!step /a: set-since",
		"save theirs []",
		"answer 9: foreign, foreign",
	)
	f.asks(10, false, cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 5")
	f.ends("")
	f.want("by a second one",
		"read /a set-cpus 4",
		"entry 2 cpuset.cpus /a: 5 to 4, intended",
		"apply /a set-cpus 4",
		"entry 2 cpuset.cpus /a: 5 to 4, applied",
		"gave /a cpuset.cpus 4",
		"changed /a",
		"step /a: step-took",
		"answer 10: ok",
		"ended /a set-cpus 4: ok",
	)
}

// TestAnotherObject: an entry of an earlier cgroup under the path goes; a plan was not made for the new one, and a
// request is carried out.
func TestAnotherObject(t *testing.T) {
	entry := applied(1, plan.CgroupCPUs, "/a", "0-7", "0-3")
	entry.Object = "55"
	f := newFake(t, entry)
	f.plan.Steps = []plan.Step{cpusOf("/a", "4"), cpusOf("/b", "4")}
	f.begins(cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 0-7 66")
	f.want("by a plan",
		"read /a set-cpus 4",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
	)
	if namesOf(f.Steps()) != "/b 4" || len(f.Theirs) != 0 || len(f.Tasks) != 0 {
		t.Errorf("%s, %+v, %d tasks", namesOf(f.Steps()), f.Theirs, len(f.Tasks))
	}
	f = newFake(t, entry)
	f.asks(9, false, cpusOf("/a", "4"))
	f.reads("cpuset.cpus /a 0-7 66")
	f.want("by a request",
		"read /a set-cpus 4",
		"entry 1 cpuset.cpus /a: 0-7 to 0-3, gone",
		"entry 2 cpuset.cpus /a: 0-7 to 4, intended",
		"apply /a set-cpus 4",
	)
	for _, tt := range []struct{ was, now string }{{"", "66"}, {"55", ""}, {"55", "55"}} { // the same, as far as is known
		entry.Object = tt.was
		f := newFake(t, entry)
		f.begins(cpusOf("/a", "4"))
		f.reads("cpuset.cpus /a 0-3 " + tt.now)
		if e := f.Journal.Of(plan.CgroupCPUs, "/a"); e.Seq != 1 || e.Old != "0-7" || e.New != "4" {
			t.Errorf("%+v", e)
		}
	}
}

// TestChosenByOthers: a value of a cgroup file that is not the kernel's default stays, if homenode did not write it.
func TestChosenByOthers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kind    plan.StepKind
		setting string
		to      string
		request bool
		entry   bool
		yields  bool
	}{
		{name: "the default", kind: plan.SetCgroup, setting: "cpu.weight /a 100", to: "50"},
		{name: "another value", kind: plan.SetCgroup, setting: "cpu.weight /a 70", to: "50", yields: true},
		{name: "the value wanted", kind: plan.SetCgroup, setting: "cpu.weight /a 50", to: "50"},
		{name: "the value wanted, of a kind that turns", kind: plan.SetCgroup, setting: "cgroup.freeze /a 1", to: "1", yields: true},
		{name: "by a request", kind: plan.SetCgroup, setting: "cpu.weight /a 70", to: "50", request: true},
		{name: "by homenode", kind: plan.SetCgroup, setting: "cpu.weight /a 70", to: "50", entry: true},
		{name: "of a kind without a default", kind: plan.SetCgroup, setting: "cpuset.cpus /a 70", to: "50"},
		{name: "by a step that does not yield", kind: plan.SetUnit, setting: "cpu.weight /a 70", to: "50"},
	} {
		f := newFake(t)
		if tt.entry {
			f.Journal.Put(applied(1, plan.CgroupWeight, "/a", "100", "70"))
		}
		step := cpusOf("/a", tt.to)
		step.Kind = tt.kind
		if tt.request {
			f.asks(9, false, step)
		} else {
			f.begins(step)
		}
		f.reads("cpu.weight /default 100", tt.setting)
		if yields := len(f.Tasks) == 0; yields != tt.yields || (len(f.Retries) == 1) != tt.yields {
			t.Errorf("%s: yields %v, retries %v", tt.name, yields, f.Retries)
		}
		if tt.yields {
			f.want("yields", "read /a "+string(tt.kind)+" "+tt.to, "ended /a "+string(tt.kind)+" "+tt.to+": foreign")
		}
	}
}

// TestYieldOfAnOptionalStep: the next step goes on where an optional one gives way.
func TestYieldOfAnOptionalStep(t *testing.T) {
	f := newFake(t)
	f.Theirs.Keep(&plan.Entry{Workload: "/a", Kind: plan.CgroupMems, Path: "/a", Old: "0-1"})
	first := memsOf("/a", "0")
	first.Optional = true
	f.begins(first, cpusOf("/a", "0-3"))
	f.reads("cpuset.mems /a 1")
	f.want("yields",
		"read /a set-mems 0",
		"ended /a set-mems 0: foreign",
		"read /a set-cpus 0-3",
	)
}

// TestMadeAnew: a setting that its device has made anew is journalled again and belongs to no other program.
func TestMadeAnew(t *testing.T) {
	f := newFake(t, applied(1, plan.RPSCPUs, "eth0/rx-0", "0", "3"), applied(2, plan.QueueCount, "eth0", "8", "8"))
	f.plan.Steps = []plan.Step{{Kind: plan.SetQueues, Workload: "eth0", To: "4", Target: plan.Target{Kind: workload.InHost, Device: "eth0"}}}
	f.begins(f.plan.Steps[0], plan.Step{Kind: plan.SetRPS, Workload: "eth0", To: "5"})
	f.reads("queues eth0 8", "rps_cpus eth0/rx-0 3")
	f.want("read",
		"read eth0 set-queues 4",
		"entry 2 queues eth0: 8 to 4, intended",
		"entry 1 rps_cpus eth0/rx-0: 0 to 4, intended",
		"apply eth0 set-queues 4",
	)
	f.ends("")
	f.want("made anew: the rest of the task is about what is gone",
		"entry 2 queues eth0: 8 to 4, applied",
		"gave eth0 queues 4",
		"entry 1 rps_cpus eth0/rx-0: 0 to 0, intended",
		"entry 1 rps_cpus eth0/rx-0: 0 to 0, applied",
		"gave eth0 rps_cpus 0",
		"changed eth0",
		"host eth0: step-took",
		"ended eth0 set-queues 4: ok",
	)
	f.begins(plan.Step{Kind: plan.SetRPS, Workload: "eth0", To: "5"})
	f.reads("rps_cpus eth0/rx-0 7")
	f.want("what reads otherwise is no other program's",
		"read eth0 set-rps 5",
		"entry 1 rps_cpus eth0/rx-0: 0 to 5, intended",
		"apply eth0 set-rps 5",
	)
}

// TestNarrowedSince: a plan does not set CPUs that another program has narrowed since its scan, if homenode has not
// set them.
func TestNarrowedSince(t *testing.T) {
	for _, tt := range []struct {
		name    string
		from    string
		setting string
		request bool
		goesOn  bool
	}{
		{name: "as seen", from: "0-7", setting: "cpuset.cpus /a 0-7", goesOn: true},
		{name: "wider", from: "0-3", setting: "cpuset.cpus /a 0-7", goesOn: true},
		{name: "narrowed", from: "0-7", setting: "cpuset.cpus /a 0-3"},
		{name: "narrowed, of a process", from: "0-7", setting: "affinity 7@1 0-3"},
		{name: "other CPUs", from: "0-3", setting: "cpuset.cpus /a 4-7"},
		{name: "none set", from: "0-7", setting: "cpuset.cpus /a -", goesOn: true},
		{name: "not known", from: "x", setting: "cpuset.cpus /a 0-3", goesOn: true},
		{name: "not a set", from: "0-7", setting: "cpuset.cpus /a x", goesOn: true},
		{name: "set by homenode", from: "0-7", setting: "cpuset.cpus /own 0-3", goesOn: true},
		{name: "nodes", from: "0-7", setting: "cpuset.mems /a 0-3", goesOn: true},
		{name: "of the cgroup that was seen", from: "0", setting: "cpuset.cpus /a 0-3 5", goesOn: true},
		{name: "of another under its path", from: "0", setting: "cpuset.cpus /a 0-3 6"},
		{name: "of another without CPUs", from: "0", setting: "cpuset.cpus /a - 6", goesOn: true},
		{name: "a request", from: "0-7", setting: "cpuset.cpus /a 0-3", request: true, goesOn: true},
	} {
		f := newFake(t, applied(1, plan.CgroupCPUs, "/own", "0-7", "0-3"))
		f.seen = map[workload.ID]*workload.Observation{"/a": {ID: "/a", CgroupID: 5}}
		step := cpusOf("/a", "0")
		step.From = tt.from
		f.plan.Steps = []plan.Step{step, cpusOf("/b", "0")}
		if tt.request {
			f.asks(9, false, step)
		} else {
			f.begins(step)
		}
		f.reads(tt.setting)
		if goesOn := f.Tasks["/a"] != nil; goesOn != tt.goesOn || (len(f.Steps()) == 2) != tt.goesOn {
			t.Errorf("%s: goes on %v, left %s", tt.name, goesOn, namesOf(f.Steps()))
		}
	}
}

// TestCancelledDuringARead: a task that was cancelled changes nothing.
func TestCancelledDuringARead(t *testing.T) {
	f := newFake(t)
	task := f.begins(cpusOf("/a", "0-3"))
	f.Cancel("/a", task)
	f.Cancel("/a", task)
	f.reads("cpuset.cpus /a 0-7")
	f.want("cancelled", "read /a set-cpus 0-3")
	if f.Journal.Len() != 0 || len(f.Tasks) != 0 || f.TaskResult(&Result{ID: 1}) {
		t.Error("it goes on")
	}
}

// TestGoneDuringARead: CPUs of work that is gone are not set, whoever has its cgroup by now; what a request asks for, or
// is being written, goes on.
func TestGoneDuringARead(t *testing.T) {
	gone := func(workload.ID) bool { return true }
	f := newFake(t)
	f.begins(cpusOf("/a", "0-3"))
	f.Forget(gone, nil, func(string) workload.ID { return "" })
	f.reads("cpuset.cpus /a 0-7")
	f.want("gone", "read /a set-cpus 0-3")
	if f.Journal.Len() != 0 || len(f.Tasks) != 0 {
		t.Error("it goes on")
	}
	f.asks(9, false, cpusOf("/a", "0-3"))
	f.Forget(gone, nil, func(string) workload.ID { return "" })
	f.reads("cpuset.cpus /a 0-7")
	f.Forget(gone, nil, func(string) workload.ID { return "" })
	if task := f.Tasks["/a"]; task == nil || task.Cancelled {
		t.Error("a request does not go on")
	}
}

// TestRestoredMeanwhile: a plan does not change a setting during its restore.
func TestRestoredMeanwhile(t *testing.T) {
	f := newFake(t)
	f.begins(cpusOf("/a", "0-3"))
	f.Undoing = []*Undoing{{Which: Which{ID: "/b"}, Running: map[uint64][]plan.Entry{7: {applied(1, plan.CgroupCPUs, "/a", "", "")}}}}
	f.reads("cpuset.cpus /a 0-7")
	if f.Tasks["/a"] != nil || f.Journal.Len() != 0 || len(f.Queued) != 0 {
		t.Error("it goes on")
	}
}

// TestRequestDuringARestore: a request waits for the restore of its setting, so that the original value stays known.
func TestRequestDuringARestore(t *testing.T) {
	e := applied(1, plan.HostFile, "/x", "0", "1")
	e.Workload = "balancing"
	f := newFake(t, e)
	f.RestoreOnly("balancing", map[uint64]bool{1: true})
	f.asks(9, false, plan.Step{Kind: plan.SetFile, Workload: "host", To: "2", Target: plan.Target{Kind: workload.InHost, Host: "/x"}})
	restore := f.next()
	f.reads("file /x 1")
	f.UndoResult(&Result{ID: restore.ID})
	f.reads("file /x 0")
	f.ends("")
	if now := f.Journal.Of(plan.HostFile, "/x"); now == nil || now.Old != "0" || now.New != "2" || now.Workload != "host" || codes(f.changed[9]) != "ok" {
		t.Errorf("%+v, answer %q\n%q", now, codes(f.changed[9]), f.lines)
	}
}

// process returns a step that gives processes CPUs.
func process(id, to string, pids ...int) plan.Step {
	s := plan.Step{Kind: plan.SetCPUs, Workload: workload.ID(id), To: to, Target: plan.Target{Kind: workload.InProcess}}
	for _, pid := range pids {
		s.Target.Processes = append(s.Target.Processes, workload.Process{PID: pid, Start: 1})
	}
	return s
}

// TestYoungerProcesses: a change of processes reaches their newer children, also under an earlier ID; a value of an
// ended process is read again.
func TestYoungerProcesses(t *testing.T) {
	younger, heir, other := applied(1, plan.Affinity, "8@1", "0-7", "0-1"), applied(2, plan.Affinity, "9@1", "0-7", "0-1"), applied(3, plan.Affinity, "10@1", "0-7", "0-1")
	threads := applied(5, plan.ThreadCPUs, "8@1", "0-7", "0-1")
	younger.Workload, heir.Workload, other.Workload, threads.Workload = "pid:7", "pid:9", "pid:10", "pid:7"
	heir.Of, other.Of = 4, 77
	own := applied(4, plan.Affinity, "7@1", "0-7", "0-1")
	own.Workload = "pid:7"
	f := newFake(t, younger, heir, other, own, threads)
	f.begins(process("pid:7", "2-3", 7))
	e := f.next()
	if len(e.Journal) != 5 {
		t.Errorf("the read has %d entries", len(e.Journal))
	}
	r := Result{ID: e.ID, Inherited: []plan.Inherited{{Setting: setting("affinity 11@1 0-7"), Has: "0-1", Of: 99}}}
	f.TaskResult(&r)
	f.want("stale",
		"read pid:7 set-cpus 2-3",
		"read pid:7 set-cpus 2-3",
	)
	f.reads("affinity 7@1 0-1")
	f.want("read again",
		"entry 4 affinity 7@1: 0-7 to 2-3, intended",
		"entry 1 affinity 8@1: 0-7 to 2-3, intended",
		"entry 2 affinity 9@1: 0-7 to 2-3, intended",
		"apply pid:7 set-cpus 2-3",
	)
	f.ends("")
	f.want("changed",
		"entry 4 affinity 7@1: 0-7 to 2-3, applied",
		"gave pid:7 affinity 2-3",
		"entry 1 affinity 8@1: 0-7 to 2-3, applied",
		"gave pid:7 affinity 2-3",
		"entry 2 affinity 9@1: 0-7 to 2-3, applied",
		"gave pid:7 affinity 2-3",
		"changed pid:7",
		"step pid:7: step-took",
		"ended pid:7 set-cpus 2-3: ok",
	)

	f = newFake(t, own)
	cgroup := cpusOf("/a", "2-3")
	f.begins(cgroup)
	if e := f.next(); e.Journal != nil {
		t.Errorf("of a cgroup nothing inherits: %+v", e.Journal)
	}
}

// TestHeirsOfOthers: processes of a workload that inherited from another one are its own.
func TestHeirsOfOthers(t *testing.T) {
	other := applied(1, plan.Affinity, "10@1", "0-7", "0-1")
	other.Workload = "pid:10"
	f := newFake(t, other)
	f.begins(process("pid:7", "2-3", 7))
	f.TaskResult(&Result{ID: f.next().ID, Inherited: []plan.Inherited{{Setting: setting("affinity 8@1 0-7"), Has: "0-1", Of: 1}}})
	if e := f.Journal.Of(plan.Affinity, "8@1"); e.Workload != "pid:7" || e.New != "2-3" {
		t.Errorf("%+v", e)
	}
}

// TestYoungerOfOtherKinds: only a change of CPUs reaches younger processes.
func TestYoungerOfOtherKinds(t *testing.T) {
	younger := applied(1, plan.Affinity, "8@1", "0-7", "0-1")
	younger.Workload = "pid:7"
	f := newFake(t, younger)
	step := process("pid:7", "0", 7)
	step.Kind = plan.SetPolicy
	f.begins(step)
	f.reads("sched.policy 7@1 normal")
	f.want("policy",
		"read pid:7 set-policy 0",
		"entry 2 sched.policy 7@1: normal to 0, intended",
		"apply pid:7 set-policy 0",
	)
}

// TestValuesOfRun: CPUs that `homenode run` gave are homenode's own, so that undo restores those of before.
func TestValuesOfRun(t *testing.T) {
	for value, want := range map[string]string{"8-9": "0-7", "8": "8"} {
		f := newFake(t)
		f.ofRun["7@1"] = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
		f.begins(process("pid:7", "2-3", 7))
		f.reads("affinity 7@1 " + value)
		if e := f.Journal.At(1); e.Old != want || e.New != "2-3" || (len(e.Past) == 1) != (value == "8-9") {
			t.Errorf("%s: %+v", value, e)
		}
	}
}

// TestThreadsOfAnEntry: an entry about threads gets the values of new threads and drops those of ended ones.
func TestThreadsOfAnEntry(t *testing.T) {
	e := applied(1, plan.ThreadCPUs, "7@1", "0-7;71=0;72=1", "0-3;4-7")
	e.Workload = "pid:7"
	f := newFake(t, e)
	step := process("pid:7", "0-1;2-3", 7)
	step.Kind = plan.DivideThreads
	step.Threads = []plan.ThreadSet{{TID: 72}, {TID: 73}}
	f.begins(step)
	r := f.next()
	f.TaskResult(&Result{ID: r.ID, Changes: []plan.Change{{Setting: setting("affinity.threads 7@1 0-3;4-7"), Will: "0-1;2-3", Threads: ";73=5"}}})
	if got := f.Journal.At(1); got.Old != "0-7;72=1;73=5" {
		t.Errorf("%+v", got)
	}
}

// TestRequests: a request gets the result of each of its steps; steps that belong together end with the first failure.
func TestRequests(t *testing.T) {
	steps := []plan.Step{cpusOf("/a", "1"), cpusOf("/a", "2"), cpusOf("/a", "3")}
	run := func(together bool, codes ...Code) *fake {
		f := newFake(t)
		f.asks(1, together, steps...)
		for _, c := range codes {
			f.ends(c)
		}
		return f
	}
	for _, tt := range []struct {
		name     string
		together bool
		codes    []Code
		want     string
	}{
		{"each on its own", false, []Code{Failed, Gone, Cancelled}, "failed, gone, cancelled"},
		{"together", true, []Code{Gone}, "gone, gone, gone"},
	} {
		f := run(tt.together, tt.codes...)
		if got := codes(f.changed[1]); got != tt.want || len(f.Tasks) != 0 {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if end := f.Ended["/a"]; !end.Asked || end.Scan != 5 || end.Settings || end.Target != "/a" || f.Tried["/a"] {
			t.Errorf("%s: %+v, tried %v", tt.name, end, f.Tried)
		}
		for _, l := range f.lines {
			if l[0] == '!' {
				t.Errorf("%s: the answer says it: %q", tt.name, l)
			}
		}
	}
	f := newFake(t) // cancelled after the first
	task := f.asks(9, true, steps...)
	f.reads("cpuset.cpus /a 0-7")
	f.Cancel("/a", task)
	f.ends("")
	if got := codes(f.changed[9]); got != "ok, cancelled, cancelled" {
		t.Errorf("cancelled: %q", got)
	}
	f = newFake(t) // a request is tried at once
	f.Retries[KeyOf(&steps[0])] = Retry{Next: start.Add(time.Minute)}
	f.asks(9, true, steps[0])
	f.want("at once", "read /a set-cpus 1")
}

// TestOrderThatChangesNothing: an order for the CPUs that a workload has is no change in the history.
func TestOrderThatChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		name     string
		request  uint64
		from     string
		value    string
		kind     plan.StepKind
		recorded bool
	}{
		{"by an order", 9, "0-3", "0-3", plan.SetCPUs, false},
		{"by a plan", 0, "0-3", "0-3", plan.SetCPUs, true},
		{"from other CPUs", 9, "0-7", "0-3", plan.SetCPUs, true},
		{"the journal has another value", 9, "0-3", "0-7", plan.SetCPUs, true},
		{"of another kind", 9, "0-3", "0-3", plan.SetUnit, true},
		{"routine", 0, "0-3", "0-7", plan.DivideThreads, false},
	} {
		f := newFake(t)
		step := process("/a", "0-3", 7)
		step.Kind, step.From, step.Target.Kind = tt.kind, tt.from, workload.InCgroup
		f.Begin("/a", &Task{Steps: []plan.Step{step}, Request: tt.request})
		f.reads("cpuset.cpus /a " + tt.value)
		f.ends("")
		if recorded := slices.Contains(f.lines, "step /a: step-took"); recorded != tt.recorded {
			t.Errorf("%s: %q", tt.name, f.lines)
		}
	}
}

// TestChangesOfTheHost: a change of the host itself is a line about the host.
func TestChangesOfTheHost(t *testing.T) {
	f := newFake(t)
	f.begins(plan.Step{Kind: plan.SetFile, Workload: "host", To: "1", Target: plan.Target{Kind: workload.InHost, Host: "/x"}})
	f.reads("file /x 0")
	f.ends("")
	f.want("host",
		"read host set-file 1",
		"entry 1 file /x: 0 to 1, intended",
		"apply host set-file 1",
		"entry 1 file /x: 0 to 1, applied",
		"gave host file 1",
		"changed host",
		"host host: step-took",
		"ended host set-file 1: ok",
	)
}

// TestFrozen: the history has the time in ms that a workload was frozen for a change, and whether that was in vain.
func TestFrozen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frozen time.Duration
		failed *Failure
		each   []*Failure
		want   string
	}{
		{"not", 0, nil, nil, ""},
		{"for the change", time.Second, nil, nil, "step /a: was-frozen"},
		{"and it failed", time.Second, &Failure{Code: Failed}, nil, "step /a: was-frozen"},
		{"in vain", time.Second, &Failure{Code: NotFrozen}, nil, "step /a: frozen-in-vain"},
		{"one in vain", time.Second, nil, []*Failure{nil, {Code: NotFrozen}}, "step /a: frozen-in-vain"},
		{"one failed", time.Second, nil, []*Failure{nil, {Code: Gone}}, "step /a: was-frozen"},
	} {
		f := newFake(t)
		f.wasFrozen(plan.EventStep, "/a", &Result{Frozen: tt.frozen, Failed: tt.failed, Each: tt.each})
		got := ""
		for _, l := range f.lines {
			got += l
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	f := newFake(t)
	f.wasFrozen(plan.EventStep, "/a", &Result{Frozen: 1500 * time.Microsecond})
	if len(f.args) != 1 || f.args[0] != 1.5 {
		t.Errorf("%v", f.args)
	}
	for _, failed := range []*Failure{nil, {Code: Failed}} { // of a step
		f := newFake(t)
		f.begins(cpusOf("/a", "1"))
		f.reads("cpuset.cpus /a 0")
		f.TaskResult(&Result{ID: f.next().ID, Frozen: time.Second, Failed: failed})
		if !slices.Contains(f.lines, "step /a: was-frozen") {
			t.Errorf("%q", f.lines)
		}
	}
}
