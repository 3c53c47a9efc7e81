package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes text from another party, such as the name of a process, safe for a terminal, a
// log or a page: it escapes unprintable characters as \x1b. Those include line ends, control
// characters, marks that change the direction of text, and bytes that are not UTF-8.
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

// Clip returns the first bytes of a text from another party, printable.
func Clip(s string, most int) string { return Printable(s[:min(len(s), most)]) }
