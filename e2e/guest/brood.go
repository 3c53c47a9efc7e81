//go:build linux

package main

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
func (t *T) startBrood() *brood {
	c := exec.Command("/init", "brood")
	in, err := c.StdinPipe()
	t.Do(err)
	out, err := c.StdoutPipe()
	t.Do(err)
	b := &brood{cmd: c, in: in, out: bufio.NewReader(out)}
	b.pid, err = startOrphan(c)
	t.Do(err)
	t.Defer(b.kill)
	b.answer(t)
	return b
}

func (b *brood) kill() {
	syscall.Kill(b.pid, syscall.SIGKILL)
	b.cmd.Process.Wait()
	awaitEnd(b.pid)
}

func (b *brood) answer(t *T) int {
	line, err := b.out.ReadString('\n')
	n, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		t.Fatalf("brood %d said %q: %v", b.pid, line, err)
	}
	return n
}

// start has it start a "child", or a "daemon": forked twice, leader of no session
// and child of PID 1.
func (b *brood) start(t *T, kind string) int {
	fmt.Fprintln(b.in, kind)
	pid := b.answer(t)
	t.Defer(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// broodProcess is the process itself.
func broodProcess() error {
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
			pid, err = startOrphan(c)
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

func sleeper() { time.Sleep(time.Hour) }

// named is a sleeper of another name than the tests' own program, which is excluded.
func named(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	sleeper()
	return nil
}

// homenodeOrphans: what a process workload has started gets its CPUs back, also
// when the workload's root has ended, with a daemon that was killed and with one
// that runs.
func homenodeOrphans(t *T) {
	every := allowed(1)[1]
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	for _, round := range []string{"daemon killed", "daemon runs"} {
		b := t.startBrood()
		t.Until(60*time.Second, "the brood has a home", func() (bool, string) {
			cpus := allowed(b.pid)[b.pid]
			return cpus != 0 && cpus != every, "it may use " + cpus.String()
		})
		children := []int{b.start(t, "child")}
		time.Sleep(4 * time.Second) // two looks see the first
		children = append(children, b.start(t, "child"), b.start(t, "daemon"))
		for _, pid := range children {
			if cpus := allowed(pid)[pid]; cpus == every {
				t.Fatalf("%s: child %d has not inherited anything: %s", round, pid, cpus)
			}
		}
		if round == "daemon killed" {
			d.kill9()
		}
		b.kill()
		t.must(homenode("undo", "--all"), exitOK)
		for i, pid := range children {
			for tid, cpus := range allowed(pid) {
				if cpus != every {
					t.Fatalf("%s: thread %d of child %d is left with CPUs %s of %s", round, tid, i, cpus, every)
				}
			}
		}
		if round == "daemon killed" {
			d = t.startDaemon(daemonOptions{mode: "enforce"})
			t.must(homenode("resume", "--all"), exitOK)
		}
	}
	t.Textf("3 children put back after their root had ended, twice")
}
