package nri

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// pod is a pod sandbox that the runtime knows.
type pod struct {
	id, name    string // name is NAMESPACE/POD
	namespace   string
	parent      string // of its cgroups, as the kubelet wrote it
	labels      map[string]string
	annotations map[string]string
	unknown     unknown               // of annotations
	allowed     []workload.Permission // granted by the operator
	resources   resources             // of all its containers together, where the kubelet tells
	resized     bool                  // resources are older than those of its containers
	told        bool                  // the runtime tells when resources change
	containers  []*container
}

// container is one of a pod's.
type container struct {
	id, name string
	cgroup   string // path below the cgroup root; "" when not known
	created  int64
	started  bool
	seen     bool // it had started when the host was looked at
	stopped  bool
	has      resources
	cpus     string // that whoever started it chose
	mems     string
	told     sets // what the runtime was told last
	owed     bool // there may be more to tell
	given    sets // what homenode set before it started
	mark     markState
	turn     string        // nodes that its pages go to in turn; "" is none
	gpus     []string      // that it is given, by names of the host's devices
	claims   []workload.ID // resource claims whose bookings are its home
	process  workload.Process
}

// sets is CPUs and memory nodes in list format.
type sets struct{ cpus, mems string }

// resources is what was asked for.
type resources struct {
	shares        uint64 // cpu.shares of cgroup v1, as the kubelet counts them: 1024 a CPU
	quota, period int64
	memory        int64 // limit, bytes
	huge          topology.KiB
	hugeBytes     uint64
}

// noShares is what a container without a CPU request has: the least that cgroups take.
const noShares = 2

func resourcesOf(r *api.LinuxResources) (out resources) {
	if c := r.GetCpu(); c != nil {
		out.shares = c.GetShares().GetValue()
		out.quota = c.GetQuota().GetValue()
		out.period = int64(min(c.GetPeriod().GetValue(), 1<<40))
	}
	out.memory = max(0, r.GetMemory().GetLimit().GetValue())
	for _, h := range r.GetHugepageLimits() {
		if size := pageSize(h.GetPageSize()); size > 0 && h.GetLimit() > 0 && h.GetLimit() < 1<<60 {
			out.huge, out.hugeBytes = size, out.hugeBytes+h.GetLimit()
		}
	}
	return out
}

// pageSize reads 2MB and 1GB, which mean MiB and GiB (runtime-spec, hugepageLimits).
func pageSize(text string) topology.KiB {
	digits := strings.TrimRight(text, "KMGB")
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	switch strings.TrimPrefix(text, digits) {
	case "KB":
		return topology.KiB(n)
	case "MB":
		return topology.KiB(n) << 10
	case "GB":
		return topology.KiB(n) << 20
	}
	return 0
}

// cpus is how many CPUs that is: the request, else the limit; 0 for neither.
func (r *resources) cpus() int {
	switch {
	case r.shares > noShares:
		return int(min((r.shares+1023)/1024, topology.MaxID))
	case r.quota > 0 && r.period > 0:
		return int(min((r.quota+r.period-1)/r.period, topology.MaxID))
	}
	return 0
}

// whole returns how many whole CPUs are requested; 0 for none, and for parts of one.
func (r *resources) whole() int {
	if r.shares <= noShares || r.shares%1024 != 0 || r.shares/1024 > topology.MaxID {
		return 0
	}
	return int(r.shares / 1024)
}

func (r *resources) kib() topology.KiB {
	if r.memory >= 1<<60 { // no limit
		return 0
	}
	return topology.KiB((r.memory + 1023) / 1024)
}

// add puts the resources of two containers together. Where one has no limit, all have none.
func (r *resources) add(o resources, first bool) {
	if first {
		*r = o
		return
	}
	r.shares = sharesOf(r) + sharesOf(&o)
	r.quota, r.period = 0, 0
	if r.memory == 0 || o.memory == 0 {
		r.memory = 0
	} else {
		r.memory += o.memory
	}
	r.huge, r.hugeBytes = max(r.huge, o.huge), r.hugeBytes+o.hugeBytes
}

// sharesOf is the request, or the limit as shares.
func sharesOf(r *resources) uint64 {
	if r.shares > noShares {
		return r.shares
	}
	if r.quota > 0 && r.period > 0 {
		return uint64(r.quota) * 1024 / uint64(r.period)
	}
	return 0
}

func podOf(p *api.PodSandbox) *pod {
	name := p.GetName()
	if name == "" {
		name = short(p.GetId())
	}
	out := &pod{
		id: p.GetId(), namespace: cmp.Or(p.GetNamespace(), "default"), parent: p.GetLinux().GetCgroupParent(),
		labels: maps.Clone(p.GetLabels()), annotations: ours(p.GetAnnotations()),
	}
	out.name = words.Printable(out.namespace + "/" + name)
	out.unknown = unknownOf(out.annotations)
	if r := p.GetLinux().GetPodResources(); r != nil {
		out.resources = resourcesOf(r)
	}
	return out
}

// ours is the annotations that are homenode's; the others may be large.
func ours(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if strings.HasPrefix(key, prefix) {
			out[strings.Clone(key)] = strings.Clone(value)
		}
	}
	return out
}

// containerOf reads a container. What homenode set before it started is known by its mark.
func containerOf(c *api.Container, m marks) *container {
	r := c.GetLinux().GetResources()
	out := &container{
		id: c.GetId(), name: words.Printable(cmp.Or(c.GetName(), short(c.GetId()))),
		created: c.GetCreatedAt(), has: resourcesOf(r),
		cgroup: cgroupOf(c.GetLinux().GetCgroupsPath()), stopped: c.GetState() == api.ContainerState_CONTAINER_STOPPED,
		started: c.GetState() != api.ContainerState_CONTAINER_CREATED,
	}
	out.gpus = gpusOf(c)
	set := sets{r.GetCpu().GetCpus(), r.GetCpu().GetMems()}
	out.given, out.mark = m.read(c)
	out.told = set
	if out.given.cpus == "" {
		out.cpus = set.cpus
	}
	if out.given.mems == "" {
		out.mems = set.mems
	}
	for _, e := range c.GetEnv() {
		if key, ids, _ := strings.Cut(e, "="); strings.HasPrefix(key, "HOMENODE_CLAIM_") {
			for _, id := range strings.Fields(ids) {
				out.claims = append(out.claims, workload.ID(strings.Clone(id)))
			}
		}
	}
	return out
}

// cgroupOf is the path of a container's cgroup: PATH, or for systemd SLICE:PREFIX:NAME
// (runtime-spec, cgroupsPath; runc's systemd cgroup driver).
func cgroupOf(text string) string {
	slice, rest, ok := strings.Cut(text, ":")
	if !ok {
		if text == "" {
			return ""
		}
		return path.Clean("/" + text)
	}
	prefix, name, ok := strings.Cut(rest, ":")
	if !ok || name == "" || strings.Contains(rest, "/") {
		return ""
	}
	unit := name
	if !strings.HasSuffix(name, ".slice") {
		if prefix != "" {
			unit = prefix + "-" + name
		}
		unit += ".scope"
	}
	return path.Join("/", slicePath(cmp.Or(slice, "system.slice")), unit)
}

// slicePath is where a slice lies: a-b.slice is in a.slice (systemd.slice(5)).
func slicePath(slice string) string {
	name := strings.TrimSuffix(path.Base(slice), ".slice")
	if name == "-" || name == "" {
		return "/"
	}
	out := "/"
	for i := 0; i <= len(name); i++ {
		if i == len(name) || (name[i] == '-' && i > 0) {
			out = path.Join(out, name[:i]+".slice")
		}
	}
	return out
}

func short(id string) string { return id[:min(len(id), 12)] }

// group is the containers of a pod that are one workload.
type group struct {
	pod        *pod
	id         workload.ID
	containers []*container // not stopped, in the order they were created
	own        bool         // it is one container with a home of its own
}

// groups is the workloads of a pod, the one of its pod first.
func (p *pod) groups() []group {
	whole := group{pod: p, id: workload.ID(p.name)}
	out := []group{}
	apart := false
	for _, c := range p.containers {
		switch {
		case c.stopped:
		case p.apart(c):
			apart = true
			out = append(out, group{pod: p, id: workload.ID(p.name + "/" + c.name), containers: []*container{c},
				own: true})
		default:
			whole.containers = append(whole.containers, c)
		}
	}
	if len(whole.containers) > 0 || (len(p.containers) > 0 && !apart) { // between two containers it keeps its home
		out = slices.Insert(out, 0, whole)
	}
	return out
}

// groupOf is the workload that a container is of.
func (p *pod) groupOf(c *container) group {
	all := p.groups()
	for _, g := range all {
		if slices.Contains(g.containers, c) {
			return g
		}
	}
	return group{pod: p, id: workload.ID(p.name), containers: []*container{c}}
}

// name is the workload for people: NAMESPACE/POD/CONTAINER, or of several /A+B.
func (g *group) name() string {
	if g.own {
		return string(g.id)
	}
	var names []string
	for _, c := range g.containers {
		if !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return string(g.id)
	}
	return string(g.id) + "/" + strings.Join(names, "+")
}

// names is all that patterns may mean it by: ID, name, each container, cgroups.
func (g *group) names() []string {
	out := []string{string(g.id), g.name()}
	for _, c := range g.containers {
		out = append(out, g.pod.name+"/"+c.name)
		if c.cgroup != "" {
			out = append(out, c.cgroup)
		}
	}
	return slices.Compact(out)
}

// find is a container and its pod, or nil.
func find(pods map[string]*pod, id string) (*pod, *container) {
	for _, p := range pods {
		for _, c := range p.containers {
			if c.id == id {
				return p, c
			}
		}
	}
	return nil, nil
}

// unique has every pod called by a name of its own: of several with one name, as an earlier
// sandbox of it that has ended, the one whose containers run.
func unique(pods map[string]*pod) {
	first := map[string]*pod{}
	for _, p := range pods {
		p.name, _, _ = strings.Cut(p.name, "~")
		was := first[p.name]
		if was == nil || (p.live() && !was.live()) || (p.live() == was.live() && p.id < was.id) {
			first[p.name] = p
		}
	}
	for _, p := range pods {
		if first[p.name] != p {
			defer func() { p.name += "~" + short(p.id) }()
		}
	}
}

// live reports whether a container of a pod runs or is about to.
func (p *pod) live() bool {
	return len(p.containers) == 0 || slices.ContainsFunc(p.containers, func(c *container) bool { return !c.stopped })
}
