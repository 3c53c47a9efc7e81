package balance

import (
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// remember is the memory after one look, without an engine.
func remember(in *Input, old History) History { return new(recall).remember(in, old) }

// TestDefaults holds the defaults to docs/design/balancing.md and docs/config.md.
func TestDefaults(t *testing.T) {
	want := Settings{Enabled: true, Act: true, Window: 10 * time.Second, Horizon: 5 * time.Minute, Cooldown: time.Minute, Ban: 15 * time.Minute, Factor: 2}
	if got := DefaultSettings(); got != want {
		t.Errorf("%+v", got)
	}
}

// TestLevels: a level of use goes on between half and twice of it, and a quarter of a CPU
// either way.
func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		level, use float64
		same       bool
	}{
		{4, 4, true}, {4, 8, true}, {4, 8.01, false}, {4, 2, true}, {4, 1.99, false},
		{0.1, 0.35, true}, {0.1, 0.36, false}, {0.1, 0, true}, {0, 0.25, true}, {0.4, 0.16, true}, {0.4, 0.1, false}, {0.6, 0.31, true}, {0.6, 0.29, false},
	} {
		before := []Use{{Workload: "0"}, {Workload: "a", Level: tt.level, Since: epoch, Free: 3, Known: epoch.Add(time.Second)}, {Workload: "b", Level: 9}}
		now := []Use{{Workload: "a", CPUs: tt.use, Level: tt.use, Since: epoch.Add(time.Minute)}, {Workload: "c", CPUs: 1, Level: 1, Since: epoch.Add(time.Minute)}}
		keepLevels(before, now)
		a := now[0]
		if same := a.Level == tt.level && a.Since.Equal(epoch); same != tt.same || !same && (a.Level != tt.use || a.Since.Equal(epoch)) {
			t.Errorf("%v after %v: %+v", tt.use, tt.level, a)
		}
		if a.Free != 3 || !a.Known.Equal(epoch.Add(time.Second)) {
			t.Errorf("what was known of it is lost: %+v", a)
		}
		if c := now[1]; c.Level != 1 || c.Free != 0 || !c.Since.Equal(epoch.Add(time.Minute)) {
			t.Errorf("what is new: %+v", c)
		}
	}
}

// TestRemember: what a look keeps, and for how long.
func TestRemember(t *testing.T) {
	b := two(t)
	b.run("b", 0, 2, gib, func(s *place.Subject) {
		s.Observation.RanOn = []workload.NodeShare{{Node: 0, Share: 0.25}, {Node: 1, Share: 0.5}, {Node: 9, Share: 0.25}}
		s.Observation.Bandwidth, s.Observation.Accesses.PerSecond = 70, 80
	})
	b.run("a", 1, 3, gib)
	b.run("c", 1, 5, gib, class(workload.Batch))
	b.in.State.Host.Nodes[0].Free, b.in.State.Host.Nodes[0].Reclaimable = 10, 5
	b.in.State.Host.Nodes[1].Free = topology.None
	b.in.Traffic = []int64{1, 2}
	now := b.in.At
	want := Sample{At: now, Busy: []float64{0.5, 4}, Free: []topology.KiB{15, topology.None}, Traffic: []int64{1, 2}, Uses: []Use{
		{Workload: "a", CPUs: 3, Level: 3, Since: now}, {Workload: "b", CPUs: 2, Bandwidth: 70, Accesses: 80, Level: 2, Since: now}, {Workload: "c", CPUs: 5, Level: 5, Since: now}}}
	if diff := gocmp.Diff([]Sample{want}, remember(&b.in, History{}).Samples); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	at := func(seconds ...int) (looks []Sample) {
		for _, s := range seconds {
			looks = append(looks, Sample{At: now.Add(-time.Duration(s) * time.Second), Busy: make([]float64, 2)})
		}
		return looks
	}
	ages := func(m History) (seconds []int) {
		for _, l := range m.Samples {
			seconds = append(seconds, int(now.Sub(l.At).Seconds()))
		}
		return seconds
	}
	other := at(4)
	other[0].Busy = make([]float64, 3)
	for _, tt := range []struct {
		name  string
		looks []Sample
		want  []int
	}{
		{"one window and the look before it", at(14, 12, 10, 8, 6, 4, 2), []int{10, 8, 6, 4, 2, 0}},
		{"none just on its edge", at(15, 13, 11, 9, 7, 5, 3, 1), []int{11, 9, 7, 5, 3, 1, 0}},
		{"three however long the period", at(120, 60), []int{120, 60, 0}},
		{"no more than three of them", at(180, 120, 60), []int{120, 60, 0}},
		{"of the future", at(-2, 2), []int{2, 0}},
		{"of this very moment", at(2, 0), []int{2, 0}},
		{"of a host with more nodes", append(other, at(2)...), []int{2, 0}},
	} {
		if got := ages(remember(&b.in, History{Samples: tt.looks})); !slices.Equal(got, tt.want) {
			t.Errorf("%s: looks of %v s ago, want %v", tt.name, got, tt.want)
		}
	}

	past := func(ages ...time.Duration) (past []HomeChange) {
		for _, age := range ages {
			past = append(past, HomeChange{Workload: "x", At: now.Add(-age)})
		}
		return past
	}
	all := past(2*time.Hour, time.Hour, time.Hour-1, 1, 0, -1)
	if diff := gocmp.Diff(all[2:5], remember(&b.in, History{Changes: all}).Changes); diff != "" {
		t.Errorf("an hour (-want +got):\n%s", diff)
	}
	b.in.Settings.Ban = 90 * time.Minute
	if diff := gocmp.Diff(all[1:5], remember(&b.in, History{Changes: all}).Changes); diff != "" {
		t.Errorf("the ban (-want +got):\n%s", diff)
	}
}

func TestChanged(t *testing.T) {
	p := func(id workload.ID, c workload.Class, nodes ...topology.NodeID) plan.Placement {
		return plan.Placement{Workload: id, Class: c, Home: topology.Nodes(nodes...)}
	}
	in := Input{At: epoch, State: plan.State{Placements: []plan.Placement{p("kept", workload.Shared, 0), p("moved", workload.Shared, 0), p("gone", workload.Shared, 0),
		p("batch", workload.Batch, 0), p("was batch", workload.Batch, 0), p("wider", workload.Dedicated, 0)}}}
	now := []plan.Placement{p("kept", workload.Shared, 0), p("moved", workload.Shared, 1), p("new", workload.Shared, 1), p("batch", workload.Batch, 1),
		p("was batch", workload.Shared, 1), p("wider", workload.Dedicated, 0, 1)}
	want := []HomeChange{{"moved", topology.Nodes(0), topology.Nodes(1), epoch}, {"wider", topology.Nodes(0), topology.Nodes(0, 1), epoch}}
	if diff := gocmp.Diff(want, changed(&in, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRehome: new homes get steps and an outcome, everything else stays as it was.
func TestRehome(t *testing.T) {
	build := func() *bench {
		b := two(t)
		b.run("a", 0, 2, gib)
		b.run("b", 0, 2, gib)
		b.run("o", 0, 2, gib, class(workload.Batch))
		return b
	}
	b := build()
	first := arrange.Arrange(b.in.State, b.in.Subjects, b.in.Arrange)
	to := first.Placements[0]
	to.Home, to.CPUs, to.Memory = topology.Nodes(1), topology.CPUs(8, 9, 10, 11, 12, 13, 14, 15), []workload.NodeMemory{{Node: 1, KiB: to.Asked}}
	out, why := rehome(&b.in, first, []plan.Placement{to})
	if !why.None() || !out.Placements[0].Home.Equal(topology.Nodes(1)) || !out.Placements[1].Home.Equal(topology.Nodes(0)) {
		t.Fatalf("%v %+v", why, out.Placements)
	}
	for k, want := range []plan.Outcome{plan.Placed, plan.Kept} {
		if d := out.Report.Decisions[k]; d.Outcome != want {
			t.Errorf("%s: %s, want %s", d.Workload, d.Outcome, want)
		}
	}
	if diff := gocmp.Diff(first.Report.Decisions[1], out.Report.Decisions[1], gocmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("what was not moved (-want +got):\n%s", diff)
	}
	if first.Placements[0].Home.Equal(topology.Nodes(1)) {
		t.Error("the first plan was changed")
	}

	// A home that does not hold takes nobody along: the first plan stays.
	for name, bad := range map[string]func(p *plan.Placement){
		"a node that is not there": func(p *plan.Placement) { p.Home, p.CPUs = topology.Nodes(7), topology.CPUs(99) },
		"no CPUs of its home":      func(p *plan.Placement) { p.Home = topology.Nodes(7) },
	} {
		p := to
		bad(&p)
		out, why := rehome(&b.in, first, []plan.Placement{p})
		if why.None() || !out.Placements[0].Home.Equal(topology.Nodes(0)) {
			t.Errorf("%s: %v, home %v", name, why, out.Placements[0].Home)
		}
	}
}

// TestUnready: when nothing can be said yet.
func TestUnready(t *testing.T) {
	looks := func(ages ...time.Duration) (m History) {
		for _, age := range ages {
			m.Samples = append(m.Samples, Sample{At: epoch.Add(-age)})
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		edit   func(in *Input)
		memory History
		want   State
	}{
		{"ready", nil, looks(10*time.Second, 5*time.Second, 0), ""},
		{"turned off", func(in *Input) { in.Settings.Enabled = false }, looks(10*time.Second, 5*time.Second, 0), Off},
		{"one node", func(in *Input) { in.State.Host.Nodes = in.State.Host.Nodes[:1] }, looks(10*time.Second, 5*time.Second, 0), InOrder},
		{"two looks", nil, looks(time.Minute, 0), Learning},
		{"the window is not full", nil, looks(9*time.Second, 5*time.Second, 0), Learning},
	} {
		b := two(t)
		b.in.At = epoch
		if tt.edit != nil {
			tt.edit(&b.in)
		}
		if r := unready(&b.in, &tt.memory); r.State != tt.want || r.Quiet.None() != (tt.want == "") {
			t.Errorf("%s: %q %v", tt.name, r.State, r.Quiet)
		}
	}
}

// TestChoose: the best that pays and that the ledger holds; the others are told why not.
func TestChoose(t *testing.T) {
	b := two(t)
	for _, id := range []string{"a", "b", "c"} {
		b.run(id, 0, 2, gib)
	}
	b.run("full", 1, 2, 9*gib)
	b.run("large", 0, 2, 8*gib)
	b.run("vip", 0, 2, gib, important(90))
	to1 := func(d *decider, id workload.ID, gain float64) option {
		w := &d.m.workloads[d.m.at(id)]
		o := option{kind: Move, changes: []shift{d.shiftTo(w, d.one[1])}, gain: gain, cost: 1, saves: second}
		if w.Spec.Importance > workload.DefaultImportance {
			o.tier = w.Spec.Importance
		}
		return o
	}
	for _, tt := range []struct {
		name  string
		gains map[workload.ID]float64
		want  workload.ID
	}{
		{"the larger gain", map[workload.ID]float64{"a": 5, "b": 9, "c": 7}, "b"},
		{"nothing pays", map[workload.ID]float64{"a": 1, "b": 2}, ""},
		{"the best does not fit", map[workload.ID]float64{"large": 50, "a": 5, "b": 4}, "a"},
		{"an important one waits", map[workload.ID]float64{"vip": 50, "a": 5}, "a"},
		{"an important one alone", map[workload.ID]float64{"vip": 50, "a": 1}, "vip"},
	} {
		d := b.decider()
		var options []option
		for _, id := range []workload.ID{"a", "b", "c", "large", "vip"} {
			if gain, ok := tt.gains[id]; ok {
				options = append(options, to1(d, id, gain))
			}
		}
		chosen, homes := d.choose(options)
		if tt.want == "" {
			if chosen != nil || homes != nil {
				t.Errorf("%s: %s", tt.name, briefly([]option{*chosen}))
			}
			continue
		}
		if chosen == nil || chosen.changes[0].w.id != tt.want || len(homes) != 1 || homes[0].Workload != tt.want || !homes[0].Home.Equal(topology.Nodes(1)) {
			t.Errorf("%s: chosen %+v, homes %+v", tt.name, chosen, homes)
			continue
		}
		for i := range options {
			if o := &options[i]; o.rejected.None() != (o == chosen) {
				t.Errorf("%s: %s is rejected: %v", tt.name, o.changes[0].w.id, o.rejected)
			}
		}
		if w := d.m.workloads[d.m.at(tt.want)].placed; homes[0].VCPUs != w.VCPUs || homes[0].Asked != w.Asked || homes[0].Class != w.Class {
			t.Errorf("%s: %+v is another than %+v", tt.name, homes[0], *w)
		}
	}

	// What did not fit leaves the ledger as it was.
	d := b.decider()
	before := d.ledger.Rooms()
	o := to1(d, "large", 9)
	if homes, why := d.fit(&o); homes != nil || why.None() {
		t.Errorf("%+v fits", homes)
	}
	if diff := gocmp.Diff(before, d.ledger.Rooms()); diff != "" {
		t.Errorf("the ledger is another (-want +got):\n%s", diff)
	}
	// Two that change places fit only together.
	o = to1(d, "large", 9)
	full := &d.m.workloads[d.m.at("full")]
	o.changes = append(o.changes, d.shiftTo(full, d.one[0]))
	homes, why := d.fit(&o)
	if !why.None() || len(homes) != 2 || !homes[0].Home.Equal(topology.Nodes(1)) || !homes[1].Home.Equal(topology.Nodes(0)) {
		t.Errorf("%v %+v", why, homes)
	}
	if rooms := d.ledger.Rooms(); rooms[0].Free != 3*gib || rooms[1].Free != 8*gib {
		t.Errorf("after the swap the ledger has %d and %d KiB", rooms[0].Free, rooms[1].Free)
	}

	// No more than a few dozen are tried.
	d = b.decider()
	var many []option
	for range mostTried {
		many = append(many, to1(d, "large", 50))
	}
	many = append(many, to1(d, "a", 40))
	if chosen, _ := d.choose(many); chosen != nil {
		t.Errorf("after %d that do not fit %s is chosen", mostTried, briefly([]option{*chosen}))
	}
	if chosen, _ := d.choose(append([]option{to1(d, "a", 40)}, many[1:mostTried]...)); chosen == nil {
		t.Errorf("after %d that do not fit nothing is chosen", mostTried-1)
	}
}

// TestTell: what a report shows of what was weighed.
func TestTell(t *testing.T) {
	b := two(t)
	for _, id := range strings.Split("a b c d e f g h i j k", " ") {
		b.run(id, 0, 1, 1)
	}
	d := b.decider()
	var options []option
	for i := range d.m.workloads {
		options = append(options, option{kind: Move, changes: []shift{d.shiftTo(&d.m.workloads[i], d.one[1])}, gain: float64(i), saves: second, rejected: words.Plain("no.")})
	}
	options[10].saves = 0 // of no use: not shown
	r := Report{Triggers: []Trigger{{Reason: words.Plain("Something.")}}}
	d.report(&r, options, nil)
	shown := ""
	for _, c := range r.Weighed {
		shown += string(c.Changes[0].Workload)
	}
	if r.State != NoChoice || r.Chosen != nil || r.Quiet.None() || shown != "jihgfedc" {
		t.Errorf("%s %v: %s", r.State, r.Quiet, shown)
	}
	for act, want := range map[bool]State{true: Moves, false: Would} {
		b.in.Settings.Act = act
		r = Report{Triggers: []Trigger{{Reason: words.Plain("Something.")}}}
		d.report(&r, options, &options[3])
		if r.State != want || r.Chosen == nil || r.Chosen.Changes[0].Workload != "d" || !r.Quiet.None() || len(r.Of("d")) != 1 || len(r.Of("j")) != 1 || len(r.Of("k")) != 0 {
			t.Errorf("%s: %+v", r.State, r)
		}
	}
	for i := range options {
		options[i].saves = -1
	}
	r = Report{Triggers: []Trigger{{Reason: words.Plain("Something.")}}}
	if d.report(&r, options, nil); r.State != NoChoice || len(r.Weighed) != 0 || r.Quiet.None() {
		t.Errorf("nothing helps: %+v", r)
	}
}

// TestReportedFigures: a candidate and the nodes as a report shows them.
func TestReportedFigures(t *testing.T) {
	b := two(t)
	b.run("a", 0, 2, gib, important(80), func(s *place.Subject) { s.Observation.Bandwidth = 3000 })
	b.run("b", 0, 2, gib)
	d := b.decider()
	o := option{kind: Move, changes: []shift{d.shiftTo(&d.m.workloads[0], d.one[1])}, gain: 3.5 * second, cost: 2.25 * second, saves: 0.12345 * second, kib: 1024, seconds: 1.5}
	c := d.candidate(&o)
	if c.Gain != 3500*time.Millisecond || c.Cost != 2250*time.Millisecond || c.Saves != 0.123 || c.Bytes != 1<<20 || c.Took != 1500*time.Millisecond {
		t.Errorf("%+v", c)
	}
	if ch := c.Changes; len(ch) != 1 || ch[0].Bytes != int64(gib)<<10 || ch[0].From.String() != "0" || ch[0].To.String() != "1" {
		t.Errorf("%+v", ch)
	}
	want := []Node{
		{ID: 0, CPUs: 8, Load: 4, Kept: 0.6, Traffic: 3000 + 2*nearness.BusyTraffic, Bandwidth: 150_000, Free: 14 * gib, Known: round3(3000.0 / 5048), Important: true},
		{ID: 1, CPUs: 8, Bandwidth: 150_000, Free: 16 * gib},
	}
	if diff := gocmp.Diff(want, d.m.report()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for x, want := range map[float64]float64{0.12349: 0.123, 0.1235: 0.124, -0.1236: -0.124, 2: 2} {
		if got := round3(x); got != want {
			t.Errorf("%v is rounded to %v", x, got)
		}
	}
	seen := Round(workload.Observation{CPUUse: 1.23456, CPUTime: 5, Window: 7, Accesses: workload.Accesses{Local: 0.98765, PerSecond: 12.6}})
	if seen.Window != 0 || seen.CPUUse != 1.235 || seen.CPUTime != 0 || seen.Accesses.Local != 0.988 || seen.Accesses.PerSecond != 13 {
		t.Errorf("%+v", seen)
	}
}

// TestBecause: of several triggers, the one that the choice is about.
func TestBecause(t *testing.T) {
	reason := func(s string) words.Reason { return words.Plain(s) }
	r := Report{Triggers: []Trigger{{Kind: CPUPressure, Node: 2, Reason: reason("two")}, {Kind: LowLocality, Node: topology.None, Workload: "a", Reason: reason("a")},
		{Kind: CPUPressure, Node: 1, Reason: reason("one")}}}
	for _, tt := range []struct {
		id   workload.ID
		from topology.NodeSet
		want string
	}{{"a", topology.Nodes(1), "a"}, {"b", topology.Nodes(1), "one"}, {"b", topology.Nodes(1, 2), "two"}, {"b", topology.Nodes(0), "two"}} {
		r.Chosen = &Candidate{Changes: []Change{{Workload: "z", From: topology.Nodes(5)}, {Workload: tt.id, From: tt.from}}}
		if got := r.because().String(); got != tt.want {
			t.Errorf("%s from %v: because of %q, want %q", tt.id, tt.from, got, tt.want)
		}
	}
}
