package files

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/fault"
)

func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &was)
	r := Of(Root("/"))
	var want topology.CPUSet
	for cpu := range 1024 {
		if was.IsSet(cpu) {
			want.Add(topology.CPUID(cpu))
		}
	}
	for range 2 { // also as it is known
		if got, err := r.Affinity(unix.Gettid()); err != nil || !got.Equal(want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	one.Set(int(want.Max()))
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Affinity(unix.Gettid()); err != nil || got.Len() != 1 || !got.Has(want.Max()) {
		t.Errorf("%v %v, want %v", got, err, want.Max())
	}
	if _, err := r.Affinity(1 << 30); err == nil {
		t.Error("no error for a thread that is not there")
	}
}

// The kernel's clock of a process stands while that sleeps, goes on when it runs, and asks
// for no privilege.
func TestProcessClock(t *testing.T) {
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Skip(err)
	}
	defer cat.Wait()
	defer in.Close()
	buf := make([]byte, 1)
	echo := func() {
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	echo()
	machine := Of(Root("/"))
	clock := func() time.Duration {
		ran, err := machine.Clock(cat.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return ran
	}
	time.Sleep(100 * time.Millisecond) // until it waits
	before := clock()
	time.Sleep(20 * time.Millisecond)
	if now := clock(); now != before || before <= 0 {
		t.Errorf("asleep: %d, then %d", before, now)
	}
	echo()
	time.Sleep(100 * time.Millisecond)
	if now := clock(); now <= before || now > before+time.Second {
		t.Errorf("ran: %d, then %d", before, now)
	}
	if _, err := machine.Clock(1 << 22); err == nil {
		t.Error("a PID that cannot be in use has a clock")
	}
}

// Whichever call on the machine's files fails: what is read is whole, or an error.
func TestEverySystemCallFails(t *testing.T) {
	const stat = "100 (a) S 1 100 100 0 -1 4194560 0\n"
	errnos := []unix.Errno{unix.EACCES, unix.ENOENT, unix.EIO, unix.EMFILE, unix.EINTR, unix.ESRCH}
	fault.Each(t, errnos, func(t *testing.T, watched func(func())) {
		dir := t.TempDir()
		for _, pid := range []string{"1", "100", "101"} {
			writeFile(t, filepath.Join(dir, "proc", pid, "stat"), stat)
		}
		for _, group := range []string{"a", "b", "c"} {
			writeFile(t, filepath.Join(dir, "sys/fs/cgroup", group, "cgroup.procs"), "100\n")
		}
		r := Of(Root(dir))
		var text []byte
		var pids []int
		var names []string
		var errs [3]error
		watched(func() {
			text, errs[0] = r.Read("proc/100/stat", make([]byte, 16)) // does not fit
			pids, errs[1] = r.Numbers("proc", nil)
			names, _, errs[2] = r.Subdirs("sys/fs/cgroup", nil)
			_, _ = r.Affinity(0)
		})
		if errs[0] == nil && string(text) != stat {
			t.Errorf("read %q, want %q", text, stat)
		}
		if errs[1] == nil && len(pids) != 3 {
			t.Errorf("processes %v", pids)
		}
		if errs[2] == nil && len(names) != 3 {
			t.Errorf("cgroups %v", names)
		}
		for _, err := range errs {
			if err != nil && (strings.Contains(err.Error(), "\n") || errors.Is(err, errors.ErrUnsupported)) {
				t.Error(err)
			}
		}
	})
}
