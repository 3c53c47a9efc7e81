//go:build linux

package kernel

import (
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// kernelPolicy records what writing cpuset.mems does to memory policies that a
// process set on its own memory. Homenode's rule rests on it: a workload with a
// policy of its own never gets a narrower cpuset.mems, because that can not be
// put back. Widening even makes it worse: mpol_rebind_nodemask (mm/mempolicy.c) maps
// the n-th of the old nodes to the n-th of the new ones, so that bind:3, narrowed
// to node 1, comes out of it as bind:0. Only policies set with
// MPOL_F_STATIC_NODES come back.
func kernelPolicy(t *lab.T) {
	const title = "Memory policy on a mapping, as numa_maps writes it, while cpuset.mems is 0-3, then 1, then " +
		"empty again"
	t.Row(title, "set by the process", "cpuset.mems 0-3", "narrowed to 1", "widened again", "pages after narrowing")
	cases := []struct {
		text              string
		place             string
		static            bool
		narrowed, widened string // what the kernel of 2026 says
	}{
		{"bind:3", "bind:3", false, "bind:1", "bind:0"},
		{"interleave:0-3", "interleave", false, "interleave:1", "interleave:0"},
		{"bind:3, static", "bind:3", true, "bind=static:1", "bind=static:3"},
		{"interleave:0-3, static", "interleave", true, "interleave=static:1", "interleave=static:0-3"},
		{"none", "local", false, "default", "default"},
	}
	var off []string
	for i, c := range cases {
		w := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "w" + string(rune('a'+i)), Slot: i, MiB: 8, Threads: 1,
			Place: c.place, Static: c.static})[0]
		t.Write(w.Group.File("cpuset.mems"), "0-3")
		before := t.Buffer(w).Policy
		t.Write(w.Group.File("cpuset.mems"), "1")
		narrow := t.Buffer(w)
		t.Write(w.Group.File("cpuset.mems"), "\n")
		wide := t.Buffer(w).Policy
		t.Row(title, c.text, before, narrow.Policy, wide, lab.ByNodeText(narrow.Nodes))
		if narrow.Policy != c.narrowed || wide != c.widened {
			off = append(off, c.text+": "+narrow.Policy+", then "+wide)
		}
		w.Quit()
	}
	if len(off) > 0 {
		t.Fatalf("the kernel has changed its ways: %s", strings.Join(off, "; "))
	}
}
