package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/kernfile"
)

// MountError says that there is no cgroup v2 at the mount. It never wraps
// fs.ErrNotExist: a mount that is missing does not mean that cgroups are gone.
type MountError struct {
	Mount string
	Why   string
}

func (e *MountError) Error() string {
	return fmt.Sprintf("%s is no cgroup v2 file system: %s", e.Mount, e.Why)
}

// MismatchError says that a set was accepted and is not what holds. What was set
// before has been restored.
type MismatchError struct {
	Cgroup string
	File   string // cpuset.cpus or cpuset.mems
	Want   string // list format
	Have   string // what was effective
	Why    []string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("cgroup %s: %s set to %s but %s is effective: %s", e.Cgroup, e.File, e.Want,
		or(e.Have, "nothing"), strings.Join(e.Why, "; "))
}

// StrayError says that threads may still run elsewhere although the CPU set
// holds. What was set before has been restored.
type StrayError struct {
	Cgroup  string
	Threads map[int]topology.CPUSet // by thread ID
	Want    topology.CPUSet
}

func (e *StrayError) Error() string {
	var first int
	for tid := range e.Threads {
		if first == 0 || tid < first {
			first = tid
		}
	}
	return fmt.Sprintf("cgroup %s: %d threads do not follow its CPU set %s: thread %d may run on %s",
		e.Cgroup, len(e.Threads), e.Want, first, e.Threads[first])
}

// NotFrozenError says that the processes of a cgroup did not freeze in time: one of them waits
// in the kernel, and may hold the lock of its memory. Its memory nodes were not changed. It
// wraps plan.ErrNotFrozen.
type NotFrozenError struct {
	Cgroup string
}

func (e *NotFrozenError) Error() string {
	return fmt.Sprintf("cgroup %s: %v within %v, so its memory nodes were not changed; end its process that waits in "+
		"the kernel (most often state D in ps), or restart the workload", e.Cgroup, plan.ErrNotFrozen, freezeWithin)
}

// Unwrap makes the error one that a later try may not meet.
func (e *NotFrozenError) Unwrap() error { return plan.ErrNotFrozen }

// LockedError says that a process holds the lock of its memory, which the kernel would wait for
// with all cgroups of the host. Nothing was changed. It wraps plan.ErrNoAnswer.
type LockedError struct {
	Cgroup string // that the change is about
	PID    int
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("cgroup %s: process %d %v, and holds the lock of its memory: the change would hold up all "+
		"cgroups of this host; stop that process", e.Cgroup, e.PID, plan.ErrNoAnswer)
}

// Unwrap makes the error one that a later try may not meet.
func (e *LockedError) Unwrap() error { return plan.ErrNoAnswer }

// FrozenError says that another program has frozen a cgroup, and may thaw it at any time: its
// memory nodes were not changed.
type FrozenError struct {
	Cgroup string
}

func (e *FrozenError) Error() string {
	return fmt.Sprintf("cgroup %s: another program has frozen it, and its memory nodes are changed only once it "+
		"runs again", e.Cgroup)
}

// SharedError says that a process outside a cgroup shares the memory of one inside: see
// sharers.go.
type SharedError struct {
	Cgroup  string
	Inside  int // PIDs
	Outside int
	In      string // cgroup of Outside
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("cgroup %s: its memory nodes are not changed: process %d in %s shares the memory of its "+
		"process %d and would not freeze with it", e.Cgroup, e.Outside, or(e.In, "another cgroup"), e.Inside)
}

// ManyAlikeError says that too many processes outside a cgroup are laid out as processes inside to
// ask the kernel about each pair: one of them may share the memory of one inside.
type ManyAlikeError struct {
	Cgroup          string
	Inside, Outside int // of the layout with the most pairs
}

func (e *ManyAlikeError) Error() string {
	return fmt.Sprintf("cgroup %s: its memory nodes are not changed, for %d processes elsewhere are laid out as %d "+
		"of its own, too many to find out whether one shares their memory: end those, or move them into it", e.Cgroup,
		e.Outside, e.Inside)
}

// notWritten is an error that came before a write: the processes could not be frozen for it.
type notWritten struct{ error }

func (e *notWritten) Unwrap() error { return e.error }

// InUseError says that a controller has to stay on for others.
type InUseError struct {
	Controller string
	Cgroup     string // where it would be turned off
	By         string // the child that needs it; "" when only the kernel knows
}

func (e *InUseError) Error() string {
	by := cmp.Or(e.By, "a child")
	return fmt.Sprintf("cgroup %s: the %s controller stays on, %s still uses it", e.Cgroup, e.Controller, by)
}

// Unwrap makes the error known as one that others outlive.
func (e *InUseError) Unwrap() error { return plan.ErrInUse }

// gone is what every method returns for a cgroup that was removed.
func gone(cgroup string) error { return fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist) }

// refused puts the kernel's answer to a write in words. A cgroup removed under an
// open file answers ENODEV (kernfs).
func (d *Driver) refused(cgroup, file, text string, err error) error {
	if before := new(notWritten); errors.As(err, &before) {
		return before.error
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return d.lost(cgroup, err)
	}
	why := kernfile.Why(err)
	switch {
	case errors.Is(err, unix.EBUSY):
		why = "; CPUs of a deadline task or of an exclusive sibling would be taken"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		why = "; the kernel has no such CPU or node, or a sibling has it exclusively"
	case errors.Is(err, unix.ENOSPC):
		why = "; a cgroup with processes cannot have an empty set"
	}
	return fmt.Errorf("cgroup %s: write %q to %s: %w%s", cgroup, text, file, err, why)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
