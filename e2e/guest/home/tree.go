//go:build linux

package home

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// startTree starts walkers as children of one process in a cgroup, as a server's workers are, and
// waits until their buffers are filled.
func startTree(t *lab.T, name string, specs ...lab.WalkerSpec) []*lab.Walker {
	g := t.NewGroup(lab.CgroupRoot, name)
	args := []string{"in-tree"}
	var ws []*lab.Walker
	var files []*os.File
	for _, s := range specs {
		w := &lab.Walker{WalkerSpec: s, Group: g, Called: "/" + name}
		inRead, inWrite, err := os.Pipe()
		t.Do(err)
		outRead, outWrite, err := os.Pipe()
		t.Do(err)
		w.In, w.Out = inWrite, bufio.NewReader(outRead)
		files = append(files, inRead, outWrite)
		args = append(args, strings.Join(w.Args(), " "))
		ws = append(ws, w)
	}
	c := exec.Command("/init", args...)
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.ExtraFiles = files
	said, err := c.StdoutPipe()
	t.Do(err)
	t.RunIn(g, c)
	for _, f := range files {
		f.Close()
	}
	lines := bufio.NewReader(said)
	for _, w := range ws {
		line, err := lines.ReadString('\n')
		t.Do(err)
		w.PID, err = strconv.Atoi(strings.TrimSpace(line))
		t.Do(err)
		w.Cmd = c
	}
	t.Defer(func() {
		for _, w := range ws {
			syscall.Kill(w.PID, syscall.SIGKILL)
		}
		c.Process.Kill()
		c.Wait()
	})
	for _, w := range ws {
		t.Expect(w, "ready")
	}
	return ws
}

// InTree starts a walker for each argument, with two of the files from 3 on as its input and output,
// prints their PIDs and waits for them.
func InTree(all []string) error {
	var errs []error
	var running []*exec.Cmd
	for i, args := range all {
		c := exec.Command("/bin/walker", strings.Fields(args)...)
		c.Stdin = os.NewFile(uintptr(3+2*i), "in")
		c.Stdout = os.NewFile(uintptr(4+2*i), "out")
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
		fmt.Println(c.Process.Pid)
		running = append(running, c)
	}
	for _, c := range running {
		errs = append(errs, c.Wait())
	}
	return errors.Join(errs...)
}
