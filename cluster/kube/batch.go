package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// batchCPU is the extended resource that batch pods request, in thousandths of a CPU: an
// extended resource has whole numbers only.
const batchCPU = "homenode.io/batch-cpu"

// offlineCPU is what it was called before version 0.2. It is told for clusters whose pods still
// request it.
const offlineCPU = "homenode.io/offline-cpu"

const (
	tellEvery  = 30 * time.Second // at most one patch of the Node in that time
	tellChange = 0.05             // and only of a change of so much
	tellStep   = 100              // thousandths: what is told is a multiple
	askWithin  = 10 * time.Second // for an answer of the API server
)

// headroom tells the scheduler how many CPUs batch work may keep busy on this node.
type headroom struct {
	client kubernetes.Interface
	node   string
	as     []string // names of the extended resource
	told   int64    // thousandths of a CPU; -1 before the first time
	at     time.Time
}

// batchMilli is what of a host batch work may keep busy now, all NUMA nodes together, what
// it keeps busy already among it; 0 while sharing is off.
func batchMilli(room *api.Room) int64 {
	var cpus float64
	for _, n := range room.Nodes {
		if n.BatchCPUs != nil {
			cpus += *n.BatchCPUs
		}
	}
	return int64(math.Floor(cpus*1000/tellStep)) * tellStep
}

// due reports whether a figure is to be told: the first one, for an earlier driver may have told
// another, and after a while one that differs enough.
func (h *headroom) due(now time.Time, milli int64) bool {
	switch {
	case !h.at.IsZero() && now.Sub(h.at).Abs() < tellEvery:
		return false
	case h.told < 0:
		return true
	case milli == h.told:
		return false
	}
	return milli == 0 || math.Abs(float64(milli-h.told)) >= tellChange*float64(max(milli, h.told))
}

// tell patches the Node when that is due. Allocatable, too: the kubelet copies it from the
// capacity, but only at its own period.
func (h *headroom) tell(ctx context.Context, now time.Time, milli int64) {
	if !h.due(now, milli) {
		return
	}
	h.at = now
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var figures []string
	for _, name := range h.as {
		figures = append(figures, fmt.Sprintf(`%q:"%d"`, name, milli))
	}
	patch := fmt.Sprintf(`{"status":{"capacity":{%[1]s},"allocatable":{%[1]s}}}`, strings.Join(figures, ","))
	if _, err := h.client.CoreV1().Nodes().Patch(ctx, h.node, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"); err != nil {
		klog.ErrorS(err, "Tell how many CPUs batch work may have", "node", h.node)
		return
	}
	h.told = milli
}

// evictPod has the API server evict a pod that the daemon asks it for: PodDisruptionBudgets
// hold, and the pod has the time to end that it gives itself. What becomes of it is told at the pod.
func (d *driver) evictPod(ctx context.Context, e *plan.Event) {
	if e.Code != words.ShareEvict {
		return
	}
	pod := d.podOf(ctx, e)
	if pod == nil {
		return
	}
	say := func(text string) {
		d.events.Event(pod, corev1.EventTypeWarning, "BatchWorkInTheWay", e.Text+" "+text)
	}
	if !d.evicts {
		say("homenode-kube does not evict: it was started without --evict.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := d.evict(ctx, pod); err != nil {
		klog.ErrorS(err, "Evict a pod", "pod", pod.Namespace+"/"+pod.Name)
		say("It is not evicted: " + err.Error())
		return
	}
	say("It is evicted.")
}

func (d *driver) evict(ctx context.Context, ref *corev1.ObjectReference) error {
	pod, err := d.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case pod.UID != ref.UID || pod.Spec.NodeName != d.pool:
		return errors.New("another pod has its name by now")
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return errors.New("it is a static pod, which the kubelet starts again")
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return errors.New("it is of a DaemonSet, which starts it again on this node")
	}
	err = d.client.CoreV1().Pods(pod.Namespace).EvictV1(ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
	if apierrors.IsTooManyRequests(err) {
		return errors.New("a PodDisruptionBudget does not allow it now")
	}
	return err
}

// podOf is the pod that an event is about; nil where it is about none, or about one container.
func (d *driver) podOf(ctx context.Context, e *plan.Event) *corev1.ObjectReference {
	namespace, name, ok := strings.Cut(string(e.Workload), "/")
	if !ok || namespace == "" || strings.Contains(name, "/") {
		return nil
	}
	return d.reference(ctx, e, namespace, name)
}
