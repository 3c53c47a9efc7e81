package view

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar is a progress bar on a terminal, and nothing elsewhere.
type Bar struct {
	w           io.Writer // nil for none
	full, empty string
	drawn       time.Time
}

// redraw is how often a bar is drawn at most.
const redraw = 100 * time.Millisecond

// NewBar is a bar on w, if that is a terminal that can draw one again.
func NewBar(w io.Writer, getenv func(string) string) *Bar {
	f := Terminal(w)
	if f == nil || getenv("TERM") == "dumb" {
		return &Bar{}
	}
	if !UTF8(getenv) {
		return &Bar{w: f, full: "#", empty: "."}
	}
	return &Bar{w: f, full: "█", empty: "░"}
}

// Set draws a bar that is done to this share, between two texts; after is asked for
// only when it is drawn.
func (b *Bar) Set(before string, done float64, after func() string) {
	if b.w == nil || time.Since(b.drawn) < redraw {
		return
	}
	b.drawn = time.Now()
	const width = 30
	done = min(1, max(0, done))
	n := int(done * width)
	fmt.Fprintf(b.w, "\r\x1b[K%s%s%s %3.0f %%%s", before, strings.Repeat(b.full, n), strings.Repeat(b.empty, width-n),
		100*done, after())
}

// Clear takes the bar away.
func (b *Bar) Clear() {
	if b.w != nil && !b.drawn.IsZero() {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
