//go:build linux

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// kernelMovePages: pages move, those that are busy say so, and a second call
// moves the rest; a full list of where they are needs no move.
func kernelMovePages(t *lab.T) {
	p := t.MapPages(32)
	t.Do(p.Bind(lab.MpolBind, lab.SetOf(0)))
	p.Touch()
	t.Do(p.Bind(lab.MpolDefault, 0))
	busy, calls := 0, 0
	start := time.Now()
	for calls = 1; ; calls++ {
		status, err := p.Place(3)
		t.Do(err)
		got := lab.Tally(status)
		busy += got[-int32(syscall.EBUSY)]
		// A busy page may have moved all the same: only asking tells.
		where, err := p.Place(-1)
		t.Do(err)
		if lab.Tally(where)[3] == p.Count() {
			break
		}
		if calls == 20 {
			t.Fatalf("after %d calls: status %v, places %v", calls, got, lab.Tally(where))
		}
	}
	took := time.Since(start)

	// Status of a page that was never touched, and of a node that is not there.
	q := t.MapPages(1)
	where, err := q.Place(-1)
	t.Do(err)
	if got := lab.Tally(where); got[-int32(syscall.ENOENT)] != q.Count() {
		t.Fatalf("untouched pages: %v", got)
	}
	q.Touch()
	if _, err := q.Place(t.Shape.Nodes); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Fatalf("move to a node that is not there: %v", err)
	}
	t.Textf("%d pages in %d ms, %d call(s), %d said EBUSY", p.Count(), took.Milliseconds(), calls, busy)
}

// kernelMigratePages moves a whole process from node to node, bound pages too.
func kernelMigratePages(t *lab.T) {
	p := t.MapPages(16)
	t.Do(p.Bind(lab.MpolBind, lab.SetOf(3)))
	p.Touch()
	left, err := lab.MigratePages(0, lab.SetOf(3), lab.SetOf(1))
	t.Do(err)
	where, err := p.Place(-1)
	t.Do(err)
	if got := lab.Tally(where); got[1] < p.Count()*99/100 {
		t.Fatalf("migrate_pages 3 to 1 left %d behind: %v", left, got)
	}
	t.Textf("also moves pages bound elsewhere; %d left behind", left)
}

// kernelMemoryFiles: numa_maps of the process and memory.numa_stat of its cgroup
// tell the same, by node.
func kernelMemoryFiles(t *lab.T) {
	w := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "w", Slot: 0, MiB: 64, Threads: 1, Place: "interleave"})[0]
	b := t.Buffer(w)
	if !strings.HasPrefix(b.Policy, "interleave:") {
		t.Fatalf("numa_maps says policy %q for an interleaved buffer", b.Policy)
	}
	for n := range t.Shape.Nodes {
		if got, want := b.Nodes[n], 64<<20/lab.PageSize/t.Shape.Nodes; got != want {
			t.Fatalf("node%d has %d pages, wanted %d: %s", n, got, want, lab.ByNodeText(b.Nodes))
		}
	}
	anon, err := lab.AnonByNode(w.PID)
	t.Do(err)
	t.Until(10*time.Second, "memory.numa_stat agrees with numa_maps", func() (bool, string) {
		stat := numaStat(t, w.Group, "anon")
		for n := range t.Shape.Nodes {
			// Per-CPU batches (memcontrol's stock) keep small changes back.
			if d := stat[n] - anon[n]*lab.PageSize; d > 2<<20 || d < -2<<20 {
				return false, fmt.Sprintf("node%d: numa_maps %d KiB, memory.numa_stat %d KiB", n, anon[n]*4,
					stat[n]>>10)
			}
		}
		return true, ""
	})
}

// numaStat reads a line of memory.numa_stat, in bytes by node.
func numaStat(t *lab.T, g lab.Group, key string) map[int]int {
	r := map[int]int{}
	for line := range strings.Lines(t.Read(g.File("memory.numa_stat"))) {
		f := strings.Fields(line)
		if f[0] != key {
			continue
		}
		for _, word := range f[1:] {
			var n, bytes int
			if _, err := fmt.Sscanf(word, "N%d=%d", &n, &bytes); err == nil {
				r[n] = bytes
			}
		}
	}
	return r
}

// kernelHugePages: every node has a pool of its own, and pages taken from it lie
// there.
func kernelHugePages(t *lab.T) {
	const pool = "hugepages/hugepages-2048kB/"
	for n := range t.Shape.Nodes {
		// The kernel makes as many as it finds room for, and tells only by the count.
		t.Until(10*time.Second, fmt.Sprintf("node%d has %d free huge pages", n, n+1), func() (bool, string) {
			t.Write("/proc/sys/vm/compact_memory", "1")
			t.Write(lab.NodeFile(n, pool+"nr_hugepages"), strconv.Itoa(n+1))
			got := t.Read(lab.NodeFile(n, pool+"free_hugepages"))
			return got == strconv.Itoa(n+1), "it has " + got
		})
	}
	const mapHugetlb = 0x40000
	b, err := syscall.Mmap(-1, 0, 2<<20, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|mapHugetlb)
	t.Do(err)
	p := lab.Pages{Bytes: b}
	t.Do(p.Bind(lab.MpolBind, lab.SetOf(2)))
	b[0] = 1
	if got := t.Read(lab.NodeFile(2, pool+"free_hugepages")); got != "2" {
		t.Fatalf("node2 has %s free huge pages after one of 3 was taken", got)
	}
	status, err := lab.Pages{Bytes: b[:lab.PageSize]}.Place(-1)
	t.Do(err)
	if status[0] != 2 {
		t.Fatalf("the huge page lies on %d, wanted node 2", status[0])
	}
	t.Do(syscall.Munmap(b))
	t.Until(10*time.Second, "the huge page is given back", func() (bool, string) {
		got := t.Read(lab.NodeFile(2, pool+"free_hugepages"))
		return got == "3", got + " free"
	})
}

// kernelBalancing: NUMA balancing brings memory after the CPUs, and the switch
// that homenode reads says whether it will.
func kernelBalancing(t *lab.T) {
	w := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "w", Slot: 0, MiB: 16, Threads: 2, Place: "bind:0",
		Unbind: true})[0]
	t.Write(w.Group.File("cpuset.cpus"), lab.NodeCPUs(3).String())
	lab.Warm(2 * time.Second)
	if b := t.Buffer(w); lab.Share(b.Nodes, lab.SetOf(0)) < 1 {
		t.Fatalf("pages moved with balancing off: %s", lab.ByNodeText(b.Nodes))
	}
	t.Do(lab.SetBalancing(true))
	start := time.Now()
	t.Until(60*time.Second, "balancing brings the pages to node 3", func() (bool, string) {
		b := t.Buffer(w)
		return lab.Share(b.Nodes, lab.SetOf(3)) > 0.9, lab.ByNodeText(b.Nodes)
	})
	if _, err := os.Stat("/proc/sys/kernel/numa_balancing"); err != nil {
		t.Fatalf("%v", err)
	}
	t.Textf("16 MiB followed the CPUs in %.1f s", time.Since(start).Seconds())
}
