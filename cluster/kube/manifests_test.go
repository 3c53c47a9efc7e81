package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// The manifests are taken by a real API server, which checks every field, and with their
// rules the driver may do what it does, and no more.
func TestManifests(t *testing.T) {
	c := newCluster(t)
	data, err := os.ReadFile("manifests/homenode-kube.yaml")
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.config)
	c.must(client, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	c.must(nil, c.client.ResourceV1().DeviceClasses().Delete(t.Context(), "numa."+driverName, metav1.DeleteOptions{}))
	kinds := 0
	for {
		var o unstructured.Unstructured
		if err := docs.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		m, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		c.must(m, err)
		var r dynamic.ResourceInterface = client.Resource(m.Resource)
		if o.GetNamespace() != "" {
			r = client.Resource(m.Resource).Namespace(o.GetNamespace())
		}
		c.must(r.Create(t.Context(), &o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}))
		kinds++
	}
	if kinds != 8 {
		t.Errorf("%d objects", kinds)
	}
	config := rest.CopyConfig(c.config)
	config.BearerToken = "node-token"
	config.Impersonate = rest.ImpersonationConfig{}
	driver, err := kubernetes.NewForConfig(config)
	c.must(driver, err)
	c.node("a", 8)
	forbidden := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx := t.Context()
	c.until("its rules are known", func() bool {
		_, err := driver.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
		return err == nil
	})
	c.must(driver.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{}))
	c.must(driver.CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "ResourceClaim", Namespace: "default", Name: "x"}}, metav1.CreateOptions{}))
	_, err = driver.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	forbidden("secrets", err)
	_, err = driver.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	forbidden("pods", err)
	_, err = driver.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
	forbidden("all claims", err)
	_, err = driver.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	forbidden("all nodes", err)
	// This token says of no node that it is on it.
	name := "a"
	c.until("slices of other nodes are refused", func() bool {
		_, err := driver.ResourceV1().ResourceSlices().Create(ctx, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "s"},
			Spec: resourceapi.ResourceSliceSpec{Driver: driverName, NodeName: &name, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1}}}, metav1.CreateOptions{})
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	})
	config.BearerToken = "admin-token"
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:homenode:homenode-kube", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"a"}}}
	driver, err = kubernetes.NewForConfig(config)
	c.must(driver, err)
	c.must(driver.ResourceV1().ResourceSlices().Create(ctx, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{GenerateName: "s"},
		Spec: resourceapi.ResourceSliceSpec{Driver: driverName, NodeName: &name, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1}}}, metav1.CreateOptions{}))
}
