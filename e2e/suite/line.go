package suite

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A guest writes one record a line on its second serial line; the first one
// belongs to the kernel. Kinds:
//
//	START name
//	TEST name ok|FAIL|skip seconds text
//	LOG name text
//	MARK tag phase passes
//	SCENE name (of the bottle: the walkers after it are all there are)
//	WALKER slot name mib threads loads start
//	HOME slot nodes
//	TABLE title|cell|cell...
//	CASE tag cell|cell...
//	SCRAPE phase number line-of-metrics
//	UP seconds-since-kernel-start
//	END
type Line struct {
	Kind string
	Rest string
}

// ParseLine splits a record; ok is false for anything else, which a serial line
// may well carry (a half line of a guest that died).
func ParseLine(s string) (Line, bool) {
	kind, rest, _ := strings.Cut(strings.TrimRight(s, "\r\n"), " ")
	switch kind {
	case "START", "TEST", "LOG", "MARK", "SCENE", "WALKER", "HOME", "TABLE", "CASE", "LINES", "SCRAPE", "UP", "END":
		return Line{kind, rest}, true
	}
	return Line{}, false
}

// Beat is how often the first process of a guest says that it runs: BeatLine, on the console,
// for on the line of the records it would stand amid those of a test.
const (
	Beat     = 5 * time.Second
	BeatLine = "BEAT"
)

// Outcome is how a test ended.
type Outcome string

const (
	OK   Outcome = "ok"
	Fail Outcome = "FAIL"
	Skip Outcome = "skip"
)

// Result is a parsed TEST record.
type Result struct {
	Name    string
	Outcome Outcome
	Took    time.Duration
	Text    string
}

// ParseResult reads the rest of a TEST record.
func ParseResult(rest string) (Result, error) {
	f := strings.SplitN(rest, " ", 4)
	if len(f) < 3 {
		return Result{}, fmt.Errorf("test record %q: too short", rest)
	}
	sec, err := strconv.ParseFloat(f[2], 64)
	if err != nil {
		return Result{}, fmt.Errorf("test record %q: %w", rest, err)
	}
	r := Result{Name: f[0], Outcome: Outcome(f[1]), Took: time.Duration(sec * float64(time.Second))}
	if len(f) == 4 {
		r.Text = f[3]
	}
	switch r.Outcome {
	case OK, Fail, Skip:
		return r, nil
	}
	return Result{}, fmt.Errorf("test record %q: outcome %q", rest, f[1])
}

// String is the record as it goes over the line.
func (r Result) String() string {
	return fmt.Sprintf("TEST %s %s %.1f %s", r.Name, r.Outcome, r.Took.Seconds(), OneLine(r.Text))
}

// OneLine folds text so that it fits a record, and a terminal.
func OneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " / ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
