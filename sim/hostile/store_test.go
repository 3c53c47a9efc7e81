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
	placements *plan.Homes // written when a daemon reads them: nothing changes what was given to be saved
	moves      map[workload.ID]plan.Move
	values     map[string]any // likewise
}

func newStore() *store {
	return &store{entries: map[uint64]plan.Entry{}, moves: map[workload.ID]plan.Move{}, values: map[string]any{}}
}

func (s *store) commit(b *plan.Batch) {
	if b.Placements != nil {
		s.placements = b.Placements
	}
	maps.Copy(s.values, b.Values)
	if len(b.Entries)+len(b.Moves) > 0 { // most say only what happened
		b = written(b)
	}
	for _, e := range b.Entries {
		s.seq = max(s.seq, e.Seq)
		if s.entries[e.Seq] = e; e.State == plan.Restored || e.State == plan.Gone {
			delete(s.entries, e.Seq)
		}
	}
	for _, m := range b.Moves {
		s.moves[m.Workload] = m
	}
}

// written is the entries and moves of a batch as the disk has them.
func written(b *plan.Batch) *plan.Batch {
	out := plan.Batch{}
	reread(plan.Batch{Entries: b.Entries, Moves: b.Moves}, &out)
	return &out
}

// reread writes a value and reads it.
func reread(v, into any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err)
	}
}

// saved is what a daemon that starts reads.
func (s *store) saved() control.Saved {
	v := control.Saved{Seq: s.seq}
	if s.placements != nil {
		homes := plan.Homes{}
		reread(s.placements, &homes)
		v.Placements = slices.Clone(homes.All())
	}
	for _, seq := range slices.Sorted(maps.Keys(s.entries)) {
		v.Journal = append(v.Journal, s.entries[seq])
	}
	for _, id := range slices.Sorted(maps.Keys(s.moves)) {
		v.Moves = append(v.Moves, s.moves[id])
	}
	for name, into := range map[string]any{control.KeyHolds: &v.Holds, control.KeyChosen: &v.Chosen, control.KeyPast: &v.Past,
		control.KeyPartition: &v.Partition, control.KeyUndoing: &v.Undoing, control.KeyAdmissions: &v.Admissions, control.KeyTheirs: &v.Theirs, control.KeySharing: &v.Sharing, control.KeyScheduler: &v.Scheduler, control.KeyTrial: &v.Trial} {
		if value, ok := s.values[name]; ok {
			reread(value, into)
		}
	}
	return v
}
