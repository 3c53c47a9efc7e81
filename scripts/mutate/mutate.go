package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one small change of one file: the bytes from..to become text.
type mutant struct {
	file     string
	from, to int
	text     string
	in       *function // nil when it is in none, or in one that cannot be called by another
}

// A function is where a mutant is: a copy with the mutant can stand beside it, and be
// called in its place.
type function struct {
	from, to  int    // the bytes of all of it
	name, end int    // of its name
	body      int    // after the brace
	before    string // of a call: its receiver
	args      string
	returns   bool
}

// operators lists, for each operator, what it may become. A comparison is
// shifted by one as well as turned round: tests often see only the latter.
var operators = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// A site is one place in a file with the mutants that can be made there. Sites
// are drawn, then one of their mutants: constants would be half of all
// mutants otherwise.
type site []mutant

// sites lists where file can be mutated. What does not compile is left to the
// compiler: this has no types.
func sites(fset *token.FileSet, name string, file *ast.File) []site {
	var found []site
	var in *function
	at := func(pos token.Pos) int { return fset.Position(pos).Offset }
	add := func(from, to token.Pos, texts ...string) {
		var s site
		for _, text := range texts {
			s = append(s, mutant{name, at(from), at(to), text, in})
		}
		if len(s) > 0 {
			found = append(found, s)
		}
	}
	operator := func(pos token.Pos, op token.Token) {
		var texts []string
		for _, other := range operators[op] {
			texts = append(texts, other.String())
		}
		add(pos, pos+token.Pos(len(op.String())), texts...)
	}
	var results []*ast.FieldList // of the functions around the node
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				in = called(n, at)
				results = append(results, n.Type.Results)
				ast.Inspect(n.Body, visit)
				results = results[:len(results)-1]
				in = nil
			}
			return false
		case *ast.FuncLit:
			results = append(results, n.Type.Results)
			ast.Inspect(n.Body, visit)
			results = results[:len(results)-1]
			return false
		case *ast.BinaryExpr:
			operator(n.OpPos, n.Op)
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				add(n.OpPos, n.X.Pos(), "")
			}
		case *ast.ExprStmt:
			add(n.Pos(), n.End(), "") // a call of which nothing is used
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
				texts := []string{strconv.FormatInt(v+1, 10)}
				if v > 0 {
					texts = append(texts, strconv.FormatInt(v-1, 10))
				}
				add(n.Pos(), n.End(), texts...)
			}
		case *ast.ReturnStmt:
			types := flat(results[len(results)-1])
			if len(types) != len(n.Results) {
				break
			}
			last := len(types) - 1
			if fails(types, n.Results) { // nobody looks at the other results
				add(n.Results[last].Pos(), n.Results[last].End(), "nil")
				return false
			}
			for i, value := range n.Results {
				add(value.Pos(), value.End(), instead(types[i], value)...)
			}
		case *ast.ImportSpec:
			return false
		}
		return true
	}
	ast.Inspect(file, visit)
	return found
}

// called says how a copy of a function is called from within it; nil when that takes names
// it does not have.
func called(n *ast.FuncDecl, at func(token.Pos) int) *function {
	f := &function{from: at(n.Pos()), to: at(n.End()), name: at(n.Name.Pos()), end: at(n.Name.End()),
		body:    at(n.Body.Lbrace) + 1,
		returns: n.Type.Results != nil}
	if n.Type.TypeParams != nil || (n.Recv == nil && (n.Name.Name == "init" || n.Name.Name == "main")) {
		return nil
	}
	names := func(list *ast.FieldList) (all []string, ok bool) {
		for _, field := range list.List {
			for _, id := range field.Names {
				if _, more := field.Type.(*ast.Ellipsis); more {
					all = append(all, id.Name+"...")
				} else {
					all = append(all, id.Name)
				}
			}
			if len(field.Names) == 0 || field.Names[0].Name == "_" {
				return nil, false
			}
		}
		return all, !slices.Contains(all, "_")
	}
	if n.Recv != nil {
		receiver, ok := names(n.Recv)
		if !ok {
			return nil
		}
		f.before = receiver[0] + "."
	}
	args, ok := names(n.Type.Params)
	if !ok {
		return nil
	}
	f.args = strings.Join(args, ", ")
	return f
}

// fails reports whether what is returned is an error.
func fails(types, values []ast.Expr) bool {
	last := len(types) - 1
	if last < 0 {
		return false
	}
	kind, _ := types[last].(*ast.Ident)
	value, _ := values[last].(*ast.Ident)
	return kind != nil && kind.Name == "error" && (value == nil || value.Name != "nil")
}

// flat is one type for each result.
func flat(list *ast.FieldList) []ast.Expr {
	var types []ast.Expr
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			types = append(types, f.Type)
		}
	}
	return types
}

// instead is what may be returned in place of value.
func instead(kind ast.Expr, value ast.Expr) []string {
	var zero string
	switch kind := kind.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.ArrayType, *ast.FuncType:
		zero = "nil"
	case *ast.Ident:
		switch kind.Name {
		case "bool":
			if id, ok := value.(*ast.Ident); ok && id.Name == "true" {
				return []string{"false"}
			}
			return []string{"true"}
		case "error":
			zero = "nil"
		case "string":
			zero = `""`
		case "int", "int64", "uint64", "float64":
			zero = "0"
		}
	}
	switch value := value.(type) {
	case *ast.Ident:
		if value.Name == zero {
			return nil
		}
	case *ast.BasicLit:
		return nil // a number is mutated as one, and words are not tested
	}
	if zero == "" {
		return nil
	}
	return []string{zero}
}
