package scene

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// What `homenode run` was told goes over what is derived, and what it was not told stays.
func TestSpecOfWhatRunPlaced(t *testing.T) {
	learned := []workload.Near{{Device: "eth0"}}
	derived := workload.Spec{ID: "pid:7", Name: "x", Class: workload.Shared, CPUs: 1, Importance: 30, Memory: 5, HugePage: 6, SMT: workload.SMTPrefer, Near: learned}
	for _, tt := range []struct{ asked, want workload.Spec }{
		{workload.Spec{Name: "db", Class: workload.Dedicated, CPUs: 2},
			workload.Spec{ID: "pid:7", Name: "db", Class: workload.Dedicated, CPUs: 2, Importance: 30, Memory: 5, HugePage: 6, SMT: workload.SMTPrefer, Given: true}},
		{workload.Spec{Name: "db", Class: workload.Shared, CPUs: 2, Memory: 9, HugePage: 2048, SMT: workload.SMTIsolate, Near: []workload.Near{{Device: "eth1"}}},
			workload.Spec{ID: "pid:7", Name: "db", Class: workload.Shared, CPUs: 2, Importance: 30, Memory: 9, HugePage: 2048, SMT: workload.SMTIsolate, Near: []workload.Near{{Device: "eth1"}}, Given: true}},
	} {
		a := Admission{Spec: tt.asked}
		if diff := cmp.Diff(tt.want, a.over(derived)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestSpecOf: who says how large a workload is, and what it is near to.
func TestSpecOf(t *testing.T) {
	importance := 80
	learned := Link{Link: workload.Link{Device: "eth0", Kind: workload.ByTap}, Rate: 1 << 20}
	named := workload.Rule{
		Match: "db", Class: workload.Dedicated, CPUs: 3, Memory: 2 << 20, SMT: workload.SMTIsolate, Importance: &importance,
	}
	near := workload.Rule{Match: "db", Near: []string{"device=eth1"}, NearGiven: true}
	spec := workload.Spec{Class: workload.Shared, CPUs: 2, Memory: 4 << 20, Importance: 50, SMT: workload.SMTPrefer}
	empty := spec
	empty.CPUs, empty.Memory = 0, 0
	unsized := spec
	unsized.CPUs = 0
	own := workload.Asked{CPUs: workload.Own, Memory: workload.Own}
	for _, tt := range []struct {
		what   string
		claim  *workload.Claim
		rules  []workload.Rule
		beyond bool
		class  workload.Class
		cpus   int
		memory int64
		near   string
		weight int // the importance
	}{
		{what: "seen", class: workload.Shared, cpus: 2, memory: 1 << 20, near: "eth0", weight: 50},
		{what: "a rule", rules: []workload.Rule{named}, class: workload.Dedicated, cpus: 3, memory: 2 << 20, near: "eth0", weight: 80},
		{what: "near by a rule", rules: []workload.Rule{near}, class: workload.Shared, cpus: 2, memory: 1 << 20, near: "eth1", weight: 50},
		{what: "near nothing by a rule", rules: []workload.Rule{{Match: "db", NearGiven: true}}, class: workload.Shared, cpus: 2, memory: 1 << 20, weight: 50},
		{what: "a claim", claim: &workload.Claim{Spec: &spec}, class: workload.Shared, cpus: 2, memory: 4 << 20, near: "eth0", weight: 50},
		{what: "a claim without a spec", claim: &workload.Claim{}, class: workload.Shared, cpus: 2, memory: 1 << 20, near: "eth0", weight: 50},
		{what: "a claim without a size", claim: &workload.Claim{Spec: &empty}, class: workload.Shared, cpus: 2, memory: 1 << 20, near: "eth0", weight: 50},
		{what: "a claim without CPUs", claim: &workload.Claim{Spec: &unsized}, class: workload.Shared, cpus: 2, memory: 4 << 20, near: "eth0", weight: 50},
		{what: "a rule for a claim", claim: &workload.Claim{Spec: &spec}, rules: []workload.Rule{named}, class: workload.Dedicated, cpus: 3, memory: 2 << 20, near: "eth0", weight: 80},
		{what: "a rule for a claim with a driver", claim: &workload.Claim{Spec: &spec, Driver: inMachine}, rules: []workload.Rule{named}, class: workload.Shared, cpus: 2, memory: 4 << 20, near: "eth0", weight: 80},
		{what: "a claim with its rules", claim: &workload.Claim{Spec: &spec, Ruled: true}, rules: []workload.Rule{named, near}, class: workload.Shared, cpus: 2, memory: 4 << 20, near: "eth0", weight: 50},
		{what: "near by a rule, a claim", claim: &workload.Claim{Spec: &spec}, rules: []workload.Rule{near}, class: workload.Shared, cpus: 2, memory: 4 << 20, near: "eth1", weight: 50},
		{what: "beyond the ceiling", claim: &workload.Claim{Spec: &spec, Asked: own}, beyond: true, class: workload.Shared, cpus: 2, memory: 1 << 20, near: "eth0", weight: 50},
	} {
		by, _ := basis()
		by.Settings.Rules = tt.rules
		s := seen(service("db"))
		o := &s.Snapshot.Observations[0]
		o.Bandwidth = 1000
		s.Links = map[workload.ID][]Link{o.ID: {learned}}
		if tt.claim != nil {
			s.Claims = map[workload.ID]*workload.Claim{o.ID: tt.claim}
		}
		if tt.beyond {
			s.Beyond = map[workload.ID]words.Reason{o.ID: words.Because(words.AllShare, AllShare)}
		}
		got := s.SpecOf(by, o)
		device := ""
		if len(got.Near) == 1 {
			device = got.Near[0].Device
		}
		if got.Class != tt.class || got.CPUs != tt.cpus || int64(got.Memory) != tt.memory {
			t.Errorf("%s: %s, %d CPUs, %d KiB", tt.what, got.Class, got.CPUs, got.Memory)
		}
		if device != tt.near || len(got.Near) > 1 || got.Importance != tt.weight {
			t.Errorf("%s: near %+v, importance %d", tt.what, got.Near, got.Importance)
		}
	}
	if len(spec.Near) != 0 {
		t.Error("the spec of the claim was changed")
	}
}

// TestRuleOfACgroup: a rule for a whole cgroup gives no process in it the size of the cgroup.
func TestRuleOfACgroup(t *testing.T) {
	by, _ := basis()
	by.Settings.Rules = []workload.Rule{{Match: "/user.slice/**", CPUs: 3, Memory: 8 << 20}}
	s := seen(process(7, 1000, 1<<20), service("db"))
	o := s.Observation("pid:7")
	if got := s.SpecOf(by, o); got.CPUs != 1 || got.Memory != 1<<20 || got.Given {
		t.Errorf("%+v", got)
	}
	by.Settings.Rules[0].Match = "w7"
	if got := s.SpecOf(by, o); got.CPUs != 3 || got.Memory != 8<<20 || !got.Given {
		t.Errorf("%+v", got)
	}
}

// TestUnfollowed: what a rule asks of a claimed workload in vain is a problem.
func TestUnfollowed(t *testing.T) {
	spec := workload.Spec{Class: workload.Shared, CPUs: 2, Memory: 4 << 20, SMT: workload.SMTPrefer}
	for _, tt := range []struct {
		rule workload.Rule
		want string
	}{
		{workload.Rule{Class: workload.Dedicated}, "class dedicated"},
		{workload.Rule{Class: workload.Batch, Tier: workload.BatchTier}, ""},
		{workload.Rule{CPUs: 3}, "3 CPUs"},
		{workload.Rule{CPUs: 1}, "1 CPUs"},
		{workload.Rule{Memory: 2 << 20}, "2 GiB of memory"},
		{workload.Rule{SMT: workload.SMTIsolate}, "smt isolate"},
		{workload.Rule{Class: workload.Shared, CPUs: 2, Memory: 4 << 20, SMT: workload.SMTPrefer}, ""},
		{workload.Rule{CPUs: 3, SMT: workload.SMTIsolate}, "3 CPUs, smt isolate"},
	} {
		rule := tt.rule
		rule.Match = "db"
		s := seen(service("db"), service("web"))
		id := s.Snapshot.Observations[0].ID
		s.Claims = map[workload.ID]*workload.Claim{id: {Spec: &spec, Driver: inMachine}}
		got := s.Unfollowed([]workload.Rule{rule})
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%+v: %+v", tt.rule, got)
		case tt.want != "" && (len(got) != 1 || got[0].Subject != string(id) || !strings.Contains(got[0].Text, tt.want)):
			t.Errorf("%+v: %+v, want %s", tt.rule, got, tt.want)
		}
		s.Claims[id].Driver = ""
		if got := s.Unfollowed([]workload.Rule{rule}); len(got) > 0 {
			t.Errorf("%+v, without a driver: %+v", tt.rule, got)
		}
	}
}

// TestLearned: what a workload works with draws it, unless it is itself, follows, or is another user's.
func TestLearned(t *testing.T) {
	const id, other = "/system.slice/db.service", "/system.slice/nbd.service"
	for _, tt := range []struct {
		what string
		do   func(*Scene)
		want bool
	}{
		{"a helper", func(*Scene) {}, true},
		{"a helper of a user", func(s *Scene) { s.Observation(other).UID = 1000 }, false},
		{"a helper that follows", func(s *Scene) { s.Following[other] = nearness.Following{Follows: true} }, false},
		{"itself", func(s *Scene) { s.Helpers[ProcessKey{PID: 9, Start: 9}] = id }, false},
		{"a helper that is no workload", func(s *Scene) { s.Helpers[ProcessKey{PID: 9, Start: 9}] = "" }, true},
	} {
		by, _ := basis()
		s := seen(service("db"), service("nbd"))
		s.Following = map[workload.ID]nearness.Following{}
		s.Helpers = map[ProcessKey]workload.ID{{PID: 9, Start: 9}: other}
		link := workload.Link{Kind: workload.BySocket, Helper: workload.Process{PID: 9, Start: 9}, Nodes: topology.Nodes(1)}
		s.Links = map[workload.ID][]Link{id: {{Link: link, Rate: -1}}}
		tt.do(s)
		if near := s.SpecOf(by, s.Observation(id)).Near; (len(near) == 1) != tt.want {
			t.Errorf("%s: %+v", tt.what, near)
		}
	}
}
