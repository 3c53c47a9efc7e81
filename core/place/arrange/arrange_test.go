package arrange

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

var options = Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20}

// seen is an observation of a cgroup on twoNodes.
func seen(id string, use float64, cpus string, mems string, mem ...topology.KiB) workload.Observation {
	c, err := topology.ParseCPUSet(cpus)
	if err != nil {
		panic(err)
	}
	m, err := topology.ParseNodeSet(mems)
	if err != nil {
		panic(err)
	}
	return workload.Observation{
		ID: workload.ID(id), Name: id, Kind: workload.InCgroup, Cgroup: id, Processes: []workload.Process{{PID: 7, Start: 70}},
		Threads: 16, Window: time.Second, CPUUse: use, CPUs: c, Mems: m, Memory: on(mem...),
	}
}

func derived(o workload.Observation) *place.Subject {
	return &place.Subject{Spec: demand.SpecFrom(o), Observation: o}
}

func given(o workload.Observation, edit func(*workload.Spec)) *place.Subject {
	s := derived(o)
	s.Spec.Given = true
	edit(&s.Spec)
	return s
}

func wantClass(c workload.Class, cpus int) func(*workload.Spec) {
	return func(s *workload.Spec) { s.Class, s.CPUs = c, cpus }
}

const everywhere = "0-15"

// brief is a plan in a few words a line.
func brief(p plan.Plan) []string {
	var out []string
	for _, d := range p.Report.Decisions {
		line := fmt.Sprintf("%s %s %v", d.Workload, d.Outcome, d.Home)
		for _, s := range p.Steps {
			if s.Workload == d.Workload {
				line += fmt.Sprintf(" | %s %s→%s", s.Kind, s.From, s.To)
				if s.Bytes > 0 {
					line += fmt.Sprintf(" %d MiB", s.Bytes>>20)
				}
			}
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func TestArrange(t *testing.T) {
	tests := []struct {
		name     string
		host     string
		edit     func(*plan.State)
		subjects []*place.Subject
		want     []string
		reasons  []words.Reason // among those of decisions or steps
	}{
		{name: "nothing runs"},
		{name: "memory off home is moved to the CPUs' node",
			subjects: []*place.Subject{derived(seen("a", 2, everywhere, "0-1", 4*gib, gib))},
			want:     []string{"a placed 0 | set-cpus 0-15→0-3,8-11 | move-pages →0 1024 MiB"}, reasons: says(words.MemoryOffHome, gib, 5*gib, 0.2, "0")},
		{name: "what is at home has no steps", edit: func(st *plan.State) {
			st.Placements = []plan.Placement{sharedOn("a", "1", "4-7,12-15", 3, 4*gib)}
		}, subjects: []*place.Subject{derived(seen("a", 2, "4-7,12-15", "0-1", 0, 4*gib))}, want: []string{"a kept 1"}},
		{name: "a little off home stays", edit: func(st *plan.State) {
			st.Placements = []plan.Placement{sharedOn("a", "1", "4-7,12-15", 3, 4*gib)}
		}, subjects: []*place.Subject{derived(seen("a", 2, "4-7,12-15", "0-1", 20<<10, 4*gib-(20<<10)))}, want: []string{"a kept 1"}},
		{name: "an old home is kept though another looks better", edit: func(st *plan.State) {
			st.Placements = []plan.Placement{sharedOn("a", "1", "4-7,12-15", 3, 4*gib)}
		}, subjects: []*place.Subject{derived(seen("a", 2, everywhere, "0-1", 4*gib))},
			want: []string{"a kept 1 | set-cpus 0-15→4-7,12-15 | move-pages →1 4096 MiB"}},
		{name: "offline CPUs: the home is found anew", host: `
				0  0-3|8-11   16G 10 21
				1  -          16G 21 10 offline=4-7,12-15
			`, edit: func(st *plan.State) { st.Placements = []plan.Placement{sharedOn("a", "1", "4-7,12-15", 3, 4*gib)} },
			subjects: []*place.Subject{derived(seen("a", 2, "0-3,8-11", "0-1", 0, 4*gib))},
			want:     []string{"a placed 0 | move-pages →0 4096 MiB"}, reasons: says(words.HomeLost, "1", words.Because(words.NoCPUOnline))},
		{name: "some CPUs offline: the CPU set follows", host: `
				0  0-3|8-11   16G 10 21
				1  4-5|12-13  16G 21 10 offline=6-7,14-15
			`, edit: func(st *plan.State) { st.Placements = []plan.Placement{sharedOn("a", "1", "4-7,12-15", 3, 4*gib)} },
			subjects: []*place.Subject{derived(seen("a", 2, "4-7,12-13", "0-1", 0, 4*gib))},
			want:     []string{"a kept 1 | set-cpus 4-7,12-13→4-5,12-13"}},
		{name: "dedicated: CPUs, pages, then memory nodes",
			subjects: []*place.Subject{given(seen("a", 2, everywhere, "0-1", gib, gib), wantClass(workload.Dedicated, 4))},
			want:     []string{"a placed 0 | set-cpus 0-15→0-1,8-9 | move-pages →0 1024 MiB | set-mems 0-1→0"}},
		{name: "a memory policy of its own is left whole", subjects: []*place.Subject{func() *place.Subject {
			s := given(seen("a", 2, everywhere, "0-1", gib, gib), wantClass(workload.Dedicated, 4))
			s.Observation.OwnPolicy = "interleave:0-1"
			return s
		}()}, want: []string{"a placed 0 | set-cpus 0-15→0-1,8-9 | move-pages →0 1024 MiB"}},
		{name: "a process has no memory nodes of its own", subjects: []*place.Subject{func() *place.Subject {
			s := given(seen("a", 2, everywhere, "0-1", gib), wantClass(workload.Dedicated, 4))
			s.Observation.Kind = workload.InProcess
			return s
		}()}, want: []string{"a placed 0 | set-cpus 0-15→0-1,8-9"}},
		{name: "the home joins the memory nodes first when it is outside of them", edit: func(st *plan.State) {
			p := sharedOn("a", "0", "0-1", 2, gib)
			p.Class, p.Pins, p.Bound = workload.Dedicated, []topology.CPUID{0, 1}, true
			st.Placements = []plan.Placement{p}
		}, subjects: []*place.Subject{given(seen("a", 2, "0-1", "1", 0, gib), wantClass(workload.Dedicated, 2))},
			want: []string{"a kept 0 | set-mems 1→0-1 | move-pages →0 1024 MiB | set-mems 0-1→0"}},
		{name: "the home is where memory may be had",
			subjects: []*place.Subject{derived(seen("a", 2, everywhere, "1", gib))}, want: []string{"a placed 1 | set-cpus 0-15→4-7,12-15 | move-pages →1 1024 MiB"}},
		{name: "dedicated shrinks shared", edit: func(st *plan.State) {
			st.Placements = []plan.Placement{sharedOn("s", "0", "0-3,8-11", 2, gib), sharedOn("t", "1", "4-7,12-15", 2, gib)}
		}, subjects: []*place.Subject{
			derived(seen("s", 2, "0-3,8-11", "0-1", gib)), derived(seen("t", 2, "4-7,12-15", "0-1", 0, gib)),
			given(seen("d", 2, everywhere, "0-1", gib), wantClass(workload.Dedicated, 4)),
		}, want: []string{"d placed 0 | set-cpus 0-15→0-1,8-9 | set-mems 0-1→0", "s kept 0 | set-cpus 0-3,8-11→2-3,10-11", "t kept 1"}},
		{name: "dedicated chooses before shared, large before small", subjects: []*place.Subject{
			derived(seen("s", 4, everywhere, "0-1", gib)), given(seen("d", 2, everywhere, "0-1", gib), wantClass(workload.Dedicated, 2)),
			given(seen("e", 2, everywhere, "0-1", gib), wantClass(workload.Dedicated, 6)),
		}, want: []string{
			"d placed 0 | set-cpus 0-15→3,11 | set-mems 0-1→0", "e placed 0 | set-cpus 0-15→0-2,8-10 | set-mems 0-1→0",
			"s placed 1 | set-cpus 0-15→4-7,12-15 | move-pages →1 1024 MiB"}},
		{name: "batch work keeps its pages", subjects: []*place.Subject{
			given(seen("o", 2, everywhere, "0-1", gib, gib), wantClass(workload.Batch, 2)),
			given(seen("d", 2, everywhere, "0-1", gib), wantClass(workload.Dedicated, 2)),
		}, want: []string{"d placed 0 | set-cpus 0-15→0,8 | set-mems 0-1→0", "o placed 0-1 | set-cpus 0-15→1-7,9-15"}},
		{name: "small is left alone", subjects: []*place.Subject{derived(seen("a", 0.1, everywhere, "0-1", 10<<10))},
			want: []string{"a left alone"}, reasons: says(words.TooSmall, 10<<10, 0.1, 64<<10, 0.2)},
		{name: "small but busy is placed", subjects: []*place.Subject{derived(seen("a", 1, everywhere, "0-1", 10<<10))},
			want: []string{"a placed 0 | set-cpus 0-15→0-3,8-11"}},
		{name: "small but given is placed", subjects: []*place.Subject{given(seen("a", 0, everywhere, "0-1"), wantClass(workload.Shared, 1))},
			want: []string{"a placed 0 | set-cpus 0-15→0-3,8-11"}},
		{name: "unknown demand is left alone", subjects: []*place.Subject{derived(seen("a", 0, everywhere, "0-1"))},
			want: []string{"a left alone"}, reasons: says(words.NeedsUnknown)},
		{name: "small, memory unknown", subjects: []*place.Subject{derived(seen("a", 0.1, everywhere, "0-1"))},
			want: []string{"a left alone"}, reasons: says(words.TooSmallUnread, 0.1, 64<<10, 0.2)},
		{name: "pinned by somebody else", subjects: []*place.Subject{func() *place.Subject {
			s := derived(seen("a", 1, "3", "0-1", gib))
			s.Observation.Pinned = true
			return s
		}()}, want: []string{"a left alone"}, reasons: says(words.OwnAffinity, "CPUs 3")},
		{name: "excluded", subjects: []*place.Subject{{Observation: seen("a", 1, "3", "0-1", gib), Alone: words.Plain("The operator said so.")}},
			want: []string{"a left alone"}, reasons: words.Reasons(words.Plain("The operator said so."))},
		{name: "one node only", host: `0 0-3 16G 10`, subjects: []*place.Subject{derived(seen("a", 1, "0-3", "0", gib))},
			want: []string{"a left alone"}, reasons: says(words.SingleNode)},
		{name: "one node, beside dedicated work", host: `0 0-3 16G 10`, subjects: []*place.Subject{
			given(seen("a", 1, "0-3", "0", gib), wantClass(workload.Dedicated, 2)),
			derived(seen("b", 1, "0-3", "0", gib))},
			want: []string{"a placed 0 | set-cpus 0-3→0-1", "b placed 0 | set-cpus 0-3→2-3"}},
		{name: "one node, asked for", host: `0 0-3 16G 10`, subjects: []*place.Subject{
			given(seen("a", 1, "0-3", "0", gib), wantClass(workload.Dedicated, 3)),
			given(seen("b", 1, "0-3", "0", gib), wantClass(workload.Dedicated, 2))},
			want: []string{"a placed 0 | set-cpus 0-3→0-2", "b refused"}},
		{name: "too large for the host", subjects: []*place.Subject{derived(seen("a", 1, everywhere, "0-1", 16*gib, 16*gib)), derived(seen("b", 1, everywhere, "0-1", gib))},
			want: []string{"a placed 0-1", "b refused"}, reasons: says(words.RunsOn)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.host == "" {
				tt.host = twoNodes
			}
			st := onHost(tt.host)
			if tt.edit != nil {
				tt.edit(&st)
			}
			p := Arrange(st, tt.subjects, options)
			if diff := cmp.Diff(tt.want, brief(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			var given []words.Reason
			for _, d := range p.Report.Decisions {
				given = append(given, d.Reasons...)
			}
			for _, s := range p.Steps {
				given = append(given, s.Reason)
			}
			wordstest.Check(t, given)
			if missing := wordstest.Missing(given, tt.reasons); missing != nil {
				t.Errorf("reasons: %s\nmissing: %s", given, missing)
			}
			if v := plan.CheckPlan(st, p); v != nil {
				t.Errorf("check: %v", v)
			}
			settles(t.Fatalf, st, tt.subjects, p)
		})
	}
}

func sharedOn(id, home, cpus string, vcpus int, mem topology.KiB) plan.Placement {
	h, _ := topology.ParseNodeSet(home)
	c, _ := topology.ParseCPUSet(cpus)
	return plan.Placement{
		Workload: workload.ID(id), Class: workload.Shared, Importance: 50, VCPUs: vcpus, Home: h, CPUs: c,
		Memory: []workload.NodeMemory{{Node: h.Min(), KiB: mem}}, Asked: mem,
	}
}

// settles carries the plan out on a model of what was seen, and fails unless
// the next plan has nothing more to do and changes no home.
func settles(fatalf func(string, ...any), st plan.State, subjects []*place.Subject, p plan.Plan) {
	subjects = slices.Clone(subjects)
	for _, step := range p.Steps {
		for i := range subjects {
			o := &subjects[i].Observation
			if o.ID != step.Workload {
				continue
			}
			switch step.Kind {
			case plan.SetCPUs:
				o.CPUs, _ = topology.ParseCPUSet(step.To)
			case plan.SetMems:
				o.Mems, _ = topology.ParseNodeSet(step.To)
				if o.Caps.MemoryFollows { // its pages go along
					kib := workload.Total(o.Memory)
					if o.Memory = nil; kib > 0 {
						o.Memory = []workload.NodeMemory{{Node: o.Mems.Min(), KiB: kib}}
					}
				}
			case plan.MovePages:
				if workload.Total(step.Shares) != workload.Total(o.Memory) {
					fatalf("%s: shares %v of memory %v", o.ID, step.Shares, o.Memory)
				}
				o.Memory = slices.Clone(step.Shares)
				slices.SortFunc(o.Memory, func(a, b workload.NodeMemory) int { return int(a.Node - b.Node) })
			}
		}
	}
	st.Placements = p.Placements
	again := Arrange(st, subjects, options)
	if len(again.Steps) > 0 {
		fatalf("a second round has more to do: %v\nfirst: %v", brief(again), brief(p))
	}
	if diff := cmp.Diff(p.Placements, again.Placements, same); diff != "" {
		fatalf("a second round has other placements:\n%s", diff)
	}
}

// What cannot move holds what it has before all others, whoever is stronger, and what
// it cannot have is not taken from the host or from another that cannot move.
func TestFixedHoldsItsPlace(t *testing.T) {
	st := onHost(twoNodes)
	st.Policy.Reserved = topology.CPUs(15)
	pins := func(id string, node topology.NodeID, cpus ...topology.CPUID) plan.Placement {
		return plan.Placement{Workload: workload.ID(id), Class: workload.Dedicated, Importance: 1, VCPUs: len(cpus), Home: topology.Nodes(node),
			CPUs: topology.CPUs(cpus...), Pins: cpus, Asked: gib, Memory: []workload.NodeMemory{{Node: node, KiB: gib}}, Bound: true}
	}
	big := pins("big", 1, 12, 13)
	big.Asked, big.Memory = 1<<40, []workload.NodeMemory{{Node: 1, KiB: 1 << 40}}
	st.Placements = []plan.Placement{pins("a", 0, 0, 1), pins("b", 0, 1, 2), big, pins("host", 1, 14, 15)}
	var subjects []*place.Subject
	for i := range st.Placements {
		p := &st.Placements[i]
		s := given(seen(string(p.Workload), 1, p.CPUs.String(), p.Home.String(), gib), wantClass(workload.Dedicated, p.VCPUs))
		s.Spec.Memory, s.Fixed = p.Asked, true
		subjects = append(subjects, s)
	}
	subjects[0].Alone = words.Plain("By hand.")
	strong := given(seen("strong", 6, everywhere, "0-1", gib), wantClass(workload.Dedicated, 6))
	strong.Spec.Importance = 100
	subjects = append(subjects, strong)
	p := Arrange(st, subjects, options)
	got := brief(p)
	for i, want := range []string{"a left alone 0", "b left alone", "big kept 1", "host left alone", "strong placed 0"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
	if v := plan.CheckPlan(st, p); v != nil {
		t.Errorf("check: %v", v)
	}
	if i := slices.IndexFunc(p.Placements, func(x plan.Placement) bool { return x.Workload == "strong" }); p.Placements[i].CPUs.Intersects(topology.CPUs(0, 1, 12, 13)) {
		t.Errorf("strong took CPUs %v", p.Placements[i].CPUs)
	}
}

// What has CPUs of its own and does not run yet has them all the same: what floats there
// looks for another home. Found with a guest that was defined beside others.
func TestFloatingMakesWayForWhatIsToCome(t *testing.T) {
	st := onHost(twoNodes)
	var cpus []topology.CPUID
	for _, n := range st.Host.Nodes[:1] {
		cpus = n.CPUs.Slice()
	}
	st.Placements = []plan.Placement{sharedOn("a", "0", "0-3,8-11", 2, gib), {Workload: "d", Class: workload.Dedicated, VCPUs: len(cpus), Home: topology.Nodes(0),
		CPUs: topology.CPUs(cpus...), Pins: cpus, Bound: true}}
	p := Arrange(st, []*place.Subject{given(seen("a", 1, "0-3,8-11", "0-1", gib), wantClass(workload.Shared, 2))}, options)
	if v := plan.CheckPlan(st, p); v != nil || len(p.Placements) != 2 || p.Placements[0].Home.String() != "1" {
		t.Errorf("%v: %v", v, p.Placements)
	}
}

// A hand pins the last CPU of a home to itself, while a guest that does not run has the
// others, and libvirt may or may not answer for what floats there.
func TestLastCPUOfAHomeIsTaken(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		for _, full := range []bool{false, true} {
			st := onHost(twoNodes)
			own := func(id string, node topology.NodeID, cpus ...topology.CPUID) plan.Placement {
				return plan.Placement{Workload: workload.ID(id), Class: workload.Dedicated, VCPUs: len(cpus), Home: topology.Nodes(node), CPUs: topology.CPUs(cpus...), Pins: cpus, Bound: true}
			}
			all := st.Host.Nodes[0].CPUs.Slice()
			st.Placements = []plan.Placement{sharedOn("a", "0", "11", 2, gib), own("coming", 0, all[:len(all)-1]...), own("pinned", 0, all[len(all)-1]), sharedOn("z", "1", "4-7,12-15", 2, gib)}
			if full {
				st.Placements = append(st.Placements, own("rest", 1, 5, 6, 7, 12, 13, 14, 15))
				st.Policy.Overcommit = 2
			}
			a := given(seen("a", 1, "11", "0-1", gib), wantClass(workload.Shared, 2))
			a.Fixed = fixed
			if fixed {
				a.Alone = words.Plain("libvirt does not answer.")
			}
			pinned := given(seen("pinned", 1, "11", "0-1", gib), wantClass(workload.Dedicated, 1))
			pinned.Fixed, pinned.Alone = true, words.Plain("It is bound by hand.")
			z := given(seen("z", 1, everywhere, "0-1", 0, gib), wantClass(workload.Shared, 2))
			p := Arrange(st, []*place.Subject{a, pinned, z}, options)
			if v := plan.CheckPlan(st, p); v != nil {
				t.Errorf("fixed %t, full %t: %v", fixed, full, v)
			}
			got := brief(p)
			want := "a placed 1 | set-cpus 11→4-7,12-15"
			switch {
			case fixed:
				want = "a left alone"
			case full:
				want = "a refused"
			}
			if !strings.HasPrefix(got[0], want) || !strings.HasPrefix(got[1], "pinned left alone 0") || !strings.HasPrefix(got[2], "z kept 1 | set-cpus") {
				t.Errorf("fixed %t, full %t: %q", fixed, full, got)
			}
		}
	}
}

// The pages of a guest go with its nodes; what then still lies elsewhere is moved.
func TestGuestSteps(t *testing.T) {
	guest := func(cpus, mems string, mem ...topology.KiB) *place.Subject {
		o := seen("vm:a", 1, cpus, mems, mem...)
		o.Kind, o.Caps = guestKind, guestCaps
		return given(o, wantClass(workload.Shared, 2))
	}
	st := onHost(twoNodes)
	st.Placements = []plan.Placement{sharedOn("vm:a", "1", "4-7,12-15", 2, 2*gib)}
	p := Arrange(st, []*place.Subject{guest("0-3,8-11", "0", 2*gib)}, options)
	if got := brief(p); got[0] != "vm:a kept 1 | set-cpus 0-3,8-11→4-7,12-15 | set-mems 0→1 2048 MiB" {
		t.Errorf("%v", got)
	}
	settles(t.Fatalf, st, []*place.Subject{guest("0-3,8-11", "0", 2*gib)}, p)
	p = Arrange(st, []*place.Subject{guest("4-7,12-15", "1", gib, gib)}, options)
	if got := brief(p); got[0] != "vm:a kept 1 | move-pages →1 1024 MiB" || p.Steps[0].Target.Kind != workload.InProcess {
		t.Errorf("%v, %+v", got, p.Steps)
	}
}

func TestArrangeGainAndCost(t *testing.T) {
	o := seen("a", 2, everywhere, "0-1", 3*gib, gib)
	o.RanOn = []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}
	p := Arrange(onHost(twoNodes), []*place.Subject{derived(o)}, options)
	i := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Kind == plan.MovePages })
	got := p.Steps[i]
	want := plan.Gain{LocalityBefore: 0.5, LocalityAfter: 1}
	if got.Gain != want {
		t.Errorf("gain %v, want %v", got.Gain, want)
	}
	if got.Bytes != 1<<30 || got.Cost.Seconds != 4 {
		t.Errorf("moves %d bytes in %v s, want 1 GiB in 4 s", got.Bytes, got.Cost.Seconds)
	}
}

// Sizes that were derived stay until they leave the range from half to all of what they
// were; sizes that were given do not.
func TestSteadySize(t *testing.T) {
	old := &plan.Placement{VCPUs: 4, Asked: 8}
	for _, tt := range []struct {
		cpus, wantCPUs int
		kib, wantKiB   topology.KiB
	}{{4, 4, 8, 8}, {3, 4, 5, 8}, {2, 2, 4, 4}, {5, 5, 9, 9}, {1, 1, 8, 8}, {4, 4, 0, 0}} {
		for _, given := range []bool{false, true} {
			spec := workload.Spec{CPUs: tt.cpus, Memory: tt.kib, Given: given}
			if given {
				tt.wantCPUs, tt.wantKiB = tt.cpus, tt.kib
			}
			if cpus, kib := steadySize(&spec, old); cpus != tt.wantCPUs || kib != tt.wantKiB {
				t.Errorf("%d CPUs and %d KiB, given %v: %d and %d", tt.cpus, tt.kib, given, cpus, kib)
			}
		}
	}
}

// Who chooses first: the stronger class, then the more important, then the larger, then the
// first by ID.
func TestOrderOfPlacing(t *testing.T) {
	keys := []key{
		{class: 0, importance: 1, cpus: 1, memory: 1}, {class: 1, importance: 9, cpus: 1, memory: 1, at: 9}, {class: 1, importance: 8, cpus: 9, memory: 1},
		{class: 1, importance: 8, cpus: 8, memory: 9}, {class: 1, importance: 8, cpus: 8, memory: 8, at: 1}, {class: 1, importance: 8, cpus: 8, memory: 8, at: 2}, {class: 2, importance: 99},
	}
	for i, x := range keys {
		for k, y := range keys {
			if got := x.compare(y); (got < 0) != (i < k) || (got > 0) != (i > k) {
				t.Errorf("%d to %d: %d", i, k, got)
			}
		}
	}
	for n, want := range map[int]int32{5: 5, -5: -5, 1 << 40: 1<<31 - 1, -1 << 40: -1 << 31} {
		if got := narrow(n); got != want {
			t.Errorf("%d: %d", n, got)
		}
	}
}

// Why a workload is left alone, the first of the reasons that hold.
func TestWhyLeftAlone(t *testing.T) {
	two, one := onHost(twoNodes).Host, onHost("0 0-3 1G 10").Host
	for name, tt := range map[string]struct {
		host *topology.Host
		edit func(*subject)
		want words.Code
	}{
		"to be placed":         {two, func(*subject) {}, ""},
		"somebody says so":     {two, func(s *subject) { s.Alone, s.Fixed = words.Because(words.NotIncluded), true }, words.NotIncluded},
		"fixed, without home":  {two, func(s *subject) { s.Fixed, s.Observation.Pinned = true, true }, words.FixedHomeless},
		"one node":             {one, func(*subject) {}, words.SingleNode},
		"one node, asked for":  {one, func(s *subject) { s.Spec.Given = true }, ""},
		"pinned":               {two, func(s *subject) { s.Observation.Pinned, s.Spec.Given = true, true }, words.OwnAffinity},
		"nothing is known":     {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = nil, 0 }, words.NeedsUnknown},
		"small, memory unread": {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = nil, 0.1 }, words.TooSmallUnread},
		"busy, memory unread":  {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = nil, 0.2 }, ""},
		"small":                {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = on(63), 0.1 }, words.TooSmall},
		"small and busy":       {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = on(63), 0.2 }, ""},
		"large and idle":       {two, func(s *subject) { s.Observation.Memory, s.Observation.CPUUse = on(64), 0 }, ""},
		"small, asked for":     {two, func(s *subject) { s.Observation.Memory, s.Spec.Given = on(1), true }, ""},
		"small, has a home":    {two, func(s *subject) { s.Observation.Memory, s.old = on(1), &plan.Placement{} }, ""},
	} {
		a := &arrangement{host: tt.host, everywhereHome: len(tt.host.Nodes) < 2, opt: Options{MinMemory: 64, MinCPU: 0.2}}
		s := &subject{Subject: &place.Subject{Observation: workload.Observation{ID: "/a", Memory: on(100), CPUUse: 1}}}
		tt.edit(s)
		if got := a.whyLeave(s); got.Code != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSmallChangesKeepThePlan: use goes up and down by a third; nothing moves.
func TestSmallChangesKeepThePlan(t *testing.T) {
	st := onHost(twoNodes)
	var subjects []*place.Subject
	for i, use := range []float64{3, 2, 4} {
		subjects = append(subjects, derived(seen(fmt.Sprint("w", i), use, everywhere, "0-1", gib, gib)))
	}
	first := Arrange(st, subjects, options)
	st.Placements = first.Placements
	for i := range subjects {
		o := subjects[i].Observation
		o.CPUUse *= 0.7
		o.Memory = on(700<<10, 700<<10)
		subjects[i] = derived(o)
	}
	second := Arrange(st, subjects, options)
	if diff := cmp.Diff(first.Placements, second.Placements, same); diff != "" {
		t.Errorf("placements changed:\n%s", diff)
	}
}

// TestArrangeProperties arranges random work on random hosts, carries the plan
// out, and arranges again.
func TestArrangeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(5).Draw(t, "state")
		var subjects []*place.Subject
		for i := range rapid.IntRange(0, 8).Draw(t, "workloads") {
			subjects = append(subjects, drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%d", i))))
		}
		p := arrangeChecked(t, st, subjects)
		for i := range subjects { // what is bound by others stays where it is
			subjects[i].Fixed = rapid.IntRange(0, 4).Draw(t, "fixed") == 0
			if subjects[i].Fixed && rapid.Bool().Draw(t, "not ours") {
				subjects[i].Alone = words.Plain("Somebody else's.")
			}
		}
		if rapid.Bool().Draw(t, "changes") {
			st.Placements = p.Placements
			for i := range subjects {
				if rapid.IntRange(0, 2).Draw(t, "other") == 0 {
					subjects[i] = drawSubject(t, st.Host, subjects[i].Observation.ID)
				}
			}
			if n := rapid.IntRange(0, len(st.Host.Nodes)-1).Draw(t, "goes offline"); rapid.Bool().Draw(t, "some do") {
				takeOffline(t, &st, n)
			}
			p = arrangeChecked(t, st, subjects)
		}
		settles(t.Fatalf, st, subjects, p)
	})
}

func arrangeChecked(t *rapid.T, st plan.State, subjects []*place.Subject) plan.Plan {
	p := Arrange(st, subjects, options)
	if diff := cmp.Diff(p, Arrange(st, subjects, options), same); diff != "" {
		t.Fatalf("another plan:\n%s", diff)
	}
	if v := plan.CheckPlan(st, p); v != nil {
		t.Fatalf("check: %v", v)
	}
	if len(p.Report.Decisions) != len(subjects) {
		t.Fatalf("%d decisions for %d subjects", len(p.Report.Decisions), len(subjects))
	}
	for _, s := range subjects {
		if s.Fixed && slices.ContainsFunc(p.Steps, func(x plan.Step) bool { return x.Workload == s.Observation.ID }) {
			t.Fatalf("%s is fixed and has steps: %v", s.Observation.ID, p.Steps)
		}
	}
	for _, d := range p.Report.Decisions {
		if len(d.Reasons) == 0 {
			t.Fatalf("no reason: %+v", d)
		}
	}
	return p
}

// takeOffline stops some CPUs of node n.
func takeOffline(t *rapid.T, st *plan.State, n int) {
	h := *st.Host
	h.Nodes = slices.Clone(h.Nodes)
	var stop topology.CPUSet
	for cpu := range h.Nodes[n].CPUs.All() {
		if rapid.Bool().Draw(t, "stops") {
			stop.Add(cpu)
		}
	}
	h.Nodes[n].CPUs = h.Nodes[n].CPUs.Minus(stop)
	h.Online, h.Offline, h.Allowed = h.Online.Minus(stop), h.Offline.Union(stop), h.Allowed.Minus(stop)
	h.Cores = slices.Clone(h.Cores)
	for i := range h.Cores {
		h.Cores[i].CPUs = h.Cores[i].CPUs.Minus(stop)
	}
	st.Host = &h
}

// guestCaps is what a source of virtual machines says of them.
var guestCaps = workload.Caps{MemoryFollows: true, Rebinds: true, AtOnce: 1 << 40}

func drawSubject(t *rapid.T, h *topology.Host, id workload.ID) *place.Subject {
	o := workload.Observation{
		ID: id, Kind: rapid.SampledFrom([]workload.Kind{workload.InCgroup, workload.InProcess, guestKind}).Draw(t, "kind"),
		Threads: rapid.IntRange(0, 20).Draw(t, "threads"), CPUUse: rapid.Float64Range(0, 12).Draw(t, "use"),
		CPUs: h.Allowed.Clone(), Mems: h.AllowedMems.Clone(),
	}
	if o.Kind == guestKind {
		o.Caps = guestCaps
	}
	for _, n := range h.Nodes {
		if n.Memory != 0 && rapid.Bool().Draw(t, "has memory there") {
			o.Memory = append(o.Memory, workload.NodeMemory{Node: n.ID, KiB: topology.KiB(rapid.IntRange(1, 6<<20).Draw(t, "resident"))})
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "own policy") == 0 {
		o.OwnPolicy = "bind:0"
	}
	o.Pinned = rapid.IntRange(0, 9).Draw(t, "pinned") == 0
	s := &place.Subject{Spec: demand.SpecFrom(o), Observation: o}
	if rapid.IntRange(0, 3).Draw(t, "given") == 0 {
		s.Spec = plantest.Spec(id).Draw(t, "spec")
		s.Spec.Given = true
	}
	return s
}

// Seen in the guest: a workload wider than a node, interleaved over all four, got
// all the memory of one node of its home and a third of the other, and the move
// filled the first to the brim. What floats over both holds memory on both.
func TestWideFloatingWorkloadIsSplitByItsCPUs(t *testing.T) {
	st := plan.State{Policy: plan.DefaultPolicy(), Host: plantest.Draw(`
		0 0-1|2-3   964M  10 22 31 16
		1 4-5|6-7   943M  22 10 16 31
		2 8-9|10-11 1007M 31 16 10 22
		3 12-13|14-15 1006M 16 31 22 10`)}
	mib := func(n topology.KiB) topology.KiB { return n << 10 }
	db := seen("/db", 0.4, everywhere, "0-3", 0, 0, 0, mib(196))
	wide := seen("/wide", 1.5, everywhere, "0-3", mib(288), mib(288), mib(288), mib(288))
	p := Arrange(st, []*place.Subject{derived(db), derived(wide)}, options)
	for _, x := range p.Placements {
		if x.Workload != "/wide" {
			continue
		}
		if x.Home.Len() != 2 {
			t.Fatalf("home %v, want two nodes", x.Home)
		}
		total := workload.Total(x.Memory)
		for _, m := range x.Memory {
			if m.KiB < total*2/5 || m.KiB > total*3/5 {
				t.Errorf("node %d holds %d of %d MiB, want about half", m.Node, m.KiB>>10, total>>10)
			}
		}
	}
}

// guestKind is a kind that the engine knows nothing of.
const guestKind workload.Kind = "guest"
