package house

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
)

// TestHeldByHand: what a person has undone is no work that is on its way home.
func TestHeldByHand(t *testing.T) {
	s := api.Status{Time: time.Now(), Mode: "enforce", Nodes: []api.Node{{ID: 0, CPUs: "0-3"}}, Workloads: []api.Workload{
		{ID: "/home", State: api.StateAtHome}, {ID: "/held", State: api.StateHeld, Steps: []plan.Step{{}}},
	}}
	x := houseOf(&s, nil, nil, "host").Summary
	if x.Workloads != 1 || x.AtHome != 1 || x.Waiting != 0 || x.LeftAlone != 1 || x.State != "at home" {
		t.Errorf("%+v", x)
	}
	s.Held, s.Workloads[0].State = true, api.StateHeld
	x = houseOf(&s, nil, nil, "host").Summary
	if x.Workloads != 2 || x.AtHome != 1 || x.State != "held" || !strings.Contains(x.Headline, "1 of 2 workloads") {
		t.Errorf("all: %+v", x)
	}
}

// TestChangeMakesTheNext: a House with each HouseChange that follows is the House after it.
func TestChangeMakesTheNext(t *testing.T) {
	var have, old api.House
	for i, work := range [][]api.Workload{
		{{ID: "/a", Name: "a", Home: "0", State: api.StateMoving}, {ID: "/b", Name: "b", Home: "1", State: api.StateAtHome}},
		{{ID: "/b", Name: "b", Home: "0", State: api.StateAtHome}, {ID: "/c", Name: "c", Home: "1", State: api.StateAtHome}},
		{},
		{{ID: "/a", Name: "a", Home: "0", State: api.StateFailed}},
	} {
		s := api.Status{Time: time.Unix(int64(i), 0), Nodes: []api.Node{{ID: 0, CPUs: "0-1"}, {ID: 1, CPUs: "2-3"}}, Workloads: work}
		now := Painter{}.House(&s, nil, nil, "host")
		now.Seq = uint64(i)
		if i == 0 {
			have = *now
		} else {
			c, more := Painter{}.Change(&old, now)
			text, err := json.Marshal(&c)
			if err != nil || !more {
				t.Fatal(more, err)
			}
			var sent api.HouseChange
			if err := json.Unmarshal(text, &sent); err != nil {
				t.Fatal(err)
			}
			applied(&have, &sent)
		}
		if !same(have, now) {
			t.Errorf("%d: makes\n%+v, want\n%+v", i, have, *now)
		}
		old = *now
	}
}

// applied does what a viewer does with a change.
func applied(h *api.House, c *api.HouseChange) {
	h.Seq, h.Time = c.Seq, c.Time
	if c.Summary != nil {
		h.Summary = *c.Summary
	}
	for _, n := range c.Nodes {
		for i := range h.Nodes {
			if h.Nodes[i].ID == n.ID {
				h.Nodes[i] = n
			}
		}
	}
	all := map[string]api.Resident{}
	for _, r := range h.Residents {
		all[r.ID] = r
	}
	for _, r := range c.Residents {
		all[r.ID] = r
	}
	for _, id := range c.Gone {
		delete(all, id)
	}
	h.Residents = []api.Resident{}
	for _, id := range []string{"/a", "/b", "/c"} {
		if r, ok := all[id]; ok {
			h.Residents = append(h.Residents, r)
		}
	}
}

// TestNodesHaveMoreFigures: what the table of figures has words for the page for is in the text of a node, where it is known.
func TestNodesHaveMoreFigures(t *testing.T) {
	reclaimable := int64(3 << 20)
	s := api.Status{Nodes: []api.Node{{ID: 0, CPUs: "0-1", ReclaimableKiB: &reclaimable}, {ID: 1, CPUs: "2-3"}}}
	nodes := houseOf(&s, nil, nil, "host").Nodes
	if len(nodes) != 2 || len(nodes[0].More) != 1 || nodes[0].More[0] != "3 GiB of page cache and slab can be reclaimed" || nodes[1].More != nil {
		t.Errorf("%+v", nodes)
	}
}
