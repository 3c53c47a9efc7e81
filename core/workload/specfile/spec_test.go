package specfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestParseSpecs(t *testing.T) {
	want := []workload.Spec{
		{ID: "db", Name: "db", Class: workload.Dedicated, Importance: 80, CPUs: 16, Memory: 64 << 20, HugePage: 2048, SMT: workload.SMTIsolate,
			Near:  []workload.Near{{Device: "eth0", Weight: 1}, {Device: "0000:3b:00.0", Weight: 2.5}},
			Nodes: topology.Nodes(0, 1), MaxNodes: 2, Even: true, Bandwidth: 20000, Given: true},
		{ID: "7", Name: "7", Class: workload.Shared, Importance: 50, CPUs: 1, Near: []workload.Near{{Workload: "db", Weight: 1}}, Nodes: topology.Nodes(1), Given: true},
	}
	for name, text := range map[string]string{
		"YAML": `
# two of them
- name: db
  class: dedicated
  cpus: 16
  memory: 64GiB
  smt: isolate
  huge_page: 2MiB
  near: [eth0, {name: "0000:3b:00.0", weight: 2.5}]
  nodes: "0-1"
  max_nodes: 2
  even: true
  bandwidth: 20000
  importance: 80
- name: 7
  cpus: 1
  near: db
  nodes: 1
  memory: null
`,
		"JSON": `[{"name": "db", "class": "dedicated", "cpus": 16, "memory": "64GiB", "smt": "isolate", "huge_page": "2MiB",
	"near": ["eth0", {"name": "0000:3b:00.0", "weight": 2.5}], "nodes": "0-1", "max_nodes": 2, "even": true, "bandwidth": 20000, "importance": 80},
	{"name": 7, "cpus": 1, "near": "db", "nodes": 1}]`,
	} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

var badSpecs = []struct{ name, text, want string }{
	{"nothing", "", "no workload in it"},
	{"comment alone", "# nothing\n", "no workload in it"},
	{"empty list", "[]", "no workload in it"},
	{"null", "null", "no workload in it"},
	{"text", "hello", `line 1 column 1: hello; want keys: name, class,`},
	{"list in a list", "- [a]", `line 1 column 3: [a]; want keys: name,`},
	{"not YAML", "name: a\n cpus: 4\n: :", "line 3 column 3: "},
	{"cut short", `[{"name": "a", "cpus": `, "line 1 column 22: could not find map value"},
	{"two documents", "name: a\ncpus: 1\n---\nname: b\ncpus: 1", "line 4 column 5: a second document; one is read"},
	{"unknown key", "name: a\ncpus: 1\nnodez: 3", `line 3 column 1: unknown key "nodez"; did you mean nodes?`},
	{"unknown key in a list", "- {name: a, cpus: 1, nodez: 3}", `line 1 column 22: unknown key "nodez"`},
	{"unknown key in JSON", `{"name": "a", "cpus": 1, "nodez": 3}`, `line 1 column 26: unknown key "nodez"`},
	{"key twice", "name: a\ncpus: 1\ncpus: 2", `line 3 column 1: mapping key "cpus" already defined at [2:1]`},
	{"no name", "cpus: 1", "workload 1: it has no name; give one"},
	{"name of two lines", `{name: "a\nb", cpus: 1}`, `name is "a\nb"; give at most 255 bytes on one line`},
	{"name twice", "- {name: a, cpus: 1}\n- {name: a, cpus: 1}", "line 2 column 10: workload \"a\": the name is taken by workload 1; give each its own"},
	{"no CPUs", "name: a", `workload "a": it has no cpus; give 1 to 65535`},
	{"CPUs below zero", "name: a\ncpus: -3", `line 2 column 7: workload "a": cpus is -3; give a whole number from 1 to 65535`},
	{"huge CPUs", "name: a\ncpus: 99999999999999999999", `line 2 column 7: cpus: 99999999999999999999; want a whole number`},
	{"half a CPU", "name: a\ncpus: 4.5", `cpus: 4.5; want a whole number`},
	{"CPUs are a list", "name: a\ncpus: [1]", `line 2 column 7: cpus: [1]; want a whole number`},
	{"alias", "name: a\ncpus: &n 4\nmax_nodes: *n", `line 3 column 12: an alias; write the value out`},
	{"where it is", "name: a\ncpus: 1\nstay: x", `workload "a": at and stay are for workloads that run; leave them out`},
	{"class", "name: a\ncpus: 1\nclass: best", `line 3 column 8: workload "a": class is "best"; give dedicated, shared or batch`},
	{"smt", "name: a\ncpus: 1\nsmt: off", `smt is "off"; give prefer, isolate or require`},
	{"importance", "name: a\ncpus: 1\nimportance: 101", `importance is 101; give a whole number from 0 to 100`},
	{"memory below zero", "name: a\ncpus: 1\nmemory: -4GiB", `line 3 column 9: memory: -4GiB; want a number with a unit, such as 16GiB`},
	{"huge memory", "name: a\ncpus: 1\nmemory: 99999999999TiB", `memory: 99999999999TiB; want a number with a unit`},
	{"memory without unit", "name: a\ncpus: 1\nmemory: 16", `memory: 16; want a number with a unit`},
	{"page size", "name: a\ncpus: 1\nhuge_page: 3MiB", `huge_page is 3072 KiB; give a page size of the kernel, such as 2MiB or 1GiB`},
	{"nodes backwards", "name: a\ncpus: 1\nnodes: 3-1", `line 3 column 8: nodes: 3-1; want a list such as 0-1,4`},
	{"max_nodes", "name: a\ncpus: 1\nmax_nodes: -1", `max_nodes is -1; give a whole number from 0 to`},
	{"bandwidth", "name: a\ncpus: 1\nbandwidth: 9999999999999999999999", `bandwidth: 9999999999999999999999; want a whole number`},
	{"even", "name: a\ncpus: 1\neven: perhaps", `even: perhaps; want true or false`},
	{"near itself", "- {name: a, cpus: 1, near: [a]}", `line 1 column 29: workload "a": it is near to itself; take that out`},
	{"near in a circle", "- {name: a, cpus: 1, near: [c]}\n- {name: b, cpus: 1, near: [a]}\n- {name: c, cpus: 1, near: [b]}",
		`line 1 column 29: workload "a": near goes in a circle, a → c → b → a; take one of them out`},
	{"near in a circle of long names", longCircle(12), "… 6 more … → "},
	{"near further down", "- {name: a, cpus: 1, near: [b]}\n- {name: b, cpus: 1}", `line 1 column 29: workload "a": near "b" stands further down; move it above`},
	{"near nothing", "- {name: a, cpus: 1, near: [{weight: 2}]}", `line 1 column 28: near: [{weight: 2}]; want a device or a workload,`},
	{"weight", "- {name: a, cpus: 1, near: [{name: eth0, weight: -2}]}", `near: [{name: eth0, weight: -2}]; want a device or a workload, or a list of them,`},
	{"key of near", "- {name: a, cpus: 1, near: [{name: eth0, wait: 2}]}", `near: [{name: eth0, wait: 2}]; want a device or a workload, or a list of them, each a name or {name: eth0, weight: 2, policy: required}`},
	{"terminal escape", "name: a\ncpus: \x1b[2J", "line 2 column 7: cpus: \ufffd[2J; want a whole number"},
	{"deep brackets", strings.Repeat("[", 1000), "line 1: nested more than 64 deep"},
	{"deep indents", strings.Repeat("- ", 1000), "line 1: nested more than 64 deep"},
	{"long value", "name: a\ncpus: " + strings.Repeat("9", 10000), `cpus: 9999999999999999999999999999999999999999…; want`},
}

// longCircle is n workloads near to each other in a circle, with names as long as may be.
func longCircle(n int) string {
	var b strings.Builder
	for i := range n {
		name := func(i int) string { return string(rune('a'+i)) + strings.Repeat("x", workload.MaxName-1) }
		fmt.Fprintf(&b, "- {name: %s, cpus: 1, near: [%s]}\n", name(i), name((i+1)%n))
	}
	return b.String()
}

func TestParseSpecsRefuses(t *testing.T) {
	for _, tt := range badSpecs {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v\nwant %s", err, tt.want)
			}
			oneLineError(t, err)
		})
	}
}

// A long chain of near, each further down, is refused as fast as it is read, and a
// long circle is named in short.
func TestParseSpecsRefusesLongChains(t *testing.T) {
	const many = 10_000 // close to what plan reads
	for name, c := range map[string]struct{ last, want string }{
		"chain":  {"eth0", `line 1 column 30: workload "w0": near "w1" stands further down; move it above`},
		"circle": {"w0", `line 1 column 30: workload "w0": near goes in a circle, w0 → w1 → w2 → w3 → w4 → w5 → … 9994 more … → w0; take one of them out`},
	} {
		var b strings.Builder
		for i := range many {
			peer := c.last
			if i+1 < many {
				peer = fmt.Sprint("w", i+1)
			}
			fmt.Fprintf(&b, "- {name: w%d, cpus: 1, near: [%s]}\n", i, peer)
		}
		_, err := Parse([]byte(b.String()))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}

func oneLineError(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); strings.ContainsAny(text, "\n\r\x1b") || len(text) > 500 {
		t.Errorf("not one short line: %q", text)
	}
}

// FuzzSpec: whatever is in a file of workloads, it is read soundly or refused in one line.
func FuzzSpec(f *testing.F) {
	f.Add("- {name: db, class: dedicated, cpus: 4, memory: 4GiB, near: [eth0, {name: x, weight: 2}]}\n- {name: web, cpus: 2, near: [db]}")
	f.Add(`[{"name": "a", "cpus": 4, "huge_page": "2MiB", "nodes": "0-1", "even": true}]`)
	for _, tt := range badSpecs {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := Parse([]byte(text))
		if err != nil {
			oneLineError(t, err)
			return
		}
		names := map[workload.ID]bool{}
		for _, s := range specs {
			if s.Name == "" || names[s.ID] || s.CPUs < 1 || s.CPUs > topology.MaxID || s.Memory < 0 || s.HugePage < 0 ||
				s.Importance < 0 || s.Importance > 100 || s.MaxNodes < 0 || s.Bandwidth < 0 {
				t.Fatalf("not sound: %+v", s)
			}
			for _, n := range s.Near {
				if n.Device == "" && !names[n.Workload] || !(n.Weight > 0) {
					t.Fatalf("%s is near to %+v", s.Name, n)
				}
			}
			names[s.ID] = true
		}
	})
}
