package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A kind is one habit that is counted.
type kind int

const (
	mixed    kind = iota // && and || in one condition without parentheses
	hidden               // a call or a step in front of an if's or a switch's condition
	parallel             // three and more values assigned in one statement
	wide                 // a line over 120 columns
	function             // a function over 100 lines
	file                 // a file over 600 lines
	folder               // a package over 6,000 lines
	kinds
)

var names = [kinds]string{"mixed", "hidden", "parallel", "wide", "function", "file", "folder"}

var says = [kinds]string{
	"&& and || without parentheses", "a call hidden before a condition", "three or more values assigned at once",
	"a line over 120 columns", "a function over 100 lines", "a file over 600 lines", "a package over 6,000 lines",
}

func (k kind) String() string { return says[k] }

const (
	mostColumns       = 120
	tab               = 4 // columns of one tab
	mostFunctionLines = 100
	mostFileLines     = 600
	mostFolderLines   = 6000
)

// A place is where something was found.
type place struct {
	folder string
	file   string
	line   int
	kind   kind
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.kind) }

// scan returns every place below root, in the order of files and lines. Tests, generated
// files and what git keeps no Go in are left out.
func scan(root fs.FS) ([]place, error) {
	var places []place
	lines := map[string]int{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if base == "testdata" || (strings.HasPrefix(base, ".") && base != ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		found, n, err := inFile(name, text)
		if err != nil {
			return err
		}
		places = append(places, found...)
		lines[path.Dir(name)] += n
		return nil
	})
	for dir, n := range lines {
		if n > mostFolderLines {
			places = append(places, place{dir, dir, n, folder})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		if byFile := strings.Compare(a.file, b.file); byFile != 0 {
			return byFile
		}
		return a.line - b.line
	})
	return places, err
}

// inFile returns the places of one file and its number of lines; none of a generated file.
func inFile(name string, text []byte) ([]place, int, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	if ast.IsGenerated(tree) {
		return nil, 0, nil
	}
	var places []place
	add := func(line int, k kind) {
		places = append(places, place{path.Dir(name), name, line, k})
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines {
		columns := utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t")
		if columns > mostColumns {
			add(i+1, wide)
		}
	}
	if len(lines) > mostFileLines {
		add(len(lines), file)
	}
	operands := map[ast.Expr]bool{} // parts of a condition that was looked at whole
	ast.Inspect(tree, func(n ast.Node) bool {
		line := 0
		if n != nil {
			line = set.Position(n.Pos()).Line
		}
		switch n := n.(type) {
		case *ast.IfStmt:
			if hides(n.Init) {
				add(line, hidden)
			}
		case *ast.SwitchStmt:
			if hides(n.Init) {
				add(line, hidden)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) >= 3 && len(n.Lhs) == len(n.Rhs) {
				add(line, parallel)
			}
		case *ast.ValueSpec:
			if len(n.Values) >= 3 {
				add(line, parallel)
			}
		case *ast.FuncDecl:
			if set.Position(n.End()).Line-line >= mostFunctionLines {
				add(line, function)
			}
		case *ast.BinaryExpr:
			if operands[n] {
				break
			}
			seen := map[token.Token]bool{}
			operators(n, seen, operands)
			if seen[token.LAND] && seen[token.LOR] {
				add(line, mixed)
			}
		}
		return true
	})
	return places, len(lines), nil
}

// hides reports whether what stands before a condition is done for its effect alone.
func hides(init ast.Stmt) bool {
	switch init.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt:
		return true
	}
	return false
}

// operators adds the operators of a condition to seen, as far as no parentheses stand
// between, and its parts to operands.
func operators(e ast.Expr, seen map[token.Token]bool, operands map[ast.Expr]bool) {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || (b.Op != token.LAND && b.Op != token.LOR) {
		return
	}
	seen[b.Op] = true
	operands[b] = true
	operators(b.X, seen, operands)
	operators(b.Y, seen, operands)
}
