package store

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/host/internal/fault"
)

// Whichever call of the store fails: what it said is on disk is there when it is
// opened next, and what it did not say is there whole or not at all.
func TestEveryCallFails(t *testing.T) {
	errnos := []unix.Errno{unix.ENOSPC, unix.EIO, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EMFILE, unix.EINTR, unix.EINVAL}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		dir := filepath.Join(t.TempDir(), "state")
		entries := []plan.Entry{{Seq: 1, Kind: plan.CgroupCPUs, Path: "/a", Old: "0-3", New: "0", State: plan.Intended},
			{Seq: 2, Kind: plan.CgroupMems, Path: "/a", Old: "0-1", New: "0", State: plan.Intended}}
		var intended, applied bool
		var kept int // the newest value that was said to be on disk
		var closing error
		watched(func() {
			s, err := Open(dir)
			if err != nil {
				return
			}
			intended = s.Commit(plan.Batch{Entries: entries}) == nil
			if journal, err := s.Journal(); err == nil && intended && len(journal) != 2 {
				t.Errorf("journal now %+v", journal)
			}
			if intended {
				marks := slices.Clone(entries)
				marks[0].State, marks[1].State = plan.Applied, plan.Applied
				applied = s.Commit(plan.Batch{Entries: marks}) == nil
			}
			for i := range 4 { // after a failure it is used on
				if s.Commit(plan.Batch{Values: map[string]any{"n": i}}) == nil {
					kept = i
				}
			}
			closing = s.Close()
		})
		s, err := Open(dir)
		if err != nil {
			t.Fatalf("the next start: %v (closing said %v)", err, closing)
		}
		defer s.Close()
		journal, err := s.Journal()
		if err != nil {
			t.Fatal(err)
		}
		if len(journal) != 2 && (intended || len(journal) != 0) {
			t.Fatalf("said to be on disk: %v; journal %+v", intended, journal)
		}
		for i, e := range journal {
			if e.Old != entries[i].Old || e.New != "0" {
				t.Errorf("%+v", e)
			}
			if applied && e.State != plan.Applied {
				t.Errorf("marked as applied, and is %s", e.State)
			}
		}
		var n int
		if _, err := s.Load("n", &n); err != nil || n < kept {
			t.Errorf("value %d, %v; %d was said to be on disk", n, err, kept)
		}
		if err := s.Commit(plan.Batch{Events: []plan.Event{{Seq: 1, Text: "x"}}}); err != nil {
			t.Error(err)
		}
	})
}

// Whichever call of an upgrade fails: all that the file of before held is in it.
func TestEveryCallOfAnUpgradeFails(t *testing.T) {
	errnos := []unix.Errno{unix.ENOSPC, unix.EIO, unix.EROFS, unix.EINTR}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		dir := t.TempDir()
		writeSchema1(t, dir)
		r, err := OpenReadOnly(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := contents(t, r)
		r.Close()
		watched(func() {
			if s, err := Open(dir); err == nil {
				_ = s.Close()
			}
		})
		for _, open := range []func(string) (*Store, error){OpenReadOnly, Open} {
			s, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := contents(t, s); got != want {
				t.Errorf("%s\nbefore: %s", got, want)
			}
			s.Close()
		}
	})
}
