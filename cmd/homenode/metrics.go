package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/ui/metrics"
)

// watched is a daemon with what it shows to Prometheus.
type watched struct {
	*daemon.Daemon
	shown *metrics.Metrics
}

// newWatched makes a daemon that shows so many workloads with series of their own.
func newWatched(o daemon.Options, workloads int) (watched, error) {
	var shown *metrics.Metrics
	o.Looked = func(took time.Duration) { shown.Looked(took) }
	d, err := daemon.New(o)
	if err != nil {
		return watched{}, err
	}
	shown = metrics.New(d, workloads).Process()
	return watched{d, shown}, nil
}

func (m watched) Metrics() http.Handler            { return m.shown.Handler() }
func (m watched) Answered(path string, status int) { m.shown.Answered(path, status) }

// textfilePeriod is the time between two writes of metrics.textfile: what reads it is scraped
// every 15 s or more rarely.
const textfilePeriod = 15 * time.Second

// writeMetrics writes the file for node_exporter until ctx ends. What goes wrong is told once,
// until it goes well again.
func writeMetrics(ctx context.Context, m *metrics.Metrics, name string, log *slog.Logger) {
	told := false
	for ctx.Err() == nil {
		err := m.WriteFile(name)
		if err != nil && !told {
			log.Warn("metrics.textfile cannot be written", "err", err)
		}
		told = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(textfilePeriod):
		}
	}
}
