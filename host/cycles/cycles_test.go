package cycles

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/perf"
)

func software(config uint64) perf.Event {
	return perf.Event{Type: unix.PERF_TYPE_SOFTWARE, Config: config}
}

func online() topology.CPUSet {
	var all topology.CPUSet
	for cpu := range runtime.NumCPU() {
		all.Add(topology.CPUID(cpu))
	}
	return all
}

// The kernel's software events stand for the counters that most guests lack.
func TestCounts(t *testing.T) {
	clock := perf.Pair{Name: "clocks", First: software(unix.PERF_COUNT_SW_CPU_CLOCK), Second: software(unix.PERF_COUNT_SW_TASK_CLOCK)}
	c, err := open(nil, online(), &clock, &clock)
	if err != nil {
		if _, cannot := os.Stat("/proc/sys/kernel/perf_event_paranoid"); cannot != nil || os.Getuid() != 0 {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	defer c.Close()
	var last Count
	for range 3 {
		for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
		}
		n, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if n.Cycles <= last.Cycles || n.Instructions <= last.Instructions || n.StalledOf <= last.StalledOf {
			t.Errorf("%+v after %+v", n, last)
		}
		last = n
	}
	if len(c.executed) != 1 {
		t.Errorf("%d counters of the whole host", len(c.executed))
	}
}

// A CPU without the second pair still has the first.
func TestNoStalls(t *testing.T) {
	clock := perf.Pair{Name: "clocks", First: software(unix.PERF_COUNT_SW_CPU_CLOCK), Second: software(unix.PERF_COUNT_SW_TASK_CLOCK)}
	none := perf.Pair{Name: "none", First: software(1 << 40), Second: software(1 << 40)}
	c, err := open(nil, online(), &clock, &none)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	if n, err := c.Read(); err != nil || n.StalledOf != 0 || c.Stalls() {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := open(nil, online(), &none, &clock); err == nil {
		t.Error("an event that no kernel has was opened")
	}
	if _, err := open([]string{"/no/such/cgroup"}, online(), &clock, &clock); err == nil || errors.Is(err, unix.EPERM) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}
