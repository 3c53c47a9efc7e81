package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// kubelet asks a driver as the kubelet does, over its socket.
func kubelet(t *testing.T, o options) dra.DRAPluginClient {
	conn, err := grpc.NewClient("passthrough:///dra", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(o.kubelet, "plugins", driverName, "dra.sock"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return dra.NewDRAPluginClient(conn)
}

// Host a has 12 CPUs left, 6 on each of its NUMA nodes, host b 8 on one. A pod that wants 7 goes to
// a by its requests, where it would be torn, and to b by a claim.
func TestStockSchedulerKnowsNUMANodes(t *testing.T) {
	c := newCluster(t)
	a, b := newMachine(t, "package:2 node:1 core:8 pu:1"), newMachine(t, "package:1 core:8 pu:1")
	a.other("vm:one", 0, 2, 1<<20)
	a.other("vm:two", 1, 2, 1<<20)
	c.node("a", 12)
	c.node("b", 8)

	c.pod("plain", "7", nil)
	if at := c.scheduled("plain"); at != "a" {
		t.Fatalf("by requests alone it is on %s", at)
	}
	_, err := a.Place(context.Background(), api.Want{Name: "plain", Class: workload.Dedicated, CPUs: 7})
	if err == nil || !strings.Contains(err.Error(), "It fits only when split, as node 0 (6 vCPUs) and node 1 (1 vCPU)") {
		t.Fatalf("7 CPUs on a: %v", err)
	}
	t.Logf("without the driver it is on a, where it is torn: %v", err)
	c.remove("plain")

	oa, ob := folders(t), folders(t)
	c.driver(oa, "a", a)
	c.driver(ob, "b", b)
	c.offered("a", 6, 6)
	c.offered("b", 8)
	c.pod("whole", "", nil, asks("r", 7))
	if at := c.scheduled("whole"); at != "b" {
		t.Fatalf("by its claim it is on %s", at)
	}
	whole := c.claim("whole")
	r := whole.Status.Allocation.Devices.Results
	if len(r) != 1 || r[0].Device != "numa0" || r[0].Pool != "b" {
		t.Fatalf("%+v", r)
	}
	t.Logf("with the driver it is on b, device %s", r[0].Device)

	// The kubelet's part, over the driver's socket.
	k := kubelet(t, ob)
	named := &dra.Claim{Namespace: "default", Name: "whole", Uid: string(whole.UID)}
	for range 2 { // it may ask again
		p, err := k.NodePrepareResources(t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{named}})
		if err != nil || p.Claims[named.Uid].Error != "" || len(p.Claims[named.Uid].Devices) != 1 || p.Claims[named.Uid].Devices[0].CdiDeviceIds[0] != "homenode.io/claim="+named.Uid+"-r" {
			t.Fatalf("%v %v", p, err)
		}
	}
	if got := b.left(); got != "1 / 8" {
		t.Errorf("left on b: %s", got)
	}

	// Two NUMA nodes of a together, and one in line with a device of another driver.
	c.pod("wide", "", nil, asks("r", 5), asks("s", 5))
	if at := c.scheduled("wide"); at != "a" {
		t.Errorf("wide is on %s", at)
	}
	devices := map[string]bool{}
	for _, r := range c.claim("wide").Status.Allocation.Devices.Results {
		devices[r.Device] = true
	}
	if len(devices) != 2 {
		t.Errorf("wide has %v", devices)
	}
	c.pod("third", "", nil, asks("r", 2))
	c.unschedulable("third")

	// What others take is taken off at once, and what they give back is offered again.
	b.other("vm:three", 0, 1, 1<<20)
	c.offered("b", 7)
	if _, err := b.Place(t.Context(), api.Want{ID: "vm:three", Release: true}); err != nil {
		t.Fatal(err)
	}
	c.offered("b", 8)
	// A slice that is not the driver's own work is taken away.
	node := "b"
	c.must(c.client.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "forged"},
		Spec: resourceapi.ResourceSliceSpec{Driver: driverName, NodeName: &node, Pool: resourceapi.ResourcePool{Name: "b", ResourceSliceCount: 1}}}, metav1.CreateOptions{}))
	c.until("the forged slice is gone", func() bool {
		_, err := c.client.ResourceV1().ResourceSlices().Get(t.Context(), "forged", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	u, err := k.NodeUnprepareResources(t.Context(), &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{named}})
	if err != nil || u.Claims[named.Uid].Error != "" || b.left() != "8 / 8" {
		t.Errorf("%v %v; left %s", u, err, b.left())
	}
}

// A claim for a NUMA node and a device of another driver gets both on the same node.
func TestAlignedWithAnotherDriver(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "package:4 node:1 core:8 pu:1")
	c.node("a", 32)
	c.driver(folders(t), "a", m)
	c.offered("a", 8, 8, 8, 8)
	node, name := int64(2), "a"
	c.must(c.client.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "nics"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "nic.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "nic0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{deviceattribute.StandardDeviceAttributeNUMANode: {IntValue: &node}}}}}}, metav1.CreateOptions{}))
	c.must(c.client.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == 'nic.example.com'"}}}}}, metav1.CreateOptions{}))
	same := resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributeNUMANode)
	c.pod("near", "", []resourceapi.DeviceConstraint{{MatchAttribute: &same}}, asks("home", 4),
		resourceapi.DeviceRequest{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "nic"}})
	c.scheduled("near")
	var got []string
	for _, r := range c.claim("near").Status.Allocation.Devices.Results {
		got = append(got, fmt.Sprintf("%s=%s", r.Request, r.Device))
	}
	if text := strings.Join(got, " "); text != "home=numa2 nic=nic0" {
		t.Errorf("allocated: %s", text)
	}
}

// Whatever a node has left, the API server takes the slice that says so.
func TestAnyRoomCanBeTold(t *testing.T) {
	c, m := newCluster(t), newMachine(t, "package:2 node:1(hugepages=2MiB:8) core:4 pu:1")
	room, err := m.Room(t.Context(), claimPrefix)
	c.must(room, err)
	node := "a"
	c.node(node, 8)
	for cpus := range 4 {
		for pages := range int64(3) {
			n := &room.Nodes[0]
			n.CPUs, n.MemoryKiB, n.HugePages[0].FreeKiB = cpus, new(int64), pages*n.HugePages[0].SizeKiB
			*n.MemoryKiB = pages << 10
			for _, o := range []offer{{}, {silent: true}, {contradicted: "the kubelet pins"}} {
				_, err := c.client.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"},
					Spec: resourceapi.ResourceSliceSpec{Driver: driverName, NodeName: &node, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1}, Devices: devices(&room, o)}},
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					t.Errorf("%d CPUs, %d pages: %v", cpus, pages, err)
				}
			}
		}
	}
}
