package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestKilledRunIsRestored: what a run has changed is written down before it changes; whoever comes next
// restores the setting, kills what runs, and removes the folder.
func TestKilledRunIsRestored(t *testing.T) {
	top := t.TempDir()
	setting, file := filepath.Join(top, "numa_balancing"), filepath.Join(top, "state.json")
	dir := filepath.Join(top, ours+"-1")
	for name, text := range map[string]string{setting: "1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &state{file: file, Run: "run-" + strconv.Itoa(os.Getpid()), Dir: dir}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if err := s.set(setting, "1"); err != nil || len(s.Kept) != 0 {
		t.Fatalf("a setting that has the value: %v, kept %v", err, s.Kept)
	}
	if err := s.set(setting, "0"); err != nil {
		t.Fatal(err)
	}
	if now, _ := readSetting(setting); now != "0" {
		t.Fatalf("it is %q", now)
	}
	if found, err := s.found(setting); err != nil || found != "1" {
		t.Fatalf("found %q, %v", found, err)
	}
	// A process of the run, and one that has another run's mark.
	start := func(run string) *exec.Cmd {
		c := exec.Command("sleep", "60")
		c.Env = append(os.Environ(), marker+run)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill() })
		return c
	}
	own, other := start(s.Run), start(s.Run+"x")
	go own.Wait()
	left, err := restoreLeft(file)
	if err != nil || !left {
		t.Fatalf("left %v, %v", left, err)
	}
	if now, _ := readSetting(setting); now != "1" {
		t.Errorf("the setting is %q", now)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
	time.Sleep(10 * time.Millisecond)
	if pids := marked(s.Run, dir); len(pids) != 0 {
		t.Errorf("processes %v are still there", pids)
	}
	if pids := marked(s.Run+"x", ""); len(pids) != 1 || pids[0] != other.Process.Pid {
		t.Errorf("the process of another run: %v", pids)
	}
	if left, err := restoreLeft(file); left || err != nil {
		t.Errorf("again: left %v, %v", left, err)
	}
}

// TestOneRun: two runs cannot go on at once.
func TestOneRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	if err := lock(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locked.Close(); locked = nil })
	if err := lock(file); err == nil || !strings.Contains(err.Error(), "another run is going on") {
		t.Error(err)
	}
}
