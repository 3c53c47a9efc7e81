package scene

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestAlone: each reason to leave a workload alone, and the first of several.
func TestAlone(t *testing.T) {
	db := service("db")
	user := process(7, 1000, 1<<20)
	given := &Trouble{GivenIn: words.Because(words.GivenIn, 3, time.Hour)}
	silent := &Trouble{Silent: words.Because(words.NoMove, "x")}
	narrow := func(o *workload.Observation) { o.CPUs = topology.CPUs(1) }
	type setup struct {
		s    *Scene
		by   *Basis
		work *conduct
		o    *workload.Observation
	}
	for _, tt := range []struct {
		what string
		of   workload.Observation
		do   func(*setup)
		want words.Code
	}{
		{"nothing", db, func(*setup) {}, ""},
		{"no text", db, func(x *setup) { x.o.ID = "/\xff" }, words.NotUTF8},
		{"a manager of all", db, func(x *setup) { x.s.Managers = []Manager{{Everything: true}} }, words.ManagerMovesAll},
		{"a manager of its slice", db, func(x *setup) { x.s.Managers = []Manager{{Cgroups: []string{"system.slice"}}} }, words.ManagerOwns},
		{"a manager of another", db, func(x *setup) { x.s.Managers = []Manager{{Cgroups: []string{"system"}}} }, ""},
		{"a process in a manager's cgroup", user, func(x *setup) { x.s.Managers = []Manager{{Cgroups: []string{"user.slice"}}} }, words.ManagerOwns},
		{"excluded by name", db, func(x *setup) { x.by.Settings.Exclude = []string{"d*"} }, words.Excluded},
		{"excluded by its cgroup", user, func(x *setup) { x.by.Settings.Exclude = []string{"/user.slice/**"} }, words.Excluded},
		{"a cgroup in an excluded one", db, func(x *setup) {
			x.o.ID, x.o.Cgroup = "x:db", "/user.slice/x"
			x.by.Settings.Exclude = []string{"/user.slice/**"}
		}, ""},
		{"run in an excluded cgroup", user, func(x *setup) {
			x.by.Settings.Exclude = []string{"/user.slice/**"}
			x.by.Admissions[x.o.ID] = Admission{}
		}, ""},
		{"run, and excluded by name", user, func(x *setup) {
			x.by.Settings.Exclude = []string{"w7"}
			x.by.Admissions[x.o.ID] = Admission{}
		}, words.Excluded},
		{"included", db, func(x *setup) { x.by.Settings.Include = []string{"x", "db"} }, ""},
		{"not included", db, func(x *setup) { x.by.Settings.Include = []string{"x"} }, words.NotIncluded},
		{"its source", db, func(x *setup) { x.s.Claims[x.o.ID] = &workload.Claim{Alone: words.Because(words.PartitionEmpty)} }, words.PartitionEmpty},
		{"a covering claim", db, func(x *setup) { x.s.Covered[x.o.ID] = &workload.Claim{Alone: words.Because(words.PartitionEmpty)} }, words.PartitionEmpty},
		{"fenced", db, func(x *setup) { x.s.Claims[x.o.ID] = &workload.Claim{Within: topology.CPUs(0, 1)} }, words.Fenced},
		{"fenced on an unknown host", db, func(x *setup) {
			x.s.Claims[x.o.ID] = &workload.Claim{Within: topology.CPUs(0, 1)}
			x.by.Facts.Host = nil
		}, ""},
		{"fenced wide enough", db, func(x *setup) {
			x.s.Claims[x.o.ID] = &workload.Claim{Within: topology.CPUs(0, 1)}
			x.by.Facts.Policy.Reserved = topology.CPUs(2, 3, 4, 5, 6, 7)
		}, ""},
		{"by hand", user, func(x *setup) {
			x.by.Admissions[x.o.ID] = Admission{Exact: true, Process: x.o.Processes[0]}
		}, words.NamedByHand},
		{"an earlier process by hand", user, func(x *setup) {
			x.by.Admissions[x.o.ID] = Admission{Exact: true, Process: workload.Process{PID: 7, Start: 1}}
		}, ""},
		{"the host's", db, func(x *setup) {
			x.by.Journal = entries{{Workload: hostprep.ID, Kind: plan.CgroupCPUs, Path: "/system.slice"}}
		}, words.OfHost},
		{"the host's unit", db, func(x *setup) {
			x.by.Journal = entries{{Workload: hostprep.ID, Kind: plan.UnitCPUs, Path: "system.slice"}}
		}, words.OfHost},
		{"another's", db, func(x *setup) {
			x.by.Journal = entries{{Workload: "/x", Kind: plan.CgroupCPUs, Path: "/system.slice"}}
		}, ""},
		{"given in", db, func(x *setup) { x.work.trouble[x.o.ID] = given }, words.GivenIn},
		{"set by others", db, func(x *setup) { narrow(x.o) }, words.SetByOthers},
		{"given in before set by others", db, func(x *setup) {
			narrow(x.o)
			x.work.trouble[x.o.ID] = given
		}, words.GivenIn},
		{"set by homenode", db, func(x *setup) {
			narrow(x.o)
			x.by.Journal = entries{{Kind: plan.CgroupCPUs, Path: x.o.Cgroup}}
		}, ""},
		{"set above it by homenode", db, func(x *setup) {
			narrow(x.o)
			x.by.Journal = entries{{Kind: plan.CgroupCPUs, Path: "/system.slice", Object: "9"}}
		}, ""},
		{"set by homenode on an earlier cgroup", db, func(x *setup) {
			narrow(x.o)
			x.o.CgroupID = 8
			x.by.Journal = entries{{Kind: plan.CgroupCPUs, Path: x.o.Cgroup, Object: "9"}}
		}, words.SetByOthers},
		{"silent", db, func(x *setup) { x.work.trouble[x.o.ID] = silent }, words.NoMove},
		{"unanswered", db, func(x *setup) { x.o.Unanswered = true }, words.MemoryUnanswered},
		{"unread", db, func(x *setup) { x.o.MemoryUnread = true }, words.MemoryNotRead},
	} {
		by, work := basis()
		s := seen(tt.of)
		s.Claims, s.Covered = map[workload.ID]*workload.Claim{}, map[workload.ID]*workload.Claim{}
		o := &s.Snapshot.Observations[0]
		tt.do(&setup{s, by, work, o})
		x := s.subject(by, o, hostCgroups(by.Journal), words.Reason{})
		if x.Alone.Code != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, x.Alone.Code, tt.want)
		}
		unread := tt.want == words.NoMove || tt.want == words.MemoryUnanswered || tt.want == words.MemoryNotRead
		if x.Fixed != unread {
			t.Errorf("%s: fixed %v", tt.what, x.Fixed)
		}
	}
}

// TestBeyondTheCeilingIsLeftAlone, unless there is another reason.
func TestBeyondTheCeilingIsLeftAlone(t *testing.T) {
	by, _ := basis()
	s := seen(service("db"))
	o := &s.Snapshot.Observations[0]
	why := words.Because(words.AllShare, AllShare)
	if got := s.subject(by, o, nil, why).Alone.Code; got != words.AllShare {
		t.Errorf("%q", got)
	}
	o.MemoryUnread = true
	if got := s.subject(by, o, nil, why).Alone.Code; got != words.MemoryNotRead {
		t.Errorf("%q", got)
	}
}

// TestAside: a process that nobody named gets no home by its size while it is young, or a shell.
func TestAside(t *testing.T) {
	by, _ := basis()
	by.Settings.MinAge = time.Minute
	for _, tt := range []struct {
		what string
		do   func(*Scene, *workload.Observation)
		want words.Code
	}{
		{"young", func(*Scene, *workload.Observation) {}, words.TooYoung},
		{"of unknown age", func(s *Scene, _ *workload.Observation) { s.Snapshot.Uptime = 0 }, ""},
		{"old", func(s *Scene, _ *workload.Observation) { s.Snapshot.Uptime = 2 * time.Minute }, ""},
		{"a shell", func(_ *Scene, o *workload.Observation) { o.Terminal = true }, words.TerminalShell},
		{"a cgroup", func(_ *Scene, o *workload.Observation) { o.Kind = workload.InCgroup }, ""},
		{"claimed", func(s *Scene, o *workload.Observation) {
			s.Claims = map[workload.ID]*workload.Claim{o.ID: {}}
		}, ""},
		{"covered", func(s *Scene, o *workload.Observation) {
			s.Covered = map[workload.ID]*workload.Claim{o.ID: {}}
		}, ""},
	} {
		s := seen(process(7, 1000, 1<<20))
		s.Snapshot.Uptime = 30 * time.Second
		o := &s.Snapshot.Observations[0]
		tt.do(s, o)
		if got := s.aside(by, o).Code; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// TestCrowd: shared work that was started whatever others have booked may have a crowded home.
func TestCrowd(t *testing.T) {
	by, _ := basis()
	s := seen(process(7, 1000, 1<<20))
	o := &s.Snapshot.Observations[0]
	for _, tt := range []struct {
		claim *workload.Claim
		a     *Admission
		want  bool
	}{
		{nil, nil, false},
		{&workload.Claim{Crowd: true}, nil, true},
		{&workload.Claim{}, nil, false},
		{nil, &Admission{Spec: workload.Spec{Class: workload.Shared}, Process: o.Processes[0]}, true},
		{nil, &Admission{Spec: workload.Spec{Class: workload.Dedicated}, Process: o.Processes[0]}, false},
		{nil, &Admission{Spec: workload.Spec{Class: workload.Shared}, Process: workload.Process{PID: 7, Start: 9}}, false},
	} {
		s.Claims = map[workload.ID]*workload.Claim{}
		clear(by.Admissions)
		if tt.claim != nil {
			s.Claims[o.ID] = tt.claim
		}
		if tt.a != nil {
			by.Admissions[o.ID] = *tt.a
		}
		if got := s.subject(by, o, nil, words.Reason{}).Crowd; got != tt.want {
			t.Errorf("claim %+v, admission %+v: %v", tt.claim, tt.a, got)
		}
	}
}
