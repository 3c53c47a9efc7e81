package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNotify: systemd learns of a reload and then that the daemon is ready again, and of a stop only when the
// daemon stops for good. A stop that is said during a reload has systemd kill the daemon after TimeoutStopSec.
func TestNotify(t *testing.T) {
	made := madeMachine(t)
	dir, err := os.MkdirTemp("", "hn") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	file := filepath.Join(dir, "homenode.yaml")
	if err := os.WriteFile(file, []byte("period: 300ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon := &exec.Cmd{
		Path: program, Args: []string{"homenode", "daemon", "--config", file, "--state-dir", filepath.Join(dir, "st"), "--socket", filepath.Join(dir, "sock")},
		Env: append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "MACHINE="+made, "HOME="+dir, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+dir+"/no-bus"),
	}
	var said strings.Builder
	daemon.Stderr = &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill() }()
	// until returns what was heard before a message that begins with want.
	until := func(want string) (before []string) {
		t.Helper()
		if err := heard.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		for {
			n, err := heard.Read(b)
			if err != nil {
				t.Fatalf("no %s after %q: %v\n%s", want, before, err, said.String())
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return before
			}
			before = append(before, string(b[:n]))
		}
	}
	stops := func(heard []string) bool { return strings.Contains(strings.Join(heard, " "), "STOPPING=1") }
	until("READY=1")
	if err := os.WriteFile(file, []byte("period: 400ms\n"), 0o644); err != nil { // a reload without a change does nothing
		t.Fatal(err)
	}
	if err := daemon.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if before := until("RELOADING=1"); stops(before) {
		t.Errorf("a reload was announced as a stop: %q", before)
	}
	if before := until("READY=1"); stops(before) {
		t.Errorf("a reload was announced as a stop: %q", before)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", daemon.Process.Pid)); err != nil || string(name) != "homenode\n" {
		t.Errorf("its name is %q: %v", name, err)
	}
	// Any number of hangups while one program takes the place of the other.
	if err := os.WriteFile(file, []byte("period: 500ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ready:
				return
			case <-time.After(time.Millisecond):
				_ = daemon.Process.Signal(syscall.SIGHUP)
			}
		}
	}()
	until("RELOADING=1")
	until("READY=1")
	close(ready)
	<-done
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until("STOPPING=1")
	if err := daemon.Wait(); err != nil {
		t.Errorf("the daemon ended with %v\n%s", err, said.String())
	}
}
