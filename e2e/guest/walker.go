//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// podFolder holds the files of walkers in pods, and the logs of pods.
const podFolder = workFolder + "/pods"

// walkerSpec is what a walker is started with; see command walker.
type walkerSpec struct {
	name    string
	slot    int
	mib     int
	threads int
	place   string
	unbind  bool // take the policy off again after filling
	static  bool
	plain   bool   // no cgroup of its own
	busy    bool   // hardly rests
	huge    bool   // transparent huge pages
	whole   bool   // every thread walks over all of the memory
	hot     int    // with whole: so many visits to its hot part after each page
	wait    bool   // touches no page of its buffer before the order to fill it
	sleep   string // length of a rest; "" is the walker's own
	spell   string // with whole: CPU time between two rests
	share   string // the file that is its buffer, with other walkers
	with    string // threads of each of its children
	netns   bool   // in a network namespace of its own
	// terminal: it has no cgroup of its own, and is the shell of this terminal.
	terminal *os.File
}

// walker is a running one.
type walker struct {
	walkerSpec
	group  group  // "" for a plain one
	called string // what homenode calls it, if not by its cgroup or PID
	pid    int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	err    bytes.Buffer
}

// startWalkers starts them together, each in a cgroup of its own below parent
// unless it is plain, and waits until all buffers are filled.
func (t *T) startWalkers(parent group, specs ...walkerSpec) []*walker {
	var ws []*walker
	for _, s := range specs {
		w := &walker{walkerSpec: s}
		if !s.plain && s.terminal == nil {
			w.group = t.newGroup(parent, s.name)
		}
		t.Do(w.start())
		t.Defer(w.kill)
		ws = append(ws, w)
	}
	for _, w := range ws {
		t.expect(w, "ready")
	}
	return ws
}

// args is the walker's command line.
func (w walkerSpec) args() []string {
	args := []string{"--slot", strconv.Itoa(w.slot), "--mib", strconv.Itoa(w.mib),
		"--threads", strconv.Itoa(w.threads), "--place", w.place}
	if w.unbind {
		args = append(args, "--unbind")
	}
	if w.busy {
		args = append(args, "--burst", "4096", "--sleep", "0s")
	}
	if w.whole {
		args = append(args, "--whole", "--hot", strconv.Itoa(w.hot))
	}
	if w.wait {
		args = append(args, "--wait")
	}
	if w.sleep != "" {
		args = append(args, "--sleep", w.sleep)
	}
	if w.spell != "" {
		args = append(args, "--spell", w.spell)
	}
	if w.with != "" {
		args = append(args, "--with", w.with)
	}
	if w.share != "" {
		args = append(args, "--share", w.share)
	}
	if w.huge {
		args = append(args, "--huge")
	}
	if w.static {
		args = append(args, "--static")
	}
	return args
}

func (w *walker) start() error {
	args := w.args()
	c := exec.Command("/bin/walker", args...)
	if w.netns {
		c = exec.Command("/init", append([]string{"in-netns", "/bin/walker"}, args...)...)
	}
	// A preemption signal would only cut the walker's rests short.
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.Stderr = &w.err
	if w.group != "" {
		fd, err := syscall.Open(string(w.group), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open cgroup %s: %w", w.group, err)
		}
		defer syscall.Close(fd)
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	}
	if w.terminal != nil {
		if err := onTerminal(c, w.terminal); err != nil {
			return err
		}
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	w.cmd, w.in, w.out = c, in, bufio.NewReader(out)
	if w.plain {
		w.pid, err = startOrphan(c)
	} else if err = c.Start(); err == nil {
		w.pid = c.Process.Pid
	}
	if err != nil {
		return fmt.Errorf("start walker %s: %w", w.name, err)
	}
	return nil
}

func (w *walker) kill() {
	syscall.Kill(w.pid, syscall.SIGKILL)
	w.end()
}

func (w *walker) end() {
	w.cmd.Process.Wait() // not Cmd.Wait, which would wait for an orphan's output too
	awaitEnd(w.pid)
}

// quit ends a walker as a program would end by itself.
func (w *walker) quit() {
	w.in.Close()
	w.end()
}

func (t *T) expect(w *walker, want string) {
	line, err := w.out.ReadString('\n')
	if got := strings.TrimSpace(line); got != want {
		t.Fatalf("walker %s (%d): said %q, wanted %q: %v %s%s", w.name, w.pid, got, want, err, w.err.String(), readText(podFolder+"/"+w.name+"/err"))
	}
}

// order sends all walkers a command at once and waits for all answers.
func (t *T) order(ws []*walker, command, answer string) {
	for _, w := range ws {
		if _, err := fmt.Fprintln(w.in, command); err != nil {
			t.Fatalf("walker %s (%d): %s: %v", w.name, w.pid, command, err)
		}
	}
	for _, w := range ws {
		t.expect(w, answer)
	}
}

// bursts asks how far a walker has come: it lives and walks when that grows.
func (t *T) bursts(w *walker) int {
	fmt.Fprintln(w.in, "bursts")
	line, err := w.out.ReadString('\n')
	n, err2 := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "bursts ")))
	if err != nil || err2 != nil {
		t.Fatalf("walker %s (%d): bursts: %q %v %v", w.name, w.pid, line, err, err2)
	}
	return n
}

// walking fails the test unless every walker is alive and gets on.
func (t *T) walking(ws []*walker) {
	before := make([]int, len(ws))
	for i, w := range ws {
		before[i] = t.bursts(w)
	}
	for i, w := range ws {
		t.Until(20*time.Second, "walker "+w.name+" walks on", func() (bool, string) {
			return t.bursts(w) > before[i], "stands still"
		})
	}
}

// buffer is where a walker's pages lie.
func (t *T) buffer(w *walker) mapping {
	m, err := bufferOf(w.pid, w.slot)
	t.Do(err)
	return m
}

// measure has the walkers walk exactly so many passes between two marks. The
// host finds the counts of the phase under the tag.
func (t *T) measure(ws []*walker, tag uint32, phase string, passes int) {
	t.order(ws, "pause", "paused")
	mark(0)
	t.order(ws, fmt.Sprintf("walk %d", passes), fmt.Sprintf("walked %d", passes))
	mark(tag)
	t.record("MARK %d %d %s", tag, passes, phase)
	t.order(ws, "go", "going")
}

// declare tells the host about the walkers, once before the first mark.
func (t *T) declare(ws []*walker) {
	for _, w := range ws {
		loads := suite.LoadsPerPass(w.mib)
		if w.whole {
			loads *= w.threads * (1 + w.hot)
		}
		t.record("WALKER %d %s %d %d %d %s", w.slot, w.name, w.mib, w.threads, loads, w.startText())
	}
}

func (w *walker) startText() string {
	s := w.place
	if w.unbind {
		s += ", policy taken off"
	} else if w.place != "local" {
		s += ", policy left on"
	}
	return s
}

// inParallel runs f for all walkers at once: reading numa_maps of a large
// process takes the emulated guest a while.
func inParallel(ws []*walker, f func(int, *walker)) {
	var wg sync.WaitGroup
	for i, w := range ws {
		wg.Go(func() { f(i, w) })
	}
	wg.Wait()
}

// onTerminal has a command begin as a shell does: under the name of one, as the leader of
// the session of a terminal.
func onTerminal(c *exec.Cmd, terminal *os.File) error {
	const shell = "/run/terminal/bash"
	if err := os.MkdirAll("/run/terminal", 0o755); err != nil {
		return err
	}
	if err := os.Symlink(c.Path, shell); err != nil && !os.IsExist(err) {
		return err
	}
	c.Path, c.ExtraFiles = shell, []*os.File{terminal}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	return nil
}

// walkerBehind starts a walker of slot 8 by a command line that becomes it, and waits until
// it is ready; the caller ends it.
func (t *T) walkerBehind(name string, argv []string) *walker {
	c := exec.Command(argv[0], argv[1:]...)
	w := &walker{walkerSpec: walkerSpec{name: name, slot: 8}, cmd: c}
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.Stderr = &w.err
	in, err := c.StdinPipe()
	t.Do(err)
	out, err := c.StdoutPipe()
	t.Do(err)
	t.Do(c.Start())
	w.in, w.out, w.pid = in, bufio.NewReader(out), c.Process.Pid
	t.expect(w, "ready")
	return w
}

// hugePages is how many transparent huge pages of 2 MiB a walker has.
func (w *walker) hugePages(t *T) int {
	for line := range strings.Lines(t.read(fmt.Sprintf("/proc/%d/smaps_rollup", w.pid))) {
		var kib int
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); n == 1 {
			return kib >> 11
		}
	}
	return 0
}

// waits is the part of the time that a walker's busy threads waited for a CPU
// instead of running, from /proc/TID/schedstat, over so long.
func (w *walker) waits(over time.Duration) float64 {
	type spent struct{ ran, waited float64 }
	look := func() map[int]spent {
		r := map[int]spent{}
		for _, tid := range threadsOf(w.pid) {
			f := strings.Fields(readText(fmt.Sprintf("/proc/%d/schedstat", tid)))
			if len(f) < 2 {
				continue
			}
			ran, _ := strconv.ParseFloat(f[0], 64)
			waited, _ := strconv.ParseFloat(f[1], 64)
			r[tid] = spent{ran, waited}
		}
		return r
	}
	before := look()
	time.Sleep(over)
	var sum spent
	for tid, s := range look() {
		if b, ok := before[tid]; ok {
			sum.ran += s.ran - b.ran
			sum.waited += s.waited - b.waited
		}
	}
	return sum.waited / max(1, sum.ran+sum.waited)
}
