package api

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// PlanPlacement is where a workload would go.
type PlanPlacement struct {
	Workload workload.ID      `json:"workload"` // ID of the workload
	Class    workload.Class   `json:"class"`    // class: what it is promised
	Home     topology.NodeSet `json:"home"`     // home nodes
	// last-level caches of the home that it is kept in; absent means all
	Caches topology.CacheSet `json:"caches,omitzero"`
	CPUs   topology.CPUSet   `json:"cpus"` // CPUs that it may use
	// CPU of each vCPU, in the order of the vCPUs; dedicated work only
	Pins  []topology.CPUID `json:"pins,omitempty"`
	Idle  topology.CPUSet  `json:"idle"`  // SMT siblings that are kept idle beside it
	Bound bool             `json:"bound"` // whether memory is bound to the home
	// size of its huge pages, KiB; absent for ordinary pages
	HugePage  topology.KiB `json:"huge_page_kib,omitempty"`
	MemoryKiB []PlanMemory `json:"memory"` // memory that is booked, by node
}

// PlanMemory is memory that is booked on one node.
type PlanMemory struct {
	Node topology.NodeID `json:"node"` // node ID of the kernel
	KiB  topology.KiB    `json:"kib"`  // memory on that node, KiB
}

// RepackAnswer is whether a workload fits, and which moves of others make room for it.
type RepackAnswer struct {
	Workload workload.ID    `json:"workload"`  // ID of the workload
	Outcome  string         `json:"outcome"`   // answer: fits, moves or refused
	Place    *PlanPlacement `json:"place"`     // where it would go; null when refused
	Moves    []RepackMove   `json:"moves"`     // moves of other workloads, in the order to make them
	MovedKiB topology.KiB   `json:"moved_kib"` // memory that all moves take along, KiB
	AtLeast  int            `json:"at_least"`  // proven lower bound of the number of moves
	// whether all plans with fewer moves were tried that keep each moved workload on one node
	Tried    bool              `json:"tried"`
	CutOff   bool              `json:"cut_off"`  // whether the search ended at its limit
	Steps    int               `json:"steps"`    // steps of the search
	Worse    []place.Worsening `json:"worse"`    // workloads that fare worse afterwards
	Reasons  []words.Reason    `json:"reasons"`  // reasons, the weightiest first
	Decision plan.Decision     `json:"decision"` // decision on the workload itself
	// the answer with moves that bring it nearer to its memory; absent without such
	Nearer *RepackAnswer `json:"nearer,omitempty"`
}

// RepackMove is one move of another workload.
type RepackMove struct {
	Workload  workload.ID    `json:"workload"`      // ID of the workload that moves
	From      PlanPlacement  `json:"from"`          // where it is
	To        PlanPlacement  `json:"to"`            // where it would be
	MovedKiB  topology.KiB   `json:"moved_kib"`     // memory that it takes along, KiB
	Temporary bool           `json:"temporary"`     // whether it moves again later in this plan
	Before    float64        `json:"access_before"` // mean cost of its accesses before, where all local is 1
	After     float64        `json:"access_after"`  // mean cost of its accesses afterwards, where all local is 1
	Reasons   []words.Reason `json:"reasons"`       // reasons, the weightiest first
}

// Planned is the wire form of a placement.
func Planned(p *plan.Placement) PlanPlacement {
	w := PlanPlacement{
		Workload: p.Workload, Class: p.Class, Home: p.Home, Caches: p.Caches, CPUs: p.CPUs, Pins: p.Pins, Idle: p.Idle,
		Bound: p.Bound, HugePage: p.HugePage, MemoryKiB: []PlanMemory{},
	}
	for _, m := range p.Memory {
		w.MemoryKiB = append(w.MemoryKiB, PlanMemory{m.Node, m.KiB})
	}
	return w
}

// Repacked is the wire form of an answer.
func Repacked(id workload.ID, r *place.Repacking) RepackAnswer {
	a := RepackAnswer{
		Workload: id, Outcome: RepackOutcome(r), Moves: RepackMoves(r.Moves), MovedKiB: r.KiB, AtLeast: r.AtLeast,
		Tried: r.Whole, CutOff: r.CutOff, Steps: r.Steps,
		Worse: r.Worse, Reasons: r.Reasons, Decision: r.Result.Decision,
	}
	if a.Worse == nil {
		a.Worse = []place.Worsening{}
	}
	if r.Admitted() {
		a.Place = new(Planned(&r.Result.Placement))
	}
	return a
}

// RepackMoves is the wire form of moves.
func RepackMoves(moves []place.Move) []RepackMove {
	out := []RepackMove{}
	for i := range moves {
		m := &moves[i]
		out = append(out, RepackMove{
			Workload: m.Workload, From: Planned(&m.From), To: Planned(&m.To), MovedKiB: m.KiB, Temporary: m.Temporary,
			Before: m.Before, After: m.After, Reasons: m.Reasons,
		})
	}
	return out
}

// RepackOutcome is fits, moves or refused.
func RepackOutcome(r *place.Repacking) string {
	switch {
	case !r.Admitted():
		return "refused"
	case len(r.Moves) == 0:
		return "fits"
	}
	return "moves"
}
