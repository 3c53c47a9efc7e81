package libvirt

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
)

// What a hand binds between the look and the change, or after it, is the hand's: neither a
// step nor an undo takes it away, and its journal entry goes as one of what is gone.
func TestHandIsLeftAlone(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	w := watch(t)
	look(t, w)
	entries := []plan.Entry{do(t, w, step(plan.SetCPUs, "a", "8-11")), do(t, w, step(plan.SetMems, "a", "1")), do(t, w, step(plan.SetNext, "a", "8-11/1"))}
	f.edit(func() {
		g.live = strings.Replace(g.live, "<vcpupin vcpu='0' cpuset='8,9,10,11'/>", "<vcpupin vcpu='0' cpuset='2'/>", 1)
		g.config = strings.Replace(g.config, "8-11", "3", 1) // <vcpu cpuset>
	})
	live, config := g.now()
	if !strings.Contains(live, "cpuset='2'") || !strings.Contains(config, `"3"`) && !strings.Contains(config, "'3'") {
		t.Fatalf("the hand did nothing:\n%s\n%s", live, config)
	}
	for _, s := range []plan.Step{step(plan.SetCPUs, "a", "0-3"), step(plan.SetMems, "a", "0"), step(plan.SetNext, "a", "0-3/0")} {
		if err := w.Apply(t.Context(), s, nil); !errors.Is(err, plan.ErrForeign) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", s.Kind, err)
		}
	}
	for _, e := range entries {
		if err := restore(t, w, e); !errors.Is(err, plan.ErrForeign) || !strings.Contains(err.Error(), "not what homenode wrote") {
			t.Errorf("undo of %s: %v", e.Kind, err)
		}
	}
	if now, next := g.now(); now != live || next != config {
		t.Errorf("changed:\n%s\n%s", now, next)
	}
}

// Another guest of the same name is defined where homenode's was: undo binds it nowhere.
func TestDefinitionOfAnother(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	look(t, w)
	do(t, w, step(plan.SetNext, "a", "8-11/1"))
	e := do(t, w, step(plan.SetNext, "a", "0-3/0"))
	if e.Old != "8-11/1" {
		t.Fatalf("journalled %+v", e)
	}
	f.edit(func() { g.config = plainXML("a", 0) })
	if err := restore(t, w, e); !errors.Is(err, plan.ErrForeign) {
		t.Error(err)
	}
	if _, config := g.now(); config != plainXML("a", 0) {
		t.Errorf("bound: %s", config)
	}
}

// A guest that was started anew between journal and change is another one: the journal does
// not hold its old bindings.
func TestGuestStartedAnewBeforeTheChange(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	w := watch(t)
	look(t, w)
	s := step(plan.SetCPUs, "a", "8-11")
	if _, err := w.Changes(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	f.edit(func() { g.live = plainXML("a", 8) })
	if err := w.Apply(t.Context(), s, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("changed the next run: %v", err)
	}
	if live, _ := g.now(); live != plainXML("a", 8) {
		t.Errorf("changed: %s", live)
	}
	do(t, w, s)
}

// An undo without a daemon finds out by itself that a guest has ended.
func TestUndoOfAGuestThatEnded(t *testing.T) {
	f := startFake(t)
	f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	for _, e := range []plan.Entry{{Kind: plan.GuestCPUs, Path: "a@7", Old: "0-15"}, {Kind: plan.GuestMems, Path: "b@3", Old: "0-1"}, {Kind: plan.GuestDefinition, Path: "b", Old: ""}} {
		if err := restore(t, w, e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", e.Path, err)
		}
		if err := w.Present(e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is said to be there: %v", e.Path, err)
		}
	}
	f.edit(func() { f.refuse["GetAllDomainStats"] = libvirtError("broken on purpose") })
	w = watch(t)
	if err := w.Present(plan.Entry{Kind: plan.GuestCPUs, Path: "a@7"}); err != nil {
		t.Errorf("nobody knows, and it is said to be gone: %v", err)
	}
}

// A guest whose XML is not understood any more is there all the same.
func TestUnreadGuestIsPresent(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), "")
	w := watch(t)
	look(t, w)
	e := do(t, w, step(plan.SetCPUs, "a", "8-11"))
	f.edit(func() { g.live = "<domain id='7'><vcpu>2</vcpu><" })
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Present(e); err != nil {
		t.Error(err)
	}
}

// A bus that takes the connection and says nothing holds nobody up.
func TestDeafBus(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+socket)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := Open(ctx, "")
		failed <- err
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Fatal("it waits for ever")
	}
}

// vm move and vm define go by what was listed; what somebody else has bound since stands.
func TestStepsLeaveWhatOthersBound(t *testing.T) {
	byHand := "<domain%s><name>a</name><memory>1048576</memory><vcpu cpuset='3'>2</vcpu></domain>"
	for name, xml := range map[string][2]string{
		"as it runs":        {strings.Replace(byHand, "%s", " id='7'", 1), plainXML("a", 0)},
		"in its definition": {plainXML("a", 7), strings.Replace(byHand, "%s", "", 1)},
		"off":               {"", strings.Replace(byHand, "%s", "", 1)},
	} {
		f := startFake(t)
		g := f.add(t, "a", xml[0], xml[1])
		w := watch(t)
		look(t, w)
		for _, s := range []plan.Step{step(plan.SetCPUs, "a", "0-1"), step(plan.SetNext, "a", "0-1/0")} {
			running := s.Kind == plan.SetCPUs
			if running != (name == "as it runs") {
				continue
			}
			changes, err := w.Changes(t.Context(), s)
			if err != nil || len(changes) != 1 || running && changes[0].Value != "3" || !running && changes[0].Value != "3/ (bound by hand (vcpu cpuset))" {
				t.Errorf("%s: %+v, %v", name, changes, err)
			}
			if err := w.Apply(t.Context(), s, nil); !errors.Is(err, plan.ErrForeign) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if live, config := g.now(); live != xml[0] || config != xml[1] {
			t.Errorf("%s: changed:\n%s\n%s", name, live, config)
		}
		f.conn.Close()
	}
}
