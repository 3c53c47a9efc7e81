package doctor

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// rootStatus is of a process of root's.
const rootStatus = "Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t7\n"

// R4: whoever takes the name of a manager is none.
func TestWhoIsAManager(t *testing.T) {
	const user, contained = "Uid:\t65534\t65534\t65534\t65534\nNSpid:\t7\n", "Uid:\t0\t0\t0\t0\nNSpid:\t7\t1\n"
	for _, tt := range []struct {
		name, status, comm, exe, users string
		want                           bool
	}{
		{"root's", rootStatus, "numad", "/usr/bin/numad", "user:[1]", true},
		{"updated since", rootStatus, "numad", "/usr/bin/numad (deleted)", "user:[1]", true},
		{"by another name", rootStatus, "numad-worker", "/usr/bin/numad", "user:[1]", true},
		{"executable not to be seen", rootStatus, "numad", "", "", true},
		{"a user's that took the name", user, "numad", "/tmp/comm", "user:[1]", false},
		{"a user's executable", user, "numad", "/tmp/numad", "user:[1]", false},
		{"set-uid", "Uid:\t65534\t0\t0\t0\n", "numad", "/usr/bin/numad", "user:[1]", false},
		{"root's that took the name", rootStatus, "numad", "/usr/bin/make", "user:[1]", false},
		{"a container's root", contained, "numad", "/usr/bin/numad", "user:[1]", false},
		{"root of a user namespace", rootStatus, "numad", "/usr/bin/numad", "user:[2]", false},
		{"nothing known", "", "numad", "", "", false},
	} {
		fsys := fstest.MapFS{
			"proc/1/ns/user": {Data: []byte("user:[1]"), Mode: fs.ModeSymlink},
			"proc/7/comm":    {Data: []byte(tt.comm + "\n")},
			"proc/7/status":  {Data: []byte(tt.status)},
		}
		if tt.exe != "" {
			fsys["proc/7/exe"] = &fstest.MapFile{Data: []byte(tt.exe), Mode: fs.ModeSymlink}
			fsys["proc/7/ns/user"] = &fstest.MapFile{Data: []byte(tt.users), Mode: fs.ModeSymlink}
		}
		if got := runningManagers(fsys)[Numad]; got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	tuned := fstest.MapFS{
		"proc/7/comm":   {Data: []byte("tuned\n")},
		"proc/7/status": {Data: []byte(rootStatus)},
		"proc/7/exe":    {Data: []byte("/usr/bin/python3.11"), Mode: fs.ModeSymlink},
	}
	if !runningManagers(tuned)[Tuned] {
		t.Error("tuned is not found by its interpreter")
	}
}

// crowded is a machine with many more processes, which come first.
type crowded struct{ fstest.MapFS }

func (c crowded) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := c.MapFS.ReadDir(name)
	if name != "proc" || err != nil {
		return entries, err
	}
	one, err := fstest.MapFS{"12345": &fstest.MapFile{Mode: fs.ModeDir}}.ReadDir(".")
	return append(slices.Repeat(one, 25_000), entries...), err
}

// A user can start many processes, and none of them hides a manager.
func TestManagerBehindManyProcesses(t *testing.T) {
	fsys := crowded{fstest.MapFS{
		"proc/900/comm":   &fstest.MapFile{Data: []byte("numad\n")},
		"proc/900/status": &fstest.MapFile{Data: []byte("Uid:\t0\t0\t0\t0\n")},
	}}
	if !runningManagers(fsys)[Numad] {
		t.Error("numad was not found")
	}
}

// owned is a machine that names owners, and fails where an executable of a user is read.
type owned struct {
	fstest.MapFS
	t *testing.T
}

func (o owned) OwnerOf(name string) int {
	switch name {
	case "proc/7":
		return 0
	case "proc/8":
		return 65534
	}
	return -1
}

func (o owned) ReadLink(name string) (string, error) {
	if name == "proc/8/exe" {
		o.t.Error("the executable of a user's process is read")
	}
	return o.MapFS.ReadLink(name)
}

// Only root's processes can be managers, so that no other is read.
func TestManagersOfRoot(t *testing.T) {
	for _, pid := range []string{"7", "9"} { // root's, and one whose owner is not known
		fsys := owned{fstest.MapFS{
			"proc/8/comm":             &fstest.MapFile{Data: []byte("numad\n")},
			"proc/8/exe":              &fstest.MapFile{Data: []byte("/usr/bin/numad"), Mode: fs.ModeSymlink},
			"proc/" + pid + "/comm":   &fstest.MapFile{Data: []byte("numad\n")},
			"proc/" + pid + "/status": &fstest.MapFile{Data: []byte("Uid:\t0\t0\t0\t0\n")},
		}, t}
		if !runningManagers(fsys)[Numad] {
			t.Errorf("numad of process %s was not found", pid)
		}
	}
}

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
		{"numad that answers libvirt", two, map[string]string{"proc/7/status": rootStatus, "proc/7/comm": "numad\n", "proc/7/cmdline": "numad\x00-w\x004:2048\x00"}, nil},
		{"numad that stays", two, map[string]string{"proc/7/status": rootStatus, "proc/7/comm": "numad\n", "proc/7/cmdline": "/usr/bin/numad\x00-i\x0015\x00"},
			[]measure.Manager{{Name: Numad, Does: "moves processes and their memory between nodes", Owns: "the CPUs and the memory of every workload"}}},
		{"tuned", two, map[string]string{"proc/7/status": rootStatus, "proc/7/comm": "tuned\n", "etc/tuned/active_profile": "throughput-performance\n",
			"etc/tuned/realtime-variables.conf": "isolated_cores=1\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile throughput-performance"}}},
		{"tuned that isolates", two, map[string]string{"proc/7/status": rootStatus, "proc/7/comm": "tuned\n", "etc/tuned/active_profile": "cpu-partitioning\n",
			"etc/tuned/cpu-partitioning-variables.conf": "# isolated_cores=1\nisolated_cores = 4-7\nno_balance_cores=5\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile cpu-partitioning and isolates CPUs 4-7", Owns: "CPUs 4-7", CPUs: topology.CPUs(4, 5, 6, 7)}}},
		{"tuned that isolates by a function", two, map[string]string{"proc/7/status": rootStatus, "proc/7/comm": "tuned\n", "etc/tuned/active_profile": "cpu-partitioning\n",
			"etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=${f:calc_isolated_cores:1}\n"},
			[]measure.Manager{{Name: Tuned, Does: "sets kernel settings by profile cpu-partitioning"}}},
		{"the kernel", two, map[string]string{"proc/sys/kernel/numa_balancing": "3\n"},
			[]measure.Manager{{Name: KernelBalance, Does: "moves pages to the node whose CPUs use them, within CPU sets and memory nodes"}}},
		{"the kernel between tiers", two, map[string]string{"proc/sys/kernel/numa_balancing": "2\n"}, nil},
		{"the kernel on one node", one, map[string]string{"proc/sys/kernel/numa_balancing": "1\n"}, nil},
		{"Proxmox VE", two, map[string]string{
			"sys/fs/cgroup/qemu.slice/100.scope/cgroup.procs": "7\n", "sys/fs/cgroup/qemu.slice/101.scope/cgroup.procs": "8\n", "sys/fs/cgroup/qemu.slice/102.scope/cgroup.procs": "9\n",
			"etc/pve/qemu-server/100.conf": "cores: 2\n[old]\naffinity: 1\n", "etc/pve/qemu-server/101.conf": "affinity: 0-1\n", "etc/pve/qemu-server/102.conf": "numa0: cpus=0,hostnodes=1\n",
		}, []measure.Manager{{Name: Proxmox, Does: "runs 3 guests, 2 of them with affinity or hostnodes", Owns: "guests with affinity or hostnodes", Guests: []string{"101", "102"}}}},
		{"Proxmox VE that binds nothing", two, map[string]string{"sys/fs/cgroup/qemu.slice/100.scope/cgroup.procs": "7\n"},
			[]measure.Manager{{Name: Proxmox, Does: "runs 1 guest"}}},
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
