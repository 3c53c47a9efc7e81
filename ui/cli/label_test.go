package cli

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// A container is shown as people call it, a pod with its containers; where nothing tells the
// name, the ID stays.
func TestLabel(t *testing.T) {
	scope := "/system.slice/docker-" + strings.Repeat("0123456789abcdef", 4) + ".scope"
	for _, x := range []struct{ id, name, want string }{
		{scope, "web", "web"},
		{scope, "redis 0123456789ab", scope},
		{"/system.slice/a.service", "a", "/system.slice/a.service"},
		{"pid:7", "walker", "pid:7 walker"},
		{"web/db-0", "web/db-0/pg", "web/db-0/pg"},
		{"web/db-0/pg", "web/db-0/pg", "web/db-0/pg"},
	} {
		if got := Label(api.Workload{ID: workload.ID(x.id), Name: x.name}); got != x.want {
			t.Errorf("%s: %q, want %q", x.id, got, x.want)
		}
	}
}
