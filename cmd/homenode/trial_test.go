package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/host/process"
)

// livingTrial is a real daemon that has placed a real process, and a trial that switches it.
type livingTrial struct {
	*liveDaemon
	made    string
	pid     int
	at      string // its CPUs before homenode
	home    string // and by homenode
	out     string
	program *exec.Cmd
}

func startTrial(t *testing.T) *livingTrial {
	if os.Geteuid() != 0 {
		t.Skip("only root may start a process below another cgroup")
	}
	all, err := process.AffinityOf(0)
	if err != nil || all.Len() < 2 {
		t.Skipf("an affinity cannot differ on %v: %v", all, err)
	}
	l := &livingTrial{liveDaemon: startLive(t, t.TempDir(), "mode: enforce\nmanage: {min_age: 0s}\nbalance: {enabled: false}\n"), at: all.String(), out: filepath.Join(t.TempDir(), "out")}
	for _, text := range l.env {
		if made, ok := strings.CutPrefix(text, "MACHINE="); ok {
			l.made = made
		}
	}
	l.begin("sleeper", `ln -s /proc/$$ `+l.made+`/proc/ && echo $$ >>`+l.made+`/sys/fs/cgroup/user.slice/cgroup.procs && exec homenode run --name sleeper --class dedicated --cpus 1 --memory 1MiB --socket `+l.socket+` -- sleep 1000`)
	l.until("the process has a home", func() bool {
		for _, w := range l.status().Workloads {
			if w.Name == "sleeper" && len(w.Processes) > 0 {
				l.pid, l.home = w.Processes[0], l.cpus(w.Processes[0])
			}
		}
		return l.pid > 0 && l.home != l.at
	})
	return l
}

// begin starts a command that ends with the test.
func (l *livingTrial) begin(name, text string) {
	c := exec.Command("sh", "-c", text)
	c.Env = l.env
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	l.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
}

func (l *livingTrial) cpus(pid int) string {
	cpus, err := process.AffinityOf(pid)
	if err != nil {
		return err.Error()
	}
	return cpus.String()
}

func (l *livingTrial) status() (s api.Status) {
	out, _ := l.run("status", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		s.Workloads = nil
	}
	return s
}

// flags is a trial that takes seconds.
func (l *livingTrial) flags() []string {
	return []string{"trial", "--socket", l.socket, "--out", l.out, "--metric", "echo 1", "--guard", "metric:50", "--counters=false",
		"--period", "400ms", "--washout", "100ms", "--every", "100ms", "--blocks", "6", "--seed", "3"}
}

func (l *livingTrial) launch() {
	l.program = exec.Command("homenode", l.flags()...)
	l.program.Env = l.env
	if err := l.program.Start(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *livingTrial) kill() {
	if err := l.program.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	l.program.Wait()
}

func (l *livingTrial) document() *trial.Document {
	text, err := os.ReadFile(filepath.Join(l.out, "trial.json"))
	d := new(trial.Document)
	if err != nil || json.Unmarshal(text, d) != nil {
		return &trial.Document{}
	}
	return d
}

// finish runs the same command to its end, and checks that all is as before.
func (l *livingTrial) finish() {
	l.t.Helper()
	c := exec.Command("homenode", l.flags()...)
	c.Env = l.env
	if out, err := c.CombinedOutput(); err != nil {
		l.t.Fatalf("the trial does not go on: %v\n%s", err, out)
	}
	d := l.document()
	if d.State != trial.Done || d.Blocks() != 6 || len(d.Effects) != 1 || d.Effects[0].Verdict != trial.CannotTell {
		l.t.Errorf("state %s, %d blocks, effects %+v", d.State, d.Blocks(), d.Effects)
	}
	for _, name := range []string{"trial.html", "trial.md"} {
		if info, err := os.Stat(filepath.Join(l.out, name)); err != nil || info.Size() < 1000 || info.Mode().Perm() != 0o600 {
			l.t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if got := l.cpus(l.pid); got != l.home {
		l.t.Errorf("after the trial the process has the CPUs %s, want %s", got, l.home)
	}
	if s := l.status(); s.Trial != nil || s.Held {
		l.t.Errorf("after the trial: %+v, held %v", s.Trial, s.Held)
	}
}

// TestTrials: one after another, because a host has one enforcing daemon at a time. Other tests run
// meanwhile: most of the time of a trial is waiting.
func TestTrials(t *testing.T) {
	t.Parallel()
	t.Run("KilledTrial", killedTrial)
	t.Run("KilledDaemonInATrial", killedDaemonInATrial)
	t.Run("InterruptedTrial", interruptedTrial)
	t.Run("InterruptedTrialWithoutADaemon", interruptedTrialWithoutADaemon)
	t.Run("GuardStopsATrial", guardStopsATrial)
}

// killedTrial: whenever the program is killed, the daemon restores everything, and the same
// command goes on.
func killedTrial(t *testing.T) {
	l := startTrial(t)
	phases := []struct {
		name string
		is   func() bool
	}{
		{"before anything is switched", func() bool { return !l.document().Began.IsZero() }},
		{"in the first block", func() bool { return l.status().Trial != nil }},
		{"with the arm off", func() bool { return l.cpus(l.pid) == l.at }},
		{"with the arm on", func() bool { s := l.status(); return s.Trial != nil && s.Trial.Arm == trial.On && s.Trial.Block > 1 }},
		{"after a period", func() bool { return len(l.document().Periods)%2 == 1 }},
	}
	for _, phase := range phases {
		l.launch()
		l.until(phase.name, phase.is)
		l.kill()
		l.until(phase.name+": everything is restored", func() bool {
			s := l.status()
			return s.Mode == "enforce" && s.Trial == nil && !s.Held && l.cpus(l.pid) == l.home
		})
	}
	l.finish()
}

// killedDaemonInATrial: a daemon that is killed in the arm off leaves what it had undone, and
// the next one and the trial go on.
func killedDaemonInATrial(t *testing.T) {
	l := startTrial(t)
	l.launch()
	l.until("the arm off", func() bool { return l.cpus(l.pid) == l.at })
	l.process.Kill()
	<-l.ended
	c := exec.Command("homenode", "daemon", "--config", filepath.Join(l.dir, "homenode.yaml"), "--period", "200ms", "--state-dir", l.state, "--socket", l.socket)
	c.Env = l.env
	log, err := os.OpenFile(l.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	l.process, l.ended = c.Process, make(chan struct{})
	go func() { c.Wait(); close(l.ended) }()
	if err := l.program.Wait(); err != nil {
		t.Fatalf("the trial did not get through: %v; %s", err, l.said())
	}
	if d := l.document(); d.State != trial.Done || d.Blocks() != 6 {
		t.Errorf("state %s, %d blocks", d.State, d.Blocks())
	}
	l.until("everything is restored", func() bool { return l.status().Trial == nil && l.cpus(l.pid) == l.home })
}

// interruptedTrial: Ctrl-C restores everything before the program ends, and an order of a person
// ends a trial.
func interruptedTrial(t *testing.T) {
	l := startTrial(t)
	l.launch()
	l.until("the arm off", func() bool { return l.cpus(l.pid) == l.at })
	l.program.Process.Signal(os.Interrupt)
	if err := l.program.Wait(); l.program.ProcessState.ExitCode() != 3 {
		t.Errorf("interrupted: %v", err)
	}
	if s := l.status(); s.Trial != nil || s.Held || l.document().State != trial.Running {
		t.Errorf("after Ctrl-C: %+v, held %v, document %s", s.Trial, s.Held, l.document().State)
	}
	l.until("everything is restored", func() bool { return l.cpus(l.pid) == l.home })

	l.launch()
	l.until("the arm off", func() bool { return l.cpus(l.pid) == l.at })
	if out, code := l.run("resume", "--all"); code != 0 {
		t.Errorf("resume: %s", out)
	}
	if err := l.program.Wait(); l.program.ProcessState.ExitCode() != 1 {
		t.Errorf("ended by an order: %v", err)
	}
	if d := l.document(); d.State != trial.Stopped || !strings.Contains(d.Why, "homenode resume everything") {
		t.Errorf("state %s, why %q", d.State, d.Why)
	}
	l.until("everything is restored", func() bool { return l.cpus(l.pid) == l.home })
}

// interruptedTrialWithoutADaemon: a program that gets SIGTERM while no daemon answers, as when the machine shuts
// down, does not print that everything is restored, and does not wait for a daemon until systemd kills it.
func interruptedTrialWithoutADaemon(t *testing.T) {
	l := startTrial(t)
	c := exec.Command("homenode", l.flags()...)
	var said bytes.Buffer
	c.Env, c.Stderr = l.env, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	l.until("the arm off", func() bool { return l.cpus(l.pid) == l.at })
	l.process.Kill()
	<-l.ended
	c.Process.Signal(syscall.SIGTERM)
	c.Wait()
	text := said.String()
	if code := c.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit status %d: %s", code, text)
	}
	if !strings.Contains(text, "5 s after it is back, and the same command goes on") {
		t.Errorf("%s", text)
	}
	if strings.Contains(text, "everything is restored") {
		t.Errorf("not everything is: %s", text)
	}
	if d := l.document(); d.State != trial.Running {
		t.Errorf("state %s", d.State)
	}
}

// guardStopsATrial: an arm that makes a metric worse does not go on.
func guardStopsATrial(t *testing.T) {
	l := startTrial(t)
	// The metric is worse while the process may use all CPUs.
	script := fmt.Sprintf(`case $(taskset -cp %d) in *" %s") echo 10;; *) echo 1;; esac`, l.pid, topologyTail(l.at))
	c := exec.Command("homenode", "trial", "--socket", l.socket, "--out", l.out, "--metric", "ms="+script, "--lower", "ms", "--guard", "ms:100", "--period", "1s", "--washout", "0s", "--every", "50ms", "--blocks", "50", "--seed", "3")
	c.Env = l.env
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	d := l.document()
	if d.State != trial.Stopped || !strings.Contains(d.Why, "ms was 1 before and 10 with the arm off, more than 100 % worse") {
		t.Errorf("state %s, why %q", d.State, d.Why)
	}
	l.until("everything is restored", func() bool { return l.status().Trial == nil && l.cpus(l.pid) == l.home })
}

func topologyTail(cpus string) string {
	set, err := topology.ParseCPUSet(cpus)
	if err != nil {
		return cpus
	}
	if set.Len() == 2 { // taskset writes 0,1
		return strings.ReplaceAll(set.String(), "-", ",")
	}
	return set.String()
}
