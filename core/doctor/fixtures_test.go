package doctor

import (
	"fmt"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// A fixture is a machine as a document, with the states it must be given.
// Latencies of the three seed states are published measurements of 2 × 24
// cores; the rest are made up and say so.
type fixture struct {
	name string
	doc  *measure.Document
	want []string // states, the first one leading
	exit int
}

func set(list string) topology.CPUSet {
	s, err := topology.ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}

func ptr[T any](v T) *T { return &v }

const gib = 1 << 30

// machine has packages and nodes; no CPUs is "", memory in GiB.
func machine(packages []string, nodes []string, mem []float64) *measure.Document {
	d := &measure.Document{Schema: measure.Schema}
	d.Host = measure.Host{ID: "fixture", CPU: "fixture", Kernel: "5.10", CmdlineNUMA: []string{}, Virt: "none", LLC: 33 << 20}
	for i, cpus := range packages {
		d.Host.Packages = append(d.Host.Packages, measure.Package{ID: i, CPUs: set(cpus)})
		d.Host.CPUs += set(cpus).Len()
	}
	for i, cpus := range nodes {
		n := measure.Node{ID: i, CPUs: set(cpus), Mem: ptr(int64(mem[min(i, len(mem)-1)] * gib)), Kind: "dram", ChannelMBs: measure.Unknown, HMATLatency: measure.Unknown, HMATMBs: measure.Unknown}
		if cpus == "" {
			n.Kind = "special"
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d
}

func run(d *measure.Document) *measure.Document {
	d.Run = &measure.Run{Profile: "quick", Load1: 0.1, Rejected: 1, Sigma: 0.008}
	return d
}

func seed(nodes ...string) *measure.Document {
	return run(machine([]string{"0-23,48-71", "24-47,72-95"}, nodes, []float64{192}))
}

func table(rows ...[]float64) measure.Table {
	var t measure.Table
	for _, r := range rows {
		row := make([]measure.Value, len(r))
		for j, v := range r {
			row[j] = measure.Value(v)
			if v < 0 {
				row[j] = measure.Unknown
			}
		}
		t = append(t, row)
	}
	return t
}

// latency is node to node with intervals of ±half, relative; 0 gives none.
func latency(d *measure.Document, from string, rows []int, half float64, t measure.Table) *measure.Latency {
	l := &measure.Latency{Unit: "ns", From: from, Rows: rows, Median: t, Adjacent: measure.Unknown, Prefetchers: measure.Unknown}
	for _, n := range d.Nodes {
		l.Cols = append(l.Cols, n.ID)
	}
	if half > 0 {
		for _, row := range t {
			var ci []measure.Interval
			for _, v := range row {
				ci = append(ci, measure.Interval{v * measure.Value(1-half), v * measure.Value(1+half)})
			}
			l.CI95 = append(l.CI95, ci)
		}
	}
	return l
}

func ids(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

func nodesLatency(d *measure.Document, half float64, rows ...[]float64) *measure.Document {
	d.Latency = latency(d, "node", ids(len(rows)), half, table(rows...))
	return d
}

// cores puts one latency per CPU to the only node.
func cores(d *measure.Document, cpus []int, ns ...float64) *measure.Document {
	var rows [][]float64
	for _, v := range ns {
		rows = append(rows, []float64{v})
	}
	d.CPULatency = latency(d, "cpu", cpus, 0.005, table(rows...))
	return d
}

// pagesOf makes page signatures: share of the pages near to package 0.
func pagesOf(d *measure.Document, n int, share, near, far, sigma float64) *measure.Document {
	r := measure.NewRandom(7)
	for i := range n {
		a, b := near, far
		if float64(i) >= share*float64(n) {
			a, b = far, near
		}
		p := measure.Page{}
		for k := range d.Host.Packages {
			ns := a
			if k > 0 {
				ns = b
			}
			p.NS = append(p.NS, measure.Value(ns*(1+sigma*r.Normal())))
		}
		d.Pages = append(d.Pages, p)
	}
	return d
}

func c2c(d *measure.Document, cpus []int, within, across float64) *measure.Document {
	t := measure.NewTable(len(cpus), len(cpus))
	for i, a := range cpus {
		for j, b := range cpus {
			t[i][j] = measure.Value(within)
			if i == j {
				t[i][j] = 0
			} else if (&facts{d: d}).packageOf(a) != (&facts{d: d}).packageOf(b) {
				t[i][j] = measure.Value(across)
			}
		}
	}
	d.C2C = []measure.C2C{{Unit: "ns", LineHome: "A", CPUs: cpus, Median: t}}
	return d
}

func bandwidth(d *measure.Document, rows ...[]float64) *measure.Document {
	d.Bandwidth = append(d.Bandwidth, measure.Bandwidth{Mix: "r", Unit: "MB/s", Rows: ids(len(rows)), Cols: ids(len(rows)), Median: table(rows...), Total: measure.Unknown})
	return d
}

func srat(d *measure.Document, domains int) *measure.Document {
	d.Firmware = &measure.Firmware{SRAT: domains > 0, Domains: ids(domains), Memory: ids(domains)}
	if domains == 0 {
		d.Firmware.Domains, d.Firmware.Memory = []int{}, []int{}
	}
	return d
}

func boot(d *measure.Document, words ...string) *measure.Document {
	d.Host.CmdlineNUMA = words
	return d
}

func slit(d *measure.Document, rows ...[]float64) *measure.Document {
	d.SLIT = table(rows...)
	return d
}

func guest(d *measure.Document) *measure.Document {
	d.Host.Virt = "kvm"
	return d
}

func noisy(d *measure.Document, sigma, rejected float64) *measure.Document {
	d.Run.Sigma, d.Run.Rejected = measure.Value(sigma), measure.Value(rejected)
	if d.CPULatency != nil {
		d.CPULatency.CI95 = nil // too few samples to say
	}
	return d
}

// refused is a machine that was to be measured and was not.
func refused(d *measure.Document, why string) *measure.Document {
	unmeasured(d).NotMeasured = why
	return d
}

func unmeasured(d *measure.Document) *measure.Document {
	d.Run, d.Latency, d.CPULatency, d.Pages, d.C2C, d.Bandwidth = nil, nil, nil, nil, nil, nil
	return d
}

var seedCPUs = []int{0, 24, 48, 72}

func fixtures() []fixture {
	four := []string{"0-3", "4-7", "8-11", "12-15"}
	twoPackages := []string{"0-7", "8-15"}
	ring := [][]float64{{10, 16, 31, 31}, {16, 10, 31, 31}, {31, 31, 10, 16}, {31, 31, 16, 10}}
	out := []fixture{
		// The seed.
		{"seed-exposed", slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{81.6, 145.9}, []float64{144.9, 81.2}), []float64{10, 21}, []float64{21, 10}),
			[]string{Healthy}, 0},
		{"seed-exposed-lmbench", func() *measure.Document {
			d := seed("0-23,48-71", "24-47,72-95")
			d.CPULatency = latency(d, "cpu", seedCPUs, 0.005, table([]float64{67.1, 100.2}, []float64{100.2, 67.1}, []float64{67.6, 101.1}, []float64{101.1, 67.6}))
			return slit(d, []float64{10, 15}, []float64{15, 10})
		}(), []string{Healthy}, 0},
		{"seed-numa-off", boot(cores(seed("0-95"), seedCPUs, 100.7, 68.5, 101.1, 68.5), "numa=off"), []string{HiddenByKernel}, 1},
		{"seed-numa-off-mlc", boot(nodesLatency(seed("0-95"), 0.006, []float64{145.8}), "numa=off"), []string{HiddenByKernel}, 1},
		{"seed-interleaved", cores(seed("0-95"), seedCPUs, 85.7, 85.7, 86.0, 86.7), []string{BIOSInterleaved}, 1},
		{"seed-interleaved-kernel-on", cores(seed("0-95"), seedCPUs, 89.1, 87.1, 87.2, 87.3), []string{BIOSInterleaved}, 1},

		// The same states with the other kinds of evidence; made up.
		{"numa-off-srat-only", srat(boot(unmeasured(seed("0-95")), "numa=off"), 2), []string{HiddenByKernel}, 1},
		{"numa-off-pages", srat(boot(pagesOf(seed("0-95"), 128, 0.4, 81.4, 145.2, 0.01), "numa=off"), 2), []string{HiddenByKernel}, 1},
		{"numa-off-not-root", boot(unmeasured(seed("0-95")), "numa=off"), []string{HiddenByKernel}, 1},
		{"srat-ignored-by-kernel", srat(pagesOf(seed("0-95"), 128, 0.5, 81.4, 145.2, 0.01), 2), []string{HiddenByKernel}, 1},
		{"numa-off-one-package-nps4", srat(boot(unmeasured(machine([]string{"0-63"}, []string{"0-63"}, []float64{256})), "numa=off"), 4), []string{HiddenByKernel}, 1},
		{"no-srat-two-kinds-of-pages", srat(pagesOf(seed("0-95"), 128, 0.5, 81.4, 145.2, 0.01), 0), []string{HiddenByFirmware}, 1},
		{"interleaved-pages-c2c", srat(c2c(pagesOf(cores(seed("0-95"), seedCPUs, 113, 113, 114, 114), 128, 1, 113, 113, 0.01), seedCPUs, 48, 110), 0), []string{BIOSInterleaved}, 1},
		{"grey-zone", cores(seed("0-95"), seedCPUs, 90, 101, 90.5, 101), []string{Undecided}, 3},
		{"two-packages-not-measured", unmeasured(seed("0-95")), []string{Undecided}, 3},
		{"numa-off-noisy", noisy(srat(boot(cores(seed("0-95"), seedCPUs, 100, 140, 300, 90), "numa=off"), 2), 0.2, 30), []string{HiddenByKernel, Undecided}, 1},

		// One package.
		{"uma", srat(pagesOf(cores(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{64})), []int{0, 4}, 92, 92.4), 128, 1, 92, 92, 0.01), 1), []string{UMA}, 0},
		{"uma-not-measured", unmeasured(machine([]string{"0-7"}, []string{"0-7"}, []float64{64})), []string{UMA}, 0},
		{"uma-numa-off-without-effect", srat(boot(pagesOf(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{64})), 128, 1, 92, 92, 0.01), "numa=off"), 1), []string{UMA}, 0},
		{"uma-noisy", noisy(srat(pagesOf(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{64})), 128, 1, 92, 92, 0.3), 1), 0.14, 10), []string{Undecided}, 3},
		{"noisy-host", noisy(slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.2, []float64{150, 200}, []float64{120, 160}), []float64{10, 21}, []float64{21, 10}), 0.09, 61), []string{Undecided, Healthy}, 3},

		// Guests.
		{"guest-one-node", guest(pagesOf(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{16})), 128, 1, 110, 110, 0.01)), []string{UMAOrInterleaved}, 0},
		{"guest-over-two-host-nodes", guest(pagesOf(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{16})), 128, 0.5, 90, 150, 0.01)), []string{HostNUMAHidden}, 1},
		{"guest-flat-vnuma", guest(slit(nodesLatency(run(machine(four, four, []float64{4})), 0.01, []float64{100, 101, 102, 100}, []float64{101, 100, 101, 102}, []float64{100, 101, 100, 101}, []float64{102, 100, 101, 100}), ring...)),
			[]string{FlatVNUMA}, 1},
		{"guest-fake-numa", boot(guest(slit(nodesLatency(run(machine([]string{"0-3"}, []string{"0", "1", "2", "3"}, []float64{1})), 0.01, []float64{100, 101, 102, 100}, []float64{101, 100, 101, 102}, []float64{100, 101, 100, 101}, []float64{102, 100, 101, 100}),
			[]float64{10, 10, 10, 10}, []float64{10, 10, 10, 10}, []float64{10, 10, 10, 10}, []float64{10, 10, 10, 10})), "numa=fake=4"), []string{FakeNUMA}, 1},
		{"guest-numa-off", guest(srat(boot(unmeasured(machine(four, []string{"0-15"}, []float64{4})), "numa=off"), 4)), []string{HiddenByKernel}, 1},
		{"guest-numa-off-flat", guest(srat(boot(cores(run(machine(four, []string{"0-15"}, []float64{4})), []int{0, 4, 8, 12}, 100, 101, 100, 102), "numa=off"), 4)), []string{HiddenByKernel}, 1},
		{"guest-noisy", guest(noisy(pagesOf(run(machine([]string{"0-7"}, []string{"0-7"}, []float64{16})), 128, 1, 110, 110, 0.3), 0.3, 10)), []string{Undecided}, 3},

		// Asked to measure, and could not: firmware and kernel still count, what rests on a measurement does not.
		{"guest-busy", guest(refused(machine([]string{"0-1"}, []string{"0-1"}, []float64{8}), "the machine is busy: load average 5.80 on 2 CPUs")), []string{Undecided}, 3},
		{"guest-told-not-to-measure", guest(unmeasured(machine([]string{"0-1"}, []string{"0-1"}, []float64{8}))), []string{UMAOrInterleaved}, 0},
		{"uma-busy", srat(refused(machine([]string{"0-7"}, []string{"0-7"}, []float64{64}), "the machine is busy"), 1), []string{Undecided}, 3},
		{"two-packages-busy", refused(seed("0-95"), "the machine is busy"), []string{Undecided, Undecided}, 3},
		{"numa-off-busy", srat(boot(refused(seed("0-95"), "the machine is busy"), "numa=off"), 2), []string{HiddenByKernel, Undecided}, 1},
		{"two-nodes-busy", refused(slit(seed("0-23,48-71", "24-47,72-95"), []float64{10, 21}, []float64{21, 10}), "the machine is busy"), []string{Undecided, Healthy}, 3},
		{"guest-interrupted", func() *measure.Document {
			d := guest(nodesLatency(run(machine([]string{"0-1"}, []string{"0-1"}, []float64{8})), 0.01, []float64{110}))
			d.Run.Partial = true
			return d
		}(), []string{Undecided}, 3},

		// Several nodes, wrongly described.
		{"slit-all-ten", slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{81.6, 145.9}, []float64{144.9, 81.2}), []float64{10, 10}, []float64{10, 10}), []string{SLITInvalid}, 1},
		{"slit-all-ten-not-measured", unmeasured(slit(seed("0-23,48-71", "24-47,72-95"), []float64{10, 10}, []float64{10, 10})), []string{SLITInvalid}, 1},
		{"slit-wrong-order", slit(nodesLatency(run(machine(twoPackages, four, []float64{64})), 0.006,
			[]float64{80, 140, 95, 141}, []float64{140, 80, 141, 95}, []float64{95, 141, 80, 140}, []float64{141, 95, 140, 80}), ring...), []string{SLITWrongOrder}, 1},
		{"slit-asymmetric-is-fine", slit(nodesLatency(run(machine(twoPackages, four, []float64{64})), 0.006,
			[]float64{80, 95, 140, 150}, []float64{95, 80, 150, 140}, []float64{140, 150, 80, 95}, []float64{150, 140, 95, 80}),
			[]float64{10, 12, 17, 19}, []float64{12, 10, 19, 17}, []float64{18, 20, 10, 12}, []float64{20, 18, 12, 10}), []string{Healthy}, 0},
		{"slit-misscaled", slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{81.6, 145.9}, []float64{144.9, 81.2}), []float64{10, 31}, []float64{31, 10}), []string{Healthy, SLITMisscaled}, 0},
		{"sub-numa-clusters", slit(nodesLatency(run(machine([]string{"0-15"}, []string{"0-7", "8-15"}, []float64{64})), 0.004, []float64{100, 108}, []float64{108, 100}), []float64{10, 11}, []float64{11, 10}), []string{Healthy}, 0},
		{"interleaved-below-nodes", slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{113, 114}, []float64{114, 113}), []float64{10, 21}, []float64{21, 10}), []string{InterleavedBelowNodes}, 1},
		{"numa-fake-bare-metal", boot(nodesLatency(run(machine([]string{"0-7"}, []string{"0-3", "4-7"}, []float64{32})), 0.006, []float64{92, 92}, []float64{92, 92}), "numa=fake=2"), []string{FakeNUMA}, 1},
		{"grey-nodes", nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{100, 112}, []float64{112, 100}), []string{Undecided}, 3},
		{"four-nodes-not-measured", unmeasured(slit(machine(twoPackages, four, []float64{64}), ring...)), []string{Healthy}, 0},

		// Tiers and DIMMs.
		{"cxl", slit(nodesLatency(run(machine(twoPackages, []string{"0-7", "8-15", ""}, []float64{128})), 0.006,
			[]float64{90, 150, 230}, []float64{150, 90, 310}, []float64{-1, -1, -1}), []float64{10, 21, 14}, []float64{21, 10, 24}, []float64{14, 24, 10}), []string{Healthy, CPUlessNode}, 0},
		{"hmat-tier-not-measured", func() *measure.Document {
			d := unmeasured(machine(twoPackages, []string{"0-7", "8-15", ""}, []float64{128}))
			for i, v := range []struct{ ns, mbs float64 }{{80, 100_000}, {80, 100_000}, {400, 20_000}} {
				d.Nodes[i].HMATLatency, d.Nodes[i].HMATMBs = measure.Value(v.ns), measure.Value(v.mbs)
			}
			return d
		}(), []string{Healthy, CPUlessNode}, 0},
		{"gpu-and-persistent-memory-named-by-drivers", func() *measure.Document {
			d := unmeasured(machine(twoPackages, []string{"0-7", "8-15", "", "", "", ""}, []float64{128, 128, 15, 15, 384, 512}))
			d.Nodes[2].Type, d.Nodes[2].TypeBy = "gpu", []string{"NVIDIA's driver says it is memory of GPU 0035:05:00.0"}
			d.Nodes[3].Type, d.Nodes[3].TypeBy = "gpu", []string{"NVIDIA's driver says it is memory of GPU 0035:04:00.0"}
			d.Nodes[4].Type, d.Nodes[4].TypeBy = "pmem", []string{"dax5.0 is on the NVDIMM bus ndbus0"}
			return d
		}(), []string{Healthy, CPUlessNode, CPUlessNode, CPUlessNode}, 0},
		{"cxl-named-and-measured", func() *measure.Document {
			d := slit(nodesLatency(run(machine(twoPackages, []string{"0-7", "8-15", ""}, []float64{128})), 0.006,
				[]float64{90, 150, 230}, []float64{150, 90, 310}, []float64{-1, -1, -1}), []float64{10, 21, 14}, []float64{21, 10, 24}, []float64{14, 24, 10})
			d.Nodes[2].Type, d.Nodes[2].TypeBy = "cxl", []string{"dax0.0 is a CXL region"}
			return d
		}(), []string{Healthy, CPUlessNode}, 0},
		{"hbm", func() *measure.Document {
			d := unmeasured(machine([]string{"0-15"}, []string{"0-15", ""}, []float64{128, 16}))
			d.Nodes[0].HMATLatency, d.Nodes[0].HMATMBs = 100, 90_000
			d.Nodes[1].HMATLatency, d.Nodes[1].HMATMBs = 115, 400_000
			return d
		}(), []string{Healthy, CPUlessNode}, 0},
		{"memoryless-node", slit(nodesLatency(run(machine(twoPackages, []string{"0-3", "4-7", "8-15"}, []float64{64, 0, 64})), 0.006,
			[]float64{85, -1, 140}, []float64{86, -1, 141}, []float64{140, -1, 85}), []float64{10, 21, 21}, []float64{21, 10, 21}, []float64{21, 21, 10}), []string{MemorylessNode}, 1},
		{"lopsided-dimms", bandwidth(slit(nodesLatency(run(machine([]string{"0-23", "24-47"}, []string{"0-23", "24-47"}, []float64{192, 96})), 0.006, []float64{81.6, 145.9}, []float64{144.9, 81.2}), []float64{10, 21}, []float64{21, 10}),
			[]float64{111_000, 34_000}, []float64{34_000, 56_000}), []string{AsymmetricDIMMs}, 1},
		{"underpopulated-channels", func() *measure.Document {
			d := bandwidth(slit(nodesLatency(run(machine(twoPackages, []string{"0-7", "8-15"}, []float64{64})), 0.006, []float64{100, 160}, []float64{160, 100}), []float64{10, 20}, []float64{20, 10}),
				[]float64{32_100, 22_000}, []float64{22_000, 32_400})
			for i := range d.Nodes {
				d.Nodes[i].Channels, d.Nodes[i].MaxChannel, d.Nodes[i].ChannelMBs = ptr(2), ptr(4), 21_333
			}
			return d
		}(), []string{Underpopulated}, 1},
		{"bind-failed", func() *measure.Document {
			d := slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{81.6, -1}, []float64{144.9, 81.2}), []float64{10, 18}, []float64{18, 10})
			d.Latency.Flags = [][]string{{"", "failed: node1 is full"}, {"", ""}}
			return d
		}(), []string{CellsExcluded, Healthy}, 1},
		{"settings", func() *measure.Document {
			d := slit(nodesLatency(seed("0-23,48-71", "24-47,72-95"), 0.006, []float64{81.6, 145.9}, []float64{144.9, 81.2}), []float64{10, 18}, []float64{18, 10})
			d.Settings = &measure.Settings{
				Balancing: ptr(1), THP: "never", ZoneReclaim: ptr(1),
				HugePages: []measure.HugePool{{SizeKiB: 2048, Total: []int64{1024, 0}, Free: []int64{0, 0}}, {SizeKiB: 1 << 20, Total: []int64{8, 8}, Free: []int64{8, 8}}},
				Managers:  []measure.Manager{{Name: "irqbalance", Does: "spreads interrupts over CPUs"}, {Name: "numad", Does: "moves processes and their memory between nodes"}, {Name: "kubelet", Does: "static CPU manager policy"}, {Name: "libvirt", Does: "pins CPUs or memory of 3 running guests"}},
				Queues:    []measure.Queues{{Device: "eth0", Kind: "nic", Node: 1, Total: 16, Away: 16}, {Device: "nvme0n1", Kind: "nvme", Node: 0, Total: 96, Away: 48}},
			}
			return d
		}(), []string{Healthy}, 1},
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.name] {
			panic(fmt.Sprint("two fixtures named ", f.name))
		}
		seen[f.name] = true
	}
	return out
}
