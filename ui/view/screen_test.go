package view

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	none := func(string) string { return "" }
	var pipe strings.Builder
	s := NewScreen(&pipe, none)
	s.Show("one\ntwo\n")
	s.Show(s.Over("one\ntwo\n", "! gone\n"))
	s.Close()
	if got, want := pipe.String(), "one\ntwo\n\n! gone\n"; got != want {
		t.Errorf("a pipe gets %q, want %q", got, want)
	}
	var terminal strings.Builder
	s = &Screen{w: &terminal, height: func() int { return 3 }}
	s.Show("a\nb\nc\n")
	s.Show("a\nb\nc\nd\n")
	s.Show(s.Over("a\n", "! gone\n"))
	s.Close()
	want := "\x1b[Ha\x1b[K\r\nb\x1b[K\r\nc\x1b[K\x1b[J" + "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n2 more lines\x1b[K\x1b[J" +
		"\x1b[H! gone\x1b[K\r\na\x1b[K\x1b[J" + "\x1b[?25h\x1b[?1049l"
	if got := terminal.String(); got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
}
