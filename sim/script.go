package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Story is what a House shows.
type Story string

// The stories, in the order of the keys that choose them.
const (
	KernelAlone    Story = "kernel"   // the kernel balances by itself; the daemon only watches
	HomenodeWorks  Story = "homenode" // the same work, and the daemon brings it home
	NoisyNeighbour Story = "noisy"    // a guest floods a node, then another
	BatchWork      Story = "batch"    // batch work runs on the CPUs that online work leaves
)

// Stories lists them.
var Stories = []Story{KernelAlone, HomenodeWorks, NoisyNeighbour, BatchWork}

// script is what happens in a House, without end. Tenants are there from the start and stay.
// Visitors come and go, one at a time, so that a person can follow.
type script struct {
	story   Story
	nodes   int
	random  *rand.Rand
	at      time.Duration // everything before this time is in pending
	pending []Event       // rising by time
	stay    []Event       // arrivals of the online tenants
	free    map[string]time.Duration
	serial  int
	turn    int // of what happens next
}

// tenant is work that each node has of its own, in turn: services, guests, pods as
// NAMESPACE/POD/CONTAINER.
type tenant struct {
	kind, name string
	class      workload.Class
	vcpus      int
	busy, gib  float64
	streams    float64 // memory traffic, in that of a common busy CPU
	own        bool    // it sets a memory policy itself, as databases under numactl and guests with numatune do
}

var tenants = []tenant{
	{"service", "postgresql", workload.Shared, 4, 0.5, 9, 1.5, true},
	{"guest", "db", workload.Dedicated, 4, 0.7, 12, 1, true},
	{"pod", "shop/cart-%05x/app", workload.Shared, 2, 0.4, 3, 1, false},
	{"service", "redis", workload.Shared, 2, 0.6, 6, 2, true},
	{"pod", "shop/checkout-%05x/app", workload.Shared, 2, 0.5, 4, 1, false},
	{"service", "kafka", workload.Shared, 4, 0.4, 7, 2, false},
	{"guest", "web", workload.Dedicated, 2, 0.6, 8, 1, false},
	{"service", "elasticsearch", workload.Shared, 4, 0.5, 10, 1.5, true},
	{"pod", "ml/infer-%05x/server", workload.Shared, 4, 0.6, 6, 3, false},
	{"service", "clickhouse", workload.Shared, 6, 0.4, 12, 3, true},
	{"guest", "mail", workload.Dedicated, 2, 0.4, 6, 1, true},
	{"pod", "shop/search-%05x/solr", workload.Shared, 3, 0.5, 5, 2, false},
	{"service", "prometheus", workload.Shared, 2, 0.5, 5, 1, false},
	{"pod", "data/spark-%05x/worker", workload.Shared, 4, 0.6, 8, 3, false},
	{"service", "nginx", workload.Shared, 2, 0.6, 1, 1, false},
	{"guest", "build", workload.Dedicated, 4, 0.6, 10, 1.5, false},
	{"service", "mariadb", workload.Shared, 4, 0.5, 8, 1.5, true},
	{"pod", "data/airflow-%05x/scheduler", workload.Shared, 1, 0.4, 2, 1, false},
}

// batches is the batch work, one for each node, and more in the story about it.
var batches = []tenant{
	{"batch", "encode", workload.Batch, 6, 1, 3, 1, false},
	{"batch", "reindex", workload.Batch, 4, 1, 2, 1, false},
	{"batch", "backup", workload.Batch, 2, 1, 1, 2, false},
	{"batch", "train", workload.Batch, 8, 1, 4, 1, false},
	{"batch", "report", workload.Batch, 4, 1, 2, 1, false},
}

// visiting is the pods that come and go.
var visiting = []string{"shop/cart", "shop/search", "shop/payments", "media/thumbs", "data/etl", "ml/infer"}

const (
	online      = 4   // tenants for each node
	startsLocal = 0.4 // local share of their accesses at the start of a story that begins badly placed
	// settled is when the first visitor comes: by then all tenants are home.
	settled = 130 * time.Second
)

func newScript(story Story, nodes int, seed uint64) *script {
	s := &script{story: story, nodes: nodes, random: rand.New(rand.NewPCG(seed, 0x686f757365)),
		free: map[string]time.Duration{}, at: settled}
	for k := range online * nodes {
		s.stay = append(s.stay, s.arrival(&tenants[k%len(tenants)], k/len(tenants), k%nodes))
	}
	if story == KernelAlone || story == HomenodeWorks {
		s.scatter()
	}
	for _, e := range s.stay {
		s.put(e)
	}
	each := 1
	if story == BatchWork {
		each = 3
		s.at = 20 * time.Second
	}
	if story == NoisyNeighbour {
		s.at = 15 * time.Second
	}
	for k := range each * nodes {
		e := s.arrival(&batches[k%len(batches)], k/len(batches), k%nodes)
		if story == BatchWork { // one after the other, so that the idle CPUs are seen to fill
			e.At = 6*time.Second + time.Duration(k)*12*time.Second/time.Duration(nodes)
		}
		s.put(e)
	}
	return s
}

// arrival is a tenant at the start, with its threads and its memory on a node. A second one of
// the same name has a number.
func (s *script) arrival(t *tenant, round, node int) Event {
	at := topology.Nodes(topology.NodeID(node))
	d := Demand{Class: t.class, Importance: workload.DefaultImportance, VCPUs: t.vcpus, Busy: s.about(t.busy),
		Memory:    s.gib(t.gib),
		Bandwidth: int64(float64(t.vcpus*bandwidthPerCPU) * t.streams), Runs: at, Lies: at}
	if t.own {
		d.Policy = "bind:" + at.String()
	}
	name := t.name
	switch t.kind {
	case "guest":
		name = fmt.Sprintf("vm:%s%d", t.name, round+1)
		d.Claim, d.Cgroup = workload.ID(name), fmt.Sprintf("/machine.slice/machine-qemu-%s%d.scope", t.name, round+1)
	case "pod":
		name = fmt.Sprintf(t.name, s.random.Uint32()>>12)
		d.Claim, d.Cgroup = workload.ID(name), s.pod()
	default:
		if round > 0 {
			name += fmt.Sprint("-", round+1)
		}
		name += ".service"
		d.Cgroup = map[string]string{"service": "/system.slice/", "batch": "/batch.slice/"}[t.kind] + name
	}
	return Event{Op: Arrive, Name: name, Demand: d}
}

// scatter lays the memory of the tenants as it lies on a host that was never looked after: of
// some at home, of some on another node, of some in pieces. It takes the largest first and
// keeps the local share of all together at startsLocal.
func (s *script) scatter() {
	if s.nodes == 1 {
		return
	}
	order := make([]*Demand, len(s.stay))
	for k := range s.stay {
		order[k] = &s.stay[k].Demand
	}
	use := func(d *Demand) float64 { return d.Busy * float64(d.VCPUs) }
	slices.SortStableFunc(order, func(a, b *Demand) int { return cmp.Compare(use(b), use(a)) })
	local, all := 0.0, 0.0
	for _, d := range order {
		home := d.Runs
		away := s.other(home)
		all += use(d)
		switch short := local < startsLocal*all; {
		case short && s.random.IntN(2) == 0: // at home
			local += use(d)
		case short: // in two pieces
			d.Lies = home.Union(away)
			local += use(d) / 2
		case s.nodes > 2 && s.random.IntN(3) > 0: // in three pieces
			d.Lies = home.Union(away).Union(s.other(home.Union(away)))
			local += use(d) / 3
		default: // all of it elsewhere
			d.Lies = away
		}
		switch {
		case d.Policy == "":
		case d.Lies.Len() > 1:
			d.Policy = "interleave:" + d.Lies.String()
		default:
			d.Policy = "bind:" + d.Lies.String()
		}
	}
}

// other is a node that is none of those.
func (s *script) other(than topology.NodeSet) topology.NodeSet {
	for {
		if n := topology.NodeID(s.random.IntN(s.nodes)); !than.Has(n) {
			return topology.Nodes(n)
		}
	}
}

// houseRules is the configuration of a House: what has no manager that says its class and tier.
func houseRules() []workload.Rule {
	return []workload.Rule{{Match: "/batch.slice/**", Class: workload.Batch},
		{Match: "/system.slice/postgresql*", Tier: workload.OnlineStrict},
		{Match: "/system.slice/nginx*", Tier: workload.Online}}
}

// about is x give or take a tenth.
func (s *script) about(x float64) float64 { return min(1, x*(0.9+0.2*s.random.Float64())) }

func (s *script) gib(x float64) topology.KiB {
	return topology.KiB(x*(0.9+0.2*s.random.Float64())*1024) << 10
}

// pod is the cgroup of another container.
func (s *script) pod() string {
	s.serial++
	return fmt.Sprintf(
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%08x.slice/cri-containerd-%012x.scope",
		s.random.Uint32(), s.random.Uint64()>>16)
}

func (s *script) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

func (s *script) put(e Event) {
	k, _ := slices.BinarySearchFunc(s.pending, e.At,
		func(x Event, at time.Duration) int { return cmp.Or(cmp.Compare(x.At, at), -1) })
	s.pending = slices.Insert(s.pending, k, e)
}

// next is the next event.
func (s *script) next() Event {
	for len(s.pending) == 0 || s.pending[0].At > s.at {
		s.happen()
	}
	e := s.pending[0]
	s.pending = s.pending[1:]
	return e
}

// happen makes up one more thing, and when the one after it comes.
func (s *script) happen() {
	s.turn++
	switch s.story {
	case NoisyNeighbour:
		s.noise()
		s.at += s.between(75*time.Second, 90*time.Second)
	case BatchWork:
		s.wave()
		s.at += s.between(40*time.Second, 50*time.Second)
	default:
		switch s.turn % 3 {
		case 0:
			s.busier(time.Minute, 1.3)
		default:
			s.visit()
		}
		s.at += s.between(25*time.Second, 45*time.Second)
	}
}

// noise is a guest that fills a node's CPUs and its memory bus for a minute.
func (s *script) noise() {
	node := topology.NodeID((s.turn - 1) % s.nodes)
	name := fmt.Sprintf("vm:noisy%d", s.turn)
	at := topology.Nodes(node)
	s.put(Event{At: s.at, Op: Arrive, Name: name,
		Demand: Demand{Class: workload.Shared, Importance: workload.DefaultImportance, VCPUs: 16, Busy: 1,
			Memory:    s.gib(4),
			Bandwidth: 16 * bandwidthPerCPU * 4, Claim: workload.ID(name),
			Cgroup: fmt.Sprintf("/machine.slice/machine-qemu-noisy%d.scope", s.turn), Runs: at, Lies: at}})
	s.put(Event{At: s.at + time.Minute, Op: Depart, Name: name})
}

// wave lets online work get busy on every second node, and calm again.
func (s *script) wave() {
	for k, e := range s.stay {
		if k%2 != s.turn%2 {
			continue
		}
		was := e.Demand
		e.Op, e.At = Change, s.at
		e.Demand.Busy, e.Demand.Bandwidth = min(1, was.Busy*1.4), was.Bandwidth*4/3
		s.put(e)
		e.At, e.Demand = s.at+25*time.Second, was
		s.put(e)
	}
}

// busier lets a tenant get busier for a while. One that is free there always is: they are many,
// and few things go on at once.
func (s *script) busier(lasts time.Duration, factor float64) {
	at := s.random.IntN(len(s.stay))
	for range s.stay {
		if s.free[s.stay[at].Name] < s.at {
			break
		}
		at = (at + 1) % len(s.stay)
	}
	e := s.stay[at]
	was := e.Demand
	e.Op, e.At = Change, s.at
	e.Demand.Busy, e.Demand.Bandwidth = min(1, was.Busy*factor), int64(float64(was.Bandwidth)*factor)
	s.put(e)
	e.At, e.Demand = s.at+lasts, was
	s.put(e)
	s.free[e.Name] = e.At
}

// visit lets a pod come, found in two pieces as the kernel starts it on a busy host, and go.
func (s *script) visit() {
	name := fmt.Sprintf("%s-%05x/app", visiting[s.random.IntN(len(visiting))], s.random.Uint32()>>12)
	vcpus := 1 + s.random.IntN(max(1, s.nodes/3))
	runs := topology.Nodes(topology.NodeID(s.random.IntN(s.nodes)))
	lies := runs
	if s.nodes > 1 {
		lies = runs.Union(s.other(runs))
	}
	s.put(Event{At: s.at, Op: Arrive, Name: name,
		Demand: Demand{Class: workload.Shared, Importance: workload.DefaultImportance, VCPUs: vcpus, Busy: s.about(0.6),
			Memory:    s.gib(2),
			Bandwidth: int64(vcpus * bandwidthPerCPU), Claim: workload.ID(name), Cgroup: s.pod(), Runs: runs,
			Lies: lies}})
	s.put(Event{At: s.at + s.between(2*time.Minute, 5*time.Minute), Op: Depart, Name: name})
}
