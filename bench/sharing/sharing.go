package sharing

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Run plays a scenario under a policy. The error says what must never be and was.
func Run(s *Scenario, name string, seed uint64) (Score, error) {
	return run(s, newPolicy(name), seed)
}

func run(s *Scenario, p policy, seed uint64) (Score, error) {
	h := s.newHost(seed)
	p.begin(h, s)
	j := newJudge(h, s.Target)
	for h.now < s.For {
		h.step()
		j.tick(p.given())
		p.tick()
	}
	return j.score(p, s.For), s.wrong(p, seed)
}

// newHost returns the host of a scenario with its work.
func (s *Scenario) newHost(seed uint64) *host {
	h := newHost(s.Host, seed)
	s.build(&builder{h: h, r: rand.New(rand.NewPCG(seed, 0x6c6f6164))})
	return h
}

// wrong returns what a run of the daemon's own decisions did that must never be.
func (s *Scenario) wrong(p policy, seed uint64) error {
	own, ok := p.(*homenode)
	if !ok || len(own.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s, seed %d: %s", s.Name, seed, strings.Join(own.wrong[:min(3, len(own.wrong))], "; "))
}
