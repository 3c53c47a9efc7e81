package tree

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/ui/cli"
)

// Who names no workload is told so in one line, also where a daemon that does not answer was
// to say which there are.
func TestNoNameIsOneLine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) // connections wait in its queue
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, errs, code := runMain(t, nil, "", "explain", "--socket", socket)
	if code != cli.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "say which workload, `homenode status` lists them") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}
