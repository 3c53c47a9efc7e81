package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/strict"
	"github.com/homenode/homenode/core/workload"
)

// file is a case as it is written (see the docstring of gen_cases.py).
type file struct {
	Name   string          `json:"name"`
	Host   hostFile        `json:"host"`
	Events []eventFile     `json:"events"`
	Expect json.RawMessage `json:"expect"`
}

type hostFile struct {
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
}

type eventFile struct {
	Op    Op               `json:"op"`
	VM    string           `json:"vm"`
	VCPUs int              `json:"vcpus"`
	MiB   int64            `json:"mem_mib"`
	BW    string           `json:"bw"`
	Dev   string           `json:"dev"`
	Class string           `json:"class"`
	CPUs  []int            `json:"cpus"`
	Mem   map[string]int64 `json:"mem"`
	T     *float64         `json:"t"`
}

const (
	// maxCase bounds a case: 100,000 events are about 10 MiB.
	maxCase = 64 << 20

	// highBandwidth is what a case means by "bw":"high", MiB/s: so much that two
	// such workloads are more than one node gives (see unknownBandwidth in place).
	highBandwidth = 100_000

	// maxMiB bounds sizes in a case: an exbibyte is more than a mistake away.
	maxMiB = 1 << 40

	// maxDistance is the largest number a SLIT can hold: unreachable.
	maxDistance = 255
)

// Read reads a case. What is unknown, repeated, out of range or contradicts
// itself is an error of one line, with line, column and path of the value.
func Read(r io.Reader) (*Case, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCase+1))
	if err != nil {
		return nil, fmt.Errorf("read case: %w", err)
	}
	if len(text) > maxCase {
		return nil, fmt.Errorf("read case: larger than %d MiB; this is no case", maxCase>>20)
	}
	d := reader{Decoder: strict.New("the case", text), c: &Case{Policy: plan.DefaultPolicy()}}
	if err := d.Decode(&d.f); err != nil {
		return nil, fmt.Errorf("read case: %w", err)
	}
	d.c.Name = d.f.Name
	d.host()
	d.events()
	if d.err != nil {
		return nil, fmt.Errorf("read case: %w", d.err)
	}
	return d.c, nil
}

// reader turns a file into a case; the first error wins.
type reader struct {
	*strict.Decoder
	f   file
	c   *Case
	err error
}

func (d *reader) fail(path, format string, a ...any) {
	if d.err == nil {
		d.err = d.Errorf(path, format, a...)
	}
}

func (d *reader) between(path string, v, low, high int64) bool {
	if v < low || v > high {
		d.fail(path, "is %d; give %d to %d", v, low, high)
	}
	return d.err == nil
}

func (d *reader) host() {
	f, h := &d.f.Host, &topology.Host{}
	d.c.Host = h
	if len(f.Nodes) == 0 {
		d.fail("host.nodes", "holds no node; a host has at least one")
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		path := fmt.Sprintf("host.nodes[%d]", i)
		cpus := d.cpus(path+".cpus", n.CPUs, nil)
		if !d.between(path+".id", int64(n.ID), 0, topology.MaxID) || !d.between(path+".mem_mib", n.MiB, 0, maxMiB) {
			return
		}
		if i > 0 && n.ID <= f.Nodes[i-1].ID {
			d.fail(path+".id", "is %d after %d; IDs rise, and each is there once", n.ID, f.Nodes[i-1].ID)
		}
		if both := cpus.Intersect(h.Online); !both.Empty() {
			d.fail(path+".cpus", "CPUs %v are on another node too; give them to one", both)
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
	for _, cpus := range d.groups("host.cores", f.Cores) {
		h.Cores = append(h.Cores, topology.Core{CPUs: cpus, Node: topology.None, Package: topology.None,
			Capacity: topology.None})
	}
	for _, cpus := range d.groups("host.l3", f.L3) {
		h.LLCs = append(h.LLCs, topology.LLC{CPUs: cpus, Level: 3, Size: topology.None})
	}
	h.NumberLLCs()
	d.slit(f.SLIT)
	for i, dev := range f.Devices {
		path := fmt.Sprintf("host.devices[%d]", i)
		if !slices.ContainsFunc(h.Nodes, func(n topology.Node) bool { return int(n.ID) == dev.Node }) {
			d.fail(path+".node", "there is no node %d", dev.Node)
		}
		if slices.ContainsFunc(h.Devices, func(o topology.Device) bool { return o.Name == dev.ID }) {
			d.fail(path+".id", "%q is there twice", strict.Clip(dev.ID))
		}
		h.Devices = append(h.Devices,
			topology.Device{Name: dev.ID, Kind: topology.NIC, Node: topology.NodeID(dev.Node)})
	}
	d.c.Policy.Reserved = d.cpus("host.reserved_cpus", f.Reserved, &h.Online)
}

// cpus is a set of CPUs, each listed once and, where known is given, on a node.
func (d *reader) cpus(path string, ids []int, known *topology.CPUSet) topology.CPUSet {
	var s topology.CPUSet
	for i, id := range ids {
		at := fmt.Sprintf("%s[%d]", path, i)
		cpu := topology.CPUID(id)
		if !d.between(at, int64(id), 0, topology.MaxID) {
			return s
		}
		switch {
		case s.Has(cpu):
			d.fail(at, "CPU %d is there twice", id)
		case known != nil && !known.Has(cpu):
			d.fail(at, "CPU %d is on no node", id)
		}
		s.Add(cpu)
	}
	return s
}

// groups is sets of CPUs of which no two overlap.
func (d *reader) groups(path string, lists [][]int) []topology.CPUSet {
	var all topology.CPUSet
	var out []topology.CPUSet
	for i, ids := range lists {
		at := fmt.Sprintf("%s[%d]", path, i)
		cpus := d.cpus(at, ids, &d.c.Host.Online)
		if both := cpus.Intersect(all); !both.Empty() {
			d.fail(at, "CPUs %v are in an earlier entry too", both)
		}
		all = all.Union(cpus)
		out = append(out, cpus)
	}
	return out
}

func (d *reader) slit(rows [][]int) {
	n := len(d.c.Host.Nodes)
	if len(rows) != n {
		d.fail("host.slit", "has %d rows for %d nodes; give one a node", len(rows), n)
	}
	for i, row := range rows {
		at := fmt.Sprintf("host.slit[%d]", i)
		if len(row) != n {
			d.fail(at, "has %d columns for %d nodes; give one a node", len(row), n)
		}
		for k, v := range row {
			if v < 1 || v > maxDistance { // spares naming the place of each
				d.between(fmt.Sprintf("%s[%d]", at, k), int64(v), 1, maxDistance)
			}
		}
	}
	d.c.Host.Distances = rows
}

func (d *reader) events() {
	there := map[workload.ID]bool{}
	held, by := topology.CPUSet{}, map[workload.ID]topology.CPUSet{} // what was there before
	for i := range d.f.Events {
		if d.err != nil {
			return
		}
		e := &d.f.Events[i]
		at := fmt.Sprintf("events[%d]", i)
		out := Event{Op: e.Op, VM: workload.ID(e.VM)}
		if e.VM == "" {
			d.fail(at+".vm", "has no name; give one")
		}
		if e.T != nil && *e.T < 0 {
			d.fail(at+".t", "is %v; give 0 or more", *e.T)
		}
		switch e.Op {
		case Depart:
			if !there[out.VM] {
				d.fail(at+".vm", "%q is not there; it can depart only after it arrived", strict.Clip(e.VM))
			}
			delete(there, out.VM)
			held = held.Minus(by[out.VM])
			d.c.Events = append(d.c.Events, out)
			continue
		case Arrive, Preplace:
			if there[out.VM] {
				d.fail(at+".vm", "%q is there already; it can come back only after it departed", strict.Clip(e.VM))
			}
			there[out.VM] = true
		default:
			d.fail(at+".op", "is %q; give arrive, depart or preplace", strict.Clip(string(e.Op)))
		}
		if e.Op == Preplace {
			d.preplaced(at, e, &out, held)
			held, by[out.VM] = held.Union(out.CPUs), out.CPUs
		} else {
			d.arrival(at, e, &out)
		}
		d.c.Events = append(d.c.Events, out)
	}
}

func (d *reader) arrival(at string, e *eventFile, out *Event) {
	out.Spec = workload.Spec{
		ID: out.VM, Name: e.VM, Class: workload.Dedicated, Importance: workload.DefaultImportance,
		CPUs: e.VCPUs, Memory: topology.KiB(e.MiB) << 10, Given: true,
	}
	d.between(at+".vcpus", int64(e.VCPUs), 1, topology.MaxID)
	d.between(at+".mem_mib", e.MiB, 0, maxMiB)
	switch e.BW {
	case "":
	case "high":
		out.Spec.Bandwidth = highBandwidth
	default:
		d.fail(at+".bw", "is %q; give high or leave it out", strict.Clip(e.BW))
	}
	if e.Dev != "" {
		out.Spec.Near = []workload.Near{{Device: e.Dev}}
		if !slices.ContainsFunc(d.c.Host.Devices, func(o topology.Device) bool { return o.Name == e.Dev }) {
			d.fail(at+".dev", "%q is no device of this host", strict.Clip(e.Dev))
		}
	}
	if e.Class != "" {
		c, err := workload.ParseClass(e.Class)
		if err != nil {
			d.fail(at+".class", "is %q; give dedicated, shared or batch", strict.Clip(e.Class))
		}
		out.Spec.Class = c
	}
}

func (d *reader) preplaced(at string, e *eventFile, out *Event, held topology.CPUSet) {
	out.CPUs, out.Memory = d.cpus(at+".cpus", e.CPUs, &d.c.Host.Online), map[topology.NodeID]topology.KiB{}
	if out.CPUs.Empty() {
		d.fail(at, "has no cpus; give those that it holds")
	}
	if both := out.CPUs.Intersect(held); !both.Empty() {
		d.fail(at+".cpus", "CPUs %v are held by another already", both)
	}
	for _, key := range slices.SortedFunc(maps.Keys(e.Mem), strings.Compare) {
		path := strict.Entry(at+".mem", key)
		id, err := strconv.ParseUint(key, 10, 16)
		i, on := slices.BinarySearchFunc(d.c.Host.Nodes, topology.NodeID(id),
			func(n topology.Node, id topology.NodeID) int { return cmp.Compare(n.ID, id) })
		if err != nil || !on {
			d.fail(path, "is for a node that is not there")
			return
		}
		if d.between(path, e.Mem[key], 0, int64(d.c.Host.Nodes[i].Memory>>10)) {
			out.Memory[topology.NodeID(id)] = topology.KiB(e.Mem[key]) << 10
		}
	}
}
