package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/docs"
)

// TestOpenAPIWritten: docs/openapi.json is what the source says.
func TestOpenAPIWritten(t *testing.T) {
	doc, err := openAPI("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, docs.OpenAPI) {
		t.Error("docs/openapi.json is not up to date: make generate")
	}
}

// TestMetricsWritten: docs/metrics.md has every metric.
func TestMetricsWritten(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil || !strings.Contains(string(page), metricsTable()) {
		t.Errorf("docs/metrics.md is not up to date (%v): make generate", err)
	}
}

// TestEveryRequestIsAnEndpoint: the API has one place where requests are handed to what answers
// them, the table that docs/openapi.json is made of.
func TestEveryRequestIsAnEndpoint(t *testing.T) {
	files, err := filepath.Glob("../../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "HandleFunc" || sel.Sel.Name == "Handle") {
				if text, ok := call.Args[0].(*ast.BasicLit); ok && text.Value != `"/"` {
					t.Errorf("%s: %s is no entry of Endpoints", set.Position(call.Pos()), text.Value)
				}
			}
			return true
		})
	}
}
