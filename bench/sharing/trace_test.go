package sharing

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// traced logs the goals of the first node every 20 s.
type traced struct {
	*homenode
	t *testing.T
}

func (p traced) tick() {
	p.homenode.tick()
	h := p.h
	st := p.state.Shared.Steering
	if st == nil || h.now%(20*time.Second) != 0 {
		return
	}
	n := h.nodes[0]
	g := p.state.Goals[0]
	p.t.Logf("%v want %.2f batch %.2f of %d | p99 %.2f of %.2f | use %.3f ceil %.3f hold %v low %.3f | %s", h.now, n.want, n.batch, n.pool, h.goals[0].now, h.goals[0].most, g.Use, g.Ceiling, g.Hold, g.Low, st.Nodes[0].Next)
}

// TestTraceGoals logs scenario TRACE with goals and seed 1.
func TestTraceGoals(t *testing.T) {
	k, err := strconv.Atoi(os.Getenv("TRACE"))
	if err != nil {
		t.Skip("TRACE is not set")
	}
	p := &homenode{steered: true, early: true}
	if _, err := runGoals(&GoalScenarios()[k], traced{p, t}, 1); err != nil {
		t.Error(err)
	}
	for _, text := range p.wrong {
		t.Error(text)
	}
}
