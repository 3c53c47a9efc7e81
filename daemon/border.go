package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// keyBorder is what `homenode host border` set last.
const keyBorder = "border"

// setBorder is kept beside what the configuration said then: who changes that has
// the last word.
type setBorder struct {
	Border     plan.Border `json:"border"`
	Configured plan.Border `json:"configured"`
}

// loadBorder takes up the border that an earlier daemon was told.
func (d *Daemon) loadBorder() error {
	var kept setBorder
	found, err := d.o.Store.Load(keyBorder, &kept)
	d.border = d.o.Config.Border
	if found && kept.Configured == d.o.Config.Border && kept.Border.Check() == nil {
		d.border = kept.Border
	}
	return err
}

// bounded is the policy with the border on h. One that does not fit the host, as
// after CPUs were taken out, is told of, and what is left of it holds.
func (d *Daemon) bounded(p plan.Policy, h *topology.Host) plan.Policy {
	if err := d.border.Apply(h, &p); err != nil {
		p.Split = true // rather too little work than work beyond the border
		d.once("border", plan.Event{Kind: plan.EventHost, Error: true, Text: "border: " + err.Error()})
		return p
	}
	d.once("border", plan.Event{})
	return p
}

// Border moves the border between dedicated and shared work, unless work stands in
// the way.
func (d *Daemon) Border(_ context.Context, want api.Border) (api.Border, error) {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if want.Border == "" {
		return api.Border{}, &api.Error{Code: api.BadRequest, Text: "border: empty"}
	}
	h := d.view.snapshot.Host
	if h == nil {
		return api.Border{}, &api.Error{Code: api.Failed, Text: "the host was not looked at yet; try again"}
	}
	st := d.view.state
	if err := want.Border.Apply(h, &st.Policy); err != nil {
		return api.Border{}, &api.Error{Code: api.BadRequest, Text: "border: " + err.Error()}
	}
	st.Placements = d.view.plan.Placements
	if block := place.InTheWay(st); len(block) > 0 {
		text := strings.Join(block[:min(3, len(block))], "; ")
		if more := len(block) - 3; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return api.Border{}, &api.Error{Code: api.NoRoom, Text: "the border stays where it is: " + text}
	}
	if err := d.o.Store.Save(keyBorder, setBorder{want.Border, d.o.Config.Border}); err != nil {
		return api.Border{}, err
	}
	before := d.border
	d.border, d.view.state.Policy = want.Border, st.Policy
	now := d.borderNow()
	return now, d.o.Store.Append(plan.Event{Time: d.o.Clock.Now(), Kind: plan.EventHost,
		Text: fmt.Sprintf("border: %s → %s (CPUs %s for dedicated work)", or(before), or(now.Border), now.Dedicated)})
}

// borderNow is the border as it holds. d.mu is held.
func (d *Daemon) borderNow() api.Border {
	p := d.view.state.Policy
	return api.Border{Border: or(d.border), Split: p.Split, Dedicated: p.Dedicated.String()}
}

func or(b plan.Border) plan.Border {
	if b == "" {
		return plan.AnyClass
	}
	return b
}

// Border implements api.Backend.
func (l *Local) Border(context.Context, api.Border) (api.Border, error) {
	return api.Border{}, &api.Error{Code: api.Failed, Text: "no daemon is running: write border: into its configuration"}
}
