package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func roomOf(cpus ...float64) *api.Room {
	r := &api.Room{}
	for i := range cpus {
		r.Nodes = append(r.Nodes, api.NodeRoom{BatchCPUs: &cpus[i]})
	}
	r.Nodes = append(r.Nodes, api.NodeRoom{})
	return r
}

// TestHeadroom: what batch work may have is told on the Node in whole numbers, at most twice a
// minute, and only when it has changed enough; nothing is left when sharing ends.
func TestHeadroom(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}})
	h := &headroom{client: client, node: "a", as: []string{batchCPU}, told: -1}
	at := time.Unix(1_700_000_000, 0)
	patches := func() (n int) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" && a.GetSubresource() == "status" {
				n++
			}
		}
		return n
	}
	for i, tt := range []struct {
		after time.Duration
		room  *api.Room
		want  string
		told  int
	}{
		{0, roomOf(3.17, 2), "5100", 1},
		{10 * time.Second, roomOf(9), "5100", 1},   // too soon
		{25 * time.Second, roomOf(5.2), "5100", 1}, // too little
		{0, roomOf(9), "9000", 2},
		{time.Minute, roomOf(9), "9000", 2},
		{0, roomOf(), "0", 3}, // sharing is off
		{time.Minute, roomOf(), "0", 3},
	} {
		at = at.Add(tt.after)
		h.tell(t.Context(), at, batchMilli(tt.room))
		n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c, a := n.Status.Capacity[batchCPU], n.Status.Allocatable[batchCPU]
		if c.String() != tt.want && fmt.Sprint(c.Value()) != tt.want || c.Cmp(a) != 0 || patches() != tt.told {
			t.Errorf("step %d: capacity %s, allocatable %s, %d patches; want %s, %d", i, c.String(), a.String(), patches(), tt.want, tt.told)
		}
	}
}

// TestHeadroomNames: the figure is told under the names that flags give, one of which is that of
// before version 0.2.
func TestHeadroomNames(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  []corev1.ResourceName
	}{
		{nil, nil},
		{[]string{"--batch-cpu"}, []corev1.ResourceName{"homenode.io/batch-cpu"}},
		{[]string{"--offline-cpu"}, []corev1.ResourceName{"homenode.io/offline-cpu"}},
		{[]string{"--batch-cpu", "--offline-cpu"}, []corev1.ResourceName{"homenode.io/batch-cpu", "homenode.io/offline-cpu"}},
	} {
		o, err := flags(append(tt.flags, "--node-name", "a"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}})
		h := &headroom{client: client, node: "a", as: o.resources(), told: -1}
		h.tell(t.Context(), time.Unix(1_700_000_000, 0), batchMilli(roomOf(2)))
		n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || len(n.Status.Capacity) != len(tt.want) {
			t.Errorf("%v: capacity %v, %v", tt.flags, n.Status.Capacity, err)
		}
		for _, name := range tt.want {
			if c, a := n.Status.Capacity[name], n.Status.Allocatable[name]; c.Value() != 2000 || c.Cmp(a) != 0 {
				t.Errorf("%v: %s is %v, allocatable %v", tt.flags, name, &c, &a)
			}
		}
	}
}

// pods is a daemon that knows the cgroup of one pod.
type pods struct{ homenode }

func (pods) Explain(_ context.Context, id workload.ID) (x api.Explanation, _ error) {
	if id == "batch/job" || id == "batch/job/worker" {
		x.Workload.Cgroup = "/kubepods.slice/kubepods-pod0e8d6a52_7c1b_4f0e_9a51_3b2c1d4e5f60.slice/cri-containerd-1.scope"
	}
	return x, nil
}

// TestEvict: a pod that the daemon asks for is evicted by the Eviction API, once, with its UID, and what
// must not be or cannot be is told at the pod.
func TestEvict(t *testing.T) {
	const uid = "0e8d6a52-7c1b-4f0e-9a51-3b2c1d4e5f60"
	yes := true
	for name, tt := range map[string]struct {
		id      workload.ID
		code    words.Code
		off     bool
		change  func(*corev1.Pod)
		refuse  error
		evicted bool
		says    string
	}{
		"asked for":       {evicted: true, says: "It is evicted."},
		"another event":   {code: words.ShareFound},
		"a container":     {id: "batch/job/worker"},
		"no pod":          {id: "/system.slice/a.service"},
		"not allowed to":  {off: true, says: "without --evict"},
		"another pod now": {change: func(p *corev1.Pod) { p.UID = "x" }, says: "another pod"},
		"another node":    {change: func(p *corev1.Pod) { p.Spec.NodeName = "b" }, says: "another pod"},
		"static":          {change: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, says: "static pod"},
		"of a DaemonSet": {change: func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		}, says: "DaemonSet"},
		"within a budget": {refuse: apierrors.NewTooManyRequests("Cannot evict pod", 10), says: "PodDisruptionBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: "job", UID: uid}, Spec: corev1.PodSpec{NodeName: "a"}}
			if tt.change != nil {
				tt.change(p)
			}
			client := fake.NewClientset(p)
			var evicted []*policyv1.Eviction
			client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.GetSubresource() != "eviction" {
					return false, nil, nil
				}
				evicted = append(evicted, a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction))
				return true, nil, tt.refuse
			})
			events := record.NewFakeRecorder(10)
			d := &driver{daemon: pods{}, client: client, evicts: !tt.off, pool: "a", events: events}
			e := plan.Event{Workload: "batch/job", Code: words.ShareEvict, Text: "web still waits."}
			if tt.id != "" {
				e.Workload = tt.id
			}
			if tt.code != "" {
				e.Code = tt.code
			}
			d.evictPod(t.Context(), &e)
			if (len(evicted) == 1 && tt.refuse == nil) != tt.evicted || tt.evicted && *evicted[0].DeleteOptions.Preconditions.UID != uid {
				t.Errorf("evicted %+v", evicted)
			}
			said := ""
			if len(events.Events) > 0 {
				said = <-events.Events
			}
			if (tt.says == "") != (said == "") || !strings.Contains(said, tt.says) {
				t.Errorf("said %q, want %q", said, tt.says)
			}
		})
	}
}

// TestBatchPods: the scheduler counts what the driver tells on the Node: one pod fits and a second
// does not. With the rights of the chart's driver.batchCPU, which the plain manifests lack.
func TestBatchPods(t *testing.T) {
	c := newCluster(t)
	c.node("a", 8)
	c.node("b", 8)
	ctx := t.Context()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "batch-cpu"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}}
	c.must(c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}))
	c.must(c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "homenode", Name: "homenode-kube"}}}, metav1.CreateOptions{}))
	client := c.asDriver("a")
	c.until("the rights are there", func() bool {
		h := &headroom{client: client, node: "a", as: []string{batchCPU}, told: -1}
		h.tell(ctx, time.Now(), 3000)
		return h.told == 3000
	})
	pod := func(name string) {
		want := corev1.ResourceList{batchCPU: resource.MustParse("2000")}
		c.must(c.client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: want, Limits: want}}}}}, metav1.CreateOptions{}))
	}
	pod("first")
	if node := c.scheduled("first"); node != "a" {
		t.Errorf("it is on %s", node)
	}
	pod("second")
	c.unschedulable("second")
	if os.Getenv("HOMENODE_KUBE_MANIFESTS") == "" { // without the chart's policy
		return
	}
	h := &headroom{client: client, node: "b", as: []string{batchCPU}, told: -1}
	if h.tell(ctx, time.Now(), 1000); h.told >= 0 {
		t.Error("it may write another node's status")
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"capacity":{"cpu":"99"}}}`), metav1.PatchOptions{}, "status"); !refused(err) {
		t.Errorf("it may write other resources: %v", err)
	}
}
