package plan

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Homes is a ledger of homes, rising by workload, to be written down: a list and what was
// put over it since. With makes another that shares both, so that one home more does not
// cost a copy of all. It never changes.
type Homes struct{ list, over []Placement }

// HomesOf is a ledger of placements that rise by workload and do not change any more.
func HomesOf(placements []Placement) *Homes { return &Homes{list: placements} }

// With is the ledger with a home more, or another one. Only the newest may be asked, once.
func (h *Homes) With(p ...Placement) *Homes {
	return &Homes{h.list, append(h.over, p...)}
}

// All is every placement, rising by workload. It is not to be changed.
func (h *Homes) All() []Placement {
	if len(h.over) == 0 {
		return h.list
	}
	over := slices.Clone(h.over)
	slices.Reverse(over) // of several of one workload the newest is kept
	by := func(x, y Placement) int { return cmp.Compare(x.Workload, y.Workload) }
	slices.SortStableFunc(over, by)
	over = slices.CompactFunc(over, func(x, y Placement) bool { return x.Workload == y.Workload })
	out, k := make([]Placement, 0, len(h.list)+len(over)), 0
	for i := range h.list {
		for k < len(over) && over[k].Workload < h.list[i].Workload {
			out, k = append(out, over[k]), k+1
		}
		if k == len(over) || over[k].Workload != h.list[i].Workload {
			out = append(out, h.list[i])
		}
	}
	return append(out, over[k:]...)
}

// MarshalJSON writes All.
func (h *Homes) MarshalJSON() ([]byte, error) { return json.Marshal(h.All()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Homes) UnmarshalJSON(text []byte) error {
	*h = Homes{}
	return json.Unmarshal(text, &h.list)
}
