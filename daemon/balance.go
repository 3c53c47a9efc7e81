package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Balance says when homes that hold are given up for better ones.
type Balance struct {
	Enabled  bool          `yaml:"enabled"`
	Window   time.Duration `yaml:"window"`   // what is wrong must have been so for this long, 1s to 1h
	Horizon  time.Duration `yaml:"horizon"`  // how long a load is taken to last: a move must earn twice its cost in it, 10s to 24h
	Cooldown time.Duration `yaml:"cooldown"` // rest of a workload after a move, doubling with each within the hour, 1s to 1h
}

func newBalance() Balance {
	s := balance.DefaultSettings()
	return Balance{Enabled: s.Enabled, Window: s.Window, Horizon: s.Horizon, Cooldown: s.Cooldown}
}

func (b *Balance) validate() error {
	for _, x := range []struct {
		key         string
		have        time.Duration
		least, most time.Duration
	}{
		{"window", b.Window, time.Second, time.Hour},
		{"horizon", b.Horizon, 10 * time.Second, 24 * time.Hour},
		{"cooldown", b.Cooldown, time.Second, time.Hour},
	} {
		if x.have < x.least || x.have > x.most {
			return fmt.Errorf("balance.%s: %v; want %v to %v", x.key, x.have, x.least, x.most)
		}
	}
	return nil
}

// Record says how much of what was seen and decided is kept (homenode replay).
type Record struct {
	MaxSize Size `yaml:"max_size"` // of all files together, at least 1MiB; 0 keeps none
}

func (r *Record) validate() error {
	if r.MaxSize != 0 && r.MaxSize < 1<<20 {
		return fmt.Errorf("record.max_size: %s; want 0 (none) or at least 1MiB", humanize.IBytes(uint64(r.MaxSize)))
	}
	return nil
}

// keyPast is where changes of home are kept in the store: the ban on going back
// outlives the daemon.
const keyPast = "balance"

// settings is what core/balance needs to know of the configuration.
func (c *Config) settings() balance.Settings {
	s := balance.DefaultSettings()
	b := &c.Balance
	s.Enabled, s.Window, s.Horizon, s.Cooldown = b.Enabled, b.Window, b.Horizon, b.Cooldown
	s.Act = c.Mode == Enforce
	return s
}

// input is what a tick decides on. d.mu is held.
func (d *Daemon) input(at time.Time, state plan.State, s workload.Snapshot) balance.Input {
	in := balance.Input{
		At: at.Round(0).UTC(), State: state, Subjects: d.subjects(s),
		Arrange: d.arranging(), Settings: d.o.Config.settings(), HeldAll: d.held.All, Flights: d.flights(),
	}
	for i, n := range s.Nodes {
		if n.Bandwidth >= 0 && in.Traffic == nil {
			in.Traffic = make([]int64, len(s.Nodes))
			for k := range i {
				in.Traffic[k] = topology.None
			}
		}
		if in.Traffic != nil {
			in.Traffic[i] = n.Bandwidth
		}
	}
	for id := range d.held.IDs {
		in.Held = append(in.Held, id)
	}
	slices.Sort(in.Held)
	in.Round()
	return in
}

// flights is the page moves that are planned or under way. d.mu is held.
func (d *Daemon) flights() []balance.Flight {
	var out []balance.Flight
	for i := range d.view.plan.Steps {
		s := &d.view.plan.Steps[i]
		p := placementOf(d.view.plan.Placements, s.Workload)
		moves := s.Kind == plan.MovePages || s.Kind == plan.SetMems && s.Target.Kind == workload.InGuest
		if !moves || p == nil {
			continue
		}
		f := balance.Flight{Workload: s.Workload, To: p.Home}
		if r := d.tries[tryKey(*s)]; r != nil && d.o.Clock.Now().Before(r.next) {
			f.PutOff = cmp.Or(r.text, "what is left did not move; it is tried again later.")
		}
		if d.held.has(s.Workload) {
			f.PutOff = "undone or cancelled by hand."
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y balance.Flight) int { return cmp.Compare(x.Workload, y.Workload) })
	return out
}

// learn keeps what a tick hands to the next; changes of home durably.
func (d *Daemon) learn(next balance.Memory) error {
	d.mu.Lock()
	same := slices.EqualFunc(d.memory.Past, next.Past, func(x, y balance.Past) bool { return x.Workload == y.Workload && x.At.Equal(y.At) })
	d.unpast = d.unpast || !same
	d.memory = next
	unpast := d.unpast
	d.mu.Unlock()
	if !unpast {
		return nil
	}
	if err := d.o.Store.Save(keyPast, next.Past); err != nil {
		return err // tried again at the next tick
	}
	d.mu.Lock()
	d.unpast = false
	d.mu.Unlock()
	return nil
}

// tellBalance writes what is done about the load, and when the reason for doing
// nothing becomes another one.
func (d *Daemon) tellBalance(r *balance.Report) {
	e := plan.Event{Kind: plan.EventPlan, Text: "balancing: " + r.Words()}
	key := string(r.State)
	if r.Chosen != nil {
		e.Workload = r.Chosen.Changes[0].Workload
		for _, c := range r.Chosen.Changes {
			key += fmt.Sprintf(" %s %s", c.Workload, c.To)
		}
	}
	d.mu.Lock()
	news := d.balanced != key && (r.State != balance.NoChoice || d.balanced == "" || d.balanced == string(balance.InOrder))
	quiet := d.balanced == "" && r.State != balance.Would && r.State != balance.Moves
	if news || r.Chosen != nil || r.State == balance.NoChoice || r.State == balance.InOrder {
		d.balanced = key
	}
	d.mu.Unlock()
	if news && !quiet && r.State != balance.Learning {
		d.event(e)
	}
}

// record hands a tick to the flight recorder. One that cannot write must not stop
// the daemon.
func (d *Daemon) record(in balance.Input, before balance.Memory, out balance.Outcome) {
	if d.o.Recorder == nil {
		return
	}
	text := ""
	if err := d.o.Recorder.Record(balance.Record{Memory: &before, Input: in, Outcome: out}); err != nil {
		text = "flight recorder: " + err.Error()
	}
	d.once("recorder", plan.Event{Kind: plan.EventDaemon, Error: true, Text: text})
}
