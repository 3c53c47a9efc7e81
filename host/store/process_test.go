package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

// TestMain is also the child process of the tests below.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("STORE_TEST_DIR"); os.Getenv("STORE_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "hold":
		s, err := Open(dir)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("open")
		time.Sleep(time.Hour)
		s.Close()
	case "write":
		writeForever(dir)
	case "read":
		readEach()
	case "lock host":
		if _, err := lockHost(dir, os.Getenv("STORE_TEST_NAME")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		time.Sleep(time.Hour)
	case "take host":
		takeHost(dir, os.Getenv("STORE_TEST_NAME"))
		time.Sleep(time.Hour)
	case "undo on a full disk":
		signal.Ignore(unix.SIGXFSZ)
		err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{})
		var s *Store
		if err == nil {
			s, err = OpenForUndo(dir)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		journal, err := s.Journal()
		fmt.Println(errors.Join(err, fmt.Errorf("%s, %w", journal[0].Old, s.Commit(plan.Batch{Values: map[string]any{"a": 1}}))))
	}
}

// writeForever journals and restores without end and prints each state that is
// durable.
func writeForever(dir string) {
	s, err := Open(dir)
	for i := 0; err == nil; i++ {
		entries := make([]plan.Entry, 2)
		for k := range entries {
			entries[k] = plan.Entry{Seq: uint64(2*i + k + 1), Path: fmt.Sprint("/", i), State: plan.Intended}
		}
		err = s.Commit(plan.Batch{Entries: entries})
		if err == nil {
			fmt.Println("intended", i)
			err = s.Commit(plan.Batch{Events: []plan.Event{{Seq: uint64(i + 1), Text: strings.Repeat("x", i%2000)}}})
		}
		if err == nil && i%3 == 0 {
			entries[0].State, entries[1].State = plan.Restored, plan.Gone
			if err = s.Commit(plan.Batch{Entries: entries}); err == nil {
				fmt.Println("restored", i)
			}
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func child(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return childWith(t, what, dir, nil)
}

func childWith(t *testing.T, what, dir string, in io.Reader) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "STORE_TEST_CHILD="+what, "STORE_TEST_DIR="+dir)
	c.Stdin = in
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return c, lines
}

func TestSecondOpenerIsToldWho(t *testing.T) {
	dir := t.TempDir()
	c, lines := child(t, "hold", dir)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("child: %q", lines.Text())
	}
	for name, open := range map[string]func(string) (*Store, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
		began := time.Now()
		_, err := open(dir)
		took := time.Since(began)
		var locked *LockedError
		if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || locked.PID != c.Process.Pid ||
			!strings.Contains(err.Error(), fmt.Sprint(c.Process.Pid)) {
			t.Errorf("%s: %v, want PID %d", name, err, c.Process.Pid)
		}
		// 200 ms is what is promised; the rest is for a loaded machine.
		if took > time.Second {
			t.Errorf("%s took %v", name, took)
		}
		t.Logf("%s: %v after %v", name, err, took)
	}
	c.Process.Kill()
	c.Wait()
	s, err := Open(dir)
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	s.Close()
}

// A reader's lock stands over what a daemon long gone wrote into the file: its PID may
// be another process by now.
func TestDeadHolderIsNotNamed(t *testing.T) {
	dir := t.TempDir()
	opened(t, dir).Close()
	for _, text := range []string{"", "junk", "1", "4000000 77\n", fmt.Sprintf("%d 77\n", os.Getpid())} {
		if err := os.WriteFile(filepath.Join(dir, lockName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReadOnly(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir)
		var locked *LockedError
		if !errors.As(err, &locked) || locked.PID != 0 || strings.Contains(err.Error(), "PID") {
			t.Errorf("%q: %v", text, err)
		}
		r.Close()
	}
}

func TestReaderKeepsDaemonOutOnlyWhileItReads(t *testing.T) {
	dir := t.TempDir()
	opened(t, dir).Close()
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	r2, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatalf("a second reader: %v", err)
	}
	r2.Close()
	time.AfterFunc(30*time.Millisecond, func() { r.Close() })
	s, err := Open(dir)
	if err != nil {
		t.Fatalf("daemon started while a status was read: %v", err)
	}
	s.Close()
}

// What was said to be durable is there after kill -9, and nothing half.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var intended, restored = map[string]bool{}, map[string]bool{}
	for round := range 4 {
		sub := fmt.Sprintf("%s/%d", dir, round)
		c, lines := child(t, "write", sub)
		clear(intended)
		clear(restored)
		time.AfterFunc(time.Duration(150+97*round)*time.Millisecond, func() { c.Process.Kill() })
		for lines.Scan() {
			what, i, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "intended":
				intended["/"+i] = true
			case "restored":
				restored["/"+i] = true
			default:
				t.Fatalf("child: %s", lines.Text())
			}
		}
		c.Wait()
		s, err := Open(sub)
		if err != nil {
			t.Fatal(err)
		}
		journal, err := s.Journal()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for i, e := range journal {
			found[e.Path]++
			if i > 0 && e.Seq <= journal[i-1].Seq {
				t.Errorf("out of order: %+v", e)
			}
		}
		for path, n := range found {
			if n != 2 {
				t.Errorf("half a transaction: %s %d times", path, n)
			}
			if restored[path] {
				t.Errorf("%s is live after its restore was durable", path)
			}
		}
		lost := 0
		for path := range intended {
			if found[path] == 0 && !restored[path] {
				lost++
			}
		}
		// The last one may have been restored with the line not yet printed.
		if lost > 1 {
			t.Errorf("%d entries lost", lost)
		}
		t.Logf("killed after %d entries, %d of them restored; %d live", len(intended), len(restored), len(journal))
		s.Close()
	}
}
