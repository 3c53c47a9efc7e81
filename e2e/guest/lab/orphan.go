//go:build linux

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StartOrphan starts a command as a child of PID 1 rather than of the test:
// homenode takes a process tree as one workload, and the tree of a test that
// has grown large would take in its plain walkers. It fills in the PID.
func StartOrphan(c *exec.Cmd) (pid int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	c.Args = append([]string{"/init", "orphan"}, append([]string{c.Path}, c.Args[1:]...)...)
	c.Path, c.ExtraFiles = "/init", []*os.File{w}
	err = c.Start()
	w.Close()
	if err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("start %s as an orphan: %w", c.Args[2], err)
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// Orphan is the short-lived parent: it says the PID on descriptor 3 and ends.
func Orphan(argv []string) error {
	if len(argv) == 0 {
		return errors.New("orphan: no command")
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	fmt.Fprintln(os.NewFile(3, "pid"), pid)
	os.Exit(0)
	return nil
}

// AwaitEnd waits until PID 1 has collected a process.
func AwaitEnd(pid int) {
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
	}
}
