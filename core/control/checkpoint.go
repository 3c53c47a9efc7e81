package control

import (
	"encoding/json"
	"fmt"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// checkpoint is a State as it is recorded.
type checkpoint struct {
	*plainState
	Journal []plan.Entry
	Saved   []workload.Placement
}

type plainState State

// Checkpoint is the state as JSON, from which Resume goes on.
func (s *State) Checkpoint() json.RawMessage {
	s.Placements()
	s.AllChosen()
	s.Steps()
	text, err := json.Marshal(checkpoint{(*plainState)(s), s.Journal.All(), s.Written()})
	if err != nil {
		panic(fmt.Sprintf("control: a state that cannot be written: %v", err)) // it has no such values
	}
	return text
}

// Resume is the state of a Checkpoint.
func Resume(text json.RawMessage) (*State, error) {
	s := New(Settings{}, Saved{})
	c := checkpoint{plainState: (*plainState)(s)}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read what the daemon remembered: %w", err)
	}
	s.Journal, s.Before = journal.New(c.Journal), s.Snapshot
	s.SetWritten(c.Saved)
	s.resumeConcerns()
	s.Lives = scene.LivesOf(s.Snapshot.Observations, nil)
	return s, nil
}
