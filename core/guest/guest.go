package guest

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Home is where a guest goes.
type Home struct {
	Placement plan.Placement
	Emulator  topology.CPUSet   // CPUs of its emulator and IOThreads
	Spare     *plan.Placement   // isolate: the CPU of the emulator, a workload of its own in the ledger; nil otherwise
	NVMe      []topology.Device // drives it gets, by PCI address
	// Apart is what a guest that is placed cell by cell keeps beside its home: CPUs of single
	// vCPUs, memory in pages of another size. Cells is the node of each of its cells, VCPUs
	// the CPUs of each vCPU; both are nil for others.
	Apart []plan.Placement
	Cells []topology.NodeID
	VCPUs []topology.CPUSet
	// Composed is the cells of such a guest that is to be defined.
	Composed *Composed
	Others   []plan.Placement // running floating work whose CPU set changes by it, rising by ID
}

// Guest is a guest that exists: what it wants and where it is.
type Guest struct {
	Name, UUID string
	Flavor     string // "" when homenode did not define it
	Spec       workload.Spec
	Home       Home
	Drives     []string // PCI addresses it holds
	Placed     bool     // homenode's mark is on it
	Emulator   Emulator // what the mark says; Share without one
	Manual     string   // who else decides where it runs, in words; "" for nobody
	// Nova: OpenStack Nova defined it and writes its definition anew at every start. Floats: it has
	// bound it to nothing, but for CPUs in Fence (its cpu_shared_set) where that is not empty.
	Nova, Floats bool
	Fence        topology.CPUSet
	Running      bool
	Transient    bool             // it runs and has no definition
	Most         int              // vCPUs it may have; Spec has those it has now where they share CPUs
	OnlyNodes    topology.NodeSet // nodes it may use for good, by its mark; empty is any
	Near         []workload.Near  // what it is to be near to for good, by its mark; the first of Spec.Near
	Wished       bool             // Near is to be in its mark from now on
	// Apart is what is kept for it beside its home: CPUs that others pinned single vCPUs or
	// its emulator to, memory in pages of another size.
	Apart    []plan.Placement
	Composed *Composed // how it is placed cell by cell; nil for a guest that is placed as a whole
	// Asked is the node that the memory of each cell was asked for when it started, and is at its
	// next start.
	Asked     []topology.NodeID
	SeesNodes bool // it sees NUMA nodes of its own
	// where its definition puts it at its next start, when it runs elsewhere or as nobody's; nil otherwise
	Next     *Home
	Resident topology.KiB // memory it holds now; 0 when it does not run or that is unknown

	// How it is bound, as written: CPUs and memory nodes, empty for nowhere; the mode of
	// numatune, "" without one. Loose: some thread has no CPUs of its own though others do,
	// as a vCPU that was plugged in.
	BoundCPUs  topology.CPUSet
	BoundNodes topology.NodeSet
	Mode       string
	Loose      bool
}

// Observed is a guest as the daemon sees it: as it runs or, when it is off, as it would start.
type Observed struct {
	Guest
	Run     int              // libvirt's ID of this run; 0 when it is off
	Process workload.Process // its hypervisor's; zero when it is off or not known
	Defined *Guest           // what its definition says; nil for one that has none, or that is not understood
}

// Known is the guest with where it is at its next start, when that is elsewhere.
func (s *Observed) Known() Guest {
	out, d := s.Guest, s.Defined
	out.Transient = s.Running && d == nil
	if s.Running && d != nil && d.Placed &&
		(!s.Placed || !d.Home.SameApart(&s.Home) || !d.Home.Placement.CPUs.Equal(s.Home.Placement.CPUs) ||
			!d.Home.Placement.Home.Equal(s.Home.Placement.Home)) {
		out.Next = &d.Home
	}
	return out
}

// Adopted reports whether a guest that runs as nobody's is homenode's by its definition.
func (s *Observed) Adopted() bool {
	d := s.Defined
	return !s.Placed && s.Manual == "" && d != nil && d.Placed && d.Manual == "" && d.Spec.Class == workload.Shared
}

// Unread is a guest whose XML could not be understood: what it holds is not known.
type Unread struct {
	Name    string
	Running bool
	Text    string // why, in words
	Run     int
	Process workload.Process
}

// cells is what the cells of a guest want that may go elsewhere one by one.
func (s *Guest) cells(h *topology.Host) []workload.Spec {
	if !s.Composed.Floats() || !s.Placed || s.Manual != "" || len(s.Drives) > 0 || s.Mode != "" {
		return nil
	}
	return s.Composed.CellSpecs(&s.Spec, s.Name, s.Home.Cells, h.AllNodes())
}

// movable reports whether the guest may go elsewhere to make room: it is
// homenode's, and nothing else has to go with it.
func (s *Guest) movable() bool {
	return s.Placed && s.Manual == "" && s.Home.Spare == nil && len(s.Drives) == 0 && len(s.Apart) == 0 &&
		s.Composed == nil && len(s.HoldsNext()) == 0
}

// Holds is all that is kept for a guest: its home, CPUs beside it, and those of a
// dedicated one's next start.
func (s *Guest) Holds() []plan.Placement {
	return slices.Concat([]plan.Placement{s.Home.Placement}, s.Beside(), s.HoldsNext())
}

// Memory is what the guest may have in pages of all sizes.
func (s *Guest) Memory() topology.KiB {
	sum := s.Spec.Memory
	for _, p := range append(s.Home.Apart, s.Apart...) {
		sum += p.Asked
	}
	return sum
}

// Beside is what is kept for a guest beside its home.
func (s *Guest) Beside() []plan.Placement {
	return append(s.Home.Beside(), s.Apart...)
}

// Beside is what is kept beside a home.
func (h *Home) Beside() []plan.Placement {
	out := slices.Clone(h.Apart)
	if h.Spare != nil {
		out = append(out, *h.Spare)
	}
	return out
}

// HoldsNext is what is kept for a guest that comes to other CPUs of its own at its next
// start; what floats finds its room then.
func (s *Guest) HoldsNext() []plan.Placement {
	if s.Next == nil {
		return nil
	}
	out := s.Next.Beside()
	if s.Next.Placement.Class == workload.Dedicated {
		out = append([]plan.Placement{s.Next.Placement}, out...)
	}
	out = slices.DeleteFunc(out, func(p plan.Placement) bool { return p.Class != workload.Dedicated })
	for i := range out {
		out[i].Workload = NextID(out[i].Workload)
	}
	return out
}

// NextID names what is kept for a workload's next start.
func NextID(id workload.ID) workload.ID { return id + "/next" }
