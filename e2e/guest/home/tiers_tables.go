//go:build linux

package home

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// tiersPageTables: a page move takes no page table along. What explain shows by node is what the kernel's flags of each
// page say, before and after a move of 512 MiB in pages of 4 KiB.
func tiersPageTables(t *lab.T) {
	const mib = 512
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "tables", Slot: 0, MiB: mib, Threads: 1, Place: "bind:0",
		Unbind: true, Sleep: "100ms"})
	w := ws[0]
	if n := w.HugePages(t); n > mib/32 { // the runtime of the program has one
		t.Fatalf("%d huge pages; its pages are to be of 4 KiB", n)
	}
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce",
		Extra: "workloads: [{match: tables, class: dedicated, cpus: 1}]\n"})
	home := t.AwaitHome(lab.SettleLimit, ws)["tables"]
	before := sameTables(t, w, "before the move")
	least := mib << 20 / lab.PageSize / 512 // a page table has 512 entries
	if sum(before) < least {
		t.Fatalf("%v page tables for %d MiB; want %d at least", before, mib, least)
	}
	to := 0
	for home.Has(to) {
		to++
	}
	t.Must(lab.Homenode("move", "tables", "--to", strconv.Itoa(to)), lab.ExitOK)
	t.Until(lab.SettleLimit, "the pages have moved", func() (bool, string) {
		on := t.Buffer(w).Nodes
		return on[to] >= mib<<20/lab.PageSize*99/100, lab.ByNodeText(on)
	})
	lab.Warm(3 * time.Second)
	after := sameTables(t, w, "after the move")
	if moved := after[to] - before[to]; moved > least/10 {
		t.Fatalf("%d page tables came along: before %v, after %v", moved, before, after)
	}
	shown := t.Must(lab.Homenode("explain", w.ID()), lab.ExitOK).Out
	if !strings.Contains(shown, "of page tables lie off its home") || !strings.Contains(shown, "A restart at home") {
		t.Fatalf("explain does not say so:\n%s", shown)
	}
	t.Walking(ws)
	t.Alive(d)
	t.Textf("%d MiB moved from node %s to %d; page tables by node before %v, after %v, as explain shows", mib, home, to,
		before, after)
}

func sum(by map[int]int) (all int) {
	for _, n := range by {
		all += n
	}
	return all
}

// sameTables counts the page tables of a walker's cgroup by node, and fails unless explain shows the same number.
func sameTables(t *lab.T, w *lab.Walker, when string) map[int]int {
	var counted map[int]int
	t.Until(30*time.Second, when+" explain shows the page tables that there are", func() (bool, string) {
		counted = pageTables(t, w.Group)
		shown := map[int]int{}
		var x struct {
			Workload struct {
				Kernel struct {
					Tables []struct {
						Node int `json:"node"`
						KiB  int `json:"kib"`
					} `json:"page_tables_by_node"`
				} `json:"kernel_memory"`
			} `json:"workload"`
		}
		t.Do(json.Unmarshal([]byte(t.Must(lab.Homenode("explain", w.ID(), "--json"), lab.ExitOK).Out), &x))
		for _, m := range x.Workload.Kernel.Tables {
			shown[m.Node] = m.KiB * 1024 / lab.PageSize
		}
		return maps.Equal(counted, shown), fmt.Sprintf("counted %v, shown %v", counted, shown)
	})
	return counted
}

// pageTables counts by /proc/kpageflags and /proc/kpagecgroup (Documentation/admin-guide/mm/pagemap.rst) the page
// tables that are charged to a cgroup, by node.
func pageTables(t *lab.T, g lab.Group) map[int]int {
	const pageTable = 26 // KPF_PGTABLE
	inode := t.Inode(g)
	flags, err := os.Open("/proc/kpageflags")
	t.Do(err)
	defer flags.Close()
	owners, err := os.Open("/proc/kpagecgroup")
	t.Do(err)
	defer owners.Close()
	size, err := strconv.ParseInt(t.Read("/sys/devices/system/memory/block_size_bytes"), 16, 64)
	t.Do(err)
	words := int(size / lab.PageSize)
	buf, who := make([]byte, 8*words), make([]byte, 8*words)
	out := map[int]int{}
	for n := range t.Shape.Nodes {
		blocks, err := filepath.Glob(fmt.Sprintf("/sys/devices/system/node/node%d/memory[0-9]*", n))
		t.Do(err)
		for _, b := range blocks {
			k, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(b), "memory"), 10, 64)
			t.Do(err)
			at := k * size / lab.PageSize * 8
			got, err := flags.ReadAt(buf, at)
			if err != nil && err != io.EOF {
				t.Fatalf("kpageflags at %d: %v", at, err)
			}
			if _, err := owners.ReadAt(who[:got], at); err != nil && err != io.EOF {
				t.Fatalf("kpagecgroup at %d: %v", at, err)
			}
			for i := 0; i+8 <= got; i += 8 {
				if binary.NativeEndian.Uint64(buf[i:])>>pageTable&1 == 1 &&
					binary.NativeEndian.Uint64(who[i:]) == inode {
					out[n]++
				}
			}
		}
	}
	return out
}
