// Placement measures the engine on the shared cases and sets it beside the
// peers' stored scores.
//
//	go run ./bench/placement                         # tables, as in docs/placement.md
//	go run ./bench/placement -lines CASE.json...     # the scorer's result format
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
)

func main() {
	lines := flag.Bool("lines", false, "write one JSON line an arrival, for score.py")
	scores := flag.Bool("scores", false, "write one JSON line a case: our scores")
	all := flag.Bool("admit-all", false, "take every split that fits, also one that does not pay")
	peer := flag.String("peer", "homenode", "`NAME` in the results")
	shared := flag.String("cases", "../shared/cases", "`DIR` with cases/ and the peers' results.jsonl")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	err := run(out, *shared, flag.Args(), *lines, *scores, replay.Options{Peer: *peer, Must: *all})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "placement: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, shared string, paths []string, lines, scores bool, o replay.Options) error {
	var err error
	if len(paths) == 0 {
		if paths, err = filepath.Glob(filepath.Join(shared, "cases", "*.json")); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return fmt.Errorf("no cases in %s", shared)
	}
	start := time.Now()
	o.Now = func() int64 { return time.Since(start).Nanoseconds() }
	enc := json.NewEncoder(w)
	var ours []Score
	for _, path := range paths {
		c, err := read(path)
		if err != nil {
			return err
		}
		m := newMeter(c, o.Peer)
		o.Answered = m.answered
		if lines {
			o.Answered = func(a *replay.Answer, _ *place.Ledger) error { return enc.Encode(a) }
		}
		if err := replay.Run(c, o); err != nil {
			return err
		}
		s := m.score()
		s.Expect = m.expect(path)
		ours = append(ours, s)
	}
	switch {
	case lines:
		return nil
	case scores:
		for _, s := range ours {
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	peers, err := readScores(filepath.Join(shared, "results.jsonl"))
	if err != nil {
		return err
	}
	printTables(w, ours, peers)
	return nil
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
