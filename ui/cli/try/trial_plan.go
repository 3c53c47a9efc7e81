package try

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	switchback "github.com/homenode/homenode/ui/trial"
)

// document is the trial that the command line describes.
func (f *trialFlags) document(c *cobra.Command, e *cli.Env, args []string) (*trial.Document, error) {
	for _, name := range args {
		if err := cli.CheckName(name); err != nil {
			return nil, err
		}
	}
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return nil, cli.Forbiddenf("%w", err)
	}
	if len(args) == 0 {
		args = nil // as it is read back
	}
	d := &trial.Document{Schema: trial.Schema, State: trial.Running, Homenode: e.Version, Machine: machineOf(e, h),
		Workloads: args, Plan: f.plan, Prometheus: f.prometheus, Periods: []trial.Record{}}
	if !c.Flags().Changed("seed") {
		d.Plan.Seed = uint64(time.Now().UnixNano()) % 1_000_000 // short enough to be typed
	}
	if err := f.chooseArms(d, e, h); err != nil {
		return nil, err
	}
	if err := f.chooseMetrics(d); err != nil {
		return nil, err
	}
	if err := d.Plan.Check(); err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	if least := trial.Least(max(1, d.Asked) * len(d.Plan.Comparisons())); d.Plan.Blocks < least && !f.dryRun {
		return nil,
			cli.Usagef("--blocks %d: %s are needed for %s, or none can be claimed; give more blocks, or fewer "+
				"metrics or arms", d.Plan.Blocks, words.Count(least, "block"),
				words.Count(max(1, d.Asked)*len(d.Plan.Comparisons()), "comparison"))
	}
	return d, nil
}

// whyNoBalancing returns why this machine has no arm balancing; "" where it has.
func whyNoBalancing(e *cli.Env, h *topology.Host) string {
	if len(h.Nodes) < 2 {
		return "this machine has one NUMA node, between which and others the kernel could balance"
	}
	if _, err := fs.Stat(e.Root, balancingFile); err != nil {
		return "this kernel has no kernel.numa_balancing"
	}
	return ""
}

// whyNoCaches returns why this machine has no arm caches; "" where it has.
func whyNoCaches(e *cli.Env, h *topology.Host) string {
	switch _, err := fs.Stat(e.Root, cachesFile); {
	case errors.Is(err, fs.ErrPermission):
		return "only root may read /" + cachesFile
	case err != nil:
		return "this kernel has no cache-aware scheduling that can be switched (/" + cachesFile +
			", Linux 7.2 and later)"
	case len(h.LLCs) < 2:
		return "the CPUs of this machine share one last-level cache"
	}
	return ""
}

// chooseArms takes the arms that were asked for, or those that apply to this machine.
func (f *trialFlags) chooseArms(d *trial.Document, e *cli.Env, h *topology.Host) error {
	missing := map[trial.Arm]string{trial.Balancing: whyNoBalancing(e, h), trial.Caches: whyNoCaches(e, h)}
	for _, text := range f.arms {
		arm, err := trial.ParseArm(text)
		if err != nil {
			return cli.Usagef("--arms: %w", err)
		}
		if why := missing[arm]; why != "" {
			return cli.Forbiddenf("--arms %s: %s", arm, why)
		}
		d.Plan.Arms = append(d.Plan.Arms, arm)
	}
	if len(f.arms) == 0 {
		for _, arm := range trial.Arms {
			if missing[arm] == "" {
				d.Plan.Arms = append(d.Plan.Arms, arm)
			}
		}
	}
	d.Balancing = slices.Contains(d.Plan.Arms, trial.Balancing)
	d.Caches = slices.Contains(d.Plan.Arms, trial.Caches)
	if len(h.Nodes) < 2 {
		d.Notes = append(d.Notes,
			"This machine has one NUMA node: all memory is local in every arm, and there is nothing for NUMA "+
				"balancing to do. Only these can differ: CPU sets within the node (last-level caches), batch work "+
				"under sharing, and interrupts.")
	}
	return nil
}

// chooseMetrics reads the metrics and guards of the command line.
func (f *trialFlags) chooseMetrics(d *trial.Document) error {
	for _, group := range []struct {
		flag  string
		kind  trial.Kind
		texts []string
	}{{"metric", trial.Command, f.metrics}, {"query", trial.Query, f.queries}, {"file", trial.File, f.files}} {
		for _, text := range group.texts {
			name := "metric"
			if n := len(d.Metrics); n > 0 {
				name = fmt.Sprintf("metric%d", n+1)
			}
			if m := namedMetric().FindStringSubmatch(text); m != nil {
				name, text = m[1], m[2]
			}
			if strings.TrimSpace(text) == "" {
				return cli.Usagef("--%s is empty", group.flag)
			}
			if slices.Contains(counterNames, name) ||
				slices.ContainsFunc(d.Metrics, func(m trial.Metric) bool { return m.Name == name }) {
				return cli.Usagef("--%s: the name %s is taken; give another, such as my-%s=…", group.flag, name, name)
			}
			if group.kind == trial.File {
				if _, err := fileSource(text); err != nil {
					return cli.Usagef("--file: %w", err)
				}
			}
			d.Metrics = append(d.Metrics, trial.Metric{Name: name, Kind: group.kind, From: text})
		}
	}
	d.Asked = len(d.Metrics)
	switch {
	case len(f.queries) > 0 && f.prometheus == "":
		return cli.Usagef("--query needs --prometheus URL")
	case f.prometheus != "" && len(f.queries) == 0:
		return cli.Usagef("--prometheus needs --query PROMQL")
	case f.prometheus != "" && !strings.HasPrefix(f.prometheus, "http://") &&
		!strings.HasPrefix(f.prometheus, "https://"):
		return cli.Usagef("--prometheus %q: want a URL such as http://localhost:9090", f.prometheus)
	case d.Asked == 0 && !f.counters:
		return cli.Usagef("nothing to read; give --metric, --query or --file, or leave out --counters=false")
	}
	for _, name := range f.lower {
		i := slices.IndexFunc(d.Metrics, func(m trial.Metric) bool { return m.Name == name })
		if i < 0 {
			return cli.Usagef("--lower %s: no metric has this name%s", name, metricNames(d))
		}
		d.Metrics[i].Lower = true
	}
	for _, text := range f.guards {
		name, percent, _ := strings.Cut(text, ":")
		worse, err := strconv.ParseFloat(strings.TrimSuffix(percent, "%"), 64)
		if err != nil || worse <= 0 || worse > 10000 {
			return cli.Usagef("--guard %q: want NAME:PERCENT, such as p99:30", text)
		}
		if !slices.ContainsFunc(d.Metrics, func(m trial.Metric) bool { return m.Name == name }) &&
			(!f.counters || !slices.Contains(counterNames, name)) {
			return cli.Usagef("--guard %s: no metric has this name%s", name, metricNames(d))
		}
		d.Guards = append(d.Guards, trial.Guard{Metric: name, Worse: worse / 100})
	}
	return nil
}

func metricNames(d *trial.Document) string {
	var all []string
	for _, m := range d.Metrics {
		all = append(all, m.Name)
	}
	if len(all) == 0 {
		return ""
	}
	return "; there are " + strings.Join(all, ", ")
}

func fileSource(text string) (*switchback.File, error) {
	path, pattern, ok := strings.Cut(text, ":")
	if !ok || path == "" || pattern == "" {
		return nil, fmt.Errorf("%q; want PATH:REGEX", text)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	if re.NumSubexp() > 1 {
		return nil, fmt.Errorf("%q has %d groups; want one, or none", pattern, re.NumSubexp())
	}
	return &switchback.File{Path: path, Pattern: re}, nil
}

// machineOf describes this machine.
func machineOf(e *cli.Env, h *topology.Host) trial.Machine {
	m := measure.NewDocument(e.Root, h)
	return trial.Machine{Host: cli.HostName(e.Root), CPU: m.Host.CPU, Packages: len(m.Host.Packages),
		Nodes: len(h.Nodes), CPUs: h.Online.Len(), LLCs: len(h.LLCs), MemoryKiB: int64(h.Memory()),
		Kernel: m.Host.Kernel}
}
