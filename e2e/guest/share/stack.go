//go:build linux

package share

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

const (
	// stackPart is the limit as a part of the p90 with nothing done, which misses it by that. In virtual time each busy
	// CPU slows the others, so the p90 on other CPUs than ffmpeg's says less.
	stackPart   = 0.75
	stackWindow = 5 * time.Second
	stackWhile  = 15 * time.Second // of a row of the table: 600 answers
	// stackSpread is how far the use may be from its mean in the minute after it has settled.
	stackSpread = 0.1
	stackTable  = "nginx and PostgreSQL beside ffmpeg"
)

// stack is nginx and PostgreSQL, each asked at a constant rate, and ffmpeg.
type stack struct {
	t        *lab.T
	services []*stackService
	encode   lab.Group
	daemon   *lab.Daemon
	config   string // without halved limits
}

// groups are the cgroups of all programs.
func (s *stack) groups() []lab.Group {
	groups := []lab.Group{s.encode}
	for _, x := range s.services {
		groups = append(groups, x.group)
	}
	return groups
}

// state is every setting that Homenode may change of the programs: files of cgroups, and affinities.
func (s *stack) state() map[string]string {
	state := shareState(s.groups()...)
	for _, g := range s.groups() {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems", "cpuset.cpus.partition"} {
			state[g.Path()+" "+file] = strings.TrimSpace(lab.ReadText(g.File(file)))
		}
		var all lab.Set
		for _, pid := range s.t.PIDsIn(g) {
			all |= s.t.Affinities(pid)
		}
		state[g.Path()+" affinities"] = all.String()
	}
	return state
}

// as waits until all settings are as before.
func (s *stack) as(before map[string]string, when string) {
	s.t.Poll(60*time.Second, 2*time.Second, when+" all is as before", func() (bool, string) {
		for key, now := range s.state() {
			if before[key] != now {
				return false, fmt.Sprintf("%s is %q, was %q", key, now, before[key])
			}
		}
		return true, ""
	})
}

// measured is what a while has shown.
type measured struct {
	busy   float64 // share of all CPUs
	p90    []time.Duration
	frames int
}

// measure makes a row of a while.
func (s *stack) measure(name string, d time.Duration, during func()) measured {
	frames, start := encoded(s.t), time.Now()
	busy, all := busyTime(s.t)
	for during(); time.Since(start) < d; {
		time.Sleep(d - time.Since(start))
	}
	m := measured{frames: encoded(s.t) - frames}
	took := time.Since(start)
	busyNow, allNow := busyTime(s.t)
	m.busy = (busyNow - busy) / (allNow - all)
	cells := []string{name, fmt.Sprintf("%.0f s", took.Seconds()), fmt.Sprintf("%.0f %%", 100*m.busy)}
	for _, x := range s.services {
		p90, p99 := x.percentile(90, start), x.percentile(99, start)
		m.p90 = append(m.p90, p90)
		cells = append(cells, fmt.Sprintf("%.1f ms", p90.Seconds()*1000), fmt.Sprintf("%.1f ms", p99.Seconds()*1000))
	}
	cells = append(cells, fmt.Sprintf("%.0f", float64(m.frames)/took.Minutes()))
	s.t.Row(stackTable, cells...)
	s.t.Logf("%s: %s", name, strings.Join(cells[1:], ", "))
	return m
}

// busyTime reads how long all CPUs worked, and how long they were there, in ticks: proc_stat(5).
func busyTime(t *lab.T) (busy, all float64) {
	var user, nice, system, idle, wait, irq, softirq float64
	_, err := fmt.Sscanf(lab.ReadText("/proc/stat"), "cpu %f %f %f %f %f %f %f",
		&user, &nice, &system, &idle, &wait, &irq, &softirq)
	t.Do(err)
	busy = user + nice + system + irq + softirq
	return busy, busy + idle + wait
}

// goals waits until the use, and the state of each goal ("" for any), are as they should.
func (s *stack) goals(limit time.Duration, what string, states []string, holds func(use float64) bool) (use float64) {
	start := time.Now()
	s.t.Poll(limit, 4*time.Second, what, func() (bool, string) {
		status, text := readGoals(s.t)
		use = status.Use
		right := len(status.Goals) == len(s.services) && status.cpus() > 0 && holds(use)
		for i, want := range states {
			right = right && (want == "" || status.goal(s.services[i].group) == want)
		}
		return right, text
	})
	s.t.Logf("%s: after %.0f s, use %.2f", what, time.Since(start).Seconds(), use)
	return use
}

// limits returns the rules of the workloads, with limits so many times those of the start.
func (s *stack) limits(part float64) string {
	var rules strings.Builder
	for _, x := range s.services {
		fmt.Fprintf(&rules,
			"  - {match: %s, tier: online, slo: {metric: p90, of: {query: %s_p90}, most: %dus, window: %v}}\n",
			x.group.Path(), x.name, int64(part*float64(x.limit.Microseconds())), stackWindow)
	}
	return "workloads:\n  - {match: " + s.encode.Path() + ", tier: batch}\n" + rules.String()
}

// reload changes the limits of a daemon that runs.
func (s *stack) reload(part float64) {
	s.t.Write(lab.ConfigPath, strings.Replace(s.config, s.limits(1), s.limits(part), 1))
	s.t.Do(s.daemon.Cmd.Process.Signal(syscall.SIGHUP))
}

// apart gives the services one half of the CPUs and ffmpeg the other, and takes that back.
func (s *stack) apart() measured {
	all := lab.Set(1)<<s.t.Shape.CPUs() - 1
	half := lab.Set(1)<<(s.t.Shape.CPUs()/2) - 1
	s.allow(half, all&^half)
	lab.Warm(stackWindow)
	m := s.measure("apart, each on half of the CPUs", stackWhile, func() {})
	s.allow(all, all)
	return m
}

// allow sets the affinities of the services and of ffmpeg.
func (s *stack) allow(services, encode lab.Set) {
	for _, g := range s.groups() {
		cpus := services
		if g == s.encode {
			cpus = encode
		}
		for _, pid := range s.t.PIDsIn(g) {
			for _, tid := range lab.ThreadsOf(pid) {
				err := lab.SetAffinity(tid, cpus)
				if !errors.Is(err, syscall.ESRCH) { // it has ended
					s.t.Do(err)
				}
			}
		}
	}
}

// shareStack: with goals for nginx and PostgreSQL, and ffmpeg as batch work, the use of the CPUs settles where both
// goals hold. It survives a halved limit, and a metric that hangs, stops, never changes or is no number. Undo after
// kill -9 leaves nothing behind.
func shareStack(t *lab.T) {
	s := &stack{t: t}
	s.start()
	s.apart()
	nothing := s.measure("nothing done", stackWhile, func() {})
	for i, x := range s.services {
		x.limit = time.Duration(stackPart * float64(nothing.p90[i]))
	}
	before := s.state()
	prometheus(t, func(query string) (string, bool) {
		for _, x := range s.services {
			if query == x.name+"_p90" {
				return x.answer()
			}
		}
		return "", false
	})
	share := "share: {enabled: true, sched_ext: off, max_wait: 0, target: 50, " +
		"prometheus: \"http://" + prometheusAddress + "\"}\n"
	// With ffmpeg on all CPUs a program takes a minute to start: each busy CPU slows the others here.
	t.Write(s.encode.File("cgroup.freeze"), "1")
	s.daemon = t.StartDaemon(lab.DaemonOptions{
		Mode: "enforce", Period: "2s", Exclude: "/e2e.service", Extra: s.limits(1) + share,
	})
	t.Write(s.encode.File("cgroup.freeze"), "0")
	config, err := os.ReadFile(lab.ConfigPath)
	t.Do(err)
	s.config = string(config)
	settled, use := s.settles()
	s.survives(use)
	t.Alive(s.daemon)
	s.daemon.Kill9()
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	s.as(before, "undone after kill -9,")
	lab.Warm(stackWindow)
	undone := s.measure("undone", stackWhile, func() {})
	t.Textf("p90 %v with goals at %.0f %% use, %v with nothing done at %.0f %%, %v undone; limits %v and %v",
		settled.p90, 100*settled.busy, nothing.p90, 100*nothing.busy, undone.p90,
		s.services[0].limit, s.services[1].limit)
}

// settles waits until the use has found its level, and looks at a minute of it.
func (s *stack) settles() (m measured, use float64) {
	t := s.t
	beyond := func(use float64) bool { return use > 0.55 }
	s.goals(240*time.Second, "slack raises the use beyond the target", nil, beyond)
	lab.Warm(30 * time.Second)
	low, high := 1.0, 0.0
	m = s.measure("Homenode, goals", 60*time.Second, func() {
		for range 12 {
			time.Sleep(5 * time.Second)
			status, text := readGoals(t)
			low, high = min(low, status.Use), max(high, status.Use)
			t.Logf("%s", text)
		}
	})
	for i, x := range s.services {
		if m.p90[i] > x.limit {
			t.Fatalf("settled, %s has a p90 of %v, limit %v", x.name, m.p90[i], x.limit)
		}
	}
	if high-low > 2*stackSpread || m.frames == 0 {
		t.Fatalf("in a minute the use was %.2f to %.2f, and ffmpeg encoded %d frames", low, high, m.frames)
	}
	return m, low
}

// survives has limits and metrics change; high is the use before.
func (s *stack) survives(high float64) {
	whatever := func(float64) bool { return true }
	target := func(use float64) bool { return use <= 0.5001 }
	nginx, postgres := s.services[0], s.services[1]
	s.reload(0.5)
	fell := func(use float64) bool { return use < high-0.04 }
	low := s.goals(120*time.Second, "with halved limits the use falls", nil, fell)
	s.measure("Homenode, halved limits", stackWhile, func() {})
	s.reload(1)
	rises := func(use float64) bool { return use > max(low, 0.50)+0.02 }
	s.goals(240*time.Second, "with the old limits the use rises", nil, rises)

	// Each node goes by the goals of the work on it, so both metrics fail at once.
	nginx.breaks("hangs")
	postgres.breaks("stops")
	silent := []string{"unread", "stale"}
	s.goals(120*time.Second, "one query hangs, one has no result: the target applies", silent, target)
	nginx.breaks("")
	postgres.breaks("")
	above := func(use float64) bool { return use > 0.52 }
	s.goals(180*time.Second, "both queries answer again, and the use rises", nil, above)
	nginx.breaks("=0.0001")
	postgres.breaks("=NaN")
	lies := []string{"constant", "unread"}
	s.goals(180*time.Second, "one metric never changes, one is no number: the target applies", lies, target)
	nginx.breaks("")
	postgres.breaks("")
	s.goals(120*time.Second, "both goals are read again", []string{"held", "held"}, whatever)
}

// start starts the programs, and asks the services from then on.
func (s *stack) start() {
	t := s.t
	s.services = []*stackService{nginxService(t), postgresService(t)}
	group := func(unit string) lab.Group { return lab.Group(lab.CgroupRoot + runtimes.Show(t, unit, "ControlGroup")) }
	for _, x := range s.services {
		runtimes.StartProgram(t, x.program, nil)
		runtimes.AwaitProgram(t, x.program)
		x.group = group(x.program.Name)
		x.begin(t)
	}
	lab.Warm(stackWindow)
	encode := encoder(t.Shape.CPUs())
	s.measure("alone", stackWhile, func() {})
	runtimes.StartProgram(t, encode, encoderOptions)
	runtimes.AwaitProgram(t, encode)
	s.encode = group(encode.Name)
}
