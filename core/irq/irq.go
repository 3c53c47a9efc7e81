package irq

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Interrupt is one interrupt of a device that is in use.
type Interrupt struct {
	Number int
	Name   string          // what its handler is registered as: "eth0-TxRx-3", "nvme0q1"
	CPUs   topology.CPUSet // it may be delivered to
	Fixed  bool            // the kernel manages it and refuses changes
}

// Queue is one receive or transmit queue of a NIC.
type Queue struct {
	Name string          // "eth0/rx-0", "eth0/tx-0"
	CPUs topology.CPUSet // of RPS or XPS; empty when off
}

// Device is a PCI function with interrupts.
type Device struct {
	Name       string // kernel name, else the PCI address
	Kind       topology.DeviceKind
	PCI        string
	Node       topology.NodeID
	Interrupts []Interrupt // rising by number
	Rx, Tx     []Queue     // rising by number; those whose setting cannot be read are left out
	Channels   []Channels  // of its network devices that tell them
	NoChannels string      // why one does not, in words; "" when all do
}

// HasNumber reports whether an interrupt is one of some devices.
func HasNumber(devices []Device, number int) bool {
	is := func(x Interrupt) bool { return x.Number == number }
	return slices.ContainsFunc(devices, func(d Device) bool { return slices.ContainsFunc(d.Interrupts, is) })
}

// Channels is how many queue pairs a network device uses, receive and transmit
// together (ethtool -l, "combined").
type Channels struct {
	Name string // of the network device: "eth0"
	Now  int
	Most int // the hardware has
}

// QueueCount says what is done about the number of queues of NICs.
type QueueCount string

// What may be done.
const (
	KeepQueues QueueCount = "keep" // leave it
	// one for each CPU that the device's interrupts may go to, as far as the hardware has them
	MatchQueues QueueCount = "match"
)

// Path names an interrupt of a device in steps and in the journal.
func Path(d *Device, x *Interrupt) string { return fmt.Sprintf("%s/%d", d.PCI, x.Number) }

// ID names a device where workloads are named: in steps and in the journal.
func (d *Device) ID() workload.ID { return workload.ID("device:" + d.Name) }

// Report is how one device stands.
type Report struct {
	Device     string
	Kind       topology.DeviceKind
	Node       topology.NodeID
	Interrupts int          // in use
	AtHome     int          // … that can only go to allowed CPUs
	Fixed      int          // … that the kernel manages
	Queues     int          // pairs in use; 0 when that is not told
	MostQueues int          // … that the hardware has
	Steps      int          // left to do
	Why        words.Reason // why something is left as it is; none when nothing is
}

// Plan is what to change and how every device stands, in the order of the devices.
type Plan struct {
	Steps   []plan.Step
	Reports []Report
}

// Decide plans the interrupts and queues of devices. avoid is the CPUs that somebody
// has for himself: dedicated work, other managers.
//
// Steps of one device are to be carried out in their order. A change of its number of
// queues comes first and makes its interrupts anew: where it succeeds, the steps after
// it are about what is no longer so.
func Decide(h *topology.Host, avoid topology.CPUSet, devices []Device, queues QueueCount) Plan {
	var p Plan
	deals := map[topology.NodeID]*deal{}
	for i := range devices {
		d := &devices[i]
		if deals[d.Node] == nil {
			deals[d.Node] = newDeal(h, Allowed(h, avoid, d.Node))
		}
		deals[d.Node].add(d)
	}
	for _, t := range deals { // each by itself: their order does not matter
		t.settle()
	}
	for i := range devices {
		d := &devices[i]
		t := deals[d.Node]
		r := Report{Device: d.Name, Kind: d.Kind, Node: d.Node, Interrupts: len(d.Interrupts), Why: t.why(h, d)}
		for _, x := range d.Interrupts {
			if !x.CPUs.Empty() && x.CPUs.SubsetOf(t.allowed) {
				r.AtHome++
			}
			if x.Fixed {
				r.Fixed++
			}
		}
		for _, c := range d.Channels {
			r.Queues, r.MostQueues = r.Queues+c.Now, r.MostQueues+c.Most
		}
		steps := t.steps(d)
		if queues == MatchQueues {
			steps = append(t.counts(d), steps...)
			if r.Why.None() && d.NoChannels != "" {
				r.Why = words.Because(words.QueuesKept, d.NoChannels)
			}
		}
		r.Steps = len(steps)
		p.Steps, p.Reports = append(p.Steps, steps...), append(p.Reports, r)
	}
	return p
}

// Allowed is the CPUs that interrupts of a node's devices may go to.
func Allowed(h *topology.Host, avoid topology.CPUSet, node topology.NodeID) topology.CPUSet {
	if n := h.Node(node); n != nil {
		return n.CPUs.Intersect(h.Online).Minus(avoid)
	}
	return topology.CPUSet{}
}

// deal gives the lanes of one node's devices to its CPUs.
type deal struct {
	allowed topology.CPUSet
	order   []topology.CPUID // one of each core first
	core    map[topology.CPUID]int
	lanes   []*lane
	onCPU   map[topology.CPUID]int
	onCore  map[int]int
	given   map[*Interrupt]topology.CPUID
}

// lane is the interrupts of one queue.
type lane struct {
	interrupts []*Interrupt
}

func newDeal(h *topology.Host, allowed topology.CPUSet) *deal {
	t := &deal{allowed: allowed, core: map[topology.CPUID]int{}, onCPU: map[topology.CPUID]int{}, onCore: map[int]int{},
		given: map[*Interrupt]topology.CPUID{}}
	rank := map[topology.CPUID]int{} // among the allowed CPUs of its core
	for i, c := range h.Cores {
		for k, cpu := range c.CPUs.Intersect(allowed).Slice() {
			t.core[cpu], rank[cpu] = i, k
		}
	}
	t.order = allowed.Slice()
	for k, cpu := range t.order {
		if _, known := rank[cpu]; !known { // a core of its own
			t.core[cpu], rank[cpu] = -1-k, 0
		}
	}
	slices.SortStableFunc(t.order, func(a, b topology.CPUID) int { return cmp.Compare(rank[a], rank[b]) })
	return t
}

// add takes the lanes of a device in.
func (t *deal) add(d *Device) {
	byNumber := map[string]*lane{}
	spread := wholeMachine(d, t.allowed)
	for i := range d.Interrupts {
		x := &d.Interrupts[i]
		number, ok := queueOf(x.Name)
		if !ok || x.Fixed || (spread && ioQueue(x.Name)) {
			continue
		}
		l := byNumber[number]
		if l == nil {
			l = &lane{}
			byNumber[number] = l
			t.lanes = append(t.lanes, l)
		}
		l.interrupts = append(l.interrupts, x)
	}
}

// settle gives every lane a CPU: first those that may stay, then the others to
// the CPU with the least.
func (t *deal) settle() {
	n := len(t.order)
	if n == 0 {
		return
	}
	most := (len(t.lanes) + n - 1) / n
	var left []*lane
	for _, l := range t.lanes {
		if cpu := l.at(); t.allowed.Has(cpu) && t.onCPU[cpu] < most {
			t.give(l, cpu)
		} else {
			left = append(left, l)
		}
	}
	for _, l := range left {
		best := t.order[0]
		for _, cpu := range t.order[1:] {
			if cmp.Or(cmp.Compare(t.onCPU[cpu], t.onCPU[best]),
				cmp.Compare(t.onCore[t.core[cpu]], t.onCore[t.core[best]])) < 0 {
				best = cpu
			}
		}
		t.give(l, best)
	}
}

func (t *deal) give(l *lane, cpu topology.CPUID) {
	t.onCPU[cpu]++
	t.onCore[t.core[cpu]]++
	for _, x := range l.interrupts {
		t.given[x] = cpu
	}
}

// at is the one CPU that the lane's first interrupt goes to, or -1.
func (l *lane) at() topology.CPUID {
	if x := l.interrupts[0]; x.CPUs.Len() == 1 {
		return x.CPUs.Min()
	}
	return -1
}

// steps is what differs on a device.
func (t *deal) steps(d *Device) []plan.Step {
	if t.allowed.Empty() {
		return nil
	}
	var out []plan.Step
	spread := wholeMachine(d, t.allowed)
	for i := range d.Interrupts {
		x := &d.Interrupts[i]
		path := fmt.Sprintf("%s/%d", d.PCI, x.Number)
		cpu, dealt := t.given[x]
		switch {
		case x.Fixed, spread && ioQueue(x.Name):
		case dealt && !x.CPUs.Equal(topology.CPUs(cpu)):
			out = append(out, step(d, plan.SetIRQ, path, x.CPUs, topology.CPUs(cpu),
				words.Because(words.IRQOfQueue, x.Name, d.Name, d.Node)))
		case !dealt && (x.CPUs.Empty() || !x.CPUs.SubsetOf(t.allowed)):
			out = append(out, step(d, plan.SetIRQ, path, x.CPUs, t.allowed,
				words.Because(words.IRQOfDevice, x.Name, d.Name, d.Node)))
		}
	}
	return append(out, t.queues(d)...)
}

// counts is the steps of the numbers of queues.
func (t *deal) counts(d *Device) []plan.Step {
	var out []plan.Step
	for _, c := range d.Channels {
		if want := min(c.Most, len(t.order)); want > 0 && want != c.Now {
			out = append(out, plan.Step{Kind: plan.SetQueues, Workload: d.ID(),
				Target: plan.Target{Kind: workload.InDevice, Device: d.PCI + "/" + c.Name},
				From:   strconv.Itoa(c.Now), To: strconv.Itoa(want),
				Reason: words.Because(words.QueuesForNode, c.Name, c.Most, len(t.order), d.Node)})
		}
	}
	return out
}

// queues is the steps of RPS and XPS.
func (t *deal) queues(d *Device) []plan.Step {
	var out []plan.Step
	n := len(t.order)
	for dev, rx := range byDevice(d.Rx) {
		for _, q := range rx {
			if len(rx) < n && !q.CPUs.Equal(t.allowed) {
				out = append(out, step(d, plan.SetRPS, d.PCI+"/"+q.Name, q.CPUs, t.allowed,
					words.Because(words.ReceiveQueues, dev, len(rx), n, d.Node)))
			}
		}
	}
	near := slices.Clone(t.order)
	slices.SortStableFunc(near, func(a, b topology.CPUID) int { return cmp.Compare(t.core[a], t.core[b]) })
	for dev, tx := range byDevice(d.Tx) {
		for k, q := range tx {
			part := topology.CPUs(near[k*n/len(tx) : (k+1)*n/len(tx)]...)
			if len(tx) > 1 && len(tx) < n && !q.CPUs.Equal(part) {
				out = append(out, step(d, plan.SetXPS, d.PCI+"/"+q.Name, q.CPUs, part,
					words.Because(words.TransmitQueues, dev, len(tx), n, d.Node)))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Step) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

// byDevice yields the queues of each network device of a function, in their order.
func byDevice(all []Queue) func(func(string, []Queue) bool) {
	return func(yield func(string, []Queue) bool) {
		for len(all) > 0 {
			dev, _, _ := strings.Cut(all[0].Name, "/")
			n := 1
			for n < len(all) && strings.HasPrefix(all[n].Name, dev+"/") {
				n++
			}
			if !yield(dev, all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

func step(d *Device, kind plan.StepKind, path string, from, to topology.CPUSet, reason words.Reason) plan.Step {
	return plan.Step{Kind: kind, Workload: d.ID(), Target: plan.Target{Kind: workload.InDevice, Device: path},
		From: from.String(), To: to.String(), Reason: reason}
}

// why says what of a device is left as it is.
func (t *deal) why(h *topology.Host, d *Device) words.Reason {
	switch {
	case t.allowed.Empty() && Allowed(h, topology.CPUSet{}, d.Node).Empty():
		return words.Because(words.NodeNoCPU, d.Node)
	case t.allowed.Empty():
		return words.Because(words.NoneForIRQs, d.Node)
	case wholeMachine(d, t.allowed):
		return words.Because(words.QueuePerCPU)
	}
	return words.Reason{}
}

// wholeMachine reports whether an NVMe drive has more I/O queues than its node has
// CPUs for them.
func wholeMachine(d *Device, allowed topology.CPUSet) bool {
	if d.Kind != topology.NVMe {
		return false
	}
	n := 0
	for i := range d.Interrupts {
		if ioQueue(d.Interrupts[i].Name) {
			n++
		}
	}
	return n > allowed.Len()
}

// ioQueue reports whether an interrupt is of an NVMe queue other than that of
// administration: "nvme0q0" (nvme_pci's queue_request_irq).
func ioQueue(name string) bool {
	number, ok := queueOf(name)
	return ok && strings.HasPrefix(name, "nvme") && number != "0"
}

// queueOf reads the number of a queue from the name of an interrupt, which drivers
// choose: "virtio0-input.1", "eth0-TxRx-1", "mlx5_comp1@pci:0000:81:00.0",
// "nvme0q1", "vfio-msix[1](0000:81:00.1)".
func queueOf(name string) (string, bool) {
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, "(")
	name = strings.TrimSuffix(name, "]")
	number := name[len(strings.TrimRight(name, "0123456789")):]
	return number, number != ""
}

// Check re-checks steps, whatever made them, against the machine: each must lead an
// interrupt or a queue of one of the devices to CPUs that its device's interrupts
// may go to, or give a network device queues that it has and for which there are CPUs. It returns the first broken rule
// in words, or "".
func Check(h *topology.Host, avoid topology.CPUSet, devices []Device, steps []plan.Step) string {
	for _, s := range steps {
		i := slices.IndexFunc(devices,
			func(d Device) bool { return d.ID() == s.Workload && strings.HasPrefix(s.Target.Device, d.PCI+"/") })
		if i < 0 {
			return fmt.Sprintf("a %s step is for %s of %s, which is no device here", s.Kind, s.Target.Device,
				s.Workload)
		}
		allowed := Allowed(h, avoid, devices[i].Node)
		if s.Kind == plan.SetQueues {
			k := slices.IndexFunc(devices[i].Channels,
				func(c Channels) bool { return devices[i].PCI+"/"+c.Name == s.Target.Device })
			if n, err := strconv.Atoi(s.To); k < 0 || err != nil || n < 1 || n > devices[i].Channels[k].Most ||
				n > allowed.Len() {
				return fmt.Sprintf("a %s step gives %s of %s %q queues", s.Kind, s.Target.Device, s.Workload, s.To)
			}
			continue
		}
		if to, err := topology.ParseCPUSet(s.To); err != nil || to.Empty() || !to.SubsetOf(allowed) {
			return fmt.Sprintf("a %s step leads %s of %s to CPUs %q; those of node %d that may be used are %v",
				s.Kind, s.Target.Device, s.Workload, s.To, devices[i].Node, allowed)
		}
	}
	return ""
}
