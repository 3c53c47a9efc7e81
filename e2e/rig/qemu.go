package main

import (
	"cmp"
	"fmt"
	"math/bits"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// firstSeed is that of a guest in virtual time where none was asked for.
const firstSeed = 7

// qemuArgs is the machine of a shape. The wire (second serial line) goes to
// descriptor 3, the console to standard output.
func qemuArgs(s suite.Shape, t tools, image, dir, bin string, words []string) []string {
	var a []string
	add := func(words ...string) { a = append(a, words...) }
	for _, f := range t.firmware {
		add("-L", f)
	}
	accel := "tcg,thread=multi"
	if t.accel == "kvm" && !s.Count && !s.Virtual { // a plugin sees only what is emulated
		accel = "kvm"
	}
	if s.Virtual {
		// All vCPUs take turns on one thread, an instruction takes so many ns of the guest's clock, and a
		// guest that sleeps goes on at once with its next timer: the same guest, the same run.
		// Room for translated code (MiB) that does not go by the memory of this machine: where it is full, all is
		// translated anew, and the CPUs' round begins anew.
		accel = "tcg,thread=single,tb-size=1024"
		add("-icount", fmt.Sprintf("shift=%d,sleep=off", bits.TrailingZeros(uint(cmp.Or(s.Instruction, 2)))), "-rtc",
			"base=2026-01-01,clock=vm", "-seed", strconv.Itoa(cmp.Or(s.Seed, firstSeed)))
		// A turn lasts until the next timer, divided by the vCPUs (icount_percpu_budget): a
		// timer of QEMU's own, that no guest sees, makes them short.
		add("-netdev", "hubport,id=turns,hubid=0", "-object",
			fmt.Sprintf("filter-buffer,id=turn,netdev=turns,interval=%d", cmp.Or(s.Turn, 200)))
	}
	machine := "q35"
	if s.HMAT {
		machine += ",hmat=on"
	}
	add("-accel", accel, "-machine", machine)
	// A CPU model whose SMT siblings share L1 and L2 in what the guest sees.
	add("-cpu", "Haswell-noTSX")
	// QEMU gives each socket a last-level cache; a node of several sockets has several.
	socket := s.CPUsPerCache()
	add("-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=2", s.CPUs(), s.CPUs()/socket, socket/2))
	add("-m", fmt.Sprintf("%dM", s.MiB()))
	for n := range s.Nodes {
		first := n * s.CPUsPerNode
		add("-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", n, s.NodeMiB))
		if n >= s.Nodes-s.MemoryOnly {
			add("-numa", fmt.Sprintf("node,nodeid=%d,memdev=m%d,initiator=0", n, n))
			continue
		}
		node := fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=m%d", n, first, first+s.CPUsPerNode-1, n)
		if s.HMAT {
			node += fmt.Sprintf(",initiator=%d", n)
		}
		add("-numa", node)
	}
	for i := range s.Nodes {
		for j := i + 1; j < s.Nodes; j++ {
			add("-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, s.Distance[i][j]))
		}
	}
	if s.HMAT {
		a = append(a, hmatArgs(s)...)
	}
	add("-nodefaults", "-no-user-config", "-display", "none")
	if !s.Reboots {
		add("-no-reboot")
	}
	add("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console")
	add("-chardev", "file,id=wire,path=/dev/fd/3", "-serial", "chardev:wire")
	if s.Count {
		p := "file=" + filepath.Join(bin, "numacount.so") + fmt.Sprintf(",cpn=%d,out=%s", s.CPUsPerNode,
			filepath.Join(dir, "counts"))
		for _, r := range ranges(s) {
			p += fmt.Sprintf(",range=%x-%x-%d", r.from, r.to, r.node)
		}
		add("-plugin", p+cacheArgs(s))
	}
	if s.Overlap {
		add("-plugin", "file="+filepath.Join(bin, "overlap.so")+",out="+filepath.Join(dir, "overlap"))
	}
	a = append(a, nicArgs(s)...)
	add("-kernel", t.vmlinux, "-initrd", image)
	boot := []string{"console=ttyS0", "quiet", "panic=-1", "oops=panic", "nokaslr", "mitigations=off", "no_timer_check"}
	if s.Virtual {
		boot = append(boot, "norandmaps")
	}
	boot = append(boot, s.Boot...)
	add("-append", strings.Join(append(boot, words...), " "))
	return a
}

// cacheArgs gives the counting plugin its caches, and has it find out whose turn it is where all
// vCPUs share a thread.
func cacheArgs(s suite.Shape) string {
	text := ""
	if c := s.Cache; c.KiB > 0 {
		text += fmt.Sprintf(",cache=%d,ways=%d,line=%d", c.KiB<<10, c.Ways, c.Line)
		if c.CPUs > 0 {
			text += fmt.Sprintf(",cpc=%d", c.CPUs)
		}
	}
	if s.Virtual {
		text += ",turns=on"
	}
	return text
}

// bootWords tells the guest what to do.
func bootWords(s suite.Shape, tests []string, patience time.Duration) []string {
	words := []string{"shape=" + s.Name, "tests=" + strings.Join(tests, ",")}
	if s.Seed > 0 {
		words = append(words, "seed="+strconv.Itoa(s.Seed))
	}
	for _, arm := range s.Arms {
		words = append(words, fmt.Sprintf("arm%d=1", arm))
	}
	if patience > 0 {
		words = append(words, "patience="+patience.String())
	}
	return words
}

// hmatArgs is a table in which local memory takes 80 ns, that of another node
// with CPUs 140 ns, and memory without CPUs 400 ns at a fifth of the bandwidth.
func hmatArgs(s suite.Shape) []string {
	var a []string
	for i := range s.Nodes - s.MemoryOnly {
		for j := range s.Nodes {
			ns, mib := 80, 20480
			switch {
			case j >= s.Nodes-s.MemoryOnly:
				ns, mib = 400, 4096
			case i != j:
				ns, mib = 140, 10240
			}
			pair := fmt.Sprintf("hmat-lb,initiator=%d,target=%d,hierarchy=memory,data-type=", i, j)
			a = append(a, "-numa", pair+fmt.Sprintf("access-latency,latency=%d", ns), "-numa",
				pair+fmt.Sprintf("access-bandwidth,bandwidth=%dM", mib))
		}
	}
	return a
}

type ram struct {
	from, to uint64
	node     int
}

// ranges is where each node's memory lies in the guest's physical addresses.
// On q35 (hw/i386/pc_q35.c) memory above 2.75 GiB is cut: 2 GiB stay below the
// devices' hole, the rest goes to 4 GiB on.
func ranges(s suite.Shape) []ram {
	const (
		cut  = 0xb0000000
		low  = 0x80000000
		high = 0x100000000
	)
	below := uint64(s.MiB()) << 20
	if below >= cut {
		below = low
	}
	var r []ram
	at := uint64(0)
	for n := range s.Nodes {
		end := at + uint64(s.NodeMiB)<<20
		if at < below {
			r = append(r, ram{at, min(end, below), n})
		}
		if end > below {
			r = append(r, ram{max(at, below) - below + high, end - below + high, n})
		}
		at = end
	}
	return r
}
