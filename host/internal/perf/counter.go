package perf

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Event is one event as perf_event_attr names it.
type Event struct {
	Type   uint32 // of the PMU: perf_type_id, or what its file "type" says
	Config uint64
}

// Pair is two events that together tell local from remote reads of memory.
type Pair struct {
	Name string
	// First counts the local reads, or all reads when Whole; Second the remote ones.
	First, Second Event
	Whole         bool
	Source        string // the document that says so
}

// Executed is cycles and instructions, which every PMU counts (perf_event_open(2)).
var Executed = Pair{Name: "cycles, instructions", First: Hardware(unix.PERF_COUNT_HW_CPU_CYCLES),
	Second: Hardware(unix.PERF_COUNT_HW_INSTRUCTIONS)}

// Hardware is a generalized event.
func Hardware(config uint64) Event { return Event{unix.PERF_TYPE_HARDWARE, config} }

// Split is the local and remote part of two counts.
func (p *Pair) Split(first, second float64) (local, remote float64) {
	if p.Whole {
		// The two are not read in one instant and may count in different places.
		return max(0, first-second), second
	}
	return first, second
}

// Counter is an open pair or event.
type Counter interface {
	// Read is what was counted since the last Read or the opening, scaled up for the
	// time in which the PMU was shared out to others. Second is 0 for a single event.
	Read() (first, second float64, err error)
	// Close gives back every descriptor.
	Close() error
}

// Opener opens counters.
type Opener interface {
	// Cgroup counts a pair for the tasks in the cgroup at dir and below it while they
	// run on the given CPUs, or nothing at all. It takes two descriptors a CPU. With dir
	// "" it is the calling thread, on whatever CPU.
	Cgroup(dir string, cpus []int, p *Pair) (Counter, error)
	// On counts one event on a CPU whatever runs there: for PMUs outside the cores.
	On(cpu int, e Event) (Counter, error)
}

// ErrShort says that the kernel gave less than a whole count.
var ErrShort = errors.New("count is cut short")

// raw is one reading of a group of one or two events.
type raw struct {
	enabled, running time.Duration
	value            [2]uint64
}

// since is what was counted from before to r. While the PMU was not given to the
// group nothing was counted: what it would have been is taken to be as in the rest.
func (r raw) since(before raw) (out [2]float64) {
	running := r.running - before.running
	if running <= 0 {
		return out
	}
	scale := max(1, float64(r.enabled-before.enabled)/float64(running))
	for i := range out {
		if r.value[i] > before.value[i] {
			out[i] = float64(r.value[i]-before.value[i]) * scale
		}
	}
	return out
}
