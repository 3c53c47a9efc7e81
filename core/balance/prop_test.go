package balance

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// world is a host on which what a tick decides comes true, at once or late.
type world struct {
	in      Input
	memory  History
	engine  Engine
	steady  int              // workloads that an Engine sized as steady
	still   int              // workloads of which it knew all but their use
	stillAt []*place.Subject // of the tick before
	moved   []HomeChange     // every change of home, told by the placements alone
	wire    bool             // the host can be written and read: not all that are drawn
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func asJSON(t interface{ Fatalf(string, ...any) }, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(text)
}

func TestProperties(t *testing.T) {
	ticks, steady, still := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(5).Draw(t, "state")
		w := &world{in: Input{At: epoch, State: st, Settings: DefaultSettings(), Arrange: arrange.Options{MoveBandwidth: 256 << 20}}}
		var h topology.Host
		if w.wire = json.Unmarshal([]byte(asJSON(t, st.Host)), &h) == nil; w.wire {
			w.in.State.Host = &h
		}
		w.in.Settings.Window = rapid.SampledFrom([]time.Duration{4 * time.Second, 10 * time.Second, time.Minute}).Draw(t, "window")
		w.in.Settings.Cooldown = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "cooldown")
		w.in.Settings.Act = rapid.IntRange(0, 4).Draw(t, "act") > 0
		for i := range rapid.IntRange(1, 9).Draw(t, "workloads") {
			w.in.Subjects = append(w.in.Subjects, drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%d", i))))
		}
		for range rapid.IntRange(4, 30).Draw(t, "ticks") {
			w.in.At = w.in.At.Add(rapid.SampledFrom([]time.Duration{2 * time.Second, 2 * time.Second, 10 * time.Second, 5 * time.Minute}).Draw(t, "later"))
			w.tick(t)
			w.live(t)
			ticks++
		}
		steady, still = steady+w.steady, still+w.still
	})
	if steady < ticks/30 || still < ticks/4 {
		t.Errorf("%d ticks: %d times an engine knew a workload, %d times as steady: it is not tested", ticks, still, steady)
	}
}

// tick decides and holds the outcome to every rule.
func (w *world) tick(t *rapid.T) {
	before := asJSON(t, w.in) + asJSON(t, w.memory)
	out, next := w.engine.Tick(w.in, w.memory)
	w.checkEngine(t, out, next)
	if after := asJSON(t, w.in) + asJSON(t, w.memory); after != before {
		t.Fatalf("a tick changed its input:\n%s\n%s", before, after)
	}
	w.checkReplay(t, out, next)
	for _, v := range plan.CheckPlan(w.in.State, out.Plan) {
		t.Fatalf("%s: %s", v.Code, v.Text)
	}
	r := &out.Report
	if (r.Chosen == nil) == (r.Quiet.None()) {
		t.Fatalf("neither done nor said why not: %+v", r)
	}
	if r.Chosen != nil && (r.State != Moves && r.State != Would || (r.State == Moves) != w.in.Settings.Act) {
		t.Fatalf("state %q with a choice, act %v", r.State, w.in.Settings.Act)
	}
	w.checkChanges(t, out, next)
	if r.State == Moves {
		w.checkChoice(t, &out)
	}
	w.memory = next
	w.in.State.Placements = out.Plan.Placements
	w.in.Flights = nil
	for _, s := range out.Plan.Steps {
		if s.Kind == plan.MovePages {
			k, _ := slices.BinarySearchFunc(out.Plan.Placements, s.Workload, func(p plan.Placement, id workload.ID) int {
				return slices.Compare([]byte(p.Workload), []byte(id))
			})
			f := Flight{Workload: s.Workload, To: out.Plan.Placements[k].Home}
			if rapid.IntRange(0, 9).Draw(t, "put off") == 0 {
				f.PutOff = words.Plain("refused.")
			}
			w.in.Flights = append(w.in.Flights, f)
		}
	}
	slices.SortFunc(w.in.Flights, func(x, y Flight) int { return slices.Compare([]byte(x.Workload), []byte(y.Workload)) })
}

// checkEngine: an engine that remembers decides what one that does not remember decides, byte for byte.
func (w *world) checkEngine(t *rapid.T, out Outcome, next History) {
	again, memory := Tick(w.in, w.memory)
	if got, want := asJSON(t, out), asJSON(t, again); got != want {
		t.Fatalf("an engine that remembers decides otherwise:\n%s\n%s", got, want)
	}
	if got, want := asJSON(t, next), asJSON(t, memory); got != want {
		t.Fatalf("an engine that remembers hands on another thing:\n%s\n%s", got, want)
	}
	for i := range w.engine.known.workloads {
		x := &w.engine.known.workloads[i]
		if x.steady.looks > len(next.Samples) {
			w.steady++
		}
		if slices.Contains(w.stillAt, x.Subject) && x.lasts {
			w.still++
		}
	}
	w.stillAt = slices.Clone(w.in.Subjects)
}

// checkReplay: the same tick again, and from its record, decides the same, byte for byte.
func (w *world) checkReplay(t *rapid.T, out Outcome, next History) {
	if !w.wire {
		return
	}
	type recorded struct {
		Memory History
		Input  Input
	}
	text := asJSON(t, recorded{w.memory, w.in})
	var r recorded
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("read back: %v\n%s", err, text)
	}
	again, memory := Tick(r.Input, r.Memory)
	if got, want := asJSON(t, again), asJSON(t, out); got != want {
		t.Fatalf("replayed otherwise:\n%s\n%s", got, want)
	}
	if got, want := asJSON(t, memory), asJSON(t, next); got != want {
		t.Fatalf("remembers otherwise:\n%s\n%s", got, want)
	}
}

// checkChanges compares homes before and after by themselves.
func (w *world) checkChanges(t *rapid.T, out Outcome, next History) {
	chosen := map[workload.ID]bool{}
	if out.Report.State == Moves {
		for _, c := range out.Report.Chosen.Changes {
			chosen[c.Workload] = true
		}
	}
	stay := arrange.Arrange(w.in.State, w.in.Subjects, w.in.Arrange)
	for i := range out.Plan.Placements {
		p := &out.Plan.Placements[i]
		k := slices.IndexFunc(stay.Placements, func(s plan.Placement) bool { return s.Workload == p.Workload })
		if k < 0 {
			t.Fatalf("%s has a home only with balancing", p.Workload)
		}
		was := &stay.Placements[k]
		if p.Class != workload.Batch && !was.Home.Equal(p.Home) != (chosen[p.Workload] && out.Report.Chosen.Kind != MemoryToCPUs) {
			t.Fatalf("%s: home %s, without balancing %s, chosen %v", p.Workload, p.Home, was.Home, chosen[p.Workload])
		}
		if chosen[p.Workload] && p.Class != workload.Shared {
			t.Fatalf("%s work was moved", p.Class)
		}
		if !chosen[p.Workload] {
			continue
		}
		for _, old := range w.moved {
			if old.Workload == p.Workload && w.in.At.Sub(old.At) < w.in.Settings.Ban && p.Home.Minus(old.To).Intersects(old.From) {
				t.Fatalf("%s goes back from %s to %s, %v after it came from %s", p.Workload, was.Home, p.Home, w.in.At.Sub(old.At), old.From)
			}
		}
	}
	if !w.in.Settings.Act {
		return
	}
	news := changed(&w.in, out.Plan.Placements)
	w.moved = append(w.moved, news...)
	if tail := next.Changes[len(next.Changes)-len(news):]; len(news) > 0 && asJSON(t, tail) != asJSON(t, news) {
		t.Fatalf("changes of home %v are remembered as %v", news, tail)
	}
}

// checkChoice: what was chosen pays, and by the model less is lost afterwards.
func (w *world) checkChoice(t *rapid.T, out *Outcome) {
	c := out.Report.Chosen
	if float64(c.Gain) <= w.in.Settings.Factor*float64(c.Cost) || c.Saves < leastLost-0.001 {
		t.Fatalf("it does not pay: %+v", c)
	}
	pairs := map[pair]bool{}
	for _, f := range w.in.Flights {
		i := slices.IndexFunc(w.in.Subjects, func(s *place.Subject) bool { return s.Observation.ID == f.Workload })
		if !f.PutOff.None() || i < 0 {
			continue
		}
		for _, x := range w.in.Subjects[i].Observation.Memory {
			for to := range f.To.All() {
				if x.KiB > 0 && !f.To.Has(x.Node) {
					pairs[pairOf(x.Node, to)] = true
				}
			}
		}
	}
	for _, ch := range c.Changes {
		s := w.in.Subjects[slices.IndexFunc(w.in.Subjects, func(s *place.Subject) bool { return s.Observation.ID == ch.Workload })]
		if s.Observation.Pinned || !s.Alone.None() || slices.Contains(w.in.Held, ch.Workload) {
			t.Fatalf("%s is not homenode's to move", ch.Workload)
		}
		total := float64(workload.Total(s.Observation.Memory))
		for _, x := range s.Observation.Memory {
			for to := range ch.To.All() {
				if x.Node != to && float64(x.KiB) > 0.011*total && pairs[pairOf(x.Node, to)] {
					t.Fatalf("%s moves between nodes %d and %d, where memory moves already", ch.Workload, x.Node, to)
				}
			}
		}
	}
	before := w.model(w.in.State, nil, nil)
	after := w.model(plan.State{Host: w.in.State.Host, Policy: w.in.State.Policy, Placements: out.Plan.Placements, Unmanaged: w.in.State.Unmanaged}, c.Changes, before)
	if after.lost() >= before.lost() {
		t.Fatalf("worse by its own model: %.3f CPUs lost, before %.3f: %+v", after.lost()/second, before.lost()/second, c)
	}
}

// model is the model of homes with the changes carried out, wanting what was
// wanted before.
func (w *world) model(st plan.State, changes []Change, before *model) *model {
	in := w.in
	placements := arrange.Arrange(st, in.Subjects, in.Arrange).Placements
	in.Flights, in.Subjects = slices.Clone(in.Flights), slices.Clone(in.Subjects)
	for _, c := range changes {
		for i := range in.Subjects {
			if s := *in.Subjects[i]; s.Observation.ID == c.Workload {
				s.Observation.RanOn = nil // it ran at its old home
				in.Subjects[i] = &s
			}
		}
		in.Flights = slices.DeleteFunc(in.Flights, func(f Flight) bool { return f.Workload == c.Workload })
		in.Flights = append(in.Flights, Flight{Workload: c.Workload, To: c.To})
	}
	slices.SortFunc(in.Flights, func(x, y Flight) int { return slices.Compare([]byte(x.Workload), []byte(y.Workload)) })
	st.Placements = placements
	l := place.NewLedger(st)
	for i := range in.Subjects {
		if o := &in.Subjects[i].Observation; !hasHome(placements, o.ID) {
			l.AddForeign(o)
		}
	}
	m := newModel(&in, placements, l, remember(&w.in, w.memory).Samples)
	if before == nil {
		return m
	}
	for _, sums := range [][]float64{m.load, m.kept, m.heavy, m.traffic, m.plain, m.measured, m.hits, m.users} {
		clear(sums)
	}
	m.far = 0
	for i := range m.workloads {
		x, was := &m.workloads[i], &before.workloads[i]
		x.demand, x.kept, x.traffic, x.accesses = was.demand, was.kept, was.traffic, was.accesses
		m.count(x, x.run, x.mem, 1)
	}
	return m
}

// live lets time pass: threads run at home, memory follows or does not, loads change.
func (w *world) live(t *rapid.T) {
	w.in.Subjects = slices.Clone(w.in.Subjects) // a scan makes a new list; what has not changed stays the same subject
	for i, was := range w.in.Subjects {
		s := *was
		w.liveOn(t, &s.Observation)
		if !s.Observation.Same(&was.Observation) {
			w.in.Subjects[i] = &s
		}
	}
}

// liveOn is live for one workload.
func (w *world) liveOn(t *rapid.T, o *workload.Observation) {
	switch rapid.IntRange(0, 19).Draw(t, "happens") {
	case 0:
		o.CPUUse = rapid.Float64Range(0, 20).Draw(t, "use")
	case 1:
		o.Bandwidth = rapid.Int64Range(0, 200_000).Draw(t, "MiB/s")
	case 2:
		o.Memory = drawMemory(t, w.in.State.Host)
		o.Movable = nil
	case 3:
		o.Accesses = workload.Accesses{From: workload.Counters, Local: rapid.Float64Range(0, 1).Draw(t, "local"), PerSecond: rapid.Float64Range(0, 1e9).Draw(t, "reads")}
	case 4:
		w.in.Traffic = rapid.SampledFrom([][]int64{nil, {}, {-1}, {100_000, -1, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}).Draw(t, "traffic")
	}
	k := slices.IndexFunc(w.in.State.Placements, func(p plan.Placement) bool { return p.Workload == o.ID })
	if k < 0 || !w.in.Settings.Act {
		return
	}
	p := &w.in.State.Placements[k]
	o.CPUs = p.CPUs
	if !p.Home.Has(-1) && rapid.IntRange(0, 3).Draw(t, "follows") > 0 && p.Class != workload.Batch {
		o.RanOn = nil
		for n := range p.Home.All() {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: n, Share: 1 / float64(p.Home.Len())})
		}
		if o.Movable == nil && w.in.State.Host.AllowedMems.Intersects(p.Home) {
			o.Memory = []workload.NodeMemory{{Node: w.in.State.Host.AllowedMems.Intersect(p.Home).Min(), KiB: workload.Total(o.Memory)}}
		}
	}
}

func drawMemory(t *rapid.T, h *topology.Host) []workload.NodeMemory {
	var out []workload.NodeMemory
	for i := range h.Nodes {
		if h.Nodes[i].Memory != 0 && rapid.Bool().Draw(t, "lies here") {
			out = append(out, workload.NodeMemory{Node: h.Nodes[i].ID, KiB: topology.KiB(rapid.IntRange(1, 8<<20).Draw(t, "KiB"))})
		}
	}
	return out
}

func drawSubject(t *rapid.T, h *topology.Host, id workload.ID) *place.Subject {
	o := workload.Observation{ID: id, Name: string(id), Kind: workload.InCgroup, Cgroup: string(id), Threads: rapid.IntRange(1, 24).Draw(t, "threads"),
		CPUUse: rapid.Float64Range(0, 20).Draw(t, "use"), Memory: drawMemory(t, h), CPUs: h.Allowed, Mems: h.AllowedMems,
		Pinned: rapid.IntRange(0, 19).Draw(t, "pinned") == 0}
	for i := range h.Nodes {
		if h.Nodes[i].CPUs.Len() > 0 {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: h.Nodes[i].ID, Share: 1})
		}
	}
	for k := range o.RanOn {
		o.RanOn[k].Share = 1 / float64(len(o.RanOn))
	}
	if rapid.IntRange(0, 4).Draw(t, "page cache") == 0 {
		for _, m := range o.Memory {
			o.Movable = append(o.Movable, workload.NodeMemory{Node: m.Node, KiB: m.KiB / 2})
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "own policy") == 0 {
		o.OwnPolicy = rapid.SampledFrom([]string{"bind:0", "interleave:0-3", workload.PolicyUnknown}).Draw(t, "policy")
	}
	s := &place.Subject{Observation: o, Spec: demand.SpecFrom(o)}
	s.Spec.Importance = rapid.SampledFrom([]int{0, 50, 50, 50, 80, 100}).Draw(t, "importance")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		s.Spec = plantest.Spec(id).Draw(t, "spec")
		s.Spec.Given = true
		// What its own move does to the pull of those near to it is not weighed; the
		// daemon knows devices only.
		s.Spec.Near = slices.DeleteFunc(s.Spec.Near, func(n workload.Near) bool { return n.Workload != "" })
	case 1:
		s.Spec.Class = workload.Batch
	case 2:
		s.Alone = words.Plain("The configuration excludes it.")
	}
	return s
}
