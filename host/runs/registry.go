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
	Tier      workload.Tier      `json:"tier,omitempty"`
	Exact     bool               `json:"exact,omitempty"`  // a person said where
	Ledger    bool               `json:"ledger,omitempty"` // a daemon has written it down
	Scope     *Scope             `json:"scope,omitempty"`  // of systemd that it is in; nil for none
}

// Scope is the cgroup that a command was put into: a scope of systemd with what `homenode run`
// restricts it to, or the path of a cgroup for batch work. Before that it was
// not there, and so not restricted.
type Scope struct {
	Unit string           `json:"unit"`
	CPUs topology.CPUSet  `json:"cpus"`
	Mems topology.NodeSet `json:"mems"`
	// Batch: it runs when nothing else wants the CPU; before, the command was in From.
	Batch bool   `json:"batch,omitempty"`
	From  string `json:"from,omitempty"`
}

// UnmarshalJSON reads also what versions before 0.2 wrote, which said offline for batch.
func (s *Scope) UnmarshalJSON(text []byte) error {
	type plain Scope
	x := struct {
		*plain
		Offline bool `json:"offline"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(text, &x)
	s.Batch = s.Batch || x.Offline
	return err
}

// Processes tells which processes are no more, as process.Live does.
type Processes interface {
	Ended([]workload.Process) []workload.Process
}

// Registry is a folder of runs.
type Registry struct {
	Dir       string
	ForAll    bool // others read it too, whatever the umask; otherwise its owner alone
	Boot      string
	Processes Processes
}

const (
	// lockWithin is how long a run waits for others that look at this moment; each takes
	// some milliseconds. One that wants CPUs of its own waits longer: what it takes without
	// the lock another may take too.
	lockWithin      = time.Second
	lockAloneWithin = 10 * time.Second
	// maxRun bounds what is read of a file: a placement of 1,024 pins takes some KiB.
	maxRun = 64 << 10
	// mostRuns bounds how many files are read.
	mostRuns = 1 << 14
)

// Lock makes the folder where it is missing, and keeps other runs of this user from looking
// until unlock is called. Who cannot have the lock within a second, or 10 to run alone on its
// CPUs, goes on without it: unlock does nothing then.
func (r *Registry) Lock(alone bool) (unlock func(), err error) {
	within := lockWithin
	if alone {
		within = lockAloneWithin
	}
	nothing := func() {}
	mode := fs.FileMode(0o700)
	if r.ForAll {
		mode = 0o755
	}
	if err := Folder(r.Dir, mode); err != nil {
		return nothing, err
	}
	if err := r.trusted(os.Geteuid()); err != nil {
		return nothing, err
	}
	// A run that was killed may have made it and no more.
	if st, err := os.Stat(r.Dir); r.ForAll && err == nil && st.Mode().Perm() != mode {
		if err := os.Chmod(r.Dir, mode); err != nil {
			return nothing, err
		}
	}
	fd, err := unix.Open(filepath.Join(r.Dir, "lock"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nothing, fmt.Errorf("lock %s: %w", r.Dir, err)
	}
	for late := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		switch err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { unix.Close(fd) }, nil
		case (!errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR)) || time.Now().After(late):
			unix.Close(fd)
			return nothing, fmt.Errorf("lock %s: %w", r.Dir, err)
		}
	}
}

// Folder makes a folder and those above it that are missing, with the mode whatever the
// umask.
func Folder(dir string, mode fs.FileMode) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	if above := filepath.Dir(dir); above != dir {
		if err := Folder(above, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) { // another run was faster
			err = nil
		}
		return err
	}
	return os.Chmod(dir, mode)
}

// trusted is nil when only a user, or root, can change what Dir leads to: it is a folder of
// the user's that others cannot write, and they can put nothing else in the place of it or of
// a folder or link above it.
func (r *Registry) trusted(uid int) error {
	st, err := os.Lstat(r.Dir)
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.IsDir() || int(sys.Uid) != uid || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: want a folder that only user %d can write", r.Dir, uid)
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return err
	}
	links := 0
	return safe(filepath.Dir(dir), uid, &links)
}

// mostLinks is how many symbolic links a path may lead through, as the kernel has it
// (path_resolution(7)).
const mostLinks = 40

// safe is nil when nobody but a user and root can put something else in the place of what is
// in a folder: it and all that leads to it belong to them, and others can write it only
// where it is sticky, as /tmp: there nobody takes away what is another's (unlink(2), EPERM).
// A group of the user's own number is no other (user private groups).
func safe(path string, uid int, links *int) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || (int(sys.Uid) != uid && sys.Uid != 0) {
		return fmt.Errorf("%s: want a folder of user %d or root", path, uid)
	}
	others := fs.FileMode(0o022)
	if uid != 0 && int(sys.Uid) == uid && int(sys.Gid) == uid {
		others = 0o002
	}
	above := filepath.Dir(path)
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		*links++
		if *links > mostLinks {
			return fmt.Errorf("%s: %w", path, syscall.ELOOP)
		}
		if !filepath.IsAbs(to) {
			real, err := filepath.EvalSymlinks(above)
			if err != nil {
				return err
			}
			for rest, up := strings.CutPrefix(to, "../"); up; rest, up = strings.CutPrefix(to, "../") {
				real, to = filepath.Dir(real), rest
			}
			to = real + "/" + to
		}
		if slices.Contains(strings.Split(to, "/"), "..") { // of a folder that may be a link
			return fmt.Errorf("%s leads to %s: want a path without .. in it", path, to)
		}
		if err := safe(filepath.Clean(to), uid, links); err != nil {
			return err
		}
	case !st.IsDir():
		return fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
	case st.Mode().Perm()&others != 0 && st.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%s: others than user %d can write it (mode %04o), so they could put another folder in the "+
			"place of one below it", path, uid, st.Mode().Perm())
	}
	if above == path {
		return nil
	}
	return safe(above, uid, links)
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
	var cut []workload.Process // whose entry was not written to its end
	for _, e := range entries[:min(len(entries), mostRuns)] {
		if name, isNew := strings.CutSuffix(e.Name(), unfinished); isNew {
			if p, err := plan.ParseProcessPath(name); err == nil {
				cut = append(cut, p)
			}
			continue
		}
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
	for _, p := range r.Processes.Ended(cut) {
		os.Remove(filepath.Join(r.Dir, plan.ProcessPath(p)+unfinished))
	}
	ended := map[workload.Process]bool{}
	for _, p := range r.Processes.Ended(of) {
		ended[p] = true
		r.Remove(p)
	}
	all = slices.DeleteFunc(all, func(run Run) bool { return ended[run.Process] })
	slices.SortFunc(all, func(a, b Run) int {
		return strings.Compare(string(a.Placement.Workload),
			string(b.Placement.Workload))
	})
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
		run.Scope = cmp.Or(run.Scope, was.Scope)
	}
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	path := filepath.Join(r.Dir, name)
	if err = r.write(path+unfinished, text); err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err != nil {
		os.Remove(path + unfinished)
	}
	return err
}

// unfinished is the end of the name of an entry while it is written.
const unfinished = ".new"

func (r *Registry) write(path string, text []byte) error {
	mode := fs.FileMode(0o600)
	if r.ForAll {
		mode = 0o644
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	err = f.Chmod(mode)
	if _, bad := f.Write(text); err == nil {
		err = bad
	}
	return cmp.Or(err, f.Close())
}

// PutScope adds to the run of a process the scope that it is about to enter. A run that is
// not written down has none.
func (r *Registry) PutScope(p workload.Process, s Scope) error {
	run, err := r.read(plan.ProcessPath(p))
	if err != nil || run.Boot != r.Boot {
		return nil
	}
	run.Scope = &s
	return r.Put(run)
}

// Remove forgets a run.
func (r *Registry) Remove(p workload.Process) { os.Remove(filepath.Join(r.Dir, plan.ProcessPath(p))) }
