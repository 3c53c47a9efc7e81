package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Run is a command that was started in a home.
type Run struct {
	Process   workload.Process   `json:"process"`
	Boot      string             `json:"boot"` // of the machine: PIDs and start times are of one boot
	Name      string             `json:"name"`
	Had       topology.CPUSet    `json:"had"` // CPUs that it might use before
	Placement workload.Placement `json:"placement"`
	Exact     bool               `json:"exact,omitempty"`  // a person said where
	Ledger    bool               `json:"ledger,omitempty"` // a daemon has written it down
}

// Processes tells which processes are no more, as process.Live does.
type Processes interface {
	Ended([]workload.Process) []workload.Process
}

// Registry is a folder of runs.
type Registry struct {
	Dir       string
	Boot      string
	Processes Processes
}

const (
	// lockWithin is how long a run waits for others that look at this moment; each takes
	// some milliseconds.
	lockWithin = time.Second
	// maxRun bounds what is read of a file: a placement of 1,024 pins takes some KiB.
	maxRun = 64 << 10
	// mostRuns bounds how many files are read.
	mostRuns = 1 << 14
)

// Lock makes the folder where it is missing, and keeps other runs of this user from looking
// until unlock is called. Who cannot have the lock in time goes on without it: unlock does
// nothing then.
func (r *Registry) Lock() (unlock func(), err error) {
	nothing := func() {}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nothing, err
	}
	if err := r.trusted(os.Geteuid()); err != nil {
		return nothing, err
	}
	fd, err := unix.Open(filepath.Join(r.Dir, "lock"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nothing, err
	}
	for late := time.Now().Add(lockWithin); ; time.Sleep(2 * time.Millisecond) {
		switch err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { unix.Close(fd) }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(late):
			unix.Close(fd)
			return nothing, fmt.Errorf("lock %s: %w", r.Dir, err)
		}
	}
}

// trusted reports whether the folder is one that only a user can write.
func (r *Registry) trusted(uid int) error {
	st, err := os.Lstat(r.Dir)
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.IsDir() || int(sys.Uid) != uid || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: want a folder that only user %d can write", r.Dir, uid)
	}
	return nil
}

// Living is the runs whose process lives, rising by workload. Those of others that have ended
// are removed where they may be. A folder that is missing has none; one that somebody else
// than its owner uid can write is not believed.
func (r *Registry) Living(uid int) ([]Run, error) {
	if err := r.trusted(uid); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	var all []Run
	var of []workload.Process
	for _, e := range entries[:min(len(entries), mostRuns)] {
		if _, err := plan.ParseProcessPath(e.Name()); err != nil {
			continue
		}
		run, err := r.read(e.Name())
		if err != nil || run.Boot != r.Boot || plan.ProcessPath(run.Process) != e.Name() {
			os.Remove(filepath.Join(r.Dir, e.Name()))
			continue
		}
		all, of = append(all, run), append(of, run.Process)
	}
	ended := map[workload.Process]bool{}
	for _, p := range r.Processes.Ended(of) {
		ended[p] = true
		r.Remove(p)
	}
	all = slices.DeleteFunc(all, func(run Run) bool { return ended[run.Process] })
	slices.SortFunc(all, func(a, b Run) int { return strings.Compare(string(a.Placement.Workload), string(b.Placement.Workload)) })
	return all, nil
}

func (r *Registry) read(name string) (run Run, err error) {
	fd, err := unix.Open(filepath.Join(r.Dir, name), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return run, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() { // a read of a pipe may wait for ever
		return run, cmp.Or(err, fs.ErrInvalid)
	}
	text := make([]byte, maxRun)
	n, err := f.Read(text)
	if err != nil {
		return run, err
	}
	return run, json.Unmarshal(text[:n], &run)
}

// Put writes a run down. One of the same process is replaced, but for what it had before it
// first was one.
func (r *Registry) Put(run Run) error {
	run.Boot = r.Boot
	name := plan.ProcessPath(run.Process)
	if was, err := r.read(name); err == nil && was.Boot == r.Boot && !was.Had.Empty() {
		run.Had = was.Had
	}
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	path := filepath.Join(r.Dir, name)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Remove forgets a run.
func (r *Registry) Remove(p workload.Process) { os.Remove(filepath.Join(r.Dir, plan.ProcessPath(p))) }
