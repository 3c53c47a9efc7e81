package settings

import (
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/concern/fasttier"
	"github.com/homenode/homenode/core/control/concern/interrupts"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// Recognise is what is done with how important work seems by its kind of load (core/load).
type Recognise string

// What may be done.
const (
	RecogniseOff     Recognise = "off"
	RecogniseSuggest Recognise = "suggest" // explain and status tell
	RecogniseApply   Recognise = "apply"   // work of which nobody has said how important it is has that importance
)

// Settings is the configuration as far as decisions go by it.
type Settings struct {
	Enforce   bool              `json:"enforce"` // carry plans out
	Policy    plan.Policy       `json:"policy"`
	Partition plan.Partition    `json:"partition,omitempty"`
	Arrange   arrange.Options   `json:"arrange"`
	NeverSwap bool              `json:"never_swap,omitempty"` // dedicated work does not swap
	Tiers     fasttier.Settings `json:"tiers,omitzero"`       // shares of fast memory
	Weights   bool              `json:"weights,omitempty"`    // the kernel's weights of weighted interleave are set
	// threads of work that is wider than a node each get one of its nodes
	Divide bool `json:"divide,omitempty"`
	// kernel.numa_balancing may be switched on for that for a while
	Sample        bool              `json:"sample,omitempty"`
	Balance       balance.Settings  `json:"balance"`
	Rules         []workload.Rule   `json:"rules,omitempty"`
	MinAge        time.Duration     `json:"min_age,omitempty"` // a process that is younger gets no home; 0 is any age
	Include       []string          `json:"include,omitempty"` // glob patterns on workload ID or name; empty is all
	Exclude       []string          `json:"exclude,omitempty"` // glob patterns; stronger than Include
	Grants        []workload.Grant  `json:"grants,omitempty"`  // what the authors of pods may ask for
	Share         share.Settings    `json:"share"`
	Base          share.Base        `json:"base,omitzero"` // what beside CPU sets sharing sets
	Interrupts    interrupts.Mode   `json:"interrupts"`
	Queues        irq.QueueCount    `json:"queues,omitempty"`
	Recognise     Recognise         `json:"recognise,omitempty"`
	HelpersStay   bool              `json:"helpers_stay,omitempty"` // they do not follow those that they work for
	Surveys       []work.SurveyKind `json:"surveys,omitempty"`      // those that there is somebody to make
	RestoreOnStop bool              `json:"restore_on_stop,omitempty"`
}

// Mode is what Enforce says, in a word: enforce or observe.
func (s *Settings) Mode() string {
	if s.Enforce {
		return "enforce"
	}
	return "observe"
}

// Scene returns the part of the configuration that the scene needs.
func (s *Settings) Scene() scene.Settings {
	return scene.Settings{
		Rules:       s.Rules,
		Include:     s.Include,
		Exclude:     s.Exclude,
		MinAge:      s.MinAge,
		Overcommit:  s.Policy.Overcommit,
		Weighs:      s.Recognise == RecogniseApply,
		HelpersStay: s.HelpersStay,
		Spreads:     s.ReadsThreads(),
	}
}

// Names reports whether a rule makes a cgroup one workload, however small it is (scene.Names).
func (s *Settings) Names(cgroup, name string) bool { return scene.Names(s.Rules, cgroup, name) }

// ReadsThreads reports whether threads of wide work are read one by one.
func (s *Settings) ReadsThreads() bool { return s.Divide }

// Sharing returns the part of the configuration that sharing needs.
func (s *Settings) Sharing() sharing.Settings { return sharing.Settings{Share: s.Share, Base: s.Base} }
