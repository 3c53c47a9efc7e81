package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Op is what happens.
type Op string

// The events of a trace.
const (
	Arrive   Op = "arrive"
	Depart   Op = "depart"
	Preplace Op = "preplace" // it ran before the simulation began
	Change   Op = "phase"    // what it needs changes
)

// Demand is what a job needs.
type Demand struct {
	Class      workload.Class
	Importance int
	VCPUs      int
	Busy       float64      // part of its vCPUs that want to run, 0 to 1
	Memory     topology.KiB // resident
	Asked      topology.KiB // what it says it needs when it asks; 0 is Memory
	Bandwidth  int64        // MiB/s of memory traffic with all vCPUs busy
	Near       []string     // devices
	Asks       bool         // it asks for a home before it starts (homenode run); otherwise it is found running
	Pinned     bool         // it pins its threads itself
	Brief      bool         // it wakes up often and runs briefly, so that its kind of load shows
	Untold     bool         // nobody tells homenode of its importance
	Exchange   float64      // part of its accesses, 0 to 1, that are to lines which its other threads have changed
	Bursts     bool         // its threads want to run at the same moments

	// Of what is found running, as a host has it; where these are empty its cgroup is named
	// after its class.
	Cgroup string           // of its own
	Bare   bool             // a process without a cgroup of its own
	Claim  workload.ID      // what a source calls it; "" is known to none
	Lies   topology.NodeSet // where its memory lies when it is found; empty: where its threads are
	Policy string           // memory policy that it set itself, as workload.Observation.OwnPolicy
	Runs   topology.NodeSet // where its threads are when it is found; empty: where the kernel starts them
}

// asked is the memory it says it needs.
func (d *Demand) asked() topology.KiB { return max(d.Memory, d.Asked) }

// Event is one thing that happens.
type Event struct {
	At     time.Duration
	Op     Op
	Name   string // of the job; one name is one job
	Demand Demand // Arrive and Change

	CPUs     topology.CPUSet       // Preplace
	MemoryOn []workload.NodeMemory // Preplace, rising by node
}

// Trace is a host and what happens on it.
type Trace struct {
	Name   string
	Host   *topology.Host
	Policy plan.Policy
	Events []Event // rising by time

	// Recognise is what homenode does with how important work seems; "" is nothing.
	Recognise control.Recognise
	Rules     []workload.Rule // of the daemon; nil follows from the events
	Counters  bool            // the machine counts the memory traffic of each job
	Until     time.Duration   // it goes on for at least so long

	house bool // it is looked at as a House is
}

// bandwidthPerCPU is the memory traffic of a busy CPU, MiB/s, where a trace does
// not say. It puts a host whose CPUs are two thirds busy at about 15 % of its
// memory bandwidth; Kanev et al., "Profiling a warehouse-scale computer" (ISCA
// 2015), found a median of 10 % and 31 % at the 95th percentile.
const bandwidthPerCPU = 1024

// maxTrace bounds a trace file, and maxTraceTime what it may stand for.
const (
	maxTrace     = 64 << 20
	maxTraceTime = 10 * 365 * 24 * time.Hour
)

// ReadTrace reads a case (the format of gen_cases.py). Its "t" counts in unit;
// a case without times has one event every unit.
func ReadTrace(r io.Reader, unit time.Duration) (*Trace, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxTrace {
		return nil, fmt.Errorf("larger than %d MiB; this is no trace", maxTrace>>20)
	}
	c, err := replay.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var times struct {
		Events []struct {
			T *float64 `json:"t"`
		} `json:"events"`
	}
	if err := json.Unmarshal(text, &times); err != nil {
		return nil, err
	}
	t := &Trace{Name: c.Name, Host: c.Host, Policy: c.Policy}
	last, arrived := 0.0, false
	for i := range c.Events {
		e := &c.Events[i]
		fail := func(format string, a ...any) error {
			return fmt.Errorf("case %q: event %d (%s %q): %s", c.Name, i, e.Op, e.VM, fmt.Sprintf(format, a...))
		}
		at := float64(i)
		if given := times.Events[i].T; given != nil {
			at = *given
		} else if i > 0 && times.Events[i-1].T != nil {
			at = last
		}
		switch {
		case math.IsNaN(at) || at < last || at*float64(unit) > float64(maxTraceTime):
			return nil, fail("t %v; times rise, and all of it is at most ten years", at)
		case e.Op == replay.Preplace && arrived:
			return nil, fail("what was there before comes first in a trace")
		}
		arrived = arrived || e.Op == replay.Arrive
		last = at
		t.Events = append(t.Events, eventOf(e, c.Host, time.Duration(at*float64(unit))))
	}
	if len(t.Events) == 0 {
		return nil, fmt.Errorf("case %q: no events", c.Name)
	}
	return t, nil
}

func eventOf(e *replay.Event, h *topology.Host, at time.Duration) Event {
	out := Event{At: at, Name: string(e.VM)}
	switch e.Op {
	case replay.Depart:
		out.Op = Depart
	case replay.Arrive:
		out.Op = Arrive
		out.Demand = Demand{Class: e.Spec.Class, Importance: e.Spec.Importance, VCPUs: e.Spec.CPUs, Busy: 1,
			Memory: e.Spec.Memory, Bandwidth: e.Spec.Bandwidth, Asks: true}
		for _, n := range e.Spec.Near {
			out.Demand.Near = append(out.Demand.Near, n.Device)
		}
	case replay.Preplace:
		out.Op, out.CPUs = Preplace, e.CPUs
		out.Demand = Demand{Class: workload.Dedicated, Importance: workload.DefaultImportance,
			VCPUs: max(1, e.CPUs.Len()), Busy: 1, Asks: true}
		for _, n := range h.Nodes {
			if m := e.Memory[n.ID]; m > 0 {
				out.MemoryOn = append(out.MemoryOn, workload.NodeMemory{Node: n.ID, KiB: m})
				out.Demand.Memory += m
			}
		}
	}
	out.Demand.Bandwidth = cmp.Or(out.Demand.Bandwidth, int64(out.Demand.VCPUs)*bandwidthPerCPU)
	return out
}
