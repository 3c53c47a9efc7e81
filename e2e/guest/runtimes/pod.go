//go:build linux

package runtimes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
)

// PodSpec is a pod as the kubelet would have it from the API server.
type PodSpec struct {
	Name        string
	namespace   string // "" is shop
	QoS         string // guaranteed, burstable, besteffort; "" is burstable
	annotations map[string]string
	labels      map[string]string
	Containers  []ContainerSpec
}

// ContainerSpec is a walker in a container.
type ContainerSpec struct {
	lab.WalkerSpec
	CPUs      float64          // request; in a guaranteed pod the limit, too
	MemoryMiB int              // limit; 0 is none
	Cpuset    string           // what the kubelet's static CPU manager gives it
	idle      bool             // nothing walks in it
	Program   *Program         // runs in place of a walker
	own       bool             // a workload of its own in homenode, beside its pod
	Devices   []string         // device files of the host that it is given
	CDI       []string         // devices that it is given by names of the Container Device Interface
	Workers   []lab.WalkerSpec // more walkers, children of the first
}

const (
	// The images of the guest's disk.
	walkerImage   = "docker.io/e2e/busybox:1"
	programsImage = "docker.io/e2e/programs:1"
)

// Pod is a running one.
type Pod struct {
	PodSpec
	uid, sandbox string
	config       message
	Containers   []*Container
}

// Container is one that runs.
type Container struct {
	*lab.Walker
	spec    ContainerSpec
	Workers []*lab.Walker
	// answers is what the answers of the walker and of its workers are read from.
	answers []*os.File
	cid     string        // its ID
	First   lab.Set       // CPUs allowed to the first program that ran in it
	took    time.Duration // of CreateContainer
}

// parent is the cgroup that the kubelet makes for a pod.
func (p *Pod) parent() lab.Group {
	dir := "/kubepods"
	if p.QoS != "guaranteed" {
		dir += "/" + p.QoS
	}
	return lab.Group(lab.CgroupRoot + dir + "/pod" + p.uid)
}

// Pods makes pods, two at a time, and waits until their walkers have filled their memory.
func Pods(t *lab.T, c *CRI, specs ...PodSpec) []*Pod {
	CleanPods(t, c)
	t.Defer(func() { CleanPods(t, c) })
	return morePods(t, c, specs...)
}

func morePods(t *lab.T, c *CRI, specs ...PodSpec) []*Pod {
	r := make([]*Pod, len(specs))
	twoAtATime(t, len(specs), func(i int) (err error) {
		r[i], err = c.runPod(specs[i])
		return err
	})
	begun(t, r)
	return r
}

// Renew ends the containers of pods and puts new ones in their place.
func Renew(t *lab.T, c *CRI, pods []*Pod, specs []PodSpec) {
	twoAtATime(t, len(pods), func(i int) error {
		p := pods[i]
		for _, k := range p.Containers {
			if err := c.end(k); err != nil {
				return err
			}
		}
		p.Containers = nil
		return c.fill(p, specs[i].Containers)
	})
	begun(t, pods)
}

// twoAtATime calls f for numbers below n: the emulated guest has no more to give.
func twoAtATime(t *lab.T, n int, f func(int) error) {
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
func begun(t *lab.T, pods []*Pod) {
	for _, p := range pods {
		for _, k := range p.Containers {
			if !k.spec.idle && k.spec.Program == nil {
				k.begun(t)
			}
			k.First = t.Set(statusIn(lab.ReadText(k.folder()+"/first"), "Cpus_allowed_list"))
		}
	}
}

// begun waits until the walkers of a container have filled their memory, or wait for the order to.
func (k *Container) begun(t *lab.T) {
	for i, w := range k.walkers() {
		k.answers[i].SetReadDeadline(time.Now().Add(beginLimit))
		first := "ready"
		if w.Wait {
			first = "waiting"
		}
		t.Expect(w, first)
		k.answers[i].SetReadDeadline(time.Time{})
	}
	for _, pid := range t.PIDsIn(k.Group) {
		words := strings.Split(lab.ReadText(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
		for _, w := range k.Workers {
			if slices.Equal(words[1:min(3, len(words))], w.Args()[:2]) {
				w.PID = pid
			}
		}
	}
}

func (k *Container) walkers() []*lab.Walker { return append([]*lab.Walker{k.Walker}, k.Workers...) }

func statusIn(status, field string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// hostNetwork is the network of the host: no network plugin is asked then.
var hostNetwork = message{"namespaceOptions": message{"network": "NODE", "pid": "CONTAINER"}}

// runPod makes a pod with its containers and starts them.
func (c *CRI) runPod(s PodSpec) (*Pod, error) {
	if s.QoS == "" {
		s.QoS = "burstable"
	}
	if s.namespace == "" {
		s.namespace = "shop"
	}
	p := &Pod{PodSpec: s, uid: "e2e-" + s.Name}
	if err := p.parent().Make(); err != nil {
		return nil, err
	}
	p.config = message{
		"metadata":     message{"name": p.Name, "uid": p.uid, "namespace": p.namespace},
		"logDirectory": lab.PodFolder,
		"labels":       p.labelled(nil),
		"annotations":  p.annotations,
		"linux": message{
			"cgroupParent":    p.parent().Path(),
			"securityContext": hostNetwork,
		},
	}
	var made struct{ PodSandboxID string }
	if _, err := c.call("RunPodSandbox", message{"config": p.config}, &made); err != nil {
		return nil, err
	}
	p.sandbox = made.PodSandboxID
	return p, c.fill(p, s.Containers)
}

// fill makes and starts containers of a pod.
func (c *CRI) fill(p *Pod, specs []ContainerSpec) error {
	for _, s := range specs {
		k, err := c.create(p, s)
		if err == nil {
			err = c.start(k)
		}
		if err != nil {
			return err
		}
		p.Containers = append(p.Containers, k)
	}
	return nil
}

// end stops and removes a container.
func (c *CRI) end(k *Container) error {
	if _, err := c.call("StopContainer", message{"containerId": k.cid, "timeout": 0}, nil); err != nil {
		return err
	}
	_, err := c.call("RemoveContainer", message{"containerId": k.cid}, nil)
	os.RemoveAll(k.folder())
	return err
}

// labelled is a pod's labels with those that the kubelet adds.
func (p *Pod) labelled(more map[string]string) map[string]string {
	r := map[string]string{"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.namespace,
		"io.kubernetes.pod.uid": p.uid}
	for _, m := range []map[string]string{p.labels, more} {
		for k, v := range m {
			r[k] = v
		}
	}
	return r
}

// resources is what the kubelet asks of the runtime for a container.
func (p *Pod) resources(k ContainerSpec) message {
	r := message{"cpuPeriod": 100000, "cpuShares": max(2, int(k.CPUs*1024)), "cpusetCpus": k.Cpuset, "oomScoreAdj": 100}
	if p.QoS == "guaranteed" {
		r["cpuQuota"] = int(k.CPUs * 100000)
	}
	if k.MemoryMiB > 0 {
		r["memoryLimitInBytes"] = k.MemoryMiB << 20
	}
	return r
}

func (k *Container) folder() string { return lab.PodFolder + "/" + k.Walker.Name }

// command returns the container's command line. It saves its status first.
func (k *Container) command() []string {
	const note = "cat /proc/self/status >/control/first; "
	shell := []string{"/bin/sh", "-c"}
	switch {
	case k.spec.Program != nil:
		run := `export PATH=/usr/sbin:/usr/bin:/bin; exec "$@"`
		return append(append(shell, note+run, "sh"), k.spec.Program.Argv...)
	case k.spec.idle:
		return append(shell, note+"exec sleep 2147483647")
	}
	walk := "export GODEBUG=asyncpreemptoff=1; "
	for _, w := range k.Workers {
		walk += walking(w) + " & "
	}
	return append(shell, note+walk+"exec "+walking(k.Walker))
}

// walking is the command line of a walker in a container, which is heard through files named after it.
func walking(w *lab.Walker) string {
	args := strings.Join(w.Args(), " ")
	return fmt.Sprintf("/e2e/walker %s </control/%[2]s.in >/control/%[2]s.out 2>/control/%[2]s.err", args, w.Name)
}

// hear makes the FIFOs of a walker in a container.
func (k *Container) hear(w *lab.Walker) error {
	for _, name := range []string{"in", "out"} {
		path := k.folder() + "/" + w.Name + "." + name
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // either end may be opened first
		if err != nil {
			return err
		}
		if name == "in" {
			w.In = f
			continue
		}
		k.answers = append(k.answers, f)
		w.Out = bufio.NewReader(f)
	}
	return nil
}

// create makes a container whose walker is heard through two FIFOs.
func (c *CRI) create(p *Pod, s ContainerSpec) (*Container, error) {
	w := s.WalkerSpec
	w.Name = p.Name + "." + w.Name
	k := &Container{Walker: &lab.Walker{WalkerSpec: w, Called: p.namespace + "/" + p.Name}, spec: s}
	if s.own {
		k.Called += "/" + s.Name
	}
	if err := os.MkdirAll(k.folder(), 0o755); err != nil {
		return nil, err
	}
	for _, worker := range s.Workers {
		k.Workers = append(k.Workers, &lab.Walker{WalkerSpec: worker, Called: k.Called})
	}
	for _, w := range k.walkers() {
		if err := k.hear(w); err != nil {
			return nil, err
		}
	}
	command, image := k.command(), walkerImage
	mounts := []message{
		{"containerPath": "/e2e", "hostPath": "/e2e", "readonly": true},
		{"containerPath": "/control", "hostPath": k.folder()},
	}
	if s.Program != nil {
		image = programsImage
		mounts = append(mounts, message{"containerPath": "/tmp", "hostPath": "/tmp"}) // its clients are outside
	}
	devices, named := []message{}, []message{}
	for _, name := range s.Devices {
		devices = append(devices, message{"hostPath": name, "containerPath": name, "permissions": "rw"})
	}
	for _, name := range s.CDI {
		named = append(named, message{"name": name})
	}
	config := message{
		"metadata":    message{"name": s.Name},
		"image":       message{"image": image},
		"command":     command,
		"labels":      p.labelled(map[string]string{"io.kubernetes.container.name": s.Name}),
		"annotations": map[string]string{"io.kubernetes.container.restartCount": "0"},
		"logPath":     k.Walker.Name + ".log",
		"mounts":      mounts,
		"devices":     devices,
		"CDIDevices":  named,
		"linux":       message{"resources": p.resources(s), "securityContext": hostNetwork},
	}
	var made struct{ ContainerID string }
	var err error
	if k.took, err = c.call("CreateContainer", message{"podSandboxId": p.sandbox, "config": config,
		"sandboxConfig": p.config}, &made); err != nil {
		return nil, err
	}
	_, prefix := containerRuntime()
	k.cid, k.Group = made.ContainerID, p.parent()+lab.Group("/"+prefix+made.ContainerID)
	return k, nil
}

func (c *CRI) start(k *Container) error {
	if _, err := c.call("StartContainer", message{"containerId": k.cid}, nil); err != nil {
		return err
	}
	var status struct{ Info struct{ Info string } }
	if _, err := c.call("ContainerStatus", message{"containerId": k.cid, "verbose": true}, &status); err != nil {
		return err
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(status.Info.Info), &info); err != nil || info.PID == 0 {
		return fmt.Errorf("container %s: no PID: %v %s", k.Walker.Name, err, status.Info.Info)
	}
	k.PID = info.PID
	return nil
}

// resize is what the kubelet does when a pod's resources are changed in place.
func (c *CRI) resize(p *Pod, k *Container, to ContainerSpec) error {
	k.spec = to
	_, err := c.call("UpdateContainerResources", message{"containerId": k.cid, "linux": p.resources(to)}, nil)
	return err
}

func (c *CRI) remove(p *Pod) error {
	for _, method := range []string{"StopPodSandbox", "RemovePodSandbox"} {
		if _, err := c.call(method, message{"podSandboxId": p.sandbox}, nil); err != nil {
			return err
		}
	}
	for _, k := range p.Containers {
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

// CleanPods takes all pods away, those of other tests too.
func CleanPods(t *lab.T, c *CRI) {
	var list struct{ Items []struct{ ID string } }
	if _, err := c.call("ListPodSandbox", message{}, &list); err != nil {
		t.Logf("%v", err)
	}
	var all sync.WaitGroup
	for _, p := range list.Items {
		all.Go(func() {
			if err := c.remove(&Pod{PodSpec: PodSpec{QoS: "none"}, sandbox: p.ID}); err != nil {
				t.Logf("%v", err)
			}
		})
	}
	all.Wait()
	for _, dir := range append(lab.Subtree(lab.CgroupRoot+"/kubepods"), lab.CgroupRoot+"/kubepods") {
		if err := removeGroup(dir); err != nil {
			t.Logf("%v", err)
		}
	}
	os.RemoveAll(lab.PodFolder)
}

// WalkersOf lists the containers of pods as walkers.
func WalkersOf(pods []*Pod) (ws []*lab.Walker) {
	for _, p := range pods {
		for _, k := range p.Containers {
			ws = append(ws, k.walkers()...)
		}
	}
	return ws
}

// UnderRuntime starts a daemon and waits until the runtime has it as a plugin.
func UnderRuntime(t *lab.T, o lab.DaemonOptions) *lab.Daemon {
	o.Exclude = "guest, cri, containerd, containerd-shim, runc, crio, conmon, crun, /system.slice/**"
	said := len(lab.ReadText(runtimeLog))
	d := t.StartDaemon(o)
	connected(t, said)
	t.Until(30*time.Second, "the daemon has looked at the host", func() (bool, string) {
		return len(t.Status().Workloads) > 0, "no workload in status"
	})
	return d
}

// connected waits until the runtime says of homenode's plugin that it is connected, after
// so many bytes of its log.
func connected(t *lab.T, said int) {
	t.Poll(30*time.Second, 500*time.Millisecond, "homenode is a plugin of the container runtime",
		func() (bool, string) {
			log := lab.ReadText(runtimeLog)
			connected, last := false, ""
			for line := range strings.Lines(log[min(said, len(log)):]) {
				if !strings.Contains(line, "homenode") || !strings.Contains(line, "plugin") {
					continue
				}
				last = line
				// closed, closing
				connected = strings.Contains(line, "connected") || (connected && !strings.Contains(line, "clos"))
			}
			return connected, "its log: " + lab.Cut(last)
		})
}

// firstPageAtHome says what is wrong with how a container began: its first program ran on
// its home's CPUs, and its memory is there without a page having been moved.
func firstPageAtHome(t *lab.T, k *Container) string {
	home := t.NodesOf(k.First)
	if home.Size() != 1 {
		return fmt.Sprintf("%s: its first program could run on CPUs %s", k.Called, k.First)
	}
	anon, err := lab.AnonByNode(k.PID)
	if err != nil {
		return fmt.Sprintf("%s: %v", k.Called, err)
	}
	if s := lab.Share(anon, home); s < 0.99 {
		return fmt.Sprintf("%s: %.1f %% of its memory on node %s, whose CPUs it began on: %s", k.Called, s*100, home,
			lab.ByNodeText(anon))
	}
	return ""
}

// slotMiB is what a small walker has.
const slotMiB = 24

// granted is a line of the configuration: the authors of pods in a namespace may ask for what they like.
func granted(namespace string) string {
	return "containers: {annotations: {allow: [class=dedicated, tier=online-strict, importance, memory, " +
		"near=required], from: {namespaces: [" + namespace + "]}}}\n"
}

// small is a container with a walker of one thread.
func small(name string, slot int) ContainerSpec {
	return ContainerSpec{WalkerSpec: lab.WalkerSpec{Name: name, Slot: slot, MiB: slotMiB, Threads: 1, Place: "local"},
		CPUs: 0.5}
}

// numbered makes pods of one small container each.
func numbered(n, firstSlot int) []PodSpec {
	var r []PodSpec
	for i := range n {
		r = append(r, PodSpec{Name: "p" + strconv.Itoa(i),
			Containers: []ContainerSpec{small("c", (firstSlot+i)%suite.Slots)}})
	}
	return r
}
