package view

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// Screen shows frames of text, each in the place of the one before. What is no terminal gets
// one after the other, with an empty line between.
type Screen struct {
	w      io.Writer // below any Output: frames are made printable before
	height func() int
	shown  bool
}

// NewScreen is the screen of w. On a terminal that can it is a second one, and the first is
// there again after Close.
func NewScreen(w io.Writer, getenv func(string) string) *Screen {
	s := &Screen{w: Raw(w)}
	if f := Terminal(w); f != nil && getenv("TERM") != "dumb" {
		s.height = func() int {
			_, rows, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return rows
		}
		io.WriteString(s.w, "\x1b[?1049h\x1b[?25l") // xterm's ctlseqs: the other screen, no cursor
	}
	return s
}

// Show shows a frame; what does not fit below is counted in the last line.
func (s *Screen) Show(frame string) error {
	frame = strings.TrimRight(frame, "\n")
	if s.height == nil {
		if s.shown {
			frame = "\n" + frame
		}
		s.shown = true
		_, err := io.WriteString(s.w, frame+"\n")
		return err
	}
	lines := strings.Split(frame, "\n")
	if rows := s.height(); rows > 1 && len(lines) > rows {
		more := len(lines) - (rows - 1)
		lines = append(lines[:rows-1:rows-1], fmt.Sprintf("%d more lines", more))
	}
	// From the top left corner: each line up to its end, then the rest below.
	_, err := io.WriteString(s.w, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
	return err
}

// Over is a line and, where it takes its place, the frame before.
func (s *Screen) Over(frame, line string) string {
	if s.height == nil {
		return line
	}
	return line + frame
}

// Close brings the terminal back as it was.
func (s *Screen) Close() {
	if s.height != nil {
		io.WriteString(s.w, "\x1b[?25h\x1b[?1049l")
	}
}
