package process

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// errMems is the answer to set-mems on a process.
var errMems = plan.Unsupported("memory nodes of a running process",
	"a cgroup of its own: Linux has no call that changes another process's memory nodes, only cpuset.mems does")

// MismatchError says that an affinity was set and is not what holds.
type MismatchError struct {
	Thread int
	Want   topology.CPUSet
	Have   topology.CPUSet
	Why    string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("thread %d: affinity set to %s but %s holds: %s", e.Thread, e.Want, e.Have, e.Why)
}

// GoneError says that every process of the step has exited. It wraps ESRCH.
type GoneError struct {
	PIDs  []int
	Moved int64 // bytes moved before
}

func (e *GoneError) Error() string {
	if e.Moved == 0 {
		return fmt.Sprintf("processes %v have exited", e.PIDs)
	}
	return fmt.Sprintf("processes %v have exited after %s were moved", e.PIDs, size(e.Moved))
}

func (e *GoneError) Unwrap() error { return unix.ESRCH }

// SilentError says that a call on processes did not come back: somebody holds the lock of
// their memory. It wraps plan.ErrNoAnswer.
type SilentError struct {
	PIDs []int
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("processes %v: their memory %v: something holds its lock", e.PIDs, plan.ErrNoAnswer)
}

func (e *SilentError) Unwrap() error { return plan.ErrNoAnswer }

// IncompleteError says that more than a hundredth of the movable memory is still
// off home after all of it has been tried.
type IncompleteError struct {
	Left int64  // bytes off home
	Why  string // by reason
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s are still off home: %s", size(e.Left), e.Why)
}

// RestError says that a move has rested for as long as it may. What is left waits for
// another try.
type RestError struct {
	Rested time.Duration // in all
	Why    string        // of the last rest
}

func (e *RestError) Error() string {
	return fmt.Sprintf("rested for %s, which is long enough to hold up others: %s", words.Duration(e.Rested), e.Why)
}

// NodeFullError says that a home node had no room.
type NodeFullError struct {
	Node topology.NodeID
	Left int64 // bytes still off home
}

func (e *NodeFullError) Error() string {
	return fmt.Sprintf("node %d is full, %s are still off home", e.Node, size(e.Left))
}

// NodeNotAllowedError says that a process may not have memory on a node.
type NodeNotAllowedError struct {
	Node topology.NodeID
	PID  int
}

func (e *NodeNotAllowedError) Error() string {
	return fmt.Sprintf("process %d may have no memory on node %d: the node is outside its cpuset.mems or has no memory",
		e.PID, e.Node)
}

// isGone tells a process that is no more: the files of /proc are absent or
// answer ESRCH, as the calls do.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func exited(pid int) error { return fmt.Errorf("process %d: %w", pid, unix.ESRCH) }

func size(bytes int64) string { return words.Bytes(max(bytes, 0)) }
