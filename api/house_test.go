package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// changingHost is a Backend that says when it has news.
type changingHost struct {
	hostOf
	news chan struct{}
}

func (h *changingHost) Changed() <-chan struct{} { return h.news }

// happens is news: work is as it is now.
func (h *changingHost) happens(work ...Workload) {
	h.work = work
	news := h.news
	h.news = make(chan struct{})
	close(news)
}

// TestNewsBetweenPictures: what happens after a picture was made is in the next one, also when a
// viewer comes in between.
func TestNewsBetweenPictures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &changingHost{hostOf: hostOf{host: machine(t, "node:2(memory=4GiB) core:2")}, news: make(chan struct{})}
		h := NewHouses(b, "host")
		p, err := h.newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(housePeriod / 4)
		b.happens(Workload{ID: "/new", State: StateAtHome})
		done := h.look()
		defer synctest.Wait()
		defer done()
		time.Sleep(3 * housePeriod)
		synctest.Wait()
		select {
		case <-p.after:
		default:
			t.Fatal("nobody is told of what happened")
		}
		if n := p.next.house.Summary.Workloads; n != 1 {
			t.Errorf("%d workloads in the next picture, want 1", n)
		}
	})
}

// TestMachineChanges: what is measured while somebody looks is shown, and a node that goes away is
// told with a whole picture.
func TestMachineChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &hostOf{host: machine(t, "node:2(memory=4GiB) core:2")}
		h := NewHouses(b, "host")
		look := func() *picture {
			t.Helper()
			p, err := h.newest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(housePeriod)
			return p
		}
		if p := look(); p.house.Machine.Latency != nil {
			t.Errorf("measured: %v", p.house.Machine.Latency)
		}
		measured := *b.host
		measured.Measured = &topology.Measured{LatencyNs: [][]float64{{80, 140}, {140, 80}}}
		b.host = &measured
		p := look()
		if p.house.Machine.Latency == nil || !strings.Contains(string(p.change), `"latency_ns"`) {
			t.Errorf("not shown: %s", p.change)
		}
		b.host = machine(t, "node:1(memory=4GiB) core:2")
		if p = look(); len(p.house.Nodes) != 1 || p.change != nil {
			t.Errorf("%d nodes, told as a change: %s", len(p.house.Nodes), p.change)
		}
	})
}

// TestHeldByHand: what a person has undone is no work that is on its way home.
func TestHeldByHand(t *testing.T) {
	s := Status{Time: time.Now(), Mode: "enforce", Nodes: []Node{{ID: 0, CPUs: "0-3"}}, Workloads: []Workload{
		{ID: "/home", State: StateAtHome}, {ID: "/held", State: StateHeld, Steps: []plan.Step{{}}},
	}}
	x := houseOf(&s, nil, nil, "host").Summary
	if x.Workloads != 1 || x.AtHome != 1 || x.Waiting != 0 || x.LeftAlone != 1 || x.State != "at home" {
		t.Errorf("%+v", x)
	}
	s.Held, s.Workloads[0].State = true, StateHeld
	x = houseOf(&s, nil, nil, "host").Summary
	if x.Workloads != 2 || x.AtHome != 1 || x.State != "held" || !strings.Contains(x.Headline, "1 of 2 workloads") {
		t.Errorf("all: %+v", x)
	}
}

// TestChangeMakesTheNext: a House with each HouseChange that follows is the House after it.
func TestChangeMakesTheNext(t *testing.T) {
	ctx := context.Background()
	synctest.Test(t, func(t *testing.T) {
		b := &hostOf{host: machine(t, "node:2(memory=4GiB) core:2")}
		h := NewHouses(b, "host")
		var have House
		for i, work := range [][]Workload{
			{{ID: "/a", Name: "a", Home: "0", State: StateMoving}, {ID: "/b", Name: "b", Home: "1", State: StateAtHome}},
			{{ID: "/b", Name: "b", Home: "0", State: StateAtHome}, {ID: "/c", Name: "c", Home: "1", State: StateAtHome}},
			{},
			{{ID: "/a", Name: "a", Home: "0", State: StateFailed}},
		} {
			b.work = work
			p, err := h.newest(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				have = *p.house
			} else {
				var c HouseChange
				if err := json.Unmarshal(p.change, &c); err != nil {
					t.Fatal(err)
				}
				applied(&have, &c)
			}
			if !same(have, p.house) {
				t.Errorf("%d: %s makes\n%+v, want\n%+v", i, p.change, have, *p.house)
			}
			time.Sleep(housePeriod)
		}
	})
}

// applied does what a viewer does with a change.
func applied(h *House, c *HouseChange) {
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
	all := map[string]Resident{}
	for _, r := range h.Residents {
		all[r.ID] = r
	}
	for _, r := range c.Residents {
		all[r.ID] = r
	}
	for _, id := range c.Gone {
		delete(all, id)
	}
	h.Residents = []Resident{}
	for _, id := range []string{"/a", "/b", "/c"} {
		if r, ok := all[id]; ok {
			h.Residents = append(h.Residents, r)
		}
	}
}
