package main

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// traceHost is a host of equal nodes in the form of a case.
type traceHost struct {
	Name     string      `json:"name"`
	Nodes    []traceNode `json:"nodes"`
	Cores    [][]int     `json:"cores"`
	L3       [][]int     `json:"l3"`
	SLIT     [][]int     `json:"slit"`
	Reserved []int       `json:"reserved_cpus"`
	Devices  []struct{}  `json:"devices"`
}

type traceNode struct {
	ID     int   `json:"id"`
	Socket int   `json:"socket"`
	CPUs   []int `json:"cpus"`
	MiB    int64 `json:"mem_mib"`
}

type traceEvent struct {
	Op    string `json:"op"`
	VM    string `json:"vm"`
	VCPUs int    `json:"vcpus,omitempty"`
	MiB   int64  `json:"mem_mib,omitempty"`
}

// shape is a host to run traces on: sockets × nodes × cores, two threads a core.
type shape struct{ sockets, nodes, cores int }

// speedShapes are what is sold with 2, 4 and 8 nodes. Above 8 the kubelet's
// topology manager refuses to start.
var speedShapes = []shape{{2, 1, 20}, {2, 2, 16}, {2, 4, 16}}

func (s shape) host() traceHost {
	all := s.sockets * s.nodes * s.cores
	h := traceHost{Name: fmt.Sprintf("%dx%dx%d", s.sockets, s.nodes, s.cores), Reserved: []int{0, all},
		Devices: []struct{}{}}
	for i := range s.sockets * s.nodes {
		n := traceNode{ID: i, Socket: i / s.nodes, MiB: int64(s.cores) * 8 << 10}
		for c := i * s.cores; c < (i+1)*s.cores; c++ {
			n.CPUs = append(n.CPUs, c)
			h.Cores = append(h.Cores, []int{c, c + all})
		}
		for c := i * s.cores; c < (i+1)*s.cores; c++ {
			n.CPUs = append(n.CPUs, c+all)
		}
		h.Nodes = append(h.Nodes, n)
		h.L3 = append(h.L3, n.CPUs)
		var row []int
		for j := range s.sockets * s.nodes {
			switch {
			case i == j:
				row = append(row, 10)
			case i/s.nodes == j/s.nodes:
				row = append(row, 12)
			default:
				row = append(row, 32)
			}
		}
		h.SLIT = append(h.SLIT, row)
	}
	return h
}

// due is the workloads that run, by when they leave.
type due []struct {
	at float64
	vm string
}

func (d due) Len() int           { return len(d) }
func (d due) Less(i, j int) bool { return d[i].at < d[j].at }
func (d due) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *due) Push(x any)        { *d = append(*d, x.(due)[0]) }
func (d *due) Pop() any          { x := (*d)[len(*d)-1]; *d = (*d)[:len(*d)-1]; return x }

// events is arrivals at random times that live for random times (both exponential),
// such that 95 % of the CPUs are asked for; a few workloads take a whole node.
func (s shape) events(arrivals int) []traceEvent {
	r := rand.New(rand.NewPCG(1, uint64(s.sockets*s.nodes)))
	sizes := []int{2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, s.cores, 2 * s.cores}
	mean := 0.0
	for _, v := range sizes {
		mean += float64(v) / float64(len(sizes))
	}
	life := 0.95 * float64(2*s.sockets*s.nodes*s.cores-2) / mean
	var out []traceEvent
	var leave due
	now := 0.0
	for i := range arrivals {
		now += r.ExpFloat64()
		for len(leave) > 0 && leave[0].at <= now {
			out = append(out, traceEvent{Op: "depart", VM: leave[0].vm})
			heap.Pop(&leave)
		}
		v := sizes[r.IntN(len(sizes))]
		vm := fmt.Sprintf("v%d", i)
		out = append(out, traceEvent{Op: "arrive", VM: vm, VCPUs: v, MiB: int64(v*(2+r.IntN(2))) << 10})
		heap.Push(&leave, due{{now + life*r.ExpFloat64(), vm}})
	}
	return out
}

// writeTraces puts a trace for each shape into a folder.
func writeTraces(dir string, arrivals int) ([]string, error) {
	var paths []string
	for _, s := range speedShapes {
		nodes := s.sockets * s.nodes
		text, err := json.Marshal(struct {
			Name   string       `json:"name"`
			Host   traceHost    `json:"host"`
			Events []traceEvent `json:"events"`
		}{fmt.Sprintf("%d nodes, %d CPUs", nodes, 2*nodes*s.cores), s.host(), s.events(arrivals)})
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("mixed_%dnodes.json", nodes))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
