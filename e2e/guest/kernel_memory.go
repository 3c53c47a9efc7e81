//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kernelMovePages: pages move, those that are busy say so, and a second call
// moves the rest; a full list of where they are needs no move.
func kernelMovePages(t *T) {
	p := t.mapPages(32)
	t.Do(p.bind(mpolBind, setOf(0)))
	p.touch()
	t.Do(p.bind(mpolDefault, 0))
	busy, calls := 0, 0
	start := time.Now()
	for calls = 1; ; calls++ {
		status, err := p.place(3)
		t.Do(err)
		got := tally(status)
		busy += got[-int32(syscall.EBUSY)]
		// A busy page may have moved all the same: only asking tells.
		where, err := p.place(-1)
		t.Do(err)
		if tally(where)[3] == p.count() {
			break
		}
		if calls == 20 {
			t.Fatalf("after %d calls: status %v, places %v", calls, got, tally(where))
		}
	}
	took := time.Since(start)

	// Status of a page that was never touched, and of a node that is not there.
	q := t.mapPages(1)
	where, err := q.place(-1)
	t.Do(err)
	if got := tally(where); got[-int32(syscall.ENOENT)] != q.count() {
		t.Fatalf("untouched pages: %v", got)
	}
	q.touch()
	if _, err := q.place(t.shape.Nodes); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Fatalf("move to a node that is not there: %v", err)
	}
	t.Textf("%d pages in %d ms, %d call(s), %d said EBUSY", p.count(), took.Milliseconds(), calls, busy)
}

// kernelMigratePages moves a whole process from node to node, bound pages too.
func kernelMigratePages(t *T) {
	p := t.mapPages(16)
	t.Do(p.bind(mpolBind, setOf(3)))
	p.touch()
	left, err := migratePages(0, setOf(3), setOf(1))
	t.Do(err)
	where, err := p.place(-1)
	t.Do(err)
	if got := tally(where); got[1] < p.count()*99/100 {
		t.Fatalf("migrate_pages 3 to 1 left %d behind: %v", left, got)
	}
	t.Textf("also moves pages bound elsewhere; %d left behind", left)
}

// kernelMemoryFiles: numa_maps of the process and memory.numa_stat of its cgroup
// tell the same, by node.
func kernelMemoryFiles(t *T) {
	w := t.startWalkers(cgroupRoot, walkerSpec{name: "w", slot: 0, mib: 64, threads: 1, place: "interleave"})[0]
	b := t.buffer(w)
	if !strings.HasPrefix(b.policy, "interleave:") {
		t.Fatalf("numa_maps says policy %q for an interleaved buffer", b.policy)
	}
	for n := range t.shape.Nodes {
		if got, want := b.nodes[n], 64<<20/pageSize/t.shape.Nodes; got != want {
			t.Fatalf("node%d has %d pages, wanted %d: %s", n, got, want, byNodeText(b.nodes))
		}
	}
	anon, err := anonByNode(w.pid)
	t.Do(err)
	t.Until(10*time.Second, "memory.numa_stat agrees with numa_maps", func() (bool, string) {
		stat := numaStat(t, w.group, "anon")
		for n := range t.shape.Nodes {
			// Per-CPU batches (memcontrol's stock) keep small changes back.
			if d := stat[n] - anon[n]*pageSize; d > 2<<20 || d < -2<<20 {
				return false, fmt.Sprintf("node%d: numa_maps %d KiB, memory.numa_stat %d KiB", n, anon[n]*4, stat[n]>>10)
			}
		}
		return true, ""
	})
}

// numaStat reads a line of memory.numa_stat, in bytes by node.
func numaStat(t *T, g group, key string) map[int]int {
	r := map[int]int{}
	for line := range strings.Lines(t.read(g.file("memory.numa_stat"))) {
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
func kernelHugePages(t *T) {
	const pool = "hugepages/hugepages-2048kB/"
	for n := range t.shape.Nodes {
		// The kernel makes as many as it finds room for, and tells only by the count.
		t.Until(10*time.Second, fmt.Sprintf("node%d has %d free huge pages", n, n+1), func() (bool, string) {
			t.write("/proc/sys/vm/compact_memory", "1")
			t.write(nodeFile(n, pool+"nr_hugepages"), strconv.Itoa(n+1))
			got := t.read(nodeFile(n, pool+"free_hugepages"))
			return got == strconv.Itoa(n+1), "it has " + got
		})
	}
	const mapHugetlb = 0x40000
	b, err := syscall.Mmap(-1, 0, 2<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|mapHugetlb)
	t.Do(err)
	p := pages{b}
	t.Do(p.bind(mpolBind, setOf(2)))
	b[0] = 1
	if got := t.read(nodeFile(2, pool+"free_hugepages")); got != "2" {
		t.Fatalf("node2 has %s free huge pages after one of 3 was taken", got)
	}
	status, err := pages{b[:pageSize]}.place(-1)
	t.Do(err)
	if status[0] != 2 {
		t.Fatalf("the huge page lies on %d, wanted node 2", status[0])
	}
	t.Do(syscall.Munmap(b))
	t.Until(10*time.Second, "the huge page is given back", func() (bool, string) {
		got := t.read(nodeFile(2, pool+"free_hugepages"))
		return got == "3", got + " free"
	})
}

// kernelBalancing: NUMA balancing brings memory after the CPUs, and the switch
// that homenode reads says whether it will.
func kernelBalancing(t *T) {
	w := t.startWalkers(cgroupRoot, walkerSpec{name: "w", slot: 0, mib: 16, threads: 2, place: "bind:0", unbind: true})[0]
	t.write(w.group.file("cpuset.cpus"), nodeCPUs(3).String())
	warm(2 * time.Second)
	if b := t.buffer(w); share(b.nodes, setOf(0)) < 1 {
		t.Fatalf("pages moved with balancing off: %s", byNodeText(b.nodes))
	}
	t.Do(setBalancing(true))
	start := time.Now()
	t.Until(60*time.Second, "balancing brings the pages to node 3", func() (bool, string) {
		b := t.buffer(w)
		return share(b.nodes, setOf(3)) > 0.9, byNodeText(b.nodes)
	})
	if _, err := os.Stat("/proc/sys/kernel/numa_balancing"); err != nil {
		t.Fatalf("%v", err)
	}
	t.Textf("16 MiB followed the CPUs in %.1f s", time.Since(start).Seconds())
}
