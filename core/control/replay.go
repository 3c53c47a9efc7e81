package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/homenode/homenode/core/balance"
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
		renameInput(&r.Input)
		s.decided = decided
		var followed Output
		s, followed = Next(s, r.Input)
		text, err := json.Marshal(followed)
		if err != nil {
			return out, fmt.Errorf("input %d: %w", out.Inputs, err)
		}
		if !bytes.Equal(text, r.Output) && !bytes.Equal(untold(text), untold(r.Output)) && !sameNow(untold(r.Output), untold(text)) {
			out.Differ++
			if out.First == "" {
				out.First = fmt.Sprintf("input %d at %s: %s", out.Inputs, r.Input.At.Format(time.RFC3339), difference(r.Output, text))
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

// untold is an Output without the lines of history; nil when it cannot be read.
func untold(output []byte) []byte {
	var all, save map[string]json.RawMessage
	if json.Unmarshal(output, &all) != nil || json.Unmarshal(all["save"], &save) != nil {
		return nil
	}
	delete(save, "Events")
	text, err := json.Marshal(save)
	if err != nil {
		return nil
	}
	all["save"] = text
	if text, err = json.Marshal(all); err != nil {
		return nil
	}
	return text
}

// difference is where two texts part.
func difference(was, now []byte) string {
	k := 0
	for k < len(was) && k < len(now) && was[k] == now[k] {
		k++
	}
	excerpt := func(b []byte) string { return string(b[max(0, min(k-20, len(b))):min(len(b), k+60)]) }
	return fmt.Sprintf("recorded …%s…, now …%s…", excerpt(was), excerpt(now))
}
