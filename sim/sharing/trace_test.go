package sharing

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestTraceGoals(t *testing.T) {
	k, err := strconv.Atoi(os.Getenv("TRACE"))
	if err != nil {
		t.Skip("TRACE is not set")
	}
	s := GoalScenarios()[k]
	h := newHost(s.Host, 1)
	s.build(&builder{h: h, r: rand.New(rand.NewPCG(1, 0x6c6f6164))})
	h.harm, h.batchHas = s.harm, shareOf{1, 1}
	h.readings = rand.New(rand.NewPCG(1, 0x676f616c))
	highest := s.limits(1)
	for _, w := range h.services() {
		h.goals = append(h.goals, &service{w: w, most: highest[w.id] * s.Factor})
	}
	p := &homenode{steered: true}
	p.begin(h, &s.Scenario)
	for h.now < s.For {
		h.step()
		for _, x := range h.goals {
			x.now = h.p99(x.w)
			x.seen = max(x.seen, x.now)
		}
		p.tick()
		if h.now%(20*time.Second) == 0 {
			n := h.nodes[0]
			g := p.state.Goals[0]
			st := p.state.Shared.Steering
			if st == nil {
				continue
			}
			t.Logf("%v want %.2f batch %.2f of %d | p99 %.2f of %.2f | use %.3f ceil %.3f hold %v low %.3f | %s", h.now, n.want, n.batch, n.pool, h.goals[0].now, h.goals[0].most, g.Use, g.Ceiling, g.Hold, g.Low, st.Nodes[0].Next)
		}
	}
}
