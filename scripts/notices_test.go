package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotices: the licence of a module is found however its file is written; one that has none is an error.
func TestNotices(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main/go.mod", "module example.com/main\n\ngo 1.26\n\nrequire (\n\texample.com/a v1.0.0\n\texample.com/b v1.0.0\n)\n\nreplace example.com/a => ../a\n\nreplace example.com/b => ../b\n")
	write("main/main.go", "package main\n\nimport (\n\t_ \"example.com/a\"\n\t_ \"example.com/b\"\n)\n\nfunc main() {}\n")
	for name, licence := range map[string]string{"a": "License.txt", "b": "COPYING"} {
		write(name+"/go.mod", "module example.com/"+name+"\n")
		write(name+"/license.go", "package "+name+"\n")
		write(name+"/"+licence, "terms of "+name+"\n")
	}
	env := []string{"GOFLAGS=-mod=mod", "GOPROXY=off"}
	out, errs, status := run(t, ".", env, "sh", "notices.sh", filepath.Join(dir, "main"), ".")
	if status != 0 || !strings.Contains(out, "License.txt\n\nterms of a\n") || !strings.Contains(out, "COPYING\n\nterms of b\n") || strings.Contains(out, "package") {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
	if err := os.Remove(filepath.Join(dir, "b/COPYING")); err != nil {
		t.Fatal(err)
	}
	if out, errs, _ := run(t, ".", env, "sh", "notices.sh", filepath.Join(dir, "main"), "."); !strings.Contains(errs, "no licence found in") {
		t.Errorf("a module without a licence: %q %q", out, errs)
	}
}
