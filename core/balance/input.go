package balance

import (
	"math"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Settings are the rules of balancing.
type Settings struct {
	Enabled bool          `json:"enabled"`
	Act     bool          `json:"act"`     // homes change; otherwise the report says what would be done
	Window  time.Duration `json:"window"`  // what is wrong must have been so for this long
	Horizon time.Duration `json:"horizon"` // how long what was seen is taken to last, at most
	// rest of a workload after a move; doubles with each further move within an hour
	Cooldown time.Duration `json:"cooldown"`
	Ban      time.Duration `json:"ban"`    // no move back to where it came from
	Factor   float64       `json:"factor"` // gain over cost that a move must reach
}

// DefaultSettings returns the settings of the daemon; each carries the argument for its value.
func DefaultSettings() Settings {
	return Settings{
		Enabled: true,
		Act:     true,
		// Five looks at the daemon's 2 s: a burst of a few seconds is over before a
		// move of a few GiB is.
		Window: 10 * time.Second,
		// It is the time in which a move must earn twice its cost, at most (see
		// horizon): 64 GiB at 256 MiB/s take 256 s.
		Horizon:  5 * time.Minute,
		Cooldown: time.Minute,
		Ban:      15 * time.Minute,
		// Half of what the model promises may be wrong.
		Factor: 2,
	}
}

// Flight is a page move that is planned or in progress.
type Flight struct {
	Workload workload.ID      `json:"workload"`
	To       topology.NodeSet `json:"to"`
	// PutOff is why it is not tried now; none when it runs or waits for its turn.
	PutOff words.Reason `json:"put_off,omitzero"`
}

// Input is everything that a tick decides on, except History. The flight recorder keeps it.
type Input struct {
	At       time.Time        `json:"at"`
	State    plan.State       `json:"state"`
	Subjects []*place.Subject `json:"subjects"`
	Flights  []Flight         `json:"flights,omitempty"` // rising by workload
	Held     []workload.ID    `json:"held,omitempty"`    // undone, or stopped, by hand
	HeldAll  bool             `json:"held_all,omitempty"`
	// changes of home that an operator ordered since the tick before
	Ordered  []HomeChange    `json:"ordered,omitempty"`
	Arrange  arrange.Options `json:"arrange"`
	Settings Settings        `json:"settings"`
	// Traffic is what was counted of each node's memory, MiB/s, by node in the order of
	// the host's; None where nothing tells, nil when nowhere.
	Traffic []int64 `json:"traffic,omitempty"`
}

// History is the state that one tick passes to the next.
type History struct {
	Samples []Sample     `json:"samples,omitempty"` // oldest first; one window and the look before it
	Changes []HomeChange `json:"changes,omitempty"` // oldest first; one hour, or the ban if that is longer
}

// Sample is the part of one scan that later ticks need.
type Sample struct {
	At   time.Time      `json:"at"`
	Busy []float64      `json:"busy"` // CPUs kept busy by online work, by node in the order of the host's
	Free []topology.KiB `json:"free"` // free and reclaimable memory, by node; None when unknown
	Uses []Use          `json:"uses"` // rising by workload
	// Traffic is Input.Traffic of that look.
	Traffic []int64 `json:"traffic,omitempty"`
}

// Use is the resource use of one workload in one scan.
type Use struct {
	Workload  workload.ID `json:"id"`
	CPUs      float64     `json:"cpus"`
	Bandwidth int64       `json:"mib_s,omitempty"` // 0 when unknown
	Accesses  float64     `json:"reads,omitempty"` // counted, a second; 0 when unknown
	Level     float64     `json:"level"`           // CPUs it used when this level of use began
	Since     time.Time   `json:"since"`           // … and when that was
	Free      float64     `json:"free,omitempty"`  // most CPUs it used of late while its nodes had idle time
	Known     time.Time   `json:"known,omitzero"`  // … and when they last had
}

// HomeChange is a past change of home.
type HomeChange struct {
	Workload workload.ID      `json:"workload"`
	From     topology.NodeSet `json:"from"`
	To       topology.NodeSet `json:"to"`
	At       time.Time        `json:"at"`
}

// Round drops the precision that no decision needs: it keeps CPU use to a thousandth, and removes
// totals of CPU time and the window. Without it these digits would be most of a recorded Input.
func Round(o workload.Observation) workload.Observation {
	o.CPUUse = round3(o.CPUUse)
	o.CPUTime = 0
	o.Window = 0
	o.Slices, o.Vhost = workload.Slices{}, workload.Vhost{}
	o.Accesses.Local, o.Accesses.PerSecond = round3(o.Accesses.Local), math.Round(o.Accesses.PerSecond)
	return o
}
