package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/heat"
)

// point is the time of a decision on one size of host.
type point struct {
	Series string    `json:"series"` // what grows: nodes or CPUs
	Kind   string    `json:"kind"`   // what arrives
	Nodes  int       `json:"nodes"`
	CPUs   int       `json:"cpus"`
	Rounds []float64 `json:"median_us"` // a round each
	Median float64   `json:"-"`
}

// The sizes that are timed. A wide workload wants one and a half nodes, so that
// every decision searches node sets; the mixed stream mostly fits single nodes.
var (
	curveNodes = []int{4, 8, 16, 32, 64}
	curveCPUs  = []int{64, 128, 256, 512, 1024, 2048, 4096}
	curveKinds = []string{"mixed", "wide"}
)

// curve times decisions on half full hosts that grow in nodes (32 CPUs each) and
// in CPUs (8 nodes), and draws them beside the growth that is allowed: nodes
// squared, CPUs times their logarithm.
func curve(w io.Writer, rounds int, keep, picture string) error {
	var points []point
	if rounds <= 0 {
		return redraw(keep, picture)
	}
	for _, kind := range curveKinds {
		for _, n := range curveNodes {
			points = append(points, point{Series: "nodes", Kind: kind, Nodes: n, CPUs: 32 * n})
		}
		for _, n := range curveCPUs {
			points = append(points, point{Series: "CPUs", Kind: kind, Nodes: 8, CPUs: n})
		}
	}
	ledgers := make([]*place.Ledger, len(points))
	for i, p := range points {
		var err error
		if ledgers[i], err = halfFull(p.Nodes, p.CPUs); err != nil {
			return err
		}
	}
	for round := range rounds {
		for k := range points {
			i := k
			if round%2 == 1 { // see speed
				i = len(points) - 1 - k
			}
			points[i].Rounds = append(points[i].Rounds, points[i].time(ledgers[i]))
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	for i := range points {
		points[i].Median = median(points[i].Rounds)
	}
	var table bytes.Buffer
	printCurve(&table, points)
	if keep != "" {
		if err := keepCurve(keep, table.Bytes(), points); err != nil {
			return err
		}
	}
	if picture != "" {
		if err := os.WriteFile(picture, []byte(drawCurve(points, machine())), 0o644); err != nil {
			return err
		}
	}
	_, err := w.Write(table.Bytes())
	return err
}

// redraw makes the picture of what is kept in dir; the first line of the table tells the machine.
func redraw(dir, picture string) error {
	table, err := os.ReadFile(filepath.Join(dir, "placement-curve.md"))
	if err != nil {
		return err
	}
	raw, err := os.Open(filepath.Join(dir, "placement-curve.jsonl"))
	if err != nil {
		return err
	}
	defer raw.Close()
	var points []point
	for dec := json.NewDecoder(raw); ; {
		var p point
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		p.Median = median(p.Rounds)
		points = append(points, p)
	}
	on, _, _ := strings.Cut(string(table), "; `go run")
	return os.WriteFile(picture, []byte(drawCurve(points, on)), 0o644)
}

// arrivals is vCPUs as they come: many small, few large, by a fixed pattern.
var arrivals = []int{2, 4, 2, 8, 4, 2, 16, 4, 2, 8, 3, 2, 4, 1, 2, 8}

func arrival(id string, vcpus int) workload.Spec {
	return workload.Spec{ID: workload.ID(id), Class: workload.Dedicated, Importance: workload.DefaultImportance,
		CPUs:   vcpus,
		Memory: topology.KiB(vcpus) * 3 << 20, Given: true}
}

// halfFull is a host filled to three quarters, of which every third workload left.
func halfFull(nodes, cpus int) (*place.Ledger, error) {
	s := shape{sockets: max(1, nodes/4), nodes: min(4, nodes), cores: cpus / nodes / 2}
	text, err := json.Marshal(struct {
		Name string    `json:"name"`
		Host traceHost `json:"host"`
	}{"curve", s.host()})
	if err != nil {
		return nil, err
	}
	c, err := replay.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	l := place.NewLedger(plan.State{Host: c.Host, Policy: plan.DefaultPolicy()})
	for i, used := 0, 0; used < cpus*3/4; i++ {
		v := arrivals[i%len(arrivals)]
		r := l.Place(place.Request{Spec: arrival(fmt.Sprintf("w%05d", i), v), Must: true})
		if !r.Placed() {
			break
		}
		l.Commit(r.Placement)
		used += v
	}
	for i, p := range l.Placements() {
		if i%3 == 0 {
			l.Remove(p.Workload)
		}
	}
	return l, nil
}

// time is the median of a round of decisions, µs.
func (p *point) time(l *place.Ledger) float64 {
	const (
		least  = 50
		most   = 4000
		budget = 300 * time.Millisecond
	)
	next := func(i int) workload.Spec { return arrival("new", arrivals[i%len(arrivals)]) }
	if p.Kind == "wide" {
		next = func(int) workload.Spec { return arrival("new", p.CPUs/p.Nodes*3/2) }
	}
	var ns []float64
	begin := time.Now()
	for i := 0; i < least || (i < most && time.Since(begin) < budget); i++ {
		s := next(i)
		start := time.Now()
		l.Place(place.Request{Spec: s, Must: true})
		ns = append(ns, float64(time.Since(start).Nanoseconds()))
	}
	return median(ns) / 1e3
}

func of(points []point, series, kind string) []point {
	var out []point
	for _, p := range points {
		if p.Series == series && p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

func (p *point) size() float64 {
	if p.Series == "nodes" {
		return float64(p.Nodes)
	}
	return float64(p.CPUs)
}

// allowed is how much longer a decision may take than on the smallest host.
func (p *point) allowed(first point) float64 {
	n := p.size() / first.size()
	if p.Series == "nodes" {
		return n * n
	}
	return n * math.Log(p.size()) / math.Log(first.size())
}

func printCurve(w io.Writer, points []point) {
	fmt.Fprintf(w,
		"%s; `go run ./bench/placement -curve`; %d rounds, alternating; median µs of a decision on a half full host.\n",
		machine(), len(points[0].Rounds))
	for _, series := range []string{"nodes", "CPUs"} {
		head, beside := "nodes, 32 CPUs each", "nodes²"
		if series == "CPUs" {
			head, beside = "CPUs, on 8 nodes", "n log n"
		}
		first := of(points, series, curveKinds[0])
		fmt.Fprintf(w, "\n| %s |", head)
		for _, p := range first {
			fmt.Fprintf(w, " %.0f |", p.size())
		}
		fmt.Fprint(w, "\n|---|")
		for range first {
			fmt.Fprint(w, "---|")
		}
		for _, kind := range curveKinds {
			all := of(points, series, kind)
			fmt.Fprintf(w, "\n| %s: µs |", kind)
			for _, p := range all {
				fmt.Fprintf(w, " %s |", short(p.Median))
			}
			fmt.Fprintf(w, "\n| times the first (%s would be) |", beside)
			for _, p := range all {
				fmt.Fprintf(w, " %s (%s) |", short(p.Median/all[0].Median), short(p.allowed(all[0])))
			}
		}
		fmt.Fprintln(w)
	}
}

// drawCurve is one picture: both series from their smallest host on, so that
// slopes can be compared.
func drawCurve(points []point, machine string) string {
	c := heat.Curve{Title: "Time of a placement decision on larger hosts", X: "size, times the smallest host",
		Y: "time, times the smallest host's", LogX: true, LogY: true,
		XName: func(x float64) string { return fmt.Sprintf("%.0f", x) }}
	line := func(series, kind string, y func(p, first point) float64) [][2]float64 {
		var out [][2]float64
		all := of(points, series, kind)
		for _, p := range all {
			out = append(out, [2]float64{p.size() / all[0].size(), y(p, all[0])})
		}
		return out
	}
	took := func(p, first point) float64 { return p.Median / first.Median }
	for _, series := range []string{"nodes", "CPUs"} {
		for _, kind := range curveKinds {
			c.Lines = append(c.Lines, heat.Line{Name: "more " + series + ", " + kind + " workloads",
				Points: line(series, kind, took)})
		}
	}
	allowed := func(p, first point) float64 { return p.allowed(first) }
	c.Lines = append(c.Lines,
		heat.Line{Name: "nodes squared: allowed", Points: line("nodes", curveKinds[0], allowed)},
		heat.Line{Name: "CPUs × log CPUs: allowed", Points: line("CPUs", curveKinds[0], allowed)})
	return c.SVG(machine)
}

func keepCurve(dir string, table []byte, points []point) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	for _, p := range points {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "placement-curve.md"), table, 0o644),
		os.WriteFile(filepath.Join(dir, "placement-curve.jsonl"), raw.Bytes(), 0o644))
}
