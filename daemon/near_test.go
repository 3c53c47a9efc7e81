package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cables finds the same links at every look, whose counters grow.
type cables struct {
	clock Clock
	found map[workload.ID][]workload.Link
	grows uint64 // bytes a second
	began time.Time
	looks int
}

func (c *cables) Links(context.Context, *topology.Host, []workload.Observation) (map[workload.ID][]workload.Link, map[workload.ID]time.Time) {
	c.looks++
	now := c.clock.Now()
	if c.began.IsZero() {
		c.began = now
	}
	out, at := map[workload.ID][]workload.Link{}, map[workload.ID]time.Time{}
	for id, links := range c.found {
		out[id], at[id] = slices.Clone(links), now
		for i := range out[id] {
			if out[id][i].Counted {
				out[id][i].Bytes = c.grows * uint64(now.Sub(c.began).Seconds())
			}
		}
	}
	return out, at
}

// nearRig is a host whose card eth0 is on node 1, with a workload that uses it.
func nearRig(t *testing.T, set []func(*Config), links ...workload.Link) (*rig, *cables) {
	m := newMachine(t, 2, 8)
	m.add("web", 2, 1<<20, 0)
	r := newRig(t, m, Observe, set...)
	c := &cables{clock: r.clock, found: map[workload.ID][]workload.Link{"/web": links}}
	r.o.Links = c
	return r, c
}

var tap = workload.Link{Kind: workload.ByTap, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(1), Evidence: "tap vnet3 → br0 → eth0", Counted: true}

func (r *rig) web(t *testing.T) api.Workload {
	t.Helper()
	x, err := r.Explain(t.Context(), "/web")
	if err != nil {
		t.Fatal(err)
	}
	return x.Workload
}

func TestLinksAreLearned(t *testing.T) {
	r, c := nearRig(t, nil, tap)
	c.grows = 500 << 20
	weight := func() float64 {
		w := r.web(t)
		if len(w.Links) != 1 || w.Links[0].Evidence != tap.Evidence || w.Links[0].Nodes != "1" || len(w.Near) != 0 {
			t.Fatalf("%+v", w)
		}
		return w.Links[0].Weight
	}
	r.ticks(t, 1)
	if x := weight(); x != 0 {
		t.Errorf("weight %v of one look", x)
	}
	r.clock.step(nearEvery)
	r.ticks(t, 1)
	if x := weight(); x != 0 {
		t.Errorf("weight %v after half a minute", x)
	}
	r.clock.step(nearEvery)
	r.ticks(t, 1)
	w := r.web(t)
	if x := weight(); x != 0.49 || w.Links[0].MiBs == nil || *w.Links[0].MiBs != 500 { // 500 of 2 × 1024, times 2
		t.Errorf("weight %v, %v", x, *w.Links[0].MiBs)
	}
	if n := r.view.snapshot.Observations; len(r.specOf(&n[0]).Near) != 1 {
		t.Errorf("near %+v", r.specOf(&n[0]).Near)
	}
	c.grows = 0 // the counter begins anew: no traffic, and no sum below zero
	r.clock.step(nearEvery)
	r.ticks(t, 1)
	if w := r.web(t); w.Links[0].Weight != 0 || *w.Links[0].MiBs != 0 {
		t.Errorf("after the counter began anew: %+v", w.Links)
	}
	if c.looks != 4 {
		t.Errorf("%d looks in four times half a minute", c.looks)
	}
}

// One burst of half a minute does not count.
func TestABurstIsNotLearned(t *testing.T) {
	a := link{Link: tap, at: time.Unix(0, 0), last: 0}
	b := tap
	b.Bytes = 3000 << 20
	x := follow([]link{a}, b, time.Unix(30, 0))
	if x.rate != 0 || x.last != 100 {
		t.Errorf("%+v", x)
	}
	if y := follow([]link{x}, b, time.Unix(30, 0)); y.rate != x.rate || y.last != x.last || !y.at.Equal(x.at) { // not looked at in this round
		t.Errorf("%+v", y)
	}
	b.Bytes += 6000 << 20
	if y := follow([]link{x}, b, time.Unix(60, 0)); y.rate != 100 || y.last != 200 {
		t.Errorf("%+v", y)
	}
}

func TestWhatIsToldWinsOverWhatIsLearned(t *testing.T) {
	vfio := workload.Link{Kind: workload.ByVFIO, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(1), Evidence: "/dev/vfio/3"}
	learned := func(r *rig) int {
		n := 0
		o := &r.view.snapshot.Observations[0]
		for _, x := range r.specOf(o).Near {
			if x.Learned {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		name    string
		config  string
		learned int
		looks   int
	}{
		{"nothing told", "{}", 1, 1},
		{"a rule without near", "workloads: [{match: /web, cpus: 2}]", 1, 1},
		{"a rule with near", "workloads: [{match: /web, near: [nvme0n1]}]", 0, 1},
		{"a rule with an empty near", "workloads: [{match: /web, near: []}]", 0, 1},
		{"a rule for another", "workloads: [{match: /db, near: []}]", 1, 1},
		{"turned off", "near: {learn: false}", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parsed, err := ParseConfig(strings.NewReader(tt.config), "f", NewConfig())
			if err != nil {
				t.Fatal(err)
			}
			r, c := nearRig(t, []func(*Config){func(c *Config) { c.Workloads, c.Near = parsed.Workloads, parsed.Near }}, vfio)
			r.ticks(t, 2)
			if n := learned(r); n != tt.learned || c.looks != tt.looks {
				t.Errorf("%d learned after %d looks", n, c.looks)
			}
			if w := r.web(t); len(w.Links) != tt.looks || tt.looks > 0 && (w.Links[0].Weight > 0) != (tt.learned > 0) {
				t.Errorf("links %+v", w.Links)
			}
		})
	}
}

// A helper is a workload of its own, with a home; nobody is near to himself.
func TestHelpersAreWorkloads(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("web", 2, 1<<20, 0)
	m.add("ovs", 2, 1<<20, 1)
	r := newRig(t, m, Observe)
	helper := m.live["/ovs"].obs.Processes[0]
	socket := workload.Link{Kind: workload.ByVhostUser, Helper: helper, Name: "ovs-vswitchd", Nodes: topology.Nodes(1)}
	r.o.Links = &cables{clock: r.clock, found: map[workload.ID][]workload.Link{"/web": {socket}, "/ovs": {socket}}}
	r.ticks(t, 2)
	for i := range r.view.snapshot.Observations {
		o := &r.view.snapshot.Observations[i]
		near := r.specOf(o).Near
		if o.ID == "/ovs" && len(near) != 0 || o.ID == "/web" && (len(near) != 1 || near[0].Workload != "/ovs" || !near[0].Learned) {
			t.Errorf("%s is near %+v", o.ID, near)
		}
	}
}

func TestExplainDevice(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("web", 2, 1<<20, 0)
	r := newRig(t, m, Enforce, func(c *Config) { c.IRQ = IRQPlace })
	w := newWires(t, r)
	w.fixed["p/43"] = true
	r.o.Drivers[workload.InDevice] = w
	r.o.Links = &cables{clock: r.clock, found: map[workload.ID][]workload.Link{"/web": {tap}}}
	m.devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "p", Node: 1}, {Name: "eth0d1", Kind: topology.NIC, PCI: "p", Node: 1}}
	r.ticks(t, 3)
	for _, name := range []workload.ID{"device:eth0", "eth0", "p", "device:eth0d1"} {
		x, err := r.Explain(t.Context(), name)
		if err != nil || x.Device == nil {
			t.Fatalf("%s: %+v, %v", name, x, err)
		}
		d := x.Device
		if d.ID != "device:eth0" || d.Allowed != "8-15" || d.Avoided != "" || len(d.Settings) != 4 || len(x.Journal) != 3 || len(x.Events) == 0 {
			t.Errorf("%s: %+v", name, x)
		}
		if last := d.Settings[3]; last.Why != "The kernel manages it and refuses changes." || last.To != "" || last.Path != "p/43" {
			t.Errorf("%+v", last)
		}
		if len(d.Users) != 1 || d.Users[0].Workload != "/web" || !strings.Contains(d.Users[0].How, "tap vnet3") {
			t.Errorf("%+v", d.Users)
		}
	}
	if _, err := r.Explain(t.Context(), "device:eth9"); err == nil {
		t.Error("a device that is not there is explained")
	}
}
