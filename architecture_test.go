package homenode

import (
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms are the folders whose packages each have a doc.go, and a place on the map.
var rooms = []string{"cmd", "daemon", "ui", "cluster", "config", "host", "sim", "api", "core"}

// docOf returns the package comment in a folder's doc.go; empty when the folder has none.
func docOf(t *testing.T, dir string) string {
	t.Helper()
	name := path.Join(dir, "doc.go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
	if os.IsNotExist(err) || (err == nil && file.Doc == nil) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Doc.Text()
}

// packages returns the folders of the rooms that have Go files of their own, without tests alone.
func packages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, room := range rooms {
		err := fs.WalkDir(os.DirFS("."), room, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			dir := path.Dir(name)
			source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
			if source && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestEveryPackageHasADoc: a reader finds the purpose of each package, and its limits, in its doc.go.
func TestEveryPackageHasADoc(t *testing.T) {
	all := packages(t)
	if len(all) < 50 {
		t.Fatalf("only %d packages seen: the walk is broken", len(all))
	}
	for _, dir := range all {
		if docOf(t, dir) == "" {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

var (
	parentheses = regexp.MustCompile(`\(([^()]*)\)`)
	testName    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*|\b[a-z]+\.[a-z]+(?:-[a-z]+)*\b`)
)

// namedIn returns the tests that an invariant names in parentheses: Go's, and those in guests, which have a dot.
func namedIn(invariant string, known map[string]bool) (named, missing []string) {
	for _, inside := range parentheses.FindAllStringSubmatch(invariant, -1) {
		for _, name := range testName.FindAllString(inside[1], -1) {
			switch {
			case known[name]:
				named = append(named, name)
			case !strings.Contains(name, "."):
				missing = append(missing, name)
			}
		}
	}
	return named, missing
}

// TestInvariantsHaveTests: each paragraph of a doc.go that begins with Invariant names a test that there is.
func TestInvariantsHaveTests(t *testing.T) {
	known := testNames(t)
	seen := 0
	for _, dir := range packages(t) {
		for paragraph := range strings.SplitSeq(docOf(t, dir), "\n\n") {
			if !strings.HasPrefix(paragraph, "Invariant:") {
				continue
			}
			seen++
			named, missing := namedIn(strings.ReplaceAll(paragraph, "\n", " "), known)
			if len(named) == 0 {
				t.Errorf("%s: no test enforces: %s", dir, paragraph)
			}
			for _, name := range missing {
				t.Errorf("%s: there is no test %s, which is to enforce: %s", dir, name, paragraph)
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d invariants seen: the walk is broken", seen)
	}
}

func TestNamedIn(t *testing.T) {
	known := map[string]bool{"TestA": true, "homenode.b-c": true}
	named, missing := namedIn("Invariant: so it is (TestA, homenode.b-c; TestGone), TestElsewhere (mm/mempolicy.c).", known)
	if !slices.Equal(named, []string{"TestA", "homenode.b-c"}) || !slices.Equal(missing, []string{"TestGone"}) {
		t.Errorf("named %v, missing %v", named, missing)
	}
}

// TestMapIsWhole: ARCHITECTURE.md names each package of the rooms, or a folder above it, and no path that does not exist.
func TestMapIsWhole(t *testing.T) {
	source, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := regexp.MustCompile(`\b(?:`+strings.Join(rooms, "|")+`|e2e|bench|docs|scripts|integrations)(?:/[\w.-]*\w)*`).FindAllString(string(source), -1)
	for _, name := range drawn {
		if !strings.Contains(name, "/") {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the map has %s: no such file", name)
		}
	}
	for _, dir := range packages(t) {
		shown := slices.ContainsFunc(drawn, func(name string) bool {
			return dir == name || (strings.Contains(name, "/") && strings.HasPrefix(dir, name+"/"))
		})
		if !shown && !strings.HasPrefix(dir, "cmd/") {
			t.Errorf("%s is in no room of the map", dir)
		}
	}
}

// TestNoPrograms: no built program is among the files of the project. BPF objects have checksums.
func TestNoPrograms(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("this is no checkout of git")
	}
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		f, err := os.Open(name)
		if os.IsNotExist(err) { // removed since
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		magic := make([]byte, 4)
		_, _ = io.ReadFull(f, magic) // a shorter file is none
		f.Close()
		object := path.Ext(name) == ".o" && slices.Contains([]string{"host/scx/bpf", "e2e/guest/share"}, path.Dir(name))
		if string(magic) == "\x7fELF" && !object {
			t.Errorf("%s is a program", name)
		}
	}
}
