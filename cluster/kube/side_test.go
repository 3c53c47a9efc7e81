package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// peerDRA is the path of dra-driver-cpu, which somebody has built; sideOut is the file that what
// was seen is written to.
const (
	peerDRA    = "HOMENODE_PEER_DRA_CPU"
	sideOut    = "HOMENODE_PEER_OUT"
	peerDriver = "dra.cpu"
)

// sideHost is four NUMA nodes of 8 CPUs and 16 GiB, with 4 GiB of huge pages on node 3.
const sideHost = "package:2 node:2(memory=16GiB) core:8 pu:1"

const gib = 1 << 20 // KiB

// scene is a host as it is before a pod comes, and what the pod wants.
type scene struct {
	name    string
	cpus    []int // of each request
	memory  int   // GiB of each request
	huge    int   // GiB of 2 MiB pages, of each request
	gpu     bool  // a device of another driver, on NUMA node 2, in line with all requests
	second  bool  // it is the second such pod
	holds   func(m *machine)
	expects string // what ours has to be
}

var scenes = []scene{
	{name: "4 CPUs, 12 GiB; there is one such pod already", cpus: []int{4}, memory: 12, second: true, expects: "aligned"},
	{name: "4 CPUs, 12 GiB; VMs have left 2 GiB on nodes 0 to 2", cpus: []int{4}, memory: 12, holds: func(m *machine) { vms(m, 0, 14, 0, 1, 2) }, expects: "aligned"},
	{name: "4 CPUs, 4 GiB; VMs have 6 CPUs of each of nodes 0 to 2", cpus: []int{4}, memory: 4, holds: func(m *machine) { vms(m, 6, 1, 0, 1, 2) }, expects: "aligned"},
	{name: "10 CPUs in one request; each NUMA node has 8", cpus: []int{10}, memory: 4, expects: "refused"},
	{name: "two requests of 6 CPUs and 10 GiB", cpus: []int{6, 6}, memory: 10, expects: "aligned"},
	{name: "4 CPUs, 4 GiB and a GPU (NUMA node 2), by matchAttribute", cpus: []int{4}, memory: 4, gpu: true, expects: "aligned"},
	{name: "the same, 12 GiB; a VM has left 2 GiB on node 2", cpus: []int{4}, memory: 12, gpu: true, holds: func(m *machine) { vms(m, 0, 14, 2) }, expects: "refused"},
	{name: "4 CPUs, 2 GiB of 2 MiB pages; only node 3 has such pages", cpus: []int{4}, huge: 2, expects: "aligned"},
}

// vms holds CPUs and memory of NUMA nodes for guests that Kubernetes does not know.
func vms(m *machine, cpus, memory int, nodes ...topology.NodeID) {
	for _, n := range nodes {
		m.other(workload.ID(fmt.Sprintf("vm:%d", n)), n, cpus, int64(memory)*gib)
	}
}

// outcome is what became of a pod.
type outcome struct{ verdict, why, raw string }

// sideMachine is the host of a scene.
func sideMachine(t *testing.T, s scene) *machine {
	m := newMachine(t, sideHost)
	m.host.Nodes[3].HugePages = []topology.HugePool{{Size: 2048, Total: 2048, Free: 2048}}
	m.restart("")
	if s.holds != nil {
		s.holds(m)
	}
	return m
}

// sideNode makes a Kubernetes node of a host, with the GPU that another driver offers.
func (c *cluster) sideNode(name string, m *machine) {
	c.node(name, m.host.Online.Len())
	n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	c.must(n, err)
	n.Status.Capacity["hugepages-2Mi"] = resource.MustParse("4Gi")
	n.Status.Allocatable = n.Status.Capacity
	c.must(c.client.CoreV1().Nodes().UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{}))
	at := int64(2)
	c.must(c.client.ResourceV1().ResourceSlices().Create(c.t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-gpu"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{deviceattribute.StandardDeviceAttributeNUMANode: {IntValue: &at}}}}}}, metav1.CreateOptions{}))
}

// peer runs dra-driver-cpu for a node, in mounts of its own: it reads the host from an overlay of
// sysfs, is registered as the kubelet does it, and has an NRI that runs nothing.
func (c *cluster) peer(o options, node, mode string, m *machine) {
	dir := filepath.Dir(o.socket)
	quiet := func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return nil, nil
	}
	nri := filepath.Join(dir, "nri")
	if err := os.MkdirAll(nri, 0o700); err != nil {
		c.t.Fatal(err)
	}
	a, err := adaptation.New("none", "1", func(ctx context.Context, cb adaptation.SyncCB) error { _, err := cb(ctx, nil, nil); return err }, quiet,
		adaptation.WithSocketPath(filepath.Join(nri, "nri.sock")), adaptation.WithPluginPath(c.t.TempDir()), adaptation.WithPluginConfigPath(c.t.TempDir()))
	c.must(a, err)
	c.must(nil, a.Start())
	c.t.Cleanup(a.Stop)
	overlay := filepath.Join(dir, "sysfs.yaml")
	c.must(nil, os.WriteFile(overlay, sysfs(m.host), 0o600))
	c.run("/usr/bin", "unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir /run/cdi /run/nri && mount --bind "$1" /run/cdi && mount --bind "$2" /run/nri && shift 2 && exec "$@"`, "sh",
		o.cdi, nri, os.Getenv(peerDRA), "--kubeconfig="+filepath.Join(c.dir, "kubeconfig"), "--bind-address=127.0.0.1:0", "--kubelet-root-dir="+o.kubelet, "--hostname-override="+node,
		"--sysfs-overlay="+overlay, "--cpu-device-mode="+mode, "--group-by=numanode")
	conn := c.dial(filepath.Join(o.kubelet, "plugins_registry", peerDriver+"-reg.sock"))
	r := registration.NewRegistrationClient(conn)
	c.until("dra-driver-cpu wants to be registered", func() bool {
		_, err := r.GetInfo(c.t.Context(), &registration.InfoRequest{})
		return err == nil
	})
	c.must(r.NotifyRegistrationStatus(c.t.Context(), &registration.RegistrationStatus{PluginRegistered: true}))
}

func (c *cluster) dial(socket string) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}))
	c.must(conn, err)
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// sysfs is the files of a host that dra-driver-cpu reads; JSON is YAML.
func sysfs(h *topology.Host) []byte {
	const cpus = "/sys/devices/system/cpu/"
	files := map[string]string{cpus + "online": h.Online.String(), cpus + "smt/control": "notsupported"}
	for _, n := range h.Nodes {
		files[fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", n.ID)] = n.CPUs.String()
		for id := range n.CPUs.All() {
			dir := fmt.Sprintf("%scpu%d/", cpus, id)
			files[dir+"topology/physical_package_id"], files[dir+"topology/core_id"] = fmt.Sprint(n.ID/2), fmt.Sprint(id)
			files[dir+"cache/index3/level"], files[dir+"cache/index3/id"], files[dir+"cache/index3/shared_cpu_list"] = "3", fmt.Sprint(n.ID), n.CPUs.String()
			files[fmt.Sprintf("%snode%d/cpulist", dir, n.ID)] = n.CPUs.String()
		}
	}
	text, _ := json.Marshal(files)
	return text
}

// sideRequests is what a scene asks of a driver, in its own terms.
func sideRequests(s scene, driver, mode string) (all []resourceapi.DeviceRequest) {
	for i, cpus := range s.cpus {
		one := &resourceapi.ExactDeviceRequest{DeviceClassName: peerDriver}
		count := map[resourceapi.QualifiedName]resource.Quantity{peerDriver + "/cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
		switch {
		case driver == driverName:
			one.DeviceClassName = "numa." + driverName
			count = map[resourceapi.QualifiedName]resource.Quantity{capacityCPUs: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
			if s.memory > 0 {
				count[capacityMemory] = resource.MustParse(fmt.Sprintf("%dGi", s.memory))
			}
			if s.huge > 0 {
				count["hugepages2Mi"] = resource.MustParse(fmt.Sprintf("%dGi", s.huge))
			}
		case mode == "individual":
			one.AllocationMode, one.Count, count = resourceapi.DeviceAllocationModeExactCount, int64(cpus), nil
		}
		if count != nil {
			one.Capacity = &resourceapi.CapacityRequirements{Requests: count}
		}
		all = append(all, resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: one})
	}
	if s.gpu {
		all = append(all, resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}})
	}
	return all
}

// sidePod makes the pod of a scene on one node, with its claim. What it claims stands in its
// requests too, as the scheduler has it without the mapping of KEP-5517.
func (c *cluster) sidePod(name, node string, s scene, driver, mode string) {
	ctx := c.t.Context()
	claim := resourceapi.DeviceClaim{Requests: sideRequests(s, driver, mode)}
	same := resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributeNUMANode)
	if s.gpu {
		claim.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &same}}
	} else if mode == "individual" { // else each CPU may be anywhere
		for _, r := range claim.Requests {
			claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{Requests: []string{r.Name}, MatchAttribute: &same})
		}
	}
	c.must(c.client.ResourceV1().ResourceClaims("default").Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimSpec{Devices: claim}}, metav1.CreateOptions{}))
	sum := 0
	for _, n := range s.cpus {
		sum += n
	}
	wants := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(sum), resource.DecimalSI)}
	for name, each := range map[corev1.ResourceName]int{"memory": max(1, s.memory), "hugepages-2Mi": s.huge} {
		if each > 0 {
			wants[name] = resource.MustParse(fmt.Sprintf("%dGi", each*len(s.cpus)))
		}
	}
	c.must(c.client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"kubernetes.io/hostname": node}, ResourceClaims: []corev1.PodResourceClaim{{Name: "home", ResourceClaimName: &name}},
		Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: wants, Limits: wants, Claims: []corev1.ResourceClaim{{Name: "home"}}}}}}}, metav1.CreateOptions{}))
}

// placed waits until the scheduler has decided, and has the driver prepare the claim. split is
// the requests that got devices of several NUMA nodes.
func (c *cluster) placed(pod string, o options, driver string, h *topology.Host) (refused, raw string, split []string) {
	c.until(pod+" is decided", func() bool {
		p, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
		c.must(p, err)
		for _, x := range p.Status.Conditions {
			if x.Type == corev1.PodScheduled && x.Reason == corev1.PodReasonUnschedulable && p.Spec.NodeName == "" {
				refused = x.Message
			}
		}
		return p.Spec.NodeName != "" || refused != ""
	})
	if refused != "" {
		return "by the scheduler", refused, nil
	}
	claim := c.claim(pod)
	at := map[string]topology.NodeSet{}
	for _, r := range claim.Status.Allocation.Devices.Results {
		raw += r.Request + "=" + r.Device + " "
		var n topology.NodeID
		if _, err := fmt.Sscanf(r.Device, "cpudev%d", &n); err == nil { // without SMT the number is that of the CPU
			n = nodeOf(h, topology.CPUID(n))
			at[r.Request] = at[r.Request].Union(topology.Nodes(n))
		}
		if at[r.Request].Len() > 1 && !slices.Contains(split, r.Request) {
			split = append(split, r.Request)
		}
	}
	k := dra.NewDRAPluginClient(c.dial(filepath.Join(o.kubelet, "plugins", driver, "dra.sock")))
	p, err := k.NodePrepareResources(c.t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{{Namespace: "default", Name: pod, Uid: string(claim.UID)}}})
	c.must(p, err)
	if why := p.Claims[string(claim.UID)].Error; why != "" {
		return "by the driver, after the pod was bound", raw + why, nil
	}
	return "", raw, split
}

var cpusetIn = regexp.MustCompile(`"DRA_CPUSET[^"=]*=([0-9,-]+)"`)

// theirCPUs is what dra-driver-cpu gave to the one claim of its folder.
func theirCPUs(t *testing.T, o options) (cpus topology.CPUSet) {
	files, _ := filepath.Glob(filepath.Join(o.cdi, "*.json"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range cpusetIn.FindAllStringSubmatch(string(text), -1) {
			set, err := topology.ParseCPUSet(m[1])
			if err != nil {
				t.Fatal(err)
			}
			cpus = cpus.Union(set)
		}
	}
	return cpus
}

func nodeOf(h *topology.Host, cpu topology.CPUID) topology.NodeID {
	return h.Nodes[slices.IndexFunc(h.Nodes, func(n topology.Node) bool { return n.CPUs.Has(cpu) })].ID
}

// judge compares what a pod was given with what the host had left before it came.
func judge(s scene, m *machine, cpus topology.CPUSet, split []string, memory, huge map[topology.NodeID]int64) outcome {
	var nodes topology.NodeSet
	var left, pages int64
	for _, n := range m.host.Nodes {
		if cpus.Intersects(n.CPUs) {
			nodes = nodes.Union(topology.Nodes(n.ID))
			left, pages = left+memory[n.ID], pages+huge[n.ID]
		}
	}
	var wrong []string
	for id, p := range m.d.View().Held() {
		if both := p.CPUs.Intersect(cpus); strings.HasPrefix(string(id), "vm:") && !both.Empty() {
			wrong = append(wrong, fmt.Sprintf("CPUs %s are a VM's", both))
		}
	}
	slices.Sort(wrong)
	for _, r := range split {
		wrong = append(wrong, "request "+r+" has CPUs of several nodes")
	}
	if want := int64(s.memory*len(s.cpus)) * gib; left < want {
		wrong = append(wrong, fmt.Sprintf("%d of its %d GiB fit beside its CPUs", left/gib, want/gib))
	}
	if want := int64(s.huge*len(s.cpus)) * gib; pages < want {
		wrong = append(wrong, fmt.Sprintf("%d of its %d GiB of huge pages are beside its CPUs", pages/gib, want/gib))
	}
	if s.gpu && nodes.String() != "2" {
		wrong = append(wrong, "its CPUs are not on the GPU's node")
	}
	o := outcome{verdict: "aligned", why: fmt.Sprintf("CPUs %s, node %s", cpus, nodes)}
	if wrong != nil {
		o.verdict, o.why = "torn", o.why+": "+strings.Join(wrong, "; ")
	}
	return o
}

// The same pods by dra-driver-cpu and by homenode, on the stock scheduler. What homenode does is
// tested; what the other does is written down.
func TestSideBySide(t *testing.T) {
	if os.Getenv(peerDRA) == "" {
		t.Skip(peerDRA + " does not name a dra-driver-cpu, which somebody has built")
	}
	c := newCluster(t)
	for name, driver := range map[string]string{"gpu": "gpu.example.com", peerDriver: peerDriver} {
		c.must(c.client.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == '" + driver + "'"}}}}}, metav1.CreateOptions{}))
	}
	var table, log strings.Builder
	for i, s := range scenes {
		fmt.Fprintf(&table, "| %s |", s.name)
		fmt.Fprintf(&log, "%s\n", s.name)
		for _, side := range []struct{ name, driver, mode string }{{"grouped", peerDriver, "grouped"}, {"individual", peerDriver, "individual"}, {"homenode", driverName, ""}} {
			m, o, node := sideMachine(t, s), folders(t), fmt.Sprintf("s%d-%s", i, side.name)
			c.sideNode(node, m)
			memory, huge := map[topology.NodeID]int64{}, map[topology.NodeID]int64{}
			room, err := m.Room(t.Context(), "")
			c.must(nil, err)
			for _, n := range room.Nodes {
				memory[n.Node] = *n.MemoryKiB
				for _, p := range n.HugePages {
					huge[n.Node] += p.FreeKiB
				}
			}
			if side.driver == driverName {
				c.driver(o, node, m)
			} else {
				c.peer(o, node, side.mode, m)
			}
			c.until(node+" is offered", func() bool {
				all, err := c.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",spec.driver=" + side.driver})
				c.must(all, err)
				return len(all.Items) > 0
			})
			given := func() topology.CPUSet {
				cpus := theirCPUs(t, o)
				for id, p := range m.d.View().Held() {
					if strings.HasPrefix(string(id), claimPrefix) {
						cpus = cpus.Union(p.CPUs)
					}
				}
				return cpus
			}
			var first topology.CPUSet
			if s.second {
				c.sidePod(node+"-first", node, s, side.driver, side.mode)
				if refused, raw, _ := c.placed(node+"-first", o, side.driver, m.host); refused != "" {
					t.Fatalf("%s: the first: %s %s", s.name, refused, raw)
				}
				first = given()
				memory[nodeOf(m.host, first.Min())] -= int64(s.memory) * gib
			}
			c.sidePod(node, node, s, side.driver, side.mode)
			got := outcome{verdict: "refused"}
			var split []string
			if got.why, got.raw, split = c.placed(node, o, side.driver, m.host); got.why == "" {
				raw, cpus := got.raw, given().Minus(first)
				if got = judge(s, m, cpus, split, memory, huge); cpus.Empty() {
					got = outcome{verdict: "unknown", why: "no CPUs are told"}
				}
				got.raw = raw
			}
			fmt.Fprintf(&table, " **%s**, %s |", got.verdict, got.why)
			fmt.Fprintf(&log, "  %-10s  %-7s  %s\n              %s\n", side.name, got.verdict, got.why, strings.TrimSpace(got.raw))
			if side.driver == driverName && got.verdict != s.expects {
				t.Errorf("%s: %+v", s.name, got)
			}
		}
		table.WriteString("\n")
	}
	t.Logf("\n%s", log.String())
	out := os.Getenv(sideOut)
	if out == "" {
		return
	}
	built, err := buildinfo.ReadFile(os.Getenv(peerDRA))
	c.must(built, err)
	version := built.Main.Version
	text := fmt.Sprintf(`# Claims by dra-driver-cpu and by homenode, side by side

Written by TestSideBySide of cluster/kube on %s, with dra-driver-cpu %s built from its public source; stock kube-apiserver, kube-scheduler (Kubernetes %s) and etcd.
Each pod has a Kubernetes node to itself: a made-up host with four NUMA nodes of 8 CPUs and 16 GiB each, and 4 GiB of 2 MiB pages on node 3. The kubelet's part (registration,
NodePrepareResources) is played by the test. CPUs are those that the driver puts into the container (its CDI file), or that homenode has booked.

**aligned**: each request has CPUs of one NUMA node, nobody else has them, and the memory it wants is free on that node. **torn**: it runs, but not so. **refused**: the pod waits, or goes to
another host. dra-driver-cpu knows no memory: where it is aligned, the memory was free by chance, and nothing is bound or booked (its companion dra-driver-memory was not tried). CPUs of VMs
can be kept from it by hand (--reserved-cpus, read when it starts).

| the pod wants | dra-driver-cpu, by NUMA node (its default) | dra-driver-cpu, single CPUs with matchAttribute on numaNode | homenode |
|---|---|---|---|
%s
## As it was said

`+"```\n%s```\n", time.Now().Format("2 Jan 2006"), version, serverVersion(c), table.String(), log.String())
	c.must(nil, os.WriteFile(out, []byte(text), 0o644))
}
