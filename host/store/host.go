package store

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// hostName is of an abstract unix socket.
const hostName = "@homenode-enforce"

// HostLockedError says who has the lock of the host.
type HostLockedError struct {
	PID int
	UID uint32 // not root's is no daemon that could enforce
}

func (e *HostLockedError) Error() string {
	if e.UID != 0 {
		return fmt.Sprintf("PID %d of user %d holds the name %s, by which a second daemon in enforce mode would be noticed: end it", e.PID, e.UID, hostName)
	}
	return fmt.Sprintf("PID %d is a homenode that enforces on this host already; two would undo each other's work", e.PID)
}

// Unwrap makes it ErrLocked when it is a daemon.
func (e *HostLockedError) Unwrap() error {
	if e.UID != 0 {
		return nil
	}
	return ErrLocked
}

// LockHost takes the lock of the one daemon that changes this host, whatever its state
// folder: two would take each other's values for those from before. Otherwise the error
// is a HostLockedError. When that wraps ErrLocked, do not enforce; when it does not, a
// user holds the name, as any can, and it is better to say so and to go on than to let
// users keep homenode from its work.
//
// The lock is an abstract unix socket (unix(7)): it leaves nothing behind, goes with the
// process however that ends, needs no folder that can be written, and the kernel says
// who has it. The name is of a network namespace: a container with one of its own does
// not notice a daemon on the host. Let it use the host's network, or the host's state
// folder, which has a lock too.
func LockHost() (io.Closer, error) { return lockHost(hostName) }

func lockHost(name string) (io.Closer, error) {
	for try := 0; ; try++ {
		l, err := net.Listen("unix", name)
		if err == nil {
			go answer(l)
			return l, nil
		}
		if errors.Is(err, unix.EADDRINUSE) {
			var who *unix.Ucred
			if who, err = listener(name); err == nil {
				return nil, &HostLockedError{int(who.Pid), who.Uid}
			}
		}
		// It ended between the two calls, or does not answer.
		if try == 10 || !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN) {
			return nil, fmt.Errorf("lock the host: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer accepts who asks whose the lock is, so that connections do not pile up.
func answer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // as when there are no descriptors left
		}
	}
}

// listener is the process that listens on a name.
func listener(name string) (*unix.Ucred, error) {
	c, err := net.DialTimeout("unix", name, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return who, errors.Join(err, failed)
}
