package flight

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/fault"
)

// Whichever call of the recorder fails: what it said is written is replayed, and what
// follows a gap too.
func TestEveryCallFails(t *testing.T) {
	errnos := []unix.Errno{unix.ENOSPC, unix.EIO, unix.EACCES, unix.EMFILE, unix.EINTR, unix.EROFS, unix.ENOENT, unix.EDQUOT}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		dir := filepath.Join(t.TempDir(), "log")
		written, failed := 0, 0
		watched(func() {
			w, err := Create(dir, 1<<20)
			if err != nil {
				return
			}
			r := recorder{Writer: w}
			for i := range 9 {
				if err := r.record(); err == nil {
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
		if written == 0 {
			return
		}
		if lines, _, _ := replayFile(t, dir); lines < written {
			t.Errorf("%d written, %d failed; replayed %d", written, failed, lines)
		}
	})
}
