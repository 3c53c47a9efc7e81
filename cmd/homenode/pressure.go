package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/pressure"
)

// pressureIn has the kernel wake a daemon when important work waits for a CPU beside batch work. Without it batch
// work gives way at the next scan.
func pressureIn(ctx context.Context, o *daemon.Options) {
	s, err := pressure.New(ctx, filepath.Join(machine, "sys/fs/cgroup"))
	if err != nil {
		slog.Warn("batch work gives way at scans only", "err", err)
		return
	}
	o.Sources = append(o.Sources, s)
}
