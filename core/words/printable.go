package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is text that others chose, a process for one, made safe to show on a
// terminal, in a log or on a page: what is not printable is written as \x1b is here.
// That takes in line ends, control characters, marks that turn the direction of text,
// and what is not UTF-8.
func Printable(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[i : i+n])
		} else {
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		i += n
	}
	return b.String()
}
