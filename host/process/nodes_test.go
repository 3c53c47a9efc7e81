package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/numa"
)

// holder keeps memory of every kind on the node in its argument:
// ordinary pages with gaps, 16 MiB of huge pages, 8 MiB of shared memory, and
// hugetlb pages when asked to.
func holder() {
	var node, mib int
	fmt.Sscan(os.Getenv("PROCESS_TEST_ARG"), &node, &mib)
	home := topology.Nodes(topology.NodeID(node))
	k := numa.Kernel{}
	take := func(bytes, flags int, touch int, advice int) {
		mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANON)
		if err != nil {
			fmt.Println("map:", err)
			return
		}
		if advice != 0 {
			unix.Madvise(mem, advice)
		}
		if err := k.Bind(mem, numa.Bind|numa.StaticNodes, home, 0); err != nil {
			fmt.Println("bind:", err)
		}
		for i := 0; i < len(mem); i += touch {
			mem[i] = 1
		}
		// The policy would pull later pages back: this test is about pages only.
		k.Bind(mem, numa.Default, topology.NodeSet{}, 0)
	}
	take(mib<<20, unix.MAP_PRIVATE, 2*basePage, unix.MADV_NOHUGEPAGE)
	take(16<<20, unix.MAP_PRIVATE, basePage, unix.MADV_HUGEPAGE)
	take(8<<20, unix.MAP_SHARED, basePage, 0)
	if os.Getenv("PROCESS_TEST_HUGETLB") != "" {
		take(4<<20, unix.MAP_PRIVATE|unix.MAP_HUGETLB, hugePage, 0)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// placed is the movable bytes of a process by node.
func placed(t *testing.T, pid int) (map[topology.NodeID]int64, int64) {
	t.Helper()
	ranges, err := rangesOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	s := survey{on: map[topology.NodeID]int64{}}
	s.add(ranges, topology.NodeSet{}, map[sharedRange]int64{})
	return s.on, s.movable
}

func memoryNodes(t *testing.T) []topology.NodeID {
	text, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		t.Skip(err)
	}
	s, err := topology.ParseNodeSet(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() < 2 {
		t.Skip("needs two nodes with memory")
	}
	return s.Slice()
}

func TestNodesMove(t *testing.T) {
	nodes := memoryNodes(t)
	first, last := nodes[0], nodes[len(nodes)-1]
	for _, hugetlb := range []bool{false, true} {
		t.Run(fmt.Sprintf("hugetlb %v", hugetlb), func(t *testing.T) {
			if hugetlb {
				for _, n := range []topology.NodeID{first, last} {
					file := fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", n)
					if err := os.WriteFile(file, []byte("2"), 0); err != nil {
						t.Skip(err)
					}
					defer os.WriteFile(file, []byte("0"), 0)
				}
				t.Setenv("PROCESS_TEST_HUGETLB", "1")
			}
			c, lines := childProcess(t, "hold", fmt.Sprint(last), "32")
			for lines.Scan() && lines.Text() != "ready" {
				t.Log(lines.Text())
			}
			before, total := placed(t, c.Process.Pid)
			if before[last] < 32<<20 {
				t.Fatalf("%v by node before", before)
			}
			var rec plan.Move
			began, batches := time.Now(), 0
			step := realStep(t, plan.MovePages, c.Process.Pid, fmt.Sprint(first))
			err := NewMover(MoverOptions{Root: childrenOf{os.DirFS("/"), c.Process.Pid}}).Move(context.Background(), step, func(r plan.Move) { rec = r; batches++ })
			after, _ := placed(t, c.Process.Pid)
			t.Logf("%v: %v became %v in %v, %d batches: %+v", err, before, after, time.Since(began), batches, rec)
			if err != nil || after[first]*100 < total*99 {
				t.Error("not at home")
			}
			if d := rec.Moved - (after[first] - before[first]); d < -(2<<20) || d > 2<<20 {
				t.Errorf("record says %d moved, numa_maps %d", rec.Moved, after[first]-before[first])
			}
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", c.Process.Pid))
			huge, _, _ := parseSmaps(bytes.NewReader(text))
			thp := len(huge)
			t.Logf("%d ranges with huge pages afterwards", thp)
			if data, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); thp == 0 && !strings.Contains(string(data), "[never]") {
				t.Error("huge pages were split")
			}
		})
	}
}

func TestNodesMoveByShares(t *testing.T) {
	nodes := memoryNodes(t)
	if len(nodes) < 3 {
		t.Skip("needs three nodes")
	}
	c, lines := childProcess(t, "hold", fmt.Sprint(nodes[2]), "48")
	for lines.Scan() && lines.Text() != "ready" {
		t.Log(lines.Text())
	}
	step := realStep(t, plan.MovePages, c.Process.Pid, fmt.Sprintf("%d,%d", nodes[0], nodes[1]))
	step.Shares = []workload.NodeMemory{{Node: nodes[0], KiB: 300}, {Node: nodes[1], KiB: 100}}
	err := NewMover(MoverOptions{Root: childrenOf{os.DirFS("/"), c.Process.Pid}}).Move(context.Background(), step, nil)
	after, total := placed(t, c.Process.Pid)
	share := float64(after[nodes[0]]) / float64(total)
	t.Logf("%v: %v, %.3f on node %d", err, after, share, nodes[0])
	if err != nil || share < 0.70 || share > 0.80 {
		t.Error("not by shares")
	}
}

func TestNodesMoveIsPacedAndCancelled(t *testing.T) {
	nodes := memoryNodes(t)
	c, lines := childProcess(t, "hold", fmt.Sprint(nodes[1]), "64")
	for lines.Scan() && lines.Text() != "ready" {
		t.Log(lines.Text())
	}
	step := realStep(t, plan.MovePages, c.Process.Pid, fmt.Sprint(nodes[0]))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var rec plan.Move
	err := NewMover(MoverOptions{Bandwidth: 8 << 20}).Move(ctx, step, func(r plan.Move) { rec = r })
	if err != context.DeadlineExceeded || rec.Moved == 0 || rec.Moved > 20<<20 {
		t.Errorf("%v %+v", err, rec)
	}
	first := rec.Moved
	err = NewMover(MoverOptions{Bandwidth: -1}).Move(context.Background(), step, func(r plan.Move) { rec = r })
	after, total := placed(t, c.Process.Pid)
	t.Logf("%d moved until cancelled, then %d at full speed in %v s: %v", first, rec.Moved, rec.Seconds, after)
	if err != nil || after[nodes[0]]*100 < total*99 {
		t.Error(err, after)
	}
}

// A page pinned by the kernel is refused, and said; the rest comes.
func TestNodesPinnedPages(t *testing.T) {
	nodes := memoryNodes(t)
	const pages = 256
	mem, err := unix.Mmap(-1, 0, pages*basePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	k := numa.Kernel{}
	if err := k.Bind(mem, numa.Bind|numa.StaticNodes, topology.Nodes(nodes[1]), 0); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		mem[i*basePage] = 1
	}
	// vmsplice holds references to the pages for as long as the pipe has them.
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	iov := []unix.Iovec{{Base: &mem[0], Len: 4 * basePage}}
	if _, err := unix.Vmsplice(fds[1], iov, 0); err != nil {
		t.Skip(err)
	}
	self := realStep(t, plan.MovePages, os.Getpid(), fmt.Sprint(nodes[0]))
	m := NewMover(MoverOptions{Bandwidth: -1})
	j := &job{Mover: m, home: topology.Nodes(nodes[0]), fine: topology.Nodes(nodes[0]), step: self, progress: func(plan.Move) {}, why: map[why]int64{}, busy: map[int]int64{},
		refusedPages: pageSet{}, run: run{node: topology.None},
		members: map[int]workload.Process{os.Getpid(): self.Target.Processes[0]}}
	j.shares = newShares(self, j.home, map[topology.NodeID]int64{nodes[1]: pages * basePage})
	r := &memRange{start: uintptr(unsafe.Pointer(&mem[0])), kind: anon, pageSize: basePage, nodes: map[topology.NodeID]int64{nodes[1]: pages * basePage}}
	r.end = r.start + pages*basePage
	pm := j.proc.openPagemap(os.Getpid())
	defer pm.Close()
	if err := j.memRange(context.Background(), &target{self.Target.Processes[0], nil}, r, pm); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d moved, %d refused: %s", j.record.Moved, j.record.Refused, j.reasons())
	if j.record.Refused != 4*basePage || j.record.Moved != (pages-4)*basePage || !strings.Contains(j.reasons(), whyBusy.text) {
		t.Error("want four pages pinned")
	}
}

// A node without room ends the move with the truth about what came.
func TestNodesFull(t *testing.T) {
	nodes := memoryNodes(t)
	var free int64
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", nodes[0]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, fmt.Sprintf("Node %d MemFree: %%d kB", nodes[0]), &free)
	}
	if free <= 0 || free > 2<<20 {
		t.Skipf("would take %d MiB", free>>10)
	}
	fill := func(node topology.NodeID, mib int64) int {
		c, lines := childProcess(t, "hold", fmt.Sprint(node), fmt.Sprint(2*mib)) // every other page is touched
		for lines.Scan() && lines.Text() != "ready" {
			t.Log(lines.Text())
		}
		return c.Process.Pid
	}
	fill(nodes[0], free>>10-250)
	pid := fill(nodes[1], 350)
	var rec plan.Move
	began := time.Now()
	err = NewMover(MoverOptions{Bandwidth: -1}).Move(context.Background(), realStep(t, plan.MovePages, pid, fmt.Sprint(nodes[0])),
		func(r plan.Move) { rec = r })
	after, total := placed(t, pid)
	t.Logf("%v after %v: %v of %d, %+v", err, time.Since(began), after, total, rec)
	var full *NodeFullError
	if !errors.As(err, &full) || full.Node != nodes[0] {
		t.Error("want the node full")
	}
	if d := after[nodes[0]] - rec.Moved; d < 0 || d > 4<<20 {
		t.Errorf("%d bytes on node %d, record says %d moved", after[nodes[0]], nodes[0], rec.Moved)
	}
}
