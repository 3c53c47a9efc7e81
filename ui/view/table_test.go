package view

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// On a terminal that is too narrow no line is longer than it, and nothing is lost; elsewhere
// a row is a line.
func TestTableOnANarrowTerminal(t *testing.T) {
	wide := func() *Table {
		x := NewTable("POLICY", ">ACCESS", ">LOCAL", ">UTILITY", ">IMBALANCE", ">MOVES", ">VIOLATIONS")
		x.Row("homenode", "93.1 ns", "99.9 %", "100.0 %", "0.001", "12", "0")
		return x
	}
	text := func() *Table {
		x := NewTable("FLAVOR", ">FIT NOW", "THE NEXT ONE")
		x.Row("c1.large", "0", "Its emulator belongs on CPUs reserved for the host, and none are reserved.")
		return x
	}
	for name, of := range map[string]func() *Table{"columns": wide, "text": text} {
		for _, width := range []int{0, 40, 60, 80, 200} {
			var out strings.Builder
			of().Print(&out, Paint{Width: width})
			words := 0
			for _, r := range of().rows {
				words += len(strings.Fields(strings.Join(r, " ")))
			}
			lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			for _, line := range lines {
				if width > 0 && ansi.StringWidth(line) > width {
					t.Errorf("%s, width %d: %q", name, width, line)
				}
			}
			if got := len(strings.Fields(out.String())); got < words || width%200 == 0 && (got != words || len(lines) != 2) {
				t.Errorf("%s, width %d: %d words of %d\n%s", name, width, got, words, out.String())
			}
		}
	}
}

func TestTextOfOtherLocales(t *testing.T) {
	for locale, want := range map[string]string{"": "█ ×", "C": "# x", "POSIX": "# x", "en_US.UTF-8": "█ ×", "C.utf8": "█ ×", "de_DE.ISO-8859-1": "# x"} {
		getenv := func(name string) string { return map[string]string{"LC_ALL": locale, "LANG": "C.UTF-8"}[name] }
		var out strings.Builder
		NewOutput(&out, getenv).Write([]byte("█ ×"))
		if out.String() != want {
			t.Errorf("LC_ALL=%s: %q, want %q", locale, out.String(), want)
		}
	}
}
