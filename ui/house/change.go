package house

import (
	"bytes"
	"encoding/json"

	"github.com/homenode/homenode/api"
)

// changeOf is what makes one picture of another; more reports whether anything but the time is new.
func changeOf(old, now *api.House) (c api.HouseChange, more bool) {
	c = api.HouseChange{Seq: now.Seq, Time: now.Time}
	if old.Mode != now.Mode {
		c.Mode = now.Mode
	}
	if old.Held != now.Held {
		c.Held = &now.Held
	}
	if !same(&old.Summary, &now.Summary) {
		c.Summary = &now.Summary
	}
	if now.Trend != nil && !same(old.Trend, now.Trend) {
		c.Trend = now.Trend
	}
	if !same(&old.Machine, &now.Machine) {
		c.Machine = &now.Machine
	}
	for i := range now.Nodes {
		if i >= len(old.Nodes) || !same(&old.Nodes[i], &now.Nodes[i]) {
			c.Nodes = append(c.Nodes, now.Nodes[i])
		}
	}
	if !same(&old.Flows, &now.Flows) {
		c.Flows = &now.Flows
	}
	i := 0 // both rise by ID
	for k := range now.Residents {
		for ; i < len(old.Residents) && old.Residents[i].ID < now.Residents[k].ID; i++ {
			c.Gone = append(c.Gone, old.Residents[i].ID)
		}
		if i < len(old.Residents) && old.Residents[i].ID == now.Residents[k].ID {
			if !same(&old.Residents[i], &now.Residents[k]) {
				c.Residents = append(c.Residents, now.Residents[k])
			}
			i++
		} else {
			c.Residents = append(c.Residents, now.Residents[k])
		}
	}
	for ; i < len(old.Residents); i++ {
		c.Gone = append(c.Gone, old.Residents[i].ID)
	}
	last := uint64(0)
	if n := len(old.Events); n > 0 {
		last = old.Events[n-1].Seq
	}
	for k := range now.Events {
		if now.Events[k].Seq > last {
			c.Events = append(c.Events, now.Events[k])
		}
	}
	more = c.Mode != "" || c.Held != nil || c.Summary != nil || c.Trend != nil || c.Machine != nil || c.Nodes != nil ||
		c.Flows != nil || c.Residents != nil || c.Gone != nil || c.Events != nil
	return c, more
}

// same compares as viewers would see it.
func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
