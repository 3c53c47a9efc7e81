package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a removal says and does, by what undo says; stand-ins take the place of homenode and systemctl.
func TestPreRemove(t *testing.T) {
	script, err := filepath.Abs("../scripts/preremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	const held = "left alone until `homenode resume --all`\n"
	for name, c := range map[string]struct {
		undo, status string // what undo says, and how it ends
		says, calls  string
		fails        bool
	}{
		"nothing":          {"nothing to undo\n", "0", "", "undo --all\n", false},
		"nothing but held": {"nothing to undo\n" + held, "0", "", "undo --all\nresume --all\n", false},
		"restored":         {"restored  affinity 1: 0 → all\n1 restored\n" + held, "0", "restored  affinity 1: 0 → all\n1 restored\n", "undo --all\nresume --all\n", false},
		"failed":           {"failed    affinity 1\n1 failed\n" + held, "1", "failed    affinity 1\n1 failed\n" + held, "undo --all\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, text := range map[string]string{
				"homenode":  "#!/bin/sh\necho \"$@\" >>\"$CALLS\"\n[ \"$1\" != undo ] || { printf %s \"$UNDO\"; exit $STATUS; }\n",
				"systemctl": "#!/bin/sh\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			calls := filepath.Join(dir, "calls")
			run := exec.Command("sh", script, "remove")
			run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls, "UNDO="+c.undo, "STATUS="+c.status)
			said, err := run.Output()
			if failed := err != nil; failed != c.fails {
				t.Fatalf("%v, want failed %t", err, c.fails)
			}
			if string(said) != c.says {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if did, err := os.ReadFile(calls); err != nil || string(did) != c.calls {
				t.Errorf("it called %q, want %q: %v", did, c.calls, err)
			}
		})
	}
}
