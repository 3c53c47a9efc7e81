package scene

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const inMachine workload.Kind = "machine"

// A claimed workload that was not observed is what its source says; bound to nothing it may
// be anywhere.
func TestClaimOfWhatIsNotSeen(t *testing.T) {
	h := &topology.Host{Online: topology.CPUs(0, 1, 2, 3), AllowedMems: topology.Nodes(0, 1)}
	p := workload.Process{PID: 5, Start: 6}
	c := workload.Claim{ID: "vm:a", Name: "a", Driver: inMachine, Process: p, Running: true}
	o := asClaimed(workload.Observation{Pinned: true, PinnedWhy: "x"}, &c, h)
	if o.ID != "vm:a" || o.Kind != inMachine || o.Pinned || o.PinnedWhy != "" || !o.CPUs.Equal(h.Online) || !o.Mems.Equal(h.AllowedMems) || len(o.Processes) != 1 || o.Processes[0] != p {
		t.Errorf("%+v", o)
	}
	c.CPUs, c.Mems = topology.CPUs(3), topology.Nodes(1)
	seen := []workload.Process{{PID: 7, Start: 8}}
	if o = asClaimed(workload.Observation{Processes: seen}, &c, h); !o.CPUs.Equal(c.CPUs) || !o.Mems.Equal(c.Mems) || len(o.Processes) != 1 || o.Processes[0] != seen[0] {
		t.Errorf("%+v", o)
	}
	c.Process = workload.Process{}
	if o = asClaimed(workload.Observation{}, &c, h); len(o.Processes) != 0 {
		t.Errorf("%+v", o)
	}
	c.Driver = ""
	if o = asClaimed(workload.Observation{ID: "/x", Kind: workload.InCgroup, Pinned: true}, &c, h); o.ID != "vm:a" || o.Kind != workload.InCgroup || !o.Pinned || !o.CPUs.Empty() {
		t.Errorf("changed as it was observed: %+v", o)
	}
	c.Caps.PinsThreads = true
	if o = asClaimed(workload.Observation{ID: "/x", Kind: workload.InCgroup, Pinned: true, PinnedWhy: "x"}, &c, h); o.Pinned || o.PinnedWhy != "" || o.Kind != workload.InCgroup {
		t.Errorf("its driver's own pins: %+v", o)
	}
}

// TestClaimedTwice: the first source to claim a workload, a cgroup or a process has it, and the second is
// told whose it is and which part.
func TestClaimedTwice(t *testing.T) {
	on := func(id workload.ID, cgroups ...string) workload.Claim {
		return workload.Claim{ID: id, Running: true, Cgroups: cgroups}
	}
	with := func(c workload.Claim, pid int) workload.Claim {
		c.Process = workload.Process{PID: pid, Start: uint64(pid)}
		return c
	}
	off := on("w:b", "/tiny")
	off.Running = false
	part := on("w:b", "/tiny")
	part.Part = &workload.Part{Of: "w:x"}
	for _, tt := range []struct {
		what   string
		first  workload.Claim
		second workload.Claim
		twice  string // what is claimed twice
		stays  bool   // the second claim, with the rest
	}{
		{"nothing", on("w:a", "/system.slice/db.service"), on("w:b", "/system.slice/web.service"), "", true},
		{"a workload", on("w:a", "/x"), on("w:a", "/y"), "w:a", false},
		{"an observed cgroup", on("w:a", "/system.slice/db.service"), on("w:b", "/system.slice/db.service"), "/system.slice/db.service", false},
		{"one of two cgroups", on("w:a", "/system.slice/db.service"), on("w:b", "/system.slice"), "/system.slice/db.service", true},
		{"a cgroup too small to be observed", on("w:a", "/tiny"), on("w:b", "/tiny"), "/tiny", false},
		{"a process", with(on("w:a"), 1), with(on("w:b"), 1), "PID 1", false},
		{"two processes", with(on("w:a"), 1), with(on("w:b"), 2), "", true},
		{"a claim that is off", on("w:a", "/tiny"), off, "", true},
		{"a part", on("w:a", "/tiny"), part, "", true},
	} {
		s := seen(service("db"), service("web"))
		snap, _ := s.Merge(s.Snapshot, []Claimed{
			{Source: "one", Claims: []workload.Claim{tt.first}}, {Source: "two", Claims: []workload.Claim{tt.second}},
		})
		if (len(snap.Problems) > 0) != (tt.twice != "") {
			t.Errorf("%s: %+v", tt.what, snap.Problems)
		}
		for _, p := range snap.Problems {
			why := words.Because(words.ClaimedTwice, string(tt.second.ID), tt.twice, "one").String()
			if p.Subject != "two" || p.Text != why {
				t.Errorf("%s: %+v, want %s", tt.what, p, why)
			}
		}
		stays := s.Claims[tt.second.ID] != nil && tt.first.ID != tt.second.ID
		if stays != tt.stays {
			t.Errorf("%s: the second claim stays: %v", tt.what, stays)
		}
		same, _ := s.Merge(seen(service("db")).Snapshot, claims(tt.first, tt.second))
		if len(same.Problems) > 0 {
			t.Errorf("%s, of one source: %+v", tt.what, same.Problems)
		}
	}
}

// TestFoundByAClaim: a claim finds its process, or all below the cgroups that it names by their paths.
func TestFoundByAClaim(t *testing.T) {
	all := []workload.Observation{
		service("a"), service("b"), process(7, 0, 1),
		{ID: "/system.slice/b.service/x", Kind: workload.InCgroup, Cgroup: "/system.slice/b.service/x"},
		{ID: "/system.slice/b.service-x", Kind: workload.InCgroup, Cgroup: "/system.slice/b.service-x"},
	}
	p := positionsOf(all)
	for _, tt := range []struct {
		what    string
		process workload.Process
		cgroups []string
		want    []int
	}{
		{"a cgroup", workload.Process{}, []string{"/system.slice/a.service"}, []int{0}},
		{"a cgroup and below it", workload.Process{}, []string{"/system.slice/b.service"}, []int{1, 3}},
		{"in their order", workload.Process{}, []string{"/system.slice/b.service", "/system.slice/a.service"}, []int{1, 3, 0}},
		{"none", workload.Process{}, []string{"/system.slice/c.service"}, nil},
		{"its process", workload.Process{PID: 7, Start: 7}, []string{"/system.slice/a.service"}, []int{2}},
		{"a later process", workload.Process{PID: 7, Start: 8}, []string{"/system.slice/a.service"}, nil},
		{"the first of a name", workload.Process{}, []string{"a.service"}, []int{0}},
		{"none of a name", workload.Process{}, []string{"c.service"}, nil},
	} {
		got := p.of(&workload.Claim{Process: tt.process, Cgroups: tt.cgroups})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestOwnerOfAClaim: a source knows the party; else the cgroup of what is not seen does.
func TestOwnerOfAClaim(t *testing.T) {
	h := host()
	scope := "/user.slice/user-1000.slice/session-1.scope"
	c := workload.Claim{ID: "w:a", Cgroups: []string{scope}, Running: true}
	if o := asClaimed(workload.Observation{}, &c, h); o.Owner != workload.UserOwner(1000) || o.Kind != workload.InCgroup || o.Cgroup != scope {
		t.Errorf("%+v", o)
	}
	o := asClaimed(workload.Observation{Kind: workload.InCgroup, Owner: "pod:x"}, &c, h)
	if o.Owner != "pod:x" {
		t.Errorf("%q", o.Owner)
	}
	c.Owner = workload.NamespaceOwner("shop")
	if o = asClaimed(o, &c, h); o.Owner != c.Owner {
		t.Errorf("%q", o.Owner)
	}
	c.Part, c.Driver = &workload.Part{Memory: 1}, inMachine
	if o = asClaimed(o, &c, h); o.AskedFor.String() != "1" || o.Kind != inMachine {
		t.Errorf("%+v", o)
	}
}
