package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/ui/cli/tree"
)

// Every page has what an administrator looks for, no mark of the libraries, and is well formed.
func TestPages(t *testing.T) {
	mandoc, _ := exec.LookPath("mandoc")
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		p := page(c)
		for _, want := range []string{".SH NAME\n", ".SH SYNOPSIS\n", ".SH EXAMPLES\n", ".SH \"EXIT STATUS\"\n", ".SH \"ENVIRONMENT\"\n"} {
			if !strings.Contains(p, want) && !strings.HasPrefix(c.CommandPath(), "homenode completion") {
				t.Errorf("%s: no %s", c.CommandPath(), want)
			}
		}
		if strings.ContainsAny(p, "`\x00") || strings.Contains(p, "=false]") {
			t.Errorf("%s: marks of a library", c.CommandPath())
		}
		for line := range strings.Lines(p) {
			if strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .TP .EX .EE .PP ", " "+strings.Fields(line)[0]+" ") {
				t.Errorf("%s: %q", c.CommandPath(), line)
			}
		}
		if mandoc != "" {
			lint := exec.Command(mandoc, "-T", "lint", "-W", "error")
			lint.Stdin = strings.NewReader(p)
			if out, err := lint.CombinedOutput(); err != nil {
				t.Errorf("%s: %s", c.CommandPath(), out)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(tree.Command())
	if p := page(tree.Command()); !strings.Contains(p, `.SH "FILES"`) {
		t.Error("no FILES")
	}
	daemon, _, err := tree.Command().Find([]string{"daemon"})
	if err != nil || !strings.Contains(page(daemon), `.SH "SIGNALS"`) {
		t.Errorf("daemon: %v", err)
	}
}
