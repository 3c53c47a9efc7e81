package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/work"
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
			if f.s.Observation(first.ID) == nil || first.ID != second.ID && f.s.Observation(second.ID) != nil {
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

// TestUnderAnotherID: a source that appears gives a cgroup or process another ID. Nothing is begun under
// that while a change under the first ID is under way, or has not come back, and the original
// value is restored in the end.
func TestUnderAnotherID(t *testing.T) {
	for _, process := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("process %v, lost %v", process, lost), func(t *testing.T) {
				f := newFake(t, 2, 8)
				kind, path := plan.CgroupCPUs, "/web"
				claim := pod("b/web", workload.Dedicated, "/web")
				var id workload.ID
				if process {
					id = f.addProcess(77, "web", 2, 1<<20, 0)
					claim.Process, claim.Cgroups = f.works[id].obs.Processes[0], nil
					kind, path = plan.Affinity, plan.ProcessPath(claim.Process)
				} else {
					id = f.add("web", 2, 1<<20, 0)
				}
				before := f.get(kind, path)
				f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Workload == id }
				f.scan(1)
				if len(f.kept) != 1 {
					t.Fatalf("%d changes are under way", len(f.kept))
				}
				old := f.kept[0]
				if lost { // its deadline is over
					f.turn(Input{Result: &Result{ID: old.ID, Failed: &Failure{Code: NoAnswer, Text: "no answer"}}})
				}
				f.keep = nil
				source := Claimed{Source: "b", Claims: []workload.Claim{claim}}
				f.sourcesScan(source)
				if f.count(EffectRead, "b/web")+f.count(EffectApply, "b/web") > 0 {
					t.Error("it is changed under another ID beside that")
				}
				if lost {
					if f.sourcesScan(source); !f.leftAlone("b/web", words.Unanswered) {
						t.Error("it is not said under the new ID why nothing is done")
					}
					f.apply(old.Step) // it takes effect late
					f.after(work.RetryMost)
				} else {
					f.release()
				}
				for range 4 {
					f.sourcesScan(source)
				}
				if got, err := topology.ParseCPUSet(f.get(kind, path)); err != nil || got.Len() != 2 {
					t.Errorf("it is not placed as its source wants: %s", got)
				}
				f.ask(Request{Undo: &Which{All: true}})
				if got := f.get(kind, path); got != before {
					t.Errorf("after undo it reads %q, want %q", got, before)
				}
				if f.toldOf(id, words.NotRestoredTheirs)+f.toldOf("b/web", words.NotRestoredTheirs) > 0 {
					t.Error("homenode took its own value for another program's")
				}
			})
		}
	}
}
