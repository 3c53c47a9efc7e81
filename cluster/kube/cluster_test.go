package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// cluster is a real etcd, kube-apiserver and kube-scheduler, as e2e/build.sh has built them.
// Nodes are entries without a kubelet.
type cluster struct {
	t      *testing.T
	dir    string
	port   int // of the API server, on 127.0.0.1
	client *kubernetes.Clientset
	config *rest.Config
}

// binaries is the folder that e2e/build.sh prints; tests on a real cluster are skipped without.
const binaries = "HOMENODE_KUBE_BIN"

func newCluster(t *testing.T) *cluster { return startCluster(t, false) }

// startCluster starts one; whole is with kube-controller-manager and what pods of a real
// kubelet need.
func startCluster(t *testing.T, whole bool) *cluster {
	bin := os.Getenv(binaries)
	if bin == "" {
		t.Skip(binaries + " is not set: `make kube` builds Kubernetes and runs this")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	port := func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	der, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
	keyFile, pubFile := file("sa.key", string(private)), file("sa.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	db, peer, api := fmt.Sprintf("http://127.0.0.1:%d", port()), fmt.Sprintf("http://127.0.0.1:%d", port()), port()
	address := fmt.Sprintf("https://127.0.0.1:%d", api)
	c := &cluster{t: t, dir: dir, port: api}
	without := []string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"}
	if whole {
		without = nil
	}
	c.run(bin, "etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+db, "--advertise-client-urls="+db, "--listen-peer-urls="+peer, "--unsafe-no-fsync")
	c.run(bin, "kube-apiserver", append(without, "--etcd-servers="+db, fmt.Sprint("--secure-port=", api), "--bind-address=127.0.0.1", "--advertise-address=10.88.0.1", "--cert-dir="+filepath.Join(dir, "certs"),
		"--service-account-key-file="+pubFile, "--service-account-signing-key-file="+keyFile, "--service-account-issuer=https://e2e.local", "--service-cluster-ip-range=10.96.0.0/24",
		"--token-auth-file="+file("tokens.csv", "admin-token,admin,admin,system:masters\n"),
		"--authorization-mode=RBAC", "--allow-privileged=true", "--enable-priority-and-fairness=false", "--feature-gates="+os.Getenv("HOMENODE_KUBE_GATES"))...)
	c.config = &rest.Config{Host: address, BearerToken: "admin-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	c.until("the API server answers", func() bool {
		_, err := c.client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	kubeconfig := file("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
"users":[{"name":"u","user":{"token":"admin-token"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, address))
	c.run(bin, "kube-scheduler", "--kubeconfig="+kubeconfig, fmt.Sprint("--secure-port=", port()), "--bind-address=127.0.0.1", "--leader-elect=false", "--cert-dir="+filepath.Join(dir, "certs"),
		"--feature-gates="+os.Getenv("HOMENODE_KUBE_GATES"))
	if whole {
		c.run(bin, "kube-controller-manager", "--kubeconfig="+kubeconfig, fmt.Sprint("--secure-port=", port()), "--bind-address=127.0.0.1", "--leader-elect=false", "--cert-dir="+filepath.Join(dir, "certs"),
			"--service-account-private-key-file="+keyFile, "--root-ca-file="+filepath.Join(dir, "certs", "apiserver.crt"), "--feature-gates="+os.Getenv("HOMENODE_KUBE_GATES"))
		return c
	}
	c.install(nil)
	return c
}

// install takes the plain manifests as `kubectl apply --server-side` does. change may
// alter an object, or have it left out.
func (c *cluster) install(change func(*unstructured.Unstructured) bool) {
	c.t.Helper()
	data, err := os.ReadFile(manifests())
	c.must(data, err)
	client, err := dynamic.NewForConfig(c.config)
	c.must(client, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	for docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var o unstructured.Unstructured
		if err := docs.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatal(err)
		}
		if o.Object == nil || change != nil && !change(&o) {
			continue
		}
		m, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		c.must(m, err)
		var r dynamic.ResourceInterface = client.Resource(m.Resource)
		if o.GetNamespace() != "" {
			r = client.Resource(m.Resource).Namespace(o.GetNamespace())
		}
		c.must(r.Apply(c.t.Context(), o.GetName(), &o, metav1.ApplyOptions{FieldManager: "test", Force: true}))
	}
}

// manifests is the file of the plain manifests: the ones in the source, unless others are to be tried.
func manifests() string {
	return cmp.Or(os.Getenv("HOMENODE_KUBE_MANIFESTS"), "../../packaging/kube/homenode.yaml")
}

// asDriver is a client with the token that the driver's pod gets on a node.
func (c *cluster) asDriver(node string) *kubernetes.Clientset {
	c.t.Helper()
	const namespace, account = "homenode", "homenode-kube"
	p, err := c.client.CoreV1().Pods(namespace).Create(c.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "driver-"},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "driver", Image: "x"}}}}, metav1.CreateOptions{})
	c.must(p, err)
	hour := int64(3600)
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(c.t.Context(), account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour,
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID}}}, metav1.CreateOptions{})
	c.must(token, err)
	config := rest.CopyConfig(c.config)
	config.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(config)
	c.must(client, err)
	return client
}

// run starts a program that lives as long as the test, or until kill.
func (c *cluster) run(bin, name string, args ...string) (kill func()) {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if c.t.Failed() {
			all := log.Bytes()
			c.t.Logf("%s: …%s", name, all[max(0, len(all)-2000):])
		}
	})
	c.t.Cleanup(kill)
	return kill
}

// until waits for what takes its time on a busy machine.
func (c *cluster) until(what string, f func() bool) {
	c.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within 5 minutes: %s", what)
		}
	}
}

func (c *cluster) must(_ any, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// node adds a node with CPUs that pods may have.
func (c *cluster) node(name string, cpus int) {
	c.t.Helper()
	ctx := c.t.Context()
	n, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}, metav1.CreateOptions{})
	c.must(n, err)
	n.Status.Capacity = corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("1000")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	c.must(c.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}))
}

// asks is a request of a claim for CPUs of one NUMA node.
func asks(name string, cpus int) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "numa." + driverName, Capacity: &resourceapi.CapacityRequirements{
		Requests: map[resourceapi.QualifiedName]resource.Quantity{capacityCPUs: *resource.NewQuantity(int64(cpus), resource.DecimalSI), capacityMemory: resource.MustParse("1Gi")}}}}
}

// pod makes a pod and, unless there are no requests, its claim of the same name.
func (c *cluster) pod(name string, cpus string, constraints []resourceapi.DeviceConstraint, requests ...resourceapi.DeviceRequest) {
	c.t.Helper()
	ctx := c.t.Context()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	if cpus != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpus)}
	}
	if len(requests) > 0 {
		c.must(c.client.ResourceV1().ResourceClaims("default").Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests, Constraints: constraints}}}, metav1.CreateOptions{}))
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "home", ResourceClaimName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "home"}}
	}
	c.must(c.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
}

// scheduled waits for a pod's node.
func (c *cluster) scheduled(pod string) (node string) {
	c.t.Helper()
	c.until(pod+" is scheduled", func() bool {
		p, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
		c.must(p, err)
		node = p.Spec.NodeName
		return node != ""
	})
	return node
}

// unschedulable waits until the scheduler has said that a pod fits nowhere.
func (c *cluster) unschedulable(pod string) {
	c.t.Helper()
	c.until(pod+" is refused", func() bool {
		p, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
		c.must(p, err)
		for _, x := range p.Status.Conditions {
			if x.Type == corev1.PodScheduled && x.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	})
}

func (c *cluster) remove(pod string) {
	c.t.Helper()
	now := int64(0)
	c.must(nil, c.client.CoreV1().Pods("default").Delete(c.t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// claim is what was allocated for a pod.
func (c *cluster) claim(pod string) *resourceapi.ResourceClaim {
	c.t.Helper()
	rc, err := c.client.ResourceV1().ResourceClaims("default").Get(c.t.Context(), pod, metav1.GetOptions{})
	c.must(rc, err)
	return rc
}

// driver runs homenode-kube for a node of the cluster, as long as the test.
func (c *cluster) driver(o options, node string, m homenode) { c.startDriver(o, node, m) }

// startDriver runs it until stop.
func (c *cluster) startDriver(o options, node string, m homenode) (stop func()) {
	o.node = node
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	client := c.asDriver(node)
	go func() { ended <- serve(ctx, o, client, m) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(stop)
	return stop
}

// offered waits until a node's NUMA nodes are offered with so many CPUs each.
func (c *cluster) offered(node string, cpus ...int64) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s offers %v CPUs", node, cpus), func() bool {
		all, err := c.client.ResourceV1().ResourceSlices().List(c.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		c.must(all, err)
		var now []int64
		for _, s := range all.Items {
			for _, d := range s.Spec.Devices {
				q := d.Capacity[capacityCPUs]
				now = append(now, q.Value.Value())
			}
		}
		return fmt.Sprint(now) == fmt.Sprint(cpus)
	})
}
