package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/host/libvirt"
)

// A command that changes guests keeps others out until it ends; the daemon may carry out
// its steps as soon as they are decided on.
func TestStepsOfACommandAreTheDaemonsToCarryOut(t *testing.T) {
	dir := t.TempDir()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h := &hypervisors{Watch: libvirt.NewWatch(libvirt.WatchOptions{})}
	if err := h.lock(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := lockGuests(soon, dir); err == nil {
		t.Error("the daemon changed guests while a command decided")
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	daemons, err := lockGuests(t.Context(), dir)
	if err != nil {
		t.Fatalf("the daemon waits for who waits for it: %v", err)
	}
	soon, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := (&hypervisors{}).lock(soon, dir); err == nil {
		t.Error("a second command beside the first")
	}
	if err := errors.Join(daemons.Close(), h.Close(), h.Unlock()); err != nil {
		t.Error(err)
	}
	second := &hypervisors{Watch: libvirt.NewWatch(libvirt.WatchOptions{})}
	if err := second.lock(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// Two that place at once would give both the same CPUs: the second waits.
func TestOneAtATimeChangesGuests(t *testing.T) {
	dir := t.TempDir() + "/made"
	first, err := lockGuests(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockGuests(ctx, dir); err == nil || !strings.Contains(err.Error(), "another homenode is changing guests") {
		t.Errorf("the second: %v", err)
	}
	done := make(chan error)
	go func() {
		f, err := lockGuests(t.Context(), dir)
		if err == nil {
			err = f.Close()
		}
		done <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the first: %v", err)
	}
}
