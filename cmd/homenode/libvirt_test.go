package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

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
