package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// With the rules of the manifests the driver may do what it does, which every test with a
// driver shows (asDriver), and no more.
func TestManifests(t *testing.T) {
	c := newCluster(t)
	c.node("a", 8)
	c.node("b", 8)
	driver, ctx := c.asDriver("a"), t.Context()
	slice := func(node, name string) error {
		_, err := driver.ResourceV1().ResourceSlices().Create(ctx, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "s"},
			Spec: resourceapi.ResourceSliceSpec{Driver: name, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}}}, metav1.CreateOptions{})
		return err
	}
	// A policy is in force a while after it was taken.
	c.until("slices of other nodes are refused", func() bool { return refused(slice("b", driverName)) })
	c.must(nil, slice("a", driverName))
	for what, f := range map[string]func() error{
		"slices of other drivers": func() error { return slice("a", "gpu.example.com") },
		"secrets":                 func() error { _, err := driver.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); return err },
		"pods":                    func() error { _, err := driver.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); return err },
		"all nodes":               func() error { _, err := driver.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
		"all claims": func() error {
			_, err := driver.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
			return err
		},
		"a pod": func() error {
			_, err := driver.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := f(); !refused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }
