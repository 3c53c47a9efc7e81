package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode"
	"github.com/homenode/homenode/ui/cli/tree"
)

// pageDate is not the date of writing: the same commands give the same pages.
var pageDate = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one folder, have %q", args)
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(args[0], "homenode*.1"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if err := write(args[0], tree.Command()); err != nil {
		return err
	}
	if err := writeJSONPage(".", "docs/json.md"); err != nil {
		return err
	}
	if err := writeOpenAPI(".", "docs/openapi.json"); err != nil {
		return err
	}
	if err := writeMetricsTable("docs/metrics.md"); err != nil {
		return err
	}
	return configuration("docs/config.md", filepath.Join(args[0], "homenode.yaml.5"), "packaging/homenode.yaml",
		pageDate)
}

func write(dir string, c *cobra.Command) error {
	if err := os.WriteFile(filepath.Join(dir, name(c)+".1"), []byte(page(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := write(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page is a manual page in the macros of man(7).
func page(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %q %q Homenode\n", quote(strings.ToUpper(name(c))), pageDate.Format("Jan 2006"),
		"Homenode "+homenode.Version())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", text(name(c)), text(c.Short))
	use := c.UseLine()
	if c.HasAvailableSubCommands() {
		use = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", text(c.CommandPath()),
		text(strings.TrimPrefix(use, c.CommandPath())))
	if c.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		description(&b, c.Long)
	}
	var commands, options [][2]string
	var also []string
	if c.HasParent() {
		also = append(also, name(c.Parent()))
	}
	for _, sub := range c.Commands() {
		commands = append(commands, [2]string{sub.Name(), sub.Short + "."})
		also = append(also, name(sub))
	}
	for _, f := range tree.Options(c) {
		says := f.Usage
		if d := tree.Default(f); d != "" {
			says += " (default " + d + ")"
		}
		options = append(options, [2]string{tree.OptionName(f), says})
	}
	rows(&b, "COMMANDS", commands)
	rows(&b, "OPTIONS", options)
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.EX\n%s\n.EE\n", text(c.Example))
	}
	for _, s := range tree.Sections(c) {
		rows(&b, s.Title, s.Rows)
	}
	if also != nil {
		for i := range also {
			also[i] = "\\fB" + text(also[i]) + "\\fR(1)"
		}
		fmt.Fprintf(&b, ".SH \"SEE ALSO\"\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

// rows is a section of names with what they are.
func rows(b *strings.Builder, title string, all [][2]string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", quote(title))
	for _, r := range all {
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", text(r[0]), text(r[1]))
	}
}

// description is text whose lines with an indent stand as they are.
func description(b *strings.Builder, long string) {
	for i, par := range strings.Split(long, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		verbatim := false
		for _, line := range strings.Split(par, "\n") {
			if indented := strings.HasPrefix(line, " "); indented != verbatim {
				verbatim = indented
				b.WriteString(map[bool]string{true: ".EX\n", false: ".EE\n"}[verbatim])
			}
			b.WriteString(text(line) + "\n")
		}
		if verbatim {
			b.WriteString(".EE\n")
		}
	}
}

// text is s for roff: nothing in it is taken for a request or an escape. What stands between
// backquotes is bold.
func text(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\&...`, "`", "\x00").Replace(s)
	for on := true; strings.Contains(s, "\x00"); on = !on {
		s = strings.Replace(s, "\x00", map[bool]string{true: `\fB`, false: `\fR`}[on], 1)
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, "-", `\-`) + `"` }
