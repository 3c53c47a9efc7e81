package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFitsATerminal: what flags mean is wrapped; a terminal of 80 columns cuts no word.
func TestHelpFitsATerminal(t *testing.T) {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		_, flags, _ := strings.Cut(c.UsageString(), "\nFlags:\n")
		for line := range strings.Lines(flags) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(Command())
}
