package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// Every kind of input that plan reads says file, place and mend in one line, with status 2.
func TestPlanNamesThePlace(t *testing.T) {
	const host = `{"schema":"homenode-host/1",
"nodes":[{"id":0,"cpus":"0-3","memory_kib":1048576}]}`
	const trace = `{"name":"c","host":{"nodes":[{"id":0,"cpus":[0,1],"mem_mib":1024}],"cores":[[0,1]],"l3":[[0,1]],"slit":[[10]]},
"events":[{"op":"arrive","vm":"a","vcpus":2,"mem_mib":512}]}`
	const spec = "name: a\ncpus: 1\n"
	tests := []struct{ name, file, old, new, want string }{
		{"spec", spec, "1", "-1", `FILE: line 2 column 7: workload "a": cpus is -1; give a whole number from 1 to 65535`},
		{"spec", spec, "cpus", "cpuz", `FILE: line 2 column 1: unknown key "cpuz"; did you mean cpus?`},
		{"host", host, `"id":0`, `"id":-1`, `FILE: read host JSON: line 2 column 16: nodes[0].id is -1; give 0 to 65535`},
		{"host", host, `1048576`, `1e99`, `nodes[0].memory_kib is 1e99; give a whole number`},
		{"host", host, `"cpus"`, `"cpu"`, `unknown key "cpu" in nodes[0]; did you mean cpus?`},
		{"host", host, `}]`, `},{"id":0,"cpus":"4"}]`, `nodes[1].id node 0 is there twice`},
		{"case", trace, `"vcpus":2`, `"vcpus":-2`, `FILE: read case: line 2 column 43: events[0].vcpus is -2; give 1 to 65535`},
		{"case", trace, `"vcpus":2`, `"vcpus":99999999999999999999`, `events[0].vcpus is 99999999999999999999; give a whole number`},
		{"case", trace, `"vcpus":2`, `"cpus":2`, `events[0].cpus is 2; give an array`},
		{"case", trace, `"vcpus":2`, `"cores":2`, `unknown key "cores" in events[0]; known are op,`},
		{"case", trace, `}]}`, `},{"op":"arrive","vm":"a","vcpus":1}]}`, `events[1].vm "a" is there already`},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.new, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "input")
			if err := os.WriteFile(path, []byte(strings.Replace(tt.file, tt.old, tt.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			args := map[string][]string{
				"spec": {"plan", "--synthetic", "core:4", "--spec", path},
				"host": {"plan", "--spec", "-", "--host", path},
				"case": {"plan", "--case", path},
			}[tt.name]
			_, errs, code := runMain(t, fstest.MapFS{}, spec, args...)
			if want := strings.ReplaceAll(tt.want, "FILE", path); code != 2 || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, want 2: %q, want %q in one line", code, errs, want)
			}
		})
	}
}
