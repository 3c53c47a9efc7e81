package irq

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

func host(t testing.TB, synthetic string) *topology.Host {
	h, err := topology.FromSynthetic(synthetic)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func set(t testing.TB, list string) topology.CPUSet {
	s, err := topology.ParseCPUSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawn is steps as lines, without the reasons.
func drawn(steps []plan.Step) string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, fmt.Sprintf("%s %s %s→%s", s.Kind, s.Target.Device, s.From, s.To))
	}
	return strings.Join(lines, "\n")
}

// With match every NIC gets as many queues as it has and as there are CPUs for them,
// before anything else; with keep none.
func TestQueueCounts(t *testing.T) {
	for _, tt := range []struct {
		now, most int
		avoid     string
		want      string
	}{
		{8, 8, "", "set-queues p/eth0 8→4"},
		{1, 63, "2", "set-queues p/eth0 1→3"},
		{1, 2, "", "set-queues p/eth0 1→2"},
		{4, 63, "", ""},
		{2, 2, "", ""},
		{8, 8, "2-3,6-7", ""}, // no CPU is left
	} {
		d := []Device{{Name: "eth0", PCI: "p", Node: 1, Kind: topology.NIC, Channels: []Channels{{"eth0", tt.now, tt.most}},
			Interrupts: []Interrupt{{Number: 1, Name: "eth0-TxRx-0", CPUs: set(t, "0")}}}}
		h, avoid := host(t, smt), set(t, tt.avoid)
		p := Decide(h, avoid, d, MatchQueues)
		first, _, _ := strings.Cut(drawn(p.Steps), "\n")
		if !strings.HasPrefix(first, "set-queues") {
			first = ""
		}
		if first != tt.want || p.Reports[0].Queues != tt.now || p.Reports[0].MostQueues != tt.most {
			t.Errorf("%+v: %s, %+v", tt, drawn(p.Steps), p.Reports)
		}
		if bad := Check(h, avoid, d, p.Steps); bad != "" {
			t.Error(bad)
		}
		if kept := drawn(Decide(h, avoid, d, KeepQueues).Steps); strings.Contains(kept, "set-queues") {
			t.Error(kept)
		}
	}
	silent := []Device{{Name: "eth0", PCI: "p", Node: 1, Kind: topology.NIC, NoChannels: "the driver does not tell it"}}
	for how, want := range map[QueueCount]words.Code{KeepQueues: "", MatchQueues: words.QueuesKept} {
		if p := Decide(host(t, smt), topology.CPUSet{}, silent, how); p.Reports[0].Why.Code != want || len(p.Steps) != 0 {
			t.Errorf("%s: %+v", how, p)
		}
	}
	h, d := host(t, smt), []Device{{Name: "eth0", PCI: "p", Node: 1, Channels: []Channels{{"eth0", 1, 8}}}}
	for _, bad := range []plan.Step{
		{Kind: plan.SetQueues, Workload: "device:eth0", Target: plan.Target{Device: "p/eth0"}, To: "5"}, // CPUs
		{Kind: plan.SetQueues, Workload: "device:eth0", Target: plan.Target{Device: "p/eth0"}, To: "0"},
		{Kind: plan.SetQueues, Workload: "device:eth0", Target: plan.Target{Device: "p/eth1"}, To: "2"},
		{Kind: plan.SetQueues, Workload: "device:eth0", Target: plan.Target{Device: "p/eth0"}, To: "x"},
	} {
		if Check(h, topology.CPUSet{}, d, []plan.Step{bad}) == "" {
			t.Errorf("passes: %+v", bad)
		}
	}
}

// TestOneCoreEach: lanes go to other cores before they share one, however CPUs are numbered,
// and where nobody knows the cores each CPU counts as one.
func TestOneCoreEach(t *testing.T) {
	node := []topology.Node{{ID: 0, CPUs: set(t, "0-5")}}
	siblings := []topology.Core{{CPUs: set(t, "0-1")}, {CPUs: set(t, "2-3")}, {CPUs: set(t, "4-5")}}
	for _, tt := range []struct {
		name  string
		cores []topology.Core
		at    string // lanes that stay
		lanes int    // lanes to place
		want  string
		xps   string
	}{
		{"siblings side by side", siblings, "", 4, "0 2 4 1", "0-1,2-3,4-5"},
		{"one core is busier", siblings, "0,2-3", 3, "4 1 5", "0-1,2-3,4-5"},
		{"cores unknown", nil, "", 4, "0 1 2 3", "4-5,2-3,0-1"},
		{"one core known", siblings[2:], "", 6, "0 1 2 3 4 5", "2-3,0-1,4-5"},
	} {
		h := &topology.Host{Nodes: node, Online: set(t, "0-5"), Cores: tt.cores}
		d := Device{Name: "eth0", PCI: "p"}
		for cpu := range set(t, tt.at).All() {
			d.Interrupts = append(d.Interrupts, Interrupt{Number: len(d.Interrupts), Name: fmt.Sprintf("eth0-%d", cpu), CPUs: topology.CPUs(cpu)})
		}
		for range tt.lanes {
			d.Interrupts = append(d.Interrupts, Interrupt{Number: len(d.Interrupts), Name: fmt.Sprintf("eth0-%d", 100+len(d.Interrupts)), CPUs: set(t, "0-5")})
		}
		for k := range 3 {
			d.Tx = append(d.Tx, Queue{Name: fmt.Sprintf("eth0/tx-%d", k)})
		}
		var irqs, xps []string
		for _, s := range Decide(h, topology.CPUSet{}, []Device{d}, KeepQueues).Steps {
			if s.Kind == plan.SetIRQ {
				irqs = append(irqs, s.To)
			} else {
				xps = append(xps, s.To)
			}
		}
		if got := strings.Join(irqs, " "); got != tt.want {
			t.Errorf("%s: interrupts to %s, want %s", tt.name, got, tt.want)
		}
		if got := strings.Join(xps, ","); got != tt.xps {
			t.Errorf("%s: transmit queues to %s, want %s", tt.name, got, tt.xps)
		}
	}
	// A node whose CPUs are all offline, and one that is not there.
	h := &topology.Host{Nodes: []topology.Node{{ID: 0, CPUs: set(t, "0-1")}, {ID: 1, CPUs: set(t, "2-3")}}, Online: set(t, "0-1"), Offline: set(t, "2-3")}
	for _, node := range []topology.NodeID{1, 7} {
		d := Device{Name: "eth0", PCI: "p", Node: node, Interrupts: []Interrupt{{Number: 1, Name: "eth0-0", CPUs: set(t, "0")}}}
		p := Decide(h, topology.CPUSet{}, []Device{d}, MatchQueues)
		if len(p.Steps) > 0 || p.Reports[0].Why.None() || p.Reports[0].AtHome != 0 {
			t.Errorf("node %d: %+v", node, p)
		}
	}
}

func TestQueueNumber(t *testing.T) {
	for name, want := range map[string]string{
		"virtio0-input.1": "1", "eth0-TxRx-12": "12", "mlx5_comp1@pci:0000:81:00.0": "1", "nvme0q1": "1", "vfio-msix[1](0000:81:00.1)": "1",
		"virtio0-config": "", "": "", "7": "7",
	} {
		if got, ok := queueOf(name); got != want || ok != (want != "") {
			t.Errorf("%s: queue %q, %v", name, got, ok)
		}
	}
	for name, want := range map[string]bool{"nvme0q0": false, "nvme0q1": true, "nvme0q10": true, "eth0-1": false, "nvme0": false, "nvme": false} {
		if got := ioQueue(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// apply carries steps out on devices, as the kernel would.
func apply(devices []Device, steps []plan.Step) {
	for _, s := range steps {
		to, _ := topology.ParseCPUSet(s.To)
		for i := range devices {
			d := &devices[i]
			for k := range d.Interrupts {
				if s.Kind == plan.SetIRQ && s.Target.Device == fmt.Sprintf("%s/%d", d.PCI, d.Interrupts[k].Number) {
					d.Interrupts[k].CPUs = to
				}
			}
			for kind, queues := range map[plan.StepKind][]Queue{plan.SetRPS: d.Rx, plan.SetXPS: d.Tx} {
				for k := range queues {
					if s.Kind == kind && s.Target.Device == d.PCI+"/"+queues[k].Name {
						queues[k].CPUs = to
					}
				}
			}
		}
	}
}

const smt = "package:2 node:1 core:2 pu:2" // node 0 has cores 0,4 and 1,5; node 1 has 2,6 and 3,7

func TestDecide(t *testing.T) {
	irqs := func(first int, cpus string, names ...string) []Interrupt {
		var out []Interrupt
		for i, n := range names {
			out = append(out, Interrupt{Number: first + i, Name: n, CPUs: set(t, cpus)})
		}
		return out
	}
	queues := func(cpus string, names ...string) []Queue {
		var out []Queue
		for _, n := range names {
			out = append(out, Queue{Name: n, CPUs: set(t, cpus)})
		}
		return out
	}
	tests := []struct {
		name   string
		avoid  string
		device Device
		want   string
		why    words.Code
	}{
		{"virtio: pairs share a CPU, one a core first", "", Device{Node: 1, Interrupts: irqs(24, "0-7",
			"virtio0-config", "virtio0-input.0", "virtio0-output.0", "virtio0-input.1", "virtio0-output.1", "virtio0-input.2")},
			`set-irq p/24 0-7→2-3,6-7
set-irq p/25 0-7→2
set-irq p/26 0-7→2
set-irq p/27 0-7→3
set-irq p/28 0-7→3
set-irq p/29 0-7→6`, ""},
		{"away from dedicated work", "2-3", Device{Node: 1, Interrupts: irqs(24, "2", "eth0-TxRx-0", "eth0-TxRx-1")},
			"set-irq p/24 2→6\nset-irq p/25 2→7", ""},
		{"what is well stays", "", Device{Node: 1, Interrupts: []Interrupt{
			{Number: 1, Name: "mlx5_comp0@pci:0000:81:00.0", CPUs: set(t, "7")}, {Number: 2, Name: "mlx5_comp1@pci:0000:81:00.0", CPUs: set(t, "7")}}},
			"set-irq p/2 7→2", ""},
		{"managed", "", Device{Node: 1, Interrupts: []Interrupt{{Number: 1, Name: "eth0-rx-0", CPUs: set(t, "0"), Fixed: true}}}, "", ""},
		{"all CPUs are somebody's", "2-3,6-7", Device{Node: 1, Interrupts: irqs(1, "0", "eth0-rx-0")}, "", words.NoneForIRQs},
		{"an NVMe queue for each CPU of the machine", "", Device{Kind: topology.NVMe, Node: 1, Interrupts: irqs(1, "0",
			"nvme0q0", "nvme0q1", "nvme0q2", "nvme0q3", "nvme0q4", "nvme0q5")},
			"set-irq p/1 0→2", words.QueuePerCPU},
		{"few NVMe queues", "", Device{Kind: topology.NVMe, Node: 1, Interrupts: irqs(1, "0", "nvme0q0", "nvme0q1", "nvme0q2")},
			"set-irq p/1 0→2\nset-irq p/2 0→3\nset-irq p/3 0→6", ""},
		{"as many NVMe queues as the node has CPUs", "", Device{Kind: topology.NVMe, Node: 1, Interrupts: irqs(1, "2",
			"nvme0q0", "nvme0q1", "nvme0q2", "nvme0q3", "nvme0q4")},
			"set-irq p/3 2→3\nset-irq p/4 2→7\nset-irq p/5 2→6", ""},
		{"one NVMe queue more than CPUs are left", "3,6-7", Device{Kind: topology.NVMe, Node: 1, Interrupts: irqs(1, "0", "nvme0q1", "nvme0q2")},
			"", words.QueuePerCPU},
		{"what is on one CPU stays there, what may be anywhere gives way", "", Device{Node: 0, Interrupts: []Interrupt{
			{Number: 1, Name: "eth0-rx-0", CPUs: set(t, "0-7")}, {Number: 2, Name: "eth0-rx-1", CPUs: set(t, "0")}, {Number: 3, Name: "eth0-rx-2", CPUs: set(t, "1")}}},
			"set-irq p/1 0-7→4", ""},
		{"lanes with one CPU each, and then two", "4-5", Device{Node: 0, Interrupts: irqs(1, "1", "e-0", "e-1", "e-2", "e-3", "e-4")},
			"set-irq p/4 1→0\nset-irq p/5 1→0", ""},
		{"no queues but interrupts that may go nowhere", "", Device{Node: 0, Interrupts: irqs(1, "", "config")}, "set-irq p/1 →0-1,4-5", ""},
		{"interrupts without a queue stay on a part of the node", "", Device{Node: 0, Interrupts: irqs(1, "1,4", "config")}, "", ""},
		{"three queues for four CPUs", "", Device{Node: 0, Tx: queues("", "eth0/tx-0", "eth0/tx-1", "eth0/tx-2"), Rx: queues("", "eth0/rx-0", "eth0/rx-1", "eth0/rx-2", "eth0/rx-3")},
			"set-xps p/eth0/tx-0 →0\nset-xps p/eth0/tx-1 →4\nset-xps p/eth0/tx-2 →1,5", ""},
		{"two network devices of one function", "", Device{Node: 0, Rx: queues("", "eth0/rx-0", "eth1/rx-0", "eth1/rx-1"), Tx: queues("0,4", "eth1/tx-0", "eth10/tx-0", "eth10/tx-1")},
			"set-rps p/eth0/rx-0 →0-1,4-5\nset-rps p/eth1/rx-0 →0-1,4-5\nset-rps p/eth1/rx-1 →0-1,4-5\nset-xps p/eth10/tx-1 0,4→1,5", ""},
		{"one queue for four CPUs", "", Device{Node: 0, Interrupts: irqs(1, "0", "eth0"), Rx: queues("", "eth0/rx-0"), Tx: queues("", "eth0/tx-0")},
			"set-rps p/eth0/rx-0 →0-1,4-5", ""},
		{"two queues for four CPUs, near cores together", "", Device{Node: 0, Interrupts: irqs(1, "0", "eth0"),
			Rx: queues("0-1,4-5", "eth0/rx-0", "eth0/rx-1"), Tx: queues("0-7", "eth0/tx-0", "eth0/tx-1")},
			"set-xps p/eth0/tx-0 0-7→0,4\nset-xps p/eth0/tx-1 0-7→1,5", ""},
		{"queues enough", "1,5", Device{Node: 0, Interrupts: irqs(1, "0", "eth0"),
			Rx: queues("7", "eth0/rx-0", "eth0/rx-1"), Tx: queues("7", "eth0/tx-0", "eth0/tx-1")}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.device.Name, tt.device.PCI = "eth0", "p"
			p := Decide(host(t, smt), set(t, tt.avoid), []Device{tt.device}, KeepQueues)
			if diff := cmp.Diff(tt.want, drawn(p.Steps)); diff != "" {
				t.Error(diff)
			}
			if p.Reports[0].Why.Code != tt.why {
				t.Errorf("why: %q", p.Reports[0].Why)
			}
		})
	}
}

func TestReport(t *testing.T) {
	d := Device{Name: "eth0", PCI: "p", Node: 0, Interrupts: []Interrupt{
		{Number: 1, Name: "a-0", CPUs: set(t, "0")}, {Number: 2, Name: "a-1", CPUs: set(t, "0-7")}, {Number: 3, Name: "a-2", CPUs: set(t, "7"), Fixed: true}}}
	p := Decide(host(t, smt), topology.CPUSet{}, []Device{d}, KeepQueues)
	if got, want := p.Reports[0], (Report{Device: "eth0", Node: 0, Interrupts: 3, AtHome: 1, Fixed: 1, Steps: 1}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	h, d := host(t, smt), []Device{{Name: "eth0", PCI: "p", Node: 1}}
	for name, change := range map[string]func(*plan.Step){
		"another node": func(s *plan.Step) { s.To = "1" }, "dedicated": func(s *plan.Step) { s.To = "2-3" }, "nothing": func(s *plan.Step) { s.To = "" },
		"another device": func(s *plan.Step) { s.Workload = "device:eth1" }, "another path": func(s *plan.Step) { s.Target.Device = "q/1" },
	} {
		s := step(&d[0], plan.SetIRQ, "p/1", topology.CPUSet{}, set(t, "3,7"), words.Reason{})
		if bad := Check(h, set(t, "2"), d, []plan.Step{s}); bad != "" {
			t.Fatal(bad)
		}
		change(&s)
		if Check(h, set(t, "2"), d, []plan.Step{s}) == "" {
			t.Errorf("%s: passed", name)
		}
	}
}

// Whatever the devices and whoever has CPUs for himself: every interrupt that may
// be changed ends on allowed CPUs of its node, no CPU has more lanes than its part,
// the plan passes Check, and a second run changes nothing.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, err := topology.FromSynthetic(fmt.Sprintf("package:%d node:1 core:%d pu:%d",
			rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 4).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "smt")))
		if err != nil {
			t.Fatal(err)
		}
		total := h.Online.Len()
		cpus := func(name string) topology.CPUSet {
			var s topology.CPUSet
			for _, c := range rapid.SliceOfN(rapid.IntRange(0, total-1), 0, 4).Draw(t, name) {
				s.Add(topology.CPUID(c))
			}
			return s
		}
		avoid := cpus("avoid")
		off := cpus("offline")
		h.Online, h.Offline = h.Online.Minus(off), off
		var devices []Device
		number := 20
		for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
			d := Device{Name: fmt.Sprintf("eth%d", i), PCI: fmt.Sprintf("p%d", i), Kind: topology.NIC,
				Node: topology.NodeID(rapid.IntRange(0, len(h.Nodes)-1).Draw(t, "node"))}
			for k := range rapid.IntRange(1, 9).Draw(t, "interrupts") {
				name := rapid.SampledFrom([]string{fmt.Sprintf("eth%d-rx-%d", i, k/2), "config", fmt.Sprintf("nvme%dq%d", i, k)}).Draw(t, "name")
				d.Interrupts = append(d.Interrupts, Interrupt{Number: number, Name: name, CPUs: cpus("at"), Fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0})
				number++
			}
			for k := range rapid.IntRange(0, 5).Draw(t, "queues") {
				d.Rx = append(d.Rx, Queue{fmt.Sprintf("%s/rx-%d", d.Name, k), cpus("rps")})
				d.Tx = append(d.Tx, Queue{fmt.Sprintf("%s/tx-%d", d.Name, k), cpus("xps")})
			}
			devices = append(devices, d)
		}
		p := Decide(h, avoid, devices, KeepQueues)
		if again := Decide(h, avoid, devices, KeepQueues); drawn(again.Steps) != drawn(p.Steps) {
			t.Fatalf("two answers:\n%s\n\n%s", drawn(p.Steps), drawn(again.Steps))
		}
		if bad := Check(h, avoid, devices, p.Steps); bad != "" {
			t.Fatal(bad)
		}
		apply(devices, p.Steps)
		lanes, onCPU := map[topology.NodeID]map[string]bool{}, map[topology.CPUID]map[string]bool{}
		for _, d := range devices {
			allowed := Allowed(h, avoid, d.Node)
			for _, x := range d.Interrupts {
				if x.Fixed || allowed.Empty() {
					continue
				}
				if x.CPUs.Empty() || !x.CPUs.SubsetOf(allowed) {
					t.Fatalf("%s of %s may go to %v, allowed %v", x.Name, d.Name, x.CPUs, allowed)
				}
				if q, ok := queueOf(x.Name); ok {
					if x.CPUs.Len() != 1 {
						t.Fatalf("%s of %s goes to %v", x.Name, d.Name, x.CPUs)
					}
					put(lanes, d.Node, d.Name+q)
					put(onCPU, x.CPUs.Min(), d.Name+q)
				}
			}
			for _, q := range d.Rx {
				if n := allowed.Len(); len(d.Rx) < n && !q.CPUs.Equal(allowed) {
					t.Fatalf("%s: %v, allowed %v", q.Name, q.CPUs, allowed)
				}
			}
			if n := allowed.Len(); len(d.Tx) > 1 && len(d.Tx) < n {
				var all topology.CPUSet
				for _, q := range d.Tx {
					if q.CPUs.Intersects(all) || q.CPUs.Len() < n/len(d.Tx) {
						t.Fatalf("transmit queues %v", d.Tx)
					}
					all = all.Union(q.CPUs)
				}
				if !all.Equal(allowed) {
					t.Fatalf("transmit queues have %v of %v", all, allowed)
				}
			}
		}
		for node, all := range lanes {
			n := Allowed(h, avoid, node).Len()
			for cpu := range Allowed(h, avoid, node).All() {
				if len(onCPU[cpu]) > (len(all)+n-1)/n {
					t.Fatalf("CPU %d has %d of %d lanes on %d CPUs", cpu, len(onCPU[cpu]), len(all), n)
				}
			}
		}
		if again := Decide(h, avoid, devices, KeepQueues); len(again.Steps) != 0 {
			t.Fatalf("a second run changes\n%s", drawn(again.Steps))
		}
	})
}

func put[K comparable](m map[K]map[string]bool, k K, v string) {
	if m[k] == nil {
		m[k] = map[string]bool{}
	}
	m[k][v] = true
}
