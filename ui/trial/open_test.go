package trial

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/workload"
)

// TestOpensNoDevice: a pipe or device in the place of a metric's file is not even opened. To open some devices does
// something: a watchdog begins to run, a tape rewinds.
func TestOpensNoDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p99")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	s := OfGoal(&workload.Goal{From: workload.FromFile, Text: path}, "")
	if _, _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a pipe: %v", err)
	}
	if n, err := unix.Read(watch, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("it was opened: %d bytes of events, %v", n, err)
	}
}

// TestLinksOfOthers: a link leads only to files of the user who made it: the number of a file that they may not read
// would stand in status. Links of root lead everywhere.
func TestLinksOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives links to other users")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	file := func(name string, uid int) {
		made := os.MkdirAll(filepath.Dir(at(name)), 0o755)
		written := os.WriteFile(at(name), []byte("42\n"), 0o600)
		if err := errors.Join(made, written, os.Chown(at(name), uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string, uid int) {
		if err := errors.Join(os.Symlink(to, at(name)), os.Lchown(at(name), uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	file("etc/secret", 0)
	file("home/own", 1000)
	link("home/mine", "own", 1000)
	link("home/secret", at("etc/secret"), 1000)
	link("home/up", "../etc/./secret", 1000)
	link("home/etc", "../etc", 1000)
	link("log", "home/secret", 0)
	link("current", "etc/secret", 0)
	link("theirs", at("home"), 0)
	link("loop", "loop", 0)
	for name, want := range map[string]string{
		"home/own": "", "home/mine": "", "current": "", "theirs/own": "", "theirs/../home/mine": "",
		"home/secret": "link", "home/up": "link", "home/etc/secret": "link", "log": "link", "theirs/secret": "link",
		"loop": "too many", "none": "no such file", "etc": "is not a file",
	} {
		s := OfGoal(&workload.Goal{From: workload.FromFile, Text: at(name)}, "")
		x, ok, err := s.Read(t.Context())
		if want == "" && (err != nil || !ok || x != 42) {
			t.Errorf("%s: %v, %t, %v", name, x, ok, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
	}
	t.Chdir(at("home"))
	s := &File{Path: "mine", Pattern: anyNumber()}
	if x, ok, err := s.Read(t.Context()); err != nil || !ok || x != 42 {
		t.Errorf("a relative path: %v, %t, %v", x, ok, err)
	}
}

// TestHugeNumbers: numbers so large that their sum or square is infinite are refused. A trial cannot keep such a
// mean, and would end.
func TestHugeNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s := &File{Path: path, Pattern: anyNumber()}
	for i, text := range []string{"1\n", "1\n2e300\n", "1\n2e300\n1e308\n1e308\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		x, _, err := s.Read(t.Context())
		if math.IsInf(x*x, 0) || (i > 0 && err == nil) {
			t.Errorf("%q: %v, %v", text, x, err)
		}
	}
	c := &Command{Text: fmt.Sprint("echo ", math.MaxFloat64), Within: 8 * time.Second}
	if x, _, err := c.Read(t.Context()); err == nil {
		t.Errorf("a command: %v", x)
	}
}
