package main

import (
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/ui/trial"
)

// metricsOf returns the goals of a configuration, each with its source.
func metricsOf(c *config.Config) (out []daemon.Metric) {
	for _, g := range c.Goals() {
		out = append(out, daemon.Metric{Goal: g, Source: trial.OfGoal(&g, c.Share.Prometheus)})
	}
	return out
}
