package threads

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	file  = hostprep.NUMABalancing
	onNow = "file " + file + " of numa-balancing: set-file 0 > 1 sampling-on"
)

// sampling is a host that may switch NUMA balancing on, for a workload whose threads were divided just now.
func sampling(t *testing.T) *host {
	h := on(t)
	h.Settings = Settings{Sample: true}
	h.DividedAt["/w"] = h.sc.At
	return h
}

// switchedOn has NUMA balancing on since a while ago.
func (h *host) switchedOn(ago time.Duration) *plan.Entry {
	e := concerntest.Set(h.sc, BalancingID, plan.HostFile, file, "1")
	e.Time = h.sc.At.Add(-ago)
	return e
}

// TestSamples: when NUMA balancing is switched on, stays on, and is left as it is.
func TestSamples(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   string
		leave  bool
	}{
		{"threads were divided", func(*host) {}, onNow + " is otherwise", false},
		{"threads are divided now", func(h *host) { clear(h.DividedAt); h.Settings.Divide = true }, desired + "\n" + onNow + " is otherwise", false},
		{"it is on", func(h *host) { h.switchedOn(SampleMost - 1) }, onNow + " stands", false},
		{"its time is over", func(h *host) { h.switchedOn(SampleMost) }, "", false},
		{"not allowed", func(h *host) { h.Settings.Sample = false }, "", false},
		{"no longer allowed", func(h *host) { h.switchedOn(0); h.Settings.Sample = false }, "", false},
		{"nothing was divided", func(h *host) { clear(h.DividedAt) }, "", false},
		{"other work was divided", func(h *host) { h.DividedAt = map[workload.ID]time.Time{"/gone": h.sc.At} }, "", false},
		{"the host has it on", func(h *host) {
			h.sc.Snapshot.Sources = []workload.SourceStatus{{Source: workload.Hints, Used: true}}
		}, "", false},
		{"the host cannot use it", func(h *host) {
			h.sc.Snapshot.Sources = []workload.SourceStatus{{Source: workload.Hints}, {Source: workload.MBM, Used: true}}
		}, onNow + " is otherwise", false},
		{"a trial decides on it", func(h *host) { h.Switched = true }, "", true},
		{"it is another's", func(h *host) { h.switchedOn(0).Workload = "host" }, "", true},
		{"being restored", func(h *host) { h.loop.Is("undoes numa-balancing") }, "", true},
		{"being set", func(h *host) { h.loop.Is("busy numa-balancing") }, "", true},
		{"held", func(h *host) { h.loop.Is("held numa-balancing") }, "", true},
	} {
		h := sampling(t)
		c.change(h)
		concerntest.Expect(t, c.name, h.scan(), c.want)
		if h.out.Leave[BalancingID] != c.leave {
			t.Errorf("%s: left alone %v", c.name, h.out.Leave)
		}
	}
}

// TestSampledIsRemembered: once its time is over, it is not switched on again for the same division.
func TestSampledIsRemembered(t *testing.T) {
	h := sampling(t)
	h.Passes["/w"] = 5
	h.switchedOn(SampleMost)
	h.scan()
	if !h.Sampled["/w"].Equal(h.sc.At) || len(h.Passes) > 0 {
		t.Errorf("%v, %v", h.Sampled, h.Passes)
	}
}

// TestUnsampled: whose memory is still to be seen.
func TestUnsampled(t *testing.T) {
	at := concerntest.Start
	for _, c := range []struct {
		name             string
		divided, sampled time.Time
		on, want         bool
	}{
		{"never", at, time.Time{}, false, true},
		{"since it was divided", at, at, false, false},
		{"divided since, an hour ago", at, at.Add(-sampleRest), false, true},
		{"divided since, a moment ago", at, at.Add(-sampleRest + 1), false, false},
		{"divided since, a moment ago, and it is on", at, at.Add(-1), true, true},
		{"not divided", time.Time{}, time.Time{}, false, false},
	} {
		h := sampling(t)
		clear(h.DividedAt)
		if !c.divided.IsZero() {
			h.DividedAt["/w"] = c.divided
		}
		if !c.sampled.IsZero() {
			h.Sampled["/w"] = c.sampled
		}
		tr := &turn{h.Bound, h.sc}
		if got := len(tr.unsampled(c.on, at)) == 1; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestSampledEnough: the kernel has gone three times through all memory, and finds the accesses local.
func TestSampledEnough(t *testing.T) {
	faults := func(here, there uint64) []workload.NodeFaults {
		return []workload.NodeFaults{{Node: 0, Faults: here}, {Node: 1, Faults: there}}
	}
	for _, c := range []struct {
		name    string
		threads []workload.Thread
		first   uint64
		want    bool
	}{
		{"all local", []workload.Thread{{CPUs: part0, Faults: faults(100, 0), Scans: 4}}, 1, true},
		{"just enough local", []workload.Thread{{CPUs: part0, Faults: faults(95, 5), Scans: 4}}, 1, true},
		{"not enough local", []workload.Thread{{CPUs: part0, Faults: faults(94, 6), Scans: 4}}, 1, false},
		{"on its own node", []workload.Thread{{CPUs: part1, Faults: faults(0, 100), Scans: 4}}, 1, true},
		{"on all nodes", []workload.Thread{{CPUs: whole, Faults: faults(100, 0), Scans: 4}}, 1, false},
		{"on a node that is not there", []workload.Thread{
			{CPUs: part0, Faults: []workload.NodeFaults{{Node: 9, Faults: 9}}, Scans: 4},
		}, 1, false},
		{"two passes", []workload.Thread{{CPUs: part0, Faults: faults(100, 0), Scans: 3}}, 1, false},
		{"two passes of one thread", []workload.Thread{
			{CPUs: part0, Faults: faults(100, 0), Scans: 4}, {CPUs: part0, Faults: faults(100, 0), Scans: 3},
		}, 1, false},
		{"a thread that was not sampled", []workload.Thread{
			{CPUs: part0, Faults: faults(100, 0), Scans: 4}, {CPUs: part0, Scans: 0},
		}, 1, true},
		{"two threads", []workload.Thread{
			{CPUs: part0, Faults: faults(60, 0), Scans: 4}, {CPUs: part1, Faults: faults(20, 40), Scans: 9},
		}, 1, false},
		{"none was sampled", []workload.Thread{{CPUs: part0, Scans: 9}}, 0, false},
	} {
		h := sampling(t)
		h.w().PerThread = c.threads
		h.Passes["/w"] = c.first
		tr := &turn{h.Bound, h.sc}
		if got := tr.sampledEnough(h.w()); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	h := sampling(t)
	h.w().PerThread = []workload.Thread{{CPUs: part0, Faults: faults(100, 0), Scans: 7}}
	e := h.switchedOn(sampleLeast - 1)
	concerntest.Expect(t, "soon after it was switched on", h.scan(), onNow+" stands")
	if len(h.Passes) > 0 {
		t.Errorf("passes over less than all memory count: %v", h.Passes)
	}
	e.Time = e.Time.Add(-1)
	h.scan()
	if h.Passes["/w"] != 7 || len(h.Sampled) > 0 {
		t.Errorf("at first: %v, %v", h.Passes, h.Sampled)
	}
	h.w().PerThread[0].Scans = 10
	concerntest.Expect(t, "three passes later", h.scan(), "")
	if !h.Sampled["/w"].Equal(h.sc.At) {
		t.Errorf("%v", h.Sampled)
	}
}

// TestSamplingHarms: NUMA balancing is not switched on, and goes off, where guests larger than a node run, or work
// with a passed-through device; history says so once.
func TestSamplingHarms(t *testing.T) {
	h := sampling(t)
	guest := workload.Observation{ID: "/z", VCPUSets: make([]topology.CPUSet, 5)}
	h.sc.Snapshot.Observations = append(h.sc.Snapshot.Observations, guest)
	for _, already := range []bool{false, true} {
		if already {
			h.switchedOn(0)
		}
		concerntest.Expect(t, "desires", h.scan(), "")
		why := words.Because(words.GuestWider, "/z", 5, topology.KiB(0), 4, 16*plantest.GiB)
		concerntest.Expect(t, "history", h.loop.Logged(), "once [sampling harms] /w sampling-harms /w "+why.String())
		if len(h.Sampled) > 0 {
			t.Error("it counts as sampled")
		}
	}
	clear(h.DividedAt)
	h.scan()
	concerntest.Expect(t, "nothing is to be sampled", h.loop.Logged(), "over [sampling harms]")
	h.DividedAt["/w"] = h.sc.At
	h.Settings.Sample = false
	h.scan()
	concerntest.Expect(t, "not allowed", h.loop.Logged(), "over [sampling harms]")
}

// TestHarms: whom NUMA balancing of the whole host would harm.
func TestHarms(t *testing.T) {
	memory := func(kib topology.KiB) []workload.NodeMemory { return []workload.NodeMemory{{KiB: kib}} }
	vcpus := func(n int) (all []workload.ThreadTime) {
		for i := range n {
			all = append(all, workload.ThreadTime{VCPU: i}, workload.ThreadTime{VCPU: i, Node: 1})
		}
		return all
	}
	for _, c := range []struct {
		name string
		o    workload.Observation
		link workload.LinkKind
		want words.Code
	}{
		{"a large service", workload.Observation{Memory: memory(99 * plantest.GiB)}, "", ""},
		{"a guest of a node", workload.Observation{Memory: memory(16 * plantest.GiB), VCPUs: vcpus(4)}, "", ""},
		{"a guest with more memory", workload.Observation{Memory: memory(16*plantest.GiB + 1), VCPUs: vcpus(1)},
			"", words.GuestWider},
		{"a guest with more vCPUs", workload.Observation{VCPUs: vcpus(5)}, "", words.GuestWider},
		{"a guest with sets of vCPUs", workload.Observation{VCPUs: vcpus(1), VCPUSets: make([]topology.CPUSet, 5)},
			"", words.GuestWider},
		{"a passed-through device", workload.Observation{}, workload.ByVFIO, words.PassedThrough},
		{"another device", workload.Observation{}, workload.ByTap, ""},
	} {
		h := sampling(t)
		h.sc.Snapshot.Host = plantest.Draw("0 0-1 8G 10 20 30\n1 4-7 16G 20 10 30\n2 - 64G 30 30 10\n")
		c.o.ID = "/z"
		h.sc.Snapshot.Observations = append(h.sc.Snapshot.Observations, c.o)
		if c.link != "" {
			h.Links = map[workload.ID][]scene.Link{"/z": {{Link: workload.Link{Kind: c.link, Device: "dev"}}}}
		}
		tr := &turn{h.Bound, h.sc}
		if got := tr.harms(); got.Code != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	h := on(t)
	h.sc.Snapshot.Host = plantest.Draw("0 0-3 8G 10 20\n1 4-5 16G 20 10\n")
	memoryMost, cpus := largestNode(h.sc.Snapshot.Host)
	if got := fmt.Sprint(memoryMost/plantest.GiB, cpus); got != "16 4" {
		t.Errorf("the largest node has %s", got)
	}
}
