// Kubelet runs placement cases through the kubelet's CPU, memory and topology
// managers, for `go run ./bench/placement -speed -kubelet`.
//
//	go run . CASE.json...
//
// One JSON line an arrival on standard output: {"peer","case","i","ok","ns"}. Each
// workload is a pod of one container with requests equal to limits, which is what
// the static policies pin. Timed is the topology manager's Admit: hints, their
// merging, and the allocation. State is in memory: no checkpoint is written.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/info/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memstate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// reservedMiB is set aside on every node: the memory manager does not start without.
// Nodes are made larger by as much.
const reservedMiB = 64

const container = "c"

type placementCase struct {
	Name string `json:"name"`
	Host struct {
		Nodes []struct {
			ID     int   `json:"id"`
			Socket int   `json:"socket"`
			CPUs   []int `json:"cpus"`
			MiB    int64 `json:"mem_mib"`
		} `json:"nodes"`
		Cores    [][]int `json:"cores"`
		L3       [][]int `json:"l3"`
		SLIT     [][]int `json:"slit"`
		Reserved []int   `json:"reserved_cpus"`
	} `json:"host"`
	Events []struct {
		Op    string           `json:"op"`
		VM    string           `json:"vm"`
		VCPUs int              `json:"vcpus"`
		MiB   int64            `json:"mem_mib"`
		CPUs  []int            `json:"cpus"`
		Mem   map[string]int64 `json:"mem"`
	} `json:"events"`
}

// machine is the host as cAdvisor would report it.
func machine(c *placementCase) *cadvisor.MachineInfo {
	cacheOf := map[int]int{}
	for id, cpus := range c.Host.L3 {
		for _, cpu := range cpus {
			cacheOf[cpu] = id
		}
	}
	info := &cadvisor.MachineInfo{}
	sockets := map[int]bool{}
	for i, n := range c.Host.Nodes {
		node := cadvisor.Node{Id: n.ID, Memory: uint64(n.MiB+reservedMiB) << 20}
		for _, d := range c.Host.SLIT[i] {
			node.Distances = append(node.Distances, uint64(d))
		}
		for id, threads := range c.Host.Cores {
			if slices.Contains(n.CPUs, threads[0]) {
				node.Cores = append(node.Cores, cadvisor.Core{
					Id: id, Threads: slices.Clone(threads), SocketID: n.Socket,
					UncoreCaches: []cadvisor.Cache{{Id: cacheOf[threads[0]], Level: 3, Type: "Unified"}},
				})
				info.NumPhysicalCores++
				info.NumCores += len(threads)
			}
		}
		sockets[n.Socket] = true
		info.MemoryCapacity += node.Memory
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info
}

// cpuHints and memoryHints hand a policy and its state to the topology manager,
// as the managers themselves do.
type cpuHints struct {
	cpumanager.Policy
	state cpustate.State
}

func (h cpuHints) GetTopologyHints(pod *core.Pod, c *core.Container) map[string][]topologymanager.TopologyHint {
	return h.Policy.GetTopologyHints(logr.Discard(), h.state, pod, c)
}

func (h cpuHints) GetPodTopologyHints(pod *core.Pod) map[string][]topologymanager.TopologyHint {
	return h.Policy.GetPodTopologyHints(logr.Discard(), h.state, pod)
}

func (h cpuHints) Allocate(pod *core.Pod, c *core.Container) error {
	return h.Policy.Allocate(logr.Discard(), h.state, pod, c)
}

func (h cpuHints) AllocatePod(pod *core.Pod) error {
	return h.Policy.AllocatePod(logr.Discard(), h.state, pod)
}

type memoryHints struct {
	memorymanager.Policy
	state memstate.State
}

func (h memoryHints) GetTopologyHints(pod *core.Pod, c *core.Container) map[string][]topologymanager.TopologyHint {
	return h.Policy.GetTopologyHints(logr.Discard(), h.state, pod, c)
}

func (h memoryHints) GetPodTopologyHints(pod *core.Pod) map[string][]topologymanager.TopologyHint {
	return h.Policy.GetPodTopologyHints(logr.Discard(), h.state, pod)
}

func (h memoryHints) Allocate(pod *core.Pod, c *core.Container) error {
	return h.Policy.Allocate(logr.Discard(), h.state, pod, c)
}

func (h memoryHints) AllocatePod(pod *core.Pod) error {
	return h.Policy.AllocatePod(logr.Discard(), h.state, pod)
}

// managers is one kubelet's worth of them.
type managers struct {
	topology topologymanager.Manager
	cpu      cpuHints
	memory   memoryHints
}

func newManagers(c *placementCase, policy string) (*managers, error) {
	log := logr.Discard()
	info := machine(c)
	cpus, err := topology.Discover(log, info)
	if err != nil {
		return nil, err
	}
	m := &managers{}
	if m.topology, err = topologymanager.NewManager(info.Topology, policy, "container",
		map[string]string{"prefer-closest-numa-nodes": "true"}); err != nil {
		return nil, err
	}
	reserved := cpuset.New(c.Host.Reserved...)
	if m.cpu.Policy, err = cpumanager.NewStaticPolicy(log, cpus, reserved.Size(), reserved, m.topology,
		nil); err != nil {
		return nil, err
	}
	m.cpu.state = cpustate.NewMemoryState(log)
	if err := m.cpu.Start(log, m.cpu.state); err != nil {
		return nil, err
	}
	aside := map[int]map[core.ResourceName]uint64{}
	for _, n := range c.Host.Nodes {
		aside[n.ID] = map[core.ResourceName]uint64{core.ResourceMemory: reservedMiB << 20}
	}
	if m.memory.Policy, err = memorymanager.NewPolicyStatic(log, info, aside, m.topology); err != nil {
		return nil, err
	}
	m.memory.state = memstate.NewMemoryState(log)
	if err := m.memory.Start(log, m.memory.state); err != nil {
		return nil, err
	}
	m.topology.AddHintProvider(log, m.cpu)
	m.topology.AddHintProvider(log, m.memory)
	return m, nil
}

// preplace puts a workload where the case says it is.
func (m *managers) preplace(vm string, cpus []int, mem map[string]int64) error {
	held := cpuset.New(cpus...)
	m.cpu.state.SetCPUSet(vm, container, held)
	m.cpu.state.SetDefaultCPUSet(m.cpu.state.GetDefaultCPUSet().Difference(held))
	nodes := m.memory.state.GetMachineState()
	var blocks []memstate.Block
	for key, mib := range mem {
		id, err := strconv.Atoi(key)
		if err != nil || nodes[id] == nil {
			return fmt.Errorf("%s: no node %q", vm, key)
		}
		size := uint64(mib) << 20
		table := nodes[id].MemoryMap[core.ResourceMemory]
		table.Reserved += size
		table.Free -= size
		nodes[id].NumberOfAssignments++
		blocks = append(blocks, memstate.Block{NUMAAffinity: []int{id}, Type: core.ResourceMemory, Size: size})
	}
	m.memory.state.SetMemoryBlocks(vm, container, blocks)
	m.memory.state.SetMachineState(nodes)
	return nil
}

// remove takes a workload out, also what a failed admission left behind.
func (m *managers) remove(vm string) {
	m.cpu.RemoveContainer(logr.Discard(), m.cpu.state, vm, container)
	m.memory.RemoveContainer(logr.Discard(), m.memory.state, vm, container)
	m.topology.RemoveContainer(vm)
}

func pod(vm string, vcpus int, mib int64) *core.Pod {
	wants := core.ResourceList{
		core.ResourceCPU:    *resource.NewQuantity(int64(vcpus), resource.DecimalSI),
		core.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
	}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: vm, UID: types.UID(vm)},
		Spec: core.PodSpec{Containers: []core.Container{{Name: container,
			Resources: core.ResourceRequirements{Requests: wants, Limits: wants}}}},
		Status: core.PodStatus{QOSClass: core.PodQOSGuaranteed},
	}
}

type answer struct {
	Peer  string `json:"peer"`
	Case  string `json:"case"`
	I     int    `json:"i"`
	OK    bool   `json:"ok"`
	Nanos int64  `json:"ns"`
}

func run(c *placementCase, peer, policy string, w io.Writer) error {
	m, err := newManagers(c, policy)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Op {
		case "preplace":
			if err := m.preplace(e.VM, e.CPUs, e.Mem); err != nil {
				return err
			}
		case "depart":
			if _, there := m.cpu.state.GetCPUSet(e.VM, container); there {
				m.remove(e.VM)
			}
		case "arrive":
			p := pod(e.VM, e.VCPUs, e.MiB)
			start := time.Now()
			result := m.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: p})
			ns := time.Since(start).Nanoseconds()
			m.topology.AddContainer(p, &p.Spec.Containers[0], e.VM)
			if !result.Admit {
				m.remove(e.VM)
			}
			if err := out.Encode(answer{peer, c.Name, i, result.Admit, ns}); err != nil {
				return err
			}
		}
	}
	return nil
}

func runAll(paths []string) error {
	klog.SetLogger(logr.Discard())
	out := bufio.NewWriter(os.Stdout)
	for k, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var c placementCase
		if err := json.Unmarshal(text, &c); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if k == 0 {
			if err := run(&c, "warm-up", "best-effort", io.Discard); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		for _, policy := range []string{"best-effort", "restricted"} {
			if err := run(&c, "kubelet-"+policy, policy, out); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return out.Flush()
}

func main() {
	if err := runAll(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "kubelet: %v\n", err)
		os.Exit(1)
	}
}
