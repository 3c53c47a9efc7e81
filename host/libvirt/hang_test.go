package libvirt

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// hang has the fake stop in a method until the test ends or calls free.
func (f *fake) hang(t *testing.T, method string) (inside chan struct{}, free func()) {
	inside, end := make(chan struct{}, 16), make(chan struct{})
	done := false
	free = func() {
		if !done {
			done = true
			close(end)
		}
	}
	t.Cleanup(free)
	f.edit(func() {
		f.meddle = func(called string) {
			if called == method {
				inside <- struct{}{}
				<-end
			}
		}
	})
	return inside, free
}

// R22: while libvirt hangs the claims of before are there at once, and a look ends with
// its deadline.
func TestLibvirtHangs(t *testing.T) {
	for _, method := range []string{"GetAllDomainStats", "GetXMLDesc"} {
		f := startFake(t)
		f.add(t, "a", plainXML("a", 7), plainXML("a", 0))
		w := watch(t)
		look(t, w)
		f.guests[0].signal(t, 2)
		awaitWake(t, w)
		inside, free := f.hang(t, method)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- w.Refresh(ctx) }()
		<-inside
		claims := make(chan []workload.Claim, 1)
		go func() { all, _ := w.Claims(twoNodes()); claims <- all }()
		select {
		case all := <-claims:
			if len(all) != 2 || all[0].ID != "vm:a" {
				t.Errorf("%s: %+v", method, all)
			}
		case <-time.After(soon):
			t.Fatalf("%s: the claims wait for libvirt", method)
		}
		short, end := context.WithTimeout(t.Context(), time.Millisecond)
		if err := w.Refresh(short); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: a second look: %v", method, err)
		}
		end()
		cancel()
		select {
		case err := <-failed:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", method, err)
			}
		case <-time.After(soon):
			t.Fatalf("%s: the look does not end", method)
		}
		free()
		f.conn.Close()
	}
}

// What happens to a guest while it is read is not lost.
func TestSignalWhileAGuestIsRead(t *testing.T) {
	f := startFake(t)
	a := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	inside, free := f.hang(t, "GetXMLDesc")
	done := make(chan error, 1)
	go func() { done <- w.Refresh(t.Context()) }()
	<-inside
	for len(w.wake) > 0 {
		<-w.wake
	}
	a.signal(t, 2)
	awaitWake(t, w)
	free()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.edit(func() { f.meddle = nil })
	f.called("")
	look(t, w)
	if !f.called("GetXMLDesc") {
		t.Error("it is not read again")
	}
	f.called("")
	look(t, w)
	if f.called("GetXMLDesc") {
		t.Error("it is read for ever")
	}
}

// While libvirt does not answer a hypervisor ends: what its definition keeps is kept.
func TestGuestEndsWhileLibvirtIsSilent(t *testing.T) {
	f := startFake(t)
	f.add(t, "d", boundXML("d", 7, dedicatedOn0), boundXML("d", 0, dedicatedOn0))
	f.add(t, "transient", boundXML("transient", 8, sharedOn0), "")
	f.add(t, "runs", boundXML("runs", 9, sharedOn0), "")
	pids := map[string]workload.Process{"d": {PID: 70, Start: 1}, "transient": {PID: 80, Start: 1}, "runs": {PID: 90, Start: 1}}
	w := watch(t, func(o *WatchOptions) {
		o.Process = func(name string) (workload.Process, error) {
			if p, ok := pids[name]; ok {
				return p, nil
			}
			return workload.Process{}, fs.ErrNotExist
		}
	})
	look(t, w)
	f.edit(func() { f.refuse["GetAllDomainStats"] = libvirtError("Failed to connect socket to 'x'") })
	pids["d"] = workload.Process{PID: 70, Start: 2} // another process has its PID
	delete(pids, "transient")
	for range 2 { // also while it is not asked again yet
		if err := w.Refresh(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		claims, _ := w.Claims(twoNodes())
		if len(claims) != 3 || brief(claims[0]) != "vm:d off 4-5/0 holds(vm:d dedicated 4-5/0) fixed alone=guest-silent next 4-5/0 ours home(vm:d dedicated 4-5/0) alone=guest-silent" || claims[1].ID != "vm:runs" || !claims[1].Running {
			t.Errorf("%+v", claims)
		}
	}
}
