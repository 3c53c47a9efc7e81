package house

import (
	"fmt"
	"math"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func summaryOf(s *api.Status, host *topology.Host) api.HouseSummary {
	x := api.HouseSummary{Small: s.Small, Problems: []string{}}
	online := 0
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Class == workload.Batch && w.State != api.StateFailed && w.State != api.StateNoAnswer {
			x.Batch++
			x.BatchCPUs += w.CPUUse
			continue
		}
		online++
		switch held := w.State == api.StateHeld; {
		case w.State == api.StateLeftAlone, held && !s.Held:
			x.LeftAlone++
		case w.State == api.StateAtHome, held && len(w.Steps) == 0:
			x.AtHome++
		case w.State == api.StateMoving, w.State == api.StatePaused:
			x.Moving++
		case w.State == api.StateFailed, w.State == api.StateNoRoom, w.State == api.StateNoAnswer:
			x.Trouble++
		default:
			x.Waiting++
		}
	}
	x.Workloads, x.BatchCPUs = online-x.LeftAlone, rough(x.BatchCPUs)
	now, then := s.Locality()
	x.Locality, x.LocalityAfter = percent(now), percent(then)
	use, known := 0.0, false
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.CPUUse != nil {
			use, known = use+*n.CPUUse, true
		}
		if n.MemoryKiB > 0 {
			x.MemoryKiB += n.MemoryKiB
		}
		used, _ := n.UsedKiB()
		x.UsedKiB += used
	}
	x.UsedKiB = int64(rounded(float64(x.UsedKiB), 3))
	if known {
		x.CPUUse = roughly(&use)
	}
	if g := s.Sharing.Decides(); g != nil {
		x.Goal = short(g.Name(s.Workloads)) + " " + short(g.Text()) + ", " + g.State
	}
	if host != nil {
		x.CPUs = host.Online.Len()
	}
	for _, p := range s.Problems[:min(len(s.Problems), mostProblems)] {
		x.Problems = append(x.Problems, short(p))
	}
	var line words.Reason
	x.State, line = headline(s, &x)
	x.Headline = short(line.String())
	if t := s.Trial.Line(); t != "" { // it says what the arm has done to the rest
		x.Headline = short(t)
	}
	return x
}

// homeIsLocal is the local share below which no sentence says that everything is at home: work may
// span nodes by plan, or be left alone.
const homeIsLocal = 0.9

// headline is the state of the whole host in a word and in a sentence.
func headline(s *api.Status, x *api.HouseSummary) (string, words.Reason) {
	rise := func(code words.Code) words.Reason {
		if x.Locality == nil || x.LocalityAfter == nil || *x.LocalityAfter <= *x.Locality {
			return words.Plain("")
		}
		return words.Because(code, *x.Locality, *x.LocalityAfter)
	}
	switch {
	case s.Time.IsZero() || len(s.Nodes) == 0:
		return "unseen", words.Because(words.HouseUnseen)
	case s.Held:
		return "held", words.Because(words.HouseHeld, x.AtHome, x.Workloads)
	case s.OneNode() && x.Moving+x.Trouble+x.Waiting == 0:
		return "at home", s.OneNodeSays()
	case x.Workloads == 0 && x.Batch > 0:
		return "at home", words.Because(words.HouseBatch, x.Batch)
	case x.Workloads == 0:
		return "at home", words.Because(words.HouseEmpty)
	case x.Moving > 0:
		return "moving", movingNow(s, x)
	case x.Trouble > 0:
		for i := range s.Workloads {
			if w := &s.Workloads[i]; w.State == api.StateFailed || w.State == api.StateNoRoom ||
				w.State == api.StateNoAnswer {
				return "trouble", words.Because(words.HouseTrouble, x.Trouble, x.Workloads, short(w.Name), w.Why)
			}
		}
	case x.Waiting > 0 && s.Mode == "enforce":
		return "away", words.Because(words.HouseAway, x.Waiting, x.Workloads, rise(words.HouseWill))
	case x.Waiting > 0:
		return "away", words.Because(words.HouseAway, x.Waiting, x.Workloads, rise(words.HouseWould))
	}
	if x.Locality == nil {
		return "at home", words.Because(words.HouseAllHome, x.Workloads)
	}
	if *x.Locality < homeIsLocal {
		return "at home", words.Because(words.HousePlaced, x.Workloads, *x.Locality)
	}
	return "at home", words.Because(words.HouseAtHome, x.Workloads, *x.Locality)
}

// movingNow tells of the page move that has most to move.
func movingNow(s *api.Status, x *api.HouseSummary) words.Reason {
	var largest *api.Workload
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Moving() && (largest == nil || w.Move.Planned > largest.Move.Planned) {
			largest = w
		}
	}
	if largest == nil {
		return words.Because(words.HouseAway, x.Moving, x.Workloads, words.Plain(""))
	}
	m := largest.Move
	left, gain := words.Plain(""), words.Plain("")
	if seconds := leftOf(m); seconds != nil {
		left = words.Because(words.HouseTimeLeft, lasts(*seconds))
	}
	if before, after := largest.Locality, largest.LocalityExpected; before != nil && after != nil && *after > *before {
		gain = words.Because(words.HouseGain, *before, *after)
	}
	args := []any{short(largest.Name), largest.Home, m.Moved, m.Planned, left, gain}
	if x.Moving == 1 {
		return words.Because(words.HouseMoving, args...)
	}
	return words.Because(words.HouseMovingN, append([]any{x.Moving}, args...)...)
}

// lasts is a time as the page writes it elsewhere.
func lasts(seconds float64) string {
	if seconds < 90 {
		return fmt.Sprintf("%.0f s", math.Ceil(seconds))
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}
