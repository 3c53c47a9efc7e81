package observe

import (
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/workload"
)

func TestLineageOf(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	fsys := fstest.MapFS{
		"proc/12/status": file("Name:\tworker\nTgid:\t10\nPPid:\t5\n"), // a thread
		"proc/10/status": file("Name:\tserver\nTgid:\t10\nPPid:\t5\n"),
		"proc/10/cgroup": file("4:cpuset:/other\n0::/system.slice/a.service\n"),
		"proc/5/status":  file("Name:\tTgid:\t9\nTgid:\t5\nPPid:\t1\n"),
		"proc/1/status":  file("Name:\tinit\nTgid:\t1\nPPid:\t0\n"),
		"proc/7/status":  file("Name:\tloop\nTgid:\t7\nPPid:\t7\n"),
	}
	for pid, want := range map[int]workload.Lineage{
		12: {PIDs: []int{10, 5, 1}, Cgroup: "/system.slice/a.service"},
		10: {PIDs: []int{10, 5, 1}, Cgroup: "/system.slice/a.service"},
		99: {}, -1: {},
	} {
		if got := LineageOf(fsys, pid); !reflect.DeepEqual(got, want) {
			t.Errorf("process %d: %+v, want %+v", pid, got, want)
		}
	}
	if got := LineageOf(fsys, 7); len(got.PIDs) != mostAncestors {
		t.Errorf("what is its own parent: %+v", got)
	}
}
