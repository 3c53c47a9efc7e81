package main

import (
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// podCgroup is where the UID of a pod stands in the path of its cgroups, with - as the kubelet's
// cgroupfs driver writes it, or with _ as its systemd driver does.
var podCgroup = regexp.MustCompile(`pod([0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})\b`)

// tellPod makes a Kubernetes event of what the daemon found wrong with a pod, such as an
// annotation that it cannot read.
func (d *driver) tellPod(ctx context.Context, e *plan.Event) {
	namespace, name, ok := strings.Cut(string(e.Workload), "/")
	if e.Code != words.ProblemSeen || !ok {
		return
	}
	name, _, _ = strings.Cut(name, "/") // of a container
	if pod := d.reference(ctx, e, namespace, name); pod != nil {
		d.events.Event(pod, corev1.EventTypeWarning, "HomenodeProblem", e.Text)
	}
}

// reference is the pod of a workload, with its UID by its cgroup; nil where the workload is none.
func (d *driver) reference(ctx context.Context, e *plan.Event, namespace, name string) *corev1.ObjectReference {
	x, err := d.daemon.Explain(ctx, e.Workload)
	if err != nil {
		klog.ErrorS(err, "Ask the daemon for a pod", "workload", e.Workload)
		return nil
	}
	uid := podCgroup.FindStringSubmatch(x.Workload.Cgroup)
	if uid == nil { // something else has such a name
		return nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name,
		UID: types.UID(strings.ReplaceAll(uid[1], "_", "-"))}
}
