package store

import (
	"path/filepath"
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
		have := []plan.Setting{{Kind: plan.CgroupCPUs, Path: "/a", Value: "0-3"}, {Kind: plan.CgroupMems, Path: "/a", Value: "0-1"}}
		var intended, applied bool
		var kept int // the newest value that was said to be on disk
		var closing error
		watched(func() {
			s, err := Open(dir)
			if err != nil {
				return
			}
			entries, err := s.Intend("/a", have, []string{"0", "0"}, t0)
			if intended = err == nil; intended {
				applied = s.Mark(plan.Applied, entries[0].Seq, entries[1].Seq) == nil
			} else if entries != nil {
				t.Errorf("entries of a journal that could not be written: %v", entries)
			}
			journal, err := s.Journal()
			if err == nil && intended && len(journal) != 2 {
				t.Errorf("journal now %+v", journal)
			}
			for i := range 4 { // after a failure it is used on
				if s.Save("n", i) == nil {
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
			if e.Old != have[i].Value || e.New != "0" {
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
		if err := s.Append(plan.Event{Time: t0, Text: "x"}); err != nil {
			t.Error(err)
		}
	})
}
