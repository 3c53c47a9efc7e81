//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
)

// startChildren starts a walker with each number of threads, like this one otherwise, and waits until they
// walk. They end with this process, which holds the only end of their input.
func startChildren(threads []string) error {
	for _, n := range threads {
		args := append([]string{}, os.Args[1:]...)
		args = append(args, "--with", "", "--threads", n) // the last of two flags counts
		c := exec.Command("/proc/self/exe", args...)
		c.Args[0], c.Stderr = os.Args[0], os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			return err
		}
		children = append(children, in)
		out, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "ready\n" {
			return fmt.Errorf("child with %s threads said %q: %w", n, line, err)
		}
	}
	return nil
}

// children is the inputs of the children.
var children []any
