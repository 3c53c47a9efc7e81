//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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

// Self and HomenodeBin are this program and the one under test.
var Self, HomenodeBin = programs()

func programs() (self, homenode string) {
	if onDisk() {
		return "/e2e/guest", "/e2e/homenode"
	}
	return "/init", "/bin/homenode"
}

// Where a daemon of a test has its socket, its state and its configuration.
const (
	SocketPath  = WorkFolder + "/homenode.sock"
	StateFolder = WorkFolder + "/state"
	ConfigPath  = WorkFolder + "/config.yaml"
)

// Exit statuses of homenode's command line.
const (
	ExitOK        = 0
	ExitNo        = 1
	ExitUsage     = 2
	ExitForbidden = 3
	ExitNotFound  = 127
)

// DaemonOptions is what tests vary. The rest is the same for all: small enough
// thresholds for the walkers, and the tests' own process left out, because it
// would be moved about like any other.
type DaemonOptions struct {
	Mode      string
	Bandwidth string // default 1GiB: the emulated guest is the limit
	Restore   bool   // restore_on_stop
	Exclude   string // one more pattern to leave alone
	Balance   bool   // change homes that hold; off, because walkers keep CPUs busy and tests wait for homes to stay
	Cooldown  string // of balancing; default 1m
	Memory    string // manage.min_memory; default 16MiB
	MinAge    string // manage.min_age; default 0s, so that nothing waits for it
	Period    string // of the looks; default 1s
	Socket    string
	State     string
	Extra     string   // further lines of the configuration
	Wrap      []string // words before the command: run it through a helper of this program
}

// Daemon is a running homenode daemon.
type Daemon struct {
	Cmd    *exec.Cmd
	socket string
	Done   chan struct{}
	Exit   int
	mu     sync.Mutex
	log    bytes.Buffer
}

// Write collects what the daemon prints.
func (d *Daemon) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(b)
}

// Text returns what the daemon has printed so far.
func (d *Daemon) Text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.TrimSpace(d.log.String())
}

// LaunchDaemon starts one and does not wait for anything.
func (t *T) LaunchDaemon(o DaemonOptions) *Daemon {
	if o.Bandwidth == "" {
		o.Bandwidth = "1GiB"
	}
	if o.Cooldown == "" {
		o.Cooldown = "1m"
	}
	if o.Memory == "" {
		o.Memory = "16MiB"
	}
	if o.MinAge == "" {
		o.MinAge = "0s"
	}
	if o.Period == "" {
		o.Period = "1s"
	}
	if o.Socket == "" {
		o.Socket = SocketPath
	}
	if o.State == "" {
		o.State = StateFolder
	}
	exclude := "[init, homenode]"
	if o.Exclude != "" {
		exclude = "[init, homenode, " + o.Exclude + "]"
	}
	config := fmt.Sprintf("manage: {min_memory: %s, min_cpu: 0.9, min_age: %s, exclude: %s}\nmove: {bandwidth: "+
		"%s}\nrestore_on_stop: %v\nbalance: {enabled: %v, cooldown: %s}\n",
		o.Memory, o.MinAge, exclude, o.Bandwidth, o.Restore, o.Balance, o.Cooldown) + o.Extra
	t.Do(os.WriteFile(ConfigPath, []byte(config), 0o644))
	argv := append(o.Wrap, HomenodeBin, "daemon", "--mode", o.Mode, "--config", ConfigPath,
		"--state-dir", o.State, "--socket", o.Socket, "--period", o.Period)
	d := &Daemon{Cmd: exec.Command(argv[0], argv[1:]...), socket: o.Socket, Done: make(chan struct{})}
	d.Cmd.Stderr, d.Cmd.Stdout = d, d
	t.Do(d.Cmd.Start())
	go func() {
		d.Cmd.Wait()
		d.Exit = d.Cmd.ProcessState.ExitCode()
		close(d.Done)
	}()
	t.OnFailure(func() { t.LogLines("daemon", d.Text(), 20) })
	if len(t.autopsy) == 1 {
		t.OnFailure(t.logHomenode)
	}
	t.Defer(func() {
		d.Cmd.Process.Kill()
		<-d.Done
	})
	return d
}

// StartDaemon starts one and waits until it answers.
func (t *T) StartDaemon(o DaemonOptions) *Daemon {
	d := t.LaunchDaemon(o)
	t.Until(30*time.Second, "the daemon answers", func() (bool, string) {
		if d.Ended() {
			t.Fatalf("the daemon ended with status %d: %s", d.Exit, d.Text())
		}
		said, err := ask(d.socket, "/v1/status")
		return err == nil && strings.Contains(string(said), `"schema"`), fmt.Sprint(err)
	})
	return d
}

// Ended reports whether the daemon has ended.
func (d *Daemon) Ended() bool {
	select {
	case <-d.Done:
		return true
	default:
		return false
	}
}

// Stop asks it to end and waits; the exit status must be 0.
func (t *T) Stop(d *Daemon) {
	d.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.Done:
	case <-time.After(30 * time.Second):
		t.Fatalf("the daemon still runs 30 s after SIGTERM: %s", d.Text())
	}
	if d.Exit != ExitOK {
		t.Fatalf("the daemon ended with status %d after SIGTERM: %s", d.Exit, d.Text())
	}
}

// Kill9 kills the daemon and waits for its end.
func (d *Daemon) Kill9() {
	d.Cmd.Process.Kill()
	<-d.Done
}

// Alive fails the test when the daemon has gone.
func (t *T) Alive(d *Daemon) {
	if d.Ended() {
		t.Fatalf("the daemon ended with status %d: %s", d.Exit, d.Text())
	}
}

// Result is what a command did.
type Result struct {
	Args     string
	Out, Err string
	Exit     int
}

// String names the command, its exit status and the beginning of its output.
func (r Result) String() string {
	return fmt.Sprintf("homenode %s: exit status %d, said %q and %q", r.Args, r.Exit, Cut(r.Out), Cut(r.Err))
}

// Cut shortens a text to 400 bytes.
func Cut(s string) string {
	if s = strings.TrimSpace(s); len(s) > 400 {
		s = s[:400] + "…"
	}
	return s
}

// Homenode runs a command against the usual socket and state folder.
func Homenode(args ...string) Result { return HomenodeVia(nil, args...) }

// UsualSocket names the usual socket to a command, if a daemon listens there: where none does, who
// names it is refused, and none is at the default one.
func UsualSocket() []string {
	c, err := net.Dial("unix", SocketPath)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		c.Close()
	}
	return []string{"--socket", SocketPath}
}

// HomenodeVia runs it through a helper, such as this program's as-nobody.
func HomenodeVia(wrap []string, args ...string) Result {
	command := args[0]
	argv := append(append([]string{}, wrap...), HomenodeBin)
	if command != "replay" && !(command == "host" && args[1] == "report") { // which ask no daemon
		argv = append(argv, UsualSocket()...)
	}
	argv = append(argv, args...)
	switch command {
	case "history", "undo", "resume", "explain", "move":
		argv = append(argv, "--state-dir", StateFolder)
	}
	return Capture(argv, strings.Join(args, " "))
}

// CommandLimit bounds every command: an answer takes half a second idle.
const CommandLimit = 30 * time.Second * suite.Slack

// Capture runs a command for at most CommandLimit; its result is called name.
func Capture(argv []string, name string) Result { return CaptureFor(CommandLimit, argv, name) }

// CaptureFor runs a command for at most limit; its result is called name.
func CaptureFor(limit time.Duration, argv []string, name string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	r := Result{Args: name, Out: out.String(), Err: errs.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.Exit, r.Err = -1, fmt.Sprintf("not done after %v; %s", limit, r.Err)
	case errors.As(err, &exit):
		r.Exit = exit.ExitCode()
	case err != nil:
		r.Exit, r.Err = -1, err.Error()
	}
	return r
}

// Must fails the test unless a command ended with the given status.
func (t *T) Must(r Result, exit int) Result {
	if r.Exit != exit {
		t.Fatalf("%s, wanted status %d", r, exit)
	}
	return r
}

// Status is the part of homenode-status/3 that the tests compare with the facts.
type Status struct {
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
		Move *Moved `json:"move"`
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

// Moved is the record of a page move.
type Moved struct {
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

// Of is the record of a workload's newest page move by the daemon's account, its
// state and why it is in it.
func (s *Status) Of(w string) (m Moved, state, why string) {
	for _, x := range s.Workloads {
		if x.ID != w {
			continue
		}
		if x.Move != nil {
			m = *x.Move
		}
		return m, x.State, x.Why
	}
	return Moved{}, "", "not listed"
}

// Home is a workload's by the daemon's account, "" for none.
func (s *Status) Home(w string) string {
	for _, x := range s.Workloads {
		if x.ID == w {
			return x.Home
		}
	}
	return ""
}

// ask reads an answer of the daemon that listens at a socket. An emulated CPU needs a second to start
// homenode for it, and tests that wait ask many times.
func ask(socket, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), CommandLimit)
	defer cancel()
	to := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://homenode"+path, nil)
	if err != nil {
		return nil, err
	}
	a, err := to.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", a.Status, Cut(string(said)))
	}
	return said, err
}

// answer is what the daemon at the usual socket says, or what homenode prints where none answers.
func (t *T) answer(path string, command ...string) []byte {
	said, err := ask(SocketPath, path)
	if err == nil {
		return said
	}
	return []byte(t.Must(Homenode(command...), ExitOK).Out)
}

// Status returns the document of `homenode status --json`.
func (t *T) Status() Status {
	var s Status
	t.Do(json.Unmarshal(t.answer("/v1/status", "status", "--json"), &s))
	if !strings.HasPrefix(s.Schema, "homenode-status/") {
		t.Fatalf("status has schema %q", s.Schema)
	}
	return s
}

// Event is a line of the history.
type Event struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Workload string    `json:"workload"`
	Code     string    `json:"code"` // what happened; Text is for people and may change
	Text     string    `json:"text"`
	Error    bool      `json:"error"`
	Frozen   float64   `json:"frozen"` // s
}

// History returns all events of `homenode history`.
func (t *T) History() []Event {
	return t.Events(string(t.answer("/v1/history?limit=0", "history", "--json", "--limit", "0")))
}

// Events reads what history --json prints.
func (t *T) Events(out string) []Event {
	var h struct {
		Events []Event `json:"events"`
	}
	t.Do(json.Unmarshal([]byte(out), &h))
	return h.Events
}

// UndoneAll undoes everything; nothing is left in the journal then.
func (t *T) UndoneAll() {
	t.Must(Homenode("undo", "--all"), ExitOK)
	if s := t.Status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
}

// Unrepeated fails the test when the history says the same of a workload many times:
// what stays as it is, is told once.
func (t *T) Unrepeated() {
	type line struct{ workload, text string }
	said := map[line]int{}
	for _, e := range t.History() {
		l := line{e.Workload, e.Text}
		said[l]++
		if said[l] > 5 {
			t.Fatalf("history says %d times and more of %q: %s: %s", said[l], e.Workload, e.Code, e.Text)
		}
	}
}

// AwaitEvent waits for a line of the history about a workload ("" for any) with one
// of the codes.
func (t *T) AwaitEvent(limit time.Duration, id string, codes ...string) Event {
	var found Event
	t.Poll(limit, time.Second, fmt.Sprintf("history has %q about %q", codes, id), func() (bool, string) {
		var last Event
		for _, e := range t.History() {
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
	for _, args := range [][]string{{"status"}, {"share", "status"}, {"history", "--limit", "25"}} {
		r := Homenode(args...)
		t.LogLines(args[0], r.Out+r.Err, 40)
	}
}

// LogLines logs the last lines of a text.
func (t *T) LogLines(what, text string, most int) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines[max(0, len(lines)-most):] {
		t.Logf("%s: %s", what, l)
	}
}

// FreshState takes away what a former daemon left in its folder, and commands without one
// in theirs: to each what the other has changed since is somebody else's.
func FreshState() {
	os.RemoveAll(StateFolder)
	os.RemoveAll("/var/lib/homenode")
	os.Remove(filepath.Clean(SocketPath))
}

// Command runs a command that must end well and gives its output.
func (t *T) Command(argv ...string) string {
	r := CaptureFor(SystemdLimit, argv, strings.Join(argv, " "))
	if r.Exit != ExitOK {
		t.Fatalf("%s: exit status %d, said %q and %q", strings.Join(argv, " "), r.Exit, Cut(r.Out), Cut(r.Err))
	}
	return r.Out
}

// SystemdLimit is for a state that systemd and a daemon with a period of 2 s bring about.
const SystemdLimit = 90 * time.Second
