//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func init() { tests["share.goals"] = shareGoals }

// goalStatus is what this test reads of `homenode share status --json`.
type goalStatus struct {
	Use   float64 `json:"use"`
	Next  string  `json:"next"`
	Goals []struct {
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

func (t *T) goalStatus() (s goalStatus, text string) {
	r := homenode("share", "status", "--json")
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		return s, r.String()
	}
	return s, fmt.Sprintf("use %.2f, %.2f CPUs, %+v, %s", s.Use, s.cpus(), s.Goals, s.Next)
}

// metric is a file that has a new number twice a second.
type metric struct {
	value atomic.Int64 // thousandths; 0 writes nothing
	stop  chan struct{}
}

const metricFile = "/tmp/p99"

func (t *T) metric(value float64) *metric {
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
func shareGoals(t *T) {
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 32, threads: 1, place: "local"},
		walkerSpec{name: "encode", slot: 1, mib: 32, threads: t.shape.CPUs(), place: "local", busy: true})
	web, encode := ws[0].group, ws[1].group
	before := shareState(web, encode)
	m := t.metric(0.4)
	o := daemonOptions{mode: "enforce", extra: "workloads: [{match: /encode, tier: batch}, {match: /web, tier: online, slo: {metric: p99, of: {file: " + metricFile + "}, most: 2ms, window: 2s}}]\n" +
		"share: {enabled: true, sched_ext: off, max_wait: 0}\n"}
	d := t.startDaemon(o)
	high, low := 0.0, 0.0
	t.Until(120*time.Second, "slack raises the use beyond the target", func() (bool, string) {
		s, text := t.goalStatus()
		high = s.Use
		return s.Use > 0.75 && s.cpus() > 0, text
	})
	m.set(3)
	missed := time.Now()
	t.Until(60*time.Second, "a missed goal lowers the use", func() (bool, string) {
		s, text := t.goalStatus()
		low = s.Use
		return s.Use < high-0.05 && len(s.Goals) == 1 && s.Goals[0].State == "missed", text
	})
	took := time.Since(missed)
	t.awaitFile(encode, "cpu.idle", "1")
	m.set(0.4)
	t.Until(120*time.Second, "the use comes back", func() (bool, string) {
		s, text := t.goalStatus()
		return s.Use > low+0.05, text
	})
	m.set(0)
	t.Until(90*time.Second, "a metric that stops is reported, and the target applies", func() (bool, string) {
		s, text := t.goalStatus()
		return len(s.Goals) == 1 && s.Goals[0].State == "stale" && s.Use <= 0.6501, text
	})
	if out := t.must(homenode("history"), exitOK).out; !strings.Contains(out, "the metric p99 of its latency goal is stale") {
		t.Fatalf("history does not say that the metric is stale:\n%s", out)
	}
	d.kill9()
	t.must(homenode("undo", "--all"), exitOK)
	t.backAs("undone after kill -9,", before, web, encode)
	t.must(homenode("resume", "--all"), exitOK)
	m.set(0.4)
	t.startDaemon(o)
	t.awaitFile(encode, "cpu.idle", "1")
	t.must(homenode("share", "off"), exitOK)
	t.backAs("turned off,", before, web, encode)
	t.Textf("use %.2f with slack, %.2f %.1f s after the metric was missed; put back by undo after kill -9 and by off", high, low, took.Seconds())
}
