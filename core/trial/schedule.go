package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/measure"
)

// Arm is one way to run the host.
type Arm string

// Arms.
const (
	Off       Arm = "off"       // everything undone, the kernel alone, without its NUMA balancing
	Balancing Arm = "balancing" // everything undone, the kernel alone, with its NUMA balancing
	Caches    Arm = "caches"    // everything undone, the kernel alone, with its cache-aware scheduling
	On        Arm = "on"        // homenode as configured
)

// Arms is all of them, the baseline first.
var Arms = []Arm{Off, Balancing, Caches, On}

// ParseArm reads one.
func ParseArm(s string) (Arm, error) {
	if a := Arm(s); slices.Contains(Arms, a) {
		return a, nil
	}
	return "", fmt.Errorf("%q is not an arm; want off, balancing, caches or on", s)
}

// Plan is what a trial does, decided before its first reading.
type Plan struct {
	Arms    []Arm         `json:"arms"`           // arms, the baseline first
	Blocks  int           `json:"blocks"`         // number of blocks; each has one period of each arm
	Period  time.Duration `json:"period"`         // measured part of a period, ns
	Washout time.Duration `json:"washout"`        // least time from a switch to the first reading that counts, ns
	Every   time.Duration `json:"every"`          // time between two readings, ns
	Seed    uint64        `json:"seed,omitempty"` // seed of the order of the arms; absent in a trial for others
}

// Orders is the order of the arms in each block. The same seed gives the same orders.
func (p *Plan) Orders() [][]Arm {
	r := measure.NewRandom(p.Seed)
	out := make([][]Arm, p.Blocks)
	for b := range out {
		out[b] = slices.Clone(p.Arms)
		measure.Shuffle(r, out[b])
	}
	return out
}

// Duration is how long the trial takes, when every switch is over within the washout.
func (p *Plan) Duration() time.Duration {
	return time.Duration(p.Blocks*len(p.Arms)) * (p.Period + p.Washout)
}

// Comparison is an arm beside the baseline.
type Comparison struct{ Arm, Base Arm }

// Comparisons is what a trial compares: each arm with the baseline, and on with each other.
func (p *Plan) Comparisons() []Comparison {
	var out []Comparison
	base := p.Arms[0]
	for _, a := range slices.Backward(p.Arms[1:]) {
		out = append(out, Comparison{a, base})
	}
	for _, a := range []Arm{Balancing, Caches} {
		if slices.Contains(p.Arms[1:], a) && slices.Contains(p.Arms, On) {
			out = append(out, Comparison{On, a})
		}
	}
	return out
}

// Least is the fewest blocks with which a trial of so many comparisons can claim anything:
// with n blocks no chance below 2 in 2^n can be told apart.
func Least(comparisons int) int {
	n := 6
	for 2/float64(uint64(1)<<n) > Level/float64(max(1, comparisons)) {
		n++
	}
	return n
}

// Check reports what is wrong with a plan.
func (p *Plan) Check() error {
	switch {
	case len(p.Arms) < 2:
		return fmt.Errorf("arms %s: want two or more of off, balancing, caches, on", names(p.Arms))
	case p.Blocks < Least(1):
		return fmt.Errorf("blocks %d: want %d or more; fewer can show nothing with 95 %% confidence", p.Blocks,
			Least(1))
	case p.Blocks > 10000:
		return fmt.Errorf("blocks %d: want 10000 or fewer", p.Blocks)
	case p.Every <= 0:
		return fmt.Errorf("every %v: want more than 0", p.Every)
	case p.Period < 4*p.Every:
		return fmt.Errorf("period %v: want 4 readings or more, so %v or more with a reading every %v", p.Period,
			4*p.Every, p.Every)
	case p.Washout < 0:
		return fmt.Errorf("washout %v: want 0 or more", p.Washout)
	}
	for i, a := range p.Arms {
		if _, err := ParseArm(string(a)); err != nil {
			return err
		}
		if slices.Contains(p.Arms[:i], a) {
			return fmt.Errorf("arm %s: given twice", a)
		}
	}
	return nil
}

func names(arms []Arm) string {
	var out []string
	for _, a := range arms {
		out = append(out, string(a))
	}
	return strings.Join(out, ",")
}
