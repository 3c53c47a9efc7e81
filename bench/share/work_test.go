package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCrowdEnds: a crowd ends with the first of it, and says how.
func TestCrowdEnds(t *testing.T) {
	var out strings.Builder
	err := crowd(2, "frame=", []string{"sh", "-c", "echo frame=7; mkdir \"$0\" 2>/dev/null && exit 3; exec sleep 5", filepath.Join(t.TempDir(), "first")}, &out)
	if err == nil || err.Error() != "sh ended: exit status 3" || !strings.Contains(out.String(), "frame=") {
		t.Fatalf("%v, told %q", err, out.String())
	}
}
