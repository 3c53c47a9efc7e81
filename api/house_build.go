package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// What a House has at most. With it a picture of thousands of workloads is about as large as
// one of 250, some 90 KB.
const (
	drawnInAll   = 160 // workloads told one by one, over all homes; at least drawnInHome in each
	drawnInHome  = 8
	drawnAway    = 80 // of those that are not at home, or move
	groupsInHome = 6  // groups of one home
	mostEvents   = 60
	mostFlows    = 64
	mostProblems = 20
	mostFound    = 200
	longestText  = 400 // runes of a sentence
)

// houseOf is the picture of a Status on a host, which is nil where nothing tells of the machine.
func houseOf(s *Status, host *topology.Host, events []plan.Event, name string) *House {
	h := &House{Schema: "homenode-house/2", Time: s.Time, Version: s.Version, Mode: s.Mode, Held: s.Held, Host: words.Printable(name),
		Summary: summaryOf(s, host), Trend: s.Trend, Machine: machineOf(host), Nodes: nodesOf(s), Residents: grouped(residentsOf(s), len(s.Nodes)), Flows: flowsOf(s), Events: []HouseEvent{}}
	names := make(map[workload.ID]string, len(s.Workloads))
	for i := range s.Workloads {
		names[s.Workloads[i].ID] = words.Printable(s.Workloads[i].Name)
	}
	for _, t := range Tell(events) {
		h.Events = append(h.Events, houseEvent(&t, names))
	}
	return h
}

func machineOf(host *topology.Host) HouseMachine {
	m := HouseMachine{Packages: []HousePackage{}, Rooms: []HouseRoom{}, Access: [][]float64{}}
	if host == nil {
		return m
	}
	m.CPU, m.Source = words.Printable(host.CPU), string(topology.Assumed)
	for i := range host.Nodes {
		n := &host.Nodes[i]
		at := slices.IndexFunc(m.Packages, func(p HousePackage) bool { return p.ID == n.Package })
		if at < 0 {
			at = len(m.Packages)
			m.Packages = append(m.Packages, HousePackage{ID: n.Package})
		}
		m.Packages[at].Nodes = append(m.Packages[at].Nodes, n.ID)
		room := HouseRoom{ID: n.ID, MemoryKiB: int64(n.Memory), Kind: string(n.Kind), CPUs: n.CPUs.Len(), LLCs: coresBy(host, n), Devices: []string{}}
		for _, d := range host.Devices {
			if d.Node == n.ID {
				room.Devices = append(room.Devices, words.Printable(cmp.Or(d.Name, d.PCI)))
			}
		}
		m.Rooms = append(m.Rooms, room)
		row := make([]float64, len(host.Nodes))
		for k := range host.Nodes {
			cost, source := host.Access(i, k)
			if row[k] = rounded(cost, 3); cost > 0 && i != k || len(host.Nodes) == 1 {
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

func nodesOf(s *Status) []HouseNode {
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
	out := make([]HouseNode, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		cpus, _ := topology.ParseCPUSet(n.CPUs)
		x := HouseNode{ID: n.ID, BookedKiB: int64(rounded(float64(n.BookedKiB), 3)), VCPUs: rounded(n.VCPUs, 3), CPUUse: roughly(n.CPUUse), Workloads: lives[n.ID],
			Dedicated: dedicated[n.ID].Intersect(cpus).String(), Partition: kept.Intersect(cpus).String()}
		if used, known := n.UsedKiB(); known {
			used = int64(rounded(float64(used), 3))
			x.UsedKiB = &used
		}
		if n.Bandwidth != nil {
			b := int64(rounded(float64(*n.Bandwidth), 2))
			x.Bandwidth = &b
		}
		if s.Sharing != nil {
			if k := slices.IndexFunc(s.Sharing.Nodes, func(b ShareNode) bool { return b.Node == n.ID }); k >= 0 {
				b := &s.Sharing.Nodes[k]
				x.Sharing = &HouseSharing{CPUs: rough(b.CPUs), Used: rough(b.Used), Online: rough(b.Online), Given: b.Given}
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

// residentsOf is every workload, in the order of the Status.
func residentsOf(s *Status) []Resident {
	out := make([]Resident, 0, len(s.Workloads))
	for i := range s.Workloads {
		w := &s.Workloads[i]
		r := Resident{ID: string(w.ID), Name: short(w.Name), Count: 1, Class: w.Class, Tier: w.Tier, Home: w.Home, CPUs: w.CPUs, CPUUse: rough(w.CPUUse),
			MemoryKiB: int64(rounded(float64(w.MemoryKiB), 2)), ByNode: []NodeKiB{}, Locality: percent(w.Locality), After: percent(w.LocalityExpected), State: w.State}
		r.Group, r.Pod, r.Guest = namespaceOf(w.ID)
		for _, m := range w.MemoryByNode {
			if kib := int64(rounded(float64(m.KiB), 2)); kib*200 >= w.MemoryKiB { // less than half a percent is not seen
				r.ByNode = append(r.ByNode, NodeKiB{m.Node, kib})
			}
		}
		if w.State != StateAtHome {
			r.Why = short(w.Why)
		}
		if m := w.Move; m != nil && (w.State == StateMoving || w.State == StatePaused) {
			r.Moved = &ResidentMove{Planned: m.Planned, Moved: m.Moved, Left: leftOf(m)}
		}
		out = append(out, r)
	}
	return out
}

// leftOf is how many seconds a page move still takes; nil unknown.
func leftOf(m *plan.Move) *float64 {
	left, known := m.Left()
	if !known {
		return nil
	}
	s := math.Ceil(left.Seconds())
	return &s
}

// namespaceOf is what a workload is told with, where many are told together.
func namespaceOf(id workload.ID) (group string, pod, guest bool) {
	name := string(id)
	switch before, _, slash := strings.Cut(strings.TrimPrefix(name, "/"), "/"); {
	case strings.HasPrefix(name, "vm:"):
		return "guests", false, true
	case strings.HasPrefix(name, "pid:"):
		return "processes", false, false
	case strings.HasPrefix(name, "/"):
		return words.Printable(before), false, false
	case slash:
		return words.Printable(before), true, false
	}
	return "others", false, false
}

// weight is how large a resident is drawn, among others.
func weight(r *Resident) float64 { return float64(r.CPUs) + float64(r.MemoryKiB)/(4<<20) }

// settled reports whether there is nothing to tell of one resident.
func settled(state string) bool { return state == StateAtHome || state == StateLeftAlone }

// grouped tells the largest of each home one by one, and the rest by namespace.
func grouped(all []Resident, nodes int) []Resident {
	order := make([]*Resident, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *Resident) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a.ID, b.ID))
	})
	each, away := max(drawnInHome, drawnInAll/max(1, nodes)), drawnAway
	drawn, groups := map[string]int{}, map[string][]*Resident{}
	out := []Resident{}
	for _, r := range order {
		switch {
		case !settled(r.State) && away > 0:
			away--
			out = append(out, *r)
		case settled(r.State) && r.Home != "" && drawn[r.Home] < each, r.Home == "" && drawn[""] < drawnInHome:
			drawn[r.Home]++
			out = append(out, *r)
		default:
			groups[r.Home] = append(groups[r.Home], r)
		}
	}
	for home, members := range groups {
		out = append(out, together(home, members)...)
	}
	slices.SortFunc(out, func(a, b Resident) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// together is one resident for each namespace of a home, the smallest namespaces as one.
func together(home string, members []*Resident) []Resident {
	byName := map[string][]*Resident{}
	for _, r := range members {
		byName[r.Group] = append(byName[r.Group], r)
	}
	names := slices.SortedFunc(maps.Keys(byName), func(a, b string) int { return cmp.Or(len(byName[b])-len(byName[a]), strings.Compare(a, b)) })
	if len(names) > groupsInHome {
		var rest []*Resident
		for _, name := range names[groupsInHome-1:] {
			rest = append(rest, byName[name]...)
			delete(byName, name)
		}
		names = append(names[:groupsInHome-1:groupsInHome-1], "")
		byName[""] = rest
	}
	var out []Resident
	for _, name := range names {
		out = append(out, sum(home, name, byName[name]))
	}
	return out
}

func sum(home, name string, members []*Resident) Resident {
	g := Resident{ID: "group:" + home + ":" + name, Name: cmp.Or(name, "others"), Group: cmp.Or(name, "others"), Count: len(members), Home: home,
		Class: members[0].Class, State: members[0].State, Pod: name != "" && members[0].Pod, Guest: name != "" && members[0].Guest, ByNode: []NodeKiB{}}
	local, of, classes := 0.0, 0.0, map[workload.Class]int{}
	for _, r := range members {
		g.CPUs += r.CPUs
		g.CPUUse += r.CPUUse
		g.MemoryKiB += r.MemoryKiB
		for _, m := range r.ByNode {
			at := slices.IndexFunc(g.ByNode, func(x NodeKiB) bool { return x.Node == m.Node })
			if at < 0 {
				at = len(g.ByNode)
				g.ByNode = append(g.ByNode, NodeKiB{Node: m.Node})
			}
			g.ByNode[at].KiB += m.KiB
		}
		if r.Locality != nil {
			use := max(r.CPUUse, 0.01)
			local += *r.Locality * use
			of += use
		}
		if classes[r.Class]++; classes[r.Class] > classes[g.Class] {
			g.Class = r.Class
		}
		if r.State != g.State {
			g.State = StateAtHome
			if home == "" {
				g.State = StateLeftAlone
			}
		}
	}
	slices.SortFunc(g.ByNode, func(a, b NodeKiB) int { return cmp.Compare(a.Node, b.Node) })
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

// flowsOf is the accesses of online work that leave their node though its home is elsewhere, or it
// has none: trouble. Work that spans nodes by plan, is left alone, or is batch is none. It is of each workload the share that is not local,
// divided as its CPU time and its memory lie.
func flowsOf(s *Status) []Flow {
	type key struct{ from, to topology.NodeID }
	type part struct {
		name string
		cpus float64
	}
	sums, parts, counted := map[key]*Flow{}, map[key][]part{}, map[key]bool{}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		total := 0.0
		for _, m := range w.MemoryByNode {
			total += float64(m.KiB)
		}
		if total <= 0 || w.CPUUse < 0.01 || len(w.RanOn) == 0 || w.Class == workload.Batch || settled(w.State) {
			continue
		}
		remote := 0.0
		for _, r := range w.RanOn {
			for _, m := range w.MemoryByNode {
				if m.Node != r.Node {
					remote += r.Share * float64(m.KiB) / total
				}
			}
		}
		if remote < 0.005 {
			continue
		}
		scale := 1.0
		if w.Locality != nil {
			scale = (1 - *w.Locality) / remote // what was counted, divided as memory lies
		}
		traffic, known := trafficOf(w)
		for _, r := range w.RanOn {
			for _, m := range w.MemoryByNode {
				share := r.Share * float64(m.KiB) / total * scale
				if m.Node == r.Node || share < 0.005 {
					continue
				}
				k := key{r.Node, m.Node}
				if sums[k] == nil {
					sums[k] = &Flow{From: k.from, To: k.to, MiBs: new(float64), By: []string{}}
					counted[k] = true
				}
				sums[k].CPUs += w.CPUUse * share
				*sums[k].MiBs += traffic * share
				counted[k] = counted[k] && known
				parts[k] = append(parts[k], part{short(w.Name), w.CPUUse * share})
			}
		}
	}
	out := make([]Flow, 0, len(sums))
	for k, f := range sums {
		if f.CPUs < 0.02 {
			continue
		}
		f.CPUs, *f.MiBs = rounded(f.CPUs, 2), rounded(*f.MiBs, 2)
		if !counted[k] {
			f.MiBs = nil
		}
		slices.SortFunc(parts[k], func(a, b part) int { return cmp.Or(cmp.Compare(b.cpus, a.cpus), strings.Compare(a.name, b.name)) })
		for _, p := range parts[k][:min(3, len(parts[k]))] {
			f.By = append(f.By, p.name)
		}
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out[:min(len(out), mostFlows)]
}

// trafficOf is the traffic of a workload's memory in MiB/s, and whether it was counted.
func trafficOf(w *Workload) (mibs float64, known bool) {
	const line = 64 // bytes of a cache line, which one read fetches
	switch {
	case w.Bandwidth != nil:
		return float64(*w.Bandwidth), true
	case w.Accesses != nil:
		return *w.Accesses * line / (1 << 20), true
	}
	return 0, false
}

func summaryOf(s *Status, host *topology.Host) HouseSummary {
	x := HouseSummary{Small: s.Small, Problems: []string{}}
	online := 0
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Class == workload.Batch && w.State != StateFailed && w.State != StateNoAnswer {
			x.Batch++
			x.BatchCPUs += w.CPUUse
			continue
		}
		online++
		switch held := w.State == StateHeld; {
		case w.State == StateLeftAlone, held && !s.Held:
			x.LeftAlone++
		case w.State == StateAtHome, held && len(w.Steps) == 0:
			x.AtHome++
		case w.State == StateMoving, w.State == StatePaused:
			x.Moving++
		case w.State == StateFailed, w.State == StateNoRoom, w.State == StateNoAnswer:
			x.Trouble++
		default:
			x.Waiting++
		}
	}
	x.Workloads, x.BatchCPUs = online-x.LeftAlone, rough(x.BatchCPUs)
	now, then := s.Locality()
	x.Locality, x.LocalityAfter = percent(now), percent(then)
	use, known := 0.0, false
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.CPUUse != nil {
			use, known = use+*n.CPUUse, true
		}
		if n.MemoryKiB > 0 {
			x.MemoryKiB += n.MemoryKiB
		}
		used, _ := n.UsedKiB()
		x.UsedKiB += used
	}
	x.UsedKiB = int64(rounded(float64(x.UsedKiB), 3))
	if known {
		x.CPUUse = roughly(&use)
	}
	if host != nil {
		x.CPUs = host.Online.Len()
	}
	for _, p := range s.Problems[:min(len(s.Problems), mostProblems)] {
		x.Problems = append(x.Problems, short(p))
	}
	var line words.Reason
	x.State, line = headline(s, &x)
	x.Headline = short(line.String())
	if t := s.Trial.Line(); t != "" { // it says what the arm has done to the rest
		x.Headline = short(t)
	}
	return x
}

// homeIsLocal is the local share below which no sentence says that everything is at home: work may
// span nodes by plan, or be left alone.
const homeIsLocal = 0.9

// headline is the state of the whole host in a word and in a sentence.
func headline(s *Status, x *HouseSummary) (string, words.Reason) {
	rise := func(code words.Code) words.Reason {
		if x.Locality == nil || x.LocalityAfter == nil || *x.LocalityAfter <= *x.Locality {
			return words.Plain("")
		}
		return words.Because(code, *x.Locality, *x.LocalityAfter)
	}
	switch {
	case s.Time.IsZero() || len(s.Nodes) == 0:
		return "unseen", words.Because(words.HouseUnseen)
	case s.Held:
		return "held", words.Because(words.HouseHeld, x.AtHome, x.Workloads)
	case s.OneNode() && x.Moving+x.Trouble+x.Waiting == 0:
		return "at home", words.Because(words.SingleNode)
	case x.Workloads == 0 && x.Batch > 0:
		return "at home", words.Because(words.HouseBatch, x.Batch)
	case x.Workloads == 0:
		return "at home", words.Because(words.HouseEmpty)
	case x.Moving > 0:
		return "moving", movingNow(s, x)
	case x.Trouble > 0:
		for i := range s.Workloads {
			if w := &s.Workloads[i]; w.State == StateFailed || w.State == StateNoRoom || w.State == StateNoAnswer {
				return "trouble", words.Because(words.HouseTrouble, x.Trouble, x.Workloads, short(w.Name), w.Why)
			}
		}
	case x.Waiting > 0 && s.Mode == "enforce":
		return "away", words.Because(words.HouseAway, x.Waiting, x.Workloads, rise(words.HouseWill))
	case x.Waiting > 0:
		return "away", words.Because(words.HouseAway, x.Waiting, x.Workloads, rise(words.HouseWould))
	}
	if x.Locality == nil {
		return "at home", words.Because(words.HouseAllHome, x.Workloads)
	}
	if *x.Locality < homeIsLocal {
		return "at home", words.Because(words.HousePlaced, x.Workloads, *x.Locality)
	}
	return "at home", words.Because(words.HouseAtHome, x.Workloads, *x.Locality)
}

// movingNow tells of the page move that has most to move.
func movingNow(s *Status, x *HouseSummary) words.Reason {
	var largest *Workload
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if (w.State == StateMoving || w.State == StatePaused) && w.Move != nil && (largest == nil || w.Move.Planned > largest.Move.Planned) {
			largest = w
		}
	}
	if largest == nil {
		return words.Because(words.HouseAway, x.Moving, x.Workloads, words.Plain(""))
	}
	m := largest.Move
	left, gain := words.Plain(""), words.Plain("")
	if seconds := leftOf(m); seconds != nil {
		left = words.Because(words.HouseTimeLeft, lasts(*seconds))
	}
	if before, after := largest.Locality, largest.LocalityExpected; before != nil && after != nil && *after > *before {
		gain = words.Because(words.HouseGain, *before, *after)
	}
	args := []any{short(largest.Name), largest.Home, m.Moved, m.Planned, left, gain}
	if x.Moving == 1 {
		return words.Because(words.HouseMoving, args...)
	}
	return words.Because(words.HouseMovingN, append([]any{x.Moving}, args...)...)
}

// lasts is a time as the page writes it elsewhere.
func lasts(seconds float64) string {
	if seconds < 90 {
		return fmt.Sprintf("%.0f s", math.Ceil(seconds))
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}

func houseEvent(e *Told, names map[workload.ID]string) HouseEvent {
	x := HouseEvent{Seq: e.Seq, Time: e.Time, Kind: string(e.Kind), Workload: e.Workload, Name: names[e.Workload], Text: short(e.Text), Error: e.Error,
		Before: percent(e.Before), After: percent(e.After), Replaces: e.Replaces}
	if e.By != nil {
		x.By = words.Printable(e.By.String())
	}
	return x
}

// short is text that others may have chosen, fit to be shown.
func short(s string) string {
	s = words.Printable(s)
	if len(s) <= longestText {
		return s
	}
	if runes := []rune(s); len(runes) > longestText {
		return string(runes[:longestText-1]) + "…"
	}
	return s
}

// rounded has so many significant digits.
func rounded(x float64, digits int) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-float64(digits-1))
	if unit < 1 { // a division is exact where a multiplication with a fraction is not
		return math.Round(x*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(x/unit) * unit
}

// rough is CPUs: tenths, and whole ones from ten on.
func rough(cpus float64) float64 {
	if cpus >= 10 {
		return math.Round(cpus)
	}
	return math.Round(cpus*10) / 10
}

func roughly(cpus *float64) *float64 {
	if cpus == nil {
		return nil
	}
	x := rough(*cpus)
	return &x
}

// percent is a share in whole percents.
func percent(share *float64) *float64 {
	if share == nil {
		return nil
	}
	x := math.Round(*share*100) / 100
	return &x
}

// changeOf is what makes one picture of another; more reports whether anything but the time is new.
func changeOf(old, now *House) (c HouseChange, more bool) {
	c = HouseChange{Seq: now.Seq, Time: now.Time}
	if old.Mode != now.Mode {
		c.Mode = now.Mode
	}
	if old.Held != now.Held {
		c.Held = &now.Held
	}
	if !same(&old.Summary, &now.Summary) {
		c.Summary = &now.Summary
	}
	if now.Trend != nil && !same(old.Trend, now.Trend) {
		c.Trend = now.Trend
	}
	if !same(&old.Machine, &now.Machine) {
		c.Machine = &now.Machine
	}
	for i := range now.Nodes {
		if i >= len(old.Nodes) || !same(&old.Nodes[i], &now.Nodes[i]) {
			c.Nodes = append(c.Nodes, now.Nodes[i])
		}
	}
	if !same(&old.Flows, &now.Flows) {
		c.Flows = &now.Flows
	}
	i := 0 // both rise by ID
	for k := range now.Residents {
		for ; i < len(old.Residents) && old.Residents[i].ID < now.Residents[k].ID; i++ {
			c.Gone = append(c.Gone, old.Residents[i].ID)
		}
		if i < len(old.Residents) && old.Residents[i].ID == now.Residents[k].ID {
			if !same(&old.Residents[i], &now.Residents[k]) {
				c.Residents = append(c.Residents, now.Residents[k])
			}
			i++
		} else {
			c.Residents = append(c.Residents, now.Residents[k])
		}
	}
	for ; i < len(old.Residents); i++ {
		c.Gone = append(c.Gone, old.Residents[i].ID)
	}
	last := uint64(0)
	if n := len(old.Events); n > 0 {
		last = old.Events[n-1].Seq
	}
	for k := range now.Events {
		if now.Events[k].Seq > last {
			c.Events = append(c.Events, now.Events[k])
		}
	}
	more = c.Mode != "" || c.Held != nil || c.Summary != nil || c.Trend != nil || c.Machine != nil || c.Nodes != nil || c.Flows != nil || c.Residents != nil || c.Gone != nil || c.Events != nil
	return c, more
}

// same compares as viewers would see it.
func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
