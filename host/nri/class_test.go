package nri

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Annotations come before rules, rules before the QoS class, each key by itself; what is not
// understood is told, and the pod is shared.
func TestClass(t *testing.T) {
	ninety := 90
	o := Options{BestEffort: workload.Offline, Rule: func(names []string, labels map[string]string) *workload.Rule {
		if labels["app"] == "db" {
			return &workload.Rule{Class: workload.Dedicated, Importance: &ninety, Memory: 1 << 20}
		}
		return nil
	}}
	for _, x := range []struct {
		name        string
		annotations map[string]string
		labels      map[string]string
		parent      string
		cpus        uint64
		want        workload.Spec
		bad         string
	}{
		{name: "guaranteed", parent: "/kubepods/podx", cpus: 2, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2}},
		{name: "burstable", parent: "kubepods-burstable-podx.slice", want: workload.Spec{Class: workload.Shared, Importance: 50}},
		{name: "best effort", parent: "kubepods-besteffort-podx.slice", want: workload.Spec{Class: workload.Offline}},
		{name: "nothing asked", want: workload.Spec{Class: workload.Offline}},
		{name: "rule", cpus: 2, labels: map[string]string{"app": "db"}, want: workload.Spec{Class: workload.Dedicated, Importance: 90, CPUs: 2, Memory: 1 << 20}},
		{name: "annotation over rule", cpus: 2, labels: map[string]string{"app": "db"}, annotations: map[string]string{"homenode.io/class": "shared", "homenode.io/memory": "2Gi", "homenode.io/max-nodes": "2"},
			want: workload.Spec{Class: workload.Shared, Importance: 90, CPUs: 2, Memory: 2 << 20, MaxNodes: 2}},
		{name: "bad class", cpus: 2, labels: map[string]string{"app": "db"}, annotations: map[string]string{"homenode.io/class": "gold\x1b"}, want: workload.Spec{Class: workload.Shared, Importance: 90, CPUs: 2, Memory: 1 << 20},
			bad: `annotation homenode.io/class: "gold\\x1b"; want dedicated, shared or offline`},
		{name: "tier over class of the rule", cpus: 2, labels: map[string]string{"app": "db"}, annotations: map[string]string{"homenode.io/tier": "-1"}, want: workload.Spec{Class: workload.Offline, Tier: workload.OfflineTier, Importance: 90, CPUs: 2, Memory: 1 << 20}},
		{name: "online for who asks for nothing", annotations: map[string]string{"homenode.io/tier": "online-strict"}, want: workload.Spec{Class: workload.Shared, Tier: workload.OnlineStrict}},
		{name: "tier beside class", cpus: 2, annotations: map[string]string{"homenode.io/tier": "2", "homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Dedicated, Tier: workload.OnlineStrict, Importance: 50, CPUs: 2}},
		{name: "tier against class", cpus: 2, annotations: map[string]string{"homenode.io/tier": "offline", "homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Dedicated, Importance: 50, CPUs: 2},
			bad: `annotation homenode.io/tier: "offline"; want online-strict, online, normal or offline (2 to -2), and offline with no other class`},
		{name: "bad key", cpus: 2, annotations: map[string]string{"homenode.io/colour": "red"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: "annotation homenode.io/colour: unknown; known are class, importance, near, max-nodes, memory, tier"},
	} {
		p := podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Annotations: x.annotations, Labels: x.labels, Linux: &api.LinuxPodSandbox{CgroupParent: x.parent}})
		c := containerOf(&api.Container{Id: "2", Name: "c", Linux: &api.LinuxContainer{CgroupsPath: "/x", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(max(2, x.cpus*1024))}}}})
		p.containers = []*container{c}
		g := p.groupOf(c)
		got, bad := o.spec(&g)
		w := x.want
		if got.Class != w.Class || got.Tier != w.Tier || got.Importance != w.Importance || got.CPUs != w.CPUs || got.Memory != w.Memory || got.MaxNodes != w.MaxNodes || strings.Join(bad, "\n") != x.bad {
			t.Errorf("%s: %+v, %q", x.name, got, bad)
		}
	}
}

// Cgroups are where the runtimes of both kinds of cgroup driver make them.
func TestCgroupOf(t *testing.T) {
	for text, want := range map[string]string{
		"/kubepods/burstable/podx/abc":                     "/kubepods/burstable/podx/abc",
		"kubepods-burstable-podx.slice:cri-containerd:abc": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice/cri-containerd-abc.scope",
		"/kubepods.slice/kubepods-podx.slice:crio:abc":     "/kubepods.slice/kubepods-podx.slice/crio-abc.scope",
		"system.slice:nerdctl:abc":                         "/system.slice/nerdctl-abc.scope",
		":x:abc":                                           "/system.slice/x-abc.scope",
		"":                                                 "", "a:b": "", "a:b:": "", "a.slice:x:../../etc": "", "../../x": "/x",
	} {
		if got := cgroupOf(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// FuzzAnnotations: whatever a pod says of itself, it starts, wants what can be, and what is told
// of it is one printable line each.
func FuzzAnnotations(f *testing.F) {
	for _, key := range keys {
		f.Add(key, "dedicated", "8GiB", "c", uint64(2048), int64(1<<30))
		f.Add(key+".container/c", "-1", "eth0,ns/p", "c", uint64(0), int64(0))
	}
	f.Fuzz(func(t *testing.T, key, a, b, name string, shares uint64, memory int64) {
		r := &homes{}
		p := New(Options{Manage: All, Enforce: true, Mount: "/nowhere", Admit: r.admit})
		p.files = everywhere{}
		pod := &api.PodSandbox{Id: "1", Name: name, Namespace: a, Annotations: map[string]string{prefix + key: a, prefix + "near": b, prefix + "class": a, prefix + "memory": b}}
		c := &api.Container{Id: "2", Name: name, PodSandboxId: "1", Linux: &api.LinuxContainer{CgroupsPath: b, Resources: &api.LinuxResources{
			Cpu: &api.LinuxCPU{Shares: api.UInt64(shares), Quota: api.Int64(memory), Period: api.UInt64(shares)}, Memory: &api.LinuxMemory{Limit: api.Int64(memory)}}}}
		if _, _, err := p.CreateContainer(context.Background(), pod, c); err != nil {
			t.Fatal(err)
		}
		claims, problems := p.Claims(host())
		for _, c := range claims {
			s := c.Spec
			if s == nil {
				continue
			}
			if _, err := workload.ParseClass(string(s.Class)); err != nil || s.Importance < 0 || s.Importance > 100 || s.CPUs < 0 || s.CPUs > topology.MaxID || s.Memory < 0 || s.MaxNodes < 0 {
				t.Errorf("%+v", s)
			}
		}
		for _, x := range problems {
			if strings.ContainsAny(x.Text+x.Subject, "\n\x1b\x00") || len(x.Text) > 1000 {
				t.Errorf("%q", x)
			}
		}
	})
}

// everywhere is cgroups that are all there.
type everywhere struct{}

func (everywhere) object(string) string                { return "1" }
func (everywhere) read(string, string) (string, error) { return "", nil }
