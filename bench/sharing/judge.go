package sharing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Score is how a run went.
type Score struct {
	Settled float64 `json:"settled"` // part of the windows that are judged by Err and P95
	// Err is how far, in points (hundredths of the CPUs that no dedicated work holds), the CPUs
	// that were busy over ten seconds were from what was possible: the mean, and 95 of 100 are
	// not farther.
	Err  float64 `json:"err"`
	P95  float64 `json:"p95"`
	All  float64 `json:"all"`  // as Err, of all windows: also where online work has just changed
	Node float64 `json:"node"` // as Err, of each node by itself

	Cut  float64 `json:"cut"`  // CPU seconds that online work lost to batch work
	Late float64 `json:"late"` // part of online work's time that began where no CPU was idle
	// part of the time in which fewer CPUs were idle than the buffer and batch work had more than its least
	Short    float64 `json:"short"`
	Progress float64 `json:"progress"` // CPU seconds of batch work, of those that were possible
	Turns    float64 `json:"turns"`    // the most times a minute that more turned to less, or less to more, on any node
	Jump     float64 `json:"jump"`     // the most that a node gave more from one tick to the next, of its CPUs
	Changes  float64 `json:"changes"`  // changes a minute of what a node gives, a node
	Writes   float64 `json:"writes"`   // settings written a minute
	Overlap  int     `json:"overlap"`  // times that batch work might use CPUs of dedicated work for more than a look
}

// window is what busy CPUs are averaged over.
const window = 20 // ticks

// calm is how long online work must not have changed before a window is judged, in ticks: ten
// seconds to see it and a tenth of the node in each look.
const calm = 80

// settledBy is how much of a node online work may change in that time, noise aside.
const settledBy = 0.03

// judge watches a run.
type judge struct {
	h            *host
	target       float64
	shape        [][]float64 // of each node: what was wanted without noise in the last ticks, by CPUs of the pool
	busy, can    []float64   // of each node, in this window
	ticks        int
	errs, all    []float64
	nodes        []float64
	short, turns []int
	last, dir    []float64
	changes      int
	done, could  float64
	jump         float64
	overlaps     int
	overlapped   int
}

func newJudge(h *host, target float64) *judge {
	n := len(h.nodes)
	j := &judge{h: h, target: target, shape: make([][]float64, n), busy: make([]float64, n), can: make([]float64, n),
		short: make([]int, n), turns: make([]int, n), last: make([]float64, n), dir: make([]float64, n)}
	for i := range j.last {
		j.last[i] = -1
	}
	return j
}

// buffer is the CPUs of a node that should be idle: an eighth, at least a core, at most a quarter.
func buffer(n *node) float64 {
	return float64(min(max(n.cores[0].Len(), (n.pool+7)/8), n.pool/4))
}

// tick looks at what happened in one.
func (j *judge) tick(given []float64) {
	h := j.h
	at := (h.now - tick).Seconds()
	asked := 0.0
	for _, w := range h.active {
		if w.class == workload.Batch {
			asked += w.now
		}
	}
	for i, n := range h.nodes {
		pool := float64(n.pool)
		steady := n.system(at) + 7*asked // what batch work wants counts as a change too
		for _, w := range h.active {
			if w.class != workload.Batch && !w.holds() {
				steady += w.wants(at) * w.where(h)[i]
			}
		}
		j.shape[i] = append(j.shape[i], steady/pool+1000*pool)
		j.shape[i] = j.shape[i][max(0, len(j.shape[i])-calm-window):]
		can := max(n.online, min(j.target*pool, pool-buffer(n)))
		can = min(can, n.online+asked*float64(n.cpus.Len())/float64(h.top.Online.Len()))
		j.busy[i] += (n.online + n.batch) / pool
		j.can[i] += can / pool
		if n.batch > 0.03*pool && pool-n.online-n.batch < buffer(n)-0.02*pool-0.01 {
			j.short[i]++
		}
		j.done += n.batch
		j.could += max(can-n.online, 0)
		if g := given[i]; j.last[i] >= 0 && g != j.last[i] {
			d := math.Copysign(1, g-j.last[i])
			if h.now > 10*time.Second { // what it began with is another matter
				j.jump = max(j.jump, (g-j.last[i])/pool)
			}
			if j.dir[i] != 0 && d != j.dir[i] {
				j.turns[i]++
			}
			j.dir[i] = d
			j.changes++
		}
		j.last[i] = given[i]
	}
	j.ticks++
	if j.ticks%window == 0 {
		diff := 0.0
		pools := 0.0
		settled := true
		for i, n := range h.nodes {
			s, pool := j.shape[i], float64(n.pool)
			calm := len(s) == calm+window && slices.Max(s)-slices.Min(s) <= settledBy
			if calm {
				j.nodes = append(j.nodes, 100*math.Abs(j.busy[i]-j.can[i])/window)
			}
			diff += pool * (j.busy[i] - j.can[i]) / window
			pools += pool
			settled = settled && calm
			j.busy[i], j.can[i] = 0, 0
		}
		err := 100 * math.Abs(diff) / pools
		if j.all = append(j.all, err); settled {
			j.errs = append(j.errs, err)
		}
	}
	if over := h.overlap - j.overlaps; over > 0 {
		j.overlapped++
	}
	j.overlaps = h.overlap
}

// Mean returns the mean, 0 for no values.
func Mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(1, len(xs)))
}

func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return xs[min(len(xs)-1, int(q*float64(len(xs))))]
}

func (j *judge) score(p policy, length time.Duration) Score {
	minutes, h := length.Minutes(), j.h
	s := Score{Settled: float64(len(j.errs)) / float64(max(1, len(j.all))), Err: Mean(j.errs),
		P95: quantile(j.errs, 0.95), All: Mean(j.all), Node: Mean(j.nodes),
		Cut: max(0, h.cut-h.alone), Late: h.late / max(1, h.wanted), Progress: j.done / max(1, j.could),
		Turns: float64(slices.Max(j.turns)) / minutes, Changes: float64(j.changes) / minutes / float64(len(h.nodes)),
		Writes: float64(p.counted()) / minutes, Overlap: j.overlapped, Jump: j.jump}
	for _, k := range j.short {
		s.Short += float64(k) / float64(j.ticks) / float64(len(j.short))
	}
	return s
}

// Bounds of every run, under homenode.
const (
	MostErr   = 3     // points
	MostTurns = 2.1   // a minute: once a minute to more, and back; one may be ahead
	MostJump  = 0.101 // of a node
	mostShort = 0.05  // part of the time
	mostLate  = 0.005 // part of online work's time
	LeastDone = 0.85  // of what was possible for batch work
)

// Broken says which bounds a run did not keep; "" for none.
func (x *Score) Broken() string {
	var out []string
	for _, b := range []struct {
		what string
		is   bool
	}{
		{fmt.Sprintf("%.2f points from what was possible", x.Err), x.Err > MostErr},
		{fmt.Sprintf("nodes %.2f points from what was possible", x.Node), x.Node > 2*MostErr},
		{fmt.Sprintf("online work lost %.2f CPU seconds", x.Cut), x.Cut > 1e-6},
		{fmt.Sprintf("%.2f turns a minute", x.Turns), x.Turns > MostTurns},
		{fmt.Sprintf("a node gave %.2f of its CPUs more at once", x.Jump), x.Jump > MostJump},
		{fmt.Sprintf("fewer CPUs idle than the buffer for %.4f of the time", x.Short), x.Short > mostShort},
		{fmt.Sprintf("%.4f of online work began where no CPU was idle", x.Late), x.Late > mostLate},
		{fmt.Sprintf("batch work got %.2f of what was possible", x.Progress), x.Progress < LeastDone},
		{fmt.Sprintf("batch work might use CPUs of dedicated work %d times", x.Overlap), x.Overlap > 12},
	} {
		if b.is {
			out = append(out, b.what)
		}
	}
	return strings.Join(out, "; ")
}
