package load

import (
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Kind is the kind of a load.
type Kind string

// Kinds of load.
const (
	Unknown    Kind = ""                // too little was seen, or it is none of the others
	Latency    Kind = "latency-bound"   // wakes up, runs briefly, sleeps
	Interrupts Kind = "interrupt-heavy" // woken thousands of times a second
	Steady     Kind = "steady"          // runs all the time
)

const (
	// leastUse is the CPU use below which slices say nothing: a daemon that looks at its clock.
	leastUse = 0.05

	// brief is the longest mean time slice of latency-bound work: less than what the kernel's
	// scheduler gives a thread that keeps running (2.8 ms on 8 CPUs and more; kernel/sched/fair.c, base_slice).
	brief = 2 * time.Millisecond
	// asleep is the least part of the time that its busy threads sleep.
	asleep = 0.3
	// often is how many times a second it is put on a CPU at least.
	often = 20

	// wakes is how often interrupt-heavy work is put on a CPU for each second that it runs: every 200 µs
	// and less; wakesLeast is that in all.
	wakes, wakesLeast = 5000, 1000
	// vhostShare is the part of its CPU time that vhost threads have of interrupt-heavy work.
	vhostShare = 0.25

	// slack is what bounds of the kind that counts are wider by.
	slack = 4.0 / 3

	// hurt is the part of the time that it wants to run for which latency-bound work waits, from
	// which on it matters more.
	hurt = 0.1

	// holds is how long a kind is seen until it counts, ends how long another is until it no longer does.
	holds = time.Minute
	ends  = 5 * time.Minute
)

// Importances that are suggested; the default is 50.
const (
	suggested     = 70
	suggestedHurt = 80 // it is kept from running
)

// Load is the kind of load of one workload, with its samples.
type Load struct {
	Kind       Kind      `json:"kind,omitempty"`
	Importance int       `json:"importance,omitempty"` // that is suggested; 0 for none
	Seen       Kind      `json:"seen,omitempty"`       // at the newest look
	Since      time.Time `json:"since,omitzero"`       // … and since when
}

// Look returns the load after one more sample, taken at a given time.
func (l Load) Look(o *workload.Observation, at time.Time) Load {
	seen := l.kind(o)
	if seen != l.Seen || l.Since.IsZero() || at.Before(l.Since) {
		l.Seen, l.Since = seen, at
	}
	long := holds
	if l.Kind != Unknown {
		long = ends
	}
	if l.Seen != l.Kind && at.Sub(l.Since) >= long {
		l.Kind, l.Importance = l.Seen, 0
	}
	switch {
	case l.Kind == Interrupts:
		l.Importance = suggested
	case l.Kind == Latency && seen == Latency && o.Slices.Waited >= hurt:
		l.Importance = suggestedHurt
	case l.Kind == Latency:
		l.Importance = max(l.Importance, suggested)
	}
	return l
}

// kind is the kind of load that one look shows.
func (l *Load) kind(o *workload.Observation) Kind {
	s := &o.Slices
	wide := func(k Kind) float64 {
		if l.Kind == k {
			return slack
		}
		return 1
	}
	if s.PerSecond <= 0 || o.CPUUse*wide(l.Kind) < leastUse {
		return Unknown
	}
	x := wide(Interrupts)
	if s.PerSecond*x >= max(wakesLeast, wakes*o.CPUUse) || o.Vhost.CPUUse*x >= vhostShare*o.CPUUse {
		return Interrupts
	}
	x = wide(Latency)
	if s.Asleep*x >= asleep && float64(s.Mean) <= float64(brief)*x && s.PerSecond*x >= often {
		return Latency
	}
	if s.Asleep <= asleep*wide(Steady) {
		return Steady
	}
	return Unknown
}

// Why returns the reason of the kind, with figures; no reason for an unknown kind.
func (l *Load) Why(o *workload.Observation) words.Reason {
	s := &o.Slices
	ms := float64(s.Mean) / float64(time.Millisecond)
	switch l.Kind {
	case Latency:
		return words.Because(words.LoadLatency, s.PerSecond, ms, s.Asleep, s.Waited)
	case Interrupts:
		return words.Because(words.LoadInterrupts, s.PerSecond, ms, o.Vhost.CPUUse, o.CPUUse)
	case Steady:
		return words.Because(words.LoadSteady, ms, s.Asleep)
	}
	return words.Reason{}
}
