package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/homenode/homenode/ui/metrics"
)

// metricsTable is the table of docs/metrics.md.
func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, f := range metrics.Families {
		labels := ""
		if f.Labels != nil {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s. |\n", f.Name, f.Type, labels, f.Help)
	}
	return b.String()
}

// writeMetricsTable puts the table in its place on the page.
func writeMetricsTable(file string) error {
	const begin, end = "<!-- table -->\n", "<!-- end of table -->"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s: no place for the table", file)
	}
	return os.WriteFile(file, []byte(before+begin+metricsTable()+end+after), 0o644)
}
