package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// publication is how long it took each time from an order to the daemon, over its socket, to the
// slice with what that left, as a watch of the API server tells it. With restarted "driver" or
// "daemon" that is started again first, and its start is in the time.
func publication(t *testing.T, c *cluster, times int, restarted string) (each []time.Duration) {
	m, o, node := newMachine(t, "package:2 node:1 core:8 pu:1"), folders(t), "watched"+restarted
	m.restart(o.socket)
	c.node(node, 16)
	stop := c.startDriver(o, node, socket(o.socket))
	defer func() { stop() }()
	c.offered(node, 8, 8)
	this := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}
	all, err := c.client.ResourceV1().ResourceSlices().List(t.Context(), this)
	c.must(all, err)
	this.ResourceVersion = all.ResourceVersion
	w, err := c.client.ResourceV1().ResourceSlices().Watch(t.Context(), this)
	c.must(w, err)
	defer w.Stop()
	for i := range times {
		began := time.Now()
		switch restarted {
		case "driver":
			stop()
			stop = c.startDriver(o, node, socket(o.socket))
		case "daemon":
			m.restart(o.socket)
		}
		want := api.Want{ID: "vm:one", Name: "one", Class: workload.Dedicated, CPUs: 3, MemoryKiB: 1 << 20, Nodes: topology.Nodes(1), HoldSeconds: 3600}
		left := int64(5)
		if i%2 == 1 {
			want, left = api.Want{ID: "vm:one", Release: true}, 8
		}
		// A daemon that has just started has not looked yet.
		c.until("it is ordered", func() bool { _, err := socket(o.socket).Place(t.Context(), want); return err == nil })
		late := time.After(patience)
		for told := int64(-1); told != left; {
			select {
			case e := <-w.ResultChan():
				s, ok := e.Object.(*resourceapi.ResourceSlice)
				if !ok {
					t.Fatalf("watch: %v", e)
				}
				for _, d := range s.Spec.Devices {
					if d.Name == "numa1" {
						told = cpusOf(d)
					}
				}
			case <-late:
				t.Fatalf("change %d is not published after %v", i, patience)
			}
		}
		each = append(each, time.Since(began))
	}
	slices.Sort(each)
	return each
}

// patience is for a machine that is very busy: what is waited for takes a second.
const patience = 30 * time.Second

func cpusOf(d resourceapi.Device) int64 {
	c := d.Capacity[capacityCPUs]
	return c.Value.Value()
}

func TestPublication(t *testing.T) {
	c := newCluster(t)
	for _, restarted := range []string{"", "driver", "daemon"} {
		each := publication(t, c, 10, restarted)
		t.Logf("%s restarted: from an order to the daemon to the slice at the API server: median %v, most %v", cmp.Or(restarted, "none"), each[len(each)/2].Round(time.Millisecond), each[len(each)-1].Round(time.Millisecond))
	}
}

// A daemon that comes back without its state, however soon, has the claims booked again: by
// its socket the driver sees that another one answers.
func TestForgetfulDaemon(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:8 pu:1"), folders(t)
	m.restart(o.socket)
	d := newDriver(t, o, socket(o.socket))
	ctx, cancel := context.WithCancel(t.Context())
	p := &publisher{d: d, publish: func(context.Context, resourceslice.DriverResources) error { return nil }}
	ended := make(chan struct{})
	go func() { defer close(ended); p.run(ctx) }()
	defer func() { cancel(); <-ended }()
	if r := d.one(allocated("a", taken{"r", 1, 3, "1Gi", ""})); r.Err != nil {
		t.Fatal(r.Err)
	}
	for i := range 3 {
		m.stop()
		m.store = memory.New()
		m.start(o.socket)
		end := time.Now().Add(patience)
		for ; m.left() != "8 5 / 8 8"; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(fmt.Sprint("restart ", i, ": left ", m.left()))
			}
		}
	}
}

// A claim of which CPUs go offline keeps the others, and an event at the claim says so; a claim that
// finds other CPUs has those, and all are told when the CPUs are online again.
func TestClaimLosesCPUs(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:4 pu:1"), folders(t)
	m.restart(o.socket)
	all := m.host
	d := newDriver(t, o, socket(o.socket))
	ctx, cancel := context.WithCancel(t.Context())
	p := &publisher{d: d, publish: func(context.Context, resourceslice.DriverResources) error { return nil }}
	ended := make(chan struct{})
	go func() { defer close(ended); p.run(ctx) }()
	defer func() { cancel(); <-ended }()
	whole := allocated("whole", taken{"r", 1, 4, "", ""})
	if r := d.one(whole); r.Err != nil {
		t.Fatal(r.Err)
	}
	told := func(want string) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case text := <-d.events.(*record.FakeRecorder).Events:
				if strings.Contains(text, want) {
					return
				}
				t.Error(text)
			case <-late:
				t.Fatalf("nothing says %q", want)
			}
		}
	}
	time.Sleep(2 * askEvery) // follow hears of what happens from now on
	m.offline(all, 5)
	told("CPUs of NUMA node 1 went offline: the claim has 3 of its 4 CPUs (4,6-7)")
	if got := m.left(); got != "4 0 / 4 3" {
		t.Errorf("left %s", got)
	}
	m.offline(all)
	told("the claim has all of its 4 CPUs again (4-7)")
	d.end(whole)
	part := allocated("part", taken{"r", 1, 2, "", ""})
	if r := d.one(part); r.Err != nil {
		t.Fatal(r.Err)
	}
	given := d.claims[part.UID].Bookings[0].Given
	m.offline(all, given.Min())
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		d.mu.Lock()
		now := d.claims[part.UID].Bookings[0].Given
		d.mu.Unlock()
		if now.Len() == 2 && !now.Has(given.Min()) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it has %s, and had %s", now, given)
		}
	}
}

// An event of the daemon has the driver ask at once: it hears of what happens from now on.
func TestFollow(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:8 pu:1"), folders(t)
	m.restart(o.socket)
	ctx, cancel := context.WithCancel(t.Context())
	changed, gone, ended := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	go func() { defer close(ended); newDriver(t, o, socket(o.socket)).follow(ctx, changed, gone) }()
	defer func() { cancel(); <-ended }()
	for n, late := 0, time.After(patience); ; n++ {
		m.trouble(fmt.Sprint("file", n), "cannot be read")
		select {
		case <-changed:
			return
		case <-late:
			t.Fatal("it heard nothing")
		case <-time.After(200 * time.Millisecond):
		}
	}
}
