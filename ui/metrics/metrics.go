package metrics

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/figures"
)

// Source is what is shown: the daemon. None of its methods waits for the loop.
type Source interface {
	Status(context.Context) (api.Status, error)
	Decisions() []plan.Decision // at the newest look
	Events(ctx context.Context, since uint64) iter.Seq[plan.Event]
}

// Metrics is what a daemon shows to Prometheus.
type Metrics struct {
	source   Source
	most     int // workloads with series of their own
	registry *prometheus.Registry
	families map[string]*prometheus.Desc
	ticks    prometheus.Histogram
	frozen   prometheus.Histogram
	counters map[string]*prometheus.CounterVec
}

// New shows what source knows, with series of their own for so many workloads, those that hold
// the most memory.
func New(source Source, most int) *Metrics {
	m := &Metrics{source: source, most: most, registry: prometheus.NewRegistry(),
		families: map[string]*prometheus.Desc{}, counters: map[string]*prometheus.CounterVec{}}
	for _, f := range Families {
		switch f.Type {
		case "gauge":
			m.families[f.Name] = prometheus.NewDesc(f.Name, f.Help+".", f.Labels, nil)
		case "counter":
			m.counters[f.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help + "."},
				f.Labels)
			m.registry.MustRegister(m.counters[f.Name])
		case "histogram":
			h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.Name, Help: f.Help + ".",
				Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}})
			m.registry.MustRegister(h)
			if f.Name == "homenode_frozen_seconds" {
				m.frozen = h
			} else {
				m.ticks = h
			}
		}
	}
	for _, state := range []string{"done", "cancelled", "failed"} {
		m.count("homenode_moves_total", 0, state)
	}
	m.count("homenode_moved_bytes_total", 0)
	m.registry.MustRegister(m)
	return m
}

// Process adds the usual figures of this process.
func (m *Metrics) Process() *Metrics {
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Looked counts a look and what was decided on it. It does not wait.
func (m *Metrics) Looked(took time.Duration) { m.ticks.Observe(took.Seconds()) }

// Answered counts a request. path is one of a small set.
func (m *Metrics) Answered(path string, status int) {
	m.count("homenode_http_requests_total", 1, path, strconv.Itoa(status))
}

// Follow counts what happens, until ctx ends.
func (m *Metrics) Follow(ctx context.Context) {
	for e := range m.source.Events(ctx, math.MaxUint64) {
		m.happened(&e)
	}
}

func (m *Metrics) happened(e *plan.Event) {
	m.count("homenode_events_total", 1, string(e.Kind), cmp.Or(string(e.Code), "other"))
	if e.Frozen > 0 {
		m.frozen.Observe(e.Frozen)
	}
	if e.Move == nil || e.Code == words.LocalityChanged || e.Code == words.LocalityAfterMove { // told of again
		return
	}
	m.count("homenode_moves_total", 1, e.Move.State)
	m.count("homenode_moved_bytes_total", float64(max(0, e.Move.Moved)))
	for _, r := range e.Move.RefusedBy {
		m.count("homenode_unmoved_bytes_total", float64(max(0, r.Bytes)), string(r.Cause))
	}
}

func (m *Metrics) count(family string, by float64, labels ...string) {
	m.counters[family].WithLabelValues(labels...).Add(by)
}

// mostScrapes is how many scrapers are answered at a time.
const mostScrapes = 2

// Handler answers GET /metrics, also in OpenMetrics and compressed where that is asked for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes,
		Timeout: 10 * time.Second, EnableOpenMetrics: true})
}

// WriteFile writes the metrics for the textfile collector of node_exporter, whole or not at all.
func (m *Metrics) WriteFile(name string) error {
	families, err := m.registry.Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return err
		}
	}
	return WriteWhole(name, text.Bytes())
}

// WriteWhole writes a file that everybody may read: whoever reads it sees the old or the new one.
// Its folder may belong to a user who puts links there; none is followed.
func WriteWhole(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // the disk is full, say
		return err
	}
	return os.Rename(f.Name(), name)
}

// Describe is of prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.families {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	s, err := m.source.Status(context.Background())
	if err != nil {
		return
	}
	c := collection{m, to}
	c.self(&s)
	for i := range s.Nodes {
		c.node(&s.Nodes[i])
	}
	for _, p := range s.Pressure {
		c.gauge("homenode_pressure_ratio", p.Some/100, p.Resource, "some")
		c.gauge("homenode_pressure_ratio", p.Full/100, p.Resource, "full")
	}
	if s.Sharing != nil {
		c.sharing(s.Sharing)
	}
	c.workloads(s.Workloads)
}

// collection is one time that all is collected.
type collection struct {
	*Metrics
	to chan<- prometheus.Metric
}

func (c collection) gauge(family string, v float64, labels ...string) {
	c.to <- prometheus.MustNewConstMetric(c.families[family], prometheus.GaugeValue, v, labels...)
}

// collect is the gauges of one node or workload. A figure that is unknown is absent.
func collect[T any](c collection, all []figures.Figure[T], of *T, label string) {
	for i := range all {
		f := &all[i]
		if f.Metric == "" {
			continue
		}
		if v := f.Value(of); v != nil {
			c.gauge(f.Metric, *v, label)
		}
	}
}

const kib = 1 << 10

func (c collection) self(s *api.Status) {
	c.gauge("homenode_build_info", 1, s.Version)
	c.gauge("homenode_enforcing", one(s.Mode == "enforce" && !s.Held))
	c.gauge("homenode_held", one(s.Held))
	if !s.Time.IsZero() {
		c.gauge("homenode_look_timestamp_seconds", float64(s.Time.UnixMilli())/1000)
	}
	c.gauge("homenode_problems", float64(len(s.Problems)))
	c.gauge("homenode_small_workloads", float64(s.Small))
	if s.Self != nil {
		c.gauge("homenode_journal_entries", float64(s.Self.Journal))
		c.gauge("homenode_lost_calls", float64(s.Self.Lost))
	}
	decisions := map[[2]string]int{}
	for _, d := range c.source.Decisions() {
		reason := "none"
		if len(d.Reasons) > 0 {
			reason = cmp.Or(string(d.Reasons[0].Code), "other")
		}
		decisions[[2]string{string(d.Outcome), reason}]++
	}
	for of, n := range decisions {
		c.gauge("homenode_decisions", float64(n), of[0], of[1])
	}
}

// sharing is what batch work may have, and how the kernel's scheduler for it is.
func (c collection) sharing(s *api.Sharing) {
	for i := range s.Nodes {
		c.gauge("homenode_share_node_batch_cpus", s.Nodes[i].CPUs, strconv.Itoa(int(s.Nodes[i].Node)))
	}
	k := s.Scheduler
	if k == nil {
		return
	}
	c.gauge("homenode_share_scheduler_enabled", one(k.Enabled), k.Version)
	c.gauge("homenode_share_scheduler_loads", float64(k.Loads))
	c.gauge("homenode_share_scheduler_threads_left", float64(k.Threads))
	for _, x := range k.Counters {
		c.gauge("homenode_share_scheduler_events", float64(x.Value), x.Name)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c collection) node(n *api.Node) {
	node := strconv.Itoa(int(n.ID))
	collect(c, figures.Nodes, n, node)
	for _, p := range n.HugePages {
		size := strconv.FormatInt(p.SizeKiB*kib, 10)
		c.gauge("homenode_node_huge_pages", float64(p.Total), node, size)
		if p.Free != nil {
			c.gauge("homenode_node_huge_pages_free", float64(*p.Free), node, size)
		}
	}
}

// workloads is those with series of their own, and the others in sum.
func (c collection) workloads(all []api.Workload) {
	states := map[[2]string]int{}
	for i := range all {
		states[[2]string{string(all[i].Class), all[i].State}]++
	}
	for of, n := range states {
		c.gauge("homenode_workloads", float64(n), of[0], of[1])
	}
	if len(all) > c.most {
		all = slices.Clone(all)
		slices.SortFunc(all, func(a, b api.Workload) int {
			return cmp.Or(cmp.Compare(b.MemoryKiB, a.MemoryKiB), cmp.Compare(a.ID, b.ID))
		})
	}
	var rest []*api.Workload
	shown := map[string]bool{Others: true}
	for i := range all {
		w := &all[i]
		id := words.Printable(string(w.ID)) // which may make two of them one
		if len(shown) > c.most || shown[id] {
			rest = append(rest, w)
			continue
		}
		shown[id] = true
		c.workload(id, w)
	}
	c.gauge("homenode_workloads_without_series", float64(len(rest)))
	if len(rest) > 0 {
		c.others(rest)
	}
}

func (c collection) workload(id string, w *api.Workload) {
	c.gauge("homenode_workload_info", 1, id, words.Printable(w.Name), string(w.Kind), string(w.Class), w.Home, w.Caches)
	c.gauge("homenode_workload_state", 1, id, w.State)
	collect(c, figures.Workloads, w, id)
	for _, m := range w.MemoryByNode {
		c.gauge("homenode_workload_memory_bytes", float64(m.KiB)*kib, id, strconv.Itoa(int(m.Node)))
	}
}

// others is workloads without series of their own, in sum; shares are weighed by memory.
func (c collection) others(rest []*api.Workload) {
	var vcpus, busy, onHome, placed float64
	memory := map[topology.NodeID]float64{}
	for _, w := range rest {
		vcpus += float64(w.CPUs)
		busy += w.CPUUse
		for _, m := range w.MemoryByNode {
			memory[m.Node] += float64(m.KiB) * kib
		}
		if w.OnHome != nil {
			onHome += *w.OnHome * float64(w.MemoryKiB)
			placed += float64(w.MemoryKiB)
		}
	}
	c.gauge("homenode_workload_vcpus", vcpus, Others)
	c.gauge("homenode_workload_busy_cpus", busy, Others)
	for node, bytes := range memory {
		c.gauge("homenode_workload_memory_bytes", bytes, Others, strconv.Itoa(int(node)))
	}
	if placed > 0 {
		c.gauge("homenode_workload_home_memory_ratio", onHome/placed, Others)
	}
}
