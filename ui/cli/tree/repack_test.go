package tree

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/try"
)

const fourCores = "package:2 node:1(memory=16GiB) core:4 pu:1"

// halves leaves two CPUs on each node.
const halves = `
- {name: a, class: dedicated, cpus: 2, memory: 2GiB, at: {cpus: 0-1}}
- {name: b, class: dedicated, cpus: 2, memory: 1GiB, at: {cpus: 4-5}}
`

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPlanAdmit(t *testing.T) {
	out, errs, code := runMain(t, fstest.MapFS{}, halves, "plan", "--admit", file(t, "{name: new, class: dedicated, cpus: 4, memory: 8GiB, max_nodes: 1}"),
		"--running", "-", "--synthetic", fourCores)
	needs := words.Because(words.Amounts, []words.Reason{words.Because(words.FreeCPUs, 4), words.Because(words.Memory, 8<<20)})
	want := `new  dedicated, 4 vCPUs, 8 GiB
  fits after 1 move, 1 GiB
  1. b  node 1 to node 0, CPUs 4-5 to 2-3, 1 GiB of memory
       ` + words.Because(words.MakesRoom, "1", []words.Reason{words.Because(words.Newcomer, "new", needs)}).String() + `
       ` + words.Because(words.RoomThere, []words.Reason{words.Because(words.NodeHas, 0, 2, 14<<20)}).String() + `
       ` + words.Because(words.MemoryMoves, 1<<20, 1.0, 1.0).String() + `
  home   node 1, CPUs 4-7, memory 8 GiB on node 1

why
  ` + words.Because(words.MovesAdmit, 1, 1<<20).String() + `
  ` + words.Because(words.NoneFewer).String() + `
  ` + words.Because(words.OnlyNodeFits, 1, needs, []words.Reason{words.Because(words.NodeLacks, 0, []words.Reason{words.Because(words.FreeCPUs, 4)})}).String() + `
  ` + words.Because(words.PinnedCores, "4-7", 4, 1).String() + `
`
	if code != 0 || errs != "" || out != want {
		t.Errorf("status %d: %s\n%s", code, errs, out)
	}
}

func TestPlanAdmitJSON(t *testing.T) {
	tests := []struct {
		name, spec string
		code       int
		outcome    string
		moves      int
		atLeast    int
		placements int
	}{
		{"fits", "{name: new, class: dedicated, cpus: 2, max_nodes: 1}", 0, "fits", 0, 0, 3},
		{"moves", "{name: new, class: dedicated, cpus: 4, max_nodes: 1}", 0, "moves", 1, 1, 3},
		{"refused", "{name: new, class: dedicated, cpus: 5}", 1, "refused", 0, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, code := runMain(t, fstest.MapFS{}, halves, "plan", "--admit", file(t, tt.spec), "--running", "-", "--synthetic", fourCores, "--json")
			var doc try.RepackDocument
			d := json.NewDecoder(strings.NewReader(out))
			d.DisallowUnknownFields()
			if err := d.Decode(&doc); err != nil || code != tt.code || errs != "" {
				t.Fatalf("status %d: %s %v", code, errs, err)
			}
			w := doc.Workloads[0]
			if doc.Schema != "homenode-repack/3" || w.Outcome != tt.outcome || len(w.Moves) != tt.moves || w.AtLeast != tt.atLeast ||
				len(doc.Placements) != tt.placements || (w.Place == nil) != (tt.code == 1) || len(w.Reasons) == 0 {
				t.Errorf("got %s", out)
			}
			for _, key := range []string{`"workload"`, `"outcome"`, `"place"`, `"moves"`, `"moved_kib"`, `"at_least"`, `"tried"`, `"cut_off"`, `"steps"`, `"worse"`, `"reasons"`, `"decision"`} {
				if !strings.Contains(out, key) {
					t.Errorf("no %s in the JSON", key)
				}
			}
		})
	}
}

// What fits only in parts is told what moves would bring.
func TestPlanAdmitNearer(t *testing.T) {
	out, errs, code := runMain(t, fstest.MapFS{}, halves, "plan", "--admit", file(t, "{name: new, class: dedicated, cpus: 4, memory: 8GiB, max_nodes: 2}"),
		"--running", "-", "--synthetic", fourCores)
	for _, want := range []string{"  fits without moves\n  home   nodes 0-1, CPUs 2-3,6-7", "With moves it would come nearer to its memory:\n  fits after 1 move, 1 GiB\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("status %d: %s: no %q in\n%s", code, errs, want, out)
		}
	}
}

func TestPlanRestore(t *testing.T) {
	running := `
- {name: far, class: dedicated, cpus: 3, memory: 4GiB, at: {cpus: "0-1,4", memory: {0: 4GiB}}}
- {name: big, class: dedicated, cpus: 2, memory: 1GiB, at: {cpus: 5-6}, stay: its GPU is there}
- {name: x, class: dedicated, cpus: 1, memory: 1GiB, at: {cpus: "2"}}
- {name: y, class: dedicated, cpus: 1, memory: 2GiB, at: {cpus: "3"}}
`
	args := []string{"plan", "--restore", "--running", "-", "--synthetic", fourCores}
	out, errs, code := runMain(t, fstest.MapFS{}, running, args...)
	want := `WORKLOAD  ACCESS COST  AFTER  LEAST
far              1.73   1.00   1.00

  1. x  node 0 to node 1, CPU 2 to 7, 1 GiB of memory
       ` + words.Because(words.MakesRoom, "0", []string{"far"}).String() + `
       ` + words.Because(words.RoomThere, []words.Reason{words.Because(words.NodeHas, 1, 1, 15<<20)}).String() + `
       ` + words.Because(words.MemoryMoves, 1<<20, 1.0, 1.0).String() + `
  2. far  nodes 0-1 to node 0, CPUs 0-1,4 to 0-2, no memory
       ` + words.Because(words.ComesNearer).String() + `
       ` + words.Because(words.RoomThere, []words.Reason{words.Because(words.NodeHas, 0, 3, 14<<20)}).String() + `
       ` + words.Because(words.NoMemory, 1.73, 1.0).String() + `

why
  ` + words.Because(words.MovesSave, 2, 1<<20, 2.2, 2.2).String() + `
`
	if code != 0 || errs != "" || out != want {
		t.Errorf("status %d: %s\n%s", code, errs, out)
	}
	out, _, code = runMain(t, fstest.MapFS{}, running, append(args, "--json")...)
	var doc try.RestoreDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || doc.Schema != "homenode-restore/3" || len(doc.Moves) != 2 || len(doc.Remote) != 1 || len(doc.Placements) != 4 {
		t.Errorf("status %d, %v:\n%s", code, err, out)
	}
	out, _, _ = runMain(t, fstest.MapFS{}, halves, args...)
	if !strings.Contains(out, words.Because(words.AllNear).String()) {
		t.Errorf("got %s", out)
	}
}

func TestPlanMovesBadInput(t *testing.T) {
	tests := []struct {
		name, running, spec string
		args                []string
		want                string
	}{
		{"not a list", "name: a", "", nil, "file.yaml: "},
		{"unknown key", "- {name: a, cpus: 1, att: 3}", "", nil, `unknown key "att"`},
		{"twice", "- {name: a, cpus: 1}\n- {name: a, cpus: 1}", "", nil, "the name is taken by workload 1"},
		{"runs already", "- {name: new, cpus: 1}", "", nil, "new: it runs already"},
		{"CPU list", "- {name: a, cpus: 1, at: {cpus: x}}", "", nil, `line 1 column 33: at.cpus: x; want a list`},
		{"no such CPU", "- {name: a, cpus: 1, at: {cpus: 99}}", "", nil, `want CPUs of this host (0-7)`},
		{"CPU count", "- {name: a, class: dedicated, cpus: 2, at: {cpus: 0-2}}", "", nil, "0-2 for 2 vCPUs"},
		{"same CPUs", "- {name: a, class: dedicated, cpus: 2, at: {cpus: 0-1}}\n- {name: b, class: dedicated, cpus: 2, at: {cpus: 1-2}}", "", nil,
			"this cannot be: CPUs 1 belong to a"},
		{"too much memory", "- {name: a, class: dedicated, cpus: 2, memory: 99GiB, at: {cpus: 0-1}}", "", nil, "this cannot be:"},
		{"no such node", "- {name: a, cpus: 2, at: {cpus: 0-1, memory: {7: 1GiB}}}", "", nil, "this host has no node 7"},
		{"memory where", "- {name: a, class: dedicated, cpus: 2, memory: 1GiB, at: {cpus: '3-4'}}", "", nil, "say how much lies on each node"},
		{"no room", "- {name: a, class: dedicated, cpus: 20}", "", nil, "a has no place on this host"},
		{"no moves", "- {name: a, cpus: 1}", "", []string{"--moves", "0"}, "--moves 0; want 1 to 1000"},
		{"time", "- {name: a, cpus: 1}", "", []string{"--within", "-3s"}, "--within -3s; want 0s to 1h"},
		{"repack", "- {name: a, cpus: 1}", "", []string{"--repack"}, "--repack is for --case"},
		{"two at once", "- {name: a, cpus: 1}", "", []string{"--restore"}, "do not go together"},
		{"bad spec", "- {name: a, cpus: 1}", "{name: new, cpus: -1}", nil, `cpus is -1; give a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := tt.spec
			if spec == "" {
				spec = "{name: new, cpus: 1}"
			}
			args := append([]string{"plan", "--running", file(t, tt.running), "--admit", file(t, spec), "--synthetic", fourCores}, tt.args...)
			out, errs, code := runMain(t, fstest.MapFS{}, "", args...)
			if code != 2 || out != "" || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, want 2: %q, want %q in one line", code, errs, tt.want)
			}
		})
	}
}

func TestPlanCaseRepack(t *testing.T) {
	c := `{"name":"c","host":{"nodes":[{"id":0,"cpus":[0,1],"mem_mib":4096},{"id":1,"cpus":[2,3],"mem_mib":4096}],"cores":[[0],[1],[2],[3]],
		"l3":[[0,1],[2,3]],"slit":[[10,21],[21,10]]},"events":[
		{"op":"preplace","vm":"a","cpus":[0],"mem":{"0":1024}},{"op":"preplace","vm":"b","cpus":[2],"mem":{"1":512}},
		{"op":"arrive","vm":"x","vcpus":1,"mem_mib":1},{"op":"depart","vm":"x"},
		{"op":"arrive","vm":"y","vcpus":2,"mem_mib":1024}]}`
	out, errs, code := runMain(t, fstest.MapFS{}, c, "plan", "--case", "-", "--repack")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 {
		t.Fatalf("status %d: %s\n%s", code, errs, out)
	}
	want := `{"peer":"homenode","case":"c","i":4,"vm":"y","op":"arrive","ok":true,"cpus":[2,3],"mem":{"1":1024},"moves":[{"vm":"b","cpus":[1],"mem":{"0":512}}],"ns":`
	if !strings.HasPrefix(lines[1], want) {
		t.Errorf("got\n%s\nwant\n%s", lines[1], want)
	}
}

// What the daemon says of this machine is what moves start from.
func TestRunningNow(t *testing.T) {
	h, err := topology.FromSynthetic(fourCores)
	if err != nil {
		t.Fatal(err)
	}
	status := api.Status{Workloads: []api.Workload{
		{ID: "/b", Class: workload.Dedicated, CPUs: 2, Home: "1", CPUSetPlanned: "4-5", MemoryByNode: []api.NodeKiB{{Node: 1, KiB: 1 << 20}}},
		{ID: "/a", Class: workload.Dedicated, CPUs: 2, Home: "0", CPUSetPlanned: "0-1", MemoryByNode: []api.NodeKiB{{Node: 0, KiB: 3 << 20}, {Node: 1, KiB: 1 << 20}}},
		{ID: "/alone", Class: workload.Shared, CPUs: 9, State: "left alone"},
	}}
	st := plan.State{Host: h, Policy: plan.DefaultPolicy(), Unmanaged: []workload.NodeMemory{{Node: 0, KiB: 4 << 20}}}
	l, running, err := cli.RunningNow(status, st)
	if err != nil || len(running) != 2 || len(l.Placements()) != 2 {
		t.Fatalf("%v: %v", err, running)
	}
	if v := plan.Check(st, l.Placements()); v != nil {
		t.Errorf("%v", v)
	}
	// /a has 1 GiB off its home, which is in use there: node 1 has 14 of 16 GiB free.
	st.Unmanaged = []workload.NodeMemory{{Node: 0, KiB: 4 << 20}, {Node: 1, KiB: 2 << 20}}
	if _, err := cli.PlacedNow(status, &st); err != nil || st.Unmanaged[0].KiB != 1<<20 || st.Unmanaged[1].KiB != 1<<20 {
		t.Errorf("in use %v, %v", st.Unmanaged, err)
	}
	if p := l.Placements()[0]; p.Workload != "/a" || p.Asked != 3<<20 || !p.Home.Equal(topology.Nodes(0)) {
		t.Errorf("got %+v", p)
	}
}

// An isolated workload that runs keeps the siblings of its CPUs.
func TestRunningIsolated(t *testing.T) {
	const twoThreads = "package:1 node:1(memory=16GiB) core:2 pu:2"
	running := "- {name: iso, class: dedicated, cpus: 1, smt: isolate, at: {cpus: '0'}}\n"
	for _, tt := range []struct{ vcpus, code int }{{2, 0}, {3, 1}} {
		spec := fmt.Sprintf("{name: new, class: dedicated, cpus: %d}", tt.vcpus)
		out, errs, code := runMain(t, fstest.MapFS{}, running, "plan", "--admit", file(t, spec), "--running", "-", "--synthetic", twoThreads)
		if code != tt.code {
			t.Errorf("%d vCPUs beside it: status %d, want %d: %s%s", tt.vcpus, code, tt.code, errs, out)
		}
	}
}

// What a workload was placed by goes with it.
func TestRunningNowKeepsRules(t *testing.T) {
	h, err := topology.FromSynthetic("package:1 node:1(memory=16GiB) core:2 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	status := api.Status{Workloads: []api.Workload{
		{ID: "/iso", Class: workload.Dedicated, CPUs: 1, Home: "0", CPUSetPlanned: "0", Idle: "1", SMT: workload.SMTIsolate, Near: []string{"eth0"}},
	}}
	l, running, err := cli.RunningNow(status, plan.State{Host: h, Policy: plan.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	if s := running[0].Spec; s.SMT != workload.SMTIsolate || len(s.Near) != 1 || s.Near[0].Device != "eth0" {
		t.Errorf("got %+v", s)
	}
	if r := l.Place(place.Request{Spec: workload.Spec{ID: "new", Class: workload.Dedicated, CPUs: 3, Given: true}}); r.Placed() {
		t.Errorf("placed on %v, with CPU 1 kept idle", r.Placement.CPUs)
	}
	status.Workloads[0].Idle = "x"
	if _, _, err := cli.RunningNow(status, plan.State{Host: h, Policy: plan.DefaultPolicy()}); err == nil || !strings.Contains(err.Error(), "/iso: idle CPUs: ") {
		t.Errorf("%v", err)
	}
}
