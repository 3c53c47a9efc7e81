package cycles

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/perf"
)

// Count is what was counted since Open. Where the kernel shares the PMU out, counts are scaled up
// to the whole time.
type Count struct {
	Cycles, Instructions float64
	// Stalled is cycles, of StalledOf, in which the CPU issued nothing because it waited for its
	// back end, which is memory for the most part. Both are 0 where the CPU has no such counter.
	Stalled, StalledOf float64
}

var stalled = perf.Pair{Name: "cycles, stalled-cycles-backend", First: perf.Hardware(unix.PERF_COUNT_HW_CPU_CYCLES),
	Second: perf.Hardware(unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND)}

// Counters is open counters. They belong to one goroutine.
type Counters struct {
	executed, stalled []perf.Counter // stalled is empty where the CPU has none
	sum               Count
}

// Open counts for the cgroups at dirs and below them, or for the whole host when there are none,
// on the given CPUs. It takes four descriptors for each cgroup and CPU.
func Open(dirs []string, cpus topology.CPUSet) (*Counters, error) {
	return open(dirs, cpus, &perf.Executed, &stalled)
}

func open(dirs []string, cpus topology.CPUSet, first, second *perf.Pair) (*Counters, error) {
	c := &Counters{}
	var err error
	if c.executed, err = openAll(dirs, cpus, first); err != nil {
		return nil, fmt.Errorf("count cycles: %s", perf.Reason(err, ""))
	}
	if c.stalled, err = openAll(dirs, cpus, second); err != nil {
		c.stalled = nil // many CPUs have no such event
	}
	return c, nil
}

// openAll opens one pair for every cgroup, or none at all.
func openAll(dirs []string, cpus topology.CPUSet, p *perf.Pair) (out []perf.Counter, err error) {
	var on []int
	for cpu := range cpus.All() {
		on = append(on, int(cpu))
	}
	if len(dirs) == 0 {
		c, err := perf.Kernel{}.All(on, p)
		if err != nil {
			return nil, err
		}
		return []perf.Counter{c}, nil
	}
	for _, dir := range dirs {
		c, err := perf.Kernel{}.Cgroup(dir, on, p)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Stalls reports whether the CPU counts stalled cycles.
func (c *Counters) Stalls() bool { return len(c.stalled) > 0 }

// Read returns what was counted since Open.
func (c *Counters) Read() (Count, error) {
	err := errors.Join(
		addAll(c.executed, &c.sum.Cycles, &c.sum.Instructions),
		addAll(c.stalled, &c.sum.StalledOf, &c.sum.Stalled))
	return c.sum, err
}

// addAll adds what counters have counted since they were read last.
func addAll(all []perf.Counter, first, second *float64) error {
	for _, each := range all {
		a, b, err := each.Read()
		if err != nil {
			return err
		}
		*first += a
		*second += b
	}
	return nil
}

// Close gives back every descriptor.
func (c *Counters) Close() error {
	closeAll(c.executed)
	closeAll(c.stalled)
	return nil
}

func closeAll(all []perf.Counter) {
	for _, each := range all {
		each.Close()
	}
}
