package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/replay"
)

// Recorded is one turn of the loop as the flight recorder keeps it.
type Recorded struct {
	Before json.RawMessage `json:"before,omitempty"` // the Checkpoint before it, where a file begins
	Input  Input           `json:"input"`
	Output Output          `json:"output"`
}

// Logged is a Recorded as it was read: what followed byte by byte.
type Logged struct {
	Before json.RawMessage `json:"before,omitempty"`
	Input  Input           `json:"input"`
	Output json.RawMessage `json:"output"`
}

// Replayed is what replaying a log found.
type Replayed struct {
	Inputs  int       `json:"inputs"`          // recorded inputs that were decided again
	Scans   int       `json:"scans"`           // looks at the host among these inputs
	From    time.Time `json:"from"`            // time of the first input
	To      time.Time `json:"to"`              // time of the last input
	Differ  int       `json:"differ"`          // inputs that were decided otherwise than recorded
	First   string    `json:"first,omitempty"` // the first difference, in words; absent when there is none
	Changes []Changed `json:"changes"`         // changes of home, as decided now
}

// Changed is a choice of balancing and when it was made.
type Changed struct {
	At    time.Time `json:"at"`    // time of the change
	Words string    `json:"words"` // the change in a sentence
}

// Replay gives every input of a log to Next again and compares what follows byte for
// byte, but for the lines of history, whose wording may be another version's, and for names that
// this version has changed. next returns io.EOF after the last. decided, when not nil, is told of what each
// scan was decided on.
func Replay(next func() (Logged, error), decided func(balance.Input, balance.History)) (Replayed, error) {
	out := Replayed{Changes: []Changed{}}
	var s *State
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		switch {
		case r.Before != nil: // a file begins, perhaps after a gap
			if s, err = Resume(r.Before); err != nil {
				return out, err
			}
		case s == nil:
			return out, errors.New("the log does not begin with what the daemon remembered; begin with a whole file")
		}
		if r.Input.Result != nil {
			replay.Rename(r.Input.Result)
		}
		s.decided = decided
		var followed Output
		s, followed = Next(s, r.Input)
		text, err := json.Marshal(followed)
		if err != nil {
			return out, fmt.Errorf("input %d: %w", out.Inputs, err)
		}
		if !replay.Same(r.Output, text) {
			out.Differ++
			if out.First == "" {
				out.First = fmt.Sprintf("input %d at %s: %s", out.Inputs, r.Input.At.Format(time.RFC3339),
					replay.Difference(r.Output, text))
			}
		}
		if out.Inputs == 0 {
			out.From = r.Input.At
		}
		out.To = r.Input.At
		out.Inputs++
		if r.Input.Scan != nil {
			out.Scans++
		}
		if b := followed.Balance; b != nil && b.Chosen != nil {
			out.Changes = append(out.Changes, Changed{r.Input.At, b.Verdict().String()})
		}
	}
}
