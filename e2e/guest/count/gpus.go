//go:build linux

package count

import (
	"fmt"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

// Tags of the marks of gpuPods.
const (
	tagGPUPodsKernel = 0x50 + iota
	tagGPUWorkersKernel
	tagGPUPods
	tagGPUWorkers
)

// gpuWorkers is the number of workers in the one pod that has all GPUs, two on each node.
const gpuWorkers = 4

// gpuPods counts pods that containerd gives a GPU each, from their first page on, and a pod of four workers that
// open a GPU each, two on each node: under the kernel alone and under homenode. Each finds its memory on the node
// of its own GPU.
func gpuPods(t *lab.T) {
	c := runtimes.ConnectCRI(t)
	gpus := t.MakeUpGPUs(gpuWorkers / t.Shape.Nodes)
	t.DescribeGPUs(gpus)
	specs, of := podsWithGPUs(gpus)

	const alone = "kernel alone"
	ones, workers := split(runtimes.Pods(t, c, specs...), len(of))
	countFirstPages(t, ones, workers, of, tagGPUPodsKernel, alone)
	t.TakeGPUs(ones, of)
	t.TakeGPUs(workers, gpus)
	lab.Warm(10 * time.Second)
	countWorkers(t, workers, gpus, tagGPUWorkersKernel, alone)

	const homenode = "homenode"
	d := runtimes.UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
	pods := runtimes.Pods(t, c, specs...)
	for i, g := range of {
		if at := t.NodesOf(pods[i].Containers[0].First); at != lab.SetOf(g.Node) {
			t.Logf("%s", lab.OneLine(lab.Homenode("explain", "shop/"+pods[i].Name+"/c").Out))
			t.Fatalf("%s began on nodes %s, its GPU is on node %d", pods[i].Name, at, g.Node)
		}
	}
	ones, workers = split(pods, len(of))
	countFirstPages(t, ones, workers, of, tagGPUPods, homenode)
	t.TakeGPUs(ones, of)
	t.TakeGPUs(workers, gpus)
	start := time.Now()
	t.AwaitAtGPUs(workers, gpus)
	took := time.Since(start)
	t.LogLines("history", lab.Homenode("history", "--limit", "0").Out, 60)
	t.AwaitAtGPUs(ones, of)
	countWorkers(t, workers, gpus, tagGPUWorkers, homenode)
	noneMoved(t, pods, of)
	explainsTrain(t, pods[len(of)].Containers[0].Called, gpus)
	t.UndoneAll()
	t.Alive(d)
	t.Textf("%d pods began at their GPUs; %d workers of one pod were at theirs after %.0f s",
		len(of), gpuWorkers, took.Seconds())
}

// split returns the walkers of the first pods, and the workers of the others.
func split(pods []*runtimes.Pod, n int) (ones, workers []*lab.Walker) {
	return runtimes.WalkersOf(pods[:n]), runtimes.WalkersOf(pods[n:])
}

// countFirstPages has all walkers fill their memory, and counts those with a GPU each from then on.
func countFirstPages(t *lab.T, ones, workers []*lab.Walker, of []*lab.GPU, tag uint32, phase string) {
	all := append(ones[:len(ones):len(ones)], workers...)
	lab.Mark(0)
	t.Order(all, "fill", "ready")
	t.Order(all, "pause", "paused")
	t.Order(all, "walk 1", "walked 1")
	lab.Mark(tag)
	t.Record("SCENE pods")
	t.Declare(ones)
	t.RecordGPUs(ones, of)
	t.Record("MARK %d 1 %s, from the first page", tag, phase)
	t.Order(all, "go", "going")
}

// countWorkers counts the workers of one pod.
func countWorkers(t *lab.T, workers []*lab.Walker, of []*lab.GPU, tag uint32, phase string) {
	t.Record("SCENE workers")
	t.Declare(workers)
	t.RecordGPUs(workers, of)
	t.Measure(workers, tag, phase, lab.MeasuredPasses)
}

// podsWithGPUs returns pods that are given a GPU each, three of node 1 and two of node 0, and the GPU of each. Two
// get theirs by a name of the Container Device Interface. The last pod has all GPUs.
func podsWithGPUs(gpus []*lab.GPU) (specs []runtimes.PodSpec, of []*lab.GPU) {
	pod := func(name string, slot int) runtimes.PodSpec {
		k := runtimes.ContainerSpec{CPUs: 1, MemoryMiB: 128}
		k.WalkerSpec = lab.WalkerSpec{Name: "c", Slot: slot, MiB: 24, Threads: 1, Place: "local", Wait: true}
		return runtimes.PodSpec{Name: name, Containers: []runtimes.ContainerSpec{k}}
	}
	device := func(g *lab.GPU) string { return "/dev/" + g.Name() }
	for i, which := range []int{2, 3, 2, 0, 1} {
		g := gpus[which]
		p := pod(fmt.Sprintf("gpu%d", i), i)
		k := &p.Containers[0]
		if i%2 == 0 {
			k.Devices = []string{device(g), "/dev/" + lab.GPUControl}
		} else {
			k.CDI = []string{fmt.Sprintf("nvidia.com/gpu=%d", g.Minor)}
		}
		specs, of = append(specs, p), append(of, g)
	}
	train := pod("train", len(specs))
	k := &train.Containers[0]
	k.CPUs, k.MemoryMiB = gpuWorkers, 512
	k.Devices = []string{"/dev/" + lab.GPUControl}
	for i, g := range gpus {
		k.Devices = append(k.Devices, device(g))
		if i > 0 {
			w := k.WalkerSpec
			w.Name, w.Slot = fmt.Sprintf("train%d", i), k.Slot+i
			k.Workers = append(k.Workers, w)
		}
	}
	return append(specs, train), of
}

// noneMoved checks that status has moved no pages of the pods with a GPU each.
func noneMoved(t *lab.T, pods []*runtimes.Pod, of []*lab.GPU) {
	s := t.Status()
	for i := range of {
		id := pods[i].Containers[0].Called
		if m, _, _ := s.Of(id); m.Moved > 0 {
			t.Fatalf("%s: %d bytes were moved, which should have been at home from the start", id, m.Moved)
		}
	}
}

// explainsTrain checks that explain names the GPU of each worker, and its node.
func explainsTrain(t *lab.T, id string, gpus []*lab.GPU) {
	said := t.Must(lab.Homenode("explain", id), lab.ExitOK).Out
	for _, g := range gpus {
		if want := fmt.Sprintf("gpu%d on node %d", g.Minor, g.Node); !strings.Contains(said, want) {
			t.Fatalf("explain of %s has no %q: %s", id, want, lab.Cut(said))
		}
	}
}
