package flight

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/homenode/homenode/core/balance"
)

const (
	// maxLine bounds one tick: one of 5,000 workloads takes about 10 MiB.
	maxLine = 64 << 20

	// maxMemory bounds what a stream may make the decompressor allocate.
	maxMemory = 64 << 20
)

// Reader reads the ticks of one file, compressed or plain JSON lines.
type Reader struct {
	lines *bufio.Reader
	zip   *zstd.Decoder
	line  int
	torn  bool
}

// NewReader reads a file of a log.
func NewReader(r io.Reader) (*Reader, error) {
	head := bufio.NewReader(r)
	first, err := head.Peek(1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(first) == 0 || first[0] == '{' {
		return &Reader{lines: head}, nil
	}
	zip, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxMemory), zstd.WithDecoderMaxWindow(2*window))
	if err != nil {
		return nil, fmt.Errorf("not a flight log: %w", err)
	}
	return &Reader{lines: bufio.NewReaderSize(zip, 1<<16), zip: zip}, nil
}

// Next is the next tick; io.EOF after the last. A last one that was cut short is
// no error: see Torn.
func (r *Reader) Next() (balance.Logged, error) {
	var out balance.Logged
	line, err := r.read()
	if err != nil {
		return out, err
	}
	r.line++
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&out); err != nil {
		return out, fmt.Errorf("not a flight log: record %d: %w", r.line, err)
	}
	switch {
	case out.Schema != balance.Schema:
		return out, fmt.Errorf("record %d has the form %q; this homenode reads %s", r.line, clip(out.Schema), balance.Schema)
	case out.Input.State.Host == nil || len(out.Outcome) == 0:
		return out, fmt.Errorf("not a flight log: record %d has no host or no outcome", r.line)
	}
	return out, nil
}

// read is one line without its end.
func (r *Reader) read() ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fmt.Errorf("not a flight log: record %d is longer than %d MiB", r.line+1, maxLine>>20)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			r.torn = r.torn || len(line) > 0 || errors.Is(err, io.ErrUnexpectedEOF)
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("not a flight log: after record %d: %w", r.line, err)
		}
	}
}

// Torn reports whether the file ended within a tick: its daemon was killed, or
// still writes.
func (r *Reader) Torn() bool { return r.torn }

// Close frees the decompressor.
func (r *Reader) Close() error {
	if r.zip != nil {
		r.zip.Close()
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 40)] }

// Log is the ticks of a file, or of all files of a folder one after the other.
type Log struct {
	names []string
	file  *os.File
	r     *Reader
	torn  bool
}

// Open opens a file or a folder of files.
func Open(path string) (*Log, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	l := &Log{names: []string{path}}
	if info.IsDir() {
		if l.names, err = Files(path); err != nil {
			return nil, err
		}
		if len(l.names) == 0 {
			return nil, fmt.Errorf("%s: no %s*%s in this folder", path, prefix, suffix)
		}
	}
	return l, nil
}

// Next is the next tick; io.EOF after the last.
func (l *Log) Next() (balance.Logged, error) {
	for {
		if l.r == nil {
			if len(l.names) == 0 {
				return balance.Logged{}, io.EOF
			}
			if err := l.open(); err != nil {
				return balance.Logged{}, err
			}
		}
		out, err := l.r.Next()
		if err == io.EOF {
			l.torn = l.torn || l.r.Torn()
			if err := l.Close(); err != nil {
				return out, err
			}
			l.names = l.names[1:]
			continue
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", l.names[0], err)
		}
		return out, err
	}
}

func (l *Log) open() error {
	f, err := os.Open(l.names[0])
	if err != nil {
		return err
	}
	r, err := NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", l.names[0], errors.Join(err, f.Close()))
	}
	l.file, l.r = f, r
	return nil
}

// Torn reports whether a file ended within a tick.
func (l *Log) Torn() bool { return l.torn }

// Close closes the file that is open.
func (l *Log) Close() error {
	if l.r == nil {
		return nil
	}
	err := errors.Join(l.r.Close(), l.file.Close())
	l.r, l.file = nil, nil
	return err
}
