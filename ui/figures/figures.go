package figures

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Unit says what a number counts.
type Unit int

// Units.
const (
	Number  Unit = iota // of things
	VCPUs               // of a workload; 0 is none of its own
	CPUs                // CPUs that are busy
	KiB                 // memory
	MiBs                // traffic, MiB/s
	Share               // 0 to 1
	Seconds             // events a second
	Bytes               // memory that moves
)

// Figure is one number of T.
type Figure[T any] struct {
	Column string // heading in the tables of status; "" is not in them
	Line   string // name of the line in top; "" has none
	Page   string // words after the number in the page's text on a node; "" is not in it
	Metric string // family of /metrics; "" is not in it
	Help   string // of the metric, a sentence without a full stop
	Unit   Unit
	Booked bool // by placements; top shows what is measured first
	Of     func(*T) *float64
	Most   func(*T) *float64 // the number that Of is a part of; nil is nothing
	Poor   func(*T) bool     // whether it deserves attention; nil is never
}

// Text is the number as a table has it; "-" is unknown.
func (f *Figure[T]) Text(of *T) string {
	v := f.Of(of)
	switch {
	case v == nil && f.Unit == KiB:
		return "?"
	case v == nil:
		return "-"
	}
	switch f.Unit {
	case VCPUs:
		if *v == 0 {
			return "-"
		}
	case CPUs:
		return fmt.Sprintf("%.2f", *v)
	case KiB:
		return words.Size(int64(*v))
	case MiBs:
		return fmt.Sprintf("%.1f GB/s", GB(*v))
	case Share:
		return fmt.Sprintf("%.1f %%", 100**v)
	}
	return fmt.Sprintf("%.4g", *v)
}

// Columns is the headings of figures in a table of view: to the right.
func Columns[T any](all []Figure[T]) []string {
	var out []string
	for i := range all {
		if all[i].Column != "" {
			out = append(out, ">"+all[i].Column)
		}
	}
	return out
}

// Sentences is the figures that the page's text on T has, those that are known.
func Sentences[T any](all []Figure[T], of *T) []string {
	var out []string
	for i := range all {
		f := &all[i]
		if f.Page != "" && f.Of(of) != nil {
			out = append(out, f.Text(of)+" "+f.Page)
		}
	}
	return out
}

// Value is the number in the unit of Prometheus: bytes, and bytes a second.
func (f *Figure[T]) Value(of *T) *float64 {
	v := f.Of(of)
	if v == nil {
		return nil
	}
	switch f.Unit {
	case KiB:
		return new(*v * (1 << 10))
	case MiBs:
		return new(*v * (1 << 20))
	}
	return v
}

// GB returns MiB in GB.
func GB(mib float64) float64 { return mib * (1 << 20) / 1e9 }

// What deserves attention, each a share of the whole.
const (
	FewLocal = 0.8  // of the memory accesses stay on the node
	MostBusy = 0.9  // of the CPUs of a node are busy
	LowFree  = 0.05 // of the memory of a node is free: about where the kernel begins to reclaim
)

// Nodes is what is known of a NUMA node.
var Nodes = []Figure[api.Node]{
	{Metric: "homenode_node_cpus", Help: "Online CPUs of a NUMA node", Of: cpus},
	{Column: "BUSY", Line: "CPU", Metric: "homenode_node_busy_cpus", Unit: CPUs,
		Help: "CPUs of a NUMA node that were busy in the last period, such as 3.5",
		Of:   func(n *api.Node) *float64 { return n.CPUUse }, Most: cpus,
		Poor: func(n *api.Node) bool {
			all := cpus(n)
			return n.CPUUse != nil && all != nil && *n.CPUUse > MostBusy**all
		}},
	{Column: "VCPUS", Line: "vCPUs", Metric: "homenode_node_booked_vcpus", Booked: true,
		Help: "vCPUs that homes have booked on a NUMA node",
		Of:   func(n *api.Node) *float64 { return &n.VCPUs }, Most: cpus},
	{Column: "MEMORY", Metric: "homenode_node_memory_bytes", Unit: KiB,
		Help: "Memory of a NUMA node",
		Of:   memory},
	{Column: "FREE", Metric: "homenode_node_memory_free_bytes", Unit: KiB,
		Help: "Free memory of a NUMA node",
		Of:   func(n *api.Node) *float64 { return known(n.FreeKiB) },
		Poor: func(n *api.Node) bool {
			return n.MemoryKiB > 0 && n.FreeKiB >= 0 && float64(n.FreeKiB) < LowFree*float64(n.MemoryKiB)
		}},
	{Page: "of page cache and slab can be reclaimed", Metric: "homenode_node_memory_reclaimable_bytes", Unit: KiB,
		Help: "Page cache and slab of a NUMA node that the kernel can reclaim",
		Of:   func(n *api.Node) *float64 { return float(n.ReclaimableKiB) }},
	{Line: "MEM", Unit: KiB, Of: used, Most: memory},
	{Column: "BOOKED", Metric: "homenode_node_memory_booked_bytes", Unit: KiB, Booked: true,
		Help: "Memory that homes have booked on a NUMA node",
		Of:   func(n *api.Node) *float64 { return new(float64(n.BookedKiB)) }},
	{Column: "TRAFFIC", Metric: "homenode_node_memory_traffic_bytes_per_second", Unit: MiBs,
		Help: "Traffic of the memory of a NUMA node in the last period; absent where nothing counts it",
		Of:   func(n *api.Node) *float64 { return float(n.Bandwidth) }},
}

// Workloads is what is known of a workload.
var Workloads = []Figure[api.Workload]{
	{Column: "VCPUS", Metric: "homenode_workload_vcpus", Unit: VCPUs,
		Help: "vCPUs that the workload counts with",
		Of:   func(w *api.Workload) *float64 { return new(float64(w.CPUs)) }},
	{Column: "CPU", Metric: "homenode_workload_busy_cpus", Unit: CPUs,
		Help: "CPUs that the workload keeps busy, such as 1.5",
		Of:   func(w *api.Workload) *float64 { return &w.CPUUse }},
	{Column: "MEMORY", Unit: KiB,
		Of: func(w *api.Workload) *float64 { return known(w.MemoryKiB) }},
	{Metric: "homenode_workload_home_memory_ratio", Unit: Share,
		Help: "Share of the workload's memory that is on its home, 0 to 1; absent without a home",
		Of:   func(w *api.Workload) *float64 { return w.OnHome }},
	{Column: "LOCAL NOW", Metric: "homenode_workload_local_access_ratio", Unit: Share,
		Help: "Share of the workload's memory accesses that are local, 0 to 1; absent when unknown",
		Of:   func(w *api.Workload) *float64 { return w.Locality },
		Poor: func(w *api.Workload) bool { return w.Locality != nil && *w.Locality < FewLocal }},
	{Column: "BY PLAN", Metric: "homenode_workload_local_access_planned_ratio", Unit: Share,
		Help: "Share of local accesses after the plan, 0 to 1; absent without a plan",
		Of:   func(w *api.Workload) *float64 { return w.LocalityExpected }},
	{Metric: "homenode_workload_accesses_per_second", Unit: Seconds,
		Help: "Reads a second of the workload that memory answered; absent where nothing counts them",
		Of:   func(w *api.Workload) *float64 { return w.Accesses }},
	{Metric: "homenode_workload_move_planned_bytes", Unit: Bytes,
		Help: "Memory that the page move under way is to bring home; absent without one",
		Of: func(w *api.Workload) *float64 {
			if !w.Moving() {
				return nil
			}
			return known(max(0, w.Move.Planned))
		}},
	{Metric: "homenode_workload_move_done_bytes", Unit: Bytes,
		Help: "Memory that the page move under way has brought home; absent without one",
		Of: func(w *api.Workload) *float64 {
			if !w.Moving() {
				return nil
			}
			return known(max(0, w.Move.Moved))
		}},
}

// known is a number that is negative where it is unknown.
func known(n int64) *float64 {
	if n < 0 {
		return nil
	}
	return new(float64(n))
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func cpus(n *api.Node) *float64 {
	set, err := topology.ParseCPUSet(n.CPUs)
	if err != nil {
		return nil
	}
	return new(float64(set.Len()))
}

func memory(n *api.Node) *float64 { return known(n.MemoryKiB) }

func used(n *api.Node) *float64 {
	kib, measured := n.UsedKiB()
	if !measured {
		return nil
	}
	return new(float64(kib))
}
