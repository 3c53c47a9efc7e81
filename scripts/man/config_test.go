package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/homenode/homenode/config"
)

func readKeys(t *testing.T) []key {
	t.Helper()
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keysOf(string(page))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestEveryKeyIsDescribed: the page has every key that the program reads, once, with words.
func TestEveryKeyIsDescribed(t *testing.T) {
	want := defaults()
	have := map[string]string{}
	for _, k := range readKeys(t) {
		if _, twice := have[k.path]; twice {
			t.Errorf("%s: twice", k.path)
		}
		have[k.path] = want[k.path]
		if len(k.says) == 0 && want[k.path] != "" {
			t.Errorf("%s: nothing is said about it", k.path)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("keys of the program (-) and of docs/config.md (+):\n%s", diff)
	}
}

// keysOnly is without where a file says what.
var keysOnly = cmpopts.IgnoreUnexported(config.Config{})

// TestSample: as it stands it says nothing, and what it shows are the defaults.
func TestSample(t *testing.T) {
	text := sample(readKeys(t), defaults())
	if c, err := config.Merge(config.New(), config.Layer{Name: "sample", Text: []byte(text)}); err != nil || !cmp.Equal(c, config.New(), keysOnly) {
		t.Errorf("commented out: %v; differs by %s", err, cmp.Diff(config.New(), c, keysOnly))
	}
	_, keys, _ := strings.Cut(text, "\n\n")
	open, _, _ := strings.Cut(keys, "#workloads:")
	var lines []string
	for line := range strings.Lines(open) {
		if !strings.HasPrefix(line, "#     ") { // more of what the line before says
			line = strings.TrimPrefix(line, "#")
		}
		lines = append(lines, line)
	}
	c, err := config.Merge(config.New(), config.Layer{Name: "sample", Text: []byte(strings.Join(lines, ""))})
	want := config.New()
	want.Partition = "any" // as "" is
	if err != nil || !cmp.Equal(c, want, cmpopts.EquateEmpty(), keysOnly) {
		t.Errorf("not the defaults: %v; %s", err, cmp.Diff(want, c, keysOnly))
	}
}

// TestWritten: what is kept in the source is what the generator writes.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	manual, file := filepath.Join(dir, "5"), filepath.Join(dir, "yaml")
	if err := configuration("../../docs/config.md", manual, file, pageDate); err != nil {
		t.Fatal(err)
	}
	for written, kept := range map[string]string{manual: "../../docs/man/homenode.yaml.5", file: "../../packaging/homenode.yaml"} {
		a, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(kept)
		if err != nil || string(a) != string(b) {
			t.Errorf("%s is not up to date (%v): make generate", kept, err)
		}
	}
}
