package house

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/figures"
)

// What a House has at most. With it a picture of thousands of workloads is about as large as
// one of 250, some 90 KB.
const (
	drawnInAll   = 160 // workloads told one by one, over all homes; at least drawnInHome in each
	drawnInHome  = 8
	drawnAway    = 80 // of those that are not at home, or move
	groupsInHome = 6  // groups of one home
	mostFlows    = 64
	mostProblems = 20
	mostFound    = 200
	longestText  = 400 // runes of a sentence
)

// Painter makes the pictures that api sends.
type Painter struct{}

// House is of api.Painter.
func (Painter) House(s *api.Status, host *topology.Host, events []plan.Event, name string) *api.House {
	return houseOf(s, host, events, name)
}

// Change is of api.Painter.
func (Painter) Change(old, now *api.House) (api.HouseChange, bool) { return changeOf(old, now) }

// Residents is of api.Painter.
func (Painter) Residents(s *api.Status, text, group string) api.Residents {
	return residentsFor(s, text, group)
}

// houseOf is the picture of a Status on a host, which is nil where nothing tells of the machine.
func houseOf(s *api.Status, host *topology.Host, events []plan.Event, name string) *api.House {
	h := &api.House{Schema: "homenode-house/2", Time: s.Time, Version: s.Version, Mode: s.Mode, Held: s.Held,
		Host:    words.Printable(name),
		Summary: summaryOf(s, host), Trend: s.Trend, Machine: machineOf(host), Nodes: nodesOf(s),
		Residents: grouped(residentsOf(s), len(s.Nodes)), Flows: flowsOf(s), Events: []api.HouseEvent{}}
	names := make(map[workload.ID]string, len(s.Workloads))
	for i := range s.Workloads {
		names[s.Workloads[i].ID] = words.Printable(s.Workloads[i].Name)
	}
	for _, t := range api.Tell(events) {
		h.Events = append(h.Events, houseEvent(&t, names))
	}
	return h
}

func machineOf(host *topology.Host) api.HouseMachine {
	m := api.HouseMachine{Packages: []api.HousePackage{}, Rooms: []api.HouseRoom{}, Access: [][]float64{}}
	if host == nil {
		return m
	}
	m.CPU, m.Source = words.Printable(host.CPU), string(topology.Assumed)
	for i := range host.Nodes {
		n := &host.Nodes[i]
		at := slices.IndexFunc(m.Packages, func(p api.HousePackage) bool { return p.ID == n.Package })
		if at < 0 {
			at = len(m.Packages)
			m.Packages = append(m.Packages, api.HousePackage{ID: n.Package})
		}
		m.Packages[at].Nodes = append(m.Packages[at].Nodes, n.ID)
		room := api.HouseRoom{ID: n.ID, MemoryKiB: int64(n.Memory), Kind: string(n.Kind), CPUs: n.CPUs.Len(),
			LLCs: coresBy(host, n), Devices: []string{}}
		for _, d := range host.Devices {
			if d.Node == n.ID {
				room.Devices = append(room.Devices, words.Printable(cmp.Or(d.Name, d.PCI)))
			}
		}
		m.Rooms = append(m.Rooms, room)
		row := make([]float64, len(host.Nodes))
		for k := range host.Nodes {
			cost, source := host.Access(i, k)
			if row[k] = rounded(cost, 3); (cost > 0 && i != k) || len(host.Nodes) == 1 {
				m.Source = string(source)
			}
		}
		m.Access = append(m.Access, row)
	}
	if host.Measured != nil && len(host.Measured.LatencyNs) == len(host.Nodes) {
		for _, row := range host.Measured.LatencyNs {
			out := make([]float64, len(row))
			for k, ns := range row {
				out[k] = rounded(ns, 3)
			}
			m.Latency = append(m.Latency, out)
		}
	}
	return m
}

// coresBy is the CPUs of a node by last-level cache and core.
func coresBy(host *topology.Host, n *topology.Node) [][][]topology.CPUID {
	out := [][][]topology.CPUID{}
	rest := n.CPUs
	take := func(within topology.CPUSet) {
		var cores [][]topology.CPUID
		for i := range host.Cores {
			if cpus := host.Cores[i].CPUs.Intersect(within); !cpus.Empty() {
				cores = append(cores, slices.Collect(cpus.All()))
			}
		}
		if cores != nil {
			out = append(out, cores)
		}
		rest = rest.Minus(within)
	}
	for i := range host.LLCs {
		if within := host.LLCs[i].CPUs.Intersect(n.CPUs); !within.Empty() {
			take(within)
		}
	}
	if !rest.Empty() {
		take(rest)
	}
	return out
}

func nodesOf(s *api.Status) []api.HouseNode {
	lives, dedicated := map[topology.NodeID]int{}, map[topology.NodeID]topology.CPUSet{}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		var cpus topology.CPUSet
		if w.Class == workload.Dedicated {
			cpus, _ = topology.ParseCPUSet(w.CPUSetPlanned)
		}
		home, _ := topology.ParseNodeSet(w.Home)
		for node := range home.All() {
			lives[node]++
			dedicated[node] = dedicated[node].Union(cpus)
		}
	}
	var kept topology.CPUSet
	if s.Partition != nil {
		kept, _ = topology.ParseCPUSet(s.Partition.Dedicated)
	}
	out := make([]api.HouseNode, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		cpus, _ := topology.ParseCPUSet(n.CPUs)
		x := api.HouseNode{ID: n.ID, BookedKiB: int64(rounded(float64(n.BookedKiB), 3)), VCPUs: rounded(n.VCPUs, 3),
			CPUUse: roughly(n.CPUUse), Workloads: lives[n.ID],
			Dedicated: dedicated[n.ID].Intersect(cpus).String(), Partition: kept.Intersect(cpus).String()}
		x.More = figures.Sentences(figures.Nodes, n)
		if used, known := n.UsedKiB(); known {
			used = int64(rounded(float64(used), 3))
			x.UsedKiB = &used
		}
		if n.Bandwidth != nil {
			x.Bandwidth = new(int64(rounded(float64(*n.Bandwidth), 2)))
		}
		if s.Sharing != nil {
			if k := slices.IndexFunc(s.Sharing.Nodes, func(b api.ShareNode) bool { return b.Node == n.ID }); k >= 0 {
				b := &s.Sharing.Nodes[k]
				x.Sharing = &api.HouseSharing{CPUs: rough(b.CPUs), Used: rough(b.Used), Online: rough(b.Online),
					Given: b.Given}
			}
		}
		if s.Balance != nil {
			for _, t := range s.Balance.Triggers {
				if t.Workload == "" && t.Node == n.ID {
					x.Wrong = append(x.Wrong, short(t.Reason.String()))
				}
			}
		}
		out = append(out, x)
	}
	return out
}

func sum(home, name string, members []*api.Resident) api.Resident {
	g := api.Resident{ID: "group:" + home + ":" + name, Name: cmp.Or(name, "others"), Group: cmp.Or(name, "others"),
		Count: len(members), Home: home,
		Class: members[0].Class, State: members[0].State, Pod: name != "" && members[0].Pod, Guest: name != "" &&
			members[0].Guest, ByNode: []api.NodeKiB{}}
	local := 0.0
	of := 0.0
	classes := map[workload.Class]int{}
	for _, r := range members {
		g.CPUs += r.CPUs
		g.CPUUse += r.CPUUse
		g.MemoryKiB += r.MemoryKiB
		for _, m := range r.ByNode {
			at := slices.IndexFunc(g.ByNode, func(x api.NodeKiB) bool { return x.Node == m.Node })
			if at < 0 {
				at = len(g.ByNode)
				g.ByNode = append(g.ByNode, api.NodeKiB{Node: m.Node})
			}
			g.ByNode[at].KiB += m.KiB
		}
		if r.Locality != nil {
			use := max(r.CPUUse, 0.01)
			local += *r.Locality * use
			of += use
		}
		classes[r.Class]++
		if classes[r.Class] > classes[g.Class] {
			g.Class = r.Class
		}
		if r.State != g.State {
			g.State = api.StateAtHome
			if home == "" {
				g.State = api.StateLeftAlone
			}
		}
	}
	slices.SortFunc(g.ByNode, func(a, b api.NodeKiB) int { return cmp.Compare(a.Node, b.Node) })
	for i := range g.ByNode {
		g.ByNode[i].KiB = int64(rounded(float64(g.ByNode[i].KiB), 2))
	}
	g.CPUUse, g.MemoryKiB = rough(g.CPUUse), int64(rounded(float64(g.MemoryKiB), 2))
	if of > 0 {
		share := local / of
		g.Locality = percent(&share)
		g.After = g.Locality
	}
	return g
}

func houseEvent(e *api.Told, names map[workload.ID]string) api.HouseEvent {
	x := api.HouseEvent{Seq: e.Seq, Time: e.Time, Kind: string(e.Kind), Workload: e.Workload, Name: names[e.Workload],
		Text: short(e.Text), Error: e.Error,
		Before: percent(e.Before), After: percent(e.After), Replaces: e.Replaces}
	if e.By != nil {
		x.By = words.Printable(e.By.String())
	}
	return x
}
