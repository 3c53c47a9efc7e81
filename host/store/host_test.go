package store

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostForTest is a lock file's folder and a name that no other test has. The daemons of a host
// are root's.
func hostForTest(t *testing.T) (folder, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	folder, name = filepath.Join(t.TempDir(), "run"), fmt.Sprintf("@homenode-test-%d-%s", os.Getpid(), t.Name())
	t.Setenv("STORE_TEST_NAME", name)
	return folder, name
}

// R13: a second daemon on a host, with a state folder of its own, is refused, and told
// who is there; when that one is killed, the next has the lock.
func TestOneDaemonPerHost(t *testing.T) {
	folder, name := hostForTest(t)
	c, lines := child(t, "lock host", folder)
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("child: %q", lines.Text())
	}
	refused := func(folder, name string) {
		t.Helper()
		_, err := lockHost(folder, name)
		var held *HostLockedError
		if !errors.As(err, &held) || !errors.Is(err, ErrLocked) || held.PID != c.Process.Pid || !strings.Contains(err.Error(), fmt.Sprint(c.Process.Pid)) {
			t.Fatalf("%v, want PID %d", err, c.Process.Pid)
		}
	}
	for range 300 { // asking leaves nothing behind that fills up
		refused(t.TempDir(), name) // as in a container that does not share the folder
	}
	refused(folder, name+"-other") // in another network namespace
	refused(folder, name)
	c.Process.Kill()
	c.Wait()
	l, err := lockHost(folder, name)
	if err != nil || l.Notice != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if _, err := lockHost(folder, name); err == nil {
		t.Error("locked twice")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l, err = lockHost(folder, name); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A daemon of an older version has the name alone.
func TestOlderDaemonIsNoticed(t *testing.T) {
	folder, name := hostForTest(t)
	older, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	if _, err := lockHost(folder, name); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
}

// takeHost is what a user tries: the name, and each way to the lock file.
func takeHost(folder, name string) {
	if _, err := net.Listen("unix", name); err != nil {
		fmt.Println("name:", err)
	}
	path := filepath.Join(folder, hostFile)
	for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		f, err := os.OpenFile(path, flags, 0o600)
		if err == nil {
			fmt.Println("opened:", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		}
	}
	if os.Remove(path) == nil || os.Rename(folder, folder+"-away") == nil || os.WriteFile(folder+"/x", nil, 0o600) == nil {
		fmt.Println("removed")
	}
	fmt.Println("tried")
}

// An ordinary user has the name, and cannot take the file: one daemon of root enforces all the
// same, and a second one does not, whether the user came before or after.
func TestUserCannotTakeTheHost(t *testing.T) {
	folder, name := hostForTest(t)
	for dir := filepath.Dir(folder); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(folder), "program")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := lockHost(folder, name) // a first daemon: the folder is there
	if err != nil {
		t.Fatal(err)
	}
	l.name.Close() // for the user
	c := exec.Command(program)
	c.Env = append(os.Environ(), "STORE_TEST_CHILD=take host", "STORE_TEST_DIR="+folder)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "tried" {
		t.Fatalf("user: %q", lines.Text())
	}
	if _, err := lockHost(folder, name); !errors.Is(err, ErrLocked) {
		t.Errorf("second daemon beside a user who has the name: %v", err)
	}
	l.Close()
	if l, err = lockHost(folder, name); err != nil {
		t.Fatalf("daemon that starts when a user has the name: %v", err)
	}
	defer l.Close()
	if l.file == nil || l.Notice == nil || !strings.Contains(l.Notice.Error(), fmt.Sprintf("PID %d of user 65534", c.Process.Pid)) {
		t.Errorf("notice: %v", l.Notice)
	}
	if _, err := lockHost(folder, name); !errors.Is(err, ErrLocked) {
		t.Errorf("second daemon: %v", err)
	}
}

// A file or folder that users could open, replace or have put a link into is not believed, and
// what a dead daemon has left is no lock.
func TestHostFileIsRoots(t *testing.T) {
	_, name := hostForTest(t)
	for _, tt := range []struct {
		what string
		make func(folder string) error
		file bool // whether the lock is taken
	}{
		{"left by a dead daemon", func(d string) error { return os.WriteFile(filepath.Join(d, hostFile), []byte("1 1\n"), 0o600) }, true},
		{"readable by others", func(d string) error { return os.WriteFile(filepath.Join(d, hostFile), nil, 0o644) }, true},
		{"a link", func(d string) error { return os.Symlink("/etc/hostname", filepath.Join(d, hostFile)) }, false},
		{"a folder of a user", func(d string) error { return os.Chown(d, 65534, 65534) }, false},
		{"a folder that others write to", func(d string) error { return os.Chmod(d, 0o777) }, false},
		{"a file of a user", func(d string) error {
			path := filepath.Join(d, hostFile)
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65534))
		}, false},
		{"a pipe", func(d string) error { return unix.Mkfifo(filepath.Join(d, hostFile), 0o600) }, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			folder := t.TempDir()
			if err := errors.Join(os.Chmod(folder, 0o755), tt.make(folder)); err != nil {
				t.Fatal(err)
			}
			l, err := lockHost(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if got := l.file != nil; got != tt.file || got != (l.Notice == nil) {
				t.Errorf("file locked: %t, notice: %v", got, l.Notice)
			}
			if _, err := lockHost(folder, name); !errors.Is(err, ErrLocked) {
				t.Errorf("second daemon: %v", err)
			}
		})
	}
}

// A user may open the file only while it is readable, and lock it then: it is made anew.
func TestHostFileLockedByAUser(t *testing.T) {
	folder, name := hostForTest(t)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, hostFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := lockHost(folder, name)
	if err != nil || l.file == nil {
		t.Fatal(err)
	}
	l.Close()
}

// A name that is taken but does not answer, as that of a process that is just ending,
// is waited for, and not for long.
func TestNameThatDoesNotAnswer(t *testing.T) {
	folder, name := hostForTest(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := lockHost(folder, name)
	if err != nil || !errors.Is(l.Notice, unix.ECONNREFUSED) {
		t.Errorf("%v, notice %v", err, l.Notice)
	}
	l.Close()
	time.AfterFunc(20*time.Millisecond, func() { unix.Close(fd) })
	if l, err = lockHost(folder, name); err != nil || l.Notice != nil {
		t.Fatalf("%v, notice %v", err, l.Notice)
	}
	l.Close()
}

// TestEnforcing: the daemon of the lock file is found without its lock; a PID that another process has now is none.
func TestEnforcing(t *testing.T) {
	folder, self := t.TempDir(), os.Getpid()
	if got := enforcing(folder); got != 0 {
		t.Errorf("without a lock file: %d", got)
	}
	for text, want := range map[string]int{"": 0, "x": 0, fmt.Sprintf("%d %s\n", self, startOf(self)): self, fmt.Sprintf("%d 1%s\n", self, startOf(self)): 0, "4194305 1\n": 0} {
		if err := os.WriteFile(filepath.Join(folder, hostFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := enforcing(folder); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
