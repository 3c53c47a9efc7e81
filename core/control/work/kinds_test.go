package work

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamesNoKindOfStep: what a step does is a property of its kind, so that a new kind changes nothing here.
func TestNamesNoKindOfStep(t *testing.T) {
	kind := regexp.MustCompile(`plan\.(Set[A-Z]\w*|MovePages|DivideThreads|StopUnit)\b`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := kind.FindString(string(text)); found != "" {
			t.Errorf("%s names %s", name, found)
		}
	}
}
