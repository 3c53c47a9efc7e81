//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// startTree starts walkers as children of one process in a cgroup, as a server's workers are, and
// waits until their buffers are filled.
func (t *T) startTree(name string, specs ...walkerSpec) []*walker {
	g := t.newGroup(cgroupRoot, name)
	args := []string{"in-tree"}
	var ws []*walker
	var files []*os.File
	for _, s := range specs {
		w := &walker{walkerSpec: s, group: g, called: "/" + name}
		inRead, inWrite, err := os.Pipe()
		t.Do(err)
		outRead, outWrite, err := os.Pipe()
		t.Do(err)
		w.in, w.out = inWrite, bufio.NewReader(outRead)
		files = append(files, inRead, outWrite)
		args = append(args, strings.Join(w.args(), " "))
		ws = append(ws, w)
	}
	c := exec.Command("/init", args...)
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.ExtraFiles = files
	said, err := c.StdoutPipe()
	t.Do(err)
	t.runIn(g, c)
	for _, f := range files {
		f.Close()
	}
	lines := bufio.NewReader(said)
	for _, w := range ws {
		line, err := lines.ReadString('\n')
		t.Do(err)
		w.pid, err = strconv.Atoi(strings.TrimSpace(line))
		t.Do(err)
		w.cmd = c
	}
	t.Defer(func() {
		for _, w := range ws {
			syscall.Kill(w.pid, syscall.SIGKILL)
		}
		c.Process.Kill()
		c.Wait()
	})
	for _, w := range ws {
		t.expect(w, "ready")
	}
	return ws
}

// inTree starts a walker for each argument, with two of the files from 3 on as its input and output,
// prints their PIDs and waits for them.
func inTree(all []string) error {
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
