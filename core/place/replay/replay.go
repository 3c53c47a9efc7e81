package replay

import (
	"cmp"

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
	policy.Packing = cmp.Or(o.Packing, policy.Packing)
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
			r.came(workload.Spec{ID: p.Workload, Class: p.Class, Importance: p.Importance, CPUs: p.VCPUs,
				Memory: p.Asked, Given: true})
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
