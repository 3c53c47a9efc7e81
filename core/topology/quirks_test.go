package topology

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// change writes leaves over a tree; an empty text removes one, and a name that
// ends in / a folder.
func change(tree fstest.MapFS, leaves map[string]string) fstest.MapFS {
	out := maps.Clone(tree)
	for name, text := range leaves {
		if strings.HasSuffix(name, "/") {
			maps.DeleteFunc(out, func(n string, _ *fstest.MapFile) bool { return strings.HasPrefix(n, name) })
			continue
		}
		if text == "" {
			delete(out, name)
			continue
		}
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// Each case breaks one thing of a host of two packages, with two nodes of two
// cores of two threads each.
func TestQuirks(t *testing.T) {
	const node, cpu = "sys/devices/system/node/", "sys/devices/system/cpu/"
	type check func(*Host) bool
	for _, tc := range []struct {
		name   string
		leaves map[string]string
		note   string // "" for none
		check  check
	}{
		{"nothing", nil, "", func(h *Host) bool { return len(h.Nodes) == 4 && len(h.Notes) == 0 }},
		{"no SLIT", map[string]string{node + "node0/distance": "", node + "node1/distance": "", node + "node2/distance": "", node + "node3/distance": ""},
			"slit: the kernel shows no distances", func(h *Host) bool { return h.Distances == nil }},
		{"memory on no node", map[string]string{"proc/meminfo": "MemTotal: 1073741824 kB\nMemFree: 1 kB\n"},
			"memory: the nodes show ", func(h *Host) bool { return len(h.Nodes) == 4 }},
		{"SLIT row too long", map[string]string{node + "node2/distance": "32 32 10 12 40"},
			"slit: sys/devices/system/node/node2/distance has 5 values for 4 nodes; the row is taken as unknown",
			func(h *Host) bool { return h.Distances[2][2] == None && h.Distances[1][2] == 32 }},
		{"SLIT row is no numbers", map[string]string{node + "node0/distance": "10 x 32 32"},
			`slit: sys/devices/system/node/node0/distance: value 2 is "x", want a number; the row is taken as unknown`,
			func(h *Host) bool { return h.Distances[0][1] == None && h.Distances[1][0] == 12 }},
		{"SLIT with zero", map[string]string{node + "node0/distance": "10 0 32 32"},
			"slit: distances are 10 to 255, but node0 to node1 is 0; taken as unknown",
			func(h *Host) bool { return h.Distances[0][1] == None && h.Distances[0][2] == 32 }},
		{"SLIT not symmetric", map[string]string{node + "node0/distance": "10 12 32 40"},
			"slit: not the same both ways: node0 to node3 is 40, back is 32", func(h *Host) bool { return h.Distances[0][3] == 40 }},
		{"SLIT with local not 10", map[string]string{node + "node1/distance": "12 11 32 32"},
			"slit: a node's distance to itself is 10, but node1 is 11", func(h *Host) bool { return h.Distances[1][1] == 11 }},
		{"SLIT all 10", map[string]string{node + "node0/distance": "10 10 10 10", node + "node1/distance": "10 10 10 10", node + "node2/distance": "10 10 10 10", node + "node3/distance": "10 10 10 10"},
			"slit: every distance is 10", func(h *Host) bool { return h.Distances[0][1] == None && h.Distances[0][0] == 10 }},
		{"SLIT of a node that is offline too", map[string]string{node + "node0/": "", node + "online": "1-3", cpu + "online": "2-7,10-15", node + "possible": "0-3"},
			"slit: sys/devices/system/node/node1/distance also lists nodes that are not online",
			func(h *Host) bool { return h.Nodes[0].ID == 1 && h.Distances[0][1] == 32 && h.Distances[1][2] == 12 }},
		{"node without a folder", map[string]string{node + "online": "0-4"}, "node4: sys/devices/system/node/online names it",
			func(h *Host) bool { return len(h.Nodes) == 4 }},
		{"node offline, its CPUs not", map[string]string{node + "online": "1-3"}, "cpus: CPUs 0-1,8-9 run but are on no online node",
			func(h *Host) bool { return h.Cores[0].Node == None && h.Cores[2].Node == 1 }},
		{"no node lists", map[string]string{node + "online": "", node + "possible": ""}, "", func(h *Host) bool { return len(h.Nodes) == 4 }},
		{"kernel without NUMA", map[string]string{node: "", "proc/meminfo": "MemTotal: 500 kB\nMemFree: 200 kB\nBuffers: 10 kB\nCached: 50 kB\nShmem: 20 kB\nSReclaimable: 5 kB\n"},
			"node0: the kernel shows no NUMA nodes", func(h *Host) bool {
				return len(h.Nodes) == 1 && h.Nodes[0].CPUs.Len() == 16 && h.Nodes[0].Memory == 500 && h.Nodes[0].Reclaimable == 45
			}},
		{"kernel without NUMA, nothing about memory", map[string]string{node: ""}, "node0: the kernel shows no NUMA nodes",
			func(h *Host) bool { return h.Nodes[0].Memory == None && h.Nodes[0].Kind == DRAM }},
		{"CPU on two nodes", map[string]string{node + "node1/cpulist": "0,2-3,10-11"}, "cpus: several nodes list CPUs 0",
			func(h *Host) bool { return h.Nodes[0].CPUs.Has(0) && !h.Nodes[1].CPUs.Has(0) }},
		{"cpumap instead of cpulist", map[string]string{node + "node1/cpulist": "", node + "node1/cpumap": "00000000,00000c0c"}, "",
			func(h *Host) bool { return h.Nodes[1].CPUs.String() == "2-3,10-11" }},
		{"no memory told", map[string]string{node + "node1/meminfo": ""}, "",
			func(h *Host) bool { return h.Nodes[1].Memory == None && h.Nodes[1].Free == None }},
		{"node without memory", map[string]string{node + "node1/meminfo": "Node 1 MemTotal: 0 kB\nNode 1 MemFree: 0 kB\n"}, "",
			func(h *Host) bool {
				return h.Nodes[1].Kind == NoMem && !h.AllowedMems.Has(1) && h.AllowedMems.Len() == 3
			}},
		{"node without CPUs", map[string]string{cpu + "online": "0-5,8-13"}, "",
			func(h *Host) bool {
				return h.Nodes[3].Kind == Special && h.Nodes[3].Package == None && h.Offline.String() == "6-7,14-15"
			}},
		{"SMT off", map[string]string{cpu + "online": "0-7"}, "", func(h *Host) bool { return len(h.Cores) == 8 && h.Offline.Len() == 8 }},
		{"CPU 0 offline", map[string]string{cpu + "online": "1-15"}, "", func(h *Host) bool { return h.Cores[7].CPUs.String() == "8" }},
		{"no CPU lists", map[string]string{cpu + "online": "", cpu + "present": "", cpu + "possible": "", cpu + "cpu3/online": "0"}, "",
			func(h *Host) bool { return h.Online.String() == "0-2,4-15" && h.Offline.String() == "3" }},
		{"no sibling files", map[string]string{cpu + "cpu1/topology/": "", cpu + "cpu9/topology/": ""}, "cores: the kernel does not show the SMT siblings of CPUs 1,9",
			func(h *Host) bool { return len(h.Cores) == 9 && h.Cores[1].Package == None }},
		{"siblings by mask", map[string]string{cpu + "cpu1/topology/core_cpus_list": "", cpu + "cpu1/topology/thread_siblings_list": "", cpu + "cpu1/topology/thread_siblings": "0202"}, "",
			func(h *Host) bool { return h.Cores[1].CPUs.String() == "1,9" }},
		{"sibling list of another CPU", map[string]string{cpu + "cpu1/topology/core_cpus_list": "4"}, "",
			func(h *Host) bool { return h.Cores[1].CPUs.String() == "1,9" }},
		{"siblings on two nodes", map[string]string{cpu + "cpu1/topology/core_cpus_list": "1-2"},
			"cores: CPUs 1-2 are SMT siblings on different nodes", func(h *Host) bool { return h.Cores[1].Node == 0 }},
		{"package unknown", map[string]string{cpu + "cpu1/topology/physical_package_id": "-1"}, "packages: the kernel does not show the package of 1 core",
			func(h *Host) bool { return h.Cores[1].Package == None && h.Nodes[0].Package == None }},
		{"no caches", map[string]string{cpu + "cpu0/cache/": "", cpu + "cpu1/cache/": "", cpu + "cpu8/cache/": "", cpu + "cpu9/cache/": ""},
			"llcs: the kernel shows no cache of CPUs 0-1,8-9", func(h *Host) bool { return len(h.LLCs) == 3 }},
		{"only data caches", map[string]string{cpu + "cpu0/cache/index2/type": "Data", cpu + "cpu1/cache/index2/type": "Data"}, "",
			func(h *Host) bool { return h.LLCs[0].Level == 3 && h.LLCs[0].CPUs.Len() == 4 }},
		{"cache without level", map[string]string{cpu + "cpu0/cache/index2/level": "high", cpu + "cpu0/cache/index0/shared_cpu_list": "0"},
			`cpu0: sys/devices/system/cpu/cpu0/cache/index2/level is "high"`, func(h *Host) bool { return h.LLCs[0].Level == 1 }},
		{"hybrid by capacity", func() map[string]string {
			m := map[string]string{}
			for i := range 16 {
				m[cpuPath(CPUID(i), "cpu_capacity")] = []string{"1000", "250"}[i/4%2]
			}
			return m
		}(), "", func(h *Host) bool { return h.Cores[0].Capacity == 1024 && h.Cores[7].Capacity == 256 }},
		{"hybrid by clock", clocks("5000000", "4800000", "3900000", "3900000"), "",
			func(h *Host) bool {
				return h.Cores[0].Capacity == 1024 && h.Cores[2].Capacity == 1024 && h.Cores[7].Capacity == 799
			}},
		{"favoured cores", clocks("5000000", "4800000", "4800000", "4800000"), "", func(h *Host) bool { return h.Cores[0].Capacity == None }},
		{"huge page folder of no size", map[string]string{node + "node0/hugepages/hugepages-xkB/nr_hugepages": "1"},
			"node0: sys/devices/system/node/node0/hugepages/hugepages-xkB does not name a page size", func(h *Host) bool { return len(h.Nodes[0].HugePages) == 1 }},
		{"more huge pages free than there are", map[string]string{node + "node0/hugepages/hugepages-2048kB/nr_hugepages": "3"}, "",
			func(h *Host) bool { return h.Nodes[0].HugePages[0].Free == 3 }},
		{"huge pages without free", map[string]string{node + "node0/hugepages/hugepages-2048kB/free_hugepages": ""}, "",
			func(h *Host) bool { return h.Nodes[0].HugePages[0].Free == None && h.Nodes[0].HugePages[0].Total == 4 }},
		{"confined", map[string]string{"proc/self/status": "Cpus_allowed_list:\t1-2,99\nMems_allowed_list:\t1\n"}, "",
			func(h *Host) bool { return h.Allowed.String() == "1-2" && h.AllowedMems.String() == "1" }},
		{"confined to what is gone", map[string]string{"proc/self/status": "Cpus_allowed_list:\t99\n"}, "allowed: this process may use CPUs 99, of which none runs",
			func(h *Host) bool { return h.Allowed.Equal(h.Online) }},
		{"confined by cgroup v1", map[string]string{"proc/self/status": "", "proc/self/cpuset": "/a/b", "proc/mounts": "cgroup /cg/cpuset cgroup rw,cpuset 0 0\n",
			"cg/cpuset/a/b/cpuset.cpus": "4-5", "cg/cpuset/a/b/cpuset.mems": "2"}, "",
			func(h *Host) bool { return h.Allowed.String() == "4-5" && h.AllowedMems.String() == "2" }},
		{"confined by the parent in cgroup v2", map[string]string{"proc/self/status": "", "proc/self/cpuset": "/a/b", "proc/mounts": "cgroup2 /cg cgroup2 rw 0 0\n",
			"cg/a/cpuset.cpus.effective": "6", "cg/a/cpuset.mems.effective": "3"}, "",
			func(h *Host) bool { return h.Allowed.String() == "6" && h.AllowedMems.String() == "3" }},
		{"confined by cpuset before cgroups", map[string]string{"proc/self/status": "", "proc/self/cpuset": "/x", "proc/mounts": "none /dev/cpuset cpuset rw 0 0\n",
			"dev/cpuset/x/cpus": "7", "dev/cpuset/x/mems": "0-1"}, "",
			func(h *Host) bool { return h.Allowed.String() == "7" && h.AllowedMems.String() == "0-1" }},
		{"group path that climbs", map[string]string{"proc/self/status": "", "proc/self/cpuset": "/../../etc", "proc/mounts": "cgroup2 /../.. cgroup2 rw 0 0\n"}, "",
			func(h *Host) bool { return h.Allowed.Equal(h.Online) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := mustSynthetic(t, "package:2 node:2(hugepages=2MiB:4) llc:1 core:2 pu:2")
			tree := fakeTree(host)
			for name := range tc.leaves {
				if name == node { // a kernel without NUMA has no links to nodes either
					maps.DeleteFunc(tree, func(n string, _ *fstest.MapFile) bool {
						return strings.Contains(n, "/node") && strings.Contains(n, "/cpu/cpu")
					})
				}
			}
			h, err := FromSysfs(change(tree, tc.leaves))
			if err != nil {
				t.Fatal(err)
			}
			sound(t, h)
			if !tc.check(h) {
				t.Errorf("wrong: %+v", h)
			}
			var notes []string
			for _, n := range h.Notes {
				notes = append(notes, n.Subject+": "+n.Text)
			}
			all := strings.Join(notes, "\n")
			if tc.note == "" && all != "" || !strings.Contains(all, tc.note) {
				t.Errorf("notes %q, want %q", all, tc.note)
			}
		})
	}
}

// clocks gives each node's CPUs a highest clock.
func clocks(khz ...string) map[string]string {
	m := map[string]string{}
	for i := range 16 {
		m[cpuPath(CPUID(i), "cpufreq/cpuinfo_max_freq")] = khz[i/2%4]
	}
	return m
}

func TestFromSysfsRefuses(t *testing.T) {
	const node, cpu = "sys/devices/system/node/", "sys/devices/system/cpu/"
	for _, tc := range []struct {
		name   string
		leaves map[string]string
		want   string
	}{
		{"no tree", map[string]string{cpu: ""}, "read sys/devices/system/cpu: no CPU found; want sys/ and proc/"},
		{"bad online", map[string]string{cpu + "online": "0-x"}, `read sys/devices/system/cpu/online: "0-x": want a list such as 0-3,8`},
		{"bad node list", map[string]string{node + "online": "3-1"}, "read sys/devices/system/node/online:"},
		{"bad cpulist", map[string]string{node + "node2/cpulist": "a"}, "read node2 CPUs: read sys/devices/system/node/node2/cpulist:"},
		{"bad memory", map[string]string{node + "node2/meminfo": "Node 2 MemTotal: -1 kB"}, `read node2 memory: sys/devices/system/node/node2/meminfo: MemTotal is "-1", want a number of KiB`},
		{"bad siblings", map[string]string{cpu + "cpu1/topology/core_cpus_list": "1;9"}, "read cpu1 SMT siblings: read sys/devices/system/cpu/cpu1/topology/core_cpus_list:"},
		{"bad package", map[string]string{cpu + "cpu1/topology/physical_package_id": "one"}, `read cpu1 package: physical_package_id is "one", want a number`},
		{"endless leaf", map[string]string{cpu + "online": strings.Repeat("0,", maxLeaf)}, "read sys/devices/system/cpu/online: larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := fakeTree(mustSynthetic(t, "package:2 node:2 llc:1 core:2 pu:2"))
			_, err := FromSysfs(change(tree, tc.leaves))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q in it", err, tc.want)
			}
			oneLineError(t, err)
		})
	}
}

func TestDevices(t *testing.T) {
	h := mustSynthetic(t, "package:2 node:2 core:2")
	tree := fakeTree(h)
	function := func(path, class, node, local string) {
		pci := path[strings.LastIndexByte(path, '/')+1:]
		tree[pciDir+"/"+pci] = &fstest.MapFile{Data: []byte("../../../devices/" + path), Mode: linkMode}
		for leaf, text := range map[string]string{"class": class, "numa_node": node, "local_cpulist": local} {
			if text != "" {
				tree["sys/devices/"+path+"/"+leaf] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
	}
	named := func(class, name, target string) {
		tree["sys/"+class+"/"+name] = &fstest.MapFile{Data: []byte("../../devices/" + target), Mode: linkMode}
	}
	function("pci0000:00/0000:00:1f.0", "0x060100", "0", "") // a bridge
	function("pci0000:00/0000:00:1f.2", "0x010601", "-1", "0-1")
	named("class/block", "sda", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda")
	named("class/block", "sda1", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1")
	named("class/block", "loop0", "virtual/block/loop0")
	function("pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0x020000", "1", "")
	named("class/net", "ens1f0np0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/ens1f0np0")
	named("class/infiniband", "mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband/mlx5_0")
	named("class/net", "lo", "virtual/net/lo")
	function("pci0000:3a/0000:3a:01.0/0000:3c:00.0", "0x020700", "9", "")
	function("pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0", "0x010802", "2", "")
	named("class/block", "nvme0n1", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1")
	named("class/block", "nvme0c0n1", "pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0/nvme0c0n1")
	named("class/nvme", "nvme0", "pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0")
	tree["sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0"] = &fstest.MapFile{Data: []byte("x"), Mode: linkMode}
	function("pci0000:80/0000:80:00.0", "0x010802", "3", "")
	named("class/nvme", "nvme1", "pci0000:80/0000:80:00.0/nvme/nvme1")
	function("pci0000:80/0000:80:01.0", "0x088000", "3", "")
	named("bus/dsa/devices", "dsa0", "pci0000:80/0000:80:01.0/dsa0")
	named("bus/dsa/devices", "wq0.1", "pci0000:80/0000:80:01.0/dsa0/wq0.1")
	function("pci0000:80/0000:80:02.0", "0x030000", "-1", "0-7")
	named("class/drm", "card0", "pci0000:80/0000:80:02.0/drm/card0")
	named("class/drm", "card0-VGA-1", "pci0000:80/0000:80:02.0/drm/card0/card0-VGA-1")
	function("pci0000:80/0000:80:03.0", "0x120000", "", "")
	function("pci0000:80/0000:80:04.0", "0x010000", "2", "")
	named("class/block", "vda", "pci0000:80/0000:80:04.0/virtio1/block/vda")

	got, err := FromSysfs(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := *h
	want.Devices = []Device{
		{Name: "sda", Kind: Storage, PCI: "0000:00:1f.2", Node: 0, Root: "pci0000:00"},
		{Name: "ens1f0np0", Kind: NIC, PCI: "0000:3b:00.0", Node: 1, Root: "pci0000:3a", Bridges: "0000:3a:00.0"},
		{Name: "mlx5_0", Kind: Accel, PCI: "0000:3b:00.0", Node: 1, Root: "pci0000:3a", Bridges: "0000:3a:00.0"},
		{Name: "0000:3c:00.0", Kind: Accel, PCI: "0000:3c:00.0", Node: None, Root: "pci0000:3a", Bridges: "0000:3a:01.0"},
		{Name: "nvme1", Kind: NVMe, PCI: "0000:80:00.0", Node: 3, Root: "pci0000:80"},
		{Name: "dsa0", Kind: Accel, PCI: "0000:80:01.0", Node: 3, Root: "pci0000:80"},
		{Name: "card0", Kind: GPU, PCI: "0000:80:02.0", Node: None, Root: "pci0000:80"},
		{Name: "0000:80:03.0", Kind: Accel, PCI: "0000:80:03.0", Node: None, Root: "pci0000:80", GPU: "gpu0"},
		{Name: "vda", Kind: Storage, PCI: "0000:80:04.0", Node: 2, Root: "pci0000:80"},
		{Name: "nvme0n1", Kind: NVMe, PCI: "10000:01:00.0", Node: 2, Root: "pci0000:5d", Bridges: "0000:5d:05.5/10000:00:02.0"},
	}
	if d := diff(&want, got, "Notes"); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	note := Note{"devices", "the firmware gives no usable node for 0000:3c:00.0 (node9 is not online), card0, 0000:80:03.0"}
	if len(got.Notes) == 0 || got.Notes[len(got.Notes)-1] != note {
		t.Errorf("notes %v, want %v last", got.Notes, note)
	}
	again, err := FromSysfs(unpacked(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(got, again); d != "" {
		t.Errorf("captured (-live +captured)\n%s", d)
	}
}

// What could name this machine, planted wherever a live tree has it, must not
// be in a capture.
func TestCaptureTakesNoNames(t *testing.T) {
	h := mustSynthetic(t, "package:1 core:2 pu:2")
	h.Devices = []Device{
		{Name: "enx525400abcdef", Kind: NIC, PCI: "0000:01:00.0", Node: 0, Root: "pci0000:00"},
		{Name: "secrethost-uplink", Kind: NIC, PCI: "0000:02:00.0", Node: 0, Root: "pci0000:00"},
		{Name: "eth3", Kind: NIC, PCI: "0000:03:00.0", Node: 0, Root: "pci0000:00"},
		{Name: "sda", Kind: Storage, PCI: "0000:04:00.0", Node: 0, Root: "pci0000:00"},
		{Name: "secretrdma", Kind: Accel, PCI: "0000:05:00.0", Node: 0, Root: "pci0000:00"},
	}
	tree := change(fakeTree(h), map[string]string{
		"proc/self/status":                "Name:\tsecret-process\nUid:\t0\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n",
		"proc/self/cgroup":                "0::/docker/secretcontainer",
		"proc/self/cpuset":                "/docker/secretcontainer",
		"proc/mounts":                     "secretserver:/home /home nfs rw 0 0\n",
		"proc/cmdline":                    "root=UUID=secretuuid",
		"proc/cpuinfo":                    "Serial\t: secretserial\n",
		"proc/meminfo":                    "MemTotal: 1 kB\n",
		"proc/sys/kernel/hostname":        "secrethost\n",
		"sys/class/dmi/id/product_serial": "secretserial\n",
		"sys/class/dmi/id/product_uuid":   "secretuuid\n",
		"sys/devices/pci0000:00/0000:01:00.0/net/x/address": "52:54:00:ab:cd:ef\n",
		"sys/devices/pci0000:00/0000:04:00.0/serial":        "secretserial\n",
		"sys/devices/pci0000:00/0000:04:00.0/wwid":          "secretwwid\n",
		"sys/devices/pci0000:00/0000:04:00.0/vpd":           "secretvpd\n",
		"sys/devices/system/cpu/cpu0/topology/ppin":         "0xsecret\n",
	})
	tree["sys/class/block/sda"] = &fstest.MapFile{Mode: linkMode,
		Data: []byte("../../devices/pci0000:00/0000:04:00.0/host0/session1/rport-secretwwn/target0:0:0/block/sda")}
	tree["sys/class/net/veth-secret"] = &fstest.MapFile{Mode: linkMode, Data: []byte("../../devices/virtual/net/veth-secret")}
	leaves, err := Capture(tree)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.ToLower(packed(t, leaves))
	for _, word := range []string{"secret", "525400", "52:54", "abcdef"} {
		if at := bytes.Index(all, []byte(word)); at >= 0 {
			t.Errorf("%q is in the capture: …%q…", word, all[max(0, at-60):min(len(all), at+40)])
		}
	}
	fsys, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, leaves))))
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromSysfs(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range got.Devices {
		names = append(names, d.Name)
	}
	if text := strings.Join(names, " "); text != "nic0 nic1 eth3 sda rdma2" {
		t.Errorf("devices are %q", text)
	}
}

func TestOpenCaptureRefuses(t *testing.T) {
	for name, leaves := range map[string][]Leaf{
		"no sys":      {{Name: "etc/passwd", Data: []byte("x")}},
		"name climbs": {{Name: "../sys/x", Data: []byte("x")}},
		"empty":       nil,
	} {
		if _, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, leaves)))); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := OpenCapture(tar.NewReader(strings.NewReader(strings.Repeat("not a tar ", 100)))); err == nil {
		t.Error("opened what is no tar")
	}
	// Links in a circle must not hang the reader.
	fsys, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, []Leaf{
		{Name: "sys/a", Link: "b"}, {Name: "sys/b", Link: "a"}, {Name: "sys/devices/system/cpu", Link: "../../a/x"},
		{Name: "sys/self", Link: "self/self"}, {Name: "sys/ok", Data: []byte("fine")},
	}))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FromSysfs(fsys); err == nil {
		t.Error("a host was found in circles")
	}
	if text, err := fs.ReadFile(fsys, "sys/ok"); string(text) != "fine" {
		t.Errorf("sys/ok: %q, %v", text, err)
	}
}

// A captured tree with a folder around sys/, as tar archives often have.
func TestOpenCaptureLooksThroughOneFolder(t *testing.T) {
	leaves, err := Capture(fakeTree(&fuzzHost))
	if err != nil {
		t.Fatal(err)
	}
	for i := range leaves {
		leaves[i].Name = "./machine/" + leaves[i].Name
	}
	fsys, err := OpenCapture(tar.NewReader(bytes.NewReader(packed(t, leaves))))
	if err != nil {
		t.Fatal(err)
	}
	h, err := FromSysfs(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(&fuzzHost, h); d != "" {
		t.Error(d)
	}
}

// written puts a tree on disk.
func written(t testing.TB, tree fstest.MapFS) fs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, f := range tree {
		file := dir + "/" + name
		if err := os.MkdirAll(file[:strings.LastIndexByte(file, '/')], 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if f.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(f.Data), file)
		} else {
			err = os.WriteFile(file, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(dir)
}

// big is two packages of four nodes each, 128 cores of two threads, 256 CPUs.
const big = "package:2 node:4(hugepages=2MiB:8,hugepages=1GiB:1) llc:2 core:8 pu:2"

func BenchmarkFromSysfs256(b *testing.B) {
	fsys := written(b, fakeTree(mustSynthetic(b, big)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromSysfs(fsys); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFree256(b *testing.B) {
	fsys := written(b, fakeTree(mustSynthetic(b, big)))
	h, err := FromSysfs(fsys)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadFree(fsys, h); err != nil {
			b.Fatal(err)
		}
	}
}

// The benchmark's promise as a count, which does not depend on the machine.
func TestFromSysfsReadsLittle(t *testing.T) {
	counted := &countingFS{FS: fakeTree(mustSynthetic(t, big)), opened: map[string]int{}}
	if _, err := FromSysfs(counted); err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, n := range counted.opened {
		total += n
		if n > 2 {
			t.Errorf("%s is opened %d times", name, n)
		}
	}
	// 128 cores: siblings and package each; 16 caches of 3 levels; 8 nodes.
	if total > 700 {
		t.Errorf("%d files are opened for 256 CPUs", total)
	}
}

type countingFS struct {
	fs.FS
	opened map[string]int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

func (c *countingFS) ReadLink(name string) (string, error) { return fs.ReadLink(c.FS, name) }

func (c *countingFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }
