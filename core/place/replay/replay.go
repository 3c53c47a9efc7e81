// Package replay runs placement traces: arrivals and departures on a described
// host, decided one by one as they come. It is how the engine is measured
// against others (bench/placement, `homenode plan --case`).
//
// Not in here: the engine, and any clock: the caller hands one in.
package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Case is a host and what arrives on it and departs.
type Case struct {
	Name   string
	Host   *topology.Host
	Policy plan.Policy
	Events []Event
}

// Event is one line of a trace.
type Event struct {
	Op     Op
	VM     workload.ID
	Spec   workload.Spec                    // of an arrival
	CPUs   topology.CPUSet                  // of a preplaced workload
	Memory map[topology.NodeID]topology.KiB // of a preplaced workload
}

// Op is what happens.
type Op string

// The events of a trace.
const (
	Arrive   Op = "arrive"
	Depart   Op = "depart"
	Preplace Op = "preplace"
)

// file is a case as it is written (see the docstring of gen_cases.py).
type file struct {
	Name string `json:"name"`
	Host struct {
		Name  string `json:"name"`
		Nodes []struct {
			ID     int   `json:"id"`
			Socket int   `json:"socket"`
			CPUs   []int `json:"cpus"`
			MiB    int64 `json:"mem_mib"`
		} `json:"nodes"`
		Cores    [][]int `json:"cores"`
		L3       [][]int `json:"l3"`
		SLIT     [][]int `json:"slit"`
		Reserved []int   `json:"reserved_cpus"`
		Devices  []struct {
			ID   string `json:"id"`
			Node int    `json:"node"`
		} `json:"devices"`
	} `json:"host"`
	Events []struct {
		Op    Op               `json:"op"`
		VM    string           `json:"vm"`
		VCPUs int              `json:"vcpus"`
		MiB   int64            `json:"mem_mib"`
		BW    string           `json:"bw"`
		Dev   string           `json:"dev"`
		Class string           `json:"class"`
		CPUs  []int            `json:"cpus"`
		Mem   map[string]int64 `json:"mem"`
		T     float64          `json:"t"`
	} `json:"events"`
	Expect json.RawMessage `json:"expect"`
}

// highBandwidth is what a case means by "bw":"high", MiB/s: so much that two
// such workloads are more than one node gives (see unknownBandwidth in place).
const highBandwidth = 100_000

// maxMiB bounds sizes in a case: an exbibyte is more than a mistake away.
const maxMiB = 1 << 40

// Read reads a case. An error names what is wrong in one line.
func Read(r io.Reader) (*Case, error) {
	var f file
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("case: %w", err)
	}
	c := &Case{Name: f.Name, Policy: plan.DefaultPolicy()}
	if err := c.readHost(&f); err != nil {
		return nil, fmt.Errorf("case %q: host: %w", f.Name, err)
	}
	if err := c.readEvents(&f); err != nil {
		return nil, fmt.Errorf("case %q: %w", f.Name, err)
	}
	return c, nil
}

func (c *Case) readHost(f *file) error {
	h := &topology.Host{}
	c.Host = h
	if len(f.Host.Nodes) == 0 {
		return fmt.Errorf("no nodes")
	}
	for i := range f.Host.Nodes {
		n := &f.Host.Nodes[i]
		cpus, err := cpuSet(n.CPUs)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.ID, err)
		}
		switch {
		case n.ID < 0 || n.ID > topology.MaxID:
			return fmt.Errorf("node ID %d", n.ID)
		case i > 0 && n.ID <= f.Host.Nodes[i-1].ID:
			return fmt.Errorf("node %d after node %d: IDs rise", n.ID, f.Host.Nodes[i-1].ID)
		case cpus.Intersects(h.Online):
			return fmt.Errorf("node %d: CPUs %v are on another node too", n.ID, cpus.Intersect(h.Online))
		case n.MiB < 0 || n.MiB > maxMiB:
			return fmt.Errorf("node %d: %d MiB of memory", n.ID, n.MiB)
		}
		node := topology.Node{
			ID: topology.NodeID(n.ID), Package: topology.PackageID(n.Socket), CPUs: cpus,
			Memory: topology.KiB(n.MiB) << 10, Free: topology.KiB(n.MiB) << 10, Kind: topology.DRAM,
		}
		h.Nodes = append(h.Nodes, node)
		h.Online = h.Online.Union(cpus)
		if n.MiB > 0 {
			h.AllowedMems.Add(node.ID)
		}
	}
	h.Allowed = h.Online.Clone()
	for _, ids := range f.Host.Cores {
		cpus, err := cpuSet(ids)
		if err != nil {
			return fmt.Errorf("cores: %w", err)
		}
		h.Cores = append(h.Cores, topology.Core{CPUs: cpus, Node: topology.None, Package: topology.None, Capacity: topology.None})
	}
	for _, ids := range f.Host.L3 {
		cpus, err := cpuSet(ids)
		if err != nil {
			return fmt.Errorf("l3: %w", err)
		}
		h.LLCs = append(h.LLCs, topology.LLC{CPUs: cpus, Level: 3, Size: topology.None})
	}
	if len(f.Host.SLIT) != len(h.Nodes) {
		return fmt.Errorf("slit has %d rows for %d nodes", len(f.Host.SLIT), len(h.Nodes))
	}
	for i, row := range f.Host.SLIT {
		if len(row) != len(h.Nodes) {
			return fmt.Errorf("slit row %d has %d columns for %d nodes", i, len(row), len(h.Nodes))
		}
	}
	h.Distances = f.Host.SLIT
	for _, d := range f.Host.Devices {
		h.Devices = append(h.Devices, topology.Device{Name: d.ID, Kind: topology.NIC, Node: topology.NodeID(d.Node)})
	}
	reserved, err := cpuSet(f.Host.Reserved)
	if err != nil {
		return fmt.Errorf("reserved_cpus: %w", err)
	}
	c.Policy.Reserved = reserved
	return nil
}

func cpuSet(ids []int) (topology.CPUSet, error) {
	var s topology.CPUSet
	for _, id := range ids {
		if id < 0 || id > topology.MaxID {
			return s, fmt.Errorf("CPU ID %d; want 0 to %d", id, topology.MaxID)
		}
		s.Add(topology.CPUID(id))
	}
	return s, nil
}

func (c *Case) readEvents(f *file) error {
	there := map[workload.ID]bool{}
	for i := range f.Events {
		e := &f.Events[i]
		out := Event{Op: e.Op, VM: workload.ID(e.VM)}
		fail := func(format string, a ...any) error {
			return fmt.Errorf("event %d (%s %q): %s", i, e.Op, e.VM, fmt.Sprintf(format, a...))
		}
		if e.VM == "" {
			return fail("no vm")
		}
		switch e.Op {
		case Depart:
			delete(there, out.VM)
			c.Events = append(c.Events, out)
			continue
		case Arrive, Preplace:
			if there[out.VM] {
				return fail("it is there already")
			}
			there[out.VM] = true
		default:
			return fail("unknown op; want arrive, depart or preplace")
		}
		var err error
		if e.Op == Preplace {
			err = out.readPreplaced(e.CPUs, e.Mem)
		} else {
			err = out.readArrival(e.VCPUs, e.MiB, e.BW, e.Dev, e.Class)
		}
		if err != nil {
			return fail("%v", err)
		}
		c.Events = append(c.Events, out)
	}
	return nil
}

func (e *Event) readArrival(vcpus int, mib int64, bw, dev, class string) error {
	e.Spec = workload.Spec{
		ID: e.VM, Name: string(e.VM), Class: workload.Dedicated, Importance: workload.DefaultImportance,
		CPUs: vcpus, Memory: topology.KiB(mib) << 10, Given: true,
	}
	switch {
	case vcpus < 1 || vcpus > topology.MaxID:
		return fmt.Errorf("%d vcpus; want 1 or more", vcpus)
	case mib < 0 || mib > maxMiB:
		return fmt.Errorf("%d MiB; want 0 or more", mib)
	}
	switch bw {
	case "":
	case "high":
		e.Spec.Bandwidth = highBandwidth
	default:
		return fmt.Errorf("bw %q; want high", bw)
	}
	if dev != "" {
		e.Spec.Near = []workload.Near{{Device: dev}}
	}
	if class != "" {
		c, err := workload.ParseClass(class)
		if err != nil {
			return err
		}
		e.Spec.Class = c
	}
	return nil
}

func (e *Event) readPreplaced(cpus []int, mem map[string]int64) error {
	set, err := cpuSet(cpus)
	if err != nil {
		return err
	}
	e.CPUs, e.Memory = set, map[topology.NodeID]topology.KiB{}
	for n, mib := range mem {
		id, err := strconv.ParseUint(n, 10, 16)
		if err != nil || mib < 0 || mib > maxMiB {
			return fmt.Errorf("mem %q: %d MiB", n, mib)
		}
		e.Memory[topology.NodeID(id)] = topology.KiB(mib) << 10
	}
	return nil
}

// Placement is a preplaced workload as the ledger holds it.
func (e *Event) Placement(h *topology.Host) *plan.Placement {
	p := &plan.Placement{
		Workload: e.VM, Class: workload.Dedicated, Importance: workload.DefaultImportance,
		VCPUs: e.CPUs.Len(), CPUs: e.CPUs, Pins: e.CPUs.Slice(), Bound: true,
	}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if m := e.Memory[n.ID]; m > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: n.ID, KiB: m})
			p.Asked += m
			p.Home.Add(n.ID)
		}
		if n.CPUs.Intersects(e.CPUs) {
			p.Home.Add(n.ID)
		}
	}
	return p
}

// Answer is one arrival's decision, in the scorer's result format.
type Answer struct {
	Peer  string           `json:"peer"`
	Case  string           `json:"case"`
	I     int              `json:"i"` // index of the event
	VM    workload.ID      `json:"vm"`
	Op    Op               `json:"op"`
	OK    bool             `json:"ok"`
	CPUs  []int            `json:"cpus,omitempty"`  // of dedicated work one a vCPU, else those it floats on
	Mem   map[string]int64 `json:"mem,omitempty"`   // MiB by node
	Moves []Moved          `json:"moves,omitempty"` // made before, in this order
	Nanos int64            `json:"ns"`              // of the decision and its commit

	Result place.Result `json:"-"`
}

// Options say how a case is run.
type Options struct {
	Peer     string
	Must     bool         // admit whatever fits, also what does not pay
	Repack   bool         // let running workloads move, see repack.go
	Packing  plan.Packing // "" is the default policy's
	Now      func() int64 // ns; nil leaves the times 0
	Answered func(*Answer, *place.Ledger) error
}

// Run decides the arrivals of a case as they come, without looking ahead.
func Run(c *Case, o Options) error {
	policy := c.Policy
	if o.Packing != "" {
		policy.Packing = o.Packing
	}
	now := o.Now
	if now == nil {
		now = func() int64 { return 0 }
	}
	l := place.NewLedger(plan.State{Host: c.Host, Policy: policy})
	r := newRepacker(l, c.Host, policy.Reserved)
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Op {
		case Preplace:
			p := e.Placement(c.Host)
			l.Commit(*p)
			r.came(workload.Spec{ID: p.Workload, Class: p.Class, Importance: p.Importance, CPUs: p.VCPUs, Memory: p.Asked, Given: true})
		case Depart:
			l.Remove(e.VM)
			r.left(e.VM)
		case Arrive:
			a := Answer{Peer: o.Peer, Case: c.Name, I: i, VM: e.VM, Op: Arrive}
			start := now()
			req := place.Request{Spec: e.Spec, Must: o.Must}
			var moves []place.Move
			if o.Repack {
				a.Result, moves = r.place(req)
				a.Moves = r.carryOut(moves)
			} else {
				a.Result = l.Place(req)
			}
			if a.OK = a.Result.Placed(); a.OK {
				l.Commit(a.Result.Placement)
				r.came(e.Spec)
			}
			a.Nanos = now() - start
			a.fill()
			if err := o.Answered(&a, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Answer) fill() {
	if !a.OK {
		return
	}
	p := &a.Result.Placement
	a.CPUs, a.Mem = cpuList(p.CPUs), memMap(p)
}
