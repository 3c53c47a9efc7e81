package libvirt

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// A guest of OpenStack Nova that it has not pinned is claimed as the process that it is, within
// the CPUs that Nova gives all such guests; what Nova pinned is held, as from any hand.
func TestGuestsOfNova(t *testing.T) {
	const byNova = "<metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'><nova:name>web</nova:name></nova:instance></metadata>"
	fenced := byNova + "<vcpu cpuset='0-3,8-11'>2</vcpu><cputune><shares>200</shares></cputune>"
	device := "<devices><hostdev mode='subsystem' type='pci'><source><address domain='0' bus='1' slot='0' function='0'/></source></hostdev></devices>"
	tests := []struct {
		name, live, config string
		manage             Managed
		want               string
		within             string
		driver             workload.Kind
	}{
		{"fenced", fenced, fenced, Nova, "vm:a 0-3/", "0-3,8-11", workload.InProcess},
		{"fenced, all are to be placed", fenced, fenced, Every, "vm:a 0-3/", "0-3,8-11", workload.InProcess},
		{"without a fence", byNova + plain2, "", Nova, "vm:a 0-3/", "", workload.InProcess},
		{"off", "", fenced, Nova, "vm:a off /", "0-3,8-11", workload.InProcess},
		{"with a device", byNova + plain2 + device, "", Nova, "vm:a 0-3/ alone=guest-devices", "", workload.InProcess},
		{"not asked for", fenced, "", Marked, "vm:a 0-3,8-11/ alone=guest-bound", "", InGuest},
		{"somebody else's", "<vcpu cpuset='0-3,8-11'>2</vcpu>", "", Nova, "vm:a 0-3,8-11/ alone=guest-bound", "", InGuest},
		{"nobody's", plain2, "", Nova, "vm:a / alone=guest-unmarked", "", InGuest},
		{"homenode's", sharedOn0, "", Nova, "vm:a 0-3/0 home(vm:a shared 0-3/0)", "", InGuest},
		{"adopted before", byNova[:len("<metadata>")] + sharedOn0[len("<metadata>"):], "", Nova, "vm:a 0-3/0 home(vm:a shared 0-3/0)", "", InGuest},
		{"pinned by Nova", byNova + byHand, "", Nova, "vm:a 6-7/ home(vm:a dedicated 6-7/0) fixed alone=guest-bound", "", InGuest},
		{"mixed", byNova + mixed, "", Nova, "vm:a 0-3,12/ holds(vm:a/pinned dedicated 12/1) alone=guest-bound", "", InGuest},
	}
	for _, tt := range tests {
		f := startFake(t)
		var live, config string
		if tt.live != "" {
			live = boundXML("a", 7, tt.live)
		}
		if tt.config != "" {
			config = boundXML("a", 0, tt.config)
		}
		f.add(t, "a", live, config)
		w := watch(t, func(o *WatchOptions) {
			o.Manage = tt.manage
			o.Process = func(string) (workload.Process, error) { return workload.Process{PID: 4711, Start: 7}, nil }
			o.CPUs = func(pid int) (topology.CPUSet, error) { return topology.CPUs(0, 1, 2, 3), nil }
		})
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		claims, problems := w.Claims(twoNodes())
		if len(problems) != 0 {
			t.Fatal(problems)
		}
		c := claims[0]
		if got := brief(c); got != tt.want || c.Within.String() != tt.within || c.Driver != tt.driver {
			t.Errorf("%s: within %q, by %s: %s", tt.name, c.Within, c.Driver, cmp.Diff(tt.want, got))
		}
		f.edit(func() {
			for _, call := range f.calls {
				if slices.Contains([]string{"PinVcpu", "PinEmulator", "PinIOThread", "SetNumaParameters", "SetMetadata", "DomainDefineXML"}, call) {
					t.Errorf("%s: %s was called", tt.name, call)
				}
			}
		})
	}
}
