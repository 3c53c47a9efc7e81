package domain

import (
	"math/bits"
	"slices"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/topology"
)

// withCaches divides sockets into a die for each last-level cache of the host that the vCPUs are pinned to,
// so that the guest's scheduler keeps work together where the caches are: QEMU gives each die a level 3
// cache (target/i386/cpu.c, share_level). It does so where every cache has the same number of vCPUs, in
// order: a topology has dies of one size. Two machines get a socket for each cache: Arm's, which has no dies,
// and emulated ones, for there QEMU 10.0.2 aborts when a guest with dies reads CPUID 1FH past its last level
// (encode_topo_cpuid1f; Linux 7.3 does).
func (t guestTopology) withCaches(h *topology.Host, pins []topology.CPUSet, m Machine) guestTopology {
	size := vcpusPerCache(h, pins)
	socket := t.dies * t.cores * t.threads
	if size == 0 || size >= socket || socket%size != 0 || size%t.threads != 0 {
		return t
	}
	dies := socket / size
	if m.Arch == "aarch64" || m.Emulated {
		return guestTopology{t.sockets * dies, 1, size / t.threads, t.threads}
	}
	return guestTopology{t.sockets, dies, size / t.threads, t.threads}
}

// vcpusPerCache returns the number of vCPUs in a row that are pinned to one last-level cache of the host; 0
// when that is not the same for all, when a cache is met twice, and when a vCPU may use several.
func vcpusPerCache(h *topology.Host, pins []topology.CPUSet) int {
	size, run := 0, 0 // vCPUs of the caches before, and of this one so far
	last := -1
	met := map[int]bool{}
	for _, pin := range pins {
		at := cacheOf(h, pin)
		switch {
		case at < 0:
			return 0
		case at == last:
			run++
			continue
		case met[at], size > 0 && run != size:
			return 0
		}
		if last >= 0 {
			size = run
		}
		met[at] = true
		last = at
		run = 1
	}
	if size > 0 && run != size {
		return 0
	}
	return run
}

// cacheOf returns the position of the last-level cache that has all of some CPUs, -1 for none.
func cacheOf(h *topology.Host, cpus topology.CPUSet) int {
	return slices.IndexFunc(h.LLCs, func(l topology.LLC) bool { return !cpus.Empty() && cpus.SubsetOf(l.CPUs) })
}

// ownCaches has QEMU emulate the guest's level 3 cache where it would pass the host's description on: that
// lists sharing CPUs by APIC ID, and would join several sockets or dies of the guest. QEMU passes AMD's
// (CPUID 8000001DH) on as it is, and cuts Intel's (CPUID 4) to a socket.
func ownCaches(cpu *etree.Element, h *topology.Host, pins []topology.CPUSet, t guestTopology) {
	cache := cpu.SelectElement("cache")
	if cache == nil || t.sockets*t.dies < 2 || !h.SplitCaches() || len(pins) == 0 {
		return
	}
	at := cacheOf(h, pins[0])
	if at < 0 {
		return
	}
	if width(h.LLCs[at].CPUs.Len()) == width(t.cores)+width(t.threads) {
		return // a die of the guest has as many APIC IDs as a cache of the host
	}
	cache.CreateAttr("level", "3")
	cache.CreateAttr("mode", "emulate")
}

// width returns the number of bits of an APIC ID that number n parts (hw/i386/topology.h).
func width(n int) int { return bits.Len(uint(n - 1)) }
