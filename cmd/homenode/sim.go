package main

import (
	"context"
	"runtime/debug"

	"github.com/homenode/homenode/sim"
)

// simulate is `homenode sim`. It makes much garbage and keeps little: with a heap of
// some megabytes the collector runs without a pause at Go's default of 100, and
// takes a third of the time.
func simulate(ctx context.Context, o sim.Options) (*sim.Result, error) {
	debug.SetGCPercent(800)
	return sim.Run(ctx, o)
}
