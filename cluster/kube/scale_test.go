package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homenode/homenode/core/topology"
)

// What 200 nodes of 8 NUMA nodes each cost: the bytes that they publish, and how long the
// stock scheduler takes for a pod. Written to the file that HOMENODE_KUBE_SCALE names.
func TestScale(t *testing.T) {
	out := os.Getenv("HOMENODE_KUBE_SCALE")
	if out == "" {
		t.Skip("HOMENODE_KUBE_SCALE is not set: `make kube-scale` measures")
	}
	const nodes, pods = 200, 200
	c := newCluster(t)
	m := newMachine(t, "package:2 node:4(memory=128GiB,hugepages=2MiB:1024) core:16 pu:2")
	m.host.Measured = &topology.Measured{}
	for range m.host.Nodes {
		m.host.Measured.LatencyNs = append(m.host.Measured.LatencyNs, slices.Repeat([]float64{120}, len(m.host.Nodes)))
	}
	m.restart("")
	room, err := m.Room(t.Context(), claimPrefix)
	if err != nil {
		t.Fatal(err)
	}
	var one *resourceapi.ResourceSlice
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		c.node(name, 256)
		one, err = c.client.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{Driver: driverName, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1}, Devices: devices(&room, offer{})}}, metav1.CreateOptions{})
		c.must(one, err)
	}
	asJSON, _ := json.Marshal(one)
	wire, _ := one.Marshal()
	measure := func(claims bool) (each []time.Duration) {
		for i := range pods {
			name, began := fmt.Sprintf("p%v%03d", claims, i), time.Now()
			if claims {
				c.pod(name, "", nil, asks("r", 20))
			} else {
				c.pod(name, "20", nil)
			}
			c.scheduled(name)
			each = append(each, time.Since(began))
			if !claims {
				c.remove(name)
			}
		}
		slices.Sort(each)
		return each
	}
	plain, claimed := measure(false), measure(true)
	// A node whose ledger changed sends its slice again.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"x": "y"}}})
	began := time.Now()
	c.must(c.client.ResourceV1().ResourceSlices().Patch(t.Context(), "n000", types.MergePatchType, patch, metav1.PatchOptions{}))
	update := time.Since(began)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000) }
	row := func(each []time.Duration) string {
		return fmt.Sprintf("%s | %s | %s", ms(each[len(each)/2]), ms(each[len(each)*99/100]), ms(each[len(each)-1]))
	}
	changed, driver, daemon := publication(t, c, 100, ""), publication(t, c, 20, "driver"), publication(t, c, 20, "daemon")
	load, _ := os.ReadFile("/proc/loadavg")
	load, _, _ = bytes.Cut(load, []byte(" "))
	text := fmt.Sprintf(`# Kubernetes: %d nodes of 8 NUMA nodes

Written by `+"`make kube-scale`"+`: stock kube-apiserver, kube-scheduler (Kubernetes %s) and etcd on one machine (%s, %d CPUs, %s), nodes without a kubelet, %d pods one
after the other, from POST to the node name as it is read back (every 20 ms). A pod with a claim is a claim and a pod. Measured once, on a machine that others
use as well (load average at the end: %s): no comparison of versions.

| | p50 | p99 | most |
|---|---|---|---|
| pod that requests 20 CPUs | %s |
| pod with a claim for 20 CPUs and 1 GiB of one NUMA node | %s |

From an order to the daemon, over its socket, to the slice that says so, as a watch of the API server has it (100 orders; 20 after each restart, the start included):

| | p50 | p99 | most |
|---|---|---|---|
| nothing restarted | %s |
| driver started again first | %s |
| daemon started again first | %s |

| API objects | |
|---|---|
| ResourceSlice of a node, JSON | %d bytes |
| ResourceSlice of a node, protobuf, as the scheduler reads it | %d bytes |
| all %d, protobuf | %d KiB |
| update of one slice | %s |
`, nodes, serverVersion(c), runtime.GOARCH, runtime.NumCPU(), runtime.Version(), pods, load,
		row(plain), row(claimed), row(changed), row(driver), row(daemon),
		len(asJSON), len(wire), nodes, len(wire)*nodes>>10, ms(update))
	if err := os.WriteFile(out, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func serverVersion(c *cluster) string {
	v, err := c.client.Discovery().ServerVersion()
	c.must(v, err)
	return v.GitVersion
}
