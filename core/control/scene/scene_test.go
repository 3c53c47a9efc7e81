package scene

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// entries is a journal of a test.
type entries []plan.Entry

func (e entries) All() []plan.Entry { return e }
func (e entries) Shape() uint64     { return uint64(len(e)) }

func (e entries) Of(kind plan.SettingKind, path string) *plan.Entry {
	for i := range e {
		if e[i].Kind == kind && e[i].Path == path {
			return &e[i]
		}
	}
	return nil
}

// conduct is what control does in a test.
type conduct struct {
	held, changing, busy map[workload.ID]bool
	trouble              map[workload.ID]*Trouble
}

func (c *conduct) Held(id workload.ID) bool        { return c.held[id] }
func (c *conduct) Changing(id workload.ID) bool    { return c.changing[id] }
func (c *conduct) Busy(id workload.ID) bool        { return c.busy[id] }
func (c *conduct) Trouble(id workload.ID) *Trouble { return c.trouble[id] }

// host has two nodes of four CPUs and 16 GiB each.
func host() *topology.Host {
	h := plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10")
	h.AllowedMems = topology.Nodes(0, 1)
	return h
}

func basis() (*Basis, *conduct) {
	c := &conduct{
		held: map[workload.ID]bool{}, changing: map[workload.ID]bool{}, busy: map[workload.ID]bool{},
		trouble: map[workload.ID]*Trouble{},
	}
	b := &Basis{
		Settings: Settings{Overcommit: 2}, Journal: entries{}, Admissions: map[workload.ID]Admission{},
		Work: c, Facts: &plan.State{Host: host()},
	}
	return b, c
}

// service is a cgroup of the system with 1 GiB on node 0, which uses one CPU.
func service(name string) workload.Observation {
	path := "/system.slice/" + name + ".service"
	return workload.Observation{
		ID: workload.ID(path), Name: name, Kind: workload.InCgroup, Cgroup: path, CPUUse: 1,
		CPUs: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), Mems: topology.Nodes(0, 1),
		Memory: []workload.NodeMemory{{Node: 0, KiB: plantest.GiB}},
		RanOn:  []workload.NodeShare{{Node: 0, Share: 1}},
	}
}

// process is a process of a user with some memory on node 0.
func process(pid, uid int, kib topology.KiB) workload.Observation {
	return workload.Observation{
		ID: ProcessID(pid), Name: fmt.Sprint("w", pid), Kind: workload.InProcess, UID: uid, CPUUse: 0.1,
		Cgroup:    "/user.slice/user-1000.slice/session-1.scope",
		Processes: []workload.Process{{PID: pid, Start: uint64(pid)}},
		CPUs:      topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), Mems: topology.Nodes(0, 1),
		Memory: []workload.NodeMemory{{Node: 0, KiB: kib}},
	}
}

// seen returns a scene of some observations.
func seen(all ...workload.Observation) *Scene {
	slices.SortFunc(all, func(a, b workload.Observation) int { return strings.Compare(string(a.ID), string(b.ID)) })
	s := &Scene{}
	s.Show(workload.Snapshot{Host: host(), Observations: all})
	return s
}

func claims(all ...workload.Claim) []Claimed { return []Claimed{{Source: "a", Claims: all}} }

// TestClaimedOnce: whatever sources claim, each observation is in one workload, and no workload in two.
func TestClaimedOnce(t *testing.T) {
	merged, twice := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []workload.Observation
		for i := range 6 {
			all = append(all, service(string(rune('a'+i))))
		}
		all = append(all, process(7, 1000, 1), process(8, 1000, 1))
		var sources []Claimed
		for k := range 2 {
			from := Claimed{Source: fmt.Sprint("source", k)}
			for range r.IntN(5) {
				c := workload.Claim{ID: workload.ID(fmt.Sprint("w:", r.IntN(6))), Running: r.IntN(4) > 0}
				switch r.IntN(4) {
				case 0:
					c.Process = all[6+r.IntN(2)].Processes[0]
				case 1:
					c.Cgroups = []string{"/system.slice"}
				default:
					for range 1 + r.IntN(3) {
						c.Cgroups = append(c.Cgroups, all[r.IntN(6)].Cgroup)
					}
				}
				from.Claims = append(from.Claims, c)
			}
			sources = append(sources, from)
		}
		s := seen(slices.Clone(all)...)
		snap, _ := s.Merge(s.Snapshot, sources)
		in := map[workload.ID]workload.ID{}
		for _, o := range snap.Observations {
			parts := s.SeenAs[o.ID]
			if s.Claims[o.ID] == nil {
				parts = []workload.ID{o.ID}
			}
			for _, part := range parts {
				if in[part] != "" {
					t.Fatalf("seed %d: %s is in %s and in %s", seed, part, in[part], o.ID)
				}
				in[part] = o.ID
			}
			if len(parts) > 1 {
				merged++
			}
		}
		if len(in) != len(all) {
			t.Fatalf("seed %d: of %d observations %d are in a workload", seed, len(all), len(in))
		}
		if !slices.IsSortedFunc(snap.Observations, func(a, b workload.Observation) int {
			return strings.Compare(string(a.ID), string(b.ID))
		}) {
			t.Fatalf("seed %d: not in order", seed)
		}
		twice += len(snap.Problems)
	}
	if merged < 50 || twice < 50 {
		t.Fatalf("%d merged, %d claimed twice: the test tests nothing", merged, twice)
	}
}

// TestMerge: what else becomes of claims.
func TestMerge(t *testing.T) {
	s := seen(service("a"), service("b"))
	began := []workload.Began{{Cgroup: "/x", CPUs: "0"}}
	snap, begun := s.Merge(s.Snapshot, []Claimed{{Source: "one", Failed: "down", Claims: []workload.Claim{
		{Cgroups: []string{"/system.slice"}, Caps: workload.Caps{Rebinds: true}},
		{ID: "w:off", Began: began},
		{ID: "w:a", Running: true, Cgroups: []string{"/system.slice/a.service"}, Began: began},
		{ID: "w:a", Running: true, Name: "again", Cgroups: []string{"/system.slice/b.service"}},
	}}})
	if len(snap.Problems) != 1 || snap.Problems[0] != (workload.Problem{Subject: "one", Text: "down"}) {
		t.Errorf("%+v", snap.Problems)
	}
	if len(begun) != 1 || begun[0].ID != "w:a" {
		t.Errorf("begun: %+v", begun)
	}
	if len(s.Claims) != 2 || s.Claims["w:a"].Name != "" {
		t.Errorf("%+v", s.Claims)
	}
	b := workload.ID("/system.slice/b.service")
	if s.Covered[b] == nil || len(s.Covered) != 1 || !snap.Observations[0].Caps.Rebinds {
		t.Errorf("%+v, %+v", s.Covered, snap.Observations[0])
	}
	if len(snap.Observations) != 2 || snap.Observations[1].ID != "w:a" {
		t.Errorf("%+v", snap.Observations)
	}
	snap, begun = s.Merge(s.Snapshot, nil)
	if len(snap.Observations) != 2 || begun != nil || len(s.Claims)+len(s.Covered)+len(s.SeenAs) != 0 {
		t.Error("no source, and claims")
	}
}

// TestSubjectsStay: a subject is the same value until something changes that it was made of.
func TestSubjectsStay(t *testing.T) {
	by, work := basis()
	s := seen(service("a"), service("b"))
	a, b := s.Snapshot.Observations[0].ID, s.Snapshot.Observations[1].ID
	s.Decidable(by, s.Snapshot.Observations)
	for _, tt := range []struct {
		what   string
		change func()
		anew   []bool
	}{
		{"nothing", func() {}, []bool{false, false}},
		{"its use", func() { s.Snapshot.Observations[1].CPUUse = 3 }, []bool{false, true}},
		{"nothing again", func() {}, []bool{false, false}},
		{"trouble", func() { work.trouble[a] = &Trouble{} }, []bool{true, false}},
		{"trouble as before", func() {}, []bool{true, false}},
		{"trouble is over", func() { clear(work.trouble) }, []bool{true, false}},
		{"the journal", func() { by.Journal = entries{{Path: "/x"}} }, []bool{true, true}},
		{"managers", func() { s.SetManagers(nil) }, []bool{true, true}},
		{"an admission", func() { by.Admissions[b] = Admission{} }, []bool{false, true}},
		{"no admission", func() { clear(by.Admissions) }, []bool{false, true}},
		{"the host", func() { s.Snapshot.Host.Allowed = topology.CPUs(0, 1) }, []bool{true, true}},
		{"a link", func() { s.Links = map[workload.ID][]Link{a: {{}}} }, []bool{true, false}},
		{"a load", func() { s.Links, s.Loads = nil, map[workload.ID]load.Load{b: {Importance: 1}} }, []bool{true, true}},
		{"a claim", func() { s.Loads, s.Claims = nil, map[workload.ID]*workload.Claim{a: {}} }, []bool{true, true}},
		{"a covering claim", func() { s.Claims, s.Covered = nil, map[workload.ID]*workload.Claim{a: {}} }, []bool{true, false}},
		{"it follows", func() { s.Covered, s.Following = nil, map[workload.ID]nearness.Following{b: {Follows: true}} }, []bool{true, true}},
	} {
		before := s.made.subjects
		s.Snapshot.Observations = slices.Clone(s.Snapshot.Observations)
		tt.change()
		now := s.Decidable(by, s.Snapshot.Observations)
		for i, anew := range tt.anew {
			if (now[i] != before[i]) != anew {
				t.Errorf("%s: subject %d anew: %v, want %v", tt.what, i, !anew, anew)
			}
		}
	}
}

// TestYoungSubjectsAreMadeAnew: a process grows older while its observation stays the same.
func TestYoungSubjectsAreMadeAnew(t *testing.T) {
	by, _ := basis()
	by.Settings.MinAge = time.Minute
	s := seen(process(7, 1000, 1<<20))
	s.Snapshot.Uptime = 30 * time.Second
	for _, tt := range []struct {
		uptime time.Duration
		code   words.Code
	}{{30 * time.Second, words.TooYoung}, {2 * time.Minute, ""}} {
		s.Snapshot.Uptime = tt.uptime
		if got := s.Decidable(by, s.Snapshot.Observations)[0].Aside.Code; got != tt.code {
			t.Errorf("after %v: %q, want %q", tt.uptime, got, tt.code)
		}
	}
}

// TestReadersKeepTheirs: a later scan changes no map that a reader may have.
func TestReadersKeepTheirs(t *testing.T) {
	by, _ := basis()
	scan := func(s *Scene, n int) {
		cgroup := fmt.Sprint("/system.slice/s", n, ".service")
		o := service(fmt.Sprint("s", n))
		o.Slices.PerSecond = 5
		o.Processes = []workload.Process{{PID: 9, Start: 9}}
		own := process(20+n, 1000, plantest.GiB)
		s.Before = s.Snapshot
		snap, _ := s.Merge(workload.Snapshot{Host: host(), Observations: []workload.Observation{o, own}}, claims(workload.Claim{
			ID: "w:a", Running: true, Cgroups: []string{cgroup}, Owner: workload.NamespaceOwner("shop"), Asked: workload.AllOwn,
			Spec: &workload.Spec{Class: workload.Shared, CPUs: 1, Memory: topology.KiB(2+40*n) * plantest.GiB},
		}))
		s.Show(snap)
		s.BoundClaims(by)
		s.Linked(map[workload.ID][]workload.Link{own.ID: {{Kind: workload.ByVhostUser, Helper: workload.Process{PID: 9, Start: 9}}}}, nil)
		s.LocateHelpers()
		s.Recognise(true)
		s.Follow(by, nil)
		s.WithClaims(by, nil, snap.Host)
		s.Subjects = s.Decidable(by, snap.Observations)
	}
	s := &Scene{}
	scan(s, 0)
	held := *s
	v, was := reflect.ValueOf(&held).Elem(), map[string]string{}
	maps0 := []string{"Claims", "SeenAs", "Beyond", "Words", "Used", "Links", "Helpers", "Loads", "Following", "Subjects"}
	text := func(name string) string { return fmt.Sprintf("%+v", v.FieldByName(name)) }
	for _, name := range maps0 {
		was[name] = text(name)
	}
	filled := 0
	for n := 1; n < 4; n++ {
		scan(s, n)
		for _, name := range maps0 {
			if got := text(name); got != was[name] {
				t.Errorf("%s was %s, is %s", name, was[name], got)
			}
			if v.FieldByName(name).Len() > 0 {
				filled++
			}
		}
	}
	if filled < 20 {
		t.Fatalf("%d maps with something in them: the test tests nothing", filled)
	}
}

// TestCeiling: whatever a party asks in, it holds half of the host at most on its own word, and all
// parties three quarters.
func TestCeiling(t *testing.T) {
	total := 32 * plantest.GiB
	beyond, held := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		by, _ := basis()
		shop, user := workload.NamespaceOwner("shop"), workload.UserOwner(1000)
		var all []workload.Observation
		var said []workload.Claim
		for i := range r.IntN(12) {
			all = append(all, process(100+i, 1000, topology.KiB(r.IntN(5))*plantest.GiB))
		}
		for i := range r.IntN(8) {
			owner := []workload.Owner{shop, workload.NamespaceOwner(fmt.Sprint("n", i))}[r.IntN(2)]
			said = append(said, workload.Claim{
				ID: workload.ID(fmt.Sprint("w:", i)), Running: true, Owner: owner, Asked: workload.AllOwn, Driver: inMachine,
				Spec: &workload.Spec{Class: workload.Shared, CPUs: r.IntN(8), Memory: topology.KiB(r.IntN(9)) * plantest.GiB},
			})
		}
		s := seen(all...)
		snap, _ := s.Merge(s.Snapshot, claims(said...))
		s.Show(snap)
		s.BoundClaims(by)
		for i := range r.IntN(4) {
			owner := []workload.Owner{shop, user}[r.IntN(2)]
			spec := workload.Spec{ID: workload.ID(fmt.Sprint("asked", i)), Class: workload.Dedicated, CPUs: r.IntN(5), Memory: topology.KiB(r.IntN(12)) * plantest.GiB}
			from := workload.Origin{Owner: owner, Asked: workload.AllOwn}
			if s.MayBook(by, &spec, &from).None() {
				by.Admissions[spec.ID] = Admission{Spec: spec, From: from}
			}
		}
		out := s.Decidable(by, snap.Observations)
		memory, cpus := map[workload.Owner]topology.KiB{}, map[workload.Owner]float64{}
		for _, a := range by.Admissions {
			memory[a.From.Owner] += a.Spec.Memory
			cpus[a.From.Owner] += float64(a.Spec.CPUs)
			held++
		}
		for _, c := range said {
			if !s.Beyond[c.ID].None() {
				beyond++
				continue
			}
			memory[c.Owner] += c.Spec.Memory
			cpus[c.Owner] += float64(c.Spec.CPUs) / 2
		}
		var words topology.KiB
		for _, kib := range memory {
			words += kib
		}
		for _, x := range out {
			if OfProcess(x.Observation.ID) && x.Alone.None() {
				memory[user] += workload.Total(x.Observation.Memory)
			} else if OfProcess(x.Observation.ID) {
				beyond++
			}
		}
		for owner, kib := range memory {
			if kib > total/2 || cpus[owner] > 4 {
				t.Errorf("seed %d: %s holds %d KiB and %v CPUs", seed, owner, kib, cpus[owner])
			}
		}
		if words > total*3/4 {
			t.Errorf("seed %d: all words book %d KiB", seed, words)
		}
	}
	if beyond < 100 || held < 50 {
		t.Fatalf("%d beyond, %d held: the test tests nothing", beyond, held)
	}
}
