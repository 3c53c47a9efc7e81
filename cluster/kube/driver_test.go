package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"pgregory.net/rapid"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// newDriver is a driver on what an earlier one has left.
func newDriver(t tb, o options, daemon homenode) *driver {
	d := &driver{daemon: daemon, file: claimsFile(filepath.Join(o.state, "claims.json")), cdi: cdiFolder(o.cdi), pool: o.node, managers: o.managers,
		static: func() string { return staticManagers(o.kubelet) }, events: record.NewFakeRecorder(100), fatal: func(err error) { t.Error(err) }}
	var err error
	if d.claims, err = d.file.read(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *driver) one(c *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	out, _ := d.PrepareResourceClaims(context.Background(), []*resourceapi.ResourceClaim{c})
	return out[c.UID]
}

func (d *driver) end(c *resourceapi.ResourceClaim) error {
	out, _ := d.UnprepareResourceClaims(context.Background(), []kubeletplugin.NamespacedObject{{UID: c.UID, NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}}})
	return out[c.UID]
}

// A claim on two nodes is booked there, on each what was allocated; it survives driver and
// daemon, and leaves nothing behind.
func TestClaimIsBookedAndLetGo(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1(hugepages=2MiB:1024) core:8 pu:1"), folders(t)
	m.other("vm:db", 0, 3, 1<<20)
	if got := m.left(); got != "5 8 / 5 8" {
		t.Fatal(got)
	}
	d := newDriver(t, o, m)
	wide := allocated("wide", taken{"a", 0, 2, "1Gi", ""}, taken{"b", 1, 4, "2Gi", "512Mi"})
	first := d.one(wide)
	if first.Err != nil || len(first.Devices) != 2 || first.Devices[1].DeviceName != "numa1" || *first.Devices[1].ShareID != "share-1" {
		t.Fatalf("%+v", first)
	}
	if got := m.left(); got != "3 4 / 5 8" {
		t.Error(got)
	}
	room, _ := m.Room(context.Background(), "")
	if p := room.Nodes[1].HugePages; p[0].FreeKiB != 1536<<10 {
		t.Errorf("huge pages left: %+v", p)
	}
	var spec cdi.Spec
	file := filepath.Join(o.cdi, "homenode.io-claim-uid-of-wide.json")
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &spec) != nil || len(spec.Devices) != 2 {
		t.Fatal(err, string(data))
	}
	held := m.d.View().Held()
	for i, x := range spec.Devices {
		if want := "homenode.io/claim=" + x.Name; first.Devices[i].CDIDeviceIDs[0] != want {
			t.Errorf("device %v, want %s", first.Devices[i], want)
		}
		name, ids, _ := strings.Cut(x.ContainerEdits.Env[0], "=")
		if name != "HOMENODE_CLAIM_uid_of_wide_"+[]string{"a", "b"}[i] {
			t.Error(name)
		}
		for id := range strings.FieldsSeq(ids) {
			if p, ok := held[workload.ID(id)]; !ok || !p.Home.Equal(topology.Nodes(topology.NodeID(i))) {
				t.Errorf("%s: %+v", id, p)
			}
		}
	}
	cpus := func() string { return fmt.Sprint(m.d.View().Held()[d.claims[wide.UID].Bookings[1].ID].CPUs) }
	were := cpus()
	for _, again := range []func(){
		func() {},
		func() { d = newDriver(t, o, m) },
		func() { m.restart("") },
		func() { m.restart(""); d = newDriver(t, o, m); os.Remove(file); d.renew(context.Background()) },
	} {
		again()
		if r := d.one(wide); r.Err != nil || len(r.Devices) != 2 || m.left() != "3 4 / 5 8" || cpus() != were {
			t.Errorf("%+v; left %s; CPUs %s, were %s", r, m.left(), cpus(), were)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(data) {
			t.Errorf("CDI: %v %s", err, now)
		}
	}
	if err := d.end(wide); err != nil || d.end(wide) != nil || m.left() != "5 8 / 5 8" || len(m.d.View().Held()) != 1 {
		t.Errorf("%v; left %s", err, m.left())
	}
	if rest, err := d.file.read(); err != nil || len(rest) != 0 {
		t.Error(rest, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("its CDI file is still there")
	}
}

// silent is a daemon that does not answer.
type silent struct {
	homenode
	asked int
}

func (s *silent) Place(context.Context, api.Want) (api.Home, error) {
	s.asked++
	return api.Home{}, api.ErrLate
}

// A daemon that does not answer is not waited for once for each claim: nothing is prepared or
// published meanwhile.
func TestRenewalByASilentDaemon(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:4 pu:1"), folders(t)
	d := newDriver(t, o, m)
	for _, name := range []string{"a", "b", "c"} {
		if r := d.one(allocated(name, taken{"r", 0, 1, "1Gi", ""})); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	s := &silent{homenode: m}
	d.daemon = s
	if err := d.renew(context.Background()); err == nil || s.asked != 1 {
		t.Errorf("%v; asked %d times", err, s.asked)
	}
	d.daemon = m
	if err := d.renew(context.Background()); err != nil || len(d.claims) != 3 {
		t.Errorf("%v; %d claims", err, len(d.claims))
	}
}

// What cannot be booked whole is not booked at all, and the error says what was asked.
func TestClaimThatDoesNotFit(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1(memory=8GiB) core:4 pu:1"), folders(t)
	d := newDriver(t, o, m)
	for name, x := range map[string]struct {
		claim *resourceapi.ResourceClaim
		says  string
	}{
		"CPUs":      {allocated("a", taken{"r", 0, 2, "1Gi", ""}, taken{"s", 1, 5, "1Gi", ""}), "book 5 CPUs and 1024 MiB on NUMA node 1"},
		"memory":    {allocated("a", taken{"r", 0, 2, "9Gi", ""}), "on NUMA node 0"},
		"pages":     {allocated("a", taken{"r", 0, 2, "1Gi", "2Mi"}), "on NUMA node 0"},
		"node":      {allocated("a", taken{"r", 7, 2, "1Gi", ""}), "on NUMA node 7"},
		"nothing":   {allocated("a", taken{"r", 0, 0, "", ""}), "takes nothing"},
		"no device": {allocated("a"), "takes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := d.one(x.claim); r.Err == nil || !strings.Contains(r.Err.Error(), x.says) || !strings.HasPrefix(r.Err.Error(), "homenode: claim default/a: ") {
				t.Errorf("%v", r.Err)
			}
			if got := m.left(); got != "4 4 / 4 4" || len(d.claims) != 0 {
				t.Errorf("left %s, %d claims", got, len(d.claims))
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	m, o := newMachine(t, "package:1 core:8 pu:1"), folders(t)
	d := newDriver(t, o, m)
	with := func(text string, requests ...string) *resourceapi.ResourceClaim {
		c := allocated("a", taken{"r", 0, 4, "1Gi", ""})
		c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{Requests: requests, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driverName, Parameters: runtime.RawExtension{Raw: []byte(text)}}}}}
		return c
	}
	const shared = `{"apiVersion":"homenode.io/v1","kind":"Home","class":"shared"}`
	for _, x := range []struct {
		claim *resourceapi.ResourceClaim
		says  string
		class workload.Class
	}{
		{with(shared), "", workload.Shared},
		{with(shared, "r"), "", workload.Shared},
		{with(shared, "other"), "", workload.Dedicated},
		{with(`{"apiVersion":"homenode.io/v1","kind":"Home","class":"batch"}`), `class "batch"; want dedicated or shared`, ""},
		{with(`{"apiVersion":"homenode.io/v2","kind":"Home","class":"shared"}`), `want homenode.io/v1, Home`, ""},
		{with(`{"clas":"shared"}`), `unknown field "clas"`, ""},
	} {
		r := d.one(x.claim)
		if x.says != "" {
			if r.Err == nil || !strings.Contains(r.Err.Error(), x.says) {
				t.Errorf("%v, want %s", r.Err, x.says)
			}
			continue
		}
		if c := d.claims[x.claim.UID]; r.Err != nil || c == nil || c.Bookings[0].Class != x.class {
			t.Errorf("%+v", r)
		}
		d.end(x.claim)
	}
}

// Where the kubelet pins containers itself, claims are refused and the devices have a taint,
// or it is told in an event, by policy.
func TestKubeletManagers(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:4 pu:1"), folders(t)
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(o.kubelet, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu_manager_state", `{"policyName":"none","defaultCpuSet":"","checksum":1}`)
	write("memory_manager_state", `{"policyName":"None","checksum":1}`)
	claim := allocated("a", taken{"r", 1, 2, "", ""})
	d := newDriver(t, o, m)
	if r := d.one(claim); r.Err != nil {
		t.Fatal(r.Err)
	}
	d.end(claim)
	write("cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-7","checksum":1}`)
	write("memory_manager_state", `{"policyName":"Static","checksum":1}`)
	if r := d.one(claim); r.Err == nil || !strings.Contains(r.Err.Error(), "the kubelet pins containers itself: CPU manager (static) and memory manager (Static). Set both") || m.left() != "4 4 / 4 4" {
		t.Errorf("%v", r.Err)
	}
	room, _ := m.Room(context.Background(), claimPrefix)
	for _, dev := range devices(&room, offer{contradicted: d.static()}) {
		if len(dev.Taints) != 1 || dev.Taints[0].Key != taintKubelet || dev.Taints[0].Effect != resourceapi.DeviceTaintEffectNoSchedule {
			t.Errorf("%+v", dev.Taints)
		}
	}
	o.managers = report
	d = newDriver(t, o, m)
	if r := d.one(claim); r.Err != nil || m.left() != "4 2 / 4 4" {
		t.Errorf("%v; left %s", r.Err, m.left())
	}
	if text := <-d.events.(*record.FakeRecorder).Events; !strings.Contains(text, "KubeletPinsToo") || !strings.Contains(text, "CPU manager (static)") {
		t.Error(text)
	}
}

// TestNoDeviceForAGPU: no device stands for memory of a GPU: its own driver offers it.
func TestNoDeviceForAGPU(t *testing.T) {
	m := newMachine(t, "package:2 node:1 core:4 pu:1")
	room, err := m.Room(context.Background(), claimPrefix)
	if err != nil {
		t.Fatal(err)
	}
	host := *room.Host
	host.Nodes = slices.Clone(host.Nodes)
	host.Nodes[1].Kind, host.Nodes[1].Type = topology.Special, topology.TypeGPU
	room.Host = &host
	all := devices(&room, offer{})
	if len(all) != 1 || all[0].Name != "numa0" {
		t.Errorf("%d devices: %+v", len(all), all)
	}
}

// A claim needs no CPU request, so that a quota of CPUs does not bound it: without a grant of the operator the claims of a
// namespace hold half of the host at most, and those of all namespaces three quarters. What is beyond is refused whole,
// with what the operator can do, and books nothing.
func TestClaimsHaveACeiling(t *testing.T) {
	m, o := newMachine(t, "package:2 node:1 core:8 pu:1"), folders(t)
	m.grants = nil
	m.restart("")
	d := newDriver(t, o, m)
	in := func(namespace, name string, all ...taken) *resourceapi.ResourceClaim {
		c := allocated(name, all...)
		c.Namespace = namespace
		return c
	}
	for _, x := range []struct {
		claim *resourceapi.ResourceClaim
		bad   string
		left  string
	}{
		{in("a", "all", taken{request: "r", node: 0, cpus: 8}, taken{request: "s", node: 1, cpus: 1}), "namespace a may book at most 50 %", "8 8 / 8 8"},
		{in("a", "half", taken{request: "r", node: 0, cpus: 8}), "", "0 8 / 8 8"},
		{in("a", "more", taken{request: "r", node: 1, cpus: 1}), "namespace a may book at most 50 %", "0 8 / 8 8"},
		{in("b", "quarter", taken{request: "r", node: 1, cpus: 4}), "", "0 4 / 8 8"},
		{in("c", "rest", taken{request: "r", node: 1, cpus: 1}), "all users and namespaces together may book at most 75 %", "0 4 / 8 8"},
	} {
		r := d.one(x.claim)
		if (r.Err == nil) != (x.bad == "") || r.Err != nil && (!strings.Contains(r.Err.Error(), x.bad) || !strings.Contains(r.Err.Error(), "grant")) {
			t.Errorf("%s: %v, want %q", x.claim.Name, r.Err, x.bad)
		}
		if m.left() != x.left {
			t.Errorf("%s: left %s, want %s", x.claim.Name, m.left(), x.left)
		}
	}
	m.grants = []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated}, Namespaces: []string{"c*"}}}
	m.restart("")
	if r := d.one(in("c", "granted", taken{request: "r", node: 1, cpus: 4})); r.Err != nil {
		t.Errorf("granted: %v", r.Err)
	}
}

// Whatever claims come and go, driver and daemon started again in between: what a scheduler
// allocates of what is offered can be booked, no CPU is given twice, and at the end all is
// as it was.
func TestAnySequenceOfClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
		m := newMachine(rapidTB{t}, fmt.Sprintf("package:%d node:1(memory=4GiB,hugepages=2MiB:64) core:4 pu:2", nodes))
		defer func() { m.stop() }()
		o := folders(rapidTB{t})
		defer os.RemoveAll(filepath.Dir(o.state))
		d := newDriver(rapidTB{t}, o, m)
		if n := rapid.IntRange(0, 6).Draw(t, "of others"); n > 0 {
			m.other("vm:a", 0, n, int64(n)<<18)
		}
		before := m.left()
		live := map[string]*resourceapi.ResourceClaim{}
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"claim", "claim", "claim", "end", "driver", "daemon"}).Draw(t, "event") {
			case "driver":
				d = newDriver(rapidTB{t}, o, m)
			case "daemon":
				m.restart("")
			case "end":
				if names := slices.Sorted(maps.Keys(live)); len(names) > 0 {
					name := rapid.SampledFrom(names).Draw(t, "name")
					if err := d.end(live[name]); err != nil {
						t.Fatal(err)
					}
					delete(live, name)
				}
			case "claim":
				room, err := m.Room(context.Background(), claimPrefix)
				if err != nil {
					t.Fatal(err)
				}
				var all []taken
				for _, dev := range devices(&room, offer{}) {
					free := func(name resourceapi.QualifiedName) int64 { // as the scheduler counts
						c := dev.Capacity[name]
						v := c.Value.Value()
						for _, l := range live {
							for _, r := range l.Status.Allocation.Devices.Results {
								if r.Device == dev.Name {
									q := r.ConsumedCapacity[name]
									v -= q.Value()
								}
							}
						}
						return v
					}
					if cpus := free(capacityCPUs); cpus > 0 && rapid.Bool().Draw(t, "there") {
						x := taken{request: fmt.Sprintf("r%d", len(all)), cpus: rapid.Int64Range(1, cpus).Draw(t, "cpus")}
						fmt.Sscanf(dev.Name, "numa%d", &x.node)
						x.memory = fmt.Sprint(rapid.Int64Range(0, free(capacityMemory)>>10).Draw(t, "KiB") << 10)
						x.huge = fmt.Sprint(rapid.Int64Range(0, free("hugepages2Mi")>>21).Draw(t, "pages") << 21)
						all = append(all, x)
					}
				}
				if all == nil {
					continue
				}
				name := fmt.Sprintf("c%d", i)
				live[name] = allocated(name, all...)
				if r := d.one(live[name]); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			given := map[topology.CPUID]workload.ID{}
			for id, p := range m.d.View().Held() {
				if p.Class != workload.Dedicated {
					continue
				}
				for _, cpu := range p.CPUs.Slice() {
					if other, twice := given[cpu]; twice {
						t.Fatalf("CPU %d is %s's and %s's", cpu, other, id)
					}
					given[cpu] = id
				}
			}
		}
		for _, c := range live {
			if err := d.end(c); err != nil {
				t.Fatal(err)
			}
		}
		files, _ := os.ReadDir(o.cdi)
		if after := m.left(); after != before || len(d.claims) != 0 || len(files) != 0 {
			t.Fatalf("left %s, before %s; %d claims, %d CDI files", after, before, len(d.claims), len(files))
		}
	})
}

// rapidTB lets helpers of tests work for a drawn case, which has no Cleanup.
type rapidTB struct{ *rapid.T }

func (rapidTB) Cleanup(func()) {}
