package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Part is one kind of measurement.
type Part string

// Parts, in the order they run: streams overwrite what chains need.
const (
	PartLatency   Part = "latency"
	PartPages     Part = "pages"
	PartLevels    Part = "levels"
	PartC2C       Part = "c2c"
	PartBandwidth Part = "bandwidth"
	PartLoaded    Part = "loaded"
)

// Mixes lists all read to write mixes there are.
var Mixes = []string{"r", "3:1", "2:1", "1:1", "w", "nt", "triad", "nt-triad"}

// Request asks for measurements.
type Request struct {
	Parts   []Part
	Full    bool
	From    string   // "nodes", "cores"; "" lets the profile choose
	Pages   string   // thp, 4k, 1g
	Mixes   []string // nil: the profile's
	Threads int      // per node for bandwidth; 0: the profile's
	// LoadedFrom and LoadedTo are nodes; -1: each node to itself and to its farthest.
	LoadedFrom, LoadedTo int
	Points               int    // of the loaded curve
	CPU, Node            int    // for levels; -1: the first
	LineOn               string // first, node or both
	Budget               time.Duration
	BusyOK               bool
	Nice                 int
	RT                   bool // latency samples under SCHED_FIFO
	MSR                  bool // latency also with prefetchers off
	Seed                 uint64
}

// Loads of a sample, and about what one takes at 100 ns: 2 ms.
const (
	SampleLoads = 20_000
	WarmLoads   = 2_048
)

// Buffer sizes: a cell may read each line once only, and lines must be gone
// from the caches when their turn comes again.
const (
	fullBuffer  = 1 << 30
	quickBuffer = 256 << 20
	llcTimes    = 8
	minBuffer   = 32 << 20
	freeShare   = 4 // at most a quarter of a node's free memory
	pageSize    = 2 << 20
)

// Plan is what will be measured, how long that takes about, and the memory it needs.
type Plan struct {
	Request Request    `json:"-"`
	Profile string     `json:"profile"`  // profile: quick or full
	Steps   []PlanStep `json:"steps"`    // steps, in the order they are measured
	Seconds float64    `json:"seconds"`  // time that all steps take, by estimate, s
	Buffers []Buffer   `json:"buffers"`  // buffers, one for each node
	LeftOut []Left     `json:"left_out"` // nodes with memory that are not measured
	Notes   []string   `json:"notes"`    // what will not be measured, a sentence each

	NodeCPUs  []NodeCPU                  `json:"-"` // rows of the node to node matrix
	CPUs      []topology.CPUID           `json:"-"` // rows of the CPU to node matrix; nil: not measured
	Sockets   []topology.CPUID           `json:"-"` // one CPU a package, for page signatures
	Pairs     []topology.CPUID           `json:"-"` // of core to core
	Load      []LoadedPair               `json:"-"`
	LevelCPU  topology.CPUID             `json:"-"`
	LevelNode topology.NodeID            `json:"-"`
	LLC       int64                      `json:"-"`
	Mixes     []string                   `json:"-"`
	Streams   map[int][][]topology.CPUID `json:"-"` // by node: the sets of CPUs that read, rising
	memory    int64
}

// PlanStep is one part of a measurement.
type PlanStep struct {
	Part    Part    `json:"part"`    // part of the document that it fills
	Says    string  `json:"says"`    // what is measured, in a sentence
	Cells   int     `json:"cells"`   // numbers that it yields
	Seconds float64 `json:"seconds"` // time that it takes, by estimate, s
}

// Buffer is the memory that is measured on one node.
type Buffer struct {
	Node  topology.NodeID `json:"node"`  // node ID of the kernel
	Bytes int64           `json:"bytes"` // size, bytes
	// whether it is smaller than 8 last-level caches, so that caches lower the latency
	Diluted bool `json:"llc_diluted"`
}

// NodeCPU is the CPU that stands for a node.
type NodeCPU struct {
	Node topology.NodeID
	CPU  topology.CPUID
}

// LoadedPair is a pair of nodes for the loaded curve.
type LoadedPair struct {
	From, To topology.NodeID
	Chase    topology.CPUID
	Load     []topology.CPUID
}

// MakePlan chooses cells, CPUs and buffers for a request. memory bounds all
// buffers together (a cgroup's limit), 0 is no bound.
func MakePlan(h *topology.Host, req Request, memory int64) (Plan, error) {
	p := Plan{Request: req, memory: memory, Profile: "quick", LeftOut: []Left{}, Notes: []string{},
		Streams: map[int][][]topology.CPUID{}}
	if req.Full {
		p.Profile = "full"
	}
	for _, l := range h.LLCs {
		if l.CPUs.Intersects(h.Allowed) && l.Size > 0 {
			p.LLC = max(p.LLC, int64(l.Size)<<10)
		}
	}
	if p.LLC == 0 {
		p.LLC = 32 << 20
		p.Notes = append(p.Notes, "the size of the last-level cache is not known; 32 MiB assumed")
	}
	if err := p.buffers(h, memory); err != nil {
		return Plan{}, err
	}
	p.chooseCPUs(h)
	if len(p.NodeCPUs) == 0 {
		return Plan{}, errors.New("plan: this process may use no CPU that belongs to a node")
	}
	if outside := h.Online.Minus(h.Allowed); !outside.Empty() {
		p.Notes = append(p.Notes, fmt.Sprintf("CPUs %s are not allowed to this process and are left out", outside))
	}
	for _, part := range []Part{PartLatency, PartPages, PartLevels, PartC2C, PartBandwidth, PartLoaded} {
		if !slices.Contains(req.Parts, part) {
			continue
		}
		if err := p.add(h, part); err != nil {
			if len(req.Parts) == 1 {
				return Plan{}, err
			}
			p.Notes = append(p.Notes, err.Error())
		}
	}
	p.fit(h)
	return p, nil
}

func (p *Plan) buffers(h *topology.Host, memory int64) error {
	want := int64(quickBuffer)
	if p.Request.Full {
		want = fullBuffer
	}
	want = max(want, llcTimes*p.LLC)
	var nodes []topology.Node
	for _, n := range h.Nodes {
		if n.Memory != 0 && h.AllowedMems.Has(n.ID) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return errors.New("plan: this process may use no node with memory")
	}
	if memory > 0 {
		want = min(want, memory/int64(len(nodes)))
	}
	for _, n := range nodes {
		size := want
		if n.Free >= 0 {
			size = min(size, int64(n.Free)<<10/freeShare)
		}
		if p.Request.Pages == "1g" {
			size = max(size, 1<<30) >> 30 << 30
		}
		size = size / pageSize * pageSize
		if size < minBuffer {
			left := Left{int(n.ID),
				fmt.Sprintf("only %d MiB of its memory may be used (a quarter of what is free, or its part of the "+
					"cgroup's limit)", size>>20)}
			p.LeftOut = append(p.LeftOut, left)
			p.Notes = append(p.Notes, fmt.Sprintf("node%d is left out: %s", n.ID, left.Why))
			continue
		}
		p.Buffers = append(p.Buffers, Buffer{n.ID, size, size < llcTimes*p.LLC})
		if size < llcTimes*p.LLC {
			p.Notes = append(p.Notes,
				fmt.Sprintf("node%d: a buffer of %d MiB is less than %d caches of %d MiB; caches are swept before "+
					"each sample and cells are marked llc-diluted (latency may be up to %.0f %% of the difference to "+
					"the cache too low)",
					n.ID, size>>20, llcTimes, p.LLC>>20, 75*float64(p.LLC)/float64(size)))
		}
	}
	if len(p.Buffers) == 0 {
		return errors.New("plan: no node has enough free memory to measure on")
	}
	return nil
}

// firsts is one allowed CPU of each core of a set, cores spread over caches:
// round robin over LLCs, so that a prefix of the list is a fair sample.
func firsts(h *topology.Host, in topology.CPUSet) []topology.CPUID {
	byLLC := map[int][]topology.CPUID{}
	most := 0
	for _, c := range h.Cores {
		at := c.CPUs.Intersect(h.Allowed).Intersect(in)
		if at.Empty() {
			continue
		}
		llc := slices.IndexFunc(h.LLCs, func(l topology.LLC) bool { return l.CPUs.Has(at.Min()) })
		byLLC[llc] = append(byLLC[llc], at.Min())
		most = max(most, len(byLLC[llc]))
	}
	var out []topology.CPUID
	for k := range most {
		for llc := -1; llc < len(h.LLCs); llc++ {
			if k < len(byLLC[llc]) {
				out = append(out, byLLC[llc][k])
			}
		}
	}
	return out
}

func (p *Plan) chooseCPUs(h *topology.Host) {
	llcs := len(h.LLCs)
	for _, n := range h.Nodes {
		cores := firsts(h, n.CPUs)
		if len(cores) == 0 {
			continue
		}
		// The second core rather than the first: CPU 0 takes most interrupts.
		p.NodeCPUs = append(p.NodeCPUs, NodeCPU{n.ID, cores[min(1, len(cores)-1)]})
		few := 8
		if len(h.Nodes) > 2 {
			few = max(1, min(8, llcs/len(h.Nodes)))
		}
		if p.Request.Full {
			few = len(cores)
		}
		p.CPUs = append(p.CPUs, cores[:min(few, len(cores))]...)
		p.Streams[int(n.ID)] = p.threadSets(h, n, cores)
	}
	for _, pkg := range h.Packages {
		if cores := firsts(h, pkg.CPUs); len(cores) > 0 {
			p.Sockets = append(p.Sockets, cores[min(1, len(cores)-1)])
		}
	}
	if len(h.Packages) == 0 && len(p.NodeCPUs) > 0 {
		p.Sockets = []topology.CPUID{p.NodeCPUs[0].CPU}
	}
	if p.Request.From == "nodes" {
		p.CPUs = nil
	}
}

// threadSets are the CPUs that stream from a node: quick one set, one CPU a
// core; full 1, 2, 4 … cores, then all SMT siblings too.
func (p *Plan) threadSets(h *topology.Host, n topology.Node, cores []topology.CPUID) [][]topology.CPUID {
	if t := p.Request.Threads; t > 0 {
		all := append(slices.Clone(cores), n.CPUs.Intersect(h.Allowed).Minus(topology.CPUs(cores...)).Slice()...)
		return [][]topology.CPUID{all[:min(t, len(all))]}
	}
	if !p.Request.Full {
		return [][]topology.CPUID{cores}
	}
	var out [][]topology.CPUID
	for k := 1; k < len(cores); k *= 2 {
		out = append(out, cores[:k])
	}
	out = append(out, cores)
	if siblings := n.CPUs.Intersect(h.Allowed).Minus(topology.CPUs(cores...)); !siblings.Empty() {
		out = append(out, append(slices.Clone(cores), siblings.Slice()...))
	}
	return out
}

// Times that cells take, in seconds, for the estimate.
const (
	latencyCell  = 0.055 // 11 samples of 2 ms, warm up, moving
	spinUp       = 0.050 // of a CPU, once
	pageVisit    = 0.0017
	streamWindow = 0.020
	c2cPair      = 0.006
	loadedPoint  = 0.12
	levelPoint   = 0.09
	buildGiB     = 0.9
)

func (p *Plan) add(h *topology.Host, part Part) error {
	step := PlanStep{Part: part}
	mems := len(p.Buffers)
	switch part {
	case PartLatency:
		step.Cells = len(p.NodeCPUs) * mems
		step.Seconds = float64(step.Cells)*latencyCell + float64(len(p.NodeCPUs))*spinUp
		step.Says = fmt.Sprintf("idle latency: %s × %d with memory", words.Count(len(p.NodeCPUs), "node")+" with CPUs",
			mems)
		if p.CPUs != nil {
			n := len(p.CPUs) * mems
			step.Cells += n
			step.Seconds += float64(n)*latencyCell + float64(len(p.CPUs))*spinUp
			step.Says += fmt.Sprintf("; %s × %s", words.Count(len(p.CPUs), "CPU"), words.Count(mems, "node"))
		}
	case PartPages:
		pages := p.Buffers[0].Bytes / pageSize
		step.Cells = int(pages) * len(p.Sockets)
		step.Seconds = float64(step.Cells) * pageVisit
		step.Says = fmt.Sprintf("page signatures: %s of 2 MiB from %s", words.Count(pages, "page"),
			words.Count(len(p.Sockets), "package"))
	case PartLevels:
		p.LevelCPU, p.LevelNode = p.NodeCPUs[0].CPU, p.Buffers[0].Node
		if c := p.Request.CPU; c >= 0 {
			if !h.Allowed.Has(topology.CPUID(c)) {
				return fmt.Errorf("plan levels: CPU %d is not online or not allowed to this process", c)
			}
			p.LevelCPU = topology.CPUID(c)
		}
		if n := p.Request.Node; n >= 0 {
			p.LevelNode = topology.NodeID(n)
		}
		if p.buffer(p.LevelNode) == nil {
			return fmt.Errorf("plan levels: node%d has no memory that may be used", p.LevelNode)
		}
		step.Cells = len(LevelSizes(p.buffer(p.LevelNode).Bytes, p.LLC))
		step.Seconds = float64(step.Cells) * levelPoint
		step.Says = fmt.Sprintf("latency by working set: %s, CPU %d on node%d", words.Count(step.Cells, "size"),
			p.LevelCPU, p.LevelNode)
	case PartC2C:
		p.Pairs = p.pairCPUs(h)
		n := len(p.Pairs)
		if n < 2 {
			return errors.New("plan c2c: needs two cores")
		}
		step.Cells = n * (n - 1) / 2 * len(LineHomes(p.Request.LineOn, mems))
		step.Seconds = float64(step.Cells) * c2cPair
		var homes []string
		for _, home := range LineHomes(p.Request.LineOn, mems) {
			homes = append(homes, LineOn(home))
		}
		step.Says = fmt.Sprintf("core to core: %s, cache line on %s", words.Count(n, "CPU"), strings.Join(homes, ", "))
	case PartBandwidth:
		p.Mixes = p.Request.Mixes
		if p.Mixes == nil {
			p.Mixes = []string{"r", "3:1", "2:1", "1:1", "nt"}
			if mems > 2 && !p.Request.Full {
				p.Mixes = []string{"r", "1:1"}
			}
		}
		runs := 0
		for _, n := range p.NodeCPUs {
			runs += len(p.Streams[int(n.Node)]) * mems
		}
		runs = (runs + 1) * len(p.Mixes)
		step.Cells = runs
		step.Seconds = float64(runs) * 7 * streamWindow
		step.Says = fmt.Sprintf("bandwidth: %d × %s, mixes %s", len(p.NodeCPUs), words.Count(mems, "node"),
			strings.Join(p.Mixes, " "))
	case PartLoaded:
		if err := p.loadedPairs(); err != nil {
			return err
		}
		step.Cells = len(p.Load) * p.Points()
		step.Seconds = float64(step.Cells) * loadedPoint
		step.Says = fmt.Sprintf("latency under load: %s on %s of nodes", words.Count(p.Points(), "point"),
			words.Count(len(p.Load), "pair"))
	default:
		return fmt.Errorf("plan: no part %q", part)
	}
	p.Steps = append(p.Steps, step)
	return nil
}

// Points is the number of points of a loaded curve.
func (p *Plan) Points() int {
	if p.Request.Points > 0 {
		return p.Request.Points
	}
	return 15
}

func (p *Plan) buffer(n topology.NodeID) *Buffer {
	for i := range p.Buffers {
		if p.Buffers[i].Node == n {
			return &p.Buffers[i]
		}
	}
	return nil
}

// Quick measurements of core to core: CPUs of a package with one cache, and CPUs in all where packages have
// several. 32 CPUs are 496 pairs, some 3 s.
const (
	pairsOfPackage = 4
	pairsInAll     = 32
)

// pairCPUs chooses, quick, two cores of each cache, and at least four of each package; full one CPU of each
// core. Where there are more than 16 caches, quick takes the first ones of each package.
func (p *Plan) pairCPUs(h *topology.Host) []topology.CPUID {
	if p.Request.Full {
		out := firsts(h, h.Online)
		slices.Sort(out)
		return out
	}
	var out []topology.CPUID
	for _, pkg := range h.Packages {
		most := max(2, pairsInAll/2/len(h.Packages)) // caches
		var within topology.CPUSet
		caches := 0
		for i := range h.LLCs {
			in := h.LLCs[i].CPUs.Intersect(pkg.CPUs).Intersect(h.Allowed)
			if in.Empty() || caches == most {
				continue
			}
			within = within.Union(in)
			caches++
		}
		if caches < 2 {
			within = pkg.CPUs
		}
		cores := firsts(h, within)
		out = append(out, cores[:min(max(pairsOfPackage, 2*caches), len(cores))]...)
	}
	if len(h.Packages) == 0 {
		cores := firsts(h, h.Online)
		out = cores[:min(8, len(cores))]
	}
	slices.Sort(out)
	return out
}

func (p *Plan) loadedPairs() error {
	chosen := func(from, to int) bool {
		return (p.Request.LoadedFrom < 0 || p.Request.LoadedFrom == from) &&
			(p.Request.LoadedTo < 0 || p.Request.LoadedTo == to)
	}
	for _, n := range p.NodeCPUs {
		sets := p.Streams[int(n.Node)]
		all := sets[len(sets)-1]
		load := slices.DeleteFunc(slices.Clone(all), func(c topology.CPUID) bool { return c == n.CPU })
		if len(load) == 0 {
			continue
		}
		for _, b := range p.Buffers {
			// Unless asked, local only in quick and the first node's row in full.
			asked := p.Request.LoadedFrom >= 0 || p.Request.LoadedTo >= 0
			if !chosen(int(n.Node), int(b.Node)) ||
				(!asked && b.Node != n.Node && (!p.Request.Full || n.Node != p.NodeCPUs[0].Node)) {
				continue
			}
			p.Load = append(p.Load, LoadedPair{n.Node, b.Node, n.CPU, load})
		}
	}
	if len(p.Load) == 0 {
		return errors.New("plan loaded: needs a node with two CPUs and, if nodes were named, that they exist")
	}
	return nil
}

// fit leaves out detail until the estimate fits the budget.
func (p *Plan) fit(h *topology.Host) {
	total := func() float64 {
		var bytes int64
		for _, b := range p.Buffers {
			bytes += b.Bytes
		}
		s := buildGiB * float64(bytes) / (1 << 30)
		for _, step := range p.Steps {
			s += step.Seconds
		}
		return s
	}
	p.Seconds = total()
	budget := p.Request.Budget.Seconds()
	if budget <= 0 || p.Seconds <= budget {
		return
	}
	if p.Request.Full {
		req := p.Request
		req.Full = false
		if q, err := MakePlan(h, req, p.memory); err == nil {
			q.Notes = append(q.Notes,
				fmt.Sprintf("full would take %.0f s; the quick profile fits the budget of %.0f s better", p.Seconds,
					budget))
			q.Request.Budget = p.Request.Budget
			*p = q
			return
		}
	}
	for _, part := range []Part{PartLoaded, PartC2C, PartLevels, PartBandwidth} {
		at := slices.IndexFunc(p.Steps, func(s PlanStep) bool { return s.Part == part })
		if total() <= budget || at < 0 || len(p.Steps) == 1 {
			continue
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s left out: it would take %.0f s and the budget is %.0f s", part,
			p.Steps[at].Seconds, budget))
		p.Steps = slices.Delete(p.Steps, at, at+1)
	}
	p.Seconds = total()
}

// Has reports whether a part is planned.
func (p *Plan) Has(part Part) bool {
	return slices.ContainsFunc(p.Steps, func(s PlanStep) bool { return s.Part == part })
}

// LineHomes are where the line of core to core lies.
func LineHomes(lineOn string, nodes int) []string {
	switch {
	case nodes == 1 || lineOn == "first":
		return []string{"first"}
	case lineOn == "both":
		return []string{"first", "A", "B"}
	}
	return []string{"A"}
}

// LineOn is a LineHome in words.
func LineOn(home string) string {
	switch home {
	case "first":
		return "the first node"
	case "A":
		return "the first CPU's node"
	case "B":
		return "the second CPU's node"
	}
	return home
}
