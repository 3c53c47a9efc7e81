package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/sim"
)

// DaemonOptions is what the command line says about the daemon. Zero values
// leave the matter to the configuration file.
type DaemonOptions struct {
	Config   string // file; "" is none
	Mode     string
	StateDir string
	Socket   string
	Period   time.Duration
	Listen   string // port, or address and port, of the page
	// FirstLook is called with the status after the first look and with the time between
	// two looks; nil is allowed.
	FirstLook func(api.Status, time.Duration)
}

// ConfigValue is one value of a configuration.
type ConfigValue struct {
	Key  string `json:"key"`  // such as share.enabled or workloads[0].match
	Text string `json:"text"` // the value as YAML has it
	From string `json:"from"` // file, line and column that give it; empty for the default
}

// Configuration is what a configuration file and its drop-ins say.
type Configuration struct {
	Files  []string // that were read, in order
	Values []ConfigValue
	Odd    []string // what does not fit this machine, a sentence each
}

// Demo runs a simulated host under the daemon's loop until ctx ends.
type Demo func(ctx context.Context, o DemoOptions) error

// DemoOptions is the command line of demo.
type DemoOptions struct {
	Nodes int     // of the simulated host, 1 to 64
	Seed  uint64  // of all that happens there
	Speed float64 // simulated seconds in a second
	Story string  // name of one of demoStories
	// Ready is called once the demo can be opened. Its clock starts with the first connection.
	Ready func(DemoPlace)
	// Next is another story to play from its start; nil for none.
	Next <-chan string
	// Ended is called at the end of each story with the last status; nil is not called.
	Ended func(story string, s api.Status)
	// See is called with what status tells each simulated second, and the newest events, as fast
	// as can be and with nothing served, until it returns false; nil is not.
	See func(api.Status, []plan.Event) bool
}

// DemoPlace is where a demo can be opened.
type DemoPlace struct {
	Socket string // of its daemon
	Page   string // link to its page; "" without one
}

// Simulate is what Env.Sim does unless a test says otherwise.
type Simulate func(ctx context.Context, o sim.Options) (*sim.Result, error)

// Prober measures this machine and keeps what was measured.
type Prober interface {
	// Memory bounds the buffers, 0 for no bound; Load is the load average.
	Memory() int64
	Load() measure.Value
	// Run puts what the plan says into doc. When ctx ends it keeps what it has.
	Run(ctx context.Context, plan measure.Plan, doc *measure.Document, progress func(float64)) error
	// Cached is the measurement kept for a fingerprint, nil when there is none.
	Cached(fingerprint string) (*measure.Document, error)
	// Keep keeps a measurement and says where.
	Keep(doc *measure.Document) (string, error)
}

// HostPreparer is this machine for `homenode host`.
type HostPreparer interface {
	// Devices reads the interrupts of NICs and NVMe drives.
	Devices(ctx context.Context, h *topology.Host) ([]irq.Device, error)
	// PlacesInterrupts reports whether the daemon is configured to place them.
	PlacesInterrupts() (bool, error)
	// Placed is the homes that a stopped daemon has left in its state folder; none while
	// one runs, which answers for itself.
	Placed(stateDir string) ([]plan.Placement, error)
	// MayPrepare is why the caller may not, without a daemon that does it.
	MayPrepare() error
}

// Libvirt is how the command line reaches guests.
type Libvirt interface {
	// New is the domain XML of a new guest at its home. arch is as libvirt writes
	// it; emulated is without KVM.
	New(h *topology.Host, o *guest.Order, home guest.Home, arch string, emulated bool) ([]byte, error)
	// Guest reads the domain XML of a guest that exists.
	Guest(h *topology.Host, text []byte) (guest.Guest, error)
	// Wants is what a guest that comes from another host asks for by its domain XML; ok
	// is false for one that does not bear homenode's mark.
	Wants(h *topology.Host, text []byte) (spec workload.Spec, emulator guest.Emulator, ok bool, err error)
	// Rehome writes a home into the domain XML of a guest that Wants was asked of.
	Rehome(h *topology.Host, text []byte, home guest.Home) ([]byte, error)
	// Connect reaches the libvirt of this machine. Who means to change guests is
	// alone in that until Close.
	Connect(ctx context.Context, change bool) (Hypervisor, error)
}

// Hypervisor is the libvirt of this machine.
type Hypervisor interface {
	// Guests is all guests that libvirt knows, by name, and those whose XML could
	// not be understood.
	Guests(ctx context.Context, h *topology.Host) (guests []guest.Guest, unread []guest.Unread, err error)
	// Define makes a guest known to libvirt without starting it.
	Define(ctx context.Context, xml []byte) error
	// Unlock lets a daemon, or who stands in for one, change guests from now on. No other
	// command does until Close.
	Unlock() error
	// Limits says in words what limits each NIC and disk of a guest would get.
	Limits(ctx context.Context, name string, limits guest.Limits) ([]string, error)
	Close() error
}

// Remote is a command on another machine.
type Remote struct {
	To, Port string // destination of ssh, and its port; "" is ssh's choice
	Within   time.Duration
	Args     []string // the command and its arguments, words without anything special to a shell
	Stdin    string
}

// Flight is a log of the flight recorder.
type Flight interface {
	Next() (control.Logged, error) // io.EOF after the last
	Torn() bool
	Close() error
}

// Records is what the flight recorder wrote of a period, as it stands in the files.
type Records interface {
	// Next is a checkpoint, where a file begins, or a line; io.EOF after the last. Neither
	// stands when Next is called again.
	Next() (checkpoint, line []byte, err error)
	// Notes is what of it could not be read.
	Notes() []words.Reason
	Close() error
}

// MemoryFigures reads what numastat(8) tells.
type MemoryFigures interface {
	// Nodes is the memory of each node by use, and its allocations.
	Nodes() (workload.Figures, error)
	// Processes is where the memory of processes lies, by kind, and who could not be read.
	Processes(ctx context.Context, pids []int) (workload.Figures, []workload.Unread)
}

// ByHand is what those programs do by one system call.
type ByHand interface {
	Affinity(tid int) (topology.CPUSet, error) // 0 is this process
	SetAffinity(tid int, cpus topology.CPUSet) error
	Threads(pid int) ([]int, error)
	// Migrate moves a process's pages that lie on from to the nodes to; left could not be moved.
	Migrate(pid int, from, to topology.NodeSet) (left int, err error)
	Segment(o Segment) (OpenSegment, error)
	// Commands is the processes whose command line has a text in it.
	Commands(text string) (map[int]string, error)
}

// Segment is a range of shared memory, as numactl(8) names it.
type Segment struct {
	KeyFile, File  string
	ID             int // -1 for none
	Offset, Length int64
	Huge           bool
	Mode           uint32
}

// OpenSegment is one that is open.
type OpenSegment interface {
	SetPolicy(policy Memory, nodes topology.NodeSet, strict bool) error
	Touch()
	// Dump writes the policy of its pages and, with nodes, the node that each lies on.
	Dump(w io.Writer, nodes bool) error
	Close() error
}

// Memory is a memory policy of set_mempolicy(2).
type Memory string

// Memory policies that Start takes.
const (
	MemoryAsIs       Memory = ""               // as it is
	MemoryHome       Memory = "home"           // preferred on the nodes of a home that homenode chose
	MemoryByThread   Memory = "by thread"      // on the node of each thread, within such a home
	MemoryHomeBound  Memory = "home, bound"    // bound to them
	MemoryBind       Memory = "bind"           // as a person said, from here on
	MemoryPreferred  Memory = "preferred"      // one node
	MemoryMany       Memory = "preferred many" // several
	MemoryInterleave Memory = "interleave"
	MemoryWeighted   Memory = "weighted interleave"
	MemoryLocal      Memory = "local"
)

// Start is how a command starts.
type Start struct {
	CPUs      topology.CPUSet // empty: as they are
	Memory    Memory
	Nodes     topology.NodeSet // of Memory
	Balancing bool             // NUMA balancing may move pages among Nodes
	Nice      *int             // nil: as it is
	Scope     bool             // in a scope of systemd, a cgroup of its own
	Unit      string           // its name; "" is made up
}

// Line is how a command starts that was told where.
func (s *Start) Line() string {
	var parts []string
	if !s.CPUs.Empty() {
		parts = append(parts, "on "+words.CPUs(s.CPUs))
	}
	if m := s.MemoryLine(); m != "" {
		if len(parts) == 0 {
			m = "with " + m
		}
		parts = append(parts, m)
	}
	return strings.Join(parts, ", ")
}

// MemoryLine is the memory policy in words; "" when it is left as it is.
func (s *Start) MemoryLine() string {
	on := words.Nodes(s.Nodes)
	line := map[Memory]string{
		MemoryHome: "memory preferred there", MemoryHomeBound: "memory bound there",
		MemoryByThread: "memory on the node of each thread",
		MemoryBind:     "memory bound to " + on, MemoryPreferred: "memory preferred on " + on,
		MemoryMany:       "memory preferred on " + on,
		MemoryInterleave: "memory interleaved over " + on, MemoryWeighted: "memory interleaved by weight over " + on,
		MemoryLocal: "memory from the node it runs on",
	}[s.Memory]
	if s.Balancing {
		line += " with NUMA balancing"
	}
	return line
}

// Whereabouts is what this process may have and what it has.
type Whereabouts struct {
	CPUs    topology.CPUSet // that it can be put on: the online ones of its cpuset
	Now     topology.CPUSet // its affinity
	Policy  string          // of memory, in the words of numa_maps
	OfNodes topology.NodeSet
	Nice    int
}
