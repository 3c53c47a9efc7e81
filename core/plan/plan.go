package plan

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Policy is what the operator wants of this host.
type Policy struct {
	Reserved       topology.CPUSet // host CPUs: no workload runs there
	ReservedMemory topology.KiB    // kept free on every node for the host
	Overcommit     float64         // shared vCPUs a shared CPU may carry; 1 is none
	Packing        Packing
}

// Packing says whether workloads gather or scatter when the choice is free.
type Packing string

// Packings.
const (
	Adaptive Packing = "adaptive" // per workload, by what it needs; the default
	Pack     Packing = "pack"
	Spread   Packing = "spread"
)

// DefaultPolicy reserves nothing, lets shared work overcommit threefold (the
// lower end of what public clouds sell) and decides per workload.
func DefaultPolicy() Policy {
	return Policy{Overcommit: 3, Packing: Adaptive}
}

// State is all that a decision may depend on.
type State struct {
	Host       *topology.Host
	Policy     Policy
	Placements []Placement           // of running workloads, rising by workload ID
	Unmanaged  []workload.NodeMemory // memory held by what homenode does not place: kernel, small processes
}

// Placement is where one workload belongs.
type Placement struct {
	Workload   workload.ID
	Class      workload.Class
	Importance int
	VCPUs      int                   // CPUs it wants to keep busy at once
	Home       topology.NodeSet      // nodes that hold its CPUs and memory
	CPUs       topology.CPUSet       // CPUs it may run on
	Pins       []topology.CPUID      // dedicated: the CPU of each vCPU; nil otherwise
	Idle       topology.CPUSet       // dedicated: SMT siblings held so that nobody runs there (isolate, require)
	Memory     []workload.NodeMemory // booked, rising by node; sums to what the Spec wants
	Asked      topology.KiB          // memory the Spec wants; 0 when not told
	HugePage   topology.KiB          // page size of the booking; 0 for ordinary pages
	Within     topology.NodeSet      // offline: the nodes it may use; empty means any
	Bound      bool                  // memory is bound to Home (strict); preferred there otherwise
	Bandwidth  int64                 // memory bandwidth booked, MiB/s
	Start      uint64                // of a process workload: start time of its root process, for PIDs are reused
}

// MemoryNodes is where a guest's memory may lie: where it is booked, or, when its size
// is not known, the home.
func (p *Placement) MemoryNodes() topology.NodeSet {
	var nodes topology.NodeSet
	for _, m := range p.Memory {
		if m.KiB > 0 {
			nodes.Add(m.Node)
		}
	}
	if nodes.Empty() {
		return p.Home
	}
	return nodes
}

// Idle is the SMT siblings that dedicated work on these CPUs keeps from everyone:
// the rest of its cores when its policy is isolate or require, else none.
func Idle(h *topology.Host, smt workload.SMTPolicy, cpus topology.CPUSet) topology.CPUSet {
	var out topology.CPUSet
	if smt != workload.SMTIsolate && smt != workload.SMTRequire {
		return out
	}
	for _, c := range h.Cores {
		if c.CPUs.Intersects(cpus) {
			out = out.Union(c.CPUs.Minus(cpus))
		}
	}
	return out
}

// StepKind is the kind of effect.
type StepKind string

// Kinds of step.
const (
	SetCPUs   StepKind = "set-cpus"   // CPU set of a cgroup or of all threads of a guest, or affinity of all threads of a process tree
	SetMems   StepKind = "set-mems"   // memory nodes of a cgroup or guest
	MovePages StepKind = "move-pages" // move what lies off home to the home, paced
	SetNext   StepKind = "set-next"   // where a guest is at its next start: "CPUS/NODES" in its definition
	SetIRQ    StepKind = "set-irq"    // CPUs that an interrupt may be delivered to
	SetRPS    StepKind = "set-rps"    // CPUs that a receive queue is worked off by
	SetXPS    StepKind = "set-xps"    // CPUs that send by a transmit queue
)

// Target is the thing a step changes.
type Target struct {
	Kind      workload.Kind      `json:"kind"`
	Cgroup    string             `json:"cgroup,omitempty"`    // path below the cgroup root
	Device    string             `json:"device,omitempty"`    // interrupt or queue, as the path of its setting
	Processes []workload.Process `json:"processes,omitempty"` // the processes whose threads or pages are meant
}

// Step is one reversible effect.
type Step struct {
	Kind     StepKind              `json:"kind"`
	Workload workload.ID           `json:"workload"`
	Target   Target                `json:"target"`
	From     string                `json:"from,omitempty"`   // value when the plan was made, list format
	To       string                `json:"to"`               // value wanted, list format; for move-pages the home
	Shares   []workload.NodeMemory `json:"shares,omitempty"` // move-pages, and set-mems of a guest: what each home node should hold in the end
	Bytes    int64                 `json:"bytes,omitempty"`  // the same: bytes off home when the plan was made
	Reason   string                `json:"reason"`
	Gain     Gain                  `json:"gain"`
	Cost     Cost                  `json:"cost"`
}

// Gain is what a step is expected to bring; the steps of one workload share it.
type Gain struct {
	LocalityBefore float64 `json:"locality_before"` // 0 to 1
	LocalityAfter  float64 `json:"locality_after"`
}

// Cost is what a step is expected to take.
type Cost struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"` // at the paced bandwidth
}

// Plan is a set of steps, the placements they lead to, and why.
type Plan struct {
	Placements []Placement // of every workload after the plan, rising by workload ID
	Steps      []Step      // in the order to apply
	Report     Report
}
