package tree

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/homenode/homenode/docs"
	"github.com/homenode/homenode/ui/cli"
)

func help(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	code = Main(t.Context(), e, append([]string{"help"}, args...))
	return code, out.String(), errs.String()
}

// Each topic is listed, is printed under its name, fits 80 columns and a screen, and is no command.
func TestTopics(t *testing.T) {
	all := docs.Topics()
	if len(all) < 10 {
		t.Fatalf("only %d topics: the folder is not read", len(all))
	}
	_, list, _ := help(t, "topics")
	for _, topic := range all {
		if !strings.Contains(list, "  "+topic.Name+" ") || !strings.Contains(list, topic.Title) {
			t.Errorf("%s is not in the list", topic.Name)
		}
		code, text, stderr := help(t, topic.Name)
		if code != 0 || text != topic.Title+"\n\n"+topic.Text {
			t.Errorf("help %s: exit status %d, %q, %q", topic.Name, code, text, stderr)
		}
		if lines := strings.Count(text, "\n"); lines > 24 {
			t.Errorf("%s has %d lines", topic.Name, lines)
		}
		for line := range strings.Lines(text) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 {
				t.Errorf("%s: %d columns: %s", topic.Name, width, line)
			}
		}
		root := rootCommand(&cli.Env{})
		if c, rest, err := root.Find([]string{topic.Name}); err == nil && len(rest) == 0 && c != root {
			t.Errorf("%s is a command: its topic cannot be read", topic.Name)
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	for typed, want := range map[string]string{
		"clases": `homenode: help: no command or topic "clases"; did you mean classes? See`,
		"demno":  `did you mean demo?`,
		"topic":  `did you mean topics?`,
		"xyzzy":  `homenode: help: no command or topic "xyzzy". See`,
	} {
		code, stdout, stderr := help(t, typed)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("help %s: exit status %d, %q, %q; want %q", typed, code, stdout, stderr, want)
		}
	}
}
