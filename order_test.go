package homenode

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

// ordered is a package with an order of files: each uses declarations of files below it alone.
type ordered struct {
	dir    string
	files  []string          // all but doc.go, lowest first
	upward map[string]string // arrows that may point up ("from.go to.go"), each with its reason
}

// fewestArrows is the least number of arrows of such a package: a test that sees fewer tests nothing.
const fewestArrows = 20

// TestFilesPointDown: a file of such a package uses no declaration of a file above it.
func TestFilesPointDown(t *testing.T) {
	for _, p := range []ordered{
		{dir: "core/control/homes", files: []string{
			"wide.go", "placements.go", "admission.go", "homes.go", "decisions.go", "ledger.go", "living.go", "request.go", "result.go", "exact.go",
			"place.go", "move.go", "whatif.go",
		}},
		{dir: "core/control/scene", files: []string{
			"scene.go", "lookup.go", "admitted.go", "match.go", "names.go", "near.go", "links.go", "recognise.go", "joined.go", "parts.go",
			"first.go", "claims.go", "booked.go", "ceiling.go", "gpus.go", "spec.go", "alone.go", "subject.go", "follow.go",
		}},
		{dir: "core/control/work", files: []string{
			"work.go", "holds.go", "which.go", "loop.go", "task.go", "state.go", "todo.go", "transfer.go", "retry.go", "check.go", "write.go",
			"step.go", "move.go", "dispatch.go", "undo.go", "run.go",
		}, upward: map[string]string{
			"step.go run.go":     "the end of a step begins the next one",
			"move.go run.go":     "the end of a page move begins the next step",
			"dispatch.go run.go": "a plan becomes tasks, and the end of a task goes on with the plan",
			"undo.go run.go":     "the end of an undo begins the task that waited for it",
		}},
	} {
		t.Run(p.dir, p.pointsDown)
	}
}

func (p ordered) pointsDown(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob(p.dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || base == "doc.go" {
			continue
		}
		if !slices.Contains(p.files, base) {
			t.Errorf("%s has no place in the order of files", base)
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) != len(p.files) {
		t.Errorf("%d files, %d in the order", len(files), len(p.files))
	}
	uses := map[*ast.Ident]types.Object{}
	// Declarations of other packages are not resolved: they are no arrows between these files.
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
		if slices.Index(p.files, to) > slices.Index(p.files, from) && p.upward[arrow] == "" {
			t.Errorf("%s uses %s of %s, which is above it", from, object.Name(), to)
		}
	}
	for arrow, reason := range p.upward {
		if !arrows[arrow] {
			t.Errorf("%s is an exception (%s), and no arrow", arrow, reason)
		}
	}
	if len(arrows) < fewestArrows {
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
