package cli

import (
	"io"
	"strings"
)

// text is an output for people: in a locale that is not UTF-8 the signs and
// blocks of tables and pictures become ASCII. Where no locale is set UTF-8 is taken for
// granted, as in containers.
func (e *Env) text(w io.Writer) io.Writer {
	if e.utf8() {
		return w
	}
	return asciiWriter{w}
}

// utf8 reads the locale as setlocale(3) does.
func (e *Env) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := e.Getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}

// asciiWriter replaces what tables and pictures are drawn with. Each sign becomes
// one character, so that columns stay straight. A sign is never cut in two by those
// who write here: they write lines.
type asciiWriter struct{ w io.Writer }

var asciiSigns = strings.NewReplacer("█", "#", "▒", "+", "░", ".", "×", "x", "→", ">", "—", "-", "–", "-", "…", "~", "·", ".", "≤", "<", "≥", ">",
	"│", "|", "─", "-", "├", "+", "└", "+", "┌", "+", "┐", "+", "┘", "+", "┤", "+", "┬", "+", "┴", "+", "┼", "+", "µ", "u", "±", "~")

func (a asciiWriter) Write(b []byte) (int, error) {
	if _, err := asciiSigns.WriteString(a.w, string(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}
