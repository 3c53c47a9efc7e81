package scene

import (
	"testing"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestWithoutOwn: what a party said of its own work counts no more, and only that.
func TestWithoutOwn(t *testing.T) {
	full := workload.Spec{Class: workload.Dedicated, CPUs: 2, Memory: 5, Given: true}
	for _, tt := range []struct {
		asked  workload.Asked
		class  workload.Class
		cpus   int
		memory topology.KiB
		given  bool
	}{
		{workload.Asked{}, workload.Dedicated, 2, 5, true},
		{workload.Asked{Class: workload.Own}, workload.Shared, 2, 5, true},
		{workload.Asked{CPUs: workload.Own}, workload.Dedicated, 0, 5, false},
		{workload.Asked{Memory: workload.Own}, workload.Dedicated, 2, 0, false},
		{workload.AllOwn, workload.Shared, 0, 0, false},
		{workload.Asked{Class: workload.Operator, CPUs: workload.Operator}, workload.Dedicated, 2, 5, true},
	} {
		spec := full
		WithoutOwn(&spec, &tt.asked)
		if spec.Class != tt.class || spec.CPUs != tt.cpus || spec.Memory != tt.memory || spec.Given != tt.given {
			t.Errorf("%+v: %+v", tt.asked, spec)
		}
	}
}

// TestOwnStart: who has started a workload that no request and no source speaks for.
func TestOwnStart(t *testing.T) {
	user := workload.UserOwner(1000)
	scope := service("x")
	scope.Cgroup = "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"
	scope.ID, scope.Owner = workload.ID(scope.Cgroup), user
	for _, tt := range []struct {
		what string
		of   workload.Observation
		do   func(*Scene, *Basis, *workload.Observation)
		want workload.Owner
	}{
		{"a process", process(7, 1000, 1), nil, user},
		{"root's process", process(7, 0, 1), nil, workload.SystemOwner},
		{"a scope", scope, nil, user},
		{"a unit", service("db"), nil, workload.SystemOwner},
		{"a unit that runs as a user", service("db"), func(_ *Scene, _ *Basis, o *workload.Observation) { o.Owner = user }, workload.SystemOwner},
		{"a namespace's", process(7, 0, 1), func(_ *Scene, _ *Basis, o *workload.Observation) { o.Owner = workload.NamespaceOwner("a") }, workload.SystemOwner},
		{"admitted", process(7, 1000, 1), func(_ *Scene, b *Basis, o *workload.Observation) { b.Admissions[o.ID] = Admission{} }, workload.SystemOwner},
		{"claimed", process(7, 1000, 1), func(s *Scene, _ *Basis, o *workload.Observation) {
			s.Claims = map[workload.ID]*workload.Claim{o.ID: {}}
		}, workload.SystemOwner},
		{"sized by its path", scope, func(_ *Scene, b *Basis, _ *workload.Observation) {
			b.Settings.Rules = []workload.Rule{{Match: "/user.slice/**", Memory: 5}}
		}, workload.SystemOwner},
		{"sized in CPUs by its path", scope, func(_ *Scene, b *Basis, _ *workload.Observation) {
			b.Settings.Rules = []workload.Rule{{Match: "/user.slice/**", CPUs: 5}}
		}, workload.SystemOwner},
		{"dedicated by its path", scope, func(_ *Scene, b *Basis, _ *workload.Observation) {
			b.Settings.Rules = []workload.Rule{{Match: "/user.slice/**", Class: workload.Dedicated}}
		}, workload.SystemOwner},
		{"not sized by its path", scope, func(_ *Scene, b *Basis, _ *workload.Observation) {
			b.Settings.Rules = []workload.Rule{{Match: "/user.slice/**", Tier: workload.Online}}
		}, user},
		{"sized by its name", scope, func(_ *Scene, b *Basis, _ *workload.Observation) {
			b.Settings.Rules = []workload.Rule{{Match: "x", Memory: 5}}
		}, user},
	} {
		by, _ := basis()
		s := seen(tt.of)
		o := &s.Snapshot.Observations[0]
		if tt.do != nil {
			tt.do(s, by, o)
		}
		if got := s.ownStart(by, o); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// TestUsed: a rule by a name gives at least what is used, and a dedicated workload one CPU.
func TestUsed(t *testing.T) {
	o := process(7, 1000, plantest.GiB)
	for _, tt := range []struct {
		rule   workload.Rule
		cpus   float64
		memory topology.KiB
	}{
		{workload.Rule{Match: "x"}, 0.1, 1},
		{workload.Rule{Match: "w7", Memory: 2 * plantest.GiB}, 0.1, 2},
		{workload.Rule{Match: "w7", Memory: 5}, 0.1, 1},
		{workload.Rule{Match: "w7", Class: workload.Dedicated}, 1, 1},
		{workload.Rule{Match: "w7", Class: workload.Dedicated, CPUs: 3}, 3, 1},
		{workload.Rule{Match: "/user.slice/**", Memory: 2 * plantest.GiB}, 0.1, 1},
	} {
		by, _ := basis()
		by.Settings.Rules = []workload.Rule{tt.rule}
		if got := used(by, &o); got != (Amount{tt.cpus, tt.memory * plantest.GiB}) {
			t.Errorf("%+v: %+v", tt.rule, got)
		}
	}
}

// TestWithin: a share of the host is within it, and more is not.
func TestWithin(t *testing.T) {
	all := Amount{CPUs: 8, Memory: 32}
	for _, tt := range []struct {
		a    Amount
		want bool
	}{{Amount{4, 16}, true}, {Amount{4, 17}, false}, {Amount{4.01, 16}, false}, {Amount{}, true}} {
		if got := tt.a.Within(0.5, all); got != tt.want {
			t.Errorf("%+v: %v", tt.a, got)
		}
	}
}

// TestMayBook: what a party has already counts, and what others have for the ceiling of all.
func TestMayBook(t *testing.T) {
	shop := workload.NamespaceOwner("shop")
	ask := func(gib int, cpus int, class workload.Class) *workload.Spec {
		return &workload.Spec{ID: "asked", Class: class, CPUs: cpus, Memory: topology.KiB(gib) * plantest.GiB}
	}
	own := workload.Origin{Owner: shop, Asked: workload.AllOwn}
	half := Amount{Memory: 8 * plantest.GiB}
	for _, tt := range []struct { // of 32 GiB and 8 CPUs
		what string
		spec *workload.Spec
		from workload.Origin
		do   func(*Scene, *Basis)
		want words.Code
	}{
		{"a class of its own, with CPUs of the operator", ask(1, 5, workload.Dedicated), workload.Origin{Owner: shop, Asked: workload.Asked{Class: workload.Own}}, nil, words.OwnerShare},
		{"dedicated by the operator", ask(1, 5, workload.Dedicated), workload.Origin{Owner: shop, Asked: workload.Asked{Memory: workload.Own}}, nil, ""},
		{"shared, a class of its own", ask(1, 9, workload.Shared), workload.Origin{Owner: shop, Asked: workload.Asked{Class: workload.Own}}, nil, ""},
		{"half of the CPUs, without overcommit", ask(1, 4, workload.Shared), own, func(_ *Scene, b *Basis) { b.Settings.Overcommit = 0.5 }, ""},
		{"half of the memory", ask(16, 1, workload.Shared), own, nil, ""},
		{"more than half", ask(17, 1, workload.Shared), own, nil, words.OwnerShare},
		{"by the operator", ask(17, 1, workload.Shared), workload.Origin{Owner: shop}, nil, ""},
		{"by the system", ask(17, 1, workload.Shared), workload.Origin{Asked: workload.AllOwn}, nil, ""},
		{"half of the CPUs", ask(1, 4, workload.Dedicated), own, nil, ""},
		{"more CPUs", ask(1, 5, workload.Dedicated), own, nil, words.OwnerShare},
		{"shared CPUs", ask(1, 8, workload.Shared), own, nil, ""},
		{"more shared CPUs", ask(1, 9, workload.Shared), own, nil, words.OwnerShare},
		{"batch work", ask(31, 99, workload.Batch), own, nil, ""},
		{"over its words", ask(9, 1, workload.Shared), own, func(s *Scene, _ *Basis) {
			s.Words = map[workload.Owner]Amount{shop: half}
		}, words.OwnerShare},
		{"over its use", ask(9, 1, workload.Shared), own, func(s *Scene, _ *Basis) {
			s.Used = map[workload.Owner]Amount{shop: half}
		}, words.OwnerShare},
		{"beside the use of others", ask(9, 1, workload.Shared), own, func(s *Scene, _ *Basis) {
			s.Used = map[workload.Owner]Amount{"x": half.Plus(half).Plus(half)}
		}, ""},
		{"beside the words of others", ask(9, 1, workload.Shared), own, func(s *Scene, _ *Basis) {
			s.Words = map[workload.Owner]Amount{"x": half, "y": half}
		}, words.AllShare},
		{"over what it was promised", ask(9, 1, workload.Shared), own, func(_ *Scene, b *Basis) {
			b.Admissions["z"] = Admission{Spec: *ask(8, 1, workload.Shared), From: own}
		}, words.OwnerShare},
		{"anew", ask(9, 1, workload.Shared), own, func(_ *Scene, b *Basis) {
			b.Admissions["asked"] = Admission{Spec: *ask(8, 1, workload.Shared), From: own}
		}, ""},
		{"over a process by its use", ask(9, 1, workload.Shared), own, func(s *Scene, b *Basis) {
			b.Admissions["pid:7"] = Admission{Spec: *ask(0, 1, workload.Shared), From: own, Process: workload.Process{PID: 7, Start: 7}}
		}, words.OwnerShare},
		{"over what has come", ask(9, 1, workload.Shared), own, func(s *Scene, b *Basis) {
			b.Admissions["pid:7"] = Admission{Spec: *ask(8, 1, workload.Shared), From: own}
			s.Claims = map[workload.ID]*workload.Claim{"pid:7": {Spec: ask(8, 1, workload.Shared)}}
		}, ""},
	} {
		by, _ := basis()
		s := seen(process(7, 1000, 8*plantest.GiB))
		if tt.do != nil {
			tt.do(s, by)
		}
		if got := s.MayBook(by, tt.spec, &tt.from).Code; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// TestBoundClaims: the smallest words count first, and none beyond what their workloads use.
func TestBoundClaims(t *testing.T) {
	shop := workload.NamespaceOwner("shop")
	claim := func(id workload.ID, gib int) workload.Claim {
		return workload.Claim{
			ID: id, Running: true, Driver: inMachine, Owner: shop, Asked: workload.AllOwn,
			Spec: &workload.Spec{Class: workload.Shared, CPUs: 1, Memory: topology.KiB(gib) * plantest.GiB},
		}
	}
	using := claim("w:using", 17)
	using.Cgroups = []string{"/system.slice/db.service"} // which holds 1 GiB
	booked := claim("w:booked", 30)
	booked.Booked = true
	ruled := claim("w:ruled", 30)
	ruled.Asked = workload.Asked{}
	by, _ := basis()
	s := seen(service("db"))
	snap, _ := s.Merge(s.Snapshot, claims(claim("w:large", 15), claim("w:small", 2), booked, ruled, using))
	s.Show(snap)
	s.BoundClaims(by)
	if len(s.Beyond) != 2 || s.Beyond["w:large"].Code != words.OwnerShare || s.Beyond["w:using"].Code != words.OwnerShare {
		t.Errorf("%+v", s.Beyond)
	}
	if got := s.Words[shop].Memory; got != 2*plantest.GiB {
		t.Errorf("%d KiB are booked", got)
	}
	snap, _ = s.Merge(workload.Snapshot{Host: host(), Observations: []workload.Observation{service("db")}}, claims(using))
	s.Show(snap)
	s.BoundClaims(by)
	if len(s.Beyond) != 0 || s.Words[shop].Memory != 16*plantest.GiB || s.Words[shop].CPUs != 0 {
		t.Errorf("%+v, %+v", s.Beyond, s.Words)
	}
}
