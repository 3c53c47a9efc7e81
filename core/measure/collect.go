package measure

import (
	"context"
	"errors"
)

// Sample is one short run of a kernel on a cell.
type Sample struct {
	X      float64 // ns a load, or MB/s
	Reject string  // why it does not count; "" when it does
}

// Take runs one sample on a cell. An error takes the cell out.
type Take func(row, col int) (Sample, error)

// Rule says when a cell has enough samples.
type Rule struct {
	Min      int     // accepted samples at least
	Target   float64 // half width of the interval, relative
	Times    int     // tries at most, as a multiple of Min
	Interval func([]float64) Interval
}

// DefaultRule is the rule for latency cells.
var DefaultRule = Rule{Min: 11, Target: 0.01, Times: 4, Interval: OrderInterval}

// Cell is a pair of a row and a column.
type Cell struct{ Row, Col int }

// CellResult is all samples of a cell, by round.
type CellResult struct {
	Accepted []float64
	Rounds   []int // of Accepted
	Rejected int
	Reasons  map[string]int
	Err      error
}

// ErrStopped ends a collection early; what is there stays.
var ErrStopped = errors.New("stopped")

// Collect visits cells in rounds, each in another random order, until all have
// enough or ctx ends. progress, which may be nil, hears the share done.
func Collect(ctx context.Context, cells []Cell, take Take, rule Rule, seed uint64,
	progress func(float64)) map[Cell]*CellResult {
	out := make(map[Cell]*CellResult, len(cells))
	for _, c := range cells {
		out[c] = &CellResult{Reasons: map[string]int{}}
	}
	r := NewRandom(seed)
	open := append([]Cell(nil), cells...)
	for round := 0; len(open) > 0 && round < rule.Min*rule.Times; round++ {
		Shuffle(r, open)
		var next []Cell
		for i, c := range open {
			if ctx.Err() != nil {
				return out
			}
			res := out[c]
			s, err := take(c.Row, c.Col)
			switch {
			case errors.Is(err, ErrStopped):
				return out
			case err != nil:
				res.Err = err
				continue
			case s.Reject != "":
				res.Rejected++
				res.Reasons[s.Reject]++
			default:
				res.Accepted = append(res.Accepted, s.X)
				res.Rounds = append(res.Rounds, round)
			}
			if !rule.enough(res) {
				next = append(next, c)
			}
			if progress != nil {
				of := min(1, (float64(round)+float64(i+1)/float64(len(open)))/float64(rule.Min))
				progress((float64(len(cells)-len(open)) + float64(len(open))*of) / float64(len(cells)))
			}
		}
		open = next
	}
	if progress != nil {
		progress(1)
	}
	return out
}

func (rule Rule) enough(res *CellResult) bool {
	return len(res.Accepted) >= rule.Min && rule.Interval(res.Accepted).HalfWidth() <= rule.Target
}

// MinUseful is the least number of samples a number is printed from.
const MinUseful = 3

// TargetBusy is the half width over which a number is printed with ~.
const TargetBusy = 0.05

// NewLatency makes the tables of a latency measurement. flag, which may be
// nil, adds what the prober knows of a cell. local names the column that the
// row's ratios refer to, -1 for none.
func NewLatency(from string, rows, cols []int, results map[Cell]*CellResult, local func(row int) int,
	flag func(row, col int) string) *Latency {
	l := &Latency{Unit: "ns", From: from, Rows: rows, Cols: cols, Adjacent: Unknown, Prefetchers: Unknown}
	l.Median = NewTable(len(rows), len(cols))
	l.Best = NewTable(len(rows), len(cols))
	l.Sigma = NewTable(len(rows), len(cols))
	l.Ratio = NewTable(len(rows), len(cols))
	for i := range rows {
		l.CI95 = append(l.CI95, make([]Interval, len(cols)))
		l.RatioCI = append(l.RatioCI, make([]Interval, len(cols)))
		l.Samples = append(l.Samples, make([]int, len(cols)))
		l.Rejected = append(l.Rejected, make([]int, len(cols)))
		l.Flags = append(l.Flags, make([]string, len(cols)))
		for j := range cols {
			l.CI95[i][j], l.RatioCI[i][j] = Interval{Unknown, Unknown}, Interval{Unknown, Unknown}
			res := results[Cell{i, j}]
			if res == nil {
				continue
			}
			l.Samples[i][j], l.Rejected[i][j] = len(res.Accepted), res.Rejected
			switch {
			case res.Err != nil:
				l.Flags[i][j] = "failed: " + res.Err.Error()
				continue
			case len(res.Accepted) < MinUseful:
				l.Flags[i][j] = "failed: too few undisturbed samples"
				continue
			}
			s := Summarize(res.Accepted, res.Rejected)
			l.Median[i][j] = s.Median
			l.Best[i][j] = s.Best
			l.Sigma[i][j] = s.Sigma
			l.CI95[i][j] = s.CI
			if flag != nil {
				l.Flags[i][j] = flag(i, j)
			}
			if s.CI.HalfWidth() > TargetBusy && l.Flags[i][j] == "" {
				l.Flags[i][j] = "~"
			}
		}
		at := local(i)
		if at < 0 {
			continue
		}
		for j := range cols {
			if pairs := Ratios(results[Cell{i, j}], results[Cell{i, at}]); len(pairs) >= MinUseful {
				l.Ratio[i][j], l.RatioCI[i][j] = Value(Median(pairs)), MedianInterval(pairs)
			}
		}
	}
	return l
}

// Ratios divides the samples of a by those of b of the same round.
func Ratios(a, b *CellResult) []float64 {
	if a == nil || b == nil {
		return nil
	}
	var out []float64
	for i, j := 0, 0; i < len(a.Rounds) && j < len(b.Rounds); {
		switch {
		case a.Rounds[i] < b.Rounds[j]:
			i++
		case a.Rounds[i] > b.Rounds[j]:
			j++
		default:
			out = append(out, a.Accepted[i]/b.Accepted[j])
			i, j = i+1, j+1
		}
	}
	return out
}
