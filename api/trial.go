package api

import (
	"context"
	"time"

	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// TrialSource is a Backend that switches the arms of a trial, too.
type TrialSource interface {
	Trial(ctx context.Context, order TrialOrder) (Trial, error)
}

// TrialOrder begins, switches, renews or ends a trial: POST /v1/trial. A trial that is not renewed
// within its lease ends, and everything it switched is restored.
type TrialOrder struct {
	Name string    `json:"name"`          // name of the trial, chosen by the program that runs it
	Arm  trial.Arm `json:"arm,omitempty"` // arm to switch to, or that stands: off, balancing, caches or on
	// begin the trial where none is under way; else one under way is renewed
	Begin bool `json:"begin,omitempty"`
	End   bool `json:"end,omitempty"` // end the trial: restore everything
	// names of the workloads that it switches, or patterns with *; absent is all. Read at the beginning
	Workloads []string `json:"workloads,omitempty"`
	Balancing bool     `json:"balancing,omitempty"` // kernel.numa_balancing is switched, too. Read at the beginning
	// the kernel's cache-aware scheduling is switched, too. Read at the beginning
	Caches bool `json:"caches,omitempty"`
	LeaseS int  `json:"lease_s,omitempty"` // seconds until it must be renewed, 5 to 3600
	Block  int  `json:"block,omitempty"`   // block that is under way, from 1
	Blocks int  `json:"blocks,omitempty"`  // number of blocks
}

// Trial is a trial under way.
type Trial struct {
	Schema string `json:"schema"` // homenode-trial-arm/1
	Name   string `json:"name"`   // name of the trial; "" when none is under way
	// arm that stands: off, balancing, caches or on; absent when none is under way
	Arm trial.Arm `json:"arm,omitempty"`
	// names or patterns of the workloads that it switches; absent is all
	Workloads []string  `json:"workloads,omitempty"`
	Block     int       `json:"block"`          // block that is under way, from 1; 0 before the first
	Blocks    int       `json:"blocks"`         // number of blocks
	Began     time.Time `json:"began,omitzero"` // when the trial began; absent when none is under way
	Since     time.Time `json:"since,omitzero"` // when the arm was switched to; absent when none is under way
	// when it ends, unless it is renewed; absent when none is under way
	Until   time.Time `json:"until,omitzero"`
	Settled bool      `json:"settled"`          // whether everything that the arm changes is done
	Pending int       `json:"pending"`          // settings, steps and page moves that are not done
	Ending  string    `json:"ending,omitempty"` // why it ends; absent while it goes on
}

// Line is it in a line; "" for none.
func (t *Trial) Line() string {
	switch {
	case t == nil || t.Name == "":
		return ""
	case t.Ending != "":
		return words.Because(words.TrialEnds, t.Name, words.Plain(t.Ending)).String()
	case t.Block == 0:
		return words.Because(words.TrialPrepares, t.Name, string(t.Arm)).String()
	}
	return words.Because(words.TrialLine, t.Name, string(t.Arm), t.Block, t.Blocks).String()
}

// Trial orders what a trial needs.
func (c *Client) Trial(ctx context.Context, order TrialOrder) (t Trial, err error) {
	return t, c.do(ctx, "POST", "/v1/trial", order, &t)
}
