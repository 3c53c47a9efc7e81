package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// asRoot matches the option that keeps a server root.
var asRoot = regexp.MustCompile(`--user=root|user root;|memcached -u root|exec mariadbd`)

// TestEveryFile reads every file, works out its sizes and commands on three machines (Parse does), and
// has sh check the syntax of every command.
func TestEveryFile(t *testing.T) {
	if len(Names()) < 15 {
		t.Fatalf("%d files; some are gone", len(Names()))
	}
	docs, err := os.ReadFile("../../docs/seeds.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			e, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if e.Name != name {
				t.Errorf("its name is %q", e.Name)
			}
			if !regexp.MustCompile(`[0-9]`).MatchString(e.Published.Result) && !strings.HasPrefix(name, "enterprise-9v29") {
				t.Errorf("the published result has no figure: %s", e.Published.Result)
			}
			cites := strings.Contains(string(docs), "| `"+name+"` |") && !strings.Contains(string(docs), "| `"+name+"` | nginx in an open loop beside ffmpeg | no public source")
			if e.Published.URL == noAddress && cites {
				t.Error("docs/seeds.md cites figures without a public source")
			}
			if !slices.Contains(e.Arms, "kernel") && name != "latency" {
				t.Error("it has no arm kernel")
			}
			if len(e.Needs.Packages) == 0 {
				t.Error("it names no package")
			}
			for _, h := range exampleHosts() {
				s, err := e.SizesOn(h, e.Arms[0], false)
				if err != nil {
					t.Fatal(err)
				}
				commands := slices.Clone(e.Prepare)
				for _, p := range e.Programs {
					commands = append(commands, p.Run, p.Ready, p.Fill)
				}
				for _, c := range commands {
					text, err := s.at(1, 30, "/var/tmp/x", "/usr/bin/seeds", "homenode").Fill(c)
					if err != nil {
						t.Fatal(err)
					}
					if as := asRoot.FindString(text); as != "" {
						t.Errorf("%s: a server of every local user runs as root", as)
					}
					if out, err := exec.Command("sh", "-n", "-c", text).CombinedOutput(); err != nil {
						t.Errorf("sh: %s\n%s", out, text)
					}
				}
			}
		})
	}
}

// TestPublishedSizes: on the machines of the articles, the sizes are those of the articles.
func TestPublishedSizes(t *testing.T) {
	for _, x := range []struct {
		file, machine, arm string
		want               map[string]string
	}{
		{"enterprise-1", "package:2 node:1(memory=384GiB) core:20 pu:2", "nova", map[string]string{"vcpus": "8", "mib": "16384"}},
		{"enterprise-9v9", "package:2 node:1(memory=384GiB) core:20 pu:2", "nova", map[string]string{"vcpus": "8", "guests": "9", "mib": "16384"}},
		{"enterprise-9v29", "package:2 node:1(memory=384GiB) core:20 pu:2", "kernel", map[string]string{"vcpus": "8", "guests": "29"}},
		{"enterprise-9v29", "package:2 node:1(memory=384GiB) core:20 pu:2", "nine-pinned", map[string]string{"guests": "9"}},
		{"pacific", "package:2 node:1(memory=256GiB) core:22 pu:2", "kernel", map[string]string{"pods": "10", "pod_cpus": "8"}},
	} {
		e, err := Open(x.file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.SizesOn(synthetic(t, x.machine), x.arm, false)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range x.want {
			if got := s[name].String(); got != want {
				t.Errorf("%s, %s: %s is %s, want %s", x.file, x.arm, name, got, want)
			}
		}
	}
}

func synthetic(t testing.TB, text string) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	h.Allowed = h.Online
	for i := range h.Nodes {
		h.Nodes[i].Free = h.Nodes[i].Memory
	}
	return h
}

const small = `name: x
title: X
published: {source: a, url: "https://b", machine: c, result: d}
repeats: e
needs: {cpus: 1, nodes: 1, memory_mib: 1}
sizes: {servers: "cpus / 2", threads: "2 * servers"}
programs:
  - {name: p, role: work, count: servers, run: "echo ${threads + i} ${dir}"}
metrics:
  - {name: m, unit: u, better: higher, of: [p], pattern: "([0-9]+)"}
arms: [kernel, homenode]
periods: {settle: 1s, measure: 2s}
`

// TestRefused: each mistake is one line that says where and what.
func TestRefused(t *testing.T) {
	if _, err := Parse([]byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ from, to, want string }{
		{"result: d", "result: ''", "line 3 column 62: published.result: is missing"},
		{`"https://b"`, "http://b", `line 3 column 29: published.url: "http://b"; want an address with https://, or none where the source has no public one`},
		{"title: X", "titel: X", `line 2 column 1: unknown key "titel"; did you mean title?`},
		{"arms: [kernel, homenode]", "arms: [kernel, humenode]", `line 11 column 16: arms[1]: "humenode"; want one of kernel, balancing, cache-aware, numad, taskset, nova, kubelet, first-free, homenode, or a name of variants`},
		{"arms: [kernel, homenode]", "arms: [kernel]", "line 11 column 7: arms: want two or more, the baseline first"},
		{"arms: [kernel, homenode]", "arms: [kernel, kernel]", "line 11 column 16: arms[1]: kernel: given twice"},
		{"cpus / 2", "cups / 2", "line 6 column 8: sizes: servers: cups / 2: undefined: cups"},
		{"cpus / 2", "cpus / 0", "line 6 column 8: sizes: servers: cpus / 0: invalid operation: division by zero"},
		{"cpus / 2", "threads / 2", "line 6 column 8: sizes: servers: threads / 2: undefined: threads"},
		{"cpus / 2", "len(os.Args)", "line 6 column 8: sizes: servers: len(os.Args): undefined: os"},
		{"cpus / 2", "1 +", "line 6 column 8: sizes: servers: 1 +: this is no formula"},
		{"{servers:", "{cpus:", "line 6 column 8: sizes: cpus is taken"},
		{"count: servers", "count: servers / 3 - 1", "line 8 column 34: programs[0].count: servers / 3 - 1 is -1; want a whole number, 0 or more"},
		{"${threads + i}", "${threads + j}", "line 8 column 48: programs[0].run: threads + j: undefined: j"},
		{"role: work", "role: worker", `line 8 column 21: programs[0].role: "worker"; want server, work or load`},
		{"of: [p]", "of: [q]", `line 10 column 44: metrics[0].of: there is no program "q"`},
		{"([0-9]+)", "[0-9]+", "line 10 column 58: metrics[0].pattern: has no group (…) with the number"},
		{"([0-9]+)", "([0-9]+", "line 10 column 58: metrics[0].pattern: error parsing regexp: missing closing ): `([0-9]+`"},
		{"better: higher", "better: more", `line 10 column 32: metrics[0].better: "more"; want higher, lower or neither`},
		{"measure: 2s", "measure: 2", "line 12 column 32: periods.measure: 2; want a time with a unit, such as 2s"},
		{"measure: 2s", "measure: 2ms", "line 12 column 32: periods.measure: want 1s to 1h"},
		{"nodes: 1,", "", "line 5 column 8: needs: want cpus, nodes and memory_mib, each 1 or more"},
	} {
		if !strings.Contains(small, x.from) {
			t.Fatalf("%q is not in the file", x.from)
		}
		_, err := Parse([]byte(strings.Replace(small, x.from, x.to, 1)))
		if err == nil || err.Error() != x.want {
			t.Errorf("%s:\n  got  %v\n  want %s", x.to, err, x.want)
		}
	}
}

// FuzzParse: whatever a file has, reading it ends, and says one line where it is wrong.
func FuzzParse(f *testing.F) {
	found, _ := filepath.Glob("experiments/*.yaml")
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Parse(text)
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("two lines: %q", err)
		case err == nil:
			if _, err := e.SizesOn(exampleHosts()[0], e.Arms[0], true); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzValue: a formula is a value or an error, never a panic.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"cpus / 2", "1 << 600", "1e999999999", `"a" + "b"`, "func() {}", "max()", "1.5", "'x'", "-1", "(", "len(`abc`)", "1i"} {
		f.Add(s)
	}
	s := facts(exampleHosts()[0])
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := s.Value(Formula(text)); err == nil && v == nil {
			t.Errorf("%q is neither a value nor an error", text)
		}
		s.Int(Formula(text), 1)
		s.Fill(Command("x ${" + text + "} y"))
	})
}
