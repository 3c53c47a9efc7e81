//go:build linux

package home

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// brood is a process that holds memory and starts others when told to: a process
// workload with children.
type brood struct {
	pid int
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const broodMiB = 48

// startBrood starts one as a child of PID 1, in the root cgroup.
func startBrood(t *lab.T) *brood {
	c := exec.Command("/init", "brood")
	in, err := c.StdinPipe()
	t.Do(err)
	out, err := c.StdoutPipe()
	t.Do(err)
	b := &brood{cmd: c, in: in, out: bufio.NewReader(out)}
	b.pid, err = lab.StartOrphan(c)
	t.Do(err)
	t.Defer(b.kill)
	b.answer(t)
	return b
}

func (b *brood) kill() {
	syscall.Kill(b.pid, syscall.SIGKILL)
	b.cmd.Process.Wait()
	lab.AwaitEnd(b.pid)
}

func (b *brood) answer(t *lab.T) int {
	line, err := b.out.ReadString('\n')
	n, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		t.Fatalf("brood %d said %q: %v", b.pid, line, err)
	}
	return n
}

// start has it start a "child", or a "daemon": forked twice, leader of no session
// and child of PID 1.
func (b *brood) start(t *lab.T, kind string) int {
	fmt.Fprintln(b.in, kind)
	pid := b.answer(t)
	t.Defer(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// BroodProcess is the process itself.
func BroodProcess() error {
	// The tests' own program is excluded by name.
	if err := os.WriteFile("/proc/self/comm", []byte("brood"), 0); err != nil {
		return err
	}
	memory := make([]byte, broodMiB<<20)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Println(0)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		c := exec.Command("/init", "sleeper")
		var pid int
		var err error
		switch lines.Text() {
		case "child":
			err = c.Start()
			if err == nil {
				pid = c.Process.Pid
			}
		case "daemon":
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			pid, err = lab.StartOrphan(c)
			if err == nil {
				err = c.Wait()
			}
		default:
			err = fmt.Errorf("no order %q", lines.Text())
		}
		if err != nil {
			return err
		}
		fmt.Println(pid)
	}
	memory[0]++ // it is in use to the end
	return lines.Err()
}

// Sleeper is a process that does nothing.
func Sleeper() { time.Sleep(time.Hour) }

// Named is a sleeper of another name than the tests' own program, which is excluded.
func Named(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	Sleeper()
	return nil
}

// homenodeOrphans: what a process workload has started gets its CPUs back, also
// when the workload's root has ended, with a daemon that was killed and with one
// that runs.
func homenodeOrphans(t *lab.T) {
	every := lab.Allowed(1)[1]
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	for _, round := range []string{"daemon killed", "daemon runs"} {
		b := startBrood(t)
		t.Until(60*time.Second, "the brood has a home", func() (bool, string) {
			cpus := lab.Allowed(b.pid)[b.pid]
			return cpus != 0 && cpus != every, "it may use " + cpus.String()
		})
		children := []int{b.start(t, "child")}
		time.Sleep(4 * time.Second) // two looks see the first
		children = append(children, b.start(t, "child"), b.start(t, "daemon"))
		for _, pid := range children {
			if cpus := lab.Allowed(pid)[pid]; cpus == every {
				t.Fatalf("%s: child %d has not inherited anything: %s", round, pid, cpus)
			}
		}
		if round == "daemon killed" {
			d.Kill9()
		}
		b.kill()
		t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
		for i, pid := range children {
			for tid, cpus := range lab.Allowed(pid) {
				if cpus != every {
					t.Fatalf("%s: thread %d of child %d is left with CPUs %s of %s", round, tid, i, cpus, every)
				}
			}
		}
		if round == "daemon killed" {
			d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
			t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
		}
	}
	t.Textf("3 children put back after their root had ended, twice")
}
