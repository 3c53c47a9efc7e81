package topology

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sound fails on a host that breaks what the package promises: sets that do
// not overlap, CPUs that are online, IDs in rising order, a square matrix.
func sound(t *testing.T, h *Host) {
	t.Helper()
	if h.Online.Empty() || len(h.Nodes) == 0 || len(h.Cores) == 0 {
		t.Fatalf("no CPU, node or core: %+v", h)
	}
	parts := func(what string, sets []CPUSet) {
		seen := CPUSet{}
		for _, s := range sets {
			if s.Intersects(seen) || !s.SubsetOf(h.Online) {
				t.Fatalf("%s: %s overlaps %s or is not among %s", what, s, seen, h.Online)
			}
			seen = seen.Union(s)
		}
		if what == "cores" && !seen.Equal(h.Online) {
			t.Fatalf("cores cover %s of %s", seen, h.Online)
		}
	}
	var nodes, packages, cores, llcs []CPUSet
	for i, n := range h.Nodes {
		nodes = append(nodes, n.CPUs)
		if i > 0 && h.Nodes[i-1].ID >= n.ID {
			t.Fatalf("nodes out of order: %d, %d", h.Nodes[i-1].ID, n.ID)
		}
		if n.Memory < None || n.Free < None || n.Reclaimable < None {
			t.Fatalf("node%d: a size below zero: %+v", n.ID, n)
		}
	}
	for _, p := range h.Packages {
		packages = append(packages, p.CPUs)
	}
	for _, c := range h.Cores {
		cores = append(cores, c.CPUs)
	}
	for _, l := range h.LLCs {
		llcs = append(llcs, l.CPUs)
	}
	parts("nodes", nodes)
	parts("packages", packages)
	parts("cores", cores)
	parts("llcs", llcs)
	if !h.Allowed.SubsetOf(h.Online) || h.Online.Intersects(h.Offline) {
		t.Fatalf("allowed %s, online %s, offline %s", h.Allowed, h.Online, h.Offline)
	}
	for _, row := range h.Distances {
		if len(row) != len(h.Nodes) || len(h.Distances) != len(h.Nodes) {
			t.Fatalf("distances are not square: %v", h.Distances)
		}
		for _, d := range row {
			if d != None && (d < minDistance || d > maxDistance) {
				t.Fatalf("distance %d", d)
			}
		}
	}
}

// oneLine fails on an error that would not fit on a line of its own.
func oneLineError(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
		t.Fatalf("not one line of reasonable length: %q", err)
	}
}

// FuzzSysfs changes one leaf of a tree.
func FuzzSysfs(f *testing.F) {
	base := fakeTree(&fuzzHost)
	names := slices.Sorted(maps.Keys(base))
	for i := range names {
		f.Add(uint16(i), []byte("0-3"))
	}
	for _, text := range []string{"", "\x00", "-1", "0", "10 10", "10 20 30", "ffffffff,ffffffff", "Node 0 MemTotal: -5 kB", "999999999999999999999", "a\nb"} {
		f.Add(uint16(0), []byte(text))
		f.Add(uint16(len(names)/2), []byte(text))
		f.Add(uint16(len(names)-1), []byte(text))
	}
	f.Fuzz(func(t *testing.T, which uint16, data []byte) {
		tree := maps.Clone(base)
		name := names[int(which)%len(names)]
		if len(data) > 0 && data[0] == '!' {
			delete(tree, name)
		} else {
			tree[name] = &fstest.MapFile{Data: data}
		}
		h, err := FromSysfs(tree)
		if err != nil {
			oneLineError(t, err)
			return
		}
		sound(t, h)
		var b bytes.Buffer
		if err := h.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, err := FromJSON(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%s = %q: FromJSON refuses what WriteJSON wrote: %v\n%s", name, data, err, b.String())
		}
		if d := diff(h, again); d != "" {
			t.Fatalf("JSON changed the host (-before +after):\n%s", d)
		}
		if _, err := ReadFree(base, h); err != nil {
			t.Fatal(err)
		}
	})
}

var fuzzHost = func() Host {
	h, err := FromSynthetic("package:2 node:1(hugepages=2MiB:4) llc:1 core:2 pu:2")
	if err != nil {
		panic(err)
	}
	h.Devices = []Device{{Name: "eth0", Kind: NIC, PCI: "0000:01:00.0", Node: 0, Root: "pci0000:00"}}
	return *h
}()

func FuzzJSON(f *testing.F) {
	var b bytes.Buffer
	if err := fuzzHost.WriteJSON(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(contractExample))
	f.Add([]byte(`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0"}]}`))
	for _, tc := range badJSON {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := FromJSON(bytes.NewReader(data))
		if err != nil {
			oneLineError(t, err)
			return
		}
		sound(t, h)
		var b bytes.Buffer
		if err := h.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, err := FromJSON(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if d := diff(h, again); d != "" {
			t.Fatalf("JSON changed the host (-before +after):\n%s", d)
		}
	})
}

func FuzzSynthetic(f *testing.F) {
	for _, seed := range []string{
		"package:2 node:2 llc:2 core:8 pu:2", "core:1", "pu:4", "node:2(memory=64GiB) core:2", "node:1(hugepages=2MiB:8) core:1",
		"pack:2 numa:2 l3:1 core:2 thread:2 numbering=interleaved", "special:2 core:2", "package:2 special:1(memory=1TiB) core:1 numbering=adjacent",
		"package:0", "(", "node:2(", "a:1", "core:8192 pu:2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := FromSynthetic(text)
		if err != nil {
			oneLineError(t, err)
			return
		}
		sound(t, h)
		if h.Online.Max() != CPUID(h.Online.Len()-1) {
			t.Fatalf("CPUs are not numbered from 0 without gaps: %s", h.Online)
		}
	})
}

func FuzzHwlocXML(f *testing.F) {
	f.Add([]byte(hwlocExample))
	f.Add([]byte(strings.Replace(hwlocExample, `"2.0"`, `"3.0"`, 1)))
	f.Add([]byte(`<topology version="2.0"><object type="PU" os_index="0"/></topology>`))
	f.Add([]byte(`<topology version="2.0"><object type="Machine" cpuset="0xf...f"><object type="NUMANode" os_index="0"/></object></topology>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := FromHwlocXML(bytes.NewReader(data))
		if err != nil {
			oneLineError(t, err)
			return
		}
		sound(t, h)
	})
}

func FuzzMask(f *testing.F) {
	for _, seed := range []string{"0", "ffffffff,00000001", "0001,00000000", "x", ","} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, mask string) {
		s, err := ParseMask(mask)
		if err != nil {
			return
		}
		var words []string
		for base := int(s.Max()) / 32 * 32; base >= 0; base -= 32 {
			w := uint32(0)
			for bit := range 32 {
				if s.Has(CPUID(base + bit)) {
					w |= 1 << bit
				}
			}
			words = append(words, fmt.Sprintf("%08x", w))
		}
		if again, err := ParseMask(strings.Join(words, ",")); len(words) > 0 && (err != nil || !again.Equal(s)) {
			t.Fatalf("%q → %s → %s, %v", mask, s, again, err)
		}
	})
}
