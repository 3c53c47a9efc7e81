package share

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Asking records the requests to stop batch work or to run it elsewhere, made when squeezing is not
// enough.
type Asking struct {
	// since when somebody important waits though batch work has the least that it may
	Pressed time.Time `json:"pressed,omitzero"`
	Asked   []Frozen  `json:"asked,omitempty"` // the newest last; Since is when
}

// askedAgain is when a manager that has not done it is asked once more.
const askedAgain = 10 * time.Minute

// ask has the manager of one more workload asked, when EvictAfter was not enough for what is
// frozen, or somebody has waited all of it beside the rest. One at a time: what the first
// brought must be seen. Who is asked for is frozen no longer, so that it can end in order.
func (s *State) ask(in *Input, pressed int) {
	a := &s.Asking
	if in.EvictAfter <= 0 {
		*a = Asking{}
		return
	}
	switch {
	case pressed < 0:
		a.Pressed = time.Time{}
	case a.Pressed.IsZero() || in.At.Before(a.Pressed):
		a.Pressed = in.At
	}
	a.Asked = slices.DeleteFunc(slices.Clone(a.Asked), func(f Frozen) bool {
		return !slices.ContainsFunc(in.Work, func(w Work) bool { return w.ID == f.Workload && w.Asks })
	})
	if k := len(a.Asked); k > 0 && in.At.Sub(a.Asked[k-1].Since).Abs() < max(in.EvictAfter, patience) {
		return
	}
	may := func(id workload.ID) bool {
		k := slices.IndexFunc(a.Asked, func(f Frozen) bool { return f.Workload == id })
		return (k < 0 || in.At.Sub(a.Asked[k].Since) >= askedAgain) &&
			slices.ContainsFunc(in.Work, func(w Work) bool { return w.ID == id && w.Asks })
	}
	for _, f := range s.Frozen {
		if in.At.Sub(f.Since) >= in.EvictAfter && may(f.Workload) {
			s.askFor(Frozen{f.Workload, f.For, in.At})
			return
		}
	}
	if pressed < 0 || in.At.Sub(a.Pressed) < in.EvictAfter {
		return
	}
	n := &in.Nodes[pressed]
	for _, w := range Squeeze(in.Work) {
		frozen := slices.ContainsFunc(s.Frozen, func(f Frozen) bool { return f.Workload == w.ID })
		if !frozen && may(w.ID) && w.CPUs.Intersects(n.Pool) {
			s.askFor(Frozen{w.ID, n.Waiting, in.At})
			return
		}
	}
}

func (s *State) askFor(f Frozen) {
	same := func(x Frozen) bool { return x.Workload == f.Workload }
	s.Frozen = slices.DeleteFunc(s.Frozen, same)
	s.Asking.Asked = append(slices.DeleteFunc(s.Asking.Asked, same), f)
}

// Of returns the request for a workload: its time and the important workload; nil without one.
func (a *Asking) Of(id workload.ID) *Frozen {
	if k := slices.IndexFunc(a.Asked, func(f Frozen) bool { return f.Workload == id }); k >= 0 {
		return &a.Asked[k]
	}
	return nil
}
