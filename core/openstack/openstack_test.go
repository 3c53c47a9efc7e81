package openstack

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func four() *topology.Host {
	return plantest.Draw(`
		0 0-3|4-7     16G 10 12 20 32 huge=2Mx4096
		1 8-11|12-15  16G 12 10 32 20 huge=2Mx4096
		2 16-19|20-23 16G 20 32 10 12
		3 -           16G 32 20 12 10`)
}

func TestSidesOfThePartition(t *testing.T) {
	h := four()
	p := plan.Policy{Reserved: topology.CPUs(0, 4, 8, 12), Overcommit: 3, ReservedMemory: 1 << 20}
	s := Of(h, &p, nil)
	if !s.Dedicated.Empty() || s.Shared.String() != "1-3,5-7,9-11,13-23" || s.Reserved != 4<<20 {
		t.Errorf("without a partition: %+v", s)
	}
	p.Split, p.Dedicated = true, topology.CPUs(0, 3, 7, 16)
	if s = Of(h, &p, nil); s.Dedicated.String() != "3,7,16" || s.Shared.String() != "1-2,5-6,9-11,13-15,17-23" {
		t.Errorf("with one: %+v", s)
	}
}

// TestMemoryOfGPUs: Nova would give guests the memory of GPUs, so it is reserved.
func TestMemoryOfGPUs(t *testing.T) {
	h := plantest.Draw("0 0-3 16G 10 80\n1 - 96G 80 10 type=gpu")
	p := plan.Policy{ReservedMemory: 1 << 20}
	s := Of(h, &p, nil)
	if s.Reserved != 97<<20 {
		t.Errorf("%d GiB reserved, want 97", s.Reserved>>20)
	}
}

func TestTraits(t *testing.T) {
	h := four() // the last node has memory alone
	if got, want := traits(h), []string{"CUSTOM_HOMENODE_NODES_3", "CUSTOM_HOMENODE_FARTHEST_32"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	h.Measured = &topology.Measured{BandwidthMiBs: [][]float64{{60 << 10, 1, 1, 1}, {1, 55 << 10, 1, 1}, {1, 1, 51 << 10, 1}, {1, 1, 1, 1}}}
	want := []string{"CUSTOM_HOMENODE_NODES_3", "CUSTOM_HOMENODE_FARTHEST_32", "CUSTOM_HOMENODE_BANDWIDTH_10", "CUSTOM_HOMENODE_BANDWIDTH_20", "CUSTOM_HOMENODE_BANDWIDTH_50"}
	if got := traits(h); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	h.Measured.BandwidthMiBs[1][1] = 0 // not measured: nothing is promised
	if got := traits(h); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestNodesOfAFlavor(t *testing.T) {
	h := four()
	s := Of(h, &plan.Policy{Split: true, Dedicated: h.Online.Minus(topology.CPUs(0, 4))}, nil) // node 0 has 6, the others 8
	f := guest.Flavor{Name: "f", Class: workload.Dedicated, SMT: workload.SMTPrefer, Emulator: guest.Share, Memory: 1 << 20}
	tests := []struct {
		name   string
		change func(*guest.Flavor)
		want   int // 0: unfit
	}{
		{"one node", func(f *guest.Flavor) { f.VCPUs = 8 }, 1},
		{"two", func(f *guest.Flavor) { f.VCPUs = 16 }, 2},
		{"three, for the third has fewer", func(f *guest.Flavor) { f.VCPUs, f.Memory = 18, 3<<20 }, 3},
		{"too many", func(f *guest.Flavor) { f.VCPUs = 24 }, 0},
		{"in no equal parts", func(f *guest.Flavor) { f.VCPUs = 13 }, 0},
		{"not over so many", func(f *guest.Flavor) { f.VCPUs, f.MaxNodes = 16, 1 }, 0},
		{"by its memory", func(f *guest.Flavor) { f.VCPUs, f.Memory = 4, 24<<20 }, 2},
		{"huge pages", func(f *guest.Flavor) { f.VCPUs, f.Memory, f.HugePage = 4, 16<<20, 2048 }, 2},
		{"pages that are not there", func(f *guest.Flavor) { f.VCPUs, f.HugePage = 4, 1<<20 }, 0},
		{"a CPU for the emulator", func(f *guest.Flavor) { f.VCPUs, f.Emulator = 8, guest.Isolate }, 2},
	}
	for _, tt := range tests {
		f := f
		tt.change(&f)
		if got, why := s.nodes(h, &f); got != tt.want || (why != "") != (tt.want == 0) {
			t.Errorf("%s: %d nodes, %q; want %d", tt.name, got, why, tt.want)
		}
	}
}

// What has cells, mixed vCPUs, realtime ones or bursts is said with Nova's properties, or why not.
func TestKindsOfFlavors(t *testing.T) {
	h := four()
	s := Of(h, &plan.Policy{Split: true, Dedicated: h.Online.Minus(topology.CPUs(0, 4))}, nil)
	c, err := guest.ReadCatalogue(strings.NewReader(`flavors:
- {name: mixed, class: mixed, vcpus: 4, dedicated_vcpus: 2-3, memory: 4GiB}
- {name: uneven, class: dedicated, vcpus: 6, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-5, memory: 3GiB}]}
- {name: float, class: shared, vcpus: 4, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-3, memory: 3GiB}]}
- {name: realtime, class: mixed, vcpus: 2, dedicated_vcpus: 1, realtime: 1, memory: 1GiB, network: 1MiB, network_peak: 2MiB, network_burst: 3MiB}
- {name: exact, class: dedicated, vcpus: 4, memory: 4GiB, exact_nodes: 2}
- {name: pages, class: dedicated, vcpus: 2, memory: 2GiB, cells: [{vcpus: 0, memory: 1GiB, huge_pages: 2MiB}, {vcpus: 1, memory: 1GiB}]}
- {name: some, class: mixed, vcpus: 4, dedicated_vcpus: 1-3, realtime: 1, memory: 1GiB}
- {name: only, class: shared, vcpus: 2, memory: 1GiB, only_nodes: 1}
- {name: wide, class: mixed, vcpus: 12, dedicated_vcpus: 1-11, memory: 1GiB}
`), "f")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"mixed":    "hw:cpu_policy=mixed hw:cpu_thread_policy=prefer hw:cpu_dedicated_mask=2-3 hw:numa_nodes=1",
		"uneven":   "hw:cpu_policy=dedicated hw:cpu_thread_policy=prefer hw:numa_nodes=2 hw:numa_cpus.0=0-1 hw:numa_mem.0=1024 hw:numa_cpus.1=2-5 hw:numa_mem.1=3072",
		"float":    "hw:cpu_policy=shared quota:cpu_shares=400 hw:numa_nodes=2 hw:numa_cpus.0=0-1 hw:numa_mem.0=1024 hw:numa_cpus.1=2-3 hw:numa_mem.1=3072",
		"realtime": "hw:cpu_policy=mixed hw:cpu_thread_policy=prefer hw:cpu_realtime=yes hw:cpu_realtime_mask=1 hw:numa_nodes=1 quota:vif_inbound_average=1024 quota:vif_outbound_average=1024 quota:vif_inbound_peak=2048 quota:vif_outbound_peak=2048 quota:vif_inbound_burst=3072 quota:vif_outbound_burst=3072",
		"exact":    "hw:cpu_policy=dedicated hw:cpu_thread_policy=prefer hw:numa_nodes=2",
		"pages":    "Nova has one page size for all cells of a guest",
		"some":     "Nova has one mask for the vCPUs of a mixed guest that have a CPU of their own and for those under SCHED_FIFO",
		"only":     "Nova cannot say which nodes of a host a guest may use (only_nodes)",
		"wide":     "11 dedicated CPUs and 1 GiB of its cell 0 do not fit on a node",
	}
	for _, f := range s.Flavors(h, c) {
		var got []string
		for _, p := range f.Properties {
			if p.Key != "hw:vif_multiqueue_enabled" {
				got = append(got, p.Key+"="+p.Value)
			}
		}
		if text := cmp.Or(f.Unfit, strings.Join(got, " ")); text != want[f.Name] {
			t.Errorf("%s: %s", f.Name, text)
		}
	}
}

// Memory is promised as often as homenode does: more than once where all guests are shared.
func TestMemoryRatio(t *testing.T) {
	p := plan.Policy{MemoryOvercommit: 1.5}
	h := four()
	if err := plan.OnlyShared.Apply(h, &p); err != nil {
		t.Fatal(err)
	}
	s := Of(h, &p, nil)
	if text := s.Conf(); !strings.Contains(text, "\nram_allocation_ratio = 1.5\n") || !strings.Contains(text, "the host swaps") {
		t.Error(text)
	}
	p.Split, p.Dedicated = true, topology.CPUs(1)
	s = Of(h, &p, nil)
	if text := s.Conf(); !strings.Contains(text, "\nram_allocation_ratio = 1.0\n") {
		t.Error(text)
	}
}

// Nova forbids hosts with SMT to guests of isolate, and wants it for those of require.
func TestSMT(t *testing.T) {
	plain := plantest.Draw("0 0-3 16G 10")
	for _, h := range []*topology.Host{four(), plain} {
		s := Of(h, &plan.Policy{Split: true, Dedicated: h.Online}, nil)
		for _, smt := range []workload.SMTPolicy{workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire} {
			f := guest.Flavor{Name: "f", Class: workload.Dedicated, SMT: smt, Emulator: guest.Share, Memory: 1 << 20, VCPUs: 2, Queues: 1}
			want := smt == workload.SMTPrefer || (smt == workload.SMTIsolate) == (h == plain)
			if got := s.flavor(h, &f); (got.Unfit == "") != want {
				t.Errorf("%d nodes, %s: %q", len(h.Nodes), smt, got.Unfit)
			}
		}
	}
}
