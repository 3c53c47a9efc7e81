package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homenode/homenode/core/topology"
)

// TestMain is in the guest what takes connections of pods to the API server outside.
func TestMain(m *testing.M) {
	if from, to, ok := strings.Cut(os.Getenv("HOMENODE_KUBE_FORWARD"), " "); ok {
		fmt.Fprintln(os.Stderr, "forward:", forward(from, strings.TrimSpace(to)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func forward(from, to string) error {
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { io.Copy(out, in); out.(*net.TCPConn).CloseWrite() }()
			io.Copy(in, out)
		}()
	}
}

// guest is an emulated machine of two NUMA nodes with four CPUs each, with containerd, runc and
// the kubelet, node n1 of a cluster outside.
type guest struct {
	t    *testing.T
	wire net.Conn
	in   *bufio.Reader
}

// newGuest boots one. dist is what `make dist KUBE=1` wrote.
func newGuest(c *cluster, dist string) *guest {
	t, dir := c.t, c.dir
	t.Helper()
	sh := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		var bad bytes.Buffer
		cmd.Stderr = &bad
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, bad.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	rig, disk, modules := sh("bash", "e2e/fetch.sh"), sh("bash", "e2e/fetch-disk.sh", "containerd"), sh("bash", "e2e/fetch-modules.sh")
	if disk == "" || modules == "" {
		t.Skip("this machine's archive has no containerd or modules for the guest")
	}
	env := map[string]string{}
	for _, line := range strings.Split(sh("cat", filepath.Join(rig, "rig.env")), "\n") {
		k, v, _ := strings.Cut(line, "=")
		env[k] = v
	}

	// The second disk.
	second := filepath.Join(dir, "second")
	c.must(nil, os.Mkdir(second, 0o755))
	put := func(name, text string) { c.must(nil, os.WriteFile(filepath.Join(second, name), []byte(text), 0o755)) }
	self, err := os.Executable()
	c.must(nil, err)
	images, _ := filepath.Glob(filepath.Join(dist, "homenode-kube-*-oci.tar"))
	if len(images) != 1 {
		t.Fatalf("images in %s: %v", dist, images)
	}
	sh("cp", filepath.Join(os.Getenv(binaries), "kubelet"), images[0], second)
	sh("cp", self, filepath.Join(second, "kube.test"))
	sh("install", "-m", "0755", "cluster/kube/e2e/guest.sh", filepath.Join(second, "guest"))
	for _, m := range []string{"failover", "net_failover", "virtio_net"} {
		sh("sh", "-c", fmt.Sprintf("xz -dc %s/%s.ko.xz >%s/%s.ko", modules, m, second, m))
	}
	put("forward", fmt.Sprintf("10.96.0.1:443 10.0.2.2:%d", c.port))
	put("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://10.0.2.2:%d","insecure-skip-tls-verify":true}}],
"users":[{"name":"u","user":{"token":"admin-token"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, c.port))
	for name, managers := range map[string]string{"none": "", "static": `"cpuManagerPolicy":"static","memoryManagerPolicy":"Static","topologyManagerPolicy":"single-numa-node","reservedSystemCPUs":"0",
"reservedMemory":[{"numaNode":0,"limits":{"memory":"50Mi"}}],`} {
		put(name+".json", `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","authentication":{"anonymous":{"enabled":true},"webhook":{"enabled":false}},"authorization":{"mode":"AlwaysAllow"},
"failSwapOn":false,"cgroupDriver":"cgroupfs","resolvConf":"","containerRuntimeEndpoint":"unix:///run/containerd/containerd.sock","syncFrequency":"2s","imageGCHighThresholdPercent":100,`+managers+`
"evictionHard":{"memory.available":"50Mi","nodefs.available":"1Mi","imagefs.available":"1Mi"}}`)
	}
	sh("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", second, filepath.Join(dir, "second.img"), "400M")
	sh("rm", "-rf", second)

	// The initramfs: the rig's own first program, which starts containerd.
	sh("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "hypervisor"), "./e2e/hypervisor")
	var archive bytes.Buffer
	for i, e := range []struct {
		name string
		mode int
		from string
	}{{"dev", 0o40755, ""}, {"proc", 0o40755, ""}, {"sys", 0o40755, ""}, {"init", 0o100755, filepath.Join(dir, "hypervisor")},
		{"virtio_blk.ko.xz", 0o100644, filepath.Join(disk, "virtio_blk.ko.xz")}, {"TRAILER!!!", 0, ""}} {
		var data []byte
		if e.from != "" {
			data, err = os.ReadFile(e.from)
			c.must(nil, err)
		}
		// The newc format (Documentation/driver-api/early-userspace/buffer-format.rst): parts are padded to 4 bytes.
		for _, part := range []string{fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", i+1, e.mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(e.name)+1, 0, e.name), string(data)} {
			archive.WriteString(part + strings.Repeat("\x00", -len(part)&3))
		}
	}
	c.must(nil, os.WriteFile(filepath.Join(dir, "initramfs"), archive.Bytes(), 0o600))

	folder, err := os.MkdirTemp("", "hk") // sockets may not have long names
	c.must(nil, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "wire")
	var args []string
	for _, f := range strings.Fields(env["FIRMWARE"]) {
		args = append(args, "-L", f)
	}
	args = append(args, strings.Fields("-accel tcg,thread=multi -machine q35 -cpu Haswell-noTSX -smp 8,sockets=2,cores=2,threads=2 -m 6144M -object memory-backend-ram,id=m0,size=3072M -numa node,nodeid=0,cpus=0-3,memdev=m0"+
		" -object memory-backend-ram,id=m1,size=3072M -numa node,nodeid=1,cpus=4-7,memdev=m1 -nodefaults -no-user-config -display none -no-reboot -netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile=")...)
	console := filepath.Join(cmp.Or(os.Getenv("HOMENODE_KUBE_CONSOLE"), dir), "console")
	args = append(args, "-serial", "file:"+console, "-chardev", "socket,id=wire,server=on,wait=on,path="+socket, "-serial", "chardev:wire", "-kernel", env["VMLINUX"], "-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check")
	for i, image := range []string{filepath.Join(disk, "root.img"), filepath.Join(dir, "second.img")} {
		args = append(args, "-drive", fmt.Sprintf("file=%s,if=none,id=d%d,format=raw,snapshot=on,cache=unsafe", image, i), "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d", i))
	}
	c.run(filepath.Dir(env["QEMU"]), filepath.Base(env["QEMU"]), args...)
	t.Cleanup(func() {
		if said, err := os.ReadFile(console); err == nil && t.Failed() {
			t.Logf("console: …%s", said[max(0, len(said)-2000):])
		}
	})
	g := &guest{t: t}
	c.until("QEMU listens", func() bool { g.wire, err = net.Dial("unix", socket); return err == nil })
	t.Cleanup(func() { g.wire.Close() })
	g.in = bufio.NewReader(g.wire)
	for line := ""; line != "up"; line = g.line(10 * time.Minute) {
	}
	return g
}

func (g *guest) line(within time.Duration) string {
	g.t.Helper()
	g.wire.SetReadDeadline(time.Now().Add(within))
	line, err := g.in.ReadString('\n')
	if err != nil {
		g.t.Fatalf("the guest says nothing: %v", err)
	}
	return strings.TrimSpace(line)
}

// sh runs a command in the guest.
func (g *guest) sh(format string, args ...any) (out string, ok bool) {
	g.t.Helper()
	if _, err := fmt.Fprintf(g.wire, format+"\n", args...); err != nil {
		g.t.Fatal(err)
	}
	for {
		line := g.line(5 * time.Minute)
		if status, end := strings.CutPrefix(line, "END "); end {
			return strings.TrimSpace(out), status == "0"
		}
		out += line + "\n"
	}
}

func (g *guest) must(format string, args ...any) string {
	g.t.Helper()
	out, ok := g.sh(format, args...)
	if !ok {
		g.t.Fatalf("in the guest: %s: %s", fmt.Sprintf(format, args...), out)
	}
	return out
}

// kubelet starts the kubelet, with static managers or without; one that runs is killed.
func (g *guest) kubelet(policy string, anew bool) {
	g.t.Helper()
	g.sh("killall -9 kubelet; while pidof kubelet; do sleep 0.1; done")
	if anew { // what the kubelet asks for before its policies are changed
		g.must("rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state")
	}
	g.must("setsid /e2e/kubelet --config=/e2e/%s.json --kubeconfig=/e2e/kubeconfig --hostname-override=n1 --node-ip=10.0.2.15 >>/var/log/kubelet.log 2>&1 &", policy)
}

// sets is cpuset.cpus and cpuset.mems of the one container of a pod.
func (g *guest) sets(c *cluster, pod string) (cpus, mems string) {
	g.t.Helper()
	p, err := c.client.CoreV1().Pods("default").Get(g.t.Context(), pod, metav1.GetOptions{})
	c.must(p, err)
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "//")
	out := strings.Fields(g.must("cd $(find /sys/fs/cgroup/kubepods -type d -name %s); echo =$(cat cpuset.cpus) =$(cat cpuset.mems)", id))
	if len(out) != 2 {
		g.t.Fatalf("sets of %s: %q", pod, out)
	}
	return out[0][1:], out[1][1:]
}

// daemonPod waits until the chart's pod is ready, as a whole, with another UID than was.
func (c *cluster) daemonPod(was string) *corev1.Pod {
	c.t.Helper()
	var out *corev1.Pod
	c.until("homenode's pod is ready", func() bool {
		all, err := c.client.CoreV1().Pods("homenode").List(c.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=homenode"})
		c.must(all, err)
		for i, p := range all.Items {
			for _, x := range p.Status.Conditions {
				if x.Type == corev1.PodReady && x.Status == corev1.ConditionTrue && string(p.UID) != was && p.DeletionTimestamp == nil {
					out = &all.Items[i]
					return true
				}
			}
		}
		return false
	})
	return out
}

// killed kills the program of a container of homenode's pod, and waits until the kubelet has
// started the container again and the pod is ready.
func (g *guest) killed(c *cluster, container, program string) {
	g.t.Helper()
	began := func() (int32, bool) {
		for _, s := range c.daemonPod("").Status.ContainerStatuses {
			if s.Name == container {
				return s.RestartCount, s.Ready
			}
		}
		return 0, false
	}
	before, _ := began()
	g.must("killall -9 %s", program)
	c.until(container+" is started again", func() bool { now, ready := began(); return now > before && ready })
}

// claimed makes a pod whose claim, by the template of docs/kubernetes.md, wants one CPU of a node.
func (c *cluster) claimed(name string, node int) {
	c.t.Helper()
	request := asks("home", 1)
	request.Exactly.Capacity.Requests[capacityMemory] = resource.MustParse("64Mi")
	request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes['resource.kubernetes.io'].numaNode == %d", node)}}}
	c.must(c.client.ResourceV1().ResourceClaimTemplates("default").Create(c.t.Context(), &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}}}, metav1.CreateOptions{}))
	some, no := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("64Mi")}, false
	c.must(c.client.CoreV1().Pods("default").Create(c.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		HostNetwork: true, EnableServiceLinks: &no, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: new(int64), ResourceClaims: []corev1.PodResourceClaim{{Name: "home", ResourceClaimTemplateName: &name}},
		Containers: []corev1.Container{{Name: "c", Image: "docker.io/e2e/busybox:1", ImagePullPolicy: corev1.PullNever,
			Resources: corev1.ResourceRequirements{Requests: some, Limits: some, Claims: []corev1.ResourceClaim{{Name: "home"}}}}}}}, metav1.CreateOptions{}))
}

// set changes the plain manifests and takes them again: mode, and what the driver does where the
// kubelet's managers are static.
func (c *cluster) set(mode, managers string) {
	c.t.Helper()
	c.install(func(o *unstructured.Unstructured) bool {
		text, err := o.MarshalJSON()
		c.must(nil, err)
		text = bytes.ReplaceAll(text, []byte("mode: observe"), []byte("mode: "+mode))
		text = bytes.ReplaceAll(text, []byte("--kubelet-managers=refuse"), []byte("--kubelet-managers="+managers))
		c.must(nil, o.UnmarshalJSON(text))
		return true
	})
}

// The image and the manifests that are given out, on a real kubelet and containerd: a pod with a
// claim runs on the CPUs and the memory of the NUMA node that the stock scheduler has chosen,
// over restarts of kubelet, containerd, daemon and driver. A kubelet with static managers
// is refused, or reported.
func TestGuest(t *testing.T) {
	dist := os.Getenv("HOMENODE_KUBE_DIST")
	if dist == "" {
		t.Skip("HOMENODE_KUBE_DIST is not set: `make kube-guest` runs this")
	}
	manifests, _ := filepath.Glob(filepath.Join(dist, "homenode-kube-*.yaml"))
	if len(manifests) != 1 {
		t.Fatalf("manifests in %s: %v", dist, manifests)
	}
	t.Setenv("HOMENODE_KUBE_MANIFESTS", manifests[0])
	began := time.Now()
	took := func(what string) { t.Logf("%s after %.0f s", what, time.Since(began).Seconds()) }
	c := startCluster(t, true)
	took("API server")
	g := newGuest(c, dist)
	took("guest up")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := g.sh("tail -c 3000 /var/log/kubelet.log; tail -c 1000 /var/log/container-runtime.log; cat /var/log/pods/homenode_*/*/*.log | tail -c 4000")
			t.Log(out)
		}
	})
	g.must("ctr -n k8s.io images import /e2e/homenode-kube-*-oci.tar")
	took("image imported")
	c.set("enforce", refuse)
	g.kubelet("none", false)
	pod := c.daemonPod("")
	took("homenode's pod ready")
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			t.Errorf("container %s was restarted: %+v", s.Name, s.LastTerminationState)
		}
	}
	c.until("two NUMA nodes are offered", func() bool { return len(c.devices("n1")) == 2 })

	c.claimed("one", 1)
	c.running("one")
	took("pod with a claim runs")
	on := func(pod string, node int) (cpus topology.CPUSet) {
		t.Helper()
		text, mems := g.sets(c, pod)
		cpus, err := topology.ParseCPUSet(text)
		all := []string{"0-3", "4-7"}[node]
		whole, _ := topology.ParseCPUSet(all)
		if err != nil || cpus.Len() != 1 || !cpus.SubsetOf(whole) || mems != fmt.Sprint(node) {
			t.Errorf("%s: CPUs %q, memory nodes %q; want one of %s, and %d", pod, text, mems, all, node)
		}
		return cpus
	}
	first := on("one", 1)
	c.claimed("zero", 0)
	c.running("zero")
	on("zero", 0)
	t.Logf("real cpusets: one has CPU %s of node 1", first)

	for _, x := range []struct {
		name    string
		restart func()
	}{
		{"kubelet", func() { g.kubelet("none", false) }},
		{"containerd", func() {
			g.must("killall -9 containerd; while pidof containerd; do sleep 0.1; done; setsid containerd >>/var/log/container-runtime.log 2>&1 &")
		}},
		{"daemon", func() { g.killed(c, "daemon", "homenode") }},
		{"driver", func() { g.killed(c, "driver", "homenode-kube") }},
		{"homenode's pod", func() {
			was := c.daemonPod("")
			c.must(nil, c.client.CoreV1().Pods("homenode").Delete(t.Context(), was.Name, metav1.DeleteOptions{}))
			c.daemonPod(string(was.UID))
		}},
	} {
		x.restart()
		if now := on("one", 1); !now.Equal(first) {
			t.Errorf("%s was started again: CPUs %s, before %s", x.name, now, first)
		}
		c.claimed("next", 1)
		c.running("next")
		if next := on("next", 1); next.Intersects(first) {
			t.Errorf("%s was started again: the next pod has CPU %s, too", x.name, next)
		}
		c.gone("next")
		took("a pod came and went after " + x.name + " was started again")
	}
	c.gone("one")
	c.gone("zero")
	c.until("the claims are let go", func() bool { out, _ := g.sh("ls /run/cdi"); return out == "" })
	took("all is let go")

	// What the kubelet pins.
	g.kubelet("static", true)
	c.until("devices have a taint", func() bool {
		d := c.devices("n1")
		return len(d) == 2 && len(d[0].Taints) == 1 && d[0].Taints[0].Key == taintKubelet
	})
	c.claimed("one", 1)
	c.unschedulable("one")
	took("with static managers refused")
	was := c.daemonPod("")
	c.set("enforce", report)
	c.daemonPod(string(was.UID))
	c.running("one")
	cpus, mems := g.sets(c, "one")
	took(fmt.Sprintf("with static managers reported: allocated on node 1, the container has CPUs %s, memory nodes %s", cpus, mems))
	if on, err := topology.ParseCPUSet(cpus); err != nil || on.Intersects(topology.CPUs(4, 5, 6, 7)) || mems != "0" {
		t.Errorf("what the kubelet pins to node 0, its first, was changed: CPUs %s, memory nodes %s", cpus, mems)
	}
	c.until("it is told", func() bool {
		all, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		c.must(all, err)
		for _, e := range all.Items {
			if e.Reason == "KubeletPinsToo" {
				return true
			}
		}
		return false
	})
}

// devices is what a node offers.
func (c *cluster) devices(node string) (out []resourceapi.Device) {
	c.t.Helper()
	all, err := c.client.ResourceV1().ResourceSlices().List(c.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	c.must(all, err)
	for _, s := range all.Items {
		out = append(out, s.Spec.Devices...)
	}
	return out
}

// gone removes a pod with the template of its claim and waits until it is no more.
func (c *cluster) gone(pod string) {
	c.t.Helper()
	c.remove(pod)
	c.must(nil, c.client.ResourceV1().ResourceClaimTemplates("default").Delete(c.t.Context(), pod, metav1.DeleteOptions{}))
	c.until(pod+" is gone", func() bool {
		_, err := c.client.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{})
		return err != nil
	})
}
