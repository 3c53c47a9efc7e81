package daemon

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// tape is a flight recorder in memory: JSON, as on disk.
type tape [][]byte

func (x *tape) Record(r balance.Record) error {
	if len(*x) > 0 {
		r.Memory = nil
	}
	line, err := json.Marshal(r)
	*x = append(*x, line)
	return err
}

// counted is a machine on which traffic and accesses are counted.
type counted struct {
	*machine
	looks int64
}

func (c *counted) Look(ctx context.Context) (workload.Snapshot, error) {
	s, err := c.machine.Look(ctx)
	c.looks++
	for i, n := range s.Host.Nodes {
		s.Nodes = append(s.Nodes, workload.NodeUse{Node: n.ID, CPUUse: 1, Bandwidth: []int64{topology.None, 997 * c.looks}[i%2], BandwidthFrom: workload.MBM})
	}
	for i := range s.Observations {
		s.Observations[i].Accesses = workload.Accesses{From: workload.Counters, Local: 1 / float64(2+i), PerSecond: 1e9 / float64(c.looks)}
	}
	return s, err
}

// What a tick goes by beside loads and homes is in its record: orders, links, guests,
// a border that moves, what was counted, what is held. Each tick is decided again from
// the record alone, byte for byte.
func TestAllThatIsDecidedOnIsRecorded(t *testing.T) {
	guest, own := plainVM("vm", 2, 4<<20), dedicatedVM("own", 0, 0, 1)
	m := newMachine(t, 2, 16)
	m.devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:81:00.0", Node: 1}}
	m.add("web", 2, 1<<20, 0)
	m.add("ovs", 2, 1<<20, 1)
	m.add("db", 1, 1<<20, 0, 1)
	hv := &hypervisor{m: m, vms: []*vm{guest, own}, wake: make(chan struct{}, 1)}
	r := newRig(t, m, Enforce, func(c *Config) {
		c.Border = "50%"
		c.Libvirt.Manage = AllGuests
		c.Workloads = []Rule{{Match: "db", Class: workload.Dedicated, CPUs: 2, Near: []string{"eth0"}}}
	})
	var x tape
	r.o.Recorder, r.o.Observer = &x, &counted{machine: m}
	r.withGuests(hv)
	helper := workload.Link{Kind: workload.ByVhostUser, Helper: m.live["/ovs"].obs.Processes[0], Name: "ovs-vswitchd", Nodes: topology.Nodes(1), Evidence: "a socket"}
	r.o.Links = &cables{clock: r.clock, grows: 300 << 20, found: map[workload.ID][]workload.Link{"/web": {tap, helper}}}
	ticks := func(n int) {
		r.ticks(t, n)
		r.clock.step(nearEvery)
	}
	ticks(3)
	hv.start(guest, 0, 1)
	hv.start(own, 0)
	ticks(3)
	ticks(3)
	home := r.status(t)["/web"].Home
	to := topology.Nodes(1)
	if home == "1" {
		to = topology.Nodes(0)
	}
	if _, err := r.Move(t.Context(), api.MoveOrder{ID: "/web", To: to}); err != nil {
		t.Fatal(err)
	}
	ticks(3)
	if _, err := r.Border(t.Context(), api.Border{Border: plan.AnyClass}); err != nil {
		t.Fatal(err)
	}
	ticks(2)
	if _, err := r.Undo(t.Context(), api.Which{ID: "vm:vm"}); err != nil {
		t.Fatal(err)
	}
	ticks(2)

	k := -1
	seen := map[string]bool{}
	out, err := balance.Replay(func() (l balance.Logged, err error) {
		if k++; k == len(x) {
			return l, io.EOF
		}
		if err := json.Unmarshal(x[k], &l); err != nil {
			return l, err
		}
		in := &l.Input
		seen["orders"] = seen["orders"] || len(in.Told) > 0
		seen["traffic"] = seen["traffic"] || len(in.Traffic) > 0
		seen["border"] = seen["border"] || in.State.Policy.Split
		seen["no border"] = seen["no border"] || !in.State.Policy.Split
		seen["held"] = seen["held"] || len(in.Held) > 0
		for _, s := range in.Subjects {
			seen["guests"] = seen["guests"] || s.Observation.Kind == workload.InGuest && s.LeaveAlone == ""
			seen["fixed"] = seen["fixed"] || s.Fixed
			for _, n := range s.Spec.Near {
				seen["learned"] = seen["learned"] || n.Learned && n.Device != ""
				seen["helper"] = seen["helper"] || n.Workload == "/ovs"
				seen["told near"] = seen["told near"] || !n.Learned
			}
		}
		return l, nil
	}, "homenode")
	if err != nil || out.Differ > 0 || out.Ticks != len(x) {
		t.Errorf("%v, %d of %d ticks differ; %s", err, out.Differ, out.Ticks, out.First)
	}
	for _, what := range []string{"orders", "traffic", "border", "no border", "held", "guests", "fixed", "learned", "helper", "told near"} {
		if !seen[what] {
			t.Errorf("%s: not in any record", what)
		}
	}
}
