package api

import (
	"reflect"
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
		h := NewHouses(b, "host", plain{})
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
		h := NewHouses(b, "host", plain{})
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

// plain is a painter that draws every workload.
type plain struct{}

func (plain) House(s *Status, host *topology.Host, _ []plan.Event, name string) *House {
	h := &House{Schema: "homenode-house/2", Time: s.Time, Host: name, Residents: plain{}.Residents(s, "", "").Residents}
	h.Summary.Workloads = len(s.Workloads)
	if host != nil && host.Measured != nil {
		h.Machine.Latency = host.Measured.LatencyNs
	}
	for i := range s.Nodes {
		h.Nodes = append(h.Nodes, HouseNode{ID: s.Nodes[i].ID})
	}
	return h
}

func (plain) Change(old, now *House) (c HouseChange, more bool) {
	c = HouseChange{Seq: now.Seq, Time: now.Time, Summary: &now.Summary, Machine: &now.Machine, Residents: now.Residents}
	before := *old
	before.Seq, before.Time = now.Seq, now.Time
	return c, !reflect.DeepEqual(&before, now)
}

func (plain) Residents(s *Status, text, _ string) Residents {
	out := Residents{Schema: "homenode-residents/2", Residents: []Resident{}}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if strings.Contains(w.Name, text) {
			out.Residents = append(out.Residents, Resident{ID: string(w.ID), Name: w.Name, State: w.State, Why: w.Why})
		}
	}
	out.Count = len(out.Residents)
	return out
}
