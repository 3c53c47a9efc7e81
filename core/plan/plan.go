package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Policy is what the operator wants of this host.
type Policy struct {
	Reserved       topology.CPUSet // host CPUs: no workload runs there
	ReservedMemory topology.KiB    // kept free on every node for the host
	Overcommit     float64         // shared vCPUs a shared CPU may carry; 1 is none
	// MemoryOvercommit is how often the memory of a node may be promised, 1 or less for once. It
	// counts on a host of shared work alone (see MemoryRatio), and never for huge pages.
	MemoryOvercommit float64
	Packing          Packing
	// Split gives every CPU to one class: dedicated work may have those in Dedicated
	// alone, shared work all others alone, batch work what no dedicated work holds.
	Split     bool
	Dedicated topology.CPUSet
	// Caches is the use of last-level caches for shared work. Dedicated work gets CPUs of few caches in
	// every mode.
	Caches CacheMode `json:",omitempty"`
}

// Equal reports whether two policies are the same.
func (p *Policy) Equal(q *Policy) bool {
	return p.Reserved.Equal(q.Reserved) && p.ReservedMemory == q.ReservedMemory && p.Overcommit == q.Overcommit &&
		p.MemoryOvercommit == q.MemoryOvercommit && p.Packing == q.Packing &&
		p.Split == q.Split && p.Dedicated.Equal(q.Dedicated) && p.Caches == q.Caches
}

// CacheMode is the use of the last-level caches of a node for shared work.
type CacheMode string

// Modes of caches. "" is report.
const (
	CachesOff    CacheMode = "off"    // shared work floats over its nodes
	CachesReport CacheMode = "report" // likewise, and decisions name the caches that it would be kept in
	CachesPlace  CacheMode = "place"  // shared work is kept in few caches of its nodes
)

// Barred is the CPUs that work of a class may not have.
func (p *Policy) Barred(h *topology.Host, class workload.Class) topology.CPUSet {
	switch {
	case p.Split && class == workload.Dedicated:
		return p.Reserved.Union(h.Online.Minus(p.Dedicated))
	case p.Split && class == workload.Shared:
		return p.Reserved.Union(p.Dedicated)
	}
	return p.Reserved
}

// MemoryRatio is how often the ordinary memory of a node is promised: once, unless no CPU is
// for dedicated work, whose memory has to be there.
func (p *Policy) MemoryRatio() float64 {
	if !p.Split || !p.Dedicated.Empty() {
		return 1
	}
	return max(1, p.MemoryOvercommit)
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
type Placement = workload.Placement

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
	// CPU set of a cgroup or of all threads of a guest, or affinity of all threads of a process tree
	SetCPUs StepKind = "set-cpus"
	// threads of a process among the nodes of its home: the CPU sets "0-3;8-11", or one set for all
	DivideThreads StepKind = "divide-threads"
	SetMems       StepKind = "set-mems"   // memory nodes of a cgroup or guest
	MovePages     StepKind = "move-pages" // move what lies off home to the home, paced
	// where a guest is at its next start: "CPUS/NODES" in its definition, and what it is near to; "" is nowhere
	SetNext      StepKind = "set-next"
	SetLimits    StepKind = "set-limits"    // what the NICs and disks of a guest may do a second
	SetIRQ       StepKind = "set-irq"       // CPUs that an interrupt may be delivered to
	SetRPS       StepKind = "set-rps"       // CPUs that a receive queue is worked off by
	SetXPS       StepKind = "set-xps"       // CPUs that send by a transmit queue
	SetUnit      StepKind = "set-unit"      // AllowedCPUs of a systemd unit
	SetFile      StepKind = "set-file"      // one value of the kernel's, see HostFile
	SetQueues    StepKind = "set-queues"    // number of queue pairs of a network device
	SetPolicy    StepKind = "set-policy"    // scheduling policy of all threads in a cgroup and below
	SetScheduler StepKind = "set-scheduler" // the kernel's scheduler for batch work, by version
	StopUnit     StepKind = "stop-unit"     // asks systemd to stop a unit; not journalled, for it is not restored
	// what the group of resctrl for batch work may have of caches and bandwidth
	SetCache      StepKind = "set-cache"
	SetCacheTasks StepKind = "set-cache-tasks" // puts all threads in a cgroup and below into that group
	ReclaimMemory StepKind = "reclaim-memory"  // bytes of a cgroup that the kernel reclaims; not journalled
	SetCgroup     StepKind = "set-cgroup"      // one value of a cgroup: File of its Target, one of CgroupFiles
)

// Target is the thing a step changes.
type Target struct {
	Kind   workload.Kind `json:"kind"`             // kind of target
	Cgroup string        `json:"cgroup,omitempty"` // its cgroup, below the cgroup root
	// inode of that cgroup: one made anew under the same path is not meant
	Object    string             `json:"object,omitempty"`
	File      string             `json:"file,omitempty"`      // file of that cgroup; of set-cgroup
	Device    string             `json:"device,omitempty"`    // interrupt or queue, as the path of its setting
	Host      string             `json:"host,omitempty"`      // setting of the host itself, as its path
	Processes []workload.Process `json:"processes,omitempty"` // processes whose threads or pages are meant
	// of move-pages: nodes whose memory stays where it is, because the kernel or a GPU's driver put it there
	Stays topology.NodeSet `json:"stays,omitzero"`
	// of move-pages: only memory for which the process asked for this node is meant; empty for all
	AskedFor topology.NodeSet `json:"asked_for,omitzero"`
}

// Part is what of a target is changed: its device, setting of the host or file; "" where the
// workload says it.
func (t Target) Part() string { return t.Device + t.Host + t.File }

// Own names what a target is by itself, whatever the ID of its workload: its cgroup, or its oldest
// process as ProcessPath, which is the root of the tree; "" for what is neither.
func (t Target) Own() string {
	switch {
	case t.Kind == workload.InCgroup || t.Kind == workload.InCache:
		return t.Cgroup
	case t.Kind == workload.InProcess && len(t.Processes) > 0:
		return ProcessPath(slices.MinFunc(t.Processes, func(a, b workload.Process) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
		}))
	}
	return ""
}

// Setting names the part of a target for people: " of eth0", or "".
func (t Target) Setting() string {
	if name := t.Part(); name != "" {
		return " of " + name
	}
	return ""
}

// Name is the target in words.
func (t Target) Name() string {
	switch {
	case t.Cgroup != "":
		return t.Cgroup
	case t.Device != "":
		return t.Device
	case t.Host != "":
		return t.Host
	}
	name := "processes"
	for i, p := range t.Processes {
		if i == 0 {
			name = fmt.Sprintf("PID %d", p.PID)
		} else {
			name += fmt.Sprintf(", %d", p.PID)
		}
	}
	return name
}

// Step is one reversible effect.
type Step struct {
	Kind     StepKind    `json:"kind"`           // kind of change
	Workload workload.ID `json:"workload"`       // ID of the workload that it is for
	Target   Target      `json:"target"`         // what is changed
	From     string      `json:"from,omitempty"` // value when the plan was made, in list format
	// value wanted, in list format; of move-pages the home nodes
	To      string      `json:"to"`
	Threads []ThreadSet `json:"threads,omitempty"` // what each thread is given; of divide-threads
	// memory that each home node should hold in the end; of move-pages, and of set-mems of a guest
	Shares []workload.NodeMemory `json:"shares,omitempty"`
	// bytes off home when the plan was made; of move-pages, and of set-mems of a guest
	Bytes int64 `json:"bytes,omitempty"`
	// of set-mems: so little memory moves that it is neither paced nor waited for
	AtOnce   bool         `json:"at_once,omitempty"`
	Up       bool         `json:"up,omitempty"`       // of move-pages: out of slower memory
	Optional bool         `json:"optional,omitempty"` // the next steps are carried out even if this one fails
	Reason   words.Reason `json:"reason"`             // why, in words and numbers
	Gain     Gain         `json:"gain"`               // what it is expected to bring
	Cost     Cost         `json:"cost"`               // what it is expected to take
}

// ThreadSet is the CPUs that a thread is given.
type ThreadSet struct {
	TID  int             `json:"tid"`  // thread ID
	CPUs topology.CPUSet `json:"cpus"` // CPUs that it may run on, in list format
}

// JoinSets writes the CPU sets that threads are divided among: "0-3;8-11".
func JoinSets(sets []topology.CPUSet) string {
	var texts []string
	for _, s := range sets {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ";")
}

// ParseSets reads what JoinSets wrote.
func ParseSets(text string) ([]topology.CPUSet, error) {
	var out []topology.CPUSet
	for part := range strings.SplitSeq(text, ";") {
		cpus, err := topology.ParseCPUSet(part)
		if err == nil && cpus.Empty() {
			err = errors.New("the empty set")
		}
		if err != nil {
			return nil, fmt.Errorf("CPU sets %q: %w", text, err)
		}
		out = append(out, cpus)
	}
	return out, nil
}

// Gain is what a step is expected to bring; the steps of one workload share it.
type Gain struct {
	LocalityBefore float64 `json:"locality_before"` // share of local accesses now, 0 to 1
	LocalityAfter  float64 `json:"locality_after"`  // share of local accesses afterwards, 0 to 1
}

// Cost is what a step is expected to take.
type Cost struct {
	Bytes   int64   `json:"bytes"`   // bytes that move
	Seconds float64 `json:"seconds"` // time that it takes at the paced bandwidth, s
}

// Plan is a set of steps, the placements they lead to, and why.
type Plan struct {
	Placements []Placement // of every workload after the plan, rising by workload ID
	Steps      []Step      // in the order to apply
	Report     Report
}
