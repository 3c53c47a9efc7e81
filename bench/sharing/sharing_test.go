package sharing

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/share"
)

// TestScenarios plays every scenario with a few seeds; SEEDS is how many, SEED the first.
func TestScenarios(t *testing.T) {
	first, seeds := 1, 2
	if n, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		first = n
	}
	if n, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds = n
	}
	for _, s := range Scenarios() {
		for seed := first; seed < first+seeds; seed++ {
			x, err := Run(&s, Homenode, uint64(seed))
			if err != nil {
				t.Error(err)
			}
			if text := x.Broken(); text != "" {
				t.Errorf("%s, seed %d: %s", s.Name, seed, text)
			}
			if testing.Verbose() {
				t.Logf("%s, seed %d: %+v", s.Name, seed, x)
			}
		}
	}
}

// TestJudge: the judge sees what it is there for. Each of the published rules breaks a bound
// somewhere, and so does homenode when it is told to keep nothing idle.
func TestJudge(t *testing.T) {
	scenario := func(name string) *Scenario {
		for _, s := range Scenarios() {
			if s.Name == name {
				s.For = 10 * time.Minute
				return &s
			}
		}
		t.Fatalf("no scenario %q", name)
		return nil
	}
	for _, tt := range []struct {
		policy, scenario, want string
	}{
		{KoordCPUs, "32 CPUs, SMT, noisy", "turns a minute"},
		{KoordQuota, "32 CPUs, SMT, noisy", "turns a minute"},
		{PerfIso, "32 CPUs, SMT, noisy", "points from what was possible"},
		{PerfIsoWide, "32 CPUs, SMT, noisy", "turns a minute"},
		{KoordCPUs, "16 CPUs, no SMT, bursts", "of its CPUs more at once"},
		{Halves, "16 CPUs, no SMT, overload", "online work lost"},
		{Nothing, "32 CPUs, SMT, noisy", "fewer CPUs idle than the buffer"},
		{Nothing, "32 CPUs, SMT, noisy", "began where no CPU was idle"},
	} {
		x, _ := Run(scenario(tt.scenario), tt.policy, 1)
		if text := x.Broken(); !strings.Contains(text, tt.want) {
			t.Errorf("%s in %s: %q, want %q", tt.policy, tt.scenario, text, tt.want)
		}
	}
	x, err := run(scenario("16 CPUs, no SMT, bursts"), &homenode{change: func(s *share.Settings) { s.Idle, s.Target = 1, 1 }}, 1)
	if text := x.Broken(); err != nil || !strings.Contains(text, "fewer CPUs idle than the buffer") {
		t.Errorf("homenode with one CPU idle and all the rest given away: %q, %v", text, err)
	}
}

// TestBuffer: when everything may be used, it is but for the CPUs that stay idle.
func TestBuffer(t *testing.T) {
	for _, host := range []string{"node:1 core:16 pu:1", "node:2 core:32 pu:2"} {
		s := Scenario{Name: host, Host: host, Target: 1, For: 10 * time.Minute, build: func(b *builder) {
			b.each(0.005, func(int) load { return steps(b.r, 0.1, 0.5, 3) })
			b.hogs()
		}}
		x, err := Run(&s, Homenode, 1)
		if text := x.Broken(); err != nil || text != "" {
			t.Errorf("%s: %s, %v", host, text, err)
		}
	}
}

// TestSame: the same scenario and seed give the same run.
func TestSame(t *testing.T) {
	s := Scenarios()[12]
	s.For = 5 * time.Minute
	a, _ := Run(&s, Homenode, 7)
	b, _ := Run(&s, Homenode, 7)
	if a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}
