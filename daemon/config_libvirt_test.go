package daemon

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// Guests of libvirt are not the daemon's, whatever the configuration includes.
func TestLibvirtGuestsAreExcluded(t *testing.T) {
	c := NewConfig()
	c.Manage.Include = []string{"**"}
	for id, want := range map[workload.ID]bool{
		`/machine.slice/machine-qemu\x2d1\x2ddb.scope/libvirt/emulator`: true,
		`/machine.slice/machine-qemu\x2d12\x2da.scope`:                  true,
		"/machine/qemu-1-db.libvirt-qemu":                               true,
		"/system.slice/qemu-guest-agent.service":                        false,
		`/machine.slice/machine-debian.scope`:                           false,
		"pid:12 qemu-system-x86":                                        false,
	} {
		why := c.excluded(&workload.Observation{ID: id})
		if got := strings.HasPrefix(why, "libvirt runs this guest"); got != want {
			t.Errorf("%s: %q", id, why)
		}
	}
}
