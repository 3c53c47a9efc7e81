package probe

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/fault"
)

// Whichever call fails while prefetchers are off: they are on again, or the file
// that says how they were is there, and the next run puts them back by it.
func TestEveryCallOnPrefetchersFails(t *testing.T) {
	errnos := []unix.Errno{unix.EPERM, unix.EINVAL, unix.ENOSPC, unix.EBUSY, unix.ENOENT, unix.EIO, unix.EINTR, unix.EEXIST}
	const was = 0x22
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		m := &Machine{}
		msr := withRegisters(t, m, "GenuineIntel", "6", intelReg, was)
		var done bool
		watched(func() {
			if m.restoreLeft() != nil {
				return
			}
			p, err := m.openPrefetchers(0)
			if err != nil {
				return
			}
			defer p.close()
			if p.promise(m.bootID(), 0) != nil {
				return
			}
			_ = p.write(p.was | p.off)
			_ = p.write(p.was &^ p.off)
			done = p.restore() == nil
		})
		_, err := os.Stat(m.Restore)
		switch got := register(t, msr, intelReg); {
		case got != was && err != nil:
			t.Errorf("register %#x, and nothing says that it was %#x: %v", got, was, err)
		case done && (got != was || err == nil):
			t.Errorf("said to be restored: register %#x, promise %v", got, err)
		}
		if err := m.restoreLeft(); err != nil || register(t, msr, intelReg) != was {
			t.Errorf("the next run leaves %#x: %v", register(t, msr, intelReg), err)
		}
	})
}
