package config

import (
	"cmp"
	"fmt"

	"github.com/homenode/homenode/core/control"
)

// Tiers divides fast memory by importance and use.
type Tiers struct {
	// Mode: report, because protection of important work takes memory from other work.
	Mode control.TierMode `yaml:"mode"` // off, report or place
	// Protect: low, because memory.min leaves the kernel no way out: where only protected memory is left, it kills
	// work.
	Protect control.Protection `yaml:"protect"` // low or min
	// Most is how much of the memory of a node may be protected, 1 to 95 percent. Half: other work must run, too.
	Most float64 `yaml:"most"`
	// Weights: keep, because the weights are the whole host's and other programs may rely on them.
	Weights Weights `yaml:"weights"` // keep or set
}

// Weights is the use of the kernel's weights of weighted interleave.
type Weights string

// Uses of the weights.
const (
	KeepWeights Weights = "keep"
	SetWeights  Weights = "set" // in proportion to the bandwidth of the nodes
)

func (t *Tiers) validate() error {
	if !(t.Most >= 1 && t.Most <= 95) {
		return fmt.Errorf("tiers.most: %v; want 1 to 95 percent", t.Most)
	}
	return cmp.Or(
		oneOf("tiers.mode", t.Mode, control.TiersOff, control.TiersReport, control.TiersPlace),
		oneOf("tiers.weights", t.Weights, KeepWeights, SetWeights),
		oneOf("tiers.protect", t.Protect, control.ProtectLow, control.ProtectMin),
	)
}

func defaultTiers() Tiers {
	return Tiers{
		Mode: control.TiersReport, Protect: control.ProtectLow, Most: 50, Weights: KeepWeights,
	}
}

func (t *Tiers) settings() control.TierSettings {
	return control.TierSettings{Mode: t.Mode, Protect: t.Protect, Most: t.Most / 100}
}
