package topology

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// slowTree is a host of two nodes with CPUs and memory, and node 2 with memory alone.
func slowTree(leaves map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	put("sys/devices/system/cpu/online", "0-3")
	put("sys/devices/system/cpu/present", "0-3")
	put("sys/devices/system/node/online", "0-2")
	for i, cpus := range []string{"0-1", "2-3", ""} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", i)
		put(dir+"cpulist", cpus)
		put(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 1048576 kB\nNode %d MemFree: 1048576 kB", i, i))
		put(dir+"distance", []string{"10 21 24", "21 10 30", "24 30 10"}[i])
	}
	for name, text := range leaves {
		if target, link := strings.CutPrefix(text, "-> "); link {
			m[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
			continue
		}
		put(name, text)
	}
	return m
}

// hmat is the firmware's latency and bandwidth of the three nodes.
func hmat(ns, mbs int) map[string]string {
	out := map[string]string{}
	for i, v := range [][2]int{{80, 20000}, {80, 20000}, {ns, mbs}} {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/access0/initiators/", i)
		out[dir+"read_latency"], out[dir+"read_bandwidth"] = fmt.Sprint(v[0]), fmt.Sprint(v[1])
		out[dir+fmt.Sprintf("node%d", i%2)] = fmt.Sprintf("-> ../../../node%d", i%2)
	}
	return out
}

func dax(path string) map[string]string {
	return map[string]string{
		"sys/bus/dax/devices/dax0.0":                  "-> ../../../devices/" + path + "/dax0.0",
		"sys/devices/" + path + "/dax0.0/target_node": "2",
	}
}

func both(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// TestMemoryTypes: what is behind memory without CPUs says its type, before numbers do; a capture says the same.
func TestMemoryTypes(t *testing.T) {
	const gpu = "0000:01:00.0"
	class := func(code string) map[string]string {
		return both(dax("pci0000:00/"+gpu), map[string]string{
			"sys/bus/pci/devices/" + gpu:                   "-> ../../../devices/pci0000:00/" + gpu,
			"sys/devices/pci0000:00/" + gpu + "/class":     code,
			"sys/devices/pci0000:00/" + gpu + "/numa_node": "0",
		})
	}
	iomem := func(name string) map[string]string {
		return map[string]string{
			"proc/iomem": "00000000-00000000 : Reserved\n100000000-1ffffffff : System RAM\n3000000000-3fffffffff : " + name + "\n  3000000000-30ffffffff : System RAM (kmem)",
			"sys/devices/system/memory/block_size_bytes":     "8000000",
			"sys/devices/system/node/node2/memory1536":       "-> ../../memory/memory1536",
			"sys/devices/system/node/node2/memory1537":       "-> ../../memory/memory1537",
			"sys/devices/system/memory/memory1536/state":     "online",
			"sys/devices/system/memory/memory1537/removable": "0",
		}
	}
	for _, tt := range []struct {
		name   string
		leaves map[string]string
		want   MemoryType
		says   string
	}{
		{"nothing known", nil, "", ""},
		{"a CXL region", dax("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0"), TypeCXL, "dax0.0 is a CXL region"},
		{"an NVDIMM", dax("LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region5/dax5.1"), TypePMEM, "dax0.0 is on the NVDIMM bus ndbus0"},
		{"memory of a GPU", class("0x030200"), TypeGPU, "dax0.0 is memory of the GPU 0000:01:00.0"},
		{"memory of a CXL device", class("0x050210"), TypeCXL, "dax0.0 is memory of the CXL memory device 0000:01:00.0"},
		{"memory of a NIC", class("0x020000"), "", "dax0.0 is memory that the firmware sets aside for a purpose of its own"},
		{"set aside, slow", both(dax("platform/hmem.0"), hmat(200, 10000)), TypeCXL, "HMAT: ×2.50 the latency of DRAM, ×0.50 its bandwidth"},
		{"fast and wide", hmat(90, 80000), TypeHBM, "HMAT: ×1.12 the latency of DRAM, ×4.00 its bandwidth"},
		{"as fast as DRAM", hmat(90, 20000), "", "HMAT: ×1.12 the latency of DRAM, ×1.00 its bandwidth"},
		{"very slow", hmat(400, 4000), TypePMEM, "HMAT: ×5.00 the latency of DRAM, ×0.20 its bandwidth"},
		{"the driver comes before numbers", both(dax("platform/ACPI0017:00/region0/dax_region0"), hmat(400, 4000)), TypeCXL, "dax0.0 is a CXL region"},
		{"NVIDIA's driver", map[string]string{nvidiaDir + "/0004:04:00.0/numa_status": "Node:      2\nStatus:    online\nAddress:   40000000000"},
			TypeGPU, "NVIDIA's driver says it is memory of GPU 0004:04:00.0"},
		{"resource map of NVIDIA", iomem("System RAM (NVIDIA)"), TypeGPU, `/proc/iomem has it in "System RAM (NVIDIA)"`},
		{"resource map of CXL", iomem("CXL Window 0"), TypeCXL, `/proc/iomem has it in "CXL Window 0"`},
		{"resource map of persistent memory", iomem("Persistent Memory"), TypePMEM, `/proc/iomem has it in "Persistent Memory"`},
		{"a SLIT as GPUs have it", map[string]string{"sys/devices/system/node/node0/distance": "10 40 80", "sys/devices/system/node/node1/distance": "40 10 120"},
			TypeGPU, "SLIT distance 80 from the nearest CPUs, as GPUs have it"},
		{"unreachable", map[string]string{"sys/devices/system/node/node0/distance": "10 40 255", "sys/devices/system/node/node1/distance": "40 10 255"}, "", ""},
		{"a faster tier", map[string]string{tierDir + "/memory_tier2/nodelist": "2", tierDir + "/memory_tier4/nodelist": "0-1"},
			TypeHBM, "the kernel has it in memory tier 2, faster than DRAM's 4"},
		{"a slower tier", both(hmat(200, 10000), map[string]string{tierDir + "/memory_tier22/nodelist": "2", tierDir + "/memory_tier4/nodelist": "0-1"}),
			TypeCXL, "the kernel has it in memory tier 22, slower than DRAM's 4"},
		{"hostile names", both(dax("x"), map[string]string{"sys/bus/dax/devices/dax0.0": "-> ../../../devices/platform/ndbusX/../dax_regionY/dax0.0",
			nvidiaDir + "/..evil/numa_status": "Node: 2", "sys/devices/dax_regionY/dax0.0/target_node": "99999999999999999999"}), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := slowTree(tt.leaves)
			h, err := FromSysfs(tree)
			if err != nil {
				t.Fatal(err)
			}
			n := h.Nodes[2]
			if n.Type != tt.want || (len(n.Evidence) > 0) != (tt.says != "") || (tt.says != "" && !slices.Contains(n.Evidence, tt.says)) {
				t.Errorf("%q %q, want %q %q", n.Type, n.Evidence, tt.want, tt.says)
			}
			if h.Nodes[0].Type != "" || h.Nodes[0].MemoryType() != TypeDRAM {
				t.Errorf("node 0: %q", h.Nodes[0].Type)
			}
			if d := diff(h, must(FromSysfs(unpacked(t, tree)))(t), "Notes"); d != "" {
				t.Errorf("captured (-want +got):\n%s", d)
			}
			var text bytes.Buffer
			if err := h.WriteJSON(&text); err != nil {
				t.Fatal(err)
			}
			if d := diff(h, must(FromJSON(&text))(t)); d != "" {
				t.Errorf("JSON (-want +got):\n%s", d)
			}
		})
	}
}

func must(h *Host, err error) func(*testing.T) *Host {
	return func(t *testing.T) *Host {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

// TestMeasuredTypes: what probe measured settles what neither driver nor firmware says.
func TestMeasuredTypes(t *testing.T) {
	h := must(FromSysfs(slowTree(nil)))(t)
	h.Measured = &Measured{LatencyNs: [][]float64{{90, 130, 230}, {130, 90, 300}, {0, 0, 0}}, BandwidthMiBs: [][]float64{{100, 40, 30}, {40, 100, 20}, {0, 0, 0}}}
	SettleTypes(h)
	if n := h.Nodes[2]; n.Type != TypeCXL || cmp.Diff([]string{"measured: ×2.56 the latency of DRAM, ×0.30 its bandwidth"}, n.Evidence) != "" {
		t.Errorf("%+v", n)
	}
}

// TestBelow: cold pages go to all slower tiers, and only while demotion is on.
func TestBelow(t *testing.T) {
	tiers := map[string]string{tierDir + "/memory_tier4/nodelist": "0-1", tierDir + "/memory_tier22/nodelist": "2"}
	on := map[string]string{"sys/kernel/mm/numa/demotion_enabled": "true"}
	for _, tt := range []struct {
		name   string
		leaves map[string]string
		of     NodeSet
		want   string
	}{
		{"off", both(tiers, map[string]string{"sys/kernel/mm/numa/demotion_enabled": "false"}), Nodes(0), ""},
		{"absent", tiers, Nodes(0), ""},
		{"on", both(tiers, on), Nodes(0), "2"},
		{"of both", both(tiers, on), Nodes(0, 1), "2"},
		{"of the slow node", both(tiers, on), Nodes(2), ""},
		{"a home of both tiers", both(tiers, on), Nodes(0, 2), ""},
		{"a kernel without tiers", on, Nodes(0), "2"},
		{"a kernel without tiers, the slow node", on, Nodes(2), ""},
		{"all in one tier", both(on, map[string]string{tierDir + "/memory_tier4/nodelist": "0-2"}), Nodes(0), ""},
	} {
		h := must(FromSysfs(slowTree(tt.leaves)))(t)
		if got := h.Below(tt.of).String(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	h := must(FromSysfs(slowTree(tiers)))(t)
	fresh := must(ReadFree(slowTree(both(tiers, both(on, map[string]string{"proc/sys/kernel/numa_balancing": "2"}))), h))(t)
	if !fresh.Tiering.Demotion || !fresh.Tiering.Promotion || h.Tiering.Demotion {
		t.Errorf("switched on while it runs: %+v", fresh.Tiering)
	}
}

// TestCapturedTypes: machines outside the repository.
func TestCapturedTypes(t *testing.T) {
	want := map[string]string{
		"nvidiagpunumanodes": "gpu gpu gpu gpu gpu gpu",
		"fakeheteromemtiers": "unknown pmem pmem pmem",
	}
	found := 0
	for _, archive := range sharedHosts(t) {
		types, ok := want[strings.TrimSuffix(filepath.Base(archive), ".tar.bz2")]
		if !ok {
			continue
		}
		found++
		h, err := FromSysfs(os.DirFS(unpackTree(t, archive)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range h.Nodes {
			if n := &h.Nodes[i]; n.Kind == Special {
				name := string(n.Type)
				if name == "" {
					name = "unknown"
				}
				got = append(got, name)
			}
		}
		if d := cmp.Diff(types, strings.Join(got, " ")); d != "" {
			t.Errorf("%s (-want +got):\n%s", archive, d)
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d machines", found, len(want))
	}
}

// FuzzMemoryTypes: hostile text in the files that name memory types ends in a sound host, and JSON keeps it.
func FuzzMemoryTypes(f *testing.F) {
	f.Add("100-1ff : System RAM\n200-2ff : CXL Window 0\n", "8000000", "2", "Node: 2\n", "0-1", "2", "true", "2")
	f.Add(" : \n-1-ffffffffffffffffffff : Persistent Memory\n0-ffffffffffffffff : CXL Window \x00", "ffffffffffffffff", "-1", "Node: 99999999999\nNode", "0-", "2", "1", "x")
	f.Fuzz(func(t *testing.T, iomem, size, target, numa, fast, slow, demotion, balancing string) {
		tree := slowTree(both(dax("platform/ACPI0017:00/dax_region0"), map[string]string{
			"proc/iomem": iomem, "sys/devices/system/memory/block_size_bytes": size, "sys/devices/system/node/node2/memory1536": "x",
			nvidiaDir + "/0000:01:00.0/numa_status": numa, tierDir + "/memory_tier4/nodelist": fast, tierDir + "/memory_tier22/nodelist": slow,
			"sys/kernel/mm/numa/demotion_enabled": demotion, "proc/sys/kernel/numa_balancing": balancing,
		}))
		tree["sys/devices/platform/ACPI0017:00/dax_region0/dax0.0/target_node"] = &fstest.MapFile{Data: []byte(target)}
		h, err := FromSysfs(tree)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, h)
		for i := range h.Nodes {
			h.Below(Nodes(h.Nodes[i].ID))
			h.Stays(Nodes(h.Nodes[i].ID))
		}
		var text bytes.Buffer
		if err := h.WriteJSON(&text); err != nil {
			t.Fatal(err)
		}
		back, err := FromJSON(bytes.NewReader(text.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if d := cmp.Diff(h.Tiering.Tiers == nil, back.Tiering.Tiers == nil); d != "" {
			t.Fatal(d)
		}
	})
}
