package control

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// Each key of a rule has its effect on a guest, or is named as one that a guest cannot have from
// it: none is dropped in silence, nor is one that comes to be.
func TestEachKeyOfARuleReachesGuests(t *testing.T) {
	ninety := 90
	for key, tt := range map[string]struct {
		rule    workload.Rule
		effect  func(*workload.Spec) bool // nil: it is refused …
		refusal string                    // … by these words
	}{
		"Match":      {workload.Rule{}, func(*workload.Spec) bool { return true }, ""},
		"Class":      {workload.Rule{Class: workload.Dedicated}, nil, "class dedicated"},
		"Tier":       {workload.Rule{Tier: workload.Online}, func(s *workload.Spec) bool { return s.Tier == workload.Online }, ""},
		"Importance": {workload.Rule{Importance: &ninety}, func(s *workload.Spec) bool { return s.Importance == 90 }, ""},
		"CPUs":       {workload.Rule{CPUs: 3}, nil, "3 CPUs"},
		"Memory":     {workload.Rule{Memory: 2 << 20}, nil, "2 GiB of memory"},
		"Isolated":   {workload.Rule{Isolated: true}, func(s *workload.Spec) bool { return s.Isolated }, ""},
		"SMT":        {workload.Rule{SMT: workload.SMTIsolate}, nil, "smt isolate"},
		"Near": {workload.Rule{Near: []string{"device=eth0,policy=required"}, NearGiven: true},
			func(s *workload.Spec) bool { return len(s.Near) == 1 && s.Near[0].Required }, ""},
		"Goals": {workload.Rule{Goals: []workload.Goal{p99}},
			func(s *workload.Spec) bool { return len(s.Goals) == 1 }, ""},
		"NearGiven": {workload.Rule{NearGiven: true}, func(s *workload.Spec) bool { return len(s.Near) == 0 }, ""}, // no learned link
	} {
		rule := tt.rule
		rule.Match = "vm:a"
		f := newFake(t, 2, 8, ruled(rule))
		f.byHand = true
		f.add("a", 1, 1<<20, 0)
		f.claimedScan(boundBy("vm:a", "/a"))
		f.s.Links["vm:a"] = []Link{{Link: workload.Link{Device: "eth1", Kind: workload.ByTap}, Rate: 1 << 20}}
		spec := f.s.SpecOf(f.s.Observation("vm:a"))
		named := ""
		for _, p := range f.s.Snapshot.Problems {
			named += p.Text
		}
		switch {
		case tt.effect != nil && (!tt.effect(&spec) || named != ""):
			t.Errorf("%s: %+v, told %q", key, spec, named)
		case tt.effect == nil && !strings.Contains(named, tt.refusal):
			t.Errorf("%s: told %q, want %q in it", key, named, tt.refusal)
		}
		delete(keysOfARule, key)
	}
	if len(keysOfARule) > 0 {
		t.Errorf("not tried: %v", keysOfARule)
	}
}

var keysOfARule = func() map[string]bool {
	out := map[string]bool{}
	for i := range reflect.TypeFor[workload.Rule]().NumField() {
		out[reflect.TypeFor[workload.Rule]().Field(i).Name] = true
	}
	return out
}()

// A guest that has to be near a device comes to it, and one that has to be near a process follows
// that; when the process is gone it stays where it is and says why.
func TestGuestRequiredNear(t *testing.T) {
	guestOn := func(node topology.NodeID) workload.Claim {
		c := boundBy("vm:a", "/a")
		cpus := topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
		if node == 1 {
			cpus = topology.CPUs(8, 9, 10, 11, 12, 13, 14, 15)
		}
		c.CPUs, c.Mems = cpus, topology.Nodes(node)
		c.Home = &workload.Placement{Workload: "vm:a", Class: workload.Shared, Importance: 50, VCPUs: 2, Home: topology.Nodes(node), CPUs: cpus,
			Memory: []workload.NodeMemory{{Node: node, KiB: 1 << 20}}, Asked: 1 << 20}
		return c
	}
	for _, tt := range []struct {
		name, near string
		home       string
		because    words.Code
	}{
		{"a wish moves nothing that is at home", "process=poll", "0", ""},
		{"required", "process=poll,policy=required", "1", ""},
		{"a service that does not run", "service=poll,policy=required", "", words.RequiredNotRunning},
		{"a device that is not there", "device=eth9,policy=required", "", words.RequiredNoDevice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 2, 8, ruled(workload.Rule{Match: "vm:a", Near: []string{tt.near}, NearGiven: true}))
			f.add("a", 1, 1<<20, 0)
			poll := f.addProcess(77, "poll", 1, 1<<20, 1)
			f.works[poll].obs.RanOn = []workload.NodeShare{{Node: 1, Share: 1}}
			for range 3 {
				f.claimedScan(guestOn(0))
			}
			if got := f.home("vm:a"); got != tt.home {
				t.Errorf("home %q, want %q: %v", got, tt.home, f.decision("vm:a").Reasons)
			}
			if tt.because != "" && !wordstest.Has(f.decision("vm:a").Reasons, words.Reason{Code: tt.because}) {
				t.Errorf("%v", f.decision("vm:a").Reasons)
			}
		})
	}
}

// What an ordinary user starts under the name of a daemon, or as a unit of that name, moves no work
// of anybody else: neither where a rule names it, nor by a socket that the user has connected.
func TestNearNothingOfOtherUsers(t *testing.T) {
	const user = 1000
	for _, tt := range []struct {
		name, near string
		by, of     int // the users of what is called so, and of who is to be near it
		counts     bool
	}{
		{"a user's, for the system's", "process=osd,policy=required", user, 0, false},
		{"a user's unit, for the system's", "service=osd,policy=required", user, 0, false},
		{"a user's, for another's", "process=osd,policy=required", user, user + 1, false},
		{"a user's, for its own", "process=osd,policy=required", user, user, true},
		{"a system user's", "process=osd,policy=required", 64045, 0, true},
		{"the system's, for a user's", "process=osd,policy=required", 0, user, true},
		{"a user's by what the kernel calls it", "process=pid:77,policy=required", user, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/a", Near: []string{tt.near}, NearGiven: true}))
			f.add("a", 1, 1<<20, 0)
			f.works["/a"].obs.UID = tt.of
			f.scan(3)
			osd := f.addProcess(77, "osd", 1, 1<<20, 1)
			f.works[osd].obs.UID = tt.by
			f.works[osd].obs.RanOn = []workload.NodeShare{{Node: 1, Share: 1}}
			f.scan(1)
			spec := f.s.SpecOf(f.s.Observation("/a"))
			if got := spec.Near[0].Workload == osd; got != (tt.counts && !strings.Contains(tt.near, "service")) {
				t.Errorf("counts %v: %+v", got, spec.Near)
			}
		})
	}
}

// A process of a container is its pod's, whatever its UID: as root, or as a user that the host has for a service, its name moves
// no work of the system or of another namespace.
func TestNamesOfContainers(t *testing.T) {
	evil, shop := workload.NamespaceOwner("evil"), workload.NamespaceOwner("shop")
	for _, uid := range []int{0, 64045, 65534, 1000} {
		for of, counts := range map[workload.Owner]bool{workload.SystemOwner: false, shop: false, evil: true} {
			f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/a", Near: []string{"process=spdk_tgt,policy=required"}, NearGiven: true}))
			f.add("a", 1, 1<<20, 0)
			f.works["/a"].obs.Owner = of
			spdk := f.addProcess(77, "spdk_tgt", 1, 1<<20, 1)
			f.works[spdk].obs.UID, f.works[spdk].obs.Owner = uid, evil
			f.scan(2)
			if got := f.s.SpecOf(f.s.Observation("/a")).Near[0].Workload == spdk; got != counts {
				t.Errorf("UID %d, for %q: counts %v, want %v", uid, of, got, counts)
			}
		}
	}
}

// A program in a pod is root there and called what the pod's author likes: it counts for that pod
// alone.
func TestNearNothingOfAnotherPod(t *testing.T) {
	web, db := workload.PodOwner("web"), workload.PodOwner("db")
	for _, tt := range []struct {
		name   string
		by, of workload.Owner
		counts bool
	}{
		{"a pod's, for the system's", web, workload.SystemOwner, false},
		{"a pod's, for another's", web, db, false},
		{"a pod's, for its own", web, web, true},
		{"the system's, for a pod's", workload.SystemOwner, db, true},
	} {
		f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/a", Near: []string{"process=osd,policy=required"}, NearGiven: true}))
		f.add("a", 1, 1<<20, 0)
		f.works["/a"].obs.Owner = tt.of
		osd := f.add("osd", 1, 1<<20, 1)
		f.works[osd].obs.Owner = tt.by
		f.scan(2)
		near := f.s.SpecOf(f.s.Observation("/a")).Near
		if got := near[0].Workload == osd; got != tt.counts {
			t.Errorf("%s: %+v", tt.name, near)
		}
	}
}

// Several of one name: the system's alone counts for the system's work.
func TestNearTheSystemsOwn(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/a", Near: []string{"process=osd,policy=required"}, NearGiven: true}))
	f.add("a", 1, 1<<20, 0)
	for pid, user := range map[int]int{77: 0, 78: 1000} {
		f.works[f.addProcess(pid, "osd", 1, 1<<20, 1)].obs.UID = user
	}
	f.scan(2)
	if near := f.s.SpecOf(f.s.Observation("/a")).Near; near[0].Workload != "pid:77" {
		t.Errorf("%+v", near)
	}
}

// A request that names a service is answered by where that runs.
func TestPlaceNearAService(t *testing.T) {
	f := newFake(t, 2, 8)
	ovs := f.add("system.slice/ovs.service", 1, 1<<20, 1)
	f.scan(2)
	near, err := workload.ParseNear("service=ovs,policy=required")
	if err != nil {
		t.Fatal(err)
	}
	asked := workload.Spec{Name: "x", Class: workload.Shared, CPUs: 1, Near: near}
	r := f.ask(Request{Place: &PlaceRequest{Spec: asked}})
	if r.Failed != nil || r.Place.Placement.Home.String() != f.home(ovs) {
		t.Errorf("%+v; the service is on %s", r, f.home(ovs))
	}
	if diff := cmp.Diff(near, asked.Near); diff != "" {
		t.Errorf("who asks finds his wish changed:\n%s", diff)
	}
}
