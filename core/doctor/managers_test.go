package doctor

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

func TestManagers(t *testing.T) {
	const two, one = "package:2 node:1 core:4 pu:1", "package:1 node:1 core:4 pu:1"
	tests := []struct {
		name, host string
		files      map[string]string
		want       []measure.Manager
	}{
		{"none", two, map[string]string{"proc/9/comm": "kubelet\n", "proc/sys/kernel/numa_balancing": "0\n"}, nil},
		{"kubelet gives CPUs out", two, map[string]string{
			"var/lib/kubelet/cpu_manager_state": `{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"a":{"x":"1","y":"3"},"b":{"z":"2"}},"checksum":7}`,
		}, []measure.Manager{{Name: Kubelet, Does: "static CPU manager policy", Owns: "pods, and CPUs 1-3 for some of them alone", CPUs: topology.CPUs(1, 2, 3)}}},
		{"kubelet gives memory out", two, map[string]string{
			"var/lib/kubelet/cpu_manager_state":    `{"policyName":"none","defaultCpuSet":""}`,
			"var/lib/kubelet/memory_manager_state": `{"policyName":"Static"}`,
		}, []measure.Manager{{Name: Kubelet, Does: "static memory manager policy", Owns: "pods"}}},
		{"broken state", two, map[string]string{"var/lib/kubelet/cpu_manager_state": `{"policyName":`}, nil},
		{"numad that answers libvirt", two, map[string]string{"proc/7/comm": "numad\n", "proc/7/cmdline": "numad\x00-w\x004:2048\x00"}, nil},
		{"numad that stays", two, map[string]string{"proc/7/comm": "numad\n", "proc/7/cmdline": "/usr/bin/numad\x00-i\x0015\x00"},
			[]measure.Manager{{Name: Numad, Does: "moves processes and their memory between nodes", Owns: "the CPUs and the memory of every workload"}}},
		{"tuned", two, map[string]string{"proc/7/comm": "tuned\n", "etc/tuned/active_profile": "throughput-performance\n",
			"etc/tuned/realtime-variables.conf": "isolated_cores=1\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile throughput-performance"}}},
		{"tuned that isolates", two, map[string]string{"proc/7/comm": "tuned\n", "etc/tuned/active_profile": "cpu-partitioning\n",
			"etc/tuned/cpu-partitioning-variables.conf": "# isolated_cores=1\nisolated_cores = 4-7\nno_balance_cores=5\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile cpu-partitioning and isolates CPUs 4-7", Owns: "CPUs 4-7", CPUs: topology.CPUs(4, 5, 6, 7)}}},
		{"tuned that isolates by a function", two, map[string]string{"proc/7/comm": "tuned\n", "etc/tuned/active_profile": "cpu-partitioning\n",
			"etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=${f:calc_isolated_cores:1}\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile cpu-partitioning"}}},
		{"the kernel", two, map[string]string{"proc/sys/kernel/numa_balancing": "3\n"},
			[]measure.Manager{{Name: KernelBalance, Does: "moves pages to the node whose CPUs use them, within CPU sets and memory nodes"}}},
		{"the kernel between tiers", two, map[string]string{"proc/sys/kernel/numa_balancing": "2\n"}, nil},
		{"the kernel on one node", one, map[string]string{"proc/sys/kernel/numa_balancing": "1\n"}, nil},
		{"pins by hand and pins of ours", two, map[string]string{
			"run/libvirt/qemu/db.xml":   "<domstatus><numatune></numatune></domstatus>",
			"run/libvirt/qemu/ours.xml": `<domstatus><metadata><homenode:guest xmlns:homenode="https://github.com/homenode/homenode/libvirt/1"/></metadata><vcpupin vcpu='0' cpuset='1'/></domstatus>`,
			"run/libvirt/qemu/db.pid":   "<vcpupin ",
		}, []measure.Manager{{Name: Libvirt, Does: "pins CPUs or memory of 1 running guest", Owns: "guests pinned by hand", Guests: []string{"db"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := topology.FromSynthetic(tt.host)
			if err != nil {
				t.Fatal(err)
			}
			fsys := fstest.MapFS{}
			for name, text := range tt.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if diff := cmp.Diff(tt.want, Managers(fsys, h), cmp.Comparer(topology.CPUSet.Equal)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A state file of the kubelet that names no policy does not get the other's.
func TestKubeletStatesAreReadAlone(t *testing.T) {
	const static, none = `{"policyName":"static"}`, `{}`
	for _, c := range []struct{ cpu, memory, want string }{
		{static, none, "static CPU manager policy"},
		{none, static, "static memory manager policy"},
	} {
		fsys := fstest.MapFS{
			"var/lib/kubelet/cpu_manager_state":    {Data: []byte(c.cpu)},
			"var/lib/kubelet/memory_manager_state": {Data: []byte(c.memory)},
		}
		for range 100 { // an order that changes shows
			if got := kubelet(fsys); len(got) != 1 || got[0].Does != c.want {
				t.Fatalf("%v, want the %s", got, c.want)
			}
		}
	}
}
