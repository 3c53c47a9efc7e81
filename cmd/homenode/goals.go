package main

import (
	"github.com/homenode/homenode/config"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/ui/trial"
)

// metricsOf returns the goals of a configuration, each with its source.
func metricsOf(c *config.Config) []daemon.Metric {
	of := func(g *workload.Goal) daemon.MetricSource { return trial.OfGoal(g, c.Share.Prometheus) }
	return daemon.Metrics(c.Goals(), of)
}
