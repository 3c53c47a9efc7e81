package nri

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// No test fails because the machine is busy.
func TestMain(m *testing.M) {
	adaptation.SetPluginRequestTimeout(time.Minute)
	adaptation.SetPluginRegistrationTimeout(time.Minute)
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// runtime is a container runtime: NRI as containerd and CRI-O have it, over a real socket, with
// containers that are folders. Like those it makes nothing between the end of a plugin's Synchronize and
// when the plugin is among those that are asked (Adaptation.BlockPluginSync).
type runtime struct {
	t      *testing.T
	name   string // "" is containerd
	mems   string // nodes that containers are created with; "" is all
	socket string
	mount  string
	nri    *adaptation.Adaptation

	listener net.Listener // in front of it, so that connections can be cut

	mu         sync.Mutex
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
	conns      []net.Conn
	updates    []*api.ContainerUpdate // that the plugin wished for
	unasked    int                    // of these
	adjusted   map[string]*api.ContainerAdjustment
}

func newRuntime(t *testing.T) *runtime {
	t.Helper()
	dir := t.TempDir()
	r := &runtime{t: t, socket: filepath.Join(dir, "nri.sock"), mount: filepath.Join(dir, "cgroup"), pods: map[string]*api.PodSandbox{}, containers: map[string]*api.Container{}, adjusted: map[string]*api.ContainerAdjustment{}}
	write(t, r.mount, "cpuset.cpus.effective", "0-15")
	write(t, r.mount, "cpuset.mems.effective", "0-1")
	return r
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start begins to listen, as a runtime that was started anew does on the same socket.
func (r *runtime) start() {
	r.t.Helper()
	a, err := adaptation.New(cmp.Or(r.name, "containerd"), "1.0", r.sync, r.update, adaptation.WithSocketPath(r.socket+".in"),
		adaptation.WithPluginPath(r.t.TempDir()), adaptation.WithPluginConfigPath(r.t.TempDir()))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.nri = a
	r.t.Cleanup(a.Stop)
	l, err := net.Listen("unix", r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.listener = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("unix", r.socket+".in")
			if err != nil {
				c.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, c, s)
			r.mu.Unlock()
			for _, ends := range [][2]net.Conn{{c, s}, {s, c}} {
				go func() { io.Copy(ends[0], ends[1]); ends[0].Close() }()
			}
		}
	}()
	r.t.Cleanup(r.cut)
}

// cut ends all connections, as the kernel does when one side is killed.
func (r *runtime) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// end is the runtime's own end.
func (r *runtime) end() {
	r.listener.Close()
	r.cut()
	r.nri.Stop()
}

func (r *runtime) sync(ctx context.Context, cb adaptation.SyncCB) error {
	r.mu.Lock()
	var pods []*api.PodSandbox
	var containers []*api.Container
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	for _, c := range r.containers {
		containers = append(containers, c)
	}
	r.mu.Unlock()
	updates, err := cb(ctx, pods, containers)
	if err != nil {
		return err
	}
	_, err = r.apply(updates)
	return err
}

func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	r.unasked += len(updates)
	r.mu.Unlock()
	return r.apply(updates)
}

func (r *runtime) apply(updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range updates {
		r.updates = append(r.updates, u)
		c := r.containers[u.GetContainerId()]
		if c == nil {
			continue
		}
		if cpus := u.GetLinux().GetResources().GetCpu().GetCpus(); cpus != "" {
			c.Linux.Resources.Cpu.Cpus = cpus
			write(r.t, filepath.Join(r.mount, cgroupOf(c.Linux.CgroupsPath)), "cpuset.cpus", cpus)
		}
		// It writes what it knows of memory nodes with each update, and while the container runs
		// (Manager.Set, opencontainers/cgroups, fs2): it must not be another value than stands.
		if mems := cmp.Or(u.GetLinux().GetResources().GetCpu().GetMems(), c.Linux.Resources.Cpu.Mems); mems != "" {
			c.Linux.Resources.Cpu.Mems = mems
			at := filepath.Join(r.mount, cgroupOf(c.Linux.CgroupsPath))
			text, _ := os.ReadFile(filepath.Join(at, "cpuset.mems"))
			all, _ := os.ReadFile(filepath.Join(r.mount, "cpuset.mems.effective"))
			if stands := cmp.Or(strings.TrimSpace(string(text)), strings.TrimSpace(string(all))); stands != mems {
				r.t.Errorf("the runtime changes the memory nodes of %s from %s to %s while its processes run", c.Id, stands, mems)
			}
			write(r.t, at, "cpuset.mems", mems)
		}
	}
	return nil, nil
}

func (r *runtime) pod(id, namespace, name string, annotations map[string]string) *api.PodSandbox {
	defer r.nri.BlockPluginSync().Unblock()
	p := &api.PodSandbox{Id: id, Name: name, Namespace: namespace, Uid: "uid-" + id, Annotations: annotations, Linux: &api.LinuxPodSandbox{}}
	r.mu.Lock()
	r.pods[id] = p
	r.mu.Unlock()
	if err := r.nri.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: p}); err != nil {
		r.t.Error(err)
	}
	return p
}

// create makes and starts a container as the CRI does.
func (r *runtime) create(p *api.PodSandbox, id, name string, cpus uint64, memory int64) (*api.Container, time.Duration) {
	c, took := r.made(p, id, name, cpus, memory)
	r.begin(p, c)
	return c, took
}

// begin starts a container.
func (r *runtime) begin(p *api.PodSandbox, c *api.Container) {
	defer r.nri.BlockPluginSync().Unblock()
	r.mu.Lock()
	c.State = api.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if err := r.nri.PostStartContainer(context.Background(), &api.PostStartContainerRequest{Pod: p, Container: c}); err != nil {
		r.t.Error(err)
	}
}

// made makes a container as CreateContainer of the CRI does.
func (r *runtime) made(p *api.PodSandbox, id, name string, cpus uint64, memory int64) (*api.Container, time.Duration) {
	defer r.nri.BlockPluginSync().Unblock()
	c := &api.Container{Id: id, PodSandboxId: p.Id, Name: name, State: api.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Linux: &api.LinuxContainer{CgroupsPath: "/k8s.io/" + id, Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Mems: r.mems}, Memory: &api.LinuxMemory{}}}}
	request(c, cpus, memory)
	began := time.Now()
	reply, err := r.nri.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: p, Container: c})
	took := time.Since(began)
	if err != nil {
		r.t.Errorf("create %s: %v", id, err)
	}
	if a := reply.GetAdjust(); a != nil {
		r.adjusted[id] = a
		c.Linux.Resources.Cpu.Cpus = a.GetLinux().GetResources().GetCpu().GetCpus()
		c.Linux.Resources.Cpu.Mems = a.GetLinux().GetResources().GetCpu().GetMems()
		c.Annotations = a.GetAnnotations()
	}
	dir := filepath.Join(r.mount, "k8s.io", id)
	write(r.t, dir, "cpuset.cpus", c.Linux.Resources.Cpu.Cpus)
	write(r.t, dir, "cpuset.mems", c.Linux.Resources.Cpu.Mems)
	r.mu.Lock()
	r.containers[id] = c
	r.mu.Unlock()
	return c, took
}

func (r *runtime) remove(p *api.PodSandbox) {
	defer r.nri.BlockPluginSync().Unblock()
	ctx := context.Background()
	for _, c := range r.containers {
		if c.PodSandboxId != p.Id {
			continue
		}
		answer, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: p, Container: c})
		if err != nil {
			r.t.Error(err)
		}
		r.apply(answer.GetUpdate())
		if err := r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: p, Container: c}); err != nil {
			r.t.Error(err)
		}
		r.mu.Lock()
		delete(r.containers, c.Id)
		r.mu.Unlock()
		os.RemoveAll(filepath.Join(r.mount, "k8s.io", c.Id))
	}
	r.mu.Lock()
	delete(r.pods, p.Id)
	r.mu.Unlock()
	if err := r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: p}); err != nil {
		r.t.Error(err)
	}
}

// host is two nodes of eight CPUs and 16 GiB each.
func host() *topology.Host {
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:8 pu:1")
	if err != nil {
		panic(err)
	}
	return h
}

// homes hands out homes: node 1 for all.
type homes struct {
	mu    sync.Mutex
	asked []workload.Spec
	wait  chan struct{} // nil: answer at once
	home  map[workload.ID]workload.Placement
	wrote []plan.Entry

	held, refuses bool
	booked        map[workload.ID]control.Reserved
}

// Attention implements control.Standing.
func (h *homes) Attention() control.Attention {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := control.Attention{Journal: h.wrote, Holds: control.Holds{All: h.held}, Held: h.booked}
	for _, id := range slices.Sorted(maps.Keys(h.home)) {
		now.Homes = append(now.Homes, h.home[id])
	}
	return now
}

// Admit implements control.Standing.
func (h *homes) Admit(ctx context.Context, asked control.PlaceRequest) (workload.Placement, error) {
	spec := asked.Spec
	if h.refuses {
		return workload.Placement{}, errors.New("no room")
	}
	h.mu.Lock()
	h.asked = append(h.asked, spec)
	wait := h.wait
	h.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return workload.Placement{}, ctx.Err()
		}
	}
	return workload.Placement{Workload: spec.ID, Class: spec.Class, Home: topology.Nodes(1), CPUs: topology.CPUs(8, 9, 10, 11), Bound: spec.Class == workload.Dedicated}, nil
}

func (h *homes) options(r *runtime) Options {
	return Options{Socket: r.socket, Manage: All, Key: hostKey, Grants: everything, Enforce: true, Mount: r.mount, Proc: "/proc", Within: time.Minute}
}

// joined returns a plugin with a daemon.
func joined(o Options, d control.Standing) *Plugin {
	p := New(o)
	p.Join(d)
	return p
}

// connect runs a plugin until the test ends, or stop is called.
func (r *runtime) connect(o Options, h *homes) (p *Plugin, stop func()) {
	r.t.Helper()
	p = joined(o, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	r.t.Cleanup(stop)
	r.until(func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.runtime != nil && p.synced })
	return p, stop
}

func (r *runtime) until(done func() bool) {
	r.t.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatal("it did not come to that in 30 s")
}

func (r *runtime) reads(id, file string) string {
	text, err := os.ReadFile(filepath.Join(r.mount, "k8s.io", id, file))
	if err != nil {
		return err.Error()
	}
	return string(text[:len(text)-1])
}

func claim(p *Plugin, id workload.ID) *workload.Claim {
	p.Refresh(context.Background())
	all, _ := p.Claims(host())
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// hostKey is the key of the host that the tests run on.
var hostKey = []byte("0123456789abcdef0123456789abcdef")

// everything grants all wishes to all pods.
var everything = []workload.Grant{{Allow: workload.Permissions, Namespaces: []string{"*"}}}

// request gives a container requests that equal its limits, as the QoS class Guaranteed has them.
func request(c *api.Container, cpus uint64, memory int64) {
	if cpus > 0 {
		c.Linux.Resources.Cpu.Shares, c.Linux.Resources.Cpu.Quota, c.Linux.Resources.Cpu.Period = api.UInt64(cpus*1024), api.Int64(int64(cpus)*100_000), api.UInt64(uint64(100_000))
	}
	if memory > 0 {
		c.Linux.Resources.Memory.Limit = api.Int64(memory)
	}
}
