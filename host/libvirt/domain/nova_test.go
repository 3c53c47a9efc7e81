package domain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// nova is a guest as OpenStack's compute service defines it, with what its policies write.
func nova(vcpus int, inside string) string {
	return fmt.Sprintf(`<domain type="kvm">
  <uuid>5c2f8a5e-0000-4a7e-9d55-000000000001</uuid>
  <name>instance-00000001</name>
  <memory>4194304</memory>
  <vcpu>%d</vcpu>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:name>web</nova:name>
    </nova:instance>
  </metadata>
%s
  <os><type machine="q35">hvm</type></os>
</domain>
`, vcpus, inside)
}

func placements(s guest.Guest) string {
	var b strings.Builder
	for _, p := range s.Holds() {
		fmt.Fprintf(&b, "%s %s %d×%s on %s", p.Workload, p.Class, p.VCPUs, p.CPUs, p.Home)
		for _, m := range p.Memory {
			fmt.Fprintf(&b, " %d:%dM/%d", m.Node, m.KiB>>10, p.HugePage)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// What others pinned is held, all of it and nothing else.
func TestWhatOthersPinnedIsHeld(t *testing.T) {
	tune := func(lines ...string) string { return "<cputune>" + strings.Join(lines, "") + "</cputune>" }
	pin := func(vcpu int, cpus string) string {
		return fmt.Sprintf(`<vcpupin vcpu="%d" cpuset="%s"/>`, vcpu, cpus)
	}
	tests := []struct {
		name, inside string
		vcpus        int
		want         string
	}{
		{"mixed: two float, two have their own", tune(pin(0, "0-1,4-5"), pin(1, "0-1,4-5"), pin(2, "2"), pin(3, "6"), `<emulatorpin cpuset="0-1,4-5"/>`), 4,
			"vm:instance-00000001 shared 2×0-1,4-5 on 0 0:4096M/0\nvm:instance-00000001/pinned dedicated 2×2,6 on 0\n"},
		{"dedicated", tune(pin(0, "2"), pin(1, "6"), `<emulatorpin cpuset="2,6"/>`), 2, "vm:instance-00000001 dedicated 2×2,6 on 0 0:4096M/0\n"},
		{"emulator isolated", tune(pin(0, "2"), pin(1, "6"), `<emulatorpin cpuset="3"/>`), 2,
			"vm:instance-00000001 dedicated 2×2,6 on 0 0:4096M/0\nvm:instance-00000001/emulator dedicated 1×3 on 0\n"},
		{"emulator and I/O thread on a core of their own", tune(pin(0, "2"), pin(1, "6"), `<emulatorpin cpuset="3,7"/>`, `<iothreadpin iothread="1" cpuset="7"/>`), 2,
			"vm:instance-00000001 dedicated 2×2,6 on 0 0:4096M/0\nvm:instance-00000001/emulator dedicated 2×3,7 on 0\n"},
		{"emulator with those of others", tune(pin(0, "2"), pin(1, "6"), `<emulatorpin cpuset="0-1,4-5"/>`), 2, "vm:instance-00000001 dedicated 2×2,6 on 0 0:4096M/0\n"},
		{"two vCPUs on one CPU", tune(pin(0, "2"), pin(1, "2")), 2,
			"vm:instance-00000001 shared 2×2 on 0 0:4096M/0\nvm:instance-00000001/pinned dedicated 1×2 on 0\n"},
		{"a fence", `<vcpu cpuset="2">1</vcpu>`, 2, "vm:instance-00000001 shared 2×0-15 on 0-1 0:2048M/0 1:2048M/0\n"},
		{"a CPU that is not here", tune(pin(0, "2"), pin(1, "99"), `<emulatorpin cpuset="98"/>`), 2,
			"vm:instance-00000001 shared 2×2 on 0 0:4096M/0\nvm:instance-00000001/pinned dedicated 1×2 on 0\n"},
	}
	for _, tt := range tests {
		s, err := parse(t, nova(tt.vcpus, tt.inside)).Guest(eight())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := placements(s); got != tt.want {
			t.Errorf("%s:\n%swant\n%s", tt.name, got, tt.want)
		}
	}
	// homenode's own: its mark tells what is whose.
	d := parse(t, guests(t)["dumped.xml"])
	home := sharedHome("dumped", 2)
	home.Placement.CPUs = topology.CPUs(9)
	d.Place(eight(), home, Mark{})
	if s, err := d.Guest(eight()); err != nil || len(s.Apart) > 0 {
		t.Errorf("placed on one CPU: %+v, %v", s.Apart, err)
	}
}

func TestHugePagesOfCells(t *testing.T) {
	h := plantest.Draw(`
		0 0-3|4-7   16G 10 21 huge=2Mx4096 huge=1Gx4
		1 8-11|12-15 16G 21 10 huge=2Mx4096 huge=1Gx4`)
	cells := `<cpu><numa><cell id="0" cpus="0" memory="3145728"/><cell id="1" cpus="1" memory="1048576"/></numa></cpu>`
	numatune := `<numatune><memory mode="strict" nodeset="0-1"/><memnode cellid="0" mode="strict" nodeset="0"/><memnode cellid="1" mode="strict" nodeset="1"/></numatune>`
	backing := func(pages string) string {
		return "<memoryBacking><hugepages>" + pages + "</hugepages></memoryBacking>"
	}
	tests := []struct{ name, inside, want string }{
		{"none", "", "2×0-15 on 0-1 0:2048M/0 1:2048M/0\n"},
		{"one size", backing(`<page size="2048"/>`), "2×0-15 on 0-1 0:2048M/2048 1:2048M/2048\n"},
		{"of the host", backing(""), "2×0-15 on 0-1 0:2048M/2048 1:2048M/2048\n"},
		{"of cell 0 without cells", backing(`<page size="1" unit="G" nodeset="0"/>`), "2×0-15 on 0-1 0:2048M/1048576 1:2048M/1048576\n"},
		{"a size for each cell", cells + numatune + backing(`<page size="1048576" nodeset="0"/><page size="2048" nodeset="1"/>`),
			"2×0-15 on 0-1 0:3072M/1048576\nvm:instance-00000001/pages-2048 dedicated 0× on 1 1:1024M/2048\n"},
		{"one cell, and the others ordinary", cells + numatune + backing(`<page size="1048576" nodeset="1"/>`),
			"2×0-15 on 0-1 0:3072M/0\nvm:instance-00000001/pages-1048576 dedicated 0× on 1 1:1024M/1048576\n"},
		{"one cell, and another size for the rest", cells + backing(`<page size="2048"/><page size="1048576" nodeset="1"/>`),
			"2×0-15 on 0-1 0:1536M/2048 1:1536M/2048\nvm:instance-00000001/pages-1048576 dedicated 0× on 0 0:1024M/1048576\n"},
	}
	for _, tt := range tests {
		s, err := parse(t, nova(2, tt.inside)).Guest(h)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, want := placements(s), "vm:instance-00000001 shared "+tt.want; got != want {
			t.Errorf("%s:\n%swant\n%s", tt.name, got, want)
		}
		if bad := plan.Check(plan.State{Host: h, Policy: plan.DefaultPolicy()}, s.Holds()); len(bad) > 0 {
			t.Errorf("%s: %v", tt.name, bad)
		}
		if got := s.Memory(); got != 4<<20 {
			t.Errorf("%s: %d KiB in all", tt.name, got)
		}
	}
}

// What is bound by cell alone is bound: nobody takes such a guest over.
func TestMemoryBoundByCellAlone(t *testing.T) {
	d := parse(t, nova(2, `<cpu><numa><cell id="0" cpus="0-1" memory="4194304"/></numa></cpu><numatune><memnode cellid="0" mode="strict" nodeset="1"/></numatune>`))
	s, err := d.Guest(eight())
	if err != nil || s.Manual != "bound by hand (numatune)" || workload.On(s.Home.Placement.Memory, topology.Nodes(1)) != 4<<20 {
		t.Errorf("%q, memory %v, %v", s.Manual, s.Home.Placement.Memory, err)
	}
}

// A guest without <vcpu> has none again when it is released; one to which somebody gave
// something since keeps it.
func TestReleaseTakesVCPUAway(t *testing.T) {
	text := "<domain type='kvm'>\n  <name>a</name>\n  <memory>1048576</memory>\n</domain>\n"
	d := parse(t, text)
	for range 2 { // the second time it is there
		d.Place(eight(), sharedHome("a", 1), Mark{})
	}
	if m, _ := d.Mark(); m.Added != "vcpu" || !strings.Contains(d.String(), ">1</vcpu>") {
		t.Fatalf("placed: %s", d)
	}
	d.Release()
	if d.String() != text {
		t.Errorf("released: %s", d)
	}
	for _, change := range [][2]string{{">1</vcpu>", ">2</vcpu>"}, {"<vcpu ", "<vcpu current='1' "}} {
		d = parse(t, text)
		d.Place(eight(), sharedHome("a", 1), Mark{})
		d = parse(t, strings.Replace(d.String(), change[0], change[1], 1))
		d.Release()
		if !strings.Contains(d.String(), "</vcpu>") {
			t.Errorf("%v: released: %s", change, d)
		}
	}
}
