package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// What a scan leaves alone gets no home before it starts, and what gets one is not left alone by the scan:
// one function decides both, by all names that a workload has.
func TestAdmitLeavesAloneWhatAScanDoes(t *testing.T) {
	kubelet := Manager{Name: "kubelet", Does: "pins pods", Cgroups: []string{"kubepods.slice"}}
	for name, c := range map[string]struct {
		include, exclude []string
		manager          bool
		want             words.Code
	}{
		"everything":            {},
		"included by its ID":    {include: []string{"web/*"}},
		"included by container": {include: []string{"web/db/pg"}},
		"included by cgroup":    {include: []string{"/kubepods.slice/**"}},
		"not included":          {include: []string{"jobs/*"}, want: words.NotIncluded},
		"excluded by its ID":    {exclude: []string{"web/*"}, want: words.Excluded},
		"excluded by container": {exclude: []string{"web/db/pg"}, want: words.Excluded},
		"excluded by cgroup":    {exclude: []string{"/kubepods.slice/**"}, want: words.Excluded},
		"of another manager":    {manager: true, want: words.ManagerOwns},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 2, 8)
			f.byHand = true
			set := func(s *State) {
				s.Settings.Include, s.Settings.Exclude = c.include, c.exclude
				if c.manager {
					s.Managers = []Manager{kubelet}
				}
			}
			set(f.s)
			set(f.twin)
			f.scan(1)
			view := f.s.View()
			now := view.Attention()
			const cgroup = "/kubepods.slice/pod1/c1"
			spec := workload.Spec{ID: "web/db", Name: "db", Class: workload.Shared, CPUs: 2, Memory: 1 << 20, Given: true}
			r := f.ask(Request{Place: &PlaceRequest{Spec: spec, Hold: time.Minute, Starts: true, Names: []string{"web/db/pg", cgroup}}})
			if left := r.Failed != nil; left != (c.want != "") || (left && r.Failed.Code != Forbidden) {
				t.Errorf("before its start: %+v", r)
			}
			if why := now.Leaves(&spec, []string{"web/db/pg", cgroup}); why.Code != c.want {
				t.Errorf("asked by a source: %v", why)
			}
			claim := workload.Claim{ID: "web/db", Name: "db", Also: []string{"web/db/pg"}, Cgroups: []string{cgroup}, Running: true, Ruled: true, Spec: &spec}
			if why := f.s.leave(&workload.Observation{ID: "web/db", Name: "db"}, claim.Names()); why.Code != c.want {
				t.Errorf("in a scan: %v", why)
			}
		})
	}
}
