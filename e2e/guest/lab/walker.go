//go:build linux

package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// PodFolder holds the files of walkers in pods, and the logs of pods.
const PodFolder = WorkFolder + "/pods"

// WalkerSpec is what a walker is started with; see command walker.
type WalkerSpec struct {
	Name    string
	Slot    int
	MiB     int
	Threads int
	Place   string
	Unbind  bool // take the policy off again after filling
	Static  bool
	Plain   bool   // no cgroup of its own
	Busy    bool   // hardly rests
	Huge    bool   // transparent huge pages
	Whole   bool   // every thread walks over all of the memory
	Hot     int    // with whole: so many visits to its hot part after each page
	Wait    bool   // touches no page of its buffer before the order to fill it
	Sleep   string // length of a rest; "" is the walker's own
	Spell   string // with whole: CPU time between two rests
	Share   string // the file that is its buffer, with other walkers
	With    string // threads of each of its children
	Netns   bool   // in a network namespace of its own
	// terminal: it has no cgroup of its own, and is the shell of this terminal.
	Terminal *os.File
}

// Walker is a running one.
type Walker struct {
	WalkerSpec
	Group  Group  // "" for a plain one
	Called string // what homenode calls it, if not by its cgroup or PID
	PID    int
	Cmd    *exec.Cmd
	In     io.WriteCloser
	Out    *bufio.Reader
	err    bytes.Buffer
}

// StartWalkers starts them together, each in a cgroup of its own below parent
// unless it is plain, and waits until all buffers are filled.
func (t *T) StartWalkers(parent Group, specs ...WalkerSpec) []*Walker {
	var ws []*Walker
	for _, s := range specs {
		w := &Walker{WalkerSpec: s}
		if !s.Plain && s.Terminal == nil {
			w.Group = t.NewGroup(parent, s.Name)
		}
		t.Do(w.Start())
		t.Defer(w.Kill)
		ws = append(ws, w)
	}
	for _, w := range ws {
		t.Expect(w, "ready")
	}
	return ws
}

// Args is the walker's command line.
func (w WalkerSpec) Args() []string {
	args := []string{"--slot", strconv.Itoa(w.Slot), "--mib", strconv.Itoa(w.MiB),
		"--threads", strconv.Itoa(w.Threads), "--place", w.Place}
	if w.Unbind {
		args = append(args, "--unbind")
	}
	if w.Busy {
		args = append(args, "--burst", "4096", "--sleep", "0s")
	}
	if w.Whole {
		args = append(args, "--whole", "--hot", strconv.Itoa(w.Hot))
	}
	if w.Wait {
		args = append(args, "--wait")
	}
	if w.Sleep != "" {
		args = append(args, "--sleep", w.Sleep)
	}
	if w.Spell != "" {
		args = append(args, "--spell", w.Spell)
	}
	if w.With != "" {
		args = append(args, "--with", w.With)
	}
	if w.Share != "" {
		args = append(args, "--share", w.Share)
	}
	if w.Huge {
		args = append(args, "--huge")
	}
	if w.Static {
		args = append(args, "--static")
	}
	return args
}

// Start starts the walker that the specification describes, and does not wait for it.
func (w *Walker) Start() error {
	args := w.Args()
	c := exec.Command("/bin/walker", args...)
	if w.Netns {
		c = exec.Command("/init", append([]string{"in-netns", "/bin/walker"}, args...)...)
	}
	// A preemption signal would only cut the walker's rests short.
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.Stderr = &w.err
	if w.Group != "" {
		fd, err := syscall.Open(string(w.Group), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open cgroup %s: %w", w.Group, err)
		}
		defer syscall.Close(fd)
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	}
	if w.Terminal != nil {
		if err := onTerminal(c, w.Terminal); err != nil {
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
	w.Cmd = c
	w.In = in
	w.Out = bufio.NewReader(out)
	if w.Plain {
		w.PID, err = StartOrphan(c)
	} else if err = c.Start(); err == nil {
		w.PID = c.Process.Pid
	}
	if err != nil {
		return fmt.Errorf("start walker %s: %w", w.Name, err)
	}
	return nil
}

// Kill kills the walker and waits for its end.
func (w *Walker) Kill() {
	syscall.Kill(w.PID, syscall.SIGKILL)
	w.End()
}

// End waits until the walker has ended.
func (w *Walker) End() {
	w.Cmd.Process.Wait() // not Cmd.Wait, which would wait for an orphan's output too
	AwaitEnd(w.PID)
}

// Quit ends a walker as a program would end by itself.
func (w *Walker) Quit() {
	w.In.Close()
	w.End()
}

// Expect reads the walker's next answer; the test fails if it is another one.
func (t *T) Expect(w *Walker, want string) {
	line, err := w.Out.ReadString('\n')
	if got := strings.TrimSpace(line); got != want {
		inPod := "" // what it said there
		if files, _ := filepath.Glob(PodFolder + "/*/" + w.Name + ".err"); len(files) > 0 {
			inPod = ReadText(files[0])
		}
		t.Fatalf("walker %s (%d): said %q, wanted %q: %v %s%s", w.Name, w.PID, got, want, err, w.err.String(), inPod)
	}
}

// Order sends all walkers a command at once and waits for all answers.
func (t *T) Order(ws []*Walker, command, answer string) {
	for _, w := range ws {
		if _, err := fmt.Fprintln(w.In, command); err != nil {
			t.Fatalf("walker %s (%d): %s: %v", w.Name, w.PID, command, err)
		}
	}
	for _, w := range ws {
		t.Expect(w, answer)
	}
}

// bursts asks how far a walker has come: it lives and walks when that grows.
func (t *T) bursts(w *Walker) int {
	fmt.Fprintln(w.In, "bursts")
	line, err := w.Out.ReadString('\n')
	n, err2 := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "bursts ")))
	if err != nil || err2 != nil {
		t.Fatalf("walker %s (%d): bursts: %q %v %v", w.Name, w.PID, line, err, err2)
	}
	return n
}

// Walking fails the test unless every walker is alive and gets on.
func (t *T) Walking(ws []*Walker) {
	before := make([]int, len(ws))
	for i, w := range ws {
		before[i] = t.bursts(w)
	}
	for i, w := range ws {
		t.Until(20*time.Second, "walker "+w.Name+" walks on", func() (bool, string) {
			return t.bursts(w) > before[i], "stands still"
		})
	}
}

// Buffer is where a walker's pages lie.
func (t *T) Buffer(w *Walker) Mapping {
	m, err := BufferOf(w.PID, w.Slot)
	t.Do(err)
	return m
}

// Measure has the walkers walk exactly so many passes between two marks. The
// host finds the counts of the phase under the tag.
func (t *T) Measure(ws []*Walker, tag uint32, phase string, passes int) {
	t.Order(ws, "pause", "paused")
	Mark(0)
	t.Order(ws, fmt.Sprintf("walk %d", passes), fmt.Sprintf("walked %d", passes))
	Mark(tag)
	t.Record("MARK %d %d %s", tag, passes, phase)
	t.Order(ws, "go", "going")
}

// Declare tells the host about the walkers, once before the first mark.
func (t *T) Declare(ws []*Walker) {
	for _, w := range ws {
		loads := suite.LoadsPerPass(w.MiB)
		if w.Whole {
			loads *= w.Threads * (1 + w.Hot)
		}
		t.Record("WALKER %d %s %d %d %d %s", w.Slot, w.Name, w.MiB, w.Threads, loads, w.startText())
	}
}

func (w *Walker) startText() string {
	s := w.Place
	if w.Unbind {
		s += ", policy taken off"
	} else if w.Place != "local" {
		s += ", policy left on"
	}
	return s
}

// inParallel runs f for all walkers at once: reading numa_maps of a large
// process takes the emulated guest a while.
func inParallel(ws []*Walker, f func(int, *Walker)) {
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

// WalkerBehind starts a walker of slot 8 by a command line that becomes it, and waits until
// it is ready; the caller ends it.
func (t *T) WalkerBehind(name string, argv []string) *Walker {
	c := exec.Command(argv[0], argv[1:]...)
	w := &Walker{WalkerSpec: WalkerSpec{Name: name, Slot: 8}, Cmd: c}
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.Stderr = &w.err
	in, err := c.StdinPipe()
	t.Do(err)
	out, err := c.StdoutPipe()
	t.Do(err)
	t.Do(c.Start())
	w.In = in
	w.Out = bufio.NewReader(out)
	w.PID = c.Process.Pid
	t.Expect(w, "ready")
	return w
}

// HugePages is how many transparent huge pages of 2 MiB a walker has.
func (w *Walker) HugePages(t *T) int {
	for line := range strings.Lines(t.Read(fmt.Sprintf("/proc/%d/smaps_rollup", w.PID))) {
		var kib int
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kib); n == 1 {
			return kib >> 11
		}
	}
	return 0
}

// Waits is the part of the time that a walker's busy threads waited for a CPU
// instead of running, from /proc/TID/schedstat, over so long.
func (w *Walker) Waits(over time.Duration) float64 {
	type spent struct{ ran, waited float64 }
	look := func() map[int]spent {
		r := map[int]spent{}
		for _, tid := range ThreadsOf(w.PID) {
			f := strings.Fields(ReadText(fmt.Sprintf("/proc/%d/schedstat", tid)))
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

// Passes of a measured walk: enough for threads to wander, few enough for time.
const MeasuredPasses = 3
