package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homenode/homenode/core/workload"
)

// realKubelet starts a kubelet for node n1, in the namespaces that e2e/namespaces.sh makes.
// restart kills it and starts it again.
func (c *cluster) realKubelet(o options, static bool) (r *runtimeCRI, restart func()) {
	bin := os.Getenv(binaries)
	socket := filepath.Join(filepath.Dir(o.socket), "cri.sock")
	r, stop, err := serveCRI(socket)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(stop)
	policy := ""
	if static {
		policy = `"cpuManagerPolicy":"static","memoryManagerPolicy":"Static","topologyManagerPolicy":"single-numa-node","reservedMemory":[{"numaNode":0,"limits":{"memory":"100Mi"}}],`
	}
	config := filepath.Join(c.dir, "kubelet.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","authentication":{"anonymous":{"enabled":true},"webhook":{"enabled":false}},
"authorization":{"mode":"AlwaysAllow"},"failSwapOn":false,"failCgroupV1":false,"cgroupDriver":"cgroupfs","resolvConf":"","oomScoreAdj":0,"fileCheckFrequency":"2s","syncFrequency":"2s","reservedSystemCPUs":"0",%s
"evictionHard":{"memory.available":"100Mi","nodefs.available":"1Mi","imagefs.available":"1Mi"},"containerRuntimeEndpoint":"unix://%s","podLogsDir":"%s","volumePluginDir":"%s"}`, policy, socket, filepath.Join(c.dir, "logs"), filepath.Join(c.dir, "volumes")), 0o600); err != nil {
		c.t.Fatal(err)
	}
	start := func() func() {
		return c.run(bin, "kubelet", "--config="+config, "--kubeconfig="+filepath.Join(c.dir, "kubeconfig"), "--root-dir="+o.kubelet, "--hostname-override=n1", "--node-ip=10.88.0.1", "--cert-dir="+filepath.Join(c.dir, "kubelet-certs"))
	}
	kill := start()
	c.until("n1 is ready", func() bool {
		n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, x := range n.Status.Conditions {
			if x.Type == corev1.NodeReady && x.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return r, func() { kill(); kill = start() }
}

// realPod makes a Guaranteed pod whose claim wants two CPUs of a NUMA node.
func (c *cluster) realPod(name string, node int, cpus string) {
	request := asks("home", 2)
	request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes['resource.kubernetes.io'].numaNode == %d", node)}}}
	c.must(c.client.ResourceV1().ResourceClaims("default").Create(c.t.Context(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}}, metav1.CreateOptions{}))
	one := corev1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("64Mi")}
	no := false
	c.must(c.client.CoreV1().Pods("default").Create(c.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		HostNetwork: true, EnableServiceLinks: &no, AutomountServiceAccountToken: &no, ResourceClaims: []corev1.PodResourceClaim{{Name: "home", ResourceClaimName: &name}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "c", Image: "example.com/none:1", ImagePullPolicy: corev1.PullNever,
			Resources: corev1.ResourceRequirements{Requests: one, Limits: one, Claims: []corev1.ResourceClaim{{Name: "home"}}}}}}}, metav1.CreateOptions{}))
}

func (c *cluster) running(name string) {
	c.until(name+" runs", func() bool {
		p, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{})
		c.must(p, err)
		return p.Status.Phase == corev1.PodRunning
	})
}

func inNamespaces(t *testing.T) {
	if os.Getenv("HOMENODE_KUBE_NAMESPACES") == "" {
		t.Skip("HOMENODE_KUBE_NAMESPACES is not set: `make kube` runs this in namespaces of its own")
	}
}

// The real kubelet prepares a claim, hands its CDI device to the runtime, and lets it go. The
// claim survives kubelet, driver and daemon, one after the other and all at once.
func TestRealKubelet(t *testing.T) {
	inNamespaces(t)
	c, m, o := newCluster(t), newMachine(t, "package:2 node:1 core:16 pu:1"), folders(t)
	r, restartKubelet := c.realKubelet(o, false)
	m.restart(o.socket)
	stop := c.startDriver(o, "n1", socket(o.socket))
	restartDriver := func() { stop(); stop = c.startDriver(o, "n1", socket(o.socket)) }
	c.offered("n1", 16, 16)
	c.realPod("p", 1, "10m")
	c.running("p")
	made := r.made("p")
	uid := c.claim("p").UID
	if len(made) != 1 || len(made[0].CDIDevices) != 1 || made[0].CDIDevices[0].Name != "homenode.io/claim="+string(uid)+"-home" {
		t.Errorf("%v", made)
	}
	if got := m.left(); got != "16 14 / 16 16" {
		t.Errorf("left %s", got)
	}
	booked := func() string {
		all := []string{}
		for id, p := range m.d.View().Held() {
			all = append(all, fmt.Sprint(id, " ", p.CPUs))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	pods, left := []string{"p"}, 14
	for _, x := range []struct {
		name    string
		restart func()
	}{
		{"driver", restartDriver}, {"daemon", func() { m.restart(o.socket) }}, {"kubelet", restartKubelet},
		{"all", func() { restartKubelet(); m.restart(o.socket); restartDriver() }},
	} {
		were := booked()
		x.restart()
		if now := booked(); now != were {
			t.Errorf("booked after %s: %s; before: %s", x.name, now, were)
		}
		c.realPod(x.name, 1, "10m") // what comes next goes on from there
		c.running(x.name)
		pods, left = append(pods, x.name), left-2
		if got, want := m.left(), fmt.Sprintf("16 %d / 16 16", left); got != want || len(r.made(x.name)) != 1 {
			t.Errorf("after %s was started again and one more pod: left %s, want %s", x.name, got, want)
		}
	}
	if n := len(r.made("p")); n != 1 {
		t.Errorf("the first container was made %d times", n)
	}
	for _, name := range pods {
		c.remove(name)
	}
	c.until("all is let go", func() bool { return m.left() == "16 16 / 16 16" && len(m.d.View().Held()) == 0 })
	files, _ := os.ReadDir(o.cdi)
	if len(files) != 0 {
		t.Errorf("left in the CDI folder: %v", files)
	}
	stop()
}

// A kubelet with static managers puts the container on the one CPU that it may give, whatever
// the scheduler has allocated: the driver refuses such claims, or reports them.
func TestRealKubeletContradicts(t *testing.T) {
	inNamespaces(t)
	c, m, o := newCluster(t), newMachine(t, "package:2 node:1 core:4 pu:1"), folders(t)
	r, _ := c.realKubelet(o, true)
	m.restart(o.socket)
	stop := c.startDriver(o, "n1", socket(o.socket))
	c.until("its devices have a taint", func() bool {
		all, err := c.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		c.must(all, err)
		return len(all.Items) == 1 && len(all.Items[0].Spec.Devices) == 2 && len(all.Items[0].Spec.Devices[0].Taints) == 1 && all.Items[0].Spec.Devices[0].Taints[0].Key == taintKubelet
	})
	c.realPod("p", 0, "1")
	c.unschedulable("p")
	stop()
	o.managers = report
	stop = c.startDriver(o, "n1", socket(o.socket))
	c.running("p")
	made := r.made("p")
	if len(made) != 1 {
		t.Fatalf("%v", made)
	}
	var booked workload.Placement
	for _, p := range m.d.View().Held() {
		booked = p
	}
	pinned := made[0].GetLinux().GetResources()
	if booked.Home.String() != "0" || pinned.CpusetCpus != "1" || pinned.CpusetMems != "1" {
		t.Errorf("booked on %s, the kubelet pins to CPUs %s, nodes %s", booked.Home, pinned.CpusetCpus, pinned.CpusetMems)
	}
	t.Logf("allocated and booked on NUMA node %s; the kubelet pins the container to node %s", booked.Home, pinned.CpusetMems)
	c.until("it is told", func() bool {
		all, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		c.must(all, err)
		for _, e := range all.Items {
			if e.Reason == "KubeletPinsToo" && e.InvolvedObject.Name == "p" && strings.Contains(e.Message, "memory manager (Static)") {
				return true
			}
		}
		return false
	})
	stop()
}
