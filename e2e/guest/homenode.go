//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// self and homenodeBin are this program and the one under test.
var self, homenodeBin = programs()

func programs() (self, homenode string) {
	if onDisk() {
		return "/e2e/guest", "/e2e/homenode"
	}
	return "/init", "/bin/homenode"
}

const (
	socketPath  = workFolder + "/homenode.sock"
	stateFolder = workFolder + "/state"
	configPath  = workFolder + "/config.yaml"
)

// Exit statuses of homenode's command line.
const (
	exitOK        = 0
	exitNo        = 1
	exitUsage     = 2
	exitForbidden = 3
	exitNotFound  = 127
)

// daemonOptions is what tests vary. The rest is the same for all: small enough
// thresholds for the walkers, and the tests' own process left out, because it
// would be moved about like any other.
type daemonOptions struct {
	mode      string
	bandwidth string // default 1GiB: the emulated guest is the limit
	restore   bool   // restore_on_stop
	exclude   string // one more pattern to leave alone
	balance   bool   // change homes that hold; off, because walkers keep CPUs busy and tests wait for homes to stay
	cooldown  string // of balancing; default 1m
	memory    string // manage.min_memory; default 16MiB
	minAge    string // manage.min_age; default 0s, so that nothing waits for it
	period    string // of the looks; default 1s
	socket    string
	state     string
	extra     string   // further lines of the configuration
	wrap      []string // words before the command: run it through a helper of this program
}

// daemon is a running homenode daemon.
type daemon struct {
	cmd    *exec.Cmd
	socket string
	done   chan struct{}
	exit   int
	mu     sync.Mutex
	log    bytes.Buffer
}

func (d *daemon) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(b)
}

func (d *daemon) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.TrimSpace(d.log.String())
}

// launchDaemon starts one and does not wait for anything.
func (t *T) launchDaemon(o daemonOptions) *daemon {
	if o.bandwidth == "" {
		o.bandwidth = "1GiB"
	}
	if o.cooldown == "" {
		o.cooldown = "1m"
	}
	if o.memory == "" {
		o.memory = "16MiB"
	}
	if o.minAge == "" {
		o.minAge = "0s"
	}
	if o.period == "" {
		o.period = "1s"
	}
	if o.socket == "" {
		o.socket = socketPath
	}
	if o.state == "" {
		o.state = stateFolder
	}
	exclude := "[init, homenode]"
	if o.exclude != "" {
		exclude = "[init, homenode, " + o.exclude + "]"
	}
	config := fmt.Sprintf("manage: {min_memory: %s, min_cpu: 0.9, min_age: %s, exclude: %s}\nmove: {bandwidth: %s}\nrestore_on_stop: %v\nbalance: {enabled: %v, cooldown: %s}\n",
		o.memory, o.minAge, exclude, o.bandwidth, o.restore, o.balance, o.cooldown) + o.extra
	t.Do(os.WriteFile(configPath, []byte(config), 0o644))
	argv := append(o.wrap, homenodeBin, "daemon", "--mode", o.mode, "--config", configPath,
		"--state-dir", o.state, "--socket", o.socket, "--period", o.period)
	d := &daemon{cmd: exec.Command(argv[0], argv[1:]...), socket: o.socket, done: make(chan struct{})}
	d.cmd.Stderr, d.cmd.Stdout = d, d
	t.Do(d.cmd.Start())
	go func() {
		d.cmd.Wait()
		d.exit = d.cmd.ProcessState.ExitCode()
		close(d.done)
	}()
	t.OnFailure(func() { t.logLines("daemon", d.text(), 20) })
	if len(t.autopsy) == 1 {
		t.OnFailure(t.logHomenode)
	}
	t.Defer(func() {
		d.cmd.Process.Kill()
		<-d.done
	})
	return d
}

// startDaemon starts one and waits until it answers.
func (t *T) startDaemon(o daemonOptions) *daemon {
	d := t.launchDaemon(o)
	t.Until(30*time.Second, "the daemon answers", func() (bool, string) {
		if d.ended() {
			t.Fatalf("the daemon ended with status %d: %s", d.exit, d.text())
		}
		// The socket is named: without one, homenode answers by itself where no daemon listens yet.
		r := capture([]string{homenodeBin, "--socket", d.socket, "status", "--json"}, "status --json")
		return r.exit == exitOK && strings.Contains(r.out, `"schema"`), r.String()
	})
	return d
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// stop asks it to end and waits; the exit status must be 0.
func (t *T) stop(d *daemon) {
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("the daemon still runs 30 s after SIGTERM: %s", d.text())
	}
	if d.exit != exitOK {
		t.Fatalf("the daemon ended with status %d after SIGTERM: %s", d.exit, d.text())
	}
}

func (d *daemon) kill9() {
	d.cmd.Process.Kill()
	<-d.done
}

// alive fails the test when the daemon has gone.
func (t *T) alive(d *daemon) {
	if d.ended() {
		t.Fatalf("the daemon ended with status %d: %s", d.exit, d.text())
	}
}

// result is what a command did.
type result struct {
	args     string
	out, err string
	exit     int
}

func (r result) String() string {
	return fmt.Sprintf("homenode %s: exit status %d, said %q and %q", r.args, r.exit, cut(r.out), cut(r.err))
}

func cut(s string) string {
	if s = strings.TrimSpace(s); len(s) > 400 {
		s = s[:400] + "…"
	}
	return s
}

// homenode runs a command against the usual socket and state folder.
func homenode(args ...string) result { return homenodeVia(nil, args...) }

// usualSocket names the usual socket to a command, if a daemon listens there: where none does, who
// names it is refused, and none is at the default one.
func usualSocket() []string {
	c, err := net.Dial("unix", socketPath)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		c.Close()
	}
	return []string{"--socket", socketPath}
}

// homenodeVia runs it through a helper, such as this program's as-nobody.
func homenodeVia(wrap []string, args ...string) result {
	command := args[0]
	argv := append(append([]string{}, wrap...), homenodeBin)
	if command != "replay" && !(command == "host" && args[1] == "report") { // which ask no daemon
		argv = append(argv, usualSocket()...)
	}
	argv = append(argv, args...)
	switch command {
	case "history", "undo", "resume", "explain", "move":
		argv = append(argv, "--state-dir", stateFolder)
	}
	return capture(argv, strings.Join(args, " "))
}

// commandLimit bounds every command: an answer takes half a second idle.
const commandLimit = 30 * time.Second * suite.Slack

func capture(argv []string, name string) result { return captureFor(commandLimit, argv, name) }

func captureFor(limit time.Duration, argv []string, name string) result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	r := result{args: name, out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.exit, r.err = -1, fmt.Sprintf("not done after %v; %s", limit, r.err)
	case errors.As(err, &exit):
		r.exit = exit.ExitCode()
	case err != nil:
		r.exit, r.err = -1, err.Error()
	}
	return r
}

// must fails the test unless a command ended with the given status.
func (t *T) must(r result, exit int) result {
	if r.exit != exit {
		t.Fatalf("%s, wanted status %d", r, exit)
	}
	return r
}

// status is the part of homenode-status/3 that the tests compare with the facts.
type status struct {
	Schema    string    `json:"schema"`
	Mode      string    `json:"mode"`
	Time      time.Time `json:"time"` // of the newest scan
	Workloads []struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Kind   string `json:"kind"`
		Class  string `json:"class"`
		Weight int    `json:"importance"`
		CPUs   int    `json:"cpus"`
		Home   string `json:"home"`
		CPUSet string `json:"cpu_set"`
		State  string `json:"state"`
		Why    string `json:"why"`
		Memory []struct {
			Node int `json:"node"`
			KiB  int `json:"kib"`
		} `json:"memory_by_node"`
		Move *moved `json:"move"`
	} `json:"workloads"`
	Nodes []struct {
		ID     int `json:"id"`
		Booked int `json:"booked_kib"`
	} `json:"nodes"`
	Self struct {
		Goroutines  int `json:"goroutines"`
		Descriptors int `json:"descriptors"`
		Journal     int `json:"journal"`
		Lost        int `json:"lost"`
	} `json:"self"`
}

// moved is the record of a page move.
type moved struct {
	Home      string    `json:"home"`
	State     string    `json:"state"`
	Started   time.Time `json:"started"`
	Planned   int64     `json:"planned"`
	Moved     int64     `json:"moved"`
	Refused   int64     `json:"refused"`
	RefusedBy []struct {
		Cause string `json:"cause"`
		Bytes int64  `json:"bytes"`
	} `json:"refused_by"`
}

// of is the record of a workload's newest page move by the daemon's account, its
// state and why it is in it.
func (s *status) of(w string) (m moved, state, why string) {
	for _, x := range s.Workloads {
		if x.ID != w {
			continue
		}
		if x.Move != nil {
			m = *x.Move
		}
		return m, x.State, x.Why
	}
	return moved{}, "", "not listed"
}

// home is a workload's by the daemon's account, "" for none.
func (s *status) home(w string) string {
	for _, x := range s.Workloads {
		if x.ID == w {
			return x.Home
		}
	}
	return ""
}

func (t *T) status() status {
	var s status
	r := t.must(homenode("status", "--json"), exitOK)
	t.Do(json.Unmarshal([]byte(r.out), &s))
	if !strings.HasPrefix(s.Schema, "homenode-status/") {
		t.Fatalf("status has schema %q", s.Schema)
	}
	return s
}

// event is a line of the history.
type event struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Workload string    `json:"workload"`
	Code     string    `json:"code"` // what happened; Text is for people and may change
	Text     string    `json:"text"`
	Error    bool      `json:"error"`
	Frozen   float64   `json:"frozen"` // s
}

func (t *T) history() []event {
	return t.events(t.must(homenode("history", "--json", "--limit", "0"), exitOK).out)
}

// events reads what history --json prints.
func (t *T) events(out string) []event {
	var h struct {
		Events []event `json:"events"`
	}
	t.Do(json.Unmarshal([]byte(out), &h))
	return h.Events
}

// undoneAll undoes everything; nothing is left in the journal then.
func (t *T) undoneAll() {
	t.must(homenode("undo", "--all"), exitOK)
	if s := t.status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
}

// unrepeated fails the test when the history says the same of a workload many times:
// what stays as it is, is told once.
func (t *T) unrepeated() {
	type line struct{ workload, text string }
	said := map[line]int{}
	for _, e := range t.history() {
		l := line{e.Workload, e.Text}
		if said[l]++; said[l] > 5 {
			t.Fatalf("history says %d times and more of %q: %s: %s", said[l], e.Workload, e.Code, e.Text)
		}
	}
}

// awaitEvent waits for a line of the history about a workload ("" for any) with one
// of the codes.
func (t *T) awaitEvent(limit time.Duration, id string, codes ...string) event {
	var found event
	t.until(limit, time.Second, fmt.Sprintf("history has %q about %q", codes, id), func() (bool, string) {
		var last event
		for _, e := range t.history() {
			if id != "" && e.Workload != id {
				continue
			}
			last = e
			if slices.Contains(codes, e.Code) {
				found = e
				return true, ""
			}
		}
		return false, "last line about it: " + last.Code + ": " + last.Text
	})
	return found
}

// logHomenode shows what homenode says about a test that failed.
func (t *T) logHomenode() {
	for _, args := range [][]string{{"status"}, {"history", "--limit", "25"}} {
		r := homenode(args...)
		t.logLines(args[0], r.out+r.err, 40)
	}
}

// logLines logs the last lines of a text.
func (t *T) logLines(what, text string, most int) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines[max(0, len(lines)-most):] {
		t.Logf("%s: %s", what, l)
	}
}

// freshState takes away what a former daemon left in its folder, and commands without one
// in theirs: to each what the other has changed since is somebody else's.
func freshState() {
	os.RemoveAll(stateFolder)
	os.RemoveAll("/var/lib/homenode")
	os.Remove(filepath.Clean(socketPath))
}

// command runs a command that must end well and gives its output.
func (t *T) command(argv ...string) string {
	r := captureFor(systemdLimit, argv, strings.Join(argv, " "))
	if r.exit != exitOK {
		t.Fatalf("%s: exit status %d, said %q and %q", strings.Join(argv, " "), r.exit, cut(r.out), cut(r.err))
	}
	return r.out
}

// systemdLimit is for a state that systemd and a daemon with a period of 2 s bring about.
const systemdLimit = 90 * time.Second
