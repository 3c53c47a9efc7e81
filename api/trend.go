package api

import "time"

// Trend is how local online work has been since the daemon started, and what the daemon did for it.
type Trend struct {
	Since      time.Time `json:"since"`          // when the daemon started
	First      *float64  `json:"local_at_start"` // local share of online work then, 0 to 1; null unknown
	Moves      int       `json:"moves"`          // page moves that have ended
	MovedBytes int64     `json:"moved_bytes"`    // bytes that they moved
	From       time.Time `json:"from"`           // time of the first point
	StepS      float64   `json:"step_s"`         // time between two points, s
	// local share of online work, 0 to 1, a point each step, 15 minutes at most; null unknown
	Local   []*float64  `json:"local"`
	MovedAt []time.Time `json:"moved_at"` // when each page move of these points ended
	// Slack is the least slack of all latency goals, at most 1 and below 0 when one is missed, at the points of Local;
	// null while no metric can be used; absent while no point has any.
	Slack []*float64 `json:"slack,omitempty"`
}

// TrendSpan is the time of the curve at most.
const TrendSpan = 15 * time.Minute

// Reached is how long after the start the local share was first at least so much.
func (t *Trend) Reached(share float64) (after time.Duration, ever bool) {
	for i, x := range t.Local {
		if x != nil && *x >= share {
			return t.From.Add(time.Duration(float64(i) * t.StepS * float64(time.Second))).Sub(t.Since), true
		}
	}
	return 0, false
}
