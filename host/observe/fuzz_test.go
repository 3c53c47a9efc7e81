package observe

import (
	"bytes"
	"hash/maphash"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/proc"
)

func notNegative(t *testing.T, b byNode) {
	for n, kib := range b {
		if kib < 0 || n > proc.MaxNode {
			t.Fatalf("node %d has %d KiB", n, kib)
		}
	}
}

func FuzzCPUStat(f *testing.F) {
	f.Add([]byte("usage_usec 5\nuser_usec 1\n"))
	f.Add([]byte("usage_usec 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, ok := parseCPUStat(b); ok && d < 0 {
			t.Fatal(d)
		}
	})
}

func FuzzNUMAStat(f *testing.F) {
	f.Add([]byte("anon N0=4096 N1=0\nfile N0=1 N1=2\nfile_mapped N0=8192\nshmem N1=4096\n"))
	f.Add([]byte("anon N1024=1 N=1 N0= N0=99999999999999999999"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s numaStat
		parseNUMAStat(b, &s)
		notNegative(t, s.resident())
	})
}

// memory returns all memory of the maps, and its anonymous part.
func (m *numaMaps) memory() (all, anon byNode) {
	anon.addAll(m.anon)
	anon.addAll(m.hugeAnon)
	all.addAll(anon)
	for _, f := range m.files {
		all.add(int(f.node), f.kib)
	}
	for _, s := range m.shared {
		all.add(int(s.file.node), s.file.kib)
	}
	return all, anon
}

func FuzzNUMAMaps(f *testing.F) {
	f.Add([]byte("565215fa5000 default file=/usr/bin/head anon=1 dirty=1 active=0 N0=1 kernelpagesize_kB=4\n7f00 weighted interleave:0-1 anon=3 mapmax=2 N0=1 N1=2 kernelpagesize_kB=4"))
	f.Add([]byte("7f10 prefer (many):0-1 file=/dev/hugepages/x huge dirty=512 N1=512 kernelpagesize_kB=2048\n\n7f20\n7f30 bind:1\n"))
	f.Add([]byte("7f10 x N0=4294967295 N0=4294967295 kernelpagesize_kB=33554432"))
	p := newMapsParser(maphash.MakeSeed())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := p.parse(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		all, anon := m.memory()
		notNegative(t, all)
		for n := range anon {
			if anon[n] > all.at(n) {
				t.Fatalf("node %d: anonymous %d of %d", n, anon[n], all.at(n))
			}
		}
	})
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte(v2Mounts))
	f.Add([]byte("31 23 0:28 / /sys/fs/c\\040group rw,nosuid shared:9 - cgroup2 cgroup2 rw\n1 2 3 4 5 6 -\n\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if top, ok := bestMount(proc.Mountinfo(b)); ok && (top == "" || top[0] == '/') {
			t.Fatalf("%q", top)
		}
	})
}

func FuzzSmall(f *testing.F) {
	f.Add([]byte("Pss_Anon:   12 kB\nNode 0 Active(file): 7 kB\nSReclaimable: 8 kB\n12\n0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if parsePssAnon(b) < topology.None || parseReclaimable(b) < 0 || parseUsed(b) < 0 {
			t.Fatal("negative")
		}
		for _, pid := range appendPIDs(nil, b) {
			if pid <= 0 {
				t.Fatal(pid)
			}
		}
	})
}
