package tree

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/homenode/homenode/ui/cli"
)

// TestNumactlPage: every homenode line of docs/numactl.md is one that the commands take.
func TestNumactlPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/numactl.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("`(homenode [^`]+)`").FindAllStringSubmatch(string(page), -1)
	if len(lines) < 30 {
		t.Fatalf("only %d lines found", len(lines))
	}
	for _, m := range lines {
		line := strings.NewReplacer("'", "", "…", "").Replace(m[1])
		root := rootCommand(&cli.Env{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Getenv: func(string) string { return "" }})
		c, rest, err := root.Find(strings.Fields(line)[1:])
		if err != nil || c == root {
			t.Errorf("%q: %v", m[1], err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", m[1], err)
		}
		if args := c.Flags().Args(); c.Args != nil && c.Args(c, args) != nil {
			t.Errorf("%q: %v", m[1], c.Args(c, args))
		}
	}
}
