package control

import (
	"testing"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// What the configuration says of a cgroup, by its path or name, holds for each of several process
// trees in it; how much the whole has is not what each has, and no shell is named by it.
func TestRulesOfACgroupHoldForItsTrees(t *testing.T) {
	in := func(f *fake, pid int, cgroup string) workload.ID {
		id := f.addProcess(pid, "ffmpeg", 1, 1<<20, 0)
		f.works[id].obs.Cgroup = cgroup
		return id
	}
	important := 90
	for _, match := range []string{"/system.slice/encode*", "encode", "/system.slice/**", "ffmpeg"} {
		f := newFake(t, 2, 8, ruled(workload.Rule{Match: match, Importance: &important, CPUs: 6, Memory: 3 << 20}))
		for _, id := range []workload.ID{in(f, 77, "/system.slice/encode.service"), in(f, 78, "/system.slice/encode.service")} {
			f.scan(2)
			cpus := 1
			if match == "ffmpeg" { // each is named
				cpus = 6
			}
			if spec := f.s.SpecOf(f.s.Observation(id)); spec.Importance != important || spec.CPUs != cpus || spec.Given != (match == "ffmpeg") {
				t.Errorf("%s: of %s the rule %s says %+v", match, id, match, spec)
			}
		}
		for _, change := range map[string]func(*Settings){"exclude": func(s *Settings) { s.Exclude = []string{match} }} {
			f := newFake(t, 2, 8, change)
			a, b, other := in(f, 77, "/system.slice/encode.service"), in(f, 78, "/system.slice/encode.service"), f.add("other", 1, 1<<20, 0)
			f.scan(4)
			if !f.leftAlone(a, words.Excluded) || !f.leftAlone(b, words.Excluded) || f.leftAlone(other, words.Excluded) {
				t.Errorf("exclude %s: %s, %s", match, asJSON(t, f.decision(a)), asJSON(t, f.decision(b)))
			}
		}
		f = newFake(t, 2, 8, func(s *Settings) { s.Include = []string{match} })
		a, other := in(f, 77, "/system.slice/encode.service"), f.add("other", 1, 1<<20, 0)
		f.scan(4)
		if f.leftAlone(a, words.NotIncluded) || !f.leftAlone(other, words.NotIncluded) {
			t.Errorf("include %s: %s", match, asJSON(t, f.decision(a)))
		}
	}
	// Another program in a cgroup that is named by its own name.
	f := newFake(t, 2, 8, func(s *Settings) { s.Exclude = []string{"/system.slice/mail*"} })
	id := in(f, 77, "/system.slice/encode.service")
	if f.scan(2); f.leftAlone(id, words.Excluded) {
		t.Error("a pattern that fits neither excludes it")
	}
	// A manager owns what runs in its cgroups, however many trees that is.
	f = newFake(t, 2, 8)
	f.s.Managers = []Manager{{Name: "kubelet", Does: "pins", Cgroups: []string{"kubepods.slice"}}}
	id = in(f, 77, "/kubepods.slice/pod1/c1")
	if got := f.s.leave(&f.works[id].obs, nil); got.Code != words.ManagerOwns {
		t.Errorf("in a cgroup of a manager: %s", got)
	}
}
