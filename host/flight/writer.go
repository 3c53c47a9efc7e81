package flight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Schema names the form of a log. Raise it when lines of before cannot be replayed.
const Schema = "homenode-flight/2"

// head is the first line of a file.
type head struct {
	Schema     string `json:"schema"`
	Checkpoint any    `json:"checkpoint"`
}

const (
	prefix, suffix = "flight-", ".jsonl.zst"

	// files is into how many files a full log is cut: so much of it goes at once when
	// it is full.
	files = 8

	// window is how far back the compressor looks, bytes: some looks at a large
	// host, for one is much like the one before.
	window = 2 << 20
)

// Writer appends to a log. It is for one goroutine.
type Writer struct {
	dir     string
	most    int64 // bytes of all files
	file    *os.File
	counter *counter
	zip     *zstd.Encoder
	text    bytes.Buffer // kept for its memory
	next    uint64
}

// counter counts what is written to a file.
type counter struct {
	f *os.File
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.f.Write(b)
	c.n += int64(n)
	return n, err
}

// Create opens a log in a folder for appending, and makes the folder. most bounds
// the bytes of all files together. No file is written before the first record.
func Create(dir string, most int64) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	names, err := Files(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, most: most, next: 1}
	if len(names) > 0 {
		n, _ := number(filepath.Base(names[len(names)-1]))
		w.next = n + 1
	}
	return w, nil
}

// Files is the files of a log, oldest first.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := number(e.Name()); ok && e.Type().IsRegular() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(names) // numbers have leading zeros
	return names, nil
}

func number(name string) (uint64, bool) {
	text, ok := strings.CutPrefix(name, prefix)
	text, ok2 := strings.CutSuffix(text, suffix)
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && ok && ok2 && len(text) == 12
}

// Record appends line, as JSON. Where a file begins it asks for a checkpoint: all that is
// needed to understand this line and those after it. After an error the next line
// begins a new file, for what follows a gap could not be replayed.
func (w *Writer) Record(line any, checkpoint func() any) error {
	w.text.Reset()
	encode := json.NewEncoder(&w.text)
	begins := w.zip == nil
	if begins {
		if err := encode.Encode(head{Schema, checkpoint()}); err != nil {
			return err
		}
	}
	if err := encode.Encode(line); err != nil {
		return errors.Join(err, w.end())
	}
	if begins {
		if err := w.begin(); err != nil {
			return err
		}
	}
	_, err := w.zip.Write(w.text.Bytes())
	if err == nil {
		err = w.zip.Flush()
	}
	switch {
	case err != nil:
		name := w.file.Name()
		_ = w.end()                           // it says the same
		if begins && os.Remove(name) == nil { // it holds no line, and there may be one for each try
			w.next--
		}
	case w.counter.n >= w.most/files:
		err = w.end()
	}
	return err
}

// begin starts a new file, after making room for it.
func (w *Writer) begin() error {
	if err := w.makeRoom(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, fmt.Sprintf("%s%012d%s", prefix, w.next, suffix)),
		os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w.next++
	w.file, w.counter = f, &counter{f: f}
	w.zip, err = zstd.NewWriter(w.counter, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// makeRoom removes the oldest files until one more fits.
func (w *Writer) makeRoom() error {
	names, err := Files(w.dir)
	if err != nil {
		return err
	}
	total := w.most / files
	for i := len(names) - 1; i >= 0; i-- {
		info, err := os.Stat(names[i])
		if err != nil {
			return err
		}
		if total += info.Size(); total > w.most {
			if err := os.Remove(names[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// end closes the file that is being written.
func (w *Writer) end() error {
	if w.zip == nil {
		return nil
	}
	err := errors.Join(w.zip.Close(), w.file.Close())
	w.zip = nil
	w.file = nil
	w.counter = nil
	return err
}

// Close ends the log.
func (w *Writer) Close() error { return w.end() }
