package flight

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxLine bounds one line: a look at 5,000 workloads takes about 10 MiB.
	maxLine = 64 << 20

	// maxParts bounds what a line holds of what is short as text and may be large as a
	// value: objects, lists and null. A look at 5,000 workloads on 8 nodes has 300,000.
	// A line of 60 MiB, which is 6 KiB compressed, can have 20 million, of some hundred
	// bytes each.
	maxParts = 1 << 20

	// maxMemory bounds what a stream may make the decompressor allocate.
	maxMemory = 64 << 20
)

// Record is one line of a log.
type Record struct {
	Checkpoint json.RawMessage // where a file begins
	Line       json.RawMessage // otherwise
}

// SchemaError says that a log has another form than this homenode reads.
type SchemaError struct{ Have string }

func (e *SchemaError) Error() string {
	return fmt.Sprintf("written in form %q, and this homenode reads %s: replay it with the homenode that wrote it, "+
		"or record anew", e.Have, Schema)
}

// Reader reads one file, compressed or plain JSON lines.
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

// Next is the next line, valid JSON; io.EOF after the last. A last one that was cut
// short is no error: see Torn.
func (r *Reader) Next() (Record, error) {
	line, err := r.read()
	if err != nil {
		return Record{}, err
	}
	r.line++
	if r.line > 1 {
		if !json.Valid(line) {
			return Record{}, fmt.Errorf("not a flight log: line %d is not JSON", r.line)
		}
		return Record{Line: line}, nil
	}
	var h struct {
		Schema     string          `json:"schema"`
		Checkpoint json.RawMessage `json:"checkpoint"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return Record{}, fmt.Errorf("not a flight log: line %d: %w", r.line, err)
	}
	if h.Schema == "" {
		return Record{}, errors.New("not a flight log: its first line names no form")
	}
	if h.Schema != Schema {
		return Record{}, &SchemaError{h.Schema[:min(len(h.Schema), 40)]}
	}
	if h.Checkpoint == nil {
		return Record{}, errors.New("not a flight log: it does not begin with a checkpoint")
	}
	return Record{Checkpoint: h.Checkpoint}, nil
}

// read is one line without its end.
func (r *Reader) read() ([]byte, error) {
	var line []byte
	var parts partCounter
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine || parts.add(part) > maxParts {
			return nil, fmt.Errorf("not a flight log: line %d is larger than any look at a host", r.line+1)
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
			if errors.Is(err, zstd.ErrMagicMismatch) {
				return nil, errors.New("not a flight log")
			}
			return nil, fmt.Errorf("not a flight log: after line %d: %w", r.line, err)
		}
	}
}

// partCounter counts objects, lists and nulls of a JSON text that comes in pieces.
type partCounter struct {
	n       int
	quoted  bool // within a string
	escaped bool // after a backslash
}

func (c *partCounter) add(text []byte) int {
	for _, b := range text {
		switch {
		case c.escaped:
			c.escaped = false
		case b == '"':
			c.quoted = !c.quoted
		case c.quoted:
			c.escaped = b == '\\'
		case b == '{' || b == '[' || b == 'n':
			c.n++
		}
	}
	return c.n
}

// Torn reports whether the file ended within a line: its daemon was killed, or
// still writes.
func (r *Reader) Torn() bool { return r.torn }

// Close frees the decompressor.
func (r *Reader) Close() error {
	if r.zip != nil {
		r.zip.Close()
	}
	return nil
}

// Log is the lines of a file, or of all files of a folder one after the other.
type Log struct {
	names []string
	begun bool
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

// Next is the next line; io.EOF after the last. Files of a form of before, with which a
// folder may begin after an upgrade, are passed over.
func (l *Log) Next() (Record, error) {
	for {
		if l.r == nil {
			if len(l.names) == 0 {
				return Record{}, io.EOF
			}
			if err := l.open(); err != nil {
				return Record{}, err
			}
		}
		out, err := l.r.Next()
		var other *SchemaError
		if err == io.EOF || (errors.As(err, &other) && !l.begun && len(l.names) > 1) {
			l.torn = l.torn || l.r.Torn()
			if err := l.Close(); err != nil {
				return out, err
			}
			l.names = l.names[1:]
			continue
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", l.names[0], err)
		}
		l.begun = true
		return out, nil
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

// Torn reports whether a file ended within a line.
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
