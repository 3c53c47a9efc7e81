package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func withRivals(r *rig, all *[]measure.Manager, asked *int) {
	r.o.Rivals = func(*topology.Host) []measure.Manager { *asked++; return *all }
}

func TestRivalsOwn(t *testing.T) {
	all := rivals{all: []measure.Manager{
		{Name: doctor.Kubelet, Does: "static CPU manager policy"}, {Name: doctor.Libvirt, Guests: []string{"db-1", "web"}}}}
	for id, want := range map[workload.ID]string{
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-x.scope": "The kubelet owns",
		"/kubepods/burstable/pod1/x":                                 "The kubelet owns",
		"/kubelet.slice/kubelet-kubepods.slice/x.scope":              "The kubelet owns",
		"/system.slice/kubelet.service":                              "",
		`/machine.slice/machine-qemu\x2d1\x2ddb\x2d1.scope`:          "libvirt runs this guest and its definition pins it by hand",
		"/machine/qemu-3-web.libvirt-qemu":                           "libvirt runs this guest and its definition pins it by hand",
		`/machine.slice/machine-qemu\x2d1\x2ddb.scope`:               "",
		"pid:7": "",
	} {
		if got := all.owner(id); got == "" != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// While numad runs nothing is changed, everything says why, and it goes on when
// numad has stopped; the search is not made at every look.
func TestNumadOwnsEverything(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, Enforce)
	all, asked := []measure.Manager{{Name: doctor.Numad, Does: "moves processes"}}, 0
	withRivals(r, &all, &asked)
	r.ticks(t, 3)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("changed beside numad:\n%s", diff)
	}
	x, err := r.Explain(t.Context(), "/a")
	if err != nil || !strings.Contains(x.Workload.Why, "numad runs") {
		t.Errorf("explain: %q, %v", x.Workload.Why, err)
	}
	s, err := r.Status(t.Context())
	if err != nil || len(s.Rivals) != 1 || s.Rivals[0].Name != doctor.Numad {
		t.Errorf("status: %+v, %v", s.Rivals, err)
	}
	if asked != 1 {
		t.Errorf("searched %d times in 3 looks", asked)
	}
	all = nil
	r.clock.step(rivalsEvery)
	r.ticks(t, 4)
	if cmp.Equal(before, m.settings()) {
		t.Error("nothing was done after numad had stopped")
	}
	if !r.told(t, "numad: moves processes") || !r.told(t, "numad is gone") {
		t.Errorf("history: %+v", r.history(t))
	}
}

// CPUs that another manager gives out are taken from placements that have them.
func TestCPUsOfRivalsAreFree(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, Enforce)
	all, asked := []measure.Manager{}, 0
	withRivals(r, &all, &asked)
	r.ticks(t, 4)
	for _, taken := range []topology.CPUSet{topology.CPUs(0, 1), topology.CPUs(0, 1, 8, 9, 10)} {
		all = []measure.Manager{{Name: doctor.Kubelet, CPUs: taken}}
		r.clock.step(rivalsEvery + time.Second)
		r.ticks(t, 4)
		for id, w := range m.live {
			if w.obs.CPUs.Intersects(taken) {
				t.Errorf("%s may run on %v, of which %v are the kubelet's", id, w.obs.CPUs, taken)
			}
		}
	}
	if r.view.halted != "" {
		t.Error(r.view.halted)
	}
}
