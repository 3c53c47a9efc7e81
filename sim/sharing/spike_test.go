package sharing

import (
	"os"
	"strconv"
	"testing"
	"time"
)

type spiked struct {
	*homenode
	t     *testing.T
	until time.Duration
}

func (p *spiked) tick() {
	h := p.h
	n := h.nodes[0]
	if n.taken >= 1 || h.goals[0].now > h.goals[0].most {
		p.until = h.now + 4*time.Second
	}
	was := p.scans
	p.homenode.tick()
	if h.now < p.until && h.now > 5*time.Minute && h.now < 12*time.Minute {
		g := p.state.Goals[0]
		p.t.Logf("%v want %.1f batch %.1f taken %.1f | p99 %.2f of %.2f | scan %v gives %.1f use %.3f ceil %.3f level %d", h.now, n.want, n.batch, n.taken, h.goals[0].now, h.goals[0].most, p.scans > was, p.given()[0], g.Use, g.Ceiling, g.Level)
	}
}

func TestSpike(t *testing.T) {
	if os.Getenv("SPIKE") == "" {
		t.Skip()
	}
	k, _ := strconv.Atoi(os.Getenv("SPIKE"))
	p := &homenode{steered: true, early: true}
	_, err := runGoals(&GoalScenarios()[k], &spiked{homenode: p, t: t}, 1)
	if err != nil {
		t.Error(err)
	}
}
