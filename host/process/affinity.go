package process

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// AffinityOf is the CPUs that a thread may run on now; 0 is the caller's.
func AffinityOf(tid int) (topology.CPUSet, error) { return numa.Kernel{}.Affinity(tid) }

// CPUsOf is all CPUs that threads of a process may use.
func CPUsOf(pid int) (topology.CPUSet, error) {
	var out topology.CPUSet
	tids, err := threadsOf(pid)
	if err != nil {
		return out, err
	}
	for _, tid := range tids {
		if cpus, err := AffinityOf(tid); err == nil {
			out = out.Union(cpus)
		}
	}
	return out, nil
}

// threadsOf is the threads of a process of this machine, rising.
func threadsOf(pid int) ([]int, error) { return numbersIn("/proc/" + strconv.Itoa(pid) + "/task") }

// affinity is what a setting of kind plan.Affinity says of one process: the CPUs
// of its main thread, and of each thread that has others. As text
// "0-15;1240=3;1241=0-1": the main CPU set, then THREAD=CPUS by rising thread.
type affinity struct {
	main   topology.CPUSet
	except map[int]topology.CPUSet
}

func (a affinity) String() string {
	var b strings.Builder
	b.WriteString(a.main.String())
	for _, tid := range slices.Sorted(maps.Keys(a.except)) {
		fmt.Fprintf(&b, ";%d=%s", tid, a.except[tid])
	}
	return b.String()
}

func parseAffinity(text string) (affinity, error) {
	parts := strings.Split(text, ";")
	main, err := topology.ParseCPUSet(parts[0])
	if err != nil {
		return affinity{}, fmt.Errorf("affinity: %w", err)
	}
	if main.Empty() {
		return affinity{}, fmt.Errorf("affinity %q: no CPUs", text)
	}
	a := affinity{main: main, except: map[int]topology.CPUSet{}}
	for _, part := range parts[1:] {
		thread, list, ok := strings.Cut(part, "=")
		tid, err := strconv.Atoi(thread)
		if !ok || err != nil || tid <= 0 {
			return affinity{}, fmt.Errorf("affinity: want THREAD=CPUS, have %q", part)
		}
		if a.except[tid], err = topology.ParseCPUSet(list); err != nil {
			return affinity{}, fmt.Errorf("affinity: %w", err)
		}
		if a.except[tid].Empty() {
			return affinity{}, fmt.Errorf("affinity: %q has no CPUs", part)
		}
	}
	return a, nil
}
