package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// written is the lines so far: number, ! for an error, workload, owner and text; it empties them.
func written(h *Host) string {
	var out []string
	for _, e := range h.Save.Events {
		failed := ""
		if e.Error {
			failed = "!"
		}
		out = append(out, fmt.Sprintf("%d%s %s %s %s: %s", e.Seq, failed, e.Kind, e.Workload, string(e.Owner), e.Text))
	}
	h.Save.Events = nil
	return strings.Join(out, "\n")
}

// TestOnce: what repeats is one line until its text changes or it is over.
func TestOnce(t *testing.T) {
	l, h := telling()
	l.Events = 6
	once := func(key, text, want string) {
		t.Helper()
		l.Once(h, key, plan.Event{Kind: plan.EventHost, Error: true}, words.ProblemSeen, "x", text)
		if got := written(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	once("a", "odd", "7! host  : x: odd")
	once("a", "odd", "")
	once("b", "odd", "8! host  : x: odd")
	once("a", "odder\n  still", "9! host  : x: odder still")
	l.Over("a")
	once("a", "odder\n  still", "10! host  : x: odder still")
	once("b", "odd", "")
}

// TestForget: lines about workloads that are gone are forgotten, and those about CPUs that are free again.
func TestForget(t *testing.T) {
	l, h := telling()
	h.Scene.Show(workload.Snapshot{Observations: []workload.Observation{{ID: "/here"}}})
	h.Work.Narrowed["/narrow"] = topology.CPUs(0)
	for _, key := range []string{"frozen /here", "frozen /gone", "goal /gone", "other /gone", "key", work.ToldNarrowed + "/narrow", work.ToldNarrowed + "/wide"} {
		l.Told[key] = "said"
	}
	l.Forget(h.Scene, h.Work, []string{"frozen ", "goal "})
	var left []string
	for key := range l.Told {
		left = append(left, key)
	}
	slices.Sort(left)
	want := []string{"frozen /here", "key", work.ToldNarrowed + "/narrow", "other /gone"}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("%q, want %q", left, want)
	}
}

// TestOwnerOfLine: a line counts for the owner of its workload, also after that is gone, and an order for its author.
func TestOwnerOfLine(t *testing.T) {
	l, h := telling()
	l.Left = nil
	seen := workload.Observation{ID: "/seen", Owner: "user:7"}
	gone := workload.Observation{ID: "/gone", Owner: "user:8"}
	system := workload.Observation{ID: "/system"}
	h.Scene.Show(workload.Snapshot{Observations: []workload.Observation{seen}})
	h.Scene.Claims = map[workload.ID]*workload.Claim{"/claimed": {Owner: "pod:9"}, "/seen": {Owner: "pod:9"}}
	l.Leaves(&gone)
	l.Leaves(&system)
	for id, want := range map[workload.ID]workload.Owner{
		"/seen": seen.Responsible(), "/claimed": "pod:9", "/gone": gone.Responsible(), "/system": "", "/other": "",
	} {
		l.Event(h, plan.Event{Kind: plan.EventStep, Workload: id}, words.ProblemSeen, "x", "y")
		if got := h.Save.Events[0].Owner; got != want {
			t.Errorf("%s: owner %q, want %q", id, got, want)
		}
		h.Save.Events = nil
	}
	by := &plan.Asker{UID: 1000, User: "ada"}
	h.By = by
	l.Order(h, "/seen", words.ProblemSeen, "is heard")
	l.Event(h, plan.Event{Kind: plan.EventStep, Workload: "/seen"}, words.ProblemSeen, "x", "y")
	order, step := h.Save.Events[0], h.Save.Events[1]
	if order.Owner != by.Responsible().Holder(1000) || order.Owner == seen.Responsible() || !strings.Contains(order.Text, "ada") || order.By != by || order.Kind != plan.EventOrder {
		t.Errorf("an order: %+v", order)
	}
	if step.Owner != seen.Responsible() || !step.Time.Equal(h.At) || step.Code != words.ProblemSeen {
		t.Errorf("a step that somebody ordered: %+v", step)
	}
	h.By, h.Save.Events = nil, nil
	l.Event(h, plan.Event{Kind: plan.EventOrder, Workload: "/seen"}, words.ProblemSeen, "x", "y")
	if got := h.Save.Events[0].Owner; got != seen.Responsible() {
		t.Errorf("an order of nobody: %q", got)
	}
}

// TestForgetLeft: the owner of a workload that is gone is kept while the journal or a task has its settings.
func TestForgetLeft(t *testing.T) {
	l, h := telling()
	w := work.New(1, []plan.Entry{{Seq: 1, Workload: "/journal", Kind: plan.CgroupCPUs, Path: "/journal"}}, nil, nil, nil)
	h.Work = &w
	l.ForgetLeft(h.Scene, h.Work)
	if l.Left != nil {
		t.Errorf("%v", l.Left)
	}
	h.Scene.Show(workload.Snapshot{Observations: []workload.Observation{{ID: "/back"}, {ID: "/journal2"}}})
	w.Tasks["/busy"] = &work.Task{}
	w.Undoing = append(w.Undoing, &work.Undoing{Running: map[uint64][]plan.Entry{5: {{Workload: "/undone"}}}})
	l.Left = map[workload.ID]workload.Owner{}
	for _, id := range []workload.ID{"/journal", "/busy", "/undone", "/back", "/gone"} {
		l.Left[id] = "uid:7"
	}
	l.ForgetLeft(h.Scene, h.Work)
	var left []workload.ID
	for id := range l.Left {
		left = append(left, id)
	}
	slices.Sort(left)
	if !slices.Equal(left, []workload.ID{"/busy", "/journal", "/undone"}) {
		t.Errorf("%q", left)
	}
}

// TestManagersAreTold: a manager that comes, goes or changes is a line; one that only changes has not gone.
func TestManagersAreTold(t *testing.T) {
	numad := scene.Manager{Name: "numad", Does: "moves processes"}
	kubelet := scene.Manager{Name: "kubelet", Does: "pins containers", Owns: "its pods"}
	changed := kubelet
	changed.Owns = "all pods"
	seen := func(m scene.Manager) string {
		if m.Owns == "" {
			return words.Because(words.ManagerSeen, m.Name, m.Does).String()
		}
		return words.Because(words.ManagerSeenOwns, m.Name, m.Does, m.Owns).String()
	}
	gone := func(m scene.Manager) string { return words.Because(words.ManagerGone, m.Name, m.Does).String() }
	for name, c := range map[string]struct {
		before, now []scene.Manager
		want        []string
	}{
		"both come":   {nil, []scene.Manager{numad, kubelet}, []string{seen(numad), seen(kubelet)}},
		"both stay":   {[]scene.Manager{numad, kubelet}, []scene.Manager{kubelet, numad}, nil},
		"one goes":    {[]scene.Manager{numad, kubelet}, []scene.Manager{numad}, []string{gone(kubelet)}},
		"one changes": {[]scene.Manager{numad, kubelet}, []scene.Manager{numad, changed}, []string{seen(changed)}},
	} {
		l, h := telling()
		l.ManagersChanged(h, c.before, c.now)
		var got []string
		for _, e := range h.Save.Events {
			got = append(got, e.Text)
			if e.Kind != plan.EventHost || e.Error {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestScanIsTold: problems, CPUs and a plan that is not sound are lines when they come or go.
func TestScanIsTold(t *testing.T) {
	host := func(cpus ...topology.CPUID) *topology.Host { return &topology.Host{Online: topology.CPUs(cpus...)} }
	problem := workload.Problem{Subject: "/a", Text: "odd"}
	other := workload.Problem{Subject: "cpus", Text: "odd"}
	halted := words.Because(words.ProblemSeen, "plan", "unsound")
	seen := func(h *topology.Host, halted words.Reason, all ...workload.Problem) *Seen {
		return &Seen{Snapshot: &workload.Snapshot{Host: h, Problems: all}, Plan: &plan.Plan{}, Halted: halted}
	}
	for name, c := range map[string]struct {
		before, now *Seen
		want        string
	}{
		"nothing new":      {seen(host(0), words.Reason{}, problem), seen(host(0), words.Reason{}, problem), ""},
		"a problem":        {seen(host(0), words.Reason{}), seen(host(0), words.Reason{}, problem, other), "1! host /a : /a: odd\n2! host  : cpus: odd"},
		"one goes":         {seen(host(0), words.Reason{}, problem), seen(host(0), words.Reason{}), ""},
		"CPUs come and go": {seen(host(0, 1), words.Reason{}), seen(host(0, 2), words.Reason{}), "1! host  : " + words.Because(words.CPUsOffline, topology.CPUs(1)).String() + "\n2 host  : " + words.Because(words.CPUsOnline, topology.CPUs(2)).String()},
		"halted":           {seen(host(0), words.Reason{}), seen(host(0), halted), "1! plan  : plan: unsound"},
		"still halted":     {seen(host(0), halted), seen(host(0), halted), ""},
		"sound again":      {seen(host(0), halted), seen(host(0), words.Reason{}), "1 plan  : " + words.Because(words.PlanSoundAgain).String()},
	} {
		l, h := telling()
		h.Scene.Show(workload.Snapshot{Observations: []workload.Observation{{ID: "/a"}}})
		l.Scan(h, c.before, c.now, nil)
		if got := written(h); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
