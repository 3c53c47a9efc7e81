// Package homenode holds the version alone: its test keeps the import rule of
// ARCHITECTURE.md.
package homenode

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/homenode/homenode/"

// may lists, for each layer, the project's packages it may import, by prefix.
// The longest key that fits a package is its layer.
var may = map[string][]string{
	"core/words":     {},
	"core/topology":  {},
	"core/measure":   {"core/words", "core/topology"},
	"core/trial":     {"core/measure"},
	"core/doctor":    {"core/words", "core/topology", "core/measure"},
	"core/workload":  {"core/topology", "core/words"},
	"core/plan":      {"core/words", "core/topology", "core/workload"},
	"core/place":     {"core/words", "core/topology", "core/workload", "core/plan", "core/place/nearness", "core/place/demand", "core/place/cores", "core/place/arrange"}, // arrange in tests alone
	"core/irq":       {"core/words", "core/topology", "core/workload", "core/plan"},
	"core/hostprep":  {"core/words", "core/topology", "core/measure", "core/doctor", "core/workload", "core/plan", "core/irq"},
	"core/guest":     {"core/words", "core/topology", "core/workload", "core/plan", "core/place"},
	"core/share":     {"core/words", "core/topology", "core/workload"},
	"core/load":      {"core/words", "core/topology", "core/workload"},
	"core/openstack": {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/guest"},
	"core/balance":   {"core/words", "core/topology", "core/workload", "core/plan", "core/place"},
	"host":           {"core", "host/internal"},
	"host/libvirt":   {"core", "host/internal", "host/libvirt"},
	"host/observe":   {"core", "host/internal", "host/observe"},
	"host/probe":     {"core", "host/internal", "host/probe"},
	"api":            {"core", "docs"},
	"core/control":   {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/irq", "core/hostprep", "core/balance", "core/share", "core/load", "core/trial", "core/control"},
	"core/report":    {"core/words", "core/topology", "core/workload", "core/plan", "core/balance", "core/control"},
	"config":         {"core"},
	"daemon":         {"core", "api", "daemon", "docs", "ui/house"}, // docs and ui/house in tests alone
	"sim":            {"core"},
	"ui":             {"core", "api", "docs", "ui", "sim"},
	"ui/view":        {"core"},
	"cmd":            {"core", "docs", "config", "api", "daemon", "host", "ui", "sim"},
	"bench":          {"core", "sim", "ui/heat", "bench/sharing"},
	"bench/probe":    {"core", "host/probe"},
	"bench/share":    {"core", "host/store", "ui/heat", "ui/view", "bench/openloop"},
	"bench/seeds":    {"core", "host/probe", "host/store", "bench/openloop"},
	"e2e":            {"e2e"},
	"e2e/page":       {"api", "core", "ui/web", "ui/house"}, // a module of its own
	"scripts":        {},
	"scripts/man":    {"core", "docs", "config", "api", "ui", "sim"},
	"docs":           {},
	"packaging":      {},                        // a module of its own
	"cluster":        {"core", "api", "daemon"}, // modules of their own; daemon in tests alone

	"core/control/scene": {
		"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/hostprep", "core/balance", "core/load",
	},
	"core/control/work": {
		"core/words", "core/topology", "core/workload", "core/plan", "core/share", "core/hostprep", "core/control/journal",
	},
	"core/control/differ":     {"core/workload", "core/plan", "core/control/concern", "core/control/work"},
	"core/control/replay":     {"core/words", "core/workload", "core/plan", "core/control/journal", "core/control/work"},
	"core/control/switchback": {"core/words", "core/topology", "core/workload", "core/plan", "core/trial", "core/hostprep", "core/control/concern/threads", "core/control/work"},
	"core/control/upkeep":     {"core/words", "core/topology", "core/workload", "core/plan", "core/control/journal", "core/control/scene", "core/control/work"},
	"core/control/history":    {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/balance", "core/control/homes", "core/control/scene", "core/control/work"},
	"core/control/settings":   {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/balance", "core/irq", "core/share", "core/control/concern", "core/control/scene", "core/control/work"},
	"core/control/view":       {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/balance", "core/load", "core/control/concern", "core/control/homes", "core/control/scene", "core/control/settings", "core/control/switchback", "core/control/work"},
	"core/place/inside":       {"core/topology", "core/workload"},
	"core/place/nearness":     {"core/words", "core/topology", "core/workload"},
	"core/place/demand":       {"core/topology", "core/workload"},
	"core/place/cores":        {"core/topology", "core/workload", "core/plan", "core/place/demand"},
	"core/place/arrange":      {"core/words", "core/topology", "core/workload", "core/plan", "core/place"},
	"core/share/goal":         {"core/words", "core/workload"},
	"core/control/homes":      {"core/words", "core/topology", "core/workload", "core/plan", "core/place", "core/balance", "core/control/scene"},

	"e2e/guest/lab":      {"e2e/suite", "e2e/marks", "bench/openloop"},
	"e2e/guest/kernel":   {"e2e/guest/lab", "e2e/suite"},
	"e2e/guest/home":     {"e2e/guest/lab", "e2e/suite"},
	"e2e/guest/share":    {"e2e/guest/lab", "e2e/guest/runtimes", "e2e/suite", "bench/openloop", "host/scx", "core/topology", "core/workload"}, // drives the scheduler before any daemon does
	"e2e/guest/runtimes": {"e2e/guest/lab", "e2e/suite"},
	"e2e/guest/count":    {"e2e/guest/lab", "e2e/guest/runtimes", "e2e/suite"},
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
			if name == "sync" && dir == "daemon" && !test {
				t.Errorf("%s imports %s: one goroutine owns the daemon's state", path, name)
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

// TestLoopKnowsNoRuntime: what knows its workloads better than cgroups do is a Source and a
// Driver; the loop and what decides name none of them.
func TestLoopKnowsNoRuntime(t *testing.T) {
	runtime := regexp.MustCompile(`(?i)libvirt|guest|container|nri\b`)
	for _, dir := range []string{"daemon", "core/control", "core/control/scene", "core/control/work"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if found := runtime.FindString(line); found != "" {
					t.Errorf("%s:%d names %q: %s", name, i+1, found, strings.TrimSpace(line))
				}
			}
		}
	}
}
