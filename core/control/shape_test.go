package control

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds of the shape of this package. They may fall, never rise.
const (
	mostLines  = 2500 // of the package itself, without tests and subfolders
	mostFields = 25   // of State
)

// knowsConcerns is the files that may name single concerns: the page that lists them, and the aliases of work's
// effects.
var knowsConcerns = map[string]bool{"concerns.go": true, "work.go": true}

// TestShape: this package conducts. It names no single concern outside one page, State stays small, and
// what can be decided elsewhere is not decided here.
func TestShape(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	named := regexp.MustCompile(`(?i)sharing|scheduler|caches?\b|caching|divid|interrupts`)
	survey := regexp.MustCompile(`\bInterrupts: 10`) // the period of a survey
	lines, fields := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		inState := false
		for scan := bufio.NewScanner(f); scan.Scan(); lines++ {
			line := scan.Text()
			inState = (inState || line == "type State struct {") && line != "}"
			code, _, _ := strings.Cut(line, "//")
			if inState && strings.HasPrefix(code, "\t") && strings.TrimSpace(code) != "" {
				fields++
			}
			excused := knowsConcerns[file] || survey.MatchString(line)
			if named.MatchString(code) && !excused {
				t.Errorf("%s names a concern: %s", file, strings.TrimSpace(line))
			}
		}
		f.Close()
	}
	t.Logf("%d lines, %d fields of State", lines, fields)
	if lines > mostLines || lines < 1000 {
		t.Errorf("%d lines, at most %d are allowed", lines, mostLines)
	}
	if fields > mostFields || fields < 5 {
		t.Errorf("State has %d fields, at most %d are allowed", fields, mostFields)
	}
}
