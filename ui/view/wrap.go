package view

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// wrap breaks text into lines of at most width columns. The first begins at column at, the
// others at column hang; neither is part of what comes back. A number stays with its unit, and
// a word that is longer than a line breaks behind a comma or a slash where it has one.
func wrap(text string, width, at, hang int) []string {
	var lines []string
	var line strings.Builder
	used, room := 0, max(1, width-at)
	next := func() {
		lines = append(lines, strings.TrimRight(line.String(), " "))
		line.Reset()
		used, room = 0, max(1, width-hang)
	}
	for _, w := range units(text) {
		gap, word := w[0], w[1]
		n := ansi.StringWidth(word)
		if used > 0 && used+len(gap)+n > room {
			if n <= max(1, width-hang) || used+len(gap)+leastText > room {
				next()
			}
		}
		if used > 0 || len(lines) == 0 {
			line.WriteString(gap)
			used += len(gap)
		}
		for n > room-used {
			head := ansi.Cut(word, 0, breakAt(word, room-used))
			cut := ansi.StringWidth(head)
			if cut == 0 {
				break // a sign of several runes
			}
			if cut > room-used && used > 0 {
				next()
				continue
			}
			line.WriteString(head)
			word, n = ansi.Cut(word, cut, n), n-cut
			next()
		}
		line.WriteString(word)
		used += n
	}
	if line.Len() > 0 || len(lines) == 0 {
		next()
	}
	return lines
}

// breakAt is the column where a word that is longer than room is best cut: behind its first
// character at least, and in the midst of none, though some take two columns.
func breakAt(word string, room int) int {
	best, at := 0, 0
	for _, r := range ansi.Strip(word) {
		n := ansi.StringWidth(string(r))
		if at > 0 && at+n > room {
			break
		}
		if at += n; strings.ContainsRune(",;/:", r) && at > room/3 {
			best = at
		}
	}
	return cmp.Or(best, at)
}

// units splits text at spaces, and not between a number and its unit or "node" and its number:
// each is the spaces before it and the word.
func units(text string) [][2]string {
	var out [][2]string
	for len(text) > 0 {
		rest := strings.TrimLeft(text, " ")
		gap := text[:len(text)-len(rest)]
		word, _, _ := strings.Cut(rest, " ")
		text = rest[len(word):]
		if last := len(out) - 1; last >= 0 && gap == " " && together(out[last][1], word) {
			out[last][1] += " " + word
			continue
		}
		if word != "" {
			out = append(out, [2]string{gap, word})
		}
	}
	return out
}

// together reports whether two words are better on one line.
func together(a, b string) bool {
	switch a {
	case "node", "nodes", "CPU", "CPUs":
		return b != "" && unicode.IsDigit(rune(b[0]))
	}
	return isUnit(b) && endsInDigit(a)
}

// isUnit reports whether a word, with what punctuation follows, is a unit.
func isUnit(word string) bool {
	word = strings.TrimRight(ansi.Strip(word), ".,;:)")
	switch word, _, _ = strings.Cut(word, "/"); word {
	case "%", "ns", "us", "µs", "ms", "s", "min", "h", "byte", "bytes", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB",
		"GB", "MHz", "GHz", "CPU", "CPUs":
		return true
	}
	return false
}

func endsInDigit(word string) bool {
	r := []rune(ansi.Strip(word))
	return len(r) > 0 && unicode.IsDigit(r[len(r)-1])
}

// fold is one line of text for a terminal so wide: what does not fit goes on below, two columns
// further in than it began.
func fold(line string, width int) string {
	if width <= 0 || ansi.StringWidth(line) <= width {
		return line
	}
	plain := ansi.Strip(line)
	hang := len(plain) - len(strings.TrimLeft(plain, " ")) + 2
	if width-hang < leastText {
		hang = 0
	}
	return strings.Join(wrap(line, width, 0, hang), "\n"+strings.Repeat(" ", hang))
}
