package topology

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// gpuServer is a host of two sockets: below a switch of each two GPUs and a NIC, on the second
// node also a NIC of its own root, and a management controller with a screen.
func gpuServer(t *testing.T) fstest.MapFS {
	tree := fakeTree(mustSynthetic(t, "package:2 node:1 core:2"))
	function := func(path, class, node, driver string) {
		pci := path[strings.LastIndexByte(path, '/')+1:]
		tree[pciDir+"/"+pci] = &fstest.MapFile{Data: []byte("../../../devices/" + path), Mode: linkMode}
		tree["sys/devices/"+path+"/class"] = &fstest.MapFile{Data: []byte(class + "\n")}
		tree["sys/devices/"+path+"/numa_node"] = &fstest.MapFile{Data: []byte(node + "\n")}
		tree["sys/devices/"+path+"/vendor"] = &fstest.MapFile{Data: []byte("0x10de\n")}
		tree["sys/devices/"+path+"/device"] = &fstest.MapFile{Data: []byte("0x2330\n")}
		tree["sys/devices/"+path+"/driver"] = &fstest.MapFile{Data: []byte("../../../bus/pci/drivers/" + driver), Mode: linkMode}
	}
	named := func(class, name, path string) {
		tree["sys/class/"+class+"/"+name] = &fstest.MapFile{Data: []byte("../../devices/" + path + "/" + class + "/" + name), Mode: linkMode}
	}
	for node, root := range []string{"pci0000:10/0000:10:01.0/0000:11:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0"} {
		bus := []string{"0000:12", "0000:82"}[node]
		at := func(port, pci string) string { return fmt.Sprintf("%s/%s:%s.0/%s", root, bus, port, pci) }
		base := []string{"0000:1", "0000:8"}[node]
		function(at("00", base+"3:00.0"), "0x030200", fmt.Sprint(node), "nvidia")
		function(at("04", base+"4:00.0"), "0x030200", fmt.Sprint(node), "nvidia")
		function(at("08", base+"5:00.0"), "0x020000", fmt.Sprint(node), "mlx5_core")
		named("net", fmt.Sprintf("eth%d", node), at("08", base+"5:00.0"))
	}
	function("pci0000:a0/0000:a0:01.0/0000:a1:00.0", "0x020000", "1", "mlx5_core")
	named("net", "eth2", "pci0000:a0/0000:a0:01.0/0000:a1:00.0")
	function("pci0000:10/0000:10:02.0/0000:16:00.0", "0x030000", "0", "ast")
	named("drm", "card0", "pci0000:10/0000:10:02.0/0000:16:00.0")
	tree["proc/driver/nvidia/gpus/0000:84:00.0/information"] = &fstest.MapFile{Data: []byte(
		"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\nGPU UUID: \t GPU-0a1b2c3d-1111-2222-3333-444455556666\nDevice Minor: \t 3\n")}
	named("drm", "renderD131", "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:04.0/0000:84:00.0")
	tree["sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:04.0/0000:84:00.0/drm/renderD131/dev"] = &fstest.MapFile{Data: []byte("226:131\n")}
	return tree
}

func TestGPUs(t *testing.T) {
	h, err := FromSysfs(gpuServer(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range h.GPUs() {
		got = append(got, fmt.Sprintf("%s %s node %d switch %s uuid %q chars %q", g.GPU, g.Title(), g.Node, g.Switch(), g.UUID, g.Chars))
	}
	want := []string{
		`gpu0 gpu0 (10de:2330, 0000:13:00.0) node 0 switch 0000:11:00.0 uuid "" chars ""`,
		`gpu1 gpu1 (10de:2330, 0000:14:00.0) node 0 switch 0000:11:00.0 uuid "" chars ""`,
		`gpu2 gpu2 (10de:2330, 0000:83:00.0) node 1 switch 0000:81:00.0 uuid "" chars ""`,
		`gpu3 gpu3 (NVIDIA H100 80GB HBM3, 0000:84:00.0) node 1 switch 0000:81:00.0 uuid "GPU-0a1b2c3d-1111-2222-3333-444455556666" chars "195:3 226:131"`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, name := range []string{"gpu3", "0000:84:00.0", "84:00.0", "GPU-0a1b2c3d-1111-2222-3333-444455556666"} {
		d := h.Device(name)
		if d == nil || d.GPU != "gpu3" {
			t.Errorf("%s is %+v", name, d)
		}
	}
	for _, name := range []string{"", "gpu4", "gpu", "GPU-", "13:00"} {
		if d := h.Device(name); d != nil {
			t.Errorf("%q is %+v", name, *d)
		}
	}
	for of, want := range map[string]string{
		"gpu0": "eth0 PIX, eth1 SYS, eth2 SYS",
		"gpu3": "eth1 PIX, eth2 NODE, eth0 SYS",
	} {
		var peers []string
		for _, p := range h.Peers(h.Device(of), NIC) {
			peers = append(peers, fmt.Sprintf("%s %s", p.Device.Name, p.Relation))
		}
		if got := strings.Join(peers, ", "); got != want {
			t.Errorf("NICs of %s: %s, want %s", of, got, want)
		}
	}
}

// A captured host has the same GPUs, but no UUID, which would name the machine.
func TestCapturedGPUs(t *testing.T) {
	tree := gpuServer(t)
	live, err := FromSysfs(tree)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromSysfs(unpacked(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	for i := range live.Devices {
		live.Devices[i].UUID = ""
	}
	if d := diff(live, again); d != "" {
		t.Errorf("captured (-live +captured)\n%s", d)
	}
}

func TestRelate(t *testing.T) {
	at := func(pci, root, bridges string, node NodeID) *Device {
		return &Device{PCI: pci, Root: root, Bridges: bridges, Node: node}
	}
	a := at("a", "pci0000:00", "rp/up/d0", 0)
	for _, tt := range []struct {
		name string
		b    *Device
		want Relation
	}{
		{"itself", a, SameDevice},
		{"the same switch", at("b", "pci0000:00", "rp/up/d1", 0), PIX},
		{"another function of the card", at("b", "pci0000:00", "rp/up/d0", 0), PIX},
		{"a switch below the switch", at("b", "pci0000:00", "rp/up/d1/up2/d2", 0), PXB},
		{"another root port", at("b", "pci0000:00", "rp2", 0), PHB},
		{"on the root bus", at("b", "pci0000:00", "", 0), PHB},
		{"another host bridge", at("b", "pci0000:40", "rp3", 0), NodeWide},
		{"another node", at("b", "pci0000:80", "rp4", 1), SYS},
		{"an unknown node", at("b", "pci0000:80", "rp4", None), NoRelation},
		{"no path is known", at("b", "", "", 0), NodeWide},
	} {
		if got := Relate(a, tt.b); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := Relate(tt.b, a); got != tt.want {
			t.Errorf("%s, the other way: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestParseNVIDIA(t *testing.T) {
	for _, tt := range []struct {
		name, text, model, uuid string
		minor                   int
	}{
		{"nothing", "", "", "", None},
		{"not initialised", "Model: Unknown\nGPU UUID: GPU-????????-????\nDevice Minor: 0", "Unknown", "", 0},
		{"hostile", "Model: \x1b[31mA\u202eB\nGPU UUID: GPU-1 ; rm\nDevice Minor: -1", "?[31mA?B", "", None},
		{"long", "Model: " + strings.Repeat("x", 500) + "\nDevice Minor: 99999999999999999999", strings.Repeat("x", mostModel), "", None},
	} {
		model, uuid, minor := ParseNVIDIA(tt.text)
		if model != tt.model || uuid != tt.uuid || minor != tt.minor {
			t.Errorf("%s: %q %q %d, want %q %q %d", tt.name, model, uuid, minor, tt.model, tt.uuid, tt.minor)
		}
	}
}

func FuzzParseNVIDIA(f *testing.F) {
	f.Add("Model: NVIDIA A100\nGPU UUID: GPU-1\nDevice Minor: 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		model, uuid, minor := ParseNVIDIA(text)
		if len([]rune(model)) > mostModel || len(uuid) > mostUUID || minor < None || minor > MaxID {
			t.Fatalf("%q %q %d", model, uuid, minor)
		}
		if strings.ContainsAny(model+uuid, "\n\x1b") {
			t.Fatalf("control characters in %q %q", model, uuid)
		}
	})
}
