package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// R13: a second daemon on a host, with a state folder of its own, is refused, and told
// who is there; when that one is killed, the next has the lock.
func TestOneDaemonPerHost(t *testing.T) {
	name := fmt.Sprintf("@homenode-test-%d", os.Getpid())
	t.Setenv("STORE_TEST_NAME", name)
	c, lines := child(t, "lock host", "")
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("child: %q", lines.Text())
	}
	for range 300 { // asking leaves nothing behind that fills up
		_, err := lockHost(name)
		var held *HostLockedError
		if !errors.As(err, &held) || held.PID != c.Process.Pid || held.UID != uint32(os.Geteuid()) || !strings.Contains(err.Error(), fmt.Sprint(c.Process.Pid)) {
			t.Fatalf("%v, want PID %d", err, c.Process.Pid)
		}
	}
	c.Process.Kill()
	c.Wait()
	l, err := lockHost(name)
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if _, err := lockHost(name); err == nil {
		t.Error("locked twice")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l, err = lockHost(name); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A name that is taken but does not answer, as that of a process that is just ending,
// is waited for, and not for long.
func TestNameThatDoesNotAnswer(t *testing.T) {
	name := fmt.Sprintf("@homenode-test-deaf-%d", os.Getpid())
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockHost(name); !errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { unix.Close(fd) })
	l, err := lockHost(name)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A user who takes the name is no daemon: it does not count as one.
func TestNameTakenByAUser(t *testing.T) {
	if err := error(&HostLockedError{PID: 7, UID: 1000}); errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "PID 7 of user 1000") {
		t.Error(err)
	}
	if err := error(&HostLockedError{PID: 7}); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
}
