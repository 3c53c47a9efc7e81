package doctor

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

func dimmBytes(size, mts uint16, locator, bank string) []byte {
	b := make([]byte, 0x28)
	b[0], b[1], b[0x10], b[0x11] = 17, 0x28, 1, 2
	b[0x0c], b[0x0d] = byte(size), byte(size>>8)
	b[0x20], b[0x21] = byte(mts), byte(mts>>8)
	return append(b, []byte(locator+"\x00"+bank+"\x00\x00")...)
}

// Gather finds what other hands do to NUMA, on a made-up machine of two nodes.
func TestGather(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=64GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Nodes[0].HugePages = []topology.HugePool{{Size: 2048, Total: 512, Free: 12}}
	h.Nodes[1].HugePages = []topology.HugePool{{Size: 2048, Total: 0, Free: 0}}
	h.Devices = []topology.Device{
		{Name: "eth0", Kind: topology.NIC, PCI: "0000:81:00.0", Node: 1}, {Name: "eth1", Kind: topology.NIC, PCI: "0000:01:00.0", Node: topology.None},
	}
	srat, err := os.ReadFile("../topology/acpi/testdata/hmat/SRAT")
	if err != nil {
		t.Fatal(err)
	}
	hmat, err := os.ReadFile("../topology/acpi/testdata/hmat/HMAT")
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/cmdline":                                                  "quiet numa=off root=/dev/sda numa_balancing=disable\n",
		"proc/cpuinfo":                                                  "model name\t: Test CPU\nflags\t\t: fpu hypervisor sse\nmicrocode\t: 0x1\n",
		"proc/sys/kernel/numa_balancing":                                "1\n",
		"proc/sys/kernel/osrelease":                                     "6.12.0\n",
		"proc/sys/vm/zone_reclaim_mode":                                 "1\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                    "always madvise [never]\n",
		"proc/17/status":                                                rootStatus,
		"proc/18/status":                                                rootStatus,
		"proc/17/comm":                                                  "irqbalance\n",
		"proc/18/comm":                                                  "numad\n",
		"proc/self/comm":                                                "homenode\n",
		"var/lib/kubelet/cpu_manager_state":                             `{"policyName":"static","defaultCpuSet":"0-3"}`,
		"var/lib/kubelet/memory_manager_state":                          `{"policyName":"None"}`,
		"run/libvirt/qemu/a.xml":                                        "<domstatus><vcpupin vcpu='0' cpuset='1'/></domstatus>",
		"run/libvirt/qemu/b.xml":                                        "<domstatus></domstatus>",
		"sys/bus/pci/devices/0000:81:00.0/msi_irqs/40":                  "msix",
		"sys/bus/pci/devices/0000:81:00.0/msi_irqs/41":                  "msix",
		"sys/bus/pci/devices/0000:81:00.0/msi_irqs/42":                  "msix",
		"proc/irq/40/effective_affinity_list":                           "0\n",
		"proc/irq/41/smp_affinity_list":                                 "1-2\n",
		"proc/irq/42/effective_affinity_list":                           "5\n",
		"sys/firmware/acpi/tables/SRAT":                                 string(srat),
		"sys/firmware/acpi/tables/HMAT":                                 string(hmat),
		"sys/firmware/acpi/tables/SLIT":                                 "broken",
		"sys/firmware/dmi/entries/17-0/raw":                             string(dimmBytes(16384, 3200, "CPU1_DIMM_A1", "")),
		"sys/firmware/dmi/entries/17-1/raw":                             string(dimmBytes(0, 0, "CPU1_DIMM_B1", "")),
		"sys/firmware/dmi/entries/17-2/raw":                             string(dimmBytes(16384, 3200, "CPU2_DIMM_A1", "")),
		"sys/firmware/dmi/entries/17-3/raw":                             string(dimmBytes(16384, 3200, "CPU2_DIMM_B1", "")),
		"sys/devices/system/node/node0/distance":                        "10 10\n",
		"sys/devices/system/node/node1/distance":                        "10 10\n",
		"sys/devices/system/node/node0/access0/initiators/read_latency": "80\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	d := Gather(fsys, h)
	if d.Host.Virt != "vm" || d.Host.CPU != "Test CPU" || !slices.Equal(d.Host.CmdlineNUMA, []string{"numa=off", "numa_balancing=disable"}) {
		t.Errorf("host %+v", d.Host)
	}
	if f := d.Firmware; f == nil || len(f.Domains) != 3 || f.SLIT != nil || f.HMATLatency.At(0, 2) != 400 || f.HMATMBs.At(0, 2).Known() == false {
		t.Errorf("firmware %+v", f)
	}
	s := d.Settings
	if *s.Balancing != 1 || *s.ZoneReclaim != 1 || s.THP != "never" || len(s.HugePages) != 1 || s.HugePages[0].Total[0] != 512 {
		t.Errorf("settings %+v", s)
	}
	want := []measure.Manager{
		{Name: "irqbalance", Does: "spreads interrupts over CPUs", Owns: "the affinity of interrupts"},
		{Name: "kernel NUMA balancing", Does: "moves pages to the node whose CPUs use them, within CPU sets and memory nodes"},
		{Name: "kubelet", Does: "static CPU manager policy", Owns: "pods"},
		{Name: "numad", Does: "moves processes and their memory between nodes", Owns: "the CPUs and the memory of every workload"},
		{Name: "libvirt", Does: "pins CPUs or memory of 1 running guest", Owns: "guests pinned by hand"},
	}
	if !reflect.DeepEqual(s.Managers, want) {
		t.Errorf("managers %+v", s.Managers)
	}
	if !slices.Equal(s.Queues, []measure.Queues{{Device: "eth0", Kind: "nic", Node: 1, Total: 3, Away: 2}}) {
		t.Errorf("queues %+v", s.Queues)
	}
	for i, c := range []struct{ full, all int }{{1, 2}, {2, 2}} {
		n := d.Nodes[i]
		if n.Channels == nil || *n.Channels != c.full || *n.MaxChannel != c.all || n.ChannelMBs != 25600 {
			t.Errorf("node%d channels %v of %v at %v MB/s", n.ID, n.Channels, n.MaxChannel, n.ChannelMBs)
		}
	}
	if d.SLIT.At(0, 1) != 10 || d.Nodes[0].HMATLatency != 80 {
		t.Errorf("SLIT %v, HMAT %v", d.SLIT, d.Nodes[0].HMATLatency)
	}
	if x := Diagnose(d, DefaultLimits); ExitStatus(x) != 1 || len(x.Findings) != 9 {
		t.Errorf("%s, %d findings: %+v", x.State, len(x.Findings), x.Findings)
	}
}

// Who has containers on a host with cgroup v1 is told what becomes of them there.
func TestCgroupV1(t *testing.T) {
	for cgroups, v1 := range map[string]bool{
		"4:memory:/x\n3:cpuset:/x\n0::/x\n":                    true,
		"2:cpuset,cpu,cpuacct:/\n1:name=systemd:/user.slice\n": true,
		"1:name=systemd:/user.slice\n0::/user.slice\n":         false,
		"0::/cpuset:/cpuset\n":                                 false,
		"":                                                     false,
	} {
		d := &measure.Document{Settings: gatherSettings(fstest.MapFS{"proc/self/cgroup": {Data: []byte(cgroups)}}, &topology.Host{})}
		x := Diagnose(d, DefaultLimits)
		told := slices.ContainsFunc(x.Findings, func(f measure.Finding) bool {
			return f.Subject == "cgroups" && f.Severity == measure.Info && strings.Contains(f.Says, "version 1") && strings.Contains(f.Advice, "systemd.unified_cgroup_hierarchy=1")
		})
		if told != v1 {
			t.Errorf("%q: %+v", cgroups, x.Findings)
		}
	}
}

// TestSchedExt: whoever has sched_ext is told whether a scheduler is loaded, and whose.
func TestSchedExt(t *testing.T) {
	const state, ops = "sys/kernel/sched_ext/state", "sys/kernel/sched_ext/root/ops"
	for _, tt := range []struct {
		files map[string]string
		want  string // of the finding; "" for none
	}{
		{nil, ""},
		{map[string]string{state: "disabled\n"}, "takes a scheduler"},
		{map[string]string{state: "enabled\n", ops: "homenode\n"}, "homenode's scheduler"},
		{map[string]string{state: "enabled\n", ops: "lavd\n"}, "lavd is loaded"},
	} {
		fsys := fstest.MapFS{}
		for name, text := range tt.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		x := Diagnose(&measure.Document{Settings: gatherSettings(fsys, &topology.Host{})}, DefaultLimits)
		k := slices.IndexFunc(x.Findings, func(f measure.Finding) bool { return f.Subject == "sched_ext" })
		if (k >= 0) != (tt.want != "") || k >= 0 && !strings.Contains(x.Findings[k].Says, tt.want) {
			t.Errorf("%v: %+v", tt.files, x.Findings)
		}
	}
}

// Without SMBIOS the kernel's memory controllers tell the filled channels, and
// the verdict on lopsided memory names them.
func TestGatherEDAC(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=64GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Nodes[1].Memory /= 2
	const mc = "sys/devices/system/edac/mc/mc"
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"0/dimm0/dimm_location": "channel 0 slot 0 \n", "0/dimm0/size": "16384\n",
		"0/dimm1/dimm_location": "channel 0 slot 1 \n", "0/dimm1/size": "16384\n",
		"0/dimm2/dimm_location": "channel 1 slot 0 \n", "0/dimm2/size": "16384\n",
		"1/dimm0/dimm_location": "channel 0 slot 0 \n", "1/dimm0/size": "16384\n",
		"2/dimm0/dimm_location": "channel 0 slot 0 \n", "2/dimm0/size": "16384\n",
		"2/dimm1/dimm_location": "channel 1 slot 0 \n", "2/dimm1/size": "0\n",
		"3/mc_name": "Skylake Socket#1 IMC#1\n",
	} {
		fsys[mc+name] = &fstest.MapFile{Data: []byte(text)}
	}
	d := Gather(fsys, h)
	for i, want := range []int{3, 1} {
		if c := d.Nodes[i].Channels; c == nil || *c != want || d.Nodes[i].MaxChannel != nil {
			t.Errorf("node%d: channels %v, want %d filled", i, c, want)
		}
	}
	x := Diagnose(d, DefaultLimits)
	if x.State != AsymmetricDIMMs || !strings.Contains(x.Verdicts[0].Says, "node0 has memory in 3 channels; node1 has memory in 1 channel.") {
		t.Errorf("%s: %s", x.State, x.Verdicts[0].Says)
	}
	delete(fsys, mc+"3/mc_name") // three controllers on two packages: nothing is said
	if d := Gather(fsys, h); d.Nodes[0].Channels != nil {
		t.Errorf("channels %d of three controllers", *d.Nodes[0].Channels)
	}
}

// The fingerprint changes with what a measurement depends on, and with nothing else.
func TestFingerprint(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=64GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	base := fstest.MapFS{"proc/cmdline": &fstest.MapFile{Data: []byte("quiet")}, "proc/loadavg": &fstest.MapFile{Data: []byte("1")}}
	first := measure.Fingerprint(base, h)
	base["proc/loadavg"] = &fstest.MapFile{Data: []byte("2")}
	h.Nodes[0].Free = 17
	if measure.Fingerprint(base, h) != first {
		t.Error("load or free memory change it")
	}
	seen := map[string]string{first: "the first"}
	change := func(what string, f func()) {
		f()
		p := measure.Fingerprint(base, h)
		if was := seen[p]; was != "" {
			t.Errorf("%s gives the same as %s", what, was)
		}
		seen[p] = what
	}
	change("numa=off", func() { base["proc/cmdline"] = &fstest.MapFile{Data: []byte("numa=off")} })
	change("a BIOS", func() { base["sys/class/dmi/id/bios_version"] = &fstest.MapFile{Data: []byte("2")} })
	change("DIMMs", func() { h.Nodes[1].Memory *= 2 })
	change("memory blocks", func() {
		base["sys/devices/system/memory/block_size_bytes"] = &fstest.MapFile{Data: []byte("8000000")}
		base["sys/devices/system/node/node0/memory32/state"] = &fstest.MapFile{Data: []byte("online")}
	})
	change("a memory block more", func() {
		base["sys/devices/system/node/node0/memory33/state"] = &fstest.MapFile{Data: []byte("online")}
	})
	// Pages given to the kernel late, or taken by a balloon, are the same DIMMs.
	blocks := measure.Fingerprint(base, h)
	if h.Nodes[0].Memory += 3 << 20; measure.Fingerprint(base, h) != blocks {
		t.Error("MemTotal changes it although the memory blocks are the same")
	}
	change("a kernel", func() { base["proc/sys/kernel/osrelease"] = &fstest.MapFile{Data: []byte("7.0")} })
	change("a CPU taken away", func() { h.Online.Remove(3) })
}

func FuzzParseDIMM(f *testing.F) {
	f.Add(dimmBytes(16384, 3200, "CPU1_DIMM_A1", "BANK 0"))
	f.Add([]byte{17, 0x15})
	f.Fuzz(func(t *testing.T, raw []byte) { parseDIMM(raw) })
}

// By what locality can be known is told for what is there, and never makes a machine worse.
func TestLocalitySources(t *testing.T) {
	zero := 0
	for _, tt := range []struct {
		name      string
		files     map[string]string
		balancing *int
		want      string
	}{
		{"guest", map[string]string{"software/type": "1"}, &zero, "accesses can be followed by residence (CPU time × memory); there are no hardware counters, as in most guests; traffic by nothing but estimates"},
		{"server", map[string]string{"cpu/type": "4", "uncore_imc_0/events/cas_count_read": "event=4", "uncore_imc_free_running/type": "9"}, nil,
			"accesses can be followed by hardware counters (cpu), residence (CPU time × memory); traffic by 1 memory controllers' counters"},
	} {
		fsys := fstest.MapFS{}
		for name, text := range tt.files {
			fsys[pmus+"/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		d := &measure.Document{Settings: &measure.Settings{Balancing: tt.balancing, Counters: counters(fsys)}}
		found := findings(d)
		if len(found) != 1 || found[0].Says != tt.want || found[0].Severity == measure.Warning {
			t.Errorf("%s: %+v", tt.name, found)
		}
	}
	if counters(fstest.MapFS{}) != nil {
		t.Error("a tree without perf events tells of counters")
	}
}

// Where guests that homenode bound run, libvirt is to ask homenode about those that come in.
func TestHookIsMissing(t *testing.T) {
	const ours = `<domstatus><metadata><homenode:guest xmlns:homenode="https://github.com/homenode/homenode/libvirt/1"/></metadata></domstatus>`
	for _, tt := range []struct {
		name  string
		files map[string]string
		told  bool
	}{
		{"no guest", nil, false},
		{"somebody else's guest", map[string]string{"run/libvirt/qemu/a.xml": "<domstatus/>"}, false},
		{"ours", map[string]string{"run/libvirt/qemu/a.xml": "<domstatus/>", "run/libvirt/qemu/b.xml": ours}, true},
		{"another's hook", map[string]string{"run/libvirt/qemu/b.xml": ours, "etc/libvirt/hooks/qemu": "#!/bin/sh\n"}, true},
		{"the hook", map[string]string{"run/libvirt/qemu/b.xml": ours, "etc/libvirt/hooks/qemu.d/homenode": "exec '/usr/bin/homenode' vm hook\n"}, false},
	} {
		fsys := fstest.MapFS{}
		for name, text := range tt.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		x := Diagnose(&measure.Document{Settings: gatherSettings(fsys, &topology.Host{})}, DefaultLimits)
		told := slices.ContainsFunc(x.Findings, func(f measure.Finding) bool { return strings.Contains(f.Advice, "homenode vm hook --install") })
		if told != tt.told {
			t.Errorf("%s: %+v", tt.name, x.Findings)
		}
	}
}
