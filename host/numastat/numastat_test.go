package numastat

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/homenode/homenode/core/workload"
)

func held(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func row(t *testing.T, f *workload.Figures, name string) []int64 {
	t.Helper()
	for _, r := range f.Rows {
		if r.Name == name {
			return r.ByNode
		}
	}
	t.Errorf("no row %q", name)
	return nil
}

func same(a []int64, b ...int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestNodes(t *testing.T) {
	const dir = "sys/devices/system/node/"
	root := fstest.MapFS{
		dir + "online":        held("0,2\n"),
		dir + "node0/meminfo": held("Node 0 MemTotal:       16777216 kB\nNode 0 MemFree: 1024 kB\nNode 0 Shmem: 7 kB\nNode 0 HugePages_Total:     3\n"),
		dir + "node2/meminfo": held("Node 2 MemTotal:       0 kB\n"),
		dir + "node0/hugepages/hugepages-2048kB/nr_hugepages":      held("3\n"),
		dir + "node0/hugepages/hugepages-2048kB/free_hugepages":    held("1\n"),
		dir + "node0/hugepages/hugepages-1048576kB/nr_hugepages":   held("2\n"),
		dir + "node0/hugepages/hugepages-1048576kB/free_hugepages": held("0\n"),
		dir + "node0/numastat": held("numa_hit 12\nnuma_miss 3\nother_node 4\n"),
	}
	f, err := Nodes(root)
	if err != nil || len(f.Nodes) != 2 || f.Nodes[1] != 2 {
		t.Fatal(f, err)
	}
	for name, want := range map[string][]int64{
		"total": {16777216, 0}, "free": {1024, -1}, "shared memory": {7, -1}, "huge pages of 2 MiB": {3 * 2048, -1}, "huge pages of 2 MiB free": {2048, -1},
		"huge pages of 1 GiB": {2 << 20, -1}, "huge pages of 1 GiB free": {0, -1}, "hit": {12, -1}, "miss": {3, -1}, "from other CPUs": {4, -1},
	} {
		if got := row(t, &f, name); !same(got, want...) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, err := Nodes(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "no NUMA nodes") {
		t.Error(err)
	}
}

const numaMaps = `7f0000000000 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4
55d000000000 prefer:0 heap anon=10 N0=10 kernelpagesize_kB=4
7ffc00000000 default stack anon=2 N1=2 kernelpagesize_kB=4
7f1000000000 bind:1 file=/memfd:x\040(deleted) dirty=4 mapmax=2 N1=4 kernelpagesize_kB=4
7f2000000000 default file=/usr/lib/libc.so.6 mapped=5 mapmax=9 N0=5 kernelpagesize_kB=4
7f3000000000 bind:1 file=/anon_hugepage\040(deleted) huge anon=2 N1=2 kernelpagesize_kB=2048
garbage
7f4000000000 default
`

func TestProcesses(t *testing.T) {
	root := fstest.MapFS{"proc/7/numa_maps": held(numaMaps), "proc/8/numa_maps": held("7f0000000000 default anon=1 N3=1 kernelpagesize_kB=4\n"), "proc/9/numa_maps": held("")}
	f, unread := Processes(context.Background(), root, []int{7, 8, 9, 10})
	if len(f.Nodes) != 3 || f.Nodes[2] != 3 || len(unread) != 1 || unread[0].PID != 10 || !strings.Contains(unread[0].Why, "no such process") {
		t.Fatal(f, unread)
	}
	for name, want := range map[string][]int64{
		"heap": {40, 0, 0}, "stack": {0, 8, 0}, "private": {8, 4, 4}, "shared memory": {0, 16, 0}, "file": {20, 0, 0}, "huge pages": {0, 4096, 0},
		"total": {68, 4124, 4},
	} {
		if got := row(t, &f, name); !same(got, want...) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, unread := Processes(ctx, root, []int{7}); len(unread) != 1 {
		t.Error("an interrupt does not end it")
	}
}

// stuck has one process that holds the lock of its address space.
type stuck struct {
	fstest.MapFS
	until chan struct{}
}

func (s stuck) Open(name string) (fs.File, error) {
	if name == "proc/6/numa_maps" {
		<-s.until
	}
	return s.MapFS.Open(name)
}

func TestProcessThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := stuck{fstest.MapFS{"proc/7/numa_maps": held(numaMaps)}, make(chan struct{})}
		f, unread := Processes(context.Background(), root, []int{6, 7})
		if len(unread) != 1 || unread[0].PID != 6 || !strings.Contains(unread[0].Why, "does not answer") || !same(row(t, &f, "heap"), 40, 0) {
			t.Error(f, unread)
		}
		close(root.until)
	})
}
