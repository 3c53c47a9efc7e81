package balance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Policies lists the policies for replay: homenode with the settings of the log, homes-kept without
// balancing, and eager, which takes every change whose gain exceeds its cost, at once and back
// again.
var Policies = []string{"homenode", "homes-kept", "eager"}

func settingsFor(policy string, recorded Settings) (Settings, error) {
	s := recorded
	switch policy {
	case "homenode":
	case "homes-kept":
		s.Enabled = false
	case "eager":
		s.Enabled = true
		s.Window = 0
		s.Cooldown = 0
		s.Ban = 0
		s.Factor = 1
	default:
		return s, fmt.Errorf("policy %q; want %s", policy, strings.Join(Policies, ", "))
	}
	return s, nil
}

// WhatIf is the result of one policy.
type WhatIf struct {
	Policy  string  `json:"policy"`    // name of the policy
	Ticks   int     `json:"ticks"`     // looks at the host that were replayed
	Changes int     `json:"changes"`   // changes of home that it made
	Bytes   int64   `json:"bytes"`     // bytes to move for these changes
	Lost    float64 `json:"lost_cpus"` // CPUs of work that waited, on average
}

// Compare runs policies on recorded scans, each with the homes that it chose. Loads are as
// recorded; if a policy placed work elsewhere, the model assumes that it runs and has its memory
// there. Lost is the model's mean over ticks.
type Compare struct {
	policies []string
	runs     []run
}

type run struct {
	WhatIf
	placements []plan.Placement
	memory     History
}

// NewCompare returns a comparison without ticks.
func NewCompare(policies ...string) (*Compare, error) {
	c := &Compare{policies: policies}
	for _, p := range policies {
		if _, err := settingsFor(p, Settings{}); err != nil {
			return nil, err
		}
		c.runs = append(c.runs, run{WhatIf: WhatIf{Policy: p}})
	}
	return c, nil
}

// Add runs every policy on the input of one tick, with the history at its start.
func (c *Compare) Add(in Input, before History) {
	for i := range c.runs {
		c.runs[i].add(in, before)
	}
}

// Results returns the result of each policy so far.
func (c *Compare) Results() []WhatIf {
	var out []WhatIf
	for i := range c.runs {
		w := c.runs[i].WhatIf
		w.Lost = round3(w.Lost / float64(max(1, w.Ticks)))
		out = append(out, w)
	}
	return out
}

func (u *run) add(recorded Input, before History) {
	if u.Ticks == 0 {
		u.memory.Samples = before.Samples
	}
	in := recorded
	in.Settings, _ = settingsFor(u.Policy, in.Settings)
	in.Settings.Act = true
	in.Flights = nil
	in.State.Placements = u.carry(recorded.State.Placements)
	in.Subjects = u.elsewhere(recorded.State.Placements, in.State.Placements, in.Subjects)
	out, memory := Tick(in, u.memory)
	u.memory = memory
	for _, p := range changed(&in, out.Plan.Placements) {
		u.Changes++
		for i := range in.Subjects {
			if o := &in.Subjects[i].Observation; o.ID == p.Workload {
				u.Bytes += int64(workload.Total(o.Memory)-workload.On(o.Memory, p.To)) << 10
			}
		}
	}
	u.placements = out.Plan.Placements
	u.Lost += lostAt(&in, out.Plan.Placements, memory.Samples) / second
	u.Ticks++
}

// carry is the policy's own homes, of the workloads that had one when this was recorded.
func (u *run) carry(recorded []plan.Placement) []plan.Placement {
	if u.Ticks == 0 {
		return recorded
	}
	out := slices.Clone(recorded)
	for i := range out {
		k, ok := slices.BinarySearchFunc(u.placements, out[i].Workload,
			func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
		if ok && u.placements[k].Start == out[i].Start {
			out[i] = u.placements[k]
		}
	}
	return out
}

// elsewhere is the subjects with those that have another home than when this was
// recorded running and lying there.
func (u *run) elsewhere(recorded, own []plan.Placement, subjects []*place.Subject) []*place.Subject {
	out := slices.Clone(subjects)
	for i := range own {
		p := &own[i]
		if p.Home.Equal(recorded[i].Home) || p.Class == workload.Batch {
			continue
		}
		k := slices.IndexFunc(out, func(s *place.Subject) bool { return s.Observation.ID == p.Workload })
		if k < 0 {
			continue
		}
		moved := *out[k]
		out[k] = &moved
		o := &moved.Observation
		o.CPUs = p.CPUs
		o.RanOn = nil
		o.Movable = nil
		o.Anon = nil
		o.Accesses.From = "" // of where it lay
		total, n := workload.Total(o.Memory), topology.KiB(p.Home.Len())
		o.Memory = nil
		for id := range p.Home.All() {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: id, Share: 1 / float64(n)})
			o.Memory = append(o.Memory, workload.NodeMemory{Node: id, KiB: total / n})
		}
	}
	return out
}

// lostAt is what the model says is lost with homes as they are.
func lostAt(in *Input, placements []plan.Placement, looks []Sample) float64 {
	st := in.State
	st.Placements = placements
	l := place.NewLedger(st)
	for i := range in.Subjects {
		if o := &in.Subjects[i].Observation; !hasHome(placements, o.ID) {
			l.AddForeign(o)
		}
	}
	return newModel(in, placements, l, looks[len(looks)-1:]).lost()
}
