package hostile

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// store is what is on disk.
type store struct {
	entries    map[uint64]plan.Entry
	seq        uint64
	placements []plan.Placement
	moves      map[workload.ID]plan.Move
	values     map[string]json.RawMessage
}

func newStore() *store {
	return &store{entries: map[uint64]plan.Entry{}, moves: map[workload.ID]plan.Move{}, values: map[string]json.RawMessage{}}
}

func (s *store) commit(b *plan.Batch) {
	if b.Placements != nil || len(b.Entries)+len(b.Moves) > 0 { // most say only what happened
		b = written(b)
	}
	for _, e := range b.Entries {
		s.seq = max(s.seq, e.Seq)
		if s.entries[e.Seq] = e; e.State == plan.Restored || e.State == plan.Gone {
			delete(s.entries, e.Seq)
		}
	}
	if b.Placements != nil {
		s.placements = slices.Clone(b.Placements.All())
	}
	for _, m := range b.Moves {
		s.moves[m.Workload] = m
	}
	for name, v := range b.Values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		s.values[name] = text
	}
}

// written is a batch as the disk has it.
func written(b *plan.Batch) *plan.Batch {
	text, err := json.Marshal(plan.Batch{Entries: b.Entries, Placements: b.Placements, Moves: b.Moves})
	if err != nil {
		panic(err)
	}
	out := plan.Batch{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	out.Values = b.Values
	return &out
}

// saved is what a daemon that starts reads.
func (s *store) saved() control.Saved {
	v := control.Saved{Seq: s.seq, Placements: slices.Clone(s.placements)}
	for _, seq := range slices.Sorted(maps.Keys(s.entries)) {
		v.Journal = append(v.Journal, s.entries[seq])
	}
	for _, id := range slices.Sorted(maps.Keys(s.moves)) {
		v.Moves = append(v.Moves, s.moves[id])
	}
	for name, into := range map[string]any{control.KeyHolds: &v.Holds, control.KeyChosen: &v.Chosen, control.KeyPast: &v.Past,
		control.KeyPartition: &v.Partition, control.KeyUndoing: &v.Undoing, control.KeyAdmissions: &v.Admissions, control.KeyTheirs: &v.Theirs, control.KeySharing: &v.Sharing, control.KeyScheduler: &v.Scheduler} {
		if text, ok := s.values[name]; ok {
			if err := json.Unmarshal(text, into); err != nil {
				panic(err)
			}
		}
	}
	return v
}
