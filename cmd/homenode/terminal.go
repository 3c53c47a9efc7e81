package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// waitKey waits so long for a key at the terminal. Ctrl-C is a signal here, as everywhere.
func waitKey(ctx context.Context, wait time.Duration) (key byte, pressed bool) {
	in := int(os.Stdin.Fd())
	before, err := term.MakeRaw(in)
	if err != nil {
		return 0, false
	}
	defer term.Restore(in, before)
	const nap = 100 // milliseconds
	for until := time.Now().Add(wait); ctx.Err() == nil && time.Now().Before(until); {
		fds := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, nap); err != nil || n == 0 {
			continue
		}
		var b [16]byte // arrows and the like are several
		if n, err := os.Stdin.Read(b[:]); err != nil || n == 0 {
			return 0, false
		}
		const interrupt, quit = 3, 28 // Ctrl-C, Ctrl-\
		switch b[0] {
		case interrupt:
			syscall.Kill(os.Getpid(), syscall.SIGINT)
			<-ctx.Done()
		case quit:
			syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		}
		return b[0], true
	}
	return 0, false
}

// openHere runs another command of this program at the terminal of this one.
func openHere(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "/proc/self/exe", args...)
	c.Args[0] = os.Args[0]
	c.Stdin = os.Stdin
	c.Stdout = os.Stdout
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 2 * time.Second
	return c.Run()
}
