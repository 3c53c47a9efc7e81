package homes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// at returns a time between two scans: the fourth has begun, the third has ended.
func at() *Now { return &Now{At: time.Unix(1000, 0), Begun: 4, Seen: 3} }

// asked returns a request for two CPUs and 4 MiB, changed.
func asked(change func(*Placing)) *Placing {
	in := run(0)
	in.As.ID = "/soon"
	change(in)
	return in
}

// booked returns the workloads in the ledger.
func booked(h *Homes) string {
	var ids []string
	for _, p := range h.Ledger(at()).Placements() {
		ids = append(ids, string(p.Workload))
	}
	return strings.Join(ids, " ")
}

// full books all CPUs for shared work.
func full(h *Homes) {
	for n := range topology.NodeID(2) {
		p := home(workload.ID(fmt.Sprint("/full", n)), workload.Shared, n)
		p.VCPUs, p.CPUs = 24, h.Facts.Host.Nodes[n].CPUs
		h.Plan.Placements = append(h.Plan.Placements, p)
	}
}

// TestPlaceTakes: Place books a process in the ledger and a hold until its time; a question books nothing.
func TestPlaceTakes(t *testing.T) {
	process := func(in *Placing) { in.Process = workload.Process{PID: 7, Start: 70}; in.As.ID = "pid:7" }
	exact := func(in *Placing) { in.Exact = &Exact{CPUs: topology.CPUs(2, 3)} }
	for _, tt := range []struct {
		name     string
		change   func(*Placing)
		saved    string // of placements, or "" for none
		admitted workload.ID
		until    time.Time
		given    bool
		chosen   bool
		told     words.Code
		booked   string
		ledger   bool
	}{
		{name: "a question", change: func(*Placing) {}},
		{name: "a question about one CPU", change: func(in *Placing) { in.As.CPUs = 1 }},
		{name: "a hold", change: func(in *Placing) { in.Hold = time.Minute }, admitted: "/soon", until: time.Unix(1060, 0), booked: "/soon"},
		{name: "a process", change: process, saved: "pid:7", admitted: "pid:7", given: true, chosen: true, told: words.RequestDecided, booked: "pid:7", ledger: true},
		{name: "PID 1", change: func(in *Placing) { in.Process = workload.Process{PID: 1, Start: 1}; in.As.ID = "pid:1" },
			saved: "pid:1", admitted: "pid:1", given: true, chosen: true, told: words.RequestDecided, booked: "pid:1", ledger: true},
		{name: "memory", change: func(in *Placing) { in.As.CPUs, in.As.Nodes, in.Hold = 0, topology.Nodes(1), time.Minute },
			admitted: "/soon", until: time.Unix(1060, 0), booked: "/soon"},
		{name: "a question about named CPUs", change: exact},
		{name: "a process on named CPUs", change: func(in *Placing) { process(in); exact(in) },
			admitted: "pid:7", given: true, told: words.RequestExact, ledger: true},
		{name: "PID 1 on named CPUs", change: func(in *Placing) {
			exact(in)
			in.Process, in.As.ID = workload.Process{PID: 1, Start: 1}, "pid:1"
		}, admitted: "pid:1", given: true, told: words.RequestExact, ledger: true},
		{name: "a process on a named node", change: func(in *Placing) { process(in); in.Exact = &Exact{Nodes: topology.Nodes(1)} },
			admitted: "pid:7", told: words.RequestExactMemory, ledger: true},
	} {
		h := host(t)
		in := asked(tt.change)
		in.From = workload.Origin{Owner: "user:7"}
		in.PlaceRequest.From = workload.Origin{Owner: "user:8"} // as asked, and not as it counts
		r := h.Place(at(), in)
		if r.Refused != nil || r.Placed.Ledger != tt.ledger || r.Placed.Decision.Outcome != plan.Placed || r.Placed.Placement.Home.Empty() {
			t.Errorf("%s: %+v, %+v", tt.name, r.Refused, r.Placed)
		}
		saved := ""
		if r.Save.Placements != nil {
			saved = string(r.Save.Placements.All()[0].Workload)
		}
		if saved != tt.saved || booked(h) != tt.booked {
			t.Errorf("%s: saved %q, booked %q", tt.name, saved, booked(h))
		}
		if (r.Save.Admissions != nil) != (tt.admitted != "") || len(h.Admissions) != min(1, len(tt.admitted)) {
			t.Errorf("%s: saved %+v of %+v", tt.name, r.Save.Admissions, h.Admissions)
		}
		if tt.admitted != "" {
			a, ok := r.Save.Admissions.All()[tt.admitted]
			if !ok || a.Scan != 4 || !a.Until.Equal(tt.until) || a.From.Owner != "user:7" || a.Process != in.Process || a.Placement.Workload != tt.admitted {
				t.Errorf("%s: %+v", tt.name, a)
			}
			if a.Exact != (in.Exact != nil) || a.Placement.Start != in.Process.Start || a.Spec.Memory != in.As.Memory {
				t.Errorf("%s: %+v", tt.name, a)
			}
		}
		why := h.Decisions()
		if _, chosen := why.Of(tt.admitted); chosen != tt.chosen || len(h.Given) != count(tt.given) {
			t.Errorf("%s: chosen %v, given %v", tt.name, chosen, h.Given)
		}
		if (r.Event == nil) != (tt.told == "") || (r.Event != nil && (r.Event.Code != tt.told || r.Event.Workload != tt.admitted)) {
			t.Errorf("%s: %+v", tt.name, r.Event)
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestHistoryOfRequests: the history has each request with its result as a sentence.
func TestHistoryOfRequests(t *testing.T) {
	h := host(t)
	text := func(in *Placing) string {
		e := h.Place(at(), in).Event
		return words.Because(e.Code, e.Values...).String()
	}
	in := run(7)
	in.Exact = &Exact{CPUs: topology.CPUs(2, 3)}
	if got := text(in); got != "job (shared, 2 CPUs) started where the user asked: CPUs 2-3, memory node 0" {
		t.Error(got)
	}
	in.Exact = &Exact{Nodes: topology.Nodes(1)}
	if got := text(in); got != "job (shared, 2 CPUs) started where the user asked: memory node 1" {
		t.Error(got)
	}
	if got := text(run(8)); !strings.HasPrefix(got, "job (shared, 2 CPUs): placed: node ") {
		t.Error(got)
	}
}

// TestCrowd: a command that starts anyway gets a crowded home; a hold waits for room.
func TestCrowd(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Placing)
		placed bool
	}{
		"a hold":          {func(in *Placing) { in.Hold = time.Minute }, false},
		"a question":      {func(in *Placing) { in.As.ID = "" }, true},
		"about a name":    {func(*Placing) {}, false},
		"a process":       {func(in *Placing) { in.Process = workload.Process{PID: 7, Start: 7} }, true},
		"PID 1":           {func(in *Placing) { in.Process = workload.Process{PID: 1, Start: 7} }, true},
		"starts anyway":   {func(in *Placing) { in.Starts = true }, true},
		"held, and start": {func(in *Placing) { in.Hold, in.Starts = time.Minute, true }, true},
	} {
		h := host(t)
		full(h)
		if r := h.Place(at(), asked(tt.change)); (r.Refused == nil) != tt.placed {
			t.Errorf("%s: %+v", name, r.Refused)
		}
	}
}

// TestRefusedRequests: a refused request books nothing; the history has it only if a process starts anyway.
func TestRefusedRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Placing)
		told   bool
	}{
		"a hold":    {func(in *Placing) { in.Hold = time.Minute }, false},
		"a process": {func(in *Placing) { in.Process, in.As.ID = workload.Process{PID: 1, Start: 7}, "pid:1" }, true},
		"memory":    {func(in *Placing) { in.As.CPUs, in.As.Nodes, in.Hold = 0, topology.Nodes(1), time.Minute }, false},
	} {
		h := host(t)
		in := asked(tt.change)
		in.As.Class, in.As.Memory = workload.Dedicated, 1<<40
		r := h.Place(at(), in)
		if r.Refused == nil || r.Refused.Kind != NoRoom || r.Refused.Why == "" || (r.Event != nil) != tt.told {
			t.Errorf("%s: %+v, event %+v", name, r.Refused, r.Event)
		}
		if r.Save.Admissions != nil || r.Save.Placements != nil || len(h.Admissions)+len(h.Given) != 0 || booked(h) != "" {
			t.Errorf("%s: %+v, booked %q", name, r.Save, booked(h))
		}
	}
}

// TestMemoryIsHeldOnce: no second hold gets the same memory.
func TestMemoryIsHeldOnce(t *testing.T) {
	h := host(t)
	in := asked(func(in *Placing) {
		in.As.CPUs, in.As.Nodes, in.As.Memory, in.Hold = 0, topology.Nodes(1), 10<<20, time.Minute
	})
	if r := h.Place(at(), in); r.Refused != nil || r.Placed.Decision.Home.String() != "1" || r.Placed.Decision.Workload != "/soon" {
		t.Fatalf("%+v", r)
	}
	in.As.ID = "/other"
	if r := h.Place(at(), in); r.Refused == nil || !strings.HasPrefix(r.Refused.Why, "Needs 10 GiB on node 1; 6 GiB are free") {
		t.Errorf("%+v", r.Refused)
	}
}

// TestBeyond: a request beyond the ceiling of its party has a last reason that says so.
func TestBeyond(t *testing.T) {
	for _, beyond := range []words.Reason{{}, words.Because(words.HeldStill)} {
		h := host(t)
		in := run(7)
		in.Beyond = beyond
		r := h.Place(at(), in)
		last := r.Placed.Decision.Reasons[len(r.Placed.Decision.Reasons)-1]
		if said := last.Code == words.CountsAsUsed; said == beyond.None() {
			t.Errorf("%+v", r.Placed.Decision.Reasons)
		}
		why := h.Decisions()
		chosen, _ := why.Of("pid:7")
		if slices.ContainsFunc(chosen.Reasons, func(r words.Reason) bool { return r.Code == words.CountsAsUsed }) {
			t.Error("that is no reason of the home")
		}
	}
}

// TestBesidePinnedWork: dedicated work gets no CPU of pinned work that the scans have not seen, and none of a hold.
func TestBesidePinnedWork(t *testing.T) {
	h := host(t)
	dedicated := func(id workload.ID, beside ...place.Pinned) Result {
		return h.Place(at(), asked(func(in *Placing) {
			in.As.ID, in.As.Class, in.As.CPUs, in.As.Nodes, in.Hold, in.Beside = id, workload.Dedicated, 4, topology.Nodes(0), time.Minute, beside
		}))
	}
	pinned := place.Pinned{PID: 9, CPUs: topology.CPUs(0, 1)}
	a := dedicated("/a", pinned)
	if a.Refused != nil || a.Placed.Placement.CPUs.Intersects(pinned.CPUs) {
		t.Fatalf("%+v", a)
	}
	if b := dedicated("/b", pinned); b.Refused == nil {
		t.Errorf("four of eight CPUs are held, two are pinned: %+v", b.Placed.Placement)
	}
	if b := dedicated("/b"); b.Refused != nil || b.Placed.Placement.CPUs.Intersects(a.Placed.Placement.CPUs) {
		t.Errorf("%+v", b)
	}
}

// TestExactTaken: a user who names CPUs of dedicated work gets them with a warning.
func TestExactTaken(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cpus  topology.CPUSet
		taken string
	}{
		{"free", topology.CPUs(6), ""},
		{"its own", topology.CPUs(4), ""},
		{"of others", topology.CPUs(1, 2, 6), "Other dedicated work holds CPUs 1-2 of those chosen."},
	} {
		h := host(t)
		h.Plan.Placements = []workload.Placement{home("/a", workload.Dedicated, 0, 1), home("pid:7", workload.Dedicated, 0, 4)}
		h.Admissions["pid:9"] = Admission{Exact: true, Spec: workload.Spec{Class: workload.Dedicated}, Placement: home("pid:9", workload.Dedicated, 0, 2)}
		in := run(7)
		in.As.Class, in.Exact = workload.Dedicated, &Exact{CPUs: tt.cpus}
		r := h.Place(at(), in)
		reasons := r.Placed.Decision.Reasons
		if last := reasons[len(reasons)-1]; last.Code != words.ExactNamed || len(reasons) != 1+count(tt.taken != "") || (tt.taken != "" && reasons[0].String() != tt.taken) {
			t.Errorf("%s: %v", tt.name, reasons)
		}
		if !r.Placed.Placement.CPUs.Equal(tt.cpus) || !h.Admissions["pid:7"].Exact || r.Placed.Decision.Home.String() != "0" {
			t.Errorf("%s: %+v", tt.name, r.Placed)
		}
	}
}

// TestExactLeavesLess: the CPUs that a user named for dedicated work are reserved from then on.
func TestExactLeavesLess(t *testing.T) {
	h := host(t)
	h.Ledger(at())
	in := run(7)
	in.As.Class, in.Exact = workload.Dedicated, &Exact{CPUs: topology.CPUs(0, 1, 2, 3)}
	h.Place(at(), in)
	if h.HasLedger() || h.Facts.Policy.Reserved.String() != "0-3" {
		t.Errorf("ledger %v, reserved %s", h.HasLedger(), h.Facts.Policy.Reserved)
	}
	six := asked(func(in *Placing) { in.As.Class, in.As.CPUs, in.As.Nodes = workload.Dedicated, 5, topology.Nodes(0) })
	if r := h.Place(at(), six); r.Refused == nil {
		t.Errorf("%+v", r.Placed)
	}
	if !h.HasLedger() {
		t.Error("no ledger was made")
	}
}

// TestExactCounts: work on CPUs or nodes that a user named counts as in use there until a scan sees it.
func TestExactCounts(t *testing.T) {
	first := func(a Admission) string {
		h := host(t)
		if a.Spec.ID != "" {
			h.Admissions[a.Spec.ID] = a
		}
		r := h.Place(at(), asked(func(in *Placing) { in.As.CPUs = 2 }))
		return r.Placed.Placement.Home.String()
	}
	free := first(Admission{})
	there := Admission{Exact: true, Scan: 3, Spec: workload.Spec{ID: "pid:7", Class: workload.Shared, CPUs: 8}, Placement: home("pid:7", workload.Shared, 0, 0, 1, 2, 3, 4, 5, 6, 7)}
	if free != "0" || first(there) != "1" {
		t.Errorf("on node %s without it, on node %s with it", free, first(there))
	}
	seen := there
	if seen.Scan = 2; first(seen) != "0" {
		t.Error("a scan has seen it, and counts it")
	}
	memory := there
	memory.Placement = workload.Placement{Workload: "pid:7", Home: topology.Nodes(0), Memory: []workload.NodeMemory{{Node: 0, KiB: 16 << 20}}}
	if first(memory) != "1" {
		t.Error("its memory does not count")
	}
	one := there
	one.Spec.CPUs, one.Placement = 1, home("pid:7", workload.Shared, 0, 3)
	if first(one) != "1" {
		t.Error("one CPU does not count")
	}
}

// TestExactCountsByNode: the use is divided among nodes by their named CPUs.
func TestExactCountsByNode(t *testing.T) {
	h := host(t)
	h.Admissions["pid:7"] = Admission{Exact: true, Scan: 3, Spec: workload.Spec{ID: "pid:7", CPUs: 3}, Placement: workload.Placement{Workload: "pid:7", CPUs: topology.CPUs(0, 1, 8)}}
	b := home("/b", workload.Shared, 1, 9, 10, 11)
	h.Plan.Placements = []workload.Placement{b}
	// Node 0 has 2 busy CPUs, node 1 has 1 and 3 booked ones.
	r := h.Place(at(), asked(func(in *Placing) { in.As.CPUs = 2 }))
	if got := r.Placed.Placement.Home.String(); got != "0" {
		t.Errorf("on node %s: %+v", got, r.Placed.Decision)
	}
}

// TestLedgerGoesByUse: requests between two scans count running work by its use.
func TestLedgerGoesByUse(t *testing.T) {
	first := func(subjects ...*place.Subject) string {
		h := host(t)
		a, b := home("/a", workload.Shared, 0, 0, 1, 2, 3, 4, 5, 6, 7), home("/b", workload.Shared, 1, 8, 9, 10, 11, 12, 13, 14, 15)
		a.VCPUs, b.VCPUs = 8, 7
		h.Plan.Placements = []workload.Placement{a, b}
		now := at()
		now.Subjects = subjects
		r := h.Place(now, asked(func(in *Placing) { in.As.CPUs = 4 }))
		return r.Placed.Placement.Home.String()
	}
	idle := func(id workload.ID, node topology.NodeID) *place.Subject {
		return &place.Subject{Spec: workload.Spec{ID: id, Class: workload.Shared, CPUs: 8}, Observation: workload.Observation{ID: id, CPUUse: 0.1, RanOn: []workload.NodeShare{{Node: node, Share: 1}}}}
	}
	if booked, used := first(), first(idle("/a", 0)); booked != "1" || used != "0" {
		t.Errorf("node %s by what is booked, node %s by what is used", booked, used)
	}
}

// TestHadBefore: the original CPUs of a process stay known through nested commands.
func TestHadBefore(t *testing.T) {
	p := workload.Process{PID: 7, Start: 70}
	for name, tt := range map[string]struct {
		was  *Admission
		want string
	}{
		"the first":               {nil, "5"},
		"within another":          {&Admission{Process: p, Had: topology.CPUs(1)}, "1"},
		"of which it is unknown":  {&Admission{Process: p}, "5"},
		"an earlier process":      {&Admission{Process: workload.Process{PID: 7, Start: 69}, Had: topology.CPUs(1)}, "5"},
		"an earlier one, unknown": {&Admission{Process: workload.Process{PID: 7, Start: 69}}, "5"},
	} {
		h := host(t)
		if tt.was != nil {
			h.Admissions["pid:7"] = *tt.was
		}
		in := run(7)
		in.Process, in.Had = p, topology.CPUs(5)
		h.Place(at(), in)
		if got := h.Admissions["pid:7"].Had.String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestDecided: the sentence of a decision has its outcome, its home and its first reason.
func TestDecided(t *testing.T) {
	reasons := words.Reasons(words.Because(words.HeldStill), words.Because(words.ExactNamed))
	for want, d := range map[string]plan.Decision{
		"placed: node 1. It is already held for this workload.": {Outcome: plan.Placed, Home: topology.Nodes(1), Reasons: reasons},
		"refused. It is already held for this workload.":        {Outcome: plan.Refused, Reasons: reasons},
	} {
		if got := Decided(&d).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Decided(&plan.Decision{Outcome: plan.Placed, Home: topology.Nodes(1), Reasons: reasons[:1]}).String(); !strings.HasSuffix(got, "held for this workload.") {
		t.Errorf("with one reason: %q", got)
	}
	if got := Decided(&plan.Decision{Outcome: plan.Placed, Home: topology.Nodes(1)}).String(); !strings.HasPrefix(got, "placed: node 1.") {
		t.Errorf("without a reason: %q", got)
	}
}

// held returns homes with a hold of dedicated work on CPUs of node 0.
func held(t *testing.T, cpus ...topology.CPUID) (*Homes, Admission) {
	h := host(t)
	spec := workload.Spec{ID: "/vm", Name: "web", Class: workload.Dedicated, CPUs: len(cpus), Memory: 1 << 20}
	p := home("/vm", workload.Dedicated, 0, cpus...)
	p.Pins = cpus
	a := Admission{Spec: spec, Placement: p, Until: time.Unix(2000, 0)}
	h.Admissions["/vm"] = a
	return h, a
}

// TestExtend: an extended hold keeps its home. It gets other CPUs for offline ones, unless its work runs already or
// there is no room; the answer then has the rest.
func TestExtend(t *testing.T) {
	for _, tt := range []struct {
		name    string
		offline []topology.CPUID
		runs    bool
		noRoom  bool
		want    string // CPUs in the answer
		kept    string // CPUs in the admission; "" is as in the answer
		lost    bool
	}{
		{name: "nothing lost", want: "2-3"},
		{name: "nothing lost, it runs", runs: true, want: "2-3"},
		{name: "one lost", offline: []topology.CPUID{3}, want: "0-1"},
		{name: "one lost, it runs", offline: []topology.CPUID{3}, runs: true, want: "2", kept: "2-3", lost: true},
		{name: "one lost, no room", offline: []topology.CPUID{3}, noRoom: true, want: "2", kept: "2-3", lost: true},
	} {
		h, a := held(t, 2, 3)
		h.Facts.Host.Online = h.Facts.Host.Online.Minus(topology.CPUs(tt.offline...))
		if tt.noRoom {
			h.Facts.Policy.Reserved = h.Facts.Host.Online.Minus(topology.CPUs(2))
		}
		a.Until = time.Unix(3000, 0)
		ran := false
		r := h.Extend(at(), a, func(cpus topology.CPUSet) bool { ran = cpus.Equal(topology.CPUs(2, 3)); return tt.runs })
		if r.Refused != nil || r.Placed.Decision.Outcome != plan.Kept || r.Placed.Decision.Workload != "/vm" || r.Placed.Decision.Reasons[0].Code != words.HeldStill {
			t.Errorf("%s: %+v", tt.name, r)
		}
		p := r.Placed.Placement
		moved := tt.want == "0-1"
		if got := p.CPUs.String(); (got != tt.want && !moved) || p.CPUs.Has(3) && len(tt.offline) > 0 || p.CPUs.Len() != p.VCPUs || len(p.Pins) != p.VCPUs {
			t.Errorf("%s: %+v", tt.name, p)
		}
		if said := len(r.Placed.Decision.Reasons) == 2; said != tt.lost {
			t.Errorf("%s: %v", tt.name, r.Placed.Decision.Reasons)
		}
		saved, ok := r.Save.Admissions.All()["/vm"]
		if !ok || !saved.Until.Equal(a.Until) || (tt.kept != "" && (saved.Placement.CPUs.String() != tt.kept || len(saved.Placement.Pins) != 2)) {
			t.Errorf("%s: saved %+v", tt.name, saved)
		}
		if (len(tt.offline) > 0) != ran {
			t.Errorf("%s: asked whether it runs: %v", tt.name, ran)
		}
		if has := place.Of(h.Ledger(at()).Placements(), "/vm"); !has.CPUs.Equal(saved.Placement.CPUs) {
			t.Errorf("%s: the ledger has %+v", tt.name, has)
		}
		if moved && (saved.Placement.CPUs.Has(3) || saved.Placement.CPUs.Len() != 2) {
			t.Errorf("%s: saved %+v", tt.name, saved.Placement)
		}
	}
}

// TestLost: a hold of dedicated work on offline CPUs is a problem; a process or a choice of the user is none.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Admission)
		want   string
	}{
		"a hold":          {func(*Admission) {}, "web: CPU 3 held for it went offline; still held: CPU 2."},
		"without a name":  {func(a *Admission) { a.Spec.Name = "" }, "/vm: CPU 3 held for it went offline; still held: CPU 2."},
		"a process":       {func(a *Admission) { a.Process.PID = 1 }, ""},
		"by a person":     {func(a *Admission) { a.Exact = true }, ""},
		"shared":          {func(a *Admission) { a.Placement.Class = workload.Shared }, ""},
		"all are online":  {func(a *Admission) { a.Placement.CPUs = topology.CPUs(2) }, ""},
		"an idle sibling": {func(a *Admission) { a.Placement.CPUs, a.Placement.Idle = topology.CPUs(2), topology.CPUs(3) }, "web: CPU 3 held for it went offline; still held: CPU 2."},
	} {
		h, a := held(t, 2, 3)
		h.Facts.Host.Online = h.Facts.Host.Online.Minus(topology.CPUs(3))
		tt.change(&a)
		h.Admissions["/vm"] = a
		got := ""
		for _, p := range h.Lost() {
			got += p.Subject + ": " + p.Text
		}
		if (tt.want == "") != (got == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestRelease: the end of a hold removes it from the ledger and from the placements of the newest scan.
func TestRelease(t *testing.T) {
	h, _ := held(t, 2, 3)
	h.Admissions["pid:1"] = Admission{Process: workload.Process{PID: 1, Start: 1}}
	for _, id := range []workload.ID{"pid:1", "/other"} {
		if s := h.Release(id); s.Admissions != nil || s.Placements != nil || len(h.Admissions) != 2 {
			t.Errorf("%s is no hold: %+v", id, s)
		}
	}
	h.Plan.Placements = []workload.Placement{home("/a", workload.Shared, 0, 1), h.Admissions["/vm"].Placement}
	if booked(h) != "/a /vm" {
		t.Fatal(booked(h))
	}
	s := h.Release("/vm")
	if s.Admissions == nil || len(s.Admissions.All()) != 1 || s.Placements == nil || homesOf(s.Placements.All()) != "/a@1/0 " || booked(h) != "/a" {
		t.Errorf("%+v, booked %q", s, booked(h))
	}
	h, _ = held(t, 2, 3) // before a scan, and before a ledger was made
	h.Plan.Placements = []workload.Placement{home("/a", workload.Shared, 0, 1)}
	if s := h.Release("/vm"); s.Admissions == nil || s.Placements != nil || h.HasLedger() {
		t.Errorf("%+v", s)
	}
}

// TestAdopt: Adopt books commands of another program once, reserves CPUs that a user named, and skips held workloads.
func TestAdopt(t *testing.T) {
	one := func(pid int, exact bool, cpu topology.CPUID) Admission {
		class := workload.Shared
		if exact {
			class = workload.Dedicated
		}
		p := home(scene.ProcessID(pid), class, 0, cpu)
		return Admission{Process: workload.Process{PID: pid, Start: 9}, Exact: exact, Placement: p, Spec: workload.Spec{Class: class}}
	}
	h := host(t)
	if s := h.Adopt(at(), nil, nil); s.Admissions != nil || s.Placements != nil || h.HasLedger() {
		t.Errorf("nothing: %+v", s)
	}
	h.Admissions["pid:1"] = one(1, false, 1)
	again := one(1, false, 3)
	if s := h.Adopt(at(), []Admission{again, one(2, false, 2)}, map[workload.ID]bool{"pid:2": true}); s.Admissions != nil || len(h.Given) != 0 {
		t.Errorf("known, or held: %+v", s)
	}
	again.Process.Start = 10 // another process with the PID
	s := h.Adopt(at(), []Admission{again, one(3, false, 4)}, map[workload.ID]bool{"pid:2": true})
	if s.Admissions == nil || s.Placements == nil || homesOf(s.Placements.All()) != "pid:1@3/0 pid:3@4/0 " || booked(h) != "pid:1 pid:3" {
		t.Errorf("%+v, booked %q", s, booked(h))
	}
	a, ok := s.Admissions.All()["pid:3"]
	if !ok || a.Scan != 4 || h.Admissions["pid:1"].Process.Start != 10 || len(h.Given) != 2 || !h.Given["pid:3"].Equal(topology.CPUs(4)) {
		t.Errorf("%+v, given %v", a, h.Given)
	}
	if h.Facts.Policy.Reserved.Len() != 0 || !h.HasLedger() {
		t.Errorf("reserved %s", h.Facts.Policy.Reserved)
	}
	s = h.Adopt(at(), []Admission{one(5, true, 5), one(6, false, 6)}, nil)
	if s.Admissions == nil || h.HasLedger() || h.Facts.Policy.Reserved.String() != "5" || len(h.Admissions) != 4 || len(s.Placements.All()) != 3 {
		t.Errorf("by a person: %+v, reserved %s", s, h.Facts.Policy.Reserved)
	}
}

// TestExited: a process that has exited holds nothing; a later process with its PID keeps its home.
func TestExited(t *testing.T) {
	start := func(h *Homes, exact bool) {
		for pid := range 3 {
			p := home(scene.ProcessID(pid+1), workload.Dedicated, 0, topology.CPUID(pid+1))
			p.Start = 9
			h.Admissions[p.Workload] = Admission{Process: workload.Process{PID: pid + 1, Start: 9}, Placement: p, Exact: exact && pid == 0, Spec: workload.Spec{Class: workload.Dedicated}}
			if !exact || pid > 0 {
				h.Plan.Placements = append(h.Plan.Placements, p)
			}
			h.Give(p.Workload, p.CPUs)
		}
	}
	first := workload.Process{PID: 1, Start: 9}
	policy := func() plan.Policy { return plan.Policy{Overcommit: 5} }
	for _, tt := range []struct {
		name       string
		all        []workload.Process
		exact      bool
		noHost     bool
		admissions int
		placements string // saved
		overcommit float64
		booked     string
	}{
		{name: "none", admissions: 3, overcommit: 3, booked: "pid:1 pid:2 pid:3"},
		{name: "one", all: []workload.Process{first}, admissions: 2, placements: "pid:2@2/0 pid:3@3/0 ", overcommit: 3, booked: "pid:2 pid:3"},
		{name: "two", all: []workload.Process{first, {PID: 3, Start: 9}, {PID: 4, Start: 9}}, admissions: 1, placements: "pid:2@2/0 ", overcommit: 3, booked: "pid:2"},
		{name: "an earlier one", all: []workload.Process{{PID: 1, Start: 8}}, admissions: 3, overcommit: 3, booked: "pid:1 pid:2 pid:3"},
		{name: "put there by a person", all: []workload.Process{first}, exact: true, admissions: 2, overcommit: 5, booked: "pid:2 pid:3"},
		{name: "before a scan", all: []workload.Process{first}, exact: true, noHost: true, admissions: 2},
		{name: "another, and one is put there by a person", all: []workload.Process{{PID: 2, Start: 9}}, exact: true, admissions: 2, placements: "pid:3@3/0 ", overcommit: 3, booked: "pid:3"},
	} {
		h := host(t)
		start(h, tt.exact)
		if !tt.noHost {
			h.KeepClear(nil)
			booked(h)
		} else {
			h.Facts.Host = nil
		}
		s := h.Exited(at(), tt.all, policy)
		if len(h.Admissions) != tt.admissions || len(h.Given) != tt.admissions || (s.Admissions != nil) != (tt.admissions < 3) {
			t.Errorf("%s: %d admissions, given %v, saved %+v", tt.name, len(h.Admissions), h.Given, s.Admissions)
		}
		if (s.Placements != nil) != (tt.placements != "") || (s.Placements != nil && homesOf(s.Placements.All()) != tt.placements) {
			t.Errorf("%s: %+v", tt.name, s.Placements)
		}
		if tt.noHost {
			continue
		}
		if h.Facts.Policy.Overcommit != tt.overcommit || booked(h) != tt.booked {
			t.Errorf("%s: overcommit %v, booked %q", tt.name, h.Facts.Policy.Overcommit, booked(h))
		}
		if named := h.Facts.Policy.Reserved.Has(1); named != (tt.exact && tt.overcommit == 3) {
			t.Errorf("%s: reserved %s", tt.name, h.Facts.Policy.Reserved)
		}
	}
	h := host(t) // another that a person put somewhere stays reserved
	start(h, true)
	h.Admissions["pid:2"] = Admission{Process: workload.Process{PID: 2, Start: 9}, Exact: true, Placement: home("pid:2", workload.Dedicated, 0, 7), Spec: workload.Spec{Class: workload.Dedicated}}
	h.KeepClear(nil)
	h.Ledger(at())
	if h.Exited(at(), []workload.Process{first}, policy); h.Facts.Policy.Reserved.String() != "7" || h.HasLedger() {
		t.Errorf("reserved %s", h.Facts.Policy.Reserved)
	}
}

// TestBookedProcesses: Booked returns each process with an admission or a home once, by ID.
func TestBookedProcesses(t *testing.T) {
	h := host(t)
	h.Admissions["/hold"] = Admission{}
	h.Admissions["pid:1"] = Admission{Process: workload.Process{PID: 1, Start: 1}}
	h.Admissions["pid:4"] = Admission{Process: workload.Process{PID: 4}} // of a version that did not save it
	h.Plan.Placements = append(h.Plan.Placements, []workload.Placement{
		{Workload: "/a", Start: 3}, {Workload: "pid:0", Start: 3}, {Workload: "pid:1", Start: 1},
		{Workload: "pid:2", Start: 2}, {Workload: "pid:3"}, {Workload: "pid:x", Start: 3},
	}...)
	want := []workload.Process{{PID: 1, Start: 1}, {PID: 2, Start: 2}}
	if got := h.Booked(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
