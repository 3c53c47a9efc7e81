package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// claim is a ResourceClaim that was prepared, or is about to be.
type claim struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Nonce     string    `json:"nonce"` // in the names of its bookings: nobody else can name them
	Bookings  []booking `json:"bookings"`
}

// reference is the claim as Kubernetes events name it.
func (c *claim) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim", Namespace: c.Namespace,
		Name: c.Name, UID: c.UID}
}

// booking is one entry in the daemon's ledger, all on one NUMA node.
type booking struct {
	ID      workload.ID     `json:"id"`
	Request string          `json:"request"` // of the claim, without the subrequest
	Device  string          `json:"device"`
	ShareID *types.UID      `json:"share_id,omitempty"`
	Node    topology.NodeID `json:"node"`
	Class   workload.Class  `json:"class"`
	CPUs    int             `json:"cpus"` // 0: memory alone
	Memory  int64           `json:"memory_kib"`
	Page    int64           `json:"page_kib,omitempty"` // size of its pages; 0 for ordinary ones
	Given   topology.CPUSet `json:"given,omitzero"`     // CPUs that the daemon answered
}

// claimPrefix begins the ID of every booking.
const claimPrefix = "claim:"

// holdSeconds is how long the daemon holds a booking that nobody extends: the longest it
// takes. renewEvery leaves a driver or daemon time to be updated.
const holdSeconds = 3600

// want is what is asked of the daemon for a booking. It needs no CPU request and counts in no quota for CPUs, so that
// the ceiling of its namespace covers it (docs/security.md).
func (b *booking) want(c *claim) api.Want {
	return api.Want{ID: b.ID, Name: c.Namespace + "/" + c.Name, Class: b.Class, CPUs: b.CPUs, MemoryKiB: b.Memory,
		HugePageKiB: b.Page,
		Nodes:       topology.Nodes(b.Node), HoldSeconds: holdSeconds,
		Owner: string(workload.NamespaceOwner(c.Namespace))}
}

// settings is what a claim or a device class may set for this driver, as the parameters of
// an opaque configuration.
type settings struct {
	APIVersion string         `json:"apiVersion"` // homenode.io/v1
	Kind       string         `json:"kind"`       // Home
	Class      workload.Class `json:"class"`      // dedicated (the default) or shared
}

// configured is what holds for a request: of several the last, which is the claim's own.
func configured(all []resourceapi.DeviceAllocationConfiguration, request string) (settings, error) {
	out := settings{Class: workload.Dedicated}
	for _, c := range all {
		if c.Opaque == nil || c.Opaque.Driver != driverName ||
			(len(c.Requests) > 0 && !slices.Contains(c.Requests, request) &&
				!slices.Contains(c.Requests, mainRequest(request))) {
			continue
		}
		var s settings
		d := json.NewDecoder(bytes.NewReader(c.Opaque.Parameters.Raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return out, fmt.Errorf("configuration for %s: %w", driverName, err)
		}
		if s.APIVersion != driverName+"/v1" || s.Kind != "Home" {
			return out, fmt.Errorf("configuration for %s: apiVersion %q, kind %q; want %s/v1, Home", driverName,
				s.APIVersion, s.Kind, driverName)
		}
		if s.Class != workload.Dedicated && s.Class != workload.Shared {
			return out, fmt.Errorf("configuration for %s: class %q; want dedicated or shared", driverName, s.Class)
		}
		out = s
	}
	return out, nil
}

func mainRequest(name string) string { name, _, _ = strings.Cut(name, "/"); return name }

// asClaim reads what the scheduler has allocated of this driver's devices in the pool.
func asClaim(rc *resourceapi.ResourceClaim, pool, nonce string) (*claim, error) {
	c := &claim{UID: rc.UID, Namespace: rc.Namespace, Name: rc.Name, Nonce: nonce}
	if rc.Status.Allocation == nil {
		return nil, errors.New("the claim is not allocated")
	}
	all := &rc.Status.Allocation.Devices
	for _, r := range all.Results {
		if r.Driver != driverName {
			continue
		}
		if r.Pool != pool {
			return nil, fmt.Errorf("device %s is in pool %q, and this node's is %q", r.Device, r.Pool, pool)
		}
		s, err := configured(all.Config, r.Request)
		if err != nil {
			return nil, err
		}
		text, ok := strings.CutPrefix(r.Device, "numa")
		node, err := strconv.Atoi(text)
		if !ok || err != nil || node < 0 || deviceName(topology.NodeID(node)) != r.Device {
			return nil, fmt.Errorf("no device %q here: devices are named numa0, numa1 and so on", r.Device)
		}
		if r.ConsumedCapacity == nil {
			return nil,
				fmt.Errorf("device %s was allocated without capacities: this cluster lacks the feature gate "+
					"DRAConsumableCapacity", r.Device)
		}
		base := booking{Request: mainRequest(r.Request), Device: r.Device, ShareID: r.ShareID,
			Node: topology.NodeID(node)}
		add := func(cpus int, kib, page int64) {
			b := base
			b.ID = workload.ID(fmt.Sprintf("%s%s:%s/%d", claimPrefix, c.UID, c.Nonce, len(c.Bookings)))
			b.CPUs = cpus
			b.Memory = kib
			b.Page = page
			b.Class = s.Class
			if cpus == 0 {
				b.Class = workload.Shared // memory alone
			}
			c.Bookings = append(c.Bookings, b)
		}
		cpus, memory := r.ConsumedCapacity[capacityCPUs], r.ConsumedCapacity[capacityMemory]
		if cpus.Value() > 0 || memory.Value() > 0 {
			add(int(cpus.Value()), (memory.Value()+1023)>>10, 0)
		}
		var sizes []int64
		for name, q := range r.ConsumedCapacity {
			if kib, huge := hugeSize(name); huge && q.Value() > 0 {
				sizes = append(sizes, kib)
			}
		}
		slices.Sort(sizes)
		for _, kib := range sizes {
			q := r.ConsumedCapacity[hugeName(kib)]
			add(0, (q.Value()+1023)>>10, kib)
		}
	}
	if len(c.Bookings) == 0 {
		return nil, errors.New("the claim takes nothing of this driver's devices")
	}
	return c, nil
}
