package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/store"
)

// rule is one way to place programs.
type rule struct {
	name string
	what string // for the report
	// homes says where programs may run, one home for each; nil: the rule says nothing.
	homes func(h *topology.Host, asks []ask) []home
	later bool // homes hold from when the programs run, not from their start: their memory is where it was
	// settings of the kernel that hold in this arm.
	balancing, caches setting
	command           string // that must be there
	nodes             int    // least number of NUMA nodes where the rule differs from the kernel alone
}

// setting is a value of a switch of the kernel.
type setting string

const (
	off     setting = "0"
	on      setting = "1"
	asFound setting = ""
)

// Switches of the kernel; tests have others.
var (
	balancingFile = "/" + hostprep.NUMABalancing
	cachesFile    = "/" + hostprep.CacheAware
)

// rules is all of them, the baseline first. What numad, Nova and the kubelet would do is described in docs/seeds.md.
var rules = []rule{
	{name: "kernel", what: "the kernel alone, without its NUMA balancing", balancing: off, caches: off},
	{name: "balancing", what: "the kernel with its NUMA balancing", balancing: on, caches: off, nodes: 2},
	{name: "cache-aware", what: "the kernel with cache-aware scheduling", balancing: off, caches: on},
	{name: "numad", what: "numad looks after the programs", balancing: off, caches: off, later: true, command: "numad",
		nodes: 2},
	{name: "taskset", what: "taskset gives each running program its part of the CPUs, in the order of their numbers",
		balancing: off, caches: off, later: true, homes: slicesOf, command: "taskset"},
	{name: "nova", what: "as OpenStack Nova pins: CPUs and memory of one node, a CPU for each vCPU", balancing: off,
		caches: off, homes: pinned, command: "numactl"},
	{name: "kubelet",
		what: "as the kubelet's static CPU manager: CPUs of its own for each, from the start; memory where " +
			"it falls",
		balancing: off, caches: off, homes: static, command: "taskset"},
	{name: "first-free", what: "the first CPUs by number that are free", balancing: off, caches: off, homes: firstFree,
		command: "taskset"},
	{name: "homenode", what: "Homenode in enforce mode", balancing: asFound, caches: asFound},
}

func ruleOf(name string) *rule {
	for i := range rules {
		if rules[i].name == name {
			return &rules[i]
		}
	}
	return nil
}

func ruleNames() []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.name)
	}
	return out
}

// possible reports why a rule cannot be followed on this machine; nil where it can.
func (r *rule) possible(h *topology.Host, homenode string) error {
	nodes := 0
	for _, n := range h.Nodes {
		if !n.CPUs.Empty() {
			nodes++
		}
	}
	if nodes < r.nodes {
		return errors.New("the machine has one NUMA node: there is nothing to move")
	}
	if r.caches == on {
		if len(h.LLCs) < 2 {
			return errors.New("the machine has one last-level cache")
		}
		if _, err := os.Stat(cachesFile); err != nil {
			return fmt.Errorf("the kernel has no %s (Linux 7.2 with CONFIG_SCHED_CACHE, and debugfs)", cachesFile)
		}
	}
	if r.name == "homenode" {
		if homenode == "" {
			return errors.New("there is no program ./homenode: run make build, or name it with -homenode")
		}
		if pid := store.Enforcing(); pid != 0 {
			return fmt.Errorf("PID %d is a homenode that enforces on this host: stop it first", pid)
		}
	}
	if r.command != "" {
		if _, err := exec.LookPath(r.command); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install %s", r.command,
				cmp.Or(map[string]string{"taskset": "util-linux"}[r.command], r.command))
		}
	}
	return nil
}

// errHeld is that another daemon enforces on this host: there can be one.
type errHeld struct{ error }

// hostFree takes the lock of the host for a moment. It returns errHeld where another daemon has it.
func hostFree() error {
	lock, err := store.LockHost()
	if held := (*store.HostLockedError)(nil); errors.As(err, &held) {
		return errHeld{fmt.Errorf("%w; stop it first", err)}
	}
	if err != nil {
		return err
	}
	return lock.Close()
}

// ask is what one instance asks for.
type ask struct {
	cpus   int
	memory int // MiB
	batch  bool
}

// home is where one instance may run. An empty set is no limit.
type home struct {
	CPUs  topology.CPUSet
	Nodes topology.NodeSet // its memory
}

// ledger is the free CPUs and the free memory.
type ledger struct {
	host   *topology.Host
	free   topology.CPUSet
	memory map[topology.NodeID]int // MiB
}

func newLedger(h *topology.Host) *ledger {
	l := &ledger{host: h, free: h.Allowed.Clone(), memory: map[topology.NodeID]int{}}
	for _, n := range h.Nodes {
		l.memory[n.ID] = int(max(0, n.Free) / 1024)
	}
	return l
}

// each gives one home after the other. Batch work, and what take has no room for, shares what is left.
func (l *ledger) each(asks []ask, take func(a ask) home) []home {
	out := make([]home, len(asks))
	for i, a := range asks {
		if !a.batch {
			out[i] = take(a)
			l.free = l.free.Minus(out[i].CPUs)
		}
	}
	for i := range out {
		if out[i].CPUs.Empty() {
			out[i].CPUs = l.free // where it is empty, too, there is no limit
		}
	}
	return out
}

// lowest is the n CPUs of a set with the lowest numbers.
func lowest(s topology.CPUSet, n int) (out topology.CPUSet) {
	for c := range s.All() {
		if out.Len() == n {
			break
		}
		out.Add(c)
	}
	return out
}

func firstFree(h *topology.Host, asks []ask) []home {
	l := newLedger(h)
	return l.each(asks, func(a ask) home {
		if l.free.Len() < a.cpus {
			return home{}
		}
		return home{CPUs: lowest(l.free, a.cpus)}
	})
}

// slicesOf gives the first program the first CPUs, the next those after them, so that all are given out.
func slicesOf(h *topology.Host, asks []ask) []home {
	all := h.Allowed.Slice()
	out := make([]home, len(asks))
	for i := range asks {
		first := i * len(all) / len(asks)
		out[i].CPUs = topology.CPUs(all[first:max(first+1, (i+1)*len(all)/len(asks))]...)
	}
	return out
}

// static is the kubelet's: whole nodes, then whole cores, then single CPUs, from the node with
// the fewest free CPUs on (takeByTopologyNUMAPacked, pkg/kubelet/cm/cpumanager/cpu_assignment.go). The first
// core is reserved for the system where there are more than two.
func static(h *topology.Host, asks []ask) []home {
	l := newLedger(h)
	reserved := topology.CPUSet{}
	if len(h.Cores) > 2 {
		reserved = h.Cores[0].CPUs.Intersect(l.free)
		l.free = l.free.Minus(reserved)
	}
	out := l.each(asks, func(a ask) home {
		if l.free.Len() < a.cpus {
			return home{}
		}
		var got topology.CPUSet
		for _, units := range [][]topology.CPUSet{l.nodes(), l.cores(), l.singles()} {
			for _, u := range units {
				if u.Len() <= a.cpus-got.Len() && u.SubsetOf(l.free.Minus(got)) {
					got = got.Union(u)
				}
			}
		}
		return home{CPUs: got}
	})
	for i := range out {
		if out[i].CPUs.Equal(l.free) {
			out[i].CPUs = l.free.Union(reserved) // the shared pool has the system's
		}
	}
	return out
}

// nodes is the CPUs of each node, those with the fewest free first.
func (l *ledger) nodes() []topology.CPUSet {
	var out []topology.CPUSet
	for _, n := range l.host.Nodes {
		if cpus := n.CPUs.Intersect(l.host.Allowed); !cpus.Empty() {
			out = append(out, cpus)
		}
	}
	slices.SortStableFunc(out,
		func(a, b topology.CPUSet) int { return cmp.Compare(a.Overlap(l.free), b.Overlap(l.free)) })
	return out
}

// cores is the CPUs of each core, node by node.
func (l *ledger) cores() []topology.CPUSet {
	var out []topology.CPUSet
	for _, n := range l.nodes() {
		for _, c := range l.host.Cores {
			if c.CPUs.SubsetOf(n) {
				out = append(out, c.CPUs)
			}
		}
	}
	return out
}

func (l *ledger) singles() []topology.CPUSet {
	var out []topology.CPUSet
	for _, n := range l.nodes() {
		for c := range n.All() {
			out = append(out, topology.CPUs(c))
		}
	}
	return out
}

// pinned is Nova's for a guest of one NUMA cell with dedicated CPUs: the first node with enough free CPUs
// and memory, whole cores first (nova/virt/hardware.py, _pack_instance_onto_cores). What fits no
// node is not pinned; Nova would refuse it.
func pinned(h *topology.Host, asks []ask) []home {
	l := newLedger(h)
	return l.each(asks, func(a ask) home {
		for _, n := range h.Nodes {
			free := n.CPUs.Intersect(l.free)
			if free.Len() < a.cpus || l.memory[n.ID] < a.memory {
				continue
			}
			l.memory[n.ID] -= a.memory
			var got topology.CPUSet
			for _, c := range h.Cores {
				if c.CPUs.SubsetOf(free) && c.CPUs.Len() <= a.cpus-got.Len() {
					got = got.Union(c.CPUs)
				}
			}
			got = got.Union(lowest(free.Minus(got), a.cpus-got.Len()))
			return home{CPUs: got, Nodes: topology.Nodes(n.ID)}
		}
		return home{}
	})
}
