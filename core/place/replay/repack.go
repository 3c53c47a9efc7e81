package replay

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Moved is one move of a running workload, made before the arrival it is
// reported with.
type Moved struct {
	VM   workload.ID      `json:"vm"`
	CPUs []int            `json:"cpus"`
	Mem  map[string]int64 `json:"mem"` // MiB by node

	Move place.Move `json:"-"`
}

const (
	// movesPerArrival is how many moves a run may make for each arrival so far.
	movesPerArrival = 0.5

	// repackSteps bounds the search for one arrival: some tens of milliseconds.
	repackSteps = 4000

	// repackMoves is the most moves for one arrival.
	repackMoves = 8

	// leastGain is what a move must gain, in vCPUs' worth: below it hardly anything is
	// gained in all, and a move is not free.
	leastGain = 0.25

	// heavy is how many times its share of memory a workload may take for moves to be
	// made for it. What takes more leaves CPUs without memory wherever it goes: over 20
	// traces of the memory-heavy family with other seeds, making room for all comers gave
	// 90.2 % of utility, not making it 91.2 %, no moves at all 90.0 %.
	heavy = 2
)

// repacker admits arrivals with moves. It knows what has come so far and
// nothing of what will.
type repacker struct {
	l        *place.Ledger
	running  []place.Runner // rising by ID
	arrivals int
	moves    int
	perCPU   float64 // KiB of memory that the host has for each CPU
}

func newRepacker(l *place.Ledger, h *topology.Host, reserved topology.CPUSet) *repacker {
	r := &repacker{l: l}
	r.perCPU = float64(h.Memory()) / float64(max(1, h.Online.Minus(reserved).Len()))
	return r
}

// came takes note of a workload that runs from now on.
func (r *repacker) came(spec workload.Spec) {
	at, _ := r.find(spec.ID)
	r.running = slices.Insert(r.running, at, place.Runner{Spec: spec})
}

// left takes note of one that is gone.
func (r *repacker) left(id workload.ID) {
	if at, ok := r.find(id); ok {
		r.running = slices.Delete(r.running, at, at+1)
	}
}

func (r *repacker) find(id workload.ID) (int, bool) {
	return slices.BinarySearchFunc(r.running, id,
		func(x place.Runner, id workload.ID) int { return cmp.Compare(x.Spec.ID, id) })
}

// allowance is how many moves may be made now.
func (r *repacker) allowance() int { return int(movesPerArrival*float64(r.arrivals)) - r.moves }

// worth is what a dedicated workload is worth at an access cost: a vCPU 2 - cost.
func worth(vcpus int, access float64) float64 { return float64(vcpus) * max(0.05, 2-access) }

// place decides one arrival: as the engine would without moves, and where that is
// no place or not all local, with moves if they gain.
func (r *repacker) place(req place.Request) (place.Result, []place.Move) {
	r.arrivals++
	plain := r.l.Place(req)
	value, limit := 0.0, 0.0
	if plain.Placed() {
		access := r.l.Access(&plain.Placement)
		value = worth(req.Spec.CPUs, access)
		limit = access - leastGain/float64(req.Spec.CPUs)
	}
	most := min(repackMoves, r.allowance())
	isHeavy := float64(req.Spec.Memory) > heavy*r.perCPU*float64(req.Spec.CPUs)
	if req.Spec.Class != workload.Dedicated || (plain.Placed() && limit < 1) || most < 1 || isHeavy {
		return plain, nil
	}
	p := r.l.Repack(req, place.RepackOptions{Running: r.running, Moves: most, Steps: repackSteps, Access: limit})
	if !p.Admitted() || len(p.Moves) == 0 {
		return plain, nil
	}
	gain := worth(req.Spec.CPUs, r.l.Access(&p.Result.Placement)) - value
	for i := range p.Moves {
		m := &p.Moves[i]
		gain += worth(m.To.VCPUs, m.After) - worth(m.To.VCPUs, m.Before)
	}
	if gain < leastGain*float64(len(p.Moves)) {
		return plain, nil
	}
	return p.Result, p.Moves
}

// carryOut makes the moves in the ledger and says where everything went.
func (r *repacker) carryOut(moves []place.Move) []Moved {
	out := make([]Moved, len(moves))
	for i := range moves {
		r.l.Commit(moves[i].To)
		out[i] = Moved{VM: moves[i].Workload, CPUs: cpuList(moves[i].To.CPUs), Mem: memMap(&moves[i].To),
			Move: moves[i]}
	}
	r.moves += len(moves)
	return out
}

func cpuList(s topology.CPUSet) []int {
	out := make([]int, 0, s.Len())
	for cpu := range s.All() {
		out = append(out, int(cpu))
	}
	return out
}

func memMap(p *plan.Placement) map[string]int64 {
	out := map[string]int64{}
	for _, m := range p.Memory {
		out[strconv.Itoa(int(m.Node))] = int64(m.KiB >> 10)
	}
	return out
}
