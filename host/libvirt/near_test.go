package libvirt

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// What a guest is to be near to is in its definition from the step that says so: the daemon reads
// it of the guest that runs, later homes keep it, undo puts back what it said, and a release takes
// it off with the rest.
func TestDefinitionKeepsWhatItIsNear(t *testing.T) {
	const wish = "device=eth1,policy=required process=ovs"
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	w := watch(t)
	look(t, w)
	is := func(when, want string) {
		t.Helper()
		s := look(t, w)[0]
		if got := workload.NearText(s.Near); got != want || workload.NearText(s.Spec.Near) != want || workload.NearText(s.Defined.Spec.Near) != want || s.Defined.Manual != "" {
			t.Errorf("%s: near %q (%+v, defined %+v), want %q", when, got, s.Spec.Near, s.Defined.Spec.Near, want)
		}
	}
	is("before", "")
	do(t, w, step(plan.SetNext, "a", "8-11/1 near=device=eth1,policy=required near=process=ovs"))
	is("adopted", wish)
	if c, _ := w.Claims(twoNodes()); !c[0].Spec.Requires() {
		t.Errorf("the daemon sees %+v", c[0].Spec)
	}
	do(t, w, step(plan.SetNext, "a", "0-3/0"))
	is("a home later", wish)
	before, _ := g.now()
	_, marked := g.now()
	entries := doAll(t, w, step(plan.SetNext, "a", "0-3/0 near="))
	is("without", "")
	if live, _ := g.now(); live != before {
		t.Errorf("changed as it runs: %s", live)
	}
	if len(entries) != 2 || entries[0].Kind != plan.GuestMark || !strings.HasSuffix(entries[0].Old, " near=device=eth1,policy=required near=process=ovs") {
		t.Fatalf("journalled %+v", entries)
	}
	for _, e := range entries {
		if now, err := w.Read(t.Context(), e); err != nil || !e.Ours(now) {
			t.Errorf("%+v reads as %+v, %v", e, now, err)
		}
	}
	slices.Reverse(entries)
	for i, err := range w.Restore(t.Context(), entries) {
		if err != nil {
			t.Errorf("%s: %v", entries[i].Kind, err)
		}
	}
	if _, config := g.now(); config != marked {
		t.Errorf("undone:\n%s\nwant\n%s", config, marked)
	}
	doAll(t, w, step(plan.SetNext, "a", ""))
	if _, config := g.now(); config != plainXML("a", 0) {
		t.Errorf("released:\n%s", config)
	}
}
