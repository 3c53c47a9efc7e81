package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/ui/cli"
)

// records reads the files of a log that have to do with a period, while their daemon may
// write and delete them.
type records struct {
	names []string
	log   *flight.Log // of the first of names; nil before it is open
	notes []words.Reason
}

// openRecords is for `homenode report`: what was recorded since a time.
func openRecords(stateDir string, since time.Time) (cli.Records, error) {
	c, err := localConfig(stateDir)
	if err != nil {
		return nil, cli.Usage(err)
	}
	dir := filepath.Join(c.StateDir, flightFolder)
	names, err := flight.Files(dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no flight log in %s: %w", dir, fs.ErrNotExist)
	}
	for k := len(names) - 1; k > 0; k-- { // what was recorded before a file begins is in those before it
		if began, err := beginOf(names[k]); err == nil && !began.After(since) {
			names = names[k:]
			break
		}
	}
	return &records{names: names}, nil
}

// beginOf is the time before the first line of a file.
func beginOf(name string) (time.Time, error) {
	l, err := flight.Open(name)
	if err != nil {
		return time.Time{}, err
	}
	defer l.Close()
	r, err := l.Next()
	if err != nil {
		return time.Time{}, err
	}
	var state struct{ At time.Time }
	err = json.Unmarshal(r.Checkpoint, &state)
	return state.At, err
}

// Next implements cli.Records. A file that cannot be read to its end is noted, and the next
// one begins.
func (r *records) Next() (checkpoint, line []byte, err error) {
	for {
		if r.log == nil {
			if len(r.names) == 0 {
				return nil, nil, io.EOF
			}
			if r.log, err = flight.Open(r.names[0]); err != nil {
				if err := r.leave(err); err != nil {
					return nil, nil, err
				}
				continue
			}
		}
		x, err := r.log.Next()
		if err == nil {
			return x.Checkpoint, x.Line, nil
		}
		if err == io.EOF {
			err = nil
		}
		if err := r.leave(err); err != nil {
			return nil, nil, err
		}
	}
}

// leave goes on to the next file; err is why, nil at the end of this one.
func (r *records) leave(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case errors.Is(err, fs.ErrNotExist):
		r.notes = append(r.notes, words.Because(words.ReportFileGone))
	case err != nil:
		r.notes = append(r.notes, words.Because(words.ReportBadFile, err.Error()))
	}
	r.names = r.names[1:]
	return r.Close()
}

// Notes implements cli.Records.
func (r *records) Notes() []words.Reason { return r.notes }

// Close implements cli.Records.
func (r *records) Close() error {
	if r.log == nil {
		return nil
	}
	err := r.log.Close()
	r.log = nil
	return err
}
