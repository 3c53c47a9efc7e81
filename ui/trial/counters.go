package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/workload"
)

// Counters is what the host itself counts of some workloads, or of all.
type Counters struct {
	Root   fs.FS
	Status func(ctx context.Context) (api.Status, error)
	Names  []string // names or patterns; empty is the host
	Now    func() time.Time
	// Cycles opens counters of what CPUs do, for the host or for some cgroups (paths as in
	// /proc/PID/cgroup); nil where there are none.
	Cycles func(cgroups []string) (CycleCounter, error)

	at       time.Time
	status   api.Status
	executed *executed
}

// CycleCounter is open counters.
type CycleCounter interface {
	// Stalls reports whether the CPU counts stalled cycles.
	Stalls() bool
	// Read returns what was counted since they were opened; stalled is part of stalledOf cycles.
	Read() (cycles, instructions, stalled, stalledOf float64, err error)
	Close() error
}

// newest is the status of this reading: all counters share one.
func (c *Counters) newest(ctx context.Context) (api.Status, error) {
	now := c.Now()
	if c.at.IsZero() || now.Sub(c.at) > 100*time.Millisecond {
		s, err := c.Status(ctx)
		if err != nil {
			return s, err
		}
		c.at, c.status = now, s
	}
	return c.status, nil
}

// workloads is those that the trial is about.
func (c *Counters) workloads(ctx context.Context) ([]api.Workload, error) {
	s, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Workload
	for _, w := range s.Workloads {
		if len(c.Names) == 0 || slices.ContainsFunc(c.Names, func(p string) bool { return Named(p, &w) }) {
			out = append(out, w)
		}
	}
	return out, nil
}

// Named reports whether a name or pattern is that of a workload, as the daemon sees it.
func Named(pattern string, w *api.Workload) bool {
	if pattern == path.Base(string(w.ID)) ||
		control.Matches(pattern, &workload.Observation{ID: w.ID, Name: w.Name, Kind: w.Kind, Cgroup: w.Cgroup}) {
		return true
	}
	return slices.ContainsFunc(w.Processes, func(pid int) bool { return pattern == strconv.Itoa(pid) })
}

// All is the counters that this host has, each with where it is from.
func (c *Counters) All(ctx context.Context, nodes int) (metrics []trial.Metric, sources []Source) {
	add := func(m trial.Metric, s Source) {
		if _, _, err := s.Read(ctx); err == nil {
			metrics, sources = append(metrics, m), append(sources, s)
		}
	}
	of := "the host"
	if len(c.Names) > 0 {
		of = strings.Join(c.Names, ", ")
	}
	if nodes > 1 {
		add(trial.Metric{Name: "local", Points: true, Kind: trial.Counter, From: "share of local memory accesses of " +
			of}, &local{c})
	}
	add(trial.Metric{Name: "wait", Unit: "CPUs", Lower: true, Kind: trial.Counter, From: "run-queue wait of " + of +
		", schedstat"}, &rate{c: c, total: c.wait})
	if c.Cycles != nil {
		c.executed = &executed{c: c}
		add(trial.Metric{Name: "ipc", Kind: trial.Counter, From: "instructions a cycle of " + of +
			", hardware counters"}, &ratio{executed: c.executed})
		add(trial.Metric{Name: "stalled", Points: true, Lower: true, Kind: trial.Counter,
			From: "share of cycles that waited for the CPU's back end, of " + of + ", hardware counters"},
			&ratio{executed: c.executed, stalls: true})
	}
	for _, resource := range []string{"cpu", "memory", "io"} {
		add(trial.Metric{Name: "psi-" + resource, Points: true, Lower: true, Kind: trial.Counter,
			From: "PSI of " + of + ", some"},
			&rate{c: c, total: func(ctx context.Context) (float64, error) { return c.stalled(ctx, resource) }})
	}
	return metrics, sources
}

// local is the share of local accesses, weighed by CPU use.
type local struct{ c *Counters }

func (l *local) Read(ctx context.Context) (float64, bool, error) {
	all, err := l.c.workloads(ctx)
	if err != nil {
		return 0, false, err
	}
	sum, weight := 0.0, 0.0
	for _, w := range all {
		if w.Locality != nil {
			sum += *w.Locality * w.CPUUse
			weight += w.CPUUse
		}
	}
	return sum / weight, weight > 0, nil
}

// rate is how fast a total of seconds grows, in seconds a second.
type rate struct {
	c     *Counters
	total func(ctx context.Context) (float64, error)

	at   time.Time
	last float64
}

func (r *rate) Read(ctx context.Context) (float64, bool, error) {
	total, err := r.total(ctx)
	if err != nil {
		return 0, false, err
	}
	now := r.c.Now()
	took := now.Sub(r.at).Seconds()
	grew := total - r.last
	first := r.at.IsZero()
	r.at, r.last = now, total
	// What a process that ended had waited is gone from the total.
	return grew / took, !first && took > 0 && grew >= 0, nil
}

// executed is what CPUs have done for the workloads, which both ratios are made of.
type executed struct {
	c       *Counters
	open    CycleCounter
	cgroups []string // that open counts
	opened  int      // how often; totals of two openings cannot be compared
}

// counted opens counters for the workloads that there are now, and returns their totals.
func (x *executed) counted(ctx context.Context) (cycles, instructions, stalled, stalledOf float64, err error) {
	cgroups, err := x.c.cgroups(ctx)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	if x.open != nil && !slices.Equal(cgroups, x.cgroups) { // workloads came or went
		x.close()
	}
	if x.open == nil {
		open, err := x.c.Cycles(cgroups)
		if err != nil {
			return 0, 0, 0, 0, err
		}
		x.open, x.cgroups = open, cgroups
		x.opened++
	}
	return x.open.Read()
}

func (x *executed) close() {
	if x.open != nil {
		x.open.Close()
		x.open = nil
	}
}

// ratio is instructions a cycle, or the share of cycles that are stalled, between two readings.
type ratio struct {
	executed *executed
	stalls   bool

	up, of float64 // at the last reading
	opened int     // the opening that they are of
}

var (
	errNoStalls = errors.New("this CPU has no counter of stalled cycles")
	errShared   = errors.New("the workloads share their cgroups with others")
)

func (r *ratio) Read(ctx context.Context) (float64, bool, error) {
	cycles, instructions, stalled, stalledOf, err := r.executed.counted(ctx)
	if err != nil {
		return 0, false, err
	}
	up, of := instructions, cycles
	if r.stalls {
		if !r.executed.open.Stalls() {
			return 0, false, errNoStalls
		}
		up, of = stalled, stalledOf
	}
	grewUp := up - r.up
	grewOf := of - r.of
	first := r.opened != r.executed.opened
	r.up = up
	r.of = of
	r.opened = r.executed.opened
	if first || grewOf <= 0 {
		return 0, false, nil
	}
	return grewUp / grewOf, true, nil
}

// Close closes what the counters have open.
func (c *Counters) Close() {
	if c.executed != nil {
		c.executed.close()
	}
}

// cgroups is those of the workloads that the trial is about; none for the host.
func (c *Counters) cgroups(ctx context.Context) ([]string, error) {
	if len(c.Names) == 0 {
		return nil, nil
	}
	all, err := c.workloads(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range all {
		if w.Cgroup != "" && w.Kind != workload.InProcess { // else it shares it
			out = append(out, w.Cgroup)
		}
	}
	if len(out) == 0 {
		return nil, errShared
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// wait is the time that tasks were ready and had no CPU, s (Documentation/scheduler/sched-stats.rst).
func (c *Counters) wait(ctx context.Context) (float64, error) {
	if len(c.Names) == 0 {
		text, err := fs.ReadFile(c.Root, "proc/schedstat")
		if err != nil {
			return 0, err
		}
		sum, seen := 0.0, false
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 8 && strings.HasPrefix(f[0], "cpu") {
				ns, err := strconv.ParseFloat(f[8], 64)
				if err != nil {
					return 0, fmt.Errorf("proc/schedstat: %w", err)
				}
				sum, seen = sum+ns, true
			}
		}
		if !seen {
			return 0, fmt.Errorf("proc/schedstat has no CPUs")
		}
		return sum / 1e9, nil
	}
	all, err := c.workloads(ctx)
	if err != nil {
		return 0, err
	}
	sum, seen := 0.0, false
	for _, w := range all {
		for _, pid := range w.Processes {
			tasks, err := fs.ReadDir(c.Root, fmt.Sprintf("proc/%d/task", pid))
			if err != nil {
				continue // it has ended
			}
			for _, t := range tasks {
				text, err := fs.ReadFile(c.Root, fmt.Sprintf("proc/%d/task/%s/schedstat", pid, t.Name()))
				if f := strings.Fields(string(text)); err == nil && len(f) > 1 {
					ns, _ := strconv.ParseFloat(f[1], 64)
					sum, seen = sum+ns, true
				}
			}
		}
	}
	if !seen {
		return 0, fmt.Errorf("no schedstat of %s", strings.Join(c.Names, ", "))
	}
	return sum / 1e9, nil
}

// stalled is the time that some tasks waited for a resource, s (Documentation/accounting/psi.rst).
func (c *Counters) stalled(ctx context.Context, resource string) (float64, error) {
	files := []string{"proc/pressure/" + resource}
	cgroups, err := c.cgroups(ctx)
	if err != nil {
		return 0, err
	}
	if len(cgroups) > 0 {
		files = nil
		for _, cgroup := range cgroups {
			files = append(files, "sys/fs/cgroup"+cgroup+"/"+resource+".pressure")
		}
	}
	sum := 0.0
	for _, name := range files {
		text, err := fs.ReadFile(c.Root, name)
		if err != nil {
			return 0, err
		}
		some, _, _ := strings.Cut(string(text), "\n")
		_, total, ok := strings.Cut(some, "total=")
		us, err := strconv.ParseFloat(strings.TrimSpace(total), 64)
		if !ok || err != nil {
			return 0, fmt.Errorf("%s: %q", name, some)
		}
		sum += us
	}
	return sum / 1e6 / float64(len(files)), nil
}
