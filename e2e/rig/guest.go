package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// Limits for an emulated guest on a loaded machine: boots take 8 to 13 s idle, a saved one
// goes on within 2.
const (
	bootLimit   = 180 * time.Second
	resumeLimit = 60 * time.Second
	lateLimit   = 60 * time.Second // on top of what the guest itself allows a test
	// stillLimit is for a guest whose first process says every suite.Beat that it runs.
	stillLimit = 120 * time.Second
	// virtualSlack is what limits are multiplied by where the guest's clock is virtual: a second of it
	// takes a busy machine many, and the guest keeps its own limits.
	virtualSlack = 5
)

// Why a guest is given up: nothing in it runs, or a test does not end.
var (
	errStill = errors.New("the guest stands still")
	errHangs = errors.New("the guest hangs")
)

// guest is one boot.
type guest struct {
	work
	tools      tools
	image      string
	dir        string
	report     *report
	noHomenode error
	patience   time.Duration

	mu     sync.Mutex
	crash  string // first sign of a kernel in trouble
	up     bool   // its first process has spoken
	saved  string // folder of the machine it goes on from
	socket string // of QEMU's monitor
	times  int    // it was booted
	beat   func() // its first process is heard
}

// run boots the guest and hands every result to the report. An error means that
// the rig itself could not go on; a guest's trouble is a result.
func (g *guest) run(ctx context.Context, show bool) error {
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	tally := g.newTally()
	inside := g.inside(tally)
	for try := 1; len(inside) > 0; try++ {
		g.times = try
		why, err := g.boot(ctx, show, inside, tally)
		if err != nil {
			return err
		}
		left := names(tally.missing())
		if try == tries || !g.emulatorsFault(why) {
			g.settle(tally, why)
			break
		}
		fmt.Printf("\nguest %s: the emulator's fault, try %d of %d follows for %d tests: %s\n", g.name, try+1, tries,
			len(left), why)
		if g.saved != "" && !g.up { // it was saved with the fault in it
			os.RemoveAll(g.saved)
		}
		g.crash, g.up = "", false
		if g.shape.Count || g.shape.Overlap { // what was counted so far went with the guest
			tally, left = g.newTally(), inside
		}
		inside = left
	}
	g.judge(tally)
	return nil
}

func (g *guest) newTally() *tally {
	t := newTally(g.shape, g.tests)
	t.dir = g.dir
	t.kernel = g.tools.kernel
	t.qemu = g.tools.qemu
	return t
}

// tries is how often a guest is booted when the emulator fails it.
const tries = 3

// emulatorsFault reports whether a guest's end is QEMU's doing. Its translated
// code now and then runs into the breakpoint that the kernel plants for a moment
// when it patches itself (arch/x86/kernel/alternative.c, smp_text_poke_batch_finish)
// after the kernel has taken it out again: "Oops: int3", mostly at boot. Before
// the guest's first process runs, any oops is not of a program's making. Nor is it
// when the first process, which does nothing but wait, is not heard any more.
func (g *guest) emulatorsFault(why string) bool {
	return strings.Contains(why, "Oops: int3") || (g.crash != "" && !g.up) || strings.HasPrefix(why, errStill.Error())
}

func names(tests []suite.Test) []string {
	out := make([]string, len(tests))
	for i, t := range tests {
		out[i] = t.Name
	}
	return out
}

// inside lists the tests that run in the guest; those that can not for lack of a
// homenode fail here.
func (g *guest) inside(tally *tally) []string {
	var names []string
	for _, t := range g.tests {
		switch {
		case t.Homenode && g.noHomenode != nil:
			g.report.add(g.work,
				tally.take(suite.Result{Name: t.Name, Outcome: suite.Fail, Text: g.noHomenode.Error()}))
		case !t.OnHost:
			names = append(names, t.Name)
		}
	}
	return names
}

// boot runs QEMU to its end. The text returned says why it ended, "" when the
// guest came to its end as it should.
func (g *guest) boot(ctx context.Context, show bool, tests []string, tally *tally) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bin, words := filepath.Join(filepath.Dir(g.dir), "bin"), bootWords(g.shape, tests, g.patience)
	args, err := qemuArgs(g.shape, g.tools, g.image, g.dir, bin, words), error(nil)
	switch {
	case g.shape.Systemd:
		args, err = g.service(ctx, bin, words)
	case g.shape.Disk != "":
		args, err = g.resume(ctx, bin, words)
	}
	if err != nil {
		return "", err
	}
	if show {
		fmt.Printf("%s %s\n", g.tools.qemu, strings.Join(args, " "))
	}
	wire, wireEnd, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("make pipe: %w", err)
	}
	defer wire.Close()
	sockets, err := os.MkdirTemp("", "rig") // the path of a socket is short
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(sockets)
	g.socket = filepath.Join(sockets, "qmp")
	args = append(args, "-qmp", "unix:"+g.socket+",server=on,wait=off")
	q := exec.CommandContext(ctx, g.tools.qemu, args...)
	if g.shape.Virtual {
		q.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(bin, "still.so"))
	}
	q.ExtraFiles = []*os.File{wireEnd}
	q.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, err := q.StdoutPipe()
	if err != nil {
		return "", err
	}
	q.Stderr = q.Stdout
	start := time.Now()
	if err := q.Start(); err != nil {
		return "", fmt.Errorf("start QEMU: %w", err)
	}
	wireEnd.Close()

	var done sync.WaitGroup
	done.Go(func() { g.watchConsole(console) })
	ended := g.readWire(wire, start, tally, cancel)
	done.Wait()
	exit := q.Wait()
	spent := q.ProcessState.UserTime() + q.ProcessState.SystemTime()
	g.report.spend(spent)
	fmt.Printf("guest %s: %.0f s, %.0f s of CPU time\n", g.name, time.Since(start).Seconds(), spent.Seconds())
	switch cause := context.Cause(ctx); {
	case g.crash != "":
		return g.crash, nil
	case cause != nil:
		return cause.Error(), nil
	case !ended:
		return fmt.Sprintf("the guest went away (QEMU: %v)", exit), nil
	}
	return "", nil
}

// signs of a kernel in trouble.
var signs = []string{"Kernel panic", "BUG:", "Oops", "general protection", "rcu_sched self-detected", "soft lockup",
	"hung_task", "Out of memory"}

func (g *guest) watchConsole(r io.Reader) {
	log, err := os.Create(filepath.Join(g.dir, "console"))
	if err != nil {
		return
	}
	defer log.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		// QEMU's remark on each vCPU about CPU features that emulation lacks.
		if strings.Contains(lines.Text(), "TCG doesn't support requested feature") {
			continue
		}
		if strings.HasSuffix(lines.Text(), suite.BeatLine) {
			g.mu.Lock()
			if g.beat != nil {
				g.beat()
			}
			g.mu.Unlock()
			continue
		}
		fmt.Fprintln(log, lines.Text())
		for _, s := range signs {
			if g.crash == "" && strings.Contains(lines.Text(), s) {
				g.crash = strings.TrimSpace(lines.Text())
			}
		}
	}
}

// readWire takes the records of a guest until the line closes, and ends a guest
// that says nothing for too long. It reports whether the guest said END.
func (g *guest) readWire(r io.Reader, start time.Time, tally *tally, cancel context.CancelCauseFunc) bool {
	log, err := os.Create(filepath.Join(g.dir, "records"))
	if err != nil {
		cancel(err)
		return false
	}
	defer log.Close()
	var still, silence *time.Timer
	within := func(t **time.Timer, limit time.Duration, kind error, what string) {
		if *t != nil {
			(*t).Stop()
		}
		if g.shape.Virtual {
			limit *= virtualSlack
		}
		*t = time.AfterFunc(limit, func() {
			cancel(fmt.Errorf("%w: %s for %v; %s", kind, what, limit, look(g.socket, g.dir)))
		})
	}
	switch {
	case g.saved != "":
		within(&still, resumeLimit, errStill, "it was resumed, and its first process is not heard")
	default:
		within(&still, bootLimit, errHangs, "it does not come up")
	}
	wait := func(limit time.Duration, what string) { within(&silence, limit, errHangs, what+", nothing is heard") }
	wait(bootLimit+lateLimit, "at boot")
	doing := "before the first test"
	quiet := stillLimit
	if g.shape.Reboots {
		quiet += bootLimit
	}
	g.mu.Lock()
	g.beat = func() { within(&still, quiet, errStill, "its first process is not heard") }
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.beat = nil
		still.Stop()
		silence.Stop()
	}()
	ended := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		l, ok := suite.ParseLine(lines.Text())
		fmt.Fprintf(log, "[%7.2f] %s\n", time.Since(start).Seconds(), strings.TrimRight(lines.Text(), "\r"))
		if !ok {
			continue
		}
		switch l.Kind {
		case "UP":
			g.up = true
			g.mu.Lock()
			g.beat()
			g.mu.Unlock()
			fmt.Printf("\nguest %s: %d nodes, %d CPUs, %d MiB, Linux %s, up after %.1f s\n",
				g.name, g.shape.Nodes, g.shape.CPUs(), g.shape.MiB(), g.tools.kernel, time.Since(start).Seconds())
			wait(lateLimit, doing)
		case "START":
			doing = "in " + l.Rest
			wait(tally.limit(l.Rest)+lateLimit, doing)
		case "TEST":
			if r, err := suite.ParseResult(l.Rest); err == nil {
				g.report.add(g.work, tally.take(r))
			}
			wait(lateLimit, "after "+l.Rest)
		case "LOG":
			g.report.log(l.Rest)
		case "TABLE":
			g.report.row(g.shape, l.Rest)
		case "MARK", "SCENE", "WALKER", "HOME", "CASE", "LINES", "SCRAPE":
			if err := tally.told(l); err != nil {
				g.report.log(err.Error())
			}
		case "END":
			ended = true
			wait(lateLimit, "powering off")
		}
	}
	return ended
}

// settle makes failures of the tests that never reported, and of a guest that
// did not end well.
func (g *guest) settle(tally *tally, why string) {
	for _, t := range tally.missing() {
		text := "never reported"
		if why != "" {
			text += ": " + why
		}
		g.report.add(g.work, tally.take(suite.Result{Name: t.Name, Outcome: suite.Fail, Text: text}))
	}
	end := suite.Result{Name: "guest", Outcome: suite.OK, Text: "ran to its end, no oops"}
	if g.times > 1 {
		end.Text += fmt.Sprintf("; by the emulator's fault booted %d times", g.times)
	}
	if why != "" {
		end.Outcome, end.Text = suite.Fail, why
	}
	g.report.add(g.work, end)
}
