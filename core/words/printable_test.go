package words

import (
	"testing"
	"unicode"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"redis-server 6379":     "redis-server 6379",
		"Bücherei ✓":            "Bücherei ✓",
		"\x1b[2J\x1b[31mroot":   `\x1b[2J\x1b[31mroot`,
		"a\nb\tc\x7f":           `a\x0ab\x09c\x7f`,
		"\x9b31m":               `\x9b31m`,
		"\u009b31m":             `\xc2\x9b31m`,
		"a\u202eb":              `a\xe2\x80\xaeb`,
		"\u2028":                `\xe2\x80\xa8`,
		"half \xe2\x80":         `half \xe2\x80`,
		"\ufffd is a character": "\ufffd is a character",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]52;c;cm0=\a")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q: %q", s, got)
			}
		}
		if again := Printable(got); again != got {
			t.Fatalf("%q: %q, then %q", s, got, again)
		}
	})
}
