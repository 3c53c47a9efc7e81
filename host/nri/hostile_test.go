package nri

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// twoNodes is a host of 32 CPUs and 128 GiB.
func twoNodes(t *testing.T) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=64GiB) core:16 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// addSmall starts a container that requests so many thousandths of a CPU and has a memory limit without a
// request, both possibly 0.
func (n *node) addSmall(p *api.PodSandbox, milli uint64, limit int64) *api.Container {
	n.number++
	id := fmt.Sprintf("c%d", n.number)
	return n.startContainer(p, &api.Container{Id: id, PodSandboxId: p.Id, Name: "a", CreatedAt: int64(n.number), Linux: &api.LinuxContainer{CgroupsPath: "/k8s.io/" + id,
		Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(max(2, milli*1024/1000))}, Memory: &api.LinuxMemory{Limit: api.Int64(limit)}}}})
}

func (n *node) podIn(namespace string, annotations map[string]string) *api.PodSandbox {
	n.number++
	p := &api.PodSandbox{Id: fmt.Sprintf("p%d", n.number), Namespace: namespace, Annotations: annotations, Linux: &api.LinuxPodSandbox{}}
	p.Name = p.Id
	n.pods[p.Id] = p
	n.p.RunPodSandbox(context.Background(), p)
	return p
}

func (n *node) scans(k int) {
	for range k {
		n.scan()
	}
}

func (n *node) homeOf(p *api.PodSandbox) *workload.Placement {
	return place.Of(n.s.View().Plan.Placements, workload.ID(p.Namespace+"/"+p.Name))
}

// problemsOf returns the problems of the newest scan that are about a pod.
func (n *node) problemsOf(p *api.PodSandbox) (out []string) {
	for _, x := range n.s.Snapshot.Problems {
		if strings.HasPrefix(x.Subject, p.Namespace+"/"+p.Name) {
			out = append(out, x.Text)
		}
	}
	return out
}

// Forty pods that request nothing, or next to nothing, and say class: dedicated take no CPU from another pod, whatever the
// configuration grants to a namespace; a pod of a granted namespace that is Guaranteed with whole CPUs has them.
func TestAnnotationsTakeNoCPUs(t *testing.T) {
	h := twoNodes(t)
	for _, granted := range []bool{false, true} {
		for _, milli := range []uint64{0, 10} {
			n := newNode(t, h, "/nowhere")
			if granted {
				n.grants = []workload.Grant{{Allow: []workload.Permission{workload.MayBeDedicated}, Namespaces: []string{"prod"}}}
				n.start()
			}
			n.scan()
			victim := n.addContainer(n.podIn("shop", nil), "a", 8, 8<<30)
			n.scans(2)
			before := n.files.sets[victim.Linux.CgroupsPath][0]
			var last *api.PodSandbox
			for i := range 40 {
				namespace := []string{"other", "prod"}[i%2]
				last = n.podIn(namespace, map[string]string{"homenode.io/class": "dedicated"})
				n.addSmall(last, milli, 0)
			}
			own := n.podIn("prod", map[string]string{"homenode.io/class": "dedicated"})
			ownHome := workload.ID("prod/" + own.Name + "/a")
			n.addContainer(own, "a", 4, 4<<30)
			n.scans(5)
			dedicated := map[workload.ID]int{}
			for _, p := range n.s.View().Plan.Placements {
				if p.Class == workload.Dedicated {
					dedicated[p.Workload] = p.CPUs.Len()
				}
			}
			want := map[workload.ID]int{}
			if granted {
				want[ownHome] = 4
			}
			if fmt.Sprint(dedicated) != fmt.Sprint(want) {
				t.Errorf("granted %v, %d m CPU requested: dedicated are %v, want %v", granted, milli, dedicated, want)
			}
			now, _ := topology.ParseCPUSet(n.files.sets[victim.Linux.CgroupsPath][0])
			if was, _ := topology.ParseCPUSet(before); now.Len() < was.Len()-want[ownHome] {
				t.Errorf("granted %v: the other pod had CPUs %s and has %s", granted, was, now)
			}
			why := "no grant in containers.annotations allows class=dedicated for its namespace"
			if granted {
				why = "its pod is not Guaranteed"
			}
			if got := n.problemsOf(last); len(got) != 1 || !strings.Contains(got[0], why) || !strings.Contains(got[0], "docs/containers.md") {
				t.Errorf("granted %v: status says %q, want one line with %q", granted, got, why)
			}
			d := n.decisionOf(workload.ID(last.Namespace + "/" + last.Name))
			if !strings.Contains(words.Join(d), why) {
				t.Errorf("granted %v: explain says %q", granted, words.Join(d))
			}
		}
	}
}

func (n *node) decisionOf(id workload.ID) []words.Reason {
	for _, d := range n.s.View().Plan.Report.Decisions {
		if d.Workload == id {
			return d.Reasons
		}
	}
	return nil
}

// One pod that asks the scheduler for nothing books no memory by an annotation, nor by a limit that no request stands
// behind, and neither do ten: honest pods have homes.
func TestWordsBookNoMemory(t *testing.T) {
	h := twoNodes(t)
	for _, x := range []struct {
		name        string
		pods        int
		says        string
		limit       int64
		namespaces  int
		wantOwnWord bool // explain says that it is beyond
	}{
		{name: "an annotation", pods: 1, says: "120GiB", namespaces: 1},
		{name: "an annotation of more than there is", pods: 1, says: "10TiB", namespaces: 1},
		{name: "a limit", pods: 1, limit: 120 << 30, namespaces: 1, wantOwnWord: true},
		{name: "many limits", pods: 10, limit: 12 << 30, namespaces: 1, wantOwnWord: true},
		{name: "many limits of many namespaces", pods: 10, limit: 12 << 30, namespaces: 10, wantOwnWord: true},
	} {
		n := newNode(t, h, "/nowhere")
		n.scan()
		told := 0
		var attackers []*api.PodSandbox
		for i := range x.pods {
			annotations := map[string]string{}
			if x.says != "" {
				annotations["homenode.io/memory"] = x.says
			}
			p := n.podIn(fmt.Sprintf("evil-%d", i%x.namespaces), annotations)
			c := n.addSmall(p, 0, x.limit)
			c.Linux.Resources.Memory.Limit = api.Int64(0) // it uses next to nothing
			attackers = append(attackers, p)
		}
		n.scans(3)
		for _, p := range attackers {
			if reasons := n.decisionOf(workload.ID(p.Namespace + "/" + p.Name)); wordstest.Has(reasons, words.Reason{Code: words.CountsAsUsed}) {
				told++
			}
		}
		if (told > 0) != x.wantOwnWord {
			t.Errorf("%s: explain says of %d pods that they are beyond", x.name, told)
		}
		honest := 8
		if x.namespaces > 1 {
			honest = 7 // of the quarter of the host that no words reach, what the attackers really use is gone
		}
		for i := range honest {
			p := n.podIn("shop", nil)
			n.addContainer(p, "a", 2, 4<<30)
			n.scans(2)
			if n.homeOf(p) == nil {
				t.Errorf("%s: honest pod %d has no home", x.name, i)
			}
		}
		r := n.ask(control.Request{Place: &control.PlaceRequest{Spec: workload.Spec{Name: "svc", Class: workload.Shared, CPUs: 2, Memory: 8 << 20, Given: true, Importance: 50}}})
		if x.namespaces == 1 && r.Failed != nil { // of ten namespaces three quarters of the memory may be booked
			t.Errorf("%s: homenode run --memory 8GiB: %s", x.name, r.Failed.Text)
		}
	}
}

// asCRIO copies the annotations of a pod into the specification of its container, as CRI-O does
// (internal/factory/container/container.go, SpecAddAnnotations, at 174d134: for k, v := range sb.Annotations()),
// before it asks plugins (server/nri-api.go).
func asCRIO(p *api.PodSandbox, c *api.Container) {
	c.Annotations = map[string]string{}
	for k, v := range p.Annotations {
		c.Annotations[k] = v
	}
}

// A mark that the author of a pod has written is not believed: a container that another program confined
// stays where that has put it, also after an undo, and status says so in one line.
func TestForgedMarks(t *testing.T) {
	h := twoNodes(t)
	genuine := marks{hostKey}.write("another", sets{cpus: "0-3"})
	for name, annotations := range map[string]map[string]string{
		"none":                    nil,
		"of an older version":     {"homenode.io/given-cpus": "0-3"},
		"without a signature":     {"homenode.io/given": "cpus=0-3 mems="},
		"with a guess":            {"homenode.io/given": "cpus=0-3 mems= mac=00"},
		"of another container":    {"homenode.io/given": genuine},
		"of another host":         {"homenode.io/given": marks{[]byte("another")}.write("c2", sets{cpus: "0-3"})},
		"of an empty key":         {"homenode.io/given": marks{}.write("c2", sets{cpus: "0-3"})},
		"of a part of the fields": {"homenode.io/given": "cpus=0-3 mems= mac=" + marks{hostKey}.mac("c2", sets{cpus: "0-15"})},
	} {
		n := newNode(t, h, "/nowhere")
		n.scan()
		p := n.podIn("ns", annotations)
		n.number++
		id := fmt.Sprintf("c%d", n.number)
		c := &api.Container{Id: id, PodSandboxId: p.Id, Name: "a", CreatedAt: 1, Linux: &api.LinuxContainer{CgroupsPath: "/k8s.io/" + id,
			Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(4096), Cpus: "0-3"}, Memory: &api.LinuxMemory{Limit: api.Int64(1 << 30)}}}}
		asCRIO(p, c)
		n.files.made++
		n.files.inode[c.Linux.CgroupsPath] = n.files.made
		n.files.sets[c.Linux.CgroupsPath] = &[2]string{"0-3", ""}
		n.live[id] = c
		a, _, _ := n.p.CreateContainer(t.Context(), p, c)
		if gave := a.GetLinux().GetResources().GetCpu().GetCpus(); gave != "" {
			t.Errorf("%s: at its start homenode sets %q", name, gave)
		}
		n.p.PostStartContainer(t.Context(), p, c)
		n.scans(4)
		if runs := n.files.sets[c.Linux.CgroupsPath][0]; runs != "0-3" {
			t.Errorf("%s: it runs on CPUs %q", name, runs)
		}
		if got := n.problemsOf(p); annotations == nil && len(got) != 0 || annotations != nil && (len(got) != 1 || !strings.Contains(got[0], "homenode.io/given")) {
			t.Errorf("%s: status says %q", name, got)
		}
		n.start() // the next daemon reads the mark anew
		n.scans(2)
		n.ask(control.Request{Undo: &control.Which{All: true}})
		n.scan()
		if stays := n.files.sets[c.Linux.CgroupsPath][0]; stays != "0-3" {
			t.Errorf("%s: after undo it has CPUs %q", name, stays)
		}
	}
}

// What homenode set before a start is known by its mark to the next daemon, which has not seen the container before,
// whatever the author of the pod has written; with another key it counts as set by another program, and
// status says so.
func TestMarksOutliveADaemon(t *testing.T) {
	h := twoNodes(t)
	for _, lost := range []bool{false, true} {
		n := newNode(t, h, "/nowhere")
		n.scan()
		p := n.podIn("ns", map[string]string{"homenode.io/given": "cpus=9 mems=1 mac=00", "homenode.io/given-mems": "0"})
		n.number++
		c := &api.Container{Id: "c9", PodSandboxId: p.Id, Name: "a", CreatedAt: 1, Linux: &api.LinuxContainer{CgroupsPath: "/k8s.io/c9", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}, Memory: &api.LinuxMemory{}}}}
		request(c, 2, 1<<30)
		asCRIO(p, c)
		copied := c.Annotations
		n.startContainer(p, c)
		for k, v := range c.Annotations { // what the plugin adds stands over what was there
			copied[k] = v
		}
		c.Annotations = copied
		if lost {
			n.key = []byte("a key that was made anew")
		}
		n.start() // killed before a scan has seen the container
		n.scans(3)
		e := n.s.Journal.Of("cpuset.cpus", "/k8s.io/c9")
		if (e != nil) == lost {
			t.Errorf("key lost %v: in the journal is %+v", lost, e)
		}
		if got := strings.Join(n.problemsOf(p), "; "); strings.Contains(got, "this host did not write") != lost {
			t.Errorf("key lost %v: status says %q", lost, got)
		}
	}
}

// Whatever is wrong with the annotations of a pod is one line and one event, of bounded length.
func TestOneLineForEachPod(t *testing.T) {
	annotations := map[string]string{"homenode.io/class": "dedicated", "homenode.io/tier": "online-strict", "homenode.io/importance": "often", "homenode.io/memory": "120GiB", "homenode.io/near": "a=b", "homenode.io/max-nodes": "0"}
	for i := range 100 {
		annotations[fmt.Sprintf("homenode.io/x%d", i)] = strings.Repeat("y", 300)
	}
	n := newNode(t, twoNodes(t), "/nowhere")
	n.scan()
	for range 10 {
		p := n.podIn("ns", annotations)
		for range 3 {
			n.addSmall(p, 100, 0)
		}
	}
	n.scans(3)
	lines := 0
	for _, x := range n.s.Snapshot.Problems {
		if strings.HasPrefix(x.Subject, "ns/") {
			lines++
			if len(x.Text) > 1000 {
				t.Errorf("%d characters: %s", len(x.Text), x.Text)
			}
		}
	}
	if lines != 10 {
		t.Errorf("%d lines for 10 pods: %+v", lines, n.s.Snapshot.Problems)
	}
	events := 0 // in the history, of which each is one of Kubernetes
	for _, e := range n.events {
		if e.Code == words.ProblemSeen {
			events++
		}
	}
	if events != 10 {
		t.Errorf("%d events for 10 pods", events)
	}
}
