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
	h := newHost(s.Host, seed)
	s.build(&builder{h: h, r: rand.New(rand.NewPCG(seed, 0x6c6f6164))})
	p.begin(h, s)
	j := newJudge(h, s.Target)
	for h.now < s.For {
		h.step()
		j.tick(p.given())
		p.tick()
	}
	score := j.score(p, s.For)
	if own, ok := p.(*homenode); ok && len(own.wrong) > 0 {
		return score, fmt.Errorf("%s, seed %d: %s", s.Name, seed, strings.Join(own.wrong[:min(3, len(own.wrong))], "; "))
	}
	return score, nil
}
