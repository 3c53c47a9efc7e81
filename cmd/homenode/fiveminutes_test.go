package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/tree"
)

// lesson is a command line of a page, and what the page says that it prints.
type lesson struct {
	line   string
	prints []string
}

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// lessons returns the command lines of the console blocks of a page.
func lessons(page string) (all []lesson) {
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			switch command, ok := strings.CutPrefix(line, "$ ./homenode "); {
			case ok:
				all = append(all, lesson{line: command})
			case len(all) > 0:
				last := &all[len(all)-1]
				last.prints = append(last.prints, line)
			}
		}
	}
	return all
}

var (
	digits  = regexp.MustCompile(`[0-9][0-9.,:-]*`)
	state   = regexp.MustCompile(`(at home|moving N %|queued)$`)
	release = regexp.MustCompile(`^homenode \S+ `)
	asker   = regexp.MustCompile(`\S+ (asked to|ordered)`)
)

// form is a line without what differs from run to run: the version, numbers, widths of columns, who asked.
func form(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	line = release.ReplaceAllString(line, "homenode VERSION ")
	line = digits.ReplaceAllString(line, "N")
	line = state.ReplaceAllString(line, "STATE")
	return asker.ReplaceAllString(line, "USER $1")
}

// differs says how an output is not what a page shows; "…" stands for any lines, or for the
// beginning of one.
func differs(shown []string, output string) string {
	printed := strings.Split(strings.TrimRight(output, "\n"), "\n")
	at, gap := 0, false
	for _, want := range shown {
		if want == "…" {
			gap = true
			continue
		}
		rest, anyBeginning := strings.CutPrefix(form(want), "… ")
		fits := func(line string) bool {
			if anyBeginning {
				return strings.HasSuffix(form(line), rest)
			}
			return form(line) == rest
		}
		for gap && at < len(printed) && !fits(printed[at]) {
			at++
		}
		if at == len(printed) || !fits(printed[at]) {
			return fmt.Sprintf("the page shows %q; printed:\n%s", want, output)
		}
		at, gap = at+1, false
	}
	if len(shown) > 0 && !gap && at < len(printed) {
		return fmt.Sprintf("the page ends before %q", printed[at])
	}
	return ""
}

// TestFiveMinutes runs each command line of docs/five-minutes.md on a demo, once the workload that
// the page is about is at home, and compares what it prints.
func TestFiveMinutes(t *testing.T) {
	if os.Geteuid() != 0 && os.Getegid() == 0 {
		t.Skip("the demo's socket belongs to the group of root")
	}
	page, err := os.ReadFile("../../docs/five-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	all := lessons(string(page))
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	place, c, ended := startDemo(t, ctx, cli.DemoOptions{Nodes: 8, Seed: 1, Speed: 20, Story: "homenode"})
	eventually(t, "a minute passes, and kafka is at home", func() bool {
		s, err := c.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Trend == nil || s.Time.Sub(s.Trend.Since) < time.Minute {
			return false
		}
		for i := range s.Workloads {
			w := &s.Workloads[i]
			if w.ID == "/system.slice/kafka.service" && w.State == "at home" {
				return true
			}
		}
		return false
	})
	ran := 0
	for _, l := range all {
		asked := strings.Contains(l.line, "$S")
		if !asked { // it is about this machine, which prints what it is
			continue
		}
		ran++
		var stdout, stderr bytes.Buffer
		e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Version: version,
			Local: local, Journal: journal, UndoRuns: undoRuns, UndoScopes: undoScopes}
		args := strings.Fields(strings.ReplaceAll(l.line, "$S", place.Socket))
		if code := tree.Main(ctx, e, args); code != 0 {
			t.Errorf("%s: exit status %d: %s", l.line, code, &stderr)
			continue
		}
		if why := differs(l.prints, stdout.String()); why != "" {
			t.Errorf("%s: %s", l.line, why)
		}
	}
	if ran < 7 {
		t.Errorf("only %d of %d command lines were run", ran, len(all))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDiffers: another word, a missing line and one too many are seen.
func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		shown  string
		output string
		same   bool
	}{
		{"a 1\nb", "a  22\nb\n", true},
		{"a 1\n…", "a 2\nb\nc\n", true},
		{"…\nc", "a\nb\nc\n", true},
		{"… said c", "10:00 who said c\n", true},
		{"a 1", "a 1\nb\n", false},
		{"a\nb", "a\n", false},
		{"a\nc", "a\nb\n", false},
		{"…\nd", "a\nb\n", false},
	} {
		if why := differs(strings.Split(c.shown, "\n"), c.output); (why == "") != c.same {
			t.Errorf("%q and %q: %q", c.shown, c.output, why)
		}
	}
}
