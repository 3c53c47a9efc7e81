package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Kinds names the traces that can be generated.
var Kinds = []string{"steady", "churn", "phases", "burst", "mixed"}

// Generation says what to generate.
type Generation struct {
	Kind      string
	Host      *topology.Host
	Policy    plan.Policy
	Seed      uint64
	Events    int // how many; 0 is 1000
	Workloads int // that run at once on average; 0 is as many as keep three quarters of the CPUs busy
	// Found is the part of the jobs that do not ask for a home and are found
	// running, 0 to 1.
	Found float64
}

// DefaultFound is half: one is as worth trying as the other.
const DefaultFound = 0.5

// Limits of a generated trace.
const (
	defaultEvents = 1000
	maxEvents     = 10_000_000
	maxWorkloads  = 100_000
)

// sizes is vCPUs and how often: small ones are the most common and a few are
// large, as in public clouds (Hadary et al., "Protean: VM Allocation Service at
// Scale", OSDI 2020, and the mixes of the shared cases).
var sizes = []struct{ vcpus, weight int }{{1, 30}, {2, 30}, {4, 25}, {8, 10}, {16, 5}}

// meanBusy is the part of its vCPUs that a job keeps busy on average.
const meanBusy = 0.5

// generator makes up events.
type generator struct {
	Generation
	random *rand.Rand
	most   int          // vCPUs of the largest job
	meanV  float64      // vCPUs of the mean job
	perCPU topology.KiB // memory of a vCPU
	events []Event
	n      int // jobs so far
}

// Generate makes a trace up.
func Generate(g Generation) (*Trace, error) {
	g.Events = cmp.Or(g.Events, defaultEvents)
	switch {
	case !slices.Contains(Kinds, g.Kind):
		return nil, fmt.Errorf("kind %q; want %s", g.Kind, strings.Join(Kinds, ", "))
	case g.Events < 2 || g.Events > maxEvents:
		return nil, fmt.Errorf("%d events; want 2 to %d", g.Events, maxEvents)
	case !(g.Found >= 0 && g.Found <= 1):
		return nil, fmt.Errorf("found %v; want 0 to 1", g.Found)
	case g.Workloads < 0 || g.Workloads > maxWorkloads:
		return nil, fmt.Errorf("%d workloads; want 1 to %d, or 0 for as many as suit the host", g.Workloads,
			maxWorkloads)
	}
	t := &Trace{Name: "generated " + g.Kind, Host: g.Host, Policy: g.Policy}
	if err := usable(t); err != nil {
		return nil, err
	}
	x := &generator{Generation: g, random: rand.New(rand.NewPCG(g.Seed, 0x7472616365))}
	x.scale()
	switch g.Kind {
	case "steady":
		x.steady()
	case "churn":
		x.churn(x.anyDemand)
	case "phases":
		x.phases()
	case "burst":
		x.burst()
	case "mixed":
		x.churn(x.mixedDemand)
	}
	slices.SortStableFunc(x.events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(x.events) > g.Events {
		x.events = x.events[:g.Events]
	}
	t.Events = x.events
	return t, nil
}

// scale fits sizes to the host.
func (x *generator) scale() {
	h := x.Host
	cpus := h.Online.Intersect(h.Allowed).Minus(x.Policy.Reserved).Len()
	memory := topology.KiB(0)
	for i := range h.Nodes {
		if n := &h.Nodes[i]; h.AllowedMems.Has(n.ID) && n.Memory > 0 {
			memory += n.Memory
		}
	}
	memory = cmp.Or(memory, topology.KiB(cpus)*2<<20)
	x.most = max(1, cpus/2)
	weights := 0
	for _, s := range sizes {
		x.meanV += float64(s.weight * min(s.vcpus, x.most))
		weights += s.weight
	}
	x.meanV /= float64(weights)
	x.Workloads = cmp.Or(x.Workloads, max(2, int(0.75*float64(cpus)/(x.meanV*meanBusy))))
	// Jobs have one, two or four of these for each vCPU, two on average, and hold
	// three fifths of the memory together.
	per := 0.6 * float64(memory) / (float64(x.Workloads) * x.meanV * 2)
	x.perCPU = min(2<<20, topology.KiB(per)>>12<<12)
	x.perCPU = max(x.perCPU, 4<<10)
}

func (x *generator) exponential(mean time.Duration) time.Duration {
	return time.Duration(x.random.ExpFloat64() * float64(mean))
}

func (x *generator) chance(p float64) bool { return x.random.Float64() < p }

// demand is a shared job.
func (x *generator) demand() Demand {
	weights := 0
	for _, s := range sizes {
		weights += s.weight
	}
	k := x.random.IntN(weights)
	v := 1
	for _, s := range sizes {
		if v = s.vcpus; k < s.weight {
			break
		}
		k -= s.weight
	}
	d := Demand{Class: workload.Shared, Importance: workload.DefaultImportance, VCPUs: min(v, x.most)}
	d.Memory = x.perCPU * topology.KiB(d.VCPUs) << []int{0, 0, 1, 1, 2}[x.random.IntN(5)]
	d.Asked = d.Memory
	d.Busy = 0.2 + 0.6*x.random.Float64()
	d.Bandwidth = x.bandwidth(d.VCPUs)
	d.Asks = !x.chance(x.Found)
	return d
}

// bandwidth is that of a few jobs that stream and many that do not; a busy CPU
// has bandwidthPerCPU on average.
func (x *generator) bandwidth(vcpus int) int64 {
	per := bandwidthPerCPU / 2
	if x.chance(0.15) {
		per = bandwidthPerCPU * 23 / 6
	}
	return int64(per * vcpus)
}

// anyDemand is mostly shared, with some of the other classes.
func (x *generator) anyDemand() Demand {
	d := x.demand()
	switch p := x.random.Float64(); {
	case p < 0.2:
		x.dedicate(&d)
	case p < 0.35:
		d.Class, d.Busy = workload.Batch, 1
	}
	return d
}

// mixedDemand is all classes alike, with everything that jobs can have.
func (x *generator) mixedDemand() Demand {
	d := x.demand()
	switch p := x.random.Float64(); {
	case p < 0.35:
		x.dedicate(&d)
	case p < 0.55:
		d.Class, d.Busy = workload.Batch, 1
	case p < 0.65:
		d.Importance = 90
	case p < 0.68:
		d.Pinned = !d.Asks
	}
	if devices := x.Host.Devices; d.Asks && len(devices) > 0 && x.chance(0.2) {
		d.Near = []string{devices[x.random.IntN(len(devices))].Name}
	}
	return d
}

// dedicate makes a job dedicated. Those that do not ask come in few sizes, for
// each is a rule of the configuration.
func (x *generator) dedicate(d *Demand) {
	d.Class = workload.Dedicated
	if !d.Asks {
		d.VCPUs = min(x.most, 2+2*x.random.IntN(2))
		d.Memory = x.perCPU * topology.KiB(d.VCPUs) * 2
		d.Asked = d.Memory
		d.Bandwidth = x.bandwidth(d.VCPUs)
	}
}

func (x *generator) add(at time.Duration, op Op, name string, d Demand) {
	x.events = append(x.events, Event{At: at, Op: op, Name: name, Demand: d})
}

func (x *generator) name(d *Demand) string {
	x.n++
	return fmt.Sprintf("%s-%d", d.Class, x.n)
}

// churnLife is how long a job lives on average in churn: short, so that a long
// trace is an hour and not a month.
const churnLife = 2 * time.Minute

// churn is Poisson arrivals and exponential lives.
func (x *generator) churn(draw func() Demand) {
	gap := churnLife / time.Duration(x.Workloads)
	at := time.Duration(0)
	for range x.Events {
		d := draw()
		name := x.name(&d)
		x.add(at, Arrive, name, d)
		x.add(at+x.exponential(churnLife), Depart, name, d)
		at += x.exponential(gap)
	}
}

// steady fills the host in a minute and then changes little: one job ends and
// another begins every ten seconds or so.
func (x *generator) steady() {
	live := make([]string, 0, x.Workloads)
	demands := map[string]Demand{}
	begin := func(at time.Duration) {
		d := x.demand()
		name := x.name(&d)
		live, demands[name] = append(live, name), d
		x.add(at, Arrive, name, d)
	}
	first := min(x.Workloads, x.Events)
	for k := range first {
		begin(time.Minute * time.Duration(k) / time.Duration(first))
	}
	for at := time.Minute; len(x.events) < x.Events; {
		at += x.exponential(10 * time.Second)
		k := x.random.IntN(len(live))
		x.add(at, Depart, live[k], demands[live[k]])
		live = slices.Delete(live, k, k+1)
		begin(at + time.Second)
	}
}

// phases is jobs that stay and change: a night with little to do, a day, a rush
// with more memory and three times the bandwidth.
func (x *generator) phases() {
	jobs := min(x.Workloads, max(1, x.Events/2))
	names, demands := make([]string, jobs), make([]Demand, jobs)
	for k := range jobs {
		d := x.anyDemand()
		d.Asked = d.Memory
		names[k], demands[k] = x.name(&d), d
		x.add(time.Minute*time.Duration(k)/time.Duration(jobs), Arrive, names[k], d)
	}
	for at := time.Minute; len(x.events) < x.Events; {
		at += x.exponential(time.Minute / time.Duration(jobs))
		k := x.random.IntN(jobs)
		d := demands[k]
		switch x.random.IntN(3) {
		case 0:
			d.Busy *= 0.1
			d.Memory /= 2
		case 1:
			d.Memory = d.Memory * 3 / 4
		case 2:
			d.Busy = min(1, d.Busy*1.5)
			d.Bandwidth *= 3
		}
		x.add(at, Change, names[k], d)
	}
}

// burst is a third of the host all the time, and now and then as much again at
// once, which goes together.
func (x *generator) burst() {
	base := max(1, min(x.Workloads/3, x.Events/2))
	for k := range base {
		d := x.anyDemand()
		x.add(time.Second*time.Duration(k), Arrive, x.name(&d), d)
	}
	for at := time.Minute; len(x.events) < x.Events; at += time.Minute + x.exponential(time.Minute) {
		life := 20*time.Second + x.exponential(40*time.Second)
		for range max(1, x.Workloads*2/3) {
			d := x.anyDemand()
			name := x.name(&d)
			x.add(at+x.exponential(500*time.Millisecond), Arrive, name, d)
			x.add(at+life+x.exponential(time.Second), Depart, name, d)
		}
	}
}
