package concerntest

import (
	"strings"
	"testing"
)

// Expect compares lines without the space around them.
func Expect(t *testing.T, what, got, want string) {
	t.Helper()
	got, want = trimmed(got), trimmed(want)
	if got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

func trimmed(text string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
