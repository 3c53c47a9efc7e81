package control

import (
	"bufio"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of the shape of this package. They may fall, never rise.
const (
	mostLines  = 2500 // of the package itself, without tests and subfolders
	mostFields = 25   // of State
)

// knowsConcerns is the files of this package that may name single concerns: the page that lists them, and the
// aliases of work's effects.
var knowsConcerns = map[string]bool{"concerns.go": true, "work.go": true}

// importsConcerns is all files below this package that import single concerns, but those of concerns.
var importsConcerns = []string{
	"concerns.go",
	"settings/settings.go",
	"switchback/kernel.go", // NUMA balancing is an arm of a trial, and a setting of threads
	"switchback/now.go",
	"view/concerns.go",
}

// TestWhoKnowsConcerns: a new concern is listed on few pages, which doc.go names.
func TestWhoKnowsConcerns(t *testing.T) {
	var found []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path == "concern" {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), `"github.com/homenode/homenode/core/control/concern/`) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, importsConcerns) {
		t.Errorf("single concerns are known to %q, want %q", found, importsConcerns)
	}
}

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
