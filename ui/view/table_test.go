package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// Whatever is in a table and however narrow the terminal: no line is wider than it, rows are
// not broken apart, and what is not shown is named. In a pipe a row is a line.
func TestTableFitsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headings := rapid.SliceOfNDistinct(rapid.StringMatching(`>?[A-Z]{1,9}( [A-Z]{2,4})?`), 1, 12, func(h string) string { return strings.TrimPrefix(h, ">") }).Draw(t, "headings")
		drops := rapid.SliceOfDistinct(rapid.SampledFrom(headings), rapid.ID).Draw(t, "drops")
		for i := range drops {
			drops[i] = strings.TrimPrefix(drops[i], ">")
		}
		table := NewTable(slices.Clone(headings)...).Drops(drops...)
		var cells [][]string
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			var row []string
			for i := range headings {
				text := `[0-9]{1,6}\.[0-9] [GMK]iB`
				if i == 0 {
					text = `/[a-z./-]{0,80}`
				} else if i == len(headings)-1 && headings[i][0] != '>' {
					text = `([A-Za-z]{1,12} ){0,20}`
				}
				row = append(row, strings.TrimRight(rapid.StringMatching(text).Draw(t, "cell"), " "))
			}
			cells = append(cells, slices.Clone(row))
			table.Row(row...)
		}
		width := rapid.IntRange(40, 250).Draw(t, "width")
		var narrow, pipe strings.Builder
		table.Print(&narrow, Paint{Width: width})
		table.Print(&pipe, Paint{})
		if lines := strings.Count(pipe.String(), "\n"); lines != len(cells)+1 {
			t.Fatalf("%d lines in a pipe:\n%s", lines, pipe.String())
		}
		for line := range strings.Lines(narrow.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d of %d columns: %q", n, width, line)
			}
		}
		body, note, _ := strings.Cut(narrow.String(), "\nnot shown: ")
		note = strings.ReplaceAll(note, "\n", " ")
		gone := strings.Split(strings.Split(note, "; ")[0], ", ")
		words := strings.Fields(body)
		for i, h := range headings {
			h = strings.TrimPrefix(h, ">")
			if slices.Contains(gone, h) {
				continue
			}
			for _, row := range cells {
				for _, word := range strings.Fields(row[i]) {
					if i > 0 && !slices.Contains(words, word) {
						t.Fatalf("%q of %s is neither shown nor named as left out:\n%s", word, h, narrow.String())
					}
				}
			}
		}
	})
}

// What goes first is what the table says, and names keep both ends, of a path the last part.
func TestTableLeavesOutColumnsByPriority(t *testing.T) {
	table := NewTable("WORKLOAD", "CLASS", ">VCPUS", "HOME", ">LOCAL NOW", "STATE").Drops("CLASS", "VCPUS")
	table.Row("/system.slice/postgresql@14-main.service", "dedicated", "16", "0-1", "93.1 %", "would spread")
	for width, want := range map[int]string{
		0: `WORKLOAD                                  CLASS      VCPUS  HOME  LOCAL NOW  STATE
/system.slice/postgresql@14-main.service  dedicated     16  0-1      93.1 %  would spread
`,
		70: `WORKLOAD                          VCPUS  HOME  LOCAL NOW  STATE
…/postgresql@14-main.service         16  0-1      93.1 %  would spread
not shown: CLASS; shortened: WORKLOAD; all of it: | less -S
`,
		40: `WORKLOAD   HOME  LOCAL NOW  STATE
/sys…vice  0-1      93.1 %  would spread
not shown: CLASS, VCPUS; shortened:
WORKLOAD; all of it: | less -S
`,
	} {
		var out strings.Builder
		if table.Print(&out, Paint{Width: width}); out.String() != want {
			t.Errorf("width %d:\n%swant\n%s", width, out.String(), want)
		}
	}
}

// Lines are never wider than the terminal, and a number is not torn from its unit.
func TestLinesFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"locality: 12 by counters", "locality: 12 by counters"},
		{"  home   node 0, CPUs 0-3, memory 12.5 GiB on node 0", "  home   node 0, CPUs 0-3,\n    memory 12.5 GiB on\n    node 0"},
		{"free are now 12.5 GiB of it", "free are now 12.5 GiB of it"},
		{"free of it are by now 125 GiB", "free of it are by now\n  125 GiB"},
		{"0,2,4,6,8,10,12,14,16,18,20,22,24", "0,2,4,6,8,10,12,14,16,18,20,\n  22,24"},
		{"\x1b[2mdim and long enough to be wrapped\x1b[m", "\x1b[2mdim and long enough to be\n  wrapped\x1b[m"},
	} {
		if got := fold(c.text, 28); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, width := rapid.StringMatching(`( ){0,6}([a-z0-9,/.%]{1,60} {1,3}){0,12}`).Draw(t, "text"), rapid.IntRange(leastText, 250).Draw(t, "width")
		folded := fold(text, width)
		for line := range strings.Lines(folded) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d of %d: %q", n, width, line)
			}
		}
		bare := strings.NewReplacer(" ", "", "\n", "").Replace
		if bare(folded) != bare(text) {
			t.Fatalf("%q became %q", text, folded)
		}
	})
}

// What a command writes is folded line by line, in whatever pieces it comes; documents are not.
func TestOutputFolds(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"COLUMNS": "20"}[name] }
	var out strings.Builder
	o := NewOutput(&out, getenv)
	for _, piece := range []string{"one two three ", "four five six\nse", "ven\n", "no end of line here, none at all"} {
		fmt.Fprint(o, piece)
	}
	fmt.Fprintln(o.Raw(), "a document that nobody folds")
	o.Close()
	if want := "one two three four\nfive six\nseven\nno end of line here,\nnone at alla document that nobody folds\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestTextOfOtherLocales(t *testing.T) {
	for locale, want := range map[string]string{"": "█ × é", "C": "# x ?", "POSIX": "# x ?", "en_US.UTF-8": "█ × é", "C.utf8": "█ × é", "de_DE.ISO-8859-1": "# x ?"} {
		getenv := func(name string) string { return map[string]string{"LC_ALL": locale, "LANG": "C.UTF-8"}[name] }
		var out strings.Builder
		NewOutput(&out, getenv).Write([]byte("█ × é"))
		if out.String() != want {
			t.Errorf("LC_ALL=%s: %q, want %q", locale, out.String(), want)
		}
	}
}

// TestWrapKeepsAll: a word that is cut loses nothing, whatever columns its characters take.
func TestWrapKeepsAll(t *testing.T) {
	for _, text := range []string{"日本語日本語日本語日本語", "a日本語日本語日本語b", "/日本/語日/本語日本語b", "é́a,b,日,c", "👨‍👩‍👧🇯🇵🇯🇵ab"} {
		for width := 2; width < 30; width++ {
			lines := wrap(text, width, 0, 0)
			if joined := strings.Join(lines, ""); joined != text {
				t.Errorf("%d columns: %q became %q", width, text, lines)
			}
			for _, line := range lines {
				if n := ansi.StringWidth(line); n > width {
					t.Errorf("%d columns: %q takes %d", width, line, n)
				}
			}
		}
	}
}
