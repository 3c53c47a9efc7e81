package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/ui/cli"
)

// flightFolder is where the flight recorder writes, below the state folder.
const flightFolder = "flight"

// recorder implements daemon.Recorder.
type recorder struct{ *flight.Recorder }

func (r recorder) Record(x control.Recorded) {
	before := x.Before
	x.Before = nil // it is the checkpoint of the file
	r.Add(before, x)
}

// flightLog reads what recorder wrote.
type flightLog struct{ *flight.Log }

// Next implements cli.Flight.
func (l flightLog) Next() (control.Logged, error) {
	var out control.Logged
	for {
		r, err := l.Log.Next()
		if err != nil {
			return out, err
		}
		if r.Checkpoint != nil {
			out.Before = r.Checkpoint
			continue
		}
		before := out.Before
		if err := json.Unmarshal(r.Line, &out); err != nil {
			return out, fmt.Errorf("not a flight log: %w", err)
		}
		if len(out.Output) == 0 {
			return out, fmt.Errorf("not a flight log: a line has no output")
		}
		out.Before = before
		return out, nil
	}
}

// openFlight is for `homenode replay`.
func openFlight(path string) (cli.Flight, error) {
	if path == "" {
		path = filepath.Join(defaultState(), flightFolder)
	}
	l, err := flight.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("no flight log %s; a daemon writes one into the folder %s of its state folder", path,
			flightFolder)
	}
	return flightLog{l}, err
}
