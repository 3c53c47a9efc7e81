package main

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/observe/files"
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
	return &prober{probe.Machine{Root: files.Root(machine), Host: h, Restore: filepath.Join(dir, "restore-msr")},
		probe.Cache{Dir: dir}}
}

// kept reads the machine together with what was measured of it, and notices when
// that is measured anew.
type kept struct {
	cache       probe.Cache
	fingerprint string
	at          time.Time // when the file last changed; zero: there was none
}

func keptIn(stateDir string) *kept {
	return &kept{cache: probe.Cache{Dir: filepath.Join(stateDir, measured)}}
}

// host is for the first look.
func (k *kept) host(fsys fs.FS) (*topology.Host, error) {
	h, err := topology.FromSysfs(fsys)
	if err == nil {
		k.look(fsys, h, true)
	}
	return h, err
}

// free is for every further look: with newer facts comes a newer measurement.
func (k *kept) free(fsys fs.FS, before *topology.Host) (*topology.Host, error) {
	h, err := topology.ReadFree(fsys, before)
	if err == nil {
		k.look(fsys, h, !h.Online.Equal(before.Online) || len(h.Nodes) != len(before.Nodes))
	}
	return h, err
}

// look attaches a measurement that was not there before; other is whether the
// hardware may be another.
func (k *kept) look(fsys fs.FS, h *topology.Host, other bool) {
	if other {
		k.fingerprint, k.at = measure.Fingerprint(fsys, h), time.Time{}
	}
	if at := k.cache.Changed(k.fingerprint); at.After(k.at) {
		k.at = at
		attach(fsys, h, k.cache, k.fingerprint)
	}
}

// attach adds the measurement of the same hardware, firmware and kernel. One
// that cannot be read counts as none: placement then goes by the firmware, and
// says so.
func attach(fsys fs.FS, h *topology.Host, c probe.Cache, fingerprint string) {
	d, err := c.Cached(fingerprint)
	if err != nil || d == nil {
		return
	}
	m := d.Measured(h)
	if m == nil {
		return
	}
	h.Measured = m
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

// startBudget is how long measuring at start may take: the quick profile's bound.
const startBudget = 20 * time.Second

// measureAtStart measures what placement goes by, unless that was done before on
// this hardware, there is but one node, or the machine is busy. The loop picks the
// result up at its next look.
func measureAtStart(ctx context.Context, fsys fs.FS, stateDir string, log *slog.Logger) {
	const instead = "placement goes by the firmware until `homenode probe latency` has run"
	h, err := topology.FromSysfs(fsys)
	if err != nil {
		return // the first look tells
	}
	d := doctor.Gather(fsys, h)
	p := proberFor(h, stateDir).(*prober)
	p.Machine.Root = fsys
	if before, err := p.Cached(d.Host.Fingerprint); err == nil && before != nil && before.ByNode() != nil {
		return
	}
	plan, err := measure.MakePlan(h, measure.Request{
		Parts: []measure.Part{measure.PartLatency}, From: "nodes", CPU: -1, Node: -1, LoadedFrom: -1, LoadedTo: -1,
		Seed: 1, Budget: startBudget,
	}, p.Memory())
	if err != nil {
		log.Warn("latencies are not measured: "+instead, "error", err)
		return
	}
	if len(plan.Buffers) < 2 {
		return // nothing to tell apart
	}
	if err := p.Run(ctx, plan, d, nil); err != nil {
		log.Warn("latencies are not measured: "+instead, "error", err)
		return
	}
	if d.Run.Partial || d.ByNode() == nil {
		log.Warn("measuring latencies did not end in time, or too few samples were undisturbed: " + instead)
		return
	}
	// Nobody looks at it before placement goes by it.
	if noise := doctor.Noise(d, doctor.DefaultLimits); noise != "" {
		log.Warn("the measured latencies are not used: "+instead, "why", noise)
		return
	}
	d.Run.Tool = version
	name, err := p.Keep(d)
	if err != nil {
		log.Warn("the measured latencies are not kept", "error", err)
		return
	}
	log.Info("latencies between nodes were measured", "file", name, "seconds", d.Run.Seconds)
}
