package control

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// BenchmarkScan is what follows a scan in enforce mode on 8 nodes of 32 CPUs. Calm: all
// workloads are at home and one in a hundred has changed since the scan before, in a way that
// nothing follows from. Crowded: two nodes have too much work and balancing
// weighs changes at every scan, in observe mode.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{300, 5000} {
		for _, crowded := range []bool{false, true} {
			name, want := "calm", []balance.State{balance.InOrder}
			if crowded { // of 5,000 no single one is worth a move
				name, want = "crowded", []balance.State{balance.Would, balance.NoChoice}
			}
			b.Run(fmt.Sprintf("%s/workloads=%d", name, n), func(b *testing.B) {
				h := settledHost(b, n, crowded)
				b.ReportAllocs()
				began := cpuUsed(b)
				for b.Loop() {
					h.scan()
				}
				b.ReportMetric((cpuUsed(b)-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
				if got := h.state.Balancing.State; !slices.Contains(want, got) {
					b.Fatalf("%s, want one of %s: %s", got, want, h.state.Balancing.Verdict())
				}
				if k := len(h.state.Plan.Steps); k > 0 {
					b.Fatalf("%d steps", k)
				}
			})
		}
	}
}

// cpuUsed is the CPU time of this process, the collector's too: what a scan costs
// whatever else the machine does.
func cpuUsed(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// settledScans is a state and the scans that go on around it.
type settledScans struct {
	state *State
	at    time.Time
	turns []workload.Snapshot // they share nothing, as two looks share nothing
}

func (h *settledScans) scan() Output {
	h.at = h.at.Add(2 * time.Second)
	h.state.Scans++
	in := Input{At: h.at, Scan: &Scan{Number: h.state.Scans, Began: h.at, Snapshot: h.turns[int(h.state.Scans)%len(h.turns)]}}
	var out Output
	h.state, out = Next(h.state, in)
	return out
}

// settledHost has n workloads with homes, which homenode has given them: two of three are
// cgroups, the others processes.
func settledHost(b testing.TB, n int, crowded bool) *settledScans {
	host := plantest.Grid(8, 16, 2, 512*plantest.GiB, func(i, j int) int {
		if i == j {
			return 10
		}
		return 20
	})
	policy := plan.DefaultPolicy()
	policy.Overcommit = max(policy.Overcommit, float64(n)/128) // all of them are to have a home
	settings := Settings{
		Enforce: true, Policy: policy, Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20}, Balance: balance.DefaultSettings(),
		Exclude: []string{"/init.scope", "/system.slice/ssh*"}, Interrupts: InterruptsReport,
		Rules: []workload.Rule{{Match: "/system.slice/db*", Class: workload.Shared, Importance: new(int)}},
	}
	*settings.Rules[0].Importance = workload.DefaultImportance
	random := rand.New(rand.NewPCG(1, 2))
	seen := make([]workload.Observation, n)
	for i := range seen {
		o := &seen[i]
		*o = workload.Observation{Threads: 8, Window: 2 * time.Second, CPUTime: time.Hour, CPUUse: 0.5 * 256 / float64(n)}
		o.Processes = []workload.Process{{PID: 1000 + 2*i, Start: uint64(i)}, {PID: 1001 + 2*i, Start: uint64(i)}}
		o.Kind, o.Name, o.Cgroup = workload.InCgroup, fmt.Sprintf("svc%05d", i), fmt.Sprintf("/kubepods.slice/kubepods-burstable.slice/svc%05d.scope", i)
		o.ID, o.CgroupID = workload.ID(o.Cgroup), uint64(i+1)
		if i%3 == 2 {
			o.Kind, o.Cgroup, o.ID, o.CgroupID = workload.InProcess, "/user.slice", ProcessID(o.Processes[0].PID), 0
		}
		o.RanOn, o.RanOnFrom = []workload.NodeShare{{Node: topology.NodeID(i % 8), Share: 1}}, workload.PerThread
		o.Memory = []workload.NodeMemory{{Node: topology.NodeID(i % 8), KiB: topology.KiB(64<<10 + random.IntN(256<<10))}}
		o.CPUs, o.Mems = host.Online, host.AllowedMems
	}
	slices.SortFunc(seen, func(x, y workload.Observation) int { return byID(x.ID, y.ID) })
	h := &settledScans{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), state: New(settings, Saved{})}
	h.turns = []workload.Snapshot{{Host: host, Observations: seen}}
	h.state.Settings.Enforce = false
	h.scan() // gives them homes
	saved := Saved{Placements: h.state.Plan.Placements, Chosen: h.state.Chosen}
	if len(saved.Placements) != n {
		b.Fatalf("%d of %d have a home", len(saved.Placements), n)
	}
	for i := range seen {
		o, p := &seen[i], &saved.Placements[i]
		node := p.Home.Min()
		o.CPUs, o.Memory[0].Node, o.RanOn[0].Node = p.CPUs, node, node
		saved.Seq++
		e := plan.Entry{Seq: saved.Seq, Time: h.at, Workload: o.ID, Kind: plan.CgroupCPUs, Path: o.Cgroup, New: p.CPUs.String(), State: plan.Applied, Object: fmt.Sprint(o.CgroupID)}
		if o.Kind == workload.InProcess {
			e.Kind, e.Path, e.Object, e.Old = plan.Affinity, plan.ProcessPath(o.Processes[0]), "", host.Online.String()
		}
		saved.Journal = append(saved.Journal, e)
	}
	load := make([]float64, 8)
	for i := range seen {
		load[seen[i].RanOn[0].Node] += seen[i].CPUUse
	}
	for i := range seen {
		if node := seen[i].RanOn[0].Node; crowded && node < 2 {
			seen[i].CPUUse *= 1.25 * 32 / load[node]
		}
	}
	h.turns = nil
	for turn := range 4 {
		s := workload.Snapshot{Host: cloneHost(host), Observations: make([]workload.Observation, n)}
		for i := range host.Nodes {
			s.Nodes = append(s.Nodes, workload.NodeUse{Node: topology.NodeID(i), CPUUse: 16, Bandwidth: topology.None})
			s.Host.Nodes[i].Free = 256*plantest.GiB + topology.KiB(turn)
		}
		for i := range seen {
			o := seen[i]
			o.ID, o.Name, o.Cgroup = workload.ID(string([]byte(o.ID))), string([]byte(o.Name)), string([]byte(o.Cgroup))
			o.Processes, o.RanOn, o.Memory = slices.Clone(o.Processes), slices.Clone(o.RanOn), slices.Clone(o.Memory)
			o.Anon = slices.Clone(o.Memory)
			o.CPUs, o.Mems = o.CPUs.Clone(), o.Mems.Clone()
			if i%200 == turn { // one in two hundred becomes another and one goes back to what it was
				o.CPUUse *= 1.1
				o.Memory[0].KiB += 8
			}
			s.Observations[i] = o
		}
		h.turns = append(h.turns, s)
	}
	settings.Enforce = !crowded
	h.state = New(settings, saved)
	for range 12 { // until the window of balancing is full
		h.scan()
	}
	return h
}

func byID(x, y workload.ID) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func cloneHost(h *topology.Host) *topology.Host {
	c := *h
	c.Nodes = slices.Clone(h.Nodes)
	return &c
}

// TestSettledScan: from a scan in which nothing has changed that counts, nothing follows.
func TestSettledScan(t *testing.T) {
	h := settledHost(t, 60, false)
	for range 20 {
		out := h.scan()
		if len(h.state.Plan.Placements) != 60 || len(out.Save.Events) > 0 || out.Save.Placements != nil || !h.state.Halted.None() {
			t.Fatalf("%d placements, %s, %s", len(h.state.Plan.Placements), h.state.Halted, words.Plain(fmt.Sprint(out.Save.Events)))
		}
		for _, d := range h.state.Plan.Report.Decisions {
			if d.Outcome != plan.Kept {
				t.Fatal(d)
			}
		}
	}
}
