package place

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

var update = flag.Bool("update", false, "write the golden file anew")

// Arranged is arrange.Arrange, which imports this package: arranged_test.go sets it.
var Arranged func(st plan.State, subjects []*Subject) plan.Plan

// TestDecided is what was decided of some hundred workloads that came to hosts of many kinds
// and left again, and why: where each went, which moves would make room for one more and
// bring the others nearer, and what has to change for those that run elsewhere.
func TestDecided(t *testing.T) {
	var b strings.Builder
	for i, h := range []struct {
		name string
		st   plan.State
		edit func(*plan.State)
	}{
		{"two nodes", onHost(twoNodes), nil},
		{"two sockets of two", onHost(twoSockets), nil},
		{"memory without CPUs", onHost(withCXL), nil},
		{"nodes of many kinds", onHost(`
			0  0-3|8-11   16G 10 12 30 17 dev=eth0 huge=2Mx1024
			1  4-7|12-15  8G  12 10 30 17
			2  16-21      24G 30 30 10 40 huge=2Mx2048
			3  -          32G 17 17 40 10
		`), nil},
		{"small caches", onHost(`
			0  0-7|16-23   16G 10 21 llc=4
			1  8-15|24-31  16G 21 10 llc=4
		`), nil},
		{"a partition", onHost(twoSockets), func(st *plan.State) {
			st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(0, 1, 16, 17, 8, 9, 10, 24, 25, 26)
		}},
		{"reserved CPUs", onHost(twoSockets), func(st *plan.State) { st.Policy.Reserved = topology.CPUs(0, 4, 20) }},
		{"spread", onHost(twoSockets), func(st *plan.State) { st.Policy.Packing = plan.Spread }},
		{"packed", onHost(twoSockets), func(st *plan.State) { st.Policy.Packing = plan.Pack }},
		{"many nodes", bigHost(20, 160), nil},
	} {
		if h.edit != nil {
			h.edit(&h.st)
		}
		fmt.Fprintf(&b, "== %s\n", h.name)
		comeAndGo(&b, h.st, rand.New(rand.NewPCG(1, uint64(i))))
	}
	for seed := range uint64(16) {
		fmt.Fprintf(&b, "== a full host, %d\n", seed)
		makeRoom(&b, rand.New(rand.NewPCG(2, seed)))
	}
	const golden = "testdata/decided.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("(-want +got; to take it over: go test -run TestDecided -update)\n%s", diff)
	}
}

func comeAndGo(b *strings.Builder, st plan.State, r *rand.Rand) {
	l := NewLedger(st)
	var running []Runner
	var subjects []*Subject
	for n := range 18 {
		if len(running) > 3 && r.IntN(4) == 0 {
			k := r.IntN(len(running))
			l.Remove(running[k].Spec.ID)
			running, subjects = append(running[:k:k], running[k+1:]...), append(subjects[:k:k], subjects[k+1:]...)
		}
		req := Request{Spec: comer(r, fmt.Sprintf("w%02d", n), running), Must: r.IntN(3) == 0}
		at := topology.NodeID(r.IntN(len(st.Host.Nodes)))
		if r.IntN(4) == 0 { // it runs, there
			req.Memory = []workload.NodeMemory{{Node: at, KiB: max(gib, req.Spec.Memory)}}
			req.CPUs = st.Host.Nodes[at].CPUs
		}
		s := &req.Spec
		fmt.Fprintf(b, "%s: %s, %d vCPUs, %d MiB, importance %d%s", s.ID, s.Class, s.CPUs, s.Memory>>10, s.Importance,
			known(", SMT ", s.SMT)+known(", pages of ", s.HugePage)+known(", at most ", s.MaxNodes)+known(", even ", s.Even)+known(", MiB/s ", s.Bandwidth)+known(", on ", s.Nodes)+known(", near ", s.Near)+known(", runs on ", req.CPUs))
		fmt.Fprintln(b)
		got := l.Place(req)
		tell(b, &got)
		if n := l.scratch.branches; n > 0 {
			fmt.Fprintf(b, "    %d branches\n", n)
		}
		if !got.Placed() {
			continue
		}
		l.Commit(got.Placement)
		running = append(running, Runner{Spec: *s})
		if r.IntN(6) == 0 {
			running[len(running)-1].Stay = "it was told to"
		}
		o := workload.Observation{ID: s.ID, Kind: workload.InCgroup, Cgroup: "/" + string(s.ID), CPUs: st.Host.Online, Mems: st.Host.AllowedMems, CPUUse: float64(s.CPUs) / 2,
			Memory: []workload.NodeMemory{{Node: at, KiB: max(128<<10, s.Memory/2)}}, Caps: workload.Caps{Rebinds: n%5 == 0, MemoryFollows: n%5 == 0, AtOnce: 1 << 20}}
		subjects = append(subjects, &Subject{Spec: *s, Observation: o})
	}
	fewer := running[:0:0] // some leave, and the room that they leave lies scattered
	for k, x := range running {
		if k%4 != 1 {
			fewer = append(fewer, x)
			continue
		}
		l.Remove(x.Spec.ID)
	}
	opt := RepackOptions{Running: fewer, Moves: 3, Steps: 4000}
	for _, s := range []workload.Spec{whole("new", 3, 6*gib), whole("new", 4, 4*gib), whole("new", 6, 4*gib), vm("new", 10, 10*gib), service("new", 6, 8*gib)} {
		tellRoom(b, l, s, opt)
	}
	tellNearer(b, l, opt)
	st.Placements = l.Placements()[len(fewer)/2:]
	p := Arranged(st, subjects)
	for i := range p.Report.Decisions {
		d := &p.Report.Decisions[i]
		fmt.Fprintf(b, "%s: %s %v %v\n", d.Workload, d.Outcome, d.Home, words.Join(d.Reasons))
	}
	for _, x := range p.Steps {
		fmt.Fprintf(b, "%s %s %q to %q%s: %v; locality %.3f to %.3f\n", x.Kind, x.Workload, x.From, x.To, known(", bytes ", x.Bytes)+known(", to lie ", x.Shares)+known(", at once ", x.AtOnce), x.Reason, x.Gain.LocalityBefore, x.Gain.LocalityAfter)
	}
}

// makeRoom asks for a workload more on a host that was full and has its free CPUs here and there.
func makeRoom(b *strings.Builder, r *rand.Rand) {
	nodes, distance := 2+r.IntN(3), plantest.Flat(21)
	if nodes == 4 {
		distance = func(i, j int) int { return []int{10, 12, 32}[min(1, i^j)+min(1, (i/2)^(j/2))] }
	}
	l := NewLedger(plan.State{Host: plantest.Grid(nodes, 4, 1+r.IntN(2), 16*gib, distance), Policy: plan.DefaultPolicy()})
	var opt RepackOptions
	free := 0
	for n, refused := 0, 0; refused < 6; n++ {
		s := vm(fmt.Sprintf("w%02d", n), 1+r.IntN(3), topology.KiB(r.IntN(6))*gib)
		s.Importance, s.MaxNodes = 10*r.IntN(11), r.IntN(2)
		switch r.IntN(8) {
		case 0:
			s.Class = workload.Shared
		case 1:
			s.SMT = workload.SMTIsolate
		case 2:
			s.CPUs, s.MaxNodes = 6+r.IntN(5), 0
		}
		got := l.Place(Request{Spec: s, Must: true})
		if !got.Placed() {
			refused++
			continue
		}
		l.Commit(got.Placement)
		opt.Running = append(opt.Running, Runner{Spec: s})
	}
	for k := 1; k < len(opt.Running); k += 2 {
		if s := &opt.Running[k].Spec; s.Class == workload.Dedicated && free < 9 {
			free += s.CPUs
			l.Remove(s.ID)
			opt.Running = append(opt.Running[:k], opt.Running[k+1:]...)
		}
	}
	opt.Moves, opt.Steps = 4, 6000
	for _, s := range []workload.Spec{whole("new", min(4, free), 4*gib), whole("new", 2, 12*gib), whole("new", 7, 5*gib), service("new", 5, 9*gib)} {
		tellRoom(b, l, s, opt)
	}
	tellNearer(b, l, opt)
	few := opt
	few.Steps = 24 // too few to try all
	tellRoom(b, l, whole("new", min(4, free), 4*gib), few)
	tellNearer(b, l, few)
	wide := vm("new", max(5, free), 8*gib)
	wide.Near = []workload.Near{{Workload: opt.Running[0].Spec.ID, Weight: 0.5}, {Nodes: topology.Nodes(1), Learned: true, Weight: 0.5}}
	floats := service("new", 9+2*nodes, 6*gib)
	at := []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: 3 * gib}}
	for _, req := range []Request{{Spec: wide}, {Spec: wide, Must: true}, {Spec: wide, Memory: at}, {Spec: floats}, {Spec: floats, Memory: at}} {
		got := l.Place(req)
		tell(b, &got)
		fmt.Fprintf(b, "    %d branches\n", l.scratch.branches)
	}
	opt.Access = 1.05
	tellRoom(b, l, vm("new", max(4, min(9, free)), 8*gib), opt)
}

func tellRoom(b *strings.Builder, l *Ledger, s workload.Spec, opt RepackOptions) {
	got := l.Repack(Request{Spec: s}, opt)
	if wordstest.Has(got.Reasons, words.Reason{Code: words.FitsNow}) {
		return
	}
	fmt.Fprintf(b, "room for %d vCPUs, %s%s: at least %d moves, %d steps, all %v, %v\n", s.CPUs, s.Class, known(", access ", opt.Access), got.AtLeast, got.Steps, got.Whole, words.Join(got.Reasons))
	tellMoves(b, got.Moves, got.Worse)
}

func tellNearer(b *strings.Builder, l *Ledger, opt RepackOptions) {
	near := l.Restore(opt)
	if near.Remote == nil {
		return
	}
	fmt.Fprintf(b, "nearer: %d steps, %v remote %.3v, gain %.3f of %.3f\n", near.Steps, words.Join(near.Reasons), near.Remote, near.Gain, near.Most)
	tellMoves(b, near.Moves, near.Worse)
}

// comer is a workload of any kind.
func comer(r *rand.Rand, id string, running []Runner) workload.Spec {
	s := churnSpec(r, workload.ID(id))
	s.CPUs, s.Importance = min(s.CPUs, 12), 10*r.IntN(11)
	s.Memory = topology.KiB(r.IntN(9)) * gib
	switch r.IntN(9) {
	case 0:
		s.MaxNodes = 1 + r.IntN(2)
	case 1:
		s.Even = true
	case 2:
		s.HugePage = 2 << 10
	case 3:
		s.Bandwidth = int64(r.IntN(200)) << 10
	case 4:
		s.Nodes = topology.Nodes(0, 1)
	case 5:
		s.Near = []workload.Near{{Device: "eth0"}, {Nodes: topology.Nodes(1), Learned: true, Weight: 0.5}}
	case 6:
		if len(running) > 0 {
			s.Near = []workload.Near{{Workload: running[0].Spec.ID, Weight: 0.5}}
		}
	}
	return s
}

func tell(b *strings.Builder, r *Result) {
	p, d := &r.Placement, &r.Decision
	fmt.Fprintf(b, "    %s %v%s: %v\n", d.Outcome, p.Home, known(", pins ", p.Pins)+known(", floats on ", p.CPUs.Minus(cpuSet(p.Pins)))+known(", idle ", p.Idle)+known(", memory ", p.Memory)+known(", bound ", p.Bound), words.Join(d.Reasons))
	if len(d.Shortages) > 0 {
		fmt.Fprintf(b, "    short of %v, nearest %v\n", d.Shortages, d.Nearest)
	}
	for _, c := range d.Candidates[:min(2, len(d.Candidates))] {
		fmt.Fprintf(b, "    on %v", c.Nodes)
		for _, x := range c.Terms {
			fmt.Fprintf(b, ", %s %.4f%s", x.Name, x.Value, known(" of ", x.Why))
		}
		fmt.Fprintln(b)
	}
}

// known is a value with what is before it, unless it is none.
func known(before string, v any) string {
	switch text := fmt.Sprint(v); text {
	case "", "0", "[]", "false":
		return ""
	default:
		return before + text
	}
}

func tellMoves(b *strings.Builder, moves []Move, worse []Worsening) {
	for _, m := range moves {
		fmt.Fprintf(b, "    %s from %v to %v %v%s: %v\n", m.Workload, m.From.Home, m.To.Home, m.To.CPUs, known(", aside ", m.Temporary), words.Join(m.Reasons))
	}
	for _, x := range worse[:min(3, len(worse))] {
		fmt.Fprintf(b, "    worse for %s: %s %.3f to %.3f\n", x.Workload, x.Term, x.Before, x.After)
	}
}
