package inside

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// gpuMachine has two GPUs on each of two nodes of 4 CPUs, and one whose node is unknown.
func gpuMachine(t rapid.TB) *topology.Host {
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		d := topology.Device{Name: fmt.Sprintf("card%d", i), Kind: topology.GPU, PCI: fmt.Sprintf("0000:0%d:00.0", i), Node: topology.NodeID(i / 2), GPU: fmt.Sprintf("gpu%d", i)}
		if i == 4 {
			d.Node = topology.None
		}
		h.Devices = append(h.Devices, d)
	}
	return h
}

// heldBy is the links of processes that have GPUs open: "PID:GPU×FILES …".
func heldBy(text string) (links []workload.Link) {
	for word := range strings.FieldsSeq(text) {
		var pid, gpu, files int
		fmt.Sscanf(word, "%d:%d×%d", &pid, &gpu, &files)
		links = append(links, workload.Link{Kind: workload.ByGPU, Device: fmt.Sprintf("gpu%d", gpu),
			Holders: []workload.Holder{{Process: workload.Process{PID: pid, Start: 1}, Files: files}}})
	}
	return links
}

func TestWorkers(t *testing.T) {
	for _, tt := range []struct{ name, held, want string }{
		{"none", "", ""},
		{"each its own", "10:0×3 11:2×1", "10 on 0 [gpu0], 11 on 1 [gpu2]"},
		{"two of one node", "10:0×1 10:1×1", "10 on 0 [gpu0 gpu1]"},
		{"one, and all others asked", "10:0×2 10:1×2 10:2×2 10:3×20", "10 on 1 [gpu2 gpu3]"},
		{"as many on both", "10:0×4 10:2×4", ""},
		{"not clearly more", "10:0×7 10:2×4", ""},
		{"clearly more", "10:0×8 10:2×4", "10 on 0 [gpu0]"},
		{"a node that is not known", "10:4×9", ""},
		{"a GPU that is gone", "10:9×9 11:0×1", "11 on 0 [gpu0]"},
	} {
		var got []string
		for _, w := range Workers(gpuMachine(t), heldBy(tt.held)) {
			got = append(got, fmt.Sprintf("%d on %d %v", w.Process.PID, w.Node, w.GPUs))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
}

func TestBeside(t *testing.T) {
	h := gpuMachine(t)
	shared := workload.Spec{ID: "a", Class: workload.Shared, CPUs: 2, Memory: 1 << 20}
	for _, tt := range []struct {
		name   string
		held   string
		change func(*workload.Spec)
		ok     bool
	}{
		{"two nodes", "10:0×1 11:2×1", func(*workload.Spec) {}, true},
		{"one node", "10:0×1 11:1×1", func(*workload.Spec) {}, false},
		{"dedicated", "10:0×1 11:2×1", func(s *workload.Spec) { s.Class = workload.Dedicated }, false},
		{"nodes by a person", "10:0×1 11:2×1", func(s *workload.Spec) { s.Nodes = topology.Nodes(0) }, false},
		{"one node at most", "10:0×1 11:2×1", func(s *workload.Spec) { s.MaxNodes = 1 }, false},
		{"too many CPUs", "10:0×1 11:2×1", func(s *workload.Spec) { s.CPUs = 9 }, false},
		{"too much memory", "10:0×1 11:2×1", func(s *workload.Spec) { s.Memory = 64 << 20 }, false},
	} {
		spec := shared
		tt.change(&spec)
		got, ok := Beside(h, spec, Workers(h, heldBy(tt.held)))
		if ok != tt.ok || ok != got.ForGPUs || (ok && (got.Nodes.String() != "0-1" || got.MinNodes != 2)) {
			t.Errorf("%s: %v, %+v", tt.name, ok, got)
		}
	}
}

// A thread with a part of its own is there or is left alone, and nothing that it does moves another
// thread of its kind.
func TestOwnPartIsKept(t *testing.T) {
	h := gpuMachine(t)
	parts := Parts(h, &workload.Placement{Home: topology.Nodes(0, 1), CPUs: h.Online})
	sets := []topology.CPUSet{h.Online, parts[0].CPUs, parts[1].CPUs, topology.CPUs(0), topology.CPUs(5, 6)}
	rapid.Check(t, func(t *rapid.T) {
		var threads []workload.Thread
		var own []int
		for i := range rapid.IntRange(0, 12).Draw(t, "threads") {
			threads = append(threads, workload.Thread{Process: i / 3, TID: i,
				CPUs: rapid.SampledFrom(sets).Draw(t, "CPUs"), Use: rapid.Float64Range(0, 1).Draw(t, "use")})
			own = append(own, rapid.IntRange(-1, 1).Draw(t, "own"))
		}
		given := []topology.CPUSet{parts[0].CPUs, parts[1].CPUs}
		for i, to := range Divide(parts, threads, given, own) {
			free := h.Online.SubsetOf(threads[i].CPUs) || threads[i].CPUs.Equal(parts[0].CPUs) || threads[i].CPUs.Equal(parts[1].CPUs)
			switch {
			case !free && to != -1:
				t.Fatalf("thread %d has CPUs %s of its own, and goes to %d", i, threads[i].CPUs, to)
			case free && own[i] >= 0 && to != own[i]:
				t.Fatalf("thread %d belongs to %d, and goes to %d", i, own[i], to)
			}
		}
	})
}
