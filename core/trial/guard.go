package trial

// Guard is a bound for one metric: where it is broken the trial stops.
type Guard struct {
	Metric string  `json:"metric"` // name of the metric
	Worse  float64 `json:"worse"`  // how much worse than the baseline it may be: 0.2 is 20 %
}

// GuardReadings is how many readings in a row must be beyond the bound: one alone may be a
// moment of the machine.
const GuardReadings = 3

// Broken reports whether the newest readings of a metric are all beyond the bound. base is its
// mean under the baseline.
func (g *Guard) Broken(m *Metric, base float64, newest []float64) bool {
	if len(newest) < GuardReadings {
		return false
	}
	most := g.Worse
	if !m.Points {
		most *= abs(base)
	}
	for _, x := range newest[len(newest)-GuardReadings:] {
		worse := base - x
		if m.Lower {
			worse = x - base
		}
		if worse <= most {
			return false
		}
	}
	return true
}

func abs(x float64) float64 { return max(x, -x) }
