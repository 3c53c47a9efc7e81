package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/proc"
)

const lockName = "homenode.lock"

// lockWait is how long Open tries. A reader holds the lock for as long as it
// takes to print a status; another daemon holds it for good, and a person who
// started the second one wants to know at once.
const lockWait = 150 * time.Millisecond

// ErrLocked is wrapped by the error of Open while another process holds the
// store.
var ErrLocked = errors.New("in use by another homenode")

// LockedError says who holds the store.
type LockedError struct {
	Dir string
	PID int // 0 when the holder did not say
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state folder %s is %v", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("state folder %s is %v, PID %d", e.Dir, ErrLocked, e.PID)
}

func (e *LockedError) Unwrap() error { return ErrLocked }

// lock takes the lock file, shared or exclusive. A shared lock creates
// nothing: where there is no lock file there is no daemon, and it returns nil.
func (f *folder) lock(exclusive bool) (*os.File, error) {
	how, flags := unix.LOCK_SH, os.O_RDONLY
	if exclusive {
		how, flags = unix.LOCK_EX, os.O_RDWR|os.O_CREATE
	}
	file, err := f.open(lockName, flags, 0o600)
	if !exclusive && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.flock(file, how); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if exclusive {
		if err := sign(file); err != nil {
			return nil, errors.Join(fmt.Errorf("write %s: %w", file.Name(), err), file.Close())
		}
	}
	return file, nil
}

func (f *folder) flock(file *os.File, how int) error {
	for deadline := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err == unix.EINTR {
			continue
		}
		if err != unix.EWOULDBLOCK {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if time.Now().After(deadline) {
			return &LockedError{Dir: f.path, PID: holder(file)}
		}
	}
}

// sign writes this process into its lock file.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	pid := os.Getpid()
	_, err := f.WriteAt(fmt.Appendf(nil, "%d %s\n", pid, startOf(pid)), 0)
	return err
}

// holder is the process named in the lock file if it still lives: a reader's
// shared lock can stand over the signature of a daemon long gone.
func holder(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil {
		return 0
	}
	pidText, start, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, err := strconv.Atoi(pidText)
	if err != nil || start == "" || startOf(pid) != start {
		return 0
	}
	return pid
}

// startOf is the start time of a process, as text, "" when there is none.
func startOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	stat, err := proc.ParseStat(text)
	if err != nil {
		return ""
	}
	return fmt.Sprint(stat.Start)
}
