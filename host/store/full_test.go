package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

// On a disk that is full, what was written stays, what was not is refused whole with the
// reason, all can be read, and writing goes on when there is room again.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(disk, "state")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	batch := func() plan.Batch { // journal, history and a value that must stay of one mind
		seq++
		return plan.Batch{Entries: []plan.Entry{{Seq: seq, Kind: plan.CgroupCPUs, Path: fmt.Sprintf("/%d", seq), New: "0", State: plan.Intended}},
			Events: []plan.Event{{Seq: seq, Time: t0, Kind: plan.EventStep, Text: strings.Repeat("x", 8<<10)}}, Values: map[string]any{"n": seq}}
	}
	same := func(when string, want uint64) {
		t.Helper()
		journal, err := s.Journal()
		events, err2 := s.History(plan.EventQuery{})
		var n uint64
		_, err3 := s.Load("n", &n)
		if err := errors.Join(err, err2, err3); err != nil || len(journal) != int(want) || len(events) != int(want) || n != want {
			t.Fatalf("%s: %d entries, %d events, value %d, %v; want %d of each", when, len(journal), len(events), n, err, want)
		}
	}
	last := uint64(0)
	for err == nil {
		if err = s.Commit(batch()); err == nil {
			last = seq
		}
	}
	if !errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "\n") || last == 0 {
		t.Fatalf("after %d: %v", last, err)
	}
	same("when it is full", last)
	filler := filepath.Join(disk, "filler") // what others write takes the last byte
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	for range 3 {
		seq = last
		switch err := s.Commit(batch()); {
		case err == nil: // the pages that a refused one had taken suffice, in the order of bbolt's free list
			last = seq
		case !errors.Is(err, unix.ENOSPC):
			t.Errorf("without a byte left: %v", err)
		}
		same("after others filled it", last)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenForUndo(dir); err != nil {
		t.Fatalf("opened for undo: %v", err)
	}
	same("opened for undo", last)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filler), unix.Mount("", disk, "", unix.MS_REMOUNT, "size=8m")); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	seq = last
	if err := s.Commit(batch()); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	same("with room again", last+1)
	s.Close()
}
