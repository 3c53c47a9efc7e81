// Placement measures the engine on the shared cases and sets it beside the
// peers' stored scores.
//
//	go run ./bench/placement                         # tables, as in bench/results/placement.md
//	go run ./bench/placement -limit                  # the same, and what no on-line policy can be expected to beat
//	go run ./bench/placement -lines CASE.json...     # the scorer's result format
//	go run ./bench/placement -repack -scorer DIR     # runs with moves, for score.py
//	go run ./bench/placement -speed                  # decision times beside real peers, in one run
//	go run ./bench/placement -caches                 # last-level caches a guest, beside rules of the kubelet and nri-plugins
//	go run ./bench/placement -curve                  # decision times on hosts of growing size
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
)

func main() {
	lines := flag.Bool("lines", false, "write one JSON line an arrival, for score.py")
	scores := flag.Bool("scores", false, "write one JSON line a case: our scores")
	all := flag.Bool("admit-all", false, "take every split that fits, also one that does not pay")
	repack := flag.Bool("repack", false, "let running workloads move")
	peer := flag.String("peer", "homenode", "`NAME` in the results")
	shared := flag.String("cases", "../shared/cases", "`DIR` with cases/ and the peers' results.jsonl")
	limits := flag.Bool("limit", false, "compute what no on-line policy can be expected to beat (a minute)")
	scorer := flag.String("scorer", "", "write cases and results for score.py to `DIR`")
	fast := flag.Bool("speed", false,
		"decision times beside the reference policies, Nova and the kubelet's managers, on CASE... or on traces of "+
			"its own")
	caches := flag.Bool("caches", false,
		"last-level caches a dedicated guest, beside the rules that the kubelet and nri-plugins document")
	grow := flag.Bool("curve", false, "decision times on hosts of growing size")
	picture := flag.String("svg", "", "with -curve: `FILE` for a picture")
	o := speedOptions{}
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of -speed and -curve, at least 1; 0 with -curve draws what -o holds")
	flag.IntVar(&o.arrivals, "arrivals", 400, "arrivals in each of the traces that -speed makes")
	flag.BoolVar(&o.kubelet, "kubelet", false,
		"with -speed: build and run the kubelet's managers too (first build: a quarter of an hour)")
	flag.StringVar(&o.sources, "peers", "bench/placement/peers", "with -speed: `DIR` with the peers' drivers")
	flag.StringVar(&o.keep, "o", "", "with -speed, -curve: `DIR` for the table and the raw times")
	flag.Parse()
	if !*grow {
		o.rounds = max(1, o.rounds)
	}
	o.arrivals = max(1, o.arrivals)
	out := bufio.NewWriter(os.Stdout)
	b := bench{
		shared: *shared, paths: flag.Args(), lines: *lines, scores: *scores, caches: *caches, limits: *limits,
		scorer: *scorer,
		o:      replay.Options{Peer: *peer, Must: *all, Repack: *repack},
	}
	var err error
	switch {
	case *fast:
		err = speed(out, flag.Args(), o)
	case *grow:
		err = curve(out, o.rounds, o.keep, *picture)
	default:
		err = b.run(out)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "placement: %v\n", err)
		os.Exit(1)
	}
}

// bench is one run of the command.
type bench struct {
	shared                string
	paths                 []string
	lines, scores, limits bool
	caches                bool
	scorer                string
	o                     replay.Options
}

func (b *bench) run(w io.Writer) error {
	var err error
	if len(b.paths) == 0 {
		if b.paths, err = filepath.Glob(filepath.Join(b.shared, "cases", "*.json")); err != nil {
			return err
		}
	}
	if len(b.paths) == 0 {
		return fmt.Errorf("no cases in %s", b.shared)
	}
	start := time.Now()
	b.o.Now = func() int64 { return time.Since(start).Nanoseconds() }
	if b.caches {
		return compareCaches(w, b.paths, b.o)
	}
	if b.scorer != "" {
		return forScorer(b.scorer, b.shared, b.paths, b.o)
	}
	ours, err := b.measure(w, b.o)
	if err != nil || b.lines {
		return err
	}
	if b.scores {
		enc := json.NewEncoder(w)
		for _, s := range ours {
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	peers, err := readScores(filepath.Join(b.shared, "results.jsonl"))
	if err != nil {
		return err
	}
	printTables(w, ours, peers)
	if b.o.Repack {
		return nil
	}
	o := b.o
	o.Repack = true
	moved, err := b.measure(w, o)
	if err != nil {
		return err
	}
	var limits []Limit
	for _, path := range b.paths {
		if b.limits && strings.HasPrefix(filepath.Base(path), "churn_") {
			c, err := read(path)
			if err != nil {
				return err
			}
			limits = append(limits, limit(c))
		}
	}
	printMoves(w, ours, moved, limits)
	return nil
}

// measure runs the cases and scores them.
func (b *bench) measure(w io.Writer, o replay.Options) ([]Score, error) {
	enc := json.NewEncoder(w)
	var out []Score
	for _, path := range b.paths {
		c, err := read(path)
		if err != nil {
			return nil, err
		}
		m := newMeter(c, o.Peer)
		o.Answered = m.answered
		if b.lines {
			o.Answered = func(a *replay.Answer, _ *place.Ledger) error { return enc.Encode(a) }
		}
		if err := replay.Run(c, o); err != nil {
			return nil, err
		}
		s := m.score()
		s.Expect = m.expect(path)
		out = append(out, s)
	}
	return out, nil
}

func read(path string) (*replay.Case, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := replay.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readScores(path string) ([]Score, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Score
	d := json.NewDecoder(f)
	for {
		var s Score
		switch err := d.Decode(&s); err {
		case nil:
			out = append(out, s)
		case io.EOF:
			return out, nil
		default:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}
