package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
)

// forScorer writes a folder in which the shared scorer judges runs with moves as
// they are. The scorer knows arrivals and departures only, so every case is written
// anew with each move as a departure and a workload that is there already, which
// the scorer books and checks but does not count; answers are numbered to fit:
//
//	python3 DIR/score.py DIR/results.jsonl --sum
func forScorer(dir, shared string, paths []string, o replay.Options) error {
	if err := os.MkdirAll(filepath.Join(dir, "cases"), 0o755); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(shared, "score.py"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "score.py"), script, 0o644); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	for _, path := range paths {
		if err := unfold(out, dir, path, o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func unfold(out *bufio.Writer, dir, path string, o replay.Options) error {
	c, err := read(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file map[string]json.RawMessage
	var events, unfolded []json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	if err := json.Unmarshal(file["events"], &events); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	done := 0
	o.Answered = func(a *replay.Answer, _ *place.Ledger) error {
		unfolded = append(unfolded, events[done:a.I]...)
		done = a.I
		for _, m := range a.Moves {
			for _, e := range []any{
				map[string]any{"op": "depart", "vm": m.VM},
				map[string]any{"op": "preplace", "vm": m.VM, "cpus": m.CPUs, "mem": m.Mem},
			} {
				line, err := json.Marshal(e)
				if err != nil {
					return err
				}
				unfolded = append(unfolded, line)
			}
		}
		moved := *a
		moved.I, moved.Moves = len(unfolded), nil
		return enc.Encode(&moved)
	}
	if err := replay.Run(c, o); err != nil {
		return err
	}
	if file["events"], err = json.Marshal(slices.Concat(unfolded, events[done:])); err != nil {
		return err
	}
	if text, err = json.Marshal(file); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cases", c.Name+".json"), text, 0o644)
}
