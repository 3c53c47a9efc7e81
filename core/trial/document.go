package trial

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Schemas of what is written.
const (
	Schema      = "homenode-trial/1"
	ShareSchema = "homenode-trial-share/1"
)

// State is how far a trial is.
type State string

// States.
const (
	Running State = "running" // or interrupted: it can go on
	Done    State = "done"    // every block was measured
	Stopped State = "stopped" // a guard, or an order, ended it early
)

// Document is a whole trial: what was planned, what was read, and what follows.
type Document struct {
	Schema   string  `json:"schema"`         // homenode-trial/1
	Name     string  `json:"name"`           // name of the trial
	State    State   `json:"state"`          // state: running, done or stopped
	Why      string  `json:"why,omitempty"`  // why it was stopped; absent when it was not
	Homenode string  `json:"homenode"`       // version of homenode
	Machine  Machine `json:"machine"`        // machine that it ran on
	Boot     string  `json:"boot,omitempty"` // boot ID at the newest start; absent when unknown
	// names or patterns of the workloads that were switched; absent is all
	Workloads  []string `json:"workloads,omitempty"`
	Plan       Plan     `json:"plan"`                 // what was planned
	Balancing  bool     `json:"balancing"`            // whether kernel.numa_balancing was switched, too
	Caches     bool     `json:"caches"`               // whether cache-aware scheduling was switched, too
	Metrics    []Metric `json:"metrics"`              // what was read; what the user asked for first
	Prometheus string   `json:"prometheus,omitempty"` // URL that queries are sent to; absent without queries
	// number of metrics, from the first, that the user asked for: these are judged
	Asked   int       `json:"asked"`
	Guards  []Guard   `json:"guards,omitempty"` // bounds that stop the trial
	Began   time.Time `json:"began"`            // when it began
	Ended   time.Time `json:"ended,omitzero"`   // when it ended; absent while it goes on
	Notes   []string  `json:"notes,omitempty"`  // what to know when reading the results, a sentence each
	Periods []Record  `json:"periods"`          // periods that were measured, in their order
	// effects, of every metric and comparison; the metrics asked for first
	Effects []Effect `json:"effects"`
	// how long a trial must run to find small effects, with the noise of this one
	Outlook []Outlook `json:"outlook"`
}

// Machine is what a trial ran on.
type Machine struct {
	Host      string `json:"host,omitempty"` // name of the machine
	CPU       string `json:"cpu"`            // model of the CPU; "" unknown
	Packages  int    `json:"packages"`       // number of packages
	Nodes     int    `json:"nodes"`          // number of NUMA nodes
	CPUs      int    `json:"cpus"`           // number of online CPUs
	LLCs      int    `json:"llcs"`           // number of last-level caches; 0 unknown
	MemoryKiB int64  `json:"memory_kib"`     // memory in all, KiB
	Kernel    string `json:"kernel"`         // kernel release; "" unknown
}

// Record is one period.
type Record struct {
	Block int `json:"block"` // block, from 0
	Arm   Arm `json:"arm"`   // arm
	// when the arm was switched to, seconds since the start of the trial
	Switch float64 `json:"switch"`
	// when its measured part began, seconds since the start of the trial
	From float64 `json:"from"`
	// when its measured part ended, seconds since the start of the trial
	To float64 `json:"to"`
	// settings and page moves that were not done when measuring began; absent for none
	Pending int                  `json:"pending,omitempty"`
	Values  map[string][]Reading `json:"values"` // readings by metric
}

// Outlook is how long a trial must run for one metric.
type Outlook struct {
	Metric string  `json:"metric"` // name of the metric
	Scale  Scale   `json:"scale"`  // what its effects are measured in
	Noise  float64 `json:"noise"`  // standard deviation of the difference of one block
	Needs  []Need  `json:"needs"`  // by effect; the power is 80 %
}

// Series is the periods of one metric.
func (d *Document) Series(metric string) []Period {
	var out []Period
	for i := range d.Periods {
		p := &d.Periods[i]
		out = append(out, Period{Block: p.Block, Arm: p.Arm, From: p.From, To: p.To, Readings: p.Values[metric]})
	}
	return out
}

// Blocks is the number of blocks that were measured whole.
func (d *Document) Blocks() int { return len(d.Periods) / max(1, len(d.Plan.Arms)) }

// Restart drops the periods of a block that is not whole, and returns the block to go on with.
func (d *Document) Restart() int {
	next := d.Blocks()
	d.Periods = slices.DeleteFunc(d.Periods, func(r Record) bool { return r.Block >= next })
	return next
}

// Evaluate works out the effects of what was measured so far.
func (d *Document) Evaluate() {
	d.Effects, d.Outlook = []Effect{}, []Outlook{}
	comparisons := d.Plan.Comparisons()
	judged := cmp.Or(d.Asked, len(d.Metrics))
	for i := range d.Metrics {
		m := &d.Metrics[i]
		series := d.Series(m.Name)
		for k, c := range comparisons {
			e := Of(m, series, c, d.Plan.Seed+uint64(i*len(comparisons)+k))
			if e.Blocks == 0 {
				continue
			}
			if i >= judged {
				e.Verdict = Shown
			}
			d.Effects = append(d.Effects, e)
			if k == 0 && e.Blocks > 1 {
				d.Outlook = append(d.Outlook,
					Outlook{m.Name, e.Scale, e.Noise, Needs(&d.Plan, e.Noise, e.Scale, e.Of, judged*len(comparisons))})
			}
		}
	}
	last := 0
	for last < len(d.Effects) && d.Effects[last].Verdict != Shown {
		last++
	}
	Judge(d.Metrics, d.Effects[:last])
}

// Shared is a trial without names: what a user may send to others.
type Shared struct {
	Schema   string         `json:"schema"`   // homenode-trial-share/1
	Homenode string         `json:"homenode"` // version of homenode
	Month    string         `json:"month"`    // month in which it ran, such as 2026-11
	Machine  Machine        `json:"machine"`  // machine, without its name; its memory is rounded up to a power of two
	Plan     Plan           `json:"plan"`     // what was planned
	Scope    string         `json:"scope"`    // what was switched: host or workloads
	State    State          `json:"state"`    // state: running, done or stopped
	Blocks   int            `json:"blocks"`   // number of blocks that were measured
	Effects  []SharedEffect `json:"effects"`  // effects
}

// SharedEffect is one effect without names.
type SharedEffect struct {
	Metric  string  `json:"metric"`  // a counter of homenode by name, or metric 1, metric 2 and so on
	Lower   bool    `json:"lower"`   // whether lower is better
	Arm     Arm     `json:"arm"`     // arm
	Base    Arm     `json:"base"`    // arm that it is compared with
	Scale   Scale   `json:"scale"`   // what the effect is measured in: relative or points
	Change  float64 `json:"change"`  // the effect
	Low     float64 `json:"low"`     // lower end of its 95 % interval
	High    float64 `json:"high"`    // upper end of its 95 % interval
	Chance  float64 `json:"chance"`  // probability of such a difference without an effect
	Verdict Verdict `json:"verdict"` // verdict
	Blocks  int     `json:"blocks"`  // number of blocks
	Noise   float64 `json:"noise"`   // standard deviation of the difference of one block
}

// Share returns a trial without names, commands, queries, paths, values and dates. What is in a
// unit that only the user knows is left out.
func (d *Document) Share() Shared {
	s := Shared{Schema: ShareSchema, Homenode: d.Homenode, Month: d.Began.UTC().Format("2006-01"), Machine: d.Machine,
		Plan: d.Plan, Scope: "host", State: d.State, Blocks: d.Blocks(), Effects: []SharedEffect{}}
	s.Machine.Host = ""
	s.Plan.Seed = 0
	if len(d.Workloads) > 0 {
		s.Scope = "workloads"
	}
	rounded := int64(1)
	for rounded < d.Machine.MemoryKiB {
		rounded *= 2
	}
	s.Machine.MemoryKiB = rounded
	for _, e := range d.Effects {
		i := slices.IndexFunc(d.Metrics, func(m Metric) bool { return m.Name == e.Metric })
		if i < 0 || e.Scale == Absolute {
			continue
		}
		name := e.Metric
		if i < d.Asked {
			name = fmt.Sprintf("metric %d", i+1)
		}
		s.Effects = append(s.Effects, SharedEffect{name, d.Metrics[i].Lower, e.Arm, e.Base, e.Scale, e.Change, e.Low,
			e.High, e.Chance, e.Verdict, e.Blocks, e.Noise})
	}
	slices.SortStableFunc(s.Effects, func(a, b SharedEffect) int { return cmp.Compare(a.Metric, b.Metric) })
	return s
}
