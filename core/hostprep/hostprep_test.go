package hostprep

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func synthetic(t testing.TB, text string) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// published is two sockets of 20 cores with two threads, siblings 40 apart, nodes
// taking turns: 0 and 40 are a core of node 0, 1 and 41 one of node 1.
const published = "package:2 node:1(memory=192GiB hugepages=2MiB:100) core:20 pu:2 numbering=interleaved"

func TestReserve(t *testing.T) {
	tests := []struct {
		host string
		n    int
		want string
	}{
		{published, 1, "0-1,40-41"},
		{published, 2, "0-3,40-43"},
		{"package:2 node:1 core:20 pu:2", 1, "0,20,40,60"},
		{"node:2 core:4 pu:1", 1, "0,4"},
		{"node:2 core:2 pu:2", 5, "0,2,4,6"}, // a core of each node stays
		{"node:1 core:1 pu:2", 1, ""},
	}
	for _, tt := range tests {
		if got := Reserve(synthetic(t, tt.host), tt.n); got.String() != tt.want {
			t.Errorf("%s, %d a node: %v, want %q", tt.host, tt.n, got, tt.want)
		}
	}
}

func TestCheckReserve(t *testing.T) {
	h := synthetic(t, published)
	for list, want := range map[string]string{
		"0-1,40-41": "", "": "no CPU", "0-79": "none for guests", "0,80": "CPUs 80 are not on this host",
	} {
		set, _ := topology.ParseCPUSet(list)
		if err := CheckReserve(h, set); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	h.Online.Remove(1)
	h.Offline.Add(1)
	if err := CheckReserve(h, topology.CPUs(0, 1)); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Error(err)
	}
}

func TestCgroupOf(t *testing.T) {
	for unit, want := range map[string]string{
		"system.slice": "/system.slice", "init.scope": "/init.scope", "a-b-c.slice": "/a.slice/a-b.slice/a-b-c.slice",
		"": "", ".slice": "", "-.slice": "", "a--b.slice": "", "../x.slice": "", "x.service": "", "a-.slice": "", ".scope": "",
	} {
		if got := CgroupOf(unit); got != want {
			t.Errorf("%q: %q, want %q", unit, got, want)
		}
	}
}

// untouched is a tree of the published host as distributions leave it.
func untouched() fstest.MapFS {
	f := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/cmdline":                  "BOOT_IMAGE=/vmlinuz root=/dev/sda1 numa=off isolcpus=2-39 mitigations=off nohz_full=0-79",
		"proc/sys/vm/zone_reclaim_mode": "1", "proc/sys/vm/swappiness": "60", "proc/sys/vm/overcommit_memory": "2",
		"proc/sys/kernel/numa_balancing": "1", THP: "always madvise [never]", KSM: "1", "sys/kernel/mm/ksm/merge_across_nodes": "1",
		Workqueue: "ffff,ffffffff,ffffffff", Writeback: "ffff,ffffffff,ffffffff", DefaultIRQ: "ffff,ffffffff,ffffffff",
		"sys/fs/cgroup/cgroup.controllers":                     "cpuset cpu memory",
		"sys/fs/cgroup/cpuset.cpus.effective":                  "0-79",
		"sys/fs/cgroup/system.slice/cgroup.procs":              "1",
		"sys/fs/cgroup/user.slice/cgroup.procs":                "",
		"sys/fs/cgroup/user.slice/cpuset.cpus":                 "0-1,40-41",
		"sys/fs/cgroup/user.slice/cpuset.cpus.effective":       "0-1,40-41",
		"proc/irq/9/smp_affinity_list":                         "0-79",
		"proc/irq/9/node":                                      "1",
		"sys/kernel/irq/9/actions":                             "acpi",
		"proc/irq/10/smp_affinity_list":                        "7",
		"sys/kernel/irq/10/actions":                            "nvme0q7",
		"proc/irq/11/smp_affinity_list":                        "0-79",
		"sys/kernel/irq/11/actions":                            "",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_driver":   "acpi-cpufreq",
		"sys/module/kvm_intel/parameters/nested":               "Y",
		"proc/71/status":                                       "Uid:\t0\t0\t0\t0\n",
		"proc/71/comm":                                         "irqbalance",
		"proc/72/comm":                                         "agentd",
		"proc/74/comm":                                         "agentd", "proc/74/cgroup": "0::/system.slice/agentd.service", "proc/74/task/74/status": "Cpus_allowed_list:\t0-79\n",
		"proc/74/stat":           "74 (agentd) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4712 1 1",
		"proc/72/stat":           "72 (agentd) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 1",
		"proc/72/task/72/status": "Name:\tagentd\nCpus_allowed_list:\t0-1\n",
		"proc/72/task/73/status": "Name:\tagentd\nCpus_allowed_list:\t0-79\n",
	} {
		f[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return f
}

func TestJudge(t *testing.T) {
	h := synthetic(t, published)
	h.Nodes[1].HugePages = nil
	facts := Read(untouched(), h, HostSlices, []string{"agentd"})
	got := Judge(h, &facts, &Want{Reserve: topology.CPUs(0, 1, 40)})
	want := map[string]struct {
		severity measure.Severity
		why      words.Reason
	}{
		"numa=off":                  {measure.Defect, words.Because(words.NUMAOff)},
		"reserved CPUs":             {measure.Warning, words.Because(words.ReserveHalf, "41")},
		"system.slice":              {measure.Warning, words.Because(words.SliceOnGuests, 77, 77, "2-39,41-79")},
		"user.slice":                {measure.Warning, words.Because(words.SliceOnGuests, 1, 77, "41")},
		"agent agentd":              {measure.Warning, words.Because(words.AgentOnGuests, "2-39,41-79")},
		"unbound workqueues":        {measure.Warning, words.Because(words.KernelOnGuests, "2-39,41-79")},
		"writeback":                 {measure.Warning, words.Because(words.KernelOnGuests, "2-39,41-79")},
		"interrupts":                {measure.Warning, words.Because(words.IRQsOnGuests, 1, 2, "9 acpi")},
		"interrupts of NVMe queues": {measure.Info, words.Because(words.IRQsManaged, 1)},
		"huge pages":                {measure.Warning, words.Because(words.PoolUneven, []string{"node 0 100", "node 1 0"})},
		"isolcpus":                  {measure.Warning, words.Because(words.IsolatedGuests, "2-39")},
		"nohz_full":                 {measure.Info, words.Because(words.NohzReserve, "0-1,40")},
		"mitigations=off":           {measure.Warning, words.Because(words.MitigationsOff)},
		"transparent huge pages":    {measure.Info, words.Because(words.THPNever)},
		"KSM":                       {measure.Warning, words.Because(words.KSMAcross)},
		"zone_reclaim_mode":         {measure.Warning, words.Because(words.ZoneReclaim, 1)},
		"swappiness":                {measure.Info, words.Because(words.Swappy, 60)},
		"overcommit_memory":         {measure.Warning, words.Because(words.OvercommitStrict)},
		"irqbalance":                {measure.Warning, words.Because(words.IrqbalanceRuns)},
		"frequency governor":        {measure.Info, words.Because(words.GovernorSlow, "powersave")},
		"nested virtualization":     {measure.Info, words.Because(words.NestedOn)},
	}
	seen := map[string]Finding{}
	for _, f := range got {
		seen[f.Subject] = f
		if f.Where == "" || f.Says == "" || f.Severity == measure.Warning && f.Advice == "" || strings.ContainsAny(f.Says+f.Where+f.Advice, "\n") {
			t.Errorf("incomplete: %+v", f)
		}
	}
	for subject, w := range want {
		if f := seen[subject]; f.Severity != w.severity || f.Code != w.why.Code || f.Says != w.why.String() {
			t.Errorf("%s: %+v, want %s %q", subject, f, w.severity, w.why)
		}
	}
	if f, ok := seen["rcu_nocbs"]; ok {
		t.Errorf("nohz_full= has it for all CPUs: %+v", f)
	}
	all := untouched()
	all["proc/cmdline"] = &fstest.MapFile{Data: []byte("nohz_full=all\n")}
	facts = Read(all, h, HostSlices, nil)
	for _, f := range Judge(h, &facts, &Want{Reserve: topology.CPUs(0, 1, 40)}) {
		if f.Subject == "rcu_nocbs" {
			t.Errorf("nohz_full=all has it: %+v", f)
		}
	}
	if got[0].Subject != "numa=off" || ExitStatus(got) != 1 {
		t.Errorf("first %s, status %d", got[0].Subject, ExitStatus(got))
	}
}

// A host where all is as it should be has nothing to warn of.
func TestJudgeOfAGoodHost(t *testing.T) {
	h := synthetic(t, published)
	tree := untouched()
	for name, text := range map[string]string{
		"proc/cmdline": "nohz_full=2-39,42-79 rcu_nocbs=2-39,42-79", "proc/sys/vm/zone_reclaim_mode": "0", "proc/sys/vm/overcommit_memory": "0", KSM: "0", "proc/71/comm": "bash",
		Workqueue: "300,00000003", Writeback: "300,00000003", DefaultIRQ: "300,00000003", "proc/irq/9/smp_affinity_list": "1,41",
		"sys/fs/cgroup/system.slice/cpuset.cpus": "0-1,40-41", "sys/fs/cgroup/system.slice/cpuset.cpus.effective": "0-1,40-41",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	want := Want{Reserve: topology.CPUs(0, 1, 40, 41), Interrupts: true}
	facts := Read(tree, h, HostSlices, nil)
	for _, f := range Judge(h, &facts, &want) {
		if f.Severity != measure.Healthy && f.Severity != measure.Info {
			t.Errorf("%+v", f)
		}
	}
	// The one interrupt that a CPU's queue has to itself is the kernel's, which only a try tells.
	steps, notes := Steps(h, &facts, &want, nil)
	if len(steps) != 1 || !strings.HasPrefix(steps[0].Target.Host, "10/nvme0q7") || len(notes) != 0 {
		t.Errorf("%+v %v", steps, notes)
	}
}

// What cannot be read is said to be unknown, never taken for good or bad.
func TestNothingIsKnown(t *testing.T) {
	h := synthetic(t, published)
	facts := Read(fstest.MapFS{}, h, HostSlices, nil)
	for _, f := range Judge(h, &facts, &Want{Reserve: topology.CPUs(0, 1, 40, 41)}) {
		if f.Severity != measure.Info && f.Subject != "reserved CPUs" || f.Severity == measure.Info && !strings.Contains(f.Says, "unknown") {
			t.Errorf("%+v", f)
		}
	}
	if steps, _ := Steps(h, &facts, &Want{Reserve: topology.CPUs(0), Interrupts: true, THP: "never", KSM: "0"}, nil); len(steps) != 1 || steps[0].Target.Host != THP {
		t.Errorf("%+v", steps)
	}
}

// A reserve that is all of a node is told of.
func TestReserveTakesANode(t *testing.T) {
	h := synthetic(t, published)
	whole := h.Nodes[1].CPUs
	for _, tt := range []struct {
		reserve topology.CPUSet
		notes   int
	}{{whole, 1}, {whole.Minus(topology.CPUs(whole.Min())), 0}} {
		if _, notes := Steps(h, &Facts{}, &Want{Reserve: tt.reserve}, nil); len(notes) != tt.notes || tt.notes > 0 && notes[0].Code != words.NodeAllReserved {
			t.Errorf("%v: %q", tt.reserve, notes)
		}
	}
}

func TestSteps(t *testing.T) {
	h := synthetic(t, published)
	tree := untouched()
	facts := Read(tree, h, append([]string{"gone.slice"}, HostSlices...), []string{"agentd", "none"})
	if fmt.Sprint(facts.Missing) != "[gone.slice init.scope]" {
		t.Errorf("missing: %v", facts.Missing)
	}
	want := Want{Reserve: topology.CPUs(0, 1, 40, 41), Interrupts: true, THP: "madvise", KSM: "0", HugePages: []Pages{{0, 2048, 100}, {1, 2048, 512}}}
	show := func() string {
		steps, _ := Steps(h, &facts, &want, nil)
		var b strings.Builder
		for _, s := range steps {
			if s.Workload != ID || s.Reason.None() {
				t.Errorf("%+v", s)
			}
			fmt.Fprintf(&b, "%s %s: %s → %s\n", s.Kind, s.Target.Name(), s.From, s.To)
		}
		return b.String()
	}
	const rest = `set-cpus PID 72: 0-79 → 0-1,40-41
set-file sys/devices/virtual/workqueue/cpumask: 0-79 → 0-1,40-41
set-file sys/devices/virtual/workqueue/writeback/cpumask: 0-79 → 0-1,40-41
set-file proc/irq/default_smp_affinity: 0-79 → 0-1,40-41
set-irq 9/acpi: 0-79 → 1,41
set-irq 10/nvme0q7: 7 → 0-1,40-41
set-file sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages: 100 → 512
set-file sys/kernel/mm/transparent_hugepage/enabled: never → madvise
set-file sys/kernel/mm/ksm/run: 1 → 0
`
	if got := show(); got != "set-cpus /system.slice:  → 0-1,40-41\n"+rest {
		t.Errorf("without systemd:\n%s", got)
	}
	facts.Systemd = true
	if got := show(); got != "set-unit system.slice:  → 0-1,40-41\n"+rest {
		t.Errorf("with systemd:\n%s", got)
	}
}

// A guest below a slice is found, whoever started it; containers beside it are none.
func TestGuestBelow(t *testing.T) {
	f := fstest.MapFS{}
	for _, dir := range []string{`machine.slice/machine-qemu\x2d1\x2dweb.scope/libvirt`, "machine.slice/libpod-12.scope", "docker/12ab", "qemu.slice/100.scope", "old.slice/machine/qemu-1-a.libvirt-qemu", "system.slice/7.scope"} {
		f["sys/fs/cgroup/"+dir+"/cgroup.procs"] = &fstest.MapFile{}
	}
	for cgroup, want := range map[string]string{"/machine.slice": `/machine.slice/machine-qemu\x2d1\x2dweb.scope`, "/machine.slice/libpod-12.scope": "", "/docker": "", "/qemu.slice": "/qemu.slice/100.scope",
		"/old.slice": "/old.slice/machine/qemu-1-a.libvirt-qemu", "/system.slice": "", "/none.slice": ""} {
		if got := GuestBelow(f, cgroup); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
	for name, want := range map[string]string{"/docker": "[]", "/docker/*": "[/docker/12ab]", "/machine.slice/libpod-*": "[/machine.slice/libpod-12.scope]"} {
		if got := fmt.Sprint(Cgroups(f, name)); name != "/docker" && got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]bool{"/docker": true, "/machine.slice/libpod-*": true, "docker": false, "/": false, "/..": false, "/a/../b": false, "/[": false, "": false} {
		if got := IsPath(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

// Containers of Docker under its driver cgroupfs, and of Podman beside guests, are confined by
// their cgroups, also where systemd runs: they are no units of it.
func TestContainersOfAgents(t *testing.T) {
	f := untouched()
	f["run/systemd/system"] = &fstest.MapFile{Mode: fs.ModeDir}
	for _, dir := range []string{"docker", "machine.slice/libpod-12.scope", "machine.slice/machine-qemu-1.scope"} {
		f["sys/fs/cgroup/"+dir+"/cgroup.procs"] = &fstest.MapFile{}
	}
	h := synthetic(t, published)
	facts := Read(f, h, []string{"/docker", "/machine.slice/libpod-*", "/absent"}, nil)
	steps, _ := Steps(h, &facts, &Want{Reserve: topology.CPUs(0, 1, 40, 41)}, nil)
	var got []string
	for _, s := range steps {
		if s.Kind == plan.SetCPUs || s.Kind == plan.SetUnit {
			got = append(got, fmt.Sprint(s.Kind, " ", s.Target.Name(), " ", s.To))
		}
	}
	if want := "[set-cpus /docker 0-1,40-41 set-cpus /machine.slice/libpod-12.scope 0-1,40-41]"; fmt.Sprint(got) != want || fmt.Sprint(facts.Missing) != "[/absent]" {
		t.Errorf("%v, missing %v; want %s", got, facts.Missing, want)
	}
}

func TestInTheWay(t *testing.T) {
	placed := []plan.Placement{
		{Workload: "/machine.slice/a", Class: workload.Shared, CPUs: topology.CPUs(0, 1)},
		{Workload: "vm:b", Class: workload.Dedicated, CPUs: topology.CPUs(4), Idle: topology.CPUs(5)},
		{Workload: "/system.slice/c", Class: workload.Shared, CPUs: topology.CPUs(8)},
	}
	for _, tt := range []struct {
		reserve, slice string
		want           words.Reason
	}{
		{"0-1", "/user.slice", words.Reason{}}, {"4", "/user.slice", words.Because(words.ReserveTaken, "4", "vm:b")}, {"5", "/x.slice", words.Because(words.ReserveTaken, "5", "vm:b")},
		{"0", "/system.slice", words.Because(words.HomeInSlice, "/system.slice/c", "8", "/system.slice", "0")}, {"0,8", "/system.slice", words.Reason{}}, {"0", "/system", words.Reason{}},
	} {
		reserve, _ := topology.ParseCPUSet(tt.reserve)
		if got := InTheWay(placed, reserve, []string{tt.slice}); !got.Equal(tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestParsePages(t *testing.T) {
	h := synthetic(t, published)
	if p, err := ParsePages(h, "1:2MiB:512"); err != nil || p != (Pages{1, 2048, 512}) {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"": "NODE:SIZE:COUNT", "1:2MiB": "NODE:SIZE:COUNT", "x:2MiB:1": "NODE:SIZE:COUNT", "1:2MiB:-1": "NODE:SIZE:COUNT", "7:2MiB:1": "no node 7",
		"1:1GiB:1": "no pool", "1:2MiB:9223372036854775807": "GiB of memory", "0:2MiB:98305": "GiB of memory",
	} {
		if _, err := ParsePages(h, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// On any host the default reserve is whole cores and leaves every node one; every
// step leads into the reserve; carried out, nothing is left to do.
func TestStepsOnAnyHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := plantest.State(4).Draw(t, "host").Host
		reserve := Reserve(h, rapid.IntRange(1, 3).Draw(t, "cores"))
		if reserve.Empty() {
			return
		}
		if err := CheckReserve(h, reserve); err != nil || !halves(h, reserve).Empty() {
			t.Fatalf("reserve %v: %v", reserve, err)
		}
		any := rapid.Custom(func(t *rapid.T) topology.CPUSet {
			return topology.SetOf(rapid.SliceOfN(rapid.SampledFrom(h.Online.Slice()), 1, 5).Draw(t, "CPUs")...)
		})
		f := Facts{Systemd: rapid.Bool().Draw(t, "systemd"), CgroupV2: true}
		m := any.Draw(t, "mask")
		f.Workqueue, f.Default = &m, &m
		for i := range rapid.IntRange(0, 3).Draw(t, "slices") {
			f.Slices = append(f.Slices, Slice{Name: HostSlices[i], Cgroup: "/" + HostSlices[i], CPUs: any.Draw(t, "slice").String()})
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "interrupts") {
			f.Interrupts = append(f.Interrupts, Interrupt{i, "x", topology.NodeID(rapid.IntRange(-1, 9).Draw(t, "node")), any.Draw(t, "affinity")})
		}
		device := irq.Device{Name: "eth0", Kind: topology.NIC, PCI: "0000:01:00.0", Node: h.Nodes[0].ID}
		for i := range rapid.IntRange(0, 5).Draw(t, "queues") {
			device.Interrupts = append(device.Interrupts, irq.Interrupt{Number: 100 + i, Name: fmt.Sprint("eth0-", i), CPUs: any.Draw(t, "affinity")})
		}
		w := Want{Reserve: reserve, Interrupts: true}
		steps, _ := Steps(h, &f, &w, []irq.Device{device})
		for _, s := range steps {
			to, err := topology.ParseCPUSet(s.To)
			if err != nil || to.Empty() || !to.SubsetOf(reserve) || s.Workload != ID {
				t.Fatalf("%+v: not in %v", s, reserve)
			}
			switch { // carry it out
			case s.Kind == plan.SetFile:
				f.Workqueue, f.Default = &to, &to
			case s.Target.Device != "":
				for i := range device.Interrupts {
					if s.Target.Device == fmt.Sprintf("0000:01:00.0/%d", device.Interrupts[i].Number) {
						device.Interrupts[i].CPUs = to
					}
				}
			case s.Kind == plan.SetIRQ:
				for i := range f.Interrupts {
					if strings.HasPrefix(s.Target.Host, fmt.Sprintf("%d/", i)) {
						f.Interrupts[i].CPUs = to
					}
				}
			default:
				for i := range f.Slices {
					if s.Target.Host == f.Slices[i].Name || s.Target.Cgroup == f.Slices[i].Cgroup {
						f.Slices[i].CPUs = to.String()
					}
				}
			}
		}
		if left, _ := Steps(h, &f, &w, []irq.Device{device}); len(left) > 0 {
			t.Fatalf("left to do: %+v", left)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("isolcpus=managed_irq,domain,2-39 nohz_full=all numa=off", "0-3,8", "ff,ffffffff")
	f.Fuzz(func(t *testing.T, cmdline, list, mask string) {
		h := synthetic(t, published)
		tree := untouched()
		for name, text := range map[string]string{
			"proc/cmdline": cmdline, "sys/fs/cgroup/system.slice/cpuset.cpus": list, "proc/irq/9/smp_affinity_list": list,
			Workqueue: mask, DefaultIRQ: mask, "proc/72/stat": list, "proc/72/task/72/status": mask, THP: mask,
		} {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		facts := Read(fs.FS(tree), h, HostSlices, []string{"agentd"})
		Judge(h, &facts, &Want{})
		Steps(h, &facts, &Want{Reserve: topology.CPUs(0, 40), Interrupts: true}, nil)
	})
}

// What is captured is judged as the machine itself, but for interrupts and processes.
func TestCaptureIsJudgedAlike(t *testing.T) {
	h := synthetic(t, published)
	live := untouched()
	for name := range live {
		if strings.HasPrefix(name, "proc/irq/") && name != DefaultIRQ || strings.HasPrefix(name, "proc/7") {
			delete(live, name)
		}
	}
	captured := fstest.MapFS{}
	for _, leaves := range [][]topology.Leaf{doctor.Capture(live), Capture(live)} {
		for _, l := range leaves {
			if captured[l.Name] != nil {
				t.Errorf("%s is taken twice", l.Name)
			}
			captured[l.Name] = &fstest.MapFile{Data: l.Data}
		}
	}
	judge := func(tree fs.FS) string {
		facts := Read(tree, h, HostSlices, nil)
		return fmt.Sprintf("%+v", Judge(h, &facts, &Want{Reserve: topology.CPUs(0, 40)}))
	}
	if a, b := judge(live), judge(captured); a != b {
		t.Errorf("live\n%s\ncaptured\n%s", a, b)
	}
	if text := string(captured["proc/cmdline"].Data); strings.Contains(text, "root") || !strings.Contains(text, "isolcpus=2-39") {
		t.Errorf("command line: %s", text)
	}
}
