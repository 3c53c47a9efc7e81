package main

import (
	"context"
	"regexp"
	"time"

	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/ui/trial"
)

// anyNumber matches the numbers of a file without a pattern.
var anyNumber = regexp.MustCompile(`[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)

// metricsOf returns the sources of the goals of a configuration. Only the operator's files are
// asked here: a wish of a pod or a user never is a command, a file or a query.
func metricsOf(c *config.Config) (out []daemon.Metric) {
	for _, g := range c.Goals() {
		m := daemon.Metric{Goal: g}
		switch g.From {
		case workload.FromCommand:
			m.Source = &trial.Command{Text: g.Text, Within: 8 * time.Second}
		case workload.FromFile:
			pattern := anyNumber
			if g.Match != "" {
				pattern = regexp.MustCompile(g.Match) // the configuration was checked
			}
			m.Source = &trial.File{Path: g.Text, Pattern: pattern}
		case workload.FromQuery:
			m.Source = seconds{&trial.Query{URL: c.Share.Prometheus, Text: g.Text}, g.Unit}
		}
		out = append(out, m)
	}
	return out
}

// seconds is a query of Prometheus, whose unit of time is the second (Prometheus, "Metric and label
// naming"), in the unit of the goal.
type seconds struct {
	query *trial.Query
	unit  string
}

// Read implements daemon.MetricSource.
func (s seconds) Read(ctx context.Context) (float64, bool, error) {
	x, ok, err := s.query.Read(ctx)
	switch s.unit {
	case "ms":
		x *= 1e3
	case "us":
		x *= 1e6
	case "ns":
		x *= 1e9
	case "%": // a ratio
		x *= 100
	}
	return x, ok, err
}
