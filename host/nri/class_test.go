package nri

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Annotations come over rules, and rules over the QoS class, each key by itself. Without a grant an annotation
// only yields; one that is not understood is reported, and the pod is shared.
func TestClass(t *testing.T) {
	ninety := 90
	o := Options{BestEffort: workload.Batch, Grants: []workload.Grant{
		{Allow: []workload.Permission{workload.MayBeDedicated, workload.MayBeImportant}, Namespaces: []string{"prod-*"}},
		{Allow: []workload.Permission{workload.MayBeStrict, workload.MayRequireNearby, workload.MayBookMemory}, Namespaces: []string{"prod-*"}, Labels: map[string]string{"trusted": "yes"}},
	}, Rule: func(names []string, labels map[string]string) *workload.Rule {
		switch labels["app"] {
		case "db":
			return &workload.Rule{Class: workload.Dedicated, Importance: &ninety, Memory: 1 << 20}
		case "encode":
			return &workload.Rule{Class: workload.Batch, Tier: workload.BatchTier}
		case "spdk":
			return &workload.Rule{Near: []string{"device=nvme0,policy=required", "eth9"}}
		}
		return nil
	}}
	db, trusted := map[string]string{"app": "db"}, map[string]string{"trusted": "yes"}
	const guaranteed = "/kubepods/podx"
	for _, x := range []struct {
		name        string
		namespace   string // "" is ns, which has no grant
		annotations map[string]string
		labels      map[string]string
		parent      string
		milli       uint64
		limit       topology.KiB
		want        workload.Spec
		near        string
		bad         string // all that is reported
	}{
		{name: "guaranteed", parent: guaranteed, milli: 2000, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2}},
		{name: "burstable", parent: "kubepods-burstable-podx.slice", want: workload.Spec{Class: workload.Shared, Importance: 50}},
		{name: "best effort", parent: "kubepods-besteffort-podx.slice", want: workload.Spec{Class: workload.Batch}},
		{name: "nothing asked", want: workload.Spec{Class: workload.Batch}},
		{name: "rule", milli: 2000, labels: db, want: workload.Spec{Class: workload.Dedicated, Importance: 90, CPUs: 2, Memory: 1 << 20}},
		{name: "annotations that yield to a rule", milli: 2000, labels: db, annotations: map[string]string{"homenode.io/class": "shared", "homenode.io/memory": "512Mi", "homenode.io/max-nodes": "2", "homenode.io/importance": "10"},
			want: workload.Spec{Class: workload.Shared, Importance: 10, CPUs: 2, Memory: 512 << 10, MaxNodes: 2}},
		{name: "hostile policy", milli: 2000, labels: db, annotations: map[string]string{"homenode.io/policy": "bandwidth\x1b[2J" + strings.Repeat("x", 1<<16)},
			want: workload.Spec{Class: workload.Dedicated, Importance: 90, CPUs: 2, Memory: 1 << 20},
			bad:  `annotation homenode.io/policy: "bandwidth\\x1b[2J` + strings.Repeat("x", 51) + `"; want bandwidth`},
		{name: "bad class", milli: 2000, labels: db, annotations: map[string]string{"homenode.io/class": "gold\x1b"}, want: workload.Spec{Class: workload.Shared, Importance: 90, CPUs: 2, Memory: 1 << 20},
			bad: `annotation homenode.io/class: "gold\\x1b"; want dedicated, shared or batch`},
		{name: "bad class of batch work", parent: "kubepods-besteffort-podx.slice", annotations: map[string]string{"homenode.io/class": "gold"}, want: workload.Spec{Class: workload.Batch},
			bad: `annotation homenode.io/class: "gold"; want dedicated, shared or batch`},
		{name: "tier over class of the rule", milli: 2000, labels: db, annotations: map[string]string{"homenode.io/tier": "-1"}, want: workload.Spec{Class: workload.Batch, Tier: workload.BatchTier, Importance: 90, CPUs: 2, Memory: 1 << 20}},
		{name: "class of before version 0.2", milli: 2000, annotations: map[string]string{"homenode.io/class": "offline"}, want: workload.Spec{Class: workload.Batch, Importance: 50, CPUs: 2}},
		{name: "tier of before version 0.2", milli: 2000, annotations: map[string]string{"homenode.io/tier": "offline"}, want: workload.Spec{Class: workload.Batch, Tier: workload.BatchTier, Importance: 50, CPUs: 2}},
		{name: "bad key", milli: 2000, annotations: map[string]string{"homenode.io/colour": "red"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: "annotation homenode.io/colour: unknown; known are class, importance, near, max-nodes, memory, tier, isolated, slo, policy"},
		{name: "tier against class", milli: 2000, annotations: map[string]string{"homenode.io/tier": "batch", "homenode.io/class": "shared"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: `annotation homenode.io/tier: "batch"; want online-strict, online, normal or batch (2 to -2), and batch with no other class`},

		{name: "dedicated without a grant", parent: guaranteed, milli: 2000, annotations: map[string]string{"homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "class dedicated", "no grant in containers.annotations allows class=dedicated for its namespace")},
		{name: "dedicated, burstable", namespace: "prod-a", parent: "/kubepods/burstable/podx", milli: 2000, annotations: map[string]string{"homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "class dedicated", "its pod is not Guaranteed (requests equal to limits in each container)")},
		{name: "dedicated, best effort", namespace: "prod-a", parent: "/kubepods/besteffort/podx", annotations: map[string]string{"homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Batch},
			bad: refusedAs("batch", "class dedicated", "its pod is not Guaranteed (requests equal to limits in each container)")},
		{name: "dedicated, parts of a CPU", namespace: "prod-a", parent: guaranteed, milli: 1500, annotations: map[string]string{"homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "class dedicated", "it requests no whole number of CPUs")},
		{name: "dedicated as granted", namespace: "prod-a", parent: guaranteed, milli: 2000, annotations: map[string]string{"homenode.io/class": "dedicated"}, want: workload.Spec{Class: workload.Dedicated, Importance: 50, CPUs: 2}},
		{name: "strict tier of granted dedicated work", namespace: "prod-a", parent: guaranteed, milli: 2000, annotations: map[string]string{"homenode.io/class": "dedicated", "homenode.io/tier": "2"},
			want: workload.Spec{Class: workload.Dedicated, Tier: workload.OnlineStrict, Importance: 50, CPUs: 2}},
		{name: "out of a rule's batch class", milli: 2000, labels: map[string]string{"app": "encode"}, annotations: map[string]string{"homenode.io/class": "shared"}, want: workload.Spec{Class: workload.Batch, Tier: workload.BatchTier, Importance: 50, CPUs: 2},
			bad: refusedAs("batch", "class shared", "no grant in containers.annotations allows class=shared for its namespace")},
		{name: "out of a rule's batch class by tier", milli: 2000, labels: map[string]string{"app": "encode"}, annotations: map[string]string{"homenode.io/tier": "normal"}, want: workload.Spec{Class: workload.Batch, Tier: workload.BatchTier, Importance: 50, CPUs: 2},
			bad: refusedAs("batch", "tier normal", "no grant in containers.annotations allows tier=normal for its namespace")},
		{name: "out of a rule's batch class, granted", namespace: "prod-a", milli: 2000, labels: map[string]string{"app": "encode"}, annotations: map[string]string{"homenode.io/tier": "normal"}, want: workload.Spec{Class: workload.Shared, Tier: workload.Normal, Importance: 50, CPUs: 2}},
		{name: "importance without a grant", milli: 2000, annotations: map[string]string{"homenode.io/importance": "51"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "importance 51", "no grant in containers.annotations allows importance for its namespace")},
		{name: "importance as granted", namespace: "prod-a", milli: 2000, annotations: map[string]string{"homenode.io/importance": "100"}, want: workload.Spec{Class: workload.Shared, Importance: 100, CPUs: 2}},
		{name: "tier without a grant", namespace: "prod-a", milli: 2000, annotations: map[string]string{"homenode.io/tier": "online"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "tier online", "no grant in containers.annotations allows tier=online for its namespace")},
		{name: "tier by a label alone", milli: 2000, labels: trusted, annotations: map[string]string{"homenode.io/tier": "online-strict"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "tier online-strict", "no grant in containers.annotations allows tier=online-strict for its namespace")},
		{name: "tier by label and namespace", namespace: "prod-a", milli: 2000, labels: trusted, annotations: map[string]string{"homenode.io/tier": "online"}, want: workload.Spec{Class: workload.Shared, Tier: workload.Online, Importance: 50, CPUs: 2}},
		{name: "memory without a limit", milli: 2000, annotations: map[string]string{"homenode.io/memory": "120GiB"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2},
			bad: refusedAs("shared", "memory 120 GiB", "it has no memory limit, and no grant in containers.annotations allows memory for its namespace")},
		{name: "memory beyond the limit", milli: 2000, limit: 1 << 20, annotations: map[string]string{"homenode.io/memory": "120GiB"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2, Memory: 1 << 20},
			bad: refusedAs("shared", "memory 120 GiB", "that is more than its memory limit, and no grant in containers.annotations allows memory for its namespace")},
		{name: "memory within the limit", milli: 2000, limit: 1 << 20, annotations: map[string]string{"homenode.io/memory": "512MiB"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2, Memory: 512 << 10}},
		{name: "memory as granted", namespace: "prod-a", labels: trusted, milli: 2000, annotations: map[string]string{"homenode.io/memory": "12GiB"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2, Memory: 12 << 20}},
		{name: "memory of one container", milli: 2000, limit: 1 << 20, annotations: map[string]string{"homenode.io/memory.container.c": "120GiB"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2, Memory: 1 << 20}},
		{name: "required near without a grant", milli: 2000, annotations: map[string]string{"homenode.io/near": "device=eth0,policy=required"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2}, near: "eth0",
			bad: refusedAs("shared", "near eth0 with policy required", "no grant in containers.annotations allows near=required for its namespace")},
		{name: "required near as granted", namespace: "prod-a", labels: trusted, milli: 2000, annotations: map[string]string{"homenode.io/near": "device=eth0,policy=required"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2}, near: "device=eth0,policy=required"},
		{name: "what a rule requires stays", milli: 2000, labels: map[string]string{"app": "spdk"}, annotations: map[string]string{"homenode.io/near": "eth0"}, want: workload.Spec{Class: workload.Shared, Importance: 50, CPUs: 2}, near: "device=nvme0,policy=required eth0"},
	} {
		p := o.grant(podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: cmp.Or(x.namespace, "ns"), Annotations: x.annotations, Labels: x.labels, Linux: &api.LinuxPodSandbox{CgroupParent: x.parent}}))
		c := containerOf(&api.Container{Id: "2", Name: "c", Linux: &api.LinuxContainer{CgroupsPath: "/x", Resources: &api.LinuxResources{
			Cpu: &api.LinuxCPU{Shares: api.UInt64(max(2, x.milli*1024/1000))}, Memory: &api.LinuxMemory{Limit: api.Int64(int64(x.limit) << 10)}}}}, marks{})
		p.containers = []*container{c}
		g := p.groupOf(c)
		got := o.spec(&g)
		told := p.troubles([]trouble{{id: workload.ID(p.name), class: got.Class, bad: got.bad, refused: got.refused}})
		w := x.want
		if got.Class != w.Class || got.Tier != w.Tier || got.Importance != w.Importance || got.CPUs != w.CPUs || got.Memory != w.Memory || got.MaxNodes != w.MaxNodes || workload.NearText(got.Near) != x.near {
			t.Errorf("%s: %+v", x.name, got)
		}
		if told != x.bad {
			t.Errorf("%s: %q, want %q", x.name, told, x.bad)
		}
	}
}

// refusedAs is the line of a pod of which one wish is refused.
func refusedAs(class, wish, why string) string {
	return "asked for " + wish + " by annotation, not granted: " + why + ". It runs as " + class + ". docs/containers.md, Grants, lists the permitted annotations."
}

// What a container asks for by an annotation of its own is a word of the pod's author as well, where another
// container has no limit.
func TestMemoryOfOneContainerHasAnAuthor(t *testing.T) {
	const limit = 100 << 20 // KiB
	for name, x := range map[string]struct {
		allow []workload.Permission
		rule  topology.KiB
		want  workload.Word
	}{
		"no grant":         {want: workload.Own},
		"granted":          {allow: []workload.Permission{workload.MayBookMemory}, want: workload.Operator},
		"beyond a rule":    {rule: 1 << 20, want: workload.Own},
		"less than a rule": {rule: 2 * limit, want: workload.Operator},
	} {
		o := Options{Grants: []workload.Grant{{Allow: x.allow, Namespaces: []string{"ns"}}},
			Rule: func([]string, map[string]string) *workload.Rule { return &workload.Rule{Memory: x.rule} }}
		p := o.grant(podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/podx"},
			Annotations: map[string]string{"homenode.io/memory.container.a": "100GiB"}}))
		for i, kib := range []int64{limit, 0} {
			p.containers = append(p.containers, containerOf(&api.Container{Id: string(rune('2' + i)), Name: string(rune('a' + i)), Linux: &api.LinuxContainer{Resources: &api.LinuxResources{
				Cpu: &api.LinuxCPU{Shares: api.UInt64(1024)}, Memory: &api.LinuxMemory{Limit: api.Int64(kib << 10)}}}}, marks{}))
		}
		g := p.groupOf(p.containers[0])
		if got := o.spec(&g); got.Memory != max(limit, x.rule) || got.asked.Memory != x.want {
			t.Errorf("%s: %d KiB, asked for by %q, want %q", name, got.Memory, got.asked.Memory, x.want)
		}
	}
}

// TestEachKeyOfOneContainer: a container with an annotation of its own is a workload of its own, except with one for
// memory: memory is summed.
func TestEachKeyOfOneContainer(t *testing.T) {
	values := map[string]string{
		keyClass: "batch", keyImportance: "10", keyNear: "eth0", keyMaxNodes: "1", keyMemory: "1GiB", keyTier: "normal", keyIsolated: "true", keySLO: "most=5%", keyPolicy: workload.PolicyBandwidth,
	}
	o := Options{Grants: []workload.Grant{{Allow: workload.Permissions, Namespaces: []string{"ns"}}}}
	for _, key := range keys {
		annotations := map[string]string{prefix + key + ".container.b": values[key]}
		p := o.grant(podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/podx"}, Annotations: annotations}))
		for _, name := range []string{"a", "b"} {
			p.containers = append(p.containers, containerOf(&api.Container{Id: name, Name: name, Linux: &api.LinuxContainer{Resources: &api.LinuxResources{
				Cpu: &api.LinuxCPU{Shares: api.UInt64(1024)}}}}, marks{}))
		}
		g := p.groupOf(p.containers[1])
		if g.own != (key != keyMemory) {
			t.Errorf("%s: a workload of its own is %v", key, g.own)
		}
		w := o.spec(&g)
		if key == keySLO && len(w.Goals) != 1 {
			t.Errorf("%s: goals %v", key, w.Goals)
		}
		if w.inTurn != (key == keyPolicy) {
			t.Errorf("%s: pages in turn is %v", key, w.inTurn)
		}
		if key == keyIsolated && len(w.refused) != 1 { // it is not dedicated
			t.Errorf("%s: refused %v", key, w.refused)
		}
	}
}

// The author of a pod can write as many annotations as fit into 256 KiB. A look at the pods, which no container
// starts beside, takes no more for that.
func TestManyAnnotations(t *testing.T) {
	const n = 15_000
	annotations := map[string]string{"homenode.io/given-cpus": "0"}
	for i := range n {
		annotations[fmt.Sprintf("homenode.io/x%05d", i)] = ""
	}
	p := podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Annotations: annotations})
	text := ""
	allocs := testing.AllocsPerRun(1, func() { text = p.troubles(nil) })
	if allocs > 100 {
		t.Errorf("%v allocations for %d annotations", allocs, n)
	}
	if !strings.HasPrefix(text, "annotation homenode.io/given-cpus: homenode alone writes it; annotation homenode.io/x00000: unknown;") ||
		!strings.HasSuffix(text, fmt.Sprintf("; and %d more", n+1-mostTroubles)) {
		t.Errorf("%q", text)
	}
}

// Each wish that stands has its author: the operator who has granted it, or the pod's own.
func TestAskedBy(t *testing.T) {
	grant := []workload.Grant{{Allow: []workload.Permission{workload.MayBeImportant}, Namespaces: []string{"ns"}}}
	for _, x := range []struct {
		name   string
		grants []workload.Grant
		parent string
		quota  int64
		shares uint64
		limit  int64
		want   workload.Asked
	}{
		{name: "requests that equal limits", parent: "/kubepods/podx", shares: 2048, limit: 1 << 30},
		{name: "a memory limit", parent: "/kubepods/burstable/podx", shares: 2048, limit: 1 << 30, want: workload.Asked{Memory: workload.Own}},
		{name: "a CPU limit without a request", parent: "/kubepods/burstable/podx", shares: 2, quota: 6_400_000, want: workload.Asked{CPUs: workload.Own}},
		{name: "importance that is granted", grants: grant, parent: "/kubepods/podx", shares: 2048, want: workload.Asked{Importance: workload.Operator}},
		{name: "memory that is granted", grants: []workload.Grant{{Allow: []workload.Permission{workload.MayBookMemory}, Namespaces: []string{"ns"}}}, parent: "/kubepods/burstable/podx", shares: 2048, limit: 1 << 30, want: workload.Asked{Memory: workload.Operator}},
	} {
		o := Options{Grants: x.grants}
		annotations := map[string]string{}
		if x.want.Importance != "" {
			annotations["homenode.io/importance"] = "90"
		}
		p := o.grant(podOf(&api.PodSandbox{Id: "1", Name: "p", Namespace: "ns", Annotations: annotations, Linux: &api.LinuxPodSandbox{CgroupParent: x.parent}}))
		p.containers = []*container{containerOf(&api.Container{Id: "2", Name: "c", Linux: &api.LinuxContainer{Resources: &api.LinuxResources{
			Cpu: &api.LinuxCPU{Shares: api.UInt64(x.shares), Quota: api.Int64(x.quota), Period: api.UInt64(uint64(100_000))}, Memory: &api.LinuxMemory{Limit: api.Int64(x.limit)}}}}, marks{})}
		g := p.groups()[0]
		if got := o.spec(&g); got.asked != x.want {
			t.Errorf("%s: %+v, want %+v", x.name, got.asked, x.want)
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
		p := joined(Options{Manage: All, Enforce: true, Mount: "/nowhere"}, r)
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
