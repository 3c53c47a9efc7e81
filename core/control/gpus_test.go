package control

import (
	"fmt"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// workers is a process tree of four workers of 2 threads and 1 GiB each, all of it on node 0, on a host
// with two GPUs on node 0 and two on node 1.
type workers struct {
	*fake
	id workload.ID
	at map[int]topology.NodeID // memory of each worker, by PID
}

// firstWorker is the PID of the first worker.
const firstWorker = 5000

func newWorkers(t *testing.T, change ...func(*Settings)) *workers {
	f := newFake(t, 4, 8, append([]func(*Settings){dividing, func(s *Settings) { s.Surveys = append(s.Surveys, Links) }}, change...)...)
	for i := range 4 {
		f.devices = append(f.devices, topology.Device{
			Name: fmt.Sprintf("0000:0%d:00.0", i+1), Kind: topology.GPU, PCI: fmt.Sprintf("0000:0%d:00.0", i+1),
			Node: topology.NodeID(i / 2), GPU: fmt.Sprintf("gpu%d", i), Chars: fmt.Sprintf("195:%d", i),
		})
	}
	w := &workers{fake: f, at: map[int]topology.NodeID{}}
	w.id = f.add("train", 4, 4<<20, 0)
	o := &f.works[w.id].obs
	o.Processes = nil
	for i := range 4 {
		p := workload.Process{PID: firstWorker + 10*i, Start: 7}
		o.Processes = append(o.Processes, p)
		for k := range 2 {
			o.PerThread = append(o.PerThread, workload.Thread{Process: p.PID, TID: p.PID + k, CPUs: f.host().Online, Use: 0.5})
		}
		path := plan.ProcessPath(p)
		f.values[settingKey{plan.ThreadCPUs, path}] = plan.Setting{Kind: plan.ThreadCPUs, Path: path, Value: f.host().Online.String()}
	}
	return w
}

// uses says which GPU each worker has open; -1 for none.
func (w *workers) uses(gpus ...int) {
	w.fake.links = map[workload.ID][]workload.Link{}
	for gpu := range 4 {
		l := workload.Link{Kind: workload.ByGPU, Device: fmt.Sprintf("gpu%d", gpu), Name: fmt.Sprintf("gpu%d", gpu), Nodes: topology.Nodes(topology.NodeID(gpu / 2))}
		for i, of := range gpus {
			if of == gpu {
				l.Holders = append(l.Holders, workload.Holder{Process: w.works[w.id].obs.Processes[i], Files: 3})
			}
		}
		if len(l.Holders) > 0 {
			w.fake.links[w.id] = append(w.fake.links[w.id], l)
		}
	}
}

// remember shows the memory of each worker as at says.
func (w *workers) remember() {
	o := &w.works[w.id].obs
	o.PerProcess = nil
	for _, p := range o.Processes {
		o.PerProcess = append(o.PerProcess, workload.ProcessMemory{Process: p.PID, Memory: []workload.NodeMemory{{Node: w.at[p.PID], KiB: 1 << 20}}})
	}
}

// scans lets scans pass; a page move takes the memory of the processes that it is about.
func (w *workers) scans(n int) {
	for range n {
		w.remember()
		before := len(w.applies(plan.MovePages))
		w.scan(1)
		for _, s := range w.applies(plan.MovePages)[before:] {
			to, _ := topology.ParseNodeSet(s.To)
			if to.Len() != 1 {
				continue
			}
			for _, p := range s.Target.Processes {
				w.at[p.PID] = to.Min()
			}
		}
	}
}

// threadsOn is the nodes on which the threads of each worker may run.
func (w *workers) threadsOn() (out []string) {
	for _, p := range w.works[w.id].obs.Processes {
		var nodes topology.NodeSet
		for _, t := range w.works[w.id].obs.PerThread {
			if t.Process != p.PID {
				continue
			}
			for _, n := range w.host().Nodes {
				if n.CPUs.Intersects(t.CPUs) {
					nodes.Add(n.ID)
				}
			}
		}
		out = append(out, nodes.String())
	}
	return out
}

func (w *workers) memoryOn() (out []topology.NodeID) {
	for _, p := range w.works[w.id].obs.Processes {
		out = append(out, w.at[p.PID])
	}
	return out
}

// Each worker goes to the node of its own GPU, with its threads and its memory, also when it takes
// another GPU. What it had before is restored by undo.
func TestWorkersGoToTheirGPUs(t *testing.T) {
	w := newWorkers(t)
	w.uses(0, 1, 2, 3)
	w.scans(10)
	if home := w.home(w.id); home != "0-1" {
		t.Fatalf("home %s: %s", home, words.Join(w.decision(w.id).Reasons))
	}
	if got := w.threadsOn(); !slices.Equal(got, []string{"0", "0", "1", "1"}) {
		t.Errorf("threads on nodes %v", got)
	}
	if got := w.memoryOn(); !slices.Equal(got, []topology.NodeID{0, 0, 1, 1}) {
		t.Errorf("memory on nodes %v", got)
	}
	moves := len(w.applies(plan.MovePages))
	if moves == 0 || moves > 2 {
		t.Errorf("%d page moves", moves)
	}

	w.scans(10)
	if now := len(w.applies(plan.MovePages)); now != moves {
		t.Errorf("%d page moves more of what is at home", now-moves)
	}

	w.uses(2, 3, 0, 1)
	w.after(every[Links])
	w.scans(14)
	if got := w.threadsOn(); !slices.Equal(got, []string{"1", "1", "0", "0"}) {
		t.Errorf("with other GPUs: threads on nodes %v", got)
	}
	if got := w.memoryOn(); !slices.Equal(got, []topology.NodeID{1, 1, 0, 0}) {
		t.Errorf("with other GPUs: memory on nodes %v", got)
	}

	w.undo(w.id)
	w.scans(2)
	if got := w.threadsOn(); !slices.Equal(got, []string{"0-3", "0-3", "0-3", "0-3"}) {
		t.Errorf("after undo: threads on nodes %v", got)
	}
}

// An unplugged GPU attracts no work; the worker that had it open stays until its home is given up.
func TestGPUDisappears(t *testing.T) {
	w := newWorkers(t)
	w.uses(0, 1, 2, 3)
	w.scans(10)
	w.devices = w.devices[:3]
	w.scans(3)
	if got := w.threadsOn(); !slices.Equal(got[:3], []string{"0", "0", "1"}) {
		t.Errorf("threads on nodes %v", got)
	}
	w.uses(-1, -1, -1, -1)
	w.after(every[Links])
	w.scans(5)
	if d := w.decision(w.id); d.Outcome == plan.Refused {
		t.Errorf("%s: %s", d.Outcome, words.Join(d.Reasons))
	}
}

// Workers whose GPUs are all on one node, and work that dividing is turned off for, keep a home of one node.
func TestOneNodeOfGPUs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		gpus   []int
		change func(*Settings)
	}{
		{"one node", []int{2, 3, 2, 3}, func(*Settings) {}},
		{"not divided", []int{0, 1, 2, 3}, func(s *Settings) { s.Divide = false }},
	} {
		w := newWorkers(t, tt.change)
		w.uses(tt.gpus...)
		w.scans(8)
		if home := w.home(w.id); len(home) != 1 {
			t.Errorf("%s: home %s", tt.name, home)
		}
		if n := len(w.applies(plan.DivideThreads)); n > 0 {
			t.Errorf("%s: %d threads divided", tt.name, n)
		}
	}
}

// {gpu: auto} stands for the GPUs that are found, with the weight of a wish.
func TestNearAnyGPU(t *testing.T) {
	w := newWorkers(t, ruled(workload.Rule{Match: "/train", Near: []string{workload.AnyGPU}, NearGiven: true}))
	w.scans(3)
	if home := w.home(w.id); home != "0" {
		t.Fatalf("home %s before a GPU is found", home)
	}
	w.uses(2, 3, 2, 3)
	w.after(every[Links])
	w.scans(3)
	spec := w.s.SpecOf(w.s.Observation(w.id))
	var near []string
	for _, n := range spec.Near {
		near = append(near, n.String())
	}
	if !slices.Equal(near, []string{"gpu2", "gpu3"}) || spec.Near[0].Learned {
		t.Errorf("near %q", near)
	}
}
