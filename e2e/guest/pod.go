//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// podSpec is a pod as the kubelet would have it from the API server.
type podSpec struct {
	name        string
	namespace   string // "" is shop
	qos         string // guaranteed, burstable, besteffort; "" is burstable
	annotations map[string]string
	labels      map[string]string
	containers  []containerSpec
}

// containerSpec is a walker in a container.
type containerSpec struct {
	walkerSpec
	cpus      float64  // request; in a guaranteed pod the limit, too
	memoryMiB int      // limit; 0 is none
	cpuset    string   // what the kubelet's static CPU manager gives it
	idle      bool     // nothing walks in it
	program   *program // runs in place of a walker
	own       bool     // a workload of its own in homenode, beside its pod
}

const (
	// The images of the guest's disk.
	walkerImage   = "docker.io/e2e/busybox:1"
	programsImage = "docker.io/e2e/programs:1"
)

// pod is a running one.
type pod struct {
	podSpec
	uid, sandbox string
	config       message
	containers   []*container
}

type container struct {
	*walker
	spec containerSpec
	// answers is what the walker's answers are read from.
	answers *os.File
	cid     string        // its ID
	first   set           // CPUs allowed to the first program that ran in it
	took    time.Duration // of CreateContainer
}

// parent is the cgroup that the kubelet makes for a pod.
func (p *pod) parent() group {
	dir := "/kubepods"
	if p.qos != "guaranteed" {
		dir += "/" + p.qos
	}
	return group(cgroupRoot + dir + "/pod" + p.uid)
}

// pods makes pods, two at a time, and waits until their walkers have filled their memory.
func (t *T) pods(c *cri, specs ...podSpec) []*pod {
	t.cleanPods(c)
	t.Defer(func() { t.cleanPods(c) })
	return t.morePods(c, specs...)
}

func (t *T) morePods(c *cri, specs ...podSpec) []*pod {
	r := make([]*pod, len(specs))
	t.twoAtATime(len(specs), func(i int) (err error) {
		r[i], err = c.runPod(specs[i])
		return err
	})
	t.begun(r)
	return r
}

// renew ends the containers of pods and puts new ones in their place.
func (t *T) renew(c *cri, pods []*pod, specs []podSpec) {
	t.twoAtATime(len(pods), func(i int) error {
		p := pods[i]
		for _, k := range p.containers {
			if err := c.end(k); err != nil {
				return err
			}
		}
		p.containers = nil
		return c.fill(p, specs[i].containers)
	})
	t.begun(pods)
}

// twoAtATime calls f for numbers below n: the emulated guest has no more to give.
func (t *T) twoAtATime(n int, f func(int) error) {
	errs := make([]error, n)
	turns := make(chan bool, 2)
	var all sync.WaitGroup
	for i := range n {
		turns <- true
		all.Go(func() {
			defer func() { <-turns }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	for _, err := range errs {
		t.Do(err)
	}
}

// beginLimit is for a walker to fill its memory.
const beginLimit = 3 * time.Minute

// begun waits until the walkers of pods have filled their memory, or wait for the order to.
func (t *T) begun(pods []*pod) {
	for _, p := range pods {
		for _, k := range p.containers {
			if !k.spec.idle && k.spec.program == nil {
				k.answers.SetReadDeadline(time.Now().Add(beginLimit))
				first := "ready"
				if k.wait {
					first = "waiting"
				}
				t.expect(k.walker, first)
				k.answers.SetReadDeadline(time.Time{})
			}
			k.first = t.set(statusIn(readText(k.folder()+"/first"), "Cpus_allowed_list"))
		}
	}
}

func statusIn(status, field string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// runPod makes a pod with its containers and starts them.
func (c *cri) runPod(s podSpec) (*pod, error) {
	if s.qos == "" {
		s.qos = "burstable"
	}
	if s.namespace == "" {
		s.namespace = "shop"
	}
	p := &pod{podSpec: s, uid: "e2e-" + s.name}
	if err := p.parent().make(); err != nil {
		return nil, err
	}
	p.config = message{
		"metadata":     message{"name": p.name, "uid": p.uid, "namespace": p.namespace},
		"logDirectory": podFolder,
		"labels":       p.labelled(nil),
		"annotations":  p.annotations,
		"linux": message{
			"cgroupParent":    p.parent().path(),
			"securityContext": message{"namespaceOptions": message{"network": "NODE", "pid": "CONTAINER"}}, // so that no network plugin is asked
		},
	}
	var made struct{ PodSandboxID string }
	if _, err := c.call("RunPodSandbox", message{"config": p.config}, &made); err != nil {
		return nil, err
	}
	p.sandbox = made.PodSandboxID
	return p, c.fill(p, s.containers)
}

// fill makes and starts containers of a pod.
func (c *cri) fill(p *pod, specs []containerSpec) error {
	for _, s := range specs {
		k, err := c.create(p, s)
		if err == nil {
			err = c.start(k)
		}
		if err != nil {
			return err
		}
		p.containers = append(p.containers, k)
	}
	return nil
}

// end stops and removes a container.
func (c *cri) end(k *container) error {
	if _, err := c.call("StopContainer", message{"containerId": k.cid, "timeout": 0}, nil); err != nil {
		return err
	}
	_, err := c.call("RemoveContainer", message{"containerId": k.cid}, nil)
	os.RemoveAll(k.folder())
	return err
}

// labelled is a pod's labels with those that the kubelet adds.
func (p *pod) labelled(more map[string]string) map[string]string {
	r := map[string]string{"io.kubernetes.pod.name": p.name, "io.kubernetes.pod.namespace": p.namespace, "io.kubernetes.pod.uid": p.uid}
	for _, m := range []map[string]string{p.labels, more} {
		for k, v := range m {
			r[k] = v
		}
	}
	return r
}

// resources is what the kubelet asks of the runtime for a container.
func (p *pod) resources(k containerSpec) message {
	r := message{"cpuPeriod": 100000, "cpuShares": max(2, int(k.cpus*1024)), "cpusetCpus": k.cpuset, "oomScoreAdj": 100}
	if p.qos == "guaranteed" {
		r["cpuQuota"] = int(k.cpus * 100000)
	}
	if k.memoryMiB > 0 {
		r["memoryLimitInBytes"] = k.memoryMiB << 20
	}
	return r
}

func (k *container) folder() string { return podFolder + "/" + k.walker.name }

// command returns the container's command line. It saves its status first.
func (k *container) command() []string {
	const note = "cat /proc/self/status >/control/first; "
	shell := []string{"/bin/sh", "-c"}
	switch {
	case k.spec.program != nil:
		run := `export PATH=/usr/sbin:/usr/bin:/bin; exec "$@"`
		return append(append(shell, note+run, "sh"), k.spec.program.argv...)
	case k.spec.idle:
		return append(shell, note+"exec sleep 2147483647")
	}
	walk := "export GODEBUG=asyncpreemptoff=1; exec /e2e/walker " + strings.Join(k.args(), " ")
	return append(shell, note+walk+" </control/in >/control/out 2>/control/err")
}

// create makes a container whose walker is heard through two FIFOs.
func (c *cri) create(p *pod, s containerSpec) (*container, error) {
	w := s.walkerSpec
	w.name = p.name + "." + w.name
	k := &container{walker: &walker{walkerSpec: w, called: p.namespace + "/" + p.name}, spec: s}
	if s.own {
		k.called += "/" + s.name
	}
	if err := os.MkdirAll(k.folder(), 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"in", "out"} {
		path := k.folder() + "/" + name
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // either end may be opened first
		if err != nil {
			return nil, err
		}
		if name == "in" {
			k.in = f
		} else {
			k.answers, k.out = f, bufio.NewReader(f)
		}
	}
	command, image := k.command(), walkerImage
	mounts := []message{
		{"containerPath": "/e2e", "hostPath": "/e2e", "readonly": true},
		{"containerPath": "/control", "hostPath": k.folder()},
	}
	if s.program != nil {
		image = programsImage
		mounts = append(mounts, message{"containerPath": "/tmp", "hostPath": "/tmp"}) // its clients are outside
	}
	config := message{
		"metadata":    message{"name": s.name},
		"image":       message{"image": image},
		"command":     command,
		"labels":      p.labelled(map[string]string{"io.kubernetes.container.name": s.name}),
		"annotations": map[string]string{"io.kubernetes.container.restartCount": "0"},
		"logPath":     k.walker.name + ".log",
		"mounts":      mounts,
		"linux":       message{"resources": p.resources(s), "securityContext": message{"namespaceOptions": message{"network": "NODE", "pid": "CONTAINER"}}},
	}
	var made struct{ ContainerID string }
	var err error
	if k.took, err = c.call("CreateContainer", message{"podSandboxId": p.sandbox, "config": config, "sandboxConfig": p.config}, &made); err != nil {
		return nil, err
	}
	_, prefix := containerRuntime()
	k.cid, k.group = made.ContainerID, p.parent()+group("/"+prefix+made.ContainerID)
	return k, nil
}

func (c *cri) start(k *container) error {
	if _, err := c.call("StartContainer", message{"containerId": k.cid}, nil); err != nil {
		return err
	}
	var status struct{ Info struct{ Info string } }
	if _, err := c.call("ContainerStatus", message{"containerId": k.cid, "verbose": true}, &status); err != nil {
		return err
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(status.Info.Info), &info); err != nil || info.PID == 0 {
		return fmt.Errorf("container %s: no PID: %v %s", k.walker.name, err, status.Info.Info)
	}
	k.pid = info.PID
	return nil
}

// resize is what the kubelet does when a pod's resources are changed in place.
func (c *cri) resize(p *pod, k *container, to containerSpec) error {
	k.spec = to
	_, err := c.call("UpdateContainerResources", message{"containerId": k.cid, "linux": p.resources(to)}, nil)
	return err
}

func (c *cri) remove(p *pod) error {
	for _, method := range []string{"StopPodSandbox", "RemovePodSandbox"} {
		if _, err := c.call(method, message{"podSandboxId": p.sandbox}, nil); err != nil {
			return err
		}
	}
	for _, k := range p.containers {
		os.RemoveAll(k.folder())
	}
	return removeGroup(string(p.parent()))
}

// removeGroup waits for the processes of a cgroup to have left it.
func removeGroup(dir string) error {
	for try := 0; ; try++ {
		err := syscall.Rmdir(dir)
		if err == nil || err == syscall.ENOENT {
			return nil
		}
		if try == 50 {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// cleanPods takes all pods away, those of other tests too.
func (t *T) cleanPods(c *cri) {
	var list struct{ Items []struct{ ID string } }
	if _, err := c.call("ListPodSandbox", message{}, &list); err != nil {
		t.Logf("%v", err)
	}
	var all sync.WaitGroup
	for _, p := range list.Items {
		all.Go(func() {
			if err := c.remove(&pod{podSpec: podSpec{qos: "none"}, sandbox: p.ID}); err != nil {
				t.Logf("%v", err)
			}
		})
	}
	all.Wait()
	for _, dir := range append(subtree(cgroupRoot+"/kubepods"), cgroupRoot+"/kubepods") {
		if err := removeGroup(dir); err != nil {
			t.Logf("%v", err)
		}
	}
	os.RemoveAll(podFolder)
}

// walkersOf lists the containers of pods as walkers.
func walkersOf(pods []*pod) (ws []*walker) {
	for _, p := range pods {
		for _, k := range p.containers {
			ws = append(ws, k.walker)
		}
	}
	return ws
}

// underRuntime starts a daemon and waits until the runtime has it as a plugin.
func (t *T) underRuntime(o daemonOptions) *daemon {
	o.exclude = "guest, cri, containerd, containerd-shim, runc, crio, conmon, crun, /system.slice/**"
	said := len(readText(runtimeLog))
	d := t.startDaemon(o)
	t.connected(said)
	t.Until(30*time.Second, "the daemon has looked at the host", func() (bool, string) {
		return len(t.status().Workloads) > 0, "no workload in status"
	})
	return d
}

// connected waits until the runtime says of homenode's plugin that it is connected, after
// so many bytes of its log.
func (t *T) connected(said int) {
	t.until(30*time.Second, 500*time.Millisecond, "homenode is a plugin of the container runtime", func() (bool, string) {
		log := readText(runtimeLog)
		connected, last := false, ""
		for line := range strings.Lines(log[min(said, len(log)):]) {
			if !strings.Contains(line, "homenode") || !strings.Contains(line, "plugin") {
				continue
			}
			last = line
			connected = strings.Contains(line, "connected") || connected && !strings.Contains(line, "clos") // closed, closing
		}
		return connected, "its log: " + cut(last)
	})
}

// firstPageAtHome says what is wrong with how a container began: its first program ran on
// its home's CPUs, and its memory is there without a page having been moved.
func (t *T) firstPageAtHome(k *container) string {
	home := t.nodesOf(k.first)
	if home.size() != 1 {
		return fmt.Sprintf("%s: its first program could run on CPUs %s", k.called, k.first)
	}
	anon, err := anonByNode(k.pid)
	if err != nil {
		return fmt.Sprintf("%s: %v", k.called, err)
	}
	if s := share(anon, home); s < 0.99 {
		return fmt.Sprintf("%s: %.1f %% of its memory on node %s, whose CPUs it began on: %s", k.called, s*100, home, byNodeText(anon))
	}
	return ""
}

// slotMiB is what a small walker has.
const slotMiB = 24

// granted is a line of the configuration: the authors of pods in a namespace may ask for what they like.
func granted(namespace string) string {
	return "containers: {annotations: {allow: [class=dedicated, tier=online-strict, importance, memory, near=required], from: {namespaces: [" + namespace + "]}}}\n"
}

// small is a container with a walker of one thread.
func small(name string, slot int) containerSpec {
	return containerSpec{walkerSpec: walkerSpec{name: name, slot: slot, mib: slotMiB, threads: 1, place: "local"}, cpus: 0.5}
}

// numbered makes pods of one small container each.
func numbered(n, firstSlot int) []podSpec {
	var r []podSpec
	for i := range n {
		r = append(r, podSpec{name: "p" + strconv.Itoa(i), containers: []containerSpec{small("c", (firstSlot+i)%suite.Slots)}})
	}
	return r
}
