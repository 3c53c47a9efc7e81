package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// liveDaemon is a real daemon and where it is asked.
type liveDaemon struct {
	t        *testing.T
	env      []string
	dir      string // which other users reach, with the program in it
	socket   string
	state    string
	process  *os.Process
	ended    chan struct{}
	log      string // the file it writes
	lastTold string
}

// startLive starts one on the made machine, and waits until it has looked. It ends with the
// test.
func startLive(t *testing.T, state, config string) *liveDaemon {
	t.Helper()
	made := madeMachine(t)
	dir, err := openFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &liveDaemon{t: t, dir: dir, socket: filepath.Join(dir, "sock"), state: state, ended: make(chan struct{}), log: filepath.Join(dir, "log")}
	d.env = append(os.Environ(), "MACHINE="+made, "HOME="+dir, "XDG_STATE_HOME="+dir+"/own", "XDG_RUNTIME_DIR="+dir+"/run",
		"DBUS_SYSTEM_BUS_ADDRESS=unix:path="+dir+"/no-bus")
	file := filepath.Join(dir, "homenode.yaml")
	log, err := os.Create(d.log)
	if err := errors.Join(err, os.WriteFile(file, []byte(config), 0o644)); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command("homenode", "daemon", "--config", file, "--period", "200ms", "--state-dir", state, "--socket", d.socket)
	c.Env, c.Stdout, c.Stderr = d.env, log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	d.process = c.Process
	go func() { c.Wait(); close(d.ended) }()
	t.Cleanup(func() {
		d.process.Kill()
		<-d.ended
		if t.Failed() {
			t.Logf("the daemon said:\n%s", d.said())
		}
	})
	d.until("the daemon answers", func() bool {
		out, code := d.run("status", "--json")
		return code == 0 && strings.Contains(out, `"name": "db"`) && strings.Contains(out, `"goroutines"`)
	})
	return d
}

func (d *liveDaemon) said() string {
	text, _ := os.ReadFile(d.log)
	return string(text)
}

// run runs a command, with the daemon's socket, and returns all that it said with its exit
// status.
func (d *liveDaemon) run(args ...string) (string, int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), answerWithin)
	defer cancel()
	if args[0] != "replay" { // which asks no daemon
		args = append([]string{"--socket", d.socket}, args...)
	}
	c := exec.CommandContext(ctx, "homenode", args...)
	c.Env = d.env
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		d.t.Fatalf("homenode %s: no end within %v", strings.Join(args, " "), answerWithin)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	d.lastTold = fmt.Sprintf("homenode %s: exit status %d: %s", strings.Join(args, " "), c.ProcessState.ExitCode(), out)
	return string(out), c.ProcessState.ExitCode()
}

// until waits for what the daemon is about to do.
func (d *liveDaemon) until(what string, is func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), answerWithin)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			d.t.Fatalf("%s: not within %v; last %s", what, answerWithin, d.lastTold)
		case <-d.ended:
			d.t.Fatalf("%s: the daemon has ended", what)
		default:
			pause()
		}
	}
}

// TestFullDisk: with no room in its state folder a daemon goes on looking and answering, says
// so in a line, and is as before when room comes back.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the thread ends with the test, and the mount with it
	disk := t.TempDir()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skipf("a mount namespace of its own: %v", err)
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", disk, "tmpfs", 0, "size=2m")
	}
	if err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	state := filepath.Join(disk, "state")
	d := startLive(t, state, "")
	t.Cleanup(func() { d.process.Kill(); <-d.ended; unix.Unmount(disk, 0) })

	filler := filepath.Join(disk, "filler")
	fill := func() {
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	fill()
	oneLine := func(out string, code int, words ...string) {
		t.Helper()
		for _, w := range append(words, "no space left on device") {
			if !strings.Contains(out, w) {
				t.Errorf("want %q: %s", w, d.lastTold)
			}
		}
		if code != 3 || strings.Count(out, "\n") != 1 {
			t.Errorf("want one line and exit status 3: %s", d.lastTold)
		}
	}
	d.until("a change is refused", func() bool {
		out, code := d.run("undo", "db")
		if code == 0 { // there was room in a page
			fill()
			d.run("resume", "db")
			return false
		}
		oneLine(out, code, "cannot be written down")
		return true
	})
	for range 3 {
		fill()
		out, code := d.run("host", "partition", "shared")
		oneLine(out, code, "cannot be written down")
	}
	out, code := d.run("run", "--strict", "--cpus", "1", "--", "echo", "here")
	oneLine(out, code, "--strict: its home cannot be written down")
	if out, code := d.run("run", "--cpus", "1", "--", "echo", "here"); code != 0 || !strings.HasSuffix(out, "\nhere\n") || strings.Count(out, "\n") != 2 {
		t.Errorf("started without the daemon: %s", d.lastTold)
	}
	const refused = "the state folder cannot be written, so nothing is changed until it can: "
	if out, code := d.run("status"); code != 0 || strings.Count(out, refused) != 1 {
		t.Errorf("want it told: %s", d.lastTold)
	}
	looked := ""
	for range 3 { // it goes on
		last := looked
		d.until("the next look", func() bool {
			out, code := d.run("status", "--json")
			_, out, _ = strings.Cut(out, `"time": `)
			looked, _, _ = strings.Cut(out, ",")
			return code == 0 && looked != last
		})
	}
	d.until("the flight recorder has tried", func() bool { return strings.Contains(d.said(), `msg="flight recorder"`) })
	if n, m := strings.Count(d.said(), `msg="write state"`), strings.Count(d.said(), `msg="flight recorder"`); n != 1 || m != 1 {
		t.Errorf("that the disk is full is told %d times by the daemon, %d times by its flight recorder; want once each", n, m)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, code := d.run("resume", "--all"); code != 0 {
		t.Errorf("with room again: %s", d.lastTold)
	}
	if out, code := d.run("status"); code != 0 || strings.Contains(out, refused) {
		t.Errorf("with room again: %s", d.lastTold)
	}
	d.until("the flight recorder writes again", func() bool { return strings.Contains(d.said(), "the flight recorder writes again") })
	d.process.Signal(syscall.SIGTERM)
	<-d.ended
	for _, want := range []string{"started in observe mode", "root asked to undo /system.slice/db.service", "homenode stopped"} {
		if out, _ := d.run("history", "--limit", "0", "--state-dir", state); !strings.Contains(out, want) {
			t.Errorf("the history lacks %q: %s", want, d.lastTold)
		}
	}
	if out, code := d.run("replay", filepath.Join(state, "flight")); code != 0 || !strings.Contains(out, "all decided as recorded") {
		t.Errorf("%s", d.lastTold)
	}
}
