package scx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
)

var native = binary.NativeEndian

// Stats counts since the scheduler was loaded.
type Stats struct {
	State     string // of sched_ext as the kernel has it: enabled, disabled, enabling, disabling
	Scheduler string // that is enabled; "" none
	Exit      Exit   // how this one ended

	// A batch task waited, and a CPU that had nothing else to do did not run it.
	Refused struct {
		Expelled   uint64 // a CPU of the same core runs online-strict work, or did within Hold
		Budget     uint64 // as many CPUs of the node run batch work as may
		IdleBuffer uint64 // the node's last idle CPUs are kept
		Nodes      uint64 // the cgroup may not run on the CPU's node
		// online work waits for the CPU; the kernel asks all the same, so that SCHED_EXT gets 5 % of it (Linux 7.0)
		Online uint64
	}
	GuardSlices   uint64 // a batch task ran because it had waited for Guard
	GuardOverlaps uint64 // online-strict work began beside one of those

	StrictStarts, StrictStops uint64 // a CPU began, or ended, to run online-strict work
	Kicks                     Kicks
	// n-th: batch work ran beside online-strict work for 2^n to 2^(n+1) ns, guard slices left out
	Overlaps [buckets]uint64

	Starts         uint64 // switches to a batch task
	Queued         uint64 // batch tasks put into the queue of a last-level cache
	QueuedForCPU   uint64 // into the queue of one CPU, for they may run on no other
	QueuedFree     uint64 // tasks that are SCHED_EXT but not batch work: never refused
	TakenFromNode  uint64 // from another last-level cache of the node
	TakenFromOther uint64 // from another node
	Kept           uint64 // a batch task went on, for nobody else waited
	Looks          uint64 // of the timer

	Nodes    []NodeStats   // those with CPUs, rising by ID
	Waiting  int           // batch tasks, at the last look
	Oldest   time.Duration // the longest of them has waited so long
	Programs []ProgramStats
}

// Exit is how a scheduler ended; zero while it runs.
type Exit struct {
	Kind    uint32 // enum scx_exit_kind (kernel/sched/ext_internal.h)
	Code    int64
	Reason  string // in the kernel's words: "runnable task stall", "disabled by sysrq-S" …
	Message string
}

// Kicks counts interrupts that the scheduler sent to CPUs.
type Kicks struct {
	Expel    uint64 // a batch task leaves, for its sibling began online-strict work
	Late     uint64 // one began as the sibling did, and leaves
	Wake     uint64 // an idle CPU looks for work
	GuardEnd uint64 // a guard slice lasts too long
	HandOver uint64 // a CPU that runs batch work takes a task off a CPU that idles
}

// NodeStats is of one node.
type NodeStats struct {
	ID    topology.NodeID
	Batch int           // CPUs that run batch work now
	Idle  int           // CPUs that run nothing now
	Used  time.Duration // CPU time of SCHED_EXT tasks; of those that run now, up to a slice before
}

// ProgramStats is what a program costs: Runs and Time while MeasurePrograms was on.
type ProgramStats struct {
	Name     string
	Runs     uint64
	Time     time.Duration
	Verified int // instructions that the kernel's verifier went through; 0 unknown (Linux 5.16)
}

// MeasurePrograms has the kernel measure all BPF programs of the machine until it is closed
// (about 20 ns for each run).
func MeasurePrograms() (io.Closer, error) {
	c, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	if err != nil {
		return nil, fmt.Errorf("measure BPF programs: %w", err)
	}
	return c, nil
}

// Stats reads the counters.
func (s *Scheduler) Stats() (Stats, error) {
	var st Stats
	if err := st.read(s); err != nil {
		return Stats{}, fmt.Errorf("read scheduler's counters: %w", err)
	}
	return st, nil
}

func (st *Stats) read(s *Scheduler) error {
	if s.maps == nil {
		return os.ErrClosed
	}
	b, err := os.ReadFile("/sys/kernel/sched_ext/state")
	if err != nil {
		return err
	}
	st.State, st.Scheduler = strings.TrimSpace(string(b)), running(os.DirFS("/"))
	var n [nrCounts]uint64
	for i := range n {
		n[i], err = sum(s.maps["counts"], i)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue // the scheduler is older than this daemon, and does not count it
		}
		if err != nil {
			return err
		}
	}
	for i := range st.Overlaps {
		if st.Overlaps[i], err = sum(s.maps["overlaps"], i); err != nil {
			return err
		}
	}
	st.Refused.Expelled, st.Refused.Budget = n[refusedExpelled], n[refusedBudget]
	st.Refused.IdleBuffer, st.Refused.Nodes = n[refusedBuffer], n[refusedNodes]
	st.Refused.Online = n[refusedOnline]
	st.GuardSlices, st.GuardOverlaps = n[guardSlices], n[guardBeside]
	st.StrictStarts, st.StrictStops = n[strictStarts], n[strictStops]
	st.Kicks = Kicks{Expel: n[kickExpel], Late: n[kickLate], Wake: n[kickIdle]}
	st.Kicks.GuardEnd, st.Kicks.HandOver = n[kickGuardEnd], n[kickHandOver]
	st.Starts = n[starts]
	st.Queued = n[enqueued]
	st.QueuedForCPU = n[enqueuedOwn]
	st.QueuedFree = n[enqueuedFree]
	st.TakenFromNode = n[stolenNode]
	st.TakenFromOther = n[stolenRemote]
	st.Kept = n[kept]
	st.Looks = n[pulses]
	if err := st.now(s); err != nil {
		return err
	}
	var e kernelEnding
	if err := s.maps["endings"].Lookup(uint32(0), &e); err != nil {
		return err
	}
	st.Exit = e.exit()
	return st.programs(s)
}

func (st *Stats) now(s *Scheduler) error {
	var k kernelSettings
	if err := s.maps["settings"].Lookup(uint32(0), &k); err != nil {
		return err
	}
	for i := range uint32(maxNodes) {
		var conf kernelNode
		var now nodeNow
		if err := s.maps["nodes"].Lookup(i, &conf); err != nil {
			return err
		}
		if conf.Count == 0 {
			continue
		}
		if err := s.maps["nodes_now"].Lookup(i, &now); err != nil {
			return err
		}
		st.Nodes = append(st.Nodes, NodeStats{ID: topology.NodeID(i), Batch: int(now.Batch), Idle: int(now.Idle),
			Used: time.Duration(now.Used)})
	}
	for i := range k.NrLLCs {
		var now llcNow
		if err := s.maps["llcs_now"].Lookup(i, &now); err != nil {
			return err
		}
		st.Waiting += int(now.Waiting)
		st.Oldest = max(st.Oldest, time.Duration(now.Oldest))
	}
	for i := range k.NrCPUs {
		var now cpuNow
		if err := s.maps["cpus_now"].Lookup(i, &now); err != nil {
			return err
		}
		st.Waiting += int(now.Waiting)
	}
	return nil
}

func (st *Stats) programs(s *Scheduler) error {
	for name, p := range s.programs {
		run, err := p.Stats()
		if err != nil {
			return err
		}
		info, err := p.Info()
		if err != nil {
			return err
		}
		verified, _ := info.VerifiedInstructions()
		st.Programs = append(st.Programs, ProgramStats{Name: name, Runs: run.RunCount, Time: run.Runtime,
			Verified: int(verified)})
	}
	slices.SortFunc(st.Programs, func(a, b ProgramStats) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func sum[T ~int](m *ebpf.Map, i T) (uint64, error) {
	var each []uint64
	if err := m.Lookup(uint32(i), &each); err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, v := range each {
		n += v
	}
	return n, nil
}

func (e *kernelEnding) exit() Exit {
	return Exit{Kind: e.Kind, Code: e.Code, Reason: text(e.Reason[:]), Message: text(e.Message[:])}
}

// String is an end in the kernel's words.
func (e Exit) String() string {
	if e.Message == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Message
}

func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// State reads what sched_ext says of itself in root (/sys/kernel/sched_ext): the state and the
// name of the scheduler that is enabled, "" when none is. Where the kernel has no sched_ext the
// error is fs.ErrNotExist.
func State(root fs.FS) (state, scheduler string, err error) {
	b, err := fs.ReadFile(root, "sys/kernel/sched_ext/state")
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(b)), running(root), nil
}

// countersOf is what is counted by the names that documents have for it.
func countersOf(st *Stats) []share.Counter {
	overlaps := uint64(0)
	for _, n := range st.Overlaps {
		overlaps += n
	}
	return []share.Counter{
		{Name: "starts", Value: st.Starts},
		{Name: "refused_expelled", Value: st.Refused.Expelled},
		{Name: "refused_budget", Value: st.Refused.Budget},
		{Name: "refused_idle_buffer", Value: st.Refused.IdleBuffer},
		{Name: "refused_nodes", Value: st.Refused.Nodes},
		{Name: "guard_slices", Value: st.GuardSlices},
		{Name: "guard_overlaps", Value: st.GuardOverlaps},
		{Name: "overlaps", Value: overlaps},
		{Name: "kicks_expel", Value: st.Kicks.Expel + st.Kicks.Late},
		{Name: "kicks_wake", Value: st.Kicks.Wake},
		{Name: "kicks_guard_end", Value: st.Kicks.GuardEnd},
		{Name: "kicks_hand_over", Value: st.Kicks.HandOver},
		{Name: "taken_from_node", Value: st.TakenFromNode},
		{Name: "taken_from_other", Value: st.TakenFromOther},
		{Name: "waiting", Value: uint64(max(0, st.Waiting))},
	}
}
