package tree

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli/try"
)

const twoSmallNodes = "package:2 node:1(memory=16GiB) core:4 pu:2"

func TestPlanSpec(t *testing.T) {
	spec := `
- {name: db, class: dedicated, cpus: 4, memory: 4GiB, near: [eth0]}
- {name: web, cpus: 2, memory: 1GiB, near: [db]}
- {name: batch, class: batch, cpus: 64}
`
	out, errs, code := runMain(t, fstest.MapFS{}, spec, "plan", "--spec", "-", "--synthetic", twoSmallNodes)
	if code != 0 || errs != "" {
		t.Fatalf("status %d: %s", code, errs)
	}
	for _, want := range []string{
		"home   node 0, CPUs 0-1,8-9, memory 4 GiB on node 0",
		words.Because(words.PinnedCores, "0-1,8-9", 2, 1).String(),
		"home   nodes 0-1, CPUs 2-7,10-15",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestPlanJSON(t *testing.T) {
	out, errs, code := runMain(t, fstest.MapFS{}, "name: a\nclass: dedicated\ncpus: 3\nmemory: 1GiB\n", "plan", "--spec", "-", "--synthetic", twoSmallNodes, "--json")
	var doc try.PlanDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("status %d: %s %v", code, errs, err)
	}
	if doc.Schema != "homenode-plan/3" || len(doc.Placements) != 1 || len(doc.Placements[0].Pins) != 3 || len(doc.Decisions) != 1 {
		t.Errorf("got %+v", doc)
	}
}

func TestPlanRefuses(t *testing.T) {
	out, _, code := runMain(t, fstest.MapFS{}, "name: a\nclass: dedicated\ncpus: 60\n", "plan", "--spec", "-", "--synthetic", twoSmallNodes)
	why := words.Because(words.HostTooSmall, words.Because(words.FreeCPUs, 60), words.Because(words.Number, 16))
	if code != 1 || !strings.Contains(out, why.String()) {
		t.Errorf("status %d\n%s", code, out)
	}
}

func TestPlanBadInput(t *testing.T) {
	tests := []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"nothing asked", "", nil, "nothing to plan: give one of --spec, --admit, --restore, --case"},
		{"empty list", "[]", []string{"--spec", "-"}, "no workload in it"},
		{"no CPUs", "name: a", []string{"--spec", "-"}, `standard input: line 1 column 5: workload "a": it has no cpus; give 1 to 65535`},
		{"bad size", "{name: a, cpus: 1, memory: 5 parsecs}", []string{"--spec", "-"}, "want a number with a unit"},
		{"unknown key", "- {name: a, cpus: 1, nodez: 3}", []string{"--spec", "-"}, `unknown key "nodez"`},
		{"name twice", "- {name: a, cpus: 1}\n- {name: a, cpus: 1}", []string{"--spec", "-"}, "the name is taken by workload 1"},
		{"bad policy", "name: a\ncpus: 1", []string{"--spec", "-", "--packing", "tight"}, `--packing "tight"; want adaptive, pack or spread`},
		{"bad case", "{}", []string{"--case", "-"}, "host.nodes holds no node"},
		{"no such case", "", []string{"--case", "/nonexistent"}, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"plan"}, tt.args...)
			if len(tt.args) > 0 && tt.args[0] == "--spec" {
				args = append(args, "--synthetic", twoSmallNodes)
			}
			_, errs, code := runMain(t, fstest.MapFS{}, tt.stdin, args...)
			if code != 2 || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, want 2: %q, want %q in one line", code, errs, tt.want)
			}
		})
	}
}

func TestPlanCase(t *testing.T) {
	c := `{"name":"c","host":{"nodes":[{"id":0,"cpus":[0,1],"mem_mib":1024}],"cores":[[0,1]],"l3":[[0,1]],"slit":[[10]]},
		"events":[{"op":"arrive","vm":"a","vcpus":2,"mem_mib":512},{"op":"arrive","vm":"b","vcpus":1,"mem_mib":1}]}`
	out, errs, code := runMain(t, fstest.MapFS{}, c, "plan", "--case", "-")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 {
		t.Fatalf("status %d: %s\n%s", code, errs, out)
	}
	if !strings.HasPrefix(lines[0], `{"peer":"homenode","case":"c","i":0,"vm":"a","op":"arrive","ok":true,"cpus":[0,1],"mem":{"0":512},"ns":`) ||
		!strings.HasPrefix(lines[1], `{"peer":"homenode","case":"c","i":1,"vm":"b","op":"arrive","ok":false,"ns":`) {
		t.Errorf("got\n%s", out)
	}
}
