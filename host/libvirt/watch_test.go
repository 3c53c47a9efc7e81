package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// plainXML is a guest as people define it: bound nowhere, unknown to homenode.
func plainXML(name string, run int) string {
	id := ""
	if run > 0 {
		id = fmt.Sprintf(" id='%d'", run)
	}
	return fmt.Sprintf("<domain type='kvm'%s><name>%s</name><memory unit='KiB'>1048576</memory><vcpu>2</vcpu></domain>", id, name)
}

func watch(t *testing.T, change ...func(*WatchOptions)) *Watch {
	t.Helper()
	o := WatchOptions{Process: func(string) (workload.Process, error) { return workload.Process{PID: 77, Start: 5}, nil }}
	for _, f := range change {
		f(&o)
	}
	w := NewWatch(o)
	t.Cleanup(func() { w.Close() })
	return w
}

func look(t *testing.T, w *Watch) []guest.Observed {
	t.Helper()
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	guests, unread := w.Guests(twoNodes())
	if len(unread) > 0 {
		t.Fatalf("not understood: %+v", unread)
	}
	return guests
}

func awaitWake(t *testing.T, w *Watch) {
	t.Helper()
	select {
	case <-w.Wake():
	case <-time.After(soon):
		t.Fatal("nothing was heard")
	}
}

// awaitRun looks until the first guest is in a run.
func awaitRun(t *testing.T, w *Watch, run int) {
	t.Helper()
	for look(t, w)[0].Run != run {
		awaitWake(t, w)
	}
}

func TestWatchSeesLifeAndDeath(t *testing.T) {
	f := startFake(t)
	a := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	got := look(t, w)
	if len(got) != 1 || got[0].Running || got[0].Run != 0 || got[0].Defined == nil || len(w.Processes()) != 0 {
		t.Fatalf("off: %+v", got)
	}
	for len(w.wake) > 0 { // of the service's own name
		<-w.wake
	}
	a.started(t, plainXML("a", 3))
	awaitWake(t, w)
	got = look(t, w)
	if len(got) != 1 || !got[0].Running || got[0].Run != 3 || got[0].Process.PID != 77 || len(w.Processes()) != 1 || got[0].Manual != "" || got[0].Placed {
		t.Fatalf("started: %+v", got)
	}
	// What nothing tells of costs no reading: one call a look.
	f.called("")
	look(t, w)
	if f.called("GetXMLDesc") {
		t.Error("a guest that nothing happened to was read again")
	}
	b := f.add(t, "b", plainXML("b", 4), "") // transient
	b.signal(t, 2)
	awaitWake(t, w)
	if got = look(t, w); len(got) != 2 || got[1].Defined != nil || got[1].Run != 4 {
		t.Fatalf("a transient one: %+v", got)
	}
	b.stopped(t)
	a.stopped(t)
	awaitWake(t, w)
	if got = look(t, w); len(got) != 1 || got[0].Running || len(w.Processes()) != 0 {
		t.Errorf("stopped: %+v", got)
	}
}

// Also without its event: the statistics tell that a guest runs, or has other vCPUs.
func TestWatchWithoutEvents(t *testing.T) {
	f := startFake(t)
	a := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	look(t, w)
	f.edit(func() { a.live = strings.Replace(plainXML("a", 1), "<vcpu>2", "<vcpu current='1'>2", 1) })
	if got := look(t, w); !got[0].Running || got[0].Spec.CPUs != 1 {
		t.Errorf("started unheard: %+v", got)
	}
	f.edit(func() { a.live = plainXML("a", 1) })
	if got := look(t, w); got[0].Spec.CPUs != 2 {
		t.Errorf("a vCPU was plugged in: %+v", got[0].Spec)
	}
}

// Anybody may send signals over the system bus; only libvirt's and the bus's own count.
func TestSignalsOfStrangers(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	look(t, w)
	quiet := func() bool {
		select {
		case <-w.Wake():
			return false
		case <-time.After(200 * time.Millisecond):
			return true
		}
	}
	for !quiet() { // of the service's own name
	}
	stranger, err := dbus.ConnectSystemBus()
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for range 3 {
		for _, err := range []error{
			stranger.Emit("/org/libvirt/QEMU", connectIface+".DomainEvent", g.path(), int32(0), int32(0)),
			stranger.Emit(g.path(), domainIface+".MetadataChange", int32(0), ""),
			stranger.Emit("/org/freedesktop/DBus", busName+".NameOwnerChanged", service, "", ":1.1"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// The bus delivers in order: what comes after them is heard.
	if err := stranger.BusObject().Call(busName+".GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
	if !quiet() {
		t.Error("a stranger's signal was heard")
	}
	g.signal(t, 2)
	awaitWake(t, w)
}

func TestWatchOutlivesLibvirt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := startFake(t)
	a := f.add(t, "a", plainXML("a", 1), plainXML("a", 0))
	w := watch(t, func(o *WatchOptions) { o.Now = func() time.Time { return now } })
	look(t, w)
	for len(w.wake) > 0 {
		<-w.wake
	}
	f.edit(func() { f.refuse["GetAllDomainStats"] = libvirtError("Failed to connect socket to 'x'") })
	if err := w.Look(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("libvirtd gone: %v", err)
	}
	if got, _ := w.Guests(twoNodes()); len(got) != 1 || !got[0].Running {
		t.Errorf("what was known: %+v", got)
	}
	f.called("")
	if err := w.Look(t.Context()); !errors.Is(err, ErrUnavailable) || f.called("GetAllDomainStats") {
		t.Errorf("asked again at once: %v", err)
	}
	// It is back, and the guest has been started anew meanwhile.
	f.edit(func() { f.refuse = map[string]*dbus.Error{}; a.live = plainXML("a", 2) })
	now = now.Add(retryFirst)
	if got := look(t, w); got[0].Run != 2 {
		t.Errorf("after libvirtd came back: run %d", got[0].Run)
	}
	// The service goes and comes: heard without a call.
	if _, err := f.conn.ReleaseName(service); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, w)
	if err := w.Look(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("service gone: %v", err)
	}
	for len(w.wake) > 0 {
		<-w.wake
	}
	f.edit(func() { a.live = plainXML("a", 3) })
	if _, err := f.conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	awaitWake(t, w)
	if got := look(t, w); got[0].Run != 3 {
		t.Errorf("after the service came back: run %d", got[0].Run)
	}
	// The bus itself.
	w.mu.Lock()
	bus := w.client.bus
	w.mu.Unlock()
	bus.Close()
	awaitWake(t, w)
	f.edit(func() { a.live = plainXML("a", 4) })
	if got := look(t, w); got[0].Run != 4 {
		t.Errorf("after the bus came back: run %d", got[0].Run)
	}
}

// A look that runs out of time has not been for nothing: the next reads the rest.
func TestWatchGoesOnWhereItEnded(t *testing.T) {
	f := startFake(t)
	for _, name := range []string{"a", "b", "c"} {
		f.add(t, name, "", plainXML(name, 0))
	}
	w := watch(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	f.edit(func() {
		f.meddle = func(method string) {
			if method == "GetXMLDesc" {
				if reads++; reads == 2 {
					cancel()
				}
			}
		}
	})
	// The second answer may come all the same.
	if err := w.Look(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the look that was cut short: %v", err)
	}
	_, unread := w.Guests(twoNodes())
	if n := len(unread); n == 0 || unread[n-1].Name != "c" || unread[n-1].Running || !strings.Contains(unread[n-1].Text, "not told of it yet") {
		t.Errorf("of what was not read: %+v", unread)
	}
	w.retry = time.Time{}
	if got := look(t, w); len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	f.edit(func() {
		if reads > 4 { // a once, b in both if its answer came too late, c once
			t.Errorf("%d documents were read", reads)
		}
	})
}

func TestWatchTrouble(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
	if err := watch(t).Look(t.Context()); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "\n") {
		t.Errorf("no bus: %v", err)
	}
	f := startFake(t)
	f.add(t, "a", plainXML("a", 1), plainXML("a", 0))
	f.add(t, "broken", "<domain id='2'><name>broken</name><vcpu>none</vcpu></domain>", "")
	leaving := f.add(t, "leaving", plainXML("leaving", 3), "")
	f.edit(func() {
		f.guests[1].live = "<domain id='2'><name>broken</name><vcpu>9999999</vcpu></domain>"
		f.meddle = func(method string) { leaving.gone = leaving.gone || method == "DomainLookupByName" }
	})
	w := watch(t)
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	guests, unread := w.Guests(twoNodes())
	if len(guests) != 1 || guests[0].Name != "a" || len(unread) != 1 || unread[0].Name != "broken" || !unread[0].Running {
		t.Errorf("guests %+v, unread %+v", guests, unread)
	}
	f.edit(func() {
		f.refuse["GetAllDomainStats"] = &dbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"Rejected send message"}}
	})
	if err := watch(t).Look(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("not allowed: %v", err)
	}
}

func step(kind plan.StepKind, name, to string) plan.Step {
	return plan.Step{Kind: kind, Workload: guest.ID(name), Target: plan.Target{Kind: guest.Kind}, To: to}
}

// doAll journals a step as the daemon does, and takes it.
func doAll(t *testing.T, w *Watch, s plan.Step) []plan.Entry {
	t.Helper()
	changes, err := w.Changes(t.Context(), s)
	if err != nil {
		t.Fatalf("%s: %v", s.Kind, err)
	}
	if err := w.Apply(t.Context(), s, nil); err != nil {
		t.Fatalf("%s: %v", s.Kind, err)
	}
	var out []plan.Entry
	for _, c := range changes {
		e := plan.Entry{Kind: c.Kind, Path: c.Path, Old: c.Value, New: c.Will, Object: c.Object}
		if now, err := w.Read(t.Context(), e); err != nil || now.Value != c.Will || now.Path != c.Path || now.Object != c.Object || !e.Ours(now) {
			t.Errorf("%s: %s reads %+v, %v; want %q", s.Kind, c.Path, now, err, c.Will)
		}
		out = append(out, e)
	}
	return out
}

func do(t *testing.T, w *Watch, s plan.Step) plan.Entry {
	t.Helper()
	all := doAll(t, w, s)
	if len(all) != 1 {
		t.Fatalf("%s: %+v", s.Kind, all)
	}
	return all[0]
}

func TestDriverPlacesAGuestThatNobodyBound(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	f.edit(func() { g.threads = []uint32{1} })
	w := watch(t)
	look(t, w)
	entries := []plan.Entry{do(t, w, step(plan.SetCPUs, "a", "8-11"))}
	if got := look(t, w)[0]; got.Manual != "" || !got.Placed || got.BoundCPUs.String() != "8-11" || !got.BoundNodes.Empty() {
		t.Errorf("between the steps: %+v", got.Guest)
	}
	entries = append(entries, do(t, w, step(plan.SetMems, "a", "1")), do(t, w, step(plan.SetNext, "a", "8-11/1")))
	for i, want := range []plan.Entry{
		{Kind: plan.GuestCPUs, Path: "a@7", Old: "0-15", New: "8-11"}, {Kind: plan.GuestMems, Path: "a@7", Old: "0-1", New: "1"},
		{Kind: plan.GuestDefinition, Path: "a", Old: "", New: "8-11/1"},
	} {
		if got := entries[i]; got.Kind != want.Kind || got.Path != want.Path || got.Old != want.Old {
			t.Errorf("journalled %+v, want %+v", got, want)
		}
	}
	live, config := g.now()
	for _, want := range []string{"<vcpupin vcpu='1' cpuset='8,9,10,11'/>", "<emulatorpin cpuset='8,9,10,11'/>", "<iothreadpin iothread='1' cpuset='8,9,10,11'/>", "<memory mode='restrictive' nodeset='1'/>"} {
		if !strings.Contains(live, want) {
			t.Errorf("no %s in\n%s", want, live)
		}
	}
	got := look(t, w)[0]
	if got.Manual != "" || got.Home.Placement.Home.String() != "1" || got.Home.Placement.CPUs.String() != "8-11" || got.Defined.BoundCPUs.String() != "8-11" || got.Mode != "restrictive" {
		t.Errorf("it stands as %+v, defined %+v", got.Guest, got.Defined)
	}
	// To another node, and all of it back.
	do(t, w, step(plan.SetCPUs, "a", "0-3"))
	do(t, w, step(plan.SetMems, "a", "0"))
	if got := look(t, w)[0]; got.Manual != "" || got.Home.Placement.Home.String() != "0" {
		t.Errorf("moved: %+v", got.Guest)
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if err := restore(t, w, entries[i]); err != nil {
			t.Fatalf("%s: %v", entries[i].Kind, err)
		}
	}
	if live2, config2 := g.now(); config2 != plainXML("a", 0) || config == config2 || !strings.Contains(live2, "<memory mode='restrictive' nodeset='0-1'/>") || !strings.Contains(live2, "<vcpupin vcpu='0' cpuset='0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15'/>") {
		t.Errorf("put back:\n%s\n%s", live2, config2)
	}
	if got := look(t, w)[0]; got.Manual != "" || got.Defined.Placed {
		t.Errorf("put back it stands as %+v", got.Guest)
	}
	// The next run of it is another guest.
	f.edit(func() { g.live = plainXML("a", 8) })
	g.signal(t, 2)
	awaitRun(t, w, 8)
	if err := restore(t, w, entries[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a run that has ended: %v", err)
	}
	if err := w.Present(entries[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("present: %v", err)
	}
	if err := w.Present(entries[2]); err != nil {
		t.Errorf("its definition: %v", err)
	}
}

// A vCPU that is plugged in later comes up without CPUs of its own where the driver of
// libvirt could not be told before.
func TestDriverAndAPluggedVCPU(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", strings.Replace(plainXML("a", 7), "<vcpu>2", "<vcpu current='1'>2", 1), plainXML("a", 0))
	w := watch(t)
	look(t, w)
	f.edit(func() { f.absent = 1 })
	do(t, w, step(plan.SetCPUs, "a", "0-3"))
	do(t, w, step(plan.SetMems, "a", "0"))
	if got := look(t, w)[0]; got.Loose || got.Manual != "" || got.Spec.CPUs != 1 {
		t.Fatalf("placed: %+v", got.Guest)
	}
	f.edit(func() { f.absent = 0; g.live = strings.Replace(g.live, " current='1'", "", 1) })
	if got := look(t, w)[0]; !got.Loose || got.Manual != "" || got.Spec.CPUs != 2 {
		t.Fatalf("with one more: %+v", got.Guest)
	}
	do(t, w, step(plan.SetCPUs, "a", "0-3"))
	if got := look(t, w)[0]; got.Loose || got.Manual != "" || got.BoundCPUs.String() != "0-3" {
		t.Errorf("after the step: %+v", got.Guest)
	}
}

// TestDriverFailsAnywhere: whatever call fails, the guest stays homenode's, and the same
// step taken again comes through.
func TestDriverFailsAnywhere(t *testing.T) {
	for _, kind := range []plan.StepKind{plan.SetCPUs, plan.SetMems, plan.SetNext} {
		to := map[plan.StepKind]string{plan.SetCPUs: "8-11", plan.SetMems: "1", plan.SetNext: "8-11/1"}[kind]
		for n := 1; ; n++ {
			f := startFake(t)
			f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
			w := watch(t)
			look(t, w)
			f.edit(func() { f.calls, f.failAt = nil, n })
			err := w.Apply(t.Context(), step(kind, "a", to), nil)
			made := 0
			f.edit(func() { made, f.failAt = len(f.calls), 0 })
			if made < n {
				if err != nil || n < 3 {
					t.Errorf("%s took %d calls: %v", kind, n-1, err)
				}
				f.conn.Close()
				break
			}
			if err == nil {
				t.Errorf("%s: call %d failed and Apply did not", kind, n)
			}
			if got := look(t, w)[0]; got.Manual != "" {
				t.Errorf("%s, call %d failed (%v): held by %q", kind, n, err, got.Manual)
			}
			if err := w.Apply(t.Context(), step(kind, "a", to), nil); err != nil {
				t.Errorf("%s again after call %d failed: %v", kind, n, err)
			}
			if got := look(t, w)[0]; got.Manual != "" || kind == plan.SetMems && got.BoundNodes.String() != "1" || kind == plan.SetCPUs && got.BoundCPUs.String() != "8-11" || kind == plan.SetNext && !got.Defined.Placed {
				t.Errorf("%s again after call %d failed: %+v", kind, n, got.Guest)
			}
			f.conn.Close()
		}
	}
}

// TestUndoFailsAnywhere: whatever call fails, it is told, and the next undo puts it back.
func TestUndoFailsAnywhere(t *testing.T) {
	for kind, to := range map[plan.StepKind]string{plan.SetCPUs: "8-11", plan.SetMems: "1", plan.SetNext: "8-11/1", plan.SetLimits: "network=7"} {
		for n := 1; ; n++ {
			f := startFake(t)
			f.add(t, "a", withDevices(plainXML("a", 7)), withDevices(plainXML("a", 0)))
			w := watch(t)
			look(t, w)
			e := doAll(t, w, step(kind, "a", to))[0]
			f.edit(func() { f.calls, f.failAt = nil, n })
			err := restore(t, w, e)
			made := 0
			f.edit(func() { made, f.failAt = len(f.calls), 0 })
			if made >= n && err == nil {
				t.Errorf("%s: call %d failed and Restore did not", e.Path, n)
			}
			if made < n && (err != nil || n < 3) {
				t.Errorf("%s took %d calls: %v", e.Path, n-1, err)
			}
			err = restore(t, w, e)
			if now, bad := w.Read(t.Context(), e); err != nil || bad != nil || now.Value != e.Old {
				t.Errorf("%s again after call %d failed: %v; it reads %q, %v; before %q", e.Path, n, err, now.Value, bad, e.Old)
			}
			f.conn.Close()
			if made < n {
				break
			}
		}
	}
}

func TestDriverTrouble(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
	f.add(t, "transient", plainXML("transient", 8), "")
	dedicated := strings.ReplaceAll(sharedXML(t, "d"), "class='shared'", "class='dedicated'")
	f.add(t, "d", "", dedicated)
	f.add(t, "strict", "<domain id='9'><name>strict</name><memory>1024</memory><vcpu>1</vcpu><numatune><memory mode='strict' nodeset='0'/></numatune></domain>", "")
	w := watch(t)
	look(t, w)
	for _, tt := range []struct {
		step plan.Step
		is   error
		want string
	}{
		{step(plan.SetCPUs, "gone", "1"), fs.ErrNotExist, ""},
		{step(plan.SetCPUs, "d", "1"), fs.ErrNotExist, "ended"},
		{step(plan.SetNext, "transient", "1/0"), fs.ErrNotExist, "no definition"},
		{step(plan.SetNext, "d", "1/0"), nil, "dedicated"},
		{step(plan.SetNext, "a", "1"), nil, "want CPUS/NODES"},
		{step(plan.SetCPUs, "a", ""), nil, "none"},
		{step(plan.SetCPUs, "a", "0-3 1=x"), nil, "CPUs of a guest"},
		{step(plan.SetMems, "a", ""), nil, "none"},
		{step(plan.SetMems, "a", "x"), nil, "node"},
		{step(plan.SetMems, "strict", "1"), nil, "bound by hand"},
		{step(plan.MovePages, "a", "1"), nil, "take no move-pages"},
	} {
		err := w.Apply(t.Context(), tt.step, nil)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s to %q: %v", tt.step.Kind, tt.step.Workload, tt.step.To, err)
		}
	}
	if live, config := g.now(); live != plainXML("a", 7) || config != plainXML("a", 0) {
		t.Errorf("changed:\n%s\n%s", live, config)
	}
	f.edit(func() { f.meddle = func(method string) { g.gone = g.gone || method == "PinVcpu" } })
	if err := w.Apply(t.Context(), step(plan.SetCPUs, "a", "1"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it vanished between the calls: %v", err)
	}
}

// Without events guests are read again in turn, the oldest first, and not all at once.
func TestWatchReadsInTurn(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := startFake(t)
	for i := range 6 {
		name := fmt.Sprint("g", i)
		f.add(t, name, "", plainXML(name, 0))
	}
	w := watch(t, func(o *WatchOptions) { o.Now = func() time.Time { now = now.Add(time.Millisecond); return now } })
	look(t, w)
	f.edit(func() {
		for _, g := range f.guests {
			g.config = strings.Replace(g.config, "<vcpu>2", "<vcpu>3", 1)
		}
	})
	for i, want := range []int{0, 2, 4, 6, 6} {
		got := 0
		for _, g := range look(t, w) {
			if g.Spec.CPUs == 3 {
				got++
			}
		}
		if got != want {
			t.Errorf("look %d found %d changed, want %d", i, got, want)
		}
		if i == 0 {
			now = now.Add(rereadEvery)
		}
	}
}

// The memory of a large guest takes minutes to move. Who comes to change another here
// does not wait for it, and shares the lock that keeps other homenodes away.
func TestChangesGoBesideEachOther(t *testing.T) {
	locked, most := 0, 0
	w := watch(t, func(o *WatchOptions) {
		o.Lock = func(context.Context) (interface{ Close() error }, error) {
			locked++
			most = max(most, locked)
			return closer(func() { locked-- }), nil
		}
	})
	begun, end := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- w.change(t.Context(), "large", lockWithin, time.Minute, func(context.Context) error { close(begun); <-end; return nil })
	}()
	<-begun
	if err := w.change(t.Context(), "small", lockWithin, time.Minute, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if locked != 1 {
		t.Errorf("locked %d times while a change goes on", locked)
	}
	close(end)
	if err := <-first; err != nil || locked != 0 || most != 1 {
		t.Errorf("%v, locked %d times, %d at once", err, locked, most)
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }

// While another homenode changes guests a step is put off, and what is to be put back
// waits longer.
func TestChangeWaitsForOthers(t *testing.T) {
	w := watch(t, func(o *WatchOptions) {
		o.Lock = func(ctx context.Context) (interface{ Close() error }, error) {
			<-ctx.Done()
			return nil, errBusy
		}
	})
	done := false
	if err := w.change(t.Context(), "a", time.Millisecond, time.Minute, func(context.Context) error { done = true; return nil }); !errors.Is(err, errBusy) || done {
		t.Errorf("%v, done %t", err, done)
	}
}

// What disks of a guest have read and written is asked with the look after somebody wanted it, and
// of no guest otherwise. The figures have the names and types that libvirt's QEMU driver gives them
// (src/libvirt-domain.c, VIR_DOMAIN_STATS_BLOCK).
func TestDisksAreCounted(t *testing.T) {
	live := strings.Replace(plainXML("a", 7), "</domain>", "<devices><disk type='network'><source protocol='rbd' name='p/a'><host name='10.0.0.5'/></source><target dev='vda'/></disk>"+
		"<disk type='file'><source file='/images/b'/><target dev='vdb'/></disk><disk type='file' device='cdrom'><source file='/c.iso'/><target dev='sda'/></disk></devices></domain>", 1)
	f := startFake(t)
	g := f.add(t, "a", live, plainXML("a", 0))
	w := watch(t)
	stats := func(read, written uint64) {
		f.edit(func() {
			g.blocks = map[string]dbus.Variant{"block.count": dbus.MakeVariant(uint32(3))}
			for i, name := range []string{"vda", "vdb", "sda"} {
				at := fmt.Sprintf("block.%d.", i)
				g.blocks[at+"name"] = dbus.MakeVariant(name)
				if i < 2 { // QEMU tells nothing of a drive without a medium
					g.blocks[at+"rd.reqs"], g.blocks[at+"rd.bytes"] = dbus.MakeVariant(uint64(1)), dbus.MakeVariant(read<<i)
					g.blocks[at+"wr.reqs"], g.blocks[at+"wr.bytes"] = dbus.MakeVariant(uint64(1)), dbus.MakeVariant(written)
				}
			}
		})
	}
	disks := func() (out []string) {
		for _, a := range w.Attached(guest.ID("a")) {
			out = append(out, fmt.Sprint(a.Name, " ", a.Bytes, " ", a.Counted))
		}
		return out
	}
	stats(100, 10)
	look(t, w)
	if got := disks(); !slices.Equal(got, []string{"vda 0 false", "vdb 0 false", "sda 0 false"}) {
		t.Errorf("before anybody asked: %q", got)
	}
	look(t, w)
	stats(1000, 10)
	look(t, w) // nobody has asked since
	want := []string{"vda 110 true", "vdb 210 true", "sda 0 false"}
	if got := disks(); !slices.Equal(got, want) {
		t.Errorf("asked once: %q", got)
	}
	f.add(t, "off", "", plainXML("off", 0)).blocks = map[string]dbus.Variant{"block.count": dbus.MakeVariant(uint32(1)), "block.0.name": dbus.MakeVariant("vda")}
	f.edit(func() { // it is busy, and is not waited for
		for i := range 2 {
			delete(g.blocks, fmt.Sprintf("block.%d.rd.bytes", i))
			delete(g.blocks, fmt.Sprintf("block.%d.wr.bytes", i))
		}
	})
	look(t, w)
	if got := disks(); !slices.Equal(got, want) {
		t.Errorf("busy: %q", got)
	}
	stats(1000, 20)
	g.signal(t, 2) // and is read anew
	awaitWake(t, w)
	look(t, w)
	if got := disks(); !slices.Equal(got, []string{"vda 1020 true", "vdb 2020 true", "sda 0 false"}) {
		t.Errorf("later: %q", got)
	}
}
