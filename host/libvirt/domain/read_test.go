package domain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

func TestDevices(t *testing.T) {
	d := parse(t, `<domain><name>a</name><devices>
<hostdev type='pci'><source><address domain='0x1' bus='0xaf' slot='0x1f' function='7'/></source></hostdev>
<hostdev type='usb'><source><address bus='1'/></source></hostdev>
<hostdev type='pci'/><hostdev type='pci'><source/></hostdev>
<interface type='hostdev'><mac address='52:54:00:00:00:09'/><source><address bus='59' function='0x2'/></source></interface>
<interface type='pci'><source><address bus='1'/></source></interface>
<interface type='direct'><mac address='52:54:00:00:00:01'/><source dev='eth0'/></interface>
<interface type='direct'><source dev=''/></interface><interface type='direct'/>
<interface type='network'><mac address='52:54:00:00:00:02'/></interface>
<interface type='bridge'><mac address='52:54:00:00:00:03'/></interface>
<interface type='ethernet'><mac address='52:54:00:00:00:04'/></interface>
<interface type='user'><mac address='52:54:00:00:00:05'/></interface>
<interface type='bridge'><mac/></interface><interface type='bridge'/>
<disk type='file'><target dev='vda'/></disk><disk device='lun'><target dev='sdb'/></disk><disk device='disk'><target dev='vdc'/></disk>
<disk device='cdrom'><target dev='sda'/></disk><disk><target/></disk><disk/>
</devices></domain>`)
	for _, tt := range []struct {
		name string
		got  []string
		want string
	}{
		{"whole devices", d.hostDevices(), "[0001:af:1f.7 0000:3b:00.2]"},
		{"host NICs", d.directNICs(), "[eth0]"},
		{"NICs", d.NICs(), "[52:54:00:00:00:01 52:54:00:00:00:02 52:54:00:00:00:03 52:54:00:00:00:04]"},
		{"disks", d.Disks(), "[vda sdb vdc]"},
	} {
		if got := fmt.Sprint(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	none := parse(t, "<domain/>")
	if len(none.hostDevices())+len(none.directNICs())+len(none.NICs())+len(none.Disks()) > 0 {
		t.Error("devices out of nothing")
	}
}

func TestRun(t *testing.T) {
	for text, want := range map[string]int{"<domain/>": 0, "<domain id='1'/>": 1, "<domain id='77'/>": 77, "<domain id='-1'/>": 0, "<domain id='x'/>": 0} {
		if got := parse(t, text).Run(); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func TestVCPUs(t *testing.T) {
	for text, want := range map[string]string{"": "1 1", "<vcpu>4</vcpu>": "4 4", "<vcpu current='1'>4</vcpu>": "4 1", "<vcpu current='4'> 4 </vcpu>": "4 4", "<vcpu>32768</vcpu>": "32768 32768",
		"<vcpu>32769</vcpu>": "0 0", "<vcpu current='0'>4</vcpu>": "0 0", "<vcpu current='5'>4</vcpu>": "0 0"} {
		most, now, err := parse(t, "<domain>"+text+"</domain>").VCPUs()
		if got := fmt.Sprint(most, now); got != want || (err != nil) != (want == "0 0") {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// libvirt's lists know ^N for "not N".
func TestLists(t *testing.T) {
	for text, want := range map[string]string{"": "", "0-3": "0-3", "0-3,^2": "0-1,3", "^2,0-3": "0-1,3", "0-7, ^1-2 ,^5": "0,3-4,6-7", "^1": "", "x": "!", "0-3,^x": "!", "3-1": "!"} {
		got, err := parseSet[topology.CPUID](text)
		if err != nil {
			if want != "!" {
				t.Errorf("%q: %v", text, err)
			}
		} else if got.String() != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestThreads(t *testing.T) {
	d := parse(t, `<domain><vcpu cpuset='0-1'>4</vcpu><iothreads>5</iothreads><iothreadids><iothread id='3'/><iothread id='1'/></iothreadids>
<cputune><vcpupin vcpu='1' cpuset='2'/><emulatorpin cpuset='4'/><iothreadpin iothread='3' cpuset='5'/></cputune></domain>`)
	for th, want := range map[Thread]string{{Kind: VCPU, ID: 0}: "0-1", {Kind: VCPU, ID: 1}: "2", {Kind: EmulatorThread}: "4", {Kind: IOThread, ID: 3}: "5", {Kind: IOThread, ID: 1}: "0-1"} {
		if got, err := d.Pins()(th); err != nil || got.String() != want {
			t.Errorf("%+v: %s, %v", th, got, err)
		}
	}
	if got := fmt.Sprint(d.iothreads()); got != "[3 1 2 4 5]" {
		t.Error(got)
	}
	if got, _, err := d.Bound(); err != nil || got.String() != "0-2" {
		t.Errorf("bound to %s, %v", got, err)
	}
	if got := parse(t, "<domain/>").iothreads(); len(got) > 0 {
		t.Error(got)
	}
	// What else is in the way: too many, none, of another cell.
	for _, bad := range []string{"<cputune><vcpupin cpuset='1'/></cputune>", "<cputune><vcpupin vcpu='-1' cpuset='1'/></cputune>", "<cputune><vcpupin vcpu='32768' cpuset='1'/></cputune>",
		"<cputune><vcpupin vcpu='0' cpuset='x'/></cputune>", "<cputune><emulatorpin cpuset='x'/></cputune>", "<cputune><iothreadpin iothread='1' cpuset='x'/></cputune>", "<vcpu cpuset='x'>1</vcpu>",
		"<numatune><memory nodeset='x'/></numatune>", "<memoryBacking><hugepages><page size='1' nodeset='x'/></hugepages></memoryBacking>",
		"<cpu><numa><cell memory='x'/></numa></cpu>", "<cpu><numa><cell id='-1'/></numa></cpu>", "<cpu><numa><cell/></numa></cpu><numatune><memnode cellid='1' nodeset='0'/></numatune>",
		"<cpu><numa><cell/></numa></cpu><numatune><memnode cellid='-1' nodeset='0'/></numatune>", "<cpu><numa><cell/></numa></cpu><numatune><memnode cellid='0' nodeset='x'/></numatune>"} {
		if s, err := parse(t, "<domain><name>a</name>"+bad+"</domain>").Guest(eight()); err == nil {
			t.Errorf("%s is understood as %+v", bad, s)
		}
	}
}

// Where libvirt would write an element that is missing, and what is doubled.
func TestWhereElementsGo(t *testing.T) {
	d := parse(t, `<domain>
  <name>a</name>
  <memory>1048576</memory>
  <vcpu>2</vcpu>
  <os/>
  <own:thing xmlns:own='x'/>
  <cputune>
    <vcpupin vcpu='1' cpuset='7'/>
    <quota>5</quota>
    <vcpupin vcpu='1' cpuset='6'/>
    <vcpupin vcpu='9' cpuset='6'/>
    <emulatorpin cpuset='6'/>
    <iothreadpin iothread='8' cpuset='6'/>
  </cputune>
</domain>
`)
	d.Place(eight(), dedicatedHome("a", 2), Mark{})
	want := `<domain>
  <name>a</name>
  <metadata>
    <homenode:guest xmlns:homenode='https://github.com/homenode/homenode/libvirt/1' class='dedicated' importance='50' cpus='0,4' nodes='0-1'/>
  </metadata>
  <memory>1048576</memory>
  <vcpu>2</vcpu>
  <os/>
  <own:thing xmlns:own='x'/>
  <cputune>
    <vcpupin vcpu='1' cpuset='4'/>
    <quota>5</quota>
    <vcpupin vcpu='0' cpuset='0'/>
    <emulatorpin cpuset='3,7'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='0-1'/>
  </numatune>
</domain>
`
	if got := d.String(); got != want {
		t.Errorf("%s", got)
	}
	// The same again changes nothing.
	d = parse(t, d.String())
	if d.Place(eight(), dedicatedHome("a", 2), Mark{}); d.String() != want {
		t.Errorf("again: %s", d)
	}
	// Nothing is said of memory or its mode but in numatune/memory.
	for inside, want := range map[string]string{"": "/", "<numatune/>": "/", "<numatune><memory nodeset='1'/></numatune>": "1/strict", "<numatune><memory mode='preferred' nodeset='0'/></numatune>": "0/preferred"} {
		d := parse(t, "<domain>"+inside+"</domain>")
		if got := d.MemoryNodes() + "/" + d.MemoryMode(); got != want {
			t.Errorf("%s: %s", inside, got)
		}
	}
	if !strings.Contains(parse(t, "<domain>\n</domain>").String(), "\n") {
		t.Error("a line end is lost")
	}
}

// Who else binds a guest, or what homenode wrote and is no more.
func TestManual(t *testing.T) {
	mark := func(attrs, inside string) string {
		return "<metadata><homenode:guest xmlns:homenode='" + Namespace + "' class='shared' " + attrs + "/></metadata>" + inside
	}
	on := "<vcpu cpuset='0-3'>2</vcpu><numatune><memory mode='restrictive' nodeset='0'/></numatune>"
	tests := []struct{ inside, want string }{
		{"<vcpu>2</vcpu>", ""},
		{"<vcpu cpuset='0'>2</vcpu>", "bound by hand (vcpu cpuset)"},
		{"<cputune><vcpupin vcpu='0' cpuset='0'/></cputune>", "bound by hand (vcpupin)"},
		{"<cputune><emulatorpin cpuset='0'/></cputune>", "bound by hand (emulatorpin, iothreadpin)"},
		{"<cputune><iothreadpin iothread='1' cpuset='0'/></cputune>", "bound by hand (emulatorpin, iothreadpin)"},
		{"<cputune><shares>7</shares></cputune>", ""},
		{"<numatune><memory nodeset='0'/></numatune>", "bound by hand (numatune)"},
		{"<numatune><memory mode='strict' placement='auto'/></numatune>", "libvirt asks numad where it goes at every start (placement='auto')"},
		{mark("cpus='0-3' nodes='0'", on), ""},
		{mark("cpus='0-3' nodes='1'", on), "its bindings (CPUs 0-3, nodes 0) are not what homenode wrote (CPUs 0-3, nodes 1)"},
		{mark("cpus='0-2' nodes='0'", on), "its bindings (CPUs 0-3, nodes 0) are not what homenode wrote (CPUs 0-2, nodes 0)"},
		{mark("cpus='0-1' nodes='0' to-cpus='2-3'", on), ""},
		{mark("cpus='0-3' nodes='1' to-nodes='0'", on), ""},
		{mark("cpus='0-1' nodes='0' to-cpus='2'", on), "its bindings (CPUs 0-3, nodes 0) are not what homenode wrote (from CPUs 0-1, nodes 0 to CPUs 2, nodes )"},
		{mark("cpus='0-3' nodes='1' to-nodes='2'", on), "its bindings (CPUs 0-3, nodes 0) are not what homenode wrote (from CPUs 0-3, nodes 1 to CPUs , nodes 2)"},
		{mark("cpus='0-3' nodes='0' to-cpus='2'", "<vcpu cpuset='2'>2</vcpu>"), "its bindings (CPUs 2, nodes ) are not what homenode wrote (from CPUs 0-3, nodes 0 to CPUs 2, nodes )"},
		{mark("cpus='' nodes='' to-cpus='2'", "<vcpu cpuset='2'>2</vcpu>"), ""},
		{mark("cpus='x' nodes='0' to-cpus='2'", on), "its bindings (CPUs 0-3, nodes 0) are not what homenode wrote (from CPUs x, nodes 0 to CPUs 2, nodes )"},
		{"<vcpu>x</vcpu>", `vcpu: "x"; want 1 to 32768`},
		{"<vcpu cpuset='x'>2</vcpu>", `vcpu: cpuset "x": want a list such as 0-3,8`},
	}
	for _, tt := range tests {
		if got := parse(t, "<domain><name>a</name>"+tt.inside+"</domain>").Manual(); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.inside, got, tt.want)
		}
	}
}

// Where a document names no size, the pages are of the only one that the host has.
func TestDefaultPage(t *testing.T) {
	pool := func(size topology.KiB, total int64) topology.HugePool {
		return topology.HugePool{Size: size, Total: total}
	}
	for _, tt := range []struct {
		pools [][]topology.HugePool // by node
		want  topology.KiB
	}{
		{nil, 2048},
		{[][]topology.HugePool{{pool(1<<20, 4)}}, 1 << 20},
		{[][]topology.HugePool{{pool(1<<20, 4), pool(2048, 0)}, {pool(1<<20, 2)}}, 1 << 20},
		{[][]topology.HugePool{{pool(1<<20, 4)}, {pool(64, 2)}}, 2048},
		{[][]topology.HugePool{{pool(64, 0)}}, 2048},
	} {
		h := &topology.Host{}
		for _, pools := range tt.pools {
			h.Nodes = append(h.Nodes, topology.Node{HugePages: pools})
		}
		if got := defaultPage(h); got != tt.want {
			t.Errorf("%v: %d", tt.pools, got)
		}
	}
}
