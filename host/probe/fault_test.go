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
		recorded := func() {
			_, err := os.Stat(m.Restore)
			if got := register(t, msr, intelReg); got != was && err != nil {
				t.Errorf("register %#x, and nothing says that it was %#x: %v", got, was, err)
			}
		}
		var p *prefetchers
		var err error
		watched(func() {
			if m.restoreLeft() != nil {
				return
			}
			if p, err = m.openPrefetchers(0); err != nil {
				return
			}
			if err = p.promise(m.bootID(), 0); err == nil {
				_ = p.write(p.was | p.off)
			}
		})
		recorded()
		if p != nil {
			if err == nil {
				watched(func() { err = p.restore() })
				recorded()
				if got := register(t, msr, intelReg); err == nil && got != was {
					t.Errorf("said to be restored, and is %#x", got)
				}
			}
			p.close()
		}
		if err := m.restoreLeft(); err != nil || register(t, msr, intelReg) != was {
			t.Errorf("the next run leaves %#x: %v", register(t, msr, intelReg), err)
		}
	})
}
