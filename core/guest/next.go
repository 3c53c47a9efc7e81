package guest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Kind is how guests are reached: through their hypervisor's manager alone.
const Kind workload.Kind = "guest"

// ErrGone is wrapped when a guest, or a run of it, is not there.
var ErrGone = errors.New("no such guest")

// Next is where a guest is when it is started next, as plan.SetNext has it. As text a
// shared guest's is "CPUS/NODES", such as "0-3/0"; a dedicated one's has a CPU for each
// vCPU and, where it is known, a node for each cell that the guest sees:
// "0=2 1=3 emulator=2-3/0-1 cell0=0 cell1=1". "" is nowhere. Behind it may be what it is to be
// near to from now on: "0-3/0 near=device=eth1,policy=required", or "near=" for nothing.
type Next struct {
	CPUs     topology.CPUSet
	Nodes    topology.NodeSet  // of its memory
	Pins     []topology.CPUID  // the CPU of each vCPU, when each has one
	VCPUs    []topology.CPUSet // placed cell by cell: the CPUs of each vCPU, some of which float
	Emulator topology.CPUSet   // dedicated: of emulator and IOThreads
	Cells    []topology.NodeID // the node of each cell; nil when that is not said
	Near     *string           // for good, as workload.NearText has it; nil leaves that as it is
}

// Next is a home as text.
func (h *Home) Next() string { return h.next().String() }

func (h *Home) next() Next {
	p := &h.Placement
	n := Next{CPUs: p.CPUs, Nodes: h.MemoryNodes()}
	switch {
	case h.Cells != nil:
		n.VCPUs = h.VCPUs
		n.Emulator = h.Emulator
		n.Cells = h.Cells
	case p.Class == workload.Dedicated:
		n.Pins, n.Emulator = p.Pins, h.Emulator
	}
	return n
}

func (n Next) String() string {
	var b strings.Builder
	if len(n.Pins)+len(n.VCPUs) == 0 {
		fmt.Fprintf(&b, "%s/%s", n.CPUs, n.Nodes)
	} else {
		for i, cpu := range n.Pins {
			fmt.Fprintf(&b, "%d=%d ", i, cpu)
		}
		for i := len(n.Pins); i < len(n.VCPUs); i++ {
			fmt.Fprintf(&b, "%d=%s ", i, n.VCPUs[i])
		}
		fmt.Fprintf(&b, "emulator=%s/%s", n.Emulator, n.Nodes)
		for i, node := range n.Cells {
			fmt.Fprintf(&b, " cell%d=%d", i, node)
		}
	}
	if n.Near != nil {
		b.WriteString(" near=" + strings.Join(strings.Fields(*n.Near), " near="))
	}
	return b.String()
}

// ParseNext reads what String wrote.
func ParseNext(text string) (n Next, err error) {
	cpus, nodes, _ := strings.Cut(text, "/")
	wrong := func() (Next, error) {
		return Next{}, fmt.Errorf("next start %q: want CPUS/NODES, or VCPU=CPU … emulator=CPUS/NODES", text)
	}
	if strings.Contains(cpus, "=") {
		for word := range strings.FieldsSeq(cpus) {
			key, value, _ := strings.Cut(word, "=")
			if key == "emulator" {
				if n.Emulator, err = topology.ParseCPUSet(value); err != nil {
					return wrong()
				}
				continue
			}
			set, err := topology.ParseCPUSet(value)
			if err != nil || key != strconv.Itoa(len(n.VCPUs)) || set.Empty() {
				return wrong()
			}
			n.VCPUs, n.CPUs = append(n.VCPUs, set), n.CPUs.Union(set)
		}
		if n.CPUs.Len() == len(n.VCPUs) &&
			!slices.ContainsFunc(n.VCPUs, func(s topology.CPUSet) bool { return s.Len() != 1 }) {
			for _, set := range n.VCPUs {
				n.Pins = append(n.Pins, set.Min())
			}
		}
	} else if n.CPUs, err = topology.ParseCPUSet(cpus); err != nil {
		return wrong()
	}
	words := strings.Fields(nodes)
	if len(words) == 0 || n.CPUs.Empty() {
		return wrong()
	}
	if n.Nodes, err = topology.ParseNodeSet(words[0]); err != nil || n.Nodes.Empty() {
		return wrong()
	}
	for _, word := range words[1:] {
		if wish, ok := strings.CutPrefix(word, "near="); ok {
			near := wish
			if n.Near != nil {
				near = *n.Near + " " + wish
			}
			if _, err := workload.ParseNear(near); near != "" && err != nil {
				return wrong()
			}
			n.Near = &near
			continue
		}
		value, ok := strings.CutPrefix(word, fmt.Sprintf("cell%d=", len(n.Cells)))
		node, err := strconv.Atoi(value)
		if !ok || err != nil || node < 0 {
			return wrong()
		}
		n.Cells = append(n.Cells, topology.NodeID(node))
	}
	return n, nil
}

// Placement is as much of a home as the text tells.
func (n *Next) Placement() plan.Placement {
	p := plan.Placement{Class: workload.Shared, Importance: workload.DefaultImportance, CPUs: n.CPUs, Home: n.Nodes}
	if len(n.Pins) > 0 {
		p.Class = workload.Dedicated
		p.Pins = slices.Clone(n.Pins)
		p.VCPUs = len(n.Pins)
		p.Bound = true
		for node := range n.Nodes.All() { // how much on each is not told
			p.Memory = append(p.Memory, workload.NodeMemory{Node: node, KiB: 1})
		}
	}
	return p
}

// Wish has a guest be near to something else for good than its mark says: Steps write it.
func (s *Guest) Wish(near []workload.Near) {
	s.Spec.Near = slices.Concat(near, s.Spec.Near[len(s.Near):])
	s.Near, s.Wished = near, true
}

// next is the next start of a guest at a home, as text.
func (s *Guest) next(home *Home) string {
	n := home.next()
	if s.Wished {
		n.Near = new(workload.NearText(s.Near))
	}
	return n.String()
}

// Steps brings a guest to a home: as it runs, where that can be, and by its definition
// for its next start. now is false when it comes there at its next start only: the
// nodes of running memory change in mode restrictive alone, which is not that of
// dedicated guests.
func (s *Guest) Steps(home Home) (steps []plan.Step, now bool) {
	step := func(kind plan.StepKind, from, to string) {
		steps = append(steps, plan.Step{Kind: kind, Workload: s.Spec.ID, Target: plan.Target{Kind: Kind}, From: from,
			To: to})
	}
	p := &home.Placement
	if s.Composed.Floats() {
		return s.cellSteps(&home)
	}
	// What floats within the cells of a guest changes while they stay where they are.
	within := home.Cells == nil && s.Composed != nil && p.Home.Equal(s.Home.Placement.Home)
	now = !s.Running || (p.Class == workload.Shared && (s.Mode == "restrictive" || within))
	if s.Running && now {
		if !p.CPUs.Equal(s.BoundCPUs) || s.Loose {
			step(plan.SetCPUs, s.BoundCPUs.String(), p.CPUs.String())
		}
		if nodes := home.MemoryNodes(); !within && !nodes.Equal(s.BoundNodes) {
			step(plan.SetMems, s.BoundNodes.String(), nodes.String())
		}
	}
	if !s.Transient {
		step(plan.SetNext, "", s.next(&home))
	}
	return steps, now
}

// cellSteps brings the cells of a guest of which all vCPUs float to a home of all of them, or,
// as what makes way for others has it, one of them to its own. As it runs the memory of a cell
// is brought after its vCPUs by the daemon, page by page.
func (s *Guest) cellSteps(home *Home) (steps []plan.Step, now bool) {
	now = !s.Running || s.Mode == ""
	step := func(kind plan.StepKind, id workload.ID, from, to string) {
		steps = append(steps, plan.Step{Kind: kind, Workload: id, Target: plan.Target{Kind: Kind}, From: from, To: to})
	}
	for k := range s.Composed.Cells {
		id := CellID(s.Name, k)
		was, to := s.Home.VCPUs[s.Composed.Cells[k].VCPUs.Min()], home.Placement.CPUs
		switch {
		case home.Cells != nil:
			to = home.VCPUs[s.Composed.Cells[k].VCPUs.Min()]
		case home.Placement.Workload != id:
			continue
		}
		if s.Running && now && !was.Equal(to) {
			step(plan.SetCPUs, id, was.String(), to.String())
		}
		if home.Cells == nil && !s.Transient {
			step(plan.SetNext, id, "", to.String()+"/"+home.Placement.Home.String())
		}
	}
	if home.Cells != nil && !s.Transient {
		step(plan.SetNext, s.Spec.ID, "", s.next(home))
	}
	return steps, now
}

// Reverse is what restores what steps did to a guest as it runs, the last first.
// Definitions are written last, all or nothing.
func Reverse(steps []plan.Step) []plan.Step {
	var out []plan.Step
	for _, s := range slices.Backward(steps) {
		if s.Kind != plan.SetNext && s.From != "" {
			s.From, s.To = s.To, s.From
			out = append(out, s)
		}
	}
	return out
}

// String is limits as plan.SetLimits has them: "network=102400 iops=2000 iops/gib=5 …",
// in KiB and operations a second; what is left as it is has no word.
func (l Limits) String() string {
	var words []string
	if l.Network != nil {
		words = append(words, fmt.Sprintf("network=%d", *l.Network))
		for i, value := range []topology.KiB{l.Burst.Peak, l.Burst.Size} {
			if value > 0 {
				words = append(words, fmt.Sprintf("%s=%d", burstWords[i], value))
			}
		}
	}
	if l.Disk != nil {
		for i, value := range l.Disk.fields() {
			if *value != 0 || diskWords[i] == "iops" || diskWords[i] == "rate" {
				words = append(words, fmt.Sprintf("%s=%d", diskWords[i], *value))
			}
		}
	}
	return strings.Join(words, " ")
}

var (
	diskWords = []string{"iops", "iops/gib", "iops-most", "rate", "rate/gib", "rate-most", "iops-burst", "rate-burst",
		"burst-seconds"}
	burstWords = []string{"network-peak", "network-burst"}
)

func (d *DiskLimit) fields() []*int64 {
	return []*int64{&d.IOPS, &d.IOPSPerGiB, &d.MostIOPS, (*int64)(&d.Rate), (*int64)(&d.RatePerGiB),
		(*int64)(&d.MostRate),
		&d.BurstIOPS, (*int64)(&d.BurstRate), &d.Seconds}
}

// ParseLimits reads what String wrote.
func ParseLimits(text string) (Limits, error) {
	var l Limits
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if k := slices.Index(burstWords, key); k >= 0 && err == nil && n >= 0 && n <= maxLimit {
			*[]*topology.KiB{&l.Burst.Peak, &l.Burst.Size}[k] = topology.KiB(n)
			continue
		}
		i := slices.Index(diskWords, key)
		if err != nil || n < 0 || n > maxLimit || (i < 0 && key != "network") {
			return l, fmt.Errorf("limits %q: %w", text, cmp.Or(err, fmt.Errorf("%q", word)))
		}
		if i < 0 {
			l.Network = new(topology.KiB(n))
			continue
		}
		if l.Disk == nil {
			l.Disk = &DiskLimit{}
		}
		*l.Disk.fields()[i] = n
	}
	return l, nil
}
