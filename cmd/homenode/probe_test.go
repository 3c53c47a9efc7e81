package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe"
)

// What was kept for this machine comes back with it, and says how old it is.
func TestKeptMeasurementIsAttached(t *testing.T) {
	root := os.DirFS("/")
	state := t.TempDir()
	h, err := hostWith(state)(root)
	if err != nil {
		t.Skip(err)
	}
	if h.Measured != nil {
		t.Fatal("measured before anything was kept")
	}
	for _, c := range []struct {
		started string
		want    topology.Source
	}{
		{time.Now().UTC().Format(time.RFC3339), topology.MeasuredNow},
		{"2001-01-01T00:00:00Z", topology.MeasuredBefore},
	} {
		d := measure.NewDocument(root, h)
		d.Run = &measure.Run{Started: c.started}
		id := int(h.Nodes[0].ID)
		d.Latency = &measure.Latency{From: "node", Rows: []int{id}, Cols: []int{id}, Median: measure.Table{{91.5}}}
		if _, err := (probe.Cache{Dir: filepath.Join(state, measured)}).Keep(d); err != nil {
			t.Fatal(err)
		}
		h, err := hostWith(state)(root)
		if err != nil || h.Measured == nil || h.Measured.LatencyNs[0][0] != 91.5 || h.Measured.Source != c.want {
			t.Errorf("measured %s: %+v, %v; want source %s", c.started, h.Measured, err, c.want)
		}
	}
}
