package numa

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// Mode is a memory policy mode of set_mempolicy(2), with its flags.
type Mode int

// Modes and flags, from include/uapi/linux/mempolicy.h.
const (
	Default            Mode = 0
	Preferred          Mode = 1
	Bind               Mode = 2
	Interleave         Mode = 3
	Local              Mode = 4
	PreferredMany      Mode = 5 // Linux 5.15
	WeightedInterleave Mode = 6 // Linux 6.9

	StaticNodes   Mode = 1 << 15 // node numbers stay what they are when cpuset.mems changes
	RelativeNodes Mode = 1 << 14 // node numbers count the nodes of cpuset.mems
	Balancing     Mode = 1 << 13 // NUMA balancing moves pages among the nodes; Linux 5.12
)

// String is the mode as numa_maps of proc(5) has it (mpol_to_str, mm/mempolicy.c).
func (m Mode) String() string {
	names := [...]string{"default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave"}
	name := fmt.Sprint("mode ", int(m&^(StaticNodes|RelativeNodes|Balancing)))
	if i := int(m &^ (StaticNodes | RelativeNodes | Balancing)); i >= 0 && i < len(names) {
		name = names[i]
	}
	for _, f := range []struct {
		flag Mode
		name string
	}{{StaticNodes, "static"}, {RelativeNodes, "relative"}, {Balancing, "balancing"}} {
		if m&f.flag != 0 {
			name += "=" + f.name
		}
	}
	return name
}

// Flags of move_pages(2) and mbind(2).
const (
	Strict  = 1 << 0 // an error where pages lie elsewhere already
	Move    = 1 << 1 // only pages that no other process maps
	MoveAll = 1 << 2 // shared pages too; needs CAP_SYS_NICE
)

// maxWords bounds the affinity masks tried: 65,536 CPUs, eight times what
// NR_CPUS can be.
const maxWords = (topology.MaxID + 1) / wordBits

// Kernel makes the calls. It is a type so that callers can put a model in its
// place.
type Kernel struct{}

// Affinity reads the CPUs that thread tid may run on (0 is the caller).
func (Kernel) Affinity(tid int) (topology.CPUSet, error) {
	// The kernel refuses a mask shorter than its own with EINVAL and does not
	// say how long that is (sched_getaffinity, kernel/sched/syscalls.c).
	for words := 1024 / wordBits; words <= maxWords; words *= 2 {
		mask := make([]uint, words)
		n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), uintptr(words*wordBits/8),
			uintptr(unsafe.Pointer(&mask[0])))
		if errno == unix.EINVAL {
			continue
		}
		if errno != 0 {
			return topology.CPUSet{}, fmt.Errorf("read affinity of thread %d: %w", tid, errno)
		}
		return setOf[topology.CPUID](mask[:int(n)/(wordBits/8)]), nil
	}
	return topology.CPUSet{}, fmt.Errorf("read affinity of thread %d: %w", tid, unix.EINVAL)
}

// SetAffinity sets the CPUs that thread tid may run on (0 is the caller).
func (Kernel) SetAffinity(tid int, cpus topology.CPUSet) error {
	mask := maskOf(cpus)
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(mask)*wordBits/8),
		uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return fmt.Errorf("set affinity of thread %d to %s: %w", tid, cpus, errno)
	}
	return nil
}

// PageNodes asks where pages of a process lie: status[i] becomes the node of
// pages[i] or a negative errno.
func (k Kernel) PageNodes(pid int, pages []uintptr, status []int32) error {
	return k.movePages(pid, pages, nil, status, 0)
}

// MovePages moves pages[i] of a process to nodes[i]. The error is the errno of
// the call; a positive count of pages not moved, which kernels since 4.17
// return, is no error. status is trustworthy only where the kernel wrote it:
// fill it before the call with a value that the kernel never writes.
func (k Kernel) MovePages(pid int, pages []uintptr, nodes, status []int32, all bool) error {
	flags := Move
	if all {
		flags = MoveAll
	}
	return k.movePages(pid, pages, nodes, status, flags)
}

func (Kernel) movePages(pid int, pages []uintptr, nodes, status []int32, flags int) error {
	if len(pages) == 0 {
		return nil
	}
	if len(status) != len(pages) || (nodes != nil && len(nodes) != len(pages)) {
		panic("numa: move_pages with arrays of different length")
	}
	var nodesAt unsafe.Pointer
	if nodes != nil {
		nodesAt = unsafe.Pointer(&nodes[0])
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(pid), uintptr(len(pages)),
		uintptr(unsafe.Pointer(&pages[0])),
		uintptr(nodesAt), uintptr(unsafe.Pointer(&status[0])), uintptr(flags))
	if errno != 0 {
		return os.NewSyscallError("move_pages", errno)
	}
	return nil
}

// MigratePages moves all pages of a process that lie on from to the nodes to. It
// returns the number of pages that could not be moved.
func (Kernel) MigratePages(pid int, from, to topology.NodeSet) (int, error) {
	// Both masks have the length of the longer one: the call takes one size.
	both := from.Union(to)
	f, t := padded(from, both), padded(to, both)
	n, _, errno := unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(pid), uintptr(len(f)*wordBits)+1,
		uintptr(unsafe.Pointer(&f[0])), uintptr(unsafe.Pointer(&t[0])), 0, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("migrate_pages", errno)
	}
	return int(n), nil
}

func padded(s, size topology.NodeSet) []uint {
	// One word more than needed: the kernel reads maxnode-1 bits (get_nodes,
	// mm/mempolicy.c), and a spare word costs nothing.
	words := make([]uint, len(maskOf(size))+1)
	copy(words, maskOf(s))
	return words
}

// SetPolicy sets the memory policy of the calling thread.
func (Kernel) SetPolicy(mode Mode, nodes topology.NodeSet) error {
	mask := padded(nodes, nodes)
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(unsafe.Pointer(&mask[0])),
		uintptr((len(mask)-1)*wordBits)+1)
	if errno != 0 {
		return os.NewSyscallError("set_mempolicy", errno)
	}
	return nil
}

// Policy is the memory policy of the calling thread.
func (Kernel) Policy() (Mode, topology.NodeSet, error) {
	var mode int32
	// The mask must hold all possible nodes (nr_node_ids); no kernel has more
	// than 1,024 (MAX_NUMNODES, CONFIG_NODES_SHIFT is at most 10).
	mask := make([]uint, 1024/wordBits)
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)),
		uintptr(unsafe.Pointer(&mask[0])),
		uintptr(len(mask)*wordBits), 0, 0, 0)
	if errno != 0 {
		return 0, topology.NodeSet{}, os.NewSyscallError("get_mempolicy", errno)
	}
	return Mode(mode), setOf[topology.NodeID](mask), nil
}

// PolicyAt is the memory policy of the page where mem, memory of the caller, begins.
func (Kernel) PolicyAt(mem []byte) (Mode, topology.NodeSet, error) {
	const ofAddress = 1 << 1 // MPOL_F_ADDR
	var mode int32
	mask := make([]uint, 1024/wordBits)
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)),
		uintptr(unsafe.Pointer(&mask[0])),
		uintptr(len(mask)*wordBits), uintptr(unsafe.Pointer(&mem[0])), ofAddress, 0)
	if errno != 0 {
		return 0, topology.NodeSet{}, os.NewSyscallError("get_mempolicy", errno)
	}
	return Mode(mode), setOf[topology.NodeID](mask), nil
}

// Bind sets the policy of a range of the caller's own memory (mbind(2)) and with
// Move in flags moves what already lies there.
func (Kernel) Bind(mem []byte, mode Mode, nodes topology.NodeSet, flags int) error {
	if len(mem) == 0 {
		return nil
	}
	mask := padded(nodes, nodes)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(mode),
		uintptr(unsafe.Pointer(&mask[0])), uintptr((len(mask)-1)*wordBits)+1, uintptr(flags))
	if errno != 0 {
		return os.NewSyscallError("mbind", errno)
	}
	return nil
}
