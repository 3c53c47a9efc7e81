//go:build linux

package share

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// goalStatus is what this test reads of `homenode share status --json`.
type goalStatus struct {
	Use   float64 `json:"use"`
	Next  string  `json:"next"`
	Goals []struct {
		ID    string   `json:"id"`
		State string   `json:"state"`
		Value *float64 `json:"value"`
	} `json:"goals"`
	Nodes []struct {
		CPUs float64 `json:"cpus"`
	} `json:"nodes"`
}

func (s *goalStatus) cpus() (sum float64) {
	for _, n := range s.Nodes {
		sum += n.CPUs
	}
	return sum
}

// goal is the state of the goal of a cgroup, "" for none.
func (s *goalStatus) goal(g lab.Group) string {
	for _, x := range s.Goals {
		if x.ID == g.Path() {
			return x.State
		}
	}
	return ""
}

func readGoals(t *lab.T) (s goalStatus, text string) {
	r := lab.Homenode("share", "status", "--json")
	if err := json.Unmarshal([]byte(r.Out), &s); err != nil {
		return s, r.String()
	}
	goals := ""
	for _, x := range s.Goals {
		value := "none"
		if x.Value != nil {
			value = fmt.Sprint(*x.Value)
		}
		goals += fmt.Sprintf(", %s %s %s", x.ID, x.State, value)
	}
	return s, fmt.Sprintf("use %.2f, %.2f CPUs%s, %s", s.Use, s.cpus(), goals, s.Next)
}

// metric is a file that has a new number twice a second.
type metric struct {
	value atomic.Int64 // thousandths; 0 writes nothing
	stop  chan struct{}
}

const metricFile = "/tmp/p99"

func startMetric(t *lab.T, value float64) *metric {
	m := &metric{stop: make(chan struct{})}
	m.set(value)
	t.Defer(func() { close(m.stop); os.Remove(metricFile) })
	go func() {
		for i := 0; ; i++ {
			if v := m.value.Load(); v > 0 {
				os.WriteFile(metricFile, fmt.Appendf(nil, "%.4f\n", float64(v)/1000+float64(i%9)/1e4), 0o644)
			}
			select {
			case <-m.stop:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return m
}

func (m *metric) set(value float64) { m.value.Store(int64(1000 * value)) }

// shareGoals: with slack batch work gets more than the target gives; when the goal is missed it gets less, and
// when it
// holds again more; when the metric stops, the target applies and status says so; off and undo after kill -9 put
// everything back.
func shareGoals(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "web", Slot: 0, MiB: 32, Threads: 1, Place: "local"},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 32, Threads: t.Shape.CPUs(), Place: "local", Busy: true})
	web, encode := ws[0].Group, ws[1].Group
	before := shareState(web, encode)
	m := startMetric(t, 0.4)
	o := lab.DaemonOptions{Mode: "enforce",
		Extra: "workloads: [{match: /encode, tier: batch}, {match: /web, tier: online, slo: {metric: p99, of: {file: " +
			metricFile + "}, most: 2ms, window: 2s}}]\n" +
			"share: {enabled: true, sched_ext: off, max_wait: 0}\n"}
	d := t.StartDaemon(o)
	high, low := 0.0, 0.0
	t.Until(120*time.Second, "slack raises the use beyond the target", func() (bool, string) {
		s, text := readGoals(t)
		high = s.Use
		return s.Use > 0.75 && s.cpus() > 0, text
	})
	m.set(3)
	missed := time.Now()
	t.Until(60*time.Second, "a missed goal lowers the use", func() (bool, string) {
		s, text := readGoals(t)
		low = s.Use
		return s.Use < high-0.05 && len(s.Goals) == 1 && s.Goals[0].State == "missed", text
	})
	took := time.Since(missed)
	awaitFile(t, encode, "cpu.idle", "1")
	m.set(0.4)
	t.Until(120*time.Second, "the use comes back", func() (bool, string) {
		s, text := readGoals(t)
		return s.Use > low+0.05, text
	})
	m.set(0)
	t.Until(90*time.Second, "a metric that stops is reported, and the target applies", func() (bool, string) {
		s, text := readGoals(t)
		return len(s.Goals) == 1 && s.Goals[0].State == "stale" && s.Use <= 0.6501, text
	})
	if out := t.Must(lab.Homenode("history"), lab.ExitOK).Out; !strings.Contains(out,
		"the metric p99 of its latency goal is stale") {
		t.Fatalf("history does not say that the metric is stale:\n%s", out)
	}
	d.Kill9()
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	backAs(t, "undone after kill -9,", before, web, encode)
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	m.set(0.4)
	t.StartDaemon(o)
	awaitFile(t, encode, "cpu.idle", "1")
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	backAs(t, "turned off,", before, web, encode)
	t.Textf("use %.2f with slack, %.2f %.1f s after the metric was missed; put back by undo after kill -9 and by off",
		high, low, took.Seconds())
}
