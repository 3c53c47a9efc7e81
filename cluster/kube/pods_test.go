package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homenode/homenode/core/workload"
)

// What is wrong with a pod's annotations is told at the pod, by its UID, and nothing else is.
func TestBadAnnotation(t *testing.T) {
	const uid = "0e8d6a52-7c1b-4f0e-9a51-3b2c1d4e5f60"
	c, m, o := newCluster(t), newMachine(t, "package:2 node:1 core:8 pu:1"), folders(t)
	for id, cgroup := range map[workload.ID]string{
		"default/db": "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0e8d6a52_7c1b_4f0e_9a51_3b2c1d4e5f60.slice/cri-containerd-1.scope",
		"web/site":   "system.slice/pod-of-mine.service",
	} {
		m.seen = append(m.seen, workload.Observation{ID: id, Name: string(id), Kind: workload.InCgroup, Cgroup: cgroup, Threads: 1})
	}
	m.restart(o.socket)
	c.node("a", 16)
	c.driver(o, "a", socket(o.socket))
	c.offered("a", 8, 8)
	m.trouble("web/site", "something else")
	m.trouble("default/db", `annotation homenode.io/class: "fast"; want dedicated, shared or batch`)
	c.until("it is told at the pod", func() bool {
		all, err := c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		c.must(all, err)
		for _, e := range all.Items {
			if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == "site" {
				t.Errorf("told at no pod: %v", e)
			}
			if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == "db" && e.InvolvedObject.Namespace == "default" && e.InvolvedObject.UID == uid && e.Type == corev1.EventTypeWarning {
				t.Log(e.Reason, ": ", e.Message)
				return true
			}
		}
		return false
	})
}
