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

// script is what happens in a House, without end: a number of tenants that stay, restart, grow
// and get busy, and others that come and go.
type script struct {
	nodes   int
	random  *rand.Rand
	at      time.Duration            // what has been made up reaches to here
	pending []Event                  // rising by time
	stay    []Event                  // arrivals of those that stay
	taken   map[string]time.Duration // until when something goes on with one of them
	serial  int
}

// staying is what each node has of its own when the story begins, in turn: services, guests, pods
// as NAMESPACE/POD/CONTAINER, and batch work.
var staying = []struct {
	kind, name string
	class      workload.Class
	vcpus      int
	busy, gib  float64
	streams    float64 // memory traffic beside the common
}{
	{"service", "postgresql", workload.Shared, 4, 0.5, 9, 1.5},
	{"guest", "db", workload.Dedicated, 4, 0.7, 12, 1},
	{"batch", "encode", workload.Batch, 6, 1, 4, 2},
	{"pod", "shop/cart-%05x/app", workload.Shared, 2, 0.4, 3, 1},
	{"service", "redis", workload.Shared, 2, 0.6, 6, 2},
	{"pod", "shop/checkout-%05x/app", workload.Shared, 2, 0.5, 4, 1},
	{"service", "kafka", workload.Shared, 4, 0.4, 7, 2},
	{"guest", "web", workload.Dedicated, 2, 0.6, 8, 1},
	{"batch", "reindex", workload.Batch, 4, 1, 4, 2},
	{"pod", "media/transcode-%05x/ffmpeg", workload.Shared, 6, 0.8, 5, 3},
	{"service", "elasticsearch", workload.Shared, 4, 0.5, 10, 1.5},
	{"pod", "ml/infer-%05x/server", workload.Shared, 4, 0.7, 6, 3},
	{"service", "clickhouse", workload.Shared, 6, 0.6, 12, 3},
	{"guest", "mail", workload.Dedicated, 2, 0.4, 6, 1},
	{"pod", "shop/search-%05x/solr", workload.Shared, 3, 0.5, 5, 2},
	{"service", "prometheus", workload.Shared, 2, 0.5, 5, 1},
	{"pod", "data/spark-%05x/worker", workload.Shared, 4, 0.8, 8, 3},
	{"service", "nginx", workload.Shared, 2, 0.6, 1, 1},
	{"guest", "build", workload.Dedicated, 6, 0.8, 10, 1.5},
	{"pod", "data/airflow-%05x/scheduler", workload.Shared, 1, 0.4, 2, 1},
}

// visiting is the pods that come and go.
var visiting = []string{"shop/cart", "shop/search", "shop/payments", "media/thumbs", "media/transcode", "data/etl", "ml/train", "ml/infer"}

// commands is the processes that come and go.
var commands = []string{"rustc", "ninja", "pytest", "ffmpeg", "gradle", "blender"}

const (
	tenants = 4 // that stay, for each node
	torn    = 5 // one in so many has its memory here and there when the story begins
)

func newScript(nodes int, seed uint64) *script {
	s := &script{nodes: nodes, random: rand.New(rand.NewPCG(seed, 0x686f757365)), taken: map[string]time.Duration{}}
	for k := range tenants * nodes {
		t, round := &staying[k%len(staying)], k/len(staying)
		d := Demand{Class: t.class, Importance: workload.DefaultImportance, VCPUs: t.vcpus, Busy: s.about(t.busy), Memory: s.gib(t.gib),
			Bandwidth: int64(float64(t.vcpus*bandwidthPerCPU) * t.streams), Lies: topology.Nodes(topology.NodeID(k % nodes))}
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
		if k%torn == 0 {
			d.Lies = s.anywhere(3)
		}
		e := Event{At: time.Duration(k) * 10 * time.Millisecond, Op: Arrive, Name: name, Demand: d}
		s.stay = append(s.stay, e)
		s.put(e)
	}
	s.at = 12 * time.Second
	return s
}

// houseRules is the configuration of a House: what has no manager that says its class and tier.
func houseRules() []workload.Rule {
	return []workload.Rule{{Match: "/batch.slice/**", Class: workload.Batch}, {Match: "/system.slice/postgresql*", Tier: workload.OnlineStrict}, {Match: "/system.slice/nginx*", Tier: workload.Online}}
}

// about is x give or take a fifth.
func (s *script) about(x float64) float64 { return min(1, x*(0.8+0.4*s.random.Float64())) }

func (s *script) gib(x float64) topology.KiB {
	return topology.KiB(x*(0.8+0.4*s.random.Float64())*1024) << 10
}

// pod is the cgroup of another container.
func (s *script) pod() string {
	s.serial++
	return fmt.Sprintf("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%08x.slice/cri-containerd-%012x.scope", s.random.Uint32(), s.random.Uint64()>>16)
}

// anywhere is up to n nodes by chance.
func (s *script) anywhere(n int) topology.NodeSet {
	var out topology.NodeSet
	for range n {
		out = out.Union(topology.Nodes(topology.NodeID(s.random.IntN(s.nodes))))
	}
	return out
}

func (s *script) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

func (s *script) put(e Event) {
	k, _ := slices.BinarySearchFunc(s.pending, e.At, func(x Event, at time.Duration) int { return cmp.Or(cmp.Compare(x.At, at), -1) })
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

// happen makes up one more thing. A larger house has more of them.
func (s *script) happen() {
	s.at += time.Duration(float64(s.between(3*time.Second, 9*time.Second)) * 8 / float64(max(2, s.nodes)))
	switch p := s.random.Float64(); {
	case p < 0.35:
		name := fmt.Sprintf("%s-%05x/app", visiting[s.random.IntN(len(visiting))], s.random.Uint32()>>12)
		s.visit(name, Demand{VCPUs: 1 + s.random.IntN(4), Memory: s.gib(3), Claim: workload.ID(name), Cgroup: s.pod()}, s.between(time.Minute, 4*time.Minute))
	case p < 0.5:
		s.serial++
		name := commands[s.random.IntN(len(commands))]
		s.visit(fmt.Sprintf("%s#%d", name, s.serial), Demand{VCPUs: 1 + s.random.IntN(3), Memory: s.gib(1.5), Bare: true}, s.between(30*time.Second, 2*time.Minute))
	case p < 0.7: // it is started anew, and finds its memory where there was room
		e := s.one(s.at + time.Second)
		s.put(Event{At: s.at, Op: Depart, Name: e.Name})
		e.At, e.Demand.Lies = s.at+time.Second, s.anywhere(2)
		s.put(e)
	case p < 0.85: // it grows, and shrinks again
		until := s.at + s.between(time.Minute, 2*time.Minute)
		e := s.one(until)
		e.Op = Change
		was := e.Demand.Memory
		e.At, e.Demand.Memory = s.at, was*3/2
		s.put(e)
		e.At, e.Demand.Memory = until, was
		s.put(e)
	default: // it gets busy, and calm again
		until := s.at + s.between(time.Minute, 3*time.Minute)
		e := s.one(until)
		e.Op = Change
		was := e.Demand
		e.At, e.Demand.Busy, e.Demand.Bandwidth = s.at, 1, was.Bandwidth*2
		s.put(e)
		e.At, e.Demand = until, was
		s.put(e)
	}
}

// one is one of those that stay, with which nothing else goes on until then. One that is free there
// always is: they are many, and few things go on at once.
func (s *script) one(until time.Duration) Event {
	e := s.stay[0]
	for k, at := len(s.stay), s.random.IntN(len(s.stay)); k > 0; k-- {
		if e = s.stay[(at+k)%len(s.stay)]; s.taken[e.Name] < s.at {
			break
		}
	}
	s.taken[e.Name] = max(until, s.taken[e.Name]) + time.Millisecond
	return e
}

// visit lets something come and go.
func (s *script) visit(name string, d Demand, stays time.Duration) {
	d.Class, d.Importance, d.Busy, d.Lies = workload.Shared, workload.DefaultImportance, s.about(0.7), s.anywhere(2)
	d.Bandwidth = int64(d.VCPUs * bandwidthPerCPU)
	s.put(Event{At: s.at, Op: Arrive, Name: name, Demand: d})
	s.put(Event{At: s.at + stays, Op: Depart, Name: name})
}
