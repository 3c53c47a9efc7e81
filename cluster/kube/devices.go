package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
)

// driverName is in every ResourceSlice, device class and claim.
const driverName = "homenode.io"

// Capacities of a device. Huge pages are hugepages2Mi, hugepages1Gi and so on.
const (
	capacityCPUs   resourceapi.QualifiedName = "cpus"
	capacityMemory resourceapi.QualifiedName = "memory"
	hugePrefix                               = "hugepages"
)

// Taints of devices.
const (
	taintFull    = driverName + "/full"             // no CPU is left for dedicated work
	taintSilent  = driverName + "/no-daemon"        // the daemon does not answer: what is left is not known
	taintKubelet = driverName + "/kubelet-managers" // the kubelet's static managers pin containers, too
)

// offer is what becomes of a room: flags of the driver, and what it found out.
type offer struct {
	nodeAllocatable bool   // KEP-5517: what a claim takes counts as the pod's requests
	lists           bool   // attributes may be lists (feature gate DRAListTypeAttributes)
	silent          bool   // the daemon does not answer
	contradicted    string // by the kubelet, in words; "" when not
}

// mostTold is the nodes up to which a device says its distance to each: a device may have
// 32 attributes and capacities together.
const mostTold = 8

// name is the device's of a NUMA node.
func deviceName(n topology.NodeID) string { return fmt.Sprintf("numa%d", n) }

// devices is one device for each NUMA node with memory other than a GPU's. Capacities are without what claims
// have taken: the scheduler knows that.
func devices(room *api.Room, o offer) []resourceapi.Device {
	out := []resourceapi.Device{}
	for _, left := range room.Nodes {
		i := room.Host.Index(left.Node)
		if i < 0 || room.Host.Nodes[i].Kind == topology.NoMem {
			continue
		}
		if room.Host.Nodes[i].OfGPU() { // the GPU's own driver offers it
			continue
		}
		multiple := true
		d := resourceapi.Device{Name: deviceName(left.Node), AllowMultipleAllocations: &multiple,
			Capacity: capacities(&left, room.Host.Nodes[i].CPUs.Empty())}
		d.Attributes = attributes(room.Host, i, o.lists)
		if o.nodeAllocatable {
			d.NodeAllocatableResources = allocatable(d.Capacity)
		}
		noSchedule := func(key, value string) {
			d.Taints = append(d.Taints,
				resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
		if left.CPUs == 0 && !room.Host.Nodes[i].CPUs.Empty() {
			noSchedule(taintFull, "")
		}
		if o.silent {
			noSchedule(taintSilent, "")
		}
		if o.contradicted != "" {
			noSchedule(taintKubelet, "")
		}
		out = append(out, d)
	}
	return out
}

// capacities is what a node has left. A request that does not say takes one CPU, and no
// memory or huge pages.
func capacities(left *api.NodeRoom, noCPUs bool) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	if !noCPUs {
		cpus := resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(left.CPUs), resource.DecimalSI)}
		if left.CPUs > 0 { // whole CPUs, one at least
			one := resource.NewQuantity(1, resource.DecimalSI)
			cpus.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: one,
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: one, Step: one}}
			if left.CPUs == 1 { // a range is of two values at least
				cpus.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: one,
					ValidValues: []resource.Quantity{*one}}
			}
		}
		out[capacityCPUs] = cpus
	}
	none := resource.NewQuantity(0, resource.BinarySI)
	if left.MemoryKiB != nil {
		out[capacityMemory] = resourceapi.DeviceCapacity{
			Value:         *resource.NewQuantity(*left.MemoryKiB<<10, resource.BinarySI),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: none},
		}
	}
	for _, p := range left.HugePages {
		c := resourceapi.DeviceCapacity{Value: *resource.NewQuantity(p.FreeKiB<<10, resource.BinarySI),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: none}}
		if p.FreeKiB > 0 {
			c.RequestPolicy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: none,
				Step: resource.NewQuantity(p.SizeKiB<<10, resource.BinarySI)}
		}
		out[hugeName(p.SizeKiB)] = c
	}
	return out
}

// hugeName is the capacity of huge pages: the name of the node's resource without what an
// identifier may not have.
func hugeName(kib int64) resourceapi.QualifiedName {
	return resourceapi.QualifiedName(hugePrefix + resource.NewQuantity(kib<<10, resource.BinarySI).String())
}

// hugeSize is the page size of a capacity, in KiB.
func hugeSize(name resourceapi.QualifiedName) (int64, bool) {
	text, ok := strings.CutPrefix(string(name), hugePrefix)
	q, err := resource.ParseQuantity(text)
	return q.Value() >> 10, ok && err == nil && q.Value() >= 1<<10
}

// allocatable maps capacities to the resources that pods request.
func allocatable(
	c map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) map[corev1.ResourceName]resourceapi.NodeAllocatableResource {
	out := map[corev1.ResourceName]resourceapi.NodeAllocatableResource{}
	for name := range c {
		key := corev1.ResourceName(name)
		switch kib, huge := hugeSize(name); {
		case name == capacityCPUs:
			key = corev1.ResourceCPU
		case huge:
			key = corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(kib<<10,
				resource.BinarySI).String())
		}
		out[key] = resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: &name,
			CapacityMultiplier: resource.NewQuantity(1, resource.DecimalSI)}}
	}
	return out
}

// attributes says of a node what claims may select and align by.
func attributes(h *topology.Host, i int, lists bool) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	n := &h.Nodes[i]
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	number := func(name resourceapi.QualifiedName, v int64) { out[name] = resourceapi.DeviceAttribute{IntValue: &v} }
	text := func(name resourceapi.QualifiedName, v string) {
		if v = strings.TrimSpace(v[:min(len(v), resourceapi.DeviceAttributeMaxValueLength)]); v != "" {
			out[name] = resourceapi.DeviceAttribute{StringValue: &v}
		}
	}
	number(deviceattribute.StandardDeviceAttributeNUMANode, int64(n.ID))
	roots := map[string]bool{}
	for _, d := range h.Devices {
		if d.Node == n.ID && d.Root != "" {
			roots[d.Root] = true
		}
	}
	switch names := slices.Sorted(maps.Keys(roots)); {
	case len(names) == 1 && !lists:
		text(deviceattribute.StandardDeviceAttributePCIeRoot, names[0])
	case len(names) > 0 && lists:
		out[deviceattribute.StandardDeviceAttributePCIeRoot] = resourceapi.DeviceAttribute{StringValues: names}
	}
	if n.Package != topology.None {
		number("package", int64(n.Package))
	}
	text("cpuModel", h.CPU)
	if kind := cpuKind(h, n); kind != "" {
		text("cpuKind", kind)
	}
	llcs := int64(0)
	size, shared := int64(0), int64(0) // the largest cache, KiB, and the most CPUs of the node that share one
	for _, l := range h.LLCs {
		if l.CPUs.Intersects(n.CPUs) {
			llcs++
			size = max(size, int64(l.Size))
			shared = max(shared, int64(l.CPUs.Intersect(n.CPUs).Len()))
		}
	}
	number("llcs", llcs)
	if llcs > 0 {
		number("cpusPerLLC", shared)
	}
	if size > 0 {
		number("llcKiB", size)
	}
	text("memoryTier", string(n.Kind))
	number("totalCPUs", int64(n.CPUs.Len()))
	if h.Measured != nil && i < len(h.Measured.LatencyNs) && i < len(h.Measured.LatencyNs[i]) &&
		h.Measured.LatencyNs[i][i] > 0 {
		number("latencyNs", int64(h.Measured.LatencyNs[i][i]+0.5))
	}
	if len(h.Nodes) > mostTold {
		return out
	}
	for k := range h.Nodes {
		if k == i {
			continue
		}
		to := h.Nodes[k].ID
		if i < len(h.Distances) && k < len(h.Distances[i]) && h.Distances[i][k] > 0 {
			number(resourceapi.QualifiedName(fmt.Sprintf("distanceToNode%d", to)), int64(h.Distances[i][k]))
		}
		if m := h.Measured; m != nil && i < len(m.LatencyNs) && k < len(m.LatencyNs[i]) && m.LatencyNs[i][k] > 0 {
			number(resourceapi.QualifiedName(fmt.Sprintf("latencyNsToNode%d", to)), int64(m.LatencyNs[i][k]+0.5))
		}
	}
	return out
}

// cpuKind tells fast from slow cores, on hosts that have both: performance, efficiency or
// mixed; "" where all are alike.
func cpuKind(h *topology.Host, n *topology.Node) string {
	fast := map[bool]bool{}
	here := map[bool]bool{}
	slow := false
	for _, c := range h.Cores {
		isFast := c.Capacity == topology.None || c.Capacity >= 1024
		fast[isFast] = true
		slow = slow || !isFast
		if c.CPUs.Intersects(n.CPUs) {
			here[isFast] = true
		}
	}
	switch {
	case !slow || len(fast) < 2 || len(here) == 0:
		return ""
	case len(here) == 2:
		return "mixed"
	case here[true]:
		return "performance"
	}
	return "efficiency"
}

// steady keeps memory from being published anew for every page that some process takes: less
// is told at once, more when it is worth telling. was is what was published.
func steady(was, now []resourceapi.Device, total func(device string) int64) {
	for i := range now {
		c, ok := now[i].Capacity[capacityMemory]
		if !ok {
			continue
		}
		step := max(64<<20, total(now[i].Name)/128>>20<<20)
		free := c.Value.Value()
		value := free / step * step
		if k := slices.IndexFunc(was, func(d resourceapi.Device) bool { return d.Name == now[i].Name }); k >= 0 {
			old, had := was[k].Capacity[capacityMemory]
			if before := old.Value.Value(); had && value > before && free < before+step+step/2 {
				value = before
			}
		}
		c.Value = *resource.NewQuantity(value, resource.BinarySI)
		now[i].Capacity[capacityMemory] = c
	}
}
