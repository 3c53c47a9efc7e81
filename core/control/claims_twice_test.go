package control

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// pod is a claim of a cgroup under a name of its source.
func pod(id workload.ID, class workload.Class, cgroups ...string) workload.Claim {
	return workload.Claim{ID: id, Name: string(id), Cgroups: cgroups, Running: true, Ruled: true, Crowd: true,
		Spec: &workload.Spec{ID: id, Name: string(id), Class: class, Importance: 50, CPUs: 2, Memory: 1 << 20, Given: true}}
}

// sourcesScan is a scan with what several sources claim.
func (f *fake) sourcesScan(sources ...Claimed) {
	f.t.Helper()
	s := f.begin()
	s.Snapshot, s.Claims = f.snapshot(), sources
	f.turn(Input{Scan: s})
	f.run()
	f.after(2 * 1e9)
}

// TestTwoSourcesClaimOneCgroup: the first source keeps what two claim, also a cgroup that is too
// small to be observed; the claim of the other is reported in one sentence.
func TestTwoSourcesClaimOneCgroup(t *testing.T) {
	for name, first := range map[string]workload.Claim{
		"the same cgroup":  pod("a/web", workload.Shared, "/pods/web"),
		"a cgroup above":   pod("a/web", workload.Shared, "/pods"),
		"not observed yet": pod("a/small", workload.Shared, "/small"),
		"the same ID":      pod("b/web", workload.Shared, "/other"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 2, 8)
			f.add("pods/web", 2, 1<<20, 0)
			second := pod("b/web", workload.Dedicated, "/pods/web")
			if name == "not observed yet" {
				second = pod("b/small", workload.Dedicated, "/small")
			}
			for range 3 {
				f.sourcesScan(Claimed{Source: "a", Claims: []workload.Claim{first}}, Claimed{Source: "b", Claims: []workload.Claim{second}})
			}
			if f.s.observation(first.ID) == nil || first.ID != second.ID && f.s.observation(second.ID) != nil {
				t.Errorf("workloads: %s", asJSON(t, f.s.Snapshot.Observations))
			}
			var told []string
			for _, p := range f.s.Snapshot.Problems {
				if p.Subject == "b" {
					told = append(told, p.Text)
				}
			}
			if len(told) != 1 || !strings.Contains(told[0], string(second.ID)) || !strings.Contains(told[0], "a workload of a,") {
				t.Errorf("told: %q", told)
			}
		})
	}
}

// TestACgroupUnderAnotherID: a source that appears gives a cgroup another ID. Nothing is begun under
// that while a change under the first ID is under way, or has not come back, and the original
// value is restored in the end.
func TestACgroupUnderAnotherID(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := newFake(t, 2, 8)
		id := f.add("web", 2, 1<<20, 0)
		f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Workload == id }
		f.scan(1)
		if len(f.kept) != 1 {
			t.Fatalf("%d changes are under way", len(f.kept))
		}
		old := f.kept[0]
		if lost { // its deadline is over
			f.turn(Input{Result: &Result{ID: old.ID, Failed: &Failure{NoAnswer, "no answer"}}})
		}
		f.keep = nil
		source := Claimed{Source: "b", Claims: []workload.Claim{pod("b/web", workload.Dedicated, "/web")}}
		f.sourcesScan(source)
		if f.count(EffectRead, "b/web")+f.count(EffectApply, "b/web") > 0 {
			t.Errorf("lost %v: the cgroup is changed under another ID beside that", lost)
		}
		if lost {
			f.apply(old.Step) // it takes effect late
			f.after(retryMost)
		} else {
			f.release()
		}
		for range 4 {
			f.sourcesScan(source)
		}
		if got, err := topology.ParseCPUSet(f.get(plan.CgroupCPUs, "/web")); err != nil || got.Len() != 2 {
			t.Errorf("lost %v: it is not placed as its source wants: %s", lost, got)
		}
		f.ask(Request{Undo: &Which{All: true}})
		if got := f.get(plan.CgroupCPUs, "/web"); got != "" {
			t.Errorf("lost %v: after undo it reads %q", lost, got)
		}
		if f.toldOf("/web", words.NotRestoredTheirs)+f.toldOf("b/web", words.NotRestoredTheirs) > 0 {
			t.Errorf("lost %v: homenode took its own value for another program's", lost)
		}
	}
}
