package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// whole is a dedicated workload that is never split.
func whole(id string, vcpus int, memory topology.KiB) workload.Spec {
	s := vm(id, vcpus, memory)
	s.MaxNodes = 1
	return s
}

// onNode is a spec with the node it starts on.
type onNode struct {
	workload.Spec
	node topology.NodeID
}

// settled is a ledger on which each workload was put on its node.
func settled(t interface{ Fatalf(string, ...any) }, st plan.State, running []onNode) (*Ledger, []Runner) {
	l := NewLedger(st)
	var out []Runner
	for _, x := range running {
		s := x.Spec
		s.Nodes = topology.Nodes(x.node)
		r := l.Place(Request{Spec: s, Must: true})
		if !r.Placed() {
			t.Fatalf("%s has no place on node %d: %v", s.ID, x.node, r.Decision.Reasons)
		}
		l.Commit(r.Placement)
		out = append(out, Runner{Spec: x.Spec})
	}
	return l, out
}

func briefly(moves []Move) string {
	var out []string
	for _, m := range moves {
		aside := ""
		if m.Temporary {
			aside = "*"
		}
		out = append(out, fmt.Sprintf("%s%s %v>%v", m.Workload, aside, m.From.Home, m.To.Home))
	}
	return strings.Join(out, ", ")
}

func TestRepack(t *testing.T) {
	const threeNodes = `
		0  0-3  16G 10 21 21
		1  4-7  16G 21 10 21
		2  8-11 16G 21 21 10
	`
	tests := []struct {
		name    string
		host    string
		running []onNode
		stay    string // of this one
		want    workload.Spec
		opt     RepackOptions
		moves   string
		home    string
		atLeast int
		reasons []words.Reason
	}{
		{name: "fits", host: twoNodes, want: whole("a", 4, gib), home: "0", reasons: says(words.FitsNow)},
		{name: "one move", host: twoNodes, running: []onNode{{whole("x", 4, gib), 0}, {whole("y", 4, gib), 1}}, want: whole("a", 8, gib),
			moves: "x 0>1", home: "0", atLeast: 1, reasons: words.Reasons(words.Because(words.MovesAdmit, 1, gib), words.Because(words.NoneFewer))},
		{name: "the one with least memory", host: twoNodes, running: []onNode{{whole("x", 4, gib), 0}, {whole("y", 4, 2*gib), 1}}, want: whole("a", 8, gib),
			moves: "x 0>1", home: "0", atLeast: 1},
		{name: "the one that may", host: twoNodes, running: []onNode{{whole("x", 4, gib), 0}, {whole("y", 4, 2*gib), 1}}, stay: "x", want: whole("a", 8, gib),
			moves: "y 1>0", home: "1", atLeast: 1},
		{name: "one large rather than two small", host: twoNodes,
			running: []onNode{{whole("x", 2, gib), 0}, {whole("y", 2, gib), 0}, {whole("z", 4, 4*gib), 1}}, want: whole("a", 8, gib),
			moves: "z 1>0", home: "1", atLeast: 1},
		{name: "memory is short", host: twoNodes, running: []onNode{{whole("x", 1, 10*gib), 0}, {whole("y", 1, 4*gib), 1}}, want: whole("a", 2, 14*gib),
			moves: "y 1>0", home: "1", atLeast: 1},
		{name: "a chain", host: threeNodes,
			running: []onNode{{whole("x", 2, 12*gib), 0}, {whole("y", 1, 9*gib), 1}, {whole("u", 1, 3*gib), 1}, {whole("z", 2, 5*gib), 2}}, want: whole("a", 1, 15*gib),
			moves: "u 1>0, z 2>1", home: "2", atLeast: 2, reasons: says(words.NoneFewer)},
		{name: "the host is full", host: twoNodes, running: []onNode{{whole("x", 6, gib), 0}, {whole("y", 4, gib), 1}}, want: whole("a", 8, gib),
			reasons: says(words.MovesNoRoom, words.Because(words.FreeCPUs, 8), words.Because(words.Number, 6))},
		{name: "memory is used up", host: twoNodes, running: []onNode{{whole("x", 1, 10*gib), 0}, {whole("y", 1, 10*gib), 1}}, want: whole("a", 2, 14*gib),
			reasons: says(words.MovesNoRoom, memory(14*gib), memory(12*gib))},
		{name: "all must stay", host: twoNodes, running: []onNode{{whole("x", 4, gib), 0}}, stay: "x", want: whole("a", 12, gib),
			reasons: says(words.MovesNoNode, amounts(words.Because(words.FreeCPUs, 12), memory(gib)))},
		{name: "too many moves", host: twoNodes, running: []onNode{{whole("x", 1, gib), 0}, {whole("y", 1, gib), 0}, {whole("u", 1, gib), 1}, {whole("v", 1, gib), 1}},
			want: whole("a", 8, gib), opt: RepackOptions{Moves: 1}, atLeast: 2, reasons: says(words.NoMovesFound, 1)},
		{name: "whole cores", host: twoNodes, running: []onNode{{whole("x", 1, gib), 0}, {whole("y", 1, gib), 0}, {whole("z", 8, gib), 1}},
			want:  func() workload.Spec { s := whole("a", 3, gib); s.SMT = workload.SMTIsolate; return s }(),
			moves: "x 0>0", home: "0", atLeast: 1},
		{name: "a wide one comes nearer", host: twoSockets, running: []onNode{{vm("x", 8, gib), 1}, {vm("y", 8, gib), 2}}, want: vm("a", 16, gib),
			opt: RepackOptions{Access: 1.15}, moves: "x 1>3", home: "0-1", atLeast: 1},
		{name: "the less important", host: twoNodes, want: whole("a", 8, gib), moves: "y 1>0", home: "1", atLeast: 1,
			running: []onNode{{whole("x", 4, gib), 0}, {func() workload.Spec { s := whole("y", 4, gib); s.Importance = 20; return s }(), 1}}},
		{name: "the less important, the other way round", host: twoNodes, want: whole("a", 8, gib), moves: "x 0>1", home: "0", atLeast: 1,
			running: []onNode{{func() workload.Spec { s := whole("x", 4, gib); s.Importance = 20; return s }(), 0}, {whole("y", 4, gib), 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := onHost(tt.host)
			l, running := settled(t, st, tt.running)
			for i := range running {
				if string(running[i].Spec.ID) == tt.stay {
					running[i].Stay = "it must not move"
				}
			}
			tt.opt.Running = running
			r := l.Repack(Request{Spec: tt.want}, tt.opt)
			if got := briefly(r.Moves); got != tt.moves || r.Result.Placement.Home.String() != tt.home || r.AtLeast != tt.atLeast {
				t.Errorf("moves %q to home %v, at least %d; want %q, %q, %d\n%v", got, r.Result.Placement.Home, r.AtLeast, tt.moves, tt.home, tt.atLeast, r.Reasons)
			}
			if missing := wordstest.Missing(r.Reasons, tt.reasons); missing != nil {
				t.Errorf("no %q in %q", missing, r.Reasons)
			}
			checkMoves(t, st, l, r.Moves, &r.Result.Placement)
		})
	}
}

// TestSwap: two that shall take each other's place, both nodes being full, need a
// third node on the way, and may not have it for nothing.
func TestSwap(t *testing.T) {
	st := onHost(`
		0  0-3  16G 10 21 21
		1  4-7  16G 21 10 21
		2  8-11 16G 21 21 10
	`)
	l, running := settled(t, st, []onNode{{whole("x", 4, 8*gib), 0}, {whole("y", 4, 8*gib), 1}, {whole("z", 1, gib), 2}})
	for _, tt := range []struct {
		room  int // vCPUs that z leaves on node 2
		level int
		want  string
	}{{3, 3, ""}, {4, 2, ""}, {4, 3, "x* 0>2, y 1>0, x 2>1"}} {
		if tt.room == 4 {
			l.Remove("z")
		}
		r := newRepack(l, Request{Spec: whole("new", 1, gib)}, RepackOptions{Running: running})
		r.level = tt.level
		for who, to := range []int{1, 0} {
			shares := []share{{to, 4, 8 * gib}}
			r.seated = append(r.seated, seat{who, shares, *l.held[to].Placement})
		}
		moves, _, ok := r.order()
		slices.Reverse(r.seated)
		again, _, okToo := r.order()
		if ok != okToo || len(moves) != len(again) || ok != (tt.want != "") {
			t.Errorf("%+v: %v %s, %v %s", tt, ok, briefly(moves), okToo, briefly(again))
		}
		if got := briefly(again); ok && got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		explainMoves(l, moves, nil, topology.NodeSet{})
		checkMoves(t, st, l, moves, nil)
	}
}

// Where two that shall take each other's place find no room on the way, one that is not
// concerned steps aside, and goes back.
func TestBystanderStepsAside(t *testing.T) {
	st := onHost(`
		0  0-3   16G 10 21 21 21
		1  4-7   16G 21 10 21 21
		2  8-11  16G 21 21 10 21
		3  12-15 16G 21 21 21 10
	`)
	l, running := settled(t, st, []onNode{{whole("x", 4, gib), 0}, {whole("y", 4, gib), 1}, {whole("z", 3, gib), 2}, {whole("w", 1, gib), 3}})
	for level, want := range map[int]string{3: "", 4: "", 5: "z* 2>3, y* 1>2, x 0>1, y 2>0, z 3>2", 6: "z* 2>3, y* 1>2, x 0>1, y 2>0, z 3>2"} {
		r := newRepack(l, Request{Spec: whole("new", 1, gib)}, RepackOptions{Running: running[:3]})
		r.level = level
		for who, to := range []int{1, 0} {
			k, _ := l.find([]workload.ID{"y", "x"}[who])
			r.seated = append(r.seated, seat{who, []share{{to, 4, gib}}, *l.held[k].Placement})
		}
		moves, after, ok := r.order()
		if got := briefly(moves); ok != (want != "") || got != want {
			t.Errorf("in %d moves: %v %q, want %q", level, ok, got, want)
		}
		explainMoves(l, moves, nil, topology.NodeSet{})
		checkMoves(t, st, l, moves, nil)
		if ok && len(after.held) != 4 {
			t.Errorf("%d placements", len(after.held))
		}
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkMoves makes the moves one by one: every state on the way must pass.
func checkMoves(t fataler, st plan.State, l *Ledger, moves []Move, last *plan.Placement) *Ledger {
	t.Helper()
	now := l.clone()
	for i, m := range moves {
		k, ok := now.find(m.Workload)
		if !ok {
			t.Fatalf("move %d is of %s, which does not run", i, m.Workload)
		}
		if before := now.placement(now.held[k]); !cmp.Equal(before, m.From, same) {
			t.Fatalf("move %d is from where %s is not:\n%s", i, m.Workload, cmp.Diff(before, m.From, same))
		}
		if m.KiB < 0 || m.KiB > workload.Total(m.To.Memory) || workload.Total(m.To.Memory) != workload.Total(m.From.Memory) {
			t.Fatalf("move %d of %s is of %d KiB, from %v to %v", i, m.Workload, m.KiB, m.From.Memory, m.To.Memory)
		}
		if sameSeat(&m.From, &m.To) {
			t.Fatalf("move %d of %s moves nothing", i, m.Workload)
		}
		if len(m.Reasons) < 3 {
			t.Fatalf("move %d of %s has reasons %q", i, m.Workload, m.Reasons)
		}
		wordstest.Check(t, m.Reasons)
		now.Commit(m.To)
		if v := plan.Check(st, now.Placements()); v != nil {
			t.Fatalf("after move %d of %s: %v", i, m.Workload, v)
		}
	}
	if last != nil && last.VCPUs > 0 {
		now.Commit(*last)
		if v := plan.Check(st, now.Placements()); v != nil {
			t.Fatalf("after placing %s: %v", last.Workload, v)
		}
	}
	return now
}

// tinyHost is a small host on which nothing is split, as numbers.
type tinyHost struct {
	cpus   int // of every node
	memory int // GiB
	size   [][2]int
	at     []int
	new    [2]int
}

func drawTiny(t *rapid.T) (plan.State, []onNode, workload.Spec, *tinyHost) {
	h := &tinyHost{cpus: rapid.IntRange(3, 6).Draw(t, "CPUs"), memory: rapid.IntRange(6, 12).Draw(t, "memory")}
	nodes := rapid.IntRange(2, 3).Draw(t, "nodes")
	st := plan.State{Host: plantest.Grid(nodes, h.cpus, 1, topology.KiB(h.memory)*gib, plantest.Flat(21)), Policy: plan.DefaultPolicy()}
	free := make([][2]int, nodes)
	for i := range free {
		free[i] = [2]int{h.cpus, h.memory}
	}
	var running []onNode
	for i := range rapid.IntRange(2, 6).Draw(t, "workloads") {
		n := rapid.IntRange(0, nodes-1).Draw(t, "node")
		if free[n][0] < 1 || free[n][1] < 1 {
			continue
		}
		v := [2]int{rapid.IntRange(1, min(3, free[n][0])).Draw(t, "vCPUs"), rapid.IntRange(1, min(6, free[n][1])).Draw(t, "GiB")}
		free[n][0] -= v[0]
		free[n][1] -= v[1]
		h.size, h.at = append(h.size, v), append(h.at, n)
		running = append(running, onNode{whole(fmt.Sprintf("w%d", i), v[0], topology.KiB(v[1])*gib), topology.NodeID(n)})
	}
	h.new = [2]int{rapid.IntRange(1, h.cpus).Draw(t, "new vCPUs"), rapid.IntRange(1, h.memory).Draw(t, "new GiB")}
	return st, running, whole("new", h.new[0], topology.KiB(h.new[1])*gib), h
}

// fewest is the least number of moves, one after the other with room for each,
// after which the new workload fits some node; -1 for none. It walks all states.
func (h *tinyHost) fewest(nodes, most int) int {
	at := map[string]bool{string(bytesOf(h.at)): true}
	level := [][]int{h.at}
	for moves := 0; moves <= most && len(level) > 0; moves++ {
		var next [][]int
		for _, x := range level {
			free := make([][2]int, nodes)
			for n := range free {
				free[n] = [2]int{h.cpus, h.memory}
			}
			for i, n := range x {
				free[n][0] -= h.size[i][0]
				free[n][1] -= h.size[i][1]
			}
			for n := range free {
				if free[n][0] >= h.new[0] && free[n][1] >= h.new[1] {
					return moves
				}
			}
			for i := range x {
				for n := range free {
					if free[n][0] < h.size[i][0] || free[n][1] < h.size[i][1] || n == x[i] {
						continue
					}
					y := append([]int(nil), x...)
					y[i] = n
					if k := string(bytesOf(y)); !at[k] {
						at[k] = true
						next = append(next, y)
					}
				}
			}
		}
		level = next
	}
	return -1
}

func bytesOf(x []int) []byte {
	b := make([]byte, len(x))
	for i, v := range x {
		b[i] = byte(v)
	}
	return b
}

// TestRepackIsExact: on tiny hosts, no plan has fewer moves, and the bound holds
// whatever the budget.
func TestRepackIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st, running, want, h := drawTiny(t)
		l, runners := settled(t, st, running)
		fewest := h.fewest(len(st.Host.Nodes), DefaultMoves)
		r := l.Repack(Request{Spec: want}, RepackOptions{Running: runners, Steps: 2_000_000})
		if r.CutOff {
			t.Skip("two million steps were not enough")
		}
		if r.Admitted() != (fewest >= 0) || r.Admitted() && (len(r.Moves) != fewest || r.AtLeast != fewest) {
			t.Fatalf("admitted %v with %d moves (%s), at least %d; the fewest are %d\n%v", r.Admitted(), len(r.Moves), briefly(r.Moves), r.AtLeast, fewest, r.Reasons)
		}
		checkMoves(t, st, l, r.Moves, &r.Result.Placement)

		cut := l.Repack(Request{Spec: want}, RepackOptions{Running: runners, Steps: rapid.IntRange(1, 60).Draw(t, "steps")})
		if fewest >= 0 && cut.AtLeast > fewest {
			t.Fatalf("after %d steps it claims at least %d moves; %d do", cut.Steps, cut.AtLeast, fewest)
		}
		if cut.Admitted() && (fewest < 0 || len(cut.Moves) < fewest) {
			t.Fatalf("%d moves, and the fewest are %d", len(cut.Moves), fewest)
		}
		checkMoves(t, st, l, cut.Moves, &cut.Result.Placement)
	})
}

// unequal is a host of nodes with two cores each, of one or two threads.
func unequal(threads [][2]int) plan.State {
	h := &topology.Host{}
	cpu := topology.CPUID(0)
	for i := range threads {
		n := topology.NodeID(i)
		var all topology.CPUSet
		for _, k := range threads[i] {
			var core topology.CPUSet
			for range k {
				core.Add(cpu)
				cpu++
			}
			h.Cores = append(h.Cores, topology.Core{CPUs: core, Node: n, Package: topology.PackageID(i), Capacity: topology.None})
			all = all.Union(core)
		}
		h.Nodes = append(h.Nodes, topology.Node{ID: n, Package: topology.PackageID(i), CPUs: all, Memory: 16 * gib, Free: 16 * gib, Kind: topology.DRAM})
		h.Packages = append(h.Packages, topology.Package{ID: topology.PackageID(i), CPUs: all})
		h.Online = h.Online.Union(all)
		h.AllowedMems.Add(n)
		row := make([]int, len(threads))
		for k := range row {
			row[k] = 20
		}
		row[i] = 10
		h.Distances = append(h.Distances, row)
	}
	h.Allowed = h.Online
	return plan.State{Host: h, Policy: plan.DefaultPolicy()}
}

// TestImpossibleIsTrue: where all fit in some way, no proof says that no moves
// admit the last, though siblings held idle come free on cores of one thread.
func TestImpossibleIsTrue(t *testing.T) {
	claims := 0
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 2)
		host := make([][2]int, rapid.IntRange(2, 3).Draw(t, "nodes"))
		for i := range host {
			host[i] = [2]int{threads.Draw(t, "first core"), threads.Draw(t, "second core")}
		}
		draw := func(id string) workload.Spec {
			s := whole(id, rapid.IntRange(1, 3).Draw(t, id+" vCPUs"), gib)
			s.SMT = rapid.SampledFrom([]workload.SMTPolicy{workload.SMTPrefer, workload.SMTIsolate, workload.SMTIsolate, workload.SMTRequire}).Draw(t, id+" SMT")
			return s
		}
		st := unequal(host)
		l := NewLedger(st)
		var all []workload.Spec
		var running []Runner
		for k := range rapid.IntRange(1, 3).Draw(t, "running") {
			s := draw(string(rune('p' + k)))
			on := s
			on.Nodes = topology.Nodes(topology.NodeID(rapid.IntRange(0, len(host)-1).Draw(t, "on")))
			if r := l.Place(Request{Spec: on, Must: true}); r.Placed() {
				l.Commit(r.Placement)
				all, running = append(all, s), append(running, Runner{Spec: s})
			}
		}
		last := draw("new")
		if rapid.Bool().Draw(t, "shared") {
			last = workload.Spec{ID: "new", Name: "new", Class: workload.Shared, CPUs: rapid.IntRange(1, 18).Draw(t, "shared vCPUs"), Memory: gib, MaxNodes: 1, Given: true, Importance: 50}
		}
		why := newRepack(l, Request{Spec: last}, RepackOptions{Running: running}).impossible()
		if why.None() {
			return
		}
		claims++
		all = append(all, last)
		ways := 1
		for range all {
			ways *= len(host)
		}
		for way := range ways {
			try, x, fit := NewLedger(st), way, true
			for _, s := range all {
				s.Nodes = topology.Nodes(topology.NodeID(x % len(host)))
				x /= len(host)
				r := try.Place(Request{Spec: s, Must: true})
				if fit = fit && r.Placed(); fit {
					try.Commit(r.Placement)
				}
			}
			if fit {
				t.Fatalf("%s\nBut they fit:\n%v", why, try.Placements())
			}
		}
	})
	if claims == 0 {
		t.Error("nothing was ever impossible: the test tests nothing")
	}
}

// TestRepackIsSafe: on any host with workloads of any kind, all states on the way
// pass, the ledger is left alone, the same question has the same answer, what may
// not move does not, and nothing becomes worse unreported.
func TestRepackIsSafe(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		st, spec := plantest.State(4).Draw(t, "state"), plantest.Spec
		if rapid.IntRange(0, 3).Draw(t, "tight") > 0 {
			host := plantest.Grid(rapid.IntRange(2, 4).Draw(t, "nodes"), 4, rapid.IntRange(1, 2).Draw(t, "threads"), 16*gib, plantest.Flat(21))
			st, spec = plan.State{Host: host, Policy: plan.DefaultPolicy()}, tightSpec
		}
		l := NewLedger(st)
		var opt RepackOptions
		for i := range rapid.IntRange(4, 24).Draw(t, "workloads") {
			s := spec(workload.ID(fmt.Sprintf("w%d", i))).Draw(t, "spec")
			if r := l.Place(Request{Spec: s, Must: true}); r.Placed() {
				l.Commit(r.Placement)
				run := Runner{Spec: s}
				if rapid.IntRange(0, 4).Draw(t, "stays") == 0 {
					run.Stay = "it was told to"
				}
				opt.Running = append(opt.Running, run)
			}
		}
		for _, p := range l.Placements() {
			if rapid.IntRange(0, 2).Draw(t, "departs") == 0 {
				l.Remove(p.Workload)
			}
		}
		if plan.Check(st, l.Placements()) != nil {
			t.Skip("the host does not hold what it has")
		}
		opt.Steps = 1000
		want := spec("new").Draw(t, "new")
		want.MaxNodes = rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "most nodes")
		before, held := summary(l), l.Placements()
		r := l.Repack(Request{Spec: want}, opt)
		again := l.Repack(Request{Spec: want}, opt)
		if diff := cmp.Diff(r, again, same); diff != "" {
			t.Fatalf("the same question has another answer:\n%s", diff)
		}
		if diff := cmp.Diff(before, summary(l)); diff != "" {
			t.Fatalf("the ledger was changed:\n%s", diff)
		}
		if len(r.Reasons) == 0 || r.Admitted() && r.AtLeast > len(r.Moves) {
			t.Fatalf("%d moves, at least %d: %v", len(r.Moves), r.AtLeast, r.Reasons)
		}
		moved += len(r.Moves) + len(l.Restore(opt).Moves)
		after := checkMoves(t, st, l, r.Moves, &r.Result.Placement)
		checkStays(t, opt.Running, r.Moves)
		checkWorse(t, st.Host, held, after.Placements(), r.Worse)

		back := l.Restore(opt)
		after = checkMoves(t, st, l, back.Moves, nil)
		checkStays(t, opt.Running, back.Moves)
		checkWorse(t, st.Host, held, after.Placements(), back.Worse)
		if gain := restored(back); gain > back.Most+tiny {
			t.Fatalf("accesses become %v nearer, and it claims that no plan gains more than %v", gain, back.Most)
		}
	})
	if moved == 0 {
		t.Error("nothing ever moved: the test tests nothing")
	}
}

// tightSpec draws workloads of which a handful fill a small host.
func tightSpec(id workload.ID) *rapid.Generator[workload.Spec] {
	return rapid.Custom(func(t *rapid.T) workload.Spec {
		s := vm(string(id), rapid.IntRange(1, 4).Draw(t, "vCPUs"), topology.KiB(rapid.IntRange(0, 6).Draw(t, "GiB"))*gib)
		s.Class = rapid.SampledFrom([]workload.Class{workload.Dedicated, workload.Dedicated, workload.Dedicated, workload.Shared, workload.Batch}).Draw(t, "class")
		s.SMT = rapid.SampledFrom([]workload.SMTPolicy{"", "", "", workload.SMTIsolate, workload.SMTRequire}).Draw(t, "SMT")
		s.MaxNodes = rapid.SampledFrom([]int{0, 1}).Draw(t, "most nodes")
		if id == "new" {
			s.CPUs, s.Memory, s.Class = s.CPUs+2, s.Memory+4*gib, workload.Dedicated
		}
		return s
	})
}

// restored is what a plan gains in distance, seen from outside.
func restored(r Restoring) float64 {
	gain := 0.0
	for _, m := range r.Moves {
		gain += float64(m.To.VCPUs) * (m.Before - m.After)
	}
	return gain
}

func checkStays(t fataler, running []Runner, moves []Move) {
	t.Helper()
	for _, m := range moves {
		for _, r := range running {
			if r.Spec.ID == m.Workload && (r.Stay != "" || r.Spec.Class == workload.Batch) {
				t.Fatalf("%s moves, and must not", m.Workload)
			}
		}
	}
}

// checkWorse looks with its own eyes at what dedicated work has: the access cost of its
// CPUs to its memory, and cores that it shares.
func checkWorse(t fataler, h *topology.Host, before, after []plan.Placement, said []Worsening) {
	t.Helper()
	reported := map[string]bool{}
	for _, w := range said {
		if w.After <= w.Before {
			t.Fatalf("%s is said to be worse: %+v", w.Workload, w)
		}
		reported[string(w.Workload)+" "+w.Term] = true
	}
	for _, b := range before {
		for _, a := range after {
			if a.Workload != b.Workload || a.Class != workload.Dedicated {
				continue
			}
			if x, y := meanCost(h, &b), meanCost(h, &a); y > x+1e-3 && !reported[string(a.Workload)+" distance"] {
				t.Fatalf("%s had access cost %v and has %v; nobody says so: %+v", a.Workload, x, y, said)
			}
			if x, y := coresShared(h, &b, before), coresShared(h, &a, after); y > x && !reported[string(a.Workload)+" siblings"] {
				t.Fatalf("%s shared %d CPUs' cores and shares %d; nobody says so: %+v", a.Workload, x, y, said)
			}
		}
	}
}

func meanCost(h *topology.Host, p *plan.Placement) float64 {
	cost := AccessCosts(h)
	sum, n := 0.0, 0.0
	for _, m := range p.Memory {
		for _, cpu := range p.Pins {
			for i := range h.Nodes {
				for j := range h.Nodes {
					if h.Nodes[i].CPUs.Has(cpu) && h.Nodes[j].ID == m.Node {
						sum += float64(m.KiB) * cost[i*len(h.Nodes)+j]
						n += float64(m.KiB)
					}
				}
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// coresShared counts the CPUs of p whose cores another dedicated workload has CPUs of.
func coresShared(h *topology.Host, p *plan.Placement, all []plan.Placement) int {
	n := 0
	for _, cpu := range p.Pins {
		for _, c := range h.Cores {
			if !c.CPUs.Has(cpu) {
				continue
			}
			other := false
			for _, o := range all {
				other = other || o.Workload != p.Workload && o.Class == workload.Dedicated && o.CPUs.Union(o.Idle).Intersects(c.CPUs)
			}
			if other {
				n++
			}
		}
	}
	return n
}

func TestRestore(t *testing.T) {
	st := onHost(`
		0  0-3  16G 10 21
		1  4-7  16G 21 10
	`)
	far := plan.Placement{
		Workload: "far", Class: workload.Dedicated, VCPUs: 3, Home: topology.Nodes(0, 1), CPUs: topology.CPUs(0, 1, 4), Pins: []topology.CPUID{0, 1, 4},
		Asked: 4 * gib, Memory: on(4 * gib),
	}
	st.Placements = []plan.Placement{far}
	l, running := NewLedger(st), []Runner{{Spec: vm("far", 3, 4*gib)}}
	for _, x := range []onNode{{vm("x", 1, gib), 0}, {vm("y", 1, 2*gib), 0}, {vm("z", 2, gib), 1}} {
		s := x.Spec
		s.Nodes = topology.Nodes(x.node)
		l.Commit(l.Place(Request{Spec: s}).Placement)
		running = append(running, Runner{Spec: x.Spec})
	}
	r := l.Restore(RepackOptions{Running: running})
	if got := briefly(r.Moves); got != "x 0>1, far 0-1>0" || r.KiB != gib {
		t.Errorf("moves %q of %d KiB: %v", got, r.KiB, r.Reasons)
	}
	// One vCPU of three is 1.1 local accesses away.
	if r.Gain < 1.099 || r.Gain > 1.101 || r.Most < 1.099 || r.Most > 1.101 {
		t.Errorf("gain %v of at most %v", r.Gain, r.Most)
	}
	if len(r.Remote) != 1 || r.Remote[0].Restored != 1 {
		t.Errorf("remote %+v", r.Remote)
	}
	checkMoves(t, st, l, r.Moves, nil)
	running[0].Stay = "its memory is locked"
	if r = l.Restore(RepackOptions{Running: running}); len(r.Moves) != 0 || r.Remote[0].Stay == "" || r.Most != 0 {
		t.Errorf("it moves what must stay: %s, %+v", briefly(r.Moves), r)
	}
}
