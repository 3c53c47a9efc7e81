package sharing

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// GoalScenario is a scenario in which services have latency goals.
type GoalScenario struct {
	Scenario
	// Factor is each goal as a multiple of the p99 at the service's highest load without batch work.
	Factor float64
	harm   harm
}

// GoalScenarios returns twenty scenarios in the order of the table: the hosts and loads of Scenarios, with goals
// from tight to loose and with batch work that harms little or much.
func GoalScenarios() []GoalScenario {
	factors := []float64{1.5, 1.4, 1.6, 1.5, 1.3, 1.4, 1.5, 1.4, 1.3, 1.5, 1.6, 1.4, 1.5, 1.4, 1.5, 1.4, 1.3, 1.5, 1.2,
		1.4}
	harms := []harm{{0.15, 0.4}, {0.3, 0.6}, {0.1, 0.3}, {0.2, 0.8}}
	out := make([]GoalScenario, 0, len(factors))
	for i, s := range Scenarios() {
		out = append(out, GoalScenario{Scenario: s, Factor: factors[i], harm: harms[i%len(harms)]})
	}
	return out
}

// GoalScore is the result of a run with goals.
type GoalScore struct {
	// Use is the mean share of the pool's CPUs that were busy; batch work counts only in ticks in which all goals
	// held that can hold.
	Use  float64 `json:"use"`
	Busy float64 `json:"busy"` // all busy CPUs
	// Possible is the use that an oracle reaches: the most batch work on each node, the same part of each, at
	// which all goals hold.
	Possible float64 `json:"possible"`
	// Certain is the same with each limit lowered by certainSlack, for a policy whose readings have noise.
	Certain float64 `json:"certain"`
	// Violated is the share of ticks in which a goal was missed that holds without batch work: the mean of all
	// goals. Any is the share in which at least one goal was.
	Violated float64 `json:"violated"`
	Any      float64 `json:"any"`
	// Recovery is the 95th percentile of the time, in scans of 2 s, until goals held again after online work grew
	// by a tenth of a node within a scan.
	Recovery float64 `json:"recovery"`
	Turns    float64 `json:"turns"` // reversals a minute of the CPUs given, on the worst node
}

// goalJudge watches a run.
type goalJudge struct {
	h          *host
	use, busy  float64
	possible   float64
	certain    float64
	ticks, bad int
	missed     int // goals in ticks
	streak     int
	recoveries []float64
	stepped    int // tick of the newest step of load; 0 for none
	wants      []float64
	last, dir  []float64
	turns      []int
}

// readings of the metric have noise: a p99 of a few thousand requests a window.
const readingNoise = 0.03

// certainSlack is two and a half standard deviations of a reading: a policy that leaves less takes a goal that holds
// for a missed one more than once in a hundred scans.
const certainSlack = 2.5 * readingNoise

// RunGoals plays a scenario with goals under a policy.
func RunGoals(s *GoalScenario, name string, seed uint64) (GoalScore, error) {
	return runGoals(s, newGoalPolicy(name), seed)
}

func runGoals(s *GoalScenario, p policy, seed uint64) (GoalScore, error) {
	h := s.newHost(seed)
	nodes := len(h.nodes)
	j := &goalJudge{h: h, turns: make([]int, nodes), last: make([]float64, nodes), dir: make([]float64, nodes)}
	p.begin(h, &s.Scenario)
	for h.now < s.For {
		h.step()
		j.tick(p.given())
		p.tick()
	}
	return j.score(s.For), s.wrong(p, seed)
}

// newHost returns the host of a scenario with its work, the harm that batch work does, and the goals.
func (s *GoalScenario) newHost(seed uint64) *host {
	h := s.Scenario.newHost(seed)
	h.harm, h.batchHas = s.harm, shareOf{1, 1}
	h.readings = rand.New(rand.NewPCG(seed, 0x676f616c))
	highest := s.limits(seed)
	for _, w := range h.services() {
		h.goals = append(h.goals, &service{w: w, most: highest[w.id] * s.Factor})
	}
	return h
}

// limits returns the 99th percentile of each service's p99 over the run without batch work: its ordinary peak.
func (s *GoalScenario) limits(seed uint64) map[workload.ID]float64 {
	h := s.Scenario.newHost(seed)
	all := map[workload.ID][]float64{}
	of := h.services()
	for h.now < s.For {
		h.step()
		for _, w := range of {
			if x := h.aloneP99(w); x < 4*tail { // overload is no basis for a goal
				all[w.id] = append(all[w.id], x)
			}
		}
	}
	out := map[workload.ID]float64{}
	for id, xs := range all {
		out[id] = quantile(xs, 0.99)
	}
	return out
}

// tick adds one tick to the score.
func (j *goalJudge) tick(given []float64) {
	h := j.h
	held := true
	for _, s := range h.goals {
		s.now = h.p99(s.w)
		s.seen = max(s.seen, s.now)
		if s.now > s.most && h.aloneP99(s.w) <= s.most {
			held = false
			j.missed++
		}
	}
	pool := 0.0
	online := 0.0
	batch := 0.0
	grew := false
	for i, n := range h.nodes {
		pool += float64(n.pool)
		online += n.online
		batch += n.batch
		if len(j.wants) > i && n.want-j.wants[i] > 0.1*float64(n.pool) {
			grew = true
		}
		if d := given[i] - j.last[i]; d != 0 && j.ticks > 20 {
			d = math.Copysign(1, d)
			if j.dir[i] != 0 && d != j.dir[i] {
				j.turns[i]++
			}
			j.dir[i] = d
		}
		j.last[i] = given[i]
	}
	if j.ticks%4 == 0 || grew {
		j.wants = j.wants[:0]
		for _, n := range h.nodes {
			j.wants = append(j.wants, n.want)
		}
	}
	j.ticks++
	j.busy += (online + batch) / pool
	j.use += online / pool
	if held {
		j.use += batch / pool
		if j.streak > 0 && j.stepped > 0 {
			j.recoveries = append(j.recoveries, float64(j.streak)*tick.Seconds()/period.Seconds())
		}
		j.streak = 0
		if j.ticks-j.stepped > 8 {
			j.stepped = 0
		}
	} else {
		j.bad++
		j.streak++
	}
	if grew {
		j.stepped = j.ticks
	}
	if j.ticks%20 == 0 {
		j.possible += 20 * (online + h.most(1)) / pool
		j.certain += 20 * (online + h.most(1-certainSlack)) / pool
	}
}

// most returns the CPUs that batch work could keep busy while all goals hold, the same part of the free CPUs of
// each node. factor is applied to each limit.
func (h *host) most(factor float64) float64 {
	asked := 0.0
	for _, w := range h.active {
		if w.class == workload.Batch {
			asked += w.now
		}
	}
	all := 0.0
	for _, n := range h.nodes {
		all += max(0, float64(n.pool)-n.online)
	}
	holds := func(part float64) bool {
		for _, s := range h.goals {
			sum := 0.0
			for i, x := range s.w.where(h) {
				n := h.nodes[i]
				if x > 0 {
					sum += x * h.latency(n, n.want, part*max(0, float64(n.pool)-n.online), n.pool)
				}
			}
			limit := factor * s.most
			if sum > limit && h.aloneP99(s.w) <= limit {
				return false
			}
		}
		return true
	}
	low, high := 0.0, 1.0
	if holds(1) {
		return min(asked, all)
	}
	for range 12 {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return min(asked, low*all)
}

func (j *goalJudge) score(length time.Duration) GoalScore {
	n := float64(max(1, j.ticks))
	goals := float64(max(1, len(j.h.goals)))
	return GoalScore{
		Use: j.use / n, Busy: j.busy / n, Possible: j.possible / n, Certain: j.certain / n,
		Violated: float64(j.missed) / n / goals, Any: float64(j.bad) / n,
		Recovery: quantile(j.recoveries, 0.95), Turns: float64(slices.Max(j.turns)) / length.Minutes(),
	}
}

// read returns the reading of a service's metric since the last reading, as a policy sees it that reads once
// in every.
func (h *host) read(s *service, every time.Duration) float64 {
	noise := readingNoise * math.Sqrt(period.Seconds()/every.Seconds())
	x := s.seen * math.Exp(noise*h.readings.NormFloat64())
	s.seen = 0
	return x
}

// metrics returns the readings of a snapshot.
func (p *homenode) metrics() (out []workload.MetricReading) {
	for _, s := range p.h.goals {
		g := s.goal()
		m := workload.MetricReading{Key: g.Key(), Value: p.h.read(s, period), At: epoch.Add(p.h.now)}
		m.Known = p.h.now > 0
		out = append(out, m)
	}
	return out
}

// goal returns the goal of a service as a rule has it.
func (s *service) goal() workload.Goal {
	return workload.Goal{Metric: "p99", From: workload.FromFile, Text: string(s.w.id), Most: s.most, Window: period}
}

// Names of policies with goals, besides those of Policies.
const (
	Goals    = "homenode, goals"
	Heracles = "Heracles"
	Parties  = "PARTIES"
)

// GoalPolicies is all that are compared, in the order of the table.
var GoalPolicies = []string{Goals, Homenode, KoordCPUs, KoordQuota, PerfIso, Heracles, Parties, Nothing}

func newGoalPolicy(name string) policy {
	switch name {
	case Goals:
		return &homenode{steered: true, early: true}
	case Homenode:
		return &homenode{early: true}
	case Heracles:
		return &heracles{}
	case Parties:
		return &parties{}
	}
	return newPolicy(name)
}
