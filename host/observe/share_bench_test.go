package observe

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// BenchmarkShare300 is what sharing costs a daemon that looks every 2 s at 300 cgroups, 240 of
// them batch work, on 8 nodes of 64 CPUs, while nothing is to be written: what it reads (reads), and all of
// control.Next, placing too (next). CPU time, for the machine may be busy. The files are on tmpfs
// (/dev/shm): a kernel makes their text anew on each read. What is read is the difference between looks
// with sharing and without, of which every one is either by chance.
func BenchmarkShare300(b *testing.B) {
	const online = 60
	r := rand.New(rand.NewPCG(1, 1))
	m := newFake()
	use := map[string]float64{}
	watched := map[workload.ID]bool{}
	m.more = map[string]string{"proc/stat": "cpu 1 2 3 4 5 6 7 8\n"}
	for cpu := range 512 {
		m.more["proc/stat"] += fmt.Sprintf("cpu%d 100 0 100 1000 0 0 0 0 0 0\n", cpu)
	}
	for _, path := range []string{"/online", "/batch"} {
		m.group(path, fakeGroup{})
	}
	for i := range 300 {
		path := fmt.Sprintf("/batch/j%03d", i)
		if use[path] = 0.2 + 1.2*r.Float64(); i < online {
			delete(use, path)
			path = fmt.Sprintf("/online/s%03d", i)
			use[path], watched[workload.ID(path)] = 0.5+3*r.Float64(), true
		}
		g, p := m.service(path, 1000+100*i, "app", 500*mib)
		g.usage, g.cpus, g.mems = benchUsage, "0-511", "0-7"
		for k := range p.threads {
			p.threads[k] = fakeThread{cpus: "0-511", cpu: (i*61 + k) % 512}
		}
		m.more["sys/fs/cgroup"+path+"/cpu.pressure"] = "some avg10=0.70 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
	}
	dir, err := os.MkdirTemp("/dev/shm", "homenode-bench-")
	if err != nil {
		dir = b.TempDir()
	}
	defer os.RemoveAll(dir)
	m.write(b, dir)

	host, err := topology.FromSynthetic("node:8 core:32 pu:2")
	if err != nil {
		b.Fatal(err)
	}
	for i := range host.Nodes {
		host.Nodes[i].Memory, host.Nodes[i].Free = 256<<20, 200<<20
	}
	now, clock := jumpingClock()
	o := New(files.Root(dir), Options{Now: clock, PageSize: 4,
		Host: func(fs.FS) (*topology.Host, error) { return host, nil }, Free: func(fs.FS, *topology.Host) (*topology.Host, error) { return host, nil }})
	d := newDecider(host)
	look := func(asks bool) (spent time.Duration) {
		*now += 2 * time.Second
		for path, l := range o.leaves { // as if the look before had seen less
			l.usage = benchUsage - time.Duration(use[path]*2*float64(time.Second))
		}
		began := cpuUsed()
		s, err := o.Look(context.Background(), control.Attention{ConcernAttention: control.ConcernAttention{Waits: asks, Watched: watched}})
		spent = cpuUsed() - began
		if err != nil || len(s.Observations) != 300 {
			b.Fatal(err, len(s.Observations))
		}
		if asks {
			d.scan(clock(), s, use)
		}
		return spent
	}
	for range 100 {
		look(true)
	}
	if n, x := len(d.state.Shared.Work), d.state.Snapshot.Observations[299]; n != 240 || x.WaitedFrom != workload.PSI || len(d.state.Shared.Watched) != online {
		b.Fatalf("%d batch workloads share, %d are watched, of %s %v is read", n, len(d.state.Shared.Watched), x.ID, x.Waited)
	}
	d.writes, d.spent = 0, 0
	var spent [2]time.Duration
	b.ReportAllocs()
	for b.Loop() {
		first := r.IntN(2) == 1 // what is read every few looks must not always fall into one of them
		for _, asks := range []bool{first, !first} {
			k := 0
			if asks {
				k = 1
			}
			spent[k] += look(asks)
		}
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(b.N) }
	reads, next := ms(spent[1]-spent[0]), ms(d.spent)
	b.ReportMetric(ms(spent[0]), "look-cpu-ms/op")
	b.ReportMetric(reads, "reads-cpu-ms/op")
	b.ReportMetric(next, "next-cpu-ms/op")
	b.ReportMetric((reads+next)/2000*100, "%ofCPU@2s")
	b.ReportMetric(float64(d.writes)/float64(b.N), "writes/op")
}

// decider is control.Next, with every effect done at once.
type decider struct {
	host   *topology.Host
	state  *control.State
	values map[plan.Setting]string // by kind and path
	scans  uint64
	writes int
	spent  time.Duration
}

func newDecider(host *topology.Host) *decider {
	sharing := share.DefaultSettings()
	sharing.On = true
	d := &decider{host: host, values: map[plan.Setting]string{}, state: control.New(control.Settings{Enforce: true, Policy: plan.DefaultPolicy(), Share: sharing, Interrupts: control.InterruptsOff,
		Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20},
		Rules:   []workload.Rule{{Match: "/batch/**", Class: workload.Batch}, {Match: "/online/**", Class: workload.Shared, Tier: workload.Online}}}, control.Saved{})}
	return d
}

// scan gives control.Next what a look has found, and what follows of it.
func (d *decider) scan(at time.Time, s workload.Snapshot, use map[string]float64) {
	busy := make([]float64, len(d.host.Nodes))
	for i := range s.Observations {
		o := &s.Observations[i]
		if set, ok := d.values[plan.Setting{Kind: plan.CgroupCPUs, Path: o.Cgroup}]; ok {
			o.CPUs = mustCPUs(set)
		}
		o.RanOn = []workload.NodeShare{{Node: topology.NodeID(i % len(busy)), Share: 1}}
		busy[i%len(busy)] += use[o.Cgroup]
	}
	s.Nodes = nil
	for i := range busy {
		s.Nodes = append(s.Nodes, workload.NodeUse{Node: topology.NodeID(i), CPUUse: busy[i], Bandwidth: topology.None})
	}
	d.scans++
	inputs := []control.Input{{Begun: &control.Begun{Number: d.scans}}, {Scan: &control.Scan{Number: d.scans, Began: at, Snapshot: s}}}
	if d.scans == 1 {
		inputs = append([]control.Input{{Started: &control.Started{Version: "bench", Period: 2 * time.Second}}}, inputs...)
	}
	for len(inputs) > 0 {
		in := inputs[0]
		inputs, in.At = inputs[1:], at
		began := cpuUsed()
		next, out := control.Next(d.state, in)
		d.spent += cpuUsed() - began
		d.state = next
		for i := range out.Effects {
			if r := d.perform(&out.Effects[i]); r != nil {
				r.ID = out.Effects[i].ID
				inputs = append(inputs, control.Input{Result: r})
			}
		}
	}
}

func (d *decider) perform(e *control.Effect) *control.Result {
	r := &control.Result{}
	setting := func(kind plan.SettingKind, path string) plan.Setting {
		out := plan.Setting{Kind: kind, Path: path, Value: plan.CgroupFiles[kind]}
		if v, ok := d.values[plan.Setting{Kind: kind, Path: path}]; ok {
			out.Value = v
		}
		for i := range d.state.Snapshot.Observations {
			if o := &d.state.Snapshot.Observations[i]; o.Cgroup == path {
				out.Object = strconv.FormatUint(o.CgroupID, 10)
			}
		}
		return out
	}
	switch e.Kind {
	case control.EffectRead, control.EffectApply:
		kind := plan.SettingKind(e.Step.Target.File)
		if e.Step.Kind == plan.SetCPUs {
			kind = plan.CgroupCPUs
		}
		if e.Kind == control.EffectRead {
			r.Changes = append(r.Changes, plan.Change{Setting: setting(kind, e.Step.Target.Cgroup), Will: e.Step.To})
		} else {
			d.values[plan.Setting{Kind: kind, Path: e.Step.Target.Cgroup}] = e.Step.To
			d.writes++
		}
	case control.EffectCheck, control.EffectPresent, control.EffectRestore:
		for i := range e.Entries {
			if e.Kind == control.EffectCheck {
				r.Settings = append(r.Settings, setting(e.Entries[i].Kind, e.Entries[i].Path))
			}
			r.Each = append(r.Each, nil)
		}
	case control.EffectInherited:
	default:
		return nil
	}
	return r
}
