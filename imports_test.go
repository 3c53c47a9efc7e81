// Package homenode holds no code: its test keeps the import rule of
// ARCHITECTURE.md.
package homenode

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/homenode/homenode/"

// may lists, for each layer, the project's packages it may import, by prefix.
// The longest key that fits a package is its layer.
var may = map[string][]string{
	"core/topology": {},
	"core/measure":  {"core/topology"},
	"core/doctor":   {"core/topology", "core/measure"},
	"core/workload": {"core/topology"},
	"core/plan":     {"core/topology", "core/workload"},
	"core/place":    {"core/topology", "core/workload", "core/plan"},
	"core/irq":      {"core/topology", "core/workload", "core/plan"},
	"core/hostprep": {"core/topology", "core/measure", "core/doctor", "core/workload", "core/plan", "core/irq"},
	"core/guest":    {"core/topology", "core/workload", "core/plan", "core/place"},
	"core/balance":  {"core/topology", "core/workload", "core/plan", "core/place"},
	"host":          {"core", "host/internal"},
	"host/libvirt":  {"core", "host/internal", "host/libvirt"},
	"host/probe":    {"core", "host/internal", "host/probe"},
	"api":           {"core"},
	"daemon":        {"core", "api"},
	"sim":           {"core", "api", "daemon"},
	"ui":            {"core", "api", "ui", "sim"},
	"cmd":           {"core", "api", "daemon", "host", "ui", "sim"},
	"bench":         {"core", "sim", "ui/heat"},
	"bench/probe":   {"core", "host/probe"},
	"e2e":           {"e2e"},
}

// never lists what core must not import, and why.
var never = map[string]string{
	"os":           "core has no I/O",
	"net":          "core has no I/O",
	"log":          "core says everything in its Report",
	"log/slog":     "core says everything in its Report",
	"math/rand":    "same input, same plan",
	"math/rand/v2": "same input, same plan",
	"sync":         "core has no goroutines",
	"syscall":      "core does not touch the host",
}

func TestImportsGoOneWay(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			return nil
		}
		layer := layerOf(dir)
		if layer == "" {
			t.Errorf("%s: no layer in the import rule", dir)
			return fs.SkipDir
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			checked++
			test := strings.HasSuffix(path, "_test.go")
			if why, bad := never[name]; bad && strings.HasPrefix(dir, "core/") && !test {
				t.Errorf("%s imports %s: %s", path, name, why)
			}
			if own, ok := strings.CutPrefix(name, module); ok && !allowed(layer, dir, own) {
				t.Errorf("%s (%s) imports %s; it may import %v", path, layer, own, may[layer])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 50 {
		t.Fatalf("only %d imports seen: the walk is broken", checked)
	}
}

func layerOf(dir string) string {
	best := ""
	for layer := range may {
		if (dir == layer || strings.HasPrefix(dir, layer+"/")) && len(layer) > len(best) {
			best = layer
		}
	}
	return best
}

func allowed(layer, dir, own string) bool {
	// A core layer is one thing even where it has sub-packages; host packages
	// never import one another.
	if own == dir || strings.HasPrefix(layer, "core/") && layerOf(own) == layer {
		return true
	}
	return slices.ContainsFunc(may[layer], func(p string) bool {
		return own == p || strings.HasPrefix(own, p+"/")
	})
}
