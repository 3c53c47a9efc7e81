package store

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostName is that of an abstract unix socket.
const hostName = "@homenode-enforce"

// hostFolder and hostFile are the lock file of a host.
const (
	hostFolder = "/run/homenode"
	hostFile   = "enforce.lock"
)

// HostLockedError names the daemon that has the lock of the host. It wraps ErrLocked.
type HostLockedError struct {
	PID int // 0 when it is not known, as in another PID namespace
}

func (e *HostLockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("PID %d", e.PID)
	}
	return who + " is a homenode that enforces on this host already; two would undo each other's work"
}

func (e *HostLockedError) Unwrap() error { return ErrLocked }

// HostLock is the lock of the one daemon that changes a host.
type HostLock struct {
	file *os.File     // nil where there is none
	name net.Listener // nil where another program has the name
	// Notice is why a second daemon might not be noticed; nil when it is.
	Notice error
}

// Close returns the lock.
func (l *HostLock) Close() (err error) {
	if l.name != nil {
		err = l.name.Close()
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// LockHost takes the lock of the one daemon that changes this host, whatever its state
// folder: two would take each other's values for those from before. The error is a
// HostLockedError: do not enforce.
//
// The lock is a flock(2) on a file in /run/homenode that only root can open, so that no user
// can take it. The kernel drops it with the process however that ends, and a file that is left
// means nothing. A container shares it when it has the host's /run/homenode, as
// packaging/kube does.
//
// A daemon that does not share it is noticed by the abstract unix socket (unix(7)) that each
// has as well, if they share the network namespace. Any user can bind that name, so it counts
// only when the kernel says that root did. Versions up to 0.1 have the name alone.
func LockHost() (*HostLock, error) { return lockHost(hostFolder, hostName) }

func lockHost(folder, name string) (*HostLock, error) {
	l := &HostLock{}
	var held *HostLockedError
	if os.Geteuid() == 0 {
		l.file, l.Notice = lockHostFile(folder)
		if errors.As(l.Notice, &held) {
			return nil, held
		}
	}
	var by *unix.Ucred
	var err error
	l.name, by, err = listenHost(name)
	switch {
	case err == nil:
		return l, nil
	case by != nil && by.Uid == 0:
		l.Close()
		return nil, &HostLockedError{int(by.Pid)}
	case by != nil:
		err = fmt.Errorf("PID %d of user %d has taken the name %s: end it", by.Pid, by.Uid, name)
	}
	if l.file != nil {
		err = fmt.Errorf("a second daemon with another %s would not be noticed: %w", folder, err)
	}
	l.Notice = errors.Join(l.Notice, err)
	return l, nil
}

// Enforcing returns the PID of the daemon that has signed the lock file of this host; 0 for none, or where
// it is not known. It takes no lock, so that a daemon that starts meanwhile is not refused.
func Enforcing() int { return enforcing(hostFolder) }

func enforcing(folder string) int {
	f, err := os.Open(filepath.Join(folder, hostFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	return holder(f)
}

// lockHostFile takes the lock file, which no other user may be able to open or to replace.
func lockHostFile(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	f, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if info, err := f.dir.Stat(); err != nil || info.Mode().Perm()&0o022 != 0 {
		return nil, errors.Join(err, &ForeignError{path, "can be written by other users"})
	}
	for {
		file, err := f.open(hostFile, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		current, err := f.lockCurrent(file)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if current {
			return file, nil
		}
		file.Close()
	}
}

// lockCurrent locks the file and signs it. It is false for a file that is not the one to lock:
// it was removed meanwhile, or other users can open it, who may have locked it, too.
func (f *folder) lockCurrent(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return false, f.remove(hostFile)
	}
	if err := f.flock(file, unix.LOCK_EX); err != nil {
		var held *LockedError
		if errors.As(err, &held) {
			err = &HostLockedError{held.PID}
		}
		return false, err
	}
	var there unix.Stat_t
	if err := unix.Fstatat(int(f.dir.Fd()), hostFile, &there, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		there.Ino != info.Sys().(*syscall.Stat_t).Ino {
		return false, nil
	}
	return true, sign(file)
}

// listenHost takes the name. by is the process that has it.
func listenHost(name string) (l net.Listener, by *unix.Ucred, err error) {
	for try := 0; ; try++ {
		l, err := net.Listen("unix", name)
		if err == nil {
			go answer(l)
			return l, nil, nil
		}
		if errors.Is(err, unix.EADDRINUSE) {
			var dialed error
			if by, dialed = listener(name); dialed == nil {
				return nil, by, err
			}
			err = dialed
		}
		// It ended between the two calls, or does not answer.
		if try == 10 || (!errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN)) {
			return nil, nil, fmt.Errorf("bind %s: %w", name, err)
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
	err = raw.Control(func(fd uintptr) {
		who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	})
	return who, errors.Join(err, failed)
}
