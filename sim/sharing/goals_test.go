package sharing

import (
	"os"
	"testing"
)

// TestGoalsShort plays all scenarios with one seed under all policies.
func TestGoalsShort(t *testing.T) {
	for _, s := range GoalScenarios() {
		for _, name := range GoalPolicies {
			if os.Getenv("SIMGOALS") != "" && name != Goals {
				continue
			}
			x, err := RunGoals(&s, name, 1)
			t.Logf("%-46s %-28s use %.3f busy %.3f possible %.3f violated %.4f recovery %.1f turns %.2f %v", s.Name, name, x.Use, x.Busy, x.Possible, x.Violated, x.Recovery, x.Turns, err)
		}
	}
}
