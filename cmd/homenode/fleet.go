package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/ui/cli"
)

// hostFiles is where the hosts of `homenode fleet` are read from when none are named: the
// first that is there.
func hostFiles() []string {
	var out []string
	if dir, err := os.UserConfigDir(); err == nil {
		out = append(out, filepath.Join(dir, "homenode", "hosts"))
	}
	return append(out, "/etc/homenode-hosts")
}

// mostAnswer bounds what another host may answer: the status of 5,000 workloads is 10 MiB.
const mostAnswer = 64 << 20

// remote runs a command on another machine over ssh(1), which asks nobody for a password.
// What it printed is returned with the error, too.
func remote(ctx context.Context, r cli.Remote) ([]byte, error) {
	args := []string{"-T", "-o", "BatchMode=yes", "-o",
		fmt.Sprintf("ConnectTimeout=%d", int(math.Ceil(r.Within.Seconds())))}
	if r.Port != "" {
		args = append(args, "-p", r.Port)
	}
	c := exec.CommandContext(ctx, "ssh", append(append(args, "--", r.To), r.Args...)...)
	c.WaitDelay = time.Second // what ssh has started may hold its output open
	out, errs := &bounded{most: mostAnswer}, &bounded{most: 64 << 10}
	c.Stdin = strings.NewReader(r.Stdin)
	c.Stdout = out
	c.Stderr = errs
	err := c.Run()
	if out.over {
		return nil, errors.New("it answers more than any homenode would")
	}
	if lines := strings.Split(strings.TrimSpace(errs.String()), "\n"); err != nil && lines[len(lines)-1] != "" {
		err = errors.New(lines[len(lines)-1])
	}
	return out.Bytes(), err
}

// bounded keeps what is written, up to so many bytes; the rest is dropped.
type bounded struct {
	bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
