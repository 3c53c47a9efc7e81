package flight

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/host/internal/fault"
)

// Whichever call of the recorder fails: what it said is written is replayed as it
// was, and what follows a gap too.
func TestEveryCallFails(t *testing.T) {
	records := ticks(t, 9)
	errnos := []unix.Errno{unix.ENOSPC, unix.EIO, unix.EACCES, unix.EMFILE, unix.EINTR, unix.EROFS, unix.ENOENT, unix.EDQUOT}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		dir := filepath.Join(t.TempDir(), "log")
		written, failed := 0, 0
		watched(func() {
			w, err := Create(dir, 1<<20)
			if err != nil {
				return
			}
			for i, r := range records {
				if err := w.Record(r); err == nil {
					written++
				} else {
					failed++
				}
				if i == 4 { // as when the file is full
					_ = w.end()
				}
			}
			_ = w.Close()
		})
		l, err := Open(dir)
		if written == 0 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out, err := balance.Replay(l.Next, "homenode")
		if err != nil || out.Differ != 0 || out.Ticks < written {
			t.Errorf("%d written, %d failed; replayed %d, %d differ: %v", written, failed, out.Ticks, out.Differ, err)
		}
	})
}
