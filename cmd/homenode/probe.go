package main

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/probe"
	"github.com/homenode/homenode/ui/cli"
)

// measured is where measurements are kept, under the state folder.
const measured = "measured"

// prober measures this machine and keeps the results.
type prober struct {
	probe.Machine
	probe.Cache
}

func proberFor(h *topology.Host, stateDir string) cli.Prober {
	dir := filepath.Join(stateDir, measured)
	return &prober{probe.Machine{Root: observe.Root("/"), Host: h, Restore: filepath.Join(dir, "restore-msr")}, probe.Cache{Dir: dir}}
}

// hostWith reads the machine together with what was measured of it, kept in a
// state folder.
func hostWith(stateDir string) func(fs.FS) (*topology.Host, error) {
	return func(fsys fs.FS) (*topology.Host, error) {
		h, err := topology.FromSysfs(fsys)
		if err == nil {
			attach(fsys, h, probe.Cache{Dir: filepath.Join(stateDir, measured)})
		}
		return h, err
	}
}

// attach adds the measurement of the same hardware, firmware and kernel. One
// that cannot be read counts as none: placement then goes by the firmware, and
// says so.
func attach(fsys fs.FS, h *topology.Host, c probe.Cache) {
	d, err := c.Cached(measure.Fingerprint(fsys, h))
	if err != nil || d == nil {
		return
	}
	if h.Measured = d.Measured(h); h.Measured == nil {
		return
	}
	h.Measured.Source = topology.MeasuredBefore
	if d.Run != nil {
		if at, err := time.Parse(time.RFC3339, d.Run.Started); err == nil && at.After(bootTime(fsys)) {
			h.Measured.Source = topology.MeasuredNow
		}
	}
}

// bootTime is when this machine was started: what was measured since is fresh.
func bootTime(fsys fs.FS) time.Time {
	text, err := fs.ReadFile(fsys, "proc/stat")
	if err != nil {
		return time.Now()
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return time.Unix(n, 0)
			}
		}
	}
	return time.Now()
}
