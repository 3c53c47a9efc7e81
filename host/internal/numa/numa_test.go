package numa

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

var k Kernel

func TestMaskRoundTrip(t *testing.T) {
	for _, list := range []string{"", "0", "63", "64", "0-3,8", "1023", "1024", "4095-4100,65535"} {
		s, err := topology.ParseCPUSet(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := setOf[topology.CPUID](maskOf(s)); got.String() != list {
			t.Errorf("%q came back as %q", list, got)
		}
	}
}

func TestAffinityOfSelf(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	all, err := k.Affinity(0)
	if err != nil || all.Empty() {
		t.Fatal(all, err)
	}
	one := topology.CPUs(all.Max())
	if err := k.SetAffinity(0, one); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Affinity(0); err != nil || !got.Equal(one) {
		t.Errorf("affinity %s, want %s (%v)", got, one, err)
	}
	if err := k.SetAffinity(0, topology.CPUs(8191)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a CPU that is not there: %v", err)
	}
	if err := k.SetAffinity(0, all.Union(topology.CPUs(5000))); err != nil {
		t.Errorf("a set past 1,024 CPUs that overlaps: %v", err)
	}
	if _, err := k.Affinity(1 << 30); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a thread that is not there: %v", err)
	}
}

func TestPagesOfSelf(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0], mem[page] = 1, 1
	base := uintptr(unsafe.Pointer(&mem[0]))
	pages := []uintptr{base, base + uintptr(page), base + 2*uintptr(page), 4096}
	status := []int32{99, 99, 99, 99}
	err = k.PageNodes(os.Getpid(), pages, status)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip(err)
	}
	if err != nil || status[0] < 0 || status[1] != status[0] || status[2] >= 0 || status[3] != -int32(unix.EFAULT) {
		t.Errorf("status %v, %v", status, err)
	}
	node := status[0]
	if err := k.MovePages(os.Getpid(), pages[:2], []int32{node, node}, status[:2], false); err != nil || status[1] != node {
		t.Errorf("move to where they are: %v, %v", status, err)
	}
	if err := k.MovePages(os.Getpid(), pages[:1], []int32{1000}, status[:1], false); err == nil {
		t.Error("moved to a node that is not there")
	}
	home := topology.Nodes(topology.NodeID(node))
	if err := k.Bind(mem, Bind|StaticNodes, home, Move); err != nil {
		t.Error(err)
	}
	if n, err := k.MigratePages(os.Getpid(), home, home); err != nil || n != 0 {
		t.Errorf("migrate to where all is: %d, %v", n, err)
	}
}

func TestPolicyOfSelf(t *testing.T) {
	runtime.LockOSThread()
	node := topology.Nodes(0)
	if err := k.SetPolicy(Bind|StaticNodes, node); err != nil {
		t.Skip(err)
	}
	if mode, nodes, err := k.Policy(); err != nil || mode != Bind|StaticNodes || !nodes.Equal(node) {
		t.Errorf("%x %s %v", mode, nodes, err)
	}
	if err := k.SetPolicy(Default, topology.NodeSet{}); err != nil {
		t.Error(err)
	}
	if mode, nodes, err := k.Policy(); err != nil || mode != Default || !nodes.Empty() {
		t.Errorf("%x %s %v", mode, nodes, err)
	}
}
