package libvirt

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
)

func TestPathsOfSettings(t *testing.T) {
	tests := []struct {
		kind plan.SettingKind
		path string
		want about
		bad  bool
	}{
		{kind: plan.GuestCPUs, path: "a@7", want: about{"a", 7, "", -1}},
		{kind: plan.GuestCPUs, path: "a@7/cell1", want: about{"a", 7, "", 1}},
		{kind: plan.GuestMems, path: "a@7/cell1", bad: true}, {kind: plan.GuestCPUs, path: "a@7/cell01", bad: true},
		{kind: plan.GuestMems, path: "a@b@12", want: about{"a@b", 12, "", -1}},
		{kind: plan.GuestLimits, path: "a b@7/52:54:00:00:00:01", want: about{"a b", 7, "52:54:00:00:00:01", -1}},
		{kind: plan.GuestLimitsNext, path: "a@7/vda", want: about{"a@7", 0, "vda", -1}},
		{kind: plan.GuestDefinition, path: "a@7", want: about{"a@7", 0, "", -1}},
		{kind: plan.GuestMark, path: "a", want: about{"a", 0, "", -1}},
		{kind: plan.GuestCPUs, path: "a", bad: true}, {kind: plan.GuestCPUs, path: "@7", bad: true}, {kind: plan.GuestCPUs, path: "a@x", bad: true}, {kind: plan.GuestCPUs, path: "a@0", bad: true},
		{kind: plan.GuestCPUs, path: "a@-1", bad: true}, {kind: plan.GuestCPUs, path: "a@7/vda", bad: true}, {kind: plan.GuestLimits, path: "a@7", bad: true}, {kind: plan.GuestLimits, path: "a/vda", bad: true},
		{kind: plan.GuestLimitsNext, path: "a", bad: true}, {kind: plan.GuestLimitsNext, path: "/vda", bad: true}, {kind: plan.GuestDefinition, path: "", bad: true}, {kind: plan.GuestMark, path: "a/b", bad: true},
	}
	w := watch(t)
	for _, tt := range tests {
		got, err := parsePath(tt.kind, tt.path)
		if (err != nil) != tt.bad || !tt.bad && got != tt.want {
			t.Errorf("%s %q: %+v, %v", tt.kind, tt.path, got, err)
		}
		if e := (plan.Entry{Kind: tt.kind, Path: tt.path}); tt.bad {
			if _, err := w.Read(t.Context(), e); err == nil || restore(t, w, e) == nil || w.Present(e) == nil {
				t.Errorf("%s %q is taken", tt.kind, tt.path)
			}
		}
	}
	for _, kind := range w.Owns() {
		if got, want := w.SurvivesBoot(kind), kind == plan.GuestDefinition || kind == plan.GuestMark || kind == plan.GuestLimitsNext; got != want {
			t.Errorf("%s: %t", kind, got)
		}
		if kind == plan.GuestCPUs && slices.Contains(w.Owns(), plan.CgroupCPUs) {
			t.Error("cgroups are not libvirt's")
		}
	}
	if got, err := parseLimits("a=18446744073709551615 b=0"); err != nil || got["a"] != 1<<64-1 || got.String() != "a=18446744073709551615" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"a", "a=x", "a=-1"} {
		if got, err := parseLimits(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// Another guest may come to have the name: its UUID tells.
func TestEntryIsOfOneGuest(t *testing.T) {
	uuid := func(text, id string) string { return strings.Replace(text, "</name>", "</name><uuid>"+id+"</uuid>", 1) }
	f := startFake(t)
	g := f.add(t, "a", uuid(plainXML("a", 7), "u1"), uuid(plainXML("a", 0), "u1"))
	w := watch(t)
	look(t, w)
	entries := []plan.Entry{do(t, w, step(plan.SetCPUs, "a", "8-11")), do(t, w, step(plan.SetNext, "a", "8-11/1"))}
	look(t, w)
	for _, e := range entries {
		if e.Object != "u1" || w.Present(e) != nil {
			t.Errorf("%+v: %v", e, w.Present(e))
		}
		if e.Object = ""; w.Present(e) != nil { // of a version before
			t.Errorf("%+v: %v", e, w.Present(e))
		}
	}
	f.edit(func() {
		g.live, g.config = strings.Replace(g.live, "u1", "u2", 1), strings.Replace(g.config, "u1", "u2", 1)
	})
	g.signal(t, 2)
	awaitWake(t, w)
	look(t, w)
	for _, e := range entries {
		now, err := w.Read(t.Context(), e)
		if err != nil || now.Object != "u2" || e.Ours(now) {
			t.Errorf("%+v reads as %+v, %v", e, now, err)
		}
		if err := w.Present(e); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, guest.ErrGone) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// Steps that guests do not take, and guests that are none.
func TestStepsNotTaken(t *testing.T) {
	f := startFake(t)
	f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	w := watch(t)
	look(t, w)
	for _, s := range []plan.Step{step(plan.MovePages, "a", "1"), {Kind: plan.SetCPUs, Workload: "/a.slice", To: "1"}, step(plan.SetNext, "gone", "0/0")} {
		if got, err := w.Changes(t.Context(), s); err == nil {
			t.Errorf("%s of %s: %+v", s.Kind, s.Workload, got)
		}
	}
}

// restore puts one entry back.
func restore(t *testing.T, w *Watch, e plan.Entry) error {
	t.Helper()
	return w.Restore(t.Context(), []plan.Entry{e})[0]
}
