package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/daemon/memory"
)

// machine is a host that a real daemon looks at: made up, and nothing is changed on it.
type machine struct {
	t     tb
	host  *topology.Host
	store *memory.Store
	d     *daemon.Daemon
	stop  func()
	// grants is what the operator lets claims have beyond the ceiling of their namespace.
	grants []workload.Grant

	mu       sync.Mutex
	seen     []workload.Observation
	problems []workload.Problem
}

func newMachine(t tb, synthetic string) *machine {
	h, err := topology.FromSynthetic(synthetic)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, host: h, store: memory.New(), grants: []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated}, Namespaces: []string{"*"}}}}
	m.start("")
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *machine) Look(context.Context, control.Attention) (workload.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return workload.Snapshot{Host: m.host, Observations: slices.Clone(m.seen), Problems: slices.Clone(m.problems)}, nil
}

// trouble is in the next scan.
func (m *machine) trouble(subject, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems = append(m.problems, workload.Problem{Subject: subject, Text: text})
}

// offline takes a CPU offline, or all online when there is none.
func (m *machine) offline(all *topology.Host, cpus ...topology.CPUID) {
	h := *all
	h.Online, h.Allowed, h.Offline, h.Nodes, h.Cores = h.Online.Clone(), h.Allowed.Clone(), h.Offline.Clone(), slices.Clone(h.Nodes), slices.Clone(h.Cores)
	off := topology.CPUs(cpus...)
	h.Online, h.Allowed, h.Offline = h.Online.Minus(off), h.Allowed.Minus(off), h.Offline.Union(off)
	for i := range h.Nodes {
		h.Nodes[i].CPUs = h.Nodes[i].CPUs.Minus(off)
	}
	for i := range h.Cores {
		h.Cores[i].CPUs = h.Cores[i].CPUs.Minus(off)
	}
	h.Cores = slices.DeleteFunc(h.Cores, func(c topology.Core) bool { return c.CPUs.Empty() })
	h.LLCs, h.Packages = slices.Clone(h.LLCs), slices.Clone(h.Packages)
	for i := range h.LLCs {
		h.LLCs[i].CPUs = h.LLCs[i].CPUs.Minus(off)
	}
	h.LLCs = slices.DeleteFunc(h.LLCs, func(c topology.LLC) bool { return c.CPUs.Empty() })
	for i := range h.Packages {
		h.Packages[i].CPUs = h.Packages[i].CPUs.Minus(off)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = &h
}

func (m *machine) Stale(workload.ID)   {}
func (m *machine) Changed(workload.ID) {}

type clock struct{}

func (clock) Now() time.Time                         { return time.Now() }
func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// start begins a daemon on what an earlier one has left; on a socket, unless it is "".
func (m *machine) start(socket string) {
	m.t.Helper()
	settings := control.Settings{Grants: m.grants, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings()}
	ready := make(chan struct{})
	d, err := daemon.New(daemon.Options{Settings: settings, Period: 50 * time.Millisecond, Version: "test", BootID: "boot", Observer: m, Store: m.store, Clock: clock{},
		Log: slog.New(slog.DiscardHandler), Ready: func(*daemon.Daemon) { close(ready) }, Alive: func() {}})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	ends := 1
	if socket != "" {
		l, err := api.Listen(socket, api.Access{Group: -1})
		if err != nil {
			m.t.Fatal(err)
		}
		ends++
		go func() { ended <- api.Serve(ctx, l, d, api.Access{Group: -1}) }()
	}
	<-ready
	m.d, m.stop = d, func() {
		cancel()
		for range ends {
			<-ended
		}
		m.stop = func() {}
	}
}

func (m *machine) restart(socket string) { m.stop(); m.start(socket) }

// Room and the next make a machine a homenode without a socket between.
func (m *machine) Room(ctx context.Context, without string) (api.Room, error) {
	return m.d.Room(ctx, without)
}
func (m *machine) Place(ctx context.Context, want api.Want) (api.Home, error) {
	return m.d.Place(ctx, want)
}
func (m *machine) Explain(ctx context.Context, id workload.ID) (api.Explanation, error) {
	return m.d.Explain(ctx, id)
}
func (m *machine) Events(ctx context.Context, each func(plan.Event) error) error {
	<-ctx.Done()
	return nil
}

// other holds CPUs and memory for work that no claim is about, such as a guest.
func (m *machine) other(id workload.ID, node topology.NodeID, cpus int, kib int64) {
	m.t.Helper()
	if _, err := m.d.Place(context.Background(), api.Want{ID: id, Name: string(id), Class: workload.Dedicated, CPUs: cpus, MemoryKiB: kib, Nodes: topology.Nodes(node), HoldSeconds: 3600}); err != nil {
		m.t.Fatal(err)
	}
}

// left is the CPUs that are left on each node, with and without claims.
func (m *machine) left() string {
	out := ""
	for _, without := range []string{"", claimPrefix} {
		r, err := m.d.Room(context.Background(), without)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, n := range r.Nodes {
			out += fmt.Sprint(n.CPUs, " ")
		}
		out += "/ "
	}
	return out[:len(out)-3]
}

// taken is one device of an allocated claim.
type taken struct {
	request string
	node    int
	cpus    int64
	memory  string
	huge    string // of 2 MiB pages
}

// allocated is a claim as the scheduler leaves it.
func allocated(name string, all ...taken) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, x := range all {
		share := types.UID(fmt.Sprintf("share-%d", i))
		r := resourceapi.DeviceRequestAllocationResult{Request: x.request, Driver: driverName, Pool: "n1", Device: fmt.Sprintf("numa%d", x.node), ShareID: &share,
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{capacityCPUs: *resource.NewQuantity(x.cpus, resource.DecimalSI)}}
		if x.memory != "" {
			r.ConsumedCapacity[capacityMemory] = resource.MustParse(x.memory)
		}
		if x.huge != "" {
			r.ConsumedCapacity["hugepages2Mi"] = resource.MustParse(x.huge)
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: x.request, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "numa.homenode.io"}})
	}
	return c
}

// folders is a node's folders for a driver.
func folders(t tb) options {
	dir, err := os.MkdirTemp("", "hk") // sockets may not have long names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := options{node: "n1", socket: filepath.Join(dir, "hn.sock"), state: filepath.Join(dir, "state"), cdi: filepath.Join(dir, "cdi"), kubelet: filepath.Join(dir, "kubelet"), managers: refuse}
	for _, d := range []string{o.state, o.cdi, filepath.Join(o.kubelet, "plugins_registry")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// tb is what helpers need of a test.
type tb interface {
	Helper()
	Fatal(...any)
	Error(...any)
	Cleanup(func())
}
