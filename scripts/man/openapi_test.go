package main

import (
	"bytes"
	"encoding/json"
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

// TestOwnersAreNoEnumeration: an owner is any user, namespace, pod or container, not one of the few that have constants.
func TestOwnersAreNoEnumeration(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]map[string]any }
		}
	}
	text, err := openAPI("../..")
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Asker", "Event"} {
		owner := doc.Components.Schemas[name].Properties["owner"]
		if owner["type"] != "string" || owner["enum"] != nil {
			t.Errorf("owner of %s: %v", name, owner)
		}
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
