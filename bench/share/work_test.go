package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCrowdEnds: a crowd ends with the first of it, and says how; the others have ended, too.
func TestCrowdEnds(t *testing.T) {
	first := filepath.Join(t.TempDir(), "first")
	const script = `echo frame=7
if mkdir "$0" 2>/dev/null; then
	until [ -s "$0/pid" ]; do sleep 0.01; done
	exit 3
fi
echo $$ >"$0/pid"
exec sleep 60`
	var out strings.Builder
	err := crowd(2, "frame=", []string{"sh", "-c", script, first}, &out)
	if err == nil || err.Error() != "sh ended: exit status 3" || !strings.Contains(out.String(), "frame=") {
		t.Fatalf("%v, told %q", err, out.String())
	}
	text, err := os.ReadFile(filepath.Join(first, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the other one still runs: %v", err)
	}
}
