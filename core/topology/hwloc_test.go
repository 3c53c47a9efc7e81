package topology

import (
	"strings"
	"testing"
)

// hwlocExample is made up: a package, a node with CPUs and one without, a core
// of two CPUs and one of one, a NIC and a GPU.
const hwlocExample = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000007" complete_cpuset="0x0000000f" allowed_cpuset="0x00000003" nodeset="0x00000005" allowed_nodeset="0x00000001" gp_index="1">
    <object type="Package" os_index="3" cpuset="0x00000007" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000007" gp_index="11" local_memory="1048576">
        <page_type size="4096" count="12"/>
        <page_type size="2097152" count="7"/>
      </object>
      <object type="NUMANode" os_index="2" cpuset="0x00000007" gp_index="12" local_memory="2097152"/>
      <object type="L3Cache" cpuset="0x00000007" gp_index="3" cache_size="8388608" depth="3" cache_type="0">
        <object type="L2Cache" cpuset="0x00000003" cache_size="1048576" depth="2" cache_type="0" gp_index="4">
          <object type="Core" os_index="0" cpuset="0x00000003" gp_index="5">
            <object type="PU" os_index="0" cpuset="0x00000001" gp_index="6"/>
            <object type="PU" os_index="1" cpuset="0x00000002" gp_index="7"/>
          </object>
        </object>
        <object type="Core" os_index="1" cpuset="0x00000004" gp_index="8">
          <object type="PU" os_index="2" cpuset="0x00000004" gp_index="9"/>
        </object>
      </object>
      <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[3a-3c]">
        <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" bridge_pci="0000:[3b-3b]" pci_busid="0000:3a:00.0" pci_type="0604 [8086:2030] [0000:0000] 04">
          <object type="PCIDev" gp_index="22" pci_busid="0000:3b:00.0" pci_type="0200 [8086:1572] [8086:0001] 02">
            <object type="OSDev" gp_index="23" name="eth0" osdev_type="2"><info name="Address" value="00:00:00:00:00:00"/></object>
          </object>
        </object>
        <object type="PCIDev" gp_index="24" pci_busid="0000:3c:00.0" pci_type="0302 [10de:1db4] [10de:1212] a1"/>
      </object>
    </object>
  </object>
  <distances2 type="PU" nbobjs="1" kind="5" name="NUMALatency" indexing="os"><indexes length="2">0 </indexes><u64values length="3">99 </u64values></distances2>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">2 0 </indexes>
    <u64values length="6">10 17 </u64values>
    <u64values length="6">18 10 </u64values>
  </distances2>
</topology>
`

func hwlocHost() *Host {
	return &Host{
		Nodes: []Node{
			{ID: 0, Package: 3, CPUs: set("0-2"), Memory: 1024, Free: None, Reclaimable: None, Kind: DRAM, HugePages: []HugePool{{2048, 7, None}}},
			{ID: 2, Package: None, Memory: 2048, Free: None, Reclaimable: None, Kind: Special},
		},
		Packages:  []Package{{3, set("0-2")}},
		Cores:     []Core{{set("0-1"), 0, 3, None}, {set("2"), 0, 3, None}},
		LLCs:      []LLC{{0, set("0-2"), Nodes(0), 3, 8192}},
		Online:    set("0-2"),
		Offline:   set("3"),
		Allowed:   set("0-1"),
		Distances: Matrix{{10, 18}, {17, 10}}, AllowedMems: Nodes(0),
		Devices: []Device{
			{Name: "eth0", Kind: NIC, PCI: "0000:3b:00.0", Node: 0, Root: "pci0000:3a"},
			{Name: "0000:3c:00.0", Kind: GPU, PCI: "0000:3c:00.0", Node: 0, Root: "pci0000:3a"},
		},
	}
}

func TestFromHwlocXML(t *testing.T) {
	three := strings.NewReplacer(`version="2.0"`, `version="3.0"`, `osdev_type="2"`, `osdev_type="16"`).Replace(hwlocExample)
	byGP := strings.NewReplacer(`indexing="os">
    <indexes length="4">2 0 `, `indexing="gp">
    <indexes length="4">12 11 `).Replace(hwlocExample)
	for name, text := range map[string]string{"2": hwlocExample, "3": three, "distances by gp_index": byGP} {
		h, err := FromHwlocXML(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := diff(hwlocHost(), h, "Notes"); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

func TestFromHwlocXMLRefuses(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"version 1", ` version="2.0"`, "", `version "" is not 2 or 3; write the file anew`},
		{"not hwloc", "<topology", "<html", "line 3 column 21: <html>: the outermost element is not topology"},
		{"cut short", "</topology>", "", "unexpected EOF"},
		{"infinite set", `cpuset="0x00000007" complete`, `cpuset="0xf...f" complete`, "has no end"},
		{"bad set", `cpuset="0x00000007" complete`, `cpuset="zzz" complete`, `want 32 bits in hexadecimal, have "zzz"`},
		{"PU twice", `type="PU" os_index="1"`, `type="PU" os_index="0"`, "PU 0 is there twice"},
		{"node twice", `type="NUMANode" os_index="2"`, `type="NUMANode" os_index="0"`, "NUMANode 0 is there twice"},
		{"node number", `type="NUMANode" os_index="2"`, `type="NUMANode" os_index="99999"`, "line 10 column 106: <object>: os_index"},
		{"values missing", "18 10 ", "18 ", "has 3 values for 2 nodes; want 4"},
		{"unknown node in distances", "2 0 <", "2 7 <", `names node "7"`},
		{"PCI address", `pci_busid="0000:3c:00.0"`, `pci_busid="x"`, `pci_busid is "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(hwlocExample, tc.old, tc.new, 1)
			if text == hwlocExample {
				t.Fatal("the case changes nothing")
			}
			_, err := FromHwlocXML(strings.NewReader(text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q in it", err, tc.want)
			}
			oneLineError(t, err)
		})
	}
	if _, err := FromHwlocXML(strings.NewReader("")); err == nil {
		t.Error("an empty file is read")
	}
	deep := `<topology version="2.0">` + strings.Repeat(`<object type="Group">`, 300)
	if _, err := FromHwlocXML(strings.NewReader(deep)); err == nil || !strings.Contains(err.Error(), "inside one another") {
		t.Errorf("deep nesting: %v", err)
	}
}
