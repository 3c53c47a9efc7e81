package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe"
)

// What was kept for this machine comes back with it and says how old it is; what
// is kept later comes with the next look.
func TestKeptMeasurementIsAttached(t *testing.T) {
	root := os.DirFS(madeMachine(t))
	state := t.TempDir()
	running := keptIn(state)
	h, err := running.host(root)
	if err != nil {
		t.Skip(err)
	}
	if h.Measured != nil {
		t.Fatal("measured before anything was kept")
	}
	cache := probe.Cache{Dir: filepath.Join(state, measured)}
	for i, c := range []struct {
		started string
		want    topology.Source
	}{
		{time.Now().UTC().Format(time.RFC3339), topology.MeasuredNow},
		{"2001-01-01T00:00:00Z", topology.MeasuredBefore},
	} {
		d := measure.NewDocument(root, h)
		d.Run = &measure.Run{Started: c.started}
		id := int(h.Nodes[0].ID)
		ns := 91.5 + float64(i)
		d.Latency = &measure.Latency{From: "node", Rows: []int{id}, Cols: []int{id}, Median: measure.Table{{measure.Value(ns)}}}
		file, err := cache.Keep(d)
		if err != nil {
			t.Fatal(err)
		}
		// Two files within one tick of the file system's clock are told apart here only.
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		again, err := keptIn(state).host(root)
		if err != nil || again.Measured == nil || again.Measured.LatencyNs[0][0] != ns || again.Measured.Source != c.want {
			t.Errorf("measured %s: %+v, %v; want source %s", c.started, again.Measured, err, c.want)
		}
		if h, err = running.free(root, h); err != nil || h.Measured == nil || h.Measured.LatencyNs[0][0] != ns || h.Measured.Source != c.want {
			t.Errorf("at the next look %+v, %v; want %.1f, %s", h.Measured, err, ns, c.want)
		}
		was := h.Measured
		if h, err = running.free(root, h); err != nil || h.Measured != was {
			t.Errorf("read again although nothing changed: %+v, %v", h.Measured, err)
		}
	}
}

// twoNodes is this machine with a quiet load average and its CPUs and memory
// told as two nodes. The second is not there, so that its cells fail.
func twoNodes(t *testing.T, load string) fs.FS {
	t.Helper()
	h, err := topology.FromSysfs(os.DirFS(madeMachine(t)))
	if err != nil || len(h.Nodes) != 1 || h.Online.Len() < 2 || h.Nodes[0].ID != 0 {
		t.Skip("needs a machine of one node with two CPUs")
	}
	leaves, err := topology.Capture(os.DirFS(madeMachine(t)))
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{}
	for _, l := range leaves {
		file := &fstest.MapFile{Data: l.Data}
		if l.Link != "" {
			file = &fstest.MapFile{Data: []byte(l.Link), Mode: fs.ModeSymlink}
		}
		m[l.Name] = file
	}
	first, rest := h.Online.Min(), h.Online.Minus(topology.CPUs(h.Online.Min()))
	for name := range m {
		if strings.HasPrefix(name, "sys/devices/system/cpu/cpu") && strings.HasSuffix(name, "/node0") && !strings.Contains(name, fmt.Sprintf("/cpu%d/", first)) {
			delete(m, name)
			m[strings.TrimSuffix(name, "0")+"1"] = &fstest.MapFile{Data: []byte("../../node/node1"), Mode: fs.ModeSymlink}
		}
	}
	const nodes = "sys/devices/system/node/"
	for name, text := range map[string]string{
		nodes + "online": "0-1\n", nodes + "possible": "0-1\n", nodes + "has_cpu": "0-1\n", nodes + "has_memory": "0-1\n",
		nodes + "node0/cpulist": first0(first), nodes + "node1/cpulist": rest.String() + "\n",
		nodes + "node0/distance": "10 21\n", nodes + "node1/distance": "21 10\n",
		nodes + "node1/meminfo": strings.ReplaceAll(string(m[nodes+"node0/meminfo"].Data), "Node 0", "Node 1"),
		"proc/self/status":      fmt.Sprintf("Cpus_allowed_list:\t%s\nMems_allowed_list:\t0-1\n", h.Online),
		"proc/loadavg":          load + " 0 0 1/1 1\n",
	} {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	delete(m, nodes+"node0/cpumap")
	return m
}

func first0(cpu topology.CPUID) string { return fmt.Sprintf("%d\n", cpu) }

// At start latencies are measured where there are several nodes, the machine is
// not busy, and nothing kept fits; the loop then sees them.
func TestMeasureAtStart(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	state := t.TempDir()
	dir := filepath.Join(state, measured)
	none := func(when string) {
		t.Helper()
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%s: measured all the same: %v", when, entries)
		}
	}
	busy := twoNodes(t, "99.0")
	measureAtStart(t.Context(), busy, state, log)
	none("busy")
	if !strings.Contains(said.String(), "busy") || !strings.Contains(said.String(), "homenode probe") {
		t.Errorf("said of a busy machine: %q", said.String())
	}
	if h, err := topology.FromSysfs(os.DirFS(madeMachine(t))); err == nil && len(h.Nodes) == 1 {
		measureAtStart(t.Context(), os.DirFS(madeMachine(t)), state, log)
		none("one node")
	}
	quiet := twoNodes(t, "0.0")
	running := keptIn(state)
	h, err := running.host(quiet)
	if err != nil || len(h.Nodes) != 2 {
		t.Fatalf("%v, %v", h, err)
	}
	if _, source := h.Access(0, 1); source != topology.FromSLIT {
		t.Errorf("distance from %s before", source)
	}
	said.Reset()
	measureAtStart(t.Context(), quiet, state, log)
	if strings.Contains(said.String(), "mbind") {
		t.Skip(said.String()) // some containers forbid it
	}
	if strings.Contains(said.String(), "undisturbed") || strings.Contains(said.String(), "not used") {
		t.Skip("this machine is too busy: " + said.String())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Fatalf("kept %v; said %s", entries, said.String())
	}
	if h, err = running.free(quiet, h); err != nil || h.Measured == nil {
		t.Fatalf("the next look: %+v, %v", h.Measured, err)
	}
	from := 0 // a busy machine may give one of the two
	if !(h.Measured.LatencyNs[0][0] > 0) {
		from = 1
	}
	if _, source := h.Access(from, 0); source != topology.MeasuredNow && source != topology.MeasuredBefore {
		t.Errorf("distance from %s after", source)
	}
	was := running.cache.Changed(running.fingerprint)
	measureAtStart(t.Context(), quiet, state, log)
	if !running.cache.Changed(running.fingerprint).Equal(was) {
		t.Error("measured a second time")
	}
}
