package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// scope adds a cgroup below the slice of a user, as systemd-run --user --scope makes it.
func (f *fake) scope(uid int, name string, cpus float64, kib topology.KiB, on topology.NodeID) workload.ID {
	id := f.add(fmt.Sprintf("user.slice/user-%d.slice/user@%d.service/app.slice/%s.scope", uid, uid, name), cpus, kib, on)
	f.works[id].obs.UID = uid
	return id
}

// process adds a process of a user.
func (f *fake) process(uid, pid int, cpus float64, kib topology.KiB, on topology.NodeID) workload.ID {
	id := f.addProcess(pid, fmt.Sprint("w", pid), cpus, kib, on)
	f.works[id].obs.UID = uid
	return id
}

// booked returns the share of the host's memory that some workloads hold with a home.
func (f *fake) booked(all []workload.ID) float64 {
	var kib, host topology.KiB
	for _, id := range all {
		if f.placement(id) != nil {
			kib += workload.Total(f.works[id].obs.Memory)
		}
	}
	for _, n := range f.snapshot().Host.Nodes {
		host += n.Memory
	}
	return float64(kib) / float64(host)
}

// One party holds half of the host at most, by processes, by scopes of a service manager of its own, by UIDs of its own
// (subuid(5)), or by all of them together.
func TestOneOwnerHoldsHalf(t *testing.T) {
	const n = 20
	each := topology.KiB(16<<20) * 9 / 10 / n
	for name, add := range map[string]func(f *fake, i int) workload.ID{
		"processes": func(f *fake, i int) workload.ID {
			return f.process(1000, 100+i, 0.1, each, topology.NodeID(i%2))
		},
		"scopes": func(f *fake, i int) workload.ID {
			return f.scope(1000, fmt.Sprint("w", i), 0.1, each, topology.NodeID(i%2))
		},
		"processes and scopes": func(f *fake, i int) workload.ID {
			if i%2 == 0 {
				return f.process(1000, 100+i, 0.1, each, topology.NodeID(i/2%2))
			}
			return f.scope(1000, fmt.Sprint("w", i), 0.1, each, topology.NodeID(i/2%2))
		},
		"other UIDs": func(f *fake, i int) workload.ID {
			id := f.process(100_000+i, 100+i, 0.1, each, topology.NodeID(i%2))
			f.works[id].obs.Owner = workload.UserOwner(1000)
			return id
		},
	} {
		f := newFake(t, 2, 8)
		var all []workload.ID
		for i := range n {
			all = append(all, add(f, i))
		}
		f.scan(4)
		if got := f.booked(all); got > scene.OwnShare || got < 0.4 {
			t.Errorf("%s: %.0f %% of the host's memory is booked for one user", name, 100*got)
		}
		alone := 0
		for _, id := range all {
			if f.leftAlone(id, words.UserShare) {
				alone++
			}
		}
		if alone != 9 {
			t.Errorf("%s: explain says of %d of %d that they are beyond", name, alone, n)
		}
	}
}

// Units of the system have no ceiling, also those that run as a user; nor has what root gave a size by a path. A
// rule that matches a name gives no more than the ceiling: the user chooses the name.
func TestWhoHasNoCeiling(t *testing.T) {
	big := topology.KiB(12 << 20)
	named := workload.Rule{Match: "db*", Class: workload.Dedicated, CPUs: 12}
	byPath := workload.Rule{Match: "/user.slice/user-1000.slice/**", Memory: 12 << 20}
	for _, x := range []struct {
		name  string
		rules []workload.Rule
		add   func(f *fake) workload.ID
		alone bool
	}{
		{"a unit that runs as a user", nil, func(f *fake) workload.ID {
			id := f.add("system.slice/db.service", 2, big, 0)
			f.works[id].obs.Owner = workload.UserOwner(1000)
			return id
		}, false},
		{"a scope", nil, func(f *fake) workload.ID { return f.scope(1000, "db", 2, big, 0) }, true},
		{"a scope that root gave a size", []workload.Rule{byPath}, func(f *fake) workload.ID { return f.scope(1000, "db", 2, big, 0) }, false},
		{"a process that took the name of a rule", []workload.Rule{named}, func(f *fake) workload.ID {
			id := f.addProcess(70, "dbx", 0.5, 1<<20, 0)
			f.works[id].obs.UID = 1000
			return id
		}, true},
	} {
		f := newFake(t, 2, 8, ruled(x.rules...))
		id := x.add(f)
		f.scan(2)
		if f.leftAlone(id, words.UserShare) != x.alone {
			t.Errorf("%s: %+v", x.name, f.decision(id))
		}
	}
}

// asks asks for a home that is held, for an owner and as a user.
func (f *fake) asks(uid int, owner workload.Owner, id workload.ID, class workload.Class, cpus int, kib topology.KiB) Reply {
	from := workload.Origin{}
	if owner != workload.SystemOwner {
		from = workload.Origin{Owner: owner, Asked: workload.AllOwn}
	}
	return f.ask(Request{By: &plan.Asker{UID: uid}, Place: &PlaceRequest{From: from, Hold: time.Hour,
		Spec: workload.Spec{ID: id, Name: string(id), Class: class, CPUs: cpus, Memory: kib, Importance: 50, Given: true}}})
}

// What a party asks for on its own word comes under one ceiling, whoever brings the request: a user who asks for
// himself, or a program of the system for a namespace. Root, and what the operator has granted, have none.
func TestCeilingOfRequests(t *testing.T) {
	type ask struct {
		uid   int
		owner workload.Owner
		class workload.Class
		cpus  int
		gib   topology.KiB
		want  words.Code // "" is a home
	}
	prod, dev, qa := workload.NamespaceOwner("prod"), workload.NamespaceOwner("dev"), workload.NamespaceOwner("qa")
	for _, x := range []struct {
		name   string
		grants []workload.Grant
		asks   []ask
	}{
		{"root", nil, []ask{{0, "", workload.Dedicated, 7, 1, ""}, {0, "", workload.Dedicated, 7, 1, ""}}},
		{"a user's CPUs", nil, []ask{{1000, "", workload.Dedicated, 4, 1, ""}, {1000, "", workload.Dedicated, 4, 1, ""}, {1000, "", workload.Dedicated, 1, 0, words.UserShare}, {1001, "", workload.Dedicated, 4, 1, ""}}},
		{"a user's memory", nil, []ask{{1000, "", workload.Shared, 1, 7, ""}, {1000, "", workload.Shared, 1, 2, words.UserShare}, {1000, "", workload.Shared, 1, 1, ""}}},
		{"a user who says that he is another party", nil, []ask{{1000, prod, workload.Dedicated, 6, 1, ""}, {1000, dev, workload.Dedicated, 6, 1, words.UserShare}}},
		{"a namespace's claims", nil, []ask{{0, prod, workload.Dedicated, 6, 1, ""}, {0, prod, workload.Dedicated, 3, 1, words.OwnerShare}, {0, dev, workload.Dedicated, 3, 1, ""}}},
		{"one claim of all CPUs", nil, []ask{{0, prod, workload.Dedicated, 14, 1, words.OwnerShare}}},
		{"all namespaces together", nil, []ask{{0, prod, workload.Dedicated, 6, 1, ""}, {0, dev, workload.Dedicated, 6, 1, ""}, {0, qa, workload.Dedicated, 1, 0, words.AllShare}, {0, "", workload.Dedicated, 1, 0, ""}}},
		{"granted", []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated}, Namespaces: []string{"prod"}}},
			[]ask{{0, prod, workload.Dedicated, 7, 1, ""}, {0, prod, workload.Dedicated, 7, 1, ""}}},
		{"granted to pods with a label, which a claim has not", []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated}, Namespaces: []string{"prod"}, Labels: map[string]string{"a": "b"}}},
			[]ask{{0, prod, workload.Dedicated, 7, 1, ""}, {0, prod, workload.Dedicated, 7, 1, words.OwnerShare}}},
	} {
		f := newFake(t, 2, 8, func(s *Settings) { s.Grants = x.grants })
		f.scan(1)
		for i, a := range x.asks {
			if i == 2 {
				f.scan(1) // what was asked before counts also after a scan
			}
			r := f.asks(a.uid, a.owner, workload.ID(fmt.Sprintf("claim:%d", i)), a.class, a.cpus, a.gib<<20)
			switch {
			case (r.Failed == nil) != (a.want == ""):
				t.Errorf("%s, request %d: %+v, want %q", x.name, i, r.Failed, a.want)
			case a.want == words.UserShare && !strings.Contains(r.Failed.Text, "User 1000 may book at most 50 %"),
				a.want == words.OwnerShare && !strings.Contains(r.Failed.Text, "namespace prod may book at most 50 %"),
				a.want == words.AllShare && !strings.Contains(r.Failed.Text, "75 %"):
				t.Errorf("%s, request %d: %s", x.name, i, r.Failed.Text)
			}
		}
	}
}

// What a party gave back it may book again, what it holds may be extended, and both outlive a daemon.
func TestCeilingFollowsWhatIsHeld(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	prod := workload.NamespaceOwner("prod")
	book := func(id workload.ID) bool { return f.asks(0, prod, id, workload.Dedicated, 6, 1<<20).Failed == nil }
	for k := range 3 {
		if k == 2 {
			f.start()
			f.scan(1)
		}
		if !book("claim:1") || book("claim:2") {
			t.Fatalf("round %d: the first 6 of 16 CPUs are held, 6 more are not", k)
		}
	}
	if r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: "claim:1"}, Release: true}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	if !book("claim:2") {
		t.Error("what was given back still counts")
	}
}

// What `homenode run` of a user holds without having said how much counts against the scopes of that user.
func TestCeilingCountsWhatARunHolds(t *testing.T) {
	for _, held := range []topology.KiB{1 << 20, 6 << 20} {
		f := newFake(t, 2, 8)
		f.scan(1)
		run := f.process(1000, 70, 1, held, 0)
		if r := f.ask(Request{By: &plan.Asker{UID: 1000}, Place: &PlaceRequest{Spec: workload.Spec{Name: "run", Class: workload.Shared, CPUs: 1}, Process: workload.Process{PID: 70, Start: 7}}}); r.Failed != nil {
			t.Fatal(r.Failed)
		}
		scope := f.scope(1000, "w", 1, 4<<20, 1)
		f.scan(2)
		if got, want := f.leftAlone(scope, words.UserShare), held > 4<<20; got != want || f.home(run) == "" {
			t.Errorf("a run that holds %d KiB: the scope is beyond %v; %+v", held, got, f.decision(run))
		}
	}
}

// A command that names its CPUs runs there, and beyond the ceiling has them with others.
func TestCeilingOfNamedCPUs(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	for _, x := range []struct {
		uid  int
		want bool
	}{{1000, false}, {0, true}} {
		f.addProcess(70+x.uid, "hog", 1, 1<<20)
		cpus, _ := topology.ParseCPUSet("0-13")
		r := f.ask(Request{By: &plan.Asker{UID: x.uid}, Place: &PlaceRequest{Spec: workload.Spec{Name: "hog", Class: workload.Dedicated, CPUs: 14}, Process: workload.Process{PID: 70 + x.uid, Start: 7}, Exact: &Exact{CPUs: cpus}}})
		if r.Failed != nil || !r.Place.Placement.CPUs.Equal(cpus) {
			t.Fatalf("user %d: %+v", x.uid, r)
		}
		if kept := !f.s.ExactCPUs().Empty(); kept != x.want {
			t.Errorf("user %d: kept from others %v", x.uid, kept)
		}
	}
}

// What is held for a pod that is about to start counts once when it is seen.
func TestCeilingCountsAHeldPodOnce(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	from := workload.Origin{Owner: workload.NamespaceOwner("prod"), Asked: workload.Asked{Memory: workload.Own}}
	c := several("prod/a", "/a")
	c.Owner, c.Asked, c.Spec.Memory = from.Owner, from.Asked, 5<<20
	if r := f.ask(Request{Place: &PlaceRequest{Spec: *c.Spec, From: from, Hold: time.Minute, Starts: true}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.add("a", 1, 1<<10, 1)
	for range 2 {
		f.claimedScan(c)
		if why, beyond := f.s.Beyond["prod/a"]; beyond {
			t.Errorf("5 of 16 GiB are beyond half: %s", why)
		}
	}
}
