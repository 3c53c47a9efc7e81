package homes

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// order is the files of this package: each may use those before it.
var order = []string{
	"placements.go", "admission.go", "homes.go", "decisions.go", "ledger.go", "living.go", "request.go", "result.go", "exact.go", "place.go", "move.go", "whatif.go",
}

// TestFilesGoOneWay: no file uses a function, a type or a method of one that stands below it.
func TestFilesGoOneWay(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		if !slices.Contains(order, name) {
			t.Errorf("%s has no place in the order", name)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	functions, methods := map[string][]string{}, map[string][]string{} // to the files that declare them
	for name, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[d.Name.Name] = append(methods[d.Name.Name], name)
				} else {
					functions[d.Name.Name] = append(functions[d.Name.Name], name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						functions[s.Name.Name] = append(functions[s.Name.Name], name)
					}
				}
			}
		}
	}
	found := 0
	for name, f := range files {
		uses := func(what string, declared []string) {
			if len(declared) != 1 || declared[0] == name { // names of several files say nothing
				return
			}
			found++
			if slices.Index(order, declared[0]) > slices.Index(order, name) {
				t.Errorf("%s uses %s of %s, which stands below it", name, what, declared[0])
			}
		}
		selected := map[*ast.Ident]bool{} // names after a dot: fields, methods, names of other packages
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); !ok || !imports(f, x.Name) {
					uses(s.Sel.Name, methods[s.Sel.Name])
				}
			case *ast.SelectorExpr:
				selected[n.Sel] = true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					selected[key] = true
				}
			case *ast.Field:
				for _, name := range n.Names {
					selected[name] = true
				}
			case *ast.Ident:
				if !selected[n] {
					uses(n.Name, functions[n.Name])
				}
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("only %d uses found: the walk is broken", found)
	}
}

// imports reports whether a name is that of a package that the file imports.
func imports(f *ast.File, name string) bool {
	return slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool {
		return strings.HasSuffix(strings.Trim(s.Path.Value, `"`), "/"+name) || s.Path.Value == `"`+name+`"`
	})
}
