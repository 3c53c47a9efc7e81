package ordertest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// PointDown fails the test where a file of the package in the current folder uses a declaration of
// a file above it. order is all files but doc.go, lowest first; upward is the arrows that may point up
// ("from.go to.go"), each with its reason. fewest is the least number of arrows that the package has: a
// test that sees fewer tests nothing.
func PointDown(t *testing.T, order []string, upward map[string]string, fewest int) {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		if !slices.Contains(order, name) {
			t.Errorf("%s has no place in the order of files", name)
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) != len(order) {
		t.Errorf("%d files, %d in the order", len(files), len(order))
	}
	uses := map[*ast.Ident]types.Object{}
	// What other packages declare is not resolved here: it is no arrow between these files.
	check := types.Config{Importer: none{}, Error: func(error) {}}
	pkg, _ := check.Check("files", fset, files, &types.Info{Uses: uses})
	arrows := map[string]bool{}
	for id, object := range uses {
		if object.Pkg() != pkg {
			continue
		}
		from := filepath.Base(fset.Position(id.Pos()).Filename)
		to := filepath.Base(fset.Position(object.Pos()).Filename)
		if from == to {
			continue
		}
		arrow := from + " " + to
		if arrows[arrow] {
			continue
		}
		arrows[arrow] = true
		if slices.Index(order, to) > slices.Index(order, from) && upward[arrow] == "" {
			t.Errorf("%s uses %s of %s, which is above it", from, object.Name(), to)
		}
	}
	for arrow, reason := range upward {
		if !arrows[arrow] {
			t.Errorf("%s is an exception (%s), and no arrow", arrow, reason)
		}
	}
	if len(arrows) < fewest {
		t.Errorf("only %d arrows were seen: the test tests nothing", len(arrows))
	}
}

// none imports every package as an empty one.
type none struct{}

func (none) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}
