package balance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Policies names what a log can be decided by: homenode with the settings of the
// log, homes-kept without balancing, eager without caution (whatever gains more
// than it costs, at once, again and back).
var Policies = []string{"homenode", "homes-kept", "eager"}

func settingsFor(policy string, recorded Settings) (Settings, error) {
	s := recorded
	switch policy {
	case "homenode":
	case "homes-kept":
		s.Enabled = false
	case "eager":
		s.Enabled, s.Window, s.Cooldown, s.Ban, s.Factor = true, 0, 0, 0, 1
	default:
		return s, fmt.Errorf("policy %q; want %s", policy, strings.Join(Policies, ", "))
	}
	return s, nil
}

// Replayed is what replaying a log found.
type Replayed struct {
	Ticks   int       `json:"ticks"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Differ  int       `json:"differ"` // ticks decided otherwise than recorded
	First   string    `json:"first,omitempty"`
	Changes []Changed `json:"changes"` // of home, as decided now
}

// Changed is a choice of balancing and when it was made.
type Changed struct {
	At    time.Time `json:"at"`
	Words string    `json:"words"`
}

// Replay decides every tick of a log again, on the homes that stood then, and
// compares the outcome byte for byte. next returns io.EOF after the last tick.
func Replay(next func() (Logged, error), policy string) (Replayed, error) {
	out := Replayed{Changes: []Changed{}}
	var memory Memory
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if r.Memory != nil {
			memory = *r.Memory
		} else if out.Ticks == 0 {
			return out, errors.New("the log does not begin with what the daemon remembered; begin with a whole file")
		}
		if r.Input.Settings, err = settingsFor(policy, r.Input.Settings); err != nil {
			return out, err
		}
		var again Outcome
		again, memory = Tick(r.Input, memory)
		text, err := json.Marshal(again)
		if err != nil {
			return out, fmt.Errorf("tick %d: %w", out.Ticks, err)
		}
		if !bytes.Equal(text, r.Outcome) {
			out.Differ++
			if out.First == "" {
				out.First = fmt.Sprintf("tick %d at %s: %s", out.Ticks, r.Input.At.Format(time.RFC3339), difference(r.Outcome, text))
			}
		}
		if out.Ticks == 0 {
			out.From = r.Input.At
		}
		out.To = r.Input.At
		out.Ticks++
		if again.Report.Chosen != nil {
			out.Changes = append(out.Changes, Changed{r.Input.At, again.Report.Words()})
		}
	}
}

// difference is where two texts part.
func difference(was, now []byte) string {
	k := 0
	for k < len(was) && k < len(now) && was[k] == now[k] {
		k++
	}
	excerpt := func(b []byte) string { return string(b[max(0, min(k-20, len(b))):min(len(b), k+60)]) }
	return fmt.Sprintf("recorded …%s…, now …%s…", excerpt(was), excerpt(now))
}

// WhatIf is how one policy would have fared.
type WhatIf struct {
	Policy  string  `json:"policy"`
	Ticks   int     `json:"ticks"`
	Changes int     `json:"changes"` // of home
	Bytes   int64   `json:"bytes"`   // to move for them
	Lost    float64 `json:"lost_cpus"`
}

// Compare lets policies decide on what was seen, each on the homes that it chose
// itself. Loads are as recorded; work that a policy put elsewhere than it was
// seen is taken to run and lie there. Lost is the model's figure, the mean over ticks.
type Compare struct {
	policies []string
	runs     []run
}

type run struct {
	WhatIf
	placements []plan.Placement
	memory     Memory
}

// NewCompare begins a comparison.
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

// Add lets every policy decide on one tick.
func (c *Compare) Add(r Logged) {
	for i := range c.runs {
		c.runs[i].add(r)
	}
}

// Results is how the policies fared so far.
func (c *Compare) Results() []WhatIf {
	var out []WhatIf
	for i := range c.runs {
		w := c.runs[i].WhatIf
		w.Lost = round3(w.Lost / float64(max(1, w.Ticks)))
		out = append(out, w)
	}
	return out
}

func (u *run) add(r Logged) {
	if r.Memory != nil && u.Ticks == 0 {
		u.memory.Looks = r.Memory.Looks
	}
	in := r.Input
	in.Settings, _ = settingsFor(u.Policy, in.Settings)
	in.Settings.Act = true
	in.Flights = nil
	in.State.Placements = u.carry(r.Input.State.Placements)
	in.Subjects = u.elsewhere(r.Input.State.Placements, in.State.Placements, in.Subjects)
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
	u.Lost += lostAt(&in, out.Plan.Placements, memory.Looks) / second
	u.Ticks++
}

// carry is the policy's own homes, of the workloads that had one when this was recorded.
func (u *run) carry(recorded []plan.Placement) []plan.Placement {
	if u.Ticks == 0 {
		return recorded
	}
	out := slices.Clone(recorded)
	for i := range out {
		k, ok := slices.BinarySearchFunc(u.placements, out[i].Workload, func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
		if ok && u.placements[k].Start == out[i].Start {
			out[i] = u.placements[k]
		}
	}
	return out
}

// elsewhere is the subjects with those that have another home than when this was
// recorded running and lying there.
func (u *run) elsewhere(recorded, own []plan.Placement, subjects []place.Subject) []place.Subject {
	out := slices.Clone(subjects)
	for i := range own {
		p := &own[i]
		if p.Home.Equal(recorded[i].Home) || p.Class == workload.Offline {
			continue
		}
		k := slices.IndexFunc(out, func(s place.Subject) bool { return s.Observation.ID == p.Workload })
		if k < 0 {
			continue
		}
		o := &out[k].Observation
		o.CPUs = p.CPUs
		o.RanOn, o.Movable, o.Anon = nil, nil, nil
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
func lostAt(in *Input, placements []plan.Placement, looks []Look) float64 {
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
